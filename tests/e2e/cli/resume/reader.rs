//! Another program reads the database while the agent works: it opens it, reads and closes it.
//! Whatever the agent looked at before, the log stays whole.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::fs::{FlockOperation, fcntl_lock};
use serde_json::{Value, json};

use super::scene::*;
use crate::scenes::until;
use support::{Answer, Says};

/// Reads as `sqlite3` does, in a process that has nothing to do with the agent's. At its end
/// SQLite before 3.51 asks for the database alone, and who gets it copies the log into the
/// database and removes it. The newer one that is built in here looks at one more lock first,
/// so that part is done by hand.
fn read_and_close(database: &Path) -> i64 {
    let reader = rusqlite::Connection::open(database).expect("open the database");
    let entries = reader.query_row("SELECT count(*) FROM entries", [], |row| row.get(0));
    let copied = reader.query_row("PRAGMA wal_checkpoint", [], |_| Ok(()));
    copied.expect("copy the log into the database");
    drop(reader);
    let file = fs::File::options().read(true).write(true).open(database);
    let file = file.expect("open the file of the database");
    if fcntl_lock(&file, FlockOperation::NonBlockingLockExclusive).is_ok() {
        for log in ["rewake.db-wal", "rewake.db-shm"] {
            let _ = fs::remove_file(database.with_file_name(log));
        }
    }
    entries.expect("count the entries")
}

#[test]
fn a_reader_that_comes_and_goes_takes_nothing_away() {
    const EFFECTS: usize = 3;
    let database = Arc::new(std::sync::OnceLock::<std::path::PathBuf>::new());
    let (is_waited_for, is_killed) = (
        Arc::new(AtomicBool::new(false)),
        Arc::new(AtomicBool::new(false)),
    );
    let (file, waits, killed) = (database.clone(), is_waited_for.clone(), is_killed.clone());
    let scene = Scene::new(move |seen| {
        let database = file.get().expect("the path of the database");
        match seen.turn {
            // All that may open the store a second time, or its files.
            0 => Answer::call("review_history", json!({})),
            1 => Answer::call("read", json!({"path": database})),
            2 => {
                let folder = database.parent();
                Answer::call("grep", json!({"pattern": "SQLite", "path": folder}))
            }
            turn if turn < 3 + EFFECTS => {
                assert!(read_and_close(database) > 0);
                bash("echo begun >> effects")
            }
            _ => {
                waits.store(true, Ordering::Relaxed);
                while !killed.load(Ordering::Relaxed) {
                    std::thread::sleep(std::time::Duration::from_millis(2));
                }
                Says::text(FINAL_WORDS).into()
            }
        }
    });
    database
        .set(scene.home.rewake_home().join("rewake.db"))
        .expect("it is set once");

    let mut live = scene.start();
    until(|| is_waited_for.load(Ordering::Relaxed));
    assert!(live.kill());
    let acknowledged = live.wait(LIMIT).events();
    is_killed.store(true, Ordering::Relaxed);
    assert_eq!(scene.effects(), EFFECTS);

    let resumed = scene.go_on().expect(0);
    assert_has(&resumed.stderr, &["killed"]);
    assert_eq!(scene.effects(), EFFECTS, "an effect was done twice");
    let log = scene.log();
    let entries = acknowledged.iter().filter(|e| e["seq"].is_u64());
    let entries: Vec<&Value> = entries.collect();
    assert!(entries.len() > 3 * EFFECTS, "{entries:?}");
    for entry in entries {
        assert!(log.contains(entry), "{entry} is not in the log");
    }
    scene.server.assert_no_violations();
}
