//! Files and folders are their owner's alone, and a migration has the store alone.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::thread;

use rewake::store::{SessionLock, Store, StoreError};

use crate::story::*;

fn modes(dir: &Path, into: &mut BTreeMap<String, u32>) {
    for entry in fs::read_dir(dir).unwrap().flatten() {
        let meta = entry.metadata().unwrap();
        let name = entry.path().display().to_string();
        into.insert(name, meta.permissions().mode() & 0o777);
        if meta.is_dir() {
            modes(&entry.path(), into);
        }
    }
}

#[test]
fn nobody_else_can_read_anything() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("deep/data");
    let mut store = Store::open(&data).unwrap();
    let head = talk(&mut store, 2);
    let _lock = SessionLock::take(&data, head.session()).unwrap();
    let mut found = BTreeMap::new();
    modes(dir.path(), &mut found);
    for file in ["rewake.db", "rewake.db-wal", "rewake.db-shm", "store.lock"] {
        assert!(found.keys().any(|name| name.ends_with(file)), "no {file}");
    }
    for (name, mode) in &found {
        let expected = if Path::new(name).is_dir() {
            0o700
        } else {
            0o600
        };
        assert_eq!(*mode, expected, "{name} {mode:o}");
    }
}

#[test]
fn files_left_open_to_others_are_closed_to_them() {
    let (dir, store) = scratch();
    drop(store);
    fs::set_permissions(database(dir.path()), fs::Permissions::from_mode(0o644)).unwrap();
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let _store = Store::open(dir.path()).unwrap();
    for (path, mode) in [(database(dir.path()), 0o600), (dir.path().into(), 0o700)] {
        let found = fs::metadata(path).unwrap().permissions().mode();
        assert_eq!(found & 0o777, mode);
    }
}

#[test]
fn processes_that_start_at_once_share_a_new_store() {
    let dir = tempfile::tempdir().unwrap();
    thread::scope(|s| {
        let opening: Vec<_> = (0..4)
            .map(|_| s.spawn(|| Store::open(dir.path())))
            .collect();
        // None of them has to go before another can come in.
        let stores: Vec<Store> = opening
            .into_iter()
            .map(|one| one.join().unwrap().unwrap())
            .collect();
        for mut store in stores {
            talk(&mut store, 1);
        }
    });
    let store = Store::open(dir.path()).unwrap();
    assert_eq!(
        store
            .history()
            .sessions(Default::default(), 10)
            .unwrap()
            .len(),
        4
    );
}

#[test]
fn an_empty_database_that_others_have_open_is_left_alone() {
    let (dir, store) = scratch();
    raw(dir.path())
        .pragma_update(None, "user_version", 0)
        .unwrap();
    match Store::open(dir.path()) {
        Err(StoreError::Locked { pids }) => assert_eq!(pids, [std::process::id()]),
        Err(other) => panic!("{other}"),
        Ok(_) => panic!("filled under an open store"),
    }
    drop(store);
    let left = fs::read_dir(dir.path().join("processes")).unwrap().count();
    assert_eq!(left, 0);
}

#[test]
fn a_stale_process_file_is_removed() {
    let (dir, store) = scratch();
    drop(store);
    let stale = dir.path().join("processes/4242-abc");
    File::create(&stale).unwrap();
    let _store = Store::open(dir.path()).unwrap();
    assert!(!stale.exists());
}
