//! Tests of a purge that is killed between its steps.

use std::time::Duration;

use super::*;
use crate::core::entry::{Assignment, CallId, Entry};
use crate::store::{Batch, Head, NewFork, NewSession, new_id};

fn note(text: &str) -> Entry {
    Entry::Noted {
        text: text.into(),
        about: None,
    }
}

fn talk(store: &mut Store, n: usize) -> Head {
    let new = NewSession {
        id: new_id(),
        workspace: "/w".into(),
        folder: "/w".into(),
    };
    let (mut head, _) = store.create(&new, 1, note("first")).unwrap();
    for n in 0..n {
        let batch = Batch {
            at_ms: 2,
            entries: vec![note(&format!("words {n}"))],
            ..Batch::default()
        };
        store.append(&mut head, &batch).unwrap();
    }
    head
}

fn task_of(store: &mut Store, parent: &str) -> String {
    let new = NewSession {
        id: new_id(),
        workspace: "/w".into(),
        folder: "/w".into(),
    };
    let assigned = Entry::Assigned(Assignment {
        parent: parent.into(),
        call: CallId { reply: 1, index: 0 },
        agent: None,
        instructions: String::new(),
        tools: None,
        rules: vec![],
        branch: None,
    });
    let entries = [note("first"), assigned];
    store.create_child(&new, parent, 2, &entries).unwrap();
    new.id
}

/// A kill between any two steps: the next start removes the rest, nothing of the session is
/// visible, and other sessions are complete. The same applies if the database is lost at that
/// moment.
#[test]
fn a_kill_between_any_two_steps_leaves_it_gone() {
    for is_lost in [false, true] {
        let mut steps = 0;
        for kill in 0.. {
            let dir = tempfile::tempdir().unwrap();
            let data = dir.path().join("data");
            let place = JournalPlace {
                folder: data.join("journal"),
                state_dir: dir.path().join("state"),
                pause: Duration::from_millis(10),
            };
            std::fs::create_dir(&place.state_dir).unwrap();
            let open = || {
                let mut store = Store::open(&data).unwrap();
                store.start_copies(&data, &place).unwrap();
                store
            };
            let mut store = open();
            let gone = talk(&mut store, 5).session().to_string();
            let stays = talk(&mut store, 3).session().to_string();
            let task = task_of(&mut store, &gone);
            let fork = NewFork {
                id: new_id(),
                from: crate::core::entry::ForkPoint {
                    session: gone.clone(),
                    seq: 2,
                },
                place: None,
                unfinished: false,
            };
            let fork = store
                .fork(&fork, &[], &[], 9)
                .unwrap()
                .session()
                .to_string();
            drop(store);
            let mut store = open();
            write_tombstone(&data, &gone, BEGUN, 0).unwrap();
            let mut at = 0;
            let killed = store.finish_purge(&data, Some(&place), &gone, &mut |_| {
                at += 1;
                match at > kill {
                    true => Err(StoreError::damaged("killed")),
                    false => Ok(()),
                }
            });
            steps = steps.max(at);
            // A killed process does nothing more.
            store.copies = None;
            drop(store);
            if is_lost {
                for suffix in ["", "-wal", "-shm"] {
                    let _ = std::fs::remove_file(data.join(format!("rewake.db{suffix}")));
                }
            }
            let mut store = open();
            assert!(!store.history().knows(&gone).unwrap(), "step {kill}");
            // As long as its parent's tombstone is the only one, the journal alone restores it.
            if !is_lost || kill > 0 {
                assert!(!store.history().knows(&task).unwrap(), "step {kill}");
            }
            assert_eq!(store.load(&stays).unwrap().1.len(), 4, "step {kill}");
            // Without the database, its journal needs that of the session until it is written
            // again.
            if !is_lost || killed.is_ok() {
                assert_eq!(store.load(&fork).unwrap().1.len(), 4, "step {kill}");
                store.check_missing_entries(&stays).unwrap();
                store.restore_from_journal(&fork).unwrap();
                while store.catch_up().unwrap() {}
            }
            assert!(!place.folder.join(&gone).exists(), "step {kill}");
            drop(store);
            let store = open();
            assert!(!store.history().knows(&gone).unwrap(), "step {kill}");
            assert!(
                tombstones(&data)
                    .iter()
                    .all(|(_, path)| path.extension().unwrap() == DONE)
            );
            if killed.is_ok() {
                break;
            }
        }
        assert_eq!(steps, 7);
    }
}
