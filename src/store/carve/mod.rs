//! Entries and blobs on the pages of a damaged database, found without its schema, its root pages
//! and its header: each leaf page of a table is read by itself, also those in the write-ahead log
//! up to its last valid commit. A row is told by the number and the types of its columns, and
//! believed by its own checksum.
//!
//! A checksum proves what was written, not that it still counts: what is found is used only
//! under the tip of a journal or under a head that can be read, see [`super::rebuild`]. Rows of
//! other tables are never carved; blobs are, for their hash says what they are.
//!
//! Not looked at: rows that no cell of their page names, so those in free blocks and those of a
//! page whose first bytes are damaged.
//!
//! The files are opened beside SQLite, so a process of its own does it ([`child`]). No byte is
//! trusted: everything has a bound.
//!
//! The formats: <https://sqlite.org/fileformat2.html>.

mod child;
mod record;
#[cfg(test)]
mod tests;
mod wal;

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;

use super::blobs::BlobRow;
use super::row::{CHECKSUM_BYTES, MAX_ROW_BYTES, checksum};
use crate::core::entry::Seq;
use crate::journal::tip::{TIP_BYTES, Tip};
use record::{Value, values, varint};
use wal::Wal;

pub(super) use child::carve_beside;
pub use child::carve_if_asked;

const NONBLOCK: i32 = rustix::fs::OFlags::NONBLOCK.bits().cast_signed();

/// What SQLite makes pages of when nobody says otherwise: nothing of ours does.
const PAGE: usize = 4096;

const LEAF_OF_TABLE: u8 = 0x0d;
const LEAF_HEADER: usize = 8;

/// Of a record so much lies on its leaf page at most.
const MAX_LOCAL: usize = PAGE - 35;
/// And when the rest lies on other pages, at least.
const MIN_LOCAL: usize = (PAGE - 12) * 32 / 255 - 23;
/// A page that a record goes on in begins with the number of the next one.
const IN_OVERFLOW: usize = PAGE - 4;

/// A page belongs to one row, of which the log may have older copies. More often it is not read,
/// so that chains which run into one another cost no more than this.
const MAX_USES: u8 = 32;

/// After so many pages it is said how far it is.
const PAGES_TOLD: u64 = 2048;

/// What was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Carved<'a> {
    Entry(CarvedEntry<'a>),
    /// Its bytes are those that its hash is of.
    Blob(BlobRow<'a>),
    /// Nothing yet: so many bytes of the files were looked at.
    Upto(u64),
}

/// A row of `entries` whose checksum is right.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct CarvedEntry<'a> {
    pub id: i64,
    pub parent: Option<i64>,
    /// The key of the session that appended it.
    pub session: i64,
    pub seq: Seq,
    pub at_ms: i64,
    pub checksum: [u8; CHECKSUM_BYTES],
    pub tip: Option<Tip>,
    pub body: &'a [u8],
    /// It is compressed.
    pub is_packed: bool,
}

/// Who is given what is found.
type Each<'e> = dyn FnMut(Carved<'_>) -> io::Result<()> + 'e;

/// Gives each row that is found, once: those of the log from its newest frame on, since an older
/// one may lack the tip, then those of the database.
///
/// # Errors
/// Neither file can be opened, or `each` failed.
fn carve(database: &Path, log: &Path, each: &mut Each<'_>) -> io::Result<()> {
    let wal = regular(log).ok().and_then(Wal::read);
    let database = regular(database);
    let (database, pages) = match database {
        Ok(file) => {
            let bytes = file.metadata()?.len();
            (Some(file), bytes.div_ceil(PAGE as u64))
        }
        Err(error) if wal.is_none() => return Err(error),
        Err(_) => (None, 0),
    };
    let mut carving = Carving {
        pages: Pages { database, wal },
        uses: HashMap::new(),
        entries: HashSet::new(),
        blobs: HashSet::new(),
        looked_at: 0,
    };
    let mut page = vec![0; PAGE];
    let frames = carving.pages.wal.as_ref().map_or(0, |wal| wal.frames);
    for frame in (0..frames).rev() {
        carving.looked_at_a_page(each)?;
        let wal = carving.pages.wal.as_ref();
        if wal.and_then(|wal| wal.frame(frame, &mut page)).is_some() {
            carving.leaf(&page, each)?;
        }
    }
    // The first one is of the schema.
    for number in 2..=pages {
        // SQLite has no more.
        let Ok(number) = u32::try_from(number) else {
            break;
        };
        carving.looked_at_a_page(each)?;
        if carving.pages.of_database(number, &mut page).is_some() {
            carving.leaf(&page, each)?;
        }
    }
    Ok(())
}

/// A pipe in its place is not waited for.
fn regular(path: &Path) -> io::Result<File> {
    let mut options = File::options();
    let file = options.read(true).custom_flags(NONBLOCK).open(path)?;
    match file.metadata()?.is_file() {
        true => Ok(file),
        false => Err(io::ErrorKind::InvalidInput.into()),
    }
}

struct Pages {
    database: Option<File>,
    wal: Option<Wal>,
}

impl Pages {
    /// A page by its number, from 1. What is cut off of the last one is zero.
    fn of_database(&self, number: u32, page: &mut [u8]) -> Option<()> {
        let at = u64::from(number.checked_sub(1)?) * PAGE as u64;
        let file = self.database.as_ref()?;
        let mut read = 0;
        while read < page.len() {
            match file.read_at(&mut page[read..], at + read as u64) {
                Ok(0) | Err(_) => break,
                Ok(bytes) => read += bytes,
            }
        }
        page[read..].fill(0);
        (read > 0).then_some(())
    }

    /// As the last commit has it, or as it lies in the database.
    fn read(&self, number: u32, with_log: bool, page: &mut [u8]) -> Option<()> {
        let wal = self.wal.as_ref().filter(|_| with_log);
        match wal.and_then(|wal| wal.newest(number, page)) {
            Some(()) => Some(()),
            None => self.of_database(number, page),
        }
    }
}

/// A cell of a leaf page.
struct Cell<'p> {
    id: i64,
    /// What of the record lies on the page.
    local: &'p [u8],
    total: usize,
    /// The page with the rest.
    next: u32,
}

impl<'p> Cell<'p> {
    fn at(page: &'p [u8], at: usize) -> Option<Cell<'p>> {
        let (length, used) = varint(page.get(at..)?)?;
        let at = at + used;
        let (id, used) = varint(page.get(at..)?)?;
        let at = at + used;
        let total = i32::try_from(length).ok().filter(|n| *n <= MAX_ROW_BYTES)?;
        let total = usize::try_from(total).ok()?;
        let id = i64::try_from(id).ok().filter(|id| *id > 0)?;
        let local = local(total);
        let next = match local < total {
            true => {
                let number = page.get(at + local..at + local + 4)?;
                u32::from_be_bytes(number.try_into().ok()?)
            }
            false => 0,
        };
        let local = page.get(at..at + local)?;
        Some(Cell {
            id,
            local,
            total,
            next,
        })
    }
}

/// How much of a record lies on its leaf page.
fn local(total: usize) -> usize {
    if total <= MAX_LOCAL {
        return total;
    }
    match MIN_LOCAL + (total - MIN_LOCAL) % IN_OVERFLOW {
        rest if rest <= MAX_LOCAL => rest,
        _ => MIN_LOCAL,
    }
}

/// What tells a row from others, so that it is read once: the log has many copies of a page.
enum Key {
    Entry(i64, [u8; CHECKSUM_BYTES]),
    Blob([u8; blake3::OUT_LEN]),
}

struct Carving {
    pages: Pages,
    /// How often each page that a row goes on in was read.
    uses: HashMap<u32, u8>,
    entries: HashSet<(i64, [u8; CHECKSUM_BYTES])>,
    blobs: HashSet<[u8; blake3::OUT_LEN]>,
    /// Pages.
    looked_at: u64,
}

impl Carving {
    fn looked_at_a_page(&mut self, each: &mut Each<'_>) -> io::Result<()> {
        self.looked_at += 1;
        match self.looked_at % PAGES_TOLD {
            0 => each(Carved::Upto(self.looked_at * PAGE as u64)),
            _ => Ok(()),
        }
    }

    fn leaf(&mut self, page: &[u8], each: &mut Each<'_>) -> io::Result<()> {
        if page.first() != Some(&LEAF_OF_TABLE) {
            return Ok(());
        }
        let cells = usize::from(u16::from_be_bytes([page[3], page[4]]));
        let pointers = page[LEAF_HEADER..].chunks_exact(2).take(cells);
        let mut bytes = 0;
        for pointer in pointers {
            let at = usize::from(u16::from_be_bytes([pointer[0], pointer[1]]));
            let Some(cell) = Cell::at(page, at) else {
                continue;
            };
            bytes += cell.local.len();
            // Cells do not overlap, but for those of a page that is damaged.
            if bytes > 2 * PAGE {
                break;
            }
            self.cell(&cell, each)?;
        }
        Ok(())
    }

    fn cell(&mut self, cell: &Cell<'_>, each: &mut Each<'_>) -> io::Result<()> {
        let Some(key) = key(cell) else {
            return Ok(());
        };
        let is_known = match &key {
            Key::Entry(id, sum) => self.entries.contains(&(*id, *sum)),
            Key::Blob(hash) => self.blobs.contains(hash),
        };
        if is_known {
            return Ok(());
        }
        let ways = match cell.local.len() < cell.total && self.pages.wal.is_some() {
            true => &[true, false][..],
            false => &[true][..],
        };
        for with_log in ways {
            let Some(record) = self.record(cell, *with_log) else {
                continue;
            };
            let Some(row) = Row::of(cell.id, &record) else {
                continue;
            };
            match key {
                Key::Entry(id, sum) => drop(self.entries.insert((id, sum))),
                Key::Blob(hash) => drop(self.blobs.insert(hash)),
            }
            return each(row.carved());
        }
        Ok(())
    }

    /// All of a record. `None`: its pages do not hang together.
    fn record(&mut self, cell: &Cell<'_>, with_log: bool) -> Option<Vec<u8>> {
        let mut record = cell.local.to_vec();
        let mut page = vec![0; PAGE];
        let (mut next, mut met) = (cell.next, HashSet::new());
        while record.len() < cell.total {
            let uses = self.uses.entry(next).or_default();
            // A chain that comes back to a page never ends.
            if *uses == MAX_USES || !met.insert(next) {
                return None;
            }
            *uses += 1;
            self.pages.read(next, with_log, &mut page)?;
            next = u32::from_be_bytes([page[0], page[1], page[2], page[3]]);
            let part = (cell.total - record.len()).min(IN_OVERFLOW);
            record.extend_from_slice(&page[4..4 + part]);
        }
        Some(record)
    }
}

/// What tells the row in this cell. `None`: it is of another table, or of none.
fn key(cell: &Cell<'_>) -> Option<Key> {
    let values = values(cell.local, cell.total)?;
    match (values.len(), &values[..]) {
        (9 | 10, [Some(Value::Null), _, _, _, _, _, Some(Value::Blob(sum)), ..]) => {
            Some(Key::Entry(cell.id, (*sum).try_into().ok()?))
        }
        (5, [Some(Value::Null), Some(Value::Blob(hash)), ..]) => {
            Some(Key::Blob((*hash).try_into().ok()?))
        }
        _ => None,
    }
}

/// A row that is what was written.
enum Row<'a> {
    Entry(CarvedEntry<'a>),
    Blob(BlobRow<'a>),
}

impl<'a> Row<'a> {
    fn of(id: i64, record: &'a [u8]) -> Option<Row<'a>> {
        let values: Option<Vec<Value<'a>>> = values(record, record.len())?.into_iter().collect();
        let values = values?;
        match values[..] {
            [
                Value::Null,
                Value::Blob(hash),
                Value::Int(bytes),
                Value::Text(encoding),
                Value::Blob(data),
            ] => {
                let blob = BlobRow {
                    hash,
                    bytes,
                    is_packed: encoding == b"zstd",
                    data,
                };
                blob.is_whole().then_some(Row::Blob(blob))
            }
            // Rows of an older schema have no tip, and those that were recorded then NULL.
            [
                Value::Null,
                parent,
                Value::Int(session),
                Value::Int(seq),
                Value::Int(at_ms),
                Value::Text(_),
                Value::Blob(sum),
                Value::Null | Value::Text(_),
                body,
                ref tip @ ..,
            ] => {
                let seq = Seq::try_from(seq).ok()?;
                let parent = match parent {
                    Value::Null => None,
                    Value::Int(parent) => Some(parent),
                    _ => return None,
                };
                let (body, is_packed) = match body {
                    Value::Text(body) => (body, false),
                    Value::Blob(body) => (body, true),
                    _ => return None,
                };
                let tip = match tip {
                    [] | [Value::Null] => None,
                    [Value::Blob(tip)] if tip.len() == TIP_BYTES => Tip::from_bytes(tip),
                    _ => return None,
                };
                let checksum = checksum(parent, seq, at_ms, body);
                (sum == checksum).then_some(Row::Entry(CarvedEntry {
                    id,
                    parent,
                    session,
                    seq,
                    at_ms,
                    checksum,
                    tip,
                    body,
                    is_packed,
                }))
            }
            _ => None,
        }
    }

    fn carved(&self) -> Carved<'_> {
        match self {
            Row::Entry(entry) => Carved::Entry(entry.clone()),
            Row::Blob(blob) => Carved::Blob(*blob),
        }
    }
}
