//! What waits to become an entry: drafts and queued messages, and what was learnt.

use rewake::core::entry::{RequestForm, Via};
use rewake::store::{Draft, Drafts, Learnt, LearntRatio, Message, Store, StoreError, blob_ref};

use crate::story::*;

fn message(text: &str) -> Message {
    Message {
        text: text.into(),
        images: vec![],
        via: Via::Queue,
        command: None,
        origin: None,
    }
}

fn queued(store: &Store, session: &str) -> Vec<String> {
    let queued = store.inbox().queued(session).unwrap();
    queued.into_iter().map(|q| q.message.text).collect()
}

#[test]
fn drafts_survive_and_are_cleared_by_what_records_them() {
    let (dir, mut store) = scratch();
    let mut head = session(&mut store, HERE);
    let id = head.session().to_string();
    store.inbox_mut().append_draft(&id, "half an ").unwrap();
    store.inbox_mut().append_draft(&id, "answer").unwrap();
    store.inbox_mut().set_input(&id, "unsen").unwrap();
    store.inbox_mut().set_input(&id, "unsent").unwrap();
    let mut store = Store::open(dir.path()).unwrap();
    let whole = Drafts {
        stream: Some("half an answer".into()),
        input: Some("unsent".into()),
    };
    assert_eq!(store.inbox().drafts(&id).unwrap(), whole);
    let mut answered = batch(vec![said("x")]);
    answered.clear = vec![Draft::Stream];
    store.append(&mut head, &answered).unwrap();
    assert_eq!(
        store.inbox().drafts(&id).unwrap(),
        Drafts {
            stream: None,
            ..whole
        }
    );
    store.inbox_mut().clear_draft(&id, Draft::Input).unwrap();
    assert_eq!(store.inbox().drafts(&id).unwrap(), Drafts::default());
}

#[test]
fn a_queued_message_is_taken_only_once() {
    let (dir, mut store) = scratch();
    let mut head = session(&mut store, HERE);
    let id = head.session().to_string();
    let first = store
        .inbox_mut()
        .queue(&id, &message("one"), &[BLOB.to_vec()], 1)
        .unwrap();
    let second = store
        .inbox_mut()
        .queue(&id, &message("two"), &[], 2)
        .unwrap();
    assert!(store.history().find(&id).unwrap().unfinished);
    assert!(store.blob(&blob_ref(BLOB).hash).unwrap().is_some());
    store
        .inbox_mut()
        .edit_queued(second, &message("two, better"))
        .unwrap();
    assert_eq!(queued(&store, &id), ["one", "two, better"]);

    let mut take = batch(vec![said("one")]);
    take.taken = Some(first);
    store.append(&mut head, &take).unwrap();
    assert_eq!(queued(&store, &id), ["two, better"]);
    // Once more, as after a bug or from another process: nothing is said.
    let again = store.append(&mut head, &take);
    assert!(
        matches!(again, Err(StoreError::NotFound { .. })),
        "{again:?}"
    );
    let (_, records) = Store::open(dir.path()).unwrap().load(&id).unwrap();
    assert_eq!(said_texts(&records), ["one"]);

    store.inbox_mut().remove_queued(second).unwrap();
    assert_eq!(store.inbox().oldest_queued(&id).unwrap(), None);
    assert!(
        store
            .inbox_mut()
            .edit_queued(second, &message("x"))
            .is_err()
    );
    // A number is never used twice, so an old one cannot take what is new.
    let third = store
        .inbox_mut()
        .queue(&id, &message("three"), &[], 3)
        .unwrap();
    assert_ne!(third, second);
}

#[test]
fn a_session_is_unfinished_while_something_is_queued() {
    let (_dir, mut store) = scratch();
    let mut head = session(&mut store, HERE);
    let id = head.session().to_string();
    let waits = store
        .inbox_mut()
        .queue(&id, &message("later"), &[], 1)
        .unwrap();
    append(&mut store, &mut head, vec![said("before that")]);
    assert!(store.history().find(&id).unwrap().unfinished);
    let mut take = batch(vec![said("later")]);
    take.taken = Some(waits);
    store.append(&mut head, &take).unwrap();
    assert!(!store.history().find(&id).unwrap().unfinished);
}

#[test]
fn learnt_facts_of_a_model_are_kept() {
    let (dir, mut store) = scratch();
    assert_eq!(store.models().learnt("a/b").unwrap(), Learnt::default());
    store.models().learn_limit("a/b", 32_000).unwrap();
    let mut head = session(&mut store, HERE);
    for bytes_per_token in [3.5, f64::NAN] {
        let mut with = batch(vec![said("words")]);
        with.ratio = Some(LearntRatio {
            model: "a/b".into(),
            bytes_per_token,
        });
        store.append(&mut head, &with).unwrap();
    }
    store.models().learn_limit("a/b", 8_000).unwrap();
    let learnt = Store::open(dir.path())
        .unwrap()
        .models()
        .learnt("a/b")
        .unwrap();
    assert_eq!(learnt.context_tokens, Some(8_000));
    assert_eq!(learnt.bytes_per_token, Some(3.5));
}

/// A form is known after two refusals, for a month, and until it is forgotten. A row with another
/// value is as good as none.
#[test]
fn forms_of_the_history_are_known_for_a_while() {
    const DAY: i64 = 24 * 60 * 60 * 1_000;
    let (dir, store) = scratch();
    let models = store.models();
    let known = |now: i64| models.forms("a/b", now).unwrap();
    for (form, now, want) in [
        (RequestForm::OneCall, 0, vec![]),
        (RequestForm::OneCall, DAY, vec![RequestForm::OneCall]),
    ] {
        models.keep_form("a/b", form, now).unwrap();
        assert_eq!(known(now), want);
    }
    assert_eq!(known(30 * DAY), [RequestForm::OneCall]);
    for now in [31 * DAY, 0] {
        assert_eq!(known(now), [], "too old, or of the future");
    }
    assert_eq!(models.forms("a/c", DAY).unwrap(), []);
    assert_eq!(models.all_learnt().unwrap().len(), 1);
    assert!(models.forget("a/b").unwrap());
    assert!(!models.forget("a/b").unwrap());
    assert_eq!(known(DAY), []);
    let database = rusqlite::Connection::open(dir.path().join("rewake.db")).unwrap();
    for value in ["5", "x'00ff'", "'no JSON'", "'{\"refusals\":-1}'"] {
        let sql = format!("INSERT OR REPLACE INTO meta VALUES ('form:one_call a/b', {value})");
        database.execute_batch(&sql).unwrap();
        assert_eq!(known(DAY), [], "{value}");
        models.all_learnt().unwrap();
    }
}
