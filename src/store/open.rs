//! Opening the database: files, locks, pragmas.

use std::path::Path;
use std::time::Duration;

use rusqlite::Connection;
use rusqlite::limits::Limit;

use super::database;
use super::error::Doing;
use super::file_identity::InUse;
use super::files::private_folder;
use super::lock::StoreLock;
use super::migrate::{self, MIGRATIONS};
use super::packs;
use super::reconcile::RestoreReport;
use super::row::MAX_ROW_BYTES;
use super::swap;
use super::{Store, StoreError};
use crate::config::FilesInUse;
use crate::journal::folder::obstacle;

/// Time that a write waits for another process before it fails with `Busy`.
const BUSY_TIMEOUT: Duration = Duration::from_secs(5);

/// Pages in the write-ahead log (16 MiB) at which an append copies them into the database itself.
/// Usually `Store::maintain` does it earlier, when nobody waits.
const HARD_WAL_PAGES: i64 = 4096;

const STATEMENTS: usize = 64;

impl Store {
    /// Opens the store in this folder and creates it if it is missing. Fails with `Newer` when a
    /// newer version wrote it, and with `Locked` when it must be migrated and other processes have
    /// it open.
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
            has_all_tips: false,
            copies: None,
            brought: RestoreReport::default(),
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
    while !migrate::is_current(&conn, MIGRATIONS)? {
        // The process that migrated it first keeps the store open from then on.
        let done_by_another = || migrate::is_current(&conn, MIGRATIONS);
        lock = match lock.exclusive(data_dir, done_by_another)? {
            Some(alone) => {
                migrate::migrate(&mut conn, data_dir, MIGRATIONS)?;
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
    /// Opens the store for reading only. Returns `None` when there is none, or when it has to be
    /// migrated first, which the next start does.
    pub fn open_current(data_dir: &Path) -> Result<Option<Store>, StoreError> {
        if !database::exists(data_dir) && !swap::is_begun(data_dir) {
            return Ok(None);
        }
        let lock = locked(data_dir)?;
        let files = database::files_in_use(data_dir);
        let open = || {
            let conn = set_up(database::open(data_dir)?)?;
            Ok((migrate::is_current(&conn, MIGRATIONS)?, conn))
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

/// Creates the database if there is none. Syncs it once, when it is complete, instead of at each
/// migration.
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
            migrate::migrate(conn, data_dir, MIGRATIONS)?;
            write_ahead(conn)
        })?;
    }
    alone.share(data_dir)
}

/// Takes the shared lock of the store. If a kill interrupted a rebuild before the new database got
/// its name, this finishes it first.
fn locked(data_dir: &Path) -> Result<StoreLock, StoreError> {
    let lock = StoreLock::shared(data_dir)?;
    match swap::is_begun(data_dir) {
        true => swap::finish(data_dir, lock),
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
