//! Damage that a start repairs from the journal: the newest entry, and a write-ahead log of which a
//! part is lost. Nothing is lost, and no effect is repeated.

use std::fs;
use std::path::{Path, PathBuf};

use rusqlite::Connection;
use rusqlite::config::DbConfig;

use crate::cli::journal::{at_work, go_on, path, wait_for_calls};
use crate::cli::{LIMIT, bash, play, quiet, records, scripted, step};
use support::Home;

const HEADER: usize = 32;
const FRAME: usize = 24 + 4096;

fn effects(home: &Home) -> String {
    home.read("effects")
}

fn set_aside(home: &Home) -> Vec<PathBuf> {
    let files = fs::read_dir(path(home, "journal")).unwrap().flatten();
    let paths = files.map(|file| file.path());
    paths
        .filter(|path| path.to_string_lossy().contains(".old-"))
        .collect()
}

#[test]
fn the_newest_entry_is_repaired_from_the_journal() {
    let call = |n: usize| step("", &[bash(&format!("echo {n} >> effects"))]);
    let mut steps: Vec<String> = (0..10).map(call).collect();
    steps.push(step("all done", &[]));
    let home = scripted(&steps);
    home.run(["-p", "go", "--yolo"]).expect(0);
    let before = (records(&home), effects(&home));
    let conn = Connection::open(path(&home, "rewake.db")).unwrap();
    conn.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))
        .unwrap();
    drop(conn);
    // The newest page of entries has the oldest of its rows at its end.
    let database = path(&home, "rewake.db");
    let bytes = fs::read(&database).unwrap();
    fs::write(&database, &bytes[..bytes.len() - 100]).unwrap();

    steps.push(step("and more", &[]));
    play(&home, &steps);
    let run = home.run(["-p", "-c", "go on"]).expect(0);
    quiet(&run);
    assert_eq!(run.stdout.trim(), "and more");
    assert!(run.stderr.contains("was rebuilt"), "{}", run.stderr);
    let after = records(&home);
    assert_eq!(after[..before.0.len()], before.0);
    assert_eq!(effects(&home), before.1);
    assert_eq!(set_aside(&home), Vec::<PathBuf>::new());
    home.run(["doctor", "--scrub"]).expect(0);
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for file in fs::read_dir(from).unwrap() {
        let path = file.unwrap().path();
        let to = to.join(path.file_name().unwrap());
        match path.is_dir() {
            true => copy(&path, &to),
            // What a process that ended removes.
            false => drop(fs::copy(&path, &to)),
        }
    }
}

/// The log is copied into the database in part, and then a bit of it is lost: pages of before
/// and after stand beside each other, and no mark says so.
#[test]
fn a_flipped_bit_of_the_log_repeats_no_command() {
    let home = scripted(&[step("done", &[])]);
    home.run(["-p", "first"]).expect(0);
    drop(home);
    let (home, mut live) = at_work();
    wait_for_calls(&home, 2);
    // A reader keeps the rest from being copied.
    let reader = Connection::open(path(&home, "rewake.db")).unwrap();
    reader
        .set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)
        .unwrap();
    reader.execute_batch("BEGIN").unwrap();
    reader
        .query_row("SELECT count(*) FROM entries", [], |_| Ok(()))
        .unwrap();
    wait_for_calls(&home, 4);
    let other = Connection::open(path(&home, "rewake.db")).unwrap();
    other
        .set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)
        .unwrap();
    other
        .query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(()))
        .unwrap();
    wait_for_calls(&home, 6);
    live.kill();
    live.wait(LIMIT);
    let kept = tempfile::tempdir().unwrap();
    copy(&home.rewake_home(), kept.path());
    drop((reader, other));
    let done = effects(&home);
    let log = fs::read(kept.path().join("rewake.db-wal")).unwrap();
    let frames = (log.len() - HEADER) / FRAME;
    assert!(frames > 20, "{frames}");
    go_on(&home);
    for part in 0..5 {
        fs::remove_dir_all(home.rewake_home()).unwrap();
        copy(kept.path(), &home.rewake_home());
        let _ = fs::remove_dir_all(path(&home, "marks"));
        fs::write(home.workspace().join("effects"), &done).unwrap();
        let mut bytes = log.clone();
        bytes[HEADER + frames * part / 5 * FRAME + 24 + 100] ^= 1;
        fs::write(path(&home, "rewake.db-wal"), bytes).unwrap();
        let _ = fs::remove_file(path(&home, "rewake.db-shm"));

        let run = home.run(["-p", "-c", "--yolo"]).expect(0);
        quiet(&run);
        assert_eq!(run.stdout.trim(), "all done", "{part}: {}", run.stderr);
        let expected: String = (0..8).map(|n| format!("{n}\n")).collect();
        assert_eq!(effects(&home), expected, "{part}: {}", run.stderr);
        assert_eq!(set_aside(&home), Vec::<PathBuf>::new(), "{part}");
    }
}
