//! A store that cannot be written is looked at, and nothing beside it changes.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use rewake::store::{Order, Scope, SessionFilter, Store};

use crate::story::*;

/// All files of a folder, with what is in them.
fn files(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let files = fs::read_dir(folder).unwrap().map(Result::unwrap);
    let files = files.filter(|file| file.file_type().unwrap().is_file());
    files
        .map(|file| {
            let name = file.file_name().into_string().unwrap();
            (name, fs::read(file.path()).unwrap())
        })
        .collect()
}

/// With this in its log, or all in the one file, as another program left them.
fn left(with_log: bool) -> (tempfile::TempDir, String) {
    let (dir, mut store) = scratch();
    let id = talk(&mut store, 3).session().to_string();
    let kept = tempfile::tempdir().unwrap();
    if !with_log {
        drop(store);
        fs::copy(database(dir.path()), database(kept.path())).unwrap();
        return (kept, id);
    }
    for name in ["rewake.db", "rewake.db-wal"] {
        fs::copy(dir.path().join(name), kept.path().join(name)).unwrap();
    }
    assert!(kept.path().join("rewake.db-wal").metadata().unwrap().len() > 0);
    (kept, id)
}

#[test]
fn a_store_is_looked_at_and_nothing_changes() {
    for with_log in [true, false] {
        let (dir, id) = left(with_log);
        let before = files(dir.path());
        let store = Store::open_read_only(dir.path()).unwrap();
        let records = store.load(&id).unwrap().1;
        assert_eq!(said_texts(&records), ["words 1", "words 2", "words 3"]);
        assert_eq!(
            store
                .history()
                .sessions(SessionFilter::default(), 9)
                .unwrap()
                .len(),
            1
        );
        let store = store.into_searchable(dir.path()).unwrap();
        let hits = store.index().search("words", Scope::All, Order::Newest, 9);
        assert_eq!(hits.unwrap().len(), 3);
        drop(store);
        assert_eq!(files(dir.path()), before, "with a log: {with_log}");
    }
}

#[test]
fn whatever_is_in_its_log_a_store_is_seen_whole() {
    let (dir, mut store) = scratch();
    let mut head = talk(&mut store, 1);
    let id = head.session().to_string();
    for n in 2..20 {
        append(&mut store, &mut head, vec![said(&format!("words {n}"))]);
        let kept = tempfile::tempdir().unwrap();
        for name in ["rewake.db", "rewake.db-wal"] {
            fs::copy(dir.path().join(name), kept.path().join(name)).unwrap();
        }
        let seen = Store::open_read_only(kept.path()).unwrap();
        assert_eq!(said_texts(&seen.load(&id).unwrap().1).len(), n);
    }
}
