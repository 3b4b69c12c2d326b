//! A kill between a commit and the write of its lines: the journal lacks one transaction, and
//! the next process that opens the store writes it before its own first commit.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use rewake::store::{Head, SessionLock, Store};

use crate::scene::Scene;
use crate::story::*;

/// The files of journal and mark.
fn copies(scene: &Scene) -> BTreeMap<PathBuf, Vec<u8>> {
    let place = scene.place();
    let mut folders = vec![place.folder, place.state_dir.join("marks")];
    let mut files = BTreeMap::new();
    while let Some(folder) = folders.pop() {
        for file in fs::read_dir(folder).into_iter().flatten() {
            let path = file.unwrap().path();
            match path.is_dir() {
                true => folders.push(path),
                false => drop(files.insert(path.clone(), fs::read(path).unwrap())),
            }
        }
    }
    files
}

/// Runs `append` as a process does that is killed after its commit, before it writes journal and
/// mark.
fn killed_before_the_journal<T>(scene: &Scene, append: impl FnOnce(&mut Store) -> T) -> T {
    let mut store = scene.open();
    let before = copies(scene);
    let done = append(&mut store);
    drop(store);
    for (path, bytes) in copies(scene) {
        match before.get(&path) {
            None => fs::remove_file(path).unwrap(),
            // In place: another process may have it open.
            Some(was) if *was != bytes => fs::write(path, was).unwrap(),
            Some(_) => {}
        }
    }
    done
}

fn say(store: &mut Store, head: &mut Head, words: &str) {
    append(store, head, vec![said(words)]);
}

fn words(store: &Store, id: &str) -> Vec<String> {
    let (_, records) = store.load(id).unwrap();
    let texts = said_texts(&records).into_iter();
    texts.map(str::to_string).collect()
}

/// As `rewake send` does it, which works in no session.
#[test]
fn entries_missing_from_the_journal_are_written_when_opened() {
    let scene = Scene::new();
    let mut store = scene.open();
    let mut head = session(&mut store, HERE);
    let id = head.session().to_string();
    drop(store);
    killed_before_the_journal(&scene, |store| say(store, &mut head, "the last words"));
    assert_eq!(scene.standing().behind, 1);

    let mut store = scene.open();
    assert_eq!(scene.standing().behind, 0);
    store
        .inbox_mut()
        .queue(&id, &message("go on"), &[], 9)
        .unwrap();
    drop(store);
    scene.replace_database(None);
    let store = scene.open();
    assert_eq!(store.restore_report().missing, 0);
    assert_eq!(words(&store, &id), ["the last words"]);
    assert_eq!(store.inbox().queued(&id).unwrap().len(), 1);
}

/// The mark says nothing of it: another process has raised it.
#[test]
fn a_session_is_filled_also_when_another_was_recorded_after_it() {
    let scene = Scene::new();
    let mut store = scene.open();
    let mut head = session(&mut store, HERE);
    let mut other = session(&mut store, HERE);
    let id = head.session().to_string();
    killed_before_the_journal(&scene, |store| say(store, &mut head, "the last words"));
    say(&mut store, &mut other, "later");
    drop(store);
    assert_eq!(scene.standing().behind, 1);
    drop(scene.open());
    scene.replace_database(None);
    let store = scene.open();
    assert_eq!(store.restore_report().missing, 0);
    assert_eq!(words(&store, &id), ["the last words"]);
    assert_eq!(words(&store, other.session()), ["later"]);
}

#[test]
fn a_new_session_and_a_fork_are_filled() {
    let scene = Scene::new();
    let mut head = killed_before_the_journal(&scene, |store| session(store, HERE));
    let mut store = scene.open();
    say(&mut store, &mut head, "one");
    drop(store);
    let branch = killed_before_the_journal(&scene, |store| fork(store, head.session(), 1, 9));
    let branch = branch.unwrap().session().to_string();
    drop(scene.open());
    scene.replace_database(None);
    let store = scene.open();
    assert_eq!(store.restore_report().missing, 0);
    assert_eq!(words(&store, head.session()), ["one"]);
    assert_eq!(words(&store, &branch), ["one"]);
}

/// Who has the session writes in its journal, and nobody else.
#[test]
fn a_session_that_a_process_has_is_left_to_it() {
    let scene = Scene::new();
    let mut store = scene.open();
    let mut head = session(&mut store, HERE);
    drop(store);
    killed_before_the_journal(&scene, |store| say(store, &mut head, "the last words"));
    let lock = SessionLock::take(&scene.data(), head.session()).unwrap();
    // A store that appends elsewhere does not forget it.
    let mut store = scene.open();
    session(&mut store, HERE);
    drop(store);
    assert_eq!(scene.standing().behind, 1);
    drop(lock);
    drop(scene.open());
    assert_eq!(scene.standing().behind, 0);
}

/// The lock of a killed process says when it lived and who it was.
#[test]
fn the_lock_of_who_was_killed_stays_as_it_is() {
    let scene = Scene::new();
    let mut store = scene.open();
    let mut head = session(&mut store, HERE);
    drop(store);
    let mut lock = SessionLock::take(&scene.data(), head.session()).unwrap();
    lock.recorded();
    killed_before_the_journal(&scene, |store| say(store, &mut head, "the last words"));
    let path = scene
        .data()
        .join("locks")
        .join(format!("{}.lock", head.session()));
    let signed = fs::read(&path).unwrap();
    let held_ms = SessionLock::last_held_ms(&scene.data(), head.session());
    drop(lock);
    let file = fs::File::options().write(true).open(&path).unwrap();
    fs::write(&path, &signed).unwrap();
    let was = std::time::UNIX_EPOCH + std::time::Duration::from_millis(held_ms.unwrap() as u64);
    file.set_modified(was).unwrap();
    drop(file);
    drop(scene.open());
    assert_eq!(scene.standing().behind, 0);
    assert_eq!(fs::read(&path).unwrap(), signed);
    assert_eq!(
        SessionLock::last_held_ms(&scene.data(), head.session()),
        held_ms
    );
}

/// The rows that say it do not become more.
#[test]
fn an_append_forgets_the_sessions_that_were_compared() {
    let scene = Scene::new();
    for _ in 0..5 {
        let mut store = scene.open();
        session(&mut store, HERE);
    }
    let noted: i64 = raw(&scene.data())
        .query_row(
            "SELECT count(*) FROM meta WHERE name GLOB 'appended:*'",
            [],
            |row| row.get(0),
        )
        .unwrap();
    assert_eq!(noted, 1);
}

/// A session whose journal lacks more than one step of catching up.
fn without_a_journal(scene: &Scene) -> Head {
    let mut store = Store::open(&scene.data()).unwrap();
    let mut head = session(&mut store, HERE);
    for n in 0..40 {
        let words = format!("{n} {}", "words ".repeat(10_000));
        say(&mut store, &mut head, &words);
    }
    head
}

/// An effect comes after its entry is in the journal, also where the journal lacked much.
#[test]
fn an_append_leaves_nothing_out_of_the_journal() {
    let scene = Scene::new();
    let mut head = without_a_journal(&scene);
    let mut store = scene.open();
    say(&mut store, &mut head, "the last words");
    assert_eq!(scene.standing().behind, 0);
}

#[test]
fn a_session_that_is_taken_up_has_its_whole_journal_before_the_first_append() {
    let scene = Scene::new();
    let head = without_a_journal(&scene);
    let mut store = scene.open();
    store.restore_from_journal(head.session()).unwrap();
    assert_eq!(scene.standing().behind, 0);
}

/// Two processes that work in a session in turn, as a history pane that renames it and the screen
/// of the session do.
#[test]
fn a_process_that_was_in_a_session_for_a_moment_overwrites_nothing_later() {
    let scene = Scene::new();
    let id = session(&mut scene.open(), HERE).session().to_string();
    let mut pane = scene.open();
    say_for_a_moment(&scene, &mut pane, &id, "first");
    others_say_much_before_the_last_words(&scene, pane, &id);
}

/// The start wrote in the journal what a killed process had not written.
#[test]
fn a_process_that_filled_a_journal_at_its_start_overwrites_nothing_later() {
    let scene = Scene::new();
    let mut head = session(&mut scene.open(), HERE);
    killed_before_the_journal(&scene, |store| say(store, &mut head, "first"));
    assert_eq!(scene.standing().behind, 1);
    let pane = scene.open();
    assert_eq!(scene.standing().behind, 0);
    others_say_much_before_the_last_words(&scene, pane, head.session());
}

fn say_for_a_moment(scene: &Scene, pane: &mut Store, id: &str, text: &str) {
    let done = pane.with_closed_session(&scene.data(), id, |store| say_in(store, id, text));
    done.unwrap();
}

fn say_in(store: &mut Store, id: &str, text: &str) {
    let (mut head, _) = store.load(id).unwrap();
    say(store, &mut head, text);
}

/// Another process writes many lines between the first words of the pane's session and its last.
fn others_say_much_before_the_last_words(scene: &Scene, mut pane: Store, id: &str) {
    let mut other = scene.open();
    for n in 0..60 {
        say_in(&mut other, id, &format!("{n} {}", "words ".repeat(800)));
    }
    drop(other);
    say_for_a_moment(scene, &mut pane, id, "last");
    drop(pane);
    scene.replace_database(None);
    let store = scene.open();
    assert_eq!(store.restore_report().missing, 0);
    let words = words(&store, id);
    assert_eq!(words.len(), 62);
    assert_eq!((&*words[0], &*words[61]), ("first", "last"));
}

/// Nothing is recorded beside what only the journal has.
#[test]
fn a_moment_in_a_session_first_brings_in_what_its_journal_has_more() {
    let scene = Scene::new();
    let mut store = scene.open();
    let mut head = session(&mut store, HERE);
    let id = head.session().to_string();
    drop(store);
    let older = scene.database();
    let mut store = scene.open();
    say(&mut store, &mut head, "newer");
    drop(store);
    scene.replace_database(Some(&older));
    // This start cannot bring it in.
    let lock = SessionLock::take(&scene.data(), &id).unwrap();
    let mut store = scene.open();
    drop(lock);
    let done = store.with_closed_session(&scene.data(), &id, |store| {
        let (mut head, _) = store.load(&id).unwrap();
        say(store, &mut head, "last");
    });
    done.unwrap();
    assert_eq!(words(&store, &id), ["newer", "last"]);
    assert_eq!(
        store
            .history()
            .sessions(Default::default(), 9)
            .unwrap()
            .len(),
        1
    );
}

/// Another process may have removed the first note.
#[test]
fn a_session_that_a_process_works_in_again_is_noted_again() {
    let scene = Scene::new();
    let id = session(&mut scene.open(), HERE).session().to_string();
    let mut pane = scene.open();
    let is_noted = || {
        let sql = "SELECT EXISTS (SELECT 1 FROM meta WHERE name = 'appended:' || ?1)";
        let found = raw(&scene.data()).query_row(sql, [&id], |row| row.get::<_, bool>(0));
        found.unwrap()
    };
    say_for_a_moment(&scene, &mut pane, &id, "first");
    let mut other = scene.open();
    session(&mut other, HERE);
    say_for_a_moment(&scene, &mut pane, &id, "after the removal");
    assert!(is_noted());
    let mut third = scene.open();
    say_for_a_moment(&scene, &mut pane, &id, "between comparison and removal");
    session(&mut third, HERE);
    assert!(is_noted());
}

/// The lock is released, so another process may write the journal.
#[test]
fn a_process_that_left_a_session_writes_nothing_in_its_journal() {
    let scene = Scene::new();
    let id = session(&mut scene.open(), HERE).session().to_string();
    let mut pane = scene.open();
    let folder = scene.place().folder.join(&id);
    let kept = scene.dir.path().join("kept");
    fs::rename(&folder, &kept).unwrap();
    fs::write(&folder, "").unwrap();
    let done = pane.with_closed_session(&scene.data(), &id, |store| {
        let (mut head, _) = store.load(&id).unwrap();
        say(store, &mut head, "words");
    });
    done.unwrap();
    fs::remove_file(&folder).unwrap();
    fs::rename(&kept, &folder).unwrap();
    drop(pane);
    assert_eq!(scene.standing().behind, 1);
}

/// All that the store does while nobody waits for anything.
fn tidy(store: &mut Store) {
    while store.maintain().unwrap() {}
}

fn has_all_journals(scene: &Scene) -> bool {
    let found = scene.lines();
    found.lines == found.entries
}

#[test]
fn a_session_that_was_recorded_without_a_journal_gets_one() {
    let scene = Scene::new();
    let head = without_a_journal(&scene);
    let mut store = Store::open(&scene.data()).unwrap();
    let branch = fork(&mut store, head.session(), 2, 9).unwrap();
    drop(store);
    let mut store = scene.open();
    assert!(!has_all_journals(&scene));
    tidy(&mut store);
    assert!(has_all_journals(&scene));
    drop(store);
    scene.replace_database(None);
    let store = scene.open();
    assert_eq!(store.restore_report().missing, 0);
    assert_eq!(words(&store, head.session()).len(), 40);
    assert_eq!(words(&store, branch.session()).len(), 2);
}

#[test]
fn a_session_that_a_process_has_open_gets_its_journal_after_that() {
    let scene = Scene::new();
    let head = without_a_journal(&scene);
    let lock = SessionLock::take(&scene.data(), head.session()).unwrap();
    tidy(&mut scene.open());
    assert!(!has_all_journals(&scene));
    drop(lock);
    tidy(&mut scene.open());
    assert!(has_all_journals(&scene));
}

/// Row ids of the rows that were looked at are stored: a large store is searched once.
#[test]
fn a_store_is_searched_once_for_sessions_without_a_journal() {
    let scene = Scene::new();
    let mut store = Store::open(&scene.data()).unwrap();
    let mut head = session(&mut store, HERE);
    append(
        &mut store,
        &mut head,
        (0..1_200).map(|_| said("words")).collect(),
    );
    drop(store);
    let folder = scene.place().folder;
    // A journal that cannot be written is tried again.
    fs::write(&folder, "in the way").unwrap();
    tidy(&mut scene.open());
    fs::remove_file(&folder).unwrap();
    tidy(&mut scene.open());
    assert!(has_all_journals(&scene));
    fs::remove_dir_all(&folder).unwrap();
    tidy(&mut scene.open());
    assert!(!has_all_journals(&scene));
    // Of the rows that came since, each is searched.
    let mut store = Store::open(&scene.data()).unwrap();
    let newer = session(&mut store, HERE);
    drop(store);
    tidy(&mut scene.open());
    assert!(folder.join(newer.session()).is_dir());
    assert!(!folder.join(head.session()).exists());
}
