//! Packs: files that only grow, for contents that would make the database too large.
//!
//! Contents are written in this order. They are appended to the pack. The pack is synced, and the
//! first time its folder too. Only then the caller gets their places, for the rows that name them.
//! So a row never names bytes that are not on the disk, such as those that a crash cut off at the
//! end of a pack.
//!
//! Invariant: a pack is written by the one process that made it, and holds nothing else. One that
//! failed is never written again.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rusqlite::{OptionalExtension, Transaction, params};

use super::StoreError;
use super::error::io as io_error;
use super::ids::new_run_id;
use super::row::int;
use crate::config::make_private_folder;

/// Size from which a pack is full, in bytes.
pub const SEALED_BYTES: u64 = 64 * 1024 * 1024;

/// The first bytes of a pack.
const MAGIC: &[u8; 16] = b"rewake files 1\n\n";

/// Maximum stored size of a content, in bytes.
const MAX_STORED: u64 = 1 << 30;

/// Returns the folder of the packs.
pub(super) fn folder(data_dir: &Path) -> PathBuf {
    data_dir.join("files").join("packs")
}

/// The place of a content in a pack.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PackPlace {
    pub name: String,
    pub at: u64,
}

/// A pack that is being written.
#[derive(Debug)]
struct OpenPack {
    name: String,
    file: File,
    /// Length that is synced, in bytes.
    bytes: u64,
    is_named_durably: bool,
}

/// A writer of packs. Each process starts a new pack, and another one when a pack is full or
/// failed.
#[derive(Debug)]
pub struct PackWriter {
    folder: PathBuf,
    open: Option<OpenPack>,
}

impl PackWriter {
    /// Creates a writer. It creates nothing on the disk before the first content.
    pub fn new(data_dir: &Path) -> PackWriter {
        PackWriter {
            folder: folder(data_dir),
            open: None,
        }
    }

    /// Writes these contents and returns their places. They are synced when this returns.
    ///
    /// # Errors
    /// In this case none of them is stored, and the pack gets no more contents. After a sync that
    /// failed the kernel may have dropped the written bytes, and would call the next sync of the
    /// same file a success.
    pub fn keep(&mut self, contents: &[&[u8]]) -> Result<Vec<PackPlace>, StoreError> {
        let mut places = Vec::with_capacity(contents.len());
        let mut left = contents;
        while !left.is_empty() {
            let mut open = match self.open.take() {
                Some(open) if open.bytes < SEALED_BYTES => open,
                _ => make(&self.folder).map_err(|e| self.failed(e))?,
            };
            let before = places.len();
            match fill(&self.folder, &mut open, left, &mut places) {
                Ok(()) => self.open = Some(open),
                Err(error) => {
                    give_up(&self.folder, &open);
                    return Err(self.failed(error));
                }
            }
            left = &left[places.len() - before..];
        }
        Ok(places)
    }

    fn failed(&self, error: io::Error) -> StoreError {
        io_error(format!("write below {}", self.folder.display()), error)
    }
}

/// Appends as many contents as fit in the pack, and syncs it.
fn fill(
    folder: &Path,
    open: &mut OpenPack,
    contents: &[&[u8]],
    places: &mut Vec<PackPlace>,
) -> io::Result<()> {
    let mut at = open.bytes;
    open.file.seek(SeekFrom::Start(at))?;
    if at == 0 {
        open.file.write_all(MAGIC)?;
        at = MAGIC.len() as u64;
    }
    for data in contents {
        if at >= SEALED_BYTES {
            break;
        }
        open.file.write_all(data)?;
        places.push(PackPlace {
            name: open.name.clone(),
            at,
        });
        at += data.len() as u64;
    }
    open.file.sync_data()?;
    if !open.is_named_durably {
        File::open(folder)?.sync_all()?;
        open.is_named_durably = true;
    }
    open.bytes = at;
    Ok(())
}

/// Removes bytes that no row names, as far as the disk allows it: a disk on which each attempt
/// fails must not fill up.
fn give_up(folder: &Path, open: &OpenPack) {
    let gone = match open.is_named_durably {
        true => open.file.set_len(open.bytes),
        false => fs::remove_file(folder.join(&open.name)),
    };
    if let Err(error) = gone {
        tracing::warn!(pack = open.name, %error, "a pack that failed is left as it is");
    }
}

fn make(folder: &Path) -> io::Result<OpenPack> {
    make_private_folder(folder)?;
    let mut above = folder.ancestors().skip(1).take(2);
    if let Err(error) = above.try_for_each(|parent| File::open(parent)?.sync_all()) {
        // These are made again the next time, for the same reason as a pack. A folder in use stays.
        let mut made = folder.ancestors().take(2);
        let _ = made.try_for_each(fs::remove_dir);
        return Err(error);
    }
    let name = format!("{}.pack", new_run_id().replace('-', ""));
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(folder.join(&name))?;
    Ok(OpenPack {
        name,
        file,
        bytes: 0,
        is_named_durably: false,
    })
}

/// Reads bytes of a pack. The caller verifies them.
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

/// Returns the row of a pack, and adds `more` to its number of used bytes.
pub(super) fn row(tx: &Transaction<'_>, name: &str, more: u64) -> rusqlite::Result<i64> {
    tx.prepare_cached(
        "INSERT INTO packs (name, bytes) VALUES (?1, ?2)
         ON CONFLICT (name) DO UPDATE SET bytes = bytes + ?2 RETURNING id",
    )?
    .query_row(params![name, int(more)], |row| row.get(0))
    .optional()?
    .ok_or(rusqlite::Error::QueryReturnedNoRows)
}
