//! Lists of sessions, and the search for one by its ID or the beginning of it.
//!
//! The checks before a session is resumed, in one order.
//!
//! Invariant: a session is resumed only with every entry that its journal has.
//!
//! The trash: sessions that lists leave out. Nothing is removed from the trash automatically, and
//! nothing of the session changes. An append takes the session out of the trash. The sessions of
//! its subagents move to the trash and back together with it.

use rusqlite::{OptionalExtension, Row, params};

use super::chain::{Head, read_head};
use super::error::Doing;
use super::load::explained;
use super::replica::{IS_COPY, database_of, refuse_replica};
use super::row::{count, int, sum_of_tokens};
use super::tips::tip_upto;
use super::{History, Store, StoreError, cached};
use crate::core::entry::{ForkPoint, Usage};

const WHAT: &str = "list the sessions";

const NAMED_WHEN_AMBIGUOUS: u32 = 10;

/// Facts about a session that need no folding.
#[derive(Debug, Clone, PartialEq)]
pub struct SessionInfo {
    pub id: String,
    /// The canonical root of its workspace.
    pub workspace: String,
    /// The folder that it works in.
    pub folder: String,
    /// The title of the session, or else its first message.
    pub title: Option<String>,
    /// Number of entries in its chain, including those of its ancestors.
    pub entries: u64,
    /// The origin of a fork. `None` for other sessions.
    pub forked_from: Option<ForkPoint>,
    /// The session that gave it its task. `None` if it is not the session of a subagent.
    pub parent: Option<String>,
    /// UTC, milliseconds since 1970.
    pub created_ms: i64,
    /// The time of its last entry: UTC, milliseconds since 1970.
    pub updated_ms: i64,
    /// Whether an answer, a call, a question or a queued message is pending, or a command runs.
    pub unfinished: bool,
    /// Whether it is not to be offered: see [`crate::core::entry::Entry::Dismissed`].
    pub dismissed: bool,
    /// The version of rewake that last rendered its prompt.
    pub version: Option<String>,
    /// `provider/model` that it uses now.
    pub model: Option<String>,
    /// Usage of the answers that it recorded itself, without those of its ancestors.
    pub usage: Usage,
    /// Stored size of the entries that it recorded itself and of their blobs, in bytes.
    pub bytes: u64,
    /// The agent whose session it is a copy of. `None`: it is a session of rewake.
    pub replica: Option<String>,
    /// The database in which it is recorded too.
    pub shared: Option<String>,
}

/// The sessions that a list includes. By default all.
#[derive(Debug, Clone, Copy, Default)]
pub struct SessionFilter<'a> {
    /// Only sessions of this workspace.
    pub workspace: Option<&'a str>,
    /// Only unfinished sessions.
    pub unfinished: bool,
    /// Leaves out dismissed sessions.
    pub without_dismissed: bool,
    /// Includes sessions of subagents, which only their parents continue.
    pub children: bool,
    /// Leaves out copies of sessions of other agents.
    pub without_replicas: bool,
}

impl<'a> SessionFilter<'a> {
    /// Returns the filter for the sessions of a workspace.
    pub fn of(workspace: &'a str) -> SessionFilter<'a> {
        SessionFilter {
            workspace: Some(workspace),
            ..SessionFilter::default()
        }
    }
}

/// Value of the column `unfinished` for a session that is unfinished and whose last entry says that
/// it is not to be offered. So a list need not read that entry, which may be on a damaged page.
/// Every other append resets the value.
pub(super) const DISMISSED: i64 = 2;

pub(super) const SELECT: &str =
    "SELECT s.id, s.workspace, s.folder, s.title, s.length, o.id, s.forked_seq,
  s.created_ms, s.updated_ms, s.unfinished, s.version, s.model, s.input, s.cached,
  s.cache_written, s.output, s.bytes, s.billed, s.replica
FROM sessions s LEFT JOIN sessions o ON o.key = s.forked_from";

/// SQL value for the place of a session in lists: its head. A copy of a session of another agent
/// has the place of the newest session before its last entry.
pub(super) fn position() -> String {
    format!(
        "iif({IS_COPY}, coalesce(
           max(iif({IS_COPY}, NULL, s.head)) OVER (ORDER BY s.updated_ms), 0), s.head)"
    )
}

/// SQL condition for the session of a subagent: it has a parent, and shares no entry with it.
pub(super) const IS_CHILD: &str = "(s.forked_from IS NOT NULL AND s.forked_seq IS NULL)";

/// SQL condition for the subagents of the session with the ID `?1`.
pub(super) const OF_PARENT: &str = "(s.forked_seq IS NULL
  AND s.forked_from = (SELECT key FROM sessions WHERE id = ?1))";

/// SQL condition for a blank session: it was opened, and perhaps set up and left, and has no other
/// entry. The walk stops at the first entry of another kind, and runs only for a session without a
/// title.
pub(super) const IS_BLANK: &str =
    "s.title IS NULL AND s.forked_from IS NULL AND NOT s.unfinished AND NOT EXISTS (
  WITH RECURSIVE chain (id, parent, kind) AS (
    SELECT id, parent, kind FROM entries WHERE id = s.head
    UNION ALL
    SELECT e.id, e.parent, e.kind FROM chain JOIN entries e ON e.id = chain.parent
    WHERE e.parent IS NULL OR e.parent < e.id)
  SELECT 1 FROM chain WHERE kind NOT IN ('opened', 'woke', 'chose', 'rendered', 'saved'))";

impl History<'_> {
    /// Returns sessions, those with the newest last entry first. It leaves out sessions in the
    /// trash and blank ones: see [`History::blank`].
    pub fn sessions(
        &self,
        filter: SessionFilter<'_>,
        limit: u32,
    ) -> Result<Vec<SessionInfo>, StoreError> {
        // There are two statements, so that the index on the workspace is used.
        let condition = match filter.workspace {
            Some(_) => "s.workspace = ?1",
            None => "?1 IS NULL",
        };
        let sql = format!(
            "{SELECT} WHERE {condition} AND s.unfinished >= ?2 AND s.trashed_ms IS NULL
             AND (s.unfinished <> {DISMISSED} OR NOT ?4) AND (?5 OR NOT {IS_CHILD})
             AND NOT ({IS_COPY} AND ?6) AND NOT ({IS_BLANK})
             ORDER BY {} DESC, NOT {IS_COPY}, s.updated_ms DESC LIMIT ?3",
            position()
        );
        let SessionFilter {
            workspace,
            unfinished,
            without_dismissed,
            children,
            without_replicas,
        } = filter;
        explained(self.conn, self.copies, || {
            cached::rows(
                self.conn,
                &sql,
                params![
                    workspace,
                    unfinished,
                    limit,
                    without_dismissed,
                    children,
                    without_replicas
                ],
                info,
            )
            .doing(WHAT)
        })
    }

    /// Returns the sessions of this one's subagents, the oldest first, including those in the
    /// trash.
    pub fn children(&self, parent: &str) -> Result<Vec<SessionInfo>, StoreError> {
        let sql = format!("{SELECT} WHERE {OF_PARENT} ORDER BY s.key");
        explained(self.conn, self.copies, || {
            cached::rows(self.conn, &sql, [parent], info).doing(WHAT)
        })
    }

    /// Returns the sessions of its subagents without an entry after the first `entries` ones:
    /// nothing was done in them. The newest come first, at most `limit`. The others are not read,
    /// however many there are.
    pub fn untouched_children(
        &self,
        parent: &str,
        entries: u64,
        limit: u32,
    ) -> Result<Vec<String>, StoreError> {
        let sql = format!(
            "SELECT s.id FROM sessions s WHERE {OF_PARENT} AND s.length <= ?2
             ORDER BY s.key DESC LIMIT ?3"
        );
        explained(self.conn, self.copies, || {
            cached::rows(
                self.conn,
                &sql,
                params![parent, int(entries), limit],
                |row| row.get(0),
            )
            .doing(WHAT)
        })
    }

    /// Returns sessions with a question to a person, the newest first. Their entries say whether
    /// the question is still open.
    pub fn asking(&self) -> Result<Vec<SessionInfo>, StoreError> {
        let sql = format!(
            "{SELECT} WHERE s.asks AND s.unfinished AND s.trashed_ms IS NULL ORDER BY s.head DESC"
        );
        cached::rows(self.conn, &sql, [], info).doing(WHAT)
    }

    /// Returns finished sessions of a workspace that have unsent text, with the text, the newest
    /// first. It leaves out sessions in the trash and blank ones.
    pub fn with_input(
        &self,
        workspace: &str,
        limit: u32,
    ) -> Result<Vec<(SessionInfo, String)>, StoreError> {
        let columns = SELECT.replacen("\nFROM", ", d.text\nFROM", 1);
        let sql = format!(
            "{columns} JOIN drafts d ON d.session = s.key AND d.kind = 'input' AND d.piece = 0
             WHERE s.workspace = ?1 AND NOT s.unfinished AND s.trashed_ms IS NULL
             AND NOT {IS_CHILD} AND trim(d.text) <> '' AND NOT ({IS_BLANK}) ORDER BY s.head DESC LIMIT ?2"
        );
        explained(self.conn, self.copies, || {
            let row = |row: &Row<'_>| Ok((info(row)?, row.get("text")?));
            cached::rows(self.conn, &sql, params![workspace, limit], row).doing(WHAT)
        })
    }

    /// Returns whether the session has any content and is not in the trash.
    pub fn has_content(&self, id: &str) -> Result<bool, StoreError> {
        let sql = format!(
            "SELECT EXISTS (SELECT 1 FROM sessions s
             WHERE s.id = ?1 AND s.trashed_ms IS NULL AND NOT ({IS_BLANK}))"
        );
        explained(self.conn, self.copies, || {
            cached::row(self.conn, &sql, [id], |row| row.get(0)).doing(WHAT)
        })
    }

    /// Returns blank sessions of a folder, the newest first.
    pub fn blank(
        &self,
        workspace: &str,
        folder: &str,
        limit: u32,
    ) -> Result<Vec<SessionInfo>, StoreError> {
        let sql = format!(
            "{SELECT} WHERE s.workspace = ?1 AND s.folder = ?2 AND s.trashed_ms IS NULL AND {IS_BLANK}
             ORDER BY s.head DESC LIMIT ?3"
        );
        explained(self.conn, self.copies, || {
            cached::rows(self.conn, &sql, params![workspace, folder, limit], info).doing(WHAT)
        })
    }

    /// Returns the session with the newest entry, without blank ones and copies of sessions of other
    /// agents.
    pub fn newest(&self, workspace: Option<&str>) -> Result<Option<SessionInfo>, StoreError> {
        let filter = SessionFilter {
            workspace,
            without_replicas: true,
            ..SessionFilter::default()
        };
        Ok(self.sessions(filter, 1)?.pop())
    }

    /// Returns when the newest session of the database was created, including those in the trash:
    /// UTC, milliseconds since 1970.
    pub fn newest_created_ms(&self) -> Result<Option<i64>, StoreError> {
        let sql = "SELECT (SELECT created_ms FROM sessions ORDER BY key DESC LIMIT 1)";
        cached::row(self.conn, sql, [], |row| row.get(0)).doing(WHAT)
    }

    /// Returns when this session was created: UTC, milliseconds since 1970.
    pub fn created_ms(&self, id: &str) -> Result<Option<i64>, StoreError> {
        let sql = "SELECT (SELECT created_ms FROM sessions WHERE id = ?1)";
        cached::row(self.conn, sql, [id], |row| row.get(0)).doing(WHAT)
    }

    /// Returns whether there is a session with this ID, including those in the trash.
    pub fn knows(&self, id: &str) -> Result<bool, StoreError> {
        explained(self.conn, self.copies, || {
            let sql = "SELECT EXISTS (SELECT 1 FROM sessions WHERE id = ?1)";
            cached::row(self.conn, sql, [id], |row| row.get(0)).doing(WHAT)
        })
    }

    /// Returns the number of sessions of this workspace, including those in the trash and those of
    /// subagents.
    pub fn count_in(&self, workspace: &str) -> Result<u64, StoreError> {
        let count = explained(self.conn, self.copies, || {
            let sql = "SELECT count(*) FROM sessions WHERE workspace = ?1";
            cached::row(self.conn, sql, [workspace], |row| row.get::<_, i64>(0)).doing(WHAT)
        })?;
        Ok(u64::try_from(count).unwrap_or_default())
    }

    /// Returns the session whose ID begins with `prefix`, including those in the trash. No such
    /// session: `NotFound` with the nearest ID. Several: `Ambiguous`.
    pub fn find(&self, prefix: &str) -> Result<SessionInfo, StoreError> {
        let prefix = prefix.trim().to_ascii_lowercase();
        if prefix.is_empty() {
            return Err(StoreError::no_session(""));
        }
        let sql = format!("{SELECT} WHERE s.id >= ?1 AND s.id < ?2 ORDER BY s.id DESC LIMIT ?3");
        // IDs are hex digits and hyphens: all of them sort before `~`.
        let end = format!("{prefix}~");
        let mut found: Vec<SessionInfo> = explained(self.conn, self.copies, || {
            cached::rows(
                self.conn,
                &sql,
                params![prefix, end, NAMED_WHEN_AMBIGUOUS],
                info,
            )
            .doing("find the session")
        })?;
        match (found.pop(), found.is_empty()) {
            (Some(info), true) => Ok(info),
            (Some(info), false) => {
                found.push(info);
                Err(StoreError::Ambiguous {
                    prefix,
                    ids: found.into_iter().map(|info| info.id).collect(),
                })
            }
            (None, _) => Err(StoreError::NotFound {
                what: "session",
                near: self.nearest(&prefix).doing("find the session")?,
                name: prefix,
            }),
        }
    }

    /// Returns the neighbour in the order of IDs that shares the longest prefix.
    fn nearest(&self, prefix: &str) -> rusqlite::Result<Option<String>> {
        let sql = "SELECT max(id) FROM sessions WHERE id < ?1
                 UNION ALL SELECT min(id) FROM sessions WHERE id > ?1";
        let neighbours: Vec<Option<String>> =
            cached::rows(self.conn, sql, [prefix], |row| row.get(0))?;
        let common = |id: &str| {
            id.bytes()
                .zip(prefix.bytes())
                .take_while(|(a, b)| a == b)
                .count()
        };
        let near = neighbours.into_iter().flatten().max_by_key(|id| common(id));
        // All IDs of a period begin alike, so an ID with a shorter common prefix was not meant.
        Ok(near.filter(|id| 2 * common(id) >= prefix.len()))
    }
}

pub(super) fn info(row: &Row<'_>) -> rusqlite::Result<SessionInfo> {
    let origin: Option<String> = row.get(5)?;
    let forked_seq: Option<i64> = row.get(6)?;
    let unfinished: i64 = row.get(9)?;
    let replica: Option<String> = row.get(18)?;
    Ok(SessionInfo {
        id: row.get(0)?,
        workspace: row.get(1)?,
        folder: row.get(2)?,
        title: row.get(3)?,
        entries: count(row.get(4)?),
        parent: origin.clone().filter(|_| forked_seq.is_none()),
        forked_from: origin.zip(forked_seq).map(|(session, seq)| ForkPoint {
            session,
            seq: count(seq),
        }),
        created_ms: row.get(7)?,
        updated_ms: row.get(8)?,
        unfinished: unfinished != 0,
        version: row.get(10)?,
        model: row.get(11)?,
        usage: Usage {
            input: count(sum_of_tokens(row.get(12)?)),
            cached: count(sum_of_tokens(row.get(13)?)),
            cache_written: count(sum_of_tokens(row.get(14)?)),
            output: count(sum_of_tokens(row.get(15)?)),
            billed_nanos: row.get::<_, Option<i64>>(17)?.map(count),
        },
        bytes: count(row.get(16)?),
        dismissed: unfinished == DISMISSED,
        shared: replica.as_deref().and_then(database_of).map(str::to_string),
        replica: replica.filter(|replica| database_of(replica).is_none()),
    })
}

const WHAT_RESUME: &str = "take the session up";

/// Maximum number of rows that are searched for an entry after the head.
const MAX_ROWS: i64 = 10_000;

impl Store {
    /// Restores the entries that only the journal has. The caller has the lock of the session, and
    /// reads it afterwards.
    ///
    /// # Errors
    /// `Replica`: only an import appends to it.
    /// `Elsewhere`, `Gap` and `BackInTime`: resuming could repeat an effect. `Damaged` and
    /// `Corrupt`: the database contradicts itself or its journal.
    pub fn take_up(&mut self, session: &str) -> Result<(), StoreError> {
        let held = self.held.as_ref().map(|held| held.session.as_str());
        refuse_replica(&self.conn, session, held)?;
        bring_up_to_date(self, session)
    }

    /// Fails when the session has entries after its head: the row of the session is older than they
    /// are. A write-ahead log that lost its end leaves this state.
    fn ends_at_its_head(&self, session: &str) -> Result<(), StoreError> {
        let head = read_head(&self.conn, session)?;
        let sql = "SELECT EXISTS (SELECT 1 FROM entries
           WHERE id > ?1 AND id <= ?1 + ?3 AND session = ?2)";
        let is_behind: bool = cached::row(
            &self.conn,
            sql,
            params![head.row, head.key, MAX_ROWS],
            |row| row.get(0),
        )
        .doing(WHAT_RESUME)?;
        match is_behind {
            false => Ok(()),
            true => Err(self.explain(StoreError::damaged(format!(
                "session {session} has entries after entry {}, where its row ends",
                head.seq()
            )))),
        }
    }
}

/// Returns the head of a session with its tip. Entries that only its journal has are restored first,
/// since a kill may have come between a transaction and its lines in the journal. The caller has the
/// lock of the session.
pub(super) fn up_to_date_head(store: &mut Store, session: &str) -> Result<Head, StoreError> {
    bring_up_to_date(store, session)?;
    let mut head = read_head(&store.conn, session)?;
    head.tip = tip_upto(&store.conn, session, head.seq())?;
    Ok(head)
}

/// Does the same as [`Store::take_up`] for any session: an import appends to a copy.
fn bring_up_to_date(store: &mut Store, session: &str) -> Result<(), StoreError> {
    store.check_other_machine(session)?;
    store.history().check_no_gap(session)?;
    store.check_missing_entries(session)?;
    let restored = store.restore_from_journal(session);
    if restored.as_ref().is_err_and(StoreError::is_damage) {
        // Loading the whole session names the damaged entry.
        store.load_each(session, |_| Ok::<(), StoreError>(()))?;
    }
    restored?;
    // The restore may have found a gap in the journal.
    store.history().check_no_gap(session)?;
    store.ends_at_its_head(session)
}

const WHAT_TRASH: &str = "move the session to the trash";
const WHAT_LOOK: &str = "look whether the session is in the trash";
const WHAT_BACK: &str = "take the session out of the trash";

impl Store {
    /// Moves a session to the trash, with the sessions of its subagents. The caller has the locks
    /// of all of them, so no process uses them.
    pub fn trash(&mut self, session: &str, at_ms: i64) -> Result<(), StoreError> {
        let tx = self.write(WHAT_TRASH)?;
        // Subagents that were in the trash already keep their time: they were moved there
        // separately.
        let sql = format!(
            "UPDATE sessions AS s SET trashed_ms =
               coalesce((SELECT trashed_ms FROM sessions WHERE id = ?1), ?2)
             WHERE (s.id = ?1 OR {OF_PARENT}) AND (s.trashed_ms IS NULL OR s.id = ?1)
             RETURNING id"
        );
        let changed =
            cached::rows(&tx, &sql, params![session, at_ms], |row| row.get(0)).doing(WHAT_TRASH)?;
        tx.commit().doing(WHAT_TRASH)?;
        self.all_of(changed, session)
    }

    /// Takes a session out of the trash, with the sessions of subagents that were moved there with
    /// it. Restoring the session of a subagent also restores its parent, below which it is listed.
    ///
    /// # Errors
    /// `NotFound` when there is no such session.
    pub fn restore(&mut self, session: &str) -> Result<(), StoreError> {
        let tx = self.write(WHAT_BACK)?;
        let sql = format!(
            "SELECT p.id FROM sessions s JOIN sessions p ON p.key = s.forked_from
             WHERE s.id = ?1 AND {IS_CHILD} AND p.trashed_ms NOT NULL"
        );
        let parent: Option<String> = cached::row(&tx, &sql, [session], |row| row.get(0))
            .optional()
            .doing(WHAT_BACK)?;
        let top = parent.as_deref().unwrap_or(session);
        let sql = format!(
            "UPDATE sessions AS s SET trashed_ms = NULL
             WHERE s.id IN (?1, ?2) OR ({OF_PARENT} AND s.trashed_ms =
               (SELECT trashed_ms FROM sessions WHERE id = ?1))
             RETURNING id"
        );
        let changed = cached::rows(&tx, &sql, [top, session], |row| row.get(0)).doing(WHAT_BACK)?;
        tx.commit().doing(WHAT_BACK)?;
        self.all_of(changed, session)
    }

    fn all_of(&mut self, changed: Vec<String>, session: &str) -> Result<(), StoreError> {
        if !changed.iter().any(|id| id == session) {
            return Err(StoreError::no_session(session));
        }
        for id in changed {
            self.inbox_mut().write_pending_rows(&id);
        }
        Ok(())
    }
}

impl History<'_> {
    /// Returns whether the session is in the trash.
    pub fn is_in_trash(&self, session: &str) -> Result<bool, StoreError> {
        let sql = "SELECT EXISTS (SELECT 1 FROM sessions WHERE id = ?1 AND trashed_ms NOT NULL)";
        cached::row(self.conn, sql, [session], |row| row.get(0)).doing(WHAT_LOOK)
    }

    /// Returns the number of sessions in the trash, and the stored size of their entries in bytes.
    pub fn in_trash(&self) -> Result<(u64, u64), StoreError> {
        let sql =
            "SELECT count(*), coalesce(sum(bytes), 0) FROM sessions WHERE trashed_ms IS NOT NULL";
        let sums = |row: &Row<'_>| Ok((count(row.get(0)?), count(row.get(1)?)));
        cached::row(self.conn, sql, [], sums).doing("look at the trash")
    }
}
