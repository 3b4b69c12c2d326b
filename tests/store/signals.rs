//! Signals of other processes: rows that wait until they are obeyed, kept as queued messages are.

use std::fs;
use std::time::{Duration, Instant};

use rewake::core::entry::{By, CallId, Choice, Entry, RunLimits, StopReason, Usage, Verdict, Via};
use rewake::core::form::FormAnswer;
use rewake::core::signal::Signal;
use rewake::store::{
    Batch, Head, MAX_SIGNALS, Message, QueuedSignal, SignalId, Store, StoreError, is_purged,
};

use crate::scene::Scene;
use crate::story::*;

fn name(title: &str) -> Signal {
    Signal::Name {
        title: title.into(),
    }
}

fn send(store: &mut Store, head: &Head, title: &str) -> SignalId {
    let sent = store
        .inbox_mut()
        .signal(head.session(), "cli", 5, |_| name(title));
    sent.unwrap()
}

fn titles(store: &Store, id: &str) -> Vec<String> {
    let title = |sent: QueuedSignal| match sent.signal.unwrap() {
        Signal::Name { title } => title,
        other => panic!("{other:?}"),
    };
    store
        .inbox()
        .signals(id)
        .unwrap()
        .into_iter()
        .map(title)
        .collect()
}

fn obeying(id: SignalId, title: &str) -> Batch {
    Batch {
        signal: Some(id),
        ..batch(vec![Entry::Named {
            title: title.into(),
        }])
    }
}

fn rebuild(scene: &Scene) {
    scene.rebuild(false, &[]).unwrap().unwrap();
}

#[test]
fn a_signal_is_obeyed_once() {
    let (dir, mut store) = scratch();
    let mut head = session(&mut store, HERE);
    let id = head.session().to_string();
    let first = send(&mut store, &head, "one");
    let second = send(&mut store, &head, "two");
    store.append(&mut head, &obeying(first, "one")).unwrap();
    assert_eq!(titles(&store, &id), ["two"]);
    // Once more, as after a bug or from another process: nothing is recorded.
    let again = store.append(&mut head, &obeying(first, "one"));
    assert!(
        matches!(again, Err(StoreError::NotFound { .. })),
        "{again:?}"
    );
    store.inbox_mut().remove_signal(second).unwrap();
    store.inbox_mut().remove_signal(second).unwrap();
    let (_, records) = Store::open(dir.path()).unwrap().load(&id).unwrap();
    assert_eq!(records.len(), 2);
    // A number is never used twice, so an old one cannot take what is new.
    let third = send(&mut store, &head, "three");
    assert_ne!(third, second);
}

#[test]
fn pending_signals_of_a_session_are_limited() {
    let (_dir, mut store) = scratch();
    let head = session(&mut store, HERE);
    for n in 0..MAX_SIGNALS {
        send(&mut store, &head, &format!("name {n}"));
    }
    let refused = store
        .inbox_mut()
        .signal(head.session(), "cli", 5, |_| Signal::GoOn);
    let refused = refused.unwrap_err();
    assert!(matches!(refused, StoreError::TooMany { .. }), "{refused:?}");
    assert!(refused.hint().is_some());
    // Another session has room.
    let other = session(&mut store, HERE);
    send(&mut store, &other, "fits");
}

/// A session in which one signal waits and one was obeyed.
fn furnished(scene: &Scene) -> String {
    let mut store = scene.open();
    let mut head = session(&mut store, HERE);
    let obeyed = send(&mut store, &head, "obeyed");
    send(&mut store, &head, "waits");
    store.append(&mut head, &obeying(obeyed, "obeyed")).unwrap();
    head.session().to_string()
}

/// What waited is there again, what was obeyed is not, and its number is not given again.
#[track_caller]
fn is_as_before(scene: &Scene, id: &str) {
    let mut store = scene.open();
    assert_eq!(titles(&store, id), ["waits"]);
    let waits = store.inbox().signals(id).unwrap()[0].id;
    let (head, _) = store.load(id).unwrap();
    let next = send(&mut store, &head, "next");
    assert!(next > waits, "{next:?} was used before");
    store.inbox_mut().remove_signal(next).unwrap();
}

#[test]
fn pending_signals_are_rebuilt_from_the_journal() {
    let scene = Scene::new();
    let id = furnished(&scene);
    scene.replace_database(None);
    is_as_before(&scene, &id);
    scene.replace_database(Some(&[b'x'; 50_000]));
    rebuild(&scene);
    is_as_before(&scene, &id);
}

#[test]
fn pending_signals_are_rebuilt_from_rows_without_a_journal() {
    let scene = Scene::new();
    let id = furnished(&scene);
    fs::remove_dir_all(scene.place().folder).unwrap();
    let mut bytes = scene.database();
    // The root of an index: all rows can be read.
    let page = page_of(&scene, "sqlite_autoindex_sessions_1");
    bytes[page * 4096..(page + 1) * 4096].fill(0);
    scene.replace_database(Some(&bytes));
    rebuild(&scene);
    is_as_before(&scene, &id);
}

fn page_of(scene: &Scene, name: &str) -> usize {
    let sql = "SELECT rootpage - 1 FROM sqlite_schema WHERE name = ?1";
    let page: i64 = raw(&scene.data())
        .query_row(sql, [name], |row| row.get(0))
        .unwrap();
    usize::try_from(page).unwrap()
}

/// An older copy of the database has the signal; the journal says that it was obeyed.
#[test]
fn an_older_copy_of_the_database_has_nothing_obeyed_again() {
    let scene = Scene::new();
    let mut store = scene.open();
    let mut head = session(&mut store, HERE);
    let id = head.session().to_string();
    let obeyed = send(&mut store, &head, "obeyed");
    drop(store);
    let older = scene.database();
    let mut store = scene.open();
    store.append(&mut head, &obeying(obeyed, "obeyed")).unwrap();
    drop(store);
    scene.replace_database(Some(&older));
    let mut store = scene.open();
    store.restore_from_journal(&id).unwrap();
    assert_eq!(titles(&store, &id), Vec::<String>::new());
    assert_eq!(store.load(&id).unwrap().1.len(), 2);
}

/// The entry is in the database, and the page with its row is an older one.
#[test]
fn a_row_that_came_back_is_not_obeyed_again() {
    let scene = Scene::new();
    let mut store = scene.open();
    let mut head = session(&mut store, HERE);
    let id = head.session().to_string();
    let obeyed = send(&mut store, &head, "obeyed");
    type Row = (i64, i64, i64, String, String);
    let row: Row = raw(&scene.data())
        .query_row("SELECT * FROM signals", [], |row| row.try_into())
        .unwrap();
    store.append(&mut head, &obeying(obeyed, "obeyed")).unwrap();
    drop(store);
    raw(&scene.data())
        .execute("INSERT INTO signals VALUES (?1, ?2, ?3, ?4, ?5)", row)
        .unwrap();
    let mut store = scene.open();
    assert_eq!(titles(&store, &id), ["obeyed"]);
    store.restore_from_journal(&id).unwrap();
    assert_eq!(titles(&store, &id), Vec::<String>::new());
}

/// A kill between the commit and the journal: the journal says that it waits, and the row of the
/// entry is all that tells of it.
#[test]
fn an_entry_that_only_the_database_has_tells_what_was_obeyed() {
    let call = CallId { reply: 2, index: 1 };
    let origin = Some("cli".to_string());
    let limits = Choice {
        limits: Some(RunLimits::default()),
        origin: origin.clone(),
        ..Choice::default()
    };
    let decided = Entry::Decided {
        call,
        verdict: Verdict::Allow,
        by: By::Person,
        access: None,
        at: None,
        rule: None,
        origin: origin.clone(),
    };
    let decide = Signal::Decide {
        call,
        asked: 3,
        verdict: Verdict::Allow,
        rule: None,
    };
    let answered = Entry::Answered {
        call,
        asked: 3,
        key: "server/7".into(),
        answer: FormAnswer::Decline,
        by: By::Person,
        origin: origin.clone(),
    };
    let answer = Signal::Answer {
        call,
        asked: 3,
        answer: FormAnswer::Decline,
    };
    let table = [
        (answer, answered),
        (name("x"), Entry::Named { title: "x".into() }),
        (
            Signal::GoOn,
            Entry::Lifted {
                origin: origin.clone(),
            },
        ),
        (Signal::Pause { seen: 0 }, Entry::Paused { origin }),
        (decide, decided),
        (
            Signal::Limit {
                turns: Some(1),
                usd: None,
                tokens: None,
            },
            Entry::Chose(limits),
        ),
    ];
    for (signal, entry) in table {
        let scene = Scene::new();
        let mut store = scene.open();
        let mut head = session(&mut store, HERE);
        let id = head.session().to_string();
        let sent = store
            .inbox_mut()
            .signal(&id, "cli", 5, |_| signal.clone())
            .unwrap();
        store
            .inbox_mut()
            .signal(&id, "cli", 6, |_| name("waits"))
            .unwrap();
        drop(store);
        // As this process would, with its journal.
        let mut store = Store::open(&scene.data()).unwrap();
        let taking = Batch {
            signal: Some(sent),
            ..batch(vec![entry.clone()])
        };
        store.append(&mut head, &taking).unwrap();
        drop(store);
        let mut bytes = scene.database();
        for table in ["signals", "inbox"] {
            let page = page_of(&scene, table);
            bytes[page * 4096..(page + 1) * 4096].fill(0);
        }
        scene.replace_database(Some(&bytes));
        rebuild(&scene);
        let left = scene.open().inbox().signals(&id).unwrap();
        let left: Vec<Signal> = left.into_iter().map(|sent| sent.signal.unwrap()).collect();
        assert_eq!(left, [name("waits")], "{entry:?}");
    }
}

#[test]
fn a_damaged_table_of_signals_keeps_nobody_from_a_session() {
    let scene = Scene::new();
    let id = furnished(&scene);
    let mut bytes = scene.database();
    let page = page_of(&scene, "signals");
    bytes[page * 4096..(page + 1) * 4096].fill(0);
    scene.replace_database(Some(&bytes));
    let mut store = scene.open_repaired();
    let (mut head, _) = store.load(&id).unwrap();
    let next = send(&mut store, &head, "next");
    store.append(&mut head, &obeying(next, "next")).unwrap();
    // What lay there comes back from the journal.
    assert_eq!(titles(&store, &id), ["waits"]);
}

/// Who sends something is another process than who works in the session: each of them writes what
/// waits into the same file.
#[test]
fn the_journal_knows_what_another_process_took_away() {
    let scene = Scene::new();
    let mut works = scene.open();
    let head = session(&mut works, HERE);
    let id = head.session().to_string();
    works.inbox_mut().set_input(&id, "unsent").unwrap();
    let mut sends = scene.open();
    let late = send(&mut sends, &head, "late");
    drop(sends);
    // The same as before it was sent.
    works.inbox_mut().remove_signal(late).unwrap();
    drop(works);
    scene.replace_database(None);
    let store = scene.open();
    assert_eq!(titles(&store, &id), Vec::<String>::new());
    assert_eq!(
        store.inbox().drafts(&id).unwrap().input.as_deref(),
        Some("unsent")
    );
}

/// What one read before the other wrote must not be written behind it.
#[test]
fn a_sender_waits_for_who_writes_what_waits() {
    const TEXT: &str = "sent while the other reads";
    let scene = Scene::new();
    let mut works = scene.open();
    let id = session(&mut works, HERE).session().to_string();
    works.inbox_mut().set_input(&id, "unsent").unwrap();
    let folder = scene.data().join("journal").join(&id);
    let in_journal = || fs::read_to_string(folder.join("state.jsonl")).unwrap();
    let lock = fs::File::options()
        .write(true)
        .open(folder.join("state.lock"))
        .unwrap();
    lock.lock().unwrap();
    std::thread::scope(|scope| {
        let sender = scope.spawn(|| {
            let message = Message {
                via: Via::Signal,
                ..message(TEXT)
            };
            let sent = scene
                .open()
                .inbox_mut()
                .queue_from_outside(&id, &message, &[], 9);
            sent.unwrap();
        });
        let end = Instant::now() + Duration::from_secs(90);
        while works.inbox().queued(&id).unwrap().is_empty() {
            assert!(Instant::now() < end, "nothing is sent");
            std::thread::sleep(Duration::from_millis(2));
        }
        // It has its row, and would have written it by now.
        std::thread::sleep(Duration::from_millis(200));
        assert!(!in_journal().contains(TEXT));
        assert!(!sender.is_finished());
        lock.unlock().unwrap();
    });
    assert!(in_journal().contains(TEXT));
}

#[test]
fn queued_messages_are_limited_in_bytes() {
    let (_dir, mut store) = scratch();
    let id = session(&mut store, HERE).session().to_string();
    let mut send = |text: &str| {
        store
            .inbox_mut()
            .queue_from_outside(&id, &message(text), &[], 9)
    };
    send(&"x".repeat(64 << 20)).unwrap();
    let refused = send("one more").unwrap_err();
    assert!(
        matches!(refused, StoreError::TooMany { limit: 64, .. }),
        "{refused}"
    );
    assert_eq!(store.inbox().queued(&id).unwrap().len(), 1);
}

#[test]
fn purging_takes_the_signals_along() {
    let scene = Scene::new();
    let id = furnished(&scene);
    let store = scene.open();
    let place = scene.place();
    store.purge(&scene.data(), Some(&place), &id).unwrap();
    assert!(is_purged(&scene.data(), &id));
    let left: i64 = raw(&scene.data())
        .query_row("SELECT count(*) FROM signals", [], |row| row.get(0))
        .unwrap();
    assert_eq!(left, 0);
}

/// What the providers say is summed while each of them says it.
#[test]
fn billed_cost_is_summed_and_restored() {
    let scene = Scene::new();
    let mut store = scene.open();
    let mut head = session(&mut store, HERE);
    let id = head.session().to_string();
    let mut cost = |store: &mut Store, billed_nanos: Option<u64>| {
        let usage = Usage {
            input: 10,
            billed_nanos,
            ..Usage::default()
        };
        let replied = Entry::Replied {
            blocks: vec![],
            model: "a/b".into(),
            stop: StopReason::EndTurn,
            usage,
            took_ms: 0,
            asked_bytes: 0,
            source_usage: None,
        };
        append(store, &mut head, vec![replied]);
        store.history().find(&id).unwrap().usage.billed_nanos
    };
    assert_eq!(store.history().find(&id).unwrap().usage.billed_nanos, None);
    assert_eq!(cost(&mut store, Some(700)), Some(700));
    assert_eq!(cost(&mut store, Some(300)), Some(1_000));
    drop(store);
    scene.replace_database(Some(&[b'x'; 50_000]));
    rebuild(&scene);
    let mut store = scene.open();
    let found = store.history().find(&id).unwrap().usage;
    assert_eq!((found.input, found.billed_nanos), (20, Some(1_000)));
    // One that does not say it: the sum is not known any more.
    assert_eq!(cost(&mut store, None), None);
    assert_eq!(cost(&mut store, Some(5)), None);
}
