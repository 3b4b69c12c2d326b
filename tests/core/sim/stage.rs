//! Where a simulation takes place: a store of its own with a session in which one thing was
//! said, and what the engine is started with.

use std::path::{Path, PathBuf};
use std::time::Duration;

use rewake::core::entry::*;
use rewake::core::settings::Policy;
use rewake::core::summary::Fallback;
use rewake::engine::{Settings, Summarising};
use rewake::store::{Batch, NewSession, Store, new_id};

use super::fake;

/// A folder of its own in memory where there is such a thing: what dies here is a process,
/// not a disk.
fn scratch() -> tempfile::TempDir {
    let in_memory = tempfile::tempdir_in("/dev/shm");
    in_memory
        .or_else(|_| tempfile::tempdir())
        .expect("a scratch folder")
}

/// A migrated, empty store, made once for each thread.
fn template() -> PathBuf {
    thread_local! {
        static TEMPLATE: tempfile::TempDir = {
            let dir = scratch();
            drop(Store::open(dir.path()).expect("a new store"));
            dir
        };
    }
    TEMPLATE.with(|dir| dir.path().to_path_buf())
}

pub fn fresh_store() -> tempfile::TempDir {
    let dir = scratch();
    for file in std::fs::read_dir(template()).expect("the template") {
        let file = file.expect("a file");
        if file.file_type().expect("its type").is_file() {
            std::fs::copy(file.path(), dir.path().join(file.file_name())).expect("a copy");
        }
    }
    dir
}

/// A session in which "go" was said: its id.
pub fn begin(dir: &Path) -> String {
    let mut store = Store::open(dir).expect("the store opens");
    let new = NewSession {
        id: new_id(),
        workspace: "/w".into(),
        folder: "/w".into(),
    };
    let (mut head, _) = store.create(&new, 0, fake::opened()).expect("a session");
    let session = head.session().to_string();
    let said = Entry::Said {
        text: "go".into(),
        images: vec![],
        via: Via::Prompt,
        command: None,
        origin: None,
    };
    let batch = Batch {
        entries: vec![said],
        unfinished: true,
        ..Batch::default()
    };
    store.append(&mut head, &batch).expect("said");
    session
}

pub fn settings(policy: Policy) -> Settings {
    Settings {
        policy,
        begins_within: Duration::from_secs(600),
        checkpoint_interval: Duration::from_secs(600),
        summarising: Summarising {
            model: None,
            others: vec![],
            instructions: "summarise".into(),
            continuation: "continue".into(),
            title: None,
            fallback: Fallback::Digest,
            patience: Duration::from_secs(60),
        },
        render: Box::new(|_| fake::layers()),
        renewed: None,
        chosen: None,
        fallbacks: vec![],
    }
}
