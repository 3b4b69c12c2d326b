//! A data folder with a journal and a mark, which its database can be taken from.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use rewake::recovery::{Recovered, Repair, recover};
use rewake::store::{BackupStatus, JournalPlace, Store, StoreError};

use super::story::*;

pub struct Scene {
    pub dir: tempfile::TempDir,
}

impl Scene {
    pub fn new() -> Scene {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("state")).unwrap();
        Scene { dir }
    }

    pub fn data(&self) -> PathBuf {
        self.dir.path().join("data")
    }

    pub fn place(&self) -> JournalPlace {
        JournalPlace {
            folder: self.data().join("journal"),
            state_dir: self.dir.path().join("state"),
            pause: Duration::from_millis(100),
        }
    }

    pub fn open(&self) -> Store {
        let mut store = Store::open(&self.data()).unwrap();
        store.start_copies(&self.data(), &self.place()).unwrap();
        store
    }

    /// As `rewake doctor --repair` does it.
    pub fn rebuild(
        &self,
        only_whole: bool,
        from: &[PathBuf],
    ) -> Result<Option<Recovered>, StoreError> {
        let repair = Repair {
            from,
            same_machine: true,
            only_whole,
            progress: &mut |_| {},
        };
        recover(&self.data(), Some(&self.place()), repair)
    }

    /// Opens a damaged store as a start does it.
    pub fn open_repaired(&self) -> Store {
        let mut store = Store::open(&self.data()).unwrap();
        match store.start_copies(&self.data(), &self.place()) {
            Ok(()) => assert!(store.is_damaged()),
            Err(error) => assert!(error.is_damage(), "{error}"),
        }
        drop(store);
        let rebuilt = self.rebuild(true, &[]).unwrap().unwrap();
        assert_eq!(rebuilt.lost(), 0);
        self.open()
    }

    pub fn standing(&self) -> BackupStatus {
        BackupStatus {
            lines: 0,
            entries: 0,
            late_ms: 0,
            ..self.lines()
        }
    }

    /// The same, with how much of it the journal has.
    pub fn lines(&self) -> BackupStatus {
        let store = Store::open_current(&self.data()).unwrap().unwrap();
        store.check().standing(&self.data(), &self.place()).unwrap()
    }

    /// All in the one file; to be called when nobody has it open.
    pub fn database(&self) -> Vec<u8> {
        raw(&self.data())
            .query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))
            .unwrap();
        fs::read(database(&self.data())).unwrap()
    }

    pub fn replace_database(&self, bytes: Option<&[u8]>) {
        for suffix in ["", "-wal", "-shm"] {
            let _ = fs::remove_file(self.data().join(format!("rewake.db{suffix}")));
        }
        if let Some(bytes) = bytes {
            fs::write(database(&self.data()), bytes).unwrap();
        }
    }

    /// The names in a session's journal.
    pub fn files(&self, session: &str) -> Vec<String> {
        let files = fs::read_dir(self.place().folder.join(session)).unwrap();
        let mut names: Vec<String> = files
            .map(|file| file.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }
}
