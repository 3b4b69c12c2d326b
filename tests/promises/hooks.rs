//! A guard survives a kill and runs once.

use std::fs;

use crate::scenes::hooks::*;
use crate::scenes::{LIMIT, streamed, until};
use support::Live;

/// The agent is killed while a guard runs. The guard runs once, and the next start obeys it.
#[test]
fn a_guard_survives_a_kill_and_runs_once() {
    for (code, denied) in [(2, true), (0, false)] {
        let home = touching();
        let guard =
            format!("echo x >> guards; while [ ! -e go ]; do sleep 0.02; done; exit {code}");
        hooks(&home, &[("PreToolUse", "Bash", &guard)]);
        let mut agent = Live::spawn(home.rewake(ACCEPT));
        until(|| home.read("guards") == "x\n");
        assert!(agent.kill());
        agent.wait(LIMIT);
        fs::write(home.path("go"), "").unwrap();
        let run = streamed(&home, &["-c", "-p", "--permission-mode", "acceptEdits"]);
        assert_eq!(home.read("guards"), "x\n", "{run:?}");
        assert_eq!(home.path("ran").exists(), !denied, "{run:?}");
    }
}
