//! A session that changed files, to rewind.

use serde_json::{Value, json};

use super::{newest, scripted, step, write};
use support::{Home, Run};

/// Files that exist are read before they are written.
pub fn rewriting(calls: &[(&str, &str)]) -> Home {
    let read = |(path, _): &(&str, &str)| ("read", json!({ "path": path }));
    let reads: Vec<(&str, Value)> = calls.iter().map(read).collect();
    let writes: Vec<(&str, Value)> = calls.iter().map(|(path, text)| write(path, text)).collect();
    scripted(&[step("", &reads), step("", &writes), step("done", &[])])
}

/// The first entry at which the files are known: before anything was done.
pub fn begin(home: &Home, id: &str) -> String {
    let export = home.run(["export", id, "--json"]).expect(0).stdout;
    let export: Value = serde_json::from_str(&export).unwrap();
    let entries = export["records"].as_array().unwrap();
    let named = entries.iter().find(|r| r["entry"]["tree"].is_string());
    named.unwrap()["seq"].to_string()
}

/// Plays a script, and gives the session and the entry before all of it.
pub fn played(home: &Home) -> (String, String) {
    home.run(["-p", "go", "--yolo"]).expect(0);
    let id = newest(home);
    let at = begin(home, &id);
    (id, at)
}

#[track_caller]
pub fn rewind(home: &Home, more: &[&str], code: i32) -> Run {
    let mut args = vec!["rewind"];
    args.extend(more);
    home.run(args).expect(code)
}
