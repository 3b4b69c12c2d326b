//! The entries of an index that rewake needs (gitformat-index, versions 2 to 4).

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

/// The mode of an entry that is a commit of another repository.
const SUBMODULE: u32 = 0o160_000;

/// Bytes before the hash of an entry: times, numbers and the mode.
const STAT_BYTES: usize = 40;

/// The length of a name in the flags: lengths below this are stored, and this value stands for any
/// longer one.
const LONG_NAME: usize = 0xfff;

/// Maximum length of a path, and of all paths together, in bytes. Version 4 stores only the ends of
/// paths, so a small index can have very long ones.
const MAX_PATH_BYTES: usize = 4_096;
const MAX_PATHS_BYTES: usize = 64 * 1024 * 1024;

/// Maximum number of files whose stat data are returned.
const MAX_STATS: usize = 1_000;

/// Entries of an index, by their paths.
#[derive(Debug, Default)]
pub(super) struct Entries {
    pub submodules: Vec<PathBuf>,
    /// Files whose version git has not written to the folder: they have no time and no size.
    pub unwritten: Vec<PathBuf>,
    /// The first other files, with what `stat` gave for them when git read or wrote them last.
    pub written: Vec<(PathBuf, FileStat)>,
}

/// The seconds of the changes of a file's metadata and data, its device, its number and its size, each
/// cut to 32 bits as git does.
pub(super) type FileStat = [u32; 5];

/// The start of an entry, for the extensions that name such places.
struct Start {
    at: usize,
    /// Whether its path shares nothing with that of the previous entry.
    is_whole: bool,
}

/// Returns `None` for an index that is not understood. `each` gets every path.
pub(super) fn entries(
    bytes: &[u8],
    hash_bytes: usize,
    mut each: impl FnMut(&[u8]),
) -> Option<Entries> {
    let mut rest = bytes.strip_prefix(b"DIRC")?;
    let version = number(take(&mut rest, 4)?);
    let count = number(take(&mut rest, 4)?);
    if !(2..=4).contains(&version) {
        return None;
    }
    let mut found = Entries::default();
    let mut starts = Vec::new();
    let mut path: Vec<u8> = Vec::new();
    let mut room = MAX_PATHS_BYTES;
    for _ in 0..count {
        let start = rest.len();
        let stat = take(&mut rest, STAT_BYTES)?;
        take(&mut rest, hash_bytes)?;
        let flags = take(&mut rest, 2)?;
        // A second pair of flags, of which one says that a sparse checkout leaves the file out.
        let is_left_out = flags[0] & 0x40 != 0 && take(&mut rest, 2)?[0] & 0x40 != 0;
        if version == 4 {
            let kept = path.len().checked_sub(cut_bytes(&mut rest)?)?;
            path.truncate(kept);
        } else {
            path.clear();
        }
        starts.push(Start {
            at: bytes.len() - start,
            is_whole: path.is_empty(),
        });
        let length = rest.iter().position(|b| *b == 0)?;
        path.extend_from_slice(take(&mut rest, length)?);
        // git uses this length; with another one it would find other entries.
        let said = usize::from(u16::from_be_bytes([flags[0], flags[1]])) & LONG_NAME;
        if said != path.len().min(LONG_NAME) || path.len() > MAX_PATH_BYTES {
            return None;
        }
        room = room.checked_sub(path.len())?;
        let end = match version {
            4 => 1,
            // The end and its padding make the entry a multiple of eight.
            _ => 8 - (start - rest.len()) % 8,
        };
        take(&mut rest, end)?;
        each(&path);
        let path = || PathBuf::from(OsStr::from_bytes(&path));
        if number(&stat[24..28]) & 0o170_000 == SUBMODULE {
            found.submodules.push(path());
        } else if !is_left_out && number(&stat[8..12]) == 0 && number(&stat[36..40]) == 0 {
            found.unwritten.push(path());
        } else if found.written.len() < MAX_STATS {
            let stat = [0, 8, 16, 20, 36].map(|at| number(&stat[at..at + 4]));
            found.written.push((path(), stat));
        }
    }
    are_plain(rest, bytes.len() - rest.len(), &starts, hash_bytes)?;
    Some(found)
}

/// Checks that no extension makes git read other entries than those that were found.
fn are_plain(mut rest: &[u8], end: usize, starts: &[Start], hash_bytes: usize) -> Option<()> {
    // git reads the end of the entries from this place, whatever precedes it.
    let tail = rest.len().checked_sub(hash_bytes + 12 + hash_bytes);
    if let Some(said) = tail.and_then(|at| rest[at..].strip_prefix(b"EOIE"))
        && usize::try_from(number(&said[4..8])).ok()? != end
    {
        return None;
    }
    while rest.len() > hash_bytes {
        let name = take(&mut rest, 4)?;
        let length = number(take(&mut rest, 4)?);
        let body = take(&mut rest, usize::try_from(length).ok()?)?;
        let is_plain = match name {
            // Most entries of a split index are in another file.
            b"link" => false,
            b"IEOT" => are_starts(body, starts),
            _ => true,
        };
        if !is_plain {
            return None;
        }
    }
    Some(())
}

/// Checks that the blocks that several threads read at once are all the entries, in order.
fn are_starts(table: &[u8], starts: &[Start]) -> bool {
    let Some((_version, blocks)) = table.split_at_checked(4) else {
        return false;
    };
    let mut next = 0;
    for block in blocks.chunks(8) {
        let (Some(offset), Some(count)) = (block.get(..4), block.get(4..8)) else {
            return false;
        };
        let is_start = |s: &Start| s.is_whole && s.at == number(offset) as usize;
        if !starts.get(next).is_some_and(is_start) {
            return false;
        }
        next += number(count) as usize;
    }
    next == starts.len()
}

fn take<'a>(rest: &mut &'a [u8], count: usize) -> Option<&'a [u8]> {
    let (taken, left) = rest.split_at_checked(count)?;
    *rest = left;
    Some(taken)
}

/// Returns the number in four bytes.
fn number(bytes: &[u8]) -> u32 {
    bytes.iter().fold(0, |sum, b| sum << 8 | u32::from(*b))
}

/// Returns how many bytes of the previous path are dropped, encoded like an offset in a pack file.
fn cut_bytes(rest: &mut &[u8]) -> Option<usize> {
    let mut byte = take(rest, 1)?[0];
    let mut value = usize::from(byte & 0x7f);
    while byte & 0x80 != 0 {
        byte = take(rest, 1)?[0];
        value = value.checked_add(1)?.checked_mul(128)? | usize::from(byte & 0x7f);
    }
    Some(value)
}
