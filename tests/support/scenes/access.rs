//! Commands in a sandbox, by mode and access.

use serde_json::{Value, json};

use crate::scenes::{play, results, step, streamed};
use crate::{Home, has_whole_sandbox};

/// As many calls of one answer are run.
pub const CALLS: usize = 32;

/// Whether this kernel gives everything.
pub fn has_sandbox(home: &Home) -> bool {
    has_whole_sandbox(&home.run(["doctor"]).stdout)
}

pub fn with(command: &str, access: &str) -> (&'static str, Value) {
    ("bash", json!({"command": command, "access": access}))
}

/// The kind and the text of what came of each call.
#[track_caller]
pub fn ran(home: &Home, calls: &[(&str, Value)], args: &[&str]) -> Vec<(String, String)> {
    ran_with(0, home, calls, args)
}

/// Runs the calls like [`ran`], in runs that end with this exit code.
pub fn ran_with(
    code: i32,
    home: &Home,
    calls: &[(&str, Value)],
    args: &[&str],
) -> Vec<(String, String)> {
    let mut all = Vec::new();
    for chunk in calls.chunks(CALLS) {
        play(home, &[step("", chunk), step("done", &[])]);
        let run = streamed(home, &[&["-p", "x"], args].concat()).expect(code);
        let results = results(&run);
        assert_eq!(results.len(), chunk.len());
        all.extend(results);
    }
    all
}

pub const ACCEPT: [&str; 2] = ["--permission-mode", "acceptEdits"];

pub const PLAN: [&str; 2] = ["--permission-mode", "plan"];

#[track_caller]
pub fn has(text: &str, words: &[&str]) {
    for word in words {
        assert!(text.contains(word), "{word:?} is not in {text:?}");
    }
}
