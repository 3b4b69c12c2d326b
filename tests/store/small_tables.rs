//! Damage to small tables: their rows come back from the journal and from the entries.

use std::fs;

use rewake::core::entry::{Entry, Via};
use rewake::store::{Batch, Catalogued, Gap, Store, Telemetry, TelemetryCursor};

use crate::scene::Scene;
use crate::story::*;

const PAGE: usize = 4096;

fn queued(store: &Store, session: &str) -> Vec<String> {
    let queued = store.inbox().queued(session).unwrap();
    queued.into_iter().map(|q| q.message.text).collect()
}

/// The first pages of these tables are zeroed, in a database that nobody has open.
fn damage(scene: &Scene, tables: &[&str]) {
    let mut bytes = scene.database();
    let conn = raw(&scene.data());
    for table in tables {
        let sql = "SELECT rootpage FROM sqlite_schema WHERE name = ?1";
        let root: u32 = conn.query_row(sql, [table], |row| row.get(0)).unwrap();
        let root = root as usize;
        bytes[(root - 1) * PAGE..root * PAGE].fill(0);
    }
    drop(conn);
    scene.replace_database(Some(&bytes));
}

/// Two sessions in which something waits. In the first, one message was said.
fn waiting(scene: &Scene) -> (String, String) {
    let mut store = scene.open();
    let mut first = session(&mut store, HERE);
    let second = session(&mut store, "/elsewhere");
    let ids = (first.session().to_string(), second.session().to_string());
    // The same words twice: one of them was said.
    let said_one = store
        .inbox_mut()
        .queue(&ids.0, &message("again"), &[], 9_000)
        .unwrap();
    store
        .inbox_mut()
        .queue(&ids.0, &message("again"), &[], 9_001)
        .unwrap();
    store
        .inbox_mut()
        .queue(&ids.0, &message("then"), &[], 9_002)
        .unwrap();
    store
        .inbox_mut()
        .queue(&ids.1, &message("there"), &[], 9_003)
        .unwrap();
    store.inbox_mut().set_input(&ids.0, "unsent").unwrap();
    let taken = Batch {
        taken: Some(said_one),
        ..batch(vec![said("again")])
    };
    store.append(&mut first, &taken).unwrap();
    ids
}

#[test]
fn queued_messages_and_unsent_words_come_back_from_the_journal() {
    let scene = Scene::new();
    let (first, second) = waiting(&scene);
    damage(&scene, &["inbox", "drafts", "sqlite_sequence"]);
    let store = scene.open_repaired();
    assert_eq!(queued(&store, &first), ["again", "then"]);
    assert_eq!(queued(&store, &second), ["there"]);
    let input = store.inbox().drafts(&first).unwrap().input;
    assert_eq!(input.as_deref(), Some("unsent"));
    drop(store);
    // Once, and not again with what was done since.
    let mut store = scene.open();
    let waits = store.inbox().queued(&second).unwrap().remove(0);
    store.inbox_mut().remove_queued(waits.id).unwrap();
    drop(store);
    let store = scene.open();
    assert_eq!(queued(&store, &second), [""; 0]);
    assert!(!store.is_damaged());
}

/// The number of the message that was queued last.
fn highest(scene: &Scene) -> i64 {
    let sql = "SELECT max(id) FROM inbox";
    raw(&scene.data())
        .query_row(sql, [], |row| row.get(0))
        .unwrap()
}

/// A clock that was set back: a number that was given is never given again.
#[test]
fn the_number_of_a_message_is_never_given_twice() {
    let scene = Scene::new();
    let (first, _) = waiting(&scene);
    let far = 9_000_000_000_000_000_i64;
    raw(&scene.data())
        .execute("UPDATE sqlite_sequence SET seq = ?1", [far])
        .unwrap();
    let mut store = scene.open();
    let last = store
        .inbox_mut()
        .queue(&first, &message("last"), &[], 1)
        .unwrap();
    assert_eq!(highest(&scene), far + 1);
    store.inbox_mut().remove_queued(last).unwrap();
    drop(store);
    damage(&scene, &["sqlite_sequence"]);
    let mut store = scene.open_repaired();
    store
        .inbox_mut()
        .queue(&first, &message("next"), &[], 1)
        .unwrap();
    assert_eq!(highest(&scene), far + 2);
}

/// A message was said after the clock was set back: it is not said once more.
#[test]
fn a_clock_that_was_set_back_lets_nothing_be_said_twice() {
    let scene = Scene::new();
    let mut store = scene.open();
    let mut head = session(&mut store, HERE);
    let id = head.session().to_string();
    let waits = store
        .inbox_mut()
        .queue(&id, &message("once"), &[], 9_000)
        .unwrap();
    let folder = scene.place().folder.join(&id);
    let state = fs::read(folder.join("state.jsonl")).unwrap();
    let once = Entry::Said {
        text: "once".into(),
        images: vec![],
        via: Via::Queue,
        command: None,
        origin: None,
    };
    let taken = Batch {
        taken: Some(waits),
        at_ms: 4_000,
        ..batch(vec![once])
    };
    store.append(&mut head, &taken).unwrap();
    drop(store);
    // As a kill leaves it right after the commit: the journal knows nothing of it.
    fs::write(folder.join("state.jsonl"), state).unwrap();
    fs::remove_file(folder.join("tail.jsonl")).unwrap();
    damage(&scene, &["inbox"]);
    scene.rebuild(false, &[]).unwrap();
    let store = scene.open();
    assert_eq!(said_texts(&store.load(&id).unwrap().1), ["once"]);
    assert_eq!(queued(&store, &id), [""; 0]);
}

/// A session that lacks entries is still held when the page that says so is gone.
#[test]
fn a_gap_is_known_when_its_page_is_gone() {
    let scene = Scene::new();
    let mut store = scene.open();
    let id = session(&mut store, HERE).session().to_string();
    drop(store);
    raw(&scene.data())
        .execute(
            "INSERT INTO meta VALUES (?1, '{\"first\":3,\"last\":7,\"behind\":2}')",
            [format!("gap:{id}")],
        )
        .unwrap();
    drop(scene.open());
    damage(&scene, &["meta"]);
    let store = scene.open_repaired();
    let gap = Gap {
        session: id.clone(),
        first: 3,
        last: 7,
        behind: 2,
        since_ms: None,
        until_ms: None,
        summary: None,
    };
    assert_eq!(store.history().gap(&id).unwrap(), Some(gap));
    assert!(store.history().check_no_gap(&id).is_err());
}

/// It is a cache: nobody is kept from a session by it, and what is lost is asked for again.
#[test]
fn server_catalogue_can_be_lost_without_harm() {
    let scene = Scene::new();
    let said = |at_ms, body: &str| Catalogued {
        at_ms,
        body: body.into(),
    };
    let mut store = scene.open();
    let mut head = session(&mut store, HERE);
    store
        .catalogue()
        .store_catalogued("files", "one", &said(1, "[1]"))
        .unwrap();
    store
        .catalogue()
        .store_catalogued("files", "two", &said(2, "[2]"))
        .unwrap();
    store
        .catalogue()
        .store_catalogued("files", "one", &said(3, "[3]"))
        .unwrap();
    assert_eq!(
        store.catalogue().catalogued("files", "one").unwrap(),
        Some(said(3, "[3]"))
    );
    assert_eq!(
        store.catalogue().catalogued("files", "two").unwrap(),
        Some(said(2, "[2]"))
    );
    assert_eq!(
        store.catalogue().catalogued("files", "three").unwrap(),
        None
    );
    drop(store);
    damage(&scene, &["catalogue"]);
    let mut store = scene.open_repaired();
    assert_eq!(store.catalogue().catalogued("files", "one").unwrap(), None);
    append(&mut store, &mut head, vec![crate::story::said("hello")]);
    store
        .catalogue()
        .store_catalogued("files", "one", &said(4, "[4]"))
        .unwrap();
    assert_eq!(
        store.catalogue().catalogued("files", "one").unwrap(),
        Some(said(4, "[4]"))
    );
}

#[test]
fn only_the_most_recently_asked_servers_are_kept() {
    let scene = Scene::new();
    let store = scene.open();
    for n in 0..200 {
        let said = Catalogued {
            at_ms: n,
            body: "{}".into(),
        };
        store
            .catalogue()
            .store_catalogued(&format!("s{n}"), "hash", &said)
            .unwrap();
    }
    let known = |n: i64| {
        store
            .catalogue()
            .catalogued(&format!("s{n}"), "hash")
            .unwrap()
            .is_some()
    };
    assert!(!known(71) && known(72) && known(199));
}

/// A cursor only grows, and a lost one only ends what is sent of the entries so far.
#[test]
fn progress_of_telemetry_only_grows_and_can_be_lost() {
    let scene = Scene::new();
    let mut store = scene.open();
    let mut head = session(&mut store, HERE);
    append(&mut store, &mut head, vec![crate::story::said("hello")]);
    let id = head.session().to_string();
    let at = |seq| TelemetryCursor {
        seq,
        turn: seq / 2,
        trace: [seq as u8; 16],
        parent: None,
    };
    assert_eq!(Telemetry::of(&store).length(&id).unwrap(), 2);
    assert_eq!(
        Telemetry::of(&store).unsent(9).unwrap(),
        Vec::<String>::new()
    );
    Telemetry::of(&store).set_cursor(&id, &at(1)).unwrap();
    assert_eq!(Telemetry::of(&store).unsent(9).unwrap(), [id.as_str()]);
    Telemetry::of(&store).set_cursor(&id, &at(2)).unwrap();
    Telemetry::of(&store).set_cursor(&id, &at(0)).unwrap();
    // The trace is decided once.
    let trace = [1; 16];
    let furthest = TelemetryCursor { trace, ..at(2) };
    assert_eq!(Telemetry::of(&store).cursor(&id).unwrap(), Some(furthest));
    assert_eq!(
        Telemetry::of(&store).unsent(9).unwrap(),
        Vec::<String>::new()
    );
    drop(store);
    damage(&scene, &["telemetry"]);
    let mut store = scene.open_repaired();
    assert_eq!(Telemetry::of(&store).cursor(&id).unwrap(), None);
    append(&mut store, &mut head, vec![crate::story::said("again")]);
    Telemetry::of(&store).set_cursor(&id, &at(3)).unwrap();
    Telemetry::of(&store).forget(&id).unwrap();
    assert_eq!(Telemetry::of(&store).cursor(&id).unwrap(), None);
}
