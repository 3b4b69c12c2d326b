//! Packs: files that only grow, for contents that would make the database swell.
//!
//! The order of one more content: it is appended; the pack is synced, the first time its folder
//! too; then come the rows that name it. So a row never names what is not on the disk, and what
//! a crash cut off at the end of a pack is named by nobody.
//!
//! Invariant: a pack is written by the one process that made it, and holds nothing else.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{DirBuilderExt, FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rusqlite::{OptionalExtension, Transaction, params};

use super::StoreError;
use super::error::io as io_error;
use super::row::int;

/// A pack of this size is not added to.
pub const SEALED_BYTES: u64 = 64 * 1024 * 1024;

/// What a pack begins with.
const MAGIC: &[u8; 16] = b"rewake files 1\n\n";

/// No content as stored is larger.
const MAX_STORED: u64 = 1 << 30;

/// Where packs are in the data folder.
pub(super) fn folder(data_dir: &Path) -> PathBuf {
    data_dir.join("files").join("packs")
}

/// Where in which pack a content lies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PackPlace {
    pub name: String,
    pub at: u64,
}

/// A pack that is written.
#[derive(Debug)]
struct Open {
    name: String,
    file: File,
    bytes: u64,
    is_named_durably: bool,
}

/// Writes packs: a new one for each process, and when one is full.
#[derive(Debug)]
pub struct PackWriter {
    folder: PathBuf,
    open: Option<Open>,
    is_synced: bool,
}

impl PackWriter {
    /// Nothing is made before the first content comes.
    pub fn new(data_dir: &Path) -> PackWriter {
        PackWriter {
            folder: folder(data_dir),
            open: None,
            is_synced: true,
        }
    }

    /// Appends these bytes. They are durable after [`PackWriter::sync`].
    pub fn append(&mut self, data: &[u8]) -> Result<PackPlace, StoreError> {
        if self
            .open
            .as_ref()
            .is_some_and(|open| open.bytes >= SEALED_BYTES)
        {
            self.sync()?;
            self.open = None;
        }
        let folder = self.folder.clone();
        let fail = |e| io_error(format!("write below {}", folder.display()), e);
        let open = match &mut self.open {
            Some(open) => open,
            none => none.insert(make(&folder).map_err(fail)?),
        };
        let at = open.bytes;
        self.is_synced = false;
        // Behind what an append that failed has left, should it have.
        open.file.seek(SeekFrom::Start(at)).map_err(fail)?;
        open.file.write_all(data).map_err(fail)?;
        open.bytes += data.len() as u64;
        Ok(PackPlace {
            name: open.name.clone(),
            at,
        })
    }

    /// What was appended is on the disk when it returns.
    pub fn sync(&mut self) -> Result<(), StoreError> {
        let Some(open) = self.open.as_mut().filter(|_| !self.is_synced) else {
            return Ok(());
        };
        let fail = |e| io_error(format!("write below {}", self.folder.display()), e);
        open.file.sync_data().map_err(fail)?;
        if !open.is_named_durably {
            File::open(&self.folder)
                .and_then(|f| f.sync_all())
                .map_err(fail)?;
            open.is_named_durably = true;
        }
        self.is_synced = true;
        Ok(())
    }
}

fn make(folder: &Path) -> io::Result<Open> {
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(folder)?;
    for parent in folder.ancestors().skip(1).take(2) {
        File::open(parent)?.sync_all()?;
    }
    let name = format!("{}.pack", uuid::Uuid::now_v7().simple());
    let mut file = OpenOptions::new()
        .read(true)
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(folder.join(&name))?;
    file.write_all(MAGIC)?;
    Ok(Open {
        name,
        file,
        bytes: MAGIC.len() as u64,
        is_named_durably: false,
    })
}

/// What lies there. That it is what it was, the caller checks.
pub(super) fn read(pack: &Path, at: u64, bytes: u64) -> Result<Vec<u8>, StoreError> {
    let fail = |e| io_error(format!("read {}", pack.display()), e);
    let file = File::open(pack).map_err(fail)?;
    let mut magic = [0; MAGIC.len()];
    (&file)
        .take(MAGIC.len() as u64)
        .read_exact(&mut magic)
        .map_err(fail)?;
    let is_there = at.checked_add(bytes).is_some_and(|end| {
        bytes <= MAX_STORED && file.metadata().is_ok_and(|found| found.len() >= end)
    });
    if &magic != MAGIC || !is_there {
        return Err(StoreError::damaged(format!(
            "{} is not what it was",
            pack.display()
        )));
    }
    let mut data = vec![0; usize::try_from(bytes).unwrap_or(0)];
    file.read_exact_at(&mut data, at).map_err(fail)?;
    Ok(data)
}

/// The row of a pack, which has so many bytes more that are named.
pub(super) fn row(tx: &Transaction<'_>, name: &str, more: u64) -> rusqlite::Result<i64> {
    tx.prepare_cached(
        "INSERT INTO packs (name, bytes) VALUES (?1, ?2)
         ON CONFLICT (name) DO UPDATE SET bytes = bytes + ?2 RETURNING id",
    )?
    .query_row(params![name, int(more)], |row| row.get(0))
    .optional()?
    .ok_or(rusqlite::Error::QueryReturnedNoRows)
}
