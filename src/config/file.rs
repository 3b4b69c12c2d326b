//! Reading of small text files that may come from somebody else, and the lock of a file that is
//! replaced.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use rustix::fs::OFlags;

use super::in_use::{IN_USE, is_in_use};
use super::kept_elsewhere::{IS_KEPT_KEY, is_stored_key};

/// The reason why the text of a file could not be read.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    #[error("there is no such file")]
    Missing,
    #[error("it is not a regular file")]
    NotAFile,
    #[error("it is larger than {max_bytes} bytes")]
    TooLarge { max_bytes: u64 },
    #[error("it is not UTF-8 text")]
    NotUtf8,
    #[error("{0}")]
    Io(io::Error),
}

/// The state of a file when it was read, to detect later changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Digest {
    /// There is no such file.
    Missing,
    /// The file exists but could not be read as text.
    Unreadable,
    /// Hash of the text.
    Of(blake3::Hash),
}

impl Digest {
    /// Returns the digest of a file that was read.
    pub fn of(read: &Result<String, ReadError>) -> Digest {
        match read {
            Ok(text) => Digest::Of(blake3::hash(text.as_bytes())),
            Err(ReadError::Missing) => Digest::Missing,
            Err(_) => Digest::Unreadable,
        }
    }

    /// Returns the hash in hex, or an empty text if nothing was read.
    pub fn hex(&self) -> String {
        match self {
            Digest::Of(hash) => hash.to_hex().to_string(),
            Digest::Missing | Digest::Unreadable => String::new(),
        }
    }
}

/// Waits for the lock of a file that is replaced as a whole. The lock is a separate file, because
/// a lock on the file itself would be lost when it is replaced.
pub(super) fn lock(path: &Path) -> io::Result<File> {
    let lock = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .open(path)?;
    lock.lock()?;
    Ok(lock)
}

/// Replaces a file in `dir`. The new content is on the disk before the rename, and the rename before
/// the return. The file is readable only by its owner.
pub fn replace_file(dir: &Path, file: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut beside = tempfile::NamedTempFile::new_in(dir)?;
    beside.write_all(bytes)?;
    beside.as_file().sync_all()?;
    beside.persist(file).map_err(|e| e.error)?;
    File::open(dir)?.sync_all()
}

/// Reads a regular file of at most `max_bytes`, without a byte order mark. Does not block on a
/// pipe or a device. Refuses files of the open session store and stored keys, under any name.
pub fn read_text(path: &Path, max_bytes: u64) -> Result<String, ReadError> {
    read_exact_text(path, max_bytes).map(without_mark)
}

/// Reads a file like [`read_text`], and keeps the byte order mark.
pub fn read_exact_text(path: &Path, max_bytes: u64) -> Result<String, ReadError> {
    if is_in_use(path) {
        return Err(ReadError::Io(io::Error::other(IN_USE)));
    }
    let file = open(path, OFlags::empty())?;
    if is_stored_key(&file) {
        return Err(ReadError::Io(io::Error::other(IS_KEPT_KEY)));
    }
    read_exact_from(file, max_bytes)
}

/// Opens a file without blocking on a pipe.
pub(super) fn open(path: &Path, more: OFlags) -> Result<File, ReadError> {
    let flags = OFlags::NONBLOCK | OFlags::NOCTTY | more;
    let opened = OpenOptions::new()
        .read(true)
        .custom_flags(flags.bits() as i32)
        .open(path);
    opened.map_err(|e| match e.kind() {
        io::ErrorKind::NotFound if path.is_symlink() => ReadError::Io(io::Error::other(
            "it is a link to a file that does not exist",
        )),
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => ReadError::Missing,
        _ => ReadError::Io(e),
    })
}

/// Same as [`read_text`] for an open file.
pub fn read_text_from(file: File, max_bytes: u64) -> Result<String, ReadError> {
    read_exact_from(file, max_bytes).map(without_mark)
}

fn read_exact_from(file: File, max_bytes: u64) -> Result<String, ReadError> {
    if !file.metadata().map_err(ReadError::Io)?.is_file() {
        return Err(ReadError::NotAFile);
    }
    let mut bytes = Vec::new();
    file.take(max_bytes.saturating_add(1))
        .read_to_end(&mut bytes)
        .map_err(ReadError::Io)?;
    if bytes.len() as u64 > max_bytes {
        return Err(ReadError::TooLarge { max_bytes });
    }
    String::from_utf8(bytes).map_err(|_| ReadError::NotUtf8)
}

fn without_mark(text: String) -> String {
    match text.strip_prefix('\u{feff}') {
        Some(rest) => rest.to_string(),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_small_regular_text_is_read() {
        let dir = tempfile::tempdir().unwrap();
        let file = |name: &str, bytes: &[u8]| {
            let path = dir.path().join(name);
            std::fs::write(&path, bytes).unwrap();
            read_text(&path, 4)
        };
        assert_eq!(file("plain", b"abcd").unwrap(), "abcd");
        assert_eq!(file("bom", b"\xef\xbb\xbfa").unwrap(), "a");
        let exact = read_exact_text(&dir.path().join("bom"), 4);
        assert_eq!(exact.unwrap(), "\u{feff}a");
        assert!(matches!(
            file("long", b"abcde"),
            Err(ReadError::TooLarge { max_bytes: 4 })
        ));
        assert!(matches!(file("bytes", b"\xff"), Err(ReadError::NotUtf8)));
        assert!(matches!(
            read_text(&dir.path().join("none"), 4),
            Err(ReadError::Missing)
        ));
        assert!(matches!(read_text(dir.path(), 4), Err(ReadError::NotAFile)));
    }

    #[test]
    fn a_link_to_nowhere_is_not_a_missing_file() {
        let dir = tempfile::tempdir().unwrap();
        let link = dir.path().join("link");
        std::os::unix::fs::symlink(dir.path().join("none"), &link).unwrap();
        let why = read_text(&link, 4).unwrap_err().to_string();
        assert_eq!(why, "it is a link to a file that does not exist");
    }

    #[test]
    fn a_pipe_without_a_writer_does_not_block() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("pipe");
        let made = std::process::Command::new("mkfifo").arg(&path).status();
        assert!(made.unwrap().success());
        assert!(matches!(read_text(&path, 4), Err(ReadError::NotAFile)));
    }
}
