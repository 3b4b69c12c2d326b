//! Checks: prepared and recorded before the start, run while the request waits, and recorded again
//! with what is new in their output.
//!
//! Invariant: a check starts only after its `CheckStarted` is durable, and never twice. The next
//! request starts only after the end of the check is in the log.

use std::path::Path;
use std::rc::Rc;
use std::time::Duration;

use tokio::time::timeout;

use super::drive_step::Stoppable;
use super::new_lines::new_lines;
use super::steps::{STOP_PATIENCE, no_room};
use super::{Engine, EngineError, Recorder, Write};
use crate::core::check::{self, SessionChecks};
use crate::core::entry::{About, CheckEnding, Entry, Guard, Seq};
use crate::core::next::Step;
use crate::core::plain_text::plain_text;
use crate::core::state::has_run_command;
use crate::store::blob_ref;
use crate::world::{CheckEnd, CheckRun, PrepareError, World};

/// The work of the engine for checks that is not in the log.
#[derive(Debug, Default)]
pub(super) struct Checks {
    /// The answer for whose commands the scan of the files was awaited.
    scanned: Option<Seq>,
}

/// Returns the files that the calls of the last answer changed, below the root of the workspace.
pub(super) fn changed<W: World>(log: &Recorder<W>) -> Result<Vec<String>, EngineError> {
    let state = &log.state.checks;
    if log.policy.checks.is_empty() || log.state.first_open().is_some() {
        return Ok(Vec::new());
    }
    let root = log.world.root();
    let below = |path: &str| {
        let below = Path::new(path).strip_prefix(&root).ok()?;
        Some(below.to_str()?.to_string())
    };
    let mut changed: Vec<String> = state.written().filter_map(below).collect();
    for change in state.trees() {
        let delta = log.delta_of(change)?;
        let paths = delta.0.keys().filter(|path| !path.starts_with(b"/"));
        changed.extend(paths.map(|path| String::from_utf8_lossy(path).into_owned()));
    }
    changed.sort();
    changed.dedup();
    Ok(changed)
}

/// Waits a short time for a scan before the next request, if a command of the answer may have
/// changed files. Returns whether it waited.
pub(super) async fn finish_scan<W: World>(
    engine: &mut Engine<W>,
    step: &Step,
) -> Result<bool, EngineError> {
    let state = &engine.log.state;
    let answer = Some(state.checks.answer());
    let is_due = *step == Step::CallModel
        && !engine.log.policy.checks.is_empty()
        && state.may_differ_from_tree
        && has_run_command(&state.calls)
        && engine.checks.scanned != answer;
    if is_due {
        engine.checks.scanned = answer;
        if !engine.files.behind.is_running() {
            engine.files.scan_after_step(&mut engine.log);
        }
        engine.finish_scan().await?;
    }
    Ok(is_due)
}

/// Records that a check is about to run. The next step runs it.
pub(super) async fn start<W: World>(
    log: &mut Recorder<W>,
    check: String,
    files: Vec<String>,
) -> Result<(), EngineError> {
    let Some(found) = log.policy.checks.iter().find(|c| c.name == check) else {
        return Ok(());
    };
    let prepared = log.world.prepare_check(found).await;
    let (guard, why) = match prepared {
        Ok(guard) => (Some(guard), None),
        Err(PrepareError::NoRoom(why)) => return Err(no_room(why)),
        Err(PrepareError::Refused(outcome)) => (None, Some(outcome.to_model_text().0)),
    };
    let (run, boot) = match &guard {
        Some(Guard::Supervised { run, boot, .. }) => (run.clone(), boot.clone()),
        _ => Default::default(),
    };
    let entry = log.state.next_seq();
    let started = Entry::CheckStarted {
        check: check.clone(),
        of: log.state.checks.answer(),
        run,
        boot,
        files,
    };
    let known = &log.state.checks;
    let failed = why.map(|why| {
        let ending = CheckEnding::Failed { why };
        ended(known, entry, check, ending, 0, &[])
    });
    let entries = std::iter::once(started).chain(failed).collect();
    let recorded = log.record(Write::of_all(entries)).await;
    // It is prepared again when there is room.
    if let (Err(_), Some(guard)) = (&recorded, &guard)
        && log.state.checks.running().is_none_or(|r| r.seq != entry)
    {
        log.world.discard(guard).await;
    }
    recorded
}

/// Runs the check that has no end, or finds the result of an earlier process, and records it.
pub(super) async fn run<W: World>(engine: &mut Engine<W>, entry: Seq) -> Result<(), EngineError> {
    let running = engine.log.state.checks.running();
    let Some(running) = running.filter(|running| running.seq == entry).cloned() else {
        return Ok(());
    };
    let stop = engine.log.state.is_stopped();
    let patience = if stop { STOP_PATIENCE } else { Duration::MAX };
    let world = Rc::clone(&engine.log.world);
    let (name, boot) = (running.run.clone(), running.boot.clone());
    let step = async move {
        let ended = timeout(patience, world.run_check(&name, &boot, stop)).await;
        ended.unwrap_or_else(|_| CheckRun::failed("it could not be stopped; it may still run"))
    };
    let Some(ran) = engine.drive_step_silently(step, Stoppable::Yes).await? else {
        return Ok(());
    };
    let log = &mut engine.log;
    let mut lines = Vec::new();
    let mut blobs = Vec::new();
    let ending = match ran.end {
        CheckEnd::Exited(exit_code) => {
            let output = plain_text(&String::from_utf8_lossy(&ran.output)).into_owned();
            let before = last_output(log, &running.check)?;
            lines = new_lines(&output, before.as_deref(), &running.files);
            let output = output.into_bytes();
            let blob = (!output.is_empty()).then(|| blob_ref(&output));
            blobs.extend(blob.is_some().then_some(output));
            CheckEnding::Exited {
                exit_code,
                new_lines: lines.len() as u64,
                output: blob,
            }
        }
        CheckEnd::TimedOut => CheckEnding::TimedOut {
            in_a_row: log.state.checks.next_timeout(&running.check),
        },
        CheckEnd::Stopped => CheckEnding::Stopped,
        CheckEnd::Failed(why) => CheckEnding::Failed { why },
    };
    let known = &log.state.checks;
    let noted = ended(known, entry, running.check, ending, ran.took_ms, &lines);
    let write = Write {
        blobs,
        ..Write::of(noted)
    };
    log.record(write).await?;
    let guard = Guard::Supervised {
        run: running.run,
        boot: running.boot,
        background: false,
    };
    log.world.discard(&guard).await;
    Ok(())
}

fn ended(
    known: &SessionChecks,
    entry: Seq,
    check: String,
    ending: CheckEnding,
    took_ms: u64,
    lines: &[String],
) -> Entry {
    let is_known = known.failed_before(&check, &ending);
    let about = About::CheckEnded {
        entry,
        check,
        ending,
        took_ms,
    };
    Entry::Noted {
        text: match is_known {
            true => String::new(),
            false => check::note(&about, lines),
        },
        about: Some(about),
    }
}

/// Returns the output of the last complete run. `None`: there was none, or it is not stored any
/// more.
fn last_output<W: World>(log: &Recorder<W>, check: &str) -> Result<Option<String>, EngineError> {
    Ok(match log.state.checks.last_output(check) {
        None => None,
        Some(None) => Some(String::new()),
        Some(Some(blob)) => {
            let bytes = log.store.blob(&blob.hash)?;
            bytes.map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
        }
    })
}
