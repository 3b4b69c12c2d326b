//! A purged session is gone for good, whatever comes back. What forks go on from stays.

use std::fs;
use std::path::Path;

use rewake::core::entry::Record;
use rewake::store::{Order, Removed, Scope, SessionFilter, Store, StoreError, blob_ref, is_purged};

use crate::scene::Scene;
use crate::story::*;

fn log(store: &Store, id: &str) -> Vec<Record> {
    store.load(id).unwrap().1
}

fn purge(scene: &Scene, id: &str) -> Removed {
    let store = scene.open();
    store
        .purge(&scene.data(), Some(&scene.place()), id)
        .unwrap()
}

#[track_caller]
fn assert_gone(store: &Store, id: &str) {
    assert!(matches!(store.load(id), Err(StoreError::NotFound { .. })));
    assert!(!store.history().knows(id).unwrap());
    let listed = store
        .history()
        .sessions(SessionFilter::default(), 99)
        .unwrap();
    assert!(listed.iter().all(|info| info.id != id));
}

/// Whether these bytes are anywhere in the files below.
fn is_in(folder: &Path, wanted: &[u8]) -> Option<std::path::PathBuf> {
    for file in fs::read_dir(folder).unwrap() {
        let path = file.unwrap().path();
        let found = match path.is_dir() {
            true => is_in(&path, wanted),
            false => {
                let bytes = fs::read(&path).unwrap();
                let has = bytes.windows(wanted.len()).any(|at| at == wanted);
                has.then_some(path)
            }
        };
        if found.is_some() {
            return found;
        }
    }
    None
}

#[test]
fn purge_removes_the_session_from_every_file() {
    const SECRET: &str = "xyzzy-secret-words";
    let scene = Scene::new();
    let mut store = scene.open();
    let mut head = session(&mut store, HERE);
    append(&mut store, &mut head, vec![said(SECRET)]);
    let mut all = batch(all_kinds());
    all.blobs = vec![BLOB.to_vec()];
    store.append(&mut head, &all).unwrap();
    let other = talk(&mut store, 30);
    while store.index().index_pending(1_000).unwrap() > 0 {}
    let whole = log(&store, other.session());
    let id = head.session().to_string();
    drop(store);
    assert!(is_in(&scene.data(), SECRET.as_bytes()).is_some());

    let removed = purge(&scene, &id);
    assert_eq!(
        (removed.entries, removed.blobs),
        (2 + all_kinds().len() as u64, 1)
    );
    assert_eq!(is_in(&scene.data(), SECRET.as_bytes()), None);
    assert!(is_purged(&scene.data(), &id));
    let store = scene.open();
    assert_gone(&store, &id);
    assert_eq!(store.blob(&blob_ref(BLOB).hash).unwrap(), None);
    assert!(
        store
            .index()
            .search("xyzzy", Scope::All, Order::Newest, 9)
            .unwrap()
            .is_empty()
    );
    assert_eq!(log(&store, other.session()), whole);
    assert_eq!(
        store
            .index()
            .search("words", Scope::All, Order::Newest, 99)
            .unwrap()
            .len(),
        30
    );
    assert_eq!(store.check().quick_check().unwrap(), Vec::<String>::new());
    assert_eq!(store.restore_report().line(), None);
}

#[test]
fn a_purged_session_does_not_return_from_journal_or_old_copy() {
    let scene = Scene::new();
    let mut store = scene.open();
    let purged = talk(&mut store, 9).session().to_string();
    let other = talk(&mut store, 4).session().to_string();
    let whole = log(&store, &other);
    drop(store);
    let older = scene.database();
    let kept = scene.dir.path().join("kept");
    fs::rename(scene.place().folder.join(&purged), &kept).unwrap();
    purge(&scene, &purged);
    // As a kill between the rows and the journal leaves it, or a journal on another disk.
    fs::rename(&kept, scene.place().folder.join(&purged)).unwrap();

    scene.replace_database(None);
    let store = scene.open();
    assert_gone(&store, &purged);
    assert_eq!(log(&store, &other), whole);
    store.check_missing_entries(&other).unwrap();
    drop(store);

    scene.replace_database(Some(&older));
    let store = scene.open();
    assert_gone(&store, &purged);
    assert_eq!(log(&store, &other), whole);
    assert!(!scene.place().folder.join(&purged).exists());
    drop(store);

    scene.replace_database(Some(b"garbage"));
    fs::write(scene.dir.path().join("older.db"), &older).unwrap();
    let from = [scene.dir.path().join("older.db")];
    scene.rebuild(false, &from).unwrap().unwrap();
    let store = scene.open();
    assert_gone(&store, &purged);
    assert_eq!(log(&store, &other), whole);
}

/// The newest rows go, so their ids are used again; those in the middle leave a hole. Neither is
/// taken for a loss later, and a loss is still seen.
#[test]
fn purged_rows_are_not_reported_as_lost() {
    for purges_the_newest in [true, false] {
        let scene = Scene::new();
        let mut store = scene.open();
        let first = talk(&mut store, 9).session().to_string();
        let second = talk(&mut store, 4).session().to_string();
        drop(store);
        let (gone, stays) = match purges_the_newest {
            true => (&second, &first),
            false => (&first, &second),
        };
        purge(&scene, gone);
        let mut store = scene.open();
        assert_eq!(store.restore_report().missing, 0);
        store.check_missing_entries(stays).unwrap();
        let third = talk(&mut store, 3).session().to_string();
        drop(store);
        for _ in 0..2 {
            scene.replace_database(Some(b"garbage"));
            let rebuilt = scene.rebuild(true, &[]);
            assert_eq!(rebuilt.unwrap().unwrap().lost(), 0);
            let store = scene.open();
            assert_eq!(store.restore_report().line(), None);
            store.check_missing_entries(stays).unwrap();
            assert_eq!(log(&store, &third).len(), 4);
        }
    }
}

#[test]
fn forks_keep_what_they_share_with_it() {
    let scene = Scene::new();
    let mut store = scene.open();
    let id = talk(&mut store, 9).session().to_string();
    let forks: Vec<String> = [4, 2, 7, 4]
        .map(|seq| {
            let mut branch = fork(&mut store, &id, seq, 9).unwrap();
            append(&mut store, &mut branch, vec![said("own words")]);
            branch.session().to_string()
        })
        .to_vec();
    let mut deeper = fork(&mut store, &forks[0], 2, 9).unwrap();
    append(&mut store, &mut deeper, vec![said("deeper")]);
    let all: Vec<String> = [forks, vec![deeper.session().to_string()]].concat();
    let logs: Vec<Vec<Record>> = all.iter().map(|fork| log(&store, fork)).collect();
    drop(store);
    let removed = purge(&scene, &id);
    assert_eq!((removed.kept, removed.entries), (8, 2));
    let compare = |scene: &Scene| {
        let store = scene.open();
        assert_gone(&store, &id);
        for (fork, log) in all.iter().zip(&logs) {
            assert_eq!(&self::log(&store, fork), log);
        }
        assert_eq!(store.check().quick_check().unwrap(), Vec::<String>::new());
        assert_eq!(store.restore_report().missing, 0);
        let damage = raw(&scene.data());
        let broken: i64 = damage
            .query_row("SELECT count(*) FROM pragma_foreign_key_check", [], |r| {
                r.get(0)
            })
            .unwrap();
        assert_eq!(broken, 0);
    };
    compare(&scene);
    // The journals of the forks do not need it any more.
    scene.replace_database(None);
    compare(&scene);
    // One of them is purged too.
    purge(&scene, &all[2]);
    let store = scene.open();
    for n in [0, 1, 3, 4] {
        assert_eq!(log(&store, &all[n]), logs[n]);
    }
}

#[test]
fn copies_that_still_have_it_are_named() {
    let scene = Scene::new();
    let mut store = scene.open();
    let id = talk(&mut store, 3).session().to_string();
    drop(store);
    let bytes = scene.database();
    let damaged = scene.data().join("rewake.db.damaged-7");
    fs::write(&damaged, &bytes).unwrap();
    fs::write(scene.data().join("rewake.db.schema-3"), "nothing of it").unwrap();
    assert_eq!(purge(&scene, &id).copies, std::slice::from_ref(&damaged));
    assert_eq!(fs::read(damaged).unwrap(), bytes);
}

#[test]
fn purge_is_refused_while_the_store_is_in_use() {
    let scene = Scene::new();
    let mut store = scene.open();
    let id = talk(&mut store, 3).session().to_string();
    let refused = scene.open().purge(&scene.data(), Some(&scene.place()), &id);
    assert!(matches!(refused, Err(StoreError::InUse { .. })));
    assert!(!is_purged(&scene.data(), &id));
    assert_eq!(log(&store, &id).len(), 4);
}
