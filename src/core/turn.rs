//! Groups the log into turns: one message of the user, or one answer with its results. The context
//! shrinks by whole turns, so that a result never appears without its call.

use super::entry::{Entry, Record, Seq};

/// Entries from `first` to `last`, both included.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TurnRange {
    /// The place of the first entry.
    pub first: Seq,
    /// The place of the last entry, which is part of the range.
    pub last: Seq,
}

/// A turn: one message of the user, or one answer with its results.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Turn {
    pub range: TurnRange,
    /// The time of its first entry: UTC, milliseconds since 1970.
    pub began_ms: i64,
    /// The time of its last entry: UTC, milliseconds since 1970.
    pub ended_ms: i64,
    /// Approximate size of its entries in a request, in bytes.
    pub bytes: usize,
}

fn begins(entry: &Entry) -> bool {
    matches!(entry, Entry::Said { .. } | Entry::Replied { .. })
}

/// Groups records into turns, oldest first. Entries before the first message or answer form a
/// separate group. `bytes_of` returns the size of a record in a request.
pub fn turns(context: &[Record], bytes_of: impl Fn(&Record) -> usize) -> Vec<Turn> {
    let mut all: Vec<Turn> = Vec::new();
    for record in context {
        let bytes = bytes_of(record);
        match all.last_mut() {
            Some(last) if !begins(&record.entry) => {
                last.range.last = record.seq;
                last.ended_ms = record.at_ms;
                last.bytes += bytes;
            }
            _ => all.push(Turn {
                range: TurnRange {
                    first: record.seq,
                    last: record.seq,
                },
                began_ms: record.at_ms,
                ended_ms: record.at_ms,
                bytes,
            }),
        }
    }
    all
}

/// Returns whether these entries are the oldest turns of the context, but not all of it.
pub fn is_compactable(context: &[Record], first: Seq, last: Seq) -> bool {
    let begins_there = context.first().is_some_and(|r| r.seq == first);
    let next = context.iter().find(|r| r.seq > last);
    let ends_there = context.iter().any(|r| r.seq == last);
    begins_there && ends_there && next.is_some_and(|r| begins(&r.entry))
}
