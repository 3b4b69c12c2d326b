//! A damaged database: a start rebuilds it when all comes back, and says so; else a person does,
//! and what lacks a stretch is held. Reading everything finds each kind of damage.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rewake::core::entry::{Entry, Via};
use rewake::store::{Batch, Head, JournalPlace, NewSession, Store, new_id};
use rusqlite::Connection;

use crate::cli::journal::path;
use crate::cli::{bash, calling, quiet};
use support::Home;

struct Sound {
    home: Home,
    head: Head,
    database: Vec<u8>,
}

fn place(home: &Home) -> JournalPlace {
    JournalPlace {
        folder: path(home, "journal"),
        state_dir: home.user().join("state"),
        pause: Duration::from_millis(10),
    }
}

fn said(text: String) -> Batch {
    let said = Entry::Said {
        text,
        images: vec![],
        via: Via::Prompt,
        command: None,
        origin: None,
    };
    Batch {
        at_ms: 2_000,
        entries: vec![said],
        ..Batch::default()
    }
}

fn noise(seed: u64) -> String {
    let hash = |n: u64| blake3::hash(&(seed * 100 + n).to_le_bytes()).to_hex();
    (0..20).map(|n| hash(n).to_string()).collect()
}

fn all_in_one_file(home: &Home, sql: &str) -> Vec<u8> {
    let conn = Connection::open(path(home, "rewake.db")).unwrap();
    conn.execute_batch(sql).unwrap();
    conn.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))
        .unwrap();
    drop(conn);
    fs::read(path(home, "rewake.db")).unwrap()
}

impl Sound {
    /// With contents of files, a blob, frames and a tail.
    fn new() -> Sound {
        let home = calling(&[bash("echo x > made")]);
        fs::write(home.workspace().join("was.txt"), "it was here").unwrap();
        home.run(["-p", "go", "--yolo"]).expect(0);
        let mut store = Store::open(&home.rewake_home()).unwrap();
        fs::create_dir_all(home.user().join("state")).unwrap();
        store
            .start_copies(&home.rewake_home(), &place(&home))
            .unwrap();
        let new = NewSession {
            id: new_id(),
            workspace: "/elsewhere".into(),
            folder: "/elsewhere".into(),
        };
        let first = said("first".to_string()).entries.remove(0);
        let (mut head, _) = store.create(&new, 1_000, first).unwrap();
        for n in 0..130 {
            let blobs = (n == 0).then(|| b"a blob".to_vec());
            let batch = Batch {
                blobs: blobs.into_iter().collect(),
                ..said(noise(n))
            };
            store.append(&mut head, &batch).unwrap();
        }
        drop(store);
        let database = all_in_one_file(&home, "");
        Sound {
            home,
            head,
            database,
        }
    }

    fn restore(&self) {
        for suffix in ["-wal", "-shm"] {
            let _ = fs::remove_file(path(&self.home, &format!("rewake.db{suffix}")));
        }
        fs::write(path(&self.home, "rewake.db"), &self.database).unwrap();
    }

    #[track_caller]
    fn finds(&self, words: &str) {
        let scrubbed = self.home.run(["doctor", "--scrub"]).expect(1);
        quiet(&scrubbed);
        let wrong = |line: &&str| line.starts_with("WRONG") && line.contains(words);
        let found = scrubbed.stdout.lines().filter(wrong).count();
        assert_eq!(found, 1, "{words:?}: {}", scrubbed.stdout);
    }

    fn journal(&self, wanted: &str) -> PathBuf {
        let folder = place(&self.home).folder.join(self.head.session());
        let files = fs::read_dir(folder).unwrap().flatten();
        let mut files = files.map(|file| file.path());
        files
            .find(|path| path.to_string_lossy().ends_with(wanted))
            .unwrap()
    }
}

fn change(file: &Path, at: usize) -> Vec<u8> {
    let was = fs::read(file).unwrap();
    let mut bytes = was.clone();
    bytes[at] ^= 1;
    fs::write(file, bytes).unwrap();
    was
}

#[test]
fn each_kind_of_damage_is_found_and_named() {
    let mut sound = Sound::new();
    let home = &sound.home;
    let scrubbed = home.run(["doctor", "--scrub"]).expect(0);
    assert!(
        scrubbed.stdout.contains("nothing is damaged"),
        "{}",
        scrubbed.stdout
    );

    for (sql, words) in [
        ("UPDATE blobs SET data = x'00'", "blob "),
        (
            "UPDATE contents SET data = x'00' WHERE id = (SELECT min(id) FROM contents)",
            "content ",
        ),
        (
            "UPDATE entries SET body = '{}' WHERE id = (SELECT max(id) FROM entries)",
            "entry 130 ",
        ),
    ] {
        all_in_one_file(home, sql);
        sound.finds(words);
        sound.restore();
    }

    let sql = "SELECT rootpage - 1 FROM sqlite_schema WHERE name = 'sessions_by_workspace'";
    let conn = Connection::open(path(home, "rewake.db")).unwrap();
    let root: u32 = conn.query_row(sql, [], |row| row.get(0)).unwrap();
    drop(conn);
    let root = root as usize;
    let mut bytes = sound.database.clone();
    bytes[root * 4096..(root + 1) * 4096].fill(0);
    fs::write(path(home, "rewake.db"), bytes).unwrap();
    sound.finds("in index sessions_by_workspace");
    sound.restore();

    for (file, at) in [(".jsonl.zst", 2_000), ("tail.jsonl", 900)] {
        let file = sound.journal(file);
        let was = change(&file, at);
        sound.finds("is damaged in 1 place");
        fs::write(file, was).unwrap();
    }
    home.run(["doctor", "--scrub"]).expect(0);

    // Both are whole, and went different ways.
    let data = home.rewake_home();
    let mut store = Store::open(&data).unwrap();
    store.start_copies(&data, &place(home)).unwrap();
    let mut head = sound.head.clone();
    store.restore_from_journal(head.session()).unwrap();
    store
        .append(&mut head, &said("one way".to_string()))
        .unwrap();
    drop(store);
    sound.restore();
    let mut store = Store::open(&data).unwrap();
    store
        .append(&mut sound.head, &said("another".to_string()))
        .unwrap();
    drop(store);
    sound.finds("differs from the database from entry 131 on");
}
