//! The mark: the highest entry that was ever recorded in the database of a data folder. It lies
//! in the state folder, so that it is not put back together with an older copy of the database,
//! and it is raised after each commit, without a sync. What it says was recorded; what the
//! database does not have of it is missing.
//!
//! Row ids have no gaps: entries are never removed, and one that was rolled back is used again.
//! So a database that holds all entries up to the mark has at least that row id.

use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use super::StoreError;
use super::error::io as io_error;
use super::files::private_folder;

const FOLDER: &str = "marks";

/// Of each of the two lines: `mark 1 STORE HIGHEST`, and what is held, if anything. The longest
/// id and the highest number fit.
const LINE_BYTES: usize = 64;
const ALL_BYTES: u64 = 2 * LINE_BYTES as u64;

const BEGINS: &str = "mark";
const FORM: &str = "1";

/// What a mark says.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Said {
    /// The id of the store; empty where there was no mark.
    pub store: String,
    /// The row id of the newest entry.
    pub highest: i64,
    /// Entries that are nowhere, and when that was found: UTC, milliseconds since 1970.
    pub held: Option<(u64, i64)>,
}

/// The mark of one data folder.
#[derive(Debug)]
pub(super) struct Mark {
    file: File,
    path: PathBuf,
    pub said: Said,
}

impl Mark {
    /// Where the mark of this data folder lies.
    pub(super) fn path(state_dir: &Path, data_dir: &Path) -> PathBuf {
        let real = data_dir.canonicalize();
        let real = real.as_deref().unwrap_or(data_dir);
        let hash = blake3::hash(real.as_os_str().as_encoded_bytes()).to_hex();
        state_dir.join(FOLDER).join(format!("{}.mark", &hash[..16]))
    }

    pub(super) fn open(state_dir: &Path, data_dir: &Path) -> Result<Mark, StoreError> {
        let path = Mark::path(state_dir, data_dir);
        if let Some(folder) = path.parent() {
            private_folder(folder)?;
        }
        let open = || {
            let mut options = OpenOptions::new();
            options.read(true).write(true).create(true).truncate(false);
            let mut file = options.mode(0o600).open(&path)?;
            let mut text = String::new();
            (&mut file).take(ALL_BYTES).read_to_string(&mut text)?;
            Ok((file, read(&text)))
        };
        let (file, said) = open().map_err(|e| io_error(format!("open {}", path.display()), e))?;
        Ok(Mark { file, path, said })
    }

    /// After a commit: this row is in the database. While something is missing the mark stays
    /// where it is.
    pub(super) fn raise(&mut self, store: &str, row: i64) -> io::Result<()> {
        if self.said.held.is_some() || (row <= self.said.highest && self.said.store == store) {
            return Ok(());
        }
        self.said.store = store.to_string();
        self.said.highest = row;
        let highest = format!("{BEGINS} {FORM} {store} {row}");
        self.write(&highest, 0)
    }

    /// Rows above this one were removed on purpose: their ids are used again.
    pub(super) fn lower(&mut self, row: i64) -> io::Result<()> {
        if self.said.highest <= row || self.said.store.is_empty() {
            return Ok(());
        }
        self.said.highest = row;
        let text = format!("{BEGINS} {FORM} {} {row}", self.said.store);
        self.write(&text, 0)
    }

    /// So many entries are nowhere: what was recorded before is not gone on with.
    pub(super) fn hold(&mut self, missing: u64, now_ms: i64) -> io::Result<()> {
        self.said.held = Some((missing, now_ms));
        self.write(&format!("held {missing} {now_ms}"), LINE_BYTES as u64)
    }

    /// What it says at this place. Nothing is made.
    pub(super) fn look(state_dir: &Path, data_dir: &Path) -> Said {
        let mut text = String::new();
        let file = File::open(Mark::path(state_dir, data_dir));
        let read = file.and_then(|file| file.take(ALL_BYTES).read_to_string(&mut text));
        read.map_or_else(|_| Said::default(), |_| self::read(&text))
    }

    /// The file of a mark is moved aside, and nothing is missing any more.
    pub(super) fn move_aside(&self, now_ms: i64) -> io::Result<()> {
        std::fs::rename(
            &self.path,
            self.path.with_extension(format!("old-{now_ms}")),
        )
    }

    /// One write, of the same length each time: no part of an older text is left behind it.
    fn write(&self, text: &str, at: u64) -> io::Result<()> {
        let width = LINE_BYTES - 1;
        self.file
            .write_all_at(format!("{text:<width$}\n").as_bytes(), at)
    }
}

/// What cannot be read says nothing.
fn read(text: &str) -> Said {
    let mut lines = text.lines();
    let words: Vec<&str> = lines.next().unwrap_or("").split_whitespace().collect();
    let [BEGINS, FORM, store, highest] = words[..] else {
        return Said::default();
    };
    let held: Vec<&str> = lines.next().unwrap_or("").split_whitespace().collect();
    let held = match held[..] {
        ["held", missing, ms] => missing.parse().ok().zip(ms.parse().ok()),
        _ => None,
    };
    Said {
        store: store.to_string(),
        highest: highest.parse().unwrap_or(0),
        held,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_line_fits() {
        let dir = tempfile::tempdir().unwrap();
        let open = || Mark::open(dir.path(), Path::new("/data")).unwrap();
        let store = "0123abcd-4567-4aaa-baaa-0123456789ab";
        let mut mark = open();
        mark.raise(store, i64::MAX).unwrap();
        mark.hold(u64::MAX, i64::MAX).unwrap();
        let wanted = Said {
            store: store.into(),
            highest: i64::MAX,
            held: Some((u64::MAX, i64::MAX)),
        };
        assert_eq!(open().said, wanted);
    }

    #[test]
    fn it_says_what_it_was_raised_to_and_what_is_held() {
        let dir = tempfile::tempdir().unwrap();
        let open = || Mark::open(dir.path(), Path::new("/data")).unwrap();
        assert_eq!(open().said, Said::default());
        let mut mark = open();
        mark.raise("one", 1_000).unwrap();
        mark.raise("one", 12).unwrap();
        let path = Mark::path(dir.path(), Path::new("/data"));
        assert_eq!(std::fs::metadata(path).unwrap().len(), 64);
        assert_eq!(open().said.highest, 1_000);
        mark.hold(7, 42).unwrap();
        mark.raise("one", 2_000).unwrap();
        let said = open().said;
        assert_eq!((said.highest, said.held), (1_000, Some((7, 42))));
        assert_eq!(said.store, "one");
        mark.move_aside(1).unwrap();
        assert_eq!(open().said, Said::default());
        std::fs::write(Mark::path(dir.path(), Path::new("/data")), "nonsense").unwrap();
        assert_eq!(open().said, Said::default());
    }
}
