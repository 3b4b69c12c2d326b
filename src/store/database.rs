//! The files of the database: `rewake.db`, and what SQLite keeps beside it.
//!
//! Invariant: only SQLite opens them. When a process closes any descriptor of a file, POSIX
//! drops every lock that the process has on it (fcntl(2)), so one open and close beside SQLite
//! takes its locks away. The next program that reads the database and closes it then takes
//! itself for the last one, and removes the write-ahead log that we go on writing to. So the
//! files are made by SQLite, looked at by their paths, and named nowhere else in the program
//! (`tests/source/layers`). Whoever opens a file that was named from outside, as tools do, asks
//! [`is_open_here`] first; so does what reads config, instructions and skills.

use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rusqlite::{Connection, OpenFlags};
use rustix::fs::Access;

use super::StoreError;
use super::error::{Doing, io as io_error};
use crate::config::{FilesInUse, is_in_use};
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

/// Whether a database was made in this folder.
pub fn exists(data_dir: &Path) -> bool {
    fs::metadata(data_dir.join(DATABASE)).is_ok_and(|found| found.is_file())
}

/// Bytes of the database and its write-ahead log.
pub fn bytes(data_dir: &Path) -> u64 {
    files(data_dir, &[DATABASE, WRITE_AHEAD_LOG])
        .filter_map(|path| Some(fs::metadata(path).ok()?.len()))
        .sum()
}

/// Where a database lies that is a link to another folder, SQLite keeps the rest beside it.
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

/// Where the database lies: it may be a link.
pub(super) fn folder(data_dir: &Path) -> PathBuf {
    let database = names(data_dir).database;
    database.parent().unwrap_or(data_dir).to_path_buf()
}

/// The database and its write-ahead log.
pub(super) fn of_records(data_dir: &Path) -> impl Iterator<Item = PathBuf> {
    files(data_dir, &[DATABASE, WRITE_AHEAD_LOG])
}

/// Whether this is a file of a database that is open in this process, whatever name it is
/// given: then it must not be opened, not even to be read.
pub fn is_open_here(path: &Path) -> bool {
    is_in_use(path)
}

/// The database of this folder, for its owner alone. It is made when it is missing.
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
    // A link to nothing is not free.
    files(data_dir, &OF_SQLITE).all(|path| {
        fs::symlink_metadata(path).is_err_and(|error| error.kind() == ErrorKind::NotFound)
    })
}

/// Makes the database of this folder under another name, and renames it when it is filled, closed
/// and synced. After a kill it is complete or missing. No other process may have the store open.
pub(super) fn create(
    data_dir: &Path,
    fill: impl FnOnce(&mut Connection) -> Result<(), StoreError>,
) -> Result<(), StoreError> {
    let new = data_dir.join(NEW);
    let failed = |e| io_error(format!("make {}", data_dir.join(DATABASE).display()), e);
    // A kill may have left files of an earlier try.
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

/// Removes a database that nobody has open, with the files that SQLite keeps with it.
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

/// The database of this folder, which is there.
pub(super) fn open(data_dir: &Path) -> Result<Connection, StoreError> {
    Connection::open_with_flags(data_dir.join(DATABASE), FLAGS).doing(WHAT)
}

/// The database of this folder as it is: nothing is locked, and a write-ahead log is not looked
/// at.
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

/// Whether anything is in the write-ahead log.
pub(super) fn has_log(data_dir: &Path) -> bool {
    let mut log = files(data_dir, &[WRITE_AHEAD_LOG]);
    log.any(|path| fs::metadata(path).is_ok_and(|found| found.len() > 0))
}

/// What came of copying a database that others may write in.
pub(super) enum Copied {
    Whole,
    /// It changed meanwhile.
    Changing,
}

/// Database and write-ahead log, for this process alone. They must not be open in it.
pub(super) fn copy_to(data_dir: &Path, folder: &Path) -> Result<Copied, StoreError> {
    let all: Vec<PathBuf> = of_records(data_dir).collect();
    let state = || all.iter().map(|path| stamp(path)).collect::<Vec<_>>();
    let before = state();
    for (from, name) in all.iter().zip([DATABASE, WRITE_AHEAD_LOG]) {
        let to = folder.join(name);
        if is_open_here(from) {
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

/// It is another one when a file was written to.
fn stamp(path: &Path) -> Option<(u64, u64, i64, i64)> {
    let found = fs::metadata(path).ok()?;
    Some((found.ino(), found.len(), found.mtime(), found.mtime_nsec()))
}

/// Where the copy of a database with this schema is kept.
pub(super) fn copy_of_schema(data_dir: &Path, schema: i64) -> PathBuf {
    data_dir.join(format!("{DATABASE}.schema-{schema}"))
}

/// Where SQLite keeps the write-ahead log of a database.
pub(super) fn log_beside(database: &Path) -> PathBuf {
    let mut name = database.as_os_str().to_owned();
    name.push("-wal");
    PathBuf::from(name)
}

/// A database that may be damaged, wherever it lies; it is never made.
pub(super) fn open_damaged(path: &Path) -> Result<Connection, StoreError> {
    Connection::open_with_flags(path, FLAGS).doing(WHAT)
}

/// What a database is rebuilt as, and the names that its files get. They lie where it lies.
pub(super) struct Names {
    pub database: PathBuf,
    /// The write-ahead log and the shared memory.
    pub beside: [PathBuf; 2],
    pub rebuilding: PathBuf,
    /// It is there from when the new database is complete until it has its name.
    pub marker: PathBuf,
}

pub(super) fn names(data_dir: &Path) -> Names {
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
    /// What the damaged database is called, and what lies beside it, in the order of `beside`.
    pub(super) fn damaged(&self, time: &str) -> [PathBuf; 3] {
        ["", "-wal", "-shm"].map(|suffix| {
            let mut name = self.database.clone().into_os_string();
            name.push(format!("{DAMAGED}{time}{suffix}"));
            PathBuf::from(name)
        })
    }
}

/// A damaged database is kept beside: what it names is to be found too.
pub(super) fn has_damaged_copy(data_dir: &Path) -> bool {
    let is_damaged = |path: &PathBuf| path.to_string_lossy().contains(DAMAGED);
    copies(data_dir).iter().any(is_damaged)
}

/// Copies of the database that were kept: damaged ones, and those of older schemas.
pub(super) fn copies(data_dir: &Path) -> Vec<PathBuf> {
    let database = names(data_dir).database;
    let folder = database.parent().unwrap_or(data_dir);
    let name = database.file_name().unwrap_or_default().to_string_lossy();
    let begins = [format!("{name}{DAMAGED}"), format!("{name}.schema-")];
    let files = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut copies: Vec<PathBuf> = files
        .map(|file| file.path())
        .filter(|path| {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            begins.iter().any(|begin| name.starts_with(begin))
        })
        .collect();
    copies.sort_unstable();
    copies
}

// Not the default flags: a path is a path, never a URI.
const FLAGS: OpenFlags = OpenFlags::SQLITE_OPEN_READ_WRITE.union(OpenFlags::SQLITE_OPEN_NO_MUTEX);

/// Any database file, for its owner alone.
pub(super) fn make(path: &Path) -> Result<Connection, StoreError> {
    let flags = FLAGS | OpenFlags::SQLITE_OPEN_CREATE;
    let conn = Connection::open_with_flags(path, flags).doing(WHAT)?;
    let failed = |e| io_error(format!("open {}", path.display()), e);
    // SQLite would be content with reading what it may not write.
    if conn.is_readonly("main").doing(WHAT)? {
        let why = rustix::fs::access(path, Access::WRITE_OK).map_err(io::Error::from);
        return Err(failed(
            why.err().unwrap_or(ErrorKind::PermissionDenied.into()),
        ));
    }
    // Before anything is in it. SQLite gives -wal and -shm the mode of the database.
    restrict(path, 0o600).map_err(failed)?;
    Ok(conn)
}

/// The files of one connection, known to [`is_open_here`] while this lives. To be dropped
/// behind the connection, and made before it; they are `opened` after a first statement, with
/// which SQLite opens the last of them.
pub(super) fn files_in_use(data_dir: &Path) -> FilesInUse {
    FilesInUse::opening(files(data_dir, &[DATABASE, WRITE_AHEAD_LOG, SHARED_MEMORY]))
}
