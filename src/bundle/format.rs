//! The format: zstd frames of JSON lines, and a hash of all bytes at the end.
//!
//! The hash is in a skippable frame (RFC 8878), so `zstd -dc` reads a bundle.

use std::borrow::Cow;
use std::fs::File;
use std::io::{self, BufRead, Read, Seek, Write};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};
use zstd::zstd_safe::{self, CParameter};

use super::BundleError;
use crate::core::tree::ContentHash;
use crate::journal::chain_hash::ChainHash;
use crate::journal::line::{bytes_of, spelled};
use crate::store::MovedTree;

/// Version of the format. A newer one is refused.
pub(super) const FORM: u32 = 1;
/// Maximum size of a frame before compression, bytes.
pub(super) const MAX_FRAME: usize = 8 << 20;
/// Size at which a frame is written, bytes.
const FULL_FRAME: usize = 4 << 20;
/// The first bytes of a frame.
const MAGIC: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];
/// The header of a skippable frame of 32 bytes.
const TRAILER_HEADER: [u8; 8] = [0x50, 0x2a, 0x4d, 0x18, 32, 0, 0, 0];
/// Size of the trailer, bytes: a skippable frame with a blake3 hash.
pub(super) const TRAILER: u64 = 40;
/// Number of compressed bytes that are read at once.
const READ_AT_ONCE: usize = 1 << 20;
/// Maximum size of the header and the checksum of a frame, bytes.
const MAX_FRAME_HEADER: usize = 64;
const LEVEL: i32 = 3;
/// The bit of a frame's descriptor that says that a checksum follows.
const HAS_CHECKSUM: u8 = 0b100;

/// The first line.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct About {
    /// [`FORM`].
    pub bundle: u32,
    /// The version of rewake that made it.
    pub rewake: String,
    /// The schema of its database.
    pub schema: u32,
    /// A hash of the ID of its store.
    pub store: String,
    pub host: String,
    pub os: String,
    /// When it was made: UTC, milliseconds since 1970.
    pub at_ms: i64,
    /// The sessions that were asked for.
    pub sessions: Vec<Listed>,
    /// Number of lines after this one, without the last one.
    pub lines: u64,
    /// Number of bytes of these lines.
    pub bytes: u64,
}

/// A session in the first line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Listed {
    pub id: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// Number of entries, those of its ancestors included.
    pub entries: u64,
    pub tip: ChainHash,
    /// Stored size of the entries that it recorded itself, bytes.
    pub bytes: u64,
}

/// The content of a file: text, or base64.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct ContentLine<'a> {
    /// blake3, in hex.
    pub content: Cow<'a, str>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<Cow<'a, str>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base64: Option<Cow<'a, str>>,
}

/// A state of the files of a workspace, as the difference to an earlier one.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct TreeLine {
    /// Its name in entries.
    pub tree: String,
    /// The root of the workspace, in base64.
    pub root: String,
    /// The tree that it is a difference to, which comes before it. `None`: it has all paths.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<String>,
    /// The difference as the store encodes it, in base64.
    pub delta: String,
}

impl ContentLine<'_> {
    pub(super) fn of(hash: ContentHash, bytes: &[u8]) -> ContentLine<'_> {
        let (text, base64) = spelled(bytes);
        ContentLine {
            content: blake3::Hash::from_bytes(hash).to_hex().to_string().into(),
            text,
            base64,
        }
    }

    /// Returns the content. `None`: it does not match its hash.
    pub(super) fn bytes(&self) -> Option<(ContentHash, Vec<u8>)> {
        let bytes = bytes_of(self.text.as_deref(), self.base64.as_deref())?;
        let hash = blake3::hash(&bytes);
        (hash.to_hex().as_str() == self.content).then_some((*hash.as_bytes(), bytes))
    }
}

impl TreeLine {
    pub(super) fn of(tree: MovedTree) -> TreeLine {
        TreeLine {
            root: STANDARD.encode(&tree.root),
            delta: STANDARD.encode(&tree.encoded),
            tree: tree.name,
            parent: tree.parent,
        }
    }

    /// Returns the tree. `None`: its texts are not base64.
    pub(super) fn tree(self) -> Option<MovedTree> {
        Some(MovedTree {
            root: STANDARD.decode(&self.root).ok()?,
            encoded: STANDARD.decode(&self.delta).ok()?,
            name: self.tree,
            parent: self.parent,
        })
    }
}

/// The last line.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct End {
    pub end: Ended,
}

#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Ended {
    /// Number of all lines, with the first and the last one.
    pub lines: u64,
    pub sessions: u64,
}

/// Returns whether a file that begins with these bytes is a bundle.
pub fn is_bundle(first: &[u8]) -> bool {
    first.starts_with(&MAGIC)
}

/// Writes lines as frames, and the hash at the end.
pub(super) struct FrameWriter<W: Write> {
    to: W,
    hash: blake3::Hasher,
    open: Vec<u8>,
    compressor: zstd::bulk::Compressor<'static>,
}

impl<W: Write> FrameWriter<W> {
    pub(super) fn new(to: W) -> io::Result<FrameWriter<W>> {
        let mut compressor = zstd::bulk::Compressor::new(LEVEL)?;
        compressor.set_parameter(CParameter::ChecksumFlag(true))?;
        Ok(FrameWriter {
            to,
            hash: blake3::Hasher::new(),
            open: Vec::new(),
            compressor,
        })
    }

    pub(super) fn line(&mut self, line: &[u8]) -> io::Result<()> {
        self.open.extend_from_slice(line);
        self.open.push(b'\n');
        match self.open.len() < FULL_FRAME {
            true => Ok(()),
            false => self.flush(),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        let open = std::mem::take(&mut self.open);
        for part in open.chunks(MAX_FRAME) {
            let frame = self.compressor.compress(part)?;
            self.hash.update(&frame);
            self.to.write_all(&frame)?;
        }
        Ok(())
    }

    /// Returns the file with all frames, without a hash.
    pub(super) fn into_inner(mut self) -> io::Result<W> {
        self.flush()?;
        self.to.flush()?;
        Ok(self.to)
    }

    /// Appends the frames of a file.
    pub(super) fn append(&mut self, mut file: File) -> io::Result<()> {
        self.flush()?;
        file.rewind()?;
        let mut part = vec![0; READ_AT_ONCE];
        loop {
            let read = file.read(&mut part)?;
            if read == 0 {
                return Ok(());
            }
            self.hash.update(&part[..read]);
            self.to.write_all(&part[..read])?;
        }
    }

    /// Writes the rest and the hash.
    pub(super) fn finish(mut self) -> io::Result<W> {
        self.flush()?;
        self.to.write_all(&TRAILER_HEADER)?;
        self.to.write_all(self.hash.finalize().as_bytes())?;
        self.to.flush()?;
        Ok(self.to)
    }
}

/// Checks the hash at the end of a file of this size.
pub(super) fn check_trailer(mut file: impl Read, size: u64) -> Result<(), BundleError> {
    let Some(content) = size.checked_sub(TRAILER) else {
        return Err(BundleError::damaged("its end", "it is too short"));
    };
    let mut hash = blake3::Hasher::new();
    hash.update_reader((&mut file).take(content))?;
    let mut trailer = Vec::new();
    file.take(TRAILER).read_to_end(&mut trailer)?;
    let is_whole = trailer.strip_prefix(&TRAILER_HEADER[..]) == Some(hash.finalize().as_bytes());
    match is_whole {
        true => Ok(()),
        false => Err(BundleError::damaged(
            "its end",
            "the hash of its bytes is missing or wrong: it was changed or cut",
        )),
    }
}

/// Decompresses frames one after the other. A frame says its size, at most [`MAX_FRAME`].
pub(super) struct FrameReader<R: Read> {
    from: R,
    /// Number of bytes that were not read yet.
    left: u64,
    /// Number of frames that were read.
    frames: u64,
    /// Compressed bytes, and how many of them were decompressed.
    compressed: Vec<u8>,
    used: usize,
    /// A decompressed frame, and the position in it.
    frame: Vec<u8>,
    at: usize,
    decompressor: zstd::bulk::Decompressor<'static>,
}

impl<R: Read> FrameReader<R> {
    /// `size`: of all frames, bytes.
    pub(super) fn new(from: R, size: u64) -> io::Result<FrameReader<R>> {
        Ok(FrameReader {
            from,
            left: size,
            frames: 0,
            compressed: Vec::new(),
            used: 0,
            frame: Vec::new(),
            at: 0,
            decompressor: zstd::bulk::Decompressor::new()?,
        })
    }

    /// Makes this number of compressed bytes available, if there are as many.
    fn fill(&mut self, wanted: usize) -> io::Result<()> {
        let missing = wanted.saturating_sub(self.compressed.len() - self.used);
        if missing > 0 && self.left > 0 {
            self.compressed.drain(..self.used);
            self.used = 0;
            let read = (&mut self.from)
                .take((missing as u64).min(self.left))
                .read_to_end(&mut self.compressed)?;
            self.left -= read as u64;
        }
        Ok(())
    }

    fn next_frame(&mut self) -> io::Result<()> {
        self.at = 0;
        self.frame.clear();
        // Small frames do not move the bytes after them each time.
        if self.compressed.len() - self.used < MAX_FRAME_HEADER {
            self.fill(READ_AT_ONCE)?;
        }
        let number = self.frames + 1;
        let damaged =
            |why: &str| io::Error::new(io::ErrorKind::InvalidData, format!("frame {number} {why}"));
        let compressed = &self.compressed[self.used..];
        if compressed.is_empty() {
            return Ok(());
        }
        let has_checksum = compressed.get(4).is_some_and(|d| d & HAS_CHECKSUM != 0);
        if !is_bundle(compressed) || !has_checksum {
            return Err(damaged("is no frame of a bundle"));
        }
        let size = zstd_safe::get_frame_content_size(compressed).ok().flatten();
        let size = size.and_then(|size| usize::try_from(size).ok());
        let Some(size) = size.filter(|size| (1..=MAX_FRAME).contains(size)) else {
            return Err(damaged("does not say its size, or is too large"));
        };
        let most = zstd_safe::compress_bound(MAX_FRAME) + MAX_FRAME_HEADER;
        let mut wanted = READ_AT_ONCE;
        let length = loop {
            match zstd_safe::find_frame_compressed_size(&self.compressed[self.used..]) {
                Ok(length) => break length,
                Err(_) if wanted < 2 * most && self.left > 0 => self.fill(wanted.min(most))?,
                Err(_) => return Err(damaged("is cut or too large")),
            }
            wanted *= 2;
        };
        let compressed = &self.compressed[self.used..];
        let frame = self.decompressor.decompress(&compressed[..length], size);
        self.frame = frame.map_err(|e| damaged(&format!("cannot be decompressed: {e}")))?;
        if self.frame.len() != size {
            return Err(damaged("has another size than it says"));
        }
        self.used += length;
        self.frames = number;
        Ok(())
    }
}

impl<R: Read> Read for FrameReader<R> {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        let read = self.fill_buf()?.read(to)?;
        self.consume(read);
        Ok(read)
    }
}

impl<R: Read> BufRead for FrameReader<R> {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        if self.at == self.frame.len() {
            self.next_frame()?;
        }
        Ok(&self.frame[self.at..])
    }

    fn consume(&mut self, read: usize) {
        self.at += read;
    }
}
