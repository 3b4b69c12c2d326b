//! Tests of restores: who changed a path, and its target state. Tables, and random histories.

use proptest::prelude::*;

use super::*;
use crate::core::entry::{CallId, Entry, Fact, Guard, Outcome, Record, SaveReason, UnrestoredPath};
use crate::core::file_clock::FileClock;
use crate::core::tree::{Change, Delta};

fn file(name: &str) -> Item {
    Item::File {
        mode: 0o644,
        hash: hash(name),
        bytes: name.len() as u64,
    }
}

/// Two contents that begin with the same letters have the same lines.
fn hash(name: &str) -> ContentHash {
    let mut hash = [0; 32];
    for (place, byte) in name.bytes().take(32).enumerate() {
        hash[place] = byte;
    }
    hash
}

fn tree(items: &[(&str, &str)]) -> Tree {
    let items = items
        .iter()
        .map(|(path, name)| (path.as_bytes().to_vec(), file(name)));
    Tree(items.collect())
}

fn written(path: &str, before: Option<&str>, after: &str) -> Cause {
    let hex = |name: &str| super::changes::hex(&hash(name));
    Cause::Calls {
        written: vec![Written {
            path: format!("/w/{path}"),
            before: before.map(hex),
            after: hex(after),
        }],
        command_ended: None,
    }
}

const END: CommandEnd = CommandEnd {
    at_ms: 1_000,
    clock: None,
};

const COMMAND: Cause = Cause::Calls {
    written: Vec::new(),
    command_ended: Some(END),
};

fn changes(start: &Tree, steps: &[(Tree, Cause)]) -> Changes {
    let mut changes = Changes::new("/w", start.clone());
    for (tree, cause) in steps {
        let delta = super::super::tree::diff(changes.now(), tree);
        changes.add(&delta, true, (cause, Maker::default()), Some(tree));
    }
    changes
}

/// The time of a file, on the clock of the machine.
fn time(changed_ms: i64) -> FileTime {
    FileTime {
        changed_ms,
        clock: Some(FileClock {
            ahead_ms: 0,
            booted_ms: None,
        }),
        is_in_root: true,
    }
}

#[derive(Default)]
struct Asked {
    whole: bool,
    allowed: BTreeSet<PathBytes>,
    chosen: BTreeMap<PathBytes, PathChoice>,
    changed_ms: Option<i64>,
}

fn planned(changes: &Changes, asked: &Asked) -> Plan {
    // Contents are merged by their names: "ab" and "ac" onto "a" collide, "a+x" is `x` added.
    let mut merge = |base: &ContentHash, ours: &ContentHash, theirs: &ContentHash| {
        let text = |hash: &ContentHash| {
            let text: Vec<u8> = hash.iter().copied().take_while(|b| *b != 0).collect();
            String::from_utf8(text).unwrap()
        };
        let (base, ours, theirs) = (text(base), text(ours), text(theirs));
        let added = ours.strip_prefix(&base)?.strip_prefix('+')?.to_string();
        let made = format!("{theirs}+{added}");
        Some((hash(&made), made.len() as u64))
    };
    plan(
        changes,
        &mut RestoreOptions {
            whole: asked.whole,
            only: None,
            allowed: &asked.allowed,
            chosen: &asked.chosen,
            is_protected: &|path| path.ends_with(".bashrc"),
            file_time: &|_| asked.changed_ms.map(time),
            merge: &mut merge,
        },
    )
}

#[track_caller]
fn check(start: &[(&str, &str)], steps: &[(Tree, Cause)], target: &[(&str, &str)]) -> Plan {
    let changes = changes(&tree(start), steps);
    let plan = planned(&changes, &Asked::default());
    assert_eq!(plan.target, tree(target), "{:?}", plan.kept);
    plan
}

#[track_caller]
fn is_kept(plan: &Plan, path: &str, why: KeptWhy) {
    assert_eq!(
        plan.kept.get(path.as_bytes()),
        Some(&why),
        "{:?}",
        plan.kept
    );
}

#[test]
fn rewind_undoes_writes_of_calls_and_removes_created_files() {
    let steps = [
        (tree(&[("a", "2")]), written("a", Some("1"), "2")),
        (tree(&[("a", "2"), ("n", "new")]), written("n", None, "new")),
    ];
    let plan = check(&[("a", "1")], &steps, &[("a", "1")]);
    assert!(plan.kept.is_empty());
}

#[test]
fn rewind_keeps_changes_by_others() {
    let steps = [
        (tree(&[("a", "2"), ("b", "x")]), Cause::Outside),
        (tree(&[("a", "2")]), Cause::Outside),
    ];
    let plan = check(&[("a", "1"), ("b", "x")], &steps, &[("a", "2")]);
    is_kept(&plan, "a", KeptWhy::Yours);
    is_kept(&plan, "b", KeptWhy::Yours);
}

#[test]
fn a_choice_for_a_path_wins_but_a_protected_path_needs_approval() {
    let last = [("a", "2"), ("b", "mine"), ("d/x", "2"), ("d/y", "2")];
    let steps = [
        (
            tree(&[("a", "2"), ("b", "1"), ("d/x", "2"), ("d/y", "2")]),
            Cause::Calls {
                written: [("a", "1"), ("d/x", "1"), ("d/y", "1")]
                    .map(|(path, before)| Written {
                        path: format!("/w/{path}"),
                        before: Some(super::changes::hex(&hash(before))),
                        after: super::changes::hex(&hash("2")),
                    })
                    .into(),
                command_ended: None,
            },
        ),
        (tree(&last), Cause::Outside),
        (
            tree(&[&last[..], &[("made", "c"), (".bashrc", "c")]].concat()),
            COMMAND,
        ),
    ];
    let start = [("a", "1"), ("b", "1"), ("d/x", "1"), ("d/y", "1")];
    let changes = changes(&tree(&start), &steps);
    let path = |path: &str| path.as_bytes().to_vec();
    let mut asked = Asked {
        chosen: BTreeMap::from([
            (path("a"), PathChoice::Keep),
            (path("b"), PathChoice::Take),
            (path("d"), PathChoice::Keep),
            (path("d/y"), PathChoice::Take),
            (path("made"), PathChoice::Take),
            (path(".bashrc"), PathChoice::Take),
        ]),
        ..Asked::default()
    };
    let plan = planned(&changes, &asked);
    let target = [("a", "2"), ("b", "1"), ("d/x", "2"), ("d/y", "1")];
    assert_eq!(
        plan.target,
        tree(&[&target[..], &[(".bashrc", "c")]].concat())
    );
    is_kept(&plan, "a", KeptWhy::Chosen);
    is_kept(&plan, "d/x", KeptWhy::Chosen);
    // A choice does not replace a separate approval.
    is_kept(&plan, ".bashrc", KeptWhy::Protected);
    asked.allowed.insert(path(".bashrc"));
    assert_eq!(planned(&changes, &asked).target, tree(&target));
    assert_eq!(plan.fixed, BTreeSet::new());
}

#[test]
fn a_path_that_only_became_covered_stays_despite_a_choice() {
    let mut changes = Changes::new("/w", tree(&[]));
    let delta = super::super::tree::diff(changes.now(), &tree(&[("n", "new")]));
    // It is not known whether it was there.
    changes.add(&delta, false, (&Cause::Outside, Maker::default()), None);
    let asked = Asked {
        chosen: BTreeMap::from([(b"n".to_vec(), PathChoice::Take)]),
        ..Asked::default()
    };
    let plan = planned(&changes, &asked);
    is_kept(&plan, "n", KeptWhy::Entered);
    assert!(plan.fixed.contains(b"n".as_slice()));
}

#[test]
fn where_both_changed_it_theirs_is_put_onto_what_it_was_or_stays() {
    let by_both = |last: &str| {
        [
            (tree(&[("a", "12")]), written("a", Some("1"), "12")),
            (tree(&[("a", last)]), Cause::Outside),
        ]
    };
    let plan = check(&[("a", "1")], &by_both("12+mine"), &[("a", "1+mine")]);
    assert!(plan.merged.contains(b"a".as_slice()));
    let plan = check(&[("a", "1")], &by_both("other"), &[("a", "other")]);
    is_kept(&plan, "a", KeptWhy::Conflict);
}

#[test]
fn a_file_of_a_call_that_somebody_else_changed_is_not_removed() {
    let steps = [
        (tree(&[("n", "new")]), written("n", None, "new")),
        (tree(&[("n", "mine")]), Cause::Outside),
    ];
    let plan = check(&[], &steps, &[("n", "mine")]);
    is_kept(&plan, "n", KeptWhy::Conflict);
    // The call wrote onto a file that did not exist at the last look.
    let steps = [(tree(&[("n", "new")]), written("n", Some("theirs"), "new"))];
    let plan = check(&[], &steps, &[("n", "new")]);
    is_kept(&plan, "n", KeptWhy::Yours);
}

#[test]
fn rewind_undoes_command_changes_but_keeps_new_files() {
    let steps = [(tree(&[("a", "2"), ("n", "new")]), COMMAND)];
    let plan = check(&[("a", "1")], &steps, &[("a", "1"), ("n", "new")]);
    assert!(plan.of_commands.contains(b"a".as_slice()));
    is_kept(&plan, "n", KeptWhy::Command);
}

/// A restored change counts as if it had not happened: if a command created the path then, that is
/// not a reason to leave what a call creates there now.
#[test]
fn a_restored_command_change_does_not_keep_a_file_of_a_call() {
    let restored = Cause::Restored {
        target: String::new(),
    };
    let steps = [
        (tree(&[("n", "1")]), COMMAND),
        (tree(&[]), restored),
        (tree(&[("n", "2")]), written("n", None, "2")),
    ];
    check(&[], &steps, &[]);
}

#[test]
fn a_change_after_a_command_ended_is_not_attributed_to_it() {
    let changes = changes(&tree(&[("a", "1")]), &[(tree(&[("a", "2")]), COMMAND)]);
    let at = |changed_ms| Asked {
        changed_ms: Some(changed_ms),
        ..Asked::default()
    };
    assert_eq!(planned(&changes, &at(1_200)).target, tree(&[("a", "1")]));
    let plan = planned(&changes, &at(9_000));
    assert_eq!(plan.target, tree(&[("a", "2")]));
    is_kept(&plan, "a", KeptWhy::Yours);
}

#[test]
fn a_change_restored_twice_has_the_time_of_the_last_restore() {
    let restored = Cause::Restored {
        target: String::new(),
    };
    let (old, new) = (tree(&[("a", "1")]), tree(&[("a", "2")]));
    let steps = [
        (new.clone(), COMMAND),
        (old.clone(), restored.clone()),
        (new, restored),
    ];
    let changes = changes(&old, &steps);
    let asked = Asked {
        changed_ms: Some(9_000),
        ..Asked::default()
    };
    assert_eq!(planned(&changes, &asked).target, old);
}

#[test]
fn all_of_it_is_another_matter_but_for_what_may_have_been_there() {
    let start = tree(&[("a", "1"), ("b", "1")]);
    let mut changes = Changes::new("/w", start.clone());
    let next = tree(&[("a", "2"), ("n", "new")]);
    let delta = super::super::tree::diff(&start, &next);
    changes.add(&delta, true, (&Cause::Outside, Maker::default()), None);
    let entered = Change::Put {
        item: file("old"),
        entered: true,
    };
    let delta = Delta([(b"ignored".to_vec(), entered)].into());
    changes.add(&delta, true, (&Cause::Outside, Maker::default()), None);
    let unclear = super::super::tree::diff(changes.now(), &{
        let mut tree = changes.now().clone();
        tree.0.insert(b"unclear".to_vec(), file("u"));
        tree
    });
    changes.add(&unclear, false, (&Cause::Outside, Maker::default()), None);
    let whole = Asked {
        whole: true,
        ..Asked::default()
    };
    let plan = planned(&changes, &whole);
    let want = tree(&[("a", "1"), ("b", "1"), ("ignored", "old"), ("unclear", "u")]);
    assert_eq!(plan.target, want);
    is_kept(&plan, "ignored", KeptWhy::Entered);
    is_kept(&plan, "unclear", KeptWhy::Entered);
}

#[test]
fn protected_and_outside_paths_need_an_answer_and_version_control_has_none() {
    let start = tree(&[(".bashrc", "1"), ("/etc/x", "1"), ("sub/.GIT/config", "1")]);
    let next = tree(&[(".bashrc", "2"), ("/etc/x", "2"), ("sub/.GIT/config", "2")]);
    let changes = changes(&start, &[(next.clone(), COMMAND)]);
    for whole in [false, true] {
        let asked = Asked {
            whole,
            ..Asked::default()
        };
        let plan = planned(&changes, &asked);
        assert_eq!(plan.target, next);
        is_kept(&plan, ".bashrc", KeptWhy::Protected);
        is_kept(&plan, "/etc/x", KeptWhy::Outside);
        is_kept(&plan, "sub/.GIT/config", KeptWhy::VersionControl);
    }
    let allowed = [".bashrc", "/etc/x", "sub/.GIT/config"];
    let asked = Asked {
        allowed: allowed.map(|path| path.as_bytes().to_vec()).into(),
        ..Asked::default()
    };
    let want = tree(&[(".bashrc", "1"), ("/etc/x", "1"), ("sub/.GIT/config", "2")]);
    assert_eq!(planned(&changes, &asked).target, want);
}

#[test]
fn a_file_is_not_set_back_where_a_folder_of_others_is() {
    let steps = [
        (tree(&[]), written("p", Some("1"), "2")),
        (tree(&[("p/mine", "m")]), Cause::Outside),
    ];
    // A call cannot remove a file: a command did.
    let mut steps = steps;
    steps[0].1 = COMMAND;
    let plan = check(&[("p", "1")], &steps, &[("p/mine", "m")]);
    is_kept(&plan, "p", KeptWhy::Folder);
}

/// One command replaced a file with a folder, or a folder with a file or a link: both are undone.
/// A file of somebody else in the way stays.
#[test]
fn what_a_command_made_in_place_of_a_file_or_folder_makes_room() {
    for (start, now) in [
        (&[("x", "1")][..], &[("x/y", "2"), ("x/z/a", "3")][..]),
        (&[("x/y", "1"), ("x/z/a", "1")], &[("x", "2")]),
        (&[("x/y", "1")], &[("x", "2"), ("z/y", "1")]),
    ] {
        check(start, &[(tree(now), COMMAND)], start);
        // Not if nobody knows who made it.
        let changes = changes(&tree(start), &[(tree(now), Cause::Outside)]);
        assert_eq!(planned(&changes, &Asked::default()).target, tree(now));
    }
    let now = tree(&[("x/y", "2")]);
    let theirs = tree(&[("x/y", "2"), ("x/mine", "m")]);
    let steps = [(now, COMMAND), (theirs, Cause::Outside)];
    let plan = check(&[("x", "1")], &steps, &[("x/y", "2"), ("x/mine", "m")]);
    is_kept(&plan, "x", KeptWhy::Folder);
    is_kept(&plan, "x/y", KeptWhy::Command);
    let steps = [(tree(&[]), COMMAND), (tree(&[("x", "m")]), Cause::Outside)];
    let plan = check(&[("x/y", "1")], &steps, &[("x", "m")]);
    is_kept(&plan, "x/y", KeptWhy::Way);
}

/// Only a missing content at the start forbids a restore.
#[test]
fn a_file_or_folder_that_a_command_made_unreadable_is_restored() {
    let unreadable = Item::Marker {
        why: super::super::tree::Marked::Unreadable,
        bytes: 0,
        mtime_ms: 0,
        hash: None,
    };
    let with = |path: &str| Tree([(path.as_bytes().to_vec(), unreadable.clone())].into());
    for (start, hidden) in [("x", "x"), ("d/x", "d")] {
        let changes = changes(&tree(&[(start, "1")]), &[(with(hidden), COMMAND)]);
        let plan = planned(&changes, &Asked::default());
        assert_eq!(plan.target, tree(&[(start, "1")]), "{:?}", plan.kept);
    }
    // Nothing was there, so nothing is removed.
    let changes = changes(&tree(&[]), &[(with("x"), COMMAND)]);
    for whole in [false, true] {
        let asked = Asked {
            whole,
            ..Asked::default()
        };
        let plan = planned(&changes, &asked);
        assert_eq!(plan.target, with("x"));
        is_kept(&plan, "x", KeptWhy::Marker);
    }
}

#[test]
fn markers_stay() {
    let marker = |bytes| Item::Marker {
        why: super::super::tree::Marked::Secret,
        bytes,
        mtime_ms: 0,
        hash: None,
    };
    let with = |bytes| Tree([(b".env".to_vec(), marker(bytes))].into());
    let changes = changes(&with(1), &[(with(2), COMMAND)]);
    let plan = planned(&changes, &Asked::default());
    assert_eq!(plan.target, with(2));
    is_kept(&plan, ".env", KeptWhy::Marker);
}

fn record(seq: u64, entry: Entry) -> Record {
    Record {
        seq,
        at_ms: seq as i64 * 1_000,
        entry,
    }
}

fn saved(tree: &str) -> Entry {
    Entry::Saved {
        reason: SaveReason::Files,
        tree: Some(tree.into()),
        why: None,
        clock: None,
    }
}

/// The model makes `2` of `f`, the user makes `theirs` of that, and a command leaves `left`.
fn after_both(start: &[(&str, &str)], theirs: &str, left: &[(&str, &str)]) -> Vec<(Tree, Cause)> {
    let others = start.iter().filter(|(path, _)| *path != "f");
    let with = |content| {
        tree(
            &others
                .clone()
                .copied()
                .chain([("f", content)])
                .collect::<Vec<_>>(),
        )
    };
    let before = start
        .iter()
        .find(|(path, _)| *path == "f")
        .map(|(_, content)| *content);
    vec![
        (with("2"), written("f", before, "2")),
        (with(theirs), Cause::Outside),
        (tree(left), COMMAND),
    ]
}

#[test]
fn changes_by_others_to_a_file_a_command_removed_are_kept() {
    let kept = "f.rewake-kept";
    // rm, git stash, mv, and mv onto another file.
    type Files<'a> = &'a [(&'a str, &'a str)];
    let cases: [(Files<'static>, Files<'static>, Files<'static>); 5] = [
        (&[("f", "1")], &[], &[("f", "1")]),
        (&[("f", "1")], &[("f", "1")], &[("f", "1")]),
        (&[("f", "1")], &[("g", "theirs")], &[("f", "1")]),
        (
            &[("f", "1"), ("g", "0")],
            &[("g", "theirs")],
            &[("f", "1"), ("g", "0")],
        ),
        // One that a call created.
        (&[], &[], &[]),
    ];
    for (start, left, target) in cases {
        let with_kept = [target, &[(kept, "theirs")]].concat();
        let mut steps = after_both(start, "theirs", left);
        let plan = check(start, &steps, &with_kept);
        assert!(plan.beside.contains(kept.as_bytes()) && plan.fixed.contains(kept.as_bytes()));
        // No later rewind takes that away, be it to the same place or to an earlier one.
        let restored = Cause::Restored {
            target: String::new(),
        };
        steps.push((tree(&with_kept), restored));
        check(start, &steps, &with_kept);
        if left != start {
            let only_the_last = [(
                tree(&with_kept),
                Cause::Restored {
                    target: String::new(),
                },
            )];
            let plan = planned(&changes(&tree(left), &only_the_last), &Asked::default());
            assert_eq!(plan.target.0.get(kept.as_bytes()), Some(&file("theirs")));
        }
        // As it was is as it was.
        let all = Asked {
            whole: true,
            ..Asked::default()
        };
        let changes = changes(&tree(start), &after_both(start, "theirs", left));
        assert_eq!(planned(&changes, &all).target, tree(start));
        // Changes that fit are merged. Nothing fits into a file that did not exist.
        if !start.is_empty() {
            let fitting = |files: Files<'static>, from: &str, to: &'static str| {
                let files = files.iter().map(|(path, content)| {
                    if *content == from {
                        (*path, to)
                    } else {
                        (*path, *content)
                    }
                });
                files.collect::<Vec<_>>()
            };
            let steps = after_both(start, "2+u", &fitting(left, "theirs", "2+u"));
            let plan = check(start, &steps, &fitting(target, "1", "1+u"));
            assert!(plan.beside.is_empty());
        }
    }
}

#[test]
fn a_name_that_is_taken_is_not_given_to_what_others_made() {
    let start = [("f", "1"), ("f.rewake-kept", "mine")];
    let steps = after_both(&start, "theirs", &[("f.rewake-kept", "mine")]);
    let target = [
        ("f", "1"),
        ("f.rewake-kept", "mine"),
        ("f.rewake-kept-1", "theirs"),
    ];
    check(&start, &steps, &target);
}

#[test]
fn a_file_that_was_renamed_goes_only_when_it_is_back_and_nobody_changed_it_since() {
    let moved = (tree(&[("g", "1")]), COMMAND);
    let only = std::slice::from_ref(&moved);
    check(&[("f", "1")], only, &[("f", "1")]);
    // By somebody else.
    let steps = [moved.clone(), (tree(&[("g", "2")]), Cause::Outside)];
    let plan = check(&[("f", "1")], &steps, &[("f", "1"), ("g", "2")]);
    is_kept(&plan, "g", KeptWhy::Conflict);
    // By a call.
    let steps = [
        moved.clone(),
        (tree(&[("g", "2")]), written("g", Some("1"), "2")),
    ];
    check(&[("f", "1")], &steps, &[("f", "1")]);
    // The old name stays gone.
    let changes = changes(&tree(&[("f", "1")]), &[moved]);
    let asked = Asked {
        chosen: BTreeMap::from([(b"f".to_vec(), PathChoice::Keep)]),
        ..Asked::default()
    };
    assert_eq!(planned(&changes, &asked).target, tree(&[("g", "1")]));
    // Of two that may have been it, neither is.
    let two = (tree(&[("g", "1"), ("h", "1")]), COMMAND);
    check(&[("f", "1")], &[two], &[("f", "1"), ("g", "1"), ("h", "1")]);
}

#[test]
fn the_log_says_who_made_each_tree() {
    let call = |index| CallId { reply: 0, index };
    let started = |index, guard| Entry::Started {
        call: call(index),
        guard,
        access: None,
    };
    let finished = |index, tree: Option<&str>, took_ms: Option<u64>| Entry::Finished {
        call: call(index),
        outcome: Outcome::done(""),
        fact: took_ms.map(|took_ms| Fact::Ran {
            exit_code: Some(0),
            took_ms,
            refused: false,
        }),
        tree: tree.map(str::to_string),
    };
    let checked = Guard::Checked {
        path: "/w/a".into(),
        before: None,
        after: "h".into(),
    };
    let entries = [
        saved("t0"),
        started(0, checked),
        finished(0, Some("t1"), None),
        saved("t2"),
        started(1, Guard::Opaque),
        Entry::Resumed {
            by: crate::core::entry::By::Start,
            found: String::new(),
            draft: None,
            unrecorded: false,
            at_work: false,
        },
        Entry::Chose(Default::default()),
        Entry::Chose(Default::default()),
        finished(1, None, Some(250)),
        saved("t3"),
        Entry::Restoring {
            before: "t4".into(),
            target: "t5".into(),
            to: None,
            new_folder: false,
            whole: false,
            kept: vec![],
            more_kept: 0,
        },
        Entry::Restored {
            new_folder: false,
            tree: Some("t6".into()),
            written: 1,
            removed: 0,
            paths: vec![],
            kept: vec![],
            more_kept: 0,
            why: None,
        },
        saved("t6"),
    ];
    let records: Vec<Record> = (0..)
        .zip(entries)
        .map(|(seq, entry)| record(seq, entry))
        .collect();
    let found = named_since(&records, 1, "t0");
    let causes: Vec<(&str, &Cause)> = found.iter().map(|t| (t.name.as_str(), &t.cause)).collect();
    let calls = Cause::Calls {
        written: vec![Written {
            path: "/w/a".into(),
            before: None,
            after: "h".into(),
        }],
        command_ended: None,
    };
    let command = Cause::Calls {
        written: vec![],
        command_ended: Some(CommandEnd {
            at_ms: 5_250,
            clock: None,
        }),
    };
    let restored = Cause::Restored {
        target: "t5".into(),
    };
    let want = [
        ("t1", &calls),
        ("t2", &Cause::Outside),
        ("t3", &command),
        ("t4", &Cause::Outside),
        ("t6", &restored),
    ];
    assert_eq!(causes, want);
    let makers: Vec<(Author, bool)> = found
        .iter()
        .map(|tree| (tree.maker.author, tree.maker.was_away))
        .collect();
    let hand = (Author::Hand, false);
    assert_eq!(makers, [hand, hand, (Author::Server, true), hand, hand]);
}

#[test]
fn a_scan_before_the_record_is_not_part_of_the_command() {
    let call = CallId { reply: 0, index: 0 };
    let ended = |tree: Option<&str>| {
        let entries = [
            saved("t0"),
            Entry::Started {
                call,
                guard: Guard::Opaque,
                access: None,
            },
            Entry::Finished {
                call,
                outcome: Outcome::done(""),
                fact: Some(Fact::Ran {
                    exit_code: Some(1),
                    took_ms: 300,
                    refused: false,
                }),
                tree: tree.map(str::to_string),
            },
            saved("t1"),
        ];
        let records: Vec<Record> = (0..)
            .zip(entries)
            .map(|(seq, entry)| record(seq, entry))
            .collect();
        match &named_since(&records, 1, "t0")[0].cause {
            Cause::Calls { command_ended, .. } => command_ended.unwrap().at_ms,
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(ended(None), 2_000);
    assert_eq!(ended(Some("t1")), 1_550);
}

#[test]
fn two_possible_authors_are_no_author() {
    let call = |index| CallId { reply: 0, index };
    let started = |index, guard| Entry::Started {
        call: call(index),
        guard,
        access: None,
    };
    let finished = |index, tree: &str, background| Entry::Finished {
        call: call(index),
        outcome: Outcome::done(""),
        fact: Some(if background {
            Fact::Background {
                id: "bg_1".into(),
                run: "r".into(),
                command: "c".into(),
                child: None,
            }
        } else {
            Fact::Ran {
                exit_code: Some(0),
                took_ms: 1,
                refused: false,
            }
        }),
        tree: Some(tree.to_string()),
    };
    let saved = |tree: &str| Entry::Saved {
        reason: SaveReason::Files,
        tree: Some(tree.to_string()),
        why: None,
        clock: None,
    };
    let command = Guard::Supervised {
        run: "r".into(),
        boot: "b".into(),
        background: false,
    };
    let entries = [
        started(0, command.clone()),
        finished(0, "t0", true),
        // Only the command in the background, or somebody by hand.
        saved("t1"),
        // Two commands.
        started(1, command),
        finished(1, "t2", false),
        // A command, or a server.
        started(2, Guard::Opaque),
        finished(2, "t3", false),
        Entry::Noted {
            text: String::new(),
            about: Some(crate::core::entry::About::BackgroundEnded {
                id: "bg_1".into(),
                exit_code: None,
                spent: vec![],
                asks_model: false,
            }),
        },
        // It ended somewhere since the tree before.
        saved("t4"),
        saved("t5"),
    ];
    let records: Vec<Record> = (0..)
        .zip(entries)
        .map(|(seq, entry)| Record {
            seq,
            at_ms: 0,
            entry,
        })
        .collect();
    let found = named_since(&records, 1, "t0");
    let authors: Vec<(&str, Author)> = found
        .iter()
        .map(|tree| (tree.name.as_str(), tree.maker.author))
        .collect();
    let want = [
        ("t1", Author::Unknown),
        ("t2", Author::Command),
        ("t3", Author::Unknown),
        ("t4", Author::Unknown),
        ("t5", Author::Hand),
    ];
    assert_eq!(authors, want);
}

#[test]
fn a_change_seen_after_an_absence_may_have_an_unknown_author() {
    let mut changes = Changes::new("/w", tree(&[]));
    let delta = super::super::tree::diff(changes.now(), &tree(&[("a", "1")]));
    let maker = Maker {
        author: Author::Command,
        was_away: true,
        ..Maker::default()
    };
    changes.add(&delta, true, (&COMMAND, maker), None);
    let author = |changed_ms: Option<i64>| {
        let steps = changes.steps(b"a", &|_| changed_ms.map(time));
        steps.iter().map(|(author, _)| *author).collect::<Vec<_>>()
    };
    assert_eq!(author(Some(1_000)), [Author::Command]);
    assert_eq!(author(Some(9_000)), [Author::Unknown]);
    assert_eq!(author(None), [Author::Unknown]);
    assert_eq!(changes.steps(b"b", &|_| None), []);
}

/// A command ended, the process left before it knew the files, and a person changed one. What a
/// later command took away may be theirs.
#[test]
fn a_possible_change_by_a_person_before_the_snapshot_is_kept() {
    let maker = Maker {
        author: Author::Command,
        left_before_tree: true,
        ..Maker::default()
    };
    let mut changes = Changes::new("/w", tree(&[("a", "1")]));
    for (tree, maker) in [
        (tree(&[("a", "theirs")]), maker),
        (tree(&[]), Author::Command.into()),
    ] {
        let delta = super::super::tree::diff(changes.now(), &tree);
        changes.add(&delta, true, (&COMMAND, maker), None);
    }
    let plan = planned(&changes, &Asked::default());
    assert_eq!(plan.target, tree(&[("a", "theirs")]), "{:?}", plan.kept);
    // Where nothing came after it, the time on the disk says whose it is.
    let mut changes = Changes::new("/w", tree(&[("a", "1")]));
    let delta = super::super::tree::diff(changes.now(), &tree(&[("a", "2")]));
    changes.add(&delta, true, (&COMMAND, maker), None);
    let asked = |changed_ms| Asked {
        changed_ms: Some(changed_ms),
        ..Asked::default()
    };
    assert_eq!(planned(&changes, &asked(1_000)).target, tree(&[("a", "1")]));
    assert_eq!(planned(&changes, &asked(9_000)).target, tree(&[("a", "2")]));
}

#[test]
fn the_log_says_where_a_process_left_before_it_knew_the_files() {
    let call = CallId { reply: 0, index: 0 };
    let started = Entry::Started {
        call,
        guard: Guard::Supervised {
            run: "r".into(),
            boot: "b".into(),
            background: false,
        },
        access: None,
    };
    let finished = Entry::Finished {
        call,
        outcome: Outcome::done(""),
        fact: None,
        tree: None,
    };
    let resumed = Entry::Resumed {
        by: crate::core::entry::By::Start,
        found: String::new(),
        draft: None,
        unrecorded: false,
        at_work: false,
    };
    let left = |entries: &[&Entry]| -> Vec<bool> {
        let records = entries.iter().map(|entry| (*entry).clone());
        let records: Vec<Record> = (0..).zip(records).map(|(n, e)| record(n, e)).collect();
        let trees = named_since(&records, 0, "t0");
        trees.iter().map(|t| t.maker.left_before_tree).collect()
    };
    let (t1, t2) = (saved("t1"), saved("t2"));
    let in_between = [&started, &finished, &resumed, &resumed, &t1, &resumed, &t2];
    assert_eq!(left(&in_between), [true, false]);
    assert_eq!(left(&[&started, &resumed, &finished, &t1]), [false]);
    assert_eq!(
        left(&[&started, &finished, &t1, &resumed, &t2]),
        [false, false]
    );
}

#[test]
fn the_model_is_told_what_was_set_back_and_what_was_not() {
    let kept = vec![
        UnrestoredPath {
            path: "b".into(),
            why: KeptWhy::Conflict,
        },
        UnrestoredPath {
            path: "c".into(),
            why: KeptWhy::Yours,
        },
    ];
    let restored = |why: Option<&str>| Entry::Restored {
        new_folder: false,
        tree: None,
        written: 2,
        removed: 0,
        paths: vec!["a".into()],
        kept: kept.clone(),
        more_kept: 0,
        why: why.map(str::to_string),
    };
    assert_eq!(
        told(&restored(None)).unwrap(),
        "The user set 2 files back to what they were before: a and 1 more. Read them again before \
         you change them.\nLeft as they are: b (also changed outside of rewake, in the same lines)."
    );
    let nothing = told(&restored(Some("the disk is full"))).unwrap();
    assert!(
        nothing.ends_with("Nothing was changed: the disk is full"),
        "{nothing}"
    );
}

/// A random history of a few paths and the authors of their changes.
fn steps() -> impl Strategy<Value = (Tree, Vec<(Tree, u8)>)> {
    let tree = || proptest::collection::btree_map("[abc](/[ab])?", "[123]{1,2}", 0..5);
    let tree = || {
        tree().prop_map(|items| {
            let items = items
                .into_iter()
                .map(|(path, name)| (path.into_bytes(), file(&name)));
            let items: BTreeMap<PathBytes, Item> = items.collect();
            // A file has nothing below it.
            let above = items.clone();
            let is_free = |path: &PathBytes| {
                let end = path.iter().position(|b| *b == b'/');
                end.is_none_or(|end| !above.contains_key(&path[..end]))
            };
            Tree(
                items
                    .into_iter()
                    .filter(|(path, _)| is_free(path))
                    .collect(),
            )
        })
    };
    (tree(), proptest::collection::vec((tree(), 0_u8..3), 0..5))
}

/// The cause of a step: one call wrote the first path that differs, or a command ran, or neither.
fn cause(now: &Tree, next: &Tree, kind: u8) -> Cause {
    let hash = |tree: &Tree, path: &PathBytes| {
        tree.0
            .get(path)
            .and_then(Item::content)
            .map(super::changes::hex)
    };
    match kind {
        0 => Cause::Outside,
        1 => COMMAND,
        _ => {
            let delta = super::super::tree::diff(now, next);
            let put = delta.0.keys().find(|path| next.0.contains_key(*path));
            match put {
                Some(path) => Cause::Calls {
                    written: vec![Written {
                        path: format!("/w/{}", String::from_utf8_lossy(path)),
                        before: hash(now, path),
                        after: hash(next, path).unwrap_or_default(),
                    }],
                    command_ended: None,
                },
                None => Cause::Outside,
            }
        }
    }
}

fn history(start: &Tree, steps: &[(Tree, u8)]) -> Changes {
    let mut changes = Changes::new("/w", start.clone());
    for (next, kind) in steps {
        let cause = cause(changes.now(), next, *kind);
        let delta = super::super::tree::diff(changes.now(), next);
        changes.add(&delta, true, (&cause, Maker::default()), None);
    }
    changes
}

/// The old name is a folder now, so the file cannot come back there.
#[test]
fn a_renamed_file_stays_where_a_folder_took_its_old_name() {
    let start = tree(&[("c", "1")]);
    let steps = [
        (tree(&[("c", "2")]), Cause::Outside),
        (tree(&[("a", "2")]), COMMAND),
        (tree(&[("a", "2"), ("c/a", "11")]), Cause::Outside),
    ];
    let changes = changes(&start, &steps);
    let plan = planned(&changes, &Asked::default());
    assert_eq!(&plan.target, changes.now(), "{:?}", plan.kept);
}

proptest! {
    #[test]
    fn files_that_only_others_changed_stay_as_they_are_now((start, steps) in steps()) {
        let steps: Vec<(Tree, u8)> = steps.into_iter().map(|(tree, _)| (tree, 0)).collect();
        let changes = history(&start, &steps);
        prop_assert_eq!(&planned(&changes, &Asked::default()).target, changes.now());
    }

    /// Removed is only what a call created and nobody else touched.
    #[test]
    fn nothing_is_removed_that_a_call_did_not_create((start, steps) in steps()) {
        let changes = history(&start, &steps);
        let plan = planned(&changes, &Asked::default());
        for path in changes.now().0.keys().filter(|path| !plan.target.0.contains_key(*path)) {
            let chain = &changes.chains[path];
            prop_assert!(chain.start.is_none());
            if let Some(from) = changes.moved.get(path) {
                // The same file is back under its old name.
                prop_assert!(plan.target.0.contains_key(from) && !changes.now().0.contains_key(from));
                prop_assert!(chain.links.iter().all(|link| link.by != By::Outside), "{:?}", chain);
                continue;
            }
            if changes.in_place.contains(path) && chain.links.iter().all(|link| link.by != By::Outside) {
                // A command made it where a file or folder is back.
                let is_back = |other: &PathBytes| {
                    let is_below = |a: &[u8], b: &[u8]| to_root(a).skip(1).any(|at| at == b);
                    is_below(path, other) || is_below(other, path)
                };
                prop_assert!(plan.target.0.keys().any(is_back), "{:?}", plan.target);
                continue;
            }
            prop_assert!(chain.links.iter().all(|link| link.by == By::Us), "{:?}", chain);
        }
    }

    /// No file is where a folder must be.
    #[test]
    fn a_target_can_lie_on_a_disk((start, steps) in steps(), whole: bool) {
        let changes = history(&start, &steps);
        let plan = planned(&changes, &Asked { whole, ..Asked::default() });
        for path in plan.target.0.keys() {
            if let Some(end) = path.iter().position(|b| *b == b'/') {
                prop_assert!(!plan.target.0.contains_key(&path[..end]), "{:?}", plan.target);
            }
        }
    }

    /// A restore that is undone at once changes nothing.
    #[test]
    fn taking_back_is_the_opposite((start, steps) in steps()) {
        let mut changes = history(&start, &steps);
        let before = changes.now().clone();
        let target = planned(&changes, &Asked::default()).target;
        // A file cannot come back where content of somebody else was put beside one in a folder.
        let beside = target.0.keys().filter(|path| super::changes::is_beside(path));
        let is_below = |path: &[u8], file: &[u8]| {
            path.starts_with(file) && path.get(file.len()) == Some(&b'/')
        };
        let is_in_the_way = |path: &Vec<u8>| before.0.keys().any(|file| is_below(path, file));
        let blocked = beside.into_iter().any(is_in_the_way);
        prop_assume!(!blocked);
        let mut back = Changes::new("/w", before.clone());
        let restored = Cause::Restored { target: String::new() };
        let delta = super::super::tree::diff(&before, &target);
        back.add(&delta, true, (&restored, Maker::default()), Some(&target));
        let mut plan = planned(&back, &Asked::default());
        // Content beside a file is somebody else's.
        plan.target.0.retain(|path, _| !super::changes::is_beside(path));
        prop_assert_eq!(&plan.target, &before, "{:?}", plan.kept);
        // And once more is as the first time.
        changes.add(&delta, true, (&restored, Maker::default()), Some(&target));
        let delta = super::super::tree::diff(&target, &before);
        changes.add(&delta, true, (&restored, Maker::default()), Some(&before));
        prop_assert_eq!(planned(&changes, &Asked::default()).target, target);
    }
}
