//! A fork shares its ancestors' entries and goes its own way.

use rewake::core::entry::{Entry, ForkPoint, SaveReason};
use rewake::store::{Store, StoreError};

use crate::story::*;

fn texts(store: &Store, session: &str) -> Vec<String> {
    let (_, records) = store.load(session).unwrap();
    said_texts(&records).iter().map(|t| t.to_string()).collect()
}

#[test]
fn each_branch_has_its_own_chain() {
    let (_dir, mut store) = scratch();
    let mut trunk = talk(&mut store, 4);
    let mut branch = fork(&mut store, trunk.session(), 2, 5).unwrap();
    append(&mut store, &mut branch, vec![said("branch")]);
    append(&mut store, &mut trunk, vec![said("trunk")]);
    // A fork of the fork, from an entry that the fork has from its ancestor.
    let mut twig = fork(&mut store, branch.session(), 1, 6).unwrap();
    append(&mut store, &mut twig, vec![said("twig")]);
    assert_eq!(
        texts(&store, trunk.session()),
        ["words 1", "words 2", "words 3", "words 4", "trunk"]
    );
    assert_eq!(
        texts(&store, branch.session()),
        ["words 1", "words 2", "branch"]
    );
    assert_eq!(texts(&store, twig.session()), ["words 1", "twig"]);

    let (head, records) = store.load(branch.session()).unwrap();
    assert_eq!(head, branch);
    let places: Vec<u64> = records.iter().map(|r| r.seq).collect();
    assert_eq!(places, [0, 1, 2, 3, 4]);
    let from = ForkPoint {
        session: trunk.session().into(),
        seq: 2,
    };
    assert_eq!(
        records[3].entry,
        Entry::Forked {
            from: from.clone(),
            folder: None,
            from_replica: None,
        }
    );
    let info = store.history().find(branch.session()).unwrap();
    assert_eq!((info.forked_from, info.entries), (Some(from), 5));
}

#[test]
fn only_what_is_there_can_be_forked() {
    let (_dir, mut store) = scratch();
    let head = talk(&mut store, 2);
    for (id, seq) in [(head.session(), 3), ("nobody", 0)] {
        let fork = fork(&mut store, id, seq, 5);
        assert!(matches!(fork, Err(StoreError::NotFound { .. })), "{fork:?}");
    }
    assert_eq!(
        store
            .history()
            .sessions(Default::default(), 9)
            .unwrap()
            .len(),
        1
    );
}

#[test]
fn checkpoints_follow_the_chain_with_their_plan_steps() {
    let (_dir, mut store) = scratch();
    let saved = || Entry::Saved {
        reason: SaveReason::Timer,
        tree: None,
        why: None,
        clock: None,
    };
    let mut trunk = session(&mut store, HERE);
    append(
        &mut store,
        &mut trunk,
        vec![saved(), planned("parse"), said("x"), saved()],
    );
    append(&mut store, &mut trunk, vec![planned("elsewhere")]);
    let mut fork = fork(&mut store, trunk.session(), 3, 5).unwrap();
    append(&mut store, &mut fork, vec![saved()]);
    let (mut fork, _) = store.load(fork.session()).unwrap();
    append(&mut store, &mut fork, vec![planned("print"), saved()]);

    let found = store.history().checkpoints(fork.session(), 99).unwrap();
    let lines: Vec<String> = found
        .iter()
        .map(|c| {
            let whose = if c.session == fork.session() {
                "own"
            } else {
                "trunk"
            };
            format!(
                "{} {whose} {} {:?}",
                c.seq,
                c.reason,
                c.plan_step.as_deref()
            )
        })
        .collect();
    assert_eq!(
        lines,
        [
            r#"7 own timer Some("print")"#,
            r#"6 own finished Some("print")"#,
            r#"5 own timer Some("parse")"#,
            r#"2 trunk finished Some("parse")"#,
            r#"1 trunk timer None"#,
        ]
    );
    assert_eq!(
        store.history().checkpoints(fork.session(), 2).unwrap(),
        found[..2]
    );
}

/// The view is SQL, the rule is Rust.
#[test]
fn the_view_and_the_rule_agree_on_what_a_checkpoint_is() {
    let (_dir, mut store) = scratch();
    let mut head = session(&mut store, HERE);
    let records = store.append(&mut head, &batch(all_kinds())).unwrap();
    let expected = records.iter().filter(|r| r.entry.is_checkpoint());
    let found = store.history().checkpoints(head.session(), 99).unwrap();
    assert!(
        expected
            .map(|r| r.seq)
            .eq(found.iter().rev().map(|c| c.seq))
    );
}
