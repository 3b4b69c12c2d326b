//! The files of the database: `rewake.db`, and those that SQLite puts beside it.
//!
//! Invariant: only SQLite opens them. When a process closes any descriptor of a file, POSIX drops
//! every lock that the process has on it (fcntl(2)). So one open and close beside SQLite drops its
//! locks. The next program that closes the database then takes itself for the last user. It removes
//! the write-ahead log that this process still writes to. So SQLite makes the files, and the rest
//! of the program looks at them only by their paths, in this module (`tests/source/layers`). Code
//! that opens a file with a name from outside, such as a tool, asks [`is_open_in_process`] first. So does
//! the code that reads config, instructions and skills.
//!
//! Folders and files that only their owner can read.
//!
//! A check that the files which SQLite has open are still those with their names. After they were
//! removed or replaced, new entries would go into files that nobody finds again.
//!
//! The check uses only their paths and opens nothing, as said above.

use std::fs::{File, OpenOptions};
use std::io::ErrorKind;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;
use std::{fs, io};

use rusqlite::{Connection, OpenFlags, Transaction, TransactionBehavior};
use rustix::fs::Access;

use super::error::{Doing, io as io_error};
use super::{StoreError, database};
use crate::config::{FilesInUse, is_in_use};
use crate::journal::folder;
use crate::journal::folder::restrict;

const DATABASE: &str = "rewake.db";
const WRITE_AHEAD_LOG: &str = "rewake.db-wal";
const SHARED_MEMORY: &str = "rewake.db-shm";
const ROLLBACK_JOURNAL: &str = "rewake.db-journal";
const NEW: &str = "rewake.db.new";
const REBUILDING: &str = "rewake.db.rebuilding";
const COMPLETE: &str = "rewake.db.complete";
const DAMAGED: &str = ".damaged-";

const WHAT: &str = "open the session store";

/// Returns whether this folder has a database.
pub fn exists(data_dir: &Path) -> bool {
    fs::metadata(data_dir.join(DATABASE)).is_ok_and(|found| found.is_file())
}

/// Returns whether nothing can be written, not even derived rows.
pub(super) fn is_read_only(conn: &Connection) -> Result<bool, StoreError> {
    conn.is_readonly("main").doing("read the session store")
}

/// Returns the size of the database and its write-ahead log, in bytes.
pub fn bytes(data_dir: &Path) -> u64 {
    files(data_dir, &[DATABASE, WRITE_AHEAD_LOG])
        .filter_map(|path| Some(fs::metadata(path).ok()?.len()))
        .sum()
}

/// Returns the paths of these files. If the database is a link to another folder, SQLite puts the
/// other files there.
fn files<'a>(data_dir: &Path, names: &'a [&str]) -> impl Iterator<Item = PathBuf> + 'a {
    let real = data_dir.join(DATABASE).canonicalize();
    let real = real.unwrap_or_else(|_| data_dir.join(DATABASE));
    names.iter().map(move |name| {
        let suffix = name.trim_start_matches(DATABASE);
        let mut path = real.clone().into_os_string();
        path.push(suffix);
        PathBuf::from(path)
    })
}

/// Returns the folder of the database, which may be a link.
pub(super) fn folder(data_dir: &Path) -> PathBuf {
    let database = names(data_dir).database;
    database.parent().unwrap_or(data_dir).to_path_buf()
}

/// Returns the paths of the database and its write-ahead log.
pub(super) fn of_records(data_dir: &Path) -> impl Iterator<Item = PathBuf> {
    files(data_dir, &[DATABASE, WRITE_AHEAD_LOG])
}

/// Returns whether this is a file of a database that is open in this process, under any name. Such
/// a file must not be opened, not even for reading.
pub fn is_open_in_process(path: &Path) -> bool {
    is_in_use(path)
}

/// Opens the database of this folder, and creates it if it is missing. Only its owner can read it.
pub(super) fn open_or_make(data_dir: &Path) -> Result<Connection, StoreError> {
    make(&data_dir.join(DATABASE))
}

const OF_SQLITE: [&str; 4] = [DATABASE, WRITE_AHEAD_LOG, SHARED_MEMORY, ROLLBACK_JOURNAL];

/// Returns the paths that SQLite uses in this folder, and that of a new database.
pub(super) fn all_files(data_dir: &Path) -> impl Iterator<Item = PathBuf> {
    files(data_dir, &OF_SQLITE).chain([data_dir.join(NEW)])
}

/// Returns whether this folder has no database, and no file that SQLite would use with one.
pub(super) fn is_free(data_dir: &Path) -> bool {
    // A dangling link is in the way too.
    files(data_dir, &OF_SQLITE).all(|path| {
        fs::symlink_metadata(path).is_err_and(|error| error.kind() == ErrorKind::NotFound)
    })
}

/// Creates the database of this folder under a temporary name, and renames it when it is filled,
/// closed and synced. After a kill it is complete or missing. No other process may have the store
/// open.
pub(super) fn create(
    data_dir: &Path,
    fill: impl FnOnce(&mut Connection) -> Result<(), StoreError>,
) -> Result<(), StoreError> {
    let new = data_dir.join(NEW);
    let failed = |e| io_error(format!("make {}", data_dir.join(DATABASE).display()), e);
    // A killed process may have left files of an earlier attempt.
    remove(&new)?;
    let mut conn = make(&new)?;
    fill(&mut conn)?;
    conn.close().map_err(|(_, error)| error).doing(WHAT)?;
    let name = || {
        File::open(&new)?.sync_all()?;
        fs::rename(&new, data_dir.join(DATABASE))?;
        File::open(data_dir)?.sync_all()
    };
    name().map_err(failed)
}

/// Removes a database that no process has open, with the files that SQLite puts beside it.
pub(super) fn remove(database: &Path) -> Result<(), StoreError> {
    for suffix in ["", "-journal", "-wal", "-shm"] {
        let mut path = database.as_os_str().to_owned();
        path.push(suffix);
        let path = PathBuf::from(path);
        match fs::remove_file(&path) {
            Err(e) if e.kind() != ErrorKind::NotFound => {
                return Err(io_error(format!("remove {}", path.display()), e));
            }
            _ => {}
        }
    }
    Ok(())
}

/// Opens the database of this folder, which must exist.
pub(super) fn open(data_dir: &Path) -> Result<Connection, StoreError> {
    Connection::open_with_flags(data_dir.join(DATABASE), FLAGS).doing(WHAT)
}

/// Opens the database of this folder as it is: without locks, and without its write-ahead log.
pub(super) fn open_unchanging(data_dir: &Path) -> Result<Connection, StoreError> {
    let path = data_dir.join(DATABASE);
    let path = path.canonicalize().unwrap_or(path);
    let mut uri = String::from("file://");
    for byte in path.as_os_str().as_encoded_bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'/' | b'.' | b'-' | b'_' => {
                uri.push(char::from(*byte));
            }
            byte => uri.push_str(&format!("%{byte:02x}")),
        }
    }
    uri.push_str("?immutable=1");
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY
        | OpenFlags::SQLITE_OPEN_NO_MUTEX
        | OpenFlags::SQLITE_OPEN_URI;
    Connection::open_with_flags(uri, flags).doing(WHAT)
}

/// Returns whether the write-ahead log has content.
pub(super) fn has_log(data_dir: &Path) -> bool {
    let mut log = files(data_dir, &[WRITE_AHEAD_LOG]);
    log.any(|path| fs::metadata(path).is_ok_and(|found| found.len() > 0))
}

/// The result of copying a database that other processes may write to.
pub(super) enum Copied {
    Whole,
    /// The files changed during the copy.
    Changing,
}

/// Copies the database and its write-ahead log for this process alone. They must not be open in it.
pub(super) fn copy_to(data_dir: &Path, folder: &Path) -> Result<Copied, StoreError> {
    let all: Vec<PathBuf> = of_records(data_dir).collect();
    let state = || all.iter().map(|path| stamp(path)).collect::<Vec<_>>();
    let before = state();
    for (from, name) in all.iter().zip([DATABASE, WRITE_AHEAD_LOG]) {
        let to = folder.join(name);
        if is_open_in_process(from) {
            return Ok(Copied::Changing);
        }
        let copied = fs::copy(from, &to).and_then(|_| restrict(&to, 0o600));
        match copied {
            Err(e) if e.kind() == ErrorKind::NotFound && name != DATABASE => {
                let _ = fs::remove_file(&to);
            }
            copied => copied.map_err(|e| io_error(format!("copy {}", from.display()), e))?,
        }
    }
    Ok(match state() == before {
        true => Copied::Whole,
        false => Copied::Changing,
    })
}

/// Returns a value that differs after each write to the file.
fn stamp(path: &Path) -> Option<(u64, u64, i64, i64)> {
    let found = fs::metadata(path).ok()?;
    Some((found.ino(), found.len(), found.mtime(), found.mtime_nsec()))
}

/// Returns the path of a database's write-ahead log.
pub(crate) fn wal_path(database: &Path) -> PathBuf {
    let mut name = database.as_os_str().to_owned();
    name.push("-wal");
    PathBuf::from(name)
}

/// Opens a database at any path that may be damaged. Never creates one.
pub fn open_damaged(path: &Path) -> Result<Connection, StoreError> {
    Connection::open_with_flags(path, FLAGS).doing(WHAT)
}

/// Paths that a rebuild uses, in the folder of the database.
pub(crate) struct Names {
    pub database: PathBuf,
    /// The write-ahead log and the shared memory.
    pub beside: [PathBuf; 2],
    pub rebuilding: PathBuf,
    /// A file that exists from the moment when the new database is complete until it is renamed.
    pub marker: PathBuf,
}

pub(crate) fn names(data_dir: &Path) -> Names {
    let mut all = files(
        data_dir,
        &[
            DATABASE,
            WRITE_AHEAD_LOG,
            SHARED_MEMORY,
            REBUILDING,
            COMPLETE,
        ],
    );
    let mut next = || all.next().unwrap_or_default();
    Names {
        database: next(),
        beside: [next(), next()],
        rebuilding: next(),
        marker: next(),
    }
}

impl Names {
    /// Returns the names that the damaged database and the files of `beside` get, in this order.
    pub(crate) fn damaged(&self, time: &str) -> [PathBuf; 3] {
        ["", "-wal", "-shm"].map(|suffix| {
            let mut name = self.database.clone().into_os_string();
            name.push(format!("{DAMAGED}{time}{suffix}"));
            PathBuf::from(name)
        })
    }
}

/// Returns whether a damaged database was kept: the files that it names must stay too.
pub(super) fn has_damaged_copy(data_dir: &Path) -> bool {
    !copies(data_dir).is_empty()
}

/// Returns the stored copies of the database, which are damaged.
pub(super) fn copies(data_dir: &Path) -> Vec<PathBuf> {
    let database = names(data_dir).database;
    let folder = database.parent().unwrap_or(data_dir);
    let name = database.file_name().unwrap_or_default().to_string_lossy();
    let begin = format!("{name}{DAMAGED}");
    let files = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut copies: Vec<PathBuf> = files
        .map(|file| file.path())
        .filter(|path| {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            name.starts_with(&begin)
        })
        .collect();
    copies.sort_unstable();
    copies
}

// These differ from the default flags: a path is never parsed as a URI.
const FLAGS: OpenFlags = OpenFlags::SQLITE_OPEN_READ_WRITE.union(OpenFlags::SQLITE_OPEN_NO_MUTEX);

/// Opens or creates any database file, for its owner alone.
pub(super) fn make(path: &Path) -> Result<Connection, StoreError> {
    let flags = FLAGS | OpenFlags::SQLITE_OPEN_CREATE;
    let conn = Connection::open_with_flags(path, flags).doing(WHAT)?;
    let failed = |e| io_error(format!("open {}", path.display()), e);
    // Without this check SQLite silently opens a file read-only if it may not be written.
    if conn.is_readonly("main").doing(WHAT)? {
        let why = rustix::fs::access(path, Access::WRITE_OK).map_err(io::Error::from);
        return Err(failed(
            why.err().unwrap_or(ErrorKind::PermissionDenied.into()),
        ));
    }
    // This comes before anything is in the file. SQLite gives -wal and -shm the mode of the
    // database.
    restrict(path, 0o600).map_err(failed)?;
    Ok(conn)
}

/// Registers the files of one connection for [`is_open_in_process`] as long as the value lives. It is
/// made before the connection and dropped after it. Call `opened` after the first statement, since
/// SQLite opens the last of the files with it.
pub(super) fn files_in_use(data_dir: &Path) -> FilesInUse {
    FilesInUse::opening(files(data_dir, &[DATABASE, WRITE_AHEAD_LOG, SHARED_MEMORY]))
}

/// Creates the folder if it is missing. Sets its mode to 0700 in any case.
pub fn private_folder(path: &Path) -> Result<(), StoreError> {
    folder::private_folder(path)
        .map_err(|e| io_error(format!("make the folder {}", path.display()), e))
}

/// Opens the file for reading and writing, and creates it if it is missing. Sets its mode to 0600
/// in any case. Not for files of the database: see [`super::database`].
pub(super) fn private_file(path: &Path) -> Result<File, StoreError> {
    let fail = |e| io_error(format!("open {}", path.display()), e);
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .open(path)
        .map_err(fail)?;
    restrict(path, 0o600).map_err(fail)?;
    Ok(file)
}

/// Pause before a second look, which must agree: a file that is being replaced is missing for an
/// instant.
const AGAIN: Duration = Duration::from_millis(50);

/// The files of an open database, as they were when it was opened.
pub(super) struct InUse {
    /// The paths with device and inode numbers. Empty on a file system whose inode numbers change.
    files: Vec<(PathBuf, Option<(u64, u64)>)>,
}

impl InUse {
    /// Looks at the files. Call it after the first statement, with which SQLite opens the last of
    /// them.
    pub(super) fn look(data_dir: &Path) -> InUse {
        if !is_steady(data_dir) {
            return InUse { files: Vec::new() };
        }
        let files = database::of_records(data_dir);
        InUse {
            files: files.map(|path| (path.clone(), number(&path))).collect(),
        }
    }

    /// Checks that the files still have their names.
    ///
    /// # Errors
    /// `Moved`.
    pub(super) fn check_names(&self) -> Result<(), StoreError> {
        let gone = || self.files.iter().find(|(path, at)| number(path) != *at);
        if gone().is_none() {
            return Ok(());
        }
        std::thread::sleep(AGAIN);
        match gone() {
            None => Ok(()),
            Some((path, _)) => Err(StoreError::Moved { path: path.clone() }),
        }
    }
}

fn number(path: &Path) -> Option<(u64, u64)> {
    fs::metadata(path)
        .ok()
        .map(|found| (found.dev(), found.ino()))
}

/// Returns whether inode numbers stay the same. FUSE file systems may change them.
#[cfg(target_os = "linux")]
fn is_steady(data_dir: &Path) -> bool {
    const FUSE: u64 = 0x6573_5546;
    rustix::fs::statfs(data_dir).is_ok_and(|found| u64::try_from(found.f_type) != Ok(FUSE))
}

#[cfg(not(target_os = "linux"))]
fn is_steady(_: &Path) -> bool {
    true
}

/// Begins a transaction that holds the write lock from the start. So it cannot fail half-way
/// because another process writes.
pub(super) fn begin<'a>(
    conn: &'a Connection,
    in_use: &InUse,
    what: &'static str,
) -> Result<Transaction<'a>, StoreError> {
    in_use.check_names()?;
    Transaction::new_unchecked(conn, TransactionBehavior::Immediate).doing(what)
}
