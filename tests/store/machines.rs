//! Two machines on one home: what one of them has, the other does not take up.

use std::fs;

use rewake::store::{SessionLock, StoreError};

use crate::scene::Scene;
use crate::story::*;

/// Two machines on one home: a lock of the other one may not be seen here.
#[test]
fn a_session_that_another_machine_had_a_moment_ago_is_refused() {
    let (dir, mut store) = scratch();
    let id = session(&mut store, HERE).session().to_string();
    let path = dir.path().join("locks").join(format!("{id}.lock"));
    let lock = SessionLock::take(dir.path(), &id).unwrap();
    let signed = std::fs::read_to_string(&path).unwrap();
    let ours = signed.split("machine=").nth(1).unwrap();
    let ours = ours.split_whitespace().next().unwrap().to_string();
    drop(lock);
    // As a kill leaves it, and a start of this machine after a power cut.
    let [machine, boot, name] = ours.splitn(3, ':').collect::<Vec<_>>()[..] else {
        panic!("{ours}");
    };
    let later = format!("{machine}:00000000:{name}");
    for here in [&ours, &later] {
        std::fs::write(&path, signed.replace(&ours, here)).unwrap();
        drop(SessionLock::take(dir.path(), &id).unwrap());
    }
    let there = signed.replace(&ours, "00000000:00000000:laptop");
    assert_ne!((machine, boot), ("00000000", "00000000"));
    std::fs::write(&path, &there).unwrap();
    let error = SessionLock::take(dir.path(), &id).unwrap_err();
    let said = error.to_string();
    assert!(matches!(error, StoreError::Elsewhere { .. }), "{said}");
    assert!(
        said.contains("laptop") && said.contains("by process"),
        "{said}"
    );
    let hint = error.hint().unwrap();
    assert!(
        hint.contains(&format!("truncate -s 0 {}", path.display())),
        "{hint}"
    );
    // It is as it was, for the next one who asks.
    assert_eq!(std::fs::read_to_string(&path).unwrap(), there);
    // An older version names no machine; and who was seen long ago is gone.
    let older = there.replace("machine=00000000:00000000:laptop", "");
    std::fs::write(&path, older).unwrap();
    drop(SessionLock::take(dir.path(), &id).unwrap());
    std::fs::write(&path, &there).unwrap();
    let file = std::fs::File::options().write(true).open(&path).unwrap();
    let long_ago = std::time::SystemTime::now() - std::time::Duration::from_secs(600);
    file.set_modified(long_ago).unwrap();
    drop(SessionLock::take(dir.path(), &id).unwrap());
    // What is left of it says nothing more.
    assert!(!std::fs::read_to_string(&path).unwrap().contains("laptop"));
}

#[test]
fn a_store_that_another_machine_wrote_a_moment_ago_is_refused() {
    let scene = Scene::new();
    let mut store = scene.open();
    let id = talk(&mut store, 2).session().to_string();
    store.check_other_machine(&id).unwrap();
    drop(store);
    let marks = fs::read_dir(scene.place().state_dir.join("marks")).unwrap();
    let mark = marks.last().unwrap().unwrap().path();
    let ours = fs::read_to_string(&mark).unwrap();
    let by = ours.lines().nth(3).unwrap();
    let words: Vec<&str> = by.split_whitespace().collect();
    let theirs = |at_ms: i64| {
        let line = format!("by 00000000:00000000:laptop {at_ms}");
        fs::write(&mark, ours.replace(by, &format!("{line:<63}"))).unwrap();
        scene.open().check_other_machine(&id)
    };
    let at_ms: i64 = words[2].parse().unwrap();
    let error = theirs(at_ms).unwrap_err();
    assert!(error.to_string().contains("laptop"), "{error}");
    assert!(error.hint().unwrap().contains("two machines"));
    theirs(at_ms - 600_000).unwrap();
}
