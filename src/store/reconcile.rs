//! Restoring entries from the journal that the database lacks. All sessions are checked when the
//! mark shows that there were more entries, and each session when it is opened.
//!
//! Invariant: restored entries follow an entry that both copies have, so no entry is ever replaced.
//! If the two diverge, the database keeps its entries, and those of the journal become a separate
//! session.
//! Invariant: the entries of a session are restored in one transaction, all or none.

mod brought;
mod session;

use std::path::Path;

use rusqlite::Connection;

use super::append::WHAT_BROUGHT as WHAT;
use super::chain::read_head;
use super::copies::Copies;
use super::error::Doing;
use super::gap::{count_missing_entries, sessions_with_gap};
use super::high_water_mark::{HighWaterMark, MarkText};
use super::ids::parents_first;
use super::journal_writer::{has_all, highest};
use super::lock::SessionLock;
use super::machine::{LATELY, now_ms};
use super::purge::{is_purged, purged, release_reserved_ids, reserve_purged_ids};
use super::row::int;
use super::{Store, StoreError, cached};
use crate::journal::chain_hash::ChainHash;
use crate::journal::folder::{JournalPlace, sessions};
use crate::journal::read::{begin, end};
use crate::journal::writer::Journal;

pub use brought::RestoreReport;

const LOOK: &str = "SELECT (SELECT count(*) FROM drafts), (SELECT count(*) FROM inbox),
  (SELECT count(*) FROM signals), (SELECT count(*) FROM sqlite_sequence),
  (SELECT count(*) FROM model_limits), (SELECT count(*) FROM meta),
  (SELECT count(*) FROM indexed), (SELECT count(*) FROM catalogue),
  (SELECT count(*) FROM telemetry),
  (SELECT count(*) FROM places), (SELECT max(key) FROM sessions), (SELECT max(id) FROM blobs),
  (SELECT max(id) FROM trees), (SELECT max(id) FROM contents), (SELECT max(id) FROM packs),
  (SELECT max(tree) FROM tree_uses), (SELECT max(id) FROM memories),
  (SELECT max(id) FROM sessions), (SELECT max(hash) FROM blobs),
  EXISTS (SELECT 1 FROM sessions WHERE id = ''), EXISTS (SELECT 1 FROM sessions WHERE workspace = ''),
  EXISTS (SELECT 1 FROM blobs WHERE hash = x''), EXISTS (SELECT 1 FROM trees WHERE name = x''),
  EXISTS (SELECT 1 FROM contents WHERE hash = x''), EXISTS (SELECT 1 FROM places WHERE root = x''),
  EXISTS (SELECT 1 FROM conversation_context WHERE conversation_id = '')";

impl Store {
    /// Starts to keep copies: from now on, the journal and the mark follow each append. If the mark
    /// shows that the database is older than what was recorded, first restores entries from the
    /// journal.
    ///
    /// # Errors
    /// The database cannot be read or written. A problem with the journal does not fail the call.
    pub fn start_copies(
        &mut self,
        data_dir: &Path,
        place: &JournalPlace,
    ) -> Result<(), StoreError> {
        self.compare_with_copies(data_dir, place)?;
        let Some(copies) = &mut self.copies else {
            return Ok(());
        };
        let filled = copies.fill_lag(&self.conn, data_dir);
        let written = filled.and_then(|()| copies.write_gaps(&self.conn));
        match written {
            // The code that reads the damaged part reports it.
            Err(StoreError::Damaged { .. }) => Ok(()),
            written => written,
        }
    }

    fn compare_with_copies(
        &mut self,
        data_dir: &Path,
        place: &JournalPlace,
    ) -> Result<(), StoreError> {
        let store: String = cached::meta(&self.conn, "store").doing("open the session store")?;
        self.finish_purges(data_dir, place)?;
        let mark = HighWaterMark::open(&place.state_dir, data_dir);
        let mut copies = Copies::new(data_dir, place, store, mark);
        let row = match highest(&self.conn) {
            // The code that reads the damaged part reports it. Nothing can be appended to this
            // database, so the mark does not change.
            Err(error @ StoreError::Damaged { .. }) => {
                tracing::warn!(%error, "the mark is not looked at");
                self.copies = Some(copies);
                return Ok(());
            }
            row => row?,
        };
        // Without a mark, only the journals show what was recorded.
        let mut said = copies
            .mark
            .as_ref()
            .map(|mark| mark.said.clone())
            .unwrap_or_default();
        // Someone restored the newer database.
        let is_back = said.held.is_some() && has_all(&self.conn, &copies.store, &said)?;
        if is_back {
            said.held = None;
            lift(&mut copies);
        }
        let is_whole = said.store == copies.store && said.highest <= row;
        let is_new = said.store.is_empty() && !place.folder.is_dir();
        // A restored journal file may have the missing entries of a session.
        let has_gaps = !sessions_with_gap(&self.conn)?.is_empty();
        if said.held.is_none() && (is_back || has_gaps || !is_whole && !is_new) {
            let stores = stores(&self.conn, &copies, &said.store)?;
            let RestoredFromJournals {
                mut brought,
                is_all,
                left,
            } = self.restore_all_reserving_ids(data_dir, &mut copies, row)?;
            let now = highest(&self.conn)?;
            // A write-ahead log of another store adds the rows of that store, but not always its
            // ID. Then more entries are restored than can have been missing.
            let is_more = stores.has_mark && now > said.highest;
            let has_other_id = !said.store.is_empty()
                && said.store != copies.store
                && (stores.has_mark || !stores.has_database);
            let is_another = row > 0 && !stores.is_here && (is_more || has_other_id);
            brought.is_another = is_another;
            // The mark does not count the rows of another store.
            let row = match is_another {
                true => now - row + int(purged(data_dir).unused),
                false => now,
            };
            let missing = u64::try_from(said.highest - row).unwrap_or(0);
            let known = left + count_missing_entries(&self.conn)?;
            brought.missing = missing.saturating_sub(known);
            // The number of entries is right, but the newest one is missing: a write-ahead log of
            // another store may have added rows.
            let is_of_mark = said.store == copies.store || is_another;
            if is_of_mark
                && brought.missing + known == 0
                && is_all
                && !has_newest(&self.conn, &said)?
            {
                brought.missing = 1;
            }
            match brought.missing {
                // Another process has one of the sessions open. The number is known only when that
                // process has closed it.
                _ if !is_all => copies.mark = None,
                // The next start tries the skipped sessions again.
                0 if brought.skipped > 0 => copies.mark = None,
                0 => {}
                missing => hold(&mut copies, missing),
            }
            self.brought.add(brought.clone());
            self.brought.missing = brought.missing;
        }
        let row = highest(&self.conn)?;
        if let Some(mark) = &mut copies.mark
            && row > 0
            && let Err(error) =
                mark.raise(&copies.store, row, super::tips::tip_in(&self.conn, row)?)
        {
            tracing::warn!(%error, "the mark was not raised");
        }
        self.copies = Some(copies);
        Ok(())
    }

    /// Adds to the report of [`Store::brought`] that this database was just rebuilt.
    pub fn was_rebuilt(&mut self, line: String) {
        self.brought.rebuilt = Some(line);
    }

    /// Returns whether SQLite finds damage in the data that every session needs: the last entries,
    /// all rows of the small tables, and one path through the indexes.
    pub fn is_damaged(&self) -> bool {
        let look = || self.conn.query_row(LOOK, [], |_| Ok(())).doing(WHAT);
        let looked = highest(&self.conn).and_then(|_| look());
        looked.is_err_and(|error| error.is_damage())
    }

    /// Returns the report on entries that were restored since the store was opened.
    pub fn restore_report(&self) -> &RestoreReport {
        &self.brought
    }

    /// Returns the error to show while recorded entries are missing from all copies.
    pub fn missing(&self) -> Option<StoreError> {
        let mark = self.copies.as_ref()?.mark.as_ref()?;
        let (missing, _) = mark.said.held?;
        Some(StoreError::BackInTime { missing })
    }

    /// Fails if recorded entries are missing from all copies and this session may lack some of
    /// them. Continuing it could repeat calls.
    pub fn check_missing_entries(&self, session: &str) -> Result<(), StoreError> {
        let mark = self.copies.as_ref().and_then(|copies| copies.mark.as_ref());
        match mark.and_then(|mark| mark.said.held) {
            Some((missing, since)) => {
                let created = self.history().created_ms(session)?;
                match created.is_some_and(|created| created >= since) {
                    true => Ok(()),
                    false => Err(StoreError::BackInTime { missing }),
                }
            }
            None => Ok(()),
        }
    }

    /// Fails if another machine recorded an entry in this store a moment ago.
    pub fn check_other_machine(&self, session: &str) -> Result<(), StoreError> {
        let mark = self.copies.as_ref().and_then(|copies| copies.mark.as_ref());
        let Some((machine, at_ms)) = mark.and_then(|mark| mark.said.by.as_ref()) else {
            return Ok(());
        };
        let age_ms = (now_ms() - at_ms).max(0);
        let is_lately = u64::try_from(age_ms).is_ok_and(|age| u128::from(age) < LATELY.as_millis());
        match machine.is_another() && is_lately {
            false => Ok(()),
            true => Err(StoreError::Elsewhere {
                session: session.to_string(),
                machine: machine.name.clone(),
                pid: None,
                age_ms,
                lock: None,
            }),
        }
    }

    /// Returns whether a session has a journal.
    pub fn has_journal(&self, session: &str) -> bool {
        let copies = self.copies.as_ref();
        copies.is_some_and(|copies| copies.journal.of(session).is_dir())
    }

    /// Restores the entries that the session's journal has and the database lacks, then writes the
    /// lines that the journal lacks. The holder of the session's lock calls this before it reads
    /// the session.
    pub fn restore_from_journal(&mut self, session: &str) -> Result<(), StoreError> {
        let Some(mut copies) = self.copies.take() else {
            return Ok(());
        };
        let mut brought = self.restore_with_lock(&mut copies, session);
        if let Err(error) = &brought
            && error.is_damage()
            && !self.may_contain_entries_of(&copies.journal.of(session))
            && self.is_whole(session)
        {
            tracing::warn!(%session, %error, "the journal is damaged");
            let moved = copies.journal.move_aside(session, now_ms());
            brought = moved.map_err(StoreError::from).map(|()| RestoreReport {
                rewritten: vec![session.to_string()],
                ..RestoreReport::default()
            });
        }
        let folder = copies.journal.of(session);
        self.copies = Some(copies);
        let brought = brought.map_err(|error| self.explain(error))?;
        self.brought.add(brought);
        self.inbox_mut().remove_consumed(&folder, session)?;
        self.write_journal_of(session);
        Ok(())
    }

    /// Returns whether the lines of this journal may be entries of the session. They cannot be if
    /// the first line follows an entry that was never recorded.
    fn may_contain_entries_of(&self, folder: &Path) -> bool {
        match begin(folder) {
            Ok(Some(header)) => header.first > 0 || header.tip == ChainHash::of_nothing(),
            // An unreadable journal may have such lines.
            Ok(None) | Err(_) => true,
        }
    }

    /// Returns whether all rows of the session can be read.
    fn is_whole(&self, session: &str) -> bool {
        let read = self.load_each(session, |_| Ok::<(), StoreError>(()));
        read.is_ok()
    }

    /// Restores the entries of all sessions. In a database without entries, leaves out the row IDs
    /// that purging removed.
    fn restore_all_reserving_ids(
        &mut self,
        data_dir: &Path,
        copies: &mut Copies,
        row: i64,
    ) -> Result<RestoredFromJournals, StoreError> {
        let unused = purged(data_dir).unused;
        if unused == 0 {
            return self.restore_from_all_journals(data_dir, copies);
        }
        let look = |conn: &Connection, on: bool| conn.pragma_update(None, "foreign_keys", on);
        look(&self.conn, false).doing(WHAT)?;
        let begun = match row {
            0 => reserve_purged_ids(&self.conn, unused),
            _ => Ok(()),
        };
        // Also removes what a killed run reserved.
        let found = begun
            .and_then(|()| self.restore_from_all_journals(data_dir, copies))
            .and_then(|found| release_reserved_ids(&self.conn, unused).map(|()| found));
        look(&self.conn, true).doing(WHAT)?;
        found
    }

    /// Restores the entries of all sessions. A problem with one journal does not stop the others.
    fn restore_from_all_journals(
        &mut self,
        data_dir: &Path,
        copies: &mut Copies,
    ) -> Result<RestoredFromJournals, StoreError> {
        let names = in_order_of_creation(&copies.journal).into_iter();
        let names = names.filter(|name| !is_purged(data_dir, name));
        let mut found = RestoredFromJournals {
            brought: RestoreReport::default(),
            is_all: true,
            left: 0,
        };
        for session in names {
            let Ok(mut lock) = SessionLock::take(data_dir, &session) else {
                found.is_all = false;
                continue;
            };
            let brought = match self.restore_with_lock(copies, &session) {
                Ok(brought) => brought,
                Err(error) if is_of_the_journal(&error) => RestoreReport {
                    is_damaged: error.is_damage()
                        && self.may_contain_entries_of(&copies.journal.of(&session)),
                    ..RestoreReport::skips(&session, &error)
                },
                Err(error) => return Err(error),
            };
            if !brought.entries.is_empty() {
                lock.recorded();
            }
            if brought.skipped > 0 {
                found.left += self.count_only_in_journal(copies, &session);
            }
            found.brought.add(brought);
        }
        Ok(found)
    }

    /// Returns the number of own entries of a session that is only in the journal, including those
    /// in gaps of the journal.
    fn count_only_in_journal(&self, copies: &Copies, session: &str) -> u64 {
        match read_head(&self.conn, session) {
            Err(StoreError::NotFound { .. }) => {}
            _ => return 0,
        }
        let folder = copies.journal.of(session);
        match (begin(&folder), end(&folder)) {
            (Ok(Some(header)), Ok(Some((end, _)))) => {
                let shared = header.forked.map_or(0, |forked| forked.seq + 1);
                end.next.saturating_sub(shared)
            }
            _ => 0,
        }
    }
}

/// Returns the sessions with a journal, each after the session that it was forked from.
fn in_order_of_creation(journal: &Journal) -> Vec<String> {
    parents_first(sessions(&journal.folder, usize::MAX), |session| {
        let header = begin(&journal.of(session)).ok().flatten()?;
        Some(header.forked?.session)
    })
}

/// Returns whether a row has the newest entry of the mark. True if the mark does not name that
/// entry.
fn has_newest(conn: &Connection, said: &MarkText) -> Result<bool, StoreError> {
    let Some(tip) = said.tip else {
        return Ok(true);
    };
    let sql = "SELECT EXISTS (SELECT 1 FROM entries WHERE tip = ?1)";
    cached::row(conn, sql, [tip.as_bytes()], |row| row.get(0)).doing(WHAT)
}

/// Returns what the journals show about the stores of the mark and of the database.
fn stores(conn: &Connection, copies: &Copies, of_mark: &str) -> Result<Stores, StoreError> {
    let mut stores = Stores::default();
    for session in sessions(&copies.journal.folder, usize::MAX) {
        let header = begin(&copies.journal.of(&session)).ok().flatten();
        let Some(header) = header else { continue };
        stores.has_database |= header.store == copies.store;
        if header.store == of_mark {
            stores.has_mark = true;
            match read_head(conn, &session) {
                Ok(_) => stores.is_here = true,
                Err(StoreError::NotFound { .. }) => {}
                Err(error) => return Err(error),
            }
        }
    }
    Ok(stores)
}

/// The stores that journals belong to. See [`stores`].
#[derive(Default)]
struct Stores {
    /// Whether a journal is of the store that the mark names.
    has_mark: bool,
    /// Whether a journal is of the store of the database.
    has_database: bool,
    /// Whether the database has a session of the mark's store. An older copy may have another ID.
    is_here: bool,
}

/// The result of checking all journals.
struct RestoredFromJournals {
    brought: RestoreReport,
    /// Whether all sessions were checked. False: another process has one open.
    is_all: bool,
    /// Number of entries of the skipped sessions. They stay in the journal.
    left: u64,
}

/// Returns whether the error is about one journal. Errors of the database would affect other
/// sessions too.
fn is_of_the_journal(error: &StoreError) -> bool {
    matches!(
        error,
        StoreError::Damaged { .. }
            | StoreError::Corrupt { .. }
            | StoreError::Unknown { .. }
            | StoreError::Encode { .. }
            | StoreError::Io { .. }
    )
}

fn lift(copies: &mut Copies) {
    if let Some(mark) = &mut copies.mark
        && let Err(error) = mark.lift()
    {
        tracing::warn!(%error, "that nothing is missing any more was not written down");
    }
}

fn hold(copies: &mut Copies, missing: u64) {
    if let Some(mark) = &mut copies.mark
        && let Err(error) = mark.hold(missing, now_ms())
    {
        tracing::warn!(%error, "what is missing was not written down");
    }
}
