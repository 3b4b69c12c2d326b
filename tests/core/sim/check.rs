//! What must hold of a session whose processes died, whatever they were at.

use std::cell::RefCell;
use std::path::Path;
use std::rc::Rc;

use rewake::core::entry::*;
use rewake::core::state::State;
use rewake::core::tool::Class;
use rewake::core::tree::tree_at;
use rewake::store::Store;

use super::fake::{self, Outside};
use super::served::AGAIN;

/// What was told to be in the log is in the log.
pub fn check_acknowledged(records: &[Record], session: &str, outside: &Rc<RefCell<Outside>>) {
    for (of, record) in &outside.borrow().acknowledged {
        if of == session {
            assert_eq!(
                records.get(record.seq as usize),
                Some(record),
                "an acknowledged entry is lost"
            );
        }
    }
}

/// Each `Finished` that keeps something has its one row, and no row is without.
fn check_memories(dir: &Path, session: &str, records: &[Record]) {
    let database = rusqlite::Connection::open(dir.join("rewake.db")).expect("the database");
    let mut rows = database
        .prepare(
            "SELECT m.seq, m.text FROM memories m JOIN sessions s ON s.key = m.session
             WHERE s.id = ?1 ORDER BY m.seq, m.id",
        )
        .expect("the memories");
    let rows: Vec<(i64, String)> = rows
        .query_map([session], |row| Ok((row.get(0)?, row.get(1)?)))
        .and_then(Iterator::collect)
        .expect("the rows");
    // What a fork has from its ancestors is theirs.
    let own = records
        .iter()
        .rposition(|r| matches!(r.entry, Entry::Forked { .. }))
        .unwrap_or(0);
    let kept: Vec<(i64, String)> = records[own..]
        .iter()
        .filter_map(|r| match &r.entry {
            Entry::Finished {
                fact: Some(Fact::Remembered { memory }),
                ..
            } => Some((r.seq as i64, memory.text.clone())),
            _ => None,
        })
        .collect();
    assert_eq!(rows, kept, "memories kept, and rows of them");
}

/// Before an effect began, the files before it were durable.
fn check_files(store: &Store, records: &[Record], outside: &Outside) {
    for record in records {
        let Entry::Started { call, .. } = &record.entry else {
            continue;
        };
        let first = records
            .iter()
            .find(|r| matches!(&r.entry, Entry::Started { call: other, .. } if other == call));
        let Some(name) = outside.files_at.get(call) else {
            continue;
        };
        if first.map(|first| first.seq) == Some(record.seq) {
            let known = tree_at(records, record.seq - 1);
            assert_eq!(known, Some(name.as_str()), "the files before call {call}");
        }
        let tree = store.snapshots().tree(name).expect("trees can be read");
        assert!(tree.is_some(), "the files before call {call} are kept");
    }
}

/// The invariants of a session that is at rest.
pub fn check_end(dir: &Path, session: &str, outside: &Rc<RefCell<Outside>>) -> Vec<Record> {
    let store = Store::open(dir).expect("the store opens");
    let (_, records) = store.load(session).expect("the session loads");
    let state = State::of(rewake::tools::describe, &records).expect("the log folds");
    assert!(state.first_open().is_none(), "no call is left open");
    assert!(!state.owed || state.halted.is_some(), "the model answered");
    check_acknowledged(&records, session, outside);
    check_memories(dir, session, &records);
    let outside = outside.borrow();
    check_files(&store, &records, &outside);
    let is_task = |call: CallId| {
        let is_start = |r: &&Record| matches!(&r.entry, Entry::Started { call: c, guard: Guard::Child { .. }, .. } if *c == call);
        records.iter().any(|r| is_start(&r))
    };
    let ended = records.iter().filter_map(|r| match &r.entry {
        Entry::Finished { call, .. } if !is_task(*call) => Some((call.reply, call.index)),
        _ => None,
    });
    assert!(ended.is_sorted(), "results in another order than the calls");
    let results = |call: CallId| {
        records.iter().find_map(|r| match &r.entry {
            Entry::Finished {
                call: c, outcome, ..
            } if *c == call => Some(outcome),
            _ => None,
        })
    };
    let fork = records
        .iter()
        .rposition(|r| matches!(r.entry, Entry::Forked { .. }))
        .unwrap_or(0) as u64;
    for record in &records {
        let Entry::Replied { blocks, .. } = &record.entry else {
            continue;
        };
        for call in fake::calls(record.seq, blocks) {
            let times = outside
                .effects
                .get(&fake::marker(call.id))
                .copied()
                .unwrap_or(0);
            // What may be repeated happens once more for each death of its server.
            let most = match call.name.as_str() {
                AGAIN => 1 + outside.servers.deaths,
                _ => 1,
            };
            assert!(
                times <= most,
                "the effect of call {} happened {times} times",
                call.id
            );
            let outcome = match results(call.id) {
                Some(outcome) => outcome,
                None if record.seq < fork => continue,
                None => panic!("call {} has no result", call.id),
            };
            match (call.class(), outcome) {
                (Some(Class::Idempotent), Outcome::Done { output }) => {
                    assert!(
                        output
                            .text
                            .starts_with(&format!("{}\n", fake::look(call.id))),
                        "another call's result"
                    );
                }
                (Some(Class::Idempotent) | None, _) => {}
                // The person's answer is the result.
                (Some(Class::Asked), Outcome::Done { output }) => {
                    assert!(output.text.contains("this one"), "{}", output.text);
                }
                (Some(_), Outcome::Done { output }) => {
                    assert!(times >= 1, "call {} is done but had no effect", call.id);
                    assert!(
                        output.text.contains(&fake::marker(call.id)),
                        "a made-up result: {}",
                        output.text
                    );
                }
                (Some(_), Outcome::Error { .. } | Outcome::Denied { .. }) => {
                    assert_eq!(
                        times, 0,
                        "call {} failed or was denied, and had an effect",
                        call.id
                    );
                }
                // Told: it may have happened, once.
                (Some(_), Outcome::Interrupted { .. }) => {}
            }
        }
    }
    records
}
