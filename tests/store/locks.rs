//! SQLite's locks are there after everything that opens the store. Closing a descriptor of a
//! file drops all locks that the process has on it, so nothing but SQLite may open its files.

#![cfg(target_os = "linux")]

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::thread;

use rewake::store::{SessionFilter, SessionLock, Store, database as files};

use crate::story::*;

/// Whether /proc/locks has a lock of this process on the file.
fn is_locked(path: &Path) -> bool {
    let (pid, inode) = (
        std::process::id().to_string(),
        fs::metadata(path).unwrap().ino().to_string(),
    );
    let locks = fs::read_to_string("/proc/locks").unwrap();
    locks.lines().any(|line| {
        // 1: POSIX  ADVISORY  READ 4711 fe:00:10068041 1073741826 1073742335
        let words: Vec<&str> = line.split_whitespace().collect();
        let on = words.get(5).and_then(|on| on.rsplit(':').next());
        words.get(1) == Some(&"POSIX") && words.get(4) == Some(&&*pid) && on == Some(&*inode)
    })
}

#[track_caller]
fn assert_locked(dir: &Path) {
    for name in ["rewake.db", "rewake.db-shm"] {
        // Where others lock and unlock meanwhile, one reading of the list may leave a line out.
        let is_locked = (0..5).any(|_| is_locked(&dir.join(name)));
        assert!(is_locked, "no lock on {name}");
    }
}

#[test]
fn every_way_to_open_the_store_keeps_the_locks() {
    let dir = tempfile::tempdir().unwrap();
    let mut store = Store::open(dir.path()).unwrap();
    let head = talk(&mut store, 2);
    assert_locked(dir.path());

    let second = Store::open(dir.path()).unwrap();
    assert_locked(dir.path());
    second
        .history()
        .sessions(SessionFilter::default(), 9)
        .unwrap();
    second.load(head.session()).unwrap();
    drop(second);
    assert_locked(dir.path());

    let current = Store::open_current(dir.path()).unwrap().unwrap();
    assert_locked(dir.path());
    current.check().quick_check().unwrap();
    assert!(files::exists(dir.path()) && files::bytes(dir.path()) > 0);
    drop(current);
    assert_locked(dir.path());

    let _lock = SessionLock::take(dir.path(), head.session()).unwrap();
    while store.maintain().unwrap() {}
    assert_locked(dir.path());
}

#[test]
fn stores_that_are_opened_at_once_keep_the_locks() {
    for _ in 0..20 {
        let dir = tempfile::tempdir().unwrap();
        let stores: Vec<Store> = thread::scope(|s| {
            let opening = [(); 4].map(|()| s.spawn(|| Store::open(dir.path()).unwrap()));
            opening.map(|one| one.join().unwrap()).into()
        });
        assert_locked(dir.path());
        drop(stores);
    }
}

#[test]
fn an_emptied_database_keeps_the_locks() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(database(dir.path()), "").unwrap();
    assert!(Store::open_current(dir.path()).unwrap().is_none());
    let store = Store::open(dir.path()).unwrap();
    assert_locked(dir.path());
    let _second = Store::open(dir.path()).unwrap();
    assert_locked(dir.path());
    drop(store);
    assert_locked(dir.path());
}

/// SQLite keeps its other files beside the real one.
#[test]
fn the_files_of_a_database_that_is_a_link_are_known() {
    let (dir, elsewhere) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let real = elsewhere.path().join("kept.db");
    fs::write(&real, "").unwrap();
    std::os::unix::fs::symlink(&real, database(dir.path())).unwrap();
    let _store = Store::open(dir.path()).unwrap();
    for name in ["kept.db", "kept.db-wal", "kept.db-shm"] {
        let path = elsewhere.path().join(name);
        assert!(path.exists() && files::is_open_in_process(&path), "{name}");
    }
}

#[test]
fn the_files_of_an_open_store_are_known_under_every_name() {
    let (dir, store) = scratch();
    let second = Store::open(dir.path()).unwrap();
    let (other, link) = (dir.path().join("other"), dir.path().join("link"));
    fs::hard_link(database(dir.path()), &other).unwrap();
    std::os::unix::fs::symlink(dir.path().join("rewake.db-shm"), &link).unwrap();
    let names = [
        database(dir.path()),
        dir.path().join("rewake.db-wal"),
        other,
        link,
    ];
    for path in &names {
        assert!(files::is_open_in_process(path), "{}", path.display());
    }
    assert!(!files::is_open_in_process(&dir.path().join("store.lock")));
    // As config, instructions and skills are read, which a workspace may make links.
    for path in &names {
        let read = rewake::config::read_text(path, 1 << 20);
        let said = read.expect_err("it was opened").to_string();
        assert!(said.contains("in use"), "{said}");
    }
    drop(second);
    assert!(files::is_open_in_process(&names[0]));
    drop(store);
    assert!(!files::is_open_in_process(&names[0]));
}
