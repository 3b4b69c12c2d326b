//! Recovery of a session whose database is damaged and whose journal is whole: each copy may be the
//! longer one, and none is set aside while it has an entry that the others lack.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use rewake::core::entry::{Entry, Record};
use rewake::store::{Head, Store, StoreError};
use rusqlite::Connection;
use rusqlite::config::DbConfig;

use crate::place::Place;
use crate::story::*;

const HEADER: usize = 32;
const FRAME: usize = 24 + 4096;

/// The files below a folder.
type Image = BTreeMap<PathBuf, Vec<u8>>;

fn image(folder: &Path) -> Image {
    let mut files = Image::new();
    for file in fs::read_dir(folder).unwrap() {
        let path = file.unwrap().path();
        match path.is_dir() {
            true => files.extend(image(&path)),
            false => drop(files.insert(path.clone(), fs::read(&path).unwrap())),
        }
    }
    files
}

/// A store with two sessions, as a kill leaves it.
struct Killed {
    place: Place,
    image: Image,
    logs: Vec<(String, Vec<Record>)>,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Mark {
    Present,
    Missing,
    Garbage,
}

const MARKS: [Mark; 3] = [Mark::Present, Mark::Missing, Mark::Garbage];

fn say(store: &mut Store, heads: &mut [Head], from: u32, upto: u32) {
    for n in from..upto {
        for head in heads.iter_mut() {
            let words = format!("words {n} of {} {}", head.session(), "x".repeat(700));
            append(store, head, vec![said(&words)]);
        }
    }
}

fn connection(place: &Place) -> Connection {
    let conn = raw(&place.scene.data());
    let stays = conn.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true);
    stays.unwrap();
    conn
}

impl Killed {
    /// Its log was copied into the database in part: a reader kept the rest.
    fn with_half_a_log() -> Killed {
        let place = Place::new();
        let mut store = place.ctx.open_store().unwrap();
        let mut heads = [session(&mut store, HERE), session(&mut store, "/elsewhere")];
        say(&mut store, &mut heads, 0, 15);
        let reader = connection(&place);
        reader.execute_batch("BEGIN").unwrap();
        reader
            .query_row("SELECT count(*) FROM entries", [], |_| Ok(()))
            .unwrap();
        say(&mut store, &mut heads, 15, 25);
        connection(&place)
            .query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(()))
            .unwrap();
        say(&mut store, &mut heads, 25, 37);
        let killed = Killed::of(place, &store, &heads);
        drop((reader, store));
        killed
    }

    /// All in the database.
    fn closed() -> Killed {
        let place = Place::new();
        let mut store = place.ctx.open_store().unwrap();
        let mut heads = [session(&mut store, HERE), session(&mut store, "/elsewhere")];
        say(&mut store, &mut heads, 0, 20);
        let mut killed = Killed::of(place, &store, &heads);
        drop(store);
        killed.place.scene.database();
        killed.image = image(killed.place.scene.dir.path());
        killed
    }

    fn of(place: Place, store: &Store, heads: &[Head]) -> Killed {
        let log = |head: &Head| {
            let id = head.session().to_string();
            let log = store.load(&id).unwrap().1;
            (id, log)
        };
        Killed {
            image: image(place.scene.dir.path()),
            logs: heads.iter().map(log).collect(),
            place,
        }
    }

    fn restore(&self, mark: Mark) {
        for folder in ["data", "state"] {
            let _ = fs::remove_dir_all(self.place.scene.dir.path().join(folder));
        }
        for (path, bytes) in &self.image {
            let is_mark = path.extension().is_some_and(|ext| ext == "mark");
            let bytes = match mark {
                Mark::Missing if is_mark => continue,
                Mark::Garbage if is_mark => &b"garbage"[..],
                _ => bytes,
            };
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, bytes).unwrap();
        }
    }

    /// The database has the first three entries of each session, as an older copy has.
    fn keep_three_entries(&self) {
        let keep = "PRAGMA foreign_keys = OFF; UPDATE sessions SET length = 3,
            head = (SELECT id FROM entries WHERE session = sessions.key AND seq = 2);
            DELETE FROM entries WHERE seq > 2";
        raw(&self.place.scene.data()).execute_batch(keep).unwrap();
    }

    fn set_aside(&self) -> Vec<PathBuf> {
        let files = fs::read_dir(self.place.scene.place().folder);
        let paths = files
            .into_iter()
            .flatten()
            .flatten()
            .map(|file| file.path());
        paths
            .filter(|path| path.to_string_lossy().contains(".old-"))
            .collect()
    }

    /// Resumes and continues every session with every entry. No journal is set aside.
    #[track_caller]
    fn goes_on_whole(&self, what: &str) {
        let mut store = self.place.ctx.open_store().unwrap();
        for (id, log) in &self.logs {
            let (opened, taken_up) = self.place.take_up(store, id).unwrap();
            store = opened;
            let read = taken_up.unwrap_or_else(|error| panic!("{what}: {error}"));
            assert!(read == *log, "{what}: {} of {}", read.len(), log.len());
            let (mut head, _) = store.load(id).unwrap();
            append(&mut store, &mut head, vec![said("and on")]);
        }
        assert_eq!(self.set_aside(), Vec::<PathBuf>::new(), "{what}");
        drop(store);
        let store = Store::open(&self.place.scene.data()).unwrap();
        for (id, log) in &self.logs {
            assert_eq!(store.load(id).unwrap().1.len(), log.len() + 1, "{what}");
        }
    }
}

#[test]
fn a_flipped_bit_of_a_log_that_was_copied_in_part_loses_nothing() {
    let killed = Killed::with_half_a_log();
    let log = killed.place.scene.data().join("rewake.db-wal");
    let bytes = &killed.image[&log];
    let frames = (bytes.len() - HEADER) / FRAME;
    assert!(frames > 50, "{frames}");
    for frame in (0..frames).step_by(7) {
        for mark in MARKS {
            killed.restore(mark);
            let mut bytes = bytes.clone();
            bytes[HEADER + frame * FRAME + 24 + frame % 4096] ^= 1;
            fs::write(&log, bytes).unwrap();
            killed.goes_on_whole(&format!("frame {frame}, mark {mark:?}"));
        }
    }
}

/// What stands in the newest rows, and in the row of the session.
const ROWS: [&str; 7] = [
    "UPDATE entries SET body = '{}' WHERE id = (SELECT max(id) FROM entries)",
    "UPDATE entries SET tip = x'00' WHERE id = (SELECT max(id) FROM entries)",
    "DELETE FROM entries WHERE id = (SELECT max(id) FROM entries)",
    "UPDATE sessions SET head = head - 2, length = length - 1",
    "UPDATE sessions SET length = length + 700",
    "UPDATE sessions SET head = 3",
    "UPDATE sessions SET head = 99999",
];

#[test]
fn a_damaged_newest_entry_or_row_of_a_session_is_repaired() {
    let killed = Killed::closed();
    for (mark, sql) in MARKS.iter().flat_map(|mark| ROWS.map(|sql| (*mark, sql))) {
        killed.restore(mark);
        let conn = raw(&killed.place.scene.data());
        conn.execute_batch(&format!("PRAGMA foreign_keys = OFF; {sql}"))
            .unwrap();
        drop(conn);
        killed.goes_on_whole(&format!("{sql}, mark {mark:?}"));
    }
}

#[test]
fn any_damaged_page_is_repaired_with_any_mark() {
    let killed = Killed::closed();
    let database = killed.place.scene.data().join("rewake.db");
    let pages = killed.image[&database].len() / 4096;
    for (page, mark) in (0..pages).zip(MARKS.iter().cycle()) {
        killed.restore(*mark);
        let mut bytes = killed.image[&database].clone();
        bytes[page * 4096..(page + 1) * 4096].fill(0);
        fs::write(&database, bytes).unwrap();
        killed.goes_on_whole(&format!("page {page}, mark {mark:?}"));
    }
    killed.restore(Mark::Missing);
    let bytes = &killed.image[&database];
    fs::write(&database, &bytes[..bytes.len() - 100]).unwrap();
    killed.goes_on_whole("the last 100 bytes");
}

/// The row of a session is older than its entries, as a torn write-ahead log leaves it, and its
/// journal is gone.
#[test]
fn entries_after_the_head_of_a_session_are_found_without_a_journal() {
    let killed = Killed::closed();
    let data = killed.place.scene.data();
    for mark in [Mark::Present, Mark::Missing] {
        killed.restore(mark);
        fs::remove_dir_all(data.join("journal")).unwrap();
        let conn = raw(&data);
        conn.execute_batch(
            "UPDATE sessions SET length = 9,
             head = (SELECT id FROM entries WHERE session = sessions.key AND seq = 8)",
        )
        .unwrap();
        drop(conn);
        killed.goes_on_whole(&format!("{mark:?}"));
    }
}

/// The folder alone, at another place: nothing is locked, and nothing is done to the journal.
#[test]
fn a_copy_of_only_the_data_folder_can_be_opened() {
    let killed = Killed::closed();
    let _ = fs::remove_dir_all(killed.place.scene.dir.path().join("state"));
    killed.goes_on_whole("without the state folder");
    let half = Killed::with_half_a_log();
    half.restore(Mark::Present);
    fs::remove_dir_all(half.place.scene.dir.path().join("state")).unwrap();
    half.goes_on_whole("without the state folder, after a kill");
}

/// The session has no journal, and its row is lost: its entries can still be read.
#[test]
fn without_a_mark_a_start_drops_no_row_that_can_be_read() {
    let killed = Killed::closed();
    let (id, _) = &killed.logs[1];
    let scene = &killed.place.scene;
    for mark in [Mark::Missing, Mark::Present] {
        killed.restore(mark);
        fs::remove_dir_all(scene.place().folder.join(id)).unwrap();
        let lose = format!("PRAGMA foreign_keys = OFF; DELETE FROM sessions WHERE id = '{id}'");
        raw(&scene.data()).execute_batch(&lose).unwrap();
        let rebuilt = scene.rebuild(true, &[]).unwrap();
        assert!(rebuilt.is_none(), "{mark:?}: {rebuilt:?}");
    }
}

/// An older version set the journal aside although it had more than the database.
#[test]
fn a_journal_that_was_set_aside_is_read_by_repair() {
    let killed = Killed::closed();
    let (id, log) = &killed.logs[0];
    let scene = &killed.place.scene;
    let folder = scene.place().folder;
    fs::rename(folder.join(id), folder.join(format!("{id}.old-7"))).unwrap();
    killed.keep_three_entries();
    let lacks = |store: &Store| {
        store
            .check()
            .count_only_in_journals(&scene.data(), &scene.place())
            .unwrap()
    };
    let store = Store::open(&scene.data()).unwrap();
    assert_eq!(lacks(&store), 2 * (log.len() as u64 - 3));
    drop(store);
    let rebuilt = scene.rebuild(false, &[]).unwrap().unwrap();
    assert_eq!(rebuilt.lost(), 0, "{rebuilt:?}");
    let store = Store::open(&scene.data()).unwrap();
    assert_eq!(store.load(id).unwrap().1, *log);
    assert_eq!(lacks(&store), 0);
    assert_eq!(killed.set_aside().len(), 1);
}

/// What `--as-is` set aside is read only when a person names it.
#[test]
fn a_journal_that_a_person_set_aside_is_read_only_when_it_is_named() {
    let killed = Killed::closed();
    let (id, log) = &killed.logs[0];
    let scene = &killed.place.scene;
    killed.keep_three_entries();
    scene.place().move_aside(&scene.data()).unwrap();
    let rebuilt = scene.rebuild(false, &[]).unwrap().unwrap();
    assert_eq!(rebuilt.entries, 6, "{rebuilt:?}");
    let files = fs::read_dir(scene.data()).unwrap();
    let paths = files.map(|file| file.unwrap().path());
    let named: Vec<PathBuf> = paths
        .filter(|path| path.to_string_lossy().contains("journal.old-"))
        .collect();
    scene.rebuild(false, &named).unwrap().unwrap();
    let store = Store::open(&scene.data()).unwrap();
    assert_eq!(store.load(id).unwrap().1, *log);
}

/// The database and the journal continue the session differently: both are there, none does again
/// what is open in both, and a second repair makes no third session.
#[test]
fn two_ways_become_two_sessions_and_neither_has_an_open_call() {
    let mut killed = Killed::closed();
    killed.keep_three_entries();
    let mut store = Store::open(&killed.place.scene.data()).unwrap();
    let id = &killed.logs[0].0;
    let (mut head, _) = store.load(id).unwrap();
    append(&mut store, &mut head, vec![said("another way")]);
    drop(store);
    killed.image = image(killed.place.scene.dir.path());
    let (id, log) = &killed.logs[0];
    let scene = &killed.place.scene;
    for is_aside in [false, true] {
        killed.restore(Mark::Present);
        let folder = scene.place().folder;
        if is_aside {
            fs::rename(folder.join(id), folder.join(format!("{id}.old-7"))).unwrap();
        }
        for _ in 0..2 {
            scene.rebuild(false, &[]).unwrap().unwrap();
            let store = Store::open(&scene.data()).unwrap();
            let sessions = store.history().sessions(Default::default(), 99).unwrap();
            assert_eq!(sessions.len(), 3, "{is_aside}");
            let is_other = |info: &&rewake::store::SessionInfo| {
                info.title
                    .as_ref()
                    .is_some_and(|title| title.contains("as its journal has it"))
            };
            let other = sessions.iter().find(is_other).unwrap();
            let ends_closed = |id: &str, log: &[Record]| {
                let read = store.load(id).unwrap().1;
                assert_eq!(read[..log.len()], *log, "{is_aside}");
                assert_eq!(read.len(), log.len() + 1);
                assert!(matches!(read[log.len()].entry, Entry::Forked { .. }));
            };
            ends_closed(&other.id, log);
            let mut own = log[..3].to_vec();
            own.push(store.load(id).unwrap().1[3].clone());
            ends_closed(id, &own);
            assert_eq!(other.forked_from.as_ref().unwrap().seq, 2);
        }
        let mut store = scene.open();
        store.take_up(id).unwrap();
        assert_eq!(store.restore_report().parted, []);
        assert_eq!(
            store
                .history()
                .sessions(Default::default(), 99)
                .unwrap()
                .len(),
            3
        );
    }
}

/// A tombstone wins over every copy.
#[test]
fn a_purged_session_is_in_no_recovery() {
    let killed = Killed::closed();
    let (id, _) = &killed.logs[0];
    let scene = &killed.place.scene;
    let folder = scene.place().folder;
    fs::rename(folder.join(id), folder.join(format!("{id}.old-7"))).unwrap();
    fs::create_dir_all(scene.data().join("purged")).unwrap();
    fs::write(scene.data().join("purged").join(format!("{id}.done")), "").unwrap();
    scene.rebuild(false, &[]).unwrap().unwrap();
    let store = Store::open(&scene.data()).unwrap();
    let gone = store.load(id).unwrap_err();
    assert!(matches!(gone, StoreError::NotFound { .. }), "{gone}");
}

/// The session has lines after the damaged one that the database does not have.
#[test]
fn a_damaged_line_of_a_journal_does_not_hide_those_after_it() {
    let killed = Killed::closed();
    let (id, log) = &killed.logs[0];
    let scene = &killed.place.scene;
    let tail = scene.place().folder.join(id).join("tail.jsonl");
    let lines = fs::read_to_string(&tail).unwrap();
    let broken = ["words 1 of", "{\"seq\":2,"];
    for (broken, starts) in broken
        .iter()
        .flat_map(|broken| [(*broken, false), (*broken, true)])
    {
        killed.restore(Mark::Present);
        killed.keep_three_entries();
        fs::write(&tail, lines.replacen(broken, "broken", 1)).unwrap();
        let store = Store::open(&scene.data()).unwrap();
        let lacks = store
            .check()
            .count_only_in_journals(&scene.data(), &scene.place())
            .unwrap();
        assert_eq!(lacks, 2 * (log.len() as u64 - 3), "{broken}");
        drop(store);
        if starts {
            // It writes the journal on, and keeps what it cannot read.
            drop(scene.open());
        }
        let rebuilt = scene.rebuild(false, &[]).unwrap().unwrap();
        assert_eq!(rebuilt.lost(), 0, "{broken}: {rebuilt:?}");
        killed.goes_on_whole(broken);
    }
}

/// A start locked the sessions, since an older version had set a journal aside.
#[test]
fn a_repair_that_restores_every_entry_unlocks_the_sessions() {
    let mut killed = Killed::closed();
    // The newest entry gets another row.
    let (id, log) = &mut killed.logs[0];
    let mut store = killed.place.ctx.open_store().unwrap();
    let (mut head, _) = store.load(id).unwrap();
    append(&mut store, &mut head, vec![said("the newest")]);
    *log = store.load(id).unwrap().1;
    drop(store);
    let (id, _) = &killed.logs[0];
    let scene = &killed.place.scene;
    let folder = scene.place().folder;
    let aside = folder.join(format!("{id}.old-7"));
    fs::rename(folder.join(id), &aside).unwrap();
    killed.keep_three_entries();
    let (_, taken_up) = killed.place.take_up(scene.open(), id).unwrap();
    let locked = taken_up.unwrap_err();
    assert!(matches!(locked, StoreError::BackInTime { .. }), "{locked}");
    scene.rebuild(false, &[]).unwrap().unwrap();
    let mut store = killed.place.ctx.open_store().unwrap();
    for (id, log) in &killed.logs {
        let (opened, taken_up) = killed.place.take_up(store, id).unwrap();
        store = opened;
        assert_eq!(taken_up.unwrap(), *log);
    }
}

#[test]
fn a_lost_database_is_restored_without_a_mark_that_can_be_opened() {
    let killed = Killed::closed();
    let scene = &killed.place.scene;
    for bytes in [None, Some([0xff; 256])] {
        killed.restore(Mark::Missing);
        scene.replace_database(None);
        let state = scene.dir.path().join("state");
        fs::create_dir_all(&state).unwrap();
        match bytes {
            // A file has the name of the folder.
            None => fs::write(state.join("marks"), "").unwrap(),
            Some(bytes) => {
                fs::create_dir_all(state.join("marks")).unwrap();
                for path in killed.image.keys().filter(|path| path.starts_with(&state)) {
                    fs::write(path, bytes).unwrap();
                }
            }
        }
        killed.goes_on_whole(&format!("mark {bytes:?}"));
    }
}
