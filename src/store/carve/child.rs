//! The process that carves, and what it gives: pieces on a pipe, each with its kind and length.
//!
//! It is a process of its own, since the files are opened beside SQLite: who has a connection
//! would lose its locks by that (see [`super::super::database`]). It is this program with another
//! word, and ends with whoever reads.

use std::ffi::OsStr;
use std::fs;
use std::io::{self, BufReader, BufWriter, ErrorKind, Read, Write};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};

use rustix::process::{Resource, Rlimit, setrlimit};

use super::{Carved, CarvedEntry, Each, carve};
use crate::journal::tip::{TIP_BYTES, Tip};
use crate::store::blobs::BlobRow;
use crate::store::row::{CHECKSUM_BYTES, MAX_ROW_BYTES};

/// What this program is called with to become such a process: files of a database follow.
const WORD: &str = "__carve";

const ENTRY: u8 = b'e';
const BLOB: u8 = b'b';
const UPTO: u8 = b'u';
/// Nothing follows: all was looked at.
const END: u8 = b'.';

/// What stands before the body of an entry.
const ENTRY_HEADER: usize = 5 * 8 + CHECKSUM_BYTES + 1 + TIP_BYTES + 1;

/// And before the data of a blob.
const BLOB_HEADER: usize = blake3::OUT_LEN + 8 + 1;

const BUFFER: usize = 1 << 18;

/// What such a process may take. A database of ours needs a small part of it; one that was made to
/// do harm only leads to an error. Memory: some copies of the longest row, and what tells the rows
/// that were given; seconds of the processor: a page may be read more than once.
const MEMORY: u64 = 3 << 29;
const SECONDS: u64 = 60;
const BYTES_A_SECOND: u64 = 1 << 20;
/// What it may give: no byte of the files belongs to two rows, and each has a header here.
const GIVEN: u64 = 64 << 20;
const GIVEN_OF_EACH_BYTE: u64 = 4;

/// Becomes such a process if this one was started for that. `None`: an ordinary start.
pub fn carve_if_asked() -> Option<ExitCode> {
    let mut args = std::env::args_os().skip(1);
    if args.next()? != OsStr::new(WORD) {
        return None;
    }
    let done = match (args.next(), args.next()) {
        (Some(database), Some(log)) => {
            let (database, log) = (database.as_ref(), log.as_ref());
            let bytes = bytes_of([database, log]);
            limit(bytes);
            let out = BufWriter::with_capacity(BUFFER, io::stdout().lock());
            write_all(database, log, out, GIVEN + GIVEN_OF_EACH_BYTE * bytes)
        }
        _ => Err(ErrorKind::InvalidInput.into()),
    };
    Some(match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    })
}

fn bytes_of(files: [&Path; 2]) -> u64 {
    let bytes = |file: &Path| fs::metadata(file).map_or(0, |file| file.len());
    files.map(bytes).iter().sum()
}

/// Where the system does not have such a limit, what is read has bounds of its own.
fn limit(bytes: u64) {
    let most = |n| Rlimit {
        current: Some(n),
        maximum: Some(n),
    };
    let _ = setrlimit(Resource::As, most(MEMORY + bytes / 2));
    let _ = setrlimit(Resource::Cpu, most(SECONDS + bytes / BYTES_A_SECOND));
    // What was read would lie in it.
    let _ = setrlimit(Resource::Core, most(0));
}

/// Gives what another process finds in these files.
///
/// # Errors
/// It could not be started, it did not get to the end, or `each` failed.
pub(in crate::store) fn carve_beside(
    program: &Path,
    database: &Path,
    log: &Path,
    each: &mut Each<'_>,
) -> io::Result<()> {
    let mut process = Command::new(program);
    process.arg0("rewake").arg(WORD).args([database, log]);
    process.stdin(Stdio::null()).stderr(Stdio::null());
    let mut child = process.stdout(Stdio::piped()).spawn()?;
    let read = match child.stdout.take() {
        Some(out) => read_all(BufReader::with_capacity(BUFFER, out), each),
        None => Err(ErrorKind::BrokenPipe.into()),
    };
    match read {
        // It ended before it was through.
        Err(error) if error.kind() == ErrorKind::UnexpectedEof => {
            let _ = child.kill();
            let ended = child.wait()?;
            Err(io::Error::other(format!(
                "the process that reads them: {ended}"
            )))
        }
        read => {
            let _ = child.kill();
            child.wait()?;
            read
        }
    }
}

/// At most so many bytes are written: more is an error.
struct Bounded<W> {
    out: W,
    left: u64,
}

impl<W: Write> Write for Bounded<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let left = self.left.checked_sub(bytes.len() as u64);
        self.left = left.ok_or(ErrorKind::FileTooLarge)?;
        self.out.write_all(bytes)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

pub(super) fn write_all(database: &Path, log: &Path, out: impl Write, most: u64) -> io::Result<()> {
    let mut out = Bounded { out, left: most };
    carve(database, log, &mut |carved| match carved {
        Carved::Blob(blob) => {
            begin(&mut out, BLOB, BLOB_HEADER + blob.data.len())?;
            out.write_all(blob.hash)?;
            out.write_all(&blob.bytes.to_le_bytes())?;
            out.write_all(&[u8::from(blob.is_packed)])?;
            out.write_all(blob.data)
        }
        Carved::Upto(bytes) => {
            begin(&mut out, UPTO, 8)?;
            out.write_all(&bytes.to_le_bytes())
        }
        Carved::Entry(entry) => write_entry(&mut out, &entry),
    })?;
    begin(&mut out, END, 0)?;
    out.flush()
}

fn begin(out: &mut impl Write, kind: u8, bytes: usize) -> io::Result<()> {
    let bytes = u32::try_from(bytes).map_err(|_| ErrorKind::InvalidData)?;
    out.write_all(&[kind])?;
    out.write_all(&bytes.to_le_bytes())
}

fn write_entry(out: &mut impl Write, entry: &CarvedEntry<'_>) -> io::Result<()> {
    begin(out, ENTRY, ENTRY_HEADER + entry.body.len())?;
    // Row ids begin at 1.
    out.write_all(&entry.id.to_le_bytes())?;
    out.write_all(&entry.parent.unwrap_or(0).to_le_bytes())?;
    out.write_all(&entry.session.to_le_bytes())?;
    out.write_all(&entry.seq.to_le_bytes())?;
    out.write_all(&entry.at_ms.to_le_bytes())?;
    out.write_all(&entry.checksum)?;
    out.write_all(&[u8::from(entry.tip.is_some())])?;
    let tip = entry.tip.unwrap_or_else(Tip::of_nothing);
    out.write_all(tip.as_bytes())?;
    out.write_all(&[u8::from(entry.is_packed)])?;
    out.write_all(entry.body)
}

pub(super) fn read_all(mut from: impl Read, each: &mut Each<'_>) -> io::Result<()> {
    let mut bytes = Vec::new();
    loop {
        let mut head = [0; 5];
        from.read_exact(&mut head)?;
        let [kind, length @ ..] = head;
        let length = u64::from(u32::from_le_bytes(length));
        if length > u64::from(MAX_ROW_BYTES.unsigned_abs()) + ENTRY_HEADER as u64 {
            return Err(ErrorKind::InvalidData.into());
        }
        bytes.clear();
        if (&mut from).take(length).read_to_end(&mut bytes)? as u64 != length {
            return Err(ErrorKind::UnexpectedEof.into());
        }
        match kind {
            END => return Ok(()),
            BLOB => each(Carved::Blob(blob(&bytes).ok_or(ErrorKind::InvalidData)?))?,
            ENTRY => each(Carved::Entry(entry(&bytes).ok_or(ErrorKind::InvalidData)?))?,
            UPTO => each(Carved::Upto(upto(&bytes).ok_or(ErrorKind::InvalidData)?))?,
            _ => return Err(ErrorKind::InvalidData.into()),
        }
    }
}

fn upto(mut bytes: &[u8]) -> Option<u64> {
    take(&mut bytes).map(u64::from_le_bytes)
}

fn blob(bytes: &[u8]) -> Option<BlobRow<'_>> {
    let (hash, mut rest) = bytes.split_at_checked(blake3::OUT_LEN)?;
    let bytes = i64::from_le_bytes(take(&mut rest)?);
    let [is_packed] = take(&mut rest)?;
    Some(BlobRow {
        hash,
        bytes,
        is_packed: is_packed == 1,
        data: rest,
    })
}

fn entry(bytes: &[u8]) -> Option<CarvedEntry<'_>> {
    let mut rest = bytes;
    let id = i64::from_le_bytes(take(&mut rest)?);
    let parent = Some(i64::from_le_bytes(take(&mut rest)?)).filter(|id| *id != 0);
    let session = i64::from_le_bytes(take(&mut rest)?);
    let seq = u64::from_le_bytes(take(&mut rest)?);
    let at_ms = i64::from_le_bytes(take(&mut rest)?);
    let checksum = take(&mut rest)?;
    let [has_tip] = take(&mut rest)?;
    let tip = Tip::from_bytes(&take::<TIP_BYTES>(&mut rest)?).filter(|_| has_tip == 1);
    let [is_packed] = take(&mut rest)?;
    Some(CarvedEntry {
        id,
        parent,
        session,
        seq,
        at_ms,
        checksum,
        tip,
        body: rest,
        is_packed: is_packed == 1,
    })
}

fn take<const N: usize>(bytes: &mut &[u8]) -> Option<[u8; N]> {
    let (taken, rest) = bytes.split_first_chunk()?;
    *bytes = rest;
    Some(*taken)
}
