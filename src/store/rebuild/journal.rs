//! The journal, read by a thread of its own: it decompresses, and checks the hashes, while who
//! asked keeps what was read before.

use std::io;
use std::path::Path;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread;

use crate::journal::folder::sessions;
use crate::journal::salvage::{Piece, Salvaged, salvage};
use crate::store::StoreError;
use crate::store::purge::Purged;

/// Pieces are handed over when they have so many bytes together, and so often before the thread
/// waits for who keeps them.
const BATCH: usize = 256 << 10;
const BATCHES: usize = 4;

/// What is given of a journal.
pub(super) enum Read {
    /// Of one session.
    Pieces(Vec<Piece>),
    /// All pieces of this session were given.
    Session(String, Box<Salvaged>),
}

/// All that can be read in this folder, session by session.
///
/// # Errors
/// Those of `each`.
pub(super) fn read(
    journal: &Path,
    purged: &Purged,
    each: &mut dyn FnMut(Read) -> Result<(), StoreError>,
) -> Result<(), StoreError> {
    thread::scope(|scope| {
        let (sender, given) = sync_channel(BATCHES);
        scope.spawn(move || {
            let sessions = sessions(journal, usize::MAX).into_iter();
            for session in sessions.filter(|session| !purged.has(session)) {
                if give(journal, session, &sender).is_none() {
                    return;
                }
            }
        });
        // When one fails, nobody receives any more, and the thread ends.
        given.into_iter().try_for_each(each)
    })
}

/// `None`: nobody receives it any more.
fn give(journal: &Path, session: String, sender: &SyncSender<Read>) -> Option<()> {
    let (mut pieces, mut bytes) = (Vec::new(), 0);
    let mut is_heard = true;
    let read = salvage(&journal.join(&session), &mut |piece| {
        bytes += piece.bytes();
        pieces.push(piece);
        if bytes < BATCH {
            return Ok(());
        }
        bytes = 0;
        is_heard = sender
            .send(Read::Pieces(std::mem::take(&mut pieces)))
            .is_ok();
        match is_heard {
            true => Ok(()),
            false => Err(io::ErrorKind::BrokenPipe.into()),
        }
    });
    if !is_heard {
        return None;
    }
    sender.send(Read::Pieces(pieces)).ok()?;
    // What cannot be listed is as if it were not there: it counts as missing.
    let read = read.unwrap_or_default();
    sender.send(Read::Session(session, Box::new(read))).ok()
}
