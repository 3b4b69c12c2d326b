//! Reading the journal of one session: its frames, the tails that were closed, the tail. A file
//! that ends in the middle of something is read up to there, and the next one is read all the
//! same.
//!
//! Where a file is missing, or its end, the next one is read behind the gap: what it begins with
//! says the tip that its first line follows.
//!
//! Invariant: a line is given only when its tip follows from the line before it, or from what was
//! given as the other side of a gap.

use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, ErrorKind, Read};
use std::path::{Path, PathBuf};

use super::folder::{CLOSED, FRAMES, TAIL, session_of};
use super::line::{EntryLine, Header, Line, is_newer};
use super::tip::Tip;
use crate::core::entry::Seq;

/// No line is longer: a row is not, and a blob of that size is a third longer in base64.
pub(super) const MAX_LINE_BYTES: u64 = 400 << 20;

/// The end of a journal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct End {
    pub header: Header,
    /// The place of the next entry.
    pub next: Seq,
    pub tip: Tip,
}

/// What is met, first to last.
pub enum Met {
    Entry(EntryLine),
    Blob(Vec<u8>),
    /// Nothing is known of what lies between. The next entry has this place and follows this tip.
    Gap(Seq, Tip),
}

/// The end of the journal in this folder, and how many bytes of the tail can be read: what is
/// behind them was torn. `None`: there is no journal.
///
/// # Errors
/// A file could not be read.
pub fn end(folder: &Path) -> io::Result<Option<(End, u64)>> {
    let tail = folder.join(TAIL);
    if !folder.exists() {
        return Ok(None);
    }
    // The tail alone says it, unless a kill came between two of them.
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

/// All lines of it, each once, in their order, from the first entry of the session's own. Gaps
/// are given where they are.
///
/// # Errors
/// A file could not be read, or `each` failed.
pub fn lines(
    folder: &Path,
    each: &mut dyn FnMut(Met) -> io::Result<()>,
) -> io::Result<Option<End>> {
    let mut walk = Walk::of(folder);
    for file in files(folder)? {
        walk.file(&file, each)?;
    }
    Ok(walk.end)
}

/// What it begins with. `None`: nothing can be read of it.
///
/// # Errors
/// A file could not be read.
pub fn begin(folder: &Path) -> io::Result<Option<Header>> {
    for file in files(folder)? {
        let mut walk = Walk::of(folder);
        // The header comes before the first of them.
        let read = walk.file(&file, &mut |_| Err(io::ErrorKind::Interrupted.into()));
        match walk.end {
            Some(end) => return Ok(Some(end.header)),
            None => read?,
        }
    }
    Ok(None)
}

/// By their first entry, then the tail. A closed tail whose frame failed lies between frames; one
/// that has its frame too comes behind it, and its lines are known by then.
pub(super) fn files(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let mut names: Vec<((u64, u8), PathBuf)> = Vec::new();
    for file in fs::read_dir(folder)? {
        let path = file?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        // A name without a number is read last of its kind.
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

struct Walk {
    /// As the folder is called.
    session: String,
    end: Option<End>,
    /// Of the file that is read.
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

    fn file(&mut self, path: &Path, each: &mut dyn FnMut(Met) -> io::Result<()>) -> io::Result<()> {
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
        each: &mut dyn FnMut(Met) -> io::Result<()>,
    ) -> io::Result<()> {
        self.good_bytes = 0;
        let mut line = Vec::new();
        // Blobs go with the entry behind them.
        let mut blobs = Vec::new();
        loop {
            line.clear();
            // A frame that is torn ends its file.
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
                            each(Met::Blob(blob))?;
                        }
                        each(Met::Entry(entry))?;
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

    /// False: it is of another session: a file that was put there from elsewhere.
    fn begin(
        &mut self,
        header: Header,
        each: &mut dyn FnMut(Met) -> io::Result<()>,
    ) -> io::Result<bool> {
        if header.session != self.session {
            return Ok(false);
        }
        match &mut self.end {
            Some(end) if header.first > end.next => {
                (end.next, end.tip) = (header.first, header.tip);
                each(Met::Gap(header.first, header.tip))?;
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
    /// It was in an earlier file: a kill came before that of the tail was removed.
    Known,
    No,
}
