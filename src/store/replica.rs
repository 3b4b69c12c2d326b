//! Copies of sessions of other agents. Only an import appends to them: every other append, message
//! and signal is refused.
//!
//! A cache of what was read of the sources, so that an unchanged one is not read again.

use rusqlite::{Connection, OptionalExtension, Transaction, params};

use super::chain::Head;
use super::error::Doing;
use super::row::{count, int};
use super::{History, Store, StoreError, cached};
use crate::core::text::one_line;
use crate::core::visible::visible;

const WHAT: &str = "import the session";

/// How the column `replica` begins for a session of rewake in another store. The host follows.
const OF_REWAKE: &str = "rewake@";

/// How it begins for a session of this store that is recorded in a shared database. The name of the
/// database follows. Only the process that holds the lease of the session appends to it.
const OF_SHARED: &str = "shared@";

/// SQL condition for a session that is recorded in a shared database.
pub(super) const IS_SHARED: &str = "coalesce(s.replica GLOB 'shared@*', 0)";

/// SQL condition for a copy, of another agent's session or of one in another store.
pub(super) const IS_COPY: &str = "(s.replica IS NOT NULL AND s.replica NOT GLOB 'shared@*')";

/// Maximum length of the name of a host or a database, characters.
const HOST_CHARS: usize = 60;

/// Returns the value of the column `replica` for a session of the store of this host.
pub fn replica_source(host: &str) -> String {
    format!("{OF_REWAKE}{}", one_line(&visible(host), HOST_CHARS))
}

/// Returns the value of the column `replica` for a session that is recorded in this database.
pub(super) fn shared_source(database: &str) -> String {
    format!("{OF_SHARED}{}", one_line(&visible(database), HOST_CHARS))
}

/// Returns the database in which a session is recorded.
pub(super) fn database_of(replica: &str) -> Option<&str> {
    replica.strip_prefix(OF_SHARED)
}

/// Returns the value of the column `replica` that the header of a journal states. That of another
/// agent follows from the entries.
pub(crate) fn of_header(source: &str) -> Option<String> {
    match (host_of(source), database_of(source)) {
        (Some(host), _) => Some(replica_source(host)),
        (None, Some(database)) => Some(shared_source(database)),
        (None, None) => None,
    }
}

/// Returns whether a copy is of a session of rewake, not of another agent.
pub fn is_of_rewake(replica: &str) -> bool {
    host_of(replica).is_some()
}

/// Returns the host from which a session of rewake came.
pub fn host_of(replica: &str) -> Option<&str> {
    replica.strip_prefix(OF_REWAKE)
}

/// Refuses a change of a session that only an import may change, or that is shared. `held`: the shared
/// session whose lease this process holds.
pub(super) fn refuse_replica(
    conn: &Connection,
    session: &str,
    held: Option<&str>,
) -> Result<(), StoreError> {
    let sql = "SELECT replica FROM sessions WHERE id = ?1";
    let agent: Option<Option<String>> = cached::row(conn, sql, [session], |row| row.get(0))
        .optional()
        .doing("look at the session")?;
    match agent.flatten() {
        None => Ok(()),
        Some(replica) => match database_of(&replica) {
            Some(_) if held == Some(session) => Ok(()),
            Some(database) => Err(StoreError::Shared {
                session: session.to_string(),
                database: database.to_string(),
            }),
            None => Err(StoreError::Replica {
                session: session.to_string(),
                agent: replica,
            }),
        },
    }
}

/// Refuses a message or a signal for a session that only an import may change.
pub(super) fn refuse_copy(conn: &Connection, session: &str) -> Result<(), StoreError> {
    // The process that holds the lease of a shared session takes them from here.
    refuse_replica(conn, session, Some(session))
}

/// Records that this session is a copy of one of `agent`, or that it is none any more.
pub(super) fn set_replica(
    tx: &Transaction<'_>,
    head: &Head,
    agent: Option<&str>,
) -> rusqlite::Result<()> {
    // That a copy is of a session of rewake is not in its entries.
    tx.prepare_cached(
        "UPDATE sessions SET replica = ?2 WHERE key = ?1 AND replica IS NOT ?2
         AND (replica IS NULL OR replica NOT GLOB '*@*')",
    )?
    .execute(params![head.key, agent])
    .map(drop)
}

impl History<'_> {
    /// Returns whether a session was forked from this one.
    pub fn has_forks(&self, session: &str) -> Result<bool, StoreError> {
        let sql = "SELECT EXISTS (SELECT 1 FROM sessions f JOIN sessions o ON o.key = f.forked_from
                   WHERE o.id = ?1)";
        cached::row(self.conn, sql, [session], |row| row.get(0)).doing(WHAT)
    }

    /// Returns the newest copy of a workspace, with the name of its agent.
    pub fn newest_replica(&self, workspace: &str) -> Result<Option<(String, String)>, StoreError> {
        let sql = format!(
            "SELECT id, replica FROM sessions s WHERE workspace = ?1 AND {IS_COPY}
                 AND trashed_ms IS NULL ORDER BY updated_ms DESC LIMIT 1"
        );
        cached::row(self.conn, &sql, [workspace], |row| {
            Ok((row.get(0)?, row.get(1)?))
        })
        .optional()
        .doing(WHAT)
    }
}

/// A session of another agent as it was read last.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CachedSource {
    /// The path of the file or the database.
    pub path: String,
    /// The ID of a session in a database. Empty: a file.
    pub id: String,
    /// The size of its file, in bytes.
    pub bytes: u64,
    /// The time of the last change of its file, nanoseconds since 1970.
    pub modified: i64,
    /// JSON.
    pub about: String,
    /// The ID of the copy. `None`: it was only listed.
    pub session: Option<String>,
}

impl History<'_> {
    /// Returns what was read of the sessions of other agents: all of it, since it is small.
    pub fn cached_sources(&self) -> Result<Vec<CachedSource>, StoreError> {
        let sql = "SELECT path, i.id, i.bytes, modified, about, s.id FROM imported i
                 LEFT JOIN sessions s ON s.id = i.session AND s.replica IS NOT NULL";
        cached::rows(self.conn, sql, [], |row| {
            Ok(CachedSource {
                path: row.get(0)?,
                id: row.get(1)?,
                bytes: count(row.get(2)?),
                modified: row.get(3)?,
                about: row.get(4)?,
                session: row.get(5)?,
            })
        })
        .doing(WHAT)
    }

    /// Returns what the source of a copy said about itself when it was read last: JSON.
    pub fn source_of(&self, session: &str) -> Result<Option<String>, StoreError> {
        let sql = "SELECT about FROM imported WHERE session = ?1";
        cached::row(self.conn, sql, [session], |row| row.get(0))
            .optional()
            .doing(WHAT)
    }
}

/// Stores what was read of sessions of other agents.
pub fn cache_sources(store: &mut Store, read: &[CachedSource]) -> Result<(), StoreError> {
    let tx = store.write(WHAT)?;
    for source in read {
        let sql = "INSERT OR REPLACE INTO imported (path, id, bytes, modified, about, session)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6)";
        cached::execute(
            &tx,
            sql,
            params![
                source.path,
                source.id,
                int(source.bytes),
                source.modified,
                source.about,
                source.session
            ],
        )
        .doing(WHAT)?;
    }
    tx.commit().doing(WHAT)
}
