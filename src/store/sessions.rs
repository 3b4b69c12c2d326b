//! Lists of sessions, and finding one by its id or the beginning of it.

use rusqlite::{Row, params};

use super::error::Doing;
use super::load::explained;
use super::row::{count, int, sum_of_tokens};
use super::{History, StoreError};
use crate::core::entry::{ForkPoint, Usage};

const WHAT: &str = "list the sessions";

const NAMED_WHEN_AMBIGUOUS: u32 = 10;

/// What is known of a session without folding it.
#[derive(Debug, Clone, PartialEq)]
pub struct SessionInfo {
    pub id: String,
    /// The canonical root that it belongs to.
    pub workspace: String,
    /// The folder that it works in.
    pub folder: String,
    /// As it was named, or the first words said.
    pub title: Option<String>,
    /// Entries in its chain, those it has from its ancestors included.
    pub entries: u64,
    /// `None` for a session that is no fork.
    pub forked_from: Option<ForkPoint>,
    /// The session that gave it its task. `None` for one that is no sub-agent's.
    pub parent: Option<String>,
    /// UTC, milliseconds since 1970.
    pub created_ms: i64,
    /// The time of its last entry: UTC, milliseconds since 1970.
    pub updated_ms: i64,
    /// An answer, a call, a question or a queued message is owed, or a command runs.
    pub unfinished: bool,
    /// It is not to be offered: see [`crate::core::entry::Entry::Dismissed`].
    pub dismissed: bool,
    /// The version of rewake that last rendered its prompt.
    pub version: Option<String>,
    /// `provider/model` that it uses now.
    pub model: Option<String>,
    /// Of its own answers, not of its ancestors'.
    pub usage: Usage,
    /// Of its own entries, as stored, with the blobs that came with them.
    pub bytes: u64,
}

/// Which sessions a list has. By default all.
#[derive(Debug, Clone, Copy, Default)]
pub struct SessionFilter<'a> {
    /// Only those of this workspace.
    pub workspace: Option<&'a str>,
    /// Only those that are unfinished.
    pub unfinished: bool,
    /// Those that were dismissed are left out.
    pub without_dismissed: bool,
    /// Those of sub-agents too: nobody but their parents goes on with them.
    pub children: bool,
}

/// In the column `unfinished`: it is, and its last entry says that it is not to be offered. So a
/// list needs no entry to know it, which may lie on a damaged page; and every other append takes
/// it back.
pub(super) const DISMISSED: i64 = 2;

pub(super) const SELECT: &str =
    "SELECT s.id, s.workspace, s.folder, s.title, s.length, o.id, s.forked_seq,
  s.created_ms, s.updated_ms, s.unfinished, s.version, s.model, s.input, s.cached,
  s.cache_written, s.output, s.bytes, s.billed
FROM sessions s LEFT JOIN sessions o ON o.key = s.forked_from";

/// It is a sub-agent's: it has a parent, and no entry of it.
pub(super) const IS_CHILD: &str = "(s.forked_from IS NOT NULL AND s.forked_seq IS NULL)";

/// It is one of the sub-agents of the session with the id `?1`.
pub(super) const OF_PARENT: &str = "(s.forked_seq IS NULL
  AND s.forked_from = (SELECT key FROM sessions WHERE id = ?1))";

/// Nothing was ever said, done or told in it: it was opened, and perhaps set up and left. The
/// walk ends at the first entry of another kind, and is taken only where there is no title.
pub(super) const IS_BLANK: &str =
    "s.title IS NULL AND s.forked_from IS NULL AND NOT s.unfinished AND NOT EXISTS (
  WITH RECURSIVE chain (id, parent, kind) AS (
    SELECT id, parent, kind FROM entries WHERE id = s.head
    UNION ALL
    SELECT e.id, e.parent, e.kind FROM chain JOIN entries e ON e.id = chain.parent
    WHERE e.parent IS NULL OR e.parent < e.id)
  SELECT 1 FROM chain WHERE kind NOT IN ('opened', 'woke', 'chose', 'rendered', 'saved'))";

impl History<'_> {
    /// The newest first, by their last entry. Neither what is in the trash nor what is blank:
    /// see [`Store::blank`].
    pub fn sessions(
        &self,
        filter: SessionFilter<'_>,
        limit: u32,
    ) -> Result<Vec<SessionInfo>, StoreError> {
        // Two statements, so that the index on the workspace is used.
        let condition = match filter.workspace {
            Some(_) => "s.workspace = ?1",
            None => "?1 IS NULL",
        };
        let sql = format!(
            "{SELECT} WHERE {condition} AND s.unfinished >= ?2 AND s.trashed_ms IS NULL
             AND (s.unfinished <> {DISMISSED} OR NOT ?4) AND (?5 OR NOT {IS_CHILD})
             AND NOT ({IS_BLANK}) ORDER BY s.head DESC LIMIT ?3"
        );
        let SessionFilter {
            workspace,
            unfinished,
            without_dismissed,
            children,
        } = filter;
        explained(self.conn, self.copies, || {
            self.conn
                .prepare_cached(&sql)
                .and_then(|mut s| {
                    s.query_map(
                        params![workspace, unfinished, limit, without_dismissed, children],
                        info,
                    )?
                    .collect()
                })
                .doing(WHAT)
        })
    }

    /// The sessions of the sub-agents that this one gave tasks to, the oldest first, be they in the
    /// trash.
    pub fn children(&self, parent: &str) -> Result<Vec<SessionInfo>, StoreError> {
        let sql = format!("{SELECT} WHERE {OF_PARENT} ORDER BY s.key");
        explained(self.conn, self.copies, || {
            self.conn
                .prepare_cached(&sql)
                .and_then(|mut s| s.query_map([parent], info)?.collect())
                .doing(WHAT)
        })
    }

    /// Those of its sub-agents in which nothing was recorded behind the first `entries` entries: they
    /// were never worked in. The newest first, at most `limit`. The others are not read, however
    /// many there are.
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
            self.conn
                .prepare_cached(&sql)
                .and_then(|mut s| {
                    s.query_map(params![parent, int(entries), limit], |row| row.get(0))?
                        .collect()
                })
                .doing(WHAT)
        })
    }

    /// Sessions in which a person was asked something, the newest first. Their entries say whether
    /// the question is still open.
    pub fn asking(&self) -> Result<Vec<SessionInfo>, StoreError> {
        let sql = format!(
            "{SELECT} WHERE s.asks AND s.unfinished AND s.trashed_ms IS NULL ORDER BY s.head DESC"
        );
        self.conn
            .prepare_cached(&sql)
            .and_then(|mut s| s.query_map([], info)?.collect())
            .doing(WHAT)
    }

    /// Finished sessions of a workspace with unsent words, and these; the newest first. Neither
    /// what is in the trash nor what is blank.
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
            self.conn
                .prepare_cached(&sql)
                .and_then(|mut s| {
                    let row = |row: &Row<'_>| Ok((info(row)?, row.get("text")?));
                    s.query_map(params![workspace, limit], row)?.collect()
                })
                .doing(WHAT)
        })
    }

    /// Whether anything was ever said or done in the session, and it is not in the trash.
    pub fn is_said(&self, id: &str) -> Result<bool, StoreError> {
        let sql = format!(
            "SELECT EXISTS (SELECT 1 FROM sessions s
             WHERE s.id = ?1 AND s.trashed_ms IS NULL AND NOT ({IS_BLANK}))"
        );
        explained(self.conn, self.copies, || {
            self.conn
                .prepare_cached(&sql)
                .and_then(|mut s| s.query_row([id], |row| row.get(0)))
                .doing(WHAT)
        })
    }

    /// Sessions of a folder in which nothing was said yet, the newest first.
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
            self.conn
                .prepare_cached(&sql)
                .and_then(|mut s| {
                    s.query_map(params![workspace, folder, limit], info)?
                        .collect()
                })
                .doing(WHAT)
        })
    }

    /// The session with the last entry, blank ones left out.
    pub fn newest(&self, workspace: Option<&str>) -> Result<Option<SessionInfo>, StoreError> {
        let filter = SessionFilter {
            workspace,
            ..SessionFilter::default()
        };
        Ok(self.sessions(filter, 1)?.pop())
    }

    /// The id of the session that was made last, be it in the trash.
    pub fn last_made(&self) -> Result<Option<String>, StoreError> {
        self.conn
            .prepare_cached("SELECT max(id) FROM sessions")
            .and_then(|mut s| s.query_row([], |row| row.get(0)))
            .doing(WHAT)
    }

    /// Whether there is a session with this id, be it in the trash.
    pub fn knows(&self, id: &str) -> Result<bool, StoreError> {
        explained(self.conn, self.copies, || {
            self.conn
                .prepare_cached("SELECT EXISTS (SELECT 1 FROM sessions WHERE id = ?1)")
                .and_then(|mut s| s.query_row([id], |row| row.get(0)))
                .doing(WHAT)
        })
    }

    /// How many sessions there are of this workspace, those in the trash and those of sub-agents too.
    pub fn count_in(&self, workspace: &str) -> Result<u64, StoreError> {
        let count = explained(self.conn, self.copies, || {
            self.conn
                .prepare_cached("SELECT count(*) FROM sessions WHERE workspace = ?1")
                .and_then(|mut s| s.query_row([workspace], |row| row.get::<_, i64>(0)))
                .doing(WHAT)
        })?;
        Ok(u64::try_from(count).unwrap_or_default())
    }

    /// The session whose id begins so, be it in the trash. None: `NotFound` with the nearest. Several: `Ambiguous`.
    pub fn find(&self, prefix: &str) -> Result<SessionInfo, StoreError> {
        let prefix = prefix.trim().to_ascii_lowercase();
        if prefix.is_empty() {
            return Err(StoreError::no_session(""));
        }
        let sql = format!("{SELECT} WHERE s.id >= ?1 AND s.id < ?2 ORDER BY s.id DESC LIMIT ?3");
        // Ids are hex digits and hyphens: all of them sort before `~`.
        let end = format!("{prefix}~");
        let mut found: Vec<SessionInfo> = explained(self.conn, self.copies, || {
            self.conn
                .prepare_cached(&sql)
                .and_then(|mut s| {
                    s.query_map(params![prefix, end, NAMED_WHEN_AMBIGUOUS], info)?
                        .collect()
                })
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

    /// The neighbour, in the order of ids, that has most of its beginning in common.
    fn nearest(&self, prefix: &str) -> rusqlite::Result<Option<String>> {
        let neighbours: Vec<String> = self
            .conn
            .prepare_cached(
                "SELECT max(id) FROM sessions WHERE id < ?1
                 UNION ALL SELECT min(id) FROM sessions WHERE id > ?1",
            )?
            .query_map([prefix], |row| row.get::<_, Option<String>>(0))?
            .filter_map(Result::transpose)
            .collect::<rusqlite::Result<_>>()?;
        let common = |id: &str| {
            id.bytes()
                .zip(prefix.bytes())
                .take_while(|(a, b)| a == b)
                .count()
        };
        let near = neighbours.into_iter().max_by_key(|id| common(id));
        // All ids of a time begin alike; one that has less in common was not meant.
        Ok(near.filter(|id| 2 * common(id) >= prefix.len()))
    }
}

pub(super) fn info(row: &Row<'_>) -> rusqlite::Result<SessionInfo> {
    let origin: Option<String> = row.get(5)?;
    let forked_seq: Option<i64> = row.get(6)?;
    let unfinished: i64 = row.get(9)?;
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
    })
}
