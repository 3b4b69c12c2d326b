//! What a session keeps when copies of it are behind each other: a message that was said stays
//! said, and what lies behind a gap of the journal is used where it fits, or named.

use std::fs;
use std::path::PathBuf;

use rewake::core::entry::{Entry, Record, Via};
use rewake::store::{Batch, Store, StoreError};

use crate::scene::Scene;
use crate::story::*;

fn log(store: &Store, id: &str) -> Vec<Record> {
    store.load(id).unwrap().1
}

fn said_from_the_queue(text: &str) -> Entry {
    Entry::Said {
        text: text.into(),
        images: vec![],
        via: Via::Queue,
        command: None,
        origin: None,
    }
}

/// Two messages with the same words wait. The first one is said, and a kill comes between the
/// commit and the journal. The next start brings the journal up to date.
fn said_and_killed(scene: &Scene) -> (String, i64) {
    let mut store = scene.open();
    let mut head = session(&mut store, HERE);
    let id = head.session().to_string();
    let queued = [1, 2].map(|at| {
        store
            .inbox_mut()
            .queue(&id, &message("again"), &[], at)
            .unwrap()
    });
    drop(store);
    let mut store = Store::open(&scene.data()).unwrap();
    let taken = Batch {
        taken: Some(queued[0]),
        ..batch(vec![said_from_the_queue("again")])
    };
    store.append(&mut head, &taken).unwrap();
    drop(store);
    (id, queued[1].number())
}

fn tail(scene: &Scene, id: &str) -> PathBuf {
    scene.place().folder.join(id).join("tail.jsonl")
}

#[track_caller]
fn one_was_said_and_one_waits(store: &Store, id: &str, waits: i64) {
    assert_eq!(said_texts(&log(store, id)), ["again"]);
    let queued = store.inbox().queued(id).unwrap();
    let queued: Vec<i64> = queued.iter().map(|q| q.id.number()).collect();
    assert_eq!(queued, [waits]);
}

#[test]
fn a_line_that_is_written_later_names_its_message() {
    let scene = Scene::new();
    let (id, waits) = said_and_killed(&scene);
    let state = tail(&scene, &id).with_file_name("state.jsonl");
    let before = fs::read(&state).unwrap();
    let mut store = scene.open();
    store.restore_from_journal(&id).unwrap();
    drop(store);
    let lines = fs::read_to_string(tail(&scene, &id)).unwrap();
    let last = lines.lines().last().unwrap();
    assert!(last.contains(&format!("\"taken\":{}", waits - 1)), "{last}");
    // A kill before the journal is told what waits now, and one after it.
    for state_is_old in [false, true] {
        if state_is_old {
            fs::write(&state, &before).unwrap();
        }
        scene.replace_database(None);
        one_was_said_and_one_waits(&scene.open(), &id, waits);
        scene.replace_database(Some(b"garbage, and no database at all"));
        scene.rebuild(false, &[]).unwrap().unwrap();
        one_was_said_and_one_waits(&scene.open(), &id, waits);
    }
}

/// An older version wrote the line without it.
#[test]
fn a_line_that_names_no_message_says_nothing_twice() {
    let scene = Scene::new();
    let (id, waits) = said_and_killed(&scene);
    let state = tail(&scene, &id).with_file_name("state.jsonl");
    let before = fs::read(&state).unwrap();
    let mut store = scene.open();
    store.restore_from_journal(&id).unwrap();
    drop(store);
    let lines = fs::read_to_string(tail(&scene, &id)).unwrap();
    let named = format!("\"taken\":{},", waits - 1);
    let journal = scene.dir.path().join("journal-kept");
    fs::write(tail(&scene, &id), lines.replace(&named, "")).unwrap();
    fs::write(&state, &before).unwrap();
    copy(&scene.place().folder, &journal);
    scene.replace_database(None);
    one_was_said_and_one_waits(&scene.open(), &id, waits);
    copy(&journal, &scene.place().folder);
    scene.replace_database(Some(b"garbage, and no database at all"));
    scene.rebuild(false, &[]).unwrap().unwrap();
    one_was_said_and_one_waits(&scene.open(), &id, waits);
}

fn copy(from: &std::path::Path, to: &std::path::Path) {
    let _ = fs::remove_dir_all(to);
    let copied = std::process::Command::new("cp")
        .arg("-a")
        .args([from, to])
        .status();
    assert!(copied.unwrap().success());
}

/// A session whose journal has several files, a second one, and copies of the database at some
/// lengths of the first.
struct Long {
    scene: Scene,
    id: String,
    other: String,
    whole: Vec<Record>,
    /// The first entry of each file with frames.
    files: Vec<u64>,
    copies: Vec<Vec<u8>>,
}

const LENGTHS: [u64; 4] = [20, 40, 60, 80];

fn long() -> Long {
    let scene = Scene::new();
    let mut store = scene.open();
    let mut head = session(&mut store, HERE);
    let id = head.session().to_string();
    let other = talk(&mut store, 2).session().to_string();
    let mut copies = Vec::new();
    for length in LENGTHS {
        while head.seq() + 1 < length {
            let text = format!("{} {}", head.seq(), "words ".repeat(1_600));
            append(&mut store, &mut head, vec![said(&text)]);
        }
        // Each process begins a file of its own.
        drop(store);
        copies.push(scene.database());
        store = scene.open();
    }
    let whole = log(&store, &id);
    drop(store);
    let names = scene.files(&id);
    let first = |name: &String| name.strip_suffix(".jsonl.zst")?.parse().ok();
    let files: Vec<u64> = names.iter().filter_map(first).collect();
    assert!(files.len() > 3, "{names:?}");
    Long {
        scene,
        id,
        other,
        whole,
        files,
        copies,
    }
}

impl Long {
    /// The file in the middle is gone: from this entry to before that one.
    fn without_a_file(&self) -> (u64, u64) {
        let name = format!("{:08}.jsonl.zst", self.files[1]);
        fs::remove_file(tail(&self.scene, &self.id).with_file_name(name)).unwrap();
        (self.files[1], self.files[2])
    }

    /// Twice, since a second start changes nothing.
    #[track_caller]
    fn is_held(&self, first: u64, end: u64) {
        for _ in 0..2 {
            let mut store = self.scene.open();
            let Err(StoreError::Gap(gap)) = store.history().check_no_gap(&self.id) else {
                panic!("{:?}, {:?}", store.history().gap(&self.id), store.missing());
            };
            assert_eq!((gap.first, gap.last), (first, end - 1));
            assert_eq!(gap.behind, self.whole.len() as u64 - end);
            store.restore_from_journal(&self.id).unwrap();
            assert_eq!(log(&store, &self.id), self.whole[..first as usize]);
            // It is known whose they are, so nobody else is held.
            store.check_missing_entries(&self.other).unwrap();
            assert_eq!(log(&store, &self.other).len(), 3);
        }
    }
}

#[test]
fn a_file_of_a_journal_that_is_missing_is_a_gap() {
    let long = long();
    let (first, end) = long.without_a_file();
    long.scene.replace_database(None);
    long.is_held(first, end);
}

/// A backup had it, say.
#[test]
fn a_gap_closes_when_the_missing_file_is_there_again() {
    let long = long();
    let kept = tempfile::tempdir().unwrap();
    let journal = long.scene.place().folder;
    let kept = kept.path().join("journal");
    copy(&journal, &kept);
    let (first, end) = long.without_a_file();
    long.scene.replace_database(None);
    long.is_held(first, end);

    copy(&kept, &journal);
    for _ in 0..2 {
        let mut store = long.scene.open();
        store.restore_from_journal(&long.id).unwrap();
        assert_eq!(log(&store, &long.id), long.whole);
        store.history().check_no_gap(&long.id).unwrap();
        assert_eq!(store.restore_report().parted, []);
        assert!(store.missing().is_none());
    }
}

#[test]
fn an_older_database_that_ends_in_the_gap_is_held() {
    let long = long();
    let (first, end) = long.without_a_file();
    assert!(first < LENGTHS[0] && LENGTHS[0] < end, "{:?}", long.files);
    long.scene.replace_database(Some(&long.copies[0]));
    long.is_held(LENGTHS[0], end);
    assert!(!long.scene.files(&long.id).is_empty(), "it was moved aside");
}

#[test]
fn a_database_that_has_what_the_gap_lacks_gets_the_rest() {
    for copy in [1, 2, 3] {
        let long = long();
        let (_, end) = long.without_a_file();
        assert!(end < LENGTHS[1], "{:?}", long.files);
        long.scene.replace_database(Some(&long.copies[copy]));
        for _ in 0..2 {
            let mut store = long.scene.open();
            store.restore_from_journal(&long.id).unwrap();
            assert_eq!(log(&store, &long.id), long.whole, "copy {copy}");
            assert_eq!(store.restore_report().parted, []);
            store.history().check_no_gap(&long.id).unwrap();
            assert!(store.missing().is_none());
        }
    }
}

/// A power cut took the last second of mark and journal.
struct PowerCut {
    scene: Scene,
    /// Its last four entries are in no journal.
    id: String,
    whole: Vec<Record>,
    /// A fork at the last entry that the journal has.
    branch: String,
    whole_branch: Vec<Record>,
    database: Vec<u8>,
}

impl PowerCut {
    fn new() -> PowerCut {
        let scene = Scene::new();
        let mut store = scene.open();
        let mut head = talk(&mut store, 6);
        let id = head.session().to_string();
        let mut branch = fork(&mut store, &id, head.seq(), 9).unwrap();
        append(&mut store, &mut branch, vec![said("another way")]);
        let branch = branch.session().to_string();
        let whole_branch = log(&store, &branch);
        drop(store);
        let stored = scene.dir.path().join("stored");
        fs::create_dir(&stored).unwrap();
        let synced = [scene.place().folder, scene.dir.path().join("state")];
        for folder in &synced {
            copy(folder, &stored.join(folder.file_name().unwrap()));
        }
        let mut store = scene.open();
        for n in 0..4 {
            append(&mut store, &mut head, vec![said(&format!("after {n}"))]);
        }
        let whole = log(&store, &id);
        drop(store);
        let database = scene.database();
        for folder in &synced {
            copy(&stored.join(folder.file_name().unwrap()), folder);
        }
        let cut = PowerCut {
            scene,
            id,
            whole,
            branch,
            whole_branch,
            database,
        };
        cut.restart();
        cut
    }

    /// The mark was written before the machine was started the last time.
    fn restart(&self) {
        let marks = self.scene.dir.path().join("state/marks");
        let mark = fs::read_dir(marks).unwrap().next().unwrap().unwrap().path();
        let text = fs::read_to_string(&mark).unwrap();
        let by = text.lines().nth(3).unwrap();
        let boot = by.split(':').nth(1).unwrap();
        fs::write(&mark, text.replace(boot, "00000000")).unwrap();
    }

    /// The first page of the table that has this name, or of the database.
    fn zero(&mut self, table: Option<&str>) {
        let page = match table {
            None => 1,
            Some(table) => {
                let sql = "SELECT rootpage FROM sqlite_schema WHERE name = ?1";
                let conn = raw(&self.scene.data());
                let page: u32 = conn.query_row(sql, [table], |row| row.get(0)).unwrap();
                page as usize
            }
        };
        self.database[(page - 1) * 4096..page * 4096].fill(0);
        self.scene.replace_database(Some(&self.database));
    }

    fn length(&self) -> usize {
        self.whole.len() - 4
    }
}

#[test]
fn rows_after_the_end_of_a_journal_come_back_without_the_row_of_their_session() {
    let mut cut = PowerCut::new();
    cut.zero(Some("sessions"));
    let rebuilt = cut.scene.rebuild(true, &[]).unwrap().unwrap();
    assert_eq!(rebuilt.lost(), 0);
    let store = cut.scene.open();
    assert_eq!(log(&store, &cut.id), cut.whole);
    assert_eq!(log(&store, &cut.branch), cut.whole_branch);
}

/// Nothing says whether the rows are of the session or of a fork.
#[test]
fn entries_lost_beyond_the_journal_are_reported_as_a_gap() {
    let mut cut = PowerCut::new();
    let conn = raw(&cut.scene.data());
    let end = cut.length() as i64 - 1;
    let sql = "UPDATE entries SET checksum = zeroblob(length(checksum)) WHERE seq = ?1";
    assert!(conn.execute(sql, [end]).unwrap() > 0);
    drop(conn);
    cut.database = cut.scene.database();
    cut.zero(Some("sessions"));
    assert_eq!(cut.scene.rebuild(true, &[]).unwrap(), None);
    let rebuilt = cut.scene.rebuild(false, &[]).unwrap().unwrap();
    assert_eq!(rebuilt.lost(), 4);
    let store = cut.scene.open();
    store.history().check_no_gap(&cut.branch).unwrap();
    assert_eq!(log(&store, &cut.branch), cut.whole_branch);
    assert_eq!(log(&store, &cut.id), cut.whole[..cut.length()]);
    let Err(StoreError::Gap(gap)) = store.history().check_no_gap(&cut.id) else {
        panic!("{:?}", store.missing());
    };
    let length = cut.length() as u64;
    assert_eq!((gap.first, gap.last), (length, length + 3));
}

/// A power cut took all that the journal and the mark knew of a new session.
#[test]
fn a_start_drops_no_session_that_only_rows_have() {
    let scene = Scene::new();
    let mut store = scene.open();
    let first = talk(&mut store, 3).session().to_string();
    drop(store);
    let marks = scene.dir.path().join("state/marks");
    let mark = fs::read_dir(marks).unwrap().next().unwrap().unwrap().path();
    let older = fs::read(&mark).unwrap();
    let mut store = scene.open();
    let mut head = talk(&mut store, 1);
    append(&mut store, &mut head, vec![said("only here")]);
    let second = head.session().to_string();
    drop(store);
    let mut database = scene.database();
    fs::remove_dir_all(scene.place().folder.join(&second)).unwrap();
    fs::write(&mark, older).unwrap();
    let sql = "SELECT rootpage FROM sqlite_schema WHERE name = 'sessions'";
    let page: u32 = raw(&scene.data())
        .query_row(sql, [], |row| row.get(0))
        .unwrap();
    let page = page as usize;
    database[(page - 1) * 4096..page * 4096].fill(0);
    scene.replace_database(Some(&database));
    assert_eq!(scene.rebuild(true, &[]).unwrap(), None);
    let rebuilt = scene.rebuild(false, &[]).unwrap().unwrap();
    assert!(
        rebuilt.line().contains("nothing names"),
        "{}",
        rebuilt.line()
    );
    assert_eq!(log(&scene.open(), &first).len(), 4);
}

/// Nothing says whether there was more: a start changes nothing, and the repair says so.
#[test]
fn after_a_restart_a_database_that_cannot_be_read_is_rebuilt_only_by_a_person() {
    let mut cut = PowerCut::new();
    cut.zero(None);
    assert_eq!(cut.scene.rebuild(true, &[]).unwrap(), None);
    let rebuilt = cut.scene.rebuild(false, &[]).unwrap().unwrap();
    let line = rebuilt.line();
    assert!(line.contains("last second"), "{line}");
    let store = cut.scene.open();
    assert_eq!(log(&store, &cut.id), cut.whole[..cut.length()]);
    assert_eq!(log(&store, &cut.branch), cut.whole_branch);
}

/// A file of another session under the name of one of ours.
#[test]
fn a_file_of_another_session_is_not_what_a_session_is_rebuilt_from() {
    let scene = Scene::new();
    let mut store = scene.open();
    let ids = [2, 5].map(|n| talk(&mut store, n).session().to_string());
    drop(store);
    fs::copy(tail(&scene, &ids[1]), tail(&scene, &ids[0])).unwrap();
    scene.replace_database(Some(b"garbage, and no database at all"));
    scene.rebuild(false, &[]).unwrap().unwrap();
    let store = scene.open();
    assert!(store.load(&ids[0]).is_err());
    assert_eq!(log(&store, &ids[1]).len(), 6);
}
