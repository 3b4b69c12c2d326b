//! Bytes too big for an entry, kept once under their hash, compressed when that helps.

use rusqlite::{Connection, OptionalExtension, params};

use super::error::Doing;
use super::row::{MAX_ROW_BYTES, int};
use super::{Store, StoreError};
use crate::core::entry::BlobRef;

const ZSTD_LEVEL: i32 = 3;

/// The reference an entry keeps to these bytes.
pub fn blob_ref(bytes: &[u8]) -> BlobRef {
    BlobRef {
        hash: blake3::hash(bytes).to_hex().to_string(),
        bytes: bytes.len() as u64,
    }
}

impl Store {
    /// The bytes with this hash (blake3 in hex), checked against it.
    pub fn blob(&self, hash: &str) -> Result<Option<Vec<u8>>, StoreError> {
        let Ok(wanted) = blake3::Hash::from_hex(hash) else {
            return Err(StoreError::NotFound {
                what: "blob",
                name: hash.to_string(),
                near: None,
            });
        };
        let row: Option<(i64, bool, Vec<u8>)> = self
            .conn
            .prepare_cached("SELECT bytes, encoding = 'zstd', data FROM blobs WHERE hash = ?1")
            .and_then(|mut s| {
                s.query_row([wanted.as_bytes()], |row| {
                    Ok((row.get(0)?, row.get(1)?, row.get(2)?))
                })
                .optional()
            })
            .doing("read a blob")?;
        let Some((bytes, compressed, data)) = row else {
            return Ok(None);
        };
        unpack(bytes, compressed, data)
            .filter(|data| blake3::hash(data) == wanted)
            .map(Some)
            .ok_or_else(|| StoreError::damaged(format!("blob {hash} is not what it was")))
    }
}

/// The bytes in a row as it lies there, if they are those that the hash is of.
pub(super) fn checked(hash: &[u8], bytes: i64, encoding: &str, data: &[u8]) -> Option<Vec<u8>> {
    let whole = unpack(bytes, encoding == "zstd", data.to_vec())?;
    (blake3::hash(&whole).as_bytes() == hash).then_some(whole)
}

/// Never gives more than the size that was recorded, whatever the compressed data says.
fn unpack(bytes: i64, compressed: bool, data: Vec<u8>) -> Option<Vec<u8>> {
    let size = usize::try_from(bytes.min(i64::from(MAX_ROW_BYTES))).ok()?;
    let data = if compressed {
        zstd::bulk::decompress(&data, size).ok()?
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
    let (encoding, data) = match &blob.compressed {
        Some(small) => ("zstd", small.as_slice()),
        None => ("raw", blob.whole),
    };
    tx.prepare_cached(
        "INSERT INTO blobs (hash, bytes, encoding, data) VALUES (?1, ?2, ?3, ?4)
         ON CONFLICT (hash) DO NOTHING",
    )?
    .execute(params![
        blob.hash.as_bytes(),
        int(blob.whole.len() as u64),
        encoding,
        data
    ])?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_decompression_bomb_is_not_unpacked() {
        let bomb = zstd::bulk::compress(&vec![0; 10 << 20], 3).unwrap();
        assert_eq!(unpack(100, true, bomb.clone()), None);
        assert_eq!(unpack(-1, true, bomb.clone()), None);
        assert_eq!(
            unpack(10 << 20, true, bomb).map(|b| b.len()),
            Some(10 << 20)
        );
    }
}
