//! The background thread of the journal: it compresses closed tails to frames and syncs the files,
//! at a fixed interval.
//!
//! Invariant: a closed tail is removed only when its frame is synced.
//! Invariant: frames are appended only to a file that this thread created, so never after a torn
//! one.
//! Invariant: no frame is made before that of an earlier tail of its session, so a file has no gap.

use std::collections::{HashMap, HashSet};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::folder::{CLOSED, FRAMES};

/// Size from which frames go to a new file.
const MAX_BYTES: u64 = 8 << 20;

/// Maximum number of journals that are open at once. A session whose journal was closed for another
/// opens it again.
pub(super) const MAX_OPEN: usize = 32;

const LEVEL: i32 = 3;

pub(super) enum Job {
    /// Lines were written to this file.
    Written(File),
    /// The tail at this path, of a session's folder, is complete.
    Closed {
        path: PathBuf,
        /// The next frame starts another file: a segment of the context was compacted.
        ends_file: bool,
    },
}

/// The handle of the thread. Dropping it waits until all work is done.
pub(super) struct Worker {
    jobs: Option<Sender<Job>>,
    /// Descriptions of failures.
    troubles: Receiver<String>,
    thread: Option<JoinHandle<()>>,
}

impl Worker {
    pub(super) fn start(pause: Duration) -> io::Result<Worker> {
        // Unbounded: a commit must not wait for this thread. Each job follows a commit, which is a
        // sync too, so few jobs wait.
        let (jobs, to_do) = channel();
        // Unbounded: a folder reports its failure once, and `trouble` takes all reports.
        let (fails, troubles) = channel();
        let work = move || WriteJob::new(fails).run(&to_do, pause);
        let thread = std::thread::Builder::new().name("journal".to_string());
        Ok(Worker {
            jobs: Some(jobs),
            troubles,
            thread: Some(thread.spawn(work)?),
        })
    }

    pub(super) fn give(&self, job: Job) {
        if let Some(jobs) = &self.jobs {
            // If the thread has ended, the tails stay. The next start makes frames of them.
            let _ = jobs.send(job);
        }
    }

    /// Returns the last failure since the previous call.
    pub(super) fn trouble(&self) -> Option<String> {
        self.troubles.try_iter().last()
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        drop(self.jobs.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

struct WriteJob {
    fails: Sender<String>,
    written: Option<File>,
    closed: Vec<(PathBuf, bool)>,
    /// The open file of each session, by its folder.
    frames: HashMap<PathBuf, Frames>,
    /// Folders in which a frame failed. The failure is reported once, until a frame succeeds there.
    failing: HashSet<PathBuf>,
}

/// The file that frames of a session are appended to.
struct Frames {
    file: File,
    bytes: u64,
}

impl WriteJob {
    fn new(fails: Sender<String>) -> WriteJob {
        WriteJob {
            fails,
            written: None,
            closed: Vec::new(),
            frames: HashMap::new(),
            failing: HashSet::new(),
        }
    }

    /// Reports a failure. The lines stay in their tail, where a reader finds them.
    fn failed(&self, what: &str, error: &io::Error) {
        tracing::warn!(%error, "{what}");
        // The receiver is gone when the store is closed.
        let _ = self.fails.send(format!("{what}: {error}"));
    }

    fn run(mut self, jobs: &Receiver<Job>, pause: Duration) {
        let mut due = Instant::now() + pause;
        loop {
            match jobs.recv_timeout(due.saturating_duration_since(Instant::now())) {
                Ok(Job::Written(file)) => self.written = Some(file),
                Ok(Job::Closed { path, ends_file }) => self.closed.push((path, ends_file)),
                Err(RecvTimeoutError::Timeout) => {
                    self.work();
                    due = Instant::now() + pause;
                }
                Err(RecvTimeoutError::Disconnected) => return self.work(),
            }
        }
    }

    /// Makes frames of the closed tails and syncs them. Without closed tails, syncs the tail.
    fn work(&mut self) {
        if self.closed.is_empty() {
            if let Some(file) = self.written.take()
                && let Err(error) = file.sync_data()
            {
                self.failed("sync the journal", &error);
            }
            return;
        }
        let mut made: Vec<(PathBuf, PathBuf)> = Vec::new();
        let mut waits: HashSet<PathBuf> = HashSet::new();
        for (path, ends_file) in std::mem::take(&mut self.closed) {
            let folder = path.parent().unwrap_or(&path).to_path_buf();
            if waits.contains(&folder) {
                self.closed.push((path, ends_file));
                continue;
            }
            match self.append(&folder, &path) {
                Ok(()) => {
                    self.failing.remove(&folder);
                    made.push((folder.clone(), path));
                }
                Err(error) => {
                    // Nothing may be appended after a frame that may be incomplete.
                    self.sync(&folder, &mut made);
                    self.frames.remove(&folder);
                    if self.failing.insert(folder.clone()) {
                        self.failed("make a frame of the journal", &error);
                    }
                    // A missing tail was moved aside with its session.
                    if error.kind() != io::ErrorKind::NotFound {
                        self.closed.push((path, ends_file));
                        waits.insert(folder);
                    }
                    continue;
                }
            }
            let is_full = self
                .frames
                .get(&folder)
                .is_some_and(|f| f.bytes > MAX_BYTES);
            if ends_file || is_full {
                self.sync(&folder, &mut made);
                self.frames.remove(&folder);
            }
            if self.frames.len() > MAX_OPEN {
                for folder in self.frames.keys().cloned().collect::<Vec<_>>() {
                    self.sync(&folder, &mut made);
                }
                self.frames.clear();
            }
        }
        let folders: Vec<PathBuf> = self.frames.keys().cloned().collect();
        for folder in folders {
            self.sync(&folder, &mut made);
        }
    }

    /// Syncs the frames of this folder, and removes the tails that they contain.
    fn sync(&mut self, folder: &Path, made: &mut Vec<(PathBuf, PathBuf)>) {
        let is_of = |(of, _): &(PathBuf, PathBuf)| of == folder;
        if !made.iter().any(is_of) {
            return;
        }
        let synced = self
            .frames
            .get(folder)
            .map(|frames| frames.file.sync_data());
        match synced {
            Some(Ok(())) => {
                for (_, tail) in made.iter().filter(|m| is_of(m)) {
                    let _ = fs::remove_file(tail);
                }
            }
            failed => {
                if let Some(Err(error)) = failed {
                    self.failed("sync the journal", &error);
                }
                // Not synced again on the same pages: the kernel may have marked them clean.
                self.frames.remove(folder);
            }
        }
        made.retain(|m| !is_of(m));
    }

    fn append(&mut self, folder: &Path, tail: &Path) -> io::Result<()> {
        let lines = fs::read(tail)?;
        let mut encoder = zstd::Encoder::new(Vec::new(), LEVEL)?;
        encoder.include_checksum(true)?;
        encoder.write_all(&lines)?;
        let frame = encoder.finish()?;
        if !self.frames.contains_key(folder) {
            self.frames.insert(folder.to_path_buf(), begin(tail)?);
        }
        let Some(frames) = self.frames.get_mut(folder) else {
            return Ok(());
        };
        frames.file.write_all(&frame)?;
        frames.bytes += frame.len() as u64;
        Ok(())
    }
}

/// Creates a file of frames, named after the first tail in it. If a kill left a file of that name,
/// it contains at most that tail, which still exists.
fn begin(tail: &Path) -> io::Result<Frames> {
    let name = tail.file_name().unwrap_or_default().to_string_lossy();
    let first = name.trim_end_matches(CLOSED);
    let path = tail.with_file_name(format!("{first}{FRAMES}"));
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true).mode(0o600);
    Ok(Frames {
        file: options.open(path)?,
        bytes: 0,
    })
}
