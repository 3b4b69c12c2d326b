//! The journal: each session a second time, as plain files beside the database or on another
//! disk. It is what a lost, emptied or older database is made good from.
//!
//! A folder for each session. After each commit, and before anything is done, its lines go to
//! `tail.jsonl` by one unsynced write, so that a kill loses none of them. A tail that has grown is
//! closed; a thread makes a frame of it, appends that to a file of frames, and syncs. So the
//! way of an append has no sync more than without a journal; a power cut may take about the last
//! second of the journal, which the database has.
//!
//! The holder of a session's lock is the only one who writes in its folder. What could not be
//! written is no error of the append: [`super::follow`] brings it up to date later.

mod read;
mod salvage;
mod state;
mod worker;

use std::collections::{HashMap, HashSet};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::StoreError;
use super::files::private_folder;
use super::ids::made_at_ms;
use crate::core::entry::Seq;
use crate::lines::line::{BlobLine, EntryLine, Header};
use crate::lines::tip::Tip;

pub(super) use read::{End, Met, begin, end, lines};
pub(super) use salvage::{Piece, Salvaged, folders, salvage};
use state::StateFile;
pub(super) use state::{GapRow, State, Waiting, WaitingSignal, read_state};
use worker::{Job, Worker};

const TAIL: &str = "tail.jsonl";
const CLOSED: &str = ".closed.jsonl";
const FRAMES: &str = ".jsonl.zst";

/// A tail of this size is closed.
const TAIL_BYTES: u64 = 64 << 10;

/// Where the journal and the mark of a data folder lie.
#[derive(Debug, Clone)]
pub struct JournalPlace {
    /// A folder for each session is made in it.
    pub folder: PathBuf,
    /// Where the mark lies.
    pub state_dir: PathBuf,
    /// Time between two syncs of the journal.
    pub pause: Duration,
}

pub(super) struct Journal {
    pub folder: PathBuf,
    pause: Duration,
    worker: Option<Worker>,
    tails: HashMap<String, Tail>,
    states: HashMap<String, StateFile>,
}

/// The end of one session's journal, open to be written.
struct Tail {
    folder: PathBuf,
    file: File,
    bytes: u64,
    header: Header,
    next: Seq,
    tip: Tip,
    /// Blobs that this process wrote into it.
    blobs: HashSet<String>,
}

/// Lines that are written together.
#[derive(Default)]
pub(super) struct Lines {
    text: Vec<u8>,
    blobs: Vec<String>,
    /// Behind the last of them: the place of the next entry, and the tip.
    end: Option<(Seq, Tip)>,
    /// A window of the context ended with them.
    pub ends_window: bool,
}

impl Lines {
    pub(super) fn blob(&mut self, hash: &str, bytes: &[u8]) -> io::Result<()> {
        serde_json::to_writer(&mut self.text, &BlobLine::of(bytes))?;
        self.text.push(b'\n');
        self.blobs.push(hash.to_string());
        Ok(())
    }

    pub(super) fn entry(&mut self, line: &EntryLine) -> io::Result<()> {
        serde_json::to_writer(&mut self.text, line)?;
        self.text.push(b'\n');
        self.end = Some((line.seq + 1, line.tip));
        Ok(())
    }

    pub(super) fn has_blob(&self, hash: &str) -> bool {
        self.blobs.iter().any(|known| known == hash)
    }

    pub(super) fn bytes(&self) -> usize {
        self.text.len()
    }
}

impl Journal {
    pub(super) fn new(place: &JournalPlace) -> Journal {
        Journal {
            folder: place.folder.clone(),
            pause: place.pause,
            worker: None,
            tails: HashMap::new(),
            states: HashMap::new(),
        }
    }

    pub(super) fn of(&self, session: &str) -> PathBuf {
        self.folder.join(session)
    }

    /// Where this session's journal ends, if it is open.
    pub(super) fn end_of_open(&self, session: &str) -> Option<(Seq, Tip)> {
        self.tails.get(session).map(|tail| (tail.next, tail.tip))
    }

    pub(super) fn has_blob(&self, session: &str, hash: &str) -> bool {
        self.tails
            .get(session)
            .is_some_and(|tail| tail.blobs.contains(hash))
    }

    /// Opens the end of a session's journal to go on with it; without one, begins it with this
    /// header.
    pub(super) fn open(
        &mut self,
        session: &str,
        begin: impl FnOnce() -> Result<Header, StoreError>,
    ) -> Result<(Seq, Tip), StoreError> {
        let folder = self.of(session);
        private_folder(&self.folder)?;
        private_folder(&folder)?;
        let fail = |e| failed(&folder, e);
        let closed = left_closed(&folder).map_err(fail)?;
        let tail = match end(&folder).map_err(fail)? {
            Some((end, bytes)) => Tail::open(&folder, end, bytes),
            // Asked for only here: it may need what is damaged.
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
                // Others may have been made behind it: a file of its own.
                worker.give(Job::Closed {
                    path,
                    ends_file: true,
                });
            }
        }
        self.tails.insert(session.to_string(), tail);
        Ok(end)
    }

    /// One write. When it fails, the journal of this session is closed, and what is half written
    /// is cut off when it is opened again.
    pub(super) fn write(&mut self, session: &str, lines: Lines) -> Result<(), StoreError> {
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

    /// What the thread could not do, since this was asked.
    pub(super) fn trouble(&self) -> Option<String> {
        self.worker.as_ref()?.trouble()
    }

    fn worker(&mut self) -> Result<&Worker, StoreError> {
        let started = match self.worker.take() {
            Some(worker) => worker,
            None => Worker::start(self.pause).map_err(|e| failed(&self.folder, e))?,
        };
        Ok(self.worker.insert(started))
    }

    /// The folder of this session's journal is about to be removed.
    pub(super) fn forget(&mut self, session: &str) {
        self.tails.remove(session);
        self.states.remove(session);
    }

    /// What the session has besides its entries, as it is now.
    /// Under the lock of [`Journal::hold_state`], which makes the folder.
    pub(super) fn write_state(
        &mut self,
        session: &str,
        state: &State,
        blobs: &[(String, Vec<u8>)],
    ) -> Result<(), StoreError> {
        let folder = self.of(session);
        let known = self.states.entry(session.to_string());
        let file = known.or_insert_with(|| StateFile::at(&folder));
        file.write(&folder, state, blobs).map_err(|error| {
            self.states.remove(session);
            failed(&folder, error)
        })
    }

    /// Held from before the rows are read until their state is written.
    pub(super) fn hold_state(&self, session: &str) -> Result<File, StoreError> {
        let folder = self.of(session);
        private_folder(&self.folder)?;
        private_folder(&folder)?;
        state::hold(&folder).map_err(|error| failed(&folder, error))
    }

    /// The journal of a session goes another way than the database: it is kept beside.
    pub(super) fn move_aside(&mut self, session: &str, now_ms: i64) -> Result<(), StoreError> {
        self.forget(session);
        let from = self.of(session);
        let to = self.folder.join(format!("{session}.old-{now_ms}"));
        fs::rename(&from, to).map_err(|e| failed(&from, e))
    }
}

/// The sessions that have a journal here. At most so many.
pub(super) fn sessions(folder: &Path, at_most: usize) -> Vec<String> {
    let files = fs::read_dir(folder).into_iter().flatten().flatten();
    let names = files.filter_map(|file| file.file_name().into_string().ok());
    names
        .filter(|name| made_at_ms(name).is_some())
        .take(at_most)
        .collect()
}

fn failed(folder: &Path, error: io::Error) -> StoreError {
    super::error::io(format!("write the journal in {}", folder.display()), error)
}

/// What a kill left closed before a frame was made of it.
fn left_closed(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let mut paths = Vec::new();
    for file in fs::read_dir(folder)? {
        let path = file?.path();
        if path.to_string_lossy().ends_with(CLOSED) {
            paths.push(path);
        }
    }
    paths.sort_unstable();
    Ok(paths)
}

impl Tail {
    /// `bytes` of it can be read.
    fn open(folder: &Path, end: End, bytes: u64) -> io::Result<Tail> {
        let path = folder.join(TAIL);
        let End { header, next, tip } = end;
        let file = open_to_append(&path)?;
        // What a kill or a full disk left half written.
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
    options.open(path)
}
