//! Sudden death: what was acknowledged is there, what was not is there whole or not at all.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use rewake::store::Store;

use crate::story::*;

const FOLDER: &str = "REWAKE_TEST_CRASH_FOLDER";
const ENTRIES_A_BATCH: u64 = 3;

/// Appends until it is killed, and says each batch that is durable.
#[test]
#[ignore = "the child of the test below"]
fn child_appends_until_killed() {
    let Some(folder) = std::env::var_os(FOLDER) else {
        return;
    };
    let mut store = Store::open(folder.as_ref()).unwrap();
    let mut blank = store
        .history()
        .blank(HERE, &format!("{HERE}/src"), 1)
        .unwrap();
    let newest = store.history().newest(None).unwrap();
    let id = newest.or(blank.pop()).unwrap().id;
    let (mut head, records) = store.load(&id).unwrap();
    let mut next = said_texts(&records).len() as u64;
    loop {
        let words = (next..next + ENTRIES_A_BATCH).map(|n| said(&n.to_string()));
        store.append(&mut head, &batch(words.collect())).unwrap();
        next += ENTRIES_A_BATCH;
        println!("\nack {next}");
    }
}

#[test]
fn acknowledged_entries_survive_sigkill() {
    let (dir, mut store) = scratch();
    let id = session(&mut store, HERE).session().to_string();
    for round in 0..8 {
        let acknowledged = run_and_kill(dir.path(), 5 + round * 3);
        let (_, records) = store.load(&id).unwrap();
        let texts = said_texts(&records);
        assert!(
            texts.len() as u64 >= acknowledged,
            "{} of {acknowledged}",
            texts.len()
        );
        assert_eq!(texts.len() as u64 % ENTRIES_A_BATCH, 0, "half a batch");
        assert!(
            texts
                .iter()
                .zip(0..)
                .all(|(text, n)| *text == n.to_string())
        );
    }
    assert_eq!(store.check().quick_check().unwrap(), Vec::<String>::new());
}

/// Kills the child behind its so manyth acknowledgement, while it is in the next append,
/// and gives the last one that was read.
fn run_and_kill(dir: &std::path::Path, acknowledgements: usize) -> u64 {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args([
            "crash::child_appends_until_killed",
            "--exact",
            "--ignored",
            "--nocapture",
        ])
        .env(FOLDER, dir)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut acks = BufReader::new(child.stdout.take().unwrap())
        .lines()
        .map_while(Result::ok)
        .filter_map(|line| line.strip_prefix("ack ")?.parse().ok());
    let read: Vec<u64> = acks.by_ref().take(acknowledgements).collect();
    assert_eq!(read.len(), acknowledgements, "the child died by itself");
    child.kill().unwrap();
    child.wait().unwrap();
    // Those it still said count too.
    acks.last().unwrap_or(read[acknowledgements - 1])
}

/// A store is made under another name.
#[test]
fn a_partly_created_store_is_recreated_after_a_kill() {
    let dir = tempfile::tempdir().unwrap();
    for left in ["rewake.db.new", "rewake.db.new-wal", "rewake.db.new-shm"] {
        std::fs::write(dir.path().join(left), [7; 5_000]).unwrap();
    }
    let mut store = Store::open(dir.path()).unwrap();
    session(&mut store, HERE);
    assert_eq!(store.check().quick_check().unwrap(), Vec::<String>::new());
    let left = std::fs::read_dir(dir.path()).unwrap();
    let names = left.map(|file| file.unwrap().file_name().into_string().unwrap());
    assert_eq!(names.filter(|name| name.contains(".new")).count(), 0);
}

/// SQLite would take the log for that of the new database.
#[test]
fn a_log_without_its_database_adds_nothing_to_a_new_one() {
    let (dir, mut store) = scratch();
    let lost = session(&mut store, HERE);
    let log = std::fs::read(dir.path().join("rewake.db-wal")).unwrap();
    assert!(!log.is_empty());
    let other = tempfile::tempdir().unwrap();
    std::fs::write(other.path().join("rewake.db-wal"), log).unwrap();
    let store = Store::open(other.path()).unwrap();
    assert!(store.history().find(lost.session()).is_err());
    assert_eq!(store.check().quick_check().unwrap(), Vec::<String>::new());
}
