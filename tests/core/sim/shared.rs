//! The simulation of a shared session: a database in memory that loses answers, delays requests, and
//! compares fences; and processes that are copies of each other.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rewake::command::lease_file::LeaseFile;
use rewake::core::entry::{Entry, Record, Seq};
use rewake::journal::chain_hash::ChainHash;
use rewake::session::shared::match_logs;
use rewake::shared::SharedError;
use rewake::shared::log::{
    Claimed, EndOfLog, Home, LeaseState, Mail, MailKind, Push, SharedLog, StoredLine, StoredLog,
    StoredObject,
};
use rewake::shared::mailbox::Mailbox;
use rewake::shared::writer::{Listed, Options, SharedWriter};
use rewake::store::shared::{NewLines, end_of, key, lines_from, lines_of};
use rewake::store::{NewSession, Store, new_id};

use super::{Case, fake, fresh_store, run};

const DATABASE: &str = "memory";

/// The fate of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// It is done, and the answer is lost.
    LostAnswer,
    /// It never arrives.
    LostRequest,
    /// It arrives after the next claim, and its sender hears nothing.
    Late,
}

#[derive(Default)]
struct Tables {
    fence: i64,
    end: Option<EndOfLog>,
    lines: Vec<StoredLine>,
    objects: Vec<StoredObject>,
    mail: Vec<Mail>,
    /// The data folder.
    dir: PathBuf,
    /// Each process finds a new message when it starts.
    sends_mail: bool,
    /// Number of messages that were sent.
    sent: i64,
    pushes: u64,
    /// The push with this number, from 1, has this fault.
    faults: Vec<(u64, Fault)>,
    late: Option<(i64, Push)>,
    /// Late requests that arrived.
    arrived_late: u64,
}

impl Tables {
    fn push(&mut self, fence: i64, push: &Push) -> bool {
        if fence != self.fence || self.end != Some(push.before) {
            return false;
        }
        self.end = Some(push.after);
        self.lines.extend(push.lines.iter().cloned());
        self.objects.extend(push.objects.iter().cloned());
        self.mail.retain(|mail| !push.taken.contains(&mail.id));
        true
    }
}

/// A database with one session.
#[derive(Clone, Default)]
pub struct Memory(Arc<Mutex<Tables>>);

impl Memory {
    pub fn with(faults: Vec<(u64, Fault)>) -> Memory {
        let memory = Memory::default();
        memory.0.lock().unwrap().faults = faults;
        memory
    }

    /// Another machine sends a message before each start of a process.
    pub fn sending_mail(self, sends_mail: bool) -> Memory {
        self.0.lock().unwrap().sends_mail = sends_mail;
        self
    }

    pub fn pushes(&self) -> u64 {
        self.0.lock().unwrap().pushes
    }

    /// Returns a writer for a store.
    pub fn writer(&self, store: &mut Store, session: &str) -> SharedWriter {
        self.writer_with(store, session, None, None)
    }

    fn writer_with(
        &self,
        store: &mut Store,
        session: &str,
        lease_file: Option<PathBuf>,
        mailbox: Option<Mailbox>,
    ) -> SharedWriter {
        let home = Home {
            home: "home".into(),
            boot: "boot".into(),
            host: "host".into(),
        };
        let key = key(store).unwrap();
        let (session, database) = (session.to_string(), DATABASE.to_string());
        let options = Options {
            lease_file,
            mailbox,
            ..Options::default()
        };
        SharedWriter::start(self.clone(), home, session, database, key, options).unwrap()
    }

    /// Creates a shared session in a store.
    fn session_in(&self, dir: &Path) -> String {
        let mut store = Store::open(dir).unwrap();
        let new = NewSession {
            id: new_id(),
            workspace: "/w".into(),
            folder: "/w".into(),
        };
        store.create(&new, 0, fake::opened()).unwrap();
        drop(store);
        self.take_over(dir, &new.id);
        new.id
    }

    /// Makes a session shared, with the entries that it has.
    pub fn take_over(&self, dir: &Path, session: &str) {
        self.0.lock().unwrap().dir = dir.to_path_buf();
        let database = rusqlite::Connection::open(dir.join("rewake.db")).unwrap();
        let sql = "UPDATE sessions SET replica = 'shared@memory' WHERE id = ?1";
        assert_eq!(database.execute(sql, [session]).unwrap(), 1);
        drop(database);
        let mut store = Store::open(dir).unwrap();
        let writer = self.writer(&mut store, session);
        let new = lines_from(&store, session, 0).unwrap();
        let before = (ChainHash::of_nothing(), 0);
        writer.create(before, "{}".into(), &new, listed()).unwrap();
    }

    /// Takes the lease for a process that starts.
    pub fn started(&self, store: &mut Store, session: &str) -> SharedWriter {
        let mut tables = self.0.lock().unwrap();
        let mailbox = tables.sends_mail.then(|| {
            tables.sent += 1;
            let message =
                serde_json::json!({"text": format!("mail {}", tables.sent), "via": "signal"});
            let mail = Mail {
                id: tables.sent,
                kind: MailKind::Message,
                body: message.to_string(),
                origin: "far".into(),
            };
            tables.mail.push(mail);
            let dir = tables.dir.clone();
            Mailbox::new(dir, session.to_string(), Vec::new())
        });
        drop(tables);
        let writer = self.writer_with(store, session, None, mailbox);
        let mut warnings = Vec::new();
        match_logs(&writer, store, session, &mut warnings).unwrap();
        writer.take_mail().unwrap();
        assert_eq!(warnings, Vec::<String>::new());
        writer
    }

    /// The database and the store have the same entries.
    pub fn check(&self, dir: &Path, session: &str) {
        let mut store = Store::open(dir).unwrap();
        let end = end_of(&mut store, session).unwrap();
        let tables = self.0.lock().unwrap();
        assert_eq!(tables.end, Some(end));
        assert_eq!(tables.lines.len() as u64, end.1);
        assert!(tables.mail.is_empty(), "{:?}", tables.mail);
        let records = store.load(session).unwrap().1;
        for number in 1..=tables.sent {
            let text = format!("mail {number}");
            let is_its =
                |r: &&Record| matches!(&r.entry, Entry::Said { text: said, .. } if *said == text);
            assert_eq!(records.iter().filter(is_its).count(), 1, "{text}");
        }
    }
}

fn listed() -> Listed {
    Listed {
        title: String::new(),
        state: "idle",
    }
}

fn away() -> SharedError {
    SharedError::Away {
        what: "memory: no answer".into(),
    }
}

impl StoredLog for Memory {
    async fn lines(&mut self, _: &str, first: Seq) -> Result<Vec<StoredLine>, SharedError> {
        let tables = self.0.lock().unwrap();
        let lines = tables.lines.iter().skip(first as usize).take(7);
        Ok(lines.cloned().collect())
    }

    async fn objects(
        &mut self,
        _: &str,
        hashes: &[[u8; 32]],
    ) -> Result<Vec<StoredObject>, SharedError> {
        let tables = self.0.lock().unwrap();
        let wanted = tables
            .objects
            .iter()
            .filter(|(hash, _)| hashes.contains(hash));
        Ok(wanted.cloned().collect())
    }
}

impl SharedLog for Memory {
    async fn lease(&mut self) -> Result<Duration, SharedError> {
        Ok(Duration::from_secs(600))
    }

    async fn create(&mut self, _: &Home, _: &str, push: &Push) -> Result<Option<i64>, SharedError> {
        let mut tables = self.0.lock().unwrap();
        tables.fence = 1;
        tables.end = Some(push.before);
        assert!(tables.push(1, push));
        Ok(Some(1))
    }

    async fn claim(&mut self, session: &str, _: &Home) -> Result<Claimed, SharedError> {
        let mut tables = self.0.lock().unwrap();
        tables.fence += 1;
        let (fence, Some(end)) = (tables.fence, tables.end) else {
            panic!("{session} was not created");
        };
        if let Some((fence, push)) = tables.late.take() {
            tables.arrived_late += 1;
            assert!(
                !tables.push(fence, &push),
                "a request arrived after a claim"
            );
        }
        Ok(Claimed { fence, end })
    }

    async fn push(&mut self, fence: i64, push: &Push) -> Result<bool, SharedError> {
        let mut tables = self.0.lock().unwrap();
        tables.pushes += 1;
        let number = tables.pushes;
        let fault = tables.faults.iter().find(|(of, _)| *of == number);
        match fault.map(|(_, fault)| *fault) {
            None => Ok(tables.push(fence, push)),
            Some(Fault::LostAnswer) => {
                tables.push(fence, push);
                Err(away())
            }
            Some(Fault::LostRequest) => Err(away()),
            Some(Fault::Late) => {
                tables.late = Some((fence, push.clone()));
                Err(away())
            }
        }
    }

    async fn beat(&mut self, _: &str, fence: i64) -> Result<LeaseState, SharedError> {
        Ok(match self.0.lock().unwrap().fence == fence {
            true => LeaseState::Held,
            false => LeaseState::Taken,
        })
    }

    async fn files(&mut self, _: &str) -> Result<Option<String>, SharedError> {
        Ok(None)
    }

    async fn mail(&mut self, _: &str) -> Result<Vec<Mail>, SharedError> {
        Ok(self.0.lock().unwrap().mail.clone())
    }

    async fn forget(&mut self, _: &str, fence: i64, ids: &[i64]) -> Result<(), SharedError> {
        let mut tables = self.0.lock().unwrap();
        if tables.fence == fence {
            tables.mail.retain(|mail| !ids.contains(&mail.id));
        }
        Ok(())
    }

    async fn wait_for_mail(&mut self) {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }

    /// A process that is killed gives nothing back.
    async fn release(&mut self, _: &str, _: i64) -> Result<(), SharedError> {
        Ok(())
    }

    fn now(&self) -> Duration {
        Duration::ZERO
    }
}

/// A line after an end of the log.
fn next(end: EndOfLog, text: &str) -> NewLines {
    let entry = Entry::Noted {
        text: text.into(),
        about: None,
    };
    NewLines {
        lines: lines_of(end, 1, &[entry], false).unwrap(),
        ..NewLines::default()
    }
}

const FAULTS: [Fault; 3] = [Fault::LostAnswer, Fault::LostRequest, Fault::Late];

/// A crash at every boundary of a shared session. Where the process dies after the database has
/// entries, the next one gets them from there.
#[test]
fn every_boundary_of_a_shared_session() {
    let first = Case {
        shared: Some(vec![]),
        hooked: true,
        ..Case::default()
    };
    let last = run(&first).boundaries;
    for at in super::places(1..=last, 1) {
        run(&Case {
            crashes: vec![at, at + 2],
            power_cut: at % 2 == 0,
            say_at: Some(at),
            ..first.clone()
        });
    }
}

/// A message of another machine waits at each start, and the process dies at every boundary. Each
/// message becomes one entry.
#[test]
fn mail_becomes_one_entry_at_every_boundary() {
    let first = Case {
        shared: Some(vec![]),
        mail: true,
        ..Case::default()
    };
    let ran = run(&first);
    for at in super::places(1..=ran.boundaries, 2) {
        run(&Case {
            crashes: vec![at, at + 3],
            power_cut: at % 2 == 0,
            ..first.clone()
        });
    }
    for number in 1..=ran.pushes {
        let fault = FAULTS[number as usize % FAULTS.len()];
        run(&Case {
            shared: Some(vec![(number, fault)]),
            crashes: vec![number * ran.boundaries / ran.pushes],
            ..first.clone()
        });
    }
}

/// An answer, a request or both are lost at every push, and the process dies near it.
#[test]
fn lost_answers_at_every_push() {
    let first = Case {
        shared: Some(vec![]),
        ..Case::default()
    };
    let ran = run(&first);
    assert!(ran.pushes > 10, "{} pushes", ran.pushes);
    for number in 1..=ran.pushes {
        let fault = FAULTS[number as usize % FAULTS.len()];
        run(&Case {
            shared: Some(vec![(number, fault), (number + 2, Fault::LostAnswer)]),
            ..first.clone()
        });
        let at = number * ran.boundaries / ran.pushes;
        run(&Case {
            shared: Some(vec![(number, fault)]),
            crashes: vec![at],
            ..first.clone()
        });
    }
}

/// Two processes with one identity, as of a machine that was cloned or frozen. At each step one of them
/// appends, and any of its answers may be lost. The log is that of one of them, and the other one is
/// told.
#[test]
fn of_two_holders_one_appends() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    for woken_at in 0..6_u64 {
        for fault in [
            None,
            Some(Fault::LostAnswer),
            Some(Fault::LostRequest),
            Some(Fault::Late),
        ] {
            let dir = fresh_store();
            // The push of the frozen one that has the fault.
            let faults = fault.map(|fault| (woken_at + 1, fault));
            let memory = Memory::with(Vec::from_iter(faults));
            let session = memory.session_in(dir.path());
            let mut store = Store::open(dir.path()).unwrap();
            let frozen = memory.started(&mut store, &session);
            let mut end = end_of(&mut store, &session).unwrap();
            for number in 0..woken_at {
                let new = next(end, &format!("mine {number}"));
                runtime.block_on(frozen.push(end, &new, listed())).unwrap();
                end = new.end().unwrap();
            }
            let other = memory.writer(&mut store, &session);
            assert_eq!(other.claim().unwrap(), end);
            let theirs = next(end, "theirs");
            // The frozen one wakes before or after the other one appends.
            let mine = next(end, "mine");
            let woken = runtime.block_on(frozen.push(end, &mine, listed()));
            let (lines, tip) = {
                let tables = memory.0.lock().unwrap();
                (tables.lines.len() as u64, tables.end)
            };
            match woken {
                // Its answer was lost, so it claimed the session again: the other one is told.
                Ok(()) => {
                    assert!(fault.is_some());
                    assert_eq!(tip, mine.end());
                    let told = runtime.block_on(other.push(end, &theirs, listed()));
                    assert!(matches!(told, Err(SharedError::Lost { .. })), "{told:?}");
                }
                Err(SharedError::Lost { .. }) => {
                    assert_eq!((lines, tip), (end.1, Some(end)));
                    runtime
                        .block_on(other.push(end, &theirs, listed()))
                        .unwrap();
                    let again = runtime.block_on(frozen.push(end, &mine, listed()));
                    assert!(matches!(again, Err(SharedError::Lost { .. })), "{again:?}");
                    assert_eq!(memory.0.lock().unwrap().end, theirs.end());
                }
                Err(error) => panic!("{error}"),
            }
            let records: Vec<Record> = store.load(&session).unwrap().1;
            assert_eq!(records.len(), 1, "a writer appends to no store");
        }
    }
}

/// The file does not exist before, and what the holder does never depends on it.
#[test]
fn each_sign_of_life_writes_the_lease() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap();
    let dir = fresh_store();
    let folder = dir.path().join("lease");
    let path = folder.join("file");
    let file = LeaseFile::at(&path);
    let is_written = || file.read("boot", Duration::ZERO).is_some();
    let memory = Memory::default();
    let session = memory.session_in(dir.path());
    let mut store = Store::open(dir.path()).unwrap();
    let writer = memory.writer_with(&mut store, &session, Some(path.clone()), None);
    // There is no folder for the file.
    let end = writer.claim().unwrap();
    std::fs::create_dir(&folder).unwrap();
    writer.claim().unwrap();
    assert!(is_written());
    std::fs::remove_file(&path).unwrap();
    let new = next(end, "line");
    runtime.block_on(writer.push(end, &new, listed())).unwrap();
    assert!(is_written());
    std::fs::remove_file(&path).unwrap();
    // Another process took the session.
    memory.0.lock().unwrap().fence += 1;
    let (end, new) = (new.end().unwrap(), next(new.end().unwrap(), "line"));
    let lost = runtime.block_on(writer.push(end, &new, listed()));
    assert!(matches!(lost, Err(SharedError::Lost { .. })), "{lost:?}");
    assert!(!is_written());
}
