//! Set-ups of `support`, and looks at what a run left in the store, with the program's own code.
#![allow(
    dead_code,
    unused_imports,
    reason = "each test program uses its own part of this"
)]

pub mod acp;
pub mod bundles;
pub mod children;
pub mod fleet;
pub mod mcp;
pub mod resume;
pub mod rewind;
pub mod worktrees;

use std::time::{Duration, Instant};

use rewake::command::Runs;
use rewake::core::entry::Record;
use rewake::session::objects::entry_line;
use rewake::store::Store;
use serde_json::Value;
use support::Home;
pub use support::scenes::*;

/// Opens the store of a home.
#[track_caller]
pub fn store(home: &Home) -> Store {
    Store::open(&home.rewake_home()).expect("open the store")
}

/// Returns the ID of the newest session, if there is one.
pub fn find_newest(home: &Home) -> Option<String> {
    let store = Store::open(&home.rewake_home()).ok()?;
    Some(store.history().newest(None).ok()??.id)
}

/// Returns the ID of the newest session.
#[track_caller]
pub fn newest(home: &Home) -> String {
    find_newest(home).expect("a session")
}

/// Returns the newest session as it is stored. Empty: there is none yet.
pub fn records(home: &Home) -> Vec<Record> {
    let load = |id: String| Some(Store::open(&home.rewake_home()).ok()?.load(&id).ok()?.1);
    find_newest(home).and_then(load).unwrap_or_default()
}

/// Returns the entries of a session, as lines of the stream.
#[track_caller]
pub fn log(home: &Home, id: &str) -> Vec<Value> {
    let (_, records) = store(home).load(id).expect("load the session");
    records.iter().map(entry_line).collect()
}

/// Returns the entries of one kind of a session, as lines of the stream.
#[track_caller]
pub fn entries(home: &Home, id: &str, kind: &str) -> Vec<Value> {
    let kind = format!("entry.{kind}");
    let mut entries = log(home, id);
    entries.retain(|entry| entry["type"] == *kind);
    entries
}

/// A runtime of one thread, as rewake has one.
pub fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime")
}

/// The same as [`until`] beside other work of this thread.
pub async fn until_async(is_so: impl Fn() -> bool) {
    let end = Instant::now() + LIMIT;
    while !is_so() {
        assert!(Instant::now() < end, "waited too long");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

/// Returns the commands of a home that have a keeper.
pub fn runs_of(home: &Home) -> Runs {
    let runs = home.rewake_home().join("runs");
    Runs::new(runs, env!("CARGO_BIN_EXE_rewake"))
}
