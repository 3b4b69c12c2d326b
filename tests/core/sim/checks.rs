//! The checks of a simulation: which there are, how they run under keepers, and what must hold of
//! them whatever died.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::sync::Arc;

use rewake::core::check::Check;
use rewake::core::entry::*;
use rewake::world::{CheckEnd, CheckRun};

use super::fake::Outside;

/// A check of the file that edits write, and one of what commands change.
const OF_EDITS: &str = "lint";
const OF_COMMANDS: &str = "build";

pub fn checks() -> Vec<Check> {
    let check = |name: &str, file: &'static str| Check {
        name: name.into(),
        command: name.into(),
        timeout_ms: 1_000,
        matches: Arc::new(move |path| path == file),
    };
    vec![check(OF_EDITS, "f"), check(OF_COMMANDS, "all")]
}

/// Runs a check as the machine does: one that was not claimed is started, the others are found.
pub async fn run<F: Future<Output = ()>>(
    outside: &Rc<RefCell<Outside>>,
    pass: impl Fn() -> F,
    run: &str,
    stop: bool,
) -> CheckRun {
    let must_start = {
        let outside = outside.borrow();
        !stop && outside.hooks.must_start(run, outside.boot())
    };
    if must_start {
        outside.borrow_mut().hooks.spawn(run);
        pass().await;
        outside.borrow_mut().hooks.keeper(run);
        pass().await;
    }
    let is_known = outside.borrow_mut().hooks.end(run, stop);
    outside.borrow_mut().hooks.keepers_come_to_life();
    pass().await;
    match is_known {
        true => CheckRun {
            end: CheckEnd::Exited(1),
            took_ms: 1,
            // Each run prints one line more.
            output: format!("f:1: bad\nall:1: bad\nof {run}\n").into_bytes(),
        },
        false => CheckRun::failed("its keeper was lost"),
    }
}

/// Checks the entries about checks of a session that is at rest.
pub fn check(records: &[Record], outside: &Outside) {
    let mut running: Option<(Seq, &str, Seq)> = None;
    let mut started: BTreeSet<(Seq, &str)> = BTreeSet::new();
    let mut has_run: BTreeSet<&str> = BTreeSet::new();
    let mut due: BTreeSet<(Seq, &str)> = BTreeSet::new();
    let mut commands: BTreeMap<CallId, bool> = BTreeMap::new();
    for record in records {
        match &record.entry {
            Entry::Replied { blocks, .. } => {
                assert_eq!(running, None, "a request did not wait for a check");
                let left = due.difference(&started).collect::<Vec<_>>();
                assert!(left.is_empty(), "not checked before the request: {left:?}");
                commands.clear();
                for call in super::fake::calls(record.seq, blocks) {
                    commands.insert(call.id, call.name == "bash");
                }
            }
            Entry::Finished {
                call,
                outcome: Outcome::Done { .. },
                fact,
                ..
            } => {
                assert_eq!(running, None, "a result waited for a check");
                if matches!(fact, Some(Fact::Wrote { .. })) {
                    due.insert((call.reply, OF_EDITS));
                } else if commands.get(call) == Some(&true) {
                    due.insert((call.reply, OF_COMMANDS));
                }
            }
            Entry::CheckStarted { check, of, .. } => {
                assert!(started.insert((*of, check)), "{check} ran twice for {of}");
                running = Some((record.seq, check, *of));
            }
            Entry::Noted {
                text,
                about: Some(About::CheckEnded { entry, ending, .. }),
            } => {
                let (seq, check, _) = running.take().expect("a check that runs");
                assert_eq!(seq, *entry);
                let run = records.iter().find_map(|r| match &r.entry {
                    Entry::CheckStarted { run, .. } if r.seq == seq => Some(run.as_str()),
                    _ => None,
                });
                let is_lost = outside.hooks.is_lost(run.expect("its run folder"));
                match ending {
                    CheckEnding::Exited { new_lines, .. } => {
                        assert!(
                            !is_lost && *new_lines == 1,
                            "{check}: {new_lines} new lines"
                        );
                        let first = has_run.insert(check);
                        assert_eq!(first, text.contains(":1: bad"), "{text}");
                    }
                    CheckEnding::Failed { .. } => assert!(is_lost, "the result of {check} is lost"),
                    other => panic!("{check}: {other:?}"),
                }
            }
            _ => {}
        }
    }
    assert_eq!(running, None, "a check has no end");
}
