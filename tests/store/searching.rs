//! Search finds what was said, answered and printed, and takes any text as a query.

use proptest::prelude::*;
use rewake::core::entry::{Block, Entry, Outcome, StopReason};
use rewake::store::{MemoryQuery, Order, Scope, Store};

use crate::story::*;

fn found(store: &mut Store, query: &str, scope: Scope<'_>) -> Vec<u64> {
    let hits = store
        .index()
        .search(query, scope, Order::Newest, 10)
        .unwrap();
    hits.iter().map(|hit| hit.seq).collect()
}

#[test]
fn everything_said_and_printed_is_found() {
    let (_dir, mut store) = scratch();
    let mut head = session(&mut store, HERE);
    append(&mut store, &mut head, all_kinds());
    let kind = |store: &mut Store, query| -> Vec<String> {
        let hits = store
            .index()
            .search(query, Scope::All, Order::Newest, 10)
            .unwrap();
        hits.into_iter().map(|hit| hit.kind).collect()
    };
    assert_eq!(kind(&mut store, "fix parser"), ["said"]);
    assert_eq!(kind(&mut store, "I look"), ["replied"]);
    assert_eq!(kind(&mut store, "exit 1"), ["finished"]);
    assert_eq!(kind(&mut store, "lin"), ["finished"]);
    assert_eq!(kind(&mut store, "so far"), ["finished"]);
    assert_eq!(kind(&mut store, "changed"), ["noted"]);
    assert_eq!(kind(&mut store, "THE PARS"), ["named", "said"]);
    assert_eq!(kind(&mut store, "nowhere"), Vec::<String>::new());
}

fn push() -> Entry {
    let call = Block::call("bash", r#"{"command": "git push origin main"}"#);
    Entry::Replied {
        blocks: vec![Block::text("I publish it.\nNow."), call],
        usage: Default::default(),
        stop: StopReason::ToolUse,
        model: "m/x".into(),
        took_ms: 0,
        asked_bytes: 0,
        source_usage: None,
    }
}

#[test]
fn tool_arguments_are_found_by_search_with_their_line() {
    let (_dir, mut store) = scratch();
    let mut head = session(&mut store, HERE);
    append(&mut store, &mut head, vec![said("publish it"), push()]);
    let hits = store
        .index()
        .search("git push", Scope::All, Order::Newest, 9)
        .unwrap();
    assert_eq!(hits.len(), 1);
    let place = &hits[0].place;
    assert_eq!((hits[0].seq, place.line, place.times), (2, 1, 1));
    assert_eq!(place.text, "bash git push origin main");
    let said = store.history().sessions_matching("git push", 9).unwrap();
    assert_eq!((said.len(), said[0].entries), (1, 1));
    // A model that looks for what was said is not shown what it asked for itself.
    let sought = MemoryQuery {
        query: "git push",
        scope: Scope::All,
        kinds: &["said", "replied", "finished"],
        now_ms: 0,
        limit: 9,
    };
    assert_eq!(store.index().recall(&sought).unwrap(), []);
}

#[test]
fn newest_first_or_best_first() {
    let (_dir, mut store) = scratch();
    let mut head = session(&mut store, HERE);
    append(&mut store, &mut head, vec![said("crab crab crab")]);
    append(
        &mut store,
        &mut head,
        vec![said("a crab between many other words that say nothing")],
    );
    let order = |store: &mut Store, order| -> Vec<u64> {
        let hits = store.index().search("crab", Scope::All, order, 10).unwrap();
        hits.iter().map(|hit| hit.seq).collect()
    };
    assert_eq!(order(&mut store, Order::Newest), [2, 1]);
    assert_eq!(order(&mut store, Order::Best), [1, 2]);
    let best = store
        .index()
        .search("crab", Scope::All, Order::Best, 1)
        .unwrap();
    assert!(best[0].score.is_some_and(|score| score > 0.0));
    assert_eq!(best[0].snippet, "crab crab crab");
}

#[test]
fn a_scope_is_kept() {
    let (_dir, mut store) = scratch();
    let mut trunk = talk(&mut store, 3);
    let mut fork = fork(&mut store, trunk.session(), 2, 5).unwrap();
    append(&mut store, &mut fork, vec![said("words of the fork")]);
    append(&mut store, &mut trunk, vec![said("words of the trunk")]);
    let mut elsewhere = session(&mut store, "/elsewhere");
    append(&mut store, &mut elsewhere, vec![said("words there")]);
    let of = |head: &rewake::store::Head| head.session().to_string();
    let (trunk, fork) = (of(&trunk), of(&fork));
    assert_eq!(
        found(&mut store, "words", Scope::Session(&trunk)),
        [4, 3, 2, 1]
    );
    assert_eq!(found(&mut store, "words", Scope::Session(&fork)), [4, 2, 1]);
    assert_eq!(
        found(&mut store, "words", Scope::Workspace("/elsewhere")),
        [1]
    );
    assert_eq!(
        found(&mut store, "words", Scope::Workspace(HERE)),
        [4, 4, 3, 2, 1]
    );
    assert_eq!(found(&mut store, "words", Scope::All).len(), 6);
}

#[test]
fn the_index_is_filled_in_steps() {
    let (dir, mut store) = scratch();
    let mut head = talk(&mut store, 9);
    assert_eq!(store.index().index_pending(4).unwrap(), 6);
    assert_eq!(store.index().index_pending(4).unwrap(), 2);
    assert_eq!(
        Store::open(dir.path())
            .unwrap()
            .index()
            .index_pending(4)
            .unwrap(),
        0
    );
    assert_eq!(store.index().index_pending(4).unwrap(), 0);
    append(&mut store, &mut head, vec![said("fresh")]);
    assert_eq!(found(&mut store, "fresh", Scope::All), [10]);
    assert_eq!(found(&mut store, "words", Scope::All).len(), 9);
}

#[test]
fn upkeep_fills_the_index_when_it_is_worth_it() {
    let (dir, mut store) = scratch();
    let mut head = talk(&mut store, 9);
    let indexed = || -> i64 {
        let upto = "SELECT upto FROM indexed";
        raw(dir.path())
            .query_row(upto, [], |row| row.get(0))
            .unwrap()
    };
    assert!(!store.maintain().unwrap());
    assert_eq!(indexed(), 0);
    append(&mut store, &mut head, vec![said("words"); 1_200]);
    while store.maintain().unwrap() {}
    assert_eq!(indexed(), 1_210);
}

#[test]
fn a_huge_entry_is_searched_by_its_beginning() {
    let (_dir, mut store) = scratch();
    let mut head = session(&mut store, HERE);
    let text = format!("begin {} end", "ü ".repeat(300_000));
    let huge = Entry::Finished {
        call: rewake::core::entry::CallId { reply: 0, index: 0 },
        outcome: Outcome::done(text),
        fact: None,
        tree: None,
    };
    append(&mut store, &mut head, vec![huge]);
    assert_eq!(found(&mut store, "begin", Scope::All), [1]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]
    #[test]
    fn any_text_is_a_query(
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
            for order in [Order::Newest, Order::Best] {
                let hits = store.borrow_mut().index().search(&query, Scope::Workspace(HERE), order, 5);
                prop_assert!(hits.is_ok(), "{query:?}: {hits:?}");
            }
            Ok(())
        })?;
    }
}
