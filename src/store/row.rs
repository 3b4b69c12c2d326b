//! Rows of `entries`: how they are written, and how they are verified when they are read.

use rusqlite::types::{ToSqlOutput, ValueRef};
use rusqlite::{Row, ToSql};
use serde::de::DeserializeOwned;
use zstd::bulk::{Compressor, Decompressor};
use zstd::zstd_safe::{compress_bound, get_frame_content_size};

use super::StoreError;
use super::error::{classify, io};
use crate::core::entry::{Entry, Record, Seq};
use crate::journal::chain_hash::ChainHash;

/// Maximum size of a row or a blob, in bytes.
pub(super) const MAX_ROW_BYTES: i32 = 256 << 20;

pub(super) const CHECKSUM_BYTES: usize = 16;

/// The columns that [`RawRow::take`] reads.
pub(super) const SELECT_ROW: &str =
    "SELECT id, parent, seq, at_ms, kind, checksum, body, tip FROM entries WHERE id = ?1";

/// Size from which bodies are compressed, in bytes. Smaller ones can be read with plain SQL.
const COMPRESS_FROM_BYTES: usize = 1024;
const ZSTD_LEVEL: i32 = 1;

/// The JSON of an entry, and its stored form.
pub(crate) struct Body {
    json: String,
    /// The compressed form, if it is smaller.
    zstd: Option<Vec<u8>>,
}

impl Body {
    pub(super) fn new(entry: &Entry) -> serde_json::Result<Body> {
        Ok(Body::of(serde_json::to_string(entry)?))
    }

    pub(crate) fn of(json: String) -> Body {
        let zstd = match json.len() {
            ..COMPRESS_FROM_BYTES => None,
            _ => zstd::bulk::compress(json.as_bytes(), ZSTD_LEVEL).ok(),
        };
        let zstd = zstd.filter(|small| small.len() < json.len());
        Body { json, zstd }
    }

    /// Returns a body as it was stored before. `zstd` is the compressed form, if there was one.
    pub(crate) fn as_stored(json: String, zstd: Option<Vec<u8>>) -> Body {
        Body { json, zstd }
    }

    /// Returns the stored bytes.
    pub(crate) fn bytes(&self) -> &[u8] {
        self.zstd.as_deref().unwrap_or(self.json.as_bytes())
    }

    pub(crate) fn json(&self) -> &str {
        &self.json
    }
}

impl ToSql for Body {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::Borrowed(match &self.zstd {
            None => ValueRef::Text(self.json.as_bytes()),
            Some(bytes) => ValueRef::Blob(bytes),
        }))
    }
}

/// A compressor for many bodies, with the result of [`Body::of`] for each: to set up a compressor
/// costs more than to compress a body.
pub(crate) struct BodyPacker {
    zstd: Compressor<'static>,
    packed: Vec<u8>,
}

impl BodyPacker {
    pub(crate) fn new() -> Result<BodyPacker, StoreError> {
        let zstd = Compressor::new(ZSTD_LEVEL).map_err(|e| io("write entries", e))?;
        Ok(BodyPacker {
            zstd,
            packed: Vec::new(),
        })
    }

    /// Returns the body as it is stored, and whether that is compressed.
    pub(crate) fn pack<'b>(&'b mut self, json: &'b [u8]) -> (&'b [u8], bool) {
        if json.len() < COMPRESS_FROM_BYTES {
            return (json, false);
        }
        self.packed.clear();
        self.packed.reserve(compress_bound(json.len()));
        match self.zstd.compress_to_buffer(json, &mut self.packed) {
            Ok(bytes) if bytes < json.len() => (&self.packed, true),
            _ => (json, false),
        }
    }
}

/// A reader of many bodies with one buffer and one decompressor: to set these up costs more than to
/// read a body.
pub(crate) struct BodyReader {
    zstd: Decompressor<'static>,
    json: Vec<u8>,
}

impl BodyReader {
    pub(crate) fn new() -> Result<BodyReader, StoreError> {
        let zstd = Decompressor::new().map_err(|e| io("read entries", e))?;
        Ok(BodyReader {
            zstd,
            json: Vec::new(),
        })
    }

    /// Returns the entry in a stored body, or why there is none.
    pub(super) fn read(&mut self, body: ValueRef<'_>) -> Result<Entry, String> {
        self.read_as(body)
    }

    /// Returns a part of the entry in a stored body: fields that the type does not name are
    /// skipped.
    pub(super) fn read_as<T: DeserializeOwned>(&mut self, body: ValueRef<'_>) -> Result<T, String> {
        let json = self.json(body)?;
        serde_json::from_slice(json).map_err(|e| e.to_string())
    }

    /// Returns the JSON in a stored body, or why there is none.
    pub(crate) fn json<'b>(&'b mut self, body: ValueRef<'b>) -> Result<&'b [u8], String> {
        match body {
            ValueRef::Text(json) => Ok(json),
            ValueRef::Blob(packed) => {
                self.unpack(packed).ok_or("it cannot be decompressed")?;
                Ok(&self.json)
            }
            _ => Err("it is neither text nor bytes".to_string()),
        }
    }

    fn unpack(&mut self, packed: &[u8]) -> Option<()> {
        let size = usize::try_from(get_frame_content_size(packed).ok()??).ok()?;
        let limit = usize::try_from(MAX_ROW_BYTES).ok()?;
        self.json.clear();
        self.json.reserve(size.min(limit));
        self.zstd
            .decompress_to_buffer(packed, &mut self.json)
            .ok()
            .map(drop)
    }
}

/// Returns the checksum of a row. It covers the place of the entry too, so that a row cannot pass
/// for another. Length fields are fixed, so no two rows give the same bytes.
pub(crate) fn checksum(
    parent: Option<i64>,
    seq: Seq,
    at_ms: i64,
    body: &[u8],
) -> [u8; CHECKSUM_BYTES] {
    let mut hasher = blake3::Hasher::new();
    // Row ids begin at 1.
    hasher.update(&parent.unwrap_or(0).to_le_bytes());
    hasher.update(&seq.to_le_bytes());
    hasher.update(&at_ms.to_le_bytes());
    hasher.update(body);
    let mut short = [0; CHECKSUM_BYTES];
    hasher.finalize_xof().fill(&mut short);
    short
}

/// A row as stored, borrowed from the statement and not verified yet.
pub(super) struct RawRow<'a> {
    id: i64,
    parent: Option<i64>,
    seq: i64,
    at_ms: i64,
    kind: &'a [u8],
    checksum: &'a [u8],
    body: ValueRef<'a>,
    /// The tip. `None`: it is damaged.
    tip: Option<ChainHash>,
}

/// The damage of a row without a tip.
pub(super) const NO_TIP: &str = "its tip is missing";

/// The position that a row must have to be the wanted entry.
pub(super) struct RowPosition<'a> {
    pub session: &'a str,
    pub id: i64,
    pub parent: Option<i64>,
    pub seq: Seq,
}

/// Returns the positions of a part of a chain, from the entry `first`. `rows` begins with the row of
/// the entry before it, if there is one.
pub(super) fn row_positions<'a>(
    session: &'a str,
    first: Seq,
    mut rows: impl Iterator<Item = i64>,
) -> impl Iterator<Item = RowPosition<'a>> {
    let mut parent = if first == 0 { None } else { rows.next() };
    (first..).zip(rows).map(move |(seq, id)| RowPosition {
        session,
        id,
        parent: parent.replace(id),
        seq,
    })
}

/// An entry that was read, with the tip of its chain up to it.
pub(super) struct Linked {
    pub record: Record,
    pub tip: ChainHash,
}

impl RowPosition<'_> {
    pub(super) fn corrupt(&self, what: String) -> StoreError {
        StoreError::Corrupt {
            session: self.session.to_string(),
            seq: self.seq,
            what,
            can_append: true,
            in_journal: 0,
        }
    }

    /// Returns the error for a row that cannot be read. A damaged page counts as damage of this
    /// entry.
    pub(super) fn failed(&self, what: &'static str, error: rusqlite::Error) -> StoreError {
        if matches!(error, rusqlite::Error::QueryReturnedNoRows) {
            return self.corrupt("it is missing".to_string());
        }
        match classify(what, error) {
            StoreError::Damaged { what, .. } => self.corrupt(what),
            error => error,
        }
    }
}

/// An owned row that outlives the statement, for another thread.
pub(super) struct KeptRow {
    id: i64,
    parent: Option<i64>,
    seq: i64,
    at_ms: i64,
    kind: Vec<u8>,
    checksum: Vec<u8>,
    body: Vec<u8>,
    /// Whether the body is text. `None` if it is neither text nor bytes.
    is_text: Option<bool>,
    tip: Option<ChainHash>,
}

impl KeptRow {
    pub(super) fn as_raw(&self) -> RawRow<'_> {
        RawRow {
            id: self.id,
            parent: self.parent,
            seq: self.seq,
            at_ms: self.at_ms,
            kind: &self.kind,
            checksum: &self.checksum,
            body: match self.is_text {
                Some(true) => ValueRef::Text(&self.body),
                Some(false) => ValueRef::Blob(&self.body),
                None => ValueRef::Null,
            },
            tip: self.tip,
        }
    }

    pub(super) fn bytes(&self) -> usize {
        self.body.len()
    }

    /// Returns the tip that the row states.
    pub(super) fn tip(&self) -> Option<ChainHash> {
        self.tip
    }
}

impl<'a> RawRow<'a> {
    pub(super) fn take(row: &'a Row<'_>) -> rusqlite::Result<RawRow<'a>> {
        Ok(RawRow {
            id: row.get(0)?,
            parent: row.get(1)?,
            seq: row.get(2)?,
            at_ms: row.get(3)?,
            kind: row.get_ref(4)?.as_bytes()?,
            checksum: row.get_ref(5)?.as_bytes()?,
            body: row.get_ref(6)?,
            tip: ChainHash::from_bytes(row.get_ref(7)?.as_blob()?),
        })
    }

    pub(super) fn keep(&self) -> KeptRow {
        let (body, is_text) = match self.body {
            ValueRef::Text(text) => (text, Some(true)),
            ValueRef::Blob(bytes) => (bytes, Some(false)),
            ValueRef::Null | ValueRef::Integer(_) | ValueRef::Real(_) => (&[][..], None),
        };
        KeptRow {
            id: self.id,
            parent: self.parent,
            seq: self.seq,
            at_ms: self.at_ms,
            kind: self.kind.to_vec(),
            checksum: self.checksum.to_vec(),
            body: body.to_vec(),
            is_text,
            tip: self.tip,
        }
    }

    /// Returns the JSON in the body of a verified row.
    pub(super) fn json(&self, bodies: &mut BodyReader) -> String {
        let json = bodies.json(self.body).unwrap_or_default();
        String::from_utf8_lossy(json).into_owned()
    }

    /// Returns the entry if it is the wanted one and follows the one with the tip `before`, which
    /// is `None` if it is not known.
    pub(super) fn verify(
        &self,
        position: &RowPosition<'_>,
        before: Option<ChainHash>,
        bodies: &mut BodyReader,
    ) -> Result<Linked, StoreError> {
        let corrupt = |what: String| position.corrupt(what);
        if self.id != position.id || self.parent != position.parent {
            return Err(corrupt("it does not follow the entry before it".into()));
        }
        if self.seq != int(position.seq) {
            return Err(corrupt(format!("it says it is entry {}", self.seq)));
        }
        let body = self.body.as_bytes().unwrap_or_default();
        if self.checksum != checksum(self.parent, position.seq, self.at_ms, body) {
            return Err(corrupt("its checksum is wrong".into()));
        }
        let unknown = |why: String| StoreError::Unknown {
            session: position.session.to_string(),
            seq: position.seq,
            kind: String::from_utf8_lossy(self.kind).into_owned(),
            why,
        };
        let json = bodies.json(self.body).map_err(unknown)?;
        let tip = self.tip.ok_or_else(|| corrupt(NO_TIP.into()))?;
        if before.is_some_and(|before| before.and(position.seq, self.at_ms, json) != tip) {
            return Err(corrupt(
                "it is not what was recorded behind the entry before it (its tip is wrong)".into(),
            ));
        }
        let entry: Entry = serde_json::from_slice(json).map_err(|e| unknown(e.to_string()))?;
        if entry.kind().as_bytes() != self.kind {
            return Err(corrupt(format!("it is {:?} inside", entry.kind())));
        }
        Ok(Linked {
            record: Record {
                seq: position.seq,
                at_ms: self.at_ms,
                entry,
            },
            tip,
        })
    }
}

/// Converts a count to a signed integer of SQLite. Counts of this program never come near the
/// limit.
pub(super) fn int(n: u64) -> i64 {
    i64::try_from(n).unwrap_or(i64::MAX)
}

/// Maximum sum of tokens, far above that of all answers of a session. A larger sum came from a
/// server that counted nonsense, and was written before such counts were left out. One more answer
/// would overflow the column.
pub(super) const MAX_SUM_OF_TOKENS: i64 = 1 << 53;

/// Returns a sum of tokens for writing and reading. An impossible sum becomes 0.
pub(super) fn sum_of_tokens(n: i64) -> i64 {
    match n {
        0..=MAX_SUM_OF_TOKENS => n,
        _ => 0,
    }
}

/// Converts a count from the database. A negative value becomes 0.
pub(crate) fn count(n: i64) -> u64 {
    u64::try_from(n).unwrap_or(0)
}

/// Returns one line of at most `chars` characters.
pub(super) fn clip(text: &str, chars: usize) -> String {
    // The first part is enough, however long the text is.
    let start: String = text.trim_start().chars().take(chars * 4).collect();
    let line = start.split_whitespace().collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(chars) {
        Some((end, _)) => format!("{}…", line[..end].trim_end()),
        None => line,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn titles_are_one_line() {
        assert_eq!(clip("  fix\n the\tparser ", 80), "fix the parser");
        assert_eq!(clip("äöü äöü", 4), "äöü…");
        assert_eq!(clip("", 4), "");
    }

    #[test]
    fn bodies_that_are_packed_in_a_row_are_those_that_are_packed_alone() {
        let mut packer = BodyPacker::new().unwrap();
        let noise = (0..2_000_u32)
            .map(|n| char::from(b' ' + (blake3::hash(&n.to_le_bytes()).as_bytes()[0] % 90)));
        let short = "x".repeat(COMPRESS_FROM_BYTES - 1);
        for json in [
            short,
            "x".repeat(9_000),
            noise.collect(),
            "y".repeat(COMPRESS_FROM_BYTES),
        ] {
            let body = Body::of(json.clone());
            let (packed, is_packed) = packer.pack(json.as_bytes());
            assert_eq!((packed, is_packed), (body.bytes(), body.zstd.is_some()));
        }
    }

    #[test]
    fn the_checksum_depends_on_every_part() {
        let sums = [
            checksum(None, 1, 2, b"x"),
            checksum(Some(1), 1, 2, b"x"),
            checksum(None, 2, 2, b"x"),
            checksum(None, 1, 3, b"x"),
            checksum(None, 1, 2, b"y"),
        ];
        for (i, a) in sums.iter().enumerate() {
            assert!(sums[i + 1..].iter().all(|b| a != b));
        }
    }
}
