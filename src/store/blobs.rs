//! Blobs: bytes too large for an entry, stored once under their hash, and compressed when that
//! helps.

use std::borrow::Cow;

use rusqlite::{Connection, OptionalExtension, params};

use super::error::Doing;
use super::replica::IS_SHARED;
use super::row::{BodyReader, MAX_ROW_BYTES, int};
use super::{Store, StoreError, cached};
use crate::core::entry::BlobRef;

const ZSTD_LEVEL: i32 = 3;
const LOOK: &str = "look for a blob";

/// Returns the reference that an entry stores for these bytes.
pub fn blob_ref(bytes: &[u8]) -> BlobRef {
    BlobRef {
        hash: blake3::hash(bytes).to_hex().to_string(),
        bytes: bytes.len() as u64,
    }
}

impl Store {
    /// Reads the bytes with this hash (blake3 in hex) and verifies them.
    pub fn blob(&self, hash: &str) -> Result<Option<Vec<u8>>, StoreError> {
        blob(&self.conn, hash)
    }

    /// Returns whether an entry of a session refers to a blob, or, unless the session is shared, an
    /// entry of its workspace. Its own newest entries are read first.
    pub fn refers_to(&self, session: &str, hash: &str) -> Result<bool, StoreError> {
        let sql = format!(
            "WITH RECURSIVE chain (id) AS (SELECT head FROM sessions WHERE id = ?1 UNION ALL
               SELECT e.parent FROM chain JOIN entries e ON e.id = chain.id WHERE e.parent < e.id)
             SELECT e.body FROM chain JOIN entries e ON e.id = chain.id UNION ALL
             SELECT e.body FROM sessions o JOIN entries e ON o.key = e.session WHERE o.workspace =
               (SELECT workspace FROM sessions s WHERE id = ?1 AND NOT {IS_SHARED})"
        );
        let mut bodies = BodyReader::new()?;
        let mut statement = self.conn.prepare(&sql).doing(LOOK)?;
        let mut rows = statement.query([session]).doing(LOOK)?;
        while let Some(row) = rows.next().doing(LOOK)? {
            // An entry that cannot be read names nothing.
            let entry = bodies.read(row.get_ref(0).doing(LOOK)?);
            if entry.is_ok_and(|entry| entry.blobs().any(|blob| blob.hash == hash)) {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

/// See [`Store::blob`].
pub(super) fn blob(conn: &Connection, hash: &str) -> Result<Option<Vec<u8>>, StoreError> {
    let Ok(wanted) = blake3::Hash::from_hex(hash) else {
        return Err(StoreError::NotFound {
            what: "blob",
            name: hash.to_string(),
            near: None,
        });
    };
    let sql = "SELECT bytes, encoding = 'zstd', data FROM blobs WHERE hash = ?1";
    let row: Option<(i64, bool, Vec<u8>)> = cached::row(conn, sql, [wanted.as_bytes()], |row| {
        Ok((row.get(0)?, row.get(1)?, row.get(2)?))
    })
    .optional()
    .doing("read a blob")?;
    let Some((bytes, compressed, data)) = row else {
        return Ok(None);
    };
    unpack(bytes, compressed, data.into())
        .filter(|data| blake3::hash(data) == wanted)
        .map(|data| Some(data.into_owned()))
        .ok_or_else(|| StoreError::damaged(format!("blob {hash} is not what it was")))
}

/// A row of `blobs` as stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct BlobRow<'a> {
    pub hash: &'a [u8],
    /// Size before compression.
    pub bytes: i64,
    pub is_packed: bool,
    pub data: &'a [u8],
}

impl BlobRow<'_> {
    /// Returns whether the bytes match the hash.
    pub(super) fn is_whole(&self) -> bool {
        let whole = unpack(self.bytes, self.is_packed, self.data.into());
        whole.is_some_and(|whole| blake3::hash(&whole).as_bytes() == self.hash)
    }

    /// Inserts the row into another database. The caller has verified it.
    pub(super) fn insert(&self, tx: &Connection) -> rusqlite::Result<()> {
        insert(tx, self)
    }

    pub(super) fn is_in(&self, tx: &Connection) -> rusqlite::Result<bool> {
        tx.prepare_cached("SELECT 1 FROM blobs WHERE hash = ?1")?
            .exists([self.hash])
    }
}

/// Decompresses a blob. Returns at most as many bytes as were recorded, whatever the compressed
/// data claims.
fn unpack(bytes: i64, compressed: bool, data: Cow<'_, [u8]>) -> Option<Cow<'_, [u8]>> {
    let size = usize::try_from(bytes.min(i64::from(MAX_ROW_BYTES))).ok()?;
    let data = if compressed {
        zstd::bulk::decompress(&data, size).ok()?.into()
    } else {
        data
    };
    (data.len() == size).then_some(data)
}

/// Bytes as they will be stored.
pub(super) struct Packed<'a> {
    hash: blake3::Hash,
    whole: &'a [u8],
    compressed: Option<Vec<u8>>,
}

impl<'a> Packed<'a> {
    pub(super) fn new(whole: &'a [u8]) -> Packed<'a> {
        let compressed = zstd::bulk::compress(whole, ZSTD_LEVEL)
            .ok()
            .filter(|small| small.len() < whole.len());
        Packed {
            hash: blake3::hash(whole),
            whole,
            compressed,
        }
    }

    pub(super) fn stored_bytes(&self) -> usize {
        self.compressed.as_ref().map_or(self.whole.len(), Vec::len)
    }
}

pub(super) fn insert_blob(tx: &Connection, blob: &Packed<'_>) -> rusqlite::Result<()> {
    let row = BlobRow {
        hash: blob.hash.as_bytes(),
        bytes: int(blob.whole.len() as u64),
        is_packed: blob.compressed.is_some(),
        data: blob.compressed.as_deref().unwrap_or(blob.whole),
    };
    insert(tx, &row)
}

fn insert(tx: &Connection, row: &BlobRow<'_>) -> rusqlite::Result<()> {
    let encoding = if row.is_packed { "zstd" } else { "raw" };
    tx.prepare_cached(
        "INSERT INTO blobs (hash, bytes, encoding, data) VALUES (?1, ?2, ?3, ?4)
         ON CONFLICT (hash) DO NOTHING",
    )?
    .execute(params![row.hash, row.bytes, encoding, row.data])?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_decompression_bomb_is_not_unpacked() {
        let bomb = zstd::bulk::compress(&vec![0; 10 << 20], 3).unwrap();
        assert_eq!(unpack(100, true, bomb[..].into()), None);
        assert_eq!(unpack(-1, true, bomb[..].into()), None);
        assert_eq!(
            unpack(10 << 20, true, bomb.into()).map(|b| b.len()),
            Some(10 << 20)
        );
    }
}
