//! Forks. A fork is a new session whose head is an entry of another session. Nothing is copied: the
//! two share all entries up to that one.
//!
//! A second session that is made from a diverged journal: the database continues the first session
//! differently.
//!
//! Notes about folders that are being created for forks, in the data folder. A note exists from
//! before the first file outside of the data folder is written until the fork is recorded. A note
//! without a process shows which folder a killed process left unfinished.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use rusqlite::{Connection, OptionalExtension, Transaction, params};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::append::{Prepared, WHAT_BROUGHT};
use super::chain::{ForkedFrom, Head, SessionStart, insert_session, read_head};
use super::database::{private_file, private_folder};
use super::error::{Doing, io as io_error};
use super::journal_writer::Recorded;
use super::machine::now_ms;
use super::replica::{IS_COPY, IS_SHARED, set_replica};
use super::tips::forked_from;
use super::trees::NewTree;
use super::{History, SessionInfo, Store, StoreError, cached, trees};
use crate::core::entry::{Entry, ForkPoint, ReplicaOrigin, Seq};

const WHAT: &str = "fork the session";

/// A session that continues from an entry of another one.
#[derive(Debug, Clone)]
pub struct NewFork {
    /// See [`super::new_id`].
    pub id: String,
    /// The entry that it continues from.
    pub from: ForkPoint,
    /// The folder of the fork. `None`: that of the other session, with the same files.
    pub place: Option<NewPlace>,
    /// Whether work is pending after `Forked`. The caller knows it from folding the entries.
    pub unfinished: bool,
}

/// A folder with separate files for the fork.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewPlace {
    /// The canonical root, which decides whether the session belongs to the current workspace.
    pub workspace: String,
    /// The folder that the session works in.
    pub folder: String,
}

impl Store {
    /// Records the session with its first own entry, `Forked`, and more entries after it, in one
    /// transaction. `trees` are those that the entries name and that are not stored yet.
    pub fn fork(
        &mut self,
        new: &NewFork,
        also: &[Entry],
        trees: &[NewTree],
        at_ms: i64,
    ) -> Result<Head, StoreError> {
        let place = new.place.as_ref();
        let folder = place.map(|place| place.folder.clone());
        let mut entries = vec![self.history().forked(&new.from, folder)?];
        entries.extend_from_slice(also);
        let batch = Prepared::new(&entries, &[])?;
        // These reads come before the write transaction. SQLite writes nothing more in a
        // transaction that met a damaged page, and the walk from the head may meet one. The result
        // cannot change meanwhile.
        let from = fork_point(&self.conn, &new.from)?;
        let (origin, row) = (from.session, from.row);
        let tx = self.write_entries(&new.id, WHAT)?;
        let sql = "SELECT workspace, folder FROM sessions WHERE key = ?1";
        let (workspace, folder): (String, String) =
            cached::row(&tx, sql, [origin], |row| row.try_into()).doing(WHAT)?;
        let start = SessionStart {
            id: &new.id,
            workspace: place.map_or(&workspace, |place| &place.workspace),
            folder: place.map_or(&folder, |place| &place.folder),
            created_ms: at_ms,
            from: Some(from),
            replica: None,
        };
        let mut head = insert_session(&tx, &start, WHAT)?;
        let sql = "UPDATE sessions SET (title, version, model) =
             (SELECT title, version, model FROM sessions WHERE key = ?2) WHERE key = ?1";
        cached::execute(&tx, sql, [head.key, origin]).doing(WHAT)?;
        head.plan_step = plan_step_at(&tx, row).doing(WHAT)?;
        let before = head.clone();
        for tree in trees {
            trees::insert(&tx, at_ms, tree).doing(WHAT)?;
        }
        batch.record(&tx, &mut head, at_ms, new.unfinished)?;
        tx.commit().doing(WHAT)?;
        let recorded = Recorded {
            owed: new.unfinished,
            ..batch.recorded(at_ms)
        };
        self.follow(&before, &head, &recorded);
        Ok(head)
    }
}

impl History<'_> {
    /// Returns the first entry of a fork. It says whether the entry before it belongs to a copy that
    /// was imported: the session that was asked for may be a fork of that copy.
    pub fn forked(&self, from: &ForkPoint, folder: Option<String>) -> Result<Entry, StoreError> {
        let copy = self.copy_at(from)?;
        Ok(Entry::Forked {
            from: from.clone(),
            folder,
            from_replica: copy
                .and_then(|copy| copy.replica)
                .map(|agent| ReplicaOrigin { agent: Some(agent) }),
        })
    }

    /// Returns the copy that an entry belongs to. `None`: it belongs to a session of this store.
    pub fn copy_at(&self, from: &ForkPoint) -> Result<Option<SessionInfo>, StoreError> {
        let row = fork_point(self.conn, from)?.row;
        let sql = format!(
            "SELECT s.id FROM entries e JOIN sessions s ON s.key = e.session
                 WHERE e.id = ?1 AND {IS_COPY}"
        );
        let id: Option<String> = cached::row(self.conn, &sql, [row], |row| row.get(0))
            .optional()
            .doing(WHAT)?;
        id.map(|id| self.find(&id)).transpose()
    }

    /// Fails when the session has no entry with this number.
    pub fn has_entry(&self, session: &str, seq: Seq) -> Result<(), StoreError> {
        let head = read_head(self.conn, session)?;
        is_in(&head, seq)
    }
}

fn is_in(head: &Head, seq: Seq) -> Result<(), StoreError> {
    if seq < head.length {
        return Ok(());
    }
    Err(StoreError::NotFound {
        what: "entry",
        name: format!("{seq} of session {}", head.session()),
        near: Some(head.seq().to_string()),
    })
}

/// Returns the entry that a fork continues from.
fn fork_point(conn: &Connection, from: &ForkPoint) -> Result<ForkedFrom, StoreError> {
    let tx = conn.unchecked_transaction().doing(WHAT)?;
    let head = read_head(&tx, &from.session)?;
    is_in(&head, from.seq)?;
    forked_from(&tx, &head, from.seq)
}

/// Returns the step of the plan at this row. Every checkpoint stores it, so the nearest checkpoint
/// at or before the row has it.
fn plan_step_at(conn: &Connection, row: i64) -> rusqlite::Result<Option<String>> {
    conn.prepare_cached(
        "WITH RECURSIVE chain (id) AS (
           SELECT ?1
           UNION ALL
           SELECT e.parent FROM chain JOIN entries e ON e.id = chain.id WHERE e.parent < e.id)
         SELECT c.plan_step FROM chain JOIN checkpoints c ON c.entry = chain.id LIMIT 1",
    )?
    .query_row([row], |row| row.get(0))
    .optional()
    .map(Option::flatten)
}

/// Adds to the title that this session was made from a journal.
pub(super) fn add_diverged_title(tx: &Transaction<'_>, key: i64) -> Result<(), StoreError> {
    let sql = "UPDATE sessions SET title = coalesce(title, '') || ' (as its journal has it)'
       WHERE key = ?1";
    tx.execute(sql, [key]).doing(WHAT_BROUGHT).map(drop)
}

/// Appends `Forked`, which closes all open calls. The other session may have run them, so neither
/// session runs them again.
pub(super) fn close_calls(
    tx: &Transaction<'_>,
    head: &mut Head,
    other: &str,
    seq: Seq,
) -> Result<(), StoreError> {
    // A copy of another agent's session has no call that rewake could repeat. Of a shared session
    // the database decides which entries count.
    let sql = format!(
        "SELECT (SELECT replica FROM sessions s WHERE (key = ?1 OR id = ?2) AND {IS_COPY}),
           EXISTS (SELECT 1 FROM sessions s WHERE key = ?1 AND {IS_SHARED})"
    );
    let (agent, is_shared): (Option<String>, bool) =
        cached::row(tx, &sql, params![head.key, other], |row| row.try_into())
            .doing(WHAT_BROUGHT)?;
    if agent.is_some() {
        return set_replica(tx, head, agent.as_deref()).doing(WHAT_BROUGHT);
    }
    if is_shared {
        return Ok(());
    }
    let from = ForkPoint {
        session: other.to_string(),
        seq,
    };
    let sql = "SELECT unfinished <> 0 FROM sessions WHERE key = ?1";
    let unfinished: bool =
        cached::row(tx, sql, [head.key], |row| row.get(0)).doing(WHAT_BROUGHT)?;
    let forked = [Entry::Forked {
        from,
        folder: None,
        from_replica: None,
    }];
    Prepared::new(&forked, &[])?.put(tx, head, now_ms(), unfinished)
}

const WHAT_NOTE: &str = "note the folder of a fork";

/// Maximum size of a note, in bytes: it has a few paths.
const MAX_BYTES: u64 = 64 * 1024;
const MAX_NOTES: usize = 1_000;

/// The folder that is being created outside of the data folder.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ForkNote {
    /// The root of the new workspace.
    pub root: PathBuf,
    /// The folder in it that the session works in.
    pub folder: PathBuf,
    /// Whether the root did not exist before.
    pub is_new: bool,
    /// The name of the tree whose files are written into it.
    pub target: String,
    /// The repository of which the root becomes a worktree.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repository: Option<PathBuf>,
}

impl ForkNote {
    /// Writes the note. It is durable when this returns.
    ///
    /// # Errors
    /// `Io`.
    pub fn write(&self, data_dir: &Path, session: &str) -> Result<(), StoreError> {
        let folder = folder(data_dir);
        private_folder(&folder)?;
        let failed = |error| io_error(WHAT_NOTE, error);
        let text = serde_json::to_vec(self).map_err(|e| failed(e.into()))?;
        let mut file = private_file(&path(data_dir, session))?;
        file.set_len(0)
            .and_then(|()| file.write_all(&text))
            .and_then(|()| file.sync_all())
            .and_then(|()| fs::File::open(&folder)?.sync_all())
            .map_err(failed)
    }

    /// Returns all notes by the IDs of their sessions. `None` is a note that was written in part:
    /// its folder was not started.
    pub fn all(data_dir: &Path) -> Vec<(String, Option<ForkNote>)> {
        let files = fs::read_dir(folder(data_dir)).into_iter().flatten();
        let note = |file: std::io::Result<fs::DirEntry>| {
            let file = file.ok()?;
            let id = file.file_name().into_string().ok()?;
            Uuid::try_parse(&id).ok()?;
            let is_small = file.metadata().is_ok_and(|m| m.len() <= MAX_BYTES);
            let text = is_small.then(|| fs::read(file.path()).ok()).flatten();
            Some((id, text.and_then(|text| serde_json::from_slice(&text).ok())))
        };
        files.take(MAX_NOTES).filter_map(note).collect()
    }

    /// Removes the note of a fork that needs no more work.
    pub fn remove(data_dir: &Path, session: &str) {
        // A note that stays is read again, and its work is found to be done.
        let _ = fs::remove_file(path(data_dir, session));
    }
}

fn folder(data_dir: &Path) -> PathBuf {
    data_dir.join("files").join("forks")
}

fn path(data_dir: &Path, session: &str) -> PathBuf {
    folder(data_dir).join(session)
}
