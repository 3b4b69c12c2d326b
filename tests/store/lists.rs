//! Finding sessions again.

use std::ops::ControlFlow;

use rewake::core::entry::Choice;
use rewake::core::entry::{Entry, Spent, StopReason, SummaryBy, Usage};
use rewake::store::{SessionFilter, StoreError};

use crate::story::*;

#[test]
fn the_newest_is_the_one_with_the_last_entry() {
    let (_dir, mut store) = scratch();
    assert_eq!(store.history().newest(None).unwrap(), None);
    let [mut first, second, elsewhere] = [HERE, HERE, "/elsewhere"].map(|workspace| {
        let mut head = session(&mut store, workspace);
        append(&mut store, &mut head, vec![said("first")]);
        head
    });
    let newest = |store: &rewake::store::Store, workspace| {
        store.history().newest(workspace).unwrap().unwrap().id
    };
    assert_eq!(newest(&store, None), elsewhere.session());
    assert_eq!(newest(&store, Some(HERE)), second.session());
    // Times do not count: clocks are set back.
    let mut late = batch(vec![said("again")]);
    late.at_ms = -5;
    store.append(&mut first, &late).unwrap();
    assert_eq!(newest(&store, Some(HERE)), first.session());
    assert_eq!(store.history().newest(Some("/nowhere")).unwrap(), None);
}

/// It is opened, left and opened again, and the mode is changed: nothing was said yet.
#[test]
fn a_blank_session_is_in_no_list_but_its_own() {
    let (_dir, mut store) = scratch();
    let mut head = session(&mut store, HERE);
    let folder = store.history().find(head.session()).unwrap().folder;
    let set_up = [
        Entry::Resumed {
            by: rewake::core::entry::By::Start,
            found: String::new(),
            draft: None,
            unrecorded: false,
            at_work: false,
        },
        Entry::Chose(Choice::of_mode(rewake::core::entry::Mode::Plan)),
        Entry::Saved {
            reason: rewake::core::entry::SaveReason::Exit,
            tree: None,
            why: None,
            clock: None,
        },
    ];
    for entry in set_up {
        append(&mut store, &mut head, vec![entry]);
        assert_eq!(store.history().newest(None).unwrap(), None);
        let blank = store.history().blank(HERE, &folder, 9).unwrap();
        assert_eq!(blank[0].id, head.session());
        assert_eq!(
            store.history().find(head.session()).unwrap().id,
            head.session()
        );
    }
    assert_eq!(store.history().blank("/elsewhere", &folder, 9).unwrap(), []);
    let text = "told".to_string();
    append(
        &mut store,
        &mut head,
        vec![Entry::Noted { text, about: None }],
    );
    assert_eq!(store.history().blank(HERE, &folder, 9).unwrap(), []);
    assert_eq!(
        store.history().newest(None).unwrap().unwrap().id,
        head.session()
    );
}

#[test]
fn unfinished_sessions_are_listed() {
    let (_dir, mut store) = scratch();
    let mut heads = [
        talk(&mut store, 1),
        talk(&mut store, 1),
        talk(&mut store, 1),
    ];
    let mut owed = batch(vec![said("do it")]);
    owed.unfinished = true;
    store.append(&mut heads[1], &owed).unwrap();
    let filter = SessionFilter {
        workspace: Some(HERE),
        unfinished: true,
        ..SessionFilter::default()
    };
    let found = store.history().sessions(filter, 9).unwrap();
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].id, heads[1].session());
}

#[test]
fn usage_is_summed_per_session() {
    let (_dir, mut store) = scratch();
    let mut head = session(&mut store, HERE);
    let usage = Usage {
        input: 1,
        cached: 2,
        cache_written: 3,
        output: 4,
        billed_nanos: None,
    };
    let replied = Entry::Replied {
        blocks: vec![],
        usage,
        stop: StopReason::EndTurn,
        model: "openai/other".into(),
        took_ms: 0,
        asked_bytes: 0,
        source_usage: None,
    };
    append(
        &mut store,
        &mut head,
        vec![replied.clone(), replied.clone()],
    );
    append(&mut store, &mut head, vec![replied]);
    let continued = Entry::Continued {
        note: "go on".into(),
        by: SummaryBy::Model,
        spent: vec![Spent {
            model: "openai/small".into(),
            usage,
        }],
        story: None,
    };
    append(&mut store, &mut head, vec![continued]);
    let info = store.history().find(head.session()).unwrap();
    assert_eq!((info.usage.input, info.usage.output), (4, 16));
    assert_eq!((info.usage.cached, info.usage.cache_written), (8, 12));
    assert_eq!(info.model.as_deref(), Some("openai/other"));
}

#[test]
fn a_session_is_found_by_the_beginning_of_its_id() {
    let (_dir, mut store) = scratch();
    let id = session(&mut store, HERE).session().to_string();
    assert_eq!(
        store.history().find(&id[..6].to_uppercase()).unwrap().id,
        id
    );
    let other = session(&mut store, HERE).session().to_string();
    assert_eq!(store.history().find(&other).unwrap().id, other);
    match store.history().find("0") {
        Err(StoreError::Ambiguous { ids, .. }) => {
            assert_eq!(ids.len(), 2);
            assert!(ids.contains(&id) && ids.contains(&other));
        }
        unexpected => panic!("{unexpected:?}"),
    }
    let typo = format!("{}zz", &id[..10]);
    match store.history().find(&typo) {
        Err(error @ StoreError::NotFound { .. }) => {
            let hint = error.hint().unwrap();
            assert!(hint.contains(&id[..10]), "{hint}");
        }
        unexpected => panic!("{unexpected:?}"),
    }
    for nonsense in ["", "  ", "%", "'; DROP TABLE sessions; --", "\u{10ffff}"] {
        let found = store.history().find(nonsense);
        assert!(
            matches!(found, Err(StoreError::NotFound { .. })),
            "{found:?}"
        );
    }
}

#[test]
fn prompts_of_a_project_are_there_once_the_newest_first() {
    let (_dir, mut store) = scratch();
    let mut first = session(&mut store, HERE);
    append(&mut store, &mut first, vec![said("one"), said("two")]);
    let mut second = session(&mut store, "/other/worktree");
    append(&mut store, &mut second, vec![said("one"), said("three")]);
    let mut elsewhere = session(&mut store, "/elsewhere");
    append(&mut store, &mut elsewhere, vec![said("not here")]);
    let mut trashed = session(&mut store, HERE);
    append(&mut store, &mut trashed, vec![said("thrown away")]);
    store.trash(trashed.session(), 1).unwrap();
    let huge = "x".repeat(100_000);
    append(&mut store, &mut first, vec![said(&huge), said(" ")]);
    let here = [HERE.to_string(), "/other/worktree".to_string()];
    assert_eq!(
        store.history().prompts(&here, 9).unwrap(),
        ["three", "one", "two"]
    );
    assert_eq!(store.history().prompts(&here, 2).unwrap(), ["three", "one"]);
    assert_eq!(
        store.history().prompts(&here[..1], 9).unwrap(),
        ["two", "one"]
    );
    assert_eq!(
        store.history().prompts(&[], 9).unwrap(),
        Vec::<String>::new()
    );
}

#[test]
fn a_session_is_met_from_its_newest_entry_back_as_far_as_is_wanted() {
    let (_dir, mut store) = scratch();
    let trunk = talk(&mut store, 3);
    let mut branch = fork(&mut store, trunk.session(), 2, 5).unwrap();
    append(
        &mut store,
        &mut branch,
        vec![said("with a table"), opened_again()],
    );
    let met = |at_most: u64, until: &str| {
        let mut met = Vec::new();
        let walked = store
            .history()
            .backwards(branch.session(), at_most, |mut it| {
                met.push((it.seq, it.kind.to_string()));
                if it.kind == "said" && it.seq > 2 {
                    let entry = it.entry().unwrap();
                    assert_eq!(entry.typed().as_deref(), Some("with a table"));
                }
                match it.kind == until {
                    true => ControlFlow::Break(()),
                    false => ControlFlow::Continue(()),
                }
            });
        assert_eq!(walked.unwrap(), met.len() as u64);
        met.into_iter()
            .map(|(seq, kind)| format!("{seq} {kind}"))
            .collect::<Vec<_>>()
    };
    assert_eq!(met(9, "said"), ["5 woke", "4 said"]);
    assert_eq!(met(3, ""), ["5 woke", "4 said", "3 forked"]);
    // What it shares with the other follows.
    assert_eq!(met(99, "").len(), 6);
}

fn opened_again() -> rewake::core::entry::Entry {
    rewake::core::entry::Entry::Resumed {
        by: rewake::core::entry::By::Person,
        found: "found".into(),
        draft: None,
        unrecorded: false,
        at_work: false,
    }
}
