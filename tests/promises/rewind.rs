//! Files are restored, but not those that the user changed.

use std::fs;

use serde_json::{Value, json};

use crate::scenes::rewind::*;

#[test]
fn edits_by_hand_stay_or_are_put_onto_what_it_was() {
    let home = rewriting(&[
        ("both", "1\n2\n3\n4\n5\nby the call\n"),
        ("lines", "call\n2\n"),
        ("made", "by the call\n"),
    ]);
    fs::write(home.path("both"), "1\n2\n3\n4\n5\n6\n").unwrap();
    fs::write(home.path("lines"), "1\n2\n").unwrap();
    fs::write(home.path("mine"), "1\n").unwrap();
    let (id, at) = played(&home);
    fs::write(home.path("both"), "mine\n2\n3\n4\n5\nby the call\n").unwrap();
    fs::write(home.path("lines"), "mine\n2\n").unwrap();
    fs::write(home.path("made"), "and by me\n").unwrap();
    fs::write(home.path("mine"), "2\n").unwrap();
    fs::write(home.path("new"), "n\n").unwrap();
    let done = rewind(&home, &[&id, &at, "--files", "--yes", "--json"], 1);
    assert_eq!(home.read("both"), "mine\n2\n3\n4\n5\n6\n");
    assert_eq!(home.read("lines"), "mine\n2\n");
    assert_eq!(home.read("made"), "and by me\n");
    assert_eq!(
        (home.read("mine"), home.read("new")),
        ("2\n".into(), "n\n".into())
    );
    let said: Value = serde_json::from_str(&done.stdout).unwrap();
    let kept = |path: &str| {
        let kept = said["kept"].as_array().unwrap();
        let found = kept.iter().find(|kept| kept["path"] == path);
        found.map_or(Value::Null, |kept| kept["why"].clone())
    };
    assert_eq!(
        (kept("lines"), kept("made")),
        (json!("conflict"), json!("conflict"))
    );
    assert_eq!(
        (kept("mine"), kept("new")),
        (json!("yours"), json!("yours"))
    );
    // All of it, as it was: what was made by hand too.
    rewind(&home, &[&id, &at, "--files", "--exact", "--yes"], 0);
    assert_eq!(
        (home.read("lines"), home.read("mine")),
        ("1\n2\n".into(), "1\n".into())
    );
    assert!(!home.path("made").exists());
    rewind(&home, &[&id, "--redo", "--yes"], 0);
    assert_eq!(
        (home.read("made"), home.read("new")),
        ("and by me\n".into(), "n\n".into())
    );
}
