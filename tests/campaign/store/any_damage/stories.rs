//! The stores that are damaged: one to three sessions and a fork, as they are after an ordinary end
//! or after a kill, with a write-ahead log that was copied into the database or was not.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rewake::core::entry::{CallId, Entry, ForkPoint, Guard, Record};
use rewake::store::{Batch, Head, NewFork, NewSession, SessionLock, Store};
use rusqlite::Connection;
use rusqlite::config::DbConfig;

use super::oracle::Log;
use crate::store::matrix::damage::all;
use crate::store::matrix::told::{Image, image, noise, restore};
use crate::store::place::Place;
use crate::store::story::{batch, message, opened, raw, said};

/// The content of the write-ahead log at the end.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Left {
    /// Nothing: all processes ended.
    Nothing,
    /// The newest pages: it was copied into the database before.
    Newest,
    /// A part that was copied, and a part that was not: a reader kept it.
    Half,
    /// Everything.
    All,
}

const LEFT: [Left; 4] = [Left::Nothing, Left::Newest, Left::Half, Left::All];

/// Number of stories.
pub const NUMBER: u64 = 16;

/// A store before it is damaged.
pub struct Story {
    pub place: Place,
    pub image: Image,
    /// The same files as they were before.
    pub older: Image,
    /// Of each session.
    pub logs: Vec<(String, Vec<Record>)>,
    pub log: Log,
    /// Two sessions continue a common beginning, one in the database, one in the journal.
    pub is_parted: bool,
}

impl Story {
    pub fn of(number: u64) -> Story {
        let left = LEFT[usize::try_from(number % 4).unwrap()];
        let sessions = 1 + number / 4 % 3;
        let is_parted = number / 4 == 3;
        Telling::begin(number).run_to_end(sessions, left, is_parted)
    }
}

struct Telling {
    place: Place,
    number: u64,
    store: Store,
    heads: Vec<Head>,
    /// Counts up, for IDs and texts.
    n: u64,
    log: Log,
}

impl Telling {
    fn begin(number: u64) -> Telling {
        let place = Place::new();
        // The same store ID each time.
        drop(Store::open(&place.scene.data()).unwrap());
        let id = format!(
            "UPDATE meta SET value = '0123abcd-4567-4aaa-baaa-{number:012x}' WHERE name = 'store'"
        );
        raw(&place.scene.data()).execute_batch(&id).unwrap();
        let store = place.ctx.open_store().unwrap();
        Telling {
            place,
            number,
            store,
            heads: Vec::new(),
            n: 0,
            log: Log::default(),
        }
    }

    fn next(&mut self) -> u64 {
        self.n += 1;
        self.n + 10_000 * self.number
    }

    /// The same ID each time.
    fn id(&mut self) -> String {
        let n = self.next();
        format!("018f0000-{n:04x}-7000-8000-{n:012x}", n = n % 0xffff)
    }

    fn session(&mut self) {
        let new = NewSession {
            id: self.id(),
            workspace: "/w".into(),
            folder: "/w/src".into(),
        };
        let (head, _) = self.store.create(&new, 1_000, opened()).unwrap();
        self.is_recorded(head);
    }

    fn fork(&mut self, seq: u64) {
        let new = NewFork {
            id: self.id(),
            from: ForkPoint {
                session: self.heads[0].session().to_string(),
                seq,
            },
            place: None,
            unfinished: false,
        };
        let head = self.store.fork(&new, &[], &[], 1_500).unwrap();
        self.is_recorded(head);
    }

    fn is_recorded(&mut self, head: Head) {
        let data = self.place.scene.data();
        SessionLock::take(&data, head.session()).unwrap().recorded();
        self.heads.push(head);
    }

    fn say(&mut self, rounds: u64) {
        for _ in 0..rounds {
            for at in 0..self.heads.len() {
                let n = self.next();
                let bytes = [30, 400, 900, 3_000][usize::try_from(n % 4).unwrap()];
                let entry = said(&noise(n, bytes));
                self.append(at, vec![entry]);
            }
        }
    }

    fn append(&mut self, at: usize, entries: Vec<Entry>) {
        let batch = batch(entries);
        self.store.append(&mut self.heads[at], &batch).unwrap();
    }

    /// Queues messages and records them, so they must not be queued again.
    fn queue_and_say(&mut self) {
        let at = self.heads.len() - 1;
        let id = self.heads[at].session().to_string();
        let queued = self
            .store
            .inbox_mut()
            .queue(&id, &message("queued"), &[], 5)
            .unwrap();
        let taking = Batch {
            at_ms: 3_000,
            entries: vec![said("queued")],
            taken: Some(queued),
            ..Batch::default()
        };
        self.store.append(&mut self.heads[at], &taking).unwrap();
    }

    fn connection(&self) -> Connection {
        let conn = raw(&self.place.scene.data());
        let stays = conn.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true);
        stays.unwrap();
        conn
    }

    fn checkpoint(&self, how: &str) {
        let sql = format!("PRAGMA wal_checkpoint({how})");
        self.connection().query_row(&sql, [], |_| Ok(())).unwrap();
    }

    fn run_to_end(mut self, sessions: u64, left: Left, is_parted: bool) -> Story {
        let root = self.place.scene.dir.path().to_path_buf();
        (0..sessions).for_each(|_| self.session());
        self.say(4);
        self.fork(3);
        self.say(8);
        self.settle();
        let older = image(&root);
        self.log.add(&root.join("data"));
        if left != Left::All {
            self.checkpoint("TRUNCATE");
        }
        let reader = (left == Left::Half).then(|| {
            let reader = self.connection();
            reader.execute_batch("BEGIN").unwrap();
            reader
                .query_row("SELECT count(*) FROM entries", [], |_| Ok(()))
                .unwrap();
            reader
        });
        self.say(8);
        self.queue_and_say();
        // It is about to be done, or it was done.
        let call = CallId { reply: 1, index: 0 };
        let guard = Guard::Opaque;
        let started = Entry::Started {
            call,
            guard,
            access: None,
        };
        self.append(0, vec![started]);
        if left == Left::Half {
            self.checkpoint("PASSIVE");
            self.say(6);
        }
        self.settle();
        self.log.add(&root.join("data"));
        let mut files = image(&root);
        if is_parted {
            let journal = files.clone();
            let heads = std::mem::take(&mut self.heads);
            let Telling { store, place, .. } = self;
            drop((reader, store));
            restore(&root, &older);
            let store = place.ctx.open_store().unwrap();
            self = Telling {
                heads: heads
                    .iter()
                    .map(|head| store.load(head.session()).unwrap().0)
                    .collect(),
                store,
                place,
                number: self.number,
                n: self.n + 500,
                log: self.log,
            };
            self.say(3);
            self.log.add(&root.join("data"));
            files = image(&root);
            files.retain(|path, _| !is_journal(path));
            files.extend(journal.into_iter().filter(|(path, _)| is_journal(path)));
            return self.told(files, older, true);
        }
        if left == Left::Nothing {
            let Telling { store, .. } = self;
            drop(store);
            let store = Store::open(&self.place.scene.data()).unwrap();
            self = Telling { store, ..self };
            files = image(&root);
        }
        let story = self.told(files, older, false);
        drop(reader);
        story
    }

    fn told(self, image: Image, older: Image, is_parted: bool) -> Story {
        let log = |head: &Head| {
            let id = head.session().to_string();
            let log = self.store.load(&id).unwrap().1;
            (id, log)
        };
        Story {
            logs: self.heads.iter().map(log).collect(),
            image,
            older,
            log: self.log,
            is_parted,
            place: self.place,
        }
    }

    /// Waits until the journals have their frames, so that the files are the same each time.
    fn settle(&self) {
        let until = Instant::now() + Duration::from_secs(60);
        let is_closed = |path: &PathBuf| path.to_string_lossy().ends_with(".closed.jsonl");
        while all(&self.place.scene.place().folder).iter().any(is_closed) {
            assert!(Instant::now() < until, "a tail gets no frame");
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

fn is_journal(path: &Path) -> bool {
    path.starts_with("data/journal")
}
