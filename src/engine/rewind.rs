//! Rewind of the workspace's files: restoring them to their state at a place of the log.
//!
//! The current state is stored first. The target is a tree that is recorded before any file is
//! changed, so the next start completes a restore that a crash interrupted. Undoing a rewind is the
//! same with the trees swapped.
//!
//! Invariant: nothing continues by itself after a rewind. Pending work is stopped in the
//! transaction that starts it.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::future::Future;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::time::{Instant, sleep_until};

use super::files::{SAID_AFTER, SAID_AGAIN, SnapshotResult};
use super::{EngineError, Event, FilesWork, Recorder, Write};
use crate::core::entry::{Entry, MAX_KEPT, Record, Seq};
use crate::core::relocation::{root_after, with_paths_after_moves};
use crate::core::rewind::{self, Cause, Changes, PathChoice, Plan, RestoreOptions, named_since};
use crate::core::state::Restoring;
use crate::core::tree::{ContentHash, PathBytes, Tree, diff, place_at, place_before, why_unknown};
use crate::store::contents::{self, ContentLocation, NewContent};
use crate::store::{self, NewTree, Store, StoreError};
use crate::workspace::files::merge3;
use crate::world::{RestoreEnd, RestoreOrder, RestoreProgress, SnapshotScope, World};

/// Time limit for a scan of all files, which takes less.
const PATIENCE: Duration = Duration::from_secs(600);

/// The state to which files are restored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Back {
    /// The state at this entry.
    To(Seq),
    /// The state before anything was done for the message at this entry.
    Before(Seq),
    /// The state before the last rewind.
    Undo,
}

/// A request to rewind files.
#[derive(Clone)]
pub struct Rewind {
    pub back: Back,
    /// Restore all covered files, also those that were changed by others.
    pub whole: bool,
    /// Restore only these paths. `None`: all.
    pub only: Option<BTreeSet<PathBytes>>,
    /// Paths that need a separate approval, and have it.
    pub allowed: BTreeSet<PathBytes>,
    /// Choices of a person for paths, which apply to everything below them.
    pub chosen: BTreeMap<PathBytes, PathChoice>,
    /// Whether a clean absolute path is protected.
    pub is_protected: Arc<dyn Fn(&str) -> bool + Send + Sync>,
}

impl std::fmt::Debug for Rewind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Rewind")
            .field("back", &self.back)
            .finish_non_exhaustive()
    }
}

/// A request to rewind files of an open session.
#[derive(Debug, Clone)]
pub struct RewindOrder {
    pub number: u64,
    pub rewind: Rewind,
    pub then: AfterPlan,
}

/// The step after a plan is made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AfterPlan {
    /// Show the plan to the person.
    Show,
    /// Carry it out here, if the files are still as in the tree `seen`, which the person saw.
    Do { seen: String },
    /// Under the same condition, hand it over to the code that forks the session.
    HandOver { seen: String },
}

/// The result of a [`RewindOrder`].
#[derive(Debug)]
pub enum RewindResult {
    /// A plan to be shown. `is_other`: the files changed since the person confirmed another plan.
    Shown {
        rewinding: Box<Rewinding>,
        is_other: bool,
    },
    /// A plan for a fork of the session.
    HandedOver(Box<Rewinding>),
    /// The files were restored, or nothing differed. `copy_of` is set if this session is a fork in
    /// which no message was sent: the session that it was forked from. Taking back a rewind of the
    /// conversation returns to it.
    Done {
        copy_of: Option<String>,
    },
    Not(NotRewound),
}

/// An error that prevents a rewind of files.
#[derive(Debug, thiserror::Error)]
pub enum NotRewound {
    #[error("the files are not known {0}")]
    Unknown(String),
    /// The session worked in another folder at that time.
    #[error("what is known of the files then is of another folder: {}", .0.display())]
    OtherFolder(PathBuf),
    #[error("there is no rewind to take back in this session")]
    NothingToRedo,
    #[error("the session has a call without a result")]
    OpenCall,
    /// The current state of the files could not be stored.
    #[error("what the files are now cannot be kept: {0}")]
    NotKept(String),
    #[error(transparent)]
    Engine(#[from] EngineError),
}

impl From<StoreError> for NotRewound {
    fn from(error: StoreError) -> NotRewound {
        NotRewound::Engine(error.into())
    }
}

/// A planned rewind that is not recorded yet.
#[derive(Debug)]
pub struct Rewinding {
    pub plan: Plan,
    /// The files at the chosen place of the log.
    pub then: Tree,
    /// Time of that place: UTC, milliseconds since 1970.
    pub then_ms: i64,
    /// The current files.
    pub now: Tree,
    /// Name of the tree with the current files.
    pub before: String,
    /// Shell commands that are running, and may write during the restore.
    pub running: Vec<String>,
    /// See [`RewindResult::Done`].
    pub copy_of: Option<String>,
    /// The `Restoring` entry to record. `None`: nothing differs.
    pub entry: Option<Entry>,
    /// The target tree that `entry` names.
    pub tree: Option<NewTree>,
}

impl<W: World> Recorder<W> {
    /// Plans a rewind, and carries it out if the person confirmed it.
    ///
    /// # Errors
    /// The log cannot be read or written. The order stays pending.
    pub(super) async fn carry_out_rewind(
        &mut self,
        order: &RewindOrder,
    ) -> Result<(), EngineError> {
        let RewindOrder {
            number,
            rewind,
            then,
        } = order;
        let (_, records) = self.store.load(self.head.session())?;
        let planned = match undone(&records) {
            Some(RewoundFork {
                copy_of,
                has_files: false,
            }) if rewind.back == Back::Undo => RewindResult::Done {
                copy_of: Some(copy_of),
            },
            _ => match self.plan_rewind(rewind).await {
                Err(NotRewound::Engine(error)) => return Err(error),
                Err(error) => RewindResult::Not(error),
                Ok(rewinding) => self.follow(rewinding, then).await?,
            },
        };
        self.emit(Event::RewindPlanned(*number, planned));
        Ok(())
    }

    /// Takes the step that follows the plan.
    async fn follow(
        &mut self,
        rewinding: Rewinding,
        then: &AfterPlan,
    ) -> Result<RewindResult, EngineError> {
        let is_seen = |seen: &String| *seen == rewinding.before;
        Ok(match then {
            AfterPlan::HandOver { seen } if is_seen(seen) => {
                RewindResult::HandedOver(Box::new(rewinding))
            }
            AfterPlan::Do { seen } if is_seen(seen) => {
                let copy_of = rewinding.copy_of.clone();
                self.rewind(rewinding).await?;
                RewindResult::Done { copy_of }
            }
            then => RewindResult::Shown {
                is_other: *then != AfterPlan::Show,
                rewinding: Box::new(rewinding),
            },
        })
    }

    /// Plans a rewind of files, and records their current state.
    ///
    /// # Errors
    /// [`NotRewound`]; nothing was changed.
    pub(super) async fn plan_rewind(&mut self, wanted: &Rewind) -> Result<Rewinding, NotRewound> {
        // A restore that was interrupted has to be completed first.
        self.restore().await?;
        if self.state.first_open().is_some() || self.state.checks.running().is_some() {
            return Err(NotRewound::OpenCall);
        }
        let (_, records) = self.store.load(self.head.session())?;
        let (start, from, to) = place(&records, wanted.back)?;
        let (from, then_ms) = (
            from.to_string(),
            start
                .checked_sub(1)
                .and_then(|n| records.get(n))
                .map_or(0, |r| r.at_ms),
        );
        let copy_of = undone(&records).map(|undone| undone.copy_of);
        let root = self.world.root();
        match self.store.snapshots().tree_root(&from)? {
            Some(of) if is_same_root(&of, &records[start..], &root) => {}
            Some(of) => return Err(NotRewound::OtherFolder(of)),
            None => return Err(NotRewound::Unknown("there any more".to_string())),
        }
        self.record_files_before(&from).await?;
        let Some(before) = self.state.tree.clone() else {
            return Err(NotRewound::Unknown("now".to_string()));
        };
        let (_, records) = self.store.load(self.head.session())?;
        let changes = changes_since(&self.store, &records, start, &from, &root)?;
        let mut merged = Merged {
            store: &self.store,
            contents: BTreeMap::new(),
            made: BTreeMap::new(),
        };
        let world = Rc::clone(&self.world);
        let times = world.file_times(&root);
        let plan = rewind::plan(
            &changes,
            &mut RestoreOptions {
                whole: wanted.whole,
                only: wanted.only.as_ref(),
                allowed: &wanted.allowed,
                chosen: &wanted.chosen,
                is_protected: &*wanted.is_protected,
                file_time: &|path| times.of(path),
                merge: &mut |base, ours, theirs| merged.merge(base, ours, theirs),
            },
        );
        let (entry, tree) = self.restoring(&before, &plan, wanted, to, &root, merged.taken())?;
        let of_user = self.state.user_commands.values().map(|c| &c.command);
        let running = self.state.background.values().map(|b| &b.command);
        Ok(Rewinding {
            then: changes.start().clone(),
            then_ms,
            now: changes.now().clone(),
            before,
            running: running.chain(of_user).cloned().collect(),
            copy_of,
            plan,
            entry,
            tree,
        })
    }

    /// Stops pending work, records the plan and carries it out. Returns the `Restored`.
    ///
    /// # Errors
    /// When it cannot be recorded. The next start completes a recorded plan.
    pub(super) async fn rewind(
        &mut self,
        rewinding: Rewinding,
    ) -> Result<Option<Entry>, EngineError> {
        let Some(entry) = rewinding.entry else {
            return Ok(None);
        };
        let mut entries = stopped(self.state.owed || self.state.unchecked().is_some());
        entries.push(entry);
        self.inbox_is_held = true;
        self.record(Write {
            tree: rewinding.tree,
            ..Write::of_all(entries)
        })
        .await?;
        self.restore().await
    }

    /// Completes a rewind that is recorded and not finished.
    ///
    /// # Errors
    /// As [`Recorder::rewind`].
    pub(super) async fn restore(&mut self) -> Result<Option<Entry>, EngineError> {
        let Some(Restoring {
            before,
            target,
            new_folder,
            mut kept,
            mut more_kept,
        }) = self.state.restoring.clone()
        else {
            return Ok(None);
        };
        let scope: BTreeSet<PathBuf> = [&before, &target]
            .into_iter()
            .map(|name| self.written(name))
            .collect::<Result<Vec<_>, _>>()
            .unwrap_or_default()
            .into_iter()
            .flatten()
            .collect();
        let world = Rc::clone(&self.world);
        let progress = Arc::new(RestoreProgress::default());
        let order = RestoreOrder {
            before,
            target,
            progress: Arc::clone(&progress),
        };
        let end = self.wait_for_restore(world.restore(order), &progress).await;
        let scope = SnapshotScope::AllAnd(scope.into_iter().collect());
        let wish = self.snapshot_request(store::Cause::Restored, scope, PATIENCE);
        let found = SnapshotResult::of(world.snapshot(wish).await);
        let (more, and_more) = rewind::kept(&end.kept);
        kept.extend(more);
        more_kept += and_more + kept.len().saturating_sub(MAX_KEPT) as u64;
        kept.truncate(MAX_KEPT);
        let mut paths = end.paths;
        paths.truncate(MAX_KEPT);
        let restored = Entry::Restored {
            tree: found.name,
            new_folder,
            written: end.written,
            removed: end.removed,
            paths,
            kept,
            more_kept,
            why: end.why,
        };
        self.record(Write {
            tree: found.tree,
            ..Write::of(restored.clone())
        })
        .await?;
        Ok(Some(restored))
    }

    /// Records the current state of the files.
    pub(super) async fn record_files_before(&mut self, from: &str) -> Result<(), NotRewound> {
        let mut scope = self.written(from)?;
        if let Some(last) = self.state.tree.clone() {
            scope.extend(self.written(&last)?);
        }
        let cause = store::Cause::Target;
        let wish = self.snapshot_request(
            cause,
            SnapshotScope::AllAnd(scope.into_iter().collect()),
            PATIENCE,
        );
        let found = SnapshotResult::of(self.world.snapshot(wish).await);
        if let Some(why) = found.why {
            return Err(NotRewound::NotKept(why));
        }
        if self.saved(&found).is_some() {
            self.record_files(found).await?;
        }
        Ok(())
    }

    /// Returns the absolute paths in a tree: files outside of the covered ones that tools wrote.
    pub(super) fn written(&self, name: &str) -> Result<BTreeSet<PathBuf>, StoreError> {
        let known = self.store.snapshots().tree(name)?;
        let paths = known.iter().flat_map(|known| known.tree.0.keys());
        let absolute = paths.filter(|path| path.starts_with(b"/"));
        Ok(absolute
            .map(|path| PathBuf::from(OsStr::from_bytes(path)))
            .collect())
    }

    pub(super) fn restoring(
        &self,
        before: &str,
        plan: &Plan,
        wanted: &Rewind,
        to: Option<Seq>,
        root: &Path,
        contents: Vec<NewContent>,
    ) -> Result<(Option<Entry>, Option<NewTree>), NotRewound> {
        let Some(known) = self.store.snapshots().tree(before)? else {
            return Err(NotRewound::Unknown("now".to_string()));
        };
        let delta = diff(&known.tree, &plan.target);
        if delta.is_empty() {
            return Ok((None, None));
        }
        let cause = store::Cause::Target;
        let tree = NewTree::new(root, Some(&known), &delta, &plan.target, cause, contents)?;
        let (kept, more_kept) = rewind::kept(&plan.kept);
        let entry = Entry::Restoring {
            before: before.to_string(),
            target: tree.name(),
            to,
            whole: wanted.whole,
            new_folder: false,
            kept,
            more_kept,
        };
        Ok((Some(entry), Some(tree)))
    }

    /// Waits for the end of a restore and reports its progress.
    pub(super) async fn wait_for_restore(
        &mut self,
        step: impl Future<Output = RestoreEnd>,
        progress: &RestoreProgress,
    ) -> RestoreEnd {
        let mut step = pin!(step);
        let first = Instant::now() + SAID_AFTER;
        let mut due = first;
        loop {
            tokio::select! {
                biased;
                end = &mut step => {
                    if due != first {
                        self.emit(Event::Files(None));
                    }
                    return end;
                }
                () = sleep_until(due) => {
                    due = Instant::now() + SAID_AGAIN;
                    let work = FilesWork::Restoring {
                        done: progress.done.load(Ordering::Relaxed),
                        all: progress.all.load(Ordering::Relaxed),
                    };
                    self.emit(Event::Files(Some(work)));
                }
            }
        }
    }
}

/// Returns the entry that stops a session, if work is pending in it.
pub fn stopped(is_owed: bool) -> Vec<Entry> {
    match is_owed {
        true => vec![Entry::Stopped {
            draft: None,
            origin: None,
        }],
        false => Vec::new(),
    }
}

/// Returns the place in the records with the wanted state of the files, the tree that describes it,
/// and the entry that was asked for.
fn place(records: &[Record], back: Back) -> Result<(usize, &str, Option<Seq>), NotRewound> {
    let unknown = |place: &str, seq| {
        let why = why_unknown(records, seq);
        NotRewound::Unknown(format!("{place} entry {seq}: {why}"))
    };
    match back {
        Back::To(seq) => place_at(records, seq)
            .map(|(place, tree)| (place + 1, tree, Some(seq)))
            .ok_or_else(|| unknown("at", seq)),
        Back::Before(seq) => place_before(records, seq)
            .map(|(place, tree)| (place + 1, tree, Some(seq.saturating_sub(1))))
            .ok_or_else(|| unknown("before", seq)),
        Back::Undo => records
            .iter()
            .enumerate()
            .rev()
            .find_map(|(place, record)| match &record.entry {
                Entry::Restoring {
                    before,
                    new_folder: false,
                    ..
                } => Some((place, before.as_str(), None)),
                _ => None,
            })
            .ok_or(NotRewound::NothingToRedo),
    }
}

/// A fork in which no message was sent yet: the person rewound the conversation.
struct RewoundFork {
    /// The session that it was forked from.
    copy_of: String,
    /// Files were restored in the fork, too.
    has_files: bool,
}

fn undone(records: &[Record]) -> Option<RewoundFork> {
    let mut has_files = false;
    for record in records.iter().rev() {
        match &record.entry {
            Entry::Said { .. } => return None,
            Entry::Restoring { .. } => has_files = true,
            // A fork with a separate folder is not a rewind of this one.
            Entry::Forked {
                folder: Some(_), ..
            } => return None,
            Entry::Forked { from, .. } => {
                return Some(RewoundFork {
                    copy_of: from.session.clone(),
                    has_files,
                });
            }
            _ => {}
        }
    }
    None
}

/// Returns whether the root of a tree is this one, after the moves in the records since.
fn is_same_root(of: &Path, since: &[Record], root: &Path) -> bool {
    Path::new(&root_after(since, &of.to_string_lossy())) == root
}

/// Returns the changes of each path of the workspace `root` since the tree `from`, which
/// `records[start]` names.
///
/// # Errors
/// `Unknown` when a tree is not stored any more.
pub fn changes_since(
    store: &Store,
    records: &[Record],
    start: usize,
    from: &str,
    root: &Path,
) -> Result<Changes, NotRewound> {
    let tree = |name: &str| match store.snapshots().tree(name)? {
        Some(known) => Ok(known.tree),
        None => Err(NotRewound::Unknown(format!(
            "there any more (tree {name}): rewake gc removed what they were"
        ))),
    };
    let mut changes = Changes::new(&root.to_string_lossy(), tree(from)?);
    let mut last = from.to_string();
    let records = with_paths_after_moves(records);
    for named in named_since(&records, start, from) {
        let exact = store.snapshots().delta_from(&named.name, &last)?;
        let is_exact = exact.is_some();
        let delta = match exact {
            Some(delta) => delta,
            None => diff(changes.now(), &tree(&named.name)?),
        };
        let target = match &named.cause {
            Cause::Restored { target } => Some(tree(target)?),
            Cause::Calls { .. } | Cause::Outside => None,
        };
        let made = (&named.cause, named.maker);
        changes.add(&delta, is_exact, made, target.as_ref());
        last = named.name;
    }
    Ok(changes)
}

/// Contents that three-way merges produced.
struct Merged<'a> {
    store: &'a Store,
    contents: BTreeMap<ContentHash, NewContent>,
    made: BTreeMap<ContentHash, Vec<u8>>,
}

impl Merged<'_> {
    /// Merges three contents. `None`: they conflict, or one of them cannot be read or compressed.
    fn merge(
        &mut self,
        base: &ContentHash,
        ours: &ContentHash,
        theirs: &ContentHash,
    ) -> Option<(ContentHash, u64)> {
        let content = |hash: &ContentHash| match self.made.get(hash) {
            Some(bytes) => Some(bytes.clone()),
            None => self.store.snapshots().content(hash).ok().flatten(),
        };
        let merged = merge3(&content(base)?, &content(ours)?, &content(theirs)?)?;
        let hash = *blake3::hash(&merged).as_bytes();
        let bytes = merged.len() as u64;
        self.made.insert(hash, merged.clone());
        if !self.store.snapshots().has_content(&hash).ok()? {
            let like = self.store.snapshots().base(ours).ok().flatten();
            let compressed = contents::compress(&merged, like.as_ref(), false).ok()?;
            let content = NewContent {
                hash,
                bytes,
                stored: compressed.data.len() as u64,
                base: compressed.base,
                place: ContentLocation::Row(compressed.data),
            };
            self.contents.insert(hash, content);
        }
        Some((hash, bytes))
    }

    fn taken(self) -> Vec<NewContent> {
        self.contents.into_values().collect()
    }
}
