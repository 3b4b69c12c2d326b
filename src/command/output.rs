//! The output of a command: stored by the keeper up to a limit, and read by the agent.
//!
//! The head is written to `output` as it arrives, up to the cap. Beyond it only the last
//! [`TAIL_BYTES`] are kept in memory. They are written to `tail` from time to time and at the end,
//! so that neither the end of a long build nor the last words of a server are lost.
//!
//! A failed write (a full disk) ends the head early and is recorded. It never blocks the command.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::{Duration, Instant};

use super::folder::RunFolder;

/// Number of bytes of the end that are stored when the output is longer than the cap.
pub(super) const TAIL_BYTES: usize = 64 * 1024;

/// Maximum age of the tail on disk while the command runs.
const TAIL_EVERY: Duration = Duration::from_millis(500);

/// The keeper's side: writes the output.
pub(super) struct Capture {
    folder: RunFolder,
    head: File,
    cap: u64,
    pub kept: u64,
    pub total: u64,
    pub error: Option<String>,
    tail: VecDeque<u8>,
    tail_file: Option<File>,
    /// When the tail in memory must be written to disk.
    tail_due: Option<Instant>,
    /// Hash of the head.
    head_sum: blake3::Hasher,
}

impl Capture {
    pub(super) fn open(folder: &RunFolder, cap: u64) -> io::Result<Capture> {
        Ok(Capture {
            head: folder.open_output()?,
            folder: folder.clone(),
            cap,
            kept: 0,
            total: 0,
            error: None,
            tail: VecDeque::new(),
            tail_file: None,
            tail_due: None,
            head_sum: blake3::Hasher::new(),
        })
    }

    pub(super) fn take(&mut self, bytes: &[u8]) {
        self.total += bytes.len() as u64;
        let written = self.keep(bytes);
        let beyond = &bytes[written..];
        if beyond.is_empty() {
            return;
        }
        self.tail
            .extend(&beyond[beyond.len().saturating_sub(TAIL_BYTES)..]);
        let surplus = self.tail.len().saturating_sub(TAIL_BYTES);
        self.tail.drain(..surplus);
        self.tail_due
            .get_or_insert_with(|| Instant::now() + TAIL_EVERY);
    }

    /// Adds to the head those bytes that still belong there, and returns their number.
    fn keep(&mut self, bytes: &[u8]) -> usize {
        // The head never continues after a gap, which would make it wrong.
        if self.error.is_some() || self.kept < self.total - bytes.len() as u64 {
            return 0;
        }
        let room = usize::try_from(self.cap.saturating_sub(self.kept)).unwrap_or(usize::MAX);
        let wanted = &bytes[..bytes.len().min(room)];
        let mut written = 0;
        while written < wanted.len() {
            match self.head.write_at(&wanted[written..], self.kept) {
                Ok(n) => {
                    self.head_sum.update(&wanted[written..written + n]);
                    written += n;
                    self.kept += n as u64;
                }
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => {
                    self.fail(e);
                    break;
                }
            }
        }
        written
    }

    pub(super) fn tail_due(&self) -> Option<Instant> {
        self.tail_due
    }

    /// Writes the tail to disk if it changed.
    pub(super) fn write_tail(&mut self) {
        if self.tail_due.take().is_some()
            && let Err(e) = self.try_write_tail()
        {
            self.fail(e);
        }
    }

    fn try_write_tail(&mut self) -> io::Result<()> {
        let file = match &mut self.tail_file {
            Some(file) => file,
            none => none.insert(self.folder.create_tail()?),
        };
        file.write_all_at(self.tail.make_contiguous(), 0)
    }

    /// Writes the rest of the output to its files. [`Capture::sync`] makes them durable.
    pub(super) fn finish(&mut self) {
        self.write_tail();
    }

    /// Makes the contents of the files durable, as far as the disk allows, but not their names.
    pub(super) fn sync(&mut self) {
        if let Err(e) = self.try_sync() {
            self.fail(e);
        }
    }

    fn try_sync(&self) -> io::Result<()> {
        if self.kept > 0 {
            self.head.sync_data()?;
        }
        match &self.tail_file {
            Some(tail) => tail.sync_data(),
            None => Ok(()),
        }
    }

    /// Returns the hash that [`sum`] gives for intact files. `None` when they could not be written,
    /// since then their content is unknown.
    pub(super) fn sum(&mut self) -> Option<String> {
        if self.error.is_some() {
            return None;
        }
        let mut sum = self.head_sum.clone();
        if self.tail_file.is_some() {
            sum.update(self.tail.make_contiguous());
        }
        Some(sum.finalize().to_hex().to_string())
    }

    fn fail(&mut self, error: io::Error) {
        self.error
            .get_or_insert_with(|| format!("cannot write the output of the command: {error}"));
    }
}

/// Returns the blake3 hash of the first `kept` bytes of the head and of the tail, in hex.
pub(super) fn sum(folder: &RunFolder, kept: u64) -> io::Result<String> {
    let mut sum = blake3::Hasher::new();
    for (path, bytes) in [(folder.output(), kept), (folder.tail(), TAIL_BYTES as u64)] {
        match File::open(path) {
            Ok(file) => drop(sum.update_reader(file.take(bytes))?),
            Err(e) if e.kind() == io::ErrorKind::NotFound => {}
            Err(e) => return Err(e),
        }
    }
    Ok(sum.finalize().to_hex().to_string())
}

/// Output for display: its head and, when parts are left out, its end.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Printed {
    pub head: Vec<u8>,
    /// Number of bytes between `head` and `tail`.
    pub left_out: u64,
    /// The end; empty when `head` is the whole output.
    pub tail: Vec<u8>,
}

/// The part of an output that is on disk: `kept` bytes from its start in `head`, and the last bytes
/// of all `total` in `tail`.
pub(super) struct Stored<'a> {
    pub head: &'a Path,
    pub tail: &'a Path,
    pub kept: u64,
    pub total: u64,
}

impl Stored<'_> {
    /// Reads at most `max_bytes`: all of it, or the head and the end in equal parts.
    pub(super) fn read(&self, max_bytes: u64) -> io::Result<Printed> {
        let tail_bytes = length(self.tail)?.min(self.total.saturating_sub(self.kept));
        let whole = self.kept + tail_bytes == self.total;
        if whole && self.total <= max_bytes {
            let mut head = read_at(self.head, 0, self.kept)?;
            head.extend(read_at(self.tail, 0, tail_bytes)?);
            return Ok(Printed {
                head,
                ..Printed::default()
            });
        }
        let head = read_at(self.head, 0, self.kept.min(max_bytes / 2))?;
        let from_tail = tail_bytes.min(max_bytes / 2);
        // When head and tail are adjacent, the end may include a part of the head.
        let from_head = if whole {
            (max_bytes / 2 - from_tail).min(self.kept - head.len() as u64)
        } else {
            0
        };
        let mut tail = read_at(self.head, self.kept - from_head, from_head)?;
        tail.extend(read_at(self.tail, tail_bytes - from_tail, from_tail)?);
        Ok(Printed {
            left_out: self.total.saturating_sub((head.len() + tail.len()) as u64),
            head,
            tail,
        })
    }
}

/// Returns the last bytes on disk of an output that may still grow.
pub(super) fn last(folder: &RunFolder, max_bytes: u64) -> io::Result<Vec<u8>> {
    let tail = folder.tail();
    let path = if length(&tail)? > 0 {
        tail
    } else {
        folder.output()
    };
    let end = length(&path)?;
    read_at(&path, end.saturating_sub(max_bytes), max_bytes)
}

/// Returns the last bytes on disk of an output beyond the cap.
pub(super) fn beyond_cap(folder: &RunFolder, max_bytes: u64) -> io::Result<Vec<u8>> {
    match length(&folder.tail())? {
        0 => Ok(Vec::new()),
        _ => last(folder, max_bytes),
    }
}

/// Returns the length of a file, or 0 when it does not exist.
pub(super) fn length(path: &Path) -> io::Result<u64> {
    match std::fs::metadata(path) {
        Ok(metadata) => Ok(metadata.len()),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(0),
        Err(e) => Err(e),
    }
}

fn read_at(path: &Path, at: u64, bytes: u64) -> io::Result<Vec<u8>> {
    let mut read = Vec::new();
    if bytes > 0 {
        let mut file = File::open(path)?;
        file.seek(SeekFrom::Start(at))?;
        file.take(bytes).read_to_end(&mut read)?;
    }
    Ok(read)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::folder::Prepared;
    use crate::command::spec::Spec;
    use support::default_shell;

    fn folder() -> (tempfile::TempDir, RunFolder) {
        let root = tempfile::tempdir().unwrap();
        let folder = RunFolder::at(root.path().join("run"));
        let spec = Spec {
            command: "true".into(),
            folder: "/".into(),
            timeout_ms: 1,
            output_cap_bytes: 0,
            shell: default_shell(),
            env_remove: vec![],
            env_set: vec![],
            session: String::new(),
            call: String::new(),
            background: false,
            sandbox: None,
            child: None,
            hook: None,
            lease: None,
        };
        folder
            .create(
                &Prepared {
                    spec,
                    boot: String::new(),
                    at_ms: 0,
                },
                None,
            )
            .unwrap();
        (root, folder)
    }

    /// Prints `printed` in pieces under a cap and reads at most `max_bytes` back.
    fn through(printed: &[u8], piece: usize, cap: u64, max_bytes: u64) -> Printed {
        let (_root, folder) = folder();
        let mut capture = Capture::open(&folder, cap).unwrap();
        for piece in printed.chunks(piece) {
            capture.take(piece);
        }
        capture.finish();
        assert_eq!(capture.error, None);
        assert_eq!(capture.total, printed.len() as u64);
        assert_eq!(capture.kept, cap.min(capture.total));
        stored(&folder, &capture).read(max_bytes).unwrap()
    }

    fn stored<'a>(folder: &RunFolder, capture: &Capture) -> Stored<'a> {
        Stored {
            head: Box::leak(folder.output().into_boxed_path()),
            tail: Box::leak(folder.tail().into_boxed_path()),
            kept: capture.kept,
            total: capture.total,
        }
    }

    fn printed(head: &[u8], left_out: u64, tail: &[u8]) -> Printed {
        Printed {
            head: head.to_vec(),
            left_out,
            tail: tail.to_vec(),
        }
    }

    #[test]
    fn head_and_end_are_given_back_and_the_gap_is_counted() {
        let all = b"0123456789";
        for piece in 1..=10 {
            assert_eq!(through(all, piece, 99, 99), printed(all, 0, b""));
            assert_eq!(through(all, piece, 99, 10), printed(all, 0, b""));
            assert_eq!(through(all, piece, 99, 6), printed(b"012", 4, b"789"));
            assert_eq!(through(all, piece, 4, 99), printed(all, 0, b""));
            assert_eq!(through(all, piece, 8, 6), printed(b"012", 4, b"789"));
            assert_eq!(through(all, piece, 0, 6), printed(b"", 7, b"789"));
            assert_eq!(through(all, piece, 99, 0), printed(b"", 10, b""));
        }
        assert_eq!(through(b"", 1, 9, 9), Printed::default());
    }

    #[test]
    fn far_beyond_the_cap_the_end_is_the_end() {
        let all: Vec<u8> = (0..400_000u32).map(|n| (n / 7) as u8).collect();
        let got = through(&all, 50_001, 1000, 200_000);
        assert_eq!(got.head, all[..1000]);
        assert_eq!(got.tail, all[all.len() - TAIL_BYTES..]);
        assert_eq!(
            got.left_out as usize + got.head.len() + got.tail.len(),
            all.len()
        );
    }

    #[test]
    fn a_failed_write_ends_the_head_and_bytes_are_still_counted() {
        let (_root, folder) = folder();
        let mut capture = Capture::open(&folder, 1000).unwrap();
        capture.take(b"abc");
        capture.head = File::open(folder.output()).unwrap();
        capture.take(b"def");
        capture.head = folder.open_output().unwrap();
        capture.take(b"ghi");
        capture.finish();
        assert!(capture.error.is_some());
        assert_eq!((capture.kept, capture.total), (3, 9));
        assert_eq!(
            stored(&folder, &capture).read(99).unwrap(),
            printed(b"abcdefghi", 0, b"")
        );
    }
}
