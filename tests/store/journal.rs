//! The journal and the mark: what a database lost comes back, behind what it has; what is
//! nowhere is held; and what cannot be written is written later.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rewake::core::entry::{Assignment, By, CallId, Entry, Record, Via};
use rewake::store::{BackupStatus, Batch, Head, Message, NewSession, Store, StoreError, new_id};

use crate::scene::Scene;
use crate::story::*;

fn log(store: &Store, id: &str) -> Vec<Record> {
    store.load(id).unwrap().1
}

fn say(store: &mut Store, head: &mut Head, words: &str) {
    append(store, head, vec![said(words)]);
}

/// One session with every kind of entry and a blob, and a fork of it.
fn told(store: &mut Store) -> [String; 2] {
    let mut head = session(store, HERE);
    let mut all = batch(all_kinds());
    all.blobs = vec![BLOB.to_vec()];
    store.append(&mut head, &all).unwrap();
    let mut branch = fork(store, head.session(), 3, 9).unwrap();
    say(store, &mut branch, "another way");
    [head, branch].map(|head| head.session().to_string())
}

#[test]
fn a_lost_database_comes_back() {
    let scene = Scene::new();
    let mut store = scene.open();
    let ids = told(&mut store);
    let logs = ids.clone().map(|id| log(&store, &id));
    let title = store.history().find(&ids[0]).unwrap().title;
    drop(store);
    assert_eq!(
        scene.standing(),
        BackupStatus {
            sessions: 2,
            ..BackupStatus::default()
        }
    );
    scene.replace_database(None);

    let mut store = scene.open();
    assert_eq!(ids.clone().map(|id| log(&store, &id)), logs);
    let brought = store.restore_report().clone();
    assert_eq!(brought.missing, 0);
    let kinds = all_kinds().len() as u64 + 1;
    let expected = [(ids[0].clone(), kinds), (ids[1].clone(), 2)];
    assert_eq!(brought.entries, expected.into());
    let said = format!("{} entries of 2 sessions", kinds + 2);
    assert!(brought.line().unwrap().contains(&said));
    assert_eq!(store.history().find(&ids[0]).unwrap().title, title);
    let origin = store.history().find(&ids[1]).unwrap().forked_from.unwrap();
    assert_eq!((origin.session.as_str(), origin.seq), (&*ids[0], 3));
    let blob = rewake::store::blob_ref(BLOB).hash;
    assert_eq!(store.blob(&blob).unwrap().as_deref(), Some(BLOB));
    // They go on, and a second start has nothing to do.
    let (mut head, _) = store.load(&ids[0]).unwrap();
    say(&mut store, &mut head, "and on");
    drop(store);
    assert_eq!(scene.open().restore_report().line(), None);
    let stands = |put_back| BackupStatus {
        sessions: 2,
        put_back,
        ..BackupStatus::default()
    };
    assert_eq!(scene.standing(), stands(kinds + 2));
    // It is told by the session itself, whoever put it in, and once.
    let mut store = scene.open();
    assert_eq!(
        store.history().restored_entry_count(&ids[0]).unwrap(),
        kinds
    );
    let resumed = Entry::Resumed {
        by: By::Start,
        found: "put back".into(),
        draft: None,
        unrecorded: false,
        at_work: false,
    };
    append(&mut store, &mut head, vec![resumed]);
    assert_eq!(store.history().restored_entry_count(&ids[0]).unwrap(), 0);
    assert_eq!(store.history().restored_entry_count(&ids[1]).unwrap(), 2);
    drop(store);
    assert_eq!(scene.standing(), stands(2));
}

/// Nothing was closed, nothing synced: as a kill leaves it.
#[test]
fn each_append_is_in_the_journal_when_it_returns() {
    let scene = Scene::new();
    let mut store = scene.open();
    let mut head = session(&mut store, HERE);
    drop(store);
    let older = scene.database();
    let mut store = scene.open();
    for n in 0..5 {
        say(&mut store, &mut head, &format!("words {n}"));
        let tail = scene.place().folder.join(head.session()).join("tail.jsonl");
        let tail = fs::read_to_string(tail).unwrap();
        assert!(tail.lines().last().unwrap().contains(&format!("words {n}")));
    }
    let whole = log(&store, head.session());
    std::mem::forget(store);
    scene.replace_database(Some(&older));
    let store = scene.open();
    assert_eq!(store.restore_report().entries.values().sum::<u64>(), 5);
    assert_eq!(log(&store, head.session()), whole);
}

#[test]
fn a_sub_agent_has_its_parent_also_in_a_rebuilt_database() {
    let scene = Scene::new();
    let mut store = scene.open();
    let parent = session(&mut store, HERE).session().to_string();
    let new = NewSession {
        id: new_id(),
        workspace: HERE.into(),
        folder: HERE.into(),
    };
    let assigned = Entry::Assigned(Assignment {
        parent: parent.clone(),
        call: CallId { reply: 1, index: 0 },
        agent: None,
        instructions: String::new(),
        tools: None,
        rules: vec![],
        branch: None,
    });
    let entries = [opened(), assigned];
    store.create_child(&new, &parent, 2_000, &entries).unwrap();
    drop(store);
    let children = |store: &Store| -> Vec<String> {
        let all = store.history().children(&parent).unwrap().into_iter();
        all.map(|info| info.id).collect()
    };
    assert_eq!(children(&scene.open()), std::slice::from_ref(&new.id));
    scene.replace_database(None);
    assert_eq!(children(&scene.open()), [new.id]);
}

/// A message that waits in the older copy was said since.
#[test]
fn a_sent_message_is_not_sent_again_after_recovery() {
    let scene = Scene::new();
    let mut store = scene.open();
    let mut head = session(&mut store, HERE);
    let message = Message {
        text: "words".into(),
        images: vec![],
        via: Via::Queue,
        command: None,
        origin: None,
    };
    let queued = store
        .inbox_mut()
        .queue(head.session(), &message, &[], 1)
        .unwrap();
    drop(store);
    let older = scene.database();
    let mut store = scene.open();
    let taken = Batch {
        taken: Some(queued),
        ..batch(vec![said("words")])
    };
    store.append(&mut head, &taken).unwrap();
    drop(store);
    scene.replace_database(Some(&older));
    let store = scene.open();
    assert_eq!(said_texts(&log(&store, head.session())), ["words"]);
    assert_eq!(store.inbox().queued(head.session()).unwrap(), []);
}

/// Long ones are in frames; what a kill tore ends one file, and the next is read all the same.
#[test]
fn frames_are_read_over_a_torn_end() {
    let scene = Scene::new();
    let mut head = {
        let mut store = scene.open();
        let mut head = session(&mut store, HERE);
        for n in 0..60 {
            say(
                &mut store,
                &mut head,
                &format!("{n} {}", "words ".repeat(800)),
            );
        }
        head
    };
    let id = head.session().to_string();
    let mut store = scene.open();
    for n in 60..90 {
        say(
            &mut store,
            &mut head,
            &format!("{n} {}", "words ".repeat(800)),
        );
    }
    let whole = log(&store, &id);
    drop(store);
    let files = scene.files(&id);
    let frames: Vec<&String> = files.iter().filter(|f| f.ends_with(".jsonl.zst")).collect();
    assert!(frames.len() > 1, "{files:?}");
    assert!(!files.iter().any(|f| f.contains("closed")), "{files:?}");
    // The first half of a frame, as a power cut leaves it behind whole ones.
    let first = scene.place().folder.join(&id).join(frames[0]);
    let mut bytes = fs::read(&first).unwrap();
    bytes.extend_from_within(..100);
    fs::write(&first, bytes).unwrap();
    // And the last line.
    let tail = scene.place().folder.join(&id).join("tail.jsonl");
    let mut torn = fs::read(&tail).unwrap();
    torn.extend_from_slice(b"{\"seq\":91,\"at");
    fs::write(&tail, torn).unwrap();

    scene.replace_database(None);
    let mut store = scene.open();
    assert_eq!(log(&store, &id), whole);
    // It is cut off before more is written behind it.
    let (mut head, _) = store.load(&id).unwrap();
    say(&mut store, &mut head, "the last");
    drop(store);
    assert_eq!(
        scene.standing(),
        BackupStatus {
            sessions: 1,
            put_back: whole.len() as u64,
            ..BackupStatus::default()
        }
    );
}

#[test]
fn where_both_went_on_the_database_keeps_its_own_and_the_rest_is_kept_beside() {
    let scene = Scene::new();
    let mut store = scene.open();
    let mut head = talk(&mut store, 2);
    let id = head.session().to_string();
    drop(store);
    let older = scene.database();
    let mut store = scene.open();
    say(&mut store, &mut head, "in the journal");
    drop(store);
    scene.replace_database(Some(&older));
    // A version without a journal went on with it.
    let mut store = Store::open(&scene.data()).unwrap();
    let (mut head, _) = store.load(&id).unwrap();
    for words in ["in the database", "and more"] {
        say(&mut store, &mut head, words);
    }
    let whole = log(&store, &id);
    drop(store);

    let mut store = scene.open();
    store.restore_from_journal(&id).unwrap();
    let [(other, from)] = &store.restore_report().parted[..] else {
        panic!("{:?}", store.restore_report());
    };
    assert_eq!(*from, id);
    // Neither does what is open in both.
    let whole = {
        let own = log(&store, &id);
        assert_eq!(own[..whole.len()], whole);
        own
    };
    for id in [&id, other] {
        let last = log(&store, id).pop().unwrap();
        assert!(matches!(last.entry, Entry::Forked { .. }), "{last:?}");
    }
    let texts = log(&store, other);
    assert_eq!(said_texts(&texts), ["words 1", "words 2", "in the journal"]);
    let info = store.history().find(other).unwrap();
    assert_eq!(info.forked_from.unwrap().seq, 2);
    assert!(info.title.unwrap().contains("as its journal has it"));
    drop(store);
    // The journal follows the database again, and nothing is made a second time.
    let mut store = scene.open();
    store.restore_from_journal(&id).unwrap();
    assert_eq!(store.restore_report().line(), None);
    drop(store);
    scene.replace_database(None);
    assert_eq!(log(&scene.open(), &id), whole);
}

#[test]
fn a_journal_failure_is_reported_once_and_later_caught_up() {
    let scene = Scene::new();
    fs::create_dir(scene.data()).unwrap();
    let in_the_way = scene.place().folder;
    fs::write(&in_the_way, "a file").unwrap();
    let mut store = scene.open();
    let mut head = session(&mut store, HERE);
    let id = head.session().to_string();
    let said = store.take_journal_failure();
    assert!(said.unwrap().contains("journal"));
    for n in 0..30 {
        say(&mut store, &mut head, &format!("words {n}"));
    }
    assert_eq!(store.load(&id).unwrap().1.len(), 31);
    fs::remove_file(&in_the_way).unwrap();
    say(&mut store, &mut head, "it can be written again");
    let whole = log(&store, &id);
    drop(store);
    assert_eq!(
        scene.standing(),
        BackupStatus {
            sessions: 1,
            ..BackupStatus::default()
        }
    );
    scene.replace_database(None);
    assert_eq!(log(&scene.open(), &id), whole);
}

/// A journal that went another way than its database, from its fourth entry on, and a fork of what
/// it went to. The ids of both, and the log of the fork.
fn parted(scene: &Scene) -> ([String; 2], Vec<Record>) {
    let mut store = scene.open();
    let mut head = talk(&mut store, 2);
    let id = head.session().to_string();
    drop(store);
    let older = scene.database();
    let mut store = scene.open();
    say(&mut store, &mut head, "in the journal");
    // Ids sort by the millisecond.
    std::thread::sleep(Duration::from_millis(3));
    let mut branch = fork(&mut store, &id, 3, 9).unwrap();
    say(&mut store, &mut branch, "another way");
    let branch = branch.session().to_string();
    let forked = log(&store, &branch);
    drop(store);
    scene.replace_database(Some(&older));
    // A version without a journal went on with it.
    let mut store = Store::open(&scene.data()).unwrap();
    let (mut head, _) = store.load(&id).unwrap();
    say(&mut store, &mut head, "in the database");
    drop(store);
    ([id, branch], forked)
}

#[test]
fn a_fork_of_a_diverged_journal_is_imported_after_its_origin() {
    let scene = Scene::new();
    let ([id, branch], forked) = parted(&scene);
    let store = scene.open();
    let [(other, from)] = &store.restore_report().parted[..] else {
        panic!("{:?}", store.restore_report());
    };
    assert_eq!(*from, id);
    assert_eq!(log(&store, &branch), forked);
    let origin = store.history().find(&branch).unwrap().forked_from.unwrap();
    assert_eq!(origin.session, *other);
    let other = other.clone();
    drop(store);
    assert_eq!(scene.open().restore_report().line(), None);
    // Its journal names the session that it was forked from.
    let mut store = scene.open();
    for id in [&id, &other, &branch] {
        store.restore_from_journal(id).unwrap();
        while store.maintain().unwrap() {}
    }
    drop(store);
    scene.replace_database(None);
    assert_eq!(log(&scene.open(), &branch), forked);
}

#[test]
fn a_fork_that_fits_nothing_is_told_and_keeps_no_store_from_opening() {
    let scene = Scene::new();
    let ([id, branch], forked) = parted(&scene);
    fs::remove_dir_all(scene.place().folder.join(&id)).unwrap();
    let mark = || {
        let marks = fs::read_dir(scene.place().state_dir.join("marks")).unwrap();
        marks
            .map(|file| fs::read_to_string(file.unwrap().path()).unwrap())
            .collect::<String>()
    };
    let before = mark();
    for _ in 0..2 {
        let mut store = scene.open();
        assert_eq!(store.restore_report().skipped, 1);
        let said = store.restore_report().line().unwrap();
        assert!(said.contains("1 session of the journal"), "{said}");
        assert!(store.history().find(&branch).is_err());
        // What is here is gone on with.
        store.check_missing_entries(&id).unwrap();
        let (mut head, _) = store.load(&id).unwrap();
        store.restore_from_journal(&id).unwrap();
        say(&mut store, &mut head, "and on");
        drop(store);
        assert_eq!(mark(), before);
    }
    // It lies where it lay.
    scene.replace_database(None);
    assert!(scene.files(&branch).contains(&"tail.jsonl".to_string()));
    assert_eq!(forked.len(), 6);
}

/// What is made of a journal that went another way is committed before the journal is renamed.
#[test]
fn a_kill_before_the_journal_is_moved_aside_makes_no_second_session() {
    let scene = Scene::new();
    let ([id, _], _) = parted(&scene);
    let mut store = scene.open();
    store.restore_from_journal(&id).unwrap();
    let other = store.restore_report().parted[0].0.clone();
    assert!(other > id, "{other} sorts behind {id}");
    let whole = log(&store, &other);
    let sessions = || {
        raw(&scene.data())
            .query_row("SELECT count(*) FROM sessions", [], |row| {
                row.get::<_, i64>(0)
            })
            .unwrap()
    };
    let before = sessions();
    drop(store);
    let folder = scene.place().folder;
    let _ = fs::remove_dir_all(folder.join(&id));
    let aside = fs::read_dir(&folder).unwrap().map(|f| f.unwrap().path());
    let aside: Vec<PathBuf> = aside
        .filter(|p| p.to_string_lossy().contains(".old-"))
        .collect();
    fs::rename(&aside[0], folder.join(&id)).unwrap();

    let mut store = scene.open();
    store.restore_from_journal(&id).unwrap();
    assert_eq!(store.restore_report().line(), None);
    assert_eq!(sessions(), before);
    assert_eq!(log(&store, &other), whole);
    let own = log(&store, &id);
    drop(store);
    scene.replace_database(None);
    assert_eq!(log(&scene.open(), &id), own);
}

/// As it lies when the frame of one tail failed, and those behind it were made.
#[test]
fn a_tail_without_its_frame_is_read_in_its_place() {
    let scene = Scene::new();
    let mut store = scene.open();
    let id = talk(&mut store, 12).session().to_string();
    let whole = log(&store, &id);
    drop(store);
    let folder = scene.place().folder.join(&id);
    let text = fs::read_to_string(folder.join("tail.jsonl")).unwrap();
    let (header, lines) = text.split_once('\n').unwrap();
    let lines: Vec<&str> = lines.lines().collect();
    assert_eq!(lines.len(), 13);
    let part = |from: usize, upto: usize| {
        let mut header: serde_json::Value = serde_json::from_str(header).unwrap();
        if let Some(before) = from.checked_sub(1) {
            let before: serde_json::Value = serde_json::from_str(lines[before]).unwrap();
            header["first"] = from.into();
            header["tip"] = before["tip"].clone();
        }
        format!("{header}\n{}\n", lines[from..upto].join("\n"))
    };
    for (from, upto) in [(0, 2), (7, 10), (10, 12)] {
        let frame = zstd::encode_all(part(from, upto).as_bytes(), 3).unwrap();
        fs::write(folder.join(format!("{from:08}.jsonl.zst")), frame).unwrap();
    }
    fs::write(folder.join("00000002.closed.jsonl"), part(2, 7)).unwrap();
    fs::write(folder.join("tail.jsonl"), part(12, 13)).unwrap();
    scene.replace_database(None);
    let mut store = scene.open();
    assert_eq!(log(&store, &id), whole);
    // The frame that is made of it now has a file of its own: there is more behind it.
    let (mut head, _) = store.load(&id).unwrap();
    for n in 0..40 {
        say(
            &mut store,
            &mut head,
            &format!("{n} {}", "words ".repeat(800)),
        );
    }
    let whole = log(&store, &id);
    drop(store);
    scene.replace_database(None);
    assert_eq!(log(&scene.open(), &id), whole);
}

#[test]
fn a_frame_that_failed_is_made_later() {
    let scene = Scene::new();
    let mut store = scene.open();
    let mut head = session(&mut store, HERE);
    let id = head.session().to_string();
    let in_the_way = scene.place().folder.join(&id).join("00000000.jsonl.zst");
    fs::create_dir(&in_the_way).unwrap();
    let mut talk_on = |store: &mut Store| {
        for n in 0..40 {
            say(store, &mut head, &format!("{n} {}", "words ".repeat(800)));
        }
    };
    let wait_for = |what: &str, is_so: &mut dyn FnMut() -> bool| {
        for _ in 0..300 {
            if is_so() {
                return;
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        panic!("{what}: {:?}", scene.files(&id));
    };
    talk_on(&mut store);
    wait_for("it failed", &mut || store.take_journal_failure().is_some());
    talk_on(&mut store);
    fs::remove_dir(&in_the_way).unwrap();
    wait_for("it is made", &mut || {
        !scene.files(&id).iter().any(|f| f.contains("closed"))
    });
    let whole = log(&store, &id);
    drop(store);
    scene.replace_database(None);
    assert_eq!(log(&scene.open(), &id), whole);
}

/// More than one step of it, with a fork whose journal begins behind what it shares.
#[test]
fn a_session_of_an_older_version_gets_its_journal() {
    let scene = Scene::new();
    let mut store = Store::open(&scene.data()).unwrap();
    let mut head = session(&mut store, HERE);
    for n in 0..40 {
        say(
            &mut store,
            &mut head,
            &format!("{n} {}", "words ".repeat(10_000)),
        );
    }
    let mut branch = fork(&mut store, head.session(), 20, 9).unwrap();
    say(&mut store, &mut branch, "another way");
    drop(store);
    let ids = [head.session().to_string(), branch.session().to_string()];
    let mut store = scene.open();
    for id in &ids {
        store.restore_from_journal(id).unwrap();
        while store.maintain().unwrap() {}
    }
    let logs = ids.clone().map(|id| log(&store, &id));
    drop(store);
    assert_eq!(
        scene.standing(),
        BackupStatus {
            sessions: 2,
            ..BackupStatus::default()
        }
    );
    scene.replace_database(None);
    let store = scene.open();
    assert_eq!(ids.map(|id| log(&store, &id)), logs);
}

#[test]
fn never_silently_back_in_time() {
    let scene = Scene::new();
    let mut store = scene.open();
    let mut head = talk(&mut store, 3);
    let id = head.session().to_string();
    drop(store);
    let older = scene.database();
    let mut store = scene.open();
    for n in 0..4 {
        say(&mut store, &mut head, &format!("more {n}"));
    }
    drop(store);
    scene.replace_database(Some(&older));
    fs::remove_dir_all(scene.place().folder).unwrap();
    std::thread::sleep(Duration::from_millis(2));

    for _ in 0..2 {
        let mut store = scene.open();
        let error = store.check_missing_entries(&id).unwrap_err();
        assert!(
            matches!(error, StoreError::BackInTime { missing: 4 }),
            "{error}"
        );
        assert!(error.hint().unwrap().contains("--as-is"));
        // What is begun now is not held, and hides nothing.
        let new = NewSession {
            id: new_id(),
            workspace: HERE.into(),
            folder: HERE.into(),
        };
        let now_ms = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
        let now_ms = i64::try_from(now_ms.as_millis()).unwrap();
        let (mut new, _) = store.create(&new, now_ms, opened()).unwrap();
        for n in 0..20 {
            say(&mut store, &mut new, &format!("new {n}"));
        }
        store.check_missing_entries(new.session()).unwrap();
        drop(store);
        assert_eq!(scene.standing().held, Some(4));
    }
    scene.place().move_aside(&scene.data()).unwrap();
    let store = scene.open();
    store.check_missing_entries(&id).unwrap();
    assert_eq!(scene.standing().held, None);
    assert_eq!(said_texts(&log(&store, &id)).len(), 3);
}

/// What was begun meanwhile hides nothing and lifts nothing, and is not lost.
#[test]
fn a_mark_that_is_held_is_lifted_when_the_newer_database_is_back() {
    let scene = Scene::new();
    let mut store = scene.open();
    let mut head = talk(&mut store, 3);
    let id = head.session().to_string();
    drop(store);
    let older = scene.database();
    let mut store = scene.open();
    for n in 0..4 {
        say(&mut store, &mut head, &format!("more {n}"));
    }
    let whole = log(&store, &id);
    drop(store);
    let newer = scene.database();
    scene.replace_database(Some(&older));
    fs::remove_dir_all(scene.place().folder).unwrap();
    std::thread::sleep(Duration::from_millis(2));
    let mut store = scene.open();
    let new = talk(&mut store, 20).session().to_string();
    assert!(store.check_missing_entries(&id).is_err());
    drop(store);
    assert!(scene.standing().held.is_some(), "more rows are no proof");
    assert!(scene.open().missing().is_some(), "more rows are no proof");

    scene.replace_database(Some(&newer));
    assert_eq!(scene.standing().held, None);
    for _ in 0..2 {
        let store = scene.open();
        assert!(store.missing().is_none());
        store.check_missing_entries(&id).unwrap();
        assert_eq!(log(&store, &id), whole);
        assert_eq!(log(&store, &new).len(), 21);
    }
    // From now on it is raised again.
    let mut store = scene.open();
    let (mut head, _) = store.load(&id).unwrap();
    say(&mut store, &mut head, "and on");
    drop(store);
    scene.replace_database(Some(&older));
    fs::remove_dir_all(scene.place().folder).unwrap();
    assert!(scene.open().missing().is_some());
}

fn moved(error: StoreError) {
    assert!(matches!(error, StoreError::Moved { .. }), "{error}");
    assert!(error.is_passing() && error.hint().is_some());
}

#[test]
fn nothing_is_recorded_in_files_that_nobody_finds_again() {
    for name in ["rewake.db", "rewake.db-wal"] {
        let scene = Scene::new();
        let mut store = scene.open();
        let mut head = talk(&mut store, 2);
        let path = scene.data().join(name);
        let aside = path.with_extension("aside");
        fs::rename(&path, &aside).unwrap();
        let more = batch(vec![said("lost")]);
        moved(store.append(&mut head, &more).unwrap_err());
        // Another file in its place is not it.
        fs::write(&path, "").unwrap();
        moved(store.append(&mut head, &more).unwrap_err());
        fs::rename(&aside, &path).unwrap();
        store.append(&mut head, &more).unwrap();
        assert_eq!(log(&store, head.session()).len(), 4, "{name}");
    }
}

/// One folder of journals may be shared: what is of another store is not touched.
#[test]
fn a_database_of_another_store_gets_what_the_journal_has() {
    let scene = Scene::new();
    let mut store = scene.open();
    let id = talk(&mut store, 2).session().to_string();
    drop(store);
    let other = Scene::new();
    let mut store = Store::open(&other.data()).unwrap();
    let theirs = talk(&mut store, 9).session().to_string();
    drop(store);
    scene.replace_database(Some(&other.database()));
    let store = scene.open();
    assert_eq!(log(&store, &id).len(), 3);
    assert_eq!(log(&store, &theirs).len(), 10);
    let said = store.restore_report().line().unwrap();
    assert!(said.contains("replaced by that of another store"), "{said}");
}

/// Their rows are none of those that the mark counts.
#[test]
fn rows_of_another_store_do_not_hide_what_is_missing() {
    let scene = Scene::new();
    let mut store = scene.open();
    talk(&mut store, 2);
    drop(store);
    let other = Scene::new();
    let mut store = Store::open(&other.data()).unwrap();
    let theirs = talk(&mut store, 9).session().to_string();
    drop(store);
    scene.replace_database(Some(&other.database()));
    fs::remove_dir_all(scene.place().folder).unwrap();
    let store = scene.open();
    let missing = store.check_missing_entries(&theirs).unwrap_err();
    assert!(
        matches!(missing, StoreError::BackInTime { missing: 3 }),
        "{missing}"
    );
}

#[test]
fn files_of_the_journal_are_private() {
    use std::os::unix::fs::PermissionsExt;
    let scene = Scene::new();
    let mut store = scene.open();
    let id = talk(&mut store, 2).session().to_string();
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    let folder = scene.place().folder;
    assert_eq!(mode(&folder), 0o700);
    assert_eq!(mode(&folder.join(&id)), 0o700);
    assert_eq!(mode(&folder.join(&id).join("tail.jsonl")), 0o600);
}

/// Other words in the journal of a session, behind this tip, and tips that follow from them.
fn forge(scene: &Scene, id: &str, mut tip: rewake::journal::chain_hash::ChainHash) {
    let tail = scene.place().folder.join(id).join("tail.jsonl");
    let text = fs::read_to_string(&tail).unwrap();
    let lines = text.lines().map(|line| {
        if !line.starts_with("{\"seq\"") {
            let mut header: rewake::journal::line::Header = serde_json::from_str(line).unwrap();
            header.tip = tip;
            return serde_json::to_string(&header).unwrap();
        }
        let line = line.replace("words 7", "other words");
        let mut read: rewake::journal::line::EntryLine = serde_json::from_str(&line).unwrap();
        tip = tip.and(read.seq, read.at_ms, read.entry.get().as_bytes());
        read.tip = tip;
        serde_json::to_string(&read).unwrap()
    });
    let lines: Vec<String> = lines.collect();
    fs::write(&tail, lines.join("\n") + "\n").unwrap();
}

/// The rows of the session are whole: it goes on, and its journal begins anew.
#[test]
fn a_damaged_journal_keeps_nobody_from_a_session() {
    let scene = Scene::new();
    let mut store = scene.open();
    let mut head = session(&mut store, HERE);
    (0..9).for_each(|n| say(&mut store, &mut head, &format!("words {n}")));
    let id = head.session().to_string();
    let before = log(&store, &id);
    drop(store);
    // Its first line follows from nothing that the database can have.
    let elsewhere = rewake::journal::chain_hash::ChainHash::of_nothing().and(7, 7, b"else");
    forge(&scene, &id, elsewhere);
    let mut store = scene.open();
    store.restore_from_journal(&id).unwrap();
    let said = store.restore_report().line().unwrap();
    assert!(said.contains("is damaged: it was moved aside"), "{said}");
    assert_eq!(log(&store, &id), before);
    say(&mut store, &mut head, "and on");
    let whole = log(&store, &id);
    drop(store);
    let kept = fs::read_dir(scene.place().folder).unwrap();
    let kept = kept.filter(|f| {
        f.as_ref()
            .unwrap()
            .file_name()
            .to_string_lossy()
            .contains(".old-")
    });
    assert_eq!(kept.count(), 1);
    let mut store = scene.open();
    store.restore_from_journal(&id).unwrap();
    assert_eq!(store.restore_report().line(), None);
    drop(store);
    let standing = scene.lines();
    assert_eq!(
        (standing.lines, standing.entries, standing.late_ms),
        (11, 11, 0)
    );
    scene.replace_database(None);
    assert_eq!(log(&scene.open(), &id), whole);
}

/// JSON as before, and another text: the chain of tips ends before it.
#[test]
fn a_changed_line_of_a_journal_is_not_believed() {
    let scene = Scene::new();
    let mut store = scene.open();
    let mut head = session(&mut store, HERE);
    (0..9).for_each(|n| say(&mut store, &mut head, &format!("words {n}")));
    let id = head.session().to_string();
    drop(store);
    let tail = scene.place().folder.join(&id).join("tail.jsonl");
    let text = fs::read_to_string(&tail).unwrap();
    fs::write(&tail, text.replace("words 5", "other 5")).unwrap();
    scene.replace_database(None);
    let store = scene.open();
    let words = ["words 0", "words 1", "words 2", "words 3", "words 4"];
    assert_eq!(said_texts(&log(&store, &id)), words);
    assert_eq!(store.restore_report().missing, 4);
}

/// It may be in no other copy.
#[test]
fn a_tail_that_cannot_be_read_is_not_overwritten() {
    let scene = Scene::new();
    let mut store = scene.open();
    let mut head = session(&mut store, HERE);
    append(&mut store, &mut head, vec![said("one")]);
    drop(store);
    let folder = scene.place().folder.join(head.session());
    let tail = folder.join("tail.jsonl");
    let text = fs::read_to_string(&tail).unwrap();
    let foreign = text.replacen(head.session(), &rewake::store::new_id(), 1);
    fs::write(&tail, &foreign).unwrap();
    let mut store = scene.open();
    store.take_up(head.session()).unwrap();
    drop(store);
    let names = scene.files(head.session());
    let old = names
        .iter()
        .find(|name| name.starts_with("tail.jsonl.old-"));
    assert_eq!(
        fs::read_to_string(folder.join(old.unwrap())).unwrap(),
        foreign
    );
    assert_eq!(fs::read_to_string(&tail).unwrap(), text);
}

#[test]
fn a_journal_of_a_newer_version_is_named_and_left_alone() {
    let scene = Scene::new();
    let mut store = scene.open();
    let mut head = session(&mut store, HERE);
    append(&mut store, &mut head, vec![said("one")]);
    drop(store);
    let tail = scene.place().folder.join(head.session()).join("tail.jsonl");
    let text = fs::read_to_string(&tail).unwrap();
    let newer = text.replacen("\"rewake\":1", "\"rewake\":3", 1);
    fs::write(&tail, &newer).unwrap();
    let mut store = scene.open();
    store.take_up(head.session()).unwrap();
    append(&mut store, &mut head, vec![said("two")]);
    let trouble = store.take_journal_failure().unwrap();
    assert!(trouble.contains("update rewake"), "{trouble}");
    assert!(trouble.contains("tail.jsonl"), "{trouble}");
    drop(store);
    assert_eq!(fs::read_to_string(&tail).unwrap(), newer);
}
