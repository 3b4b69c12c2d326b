//! The reader of journals. A thread decompresses them and checks the hashes, while the caller
//! stores the lines that were read before.

use std::io;
use std::path::Path;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread;

use crate::journal::folder::{folders, is_set_aside, session_of};
use crate::journal::salvage::{ReadablePart, Salvaged, salvage};
use crate::store::StoreError;

/// Size of a batch of pieces, in bytes.
const BATCH: usize = 256 << 10;
/// Number of batches that may wait for the receiver.
const BATCHES: usize = 4;

/// A message of the reading thread.
pub(super) enum Read {
    /// Pieces of one session.
    Pieces(Vec<ReadablePart>),
    /// The end of a journal, after all its pieces.
    Session(Journal, Box<Salvaged>),
}

/// A journal that was read.
pub(super) struct Journal {
    pub session: String,
    /// Whether it was set aside because the session continued without it.
    pub is_set_aside: bool,
}

/// Reads everything readable of the sessions that are wanted, one journal after the other. Includes
/// journals that were set aside.
///
/// # Errors
/// Those of `each`.
pub(super) fn read(
    journal: &Path,
    is_wanted: &(dyn Fn(&str) -> bool + Sync),
    each: &mut dyn FnMut(Read) -> Result<(), StoreError>,
) -> Result<(), StoreError> {
    thread::scope(|scope| {
        let (sender, given) = sync_channel(BATCHES);
        scope.spawn(move || {
            for folder in folders(journal) {
                if is_wanted(&session_of(&folder)) && give(&folder, &sender).is_none() {
                    return;
                }
            }
        });
        // If `each` fails, the receiver is dropped and the thread ends.
        given.into_iter().try_for_each(each)
    })
}

/// Sends the pieces of one journal. `None`: the receiver was dropped.
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
    // A folder that cannot be listed counts as missing.
    let read = read.unwrap_or_default();
    let journal = Journal {
        session: session_of(folder),
        is_set_aside: is_set_aside(folder),
    };
    sender.send(Read::Session(journal, Box::new(read))).ok()
}
