//! The writer of a session's journal. After each commit, and before the next action, its lines are
//! appended to `tail.jsonl` by one unsynced write. So a kill loses no line. When a tail has grown,
//! it is closed, and the [worker](super::worker) makes a frame of it.
//!
//! Only the process that has a session's lock writes in its folder. A failed write does not fail
//! the append: the store brings the journal up to date later.

use std::collections::{HashMap, HashSet, VecDeque};
use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::JournalError;
use super::chain_hash::ChainHash;
use super::folder::{
    A_FOLDER, ASIDE, CLOSED, JournalPlace, TAIL, obstacle, private_folder, remedy,
};
use super::line::{BlobLine, EntryLine, Header};
use super::read::{End, end, files_named};
use super::state::{self, State, StateFile};
use super::worker::{Job, MAX_OPEN, Worker};
use crate::core::entry::Seq;

/// Size from which a tail is closed.
const TAIL_BYTES: u64 = 64 << 10;

/// Maximum size of a header. One with two paths is smaller.
const MAX_HEADER_BYTES: u64 = 64 << 10;

#[derive(Default)]
pub struct Journal {
    pub folder: PathBuf,
    pause: Duration,
    worker: Option<Worker>,
    tails: HashMap<String, Tail>,
    /// The sessions of `tails`, in the order in which they were opened.
    opened: VecDeque<String>,
    states: HashMap<String, StateFile>,
}

/// The end of one session's journal, open for writing.
struct Tail {
    folder: PathBuf,
    file: File,
    bytes: u64,
    header: Header,
    next: Seq,
    tip: ChainHash,
    /// Blobs that this process wrote into it.
    blobs: HashSet<String>,
}

/// Lines that are written together.
#[derive(Default)]
pub struct Lines {
    text: Vec<u8>,
    blobs: Vec<String>,
    /// After the last line: the sequence number of the next entry, and the tip.
    end: Option<(Seq, ChainHash)>,
    /// Whether a segment of the context was compacted with them.
    pub ends_window: bool,
}

impl Lines {
    pub fn blob(&mut self, hash: &str, bytes: &[u8]) -> io::Result<()> {
        serde_json::to_writer(&mut self.text, &BlobLine::of(bytes))?;
        self.text.push(b'\n');
        self.blobs.push(hash.to_string());
        Ok(())
    }

    pub fn entry(&mut self, line: &EntryLine) -> io::Result<()> {
        serde_json::to_writer(&mut self.text, line)?;
        self.text.push(b'\n');
        self.end = Some((line.seq + 1, line.tip));
        Ok(())
    }

    pub fn has_blob(&self, hash: &str) -> bool {
        self.blobs.iter().any(|known| known == hash)
    }

    pub fn bytes(&self) -> usize {
        self.text.len()
    }
}

impl Journal {
    pub fn new(place: &JournalPlace) -> Journal {
        Journal {
            folder: place.folder.clone(),
            pause: place.pause,
            ..Journal::default()
        }
    }

    pub fn of(&self, session: &str) -> PathBuf {
        self.folder.join(session)
    }

    fn private_folder_of(&self, session: &str) -> Result<PathBuf, JournalError> {
        let folder = self.of(session);
        for path in [&self.folder, &folder] {
            private_folder(path).map_err(|e| failed(path, e))?;
        }
        Ok(folder)
    }

    fn refuse_obstacles(&self, session: &str) -> Result<(), JournalError> {
        let folder = self.of(session);
        let tail = folder.join(TAIL);
        for path in [&self.folder, &folder, &tail] {
            let what = obstacle(path).filter(|what| *path == tail || *what != A_FOLDER);
            if let Some(what) = what {
                let why = format!("{} is {what}: {}", path.display(), remedy(path, what));
                return Err(failed(path, io::Error::other(why)));
            }
        }
        Ok(())
    }

    /// Returns the end of this session's journal, if it is open.
    pub fn end_of_open(&self, session: &str) -> Option<(Seq, ChainHash)> {
        self.tails.get(session).map(|tail| (tail.next, tail.tip))
    }

    pub fn has_blob(&self, session: &str, hash: &str) -> bool {
        self.tails
            .get(session)
            .is_some_and(|tail| tail.blobs.contains(hash))
    }

    /// Opens the end of a session's journal for writing. A session without a journal gets one with
    /// this header.
    pub fn open<E: From<JournalError>>(
        &mut self,
        session: &str,
        begin: impl FnOnce() -> Result<Header, E>,
    ) -> Result<(Seq, ChainHash), E> {
        self.refuse_obstacles(session)?;
        let folder = self.private_folder_of(session)?;
        let fail = |e| failed(&folder, e);
        let closed = left_closed(&folder).map_err(fail)?;
        let tail = match end(&folder).map_err(fail)? {
            Some((end, bytes)) => Tail::open(&folder, end, bytes),
            // Called only here, since it may read a damaged part of the database.
            None => {
                let header = begin()?;
                let (next, tip) = (header.first, header.tip);
                Tail::open(&folder, End { header, next, tip }, 0)
            }
        };
        let tail = tail.map_err(fail)?;
        let end = (tail.next, tail.tip);
        if !closed.is_empty() {
            let worker = self.worker()?;
            for path in closed {
                // Later frames may exist already, so this one gets a separate file.
                worker.give(Job::Closed {
                    path,
                    ends_file: true,
                });
            }
        }
        self.opened.retain(|open| open != session);
        if self.opened.len() >= MAX_OPEN
            && let Some(oldest) = self.opened.pop_front()
        {
            self.tails.remove(&oldest);
        }
        self.opened.push_back(session.to_string());
        self.tails.insert(session.to_string(), tail);
        Ok(end)
    }

    /// Appends lines in one write. If it fails, the journal of this session is closed. The
    /// incomplete part is cut off when it is opened again.
    pub fn write(&mut self, session: &str, lines: Lines) -> Result<(), JournalError> {
        let Some(tail) = self.tails.get_mut(session) else {
            return Ok(());
        };
        let written = tail.write(lines);
        let folder = tail.folder.clone();
        let jobs = match written {
            Ok(jobs) => jobs,
            Err(error) => {
                self.tails.remove(session);
                return Err(failed(&folder, error));
            }
        };
        let worker = self.worker()?;
        jobs.into_iter().for_each(|job| worker.give(job));
        Ok(())
    }

    /// Returns the last failure of the thread since the previous call.
    pub fn trouble(&self) -> Option<String> {
        self.worker.as_ref()?.trouble()
    }

    fn worker(&mut self) -> Result<&Worker, JournalError> {
        let started = match self.worker.take() {
            Some(worker) => worker,
            None => Worker::start(self.pause).map_err(|e| failed(&self.folder, e))?,
        };
        Ok(self.worker.insert(started))
    }

    /// Closes the journal of this session, so another process may write in it. Waits for the
    /// worker: it may still move a closed tail of this session.
    pub fn leave(&mut self, session: &str) {
        self.forget(session);
        self.worker = None;
    }

    /// Closes the files of this session's journal, whose folder is about to be removed.
    pub fn forget(&mut self, session: &str) {
        self.tails.remove(session);
        self.states.remove(session);
    }

    /// Writes the current state of the session besides its entries, under the lock of
    /// [`Journal::hold_state`], which makes the folder.
    pub fn write_state(
        &mut self,
        session: &str,
        state: &State,
        blobs: &[(String, Vec<u8>)],
    ) -> Result<(), JournalError> {
        let folder = self.of(session);
        let known = self.states.entry(session.to_string());
        let file = known.or_insert_with(|| StateFile::at(&folder));
        file.write(&folder, state, blobs).map_err(|error| {
            self.states.remove(session);
            failed(&folder, error)
        })
    }

    /// Takes the lock of the state. It is held from before the rows are read until they are
    /// written.
    pub fn hold_state(&self, session: &str) -> Result<File, JournalError> {
        let folder = self.private_folder_of(session)?;
        state::hold(&folder).map_err(|error| failed(&folder, error))
    }

    /// Moves a journal aside that diverged from the database, so that both stay.
    pub fn move_aside(&mut self, session: &str, now_ms: i64) -> Result<(), JournalError> {
        self.forget(session);
        let from = self.of(session);
        let to = self.folder.join(format!("{session}.old-{now_ms}"));
        fs::rename(&from, to).map_err(|e| failed(&from, e))
    }
}

fn failed(folder: &Path, source: io::Error) -> JournalError {
    JournalError {
        path: folder.to_path_buf(),
        source,
    }
}

/// Returns the closed tails that have no frame yet because of a kill.
fn left_closed(folder: &Path) -> io::Result<Vec<PathBuf>> {
    files_named(folder, |name| name.ends_with(CLOSED))
}

impl Tail {
    /// Opens the tail, of which `bytes` can be read.
    fn open(folder: &Path, end: End, bytes: u64) -> io::Result<Tail> {
        let path = folder.join(TAIL);
        let End { header, next, tip } = end;
        if bytes == 0 && has_line(&path)? {
            // The file is of another session or damaged, and may be the only copy.
            fs::rename(&path, folder.join(format!("{TAIL}{ASIDE}{}", unix_ms())))?;
        }
        if bytes > 0 && has_line_after(&path, bytes)? {
            // The lines after a damaged line may be in no other copy.
            fs::copy(&path, folder.join(format!("{TAIL}{ASIDE}{}", unix_ms())))?;
        }
        let file = open_to_append(&path)?;
        // Cuts off a line that a kill or a full disk left incomplete.
        file.set_len(bytes)?;
        let mut tail = Tail {
            folder: folder.to_path_buf(),
            file,
            bytes,
            header,
            next,
            tip,
            blobs: HashSet::new(),
        };
        if bytes == 0 {
            tail.begin()?;
        }
        Ok(tail)
    }

    fn begin(&mut self) -> io::Result<()> {
        (self.header.first, self.header.tip) = (self.next, self.tip);
        let mut line = serde_json::to_vec(&self.header)?;
        line.push(b'\n');
        self.file.write_all(&line)?;
        self.bytes = line.len() as u64;
        Ok(())
    }

    fn write(&mut self, lines: Lines) -> io::Result<Vec<Job>> {
        self.file.write_all(&lines.text)?;
        self.bytes += lines.text.len() as u64;
        self.blobs.extend(lines.blobs);
        if let Some((next, tip)) = lines.end {
            (self.next, self.tip) = (next, tip);
        }
        let mut jobs = Vec::new();
        if self.bytes >= TAIL_BYTES || lines.ends_window {
            let name = format!("{:08}{CLOSED}", self.header.first);
            let path = self.folder.join(name);
            fs::rename(self.folder.join(TAIL), &path)?;
            jobs.push(Job::Closed {
                path,
                ends_file: lines.ends_window,
            });
            self.file = open_to_append(&self.folder.join(TAIL))?;
            self.begin()?;
        }
        jobs.push(Job::Written(self.file.try_clone()?));
        Ok(jobs)
    }
}

fn open_to_append(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.append(true).create(true).mode(0o600);
    let named = |e: io::Error| io::Error::new(e.kind(), format!("{TAIL}: {e}"));
    options.open(path).map_err(named)
}

/// Returns whether the file has a complete line. A kill leaves only a part of the first line.
fn has_line(path: &Path) -> io::Result<bool> {
    let file = match File::open(path) {
        Err(e) if e.kind() == ErrorKind::NotFound => return Ok(false),
        file => file?,
    };
    let mut begin = Vec::new();
    file.take(MAX_HEADER_BYTES).read_to_end(&mut begin)?;
    Ok(begin.contains(&b'\n'))
}

/// Returns whether a complete line follows these bytes.
fn has_line_after(path: &Path, bytes: u64) -> io::Result<bool> {
    let mut rest = Vec::new();
    let mut file = File::open(path)?;
    file.seek(SeekFrom::Start(bytes))?;
    file.read_to_end(&mut rest)?;
    Ok(rest.contains(&b'\n'))
}

fn unix_ms() -> u128 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.map_or(0, |now| now.as_millis())
}
