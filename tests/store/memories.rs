//! Memories, the summary of a conversation, and parts of a chain: what follows from entries
//! and may be gone, and what is read without reading everything.

use proptest::prelude::*;
use rewake::core::entry::{Entry, Record, SummaryBy};
use rewake::core::prompt;
use rewake::core::state::State;
use rewake::store::{MemoryQuery, Order, Scope, Store, StoreError};

use crate::story::*;

const KINDS: &[&str] = &["said", "replied", "finished", "noted"];

fn recalled(store: &mut Store, query: &str, now_ms: i64) -> Vec<u64> {
    let sought = MemoryQuery {
        query,
        scope: Scope::All,
        kinds: KINDS,
        now_ms,
        limit: 10,
    };
    let hits = store.index().recall(&sought).unwrap();
    hits.iter().map(|hit| hit.seq).collect()
}

#[test]
fn a_memory_is_found_by_its_workspace_and_by_all() {
    let (_dir, mut store) = scratch();
    let mut head = session(&mut store, HERE);
    append(&mut store, &mut head, vec![remembered("Käse needs docker")]);
    assert_eq!(memories(&store, HERE, "kase"), ["Käse needs docker"]);
    assert_eq!(memories(&store, HERE, "where is docker?").len(), 1);
    assert_eq!(memories(&store, HERE, "tests"), ["Käse needs docker"]);
    assert_eq!(memories(&store, "/elsewhere", "docker").len(), 0);
    assert_eq!(memories(&store, HERE, "nothing of it").len(), 0);
}

#[test]
fn used_memories_are_ranked_first() {
    let (_dir, mut store) = scratch();
    let mut head = session(&mut store, HERE);
    for text in ["docker one", "docker two", "docker six"] {
        append(&mut store, &mut head, vec![remembered(text)]);
    }
    let sought = |query| MemoryQuery {
        query,
        scope: Scope::All,
        kinds: &["semantic"],
        now_ms: 2_000,
        limit: 10,
    };
    for _ in 0..5 {
        let found = store.index().memories(&sought("docker two")).unwrap();
        assert_eq!(found[0].text, "docker two");
        store.index().used(&found[..1], 2_000);
    }
    assert_eq!(memories(&store, HERE, "docker")[0], "docker two");
}

/// A memory whose entry could not be recorded is not kept either.
#[test]
fn a_memory_is_kept_with_its_entry_or_not_at_all() {
    let (_dir, mut store) = scratch();
    let mut head = session(&mut store, HERE);
    let mut stale = head.clone();
    append(&mut store, &mut head, vec![remembered("docker one")]);
    let late = store.append(&mut stale, &batch(vec![remembered("docker two")]));
    assert!(matches!(late, Err(StoreError::HeadMoved { .. })));
    assert_eq!(memories(&store, HERE, "docker"), ["docker one"]);
}

#[test]
fn all_words_come_before_some_and_the_newer_before_the_older() {
    const DAY: i64 = 86_400_000;
    let (_dir, mut store) = scratch();
    let mut head = session(&mut store, HERE);
    for (day, text) in [
        (0, "the old crab here"),
        (90, "the new crab here"),
        (91, "a shell without one"),
        (92, "the crab and its shell"),
    ] {
        let said = rewake::store::Batch {
            at_ms: day * DAY,
            ..batch(vec![said(text)])
        };
        store.append(&mut head, &said).unwrap();
    }
    assert_eq!(recalled(&mut store, "crab here", 92 * DAY), [2, 1, 4]);
    // "the" and "its" tell nothing.
    let found = recalled(&mut store, "the crab its shell?", 92 * DAY);
    assert_eq!(found[0], 4);
    assert_eq!(found.len(), 4);
    assert_eq!(recalled(&mut store, "", 0), Vec::<u64>::new());
}

#[test]
fn the_summary_of_a_conversation_is_made_again_when_its_row_is_gone() {
    let (dir, mut store) = scratch();
    let mut head = talk(&mut store, 5);
    let closed = |first, last, summary: &str| Entry::Compacted {
        window: 1,
        first,
        last,
        summary: summary.into(),
        by: SummaryBy::Model,
        spent: vec![],
        preface: None,
    };
    assert_eq!(store.conversation(head.session()).unwrap(), None);
    append(
        &mut store,
        &mut head,
        vec![closed(1, 2, &"long ".repeat(900))],
    );
    append(
        &mut store,
        &mut head,
        vec![closed(3, 3, &"longer ".repeat(900))],
    );
    let kept = store.conversation(head.session()).unwrap().unwrap();
    assert!(kept.summary.starts_with("longer"));
    assert_eq!(kept.message_count, 4);

    // The prompt is built from the entries, whether the row is there or not.
    let messages = |store: &Store| {
        let (_, records) = store.load(head.session()).unwrap();
        prompt::messages(
            &State::of(rewake::tools::describe, &records).unwrap(),
            10_000,
        )
    };
    let before = messages(&store);
    raw(dir.path())
        .execute("DELETE FROM conversation_context", [])
        .unwrap();
    assert_eq!(messages(&store), before);
    assert!(format!("{before:?}").contains("longer longer"));
    assert_eq!(
        store.conversation(head.session()).unwrap(),
        Some(kept.clone())
    );
    let rows: i64 = raw(dir.path())
        .query_row("SELECT count(*) FROM conversation_context", [], |r| {
            r.get(0)
        })
        .unwrap();
    assert_eq!(rows, 1);
    // A fork begins with the summary of its ancestors.
    let fork = fork(&mut store, head.session(), 6, 5).unwrap();
    let of_fork = store.conversation(fork.session()).unwrap().unwrap();
    assert!(of_fork.summary.starts_with("long "));
}

#[test]
fn a_part_of_a_chain_is_read_with_its_ancestors_entries() {
    let (_dir, mut store) = scratch();
    let trunk = talk(&mut store, 8);
    let mut fork = fork(&mut store, trunk.session(), 4, 5).unwrap();
    append(&mut store, &mut fork, vec![said("of the fork")]);
    for head in [&trunk, &fork] {
        let (_, all) = store.load(head.session()).unwrap();
        let within = |first: usize, last: usize| -> Vec<Record> {
            all[first..=last.min(all.len() - 1)].to_vec()
        };
        for first in 0..all.len() {
            for last in first..all.len() + 2 {
                let range = first as u64..=last as u64;
                let found = store.records(head.session(), range).unwrap();
                assert_eq!(found, within(first, last));
            }
        }
    }
    let beyond = store.records(trunk.session(), 9..=9).unwrap_err();
    assert!(matches!(&beyond, StoreError::NotFound { near: Some(n), .. } if n == "8"));
}

/// Only what is read is looked at: damage before it does no harm, damage in it is told.
#[test]
fn a_part_is_checked_as_a_whole_session_is() {
    let (dir, mut store) = scratch();
    let head = talk(&mut store, 8);
    raw(dir.path())
        .execute("UPDATE entries SET at_ms = 7 WHERE seq = 3", [])
        .unwrap();
    assert_eq!(store.records(head.session(), 4..=8).unwrap().len(), 5);
    for range in [3..=3, 0..=8] {
        let error = store.records(head.session(), range).unwrap_err();
        assert!(
            matches!(error, StoreError::Corrupt { seq: 3, .. }),
            "{error}"
        );
    }
}

#[test]
fn recalled_notes_are_not_found_by_search() {
    let (_dir, mut store) = scratch();
    let mut head = session(&mut store, HERE);
    let noted = |about| Entry::Noted {
        text: "needle".into(),
        about,
    };
    let recalled = Some(rewake::core::entry::About::Recalled);
    append(&mut store, &mut head, vec![noted(recalled), noted(None)]);
    let hits = store
        .index()
        .search("needle", Scope::All, Order::Best, 9)
        .unwrap();
    assert_eq!(hits.iter().map(|h| h.seq).collect::<Vec<_>>(), [2]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]
    #[test]
    fn any_text_is_a_question(
        query in prop_oneof![
            any::<String>(),
            r#"[a-z"*^:(){}+ \-]{0,40}"#,
            "(NEAR|AND|OR|NOT|\"|\\*|\\(|\\)|text:|words|-| ){0,12}",
        ]
    ) {
        thread_local! {
            static STORE: (tempfile::TempDir, std::cell::RefCell<Store>) = {
                let (dir, mut store) = scratch();
                talk(&mut store, 3);
                (dir, std::cell::RefCell::new(store))
            };
        }
        STORE.with(|(_, store)| {
            let store = store.borrow_mut();
            let sought = |kinds| MemoryQuery {
                query: &query,
                scope: Scope::Workspace(HERE),
                kinds,
                now_ms: 0,
                limit: 5,
            };
            let (entries, memories) = (store.index().recall(&sought(KINDS)), store.index().memories(&sought(&["semantic"])));
            prop_assert!(entries.is_ok() && memories.is_ok(), "{query:?}: {entries:?} {memories:?}");
            Ok(())
        })?;
    }
}
