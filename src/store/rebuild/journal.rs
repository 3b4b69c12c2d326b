//! The journal, read by a thread of its own: it decompresses, and checks the hashes, while who
//! asked keeps what was read before.

use std::io;
use std::path::Path;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread;

use crate::journal::folder::{folders, is_set_aside, session_of};
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
    /// All pieces of one journal of this session were given.
    Session(Journal, Box<Salvaged>),
}

/// Whose journal it is.
pub(super) struct Journal {
    pub session: String,
    /// It was set aside because the session continued without it.
    pub is_set_aside: bool,
}

/// All that can be read in this folder, journal by journal, also of those that were set aside.
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
            for folder in folders(journal) {
                if !purged.has(&session_of(&folder)) && give(&folder, &sender).is_none() {
                    return;
                }
            }
        });
        // When one fails, nobody receives any more, and the thread ends.
        given.into_iter().try_for_each(each)
    })
}

/// `None`: nobody receives it any more.
fn give(folder: &Path, sender: &SyncSender<Read>) -> Option<()> {
    let (mut pieces, mut bytes) = (Vec::new(), 0);
    let mut is_heard = true;
    let read = salvage(folder, &mut |piece| {
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
    let journal = Journal {
        session: session_of(folder),
        is_set_aside: is_set_aside(folder),
    };
    sender.send(Read::Session(journal, Box::new(read))).ok()
}
