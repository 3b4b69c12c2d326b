//! Snapshots of the workspace around an effect. The files before it are in the log with its
//! `Started`. After an edit its one path is scanned, for its `Finished`. After a command all files
//! are scanned, while the model is already asked. A command that may only read changes none.
//!
//! Invariant: no effect starts before the state of the files before it is durable, or the log says
//! why that state is not stored.

use std::future::{Future, pending, ready};
use std::path::PathBuf;
use std::pin::Pin;
use std::rc::Rc;
use std::time::Duration;

use futures_util::FutureExt;
use tokio::time::Instant;

use super::drive_step::Stoppable;
use super::outside::OutsideLooks;
use super::{Engine, EngineError, Event, FilesWork, Recorder, Write};
use crate::core::access::Access;
use crate::core::command_changes::{self, CommandPlace};
use crate::core::entry::{CallId, Entry, Fact, Guard, Outcome, SaveReason};
use crate::store::{Cause, NewTree, short_id};
use crate::tools::ToolResult;
use crate::world::{Snapshot, SnapshotRequest, SnapshotScope, World};

/// Maximum time that the result of an edit, and a session that comes to rest, wait for the
/// snapshot.
const AFTER_CALL: Duration = Duration::from_secs(1);

/// Waiting time after which progress is reported. [`SAID_AGAIN`] is the time between reports.
pub(super) const SAID_AFTER: Duration = Duration::from_millis(200);
pub(super) const SAID_AGAIN: Duration = Duration::from_millis(100);

/// The result of a snapshot, as it is recorded.
#[derive(Default)]
pub(super) struct SnapshotResult {
    /// Name of the tree that describes the files.
    pub name: Option<String>,
    /// The tree itself, if it is not stored yet.
    pub tree: Option<NewTree>,
    /// Why the files are not stored.
    pub why: Option<String>,
}

impl SnapshotResult {
    pub(super) fn of(snapshot: Snapshot) -> SnapshotResult {
        match snapshot {
            Snapshot::Off => SnapshotResult::default(),
            Snapshot::Same(name) => SnapshotResult {
                name: Some(name),
                ..SnapshotResult::default()
            },
            Snapshot::New(tree) => SnapshotResult {
                name: Some(tree.name()),
                tree: Some(*tree),
                why: None,
            },
            Snapshot::NotKept(why) => SnapshotResult {
                why: Some(why),
                ..SnapshotResult::default()
            },
        }
    }
}

type PendingScan = Pin<Box<dyn Future<Output = Snapshot>>>;

/// The scan after a command, which runs during other steps.
#[derive(Default)]
pub(super) struct BackgroundScan(Option<PendingScan>);

impl BackgroundScan {
    pub(super) fn is_running(&self) -> bool {
        self.0.is_some()
    }

    /// Waits for the end of the scan. Never returns if none runs.
    pub(super) async fn end(&mut self) -> SnapshotResult {
        let snapshot = match &mut self.0 {
            Some(look) => look.await,
            None => pending().await,
        };
        self.0 = None;
        SnapshotResult::of(snapshot)
    }
}

impl<W: World> Engine<W> {
    /// Takes a snapshot before a call with an effect. Returns the entry for it, if there is
    /// anything new to record. `None`: the user stopped it.
    pub(super) async fn files_before(
        &mut self,
        guard: &Guard,
    ) -> Result<Option<(Option<Entry>, Option<NewTree>)>, EngineError> {
        // A scan that has ended may have ended long ago, so another one follows before the effect.
        if let Some(found) = self.files.behind.end().now_or_never() {
            self.log.record_files(found).await?;
        }
        let written = match guard {
            Guard::Checked { path, .. } => Some(PathBuf::from(path)),
            Guard::Supervised { .. }
            | Guard::Child { .. }
            | Guard::Served { .. }
            | Guard::Asks
            | Guard::Opaque => None,
        };
        let wish = match self.files.behind.0.take() {
            Some(look) => {
                // The scan is still running, so no second one is needed.
                let left = self.drive_step_silently(look, Stoppable::Yes).await?;
                let Some(left) = left.map(SnapshotResult::of) else {
                    return Ok(None);
                };
                let Some(path) = written else {
                    return Ok(Some((self.log.saved(&left), left.tree)));
                };
                self.log.record_files(left).await?;
                self.log.snapshot_request(
                    Cause::Outside,
                    SnapshotScope::Written(path),
                    Duration::MAX,
                )
            }
            None => {
                let cause = match self.log.state.may_differ_from_tree {
                    true => Cause::Call,
                    false => Cause::Outside,
                };
                let scope =
                    written.map_or(SnapshotScope::All, |path| SnapshotScope::AllAnd(vec![path]));
                self.log.snapshot_request(cause, scope, Duration::MAX)
            }
        };
        let found = self.snapshot(wish, Stoppable::Yes).await?;
        Ok(found.map(|found| (self.log.saved(&found), found.tree)))
    }

    /// Takes a snapshot after a call. `access` is the access of its command.
    pub(super) async fn files_after(
        &mut self,
        guard: &Guard,
        access: Option<Access>,
    ) -> Result<SnapshotResult, EngineError> {
        match (guard, access) {
            (Guard::Checked { path, .. }, _) => {
                let scope = SnapshotScope::Written(PathBuf::from(path));
                let wish = self.log.snapshot_request(Cause::Call, scope, AFTER_CALL);
                // The edit was made, so its result is recorded even if the user stops now.
                let found = self.snapshot(wish, Stoppable::No).await?;
                Ok(found.unwrap_or_default())
            }
            (Guard::Asks, _) | (_, Some(Access::Read)) => Ok(SnapshotResult::default()),
            (
                Guard::Supervised { .. }
                | Guard::Child { .. }
                | Guard::Served { .. }
                | Guard::Opaque,
                _,
            ) => {
                self.files.scan_after_step(&mut self.log);
                Ok(SnapshotResult::default())
            }
        }
    }

    /// Waits a short time for the scan after the last command and records it, before the session
    /// comes to rest. If it takes longer, the next process records it.
    pub(super) async fn finish_scan(&mut self) -> Result<(), EngineError> {
        match scan_in_time(self).await? {
            Some(snapshot) => self.log.record_files(SnapshotResult::of(snapshot)).await,
            None => Ok(()),
        }
    }

    pub(super) async fn snapshot(
        &mut self,
        wish: SnapshotRequest,
        stoppable: Stoppable,
    ) -> Result<Option<SnapshotResult>, EngineError> {
        let world = Rc::clone(&self.log.world);
        let step = async move { world.snapshot(wish).await };
        let first = Some(Instant::now() + SAID_AFTER);
        self.files.report = first;
        let found = self.drive_step_silently(step, stoppable).await;
        if std::mem::take(&mut self.files.report) != first {
            self.log.emit(Event::Files(None));
        }
        Ok(found?.map(SnapshotResult::of))
    }
}

/// Waits a short time for the scan after the last command. `None`: there is none, or it takes
/// longer.
async fn scan_in_time<W: World>(engine: &mut Engine<W>) -> Result<Option<Snapshot>, EngineError> {
    let Some(mut look) = engine.files.behind.0.take() else {
        return Ok(None);
    };
    let step = tokio::time::timeout(AFTER_CALL, look.as_mut());
    match engine.drive_step_silently(step, Stoppable::Yes).await? {
        Some(Ok(snapshot)) => Ok(Some(snapshot)),
        Some(Err(_)) | None => {
            engine.files.behind.0 = Some(look);
            Ok(None)
        }
    }
}

/// Takes the scan after a command that failed or was interrupted, if it ends in time, and adds
/// a note about the changed files to the result of the command.
pub(super) async fn name_changes<W: World>(
    engine: &mut Engine<W>,
    call: CallId,
    ran: &mut ToolResult,
) -> Result<SnapshotResult, EngineError> {
    let found = match scan_in_time(engine).await? {
        Some(Snapshot::NotKept(why)) => {
            // It is recorded after the result.
            engine.files.behind.0 = Some(Box::pin(ready(Snapshot::NotKept(why))));
            return Ok(SnapshotResult::default());
        }
        found => found.map(SnapshotResult::of).unwrap_or_default(),
    };
    let Recorder {
        store,
        head,
        state,
        world,
        ..
    } = &engine.log;
    let root = world.root();
    if let (Some(new), Some(before), None, Some(open)) = (
        &found.tree,
        &state.tree,
        &state.files_not_kept,
        state.call(call),
    ) && let Some(mut delta) = store.snapshots().delta_to(before, new)?
    {
        delta.0.retain(|path, _| !world.hides(path));
        let place = CommandPlace {
            session: short_id(head.session()),
            entry: open.started.saturating_sub(1),
            root: &root.to_string_lossy(),
            folder: &state.folder,
            has_others: !state.background.is_empty() || state.children().next().is_some(),
        };
        if let Some(note) = command_changes::note(&delta, &place) {
            ran.outcome.add_note(&note);
        }
    }
    Ok(found)
}

/// Returns whether the result of a call names the files that changed since its start: a command in
/// the foreground failed or was interrupted.
pub(super) fn names_changes(guard: &Guard, access: Option<Access>, ran: &ToolResult) -> bool {
    let is_command = matches!(
        guard,
        Guard::Supervised {
            background: false,
            ..
        }
    );
    let is_failed = match (&ran.outcome, &ran.fact) {
        (Outcome::Interrupted { .. }, _) => true,
        (Outcome::Done { .. }, Some(Fact::Ran { exit_code, .. })) => *exit_code != Some(0),
        _ => false,
    };
    is_command && is_failed && access != Some(Access::Read)
}

impl<W: World> Recorder<W> {
    /// Records a snapshot alone, if it is new.
    pub(super) async fn record_files(&mut self, found: SnapshotResult) -> Result<(), EngineError> {
        match self.saved(&found) {
            Some(entry) => {
                self.record(Write {
                    tree: found.tree,
                    ..Write::of(entry)
                })
                .await
            }
            None => Ok(()),
        }
    }

    /// Returns the entry for a snapshot, if it is new.
    pub(super) fn saved(&self, found: &SnapshotResult) -> Option<Entry> {
        let is_new = match (&found.why, &found.name) {
            (Some(_), _) => found.why != self.state.files_not_kept,
            (None, Some(_)) => found.name != self.state.tree || self.state.may_differ_from_tree,
            (None, None) => false,
        };
        is_new.then(|| Entry::Saved {
            reason: SaveReason::Files,
            tree: found.name.clone(),
            why: found.why.clone(),
            clock: self.world.file_clock(),
        })
    }

    pub(super) fn snapshot_request(
        &self,
        cause: Cause,
        scope: SnapshotScope,
        at_most: Duration,
    ) -> SnapshotRequest {
        let live: Vec<&str> = self.state.background.keys().map(String::as_str).collect();
        SnapshotRequest {
            last: self.state.tree.clone(),
            cause,
            scope,
            live: (!live.is_empty()).then(|| live.join(", ")),
            at_most,
            is_whole: false,
        }
    }
}

/// The scans of the workspace's files.
#[derive(Default)]
pub(super) struct FilesLook {
    /// The scan after a command.
    pub behind: BackgroundScan,
    pub outside: OutsideLooks,
    /// When to report the progress of the scan that an effect waits for.
    pub report: Option<Instant>,
}

impl FilesLook {
    pub(super) fn scan_after_step<W: World>(&mut self, log: &mut Recorder<W>) {
        let world = Rc::clone(&log.world);
        let wish = log.snapshot_request(Cause::Call, SnapshotScope::All, Duration::MAX);
        let mut look: PendingScan = Box::pin(async move { world.snapshot(wish).await });
        // Polled once, so that the scan starts now and not only when somebody waits for it.
        let ended = (&mut look).now_or_never();
        self.behind.0 = Some(match ended {
            Some(snapshot) => Box::pin(ready(snapshot)),
            None => look,
        });
    }

    /// Scans the files while the model thinks.
    pub(super) fn scan_ahead<W: World>(&mut self, log: &mut Recorder<W>) {
        if !self.behind.is_running() {
            let wish = log.snapshot_request(Cause::Outside, SnapshotScope::All, Duration::MAX);
            log.world.scan_ahead(SnapshotRequest {
                is_whole: std::mem::take(&mut self.outside.is_due),
                ..wish
            });
        }
    }

    /// Reports the progress of a scan that an effect still waits for.
    pub(super) fn report_seen<W: World>(&mut self, log: &mut Recorder<W>) {
        self.report = Some(Instant::now() + SAID_AGAIN);
        let seen = log.world.files_seen();
        log.emit(Event::Files(Some(FilesWork::Scanning { seen })));
    }

    /// Scans all files while nobody waits for it.
    pub(super) fn scan_all_ahead<W: World>(&mut self, log: &mut Recorder<W>) {
        self.outside.is_due = true;
        self.scan_ahead(log);
    }
}
