//! The state of a session besides its entries: queued messages, signals, unsent text, whether it is
//! in the trash. It is in a separate file beside the entries, which older versions do not read.
//! Each line has the whole state, and the last complete line counts.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::line::{BlobLine, Line};
use super::read::MAX_LINE_BYTES;
use crate::core::entry::Seq;

const STATE: &str = "state.jsonl";
const NEW: &str = "state.jsonl.new";
/// Lock file, held while the rows are read and their line is written.
const LOCK: &str = "state.lock";

/// Time to wait for the lock. A process that holds it longer is suspended or hangs.
const PATIENCE: Duration = Duration::from_secs(5);
const PAUSE: Duration = Duration::from_millis(2);

/// Size from which the file is rewritten without its outdated lines.
const MAX_BYTES: u64 = 256 << 10;

/// Takes the lock until the returned file is dropped. Without it, of two processes that write the
/// state of a session, the one with older rows could write last.
pub(super) fn hold(folder: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.create(true).truncate(false).write(true).mode(0o600);
    let lock = options.open(folder.join(LOCK))?;
    let until = Instant::now() + PATIENCE;
    loop {
        match lock.try_lock() {
            Ok(()) => return Ok(lock),
            Err(TryLockError::WouldBlock) if Instant::now() < until => thread::sleep(PAUSE),
            Err(TryLockError::WouldBlock) => {
                return Err(io::Error::new(
                    io::ErrorKind::TimedOut,
                    format!("another process holds {LOCK} for more than {PATIENCE:?}"),
                ));
            }
            // Not all file systems have locks, and a journal may lie on any.
            Err(TryLockError::Error(_)) => return Ok(lock),
        }
    }
}

/// The state of one session besides its entries.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct State {
    pub inbox: Vec<Waiting>,
    /// Signals that were not handled yet.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub signals: Vec<WaitingSignal>,
    /// Text in the input box.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trashed_ms: Option<i64>,
    /// Number of entries that the session had then.
    #[serde(default)]
    pub length: u64,
    /// The highest row ID that a queued message of the store had by then.
    #[serde(default)]
    pub used: i64,
    /// The same for signals.
    #[serde(default)]
    pub signals_used: i64,
    /// The stretch of entries that no copy contains.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gap: Option<GapRow>,
}

/// The stored form of a session's gap.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GapRow {
    pub first: Seq,
    pub last: Seq,
    #[serde(default)]
    pub behind: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since_ms: Option<i64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until_ms: Option<i64>,
}

/// A queued message, as in its row.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Waiting {
    pub id: i64,
    pub at_ms: i64,
    pub message: Box<RawValue>,
}

/// A signal, as in its row.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct WaitingSignal {
    pub id: i64,
    pub at_ms: i64,
    pub origin: String,
    pub signal: Box<RawValue>,
}

impl State {
    pub fn is_empty(&self) -> bool {
        self.inbox.is_empty()
            && self.signals.is_empty()
            && self.input.is_none()
            && self.trashed_ms.is_none()
            && self.gap.is_none()
    }
}

/// The last write of this process to a state file.
#[derive(Default)]
pub(super) struct StateFile {
    bytes: u64,
    last: Vec<u8>,
    blobs: Vec<String>,
}

impl StateFile {
    pub(super) fn at(folder: &Path) -> StateFile {
        let bytes = fs::metadata(folder.join(STATE)).map_or(0, |found| found.len());
        StateFile {
            bytes,
            ..StateFile::default()
        }
    }

    /// Writes the state in one unsynced write, like an entry.
    pub(super) fn write(
        &mut self,
        folder: &Path,
        state: &State,
        blobs: &[(String, Vec<u8>)],
    ) -> io::Result<()> {
        if self.bytes == 0 && state.is_empty() {
            return Ok(());
        }
        let mut line = serde_json::to_vec(state)?;
        line.push(b'\n');
        // Another process may have appended since: one that sent something to the session.
        let found = fs::metadata(folder.join(STATE)).map_or(0, |found| found.len());
        if found != self.bytes {
            (self.bytes, self.last) = (found, Vec::new());
            self.blobs.clear();
        }
        if self.last == line {
            return Ok(());
        }
        let is_anew = self.bytes + line.len() as u64 > MAX_BYTES;
        let mut text = Vec::new();
        for (hash, bytes) in blobs {
            if is_anew || !self.blobs.contains(hash) {
                serde_json::to_writer(&mut text, &BlobLine::of(bytes))?;
                text.push(b'\n');
            }
        }
        text.extend_from_slice(&line);
        let mut options = OpenOptions::new();
        options.create(true).mode(0o600);
        if is_anew {
            let new = folder.join(NEW);
            let mut file = options.write(true).truncate(true).open(&new)?;
            file.write_all(&text)?;
            fs::rename(&new, folder.join(STATE))?;
            self.bytes = text.len() as u64;
            self.blobs.clear();
        } else {
            let mut file = options.append(true).open(folder.join(STATE))?;
            // Ends a line that a kill left incomplete.
            if self.last.is_empty() && self.bytes > 0 {
                text.insert(0, b'\n');
            }
            file.write_all(&text)?;
            self.bytes += text.len() as u64;
        }
        self.blobs
            .extend(blobs.iter().map(|(hash, _)| hash.clone()));
        self.last = line;
        Ok(())
    }
}

/// Returns the last complete state, and the blobs in the file. `None`: there is none.
pub fn read_state(folder: &Path) -> Option<(State, Vec<Vec<u8>>)> {
    let mut file = BufReader::new(File::open(folder.join(STATE)).ok()?);
    let (mut last, mut blobs) = (None, Vec::new());
    let mut line = Vec::new();
    loop {
        line.clear();
        let read = (&mut file)
            .take(MAX_LINE_BYTES)
            .read_until(b'\n', &mut line);
        if read.ok()? == 0 {
            break;
        }
        let line = line.trim_ascii_end();
        if line.starts_with(b"{\"blob\"") {
            if let Some(Line::Blob(bytes)) = Line::read(line) {
                blobs.push(bytes);
            }
        } else if let Ok(state) = serde_json::from_slice::<State>(line) {
            last = Some(state);
        }
    }
    last.map(|state| (state, blobs))
}
