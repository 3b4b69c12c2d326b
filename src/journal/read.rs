//! The reader of one session's journal: its frames, the closed tails, and the tail. A file that
//! ends in the middle of a line or frame is read up to there. The next file is still read.
//!
//! If a file or its end is missing, the next one is read from after the gap. Its header has the tip
//! that its first line follows.
//!
//! Invariant: a line is passed on only if its tip follows from the line before it, or from the tip
//! that was passed on as the other side of a gap.

use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, ErrorKind, Read};
use std::path::{Path, PathBuf};

use super::chain_hash::ChainHash;
use super::folder::{ASIDE, CLOSED, FRAMES, TAIL, session_of};
use super::line::{EntryLine, Header, Line, is_newer};
use crate::core::entry::Seq;

/// Maximum size of a line. No row is larger, and base64 makes a blob of that size a third longer.
pub(super) const MAX_LINE_BYTES: u64 = 400 << 20;

/// The end of a journal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct End {
    pub header: Header,
    /// Sequence number of the next entry.
    pub next: Seq,
    pub tip: ChainHash,
}

/// An item of a journal, in the order of the file.
pub enum JournalItem {
    Entry(EntryLine),
    Blob(Vec<u8>),
    /// A gap: the entries in it are unknown. The next entry has this sequence number and follows
    /// this tip.
    Gap(Seq, ChainHash),
}

/// Returns the end of the journal in this folder, and the number of readable bytes of the tail: the
/// rest was torn. `None`: the folder is missing or has no readable header.
///
/// # Errors
/// A file could not be read.
pub fn end(folder: &Path) -> io::Result<Option<(End, u64)>> {
    let tail = folder.join(TAIL);
    if !folder.exists() {
        return Ok(None);
    }
    // The tail alone has the end, unless a kill came between closing one tail and starting the
    // next.
    let mut walk = Walk::of(folder);
    if tail.exists() {
        walk.file(&tail, &mut |_| Ok(()))?;
        if let Some(end) = walk.end.take() {
            return Ok(Some((end, walk.good_bytes)));
        }
    }
    for file in files(folder)? {
        walk.file(&file, &mut |_| Ok(()))?;
    }
    Ok(walk.end.map(|end| (end, 0)))
}

/// Reads all lines of a journal, each once and in order, from the session's first own entry.
/// Reports gaps where they are.
///
/// # Errors
/// A file could not be read, or `each` failed.
pub fn lines(
    folder: &Path,
    each: &mut dyn FnMut(JournalItem) -> io::Result<()>,
) -> io::Result<Option<End>> {
    let mut walk = Walk::of(folder);
    for file in files(folder)? {
        walk.file(&file, each)?;
    }
    Ok(walk.end)
}

/// Returns the first readable header of a journal. `None`: none can be read.
///
/// # Errors
/// A file could not be read.
pub fn begin(folder: &Path) -> io::Result<Option<Header>> {
    for file in files(folder)? {
        let mut walk = Walk::of(folder);
        // The header comes before the first item, so the error ends the read after it.
        let read = walk.file(&file, &mut |_| Err(io::ErrorKind::Interrupted.into()));
        match walk.end {
            Some(end) => return Ok(Some(end.header)),
            None => read?,
        }
    }
    Ok(None)
}

/// Returns the files of a journal, ordered by their first entry, with the tail last. A closed tail
/// sorts between the frames. If it already has a frame, it comes after that frame, and its lines
/// are known by then.
pub(super) fn files(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let mut names: Vec<((u64, u8), PathBuf)> = Vec::new();
    for file in fs::read_dir(folder)? {
        let path = file?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        // Of each kind, a name without a number is read last.
        let first = |digits: &str| digits.parse().unwrap_or(u64::MAX);
        let order = if *name == *TAIL {
            (u64::MAX, 2)
        } else if let Some(digits) = name.strip_suffix(FRAMES) {
            (first(digits), 0)
        } else if let Some(digits) = name.strip_suffix(CLOSED) {
            (first(digits), 1)
        } else {
            continue;
        };
        names.push((order, path));
    }
    names.sort_unstable();
    Ok(names.into_iter().map(|(_, path)| path).collect())
}

/// Returns the tails in this folder that were set aside: damaged ones, and those of another
/// session.
pub(super) fn tails_set_aside(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let begin = format!("{TAIL}{ASIDE}");
    files_named(folder, |name| name.starts_with(&begin))
}

/// Returns the files in this folder with such a name, in the order of their names.
pub(super) fn files_named(
    folder: &Path,
    is_wanted: impl Fn(&str) -> bool,
) -> io::Result<Vec<PathBuf>> {
    let mut paths = Vec::new();
    for file in fs::read_dir(folder)? {
        let path = file?.path();
        if is_wanted(&path.file_name().unwrap_or_default().to_string_lossy()) {
            paths.push(path);
        }
    }
    paths.sort_unstable();
    Ok(paths)
}

struct Walk {
    /// The session that the folder is named after.
    session: String,
    end: Option<End>,
    /// Number of bytes of the current file that could be read.
    good_bytes: u64,
}

impl Walk {
    fn of(folder: &Path) -> Walk {
        Walk {
            session: session_of(folder),
            end: None,
            good_bytes: 0,
        }
    }

    fn file(
        &mut self,
        path: &Path,
        each: &mut dyn FnMut(JournalItem) -> io::Result<()>,
    ) -> io::Result<()> {
        let file = File::open(path)?;
        let read = match path.to_string_lossy().ends_with(FRAMES) {
            true => self.walk(BufReader::new(zstd::Decoder::new(file)?), each),
            false => self.walk(BufReader::new(file), each),
        };
        match read {
            Err(error) if error.kind() == ErrorKind::Unsupported => {
                let error = format!("{}: {error}", path.display());
                Err(io::Error::new(ErrorKind::Unsupported, error))
            }
            read => read,
        }
    }

    fn walk(
        &mut self,
        mut from: impl BufRead,
        each: &mut dyn FnMut(JournalItem) -> io::Result<()>,
    ) -> io::Result<()> {
        self.good_bytes = 0;
        let mut line = Vec::new();
        // Blobs belong to the entry after them.
        let mut blobs = Vec::new();
        loop {
            line.clear();
            // A torn frame ends the reading of its file.
            let Ok(_) = (&mut from)
                .take(MAX_LINE_BYTES)
                .read_until(b'\n', &mut line)
            else {
                return Ok(());
            };
            if line.pop() != Some(b'\n') {
                return Ok(());
            }
            match Line::read(&line) {
                Some(Line::Header(header)) => {
                    if !self.begin(header, each)? {
                        return Ok(());
                    }
                }
                Some(Line::Blob(bytes)) => blobs.push(bytes),
                Some(Line::Entry(entry)) => match self.follows(&entry) {
                    Follows::Next => {
                        for blob in blobs.drain(..) {
                            each(JournalItem::Blob(blob))?;
                        }
                        each(JournalItem::Entry(entry))?;
                    }
                    Follows::Known => blobs.clear(),
                    Follows::No => return Ok(()),
                },
                None if is_newer(&line) => return Err(newer()),
                None => return Ok(()),
            }
            self.good_bytes += line.len() as u64 + 1;
        }
    }

    /// Handles a header. Returns false if it is of another session. Then someone put the file
    /// there.
    fn begin(
        &mut self,
        header: Header,
        each: &mut dyn FnMut(JournalItem) -> io::Result<()>,
    ) -> io::Result<bool> {
        if header.session != self.session {
            return Ok(false);
        }
        match &mut self.end {
            Some(end) if header.first > end.next => {
                (end.next, end.tip) = (header.first, header.tip);
                each(JournalItem::Gap(header.first, header.tip))?;
            }
            Some(_) => {}
            None => {
                self.end = Some(End {
                    next: header.first,
                    tip: header.tip,
                    header,
                });
            }
        }
        Ok(true)
    }

    fn follows(&mut self, line: &EntryLine) -> Follows {
        let Some(end) = &mut self.end else {
            return Follows::No;
        };
        if line.seq < end.next {
            return Follows::Known;
        }
        let tip = end
            .tip
            .and(line.seq, line.at_ms, line.entry.get().as_bytes());
        if line.seq != end.next || line.tip != tip {
            return Follows::No;
        }
        (end.next, end.tip) = (line.seq + 1, tip);
        Follows::Next
    }
}

fn newer() -> io::Error {
    let why = "a newer version of rewake wrote it: update rewake";
    io::Error::new(ErrorKind::Unsupported, why)
}

enum Follows {
    Next,
    /// The entry was in an earlier file: a kill came before the closed tail was removed.
    Known,
    No,
}
