//! Copies of sessions of other agents. Only an import appends to them: every other append, message
//! and signal is refused.
//!
//! An import is repeated from the beginning of its source. Entries that the copy has are compared
//! by their tips, and only the rest is appended. So a killed import continues with the next one.

use rusqlite::{Connection, OptionalExtension, Transaction, params};

use super::append::{NewSession, Prepared};
use super::chain::{Head, read_head};
use super::error::Doing;
use super::journal_writer::Recorded;
use super::row::{Body, count, int};
use super::tips::tip_upto;
use super::{History, Store, StoreError};
use crate::core::entry::{Entry, Seq};
use crate::journal::chain_hash::ChainHash;

const WHAT: &str = "import the session";

/// Maximum number of entries of one transaction.
const ENTRIES_AT_ONCE: usize = 1_000;
/// Size of entries and blobs from which a transaction is ended, bytes.
const BYTES_AT_ONCE: usize = 8 * 1024 * 1024;

/// Refuses a change of a session that only an import may change.
pub(super) fn refuse_replica(conn: &Connection, session: &str) -> Result<(), StoreError> {
    let agent: Option<Option<String>> = conn
        .prepare_cached("SELECT replica FROM sessions WHERE id = ?1")
        .and_then(|mut s| s.query_row([session], |row| row.get(0)).optional())
        .doing("look at the session")?;
    match agent.flatten() {
        None => Ok(()),
        Some(agent) => Err(StoreError::Replica {
            session: session.to_string(),
            agent,
        }),
    }
}

/// Records that this session is a copy of one of `agent`, or that it is none any more.
pub(super) fn set_replica(
    tx: &Transaction<'_>,
    head: &Head,
    agent: Option<&str>,
) -> rusqlite::Result<()> {
    tx.prepare_cached("UPDATE sessions SET replica = ?2 WHERE key = ?1 AND replica IS NOT ?2")?
        .execute(params![head.key, agent])
        .map(drop)
}

impl History<'_> {
    /// Returns whether a session was forked from this one.
    pub fn has_forks(&self, session: &str) -> Result<bool, StoreError> {
        self.conn
            .prepare_cached(
                "SELECT EXISTS (SELECT 1 FROM sessions f JOIN sessions o ON o.key = f.forked_from
                   WHERE o.id = ?1)",
            )
            .and_then(|mut s| s.query_row([session], |row| row.get(0)))
            .doing(WHAT)
    }

    /// Returns the newest copy of a workspace, with the name of its agent.
    pub fn newest_replica(&self, workspace: &str) -> Result<Option<(String, String)>, StoreError> {
        self.conn
            .prepare_cached(
                "SELECT id, replica FROM sessions WHERE workspace = ?1 AND replica IS NOT NULL
                 AND trashed_ms IS NULL ORDER BY updated_ms DESC LIMIT 1",
            )
            .and_then(|mut s| {
                s.query_row([workspace], |row| Ok((row.get(0)?, row.get(1)?)))
                    .optional()
            })
            .doing(WHAT)
    }
}

/// Appends the entries of a source to a copy. The caller has the lock of the session.
pub struct ReplicaWriter<'s> {
    store: &'s mut Store,
    new: NewSession,
    created_ms: i64,
    /// The end of the copy. `None`: it does not exist yet.
    head: Option<Head>,
    /// The next entry of the source, and the tip of those before it.
    next: Seq,
    tip: ChainHash,
    entries: Vec<(i64, Entry)>,
    blobs: Vec<Vec<u8>>,
    bytes: usize,
    appended: u64,
    differs: bool,
}

/// The result of an import.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Copied {
    /// The copy has all entries of the source. This number of them was appended.
    Appended(u64),
    /// The copy has other entries than the source, so nothing was appended.
    Differs,
}

impl<'s> ReplicaWriter<'s> {
    /// # Errors
    /// The session exists and is not a copy: `HeadMoved`.
    pub fn new(
        store: &'s mut Store,
        new: NewSession,
        created_ms: i64,
    ) -> Result<ReplicaWriter<'s>, StoreError> {
        let mut head = None;
        if store.history().knows(&new.id)? {
            // A kill may have come between a transaction and its lines in the journal.
            store.take_up_replica(&new.id)?;
            let mut known = read_head(&store.conn, &new.id)?;
            known.tip = tip_upto(&store.conn, &new.id, known.seq())?;
            head = Some(known);
        }
        Ok(ReplicaWriter {
            store,
            new,
            created_ms,
            head,
            next: 0,
            tip: ChainHash::of_nothing(),
            entries: Vec::new(),
            blobs: Vec::new(),
            bytes: 0,
            appended: 0,
            differs: false,
        })
    }

    /// Takes the next entry of the source. Returns whether more are wanted: after a difference they
    /// are not.
    pub fn push(
        &mut self,
        at_ms: i64,
        entry: Entry,
        blobs: Vec<Vec<u8>>,
    ) -> Result<bool, StoreError> {
        let json = serde_json::to_string(&entry).doing(WHAT)?;
        self.tip = self.tip.and(self.next, at_ms, json.as_bytes());
        self.next += 1;
        match &self.head {
            Some(head) if self.next < head.length => {}
            Some(head) if self.next == head.length => self.differs = head.tip != self.tip,
            _ => {
                self.bytes += json.len() + blobs.iter().map(Vec::len).sum::<usize>();
                self.entries.push((at_ms, entry));
                self.blobs.extend(blobs);
                if self.entries.len() >= ENTRIES_AT_ONCE || self.bytes >= BYTES_AT_ONCE {
                    self.write()?;
                }
            }
        }
        Ok(!self.differs)
    }

    /// Ends the import.
    pub fn finish(mut self) -> Result<Copied, StoreError> {
        if let Some(head) = &self.head
            && let Some(last) = self.next.checked_sub(1).filter(|_| self.next < head.length)
        {
            self.differs = tip_upto(&self.store.conn, &self.new.id, last)? != self.tip;
        }
        if self.differs {
            return Ok(Copied::Differs);
        }
        self.write()?;
        Ok(Copied::Appended(self.appended))
    }

    fn write(&mut self) -> Result<(), StoreError> {
        let entries = std::mem::take(&mut self.entries);
        let Some((at_ms, last)) = entries.last() else {
            return Ok(());
        };
        let blobs = std::mem::take(&mut self.blobs);
        self.bytes = 0;
        let store = &mut *self.store;
        let tx = store.write_entries(&self.new.id, WHAT)?;
        let mut head = match &self.head {
            Some(head) => head.clone(),
            None => {
                tx.prepare_cached(
                    "INSERT INTO sessions (id, workspace, folder, head, length, created_ms, updated_ms)
                     VALUES (?1, ?2, ?3, 0, 0, ?4, ?4)",
                )
                .and_then(|mut s| {
                    let NewSession { id, workspace, folder } = &self.new;
                    s.execute(params![id, workspace, folder, self.created_ms])
                })
                .doing(WHAT)?;
                Head::before_first(self.new.id.clone(), tx.last_insert_rowid())
            }
        };
        let mut before = head.clone();
        let mut with_blobs = Some(&blobs[..]);
        for (at_ms, entry) in &entries {
            before = head.clone();
            let one = std::slice::from_ref(entry);
            let prepared = Prepared::new(one, with_blobs.take().unwrap_or_default())?;
            prepared.put(&tx, &mut head, *at_ms, false)?;
        }
        tx.commit().doing(WHAT)?;
        // The journal lacks those before the last one, and gets all of them.
        let body = Body::new(last).doing(WHAT)?;
        let recorded = Recorded {
            at_ms: *at_ms,
            entries: std::slice::from_ref(last),
            json: vec![body.json()],
            blobs: &[],
            taken: None,
            signal: None,
            owed: false,
        };
        store.follow(&before, &head, &recorded);
        self.appended += entries.len() as u64;
        self.head = Some(head);
        Ok(())
    }
}

/// What was read of a session of another agent, from the cache.
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
        self.conn
            .prepare_cached(
                "SELECT path, i.id, i.bytes, modified, about, s.id FROM imported i
                 LEFT JOIN sessions s ON s.id = i.session AND s.replica IS NOT NULL",
            )
            .and_then(|mut s| {
                s.query_map([], |row| {
                    Ok(CachedSource {
                        path: row.get(0)?,
                        id: row.get(1)?,
                        bytes: count(row.get(2)?),
                        modified: row.get(3)?,
                        about: row.get(4)?,
                        session: row.get(5)?,
                    })
                })?
                .collect()
            })
            .doing(WHAT)
    }

    /// Returns what the source of a copy said about itself when it was read last: JSON.
    pub fn source_of(&self, session: &str) -> Result<Option<String>, StoreError> {
        self.conn
            .prepare_cached("SELECT about FROM imported WHERE session = ?1")
            .and_then(|mut s| s.query_row([session], |row| row.get(0)).optional())
            .doing(WHAT)
    }
}

impl Store {
    /// Stores what was read of sessions of other agents.
    pub fn cache_sources(&mut self, read: &[CachedSource]) -> Result<(), StoreError> {
        let tx = self.write(WHAT)?;
        for source in read {
            tx.prepare_cached(
                "INSERT OR REPLACE INTO imported (path, id, bytes, modified, about, session)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
            )
            .and_then(|mut s| {
                s.execute(params![
                    source.path,
                    source.id,
                    int(source.bytes),
                    source.modified,
                    source.about,
                    source.session
                ])
            })
            .doing(WHAT)?;
        }
        tx.commit().doing(WHAT)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::new_id;

    #[test]
    fn a_full_disk_leaves_a_shorter_copy_that_grows_later() {
        let dir = tempfile::tempdir().unwrap();
        let mut store = Store::open(dir.path()).unwrap();
        let new = NewSession {
            id: new_id(),
            workspace: "/w".into(),
            folder: "/w".into(),
        };
        let entry = |number: usize| Entry::Noted {
            text: format!("{number}{}", blake3::hash(&number.to_le_bytes())),
            about: None,
        };
        let limit = |store: &Store, pages: i64| {
            store
                .conn
                .pragma_update_and_check(None, "max_page_count", pages, |_| Ok(()))
                .unwrap();
        };
        let push = |store: &mut Store, limited: bool| -> Result<Copied, StoreError> {
            let mut writer = ReplicaWriter::new(store, new.clone(), 1)?;
            for number in 0..2_500 {
                if number == 1_200 && limited {
                    limit(writer.store, 1);
                }
                writer.push(1, entry(number), Vec::new())?;
            }
            writer.finish()
        };
        let full = push(&mut store, true).unwrap_err();
        assert!(matches!(full, StoreError::Full { .. }), "{full}");
        assert_eq!(store.load(&new.id).unwrap().1.len(), 1_000);
        limit(&store, 1 << 30);
        assert_eq!(push(&mut store, false).unwrap(), Copied::Appended(1_500));
        assert_eq!(push(&mut store, false).unwrap(), Copied::Appended(0));
        assert_eq!(store.load(&new.id).unwrap().1.len(), 2_500);
    }
}
