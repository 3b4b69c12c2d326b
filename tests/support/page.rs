//! One page about a test that failed: the entries of the newest session, the last frame of a
//! terminal, the last request, the seed, and the folder with the rest. Each of them prints its part
//! when it is dropped while the test panics.
//!
//! Invariant: nothing here panics, because a second panic would end the whole test program.

use std::cell::Cell;
use std::fs::File;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use super::Home;

/// The page is no longer and no wider than this.
pub const LINES: usize = 60;
pub const COLUMNS: usize = 200;

/// The newest entries, without those before.
const ENTRIES: usize = 20;
/// A command that does not end is no reason to wait.
const PATIENCE: Duration = Duration::from_secs(20);

thread_local! {
    /// The lines that are left on the page.
    static LEFT: Cell<usize> = const { Cell::new(LINES) };
}

/// Begins a page. A thread can run more than one test.
pub(crate) fn begin() {
    if !std::thread::panicking() {
        let _ = LEFT.try_with(|left| left.set(LINES));
    }
}

/// Prints a part of the page, if the test failed.
pub(crate) fn print(title: &str, text: impl FnOnce() -> String) {
    if !std::thread::panicking() {
        return;
    }
    let text = text();
    let lines = text.lines().filter(|line| !line.trim().is_empty());
    for line in std::iter::once(format!("== {title}").as_str()).chain(lines) {
        let left = LEFT.try_with(Cell::get).unwrap_or_default();
        if left == 0 {
            return;
        }
        let _ = LEFT.try_with(|count| count.set(left - 1));
        let line: String = line.chars().take(COLUMNS).collect();
        eprintln!("{line}");
    }
}

/// The entries of the newest session, one a line: number, kind and first words.
pub(crate) fn entries(home: &Home) -> String {
    match read_entries(home) {
        Ok(entries) => entries,
        Err(why) => format!("not read: {why}"),
    }
}

fn read_entries(home: &Home) -> Result<String, String> {
    let listed = output(home, &["history"])?;
    let Some(id) = listed.split_whitespace().next() else {
        return Ok("there is no session".into());
    };
    let export = output(home, &["export", id, "--json"])?;
    let export: Value = serde_json::from_str(&export).map_err(|error| error.to_string())?;
    let records = export["records"].as_array().map_or(&[][..], Vec::as_slice);
    let newest = &records[records.len().saturating_sub(ENTRIES)..];
    let line = |record: &Value| {
        let mut entry = record["entry"].clone();
        let fields = entry.as_object_mut();
        let kind = fields.and_then(|fields| fields.remove("kind"));
        let kind = kind.unwrap_or_default();
        let kind = kind.as_str().unwrap_or_default();
        format!("{:>4} {kind:<10} {entry}", record["seq"].to_string())
    };
    let lines: Vec<String> = newest.iter().map(line).collect();
    Ok(lines.join("\n"))
}

/// The output of the program. Not through a pipe, which somebody else may hold open.
fn output(home: &Home, args: &[&str]) -> Result<String, String> {
    let path = home.rewake_home().with_file_name("page");
    let file = File::create(&path).map_err(|error| error.to_string())?;
    let mut command: Command = home.rewake(args);
    command.stdout(file).stderr(Stdio::null());
    let mut child = command.spawn().map_err(|error| error.to_string())?;
    let end = Instant::now() + PATIENCE;
    while Instant::now() < end {
        match child.try_wait() {
            Ok(None) => std::thread::sleep(Duration::from_millis(5)),
            Ok(Some(status)) if !status.success() => return Err(format!("{args:?}: {status}")),
            Ok(Some(_)) => return std::fs::read_to_string(&path).map_err(|e| e.to_string()),
            Err(error) => return Err(error.to_string()),
        }
    }
    let _ = child.kill();
    let _ = child.wait();
    Err(format!("{args:?} does not end"))
}
