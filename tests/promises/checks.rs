//! A compiler or linter runs after edits, once.

use std::fs;

use crate::scenes::checks::*;
use crate::scenes::{LIMIT, step, streamed, until};
use support::Live;

/// The agent is killed while a check runs, or right after its start. It runs once, and its lines
/// reach the model.
#[test]
fn a_check_survives_a_kill_and_runs_once() {
    let waits = "echo x >> runs; while [ ! -e go ]; do sleep 0.02; done; echo a.rs:1: bad";
    let steps = [step("", &[write("a.rs")]), step("done", &[])];
    let Some(home) = with_checks(&check(waits, ""), &steps) else {
        return;
    };
    let mut agent = Live::spawn(home.rewake(ACCEPT));
    until(|| runs(&home) == 1);
    assert!(agent.kill());
    agent.wait(LIMIT);
    fs::write(home.path("go"), "").unwrap();
    let run = streamed(&home, &["-c", "-p", "--permission-mode", "acceptEdits"]);
    assert_eq!(runs(&home), 1, "{run:?}");
    assert!(ends(&run)[0].1.contains("a.rs:1: bad"), "{run:?}");
    assert_eq!(ends(&run).len(), 1);
}
