//! Opening the database: files, locks, pragmas.
//!
//! A check for data folders on file systems that several machines share. SQLite shares memory
//! between the processes that have a database open, and relies on locks. Machines have no such
//! shared memory, and on many of these file systems locks do nothing. So the store is refused
//! there, unless the config allows it.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::Connection;
use rusqlite::limits::Limit;

use super::database::{InUse, private_folder};
use super::error::Doing;
use super::lock::StoreLock;
use super::reconcile::RestoreReport;
use super::row::MAX_ROW_BYTES;
use super::{Store, StoreError, database, migrate, new_database, packs};
use crate::config::FilesInUse;
use crate::journal::folder::obstacle;

/// Time that a write waits for another process before it fails with `Busy`.
const BUSY_TIMEOUT: Duration = Duration::from_secs(5);

/// Pages in the write-ahead log (16 MiB) at which an append copies them into the database itself.
/// Usually `Store::maintain` does it earlier, when nobody waits.
const HARD_WAL_PAGES: i64 = 4096;

const STATEMENTS: usize = 64;

impl Store {
    /// Opens the store in this folder and creates it if it is missing. Fails with `Newer` or `Older`
    /// when it has another schema, and with `Locked` when it is empty and other processes have it
    /// open.
    pub fn open(data_dir: &Path) -> Result<Store, StoreError> {
        open_migrated(data_dir).map_err(|error| match error {
            StoreError::Sqlite { .. } | StoreError::Io { .. } => {
                find_obstacle(data_dir).unwrap_or(error)
            }
            error => error.while_opening(),
        })
    }

    /// Makes a store from its parts. Call it after the first statement, with which SQLite opens the
    /// last of its files.
    pub(super) fn of(parts: Parts<'_>) -> Store {
        let Parts {
            conn,
            files,
            data_dir,
            lock,
        } = parts;
        Store {
            _before_closing: files.before_closing(),
            conn,
            indexing: false,
            copies: None,
            brought: RestoreReport::default(),
            held: None,
            in_use: InUse::look(data_dir),
            packs: packs::folder(data_dir),
            _files: files.opened(),
            copy: None,
            lock,
        }
    }
}

fn open_migrated(data_dir: &Path) -> Result<Store, StoreError> {
    private_folder(data_dir)?;
    let mut lock = made(data_dir, locked(data_dir)?)?;
    let files = database::files_in_use(data_dir);
    let mut conn = set_up(database::open_or_make(data_dir)?)?;
    while !migrate::is_current(&conn)? {
        // The process that filled it first keeps the store open from then on.
        let done_by_another = || migrate::is_current(&conn);
        lock = match lock.exclusive(data_dir, done_by_another)? {
            Some(alone) => {
                migrate::migrate(&mut conn)?;
                alone.share(data_dir)?
            }
            None => StoreLock::shared(data_dir)?,
        };
    }
    write_ahead(&conn)?;
    Ok(Store::of(Parts {
        conn,
        files,
        data_dir,
        lock: Some(lock),
    }))
}

/// The parts of an open store.
pub(super) struct Parts<'a> {
    pub conn: Connection,
    pub files: FilesInUse,
    pub data_dir: &'a Path,
    pub lock: Option<StoreLock>,
}

impl Store {
    /// Opens the store for reading only. Returns `None` when there is none, or when it is empty,
    /// which the next start changes.
    pub fn open_current(data_dir: &Path) -> Result<Option<Store>, StoreError> {
        if !database::exists(data_dir) && !new_database::is_begun(data_dir) {
            return Ok(None);
        }
        let lock = locked(data_dir)?;
        let files = database::files_in_use(data_dir);
        let open = || {
            let conn = set_up(database::open(data_dir)?)?;
            Ok((migrate::is_current(&conn)?, conn))
        };
        let (is_current, conn) = open().map_err(StoreError::while_opening)?;
        let store = || {
            Store::of(Parts {
                conn,
                files,
                data_dir,
                lock: Some(lock),
            })
        };
        Ok(is_current.then(store))
    }
}

/// Returns an error for the first file of the store whose name something else has.
fn find_obstacle(data_dir: &Path) -> Option<StoreError> {
    let files = database::all_files(data_dir).chain([StoreLock::path(data_dir)]);
    files.into_iter().find_map(|path| {
        let what = obstacle(&path)?;
        Some(StoreError::InTheWay { path, what })
    })
}

/// Creates the database if there is none. Syncs it once, when it is complete.
fn made(data_dir: &Path, lock: StoreLock) -> Result<StoreLock, StoreError> {
    if !database::is_free(data_dir) {
        return Ok(lock);
    }
    let done_by_another = || Ok(!database::is_free(data_dir));
    let Some(alone) = lock.exclusive(data_dir, done_by_another)? else {
        return StoreLock::shared(data_dir);
    };
    if database::is_free(data_dir) {
        database::create(data_dir, |conn| {
            conn.pragma_update(None, "synchronous", "OFF")
                .doing("open the session store")?;
            migrate::migrate(conn)?;
            write_ahead(conn)
        })?;
    }
    alone.share(data_dir)
}

/// Takes the shared lock of the store. If a kill interrupted a rebuild before the new database got
/// its name, this finishes it first.
fn locked(data_dir: &Path) -> Result<StoreLock, StoreError> {
    let lock = StoreLock::shared(data_dir)?;
    match new_database::is_begun(data_dir) {
        true => new_database::finish(data_dir, lock),
        false => Ok(lock),
    }
}

pub(super) fn set_up(conn: Connection) -> Result<Connection, StoreError> {
    let set = || -> rusqlite::Result<()> {
        conn.busy_timeout(BUSY_TIMEOUT)?;
        conn.set_limit(Limit::SQLITE_LIMIT_LENGTH, MAX_ROW_BYTES)?;
        conn.pragma_update(None, "trusted_schema", false)?;
        conn.pragma_update(None, "cell_size_check", true)?;
        conn.pragma_update(None, "foreign_keys", true)?;
        conn.pragma_update(None, "synchronous", "FULL")?;
        // Only macOS has these; elsewhere they change nothing.
        conn.pragma_update(None, "fullfsync", true)?;
        conn.pragma_update(None, "checkpoint_fullfsync", true)?;
        conn.pragma_update_and_check(None, "wal_autocheckpoint", HARD_WAL_PAGES, |_| Ok(()))?;
        conn.set_prepared_statement_cache_capacity(STATEMENTS);
        Ok(())
    };
    set().doing("open the session store")?;
    Ok(conn)
}

fn write_ahead(conn: &Connection) -> Result<(), StoreError> {
    let mode: String = conn
        .pragma_update_and_check(None, "journal_mode", "WAL", |row| row.get(0))
        .doing("open the session store")?;
    if mode == "wal" {
        // With its first statement SQLite opens the log and takes the lock that protects it.
        return conn
            .query_row("PRAGMA user_version", [], |_| Ok(()))
            .doing("open the session store");
    }
    Err(super::error::io(
        "open the session store",
        std::io::Error::other("its file system cannot share memory between processes (no WAL)"),
    ))
}

/// Network file systems, by their number from statfs(2).
#[cfg(any(target_os = "linux", test))]
const SHARED: [(u64, &str); 14] = [
    (0x6969, "NFS"),
    (0x517b, "SMB"),
    (0xff53_4d42, "SMB"),
    (0xfe53_4d42, "SMB"),
    (0x0102_1997, "9p"),
    (0x5346_414f, "AFS"),
    (0x6b41_4653, "AFS"),
    (0x7375_7245, "Coda"),
    (0x00c3_6400, "Ceph"),
    (0x0bd0_0bd0, "Lustre"),
    (0x0116_1970, "GFS2"),
    (0x7461_636f, "OCFS2"),
    (0x4750_4653, "GPFS"),
    (0x786f_4256, "a folder of a VirtualBox host"),
];

#[cfg(any(target_os = "linux", test))]
const FUSE: u64 = 0x6573_5546;

/// FUSE programs whose files are on other machines, as the list of mounts names them.
#[cfg(any(target_os = "linux", test))]
#[rustfmt::skip]
const SHARED_FUSE: [&str; 14] = [
    "sshfs", "rclone", "s3fs", "glusterfs", "ceph-fuse", "davfs", "davfs2", "gcsfuse", "juicefs", "smbnetfs",
    "curlftpfs", "gvfsd-fuse", "mount-s3", "hdfs",
];

/// Fails if several machines share this folder, or the folder in which it will be made.
///
/// # Errors
/// `Network`.
pub fn refuse_shared(data_dir: &Path) -> Result<(), StoreError> {
    refuse(data_dir, &file_system)
}

/// The number of a file system, and for FUSE its type in the list of mounts.
type FileSystem = (u64, Option<String>);

fn refuse(data_dir: &Path, look: &dyn Fn(&Path) -> Option<FileSystem>) -> Result<(), StoreError> {
    let real = nearest(data_dir);
    let name = look(&real).and_then(|(number, kind)| shared_by(number, kind.as_deref()));
    match name {
        None => Ok(()),
        Some(kind) => Err(StoreError::Network {
            path: data_dir.to_path_buf(),
            kind,
        }),
    }
}

/// Returns the data folder, or its nearest parent that exists. If the database is a link, its
/// target counts.
fn nearest(data_dir: &Path) -> PathBuf {
    let real = super::database::folder(data_dir);
    let mut at = real.as_path();
    while fs::metadata(at).is_err() {
        match at.parent() {
            Some(parent) => at = parent,
            None => break,
        }
    }
    at.to_path_buf()
}

/// Returns the common name of a shared file system. `None`: the file system is local, or not known.
#[cfg(any(target_os = "linux", test))]
fn shared_by(number: u64, fuse: Option<&str>) -> Option<String> {
    if number == FUSE {
        let program = fuse?.strip_prefix("fuse.")?;
        return SHARED_FUSE.contains(&program).then(|| program.to_string());
    }
    let known = SHARED.iter().find(|(known, _)| *known == number);
    known.map(|(_, name)| (*name).to_string())
}

#[cfg(not(any(target_os = "linux", test)))]
fn shared_by(_: u64, _: Option<&str>) -> Option<String> {
    None
}

#[cfg(target_os = "linux")]
fn file_system(folder: &Path) -> Option<FileSystem> {
    use std::os::unix::fs::MetadataExt;
    // The number has 32 bits and no sign on all machines.
    let number = rustix::fs::statfs(folder).ok()?.f_type as u64 & 0xffff_ffff;
    let kind = || {
        let device = fs::metadata(folder).ok()?.dev();
        let device = format!(
            "{}:{}",
            rustix::fs::major(device),
            rustix::fs::minor(device)
        );
        type_of(&fs::read_to_string("/proc/self/mountinfo").ok()?, &device)
    };
    Some((number, (number == FUSE).then(kind).flatten()))
}

#[cfg(not(target_os = "linux"))]
fn file_system(_: &Path) -> Option<FileSystem> {
    None
}

/// Returns the type of the mount of this device: proc_pid_mountinfo(5).
#[cfg(any(target_os = "linux", test))]
fn type_of(mounts: &str, device: &str) -> Option<String> {
    let of_device = |line: &&str| line.split(' ').nth(2) == Some(device);
    let (_, behind) = mounts.lines().find(of_device)?.split_once(" - ")?;
    behind.split(' ').next().map(str::to_string)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_systems_of_the_network_are_known() {
        for (number, name) in [
            (0x6969, "NFS"),
            (0xff53_4d42, "SMB"),
            (0xfe53_4d42, "SMB"),
            (0x517b, "SMB"),
            (0x0102_1997, "9p"),
        ] {
            assert_eq!(shared_by(number, None).as_deref(), Some(name));
        }
        // ext4, btrfs, xfs, tmpfs, overlay, zfs.
        for number in [
            0xef53,
            0x9123_683e,
            0x5846_5342,
            0x0102_1994,
            0x794c_7630,
            0x2fc1_2fc1,
        ] {
            assert_eq!(shared_by(number, None), None, "{number:x}");
        }
        for (kind, is_shared) in [
            (Some("fuse.sshfs"), true),
            (Some("fuse.rclone"), true),
            (Some("fuse.gocryptfs"), false),
            (Some("fuseblk"), false),
            (None, false),
        ] {
            assert_eq!(shared_by(FUSE, kind).is_some(), is_shared, "{kind:?}");
        }
    }

    #[test]
    fn the_type_of_a_mount_is_that_of_its_device() {
        let mounts = "22 1 8:1 / / rw,relatime - ext4 /dev/sda1 rw\n\
                      41 22 0:52 / /home/ann/far rw shared:3 - fuse.sshfs ann@host: rw\n";
        assert_eq!(type_of(mounts, "0:52").as_deref(), Some("fuse.sshfs"));
        assert_eq!(type_of(mounts, "8:1").as_deref(), Some("ext4"));
        assert_eq!(type_of(mounts, "8:2"), None);
    }

    #[test]
    fn a_store_on_one_is_refused_also_before_it_is_made() {
        let dir = tempfile::tempdir().unwrap();
        let asked = dir.path().join("not/there/yet");
        let nfs = |path: &Path| {
            assert_eq!(path, dir.path());
            Some((0x6969, None))
        };
        let error = refuse(&asked, &nfs).unwrap_err();
        assert!(error.to_string().contains("NFS"), "{error}");
        assert!(error.to_string().contains("not/there/yet"), "{error}");
        let hint = error.hint().unwrap();
        assert!(hint.contains("REWAKE_HOME") && hint.contains("store.network = \"allow\""));
        assert!(refuse(&asked, &|_| Some((0xef53, None))).is_ok());
        assert!(refuse(&asked, &|_| None).is_ok());
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn the_file_system_of_a_folder_is_asked_for() {
        // proc is never shared, and has a known number.
        assert_eq!(file_system(Path::new("/proc")), Some((0x9fa0, None)));
    }
}
