//! The head moves by compare-and-swap: of two who append to one session, one loses and
//! knows it, and nothing is lost.

use std::fs::File;
use std::io::Write;
use std::process::Command;
use std::sync::Barrier;
use std::thread;
use std::time::Duration;

use rewake::core::entry::Entry;
use rewake::store::{SessionLock, Store, StoreError};

use crate::story::*;

#[test]
fn appended_entries_are_loaded_as_they_were() {
    let (dir, mut store) = scratch();
    let mut head = session(&mut store, HERE);
    let given = store.append(&mut head, &batch(all_kinds())).unwrap();
    let (loaded, records) = Store::open(dir.path())
        .unwrap()
        .load(head.session())
        .unwrap();
    assert_eq!(records[1..], given);
    let places: Vec<u64> = records.iter().map(|r| r.seq).collect();
    assert_eq!(places, (0..=all_kinds().len() as u64).collect::<Vec<_>>());
    assert_eq!(loaded, head);
}

#[test]
fn the_second_to_append_has_to_load_again() {
    let (dir, mut store) = scratch();
    let mut head = talk(&mut store, 1);
    let mut other = Store::open(dir.path()).unwrap();
    let (mut old, _) = other.load(head.session()).unwrap();
    append(&mut store, &mut head, vec![said("first")]);
    let before = old.clone();
    let lost = other.append(&mut old, &batch(vec![said("second")]));
    assert!(
        matches!(lost, Err(StoreError::HeadMoved { .. })),
        "{lost:?}"
    );
    assert_eq!(old, before);
    let (mut head, records) = other.load(head.session()).unwrap();
    assert_eq!(said_texts(&records), ["words 1", "first"]);
    append(&mut other, &mut head, vec![said("second")]);
}

#[test]
fn two_racing_writers_lose_no_entries() {
    const EACH: usize = 40;
    let (dir, mut store) = scratch();
    let id = session(&mut store, HERE).session().to_string();
    let start = Barrier::new(2);
    let race = |name: &'static str| {
        let mut store = Store::open(dir.path()).unwrap();
        let (mut head, _) = store.load(&id).unwrap();
        start.wait();
        let mut lost = 0;
        for i in 0..EACH {
            let words = batch(vec![said(&format!("{name} {i}"))]);
            while let Err(e) = store.append(&mut head, &words) {
                assert!(matches!(e, StoreError::HeadMoved { .. }), "{e}");
                lost += 1;
                head = store.load(&id).unwrap().0;
            }
        }
        lost
    };
    let lost: usize = thread::scope(|s| {
        let a = s.spawn(|| race("a"));
        let b = s.spawn(|| race("b"));
        a.join().unwrap() + b.join().unwrap()
    });
    assert!(lost > 0, "they never met");
    let (_, records) = store.load(&id).unwrap();
    let texts = said_texts(&records);
    for name in ["a", "b"] {
        let own: Vec<&&str> = texts.iter().filter(|t| t.starts_with(name)).collect();
        let expected: Vec<String> = (0..EACH).map(|i| format!("{name} {i}")).collect();
        assert!(
            own.iter()
                .map(|t| **t)
                .eq(expected.iter().map(String::as_str))
        );
    }
}

#[test]
fn a_batch_without_entries_only_settles_the_rest() {
    let (_dir, mut store) = scratch();
    let mut head = talk(&mut store, 1);
    let mut settle = batch(vec![]);
    settle.unfinished = true;
    store.append(&mut head, &settle).unwrap();
    assert!(store.history().find(head.session()).unwrap().unfinished);
    assert_eq!(store.load(head.session()).unwrap().1.len(), 2);
}

#[test]
fn a_session_lock_is_exclusive() {
    let (dir, mut store) = scratch();
    let id = session(&mut store, HERE).session().to_string();
    let lock = SessionLock::take(dir.path(), &id).unwrap();
    let Err(StoreError::Held { pid, since_ms, .. }) = SessionLock::take(dir.path(), &id) else {
        panic!("taken twice");
    };
    assert_eq!(pid, Some(std::process::id()));
    assert!(since_ms.is_some());
    drop(lock);
    SessionLock::take(dir.path(), &id).unwrap();
    let outside = SessionLock::take(dir.path(), "../../etc/passwd");
    assert!(matches!(outside, Err(StoreError::NotFound { .. })));
}

/// A process that is killed while it starts another one leaves its locks to that for a moment.
#[test]
fn the_lock_of_a_process_that_is_gone_is_waited_for() {
    let (dir, mut store) = scratch();
    let id = session(&mut store, HERE).session().to_string();
    let path = dir.path().join("locks").join(format!("{id}.lock"));
    let mut gone = Command::new("true").spawn().unwrap();
    gone.wait().unwrap();
    let holds = |pid: u32| {
        drop(SessionLock::take(dir.path(), &id).unwrap());
        let mut held = File::options().write(true).open(&path).unwrap();
        held.try_lock().unwrap();
        held.write_all(format!("{pid} 1 a-file\n").as_bytes())
            .unwrap();
        held
    };
    let held = holds(gone.id());
    thread::scope(|scope| {
        scope.spawn(move || {
            thread::sleep(Duration::from_millis(300));
            drop(held);
        });
        SessionLock::take(dir.path(), &id).unwrap();
    });
    // One that lives is named at once.
    let held = holds(std::process::id());
    let refused = SessionLock::take(dir.path(), &id);
    assert!(matches!(
        refused,
        Err(StoreError::Held { pid: Some(_), .. })
    ));
    drop(held);
}

#[test]
fn an_entry_is_what_lists_need() {
    let (_dir, mut store) = scratch();
    let mut head = session(&mut store, HERE);
    append(&mut store, &mut head, vec![said("\n fix  the parser\nnow")]);
    append(&mut store, &mut head, vec![said("later words")]);
    let title = |store: &Store| store.history().find(head.session()).unwrap().title.unwrap();
    assert_eq!(title(&store), "fix the parser now");
    let mut head = head.clone();
    append(
        &mut store,
        &mut head,
        vec![Entry::Named {
            title: "Parser".into(),
        }],
    );
    assert_eq!(title(&store), "Parser");
}
