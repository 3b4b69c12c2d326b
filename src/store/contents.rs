//! Contents of files, each stored once under its hash. Small ones are rows, large ones are in
//! packs. Each is compressed with an earlier content as dictionary if that makes it much smaller.
//!
//! Invariant: every content is checked against its hash when it is read.

use std::collections::HashSet;
use std::path::Path;

use rusqlite::{Connection, OptionalExtension, Transaction, params};
use zstd::zstd_safe::{CParameter, DParameter};

use super::database::begin;
use super::error::Doing;
use super::packs::{self, PackPlace, PackWriter};
use super::row::{count, int};
use super::{Snapshots, StoreError, cached};
use crate::core::tree::ContentHash;

const WHAT: &str = "keep the content of a file";
const WHAT_READ: &str = "read the content of a file";

/// Size up to which stored contents are rows, in bytes: they need no separate sync.
pub const MAX_ROW: usize = 16 * 1024;

/// Maximum number of dictionaries that a content depends on, since reading it reads each of them.
pub const MAX_DEPTH: u32 = 16;

/// Size above which a content is not compressed with a dictionary and is not used as one, in bytes:
/// both would be in memory.
pub const MAX_WITH_BASE: usize = 8 * 1024 * 1024;

/// Maximum size of a content, whatever a row says.
const MAX_CONTENT: u64 = 1 << 30;

/// Binary logarithm of the window: 16 MiB cover a dictionary of [`MAX_WITH_BASE`] and the content.
const WINDOW_LOG: u32 = 24;

const LEVEL: i32 = 3;
/// Level for many contents at once.
const FAST_LEVEL: i32 = 1;

/// Rows in one transaction when many contents are stored at once.
const ROWS_AT_ONCE: usize = 1_000;

/// A content that is hashed and compressed, ready to be stored.
#[derive(Debug, Clone)]
pub struct NewContent {
    pub hash: ContentHash,
    pub bytes: u64,
    /// Size as stored, in bytes.
    pub stored: u64,
    /// The content that it was compressed with, and the number of bases that one depends on.
    pub base: Option<(ContentHash, u32)>,
    pub place: ContentLocation,
}

/// The location of a content.
#[derive(Debug, Clone)]
pub enum ContentLocation {
    Row(Vec<u8>),
    Pack(PackPlace),
}

impl ContentLocation {
    fn data(&self) -> Option<&[u8]> {
        match self {
            ContentLocation::Row(data) => Some(data),
            ContentLocation::Pack(_) => None,
        }
    }
}

/// Compressed bytes, and the base that they were compressed with.
pub struct Compressed {
    pub data: Vec<u8>,
    pub base: Option<(ContentHash, u32)>,
}

/// A content with which another one may be compressed.
pub struct Base {
    pub hash: ContentHash,
    pub depth: u32,
    pub bytes: Vec<u8>,
}

/// Compresses a content. The base is used as dictionary if that makes the result less than half as
/// large.
pub fn compress(
    bytes: &[u8],
    base: Option<&Base>,
    is_bulk: bool,
) -> Result<Compressed, StoreError> {
    let level = if is_bulk { FAST_LEVEL } else { LEVEL };
    let alone = zstd::bulk::compress(bytes, level).map_err(failed)?;
    let usable = |base: &&Base| {
        base.depth < MAX_DEPTH
            && base.bytes.len() <= MAX_WITH_BASE
            && bytes.len() <= MAX_WITH_BASE
            && !base.bytes.is_empty()
    };
    if let Some(base) = base.filter(usable) {
        let with = compress_with(bytes, &base.bytes).map_err(failed)?;
        if with.len() < alone.len() / 2 {
            return Ok(Compressed {
                data: with,
                base: Some((base.hash, base.depth)),
            });
        }
    }
    Ok(Compressed {
        data: alone,
        base: None,
    })
}

fn failed(error: std::io::Error) -> StoreError {
    super::error::io(WHAT, error)
}

fn compress_with(bytes: &[u8], dictionary: &[u8]) -> std::io::Result<Vec<u8>> {
    let mut compressor = zstd::bulk::Compressor::with_dictionary(LEVEL, dictionary)?;
    compressor.set_parameter(CParameter::WindowLog(WINDOW_LOG))?;
    compressor.compress(bytes)
}

/// Decompresses a content. Returns at most `size` bytes, whatever the compressed data claims.
fn decompress(data: &[u8], dictionary: Option<&[u8]>, size: usize) -> std::io::Result<Vec<u8>> {
    let Some(dictionary) = dictionary else {
        return zstd::bulk::decompress(data, size);
    };
    let mut decompressor = zstd::bulk::Decompressor::with_dictionary(dictionary)?;
    decompressor.set_parameter(DParameter::WindowLogMax(WINDOW_LOG + 1))?;
    decompressor.decompress(data, size)
}

struct ContentRow {
    hash: Vec<u8>,
    bytes: u64,
    stored: u64,
    base: Option<i64>,
    pack: Option<(String, u64)>,
    data: Option<Vec<u8>>,
}

impl Snapshots<'_> {
    /// Reads the content with this hash and verifies it. Returns `None` if it is not stored.
    ///
    /// # Errors
    /// `Damaged` when the bytes do not match the hash.
    pub fn content(&self, hash: &ContentHash) -> Result<Option<Vec<u8>>, StoreError> {
        content(self.conn, self.packs, hash)
    }

    /// Reads a content as the base of another one. Returns `None` if it is not stored, or already
    /// depends on [`MAX_DEPTH`] bases.
    pub fn base(&self, hash: &ContentHash) -> Result<Option<Base>, StoreError> {
        let Some((id, depth)) = content_row(self.conn, hash)? else {
            return Ok(None);
        };
        if depth >= MAX_DEPTH {
            return Ok(None);
        }
        Ok(Some(Base {
            hash: *hash,
            depth,
            bytes: read(self.conn, self.packs, id, 0)?,
        }))
    }

    /// Returns whether a content is stored.
    pub fn has_content(&self, hash: &ContentHash) -> Result<bool, StoreError> {
        Ok(content_row(self.conn, hash)?.is_some())
    }

    /// Stores many contents before a tree names them. They are durable when this returns. Contents
    /// that no tree ever names are removed by the next garbage collection.
    pub fn add_contents(&self, contents: &[NewContent]) -> Result<(), StoreError> {
        for part in contents.chunks(ROWS_AT_ONCE) {
            let tx = begin(self.conn, self.in_use, WHAT)?;
            for content in part {
                insert(&tx, content).doing(WHAT)?;
            }
            tx.commit().doing(WHAT)?;
        }
        Ok(())
    }

    /// Returns the stored size of all contents and trees, in bytes.
    pub fn files_bytes(&self) -> Result<u64, StoreError> {
        files_bytes(self.conn, "see what the files take")
    }
}

pub(super) fn files_bytes(conn: &Connection, what: &'static str) -> Result<u64, StoreError> {
    let sql = "SELECT (SELECT coalesce(sum(stored), 0) FROM contents)
              + (SELECT coalesce(sum(octet_length(body)), 0) FROM trees)";
    cached::row(conn, sql, [], |row| Ok(count(row.get(0)?))).doing(what)
}

/// Reads a content, as [`Snapshots::content`].
pub(super) fn content(
    conn: &Connection,
    packs: &Path,
    hash: &ContentHash,
) -> Result<Option<Vec<u8>>, StoreError> {
    let id = content_row(conn, hash)?;
    id.map(|(id, _)| read(conn, packs, id, 0)).transpose()
}

fn content_row(conn: &Connection, hash: &ContentHash) -> Result<Option<(i64, u32)>, StoreError> {
    let sql = "SELECT id, depth FROM contents WHERE hash = ?1";
    cached::row(conn, sql, [hash.as_slice()], |row| {
        Ok((row.get(0)?, row.get(1)?))
    })
    .optional()
    .doing(WHAT_READ)
}

/// Inserts a content. One that is stored already stays unchanged.
pub(super) fn insert(tx: &Transaction<'_>, content: &NewContent) -> rusqlite::Result<()> {
    let (pack, at, data) = match &content.place {
        ContentLocation::Row(data) => (None, None, Some(data)),
        ContentLocation::Pack(place) => {
            let pack = packs::row(tx, &place.name, content.stored)?;
            (Some(pack), Some(int(place.at)), None)
        }
    };
    let (base, depth) = match content.base {
        Some((hash, depth)) => (Some(hash), depth + 1),
        None => (None, 0),
    };
    let base: Option<i64> = match base {
        None => None,
        Some(hash) => Some(
            tx.prepare_cached("SELECT id FROM contents WHERE hash = ?1")?
                .query_row([hash.as_slice()], |row| row.get(0))?,
        ),
    };
    tx.prepare_cached(
        "INSERT INTO contents (hash, bytes, stored, base, depth, pack, at, data)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8) ON CONFLICT (hash) DO NOTHING",
    )?
    .execute(params![
        content.hash.as_slice(),
        int(content.bytes),
        int(content.stored),
        base,
        depth,
        pack,
        at,
        data
    ])?;
    Ok(())
}

fn read(conn: &Connection, packs: &Path, id: i64, depth: u32) -> Result<Vec<u8>, StoreError> {
    if depth > MAX_DEPTH {
        return Err(StoreError::damaged("a content has too many bases"));
    }
    let row = row(conn, id)?;
    let base = match row.base {
        Some(base) => Some(read(conn, packs, base, depth + 1)?),
        None => None,
    };
    let name = hex(&row.hash);
    let damaged = || StoreError::damaged(format!("the content {name} is not what it was"));
    let data = match (row.pack, row.data) {
        (Some((pack, at)), _) => packs::read(&packs.join(pack), at, row.stored)?,
        (None, Some(data)) => data,
        (None, None) => return Err(damaged()),
    };
    let size = usize::try_from(row.bytes.min(MAX_CONTENT)).map_err(|_| damaged())?;
    let bytes = decompress(&data, base.as_deref(), size).map_err(|_| damaged())?;
    match blake3::hash(&bytes).as_bytes() == row.hash.as_slice() {
        true => Ok(bytes),
        false => Err(damaged()),
    }
}

fn row(conn: &Connection, id: i64) -> Result<ContentRow, StoreError> {
    let sql = "SELECT c.hash, c.bytes, c.stored, c.base, p.name, c.at, c.data
         FROM contents c LEFT JOIN packs p ON p.id = c.pack WHERE c.id = ?1";
    cached::row(conn, sql, [id], |row| {
        let pack: Option<String> = row.get(4)?;
        let at: Option<i64> = row.get(5)?;
        Ok(ContentRow {
            hash: row.get(0)?,
            bytes: count(row.get(1)?),
            stored: count(row.get(2)?),
            base: row.get(3)?,
            pack: pack.zip(at.map(count)),
            data: row.get(6)?,
        })
    })
    .doing(WHAT_READ)
}

pub(super) fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write;
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// Contents of a snapshot that are not stored yet, in the order in which they were found. A base
/// comes before the contents that are compressed with it.
#[derive(Debug, Default)]
pub struct Gathered {
    pub contents: Vec<NewContent>,
    hashes: HashSet<ContentHash>,
    /// Size as stored, in bytes.
    bytes: u64,
}

impl Gathered {
    pub fn has(&self, hash: &ContentHash) -> bool {
        self.hashes.contains(hash)
    }

    pub fn add(&mut self, content: NewContent) {
        if self.hashes.insert(content.hash) {
            self.bytes += content.stored;
            self.contents.push(content);
        }
    }

    /// Moves the contents that are stored as more than `most` bytes into packs, which are synced
    /// when this returns. If it fails, all contents are still here and can be written again.
    pub fn pack_over(&mut self, most: usize, packs: &mut PackWriter) -> Result<(), StoreError> {
        let in_rows = self.contents.iter_mut().filter_map(|c| match &c.place {
            ContentLocation::Row(data) if data.len() > most => Some(&mut c.place),
            ContentLocation::Row(_) | ContentLocation::Pack(_) => None,
        });
        let large: Vec<&mut ContentLocation> = in_rows.collect();
        let data = large.iter().filter_map(|place| place.data());
        let places = packs.keep(&data.collect::<Vec<_>>())?;
        for (place, packed) in large.into_iter().zip(places) {
            *place = ContentLocation::Pack(packed);
        }
        Ok(())
    }

    /// Removes all contents: they are stored elsewhere by now.
    pub fn clear(&mut self) {
        *self = Gathered::default();
    }

    /// Returns the size as stored, in bytes.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }
}
