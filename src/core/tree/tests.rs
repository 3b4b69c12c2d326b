//! Tests of trees and their deltas: encoding and decoding are inverse.

use proptest::prelude::*;

use super::*;
use crate::core::access::Access;
use crate::core::entry::{CallId, Guard, Outcome, SaveReason};

fn item() -> impl Strategy<Value = Item> {
    let hash = prop::array::uniform32(any::<u8>());
    let why = prop::sample::select(MARKED.map(|(marked, ..)| marked).to_vec());
    prop_oneof![
        (0..0o1000_u16, hash, any::<u64>()).prop_map(|(mode, hash, bytes)| Item::File {
            mode,
            hash,
            bytes
        }),
        prop::collection::vec(any::<u8>(), 0..9).prop_map(|target| Item::Link { target }),
        (
            why,
            any::<u64>(),
            any::<i64>(),
            prop::option::of(prop::array::uniform32(any::<u8>()))
        )
            .prop_map(|(why, bytes, mtime_ms, hash)| Item::Marker {
                why,
                bytes,
                mtime_ms,
                hash
            }),
    ]
}

/// Few names, so that trees have some in common; and bytes that are no UTF-8.
fn path() -> impl Strategy<Value = PathBytes> {
    let part = prop::sample::select(vec![&b"a"[..], b"b", b"\xff\n", b"long name"]);
    prop::collection::vec(part, 1..4).prop_map(|parts| parts.join(&b'/'))
}

fn tree() -> impl Strategy<Value = Tree> {
    prop::collection::btree_map(path(), item(), 0..12).prop_map(Tree)
}

fn delta() -> impl Strategy<Value = Delta> {
    let change = prop_oneof![
        (item(), any::<bool>()).prop_map(|(item, entered)| Change::Put { item, entered }),
        any::<bool>().prop_map(|left| Change::Gone { left }),
    ];
    prop::collection::btree_map(path(), change, 0..12).prop_map(Delta)
}

proptest! {
    #[test]
    fn a_delta_leads_from_one_tree_to_the_other(a in tree(), b in tree()) {
        let delta = diff(&a, &b);
        prop_assert_eq!(delta.is_empty(), a == b);
        let mut applied = a.clone();
        applied.apply(&delta);
        prop_assert_eq!(&applied, &b);
        let mut built = Tree::default();
        built.apply(&b.whole());
        prop_assert_eq!(built, b);
    }

    #[test]
    fn a_delta_is_read_as_it_was_written(delta in delta()) {
        prop_assert_eq!(Delta::decode(&delta.encode()), Ok(delta));
    }

    #[test]
    fn bytes_that_are_no_delta_are_refused_and_take_no_memory(
        bytes in prop::collection::vec(any::<u8>(), 0..64),
        delta in delta(),
        cut in any::<prop::sample::Index>(),
    ) {
        let _ = Delta::decode(&bytes);
        let whole = delta.encode();
        // A cut between two records leaves a delta that is smaller; the name of a tree tells.
        if let Ok(part) = Delta::decode(&whole[..cut.index(whole.len())]) {
            prop_assert!(part.0.len() < delta.0.len() || delta.is_empty());
        }
    }
}

#[test]
fn every_reason_has_a_unique_number() {
    for (marked, number, _) in MARKED {
        assert_eq!(Marked::of_number(marked.number()), Some(marked));
        assert_eq!(marked.number(), number);
    }
}

#[test]
fn unknown_files_are_explained_with_the_entry_number() {
    let why = |log: &str, seq| why_unknown(&records(log), seq);
    assert_eq!(why("...", 1), "this session has no snapshot");
    assert_eq!(
        why(".SF1", 0),
        "no snapshot was taken before entry 1, which may have changed them"
    );
    assert_eq!(
        why("1SF.SF2", 3),
        "entry 1 may have changed them, and no snapshot was taken right after it"
    );
    assert_eq!(why(".!SF", 2), "they were not kept: the disk is full");
}

/// `.` anything, `!` a snapshot that failed, `S` the start of a call, `R` the start of one that may
/// only read, `F` its end, a digit: a tree of that name.
#[track_caller]
fn known(log: &str, expected: &str) {
    let records = records(log);
    let at = |record: &Record| tree_at(&records, record.seq).unwrap_or("-");
    let found: String = records.iter().map(at).collect();
    assert_eq!(found, expected, "{log}");
}

fn records(log: &str) -> Vec<Record> {
    let call = CallId { reply: 0, index: 0 };
    let entry = |sign: char| match sign {
        '.' => Entry::Noted {
            text: "x".into(),
            about: None,
        },
        'S' => Entry::Started {
            call,
            guard: Guard::Opaque,
            access: None,
        },
        'R' => Entry::Started {
            call,
            guard: Guard::Opaque,
            access: Some(Access::Read),
        },
        'F' => Entry::Finished {
            call,
            outcome: Outcome::done("x"),
            fact: None,
            tree: None,
        },
        '!' => Entry::Saved {
            reason: SaveReason::Files,
            tree: None,
            why: Some("the disk is full".into()),
            clock: None,
        },
        name => Entry::Saved {
            reason: SaveReason::Files,
            tree: Some(name.to_string()),
            why: None,
            clock: None,
        },
    };
    (0..)
        .zip(log.chars())
        .map(|(seq, sign)| Record {
            seq,
            at_ms: 0,
            entry: entry(sign),
        })
        .collect()
}

#[test]
fn the_tree_of_a_place_is_the_one_that_is_known_there() {
    // There was no effect before the first one.
    known("..1..", "11111");
    known("..R1SF2", "1111222");
    // Before an effect: the tree before it. After it: the next one, if it came in time.
    known("1SF2.", "12222");
    known("1SF.2S", "12222-");
    known("1SF.SF2", "1---222");
    known("1SF", "1--");
    // A command that may only read leaves the tree unchanged.
    known("1RF", "111");
    known("1RFSF2", "111222");
    known("SF1", "111");
    known(".SF1", "-111");
    known("...", "---");
    known("SFSF1", "--111");
}

#[test]
fn the_tree_before_a_message_is_known_before_the_first_effect_too() {
    let check = |log: &str, expected: &str| {
        let records = records(log);
        let before = |record: &Record| place_before(&records, record.seq).map_or("-", |(_, t)| t);
        let found: String = records.iter().map(before).collect();
        assert_eq!(found, expected, "{log}");
    };
    // The first message of all, and one after an effect.
    check("..1SF2.", "1111222");
    check("..1..", "11111");
    // An effect began before anything was known: never a guess.
    check(".SF1SF2", "--11122");
    check(".SFSF1", "----11");
    check("...", "---");
}

/// More paths than one block has, some of them with the same beginning.
fn numbered(count: u32, with: &str) -> Tree {
    let file = |n: u32| Item::Link {
        target: format!("{with}{}", n % 7).into_bytes(),
    };
    let path = |n: u32| format!("d{}/f{n}", n / 9).into_bytes();
    Tree((0..count).map(|n| (path(n), file(n))).collect())
}

#[track_caller]
fn is_same(compact: &CompactTree, tree: &Tree) {
    assert_eq!(&Tree::from(compact), tree);
    let size = TreeSize {
        files: tree.0.len() as u64,
        bytes: tree.bytes(),
    };
    assert_eq!(compact.size, size);
    for (path, item) in &tree.0 {
        assert_eq!(compact.get(path).as_ref(), Some(item));
    }
    for other in [&b""[..], b"a/", b"d1/f", b"d1/f10/x", b"zzz", b"\xff\xff"] {
        assert_eq!(compact.get(other).as_ref(), tree.0.get(other));
    }
}

proptest! {
    #[test]
    fn a_compact_tree_is_the_same_tree(a in tree(), b in tree(), deltas in prop::collection::vec(delta(), 0..4)) {
        let (mut tree, mut compact) = (a.clone(), CompactTree::from(&a));
        is_same(&compact, &tree);
        for delta in deltas {
            tree.apply(&delta);
            prop_assert_eq!(compact.encode_whole(&delta), tree.whole().encode());
            compact.apply(&delta);
            is_same(&compact, &tree);
        }
        prop_assert_eq!(compact.diff(&mut CompactTree::from(&b)), diff(&tree, &b));
        is_same(&compact, &tree);
    }
}

#[test]
fn a_compact_tree_stays_equal_when_its_records_are_rewritten() {
    let mut tree = numbered(2_000, "old");
    let mut compact = CompactTree::from(&tree);
    for (count, with) in [(150, "new"), (900, "newer"), (3_000, "newest"), (0, "")] {
        let next = numbered(count, with);
        let mut delta = diff(&tree, &next);
        delta.0.retain(|path, _| path.len() % 3 != 0);
        tree.apply(&delta);
        compact.apply(&delta);
        is_same(&compact, &tree);
    }
    let other = numbered(1_000, "other");
    assert_eq!(
        compact.diff(&mut CompactTree::from(&other)),
        diff(&tree, &other)
    );
}
