//! The tip of a chain: a hash of its last entry and of all entries before it. Two chains with the
//! same tip are the same. A chain that contains the tip of another one continues it.
//!
//! Invariant: the hash is of the JSON as it was first stored. The JSON is never serialised again
//! for it, since another version may order the keys in another way. Row IDs are not part of it.

use std::borrow::Cow;
use std::fmt;

use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::core::entry::Seq;

/// Size of a tip, in a row and in a file.
pub const TIP_BYTES: usize = 16;

/// The input of the hash for an empty chain.
const NOTHING: &[u8] = b"rewake: a session without an entry";

/// `tip(n) = blake3(tip(n-1), seq, at_ms, JSON of the entry)`, its first 16 bytes. Numbers are
/// 8 bytes, little-endian.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct ChainHash([u8; TIP_BYTES]);

impl ChainHash {
    /// Returns the tip of a chain without entries.
    pub fn of_nothing() -> ChainHash {
        ChainHash::short(blake3::Hasher::new().update(NOTHING))
    }

    /// Returns the tip of this chain with one more entry.
    pub fn and(self, seq: Seq, at_ms: i64, json: &[u8]) -> ChainHash {
        ChainHash::short(
            blake3::Hasher::new()
                .update(&self.0)
                .update(&seq.to_le_bytes())
                .update(&at_ms.to_le_bytes())
                .update(json),
        )
    }

    /// Reads a tip from a row. `None`: these are not 16 bytes.
    pub fn from_bytes(bytes: &[u8]) -> Option<ChainHash> {
        bytes.try_into().ok().map(ChainHash)
    }

    /// Parses a tip. `None`: these are not 32 hex digits.
    pub fn from_hex(hex: &str) -> Option<ChainHash> {
        let mut bytes = [0; TIP_BYTES];
        let digits = hex.as_bytes();
        if digits.len() != 2 * TIP_BYTES || !digits.iter().all(u8::is_ascii_hexdigit) {
            return None;
        }
        for (byte, at) in bytes.iter_mut().zip((0..digits.len()).step_by(2)) {
            *byte = u8::from_str_radix(&hex[at..at + 2], 16).ok()?;
        }
        Some(ChainHash(bytes))
    }

    /// Returns the bytes, as they are in a row.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    fn short(hasher: &blake3::Hasher) -> ChainHash {
        let mut short = [0; TIP_BYTES];
        hasher.finalize_xof().fill(&mut short);
        ChainHash(short)
    }
}

impl Serialize for ChainHash {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&format_args!("{self:?}"))
    }
}

impl<'de> Deserialize<'de> for ChainHash {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<ChainHash, D::Error> {
        let hex = <Cow<'de, str>>::deserialize(deserializer)?;
        ChainHash::from_hex(&hex).ok_or_else(|| D::Error::custom("a tip is 32 hex digits"))
    }
}

impl fmt::Debug for ChainHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_chain_hash_depends_on_every_part_and_on_all_before() {
        let first = ChainHash::of_nothing().and(0, 7, b"x");
        let tips = [
            ChainHash::of_nothing(),
            first,
            ChainHash::of_nothing().and(1, 7, b"x"),
            ChainHash::of_nothing().and(0, 8, b"x"),
            ChainHash::of_nothing().and(0, 7, b"y"),
            first.and(1, 7, b"x"),
            ChainHash::of_nothing().and(0, 8, b"x").and(1, 7, b"x"),
        ];
        for (i, a) in tips.iter().enumerate() {
            assert!(tips[i + 1..].iter().all(|b| a != b));
        }
    }

    /// Databases store tips, so the hash must never change.
    #[test]
    fn the_chain_hash_never_changes() {
        let tip = ChainHash::of_nothing().and(0, 1_000, br#"{"kind":"noted","text":"x"}"#);
        assert_eq!(format!("{tip:?}"), "37bff7e1306f459b27c6af6af4f84182");
        assert_eq!(ChainHash::from_bytes(tip.as_bytes()), Some(tip));
        assert_eq!(ChainHash::from_bytes(b"short"), None);
    }
}
