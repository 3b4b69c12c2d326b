//! The journal of one direction between agent and server, in files: `in.0`, `in.8388650`, … Each
//! file is named by the place of its first byte, and contains whole lines.
//!
//! A line counts once its newline is written. A line without one was never handed over: the newline
//! is written with the line, and synced before anything is done with it.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Seek, SeekFrom};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

use super::line::LINE_MAX_BYTES;
use crate::command::folder::RunFolder;

/// Size at which a new file is started, so that answered lines can be removed.
const SEGMENT_BYTES: u64 = 8 * 1024 * 1024;

/// Size beyond which only answers are written to `out`, so that a flood does not fill the disk.
pub(super) const OTHERS_MAX_BYTES: u64 = 64 * 1024 * 1024;

/// Name of the journal of lines to the server.
pub(super) const INPUT: &str = "in";
/// Name of the journal of lines from the server.
pub(super) const OUTPUT: &str = "out";

/// The keeper's side of a direction: it writes.
pub(super) struct Journal {
    folder: RunFolder,
    name: &'static str,
    /// Where each file begins. The last one is written to.
    starts: VecDeque<u64>,
    file: File,
    end: u64,
    /// The reason why nothing more may be written: a failed write could not be undone.
    broken: Option<String>,
}

impl Journal {
    pub(super) fn create(folder: &RunFolder, name: &'static str) -> io::Result<Journal> {
        Ok(Journal {
            file: folder.create_file(&segment(name, 0))?,
            folder: folder.clone(),
            name,
            starts: VecDeque::from([0]),
            end: 0,
            broken: None,
        })
    }

    /// Returns the length of the journal, including the removed files.
    pub(super) fn end(&self) -> u64 {
        self.end
    }

    /// Returns how many bytes are on the disk.
    pub(super) fn size(&self) -> u64 {
        self.end - self.starts.front().copied().unwrap_or(self.end)
    }

    /// Appends a line, given with its newline. If that fails, the line is not in the journal. A
    /// durable line is on the disk when this returns.
    pub(super) fn append(&mut self, line: &[u8], durable: bool) -> io::Result<()> {
        if let Some(why) = &self.broken {
            return Err(io::Error::other(why.clone()));
        }
        if self.end - self.start() >= SEGMENT_BYTES {
            let next = self.folder.create_file(&segment(self.name, self.end))?;
            self.file = next;
            self.starts.push_back(self.end);
            if durable {
                self.folder.sync()?;
            }
        }
        let at = self.end - self.start();
        let written = self.file.write_all_at(line, at);
        let written = if durable {
            written.and_then(|()| self.file.sync_data())
        } else {
            written
        };
        if let Err(e) = written {
            if let Err(why) = self.file.set_len(at) {
                self.broken = Some(format!("{e}; and the line cannot be taken back: {why}"));
            }
            return Err(e);
        }
        self.end += line.len() as u64;
        Ok(())
    }

    /// Removes the files that end before this place.
    pub(super) fn forget(&mut self, before: u64) {
        while let (Some(first), Some(second)) = (self.starts.front(), self.starts.get(1))
            && *second <= before
        {
            // A file that stays is removed with the folder.
            let _ = std::fs::remove_file(self.folder.path().join(segment(self.name, *first)));
            self.starts.pop_front();
        }
    }

    /// Returns whether the run folder was removed while the keeper runs.
    pub(super) fn is_gone(&self) -> bool {
        self.file.metadata().is_ok_and(|m| m.nlink() == 0)
    }

    fn start(&self) -> u64 {
        self.starts.back().copied().unwrap_or(0)
    }
}

fn segment(name: &str, start: u64) -> String {
    format!("{name}.{start}")
}

/// Returns where each existing file of this direction begins, in order.
pub(super) fn starts(folder: &Path, name: &str) -> io::Result<Vec<u64>> {
    let mut starts: Vec<u64> = std::fs::read_dir(folder)?
        .filter_map(|entry| {
            let file = entry.ok()?.file_name();
            let start = file.to_str()?.strip_prefix(name)?.strip_prefix('.')?;
            start.parse().ok()
        })
        .collect();
    starts.sort_unstable();
    Ok(starts)
}

/// Returns the names of all files of both directions.
pub(super) fn files(folder: &Path) -> Vec<String> {
    let of = |name: &'static str| {
        let starts = starts(folder, name).unwrap_or_default();
        starts.into_iter().map(move |start| segment(name, start))
    };
    of(INPUT).chain(of(OUTPUT)).collect()
}

/// The place of a line, without its newline.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Span {
    pub at: u64,
    pub bytes: usize,
}

/// The agent's side of a direction: it reads whole lines in order.
#[derive(Debug)]
pub(super) struct JournalReader {
    folder: PathBuf,
    name: &'static str,
    at: u64,
}

impl JournalReader {
    pub(super) fn new(folder: &Path, name: &'static str) -> JournalReader {
        JournalReader {
            folder: folder.to_path_buf(),
            name,
            at: 0,
        }
    }

    /// Calls back with each whole line since the last read, up to a place or to the end of the
    /// journal.
    pub(super) fn read(
        &mut self,
        upto: Option<u64>,
        mut each: impl FnMut(Span, &[u8]),
    ) -> io::Result<()> {
        let upto = upto.unwrap_or(u64::MAX);
        let starts = starts(&self.folder, self.name)?;
        let mut line = Vec::new();
        for (i, start) in starts.iter().enumerate() {
            let next = starts.get(i + 1).copied();
            if next.is_some_and(|next| next <= self.at) || *start >= upto {
                continue;
            }
            // The part between was removed, since nobody needs it any more.
            self.at = self.at.max(*start);
            let mut file = match File::open(self.folder.join(segment(self.name, *start))) {
                // Removed since it was listed.
                Err(e) if e.kind() == io::ErrorKind::NotFound => continue,
                file => file?,
            };
            file.seek(SeekFrom::Start(self.at - start))?;
            let mut file = BufReader::with_capacity(64 * 1024, file);
            while self.at < upto {
                line.clear();
                let read = read_line(&mut file, &mut line)?;
                if line.pop() != Some(b'\n') {
                    break;
                }
                let span = Span {
                    at: self.at,
                    bytes: line.len(),
                };
                each(span, &line);
                self.at += read as u64;
            }
        }
        Ok(())
    }
}

/// Reads one line. The length is limited, since a journal has no longer lines.
fn read_line(file: &mut impl BufRead, line: &mut Vec<u8>) -> io::Result<usize> {
    io::Read::take(file, LINE_MAX_BYTES as u64 + 1).read_until(b'\n', line)
}

/// Returns the line at this place, or `None` if it was removed.
pub(super) fn line_at(folder: &Path, name: &str, span: Span) -> io::Result<Option<Vec<u8>>> {
    let starts = starts(folder, name)?;
    let Some(start) = starts.iter().rev().find(|start| **start <= span.at) else {
        return Ok(None);
    };
    let file = File::open(folder.join(segment(name, *start)))?;
    let mut line = vec![0; span.bytes];
    file.read_exact_at(&mut line, span.at - start)?;
    Ok(Some(line))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scene() -> (tempfile::TempDir, RunFolder) {
        let place = tempfile::tempdir().unwrap();
        let folder = RunFolder::at(place.path());
        (place, folder)
    }

    fn lines(reader: &mut JournalReader, upto: Option<u64>) -> Vec<String> {
        let mut lines = Vec::new();
        let each = |_, line: &[u8]| lines.push(String::from_utf8_lossy(line).into_owned());
        reader.read(upto, each).unwrap();
        lines
    }

    #[test]
    fn a_torn_last_line_is_not_read() {
        let (place, folder) = scene();
        let mut journal = Journal::create(&folder, INPUT).unwrap();
        journal.append(b"one\n", true).unwrap();
        journal.append(b"two\n", false).unwrap();
        journal.file.write_all_at(b"torn", 8).unwrap();
        let mut reader = JournalReader::new(place.path(), INPUT);
        assert_eq!(lines(&mut reader, Some(4)), ["one"]);
        assert_eq!(lines(&mut reader, None), ["two"]);
        journal.append(b"three\n", true).unwrap();
        assert_eq!(lines(&mut reader, None), ["three"]);
        assert_eq!(lines(&mut reader, None), [""; 0]);
    }

    #[test]
    fn answered_lines_are_removed_and_the_others_keep_their_place() {
        let (place, folder) = scene();
        let mut journal = Journal::create(&folder, OUTPUT).unwrap();
        let long = "x".repeat(5 * 1024 * 1024);
        for name in ["a", "b", "c", "d"] {
            journal
                .append(format!("{name}{long}\n").as_bytes(), false)
                .unwrap();
        }
        assert_eq!(journal.starts.len(), 2);
        let mut reader = JournalReader::new(place.path(), OUTPUT);
        let mut spans = Vec::new();
        reader
            .read(None, |span, line| spans.push((span, line[0])))
            .unwrap();
        let read: Vec<u8> = spans.iter().map(|(_, first)| *first).collect();
        assert_eq!(read, b"abcd");
        journal.forget(spans[1].0.at);
        assert_eq!(
            journal.starts.len(),
            2,
            "its second line may still be asked for"
        );
        journal.forget(spans[2].0.at);
        assert_eq!(journal.starts.len(), 1);
        journal.forget(u64::MAX);
        assert_eq!(journal.size(), 2 * (long.len() as u64 + 2));
        assert_eq!(line_at(place.path(), OUTPUT, spans[0].0).unwrap(), None);
        let last = line_at(place.path(), OUTPUT, spans[3].0).unwrap().unwrap();
        assert_eq!(last[0], b'd');
        let mut again = JournalReader::new(place.path(), OUTPUT);
        assert_eq!(lines(&mut again, None).len(), 2);
    }

    #[test]
    fn a_folder_that_is_gone_is_seen() {
        let (place, folder) = scene();
        let journal = Journal::create(&folder, INPUT).unwrap();
        assert!(!journal.is_gone());
        drop(place);
        assert!(journal.is_gone());
    }
}
