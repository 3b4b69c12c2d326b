//! The high-water mark: the highest entry that was ever recorded in the database of a data folder.
//! It is in the state folder, so that it is not restored together with an older copy of the
//! database. It is raised after each commit, without a sync. All entries up to it were recorded, so
//! those that the database lacks are missing.
//!
//! Row ids have no gaps: an id that was rolled back is used again, and only a purge removes
//! entries. The ids that a purge leaves unused stay below the highest row. So a database that has
//! all entries up to the mark has at least that row id.

use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use super::StoreError;
use super::database::private_folder;
use super::error::io as io_error;
use super::machine::{Machine, now_ms};
use crate::journal::chain_hash::ChainHash;

const FOLDER: &str = "marks";

/// Length of each of the lines `mark 1 STORE HIGHEST`, `held MISSING TIME` (or blank), `at ROW TIP`
/// and `by MACHINE TIME`. `TIP` is the tip of the entry in that row. The longest ID and the highest
/// number fit.
const LINE_BYTES: usize = 64;
const ALL_BYTES: u64 = 4 * LINE_BYTES as u64;

const BEGINS: &str = "mark";
const FORM: &str = "1";

/// The content of a mark.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct MarkText {
    /// The ID of the store; empty if there was no mark.
    pub store: String,
    /// The row id of the newest entry.
    pub highest: i64,
    /// Number of entries that are missing everywhere, and when that was found: UTC, milliseconds
    /// since 1970.
    pub held: Option<(u64, i64)>,
    /// The tip of the newest entry. `None`: an older version wrote the mark.
    pub tip: Option<ChainHash>,
    /// The machine that wrote it, and when: UTC, milliseconds since 1970.
    pub by: Option<(Machine, i64)>,
}

/// The high-water mark of one data folder.
#[derive(Debug)]
pub(crate) struct HighWaterMark {
    file: File,
    path: PathBuf,
    pub said: MarkText,
}

impl HighWaterMark {
    /// Returns the path of this data folder's mark.
    pub(super) fn path(state_dir: &Path, data_dir: &Path) -> PathBuf {
        let real = data_dir.canonicalize();
        let real = real.as_deref().unwrap_or(data_dir);
        let hash = blake3::hash(real.as_os_str().as_encoded_bytes()).to_hex();
        state_dir.join(FOLDER).join(format!("{}.mark", &hash[..16]))
    }

    pub(crate) fn open(state_dir: &Path, data_dir: &Path) -> Result<HighWaterMark, StoreError> {
        let path = HighWaterMark::path(state_dir, data_dir);
        if let Some(folder) = path.parent() {
            private_folder(folder)?;
        }
        let open = || {
            let mut options = OpenOptions::new();
            options.read(true).write(true).create(true).truncate(false);
            let mut file = options.mode(0o600).open(&path)?;
            let mut text = Vec::new();
            (&mut file).take(ALL_BYTES).read_to_end(&mut text)?;
            // A damaged mark is written again with the next entry.
            Ok((file, read(&String::from_utf8_lossy(&text))))
        };
        let (file, said) = open().map_err(|e| io_error(format!("open {}", path.display()), e))?;
        Ok(HighWaterMark { file, path, said })
    }

    /// Raises the mark after a commit: this row is in the database, with this tip. While entries
    /// are missing, the mark stays where it is.
    pub(super) fn raise(
        &mut self,
        store: &str,
        row: i64,
        tip: Option<ChainHash>,
    ) -> io::Result<()> {
        if self.said.held.is_some() || (row <= self.said.highest && self.said.store == store) {
            return Ok(());
        }
        self.said.store = store.to_string();
        (self.said.highest, self.said.tip) = (row, tip);
        let tip = tip.map_or_else(String::new, |tip| format!("at {row} {tip:?}"));
        self.said.by = Machine::this().map(|this| (this.clone(), now_ms()));
        let by = match &self.said.by {
            Some((machine, at_ms)) => format!("by {} {at_ms}", machine.word()),
            None => String::new(),
        };
        let lines = [&format!("{BEGINS} {FORM} {store} {row}"), "", &tip, &by];
        self.write(&lines, 0)
    }

    /// Lowers the mark after rows above this one were removed on purpose: their ids are used again.
    pub(super) fn lower(&mut self, row: i64) -> io::Result<()> {
        if self.said.highest <= row || self.said.store.is_empty() {
            return Ok(());
        }
        (self.said.highest, self.said.tip) = (row, None);
        let text = format!("{BEGINS} {FORM} {} {row}", self.said.store);
        self.write(&[&text], 0)
    }

    /// Notes that entries are missing everywhere: sessions from before are locked.
    pub(crate) fn hold(&mut self, missing: u64, now_ms: i64) -> io::Result<()> {
        self.said.held = Some((missing, now_ms));
        self.write(&[&format!("held {missing} {now_ms}")], LINE_BYTES as u64)
    }

    /// Notes that nothing is missing any more.
    pub(crate) fn lift(&mut self) -> io::Result<()> {
        self.said.held = None;
        self.write(&[""], LINE_BYTES as u64)
    }

    /// Reads the mark of this data folder. Creates nothing.
    pub(crate) fn look(state_dir: &Path, data_dir: &Path) -> MarkText {
        let mut text = Vec::new();
        let file = File::open(HighWaterMark::path(state_dir, data_dir));
        let read = file.and_then(|file| file.take(ALL_BYTES).read_to_end(&mut text));
        read.map_or_else(
            |_| MarkText::default(),
            |_| self::read(&String::from_utf8_lossy(&text)),
        )
    }

    /// Moves the file of the mark aside, and notes that nothing is missing any more.
    pub(super) fn move_aside(&self, now_ms: i64) -> io::Result<()> {
        std::fs::rename(
            &self.path,
            self.path.with_extension(format!("old-{now_ms}")),
        )
    }

    /// Writes lines of a fixed length in one write, so that no part of an older text remains.
    fn write(&self, lines: &[&str], at: u64) -> io::Result<()> {
        let width = LINE_BYTES - 1;
        let lines = lines.iter().map(|line| format!("{line:<width$}\n"));
        self.file
            .write_all_at(lines.collect::<String>().as_bytes(), at)
    }
}

/// Parses a mark. An unreadable line counts as absent.
fn read(text: &str) -> MarkText {
    let mut lines = text.lines();
    let words: Vec<&str> = lines.next().unwrap_or("").split_whitespace().collect();
    let [BEGINS, FORM, store, highest] = words[..] else {
        return MarkText::default();
    };
    let held: Vec<&str> = lines.next().unwrap_or("").split_whitespace().collect();
    let held = match held[..] {
        ["held", missing, ms] => missing.parse().ok().zip(ms.parse().ok()),
        _ => None,
    };
    let highest = highest.parse().unwrap_or(0);
    let at: Vec<&str> = lines.next().unwrap_or("").split_whitespace().collect();
    let tip = match at[..] {
        // A tip of another row was left by an older version, which writes only the first two lines.
        ["at", row, tip] if row.parse() == Ok(highest) => ChainHash::from_hex(tip),
        _ => None,
    };
    let by: Vec<&str> = lines.next().unwrap_or("").split_whitespace().collect();
    let by = match by[..] {
        ["by", machine, at_ms] => Machine::read(machine).zip(at_ms.parse().ok()),
        _ => None,
    };
    MarkText {
        store: store.to_string(),
        highest,
        held,
        tip,
        by,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_line_fits() {
        let dir = tempfile::tempdir().unwrap();
        let open = || HighWaterMark::open(dir.path(), Path::new("/data")).unwrap();
        let store = "0123abcd-4567-4aaa-baaa-0123456789ab";
        let mut mark = open();
        let tip = ChainHash::of_nothing();
        mark.raise(store, i64::MAX, Some(tip)).unwrap();
        mark.hold(u64::MAX, i64::MAX).unwrap();
        let wanted = MarkText {
            store: store.into(),
            highest: i64::MAX,
            held: Some((u64::MAX, i64::MAX)),
            tip: Some(tip),
            by: mark.said.by.clone(),
        };
        assert_eq!(open().said, wanted);
    }

    #[test]
    fn the_mark_file_stores_the_highest_entry_and_the_held_entry() {
        let dir = tempfile::tempdir().unwrap();
        let open = || HighWaterMark::open(dir.path(), Path::new("/data")).unwrap();
        assert_eq!(open().said, MarkText::default());
        let mut mark = open();
        mark.raise("one", 1_000, None).unwrap();
        mark.raise("one", 12, None).unwrap();
        let path = HighWaterMark::path(dir.path(), Path::new("/data"));
        assert_eq!(std::fs::metadata(path).unwrap().len(), 256);
        assert_eq!(open().said.highest, 1_000);
        mark.hold(7, 42).unwrap();
        mark.raise("one", 2_000, None).unwrap();
        let said = open().said;
        assert_eq!((said.highest, said.held), (1_000, Some((7, 42))));
        assert_eq!(said.store, "one");
        mark.lift().unwrap();
        mark.raise("one", 2_000, Some(ChainHash::of_nothing()))
            .unwrap();
        let said = open().said;
        assert_eq!((said.highest, said.held), (2_000, None));
        assert_eq!(said.tip, Some(ChainHash::of_nothing()));
        // An older version writes the first line, and no tip.
        let older = format!("{:<63}\n", "mark 1 one 2001");
        open().file.write_all_at(older.as_bytes(), 0).unwrap();
        assert_eq!((open().said.highest, open().said.tip), (2_001, None));
        mark.move_aside(1).unwrap();
        assert_eq!(open().said, MarkText::default());
        for damaged in [&b"nonsense"[..], &[0xff; 256]] {
            std::fs::write(HighWaterMark::path(dir.path(), Path::new("/data")), damaged).unwrap();
            assert_eq!(open().said, MarkText::default());
        }
        open().raise("one", 3, None).unwrap();
        assert_eq!(open().said.highest, 3);
    }
}
