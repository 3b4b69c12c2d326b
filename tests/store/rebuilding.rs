//! A damaged database is made anew from what can be read of it and from the journal.

use std::fs;
use std::path::PathBuf;

use rewake::core::entry::{Entry, ForkPoint, Record, Via};
use rewake::core::signal::Signal;
use rewake::recovery::Recovered;
use rewake::store::{
    Batch, Message, NewFork, NewPlace, QueuedSignal, SessionFilter, Store, StoreError, blob_ref,
    new_id,
};

use crate::golden::{copied_id, write_copy};
use crate::scene::Scene;
use crate::story::*;

const PAGE: usize = 4096;

fn rebuild_with(scene: &Scene, only_whole: bool, from: &[PathBuf]) -> Option<Recovered> {
    scene.rebuild(only_whole, from).unwrap()
}

fn rebuild(scene: &Scene) -> Recovered {
    rebuild_with(scene, false, &[]).unwrap()
}

fn log(store: &Store, id: &str) -> Vec<Record> {
    store.load(id).unwrap().1
}

fn message(text: &str) -> Message {
    Message {
        text: text.into(),
        images: vec![],
        via: Via::Prompt,
        command: None,
        origin: None,
    }
}

/// All that a person sees of a store.
#[derive(Debug, PartialEq)]
struct Seen {
    logs: Vec<Vec<Record>>,
    infos: Vec<rewake::store::SessionInfo>,
    queued: Vec<Vec<Message>>,
    signals: Vec<Vec<QueuedSignal>>,
    inputs: Vec<Option<String>>,
}

fn seen(store: &Store, ids: &[String]) -> Seen {
    let queued = |id: &String| {
        let queued = store.inbox().queued(id).unwrap().into_iter();
        queued.map(|queued| queued.message).collect()
    };
    Seen {
        logs: ids.iter().map(|id| log(store, id)).collect(),
        infos: store
            .history()
            .sessions(SessionFilter::default(), 99)
            .unwrap(),
        queued: ids.iter().map(queued).collect(),
        signals: ids
            .iter()
            .map(|id| store.inbox().signals(id).unwrap())
            .collect(),
        inputs: ids
            .iter()
            .map(|id| store.inbox().drafts(id).unwrap().input)
            .collect(),
    }
}

/// Two long sessions, a fork of the first, queued words and unsent ones, a signal, one in the trash,
/// and a copy of another agent's session with a fork.
fn furnished(scene: &Scene) -> Vec<String> {
    let mut store = scene.open();
    let mut first = session(&mut store, HERE);
    let mut second = session(&mut store, "/elsewhere");
    let mut all = batch(all_kinds());
    all.blobs = vec![BLOB.to_vec()];
    store.append(&mut first, &all).unwrap();
    for n in 0..25 {
        append(
            &mut store,
            &mut first,
            vec![said(&format!("first {n} {}", "x".repeat(600)))],
        );
        append(&mut store, &mut second, vec![said(&format!("second {n}"))]);
    }
    let mut branch = fork(&mut store, first.session(), 20, 9).unwrap();
    append(&mut store, &mut branch, vec![said("another way")]);
    let trashed = session(&mut store, HERE);
    let id = store
        .inbox_mut()
        .queue(second.session(), &message("taken"), &[], 5)
        .unwrap();
    let taking = Batch {
        at_ms: 3_000,
        entries: vec![said("taken")],
        taken: Some(id),
        ..Batch::default()
    };
    store.append(&mut second, &taking).unwrap();
    store
        .inbox_mut()
        .queue(second.session(), &message("waits"), &[], 6)
        .unwrap();
    let sent = store
        .inbox_mut()
        .signal(branch.session(), "cli", 6, |_| Signal::GoOn);
    sent.unwrap();
    store
        .inbox_mut()
        .set_input(branch.session(), "not sent yet")
        .unwrap();
    store.trash(trashed.session(), 7).unwrap();
    write_copy(&mut store);
    let own = [first, second, branch, trashed];
    let own = own.map(|head| head.session().to_string());
    [own.as_slice(), &[copied_id()]].concat()
}

fn with_page_zeroed(database: &[u8], page: usize) -> Vec<u8> {
    let mut bytes = database.to_vec();
    bytes[page * PAGE..(page + 1) * PAGE].fill(0);
    bytes
}

#[test]
fn garbage_is_replaced_by_what_the_journal_has() {
    let scene = Scene::new();
    let ids = furnished(&scene);
    let before = seen(&scene.open(), &ids);
    scene.replace_database(Some(&[b'x'; 50_000]));
    assert!(Store::open(&scene.data()).is_err());
    let rebuilt = rebuild_with(&scene, true, &[]);
    // What the tables lost is said, but for what the journal has too.
    let rebuilt = rebuilt.unwrap();
    // A fork shares 21 entries, and that of the copy has one that is not in `logs`.
    let entries = before.logs.iter().map(|log| log.len() as u64).sum::<u64>() - 21 + 1;
    assert_eq!((rebuilt.entries, rebuilt.from_journal), (entries, entries));
    assert_eq!((rebuilt.lost(), rebuilt.sessions), (0, 6));
    let line = rebuilt.line();
    let said = format!("rebuilt from the journal: {entries} of {entries} entries; the old file is");
    assert!(line.contains(&said), "{line}");
    let kept = rebuilt.kept.unwrap();
    assert_eq!(fs::read(kept).unwrap(), vec![b'x'; 50_000]);
    let store = scene.open();
    assert_eq!(store.restore_report().line(), None);
    assert_eq!(seen(&store, &ids).logs, before.logs);
    assert_eq!(seen(&store, &ids).queued, before.queued);
    assert_eq!(seen(&store, &ids).signals, before.signals);
    assert_eq!(seen(&store, &ids).inputs, before.inputs);
    assert!(store.history().is_in_trash(&ids[3]).unwrap());
    let copy = store.history().find(&ids[4]).unwrap();
    assert_eq!(copy.replica.as_deref(), Some("claude"));
    let blob = blob_ref(BLOB).hash;
    assert_eq!(store.blob(&blob).unwrap().as_deref(), Some(BLOB));
    // And a second start has nothing to do.
    drop(store);
    assert_eq!(scene.open().restore_report().line(), None);
}

/// Whichever page is damaged: all comes back, with the journal.
#[test]
fn any_page_may_be_zeroed() {
    let scene = Scene::new();
    let ids = furnished(&scene);
    let before = seen(&scene.open(), &ids);
    let database = scene.database();
    let journal = scene.dir.path().join("journal-kept");
    copy_folder(&scene.place().folder, &journal);
    for page in 0..database.len() / PAGE {
        scene.replace_database(Some(&with_page_zeroed(&database, page)));
        let rebuilt = rebuild(&scene);
        assert_eq!(rebuilt.lost(), 0, "page {page}: {rebuilt:?}");
        let store = scene.open();
        assert_eq!(store.restore_report().line(), None, "page {page}");
        let after = seen(&store, &ids);
        assert_eq!(after.logs, before.logs, "page {page}");
        assert_eq!(after.queued, before.queued, "page {page}");
        assert_eq!(after.signals, before.signals, "page {page}");
        assert_eq!(after.inputs, before.inputs, "page {page}");
        assert_eq!(store.check().quick_check().unwrap(), Vec::<String>::new());
        drop(store);
        fs::remove_dir_all(&scene.place().folder).unwrap();
        copy_folder(&journal, &scene.place().folder);
    }
}

fn copy_folder(from: &std::path::Path, to: &std::path::Path) {
    fs::create_dir_all(to).unwrap();
    for file in fs::read_dir(from).unwrap() {
        let file = file.unwrap();
        let to = to.join(file.file_name());
        match file.file_type().unwrap().is_dir() {
            true => copy_folder(&file.path(), &to),
            false => drop(fs::copy(file.path(), to).unwrap()),
        }
    }
}

#[test]
fn without_a_journal_what_sql_reads_is_kept_and_the_rest_is_held() {
    let scene = Scene::new();
    let ids = furnished(&scene);
    let before = seen(&scene.open(), &ids);
    let database = scene.database();
    fs::remove_dir_all(scene.place().folder).unwrap();
    let mut held = 0;
    for page in 1..database.len() / PAGE {
        scene.replace_database(Some(&with_page_zeroed(&database, page)));
        let rebuilt = rebuild_with(&scene, true, &[]);
        let whole = rebuilt.is_some();
        let rebuilt = match rebuilt {
            Some(rebuilt) => Some(rebuilt),
            None => rebuild_with(&scene, false, &[]),
        };
        let Some(rebuilt) = rebuilt else { continue };
        let store = scene.open();
        for (id, log) in ids.iter().zip(&before.logs) {
            let Ok((_, read)) = store.load(id) else {
                assert!(rebuilt.lost() > 0, "page {page}");
                continue;
            };
            assert_eq!(read, log[..read.len()], "page {page}");
            let is_whole = read.len() == log.len();
            let is_held = store.history().check_no_gap(id).is_err()
                || store.check_missing_entries(id).is_err();
            assert!(is_whole || is_held, "page {page}: {rebuilt:?}");
            assert!(is_whole || !whole, "page {page}");
            held += u32::from(!is_whole);
        }
        drop(store);
        // The mark is as it was before the next one.
        fs::remove_dir_all(scene.dir.path().join("state/marks")).unwrap();
        scene.replace_database(Some(&database));
        drop(scene.open());
        let _ = fs::remove_dir_all(scene.place().folder);
    }
    assert!(held > 0, "no page made a gap");
}

/// A frame of the journal that is torn, and a row on a page that is gone: each makes the other
/// good.
#[test]
fn entries_after_a_torn_journal_frame_are_recovered() {
    let scene = Scene::new();
    let mut store = scene.open();
    let mut head = session(&mut store, HERE);
    for n in 0..400 {
        append(
            &mut store,
            &mut head,
            vec![said(&format!("{n} {}", noise(n, 900)))],
        );
    }
    let id = head.session().to_string();
    let before = log(&store, &id);
    drop(store);
    let folder = scene.place().folder.join(&id);
    let frames = scene
        .files(&id)
        .into_iter()
        .find(|name| name.ends_with(".zst"));
    let path = folder.join(frames.unwrap());
    let mut bytes = fs::read(&path).unwrap();
    let middle = bytes.len() / 3;
    bytes[middle..middle + 40].fill(0x5a);
    fs::write(&path, &bytes).unwrap();
    let database = scene.database();

    // Garbage: the entries of the torn frame are nowhere.
    scene.replace_database(Some(&[b'x'; 50_000]));
    assert_eq!(rebuild_with(&scene, true, &[]), None);
    assert_eq!(
        fs::read(crate::story::database(&scene.data())).unwrap(),
        [b'x'; 50_000]
    );
    let rebuilt = rebuild(&scene);
    let gap = rebuilt.gaps.first().unwrap().clone();
    assert!(gap.first > 10 && gap.behind > 10, "{gap:?}");
    assert_eq!(rebuilt.missing, 0);
    assert_eq!(
        rebuilt.entries + rebuilt.lost() + gap.behind,
        before.len() as u64
    );
    let store = scene.open();
    assert_eq!(log(&store, &id), before[..gap.first as usize]);
    match store.history().check_no_gap(&id) {
        Err(error @ StoreError::Gap(_)) => {
            let hint = error.hint().unwrap();
            assert!(hint.contains(&format!("--at {}", gap.first - 1)), "{hint}");
        }
        other => panic!("{other:?}"),
    }
    drop(store);

    // A page of the database is gone: what the frame lacks is in the others.
    for page in [20, 40] {
        scene.replace_database(Some(&with_page_zeroed(&database, page)));
        let rebuilt = rebuild(&scene);
        if rebuilt.lost() == 0 {
            assert_eq!(log(&scene.open(), &id), before);
        }
    }
}

fn noise(seed: u64, bytes: usize) -> String {
    let mut n = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        n ^= n << 13;
        n ^= n >> 7;
        n ^= n << 17;
        char::from(b'a' + u8::try_from(n % 26).unwrap())
    };
    (0..bytes).map(|_| next()).collect()
}

#[test]
fn entries_that_the_mark_knows_of_and_nobody_has_are_held() {
    let scene = Scene::new();
    let mut store = scene.open();
    let head = talk(&mut store, 9);
    let other = talk(&mut store, 4);
    drop(store);
    fs::remove_dir_all(scene.place().folder.join(other.session())).unwrap();
    scene.replace_database(Some(b"garbage"));
    assert_eq!(rebuild_with(&scene, true, &[]), None);
    let rebuilt = rebuild(&scene);
    assert_eq!((rebuilt.missing, rebuilt.entries), (5, 10));
    let store = scene.open();
    let held = store.check_missing_entries(head.session()).unwrap_err();
    assert!(
        matches!(held, StoreError::BackInTime { missing: 5 }),
        "{held}"
    );
}

#[test]
fn another_copy_has_what_is_missing_here() {
    let (scene, copy) = (Scene::new(), Scene::new());
    let ids = furnished(&scene);
    let before = seen(&scene.open(), &ids);
    fs::create_dir_all(copy.data()).unwrap();
    fs::write(crate::story::database(&copy.data()), scene.database()).unwrap();
    fs::remove_dir_all(scene.place().folder).unwrap();
    scene.replace_database(Some(b"garbage"));
    assert_eq!(rebuild_with(&scene, false, &[]), None);
    let rebuilt = rebuild_with(&scene, false, &[copy.data()]).unwrap();
    assert_eq!(rebuilt.lost(), 0);
    assert_eq!(seen(&scene.open(), &ids).logs, before.logs);
    let names: Vec<_> = fs::read_dir(copy.data()).unwrap().collect();
    assert_eq!(names.len(), 1, "the copy was changed");
}

#[test]
fn nobody_is_disturbed_while_the_store_is_open() {
    let scene = Scene::new();
    let store = scene.open();
    let error = scene.rebuild(false, &[]).unwrap_err();
    assert!(matches!(error, StoreError::InUse { .. }), "{error}");
    drop(store);
}

/// From the journal alone, and from a database that lacks it.
#[test]
fn a_fork_with_separate_files_is_rebuilt_in_its_folder() {
    let scene = Scene::new();
    let mut store = scene.open();
    let first = session(&mut store, HERE);
    let before = scene.database();
    let id = new_id();
    let new = NewFork {
        id: id.clone(),
        from: ForkPoint {
            session: first.session().to_string(),
            seq: 0,
        },
        place: Some(NewPlace {
            workspace: "/copy".into(),
            folder: "/copy/sub".into(),
        }),
        unfinished: false,
    };
    let mut head = store.fork(&new, &[], &[], 5).unwrap();
    append(&mut store, &mut head, vec![said("there")]);
    let place = |store: &Store| {
        let info = store.history().find(&id).unwrap();
        let (_, records) = store.load(&id).unwrap();
        let forked = records.iter().find_map(|record| match &record.entry {
            Entry::Forked { folder, .. } => folder.clone(),
            _ => None,
        });
        (info.workspace, info.folder, forked.unwrap())
    };
    let wanted = ("/copy".into(), "/copy/sub".into(), "/copy/sub".into());
    assert_eq!(place(&store), wanted);
    drop(store);
    scene.replace_database(Some(&[b'x'; 50_000]));
    rebuild(&scene);
    assert_eq!(place(&scene.open()), wanted);
    scene.replace_database(Some(&before));
    assert_eq!(place(&scene.open()), wanted);
}
