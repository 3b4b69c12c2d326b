//! Sessions that move between stores: what an export reads, and what an import records.
//!
//! Invariant: an export reads one state of the database. An agent that runs in a session does not
//! wait for it.
//! Invariant: an import appends only to copies, and takes no queued message and no signal.

use std::collections::{BTreeMap, HashSet};
use std::fs::File;
use std::path::Path;

use rusqlite::{Connection, Transaction, params};
use rustix::fs::{FlockOperation, flock};
use serde_json::value::RawValue;

use super::append::NewSession;
use super::blobs::blob;
use super::chain::{SessionStart, chain, insert_session, read_head};
use super::database::{private_file, private_folder};
use super::error::{Doing, io as io_error};
use super::ids::{id_of_diverged, parents_first};
use super::journal_writer::header;
use super::line_writer::{LineWriter, PreparedLine};
use super::parallel_read::record_and_json;
use super::replica::{is_of_rewake, refuse_replica};
use super::row::{BodyReader, SELECT_ROW, count, row_positions};
use super::sessions::{IS_CHILD, up_to_date_head};
use super::tips::{forked_from, tip_upto};
use super::{History, Store, StoreError, cached};
use crate::core::entry::Seq;
use crate::core::tree::uses;
use crate::journal::chain_hash::ChainHash;
use crate::journal::line::{EntryLine, Header, Parent};

const WHAT_EXPORT: &str = "export the sessions";
const WHAT: &str = "import the session";

/// One state of the database.
pub struct ExportView<'s> {
    pub(super) tx: Transaction<'s>,
    /// The folder of packs.
    pub(super) packs: &'s Path,
    store: String,
    schema: u32,
}

/// A session to export.
#[derive(Debug)]
pub struct Planned {
    pub header: Header,
    pub title: Option<String>,
    /// Sequence number after the last entry that is exported.
    pub end: Seq,
    /// The tip of that entry.
    pub tip: ChainHash,
    /// Stored size of the entries that it recorded itself, in bytes.
    pub bytes: u64,
    /// It was asked for. Others are its ancestors and subagents.
    pub is_named: bool,
}

/// A part of a session, in order.
pub enum SessionPart<'a> {
    /// Bytes that the next entry refers to.
    Blob(&'a [u8]),
    Entry(&'a EntryLine),
}

/// The findings of an export in the entries of a session.
#[derive(Debug, Default)]
pub struct SessionRead {
    /// Number of blobs that are not stored any more.
    pub missing_blobs: u64,
    /// The names of the trees in its entries, with the places of these.
    pub trees: Vec<(Seq, String)>,
}

impl<'s> ExportView<'s> {
    /// Begins to read one state of the database.
    pub fn of(of: &'s Store) -> Result<ExportView<'s>, StoreError> {
        let tx = of.conn.unchecked_transaction().doing(WHAT_EXPORT)?;
        let store = cached::meta(&tx, "store").doing(WHAT_EXPORT)?;
        let schema = tx
            .pragma_query_value(None, "user_version", |row| row.get(0))
            .doing(WHAT_EXPORT)?;
        Ok(ExportView {
            tx,
            packs: &of.packs,
            store,
            schema,
        })
    }
}

impl ExportView<'_> {
    /// Returns the hash of the ID of the store, and its schema.
    pub fn store(&self) -> (String, u32) {
        (hashed(&self.store), self.schema)
    }

    /// Returns all sessions outside the trash that lists show.
    pub fn all(&self) -> Result<Vec<String>, StoreError> {
        let sql = "SELECT id FROM sessions WHERE trashed_ms IS NULL ORDER BY key";
        cached::rows(&self.tx, sql, [], |row| row.get(0)).doing(WHAT_EXPORT)
    }

    /// Returns the sessions with their ancestors, up to the shared entries, and their subagents. Each
    /// comes after the session that it continues or that started it.
    pub fn plan(&self, named: &[String]) -> Result<Vec<Planned>, StoreError> {
        let children = format!(
            "SELECT s.id FROM sessions s JOIN sessions p ON p.key = s.forked_from
             WHERE p.id = ?1 AND {IS_CHILD}"
        );
        let mut children = self.tx.prepare(&children).doing(WHAT_EXPORT)?;
        let mut ends: BTreeMap<String, Seq> = BTreeMap::new();
        let mut open: Vec<String> = named.to_vec();
        while let Some(id) = open.pop() {
            let length = read_head(&self.tx, &id)?.length;
            if ends.insert(id.clone(), length).is_none() {
                let more = children.query_map([&id], |row| row.get::<_, String>(0));
                for child in more.doing(WHAT_EXPORT)? {
                    open.push(child.doing(WHAT_EXPORT)?);
                }
            }
        }
        let mut headers: BTreeMap<String, Header> = BTreeMap::new();
        let mut open: Vec<String> = ends.keys().cloned().collect();
        while let Some(id) = open.pop() {
            let mut header = header(&self.tx, &self.store, &id)?;
            // With both, a journal could be made that `doctor --repair --from` takes for one of
            // this store.
            header.store = hashed(&header.store);
            (header.machine, header.source) = (None, None);
            self.find_owner(&mut header)?;
            if let Some(Parent { session, seq }) = &header.forked {
                let end = ends.entry(session.clone()).or_insert(0);
                *end = (*end).max(seq + 1);
                if !headers.contains_key(session) {
                    open.push(session.clone());
                }
            }
            headers.insert(id, header);
        }
        let started_by = self.parents()?;
        let order = parents_first(headers.keys().cloned().collect(), |id| {
            let forked = headers.get(id).and_then(|header| header.forked.as_ref());
            let parent = forked.map(|forked| forked.session.clone());
            parent.or_else(|| started_by.get(id).cloned())
        });
        let mut planned = Vec::new();
        for id in order {
            let Some(header) = headers.remove(&id) else {
                continue;
            };
            let end = ends.get(&id).copied().unwrap_or(0);
            let sql = "SELECT title, bytes FROM sessions WHERE id = ?1";
            let row = cached::row(&self.tx, sql, [&id], |row| {
                Ok((row.get(0)?, count(row.get(1)?)))
            });
            let (title, bytes) = row.doing(WHAT_EXPORT)?;
            planned.push(Planned {
                tip: tip_upto(&self.tx, &id, end.saturating_sub(1))?,
                is_named: named.contains(&id),
                header,
                title,
                end,
                bytes,
            });
        }
        Ok(planned)
    }

    /// Makes a fork continue the session that recorded the shared entry itself. It may be an ancestor
    /// of the one that was forked.
    fn find_owner(&self, fork: &mut Header) -> Result<(), StoreError> {
        while let Some(parent) = &fork.forked {
            let of = header(&self.tx, &self.store, &parent.session)?;
            match of.forked {
                Some(older) if parent.seq < of.first => {
                    fork.forked = Some(Parent {
                        session: older.session,
                        seq: parent.seq,
                    });
                }
                _ => break,
            }
        }
        Ok(())
    }

    /// Returns for each session the one that it continues or that started it.
    fn parents(&self) -> Result<BTreeMap<String, String>, StoreError> {
        let sql = "SELECT s.id, p.id FROM sessions s JOIN sessions p ON p.key = s.forked_from";
        cached::rows(&self.tx, sql, [], |row| Ok((row.get(0)?, row.get(1)?))).doing(WHAT_EXPORT)
    }

    /// Returns the number of queued messages and signals of a session.
    pub fn waiting(&self, session: &str) -> Result<u64, StoreError> {
        let of = "WHERE session = (SELECT key FROM sessions WHERE id = ?1)";
        let sql = format!(
            "SELECT (SELECT count(*) FROM inbox {of}) + (SELECT count(*) FROM signals {of})"
        );
        self.tx
            .query_row(&sql, [session], |row| Ok(count(row.get(0)?)))
            .doing(WHAT_EXPORT)
    }

    /// Reads the own entries of a session, each after its blobs.
    ///
    /// # Errors
    /// `Corrupt`: an entry is damaged. Those of `each`.
    pub fn read<E: From<StoreError>>(
        &self,
        planned: &Planned,
        each: &mut dyn FnMut(SessionPart<'_>) -> Result<(), E>,
    ) -> Result<SessionRead, E> {
        let session = planned.header.session.as_str();
        let first = planned.header.first;
        let head = read_head(&self.tx, session)?;
        let chain = chain(&self.tx, &head, first.saturating_sub(1))?;
        chain.readable_upto(planned.end.saturating_sub(1))?;
        let mut tip = planned.header.tip;
        let mut statement = self.tx.prepare_cached(SELECT_ROW).doing(WHAT_EXPORT)?;
        let mut bodies = BodyReader::new()?;
        let mut given = HashSet::new();
        let mut done = SessionRead::default();
        let positions = row_positions(session, first, chain.rows.into_iter().rev());
        for position in positions.take_while(|position| position.seq < planned.end) {
            let seq = position.seq;
            let (linked, json) =
                record_and_json(&mut statement, &position, tip, &mut bodies, WHAT_EXPORT)?;
            tip = linked.tip;
            for reference in linked.record.entry.blobs() {
                if given.insert(reference.hash.clone()) {
                    match blob(&self.tx, &reference.hash)? {
                        Some(bytes) => each(SessionPart::Blob(&bytes))?,
                        None => done.missing_blobs += 1,
                    }
                }
            }
            let trees = uses(&linked.record.entry).map(|tree| (seq, tree.to_string()));
            done.trees.extend(trees);
            let json = RawValue::from_string(json.to_string()).doing(WHAT_EXPORT);
            each(SessionPart::Entry(&EntryLine {
                seq,
                at_ms: linked.record.at_ms,
                tip,
                taken: None,
                signal: None,
                owed: false,
                entry: json?,
            }))?;
        }
        Ok(done)
    }
}

/// Returns the ID of a store as bundles have it.
fn hashed(store: &str) -> String {
    blake3::hash(store.as_bytes()).to_hex()[..32].to_string()
}

/// Held while an import works: another one waits for its end.
pub struct ImportLock {
    _file: File,
}

impl ImportLock {
    /// Waits for the end of other imports.
    pub fn take(data_dir: &Path) -> Result<ImportLock, StoreError> {
        let failed = |error| io_error("wait for another import", error);
        private_folder(data_dir)?;
        let file = private_file(&data_dir.join("import.lock"))?;
        flock(&file, FlockOperation::LockExclusive).map_err(|e| failed(e.into()))?;
        Ok(ImportLock { _file: file })
    }
}

/// The comparison of a session here with the same one of a bundle.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Compared {
    /// No session has this ID.
    Unknown,
    /// All entries of the bundle are here.
    Whole,
    /// The session here is a copy, and its entries are the first ones of the bundle.
    Shorter,
    /// It has other entries, or is a session of this store that an import may not change.
    Differs,
}

impl History<'_> {
    /// Compares a session with entries that follow the entry before `first`, by their tips. `before`
    /// is the tip of that entry.
    pub fn compared(
        &self,
        session: &str,
        first: Seq,
        before: ChainHash,
        tips: &[ChainHash],
    ) -> Result<Compared, StoreError> {
        if !self.knows(session)? {
            return Ok(Compared::Unknown);
        }
        let length = read_head(self.conn, session)?.length;
        let end = first + tips.len() as u64;
        let last = length.min(end).saturating_sub(1);
        let there = match last.checked_sub(first) {
            Some(place) => usize::try_from(place).ok().and_then(|p| tips.get(p)),
            None if last + 1 == first => Some(&before),
            None => None,
        };
        let is_same = there
            .is_some_and(|tip| tip_upto(self.conn, session, last).is_ok_and(|here| here == *tip));
        // A copy of another agent follows its source, not a bundle.
        let is_copy = is_copy_of_rewake(self.conn, session)?;
        Ok(match (is_same, length >= end) {
            (true, true) => Compared::Whole,
            (true, false) if is_copy => Compared::Shorter,
            _ => Compared::Differs,
        })
    }
}

fn is_copy_of_rewake(conn: &Connection, session: &str) -> Result<bool, StoreError> {
    match refuse_replica(conn, session, None) {
        Err(StoreError::Replica { agent, .. }) => Ok(is_of_rewake(&agent)),
        Err(StoreError::Shared { .. }) => Ok(false),
        refused => refused.map(|()| false),
    }
}

/// Returns the ID of a copy of a session whose own ID another one has.
pub fn id_of_copy(session: &str, tip: ChainHash) -> String {
    id_of_diverged(session, tip)
}

/// A copy that an import makes or appends to.
#[derive(Debug)]
pub struct NewReplica {
    pub session: NewSession,
    pub created_ms: i64,
    /// Where it comes from, see [`super::replica_source`].
    pub source: String,
    /// The entry here that it continues from.
    pub forked: Option<Parent>,
    /// The copy here whose subagent it is.
    pub parent: Option<String>,
}

/// Receives the parts of one session.
pub type PartSink<'a> = &'a mut dyn FnMut(SessionPart<'_>) -> Result<(), StoreError>;

/// Records a copy in one transaction, or appends the entries that it lacks. `read` passes all parts
/// of the session on. The caller has its lock. Returns the number of entries that were appended.
pub fn append_replica<E: From<StoreError>>(
    store: &mut Store,
    new: &NewReplica,
    read: impl FnOnce(PartSink<'_>) -> Result<(), E>,
) -> Result<u64, E> {
    let id = &new.session.id;
    let mut known = None;
    let mut from = None;
    if store.history().knows(id)? {
        known = Some(up_to_date_head(store, id)?);
    } else if let Some(Parent { session, seq }) = &new.forked {
        let of = read_head(&store.conn, session)?;
        from = Some(forked_from(&store.conn, &of, *seq)?);
    }
    let is_new = known.is_none();
    let tx = store.write_entries(id, WHAT)?;
    let start = SessionStart {
        from,
        ..new.session.start(new.created_ms, Some(&new.source))
    };
    let head = known.map_or_else(|| insert_session(&tx, &start, WHAT), Ok)?;
    let mut writer = LineWriter::new(head, WHAT);
    read(&mut |part| match part {
        SessionPart::Blob(bytes) => writer.blob(&tx, bytes).map(drop),
        SessionPart::Entry(line) if line.seq < writer.head.length => Ok(()),
        SessionPart::Entry(line) => writer
            .append(&tx, PreparedLine::of_elsewhere(line)?)
            .map(drop),
    })?;
    if is_new && let Some(parent) = &new.parent {
        tx.execute(
            "UPDATE sessions SET forked_from =
               (SELECT key FROM sessions WHERE id = ?2 AND replica IS NOT NULL)
             WHERE key = ?1 AND forked_seq IS NULL",
            params![writer.head.key, parent],
        )
        .doing(WHAT)?;
    }
    // Its entries may say that it is not a copy, or a session of this ID may be new.
    if !is_copy_of_rewake(&tx, id)? {
        return Err(StoreError::Replica {
            session: id.clone(),
            agent: new.source.clone(),
        }
        .into());
    }
    if writer.count == 0 {
        // Nothing was recorded: neither is the row of a new session.
        return Ok(0);
    }
    tx.commit().doing(WHAT)?;
    writer.write_journal(store);
    Ok(writer.count)
}
