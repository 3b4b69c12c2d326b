//! The format of a run's `status` file: two records in space that is reserved at the start, so that
//! a keeper can record how its command ended even if the disk is full.
//!
//! Each record is at the start of a separate block of 4 KiB: blake3 of the rest (32 bytes), length
//! of the JSON (`u32`, little endian), JSON. Zeros are an empty record. A record that is neither
//! empty nor whole is torn. A torn start record still says that the command may have started; a
//! torn end record says nothing.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::aftermath::Aftermath;

const SLOT_BYTES: usize = 4096;
const SUM_BYTES: usize = 32;
const HEAD_BYTES: usize = SUM_BYTES + 4;
const BEGUN_AT: u64 = 0;
const ENDED_AT: u64 = SLOT_BYTES as u64;

/// How a command ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "how", content = "with", rename_all = "snake_case")]
pub enum How {
    Exited(i32),
    /// By a signal that rewake did not send.
    Signalled(i32),
    /// Ended by the keeper at the time limit.
    TimedOut,
    /// Ended by the keeper because somebody asked for it.
    Stopped,
    /// Ended by the keeper because the lease of the shared session ended.
    LeaseEnded,
    /// Never started, and never will be, for this reason.
    NotRun(String),
    /// Unknown: the keeper was killed, or the machine went down.
    #[serde(skip)]
    Lost {
        /// A process group of the command that is still alive.
        group: Option<u32>,
    },
}

/// The record of a start. Written before the command is started, and again afterwards with its
/// process group.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Begun {
    /// The keeper's pid, which is also the process session of everything that it starts.
    pub keeper: u32,
    /// Start time of the keeper in the kernel's unit, which distinguishes it from a later process
    /// with its pid. `None` on systems without `/proc`.
    pub keeper_start: Option<u64>,
    pub group: Option<u32>,
    pub at_ms: i64,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct End {
    #[serde(flatten)]
    pub how: How,
    pub took_ms: u64,
    pub ended_at_ms: i64,
    /// Number of bytes that the command printed.
    pub bytes_total: u64,
    /// Number of bytes in the output file, which has the head.
    pub bytes_kept: u64,
    /// Why less is stored than the cap allows.
    pub write_error: Option<String>,
    /// The report of the sandbox, if the command had one, and on processes that outlive it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sandbox: Option<Aftermath>,
    /// blake3 of the head and the tail as they are on the disk, in hex: after a power cut this
    /// record may exist without them. Keepers of older versions synced them first and have no hash.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_sum: Option<String>,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum StatusSlot<T> {
    Empty,
    Torn,
    Written(T),
}

/// Writes zeros, not a hole, so that a later overwrite needs no new space.
pub(super) fn reserve(file: &File) -> io::Result<()> {
    file.write_all_at(&[0; 2 * SLOT_BYTES], 0)
}

pub(super) fn write_begun(file: &File, begun: &Begun) -> io::Result<()> {
    write(file, BEGUN_AT, begun)
}

pub(super) fn read_begun(file: &File) -> io::Result<StatusSlot<Begun>> {
    read(file, BEGUN_AT)
}

pub(super) fn write_end<T: Serialize>(file: &File, end: &T) -> io::Result<()> {
    write(file, ENDED_AT, end)
}

/// Reads the record of the end. `T` is its type for this kind of run: [`End`] for a command.
pub(super) fn read_end<T: DeserializeOwned>(file: &File) -> io::Result<StatusSlot<T>> {
    read(file, ENDED_AT)
}

fn write<T: Serialize>(file: &File, at: u64, record: &T) -> io::Result<()> {
    let json = serde_json::to_vec(record)?;
    let length = u32::try_from(json.len()).unwrap_or(u32::MAX);
    let mut body = length.to_le_bytes().to_vec();
    body.extend(json);
    if body.len() > SLOT_BYTES - SUM_BYTES {
        return Err(io::Error::other("the status of a command is too long"));
    }
    let mut slot = blake3::hash(&body).as_bytes().to_vec();
    slot.extend(body);
    file.write_all_at(&slot, at)
}

fn read<T: DeserializeOwned>(file: &File, at: u64) -> io::Result<StatusSlot<T>> {
    let mut slot = [0; SLOT_BYTES];
    let mut filled = 0;
    while filled < SLOT_BYTES {
        match file.read_at(&mut slot[filled..], at + filled as u64) {
            Ok(0) => break,
            Ok(n) => filled += n,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    if slot.iter().all(|byte| *byte == 0) {
        return Ok(StatusSlot::Empty);
    }
    Ok(decode(&slot).map_or(StatusSlot::Torn, StatusSlot::Written))
}

fn decode<T: DeserializeOwned>(slot: &[u8]) -> Option<T> {
    let (sum, rest) = slot.split_at_checked(SUM_BYTES)?;
    let length = u32::from_le_bytes(rest.first_chunk::<4>().copied()?) as usize;
    let body = rest.get(..length.checked_add(HEAD_BYTES - SUM_BYTES)?)?;
    if blake3::hash(body).as_bytes() != sum {
        return None;
    }
    serde_json::from_slice(&body[4..]).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn end(how: How) -> End {
        End {
            how,
            took_ms: 12,
            ended_at_ms: 1_700_000_000_000,
            bytes_total: 5,
            bytes_kept: 4,
            write_error: None,
            sandbox: None,
            output_sum: Some(blake3::hash(b"said").to_hex().to_string()),
        }
    }

    fn begun() -> Begun {
        Begun {
            keeper: 7,
            keeper_start: Some(9),
            group: Some(8),
            at_ms: 1,
        }
    }

    fn reserved() -> File {
        let file = tempfile::tempfile().unwrap();
        reserve(&file).unwrap();
        file
    }

    #[test]
    fn the_written_status_is_read_back_and_the_file_never_grows() {
        let file = reserved();
        let room = file.metadata().unwrap().len();
        assert_eq!(read_begun(&file).unwrap(), StatusSlot::Empty);
        assert_eq!(read_end::<End>(&file).unwrap(), StatusSlot::Empty);
        write_begun(&file, &begun()).unwrap();
        for how in [
            How::Exited(3),
            How::Signalled(9),
            How::TimedOut,
            How::Stopped,
            How::LeaseEnded,
            How::NotRun("no such folder".into()),
        ] {
            write_end(&file, &end(how.clone())).unwrap();
            assert_eq!(read_end(&file).unwrap(), StatusSlot::Written(end(how)));
        }
        assert_eq!(read_begun(&file).unwrap(), StatusSlot::Written(begun()));
        assert_eq!(file.metadata().unwrap().len(), room);
    }

    #[test]
    fn a_record_with_any_byte_damaged_is_torn() {
        let file = reserved();
        write_end(&file, &end(How::Exited(0))).unwrap();
        let mut whole = [0; 400];
        file.read_exact_at(&mut whole, ENDED_AT).unwrap();
        let length = HEAD_BYTES + whole[SUM_BYTES] as usize;
        for at in 0..length {
            let mut damaged = whole;
            damaged[at] ^= 1;
            file.write_all_at(&damaged, ENDED_AT).unwrap();
            assert_eq!(
                read_end::<End>(&file).unwrap(),
                StatusSlot::Torn,
                "byte {at}"
            );
        }
    }

    #[test]
    fn a_record_cut_anywhere_is_torn() {
        let file = reserved();
        write_end(&file, &end(How::Exited(0))).unwrap();
        let mut whole = [0; 400];
        file.read_exact_at(&mut whole, ENDED_AT).unwrap();
        let length = HEAD_BYTES + whole[SUM_BYTES] as usize;
        for kept in 1..length {
            let mut cut = whole;
            cut[kept..].fill(0);
            file.write_all_at(&cut, ENDED_AT).unwrap();
            assert_eq!(
                read_end::<End>(&file).unwrap(),
                StatusSlot::Torn,
                "{kept} bytes"
            );
        }
        file.set_len(10).unwrap();
        assert_eq!(read_end::<End>(&file).unwrap(), StatusSlot::Empty);
    }

    #[test]
    fn the_end_that_an_older_keeper_wrote_is_read() {
        let older = r#"{"how":"exited","with":3,"took_ms":1,"ended_at_ms":2,"bytes_total":3,"bytes_kept":3,"write_error":null}"#;
        let read: End = serde_json::from_str(older).unwrap();
        assert_eq!((read.how, read.output_sum), (How::Exited(3), None));
    }

    #[test]
    fn a_record_that_does_not_fit_is_refused() {
        let file = reserved();
        assert!(write_end(&file, &end(How::NotRun("x".repeat(5000)))).is_err());
        assert_eq!(read_end::<End>(&file).unwrap(), StatusSlot::Empty);
    }
}
