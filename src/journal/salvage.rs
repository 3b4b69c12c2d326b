//! The readable part of a damaged journal: each file is read separately, and reading continues with
//! the next frame after a torn one. The result may have gaps that are not reported.
//!
//! Invariant: a [`ReadablePart::Entry`] has the tip that the entry was checked to follow. In a file or
//! frame, nothing after a header of another session than that of the folder is passed on.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;

use zstd::Decoder;
use zstd::zstd_safe::{DCtx, find_frame_compressed_size};

use super::chain_hash::ChainHash;
use super::folder::{FRAMES, session_of};
use super::line::{EntryLine, Header, Line};
use super::read::{MAX_LINE_BYTES, files, tails_set_aside};
use crate::core::entry::Seq;

/// Maximum size that is read of a file. Files of frames end at some MiB.
const MAX_FILE_BYTES: u64 = 1 << 30;

/// Size of the read buffer for lines.
const BUFFER: usize = 64 << 10;

/// The magic number at the start of a zstd frame.
const MAGIC: &[u8] = &[0x28, 0xb5, 0x2f, 0xfd];

/// A part of a journal that could be read.
pub enum ReadablePart {
    /// An entry, and the tip that it follows.
    Entry(ChainHash, EntryLine),
    /// An entry after a line that cannot be read. Another copy may have the entry before it.
    Unproven(EntryLine),
    Blob(Vec<u8>),
}

impl ReadablePart {
    /// Returns the sequence number of the entry; 0 for a blob.
    pub fn place(&self) -> Seq {
        match self {
            ReadablePart::Entry(_, line) | ReadablePart::Unproven(line) => line.seq,
            ReadablePart::Blob(_) => 0,
        }
    }

    /// Returns its approximate size in memory.
    pub fn bytes(&self) -> usize {
        match self {
            ReadablePart::Entry(_, line) | ReadablePart::Unproven(line) => line.entry.get().len(),
            ReadablePart::Blob(bytes) => bytes.len(),
        }
    }
}

/// A summary of a salvaged journal.
#[derive(Default)]
pub struct Salvaged {
    pub header: Option<Header>,
    /// The stores and machines that wrote it, by its headers.
    pub writers: BTreeSet<(String, Option<String>)>,
    /// The sequence number and the tip of the last entry of each stretch without a gap.
    pub ends: Vec<(Seq, ChainHash)>,
    /// Entries that nothing here proves, and that no other entry follows.
    pub unproven: Vec<(Seq, ChainHash)>,
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
    each: &mut dyn FnMut(ReadablePart) -> io::Result<()>,
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
        let Ok(bytes) = read_file(&path) else {
            reading.found.damaged += 1;
            continue;
        };
        match path.to_string_lossy().ends_with(FRAMES) {
            true => reading.frames(&bytes, &mut zstd)?,
            false => {
                // A kill leaves the last line of a tail torn.
                let is_whole = reading.lines(&bytes[..], true)?;
                reading.found.damaged += u64::from(!is_whole);
            }
        }
    }
    for path in tails_set_aside(folder)? {
        if let Ok(bytes) = read_file(&path) {
            reading.lines(&bytes[..], true)?;
        }
    }
    reading.ends();
    Ok(reading.found)
}

fn read_file(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let file = File::open(path)?;
    file.take(MAX_FILE_BYTES).read_to_end(&mut bytes)?;
    Ok(bytes)
}

struct Reading<'e> {
    session: String,
    each: &'e mut dyn FnMut(ReadablePart) -> io::Result<()>,
    found: Salvaged,
    stretch: Option<Stretch>,
}

/// Lines that follow each other.
#[derive(Clone, Copy)]
struct Stretch {
    /// Sequence number of the next entry, and the tip before it.
    next: Seq,
    tip: ChainHash,
    /// The last line was read after an unreadable one.
    is_unproven: bool,
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
                    self.lines(BufReader::with_capacity(BUFFER, lines), false)?
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
    fn lines(&mut self, mut from: impl BufRead, may_be_torn: bool) -> io::Result<bool> {
        self.ends();
        let mut is_whole = true;
        let mut line = Vec::new();
        loop {
            line.clear();
            let read = (&mut from)
                .take(MAX_LINE_BYTES)
                .read_until(b'\n', &mut line);
            match read {
                Err(_) => return Ok(false),
                Ok(0) => return Ok(is_whole),
                Ok(_) => {}
            }
            if line.pop() != Some(b'\n') {
                return Ok(is_whole && may_be_torn);
            }
            match Line::read(&line) {
                // Someone put a file of another session there.
                Some(Line::Header(header)) if header.session != self.session => return Ok(false),
                Some(Line::Header(header)) => {
                    self.stretch = Some(Stretch {
                        next: header.first,
                        tip: header.tip,
                        is_unproven: false,
                    });
                    let writer = (header.store.clone(), header.machine.clone());
                    self.found.writers.insert(writer);
                    self.found.header.get_or_insert(header);
                }
                Some(Line::Blob(bytes)) => (self.each)(ReadablePart::Blob(bytes))?,
                Some(Line::Entry(entry)) => {
                    let follows = self.stretch;
                    let follows = follows
                        .filter(|stretch| entry.seq == stretch.next && entry.follows(stretch.tip));
                    if follows.is_none() {
                        is_whole = false;
                        self.ends();
                    }
                    self.stretch = entry.seq.checked_add(1).map(|next| Stretch {
                        next,
                        tip: entry.tip,
                        is_unproven: follows.is_none(),
                    });
                    (self.each)(match follows {
                        Some(stretch) => ReadablePart::Entry(stretch.tip, entry),
                        None => ReadablePart::Unproven(entry),
                    })?;
                }
                None => {
                    is_whole = false;
                    self.ends();
                }
            }
        }
    }

    fn ends(&mut self) {
        if let Some(stretch) = self.stretch.take()
            && let Some(seq) = stretch.next.checked_sub(1)
        {
            match stretch.is_unproven {
                true => self.found.unproven.push((seq, stretch.tip)),
                false => self.found.ends.push((seq, stretch.tip)),
            }
        }
    }
}

fn next_magic(bytes: &[u8]) -> Option<usize> {
    bytes.windows(MAGIC.len()).position(|at| at == MAGIC)
}
