//! A new database, which the recovery writes beside the old one.
//!
//! Invariant: an incomplete new database is never used, so nothing waits for a sync until it is
//! complete. A kill leaves files that the next recovery removes.
//!
//! The swap of a damaged database with the new one. The damaged one gets another name.
//!
//! The order:
//!
//! 1. The new database is complete and synced.
//! 2. The marker is written. It contains the suffix of the old files' names.
//! 3. The files beside the old database are renamed, because a write-ahead log is not tied to its
//!    database.
//! 4. The old database is renamed, then the new one.
//! 5. The marker is removed.
//!
//! A kill before step 2 leaves the old database. After it, the next process that opens the store
//! completes the swap. Each of these processes has the exclusive lock of the store, so no process
//! opens the database in between.

use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::{fs, io};

use rusqlite::types::Value;
use rusqlite::{Connection, ErrorCode, Transaction, TransactionBehavior, params, params_from_iter};

use super::blobs::{BlobRow, Packed, insert_blob};
use super::chain::{Head, SessionStart, insert_session};
use super::database::{Names, names};
use super::error::{Doing, io as io_error};
use super::fork::{add_diverged_title, close_calls};
use super::gap::store_gap;
use super::line_writer::{LineWriter, PreparedLine};
use super::lock::StoreLock;
use super::missing::Gap;
use super::pending_rows::{ConsumedIds, MayHaveWaited};
use super::{StoreError, cached, database, migrate, pending_rows, purge};
use crate::core::entry::Seq;

/// The action that errors name.
pub(crate) const WHAT: &str = "rebuild the session store";

/// The new database while it is written.
pub(crate) struct NewDatabase {
    conn: Connection,
}

/// A row of `sessions`, as a damaged database has it.
#[derive(Debug, Clone)]
pub(crate) struct SessionRow {
    pub key: i64,
    pub id: String,
    pub workspace: String,
    pub folder: String,
    pub head: i64,
    pub length: u64,
    pub forked_from: Option<i64>,
    pub forked_seq: Option<i64>,
    pub created_ms: i64,
    pub updated_ms: i64,
    pub title: Option<String>,
    pub version: Option<String>,
    pub model: Option<String>,
    pub unfinished: i64,
    /// Sums: input, cached, cache_written, output, bytes.
    pub sums: [i64; 5],
    pub trashed_ms: Option<i64>,
    pub billed: Option<i64>,
    pub asks: bool,
    /// See [`super::replica_source`].
    pub replica: Option<String>,
}

impl NewDatabase {
    /// Creates the database, and starts a transaction for the blobs of the journals.
    pub(crate) fn make(names: &Names) -> Result<NewDatabase, StoreError> {
        NewDatabase::remove(names)?;
        let mut conn = database::make(&names.rebuilding)?;
        let set = || -> rusqlite::Result<()> {
            conn.pragma_update_and_check(None, "journal_mode", "OFF", |_| Ok(()))?;
            conn.pragma_update(None, "synchronous", "OFF")?;
            conn.pragma_update(None, "foreign_keys", false)?;
            conn.pragma_update(None, "cache_size", -65_536)?;
            conn.set_prepared_statement_cache_capacity(64);
            Ok(())
        };
        set().doing(WHAT)?;
        migrate::migrate(&mut conn)?;
        // One transaction for all blobs is faster than one for each.
        conn.execute_batch("BEGIN IMMEDIATE").doing(WHAT)?;
        Ok(NewDatabase { conn })
    }

    /// Removes the files of an incomplete recovery.
    pub(crate) fn remove(names: &Names) -> Result<(), StoreError> {
        database::remove(&names.rebuilding)
    }

    pub(crate) fn blob(&self, bytes: &[u8]) -> Result<(), StoreError> {
        insert_blob(&self.conn, &Packed::new(bytes)).doing(WHAT)
    }

    /// Starts the transaction for everything except the blobs of the journals.
    pub(crate) fn rows(&mut self) -> Result<NewRows<'_>, StoreError> {
        self.conn.execute_batch("COMMIT").doing(WHAT)?;
        let tx = self
            .conn
            .transaction_with_behavior(TransactionBehavior::Immediate)
            .doing(WHAT)?;
        Ok(NewRows { tx })
    }

    pub(crate) fn close(self) -> Result<(), StoreError> {
        self.conn.close().map_err(|(_, e)| e).doing(WHAT)
    }
}

/// The rows of a new database, written in one transaction.
pub(crate) struct NewRows<'c> {
    tx: Transaction<'c>,
}

impl NewRows<'_> {
    pub(crate) fn commit(self) -> Result<(), StoreError> {
        self.tx.commit().doing(WHAT)
    }

    /// Sets the ID of the store, which identifies its copies and journals.
    pub(crate) fn name_store(&self, id: &str) -> Result<(), StoreError> {
        let sql = "UPDATE meta SET value = ?1 WHERE name = 'store'";
        self.tx.execute(sql, [id]).doing(WHAT).map(drop)
    }

    /// Returns the number of row IDs that purging removed, from the copied rows of `meta`.
    pub(crate) fn unused(&self) -> Result<u64, StoreError> {
        purge::unused(&self.tx)
    }

    /// Reserves these row IDs, so that the mark still counts correctly.
    pub(crate) fn begin_after(&self, unused: u64) -> Result<(), StoreError> {
        purge::reserve_purged_ids(&self.tx, unused)
    }

    /// Removes the reservation of [`NewRows::begin_after`].
    pub(crate) fn end_after(&self, unused: u64) -> Result<(), StoreError> {
        purge::release_reserved_ids(&self.tx, unused)
    }

    /// Creates a session. Returns the writer of its lines.
    pub(crate) fn session(&self, session: &SessionStart<'_>) -> Result<LineWriter, StoreError> {
        let head = insert_session(&self.tx, session, WHAT)?;
        Ok(LineWriter::new(head, WHAT))
    }

    /// See [`LineWriter::append`].
    pub(crate) fn append(
        &self,
        writer: &mut LineWriter,
        line: PreparedLine,
    ) -> Result<i64, StoreError> {
        writer.append(&self.tx, line)
    }

    /// Adds to the title that the session was made from a journal.
    pub(crate) fn add_diverged_title(&self, head: &Head) -> Result<(), StoreError> {
        add_diverged_title(&self.tx, head.key)
    }

    /// See [`close_calls`].
    pub(crate) fn close_calls(
        &self,
        head: &mut Head,
        other: &str,
        seq: Seq,
    ) -> Result<(), StoreError> {
        close_calls(&self.tx, head, other, seq)
    }

    /// Restores the fields that lists show. `is_whole`: the session ends at the same entry as
    /// before, so all old values apply. Otherwise only missing values are restored.
    pub(crate) fn list_as_before(
        &self,
        head: &Head,
        row: &SessionRow,
        is_whole: bool,
    ) -> Result<(), StoreError> {
        let [input, cached, cache_written, output, bytes] = row.sums;
        let done = match is_whole {
            false => self.tx.execute(
                "UPDATE sessions SET title = coalesce(title, ?2), version = coalesce(version, ?3),
                   model = coalesce(model, ?4) WHERE key = ?1",
                params![head.key, row.title, row.version, row.model],
            ),
            true => self.tx.execute(
                "UPDATE sessions SET title = ?2, version = ?3, model = ?4, unfinished = ?5,
                   input = ?6, cached = ?7, cache_written = ?8, output = ?9, bytes = ?10,
                   trashed_ms = ?11, updated_ms = ?12, billed = ?13, asks = ?14 WHERE key = ?1",
                params![
                    head.key,
                    row.title,
                    row.version,
                    row.model,
                    row.unfinished,
                    input,
                    cached,
                    cache_written,
                    output,
                    bytes,
                    row.trashed_ms,
                    row.updated_ms,
                    row.billed,
                    row.asks
                ],
            ),
        };
        done.doing(WHAT).map(drop)
    }

    /// Restores the pending input of a session and whether it is in the trash, from its journal.
    pub(crate) fn waits(
        &self,
        folder: &Path,
        session: (i64, u64),
        became: &ConsumedIds,
        said: &[MayHaveWaited],
    ) -> Result<(), StoreError> {
        pending_rows::restore_state(&self.tx, folder, session, became, said)
    }

    /// Marks the row IDs of this table up to `highest` as used.
    pub(crate) fn mark_ids_used(&self, table: &str, highest: i64) -> Result<(), StoreError> {
        pending_rows::mark_ids_used(&self.tx, table, highest)
    }

    /// Marks sessions with a queued message as unfinished.
    pub(crate) fn mark_unfinished(&self) -> Result<(), StoreError> {
        let sql = "UPDATE sessions SET unfinished = 1
           WHERE NOT unfinished AND key IN (SELECT session FROM inbox)";
        self.tx.execute(sql, []).doing(WHAT).map(drop)
    }

    pub(crate) fn gap(&self, gap: &Gap) -> Result<(), StoreError> {
        store_gap(&self.tx, gap)
    }

    /// Inserts a blob if it matches its hash and is not in the database yet.
    pub(crate) fn blob_row(&self, blob: &BlobRow<'_>) -> Result<(), StoreError> {
        match blob.is_in(&self.tx).doing(WHAT)? || !blob.is_whole() {
            true => Ok(()),
            false => blob.insert(&self.tx).doing(WHAT),
        }
    }

    /// Sets the usage count of a memory.
    pub(crate) fn memory_uses(
        &self,
        [key, seq, uses, last_ms]: [i64; 4],
    ) -> Result<(), StoreError> {
        let sql =
            "UPDATE memories SET uses = ?3, last_used_ms = ?4 WHERE session = ?1 AND seq = ?2";
        let uses = params![key, seq, uses, last_ms];
        self.tx.execute(sql, uses).doing(WHAT).map(drop)
    }

    pub(crate) fn columns(&self, table: &str) -> Result<Vec<String>, StoreError> {
        let sql = "SELECT name FROM pragma_table_info(?1)";
        cached::rows(&self.tx, sql, [table], |row| row.get(0)).doing(WHAT)
    }

    /// Inserts a row of another database. Leaves it out if the schema does not allow it.
    pub(crate) fn copy_row(
        &self,
        table: &str,
        columns: &[String],
        row: Vec<Value>,
    ) -> Result<(), StoreError> {
        // The new database already has some rows of `meta`, which the copied ones replace.
        let or = match table {
            "meta" => "REPLACE",
            _ => "IGNORE",
        };
        let holes = vec!["?"; columns.len()].join(", ");
        let columns = columns.join(", ");
        let sql = format!("INSERT OR {or} INTO {table} ({columns}) VALUES ({holes})");
        let inserted = cached::execute(&self.tx, &sql, params_from_iter(row));
        match inserted {
            Err(error) if error.sqlite_error_code() == Some(ErrorCode::ConstraintViolation) => {
                Ok(())
            }
            inserted => inserted.doing(WHAT).map(drop),
        }
    }

    /// Removes rows that refer to missing rows, until none is left.
    pub(crate) fn remove_dangling(&self, table: &str) -> Result<(), StoreError> {
        let sql = format!(
            "DELETE FROM {table} WHERE rowid IN (SELECT rowid FROM pragma_foreign_key_check(?1))"
        );
        let mut remove = self.tx.prepare(&sql).doing(WHAT)?;
        while remove.execute([table]).doing(WHAT)? > 0 {}
        Ok(())
    }
}

/// A callback before each step, with which a test simulates a kill.
type Step<'s> = dyn FnMut(&'static str) -> io::Result<()> + 's;

/// The first line of the marker. The second is the suffix of the old files' names.
const FORM: &str = "rewake rebuilt 1";

/// Returns whether a new database is complete, but the swap is not.
pub(crate) fn is_begun(data_dir: &Path) -> bool {
    names(data_dir).marker.exists()
}

/// Completes a swap that a kill interrupted, under the exclusive lock of the store.
pub(crate) fn finish(data_dir: &Path, lock: StoreLock) -> Result<StoreLock, StoreError> {
    let is_done = || Ok(!is_begun(data_dir));
    match lock.exclusive(data_dir, is_done)? {
        Some(alone) => {
            rest(&names(data_dir), &mut |_| Ok(())).map_err(|e| io_error(WHAT, e))?;
            alone.share(data_dir)
        }
        None => StoreLock::shared(data_dir),
    }
}

/// Gives the new database, which must be complete, its final name. `time` is the suffix of the old
/// files' names.
pub(crate) fn swap(names: &Names, time: &str) -> io::Result<()> {
    swap_with(names, time, &mut |_| Ok(()))
}

fn swap_with(names: &Names, time: &str, step: &mut Step<'_>) -> io::Result<()> {
    step("complete")?;
    File::open(&names.rebuilding)?.sync_all()?;
    let new = names.marker.with_extension("new");
    let mut file = File::create(&new)?;
    file.write_all(format!("{FORM}\n{time}\n").as_bytes())?;
    file.sync_all()?;
    step("marker written")?;
    fs::rename(&new, &names.marker)?;
    sync(names)?;
    step("marker named")?;
    rest(names, step)
}

/// Performs the remaining steps after the marker was written.
fn rest(names: &Names, step: &mut Step<'_>) -> io::Result<()> {
    let Ok(text) = fs::read_to_string(&names.marker) else {
        return Ok(());
    };
    let mut lines = text.lines();
    let (Some(FORM), Some(time)) = (lines.next(), lines.next()) else {
        return Err(io::Error::other(format!(
            "{} is not understood: a newer version wrote it",
            names.marker.display()
        )));
    };
    // If the new file has its final name, only the marker is left to remove.
    if names.rebuilding.exists() {
        let [damaged, wal, shm] = names.damaged(time);
        step("before the files beside")?;
        rename(&names.beside[1], &shm)?;
        step("shared memory renamed")?;
        rename(&names.beside[0], &wal)?;
        sync(names)?;
        step("log renamed")?;
        // A killed run may have renamed the database already.
        rename(&names.database, &damaged)?;
        step("old database renamed")?;
        fs::rename(&names.rebuilding, &names.database)?;
        sync(names)?;
        step("new database named")?;
    }
    fs::remove_file(&names.marker)?;
    sync(names)
}

fn rename(from: &Path, to: &Path) -> io::Result<()> {
    match fs::rename(from, to) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        renamed => renamed,
    }
}

fn sync(names: &Names) -> io::Result<()> {
    match names.database.parent() {
        Some(folder) => File::open(folder)?.sync_all(),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OLD: [(&str, &str); 3] = [
        ("rewake.db", "old"),
        ("rewake.db-wal", "old log"),
        ("rewake.db-shm", "old memory"),
    ];

    fn text(dir: &Path, name: &str) -> Option<String> {
        fs::read_to_string(dir.join(name)).ok()
    }

    /// A kill before the marker leaves the complete old database under its name. A kill after it
    /// leaves the next start with the complete new one, and never with the log of the old one
    /// beside it.
    #[test]
    fn a_kill_at_any_step_leaves_the_old_one_or_the_new_one() {
        let mut steps = 0;
        let mut last = 0;
        for kill in 0.. {
            let dir = tempfile::tempdir().unwrap();
            for (name, text) in OLD {
                fs::write(dir.path().join(name), text).unwrap();
            }
            let names = names(dir.path());
            fs::write(&names.rebuilding, "new").unwrap();
            let mut at = 0;
            let swapped = swap_with(&names, "7", &mut |_| {
                at += 1;
                match at > kill {
                    true => Err(io::ErrorKind::Interrupted.into()),
                    false => Ok(()),
                }
            });
            steps = steps.max(at);
            let was_named = is_begun(dir.path()) || swapped.is_ok();
            // A second kill during the remaining steps.
            let mut at = 0;
            let _ = rest(&names, &mut |_| {
                at += 1;
                match at > kill % 3 {
                    true => Err(io::ErrorKind::Interrupted.into()),
                    false => Ok(()),
                }
            });
            let lock = StoreLock::shared(dir.path()).unwrap();
            if is_begun(dir.path()) {
                drop(finish(dir.path(), lock).unwrap());
            }
            match was_named {
                false => {
                    for (name, old) in OLD {
                        assert_eq!(text(dir.path(), name).as_deref(), Some(old), "{kill}");
                    }
                }
                true => {
                    assert_eq!(
                        text(dir.path(), "rewake.db").as_deref(),
                        Some("new"),
                        "{kill}"
                    );
                    for (name, old) in OLD {
                        let kept = name.replace("rewake.db", "rewake.db.damaged-7");
                        assert_eq!(text(dir.path(), &kept).as_deref(), Some(old), "{kill}");
                    }
                    assert_eq!(text(dir.path(), "rewake.db-wal"), None, "{kill}");
                    assert!(!names.rebuilding.exists() && !names.marker.exists());
                }
            }
            last = kill;
            if swapped.is_ok() {
                break;
            }
        }
        assert_eq!((steps, last), (8, 8));
    }
}
