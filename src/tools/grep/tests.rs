//! Tests of `grep`: matches, their form, and the limits of a search.

use std::time::Duration;

use serde_json::{Value, json};

use super::super::Limits;
use super::super::test_support::{ResultRoom, done, error};
use super::*;
use crate::core::entry::Outcome;

fn room() -> ResultRoom {
    let room = ResultRoom::new();
    room.put("b.rs", "fn one() {}\nfn two() {}\n");
    room.put("a/c.rs", "one\ntwo\nthree\nfour\nfive\nsix\none\n");
    room.put("a/d.txt", "ONE\n");
    room.put(".hidden/e.rs", "one\n");
    room.put("out/f.rs", "one\n");
    room.put(".gitignore", "/out\n");
    room
}

fn grep(room: &ResultRoom, arguments: Value) -> String {
    done(&room.idempotent("grep", arguments)).to_string()
}

#[test]
fn hits_stand_under_their_file_in_order() {
    let room = room();
    assert_eq!(
        grep(&room, json!({"pattern": "one"})),
        "a/c.rs\n1:one\n7:one\nb.rs\n1:fn one() {}\n"
    );
    assert_eq!(
        grep(
            &room,
            json!({"pattern": "one", "ignore_case": true, "glob": "*.txt"})
        ),
        "a/d.txt\n1:ONE\n"
    );
    assert_eq!(
        grep(&room, json!({"pattern": "one", "files_only": true})),
        "a/c.rs\nb.rs\n"
    );
    assert_eq!(
        grep(&room, json!({"pattern": "one", "path": "a", "context": 1})),
        "a/c.rs\n1:one\n2-two\n--\n6-six\n7:one\n"
    );
    assert_eq!(
        grep(
            &room,
            json!({"pattern": "one", "glob": "a/**/*.rs", "limit": 1})
        ),
        "a/c.rs\n1:one\n[1 shown, 1 more: narrow the pattern, path or glob]\n"
    );
}

#[test]
fn hidden_and_ignored_files_are_searched_when_named() {
    let room = room();
    for path in [".hidden", ".hidden/e.rs", "out", "out/f.rs"] {
        let text = grep(&room, json!({"pattern": "one", "path": path}));
        assert!(text.ends_with(".rs\n1:one\n"), "{path}: {text}");
    }
}

#[test]
fn grep_does_not_search_files_that_a_rule_hides() {
    let mut room = room();
    room.hide(&["Read(a/**)", "Read(.hidden)"]);
    assert_eq!(
        grep(&room, json!({"pattern": "one"})),
        "b.rs\n1:fn one() {}\n"
    );
    for path in ["a", ".hidden"] {
        let text = grep(&room, json!({"pattern": "one", "path": path}));
        assert!(text.ends_with("files searched: 0\n"), "{path}: {text}");
    }
}

#[test]
fn nothing_found_says_where_it_looked() {
    let room = room();
    let text = grep(&room, json!({"pattern": "absent"}));
    assert_eq!(
        text,
        "no match for absent in .; files searched: 3\n\
         [not searched: ignored: out; hidden: .gitignore, .hidden; name one as path to search it]\n"
    );
    let refused = |arguments| error(&room.idempotent("grep", arguments)).to_string();
    assert!(refused(json!({"pattern": "("})).contains("cannot be used"));
    assert!(refused(json!({"pattern": "a\nb"})).contains("one by one"));
    assert!(refused(json!({"pattern": ""})).contains("empty"));
    assert!(refused(json!({"pattern": "a", "glob": "["})).contains("glob"));
    assert!(refused(json!({"pattern": "a", "path": "b.rx"})).contains("near names"));
    assert!(refused(json!({"pattern": "a", "path": "/dev/zero"})).contains("a device"));
}

#[test]
fn anchors_are_those_of_each_line() {
    let room = ResultRoom::new();
    room.put("lf", "one two\ntwo one\n");
    room.put("crlf", "one two\r\ntwo one\r\n");
    for (pattern, line) in [
        ("^two", "2:two one"),
        ("two$", "1:one two"),
        ("^one two$", "1:one two"),
    ] {
        let text = grep(&room, json!({"pattern": pattern}));
        assert_eq!(text, format!("crlf\n{line}\nlf\n{line}\n"), "{pattern}");
    }
    assert!(grep(&room, json!({"pattern": "^$"})).starts_with("no match"));
}

#[test]
fn any_file_can_be_searched() {
    let room = ResultRoom::new();
    room.put("binary", b"one\0one\n");
    room.put("crlf", "one\r\n");
    room.put("latin1", b"one caf\xe9\n");
    let text = grep(&room, json!({"pattern": "one$|caf"}));
    assert_eq!(
        text,
        "crlf\n1:one\nlatin1\n1:one caf\u{fffd}\n[1 binary file was not searched to its end]\n"
    );
}

#[test]
fn a_long_line_is_shown_around_the_hit() {
    let room = ResultRoom::new();
    room.put(
        "a",
        format!("{}needle{}\n", "é".repeat(5_000), "é".repeat(5_000)),
    );
    let text = grep(&room, json!({"pattern": "needle"}));
    let line = text.lines().nth(1).unwrap();
    assert!(line.starts_with("1:…é") && line.ends_with("é…"), "{line}");
    assert!(line.contains("needle") && line.chars().count() <= MAX_LINE_CHARS + 4);
    assert!(!line.contains('\u{fffd}'));
}

#[test]
fn many_hits_are_counted_and_the_text_has_a_bound() {
    let room = ResultRoom::new();
    room.put("a", "hit\n".repeat(500));
    let text = grep(&room, json!({"pattern": "hit"}));
    assert!(text.ends_with("\n200:hit\n[200 shown, 300 more: narrow the pattern, path or glob]\n"));
    room.put("b", format!("{}\n", "hit ".repeat(70)).repeat(20_000));
    let text = grep(
        &room,
        json!({"pattern": "hit", "limit": 1_000, "path": "b"}),
    );
    assert!(text.len() <= room.ctx.inline_max_bytes);
    assert!(
        text.contains("shown, over "),
        "{}",
        &text[text.len() - 100..]
    );
}

#[test]
fn a_search_that_is_stopped_says_where() {
    let mut room = room();
    // The limit allows two files, not the third.
    room.ctx.limits.bytes = 40;
    let text = grep(&room, json!({"pattern": "two|ONE"}));
    assert_eq!(
        text,
        "a/c.rs\n2:two\na/d.txt\n1:ONE\nb.rs\n2:fn two() {}\n\
         [stopped after 40 bytes, at b.rs: what comes after it was not searched; name a \
         folder below as path, or a narrower pattern or glob]\n"
    );
    room.ctx.limits = Limits {
        time: Duration::ZERO,
        ..Limits::TOOL
    };
    for path in [".", "b.rs"] {
        let text = grep(&room, json!({"pattern": "one", "path": path}));
        assert!(text.contains("[stopped after 0 s, at "), "{text}");
    }
}

#[test]
fn a_line_without_end_is_not_searched() {
    let room = ResultRoom::new();
    room.put(
        "a",
        "one\n".to_string() + &"x".repeat(MAX_LINE_BYTES + 1) + "\none\n",
    );
    room.put("b", "one\n");
    assert_eq!(
        grep(&room, json!({"pattern": "one"})),
        "a\n1:one\nb\n1:one\n[1 file with a line of over 1 MiB was not searched to its end: a; search \
         there with a command]\n"
    );
}

#[test]
fn grep_refuses_a_file_that_is_not_regular() {
    let room = ResultRoom::new();
    let made = std::process::Command::new("mkfifo")
        .arg(room.path("fifo"))
        .status();
    assert!(made.unwrap().success());
    for (path, what) in [("fifo", "a FIFO"), ("/dev/zero", "a device")] {
        let ran = room.idempotent("grep", json!({"pattern": "one", "path": path}));
        assert!(error(&ran).contains(what), "{ran:?}");
    }
    assert!(grep(&room, json!({"pattern": "one"})).contains("files searched: 0"));
}

#[test]
fn a_search_that_is_cancelled_ends() {
    let room = room();
    let cancel = AtomicBool::new(true);
    let ran = room.looked("grep", json!({"pattern": "one"}), &cancel);
    assert!(matches!(ran.outcome, Outcome::Interrupted { .. }));
}

#[test]
fn how_much_was_found_is_read_from_the_report() {
    let room = room();
    for (arguments, want) in [
        (json!({"pattern": "one"}), 3),
        (json!({"pattern": "one", "files_only": true}), 2),
        (json!({"pattern": "one", "path": "a", "context": 1}), 2),
        (
            json!({"pattern": "one", "glob": "a/**/*.rs", "limit": 1}),
            2,
        ),
        (json!({"pattern": "absent"}), 0),
    ] {
        let report = grep(&room, arguments);
        assert_eq!(hits(&report), want, "{report}");
    }
}
