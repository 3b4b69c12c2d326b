//! A line of a journal: JSON with the origin of a session, one of its entries, or bytes that an
//! entry refers to.
//!
//! Invariant: the JSON of an entry is in its line byte for byte as it was first stored.

use std::borrow::Cow;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::chain_hash::ChainHash;
use crate::core::entry::Seq;

/// Version of the line format. A newer one is not read.
pub const FORM: u32 = 2;
/// Maximum size of what a reader of bundles and of shared sessions holds at a time, bytes after
/// decompression. No line is longer.
pub const MAX_HELD: usize = 64 << 20;
/// The version that says all about a session, except about a replica. Older versions of rewake read
/// it.
pub const FIRST_FORM: u32 = 1;

/// The first line of each file and of each frame.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Header {
    /// [`FIRST_FORM`], and [`FORM`] for a replica.
    pub rewake: u32,
    /// ID of the store that wrote it.
    pub store: String,
    pub session: String,
    pub workspace: String,
    pub folder: String,
    /// UTC, milliseconds since 1970.
    pub created_ms: i64,
    /// For a fork: the entry that it continues from.
    pub forked: Option<Parent>,
    /// The session is a copy, and only an import appends to it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub replica: bool,
    /// For a copy of a session of another store: where it comes from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// The machine that wrote it: `MACHINE:BOOT:NAME`, the first two as hashes. `None`: an older
    /// version wrote it, or the system does not identify the machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub machine: Option<String>,
    /// Sequence number of the next entry, and the tip of all entries before it.
    pub first: Seq,
    pub tip: ChainHash,
}

/// The last entry that a fork shares with another session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Parent {
    pub session: String,
    pub seq: Seq,
}

/// One entry.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct EntryLine {
    pub seq: Seq,
    pub at_ms: i64,
    pub tip: ChainHash,
    /// Row ID of the queued message that became this entry.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub taken: Option<i64>,
    /// Row ID of the signal that became this entry.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signal: Option<i64>,
    /// Whether work is pending after this entry, without a new message.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub owed: bool,
    pub entry: Box<RawValue>,
}

impl EntryLine {
    /// Returns whether this entry was recorded after the chain with this tip.
    pub fn follows(&self, before: ChainHash) -> bool {
        self.tip == before.and(self.seq, self.at_ms, self.entry.get().as_bytes())
    }
}

/// Bytes that a later entry refers to: text, or base64.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BlobLine<'a> {
    /// blake3, in hex.
    pub blob: Cow<'a, str>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<Cow<'a, str>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base64: Option<Cow<'a, str>>,
}

impl BlobLine<'_> {
    pub fn of(bytes: &[u8]) -> BlobLine<'_> {
        let (text, base64) = spelled(bytes);
        BlobLine {
            blob: blake3::hash(bytes).to_hex().to_string().into(),
            text,
            base64,
        }
    }

    /// Returns the bytes. `None`: they do not match the hash.
    pub fn bytes(&self) -> Option<Vec<u8>> {
        let bytes = bytes_of(self.text.as_deref(), self.base64.as_deref())?;
        (blake3::hash(&bytes).to_hex().as_str() == self.blob).then_some(bytes)
    }
}

/// Returns bytes as text if they are UTF-8, else in base64.
pub fn spelled(bytes: &[u8]) -> (Option<Cow<'_, str>>, Option<Cow<'_, str>>) {
    match std::str::from_utf8(bytes) {
        Ok(text) => (Some(text.into()), None),
        Err(_) => (None, Some(STANDARD.encode(bytes).into())),
    }
}

/// Returns the bytes of [`spelled`]. `None`: none or both are there, or it is not base64.
pub fn bytes_of(text: Option<&str>, base64: Option<&str>) -> Option<Vec<u8>> {
    match (text, base64) {
        (Some(text), None) => Some(text.as_bytes().to_vec()),
        (None, Some(text)) => STANDARD.decode(text.as_bytes()).ok(),
        _ => None,
    }
}

/// Any line that was read.
pub enum Line {
    Header(Header),
    Entry(EntryLine),
    /// Bytes whose hash was checked.
    Blob(Vec<u8>),
}

impl Line {
    /// Parses a line. `None`: it is torn, or not a line of a journal.
    pub fn read(line: &[u8]) -> Option<Line> {
        let line = std::str::from_utf8(line).ok()?;
        // The first key of a line tells its kind.
        if line.starts_with("{\"seq\"") {
            return serde_json::from_str(line).ok().map(Line::Entry);
        }
        if line.starts_with("{\"blob\"") {
            let blob: BlobLine<'_> = serde_json::from_str(line).ok()?;
            return blob.bytes().map(Line::Blob);
        }
        let header: Header = serde_json::from_str(line).ok()?;
        let is_known = (FIRST_FORM..=FORM).contains(&header.rewake);
        is_known.then_some(Line::Header(header))
    }
}

/// Returns whether this line is a header of a newer format version.
pub fn is_newer(line: &[u8]) -> bool {
    #[derive(Deserialize)]
    struct Form {
        rewake: u32,
    }
    serde_json::from_slice::<Form>(line).is_ok_and(|form| form.rewake > FORM)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_come_back_as_they_were_and_changed_ones_do_not() {
        for bytes in [&b"text\nwith \"all\" \xc3\xa4"[..], &[0xff, 0, 1], b""] {
            let line = serde_json::to_string(&BlobLine::of(bytes)).unwrap();
            assert!(!line.contains('\n'));
            match Line::read(line.as_bytes()) {
                Some(Line::Blob(read)) => assert_eq!(read, bytes),
                _ => panic!("{line}"),
            }
            let torn = &line[..line.len() - 1];
            assert!(Line::read(torn.as_bytes()).is_none());
        }
        let other = serde_json::to_string(&BlobLine::of(b"one")).unwrap();
        assert!(Line::read(other.replace("one", "two").as_bytes()).is_none());
    }

    #[test]
    fn the_json_of_an_entry_is_not_touched() {
        let entry = r#"{"kind":"noted",  "b":1, "a":2e0}"#;
        let line = EntryLine {
            seq: 7,
            at_ms: 1,
            tip: ChainHash::of_nothing(),
            taken: None,
            signal: None,
            owed: false,
            entry: RawValue::from_string(entry.to_string()).unwrap(),
        };
        let line = serde_json::to_string(&line).unwrap();
        match Line::read(line.as_bytes()) {
            Some(Line::Entry(read)) => assert_eq!(read.entry.get(), entry),
            _ => panic!("{line}"),
        }
    }

    #[test]
    fn a_newer_form_is_not_read() {
        let header = Header {
            rewake: FORM,
            store: "s".into(),
            session: "01a1".into(),
            workspace: "/w".into(),
            folder: "/w".into(),
            created_ms: 1,
            forked: None,
            replica: false,
            source: None,
            machine: None,
            first: 0,
            tip: ChainHash::of_nothing(),
        };
        let line = serde_json::to_string(&header).unwrap();
        assert!(matches!(Line::read(line.as_bytes()), Some(Line::Header(h)) if h == header));
        let newer = line.replace("\"rewake\":2", "\"rewake\":3");
        assert!(Line::read(newer.as_bytes()).is_none());
    }
}
