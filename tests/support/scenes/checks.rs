//! Checks that count their runs.

use std::fs;
use std::sync::atomic::{AtomicU32, Ordering};

use serde_json::{Value, json};

use crate::scenes::{SCRIPTED, bash, scripted};
use crate::{Home, Run, has_whole_sandbox};

pub const ACCEPT: [&str; 4] = ["-p", "go", "--permission-mode", "acceptEdits"];

pub fn check(command: &str, more: &str) -> String {
    format!(
        "[[check]]\nfiles = \"*.rs\"\ncommand = {}\n{more}\n",
        json!(command)
    )
}

/// A home with these checks. `None`: there is no sandbox.
pub fn with_checks(checks: &str, steps: &[String]) -> Option<Home> {
    let home = scripted(steps);
    home.write_config(&format!("{SCRIPTED}{checks}"));
    fs::write(home.path("problems"), "").unwrap();
    has_whole_sandbox(&home.run(["doctor"]).stdout).then_some(home)
}

pub fn write(path: &str) -> (&'static str, Value) {
    // The same content would be no change, and a check would have nothing to look at.
    static WRITES: AtomicU32 = AtomicU32::new(0);
    let number = WRITES.fetch_add(1, Ordering::Relaxed);
    super::write(path, &format!("of {path}, {number}\n"))
}

/// A command that decides what the next check prints.
pub fn problems(lines: &str) -> (&'static str, Value) {
    bash(&format!("printf '{lines}' > problems"))
}

/// The ends of checks that a run recorded: the subject, and the text for the model.
pub fn ends(run: &Run) -> Vec<(Value, String)> {
    let events = run.events().into_iter();
    let of_check = |e: Value| {
        let is_end = e["type"] == "entry.noted" && e["about"]["about"] == "check_ended";
        is_end.then(|| (e["about"].clone(), e["text"].as_str().unwrap().to_string()))
    };
    events.filter_map(of_check).collect()
}

pub fn runs(home: &Home) -> usize {
    fs::read_to_string(home.path("runs")).map_or(0, |runs| runs.lines().count())
}
