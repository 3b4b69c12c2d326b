//! Reading entries of a database in parts, with the bytes that they refer to.
//!
//! Invariant: a part has at most the decompressed bytes that its reader wants, whatever the rows say.
//! Anybody with a role may have written them.

use zstd::bulk::decompress;

use super::log::{EndOfLog, StoredLine, StoredLog};
use super::{SharedError, hashes_of};
use crate::core::entry::Seq;
use crate::journal::line::{EntryLine, Line, MAX_HELD};
use crate::store::shared::NewLines;

/// Returns the next entries of a session after an end, at least one, and at most until another end.
/// `None`: the first of them does not follow. `most`: their size, with the bytes that they refer to.
/// `own`: only entries that the store with this key recorded, which has their bytes.
///
/// # Errors
/// `Lost`: another program wrote one. `Setup`: one is missing, too large, or does not follow.
pub(super) async fn next_part(
    log: &mut impl StoredLog,
    session: &str,
    after: EndOfLog,
    until: EndOfLog,
    own: Option<&[u8; 32]>,
    most: usize,
) -> Result<Option<NewLines>, SharedError> {
    let wanted = usize::try_from(until.1.saturating_sub(after.1)).unwrap_or(usize::MAX);
    let mut part = NewLines::default();
    let mut end = after;
    let mut left = most;
    for stored in log.lines(session, after.1).await?.iter().take(wanted) {
        let is_first = part.lines.is_empty();
        let Some((json, line)) = read(stored, left) else {
            break;
        };
        if own.is_some_and(|key| !is_of(key, session, stored, &json)) {
            return Err(SharedError::foreign(session, end.1));
        }
        if line.seq != end.1 || !line.follows(end.0) {
            if is_first && line.seq == end.1 {
                return Ok(None);
            }
            break;
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
    if part.lines.is_empty() || end.1 == until.1 && end != until {
        Err(SharedError::gap(session, end.1))
    } else {
        Ok(Some(part))
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::entry::{BlobRef, Entry, Image, Via};
    use crate::journal::chain_hash::ChainHash;
    use crate::shared::log::StoredObject;
    use crate::store::blob_ref;
    use crate::store::shared::lines_of;

    /// Rows as somebody wrote them.
    #[derive(Default)]
    struct Rows {
        lines: Vec<StoredLine>,
        objects: Vec<StoredObject>,
        end: Option<EndOfLog>,
    }

    impl StoredLog for Rows {
        async fn lines(&mut self, _: &str, first: Seq) -> Result<Vec<StoredLine>, SharedError> {
            Ok(self.lines.iter().skip(first as usize).cloned().collect())
        }

        async fn objects(
            &mut self,
            _: &str,
            hashes: &[[u8; 32]],
        ) -> Result<Vec<StoredObject>, SharedError> {
            let wanted = self
                .objects
                .iter()
                .filter(|(hash, _)| hashes.contains(hash));
            Ok(wanted.cloned().collect())
        }
    }

    fn nothing() -> EndOfLog {
        (ChainHash::of_nothing(), 0)
    }

    impl Rows {
        /// Adds a message of this size, in a frame that says its size or does not.
        fn say(&mut self, bytes: usize, images: Vec<BlobRef>, says_its_size: bool) {
            let end = self.end.unwrap_or(nothing());
            let image = |blob| Image {
                media_type: "image/png".into(),
                blob,
            };
            let said = Entry::Said {
                text: "a".repeat(bytes),
                images: images.into_iter().map(image).collect(),
                via: Via::Prompt,
                command: None,
                origin: None,
            };
            let line = lines_of(end, 1, &[said], false).unwrap().remove(0);
            let json = serde_json::to_vec(&line).unwrap();
            let body = if says_its_size {
                zstd::bulk::compress(&json, 1).unwrap()
            } else {
                zstd::stream::encode_all(&json[..], 1).unwrap()
            };
            self.end = Some((line.tip, line.seq + 1));
            self.lines.push(StoredLine { body, mac: [0; 32] });
        }

        /// The numbers of lines of all parts, and the error at the end.
        fn read(&mut self) -> (Vec<usize>, Option<String>) {
            let (mut after, until) = (nothing(), self.end.unwrap_or(nothing()));
            let mut parts = Vec::new();
            let runtime = tokio::runtime::Builder::new_current_thread()
                .build()
                .unwrap();
            while after != until {
                let part = runtime.block_on(next_part(self, "s", after, until, None, MOST));
                match part {
                    Ok(Some(part)) => {
                        let lines = part.lines.iter().map(|line| line.entry.get().len());
                        let blobs = part.blobs.iter().map(Vec::len);
                        assert!(lines.chain(blobs).sum::<usize>() <= MOST);
                        after = part.end().unwrap();
                        parts.push(part.lines.len());
                    }
                    Ok(None) => return (parts, Some("it does not follow".to_string())),
                    Err(error) => return (parts, Some(error.to_string())),
                }
            }
            (parts, None)
        }
    }

    const MOST: usize = 64 << 10;
    const KIB: usize = 1 << 10;

    #[test]
    fn a_part_is_never_larger_than_what_is_held() {
        for says_its_size in [true, false] {
            let mut rows = Rows::default();
            for bytes in [20 * KIB, 20 * KIB, 40 * KIB, 1, 1] {
                rows.say(bytes, vec![], says_its_size);
            }
            assert_eq!(rows.read(), (vec![2, 3], None));
            rows.say(MOST, vec![], says_its_size);
            let (parts, error) = rows.read();
            assert_eq!(parts, [2, 3]);
            assert!(error.unwrap().contains("entry 5"));
        }
    }

    #[test]
    fn bytes_count_too_and_must_be_there() {
        let bytes = |n: u8, size| vec![n; size];
        let mut rows = Rows::default();
        let add = |rows: &mut Rows, bytes: Vec<u8>| {
            let of = blob_ref(&bytes);
            rows.objects.push((*blake3::hash(&bytes).as_bytes(), bytes));
            of
        };
        let images = [1, 2].map(|n| add(&mut rows, bytes(n, 40 * KIB)));
        for image in &images {
            // What a row says of a size does not count.
            let image = BlobRef {
                bytes: 1,
                ..image.clone()
            };
            rows.say(1, vec![image], true);
        }
        assert_eq!(rows.read(), (vec![1, 1], None));
        rows.say(1, images.to_vec(), true);
        assert!(rows.read().1.unwrap().contains("entry 2"));
        let mut rows = Rows::default();
        rows.say(1, vec![], true);
        rows.say(1, vec![blob_ref(b"of another session")], true);
        let (parts, error) = rows.read();
        assert_eq!(parts, [1]);
        assert!(error.unwrap().contains("entry 1"));
    }
}
