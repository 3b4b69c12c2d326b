//! Reading entries of a database in parts, with the bytes that they refer to.
//!
//! Invariant: a part has at most [`MAX_HELD`] of decompressed bytes, whatever the rows say. Anybody
//! with a role may have written them.

use zstd::bulk::decompress;

use super::log::{EndOfLog, StoredLine, StoredLog};
use super::{SharedError, hashes_of};
use crate::core::entry::Seq;
use crate::journal::line::{EntryLine, Line, MAX_HELD};
use crate::store::shared::NewLines;

/// Returns the next entries of a session after an end, at least one, and at most until another end.
/// `None`: the first of them does not follow. `own`: only entries that the store with this key
/// recorded, which has their bytes.
///
/// # Errors
/// `Lost`: another program wrote one. `Setup`: one is missing, too large, or does not follow.
pub(super) async fn next_part(
    log: &mut impl StoredLog,
    session: &str,
    after: EndOfLog,
    until: EndOfLog,
    own: Option<&[u8; 32]>,
) -> Result<Option<NewLines>, SharedError> {
    let wanted = usize::try_from(until.1.saturating_sub(after.1)).unwrap_or(usize::MAX);
    let mut part = NewLines::default();
    let mut end = after;
    let mut left = MAX_HELD;
    for stored in log.lines(session, after.1).await?.iter().take(wanted) {
        let is_first = part.lines.is_empty();
        let Some((json, line)) = read(stored, left) else {
            break;
        };
        if own.is_some_and(|key| !is_of(key, session, stored, &json)) {
            return Err(SharedError::foreign(session, end.1));
        }
        if line.seq != end.1 || !line.follows(end.0) {
            match is_first && line.seq == end.1 {
                true => return Ok(None),
                false => break,
            }
        }
        let line = match own {
            Some(_) => line,
            // Rows of the queues of the store that recorded it mean nothing here.
            None => EntryLine {
                taken: None,
                signal: None,
                owed: false,
                ..line
            },
        };
        let room = left.saturating_sub(json.len());
        drop(json);
        let Some(blobs) = blobs_of(log, session, &line, room, own.is_some()).await? else {
            break;
        };
        left = room.saturating_sub(blobs.iter().map(Vec::len).sum());
        end = (line.tip, line.seq + 1);
        part.blobs.extend(blobs);
        part.lines.push(line);
    }
    // What does not fit is at the begin of the next part.
    match part.lines.is_empty() || end.1 == until.1 && end != until {
        true => Err(SharedError::gap(session, end.1)),
        false => Ok(Some(part)),
    }
}

/// Returns the bytes that a line refers to. `None`: they do not fit, or are not there.
async fn blobs_of(
    log: &mut impl StoredLog,
    session: &str,
    line: &EntryLine,
    room: usize,
    may_lack: bool,
) -> Result<Option<Vec<Vec<u8>>>, SharedError> {
    let hashes = hashes_of(std::slice::from_ref(line));
    if hashes.is_empty() {
        return Ok(Some(Vec::new()));
    }
    let mut found = log.objects(session, &hashes).await?;
    // An object with another hash is as good as missing.
    found.retain(|(hash, bytes)| blake3::hash(bytes).as_bytes() == hash);
    let bytes: usize = found.iter().map(|(_, bytes)| bytes.len()).sum();
    // What is not there would be taken from another session of the store.
    let is_whole = hashes
        .iter()
        .all(|hash| found.iter().any(|(of, _)| of == hash));
    let blobs = found.into_iter().map(|(_, bytes)| bytes).collect();
    Ok((bytes <= room && (is_whole || may_lack)).then_some(blobs))
}

/// Reads a stored line of at most this size, without any check of its origin.
fn read(stored: &StoredLine, most: usize) -> Option<(Vec<u8>, EntryLine)> {
    let json = decompress(&stored.body, most).ok()?;
    match Line::read(&json) {
        Some(Line::Entry(entry)) => Some((json, entry)),
        _ => None,
    }
}

/// Returns whether the store with this key recorded every line from this place on.
///
/// # Errors
/// There is none.
pub(super) async fn all_of(
    log: &mut impl StoredLog,
    session: &str,
    (mut place, until): (Seq, Seq),
    key: &[u8; 32],
) -> Result<bool, SharedError> {
    while place < until {
        let stored = log.lines(session, place).await?;
        if stored.is_empty() {
            return Err(SharedError::gap(session, place));
        }
        for line in &stored {
            match read(line, MAX_HELD) {
                Some((json, _)) if is_of(key, session, line, &json) => place += 1,
                _ => return Ok(false),
            }
        }
    }
    Ok(true)
}

/// Returns whether the store with this key recorded a line.
fn is_of(key: &[u8; 32], session: &str, stored: &StoredLine, json: &[u8]) -> bool {
    blake3::Hash::from(mac(key, session, json)) == blake3::Hash::from(stored.mac)
}

/// Returns the code by which a store knows its own lines.
pub(super) fn mac(key: &[u8; 32], session: &str, json: &[u8]) -> [u8; 32] {
    let mut hasher = blake3::Hasher::new_keyed(key);
    hasher.update(session.as_bytes()).update(json);
    *hasher.finalize().as_bytes()
}
