//! The readable part of a damaged journal: each file is read by itself, and the next frame is read
//! after a torn one. The result may have gaps that nothing names.
//!
//! Invariant: a line is given only with the tip that it follows from, and only if it belongs to the
//! session that the folder is named after.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;

use zstd::Decoder;
use zstd::zstd_safe::{DCtx, find_frame_compressed_size};

use super::folder::{FRAMES, session_of};
use super::line::{EntryLine, Header, Line};
use super::read::{MAX_LINE_BYTES, files};
use super::tip::Tip;
use crate::core::entry::Seq;

/// Maximum size that is read of a file. Files of frames end at some MiB.
const MAX_FILE_BYTES: u64 = 1 << 30;

/// Size of the read buffer for lines.
const BUFFER: usize = 64 << 10;

/// The magic number at the start of a zstd frame.
const MAGIC: &[u8] = &[0x28, 0xb5, 0x2f, 0xfd];

/// A part of a journal that could be read.
pub enum Piece {
    /// An entry, and the tip that it follows.
    Entry(Tip, EntryLine),
    Blob(Vec<u8>),
}

impl Piece {
    /// Returns its approximate size in memory.
    pub fn bytes(&self) -> usize {
        match self {
            Piece::Entry(_, line) => line.entry.get().len(),
            Piece::Blob(bytes) => bytes.len(),
        }
    }
}

/// A summary of a salvaged journal.
#[derive(Default)]
pub struct Salvaged {
    pub header: Option<Header>,
    /// The sequence number and the tip of the last entry of each stretch without a gap.
    pub ends: Vec<(Seq, Tip)>,
    /// Number of files and frames with an unreadable part.
    pub damaged: u64,
    pub files: u64,
    pub frames: u64,
}

/// Reads everything that can be read in this folder.
///
/// # Errors
/// The folder cannot be listed, or `each` failed.
pub fn salvage(
    folder: &Path,
    each: &mut dyn FnMut(Piece) -> io::Result<()>,
) -> io::Result<Salvaged> {
    let mut reading = Reading {
        session: session_of(folder),
        each,
        found: Salvaged::default(),
        stretch: None,
    };
    // Creating a context costs more than decoding a frame.
    let mut zstd = DCtx::try_create().ok_or(io::ErrorKind::OutOfMemory)?;
    for path in files(folder)? {
        reading.found.files += 1;
        let mut bytes = Vec::new();
        let read =
            File::open(&path).and_then(|file| file.take(MAX_FILE_BYTES).read_to_end(&mut bytes));
        if read.is_err() {
            reading.found.damaged += 1;
            continue;
        }
        match path.to_string_lossy().ends_with(FRAMES) {
            true => reading.frames(&bytes, &mut zstd)?,
            false => {
                let is_whole = reading.lines(&bytes[..])?;
                // A kill leaves the last line of a tail torn.
                let is_torn = bytes.last().is_some_and(|last| *last != b'\n');
                reading.found.damaged += u64::from(!is_whole && !is_torn);
            }
        }
    }
    reading.ends();
    Ok(reading.found)
}

struct Reading<'e> {
    session: String,
    each: &'e mut dyn FnMut(Piece) -> io::Result<()>,
    found: Salvaged,
    /// Sequence number of the next entry, and the tip before it.
    stretch: Option<(Seq, Tip)>,
}

impl Reading<'_> {
    fn frames(&mut self, bytes: &[u8], zstd: &mut DCtx<'static>) -> io::Result<()> {
        let mut at = 0;
        let mut was_damaged = false;
        while at < bytes.len() {
            let rest = &bytes[at..];
            let size = find_frame_compressed_size(rest).ok().filter(|n| *n > 0);
            let frame = size.and_then(|size| rest.get(..size));
            let is_whole = match frame {
                Some(frame) => {
                    self.found.frames += 1;
                    let lines = Decoder::with_context(frame, zstd).single_frame();
                    self.lines(BufReader::with_capacity(BUFFER, lines))?
                }
                None => false,
            };
            self.found.damaged += u64::from(!is_whole && !was_damaged);
            was_damaged = !is_whole;
            at += match (frame, is_whole) {
                (Some(frame), true) => frame.len(),
                _ => match next_magic(&rest[1..]) {
                    Some(next) => next + 1,
                    None => return Ok(()),
                },
            };
        }
        Ok(())
    }

    /// Reads lines. Returns false if a part of them cannot be read.
    fn lines(&mut self, mut from: impl BufRead) -> io::Result<bool> {
        self.ends();
        let mut line = Vec::new();
        loop {
            line.clear();
            let read = (&mut from)
                .take(MAX_LINE_BYTES)
                .read_until(b'\n', &mut line);
            match read {
                Err(_) => return Ok(false),
                Ok(0) => return Ok(true),
                Ok(_) => {}
            }
            if line.pop() != Some(b'\n') {
                return Ok(false);
            }
            match Line::read(&line) {
                // A file that was put there from elsewhere.
                Some(Line::Header(header)) if header.session != self.session => return Ok(false),
                Some(Line::Header(header)) => {
                    self.stretch = Some((header.first, header.tip));
                    self.found.header.get_or_insert(header);
                }
                Some(Line::Blob(bytes)) => (self.each)(Piece::Blob(bytes))?,
                Some(Line::Entry(entry)) => {
                    let follows = self.stretch.filter(|(next, tip)| {
                        let json = entry.entry.get().as_bytes();
                        entry.seq == *next && entry.tip == tip.and(entry.seq, entry.at_ms, json)
                    });
                    let Some((_, before)) = follows else {
                        return Ok(false);
                    };
                    self.stretch = Some((entry.seq + 1, entry.tip));
                    (self.each)(Piece::Entry(before, entry))?;
                }
                None => return Ok(false),
            }
        }
    }

    fn ends(&mut self) {
        if let Some((next, tip)) = self.stretch.take()
            && let Some(seq) = next.checked_sub(1)
        {
            self.found.ends.push((seq, tip));
        }
    }
}

fn next_magic(bytes: &[u8]) -> Option<usize> {
    bytes.windows(MAGIC.len()).position(|at| at == MAGIC)
}
