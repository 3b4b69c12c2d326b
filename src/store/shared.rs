//! Sessions that are recorded in a shared database too: the lines for the database, and the lines of
//! the database that this store lacks.
//!
//! Invariant: a shared session is appended to only while this process holds its lease.

use std::collections::BTreeSet;

use rusqlite::{OptionalExtension, Transaction};
use serde_json::value::to_raw_value;

use super::append::Batch;
use super::blobs::{blob, blob_ref};
use super::chain::{Head, SessionStart, insert_session, read_head};
use super::error::Doing;
use super::fork::close_calls;
use super::held::Held;
use super::ids::id_of_diverged;
use super::inbox::{InboxId, SignalId};
use super::journal_writer::header;
use super::line_writer::{LineWriter, PreparedLine};
use super::replica::{database_of, shared_source};
use super::sessions::up_to_date_head;
use super::tips::tip_upto;
use super::{
    ExportView, NewReplica, NewSession, Planned, SessionInfo, SessionPart, Store, StoreError,
    append_replica, cached, now_ms, trees,
};
use crate::core::entry::{Entry, Seq};
use crate::journal::chain_hash::ChainHash;
use crate::journal::line::EntryLine;

const WHAT: &str = "record the shared session";

/// Size of the key of a store, bytes.
const KEY_BYTES: usize = 32;

/// Entries for the database, and the bytes that they refer to.
#[derive(Debug, Clone, Default)]
pub struct NewLines {
    pub lines: Vec<EntryLine>,
    pub blobs: Vec<Vec<u8>>,
    /// The mail that becomes these entries.
    pub taken: Vec<i64>,
    /// Where the files of the session are, if they changed: JSON.
    pub files: Option<String>,
}

impl NewLines {
    /// Returns the end after these lines. `None`: it has no line.
    pub fn end(&self) -> Option<(ChainHash, Seq)> {
        let last = self.lines.last()?;
        Some((last.tip, last.seq + 1))
    }
}

/// Returns entries as the lines that follow this end of a session.
pub fn lines_of(
    (mut tip, length): (ChainHash, Seq),
    at_ms: i64,
    entries: &[Entry],
    owed: bool,
) -> Result<Vec<EntryLine>, StoreError> {
    let line = |(seq, entry): (Seq, &Entry)| {
        let entry = to_raw_value(entry).doing(WHAT)?;
        tip = tip.and(seq, at_ms, entry.get().as_bytes());
        Ok(EntryLine {
            seq,
            at_ms,
            tip,
            taken: None,
            signal: None,
            owed,
            entry,
        })
    };
    (length..).zip(entries).map(line).collect()
}

/// Returns the lines of a batch after the end of a session, with all bytes that they refer to. The
/// batch gets their JSON, so that this store records the same.
pub fn lines_after(store: &Store, head: &Head, batch: &mut Batch) -> Result<NewLines, StoreError> {
    let mut lines = lines_of(head.end(), batch.at_ms, &batch.entries, batch.unfinished)?;
    batch.json = lines.iter().map(|line| line.entry.clone()).collect();
    if let Some(first) = lines.first_mut() {
        first.taken = batch.taken.map(InboxId::number);
        first.signal = batch.signal.map(SignalId::number);
    }
    let mut blobs = batch.blobs.clone();
    let sent: BTreeSet<String> = blobs.iter().map(|bytes| blob_ref(bytes).hash).collect();
    // Images of a message were stored with the message.
    for of in batch.entries.iter().flat_map(Entry::blobs) {
        if !sent.contains(&of.hash)
            && let Some(bytes) = blob(&store.conn, &of.hash)?
        {
            blobs.push(bytes);
        }
    }
    let taken = mail_of(store, batch.taken, batch.signal)?;
    Ok(NewLines {
        lines,
        blobs,
        taken,
        files: None,
    })
}

impl Head {
    /// Returns the tip of the last entry, and the number of entries.
    pub fn end(&self) -> (ChainHash, Seq) {
        (self.tip, self.length)
    }
}

/// Lets this store append to a shared session, since this process holds its lease. If the session
/// is created later, it is marked as shared.
pub fn hold(store: &mut Store, session: &str, database: &str) {
    store.held = Some(Held {
        session: session.to_string(),
        source: shared_source(database),
    });
}

/// Stores a state of the files that a batch names, before the batch is sent to the database. So the
/// state is there even if the process ends before the batch is stored here.
pub fn keep_tree(store: &mut Store, batch: &Batch) -> Result<(), StoreError> {
    let Some(tree) = &batch.tree else {
        return Ok(());
    };
    let tx = store.write(WHAT)?;
    trees::insert(&tx, batch.at_ms, tree).doing(WHAT)?;
    tx.commit().doing(WHAT)
}

/// Returns the mail that waits here as this message and this signal.
fn mail_of(
    store: &Store,
    message: Option<InboxId>,
    signal: Option<SignalId>,
) -> Result<Vec<i64>, StoreError> {
    let rows = [
        ("inbox", message.map(InboxId::number)),
        ("signals", signal.map(SignalId::number)),
    ];
    let mut found = Vec::new();
    for (table, row) in rows {
        let sql = format!("SELECT json_extract(body, '$.mail') FROM {table} WHERE id = ?1");
        let mail: Option<Option<i64>> = cached::row(&store.conn, &sql, [row], |row| row.get(0))
            .optional()
            .doing(WHAT)?;
        found.extend(mail.flatten());
    }
    Ok(found)
}

/// Returns the mail that waits here.
pub fn waiting_mail(store: &Store, session: &str) -> Result<BTreeSet<i64>, StoreError> {
    let sql = "SELECT json_extract(w.body, '$.mail') AS mail FROM (
               SELECT session, body FROM inbox UNION ALL SELECT session, body FROM signals) w
             JOIN sessions s ON s.key = w.session WHERE s.id = ?1 AND mail IS NOT NULL";
    cached::rows(&store.conn, sql, [session], |row| row.get(0)).doing(WHAT)
}

/// Returns the key by which this store knows the entries that it sent to a database. It is made
/// once.
pub fn key(store: &mut Store) -> Result<[u8; KEY_BYTES], StoreError> {
    let tx = store.write(WHAT)?;
    let known: Option<String> = cached::meta(&tx, "shared_key").optional().doing(WHAT)?;
    let known = known.and_then(|hex| blake3::Hash::from_hex(hex).ok());
    if let Some(key) = known {
        return Ok(*key.as_bytes());
    }
    // Two IDs have 148 random bits.
    let random = [uuid::Uuid::new_v4(), uuid::Uuid::new_v4()].map(uuid::Uuid::into_bytes);
    let key = blake3::hash(&random.concat());
    cached::set_meta(&tx, "shared_key", key.to_hex().as_str()).doing(WHAT)?;
    tx.commit().doing(WHAT)?;
    Ok(*key.as_bytes())
}

/// Returns the ID of this store.
pub fn store_id(store: &Store) -> Result<String, StoreError> {
    cached::meta(&store.conn, "store").doing(WHAT)
}

/// Returns the end of a session here. Entries that only its journal has are restored first. The
/// caller has its lock.
pub fn end_of(store: &mut Store, session: &str) -> Result<(ChainHash, Seq), StoreError> {
    Ok(up_to_date_head(store, session)?.end())
}

/// Returns the tip of the entry before this place of a session.
pub fn tip_before(store: &Store, session: &str, place: Seq) -> Result<ChainHash, StoreError> {
    match place.checked_sub(1) {
        None => Ok(ChainHash::of_nothing()),
        Some(last) => tip_upto(&store.conn, session, last),
    }
}

/// Returns the lines of a session from this place on.
pub fn lines_from(store: &Store, session: &str, first: Seq) -> Result<NewLines, StoreError> {
    let view = ExportView::of(store)?;
    let mut header = header(&store.conn, &store_id(store)?, session)?;
    header.first = first;
    header.tip = tip_before(store, session, first)?;
    let planned = Planned {
        header,
        title: None,
        end: read_head(&store.conn, session)?.length,
        tip: ChainHash::of_nothing(),
        bytes: 0,
        is_named: true,
    };
    let mut found = NewLines::default();
    view.read::<StoreError>(&planned, &mut |part| {
        match part {
            SessionPart::Blob(bytes) => found.blobs.push(bytes.to_vec()),
            SessionPart::Entry(line) => found.lines.push(line.clone()),
        }
        Ok(())
    })?;
    Ok(found)
}

/// Appends lines of the database that this store lacks, since the process ended between the two.
/// Messages and signals that became entries are removed. The caller has the lock of the session.
///
/// # Errors
/// `Damaged`: they do not follow.
pub fn append(store: &mut Store, session: &str, new: &NewLines) -> Result<(), StoreError> {
    let head = up_to_date_head(store, session)?;
    let tx = store.write_entries(session, WHAT)?;
    let writer = put(&tx, head, new)?;
    tx.commit().doing(WHAT)?;
    write_journal(store, &writer);
    Ok(())
}

/// Creates a session with the entries that the database has. It is marked as shared. The caller has
/// its lock and its lease.
///
/// # Errors
/// They do not follow, or the ID is taken.
pub fn adopt(
    store: &mut Store,
    new: &NewSession,
    created_ms: i64,
    lines: &NewLines,
) -> Result<(), StoreError> {
    let source = Held::source_of(store.held.as_ref(), &new.id).map(str::to_string);
    let tx = store.write_entries(&new.id, WHAT)?;
    let head = insert_session(&tx, &new.start(created_ms, source.as_deref()), WHAT)?;
    let writer = put(&tx, head, lines)?;
    tx.commit().doing(WHAT)?;
    write_journal(store, &writer);
    Ok(())
}

/// Appends lines to the copy of a session of another machine.
///
/// # Errors
/// It is not a copy, or they do not follow.
pub fn append_to_copy(store: &mut Store, session: &str, new: &NewLines) -> Result<(), StoreError> {
    let info = store.history().find(session)?;
    let replica = NewReplica {
        session: NewSession {
            id: session.to_string(),
            workspace: info.workspace,
            folder: info.folder,
        },
        created_ms: info.created_ms,
        source: info.replica.unwrap_or_default(),
        forked: None,
        parent: None,
    };
    append_replica::<StoreError>(store, &replica, |sink| {
        for blob in &new.blobs {
            sink(SessionPart::Blob(blob))?;
        }
        let mut lines = new.lines.iter();
        lines.try_for_each(|line| sink(SessionPart::Entry(line)))
    })
    .map(drop)
}

/// Returns whether this store recorded the session in this database.
pub fn is_recorded_in(info: &SessionInfo, database: &str) -> bool {
    info.shared.is_some() && info.shared.as_deref() == database_of(&shared_source(database))
}

/// Returns the last of these lines that a session here has too.
pub fn last_common(
    store: &Store,
    session: &str,
    lines: &NewLines,
) -> Result<Option<Seq>, StoreError> {
    let length = read_head(&store.conn, session)?.length;
    let mut last = None;
    for line in lines.lines.iter().take_while(|line| line.seq < length) {
        if tip_upto(&store.conn, session, line.seq)? != line.tip {
            break;
        }
        last = Some(line.seq);
    }
    Ok(last)
}

/// Replaces the entries of a shared session by the first ones of the database, which differ after
/// `common`. The session as it was here gets another ID, which is returned, and is no longer shared.
/// Its open calls are closed, since the database may have their results.
pub fn replace(
    store: &mut Store,
    session: &str,
    new: &NewLines,
    common: Seq,
) -> Result<String, StoreError> {
    let mut diverged_head = up_to_date_head(store, session)?;
    let diverged_id = id_of_diverged(session, diverged_head.tip);
    diverged_head.session.clone_from(&diverged_id);
    let tx = store.write_entries(session, WHAT)?;
    let sql = "UPDATE sessions SET id = ?2 WHERE id = ?1";
    tx.execute(sql, [session, &diverged_id]).doing(WHAT)?;
    let sql = "SELECT workspace, folder, created_ms, replica FROM sessions WHERE key = ?1";
    let row: (String, String, i64, Option<String>) =
        cached::row(&tx, sql, [diverged_head.key], |row| row.try_into()).doing(WHAT)?;
    let start = SessionStart {
        id: session,
        workspace: &row.0,
        folder: &row.1,
        created_ms: row.2,
        from: None,
        replica: row.3.as_deref(),
    };
    let head = insert_session(&tx, &start, WHAT)?;
    let sql =
        "UPDATE sessions SET replica = NULL, title = coalesce(title, '') || ' (diverged copy)'
         WHERE id = ?1";
    tx.execute(sql, [&diverged_id]).doing(WHAT)?;
    let writer = put(&tx, head, new)?;
    close_calls(&tx, &mut diverged_head, session, common)?;
    tx.commit().doing(WHAT)?;
    write_journal(store, &writer);
    Ok(diverged_id)
}

/// Gives the copy of a session of another machine another ID, so that this store can record the session
/// itself. The journal goes first: after a kill the copy is as it was, without one.
/// Another session stays as it is.
pub fn set_copy_aside(store: &mut Store, session: &str) -> Result<(), StoreError> {
    let (tip, _) = end_of(store, session)?;
    let aside = id_of_diverged(session, tip);
    if let (true, Some(copies)) = (store.has_journal(session), &mut store.copies) {
        copies.journal.move_aside(session, now_ms())?;
    }
    let tx = store.write_entries(&aside, WHAT)?;
    let sql = "UPDATE sessions SET id = ?2, title = coalesce(title, '') || ' (copy)'
         WHERE id = ?1 AND replica GLOB 'rewake@*'";
    tx.execute(sql, [session, &aside]).doing(WHAT)?;
    tx.commit().doing(WHAT)?;
    store.write_journal_of(&aside);
    Ok(())
}

/// Appends lines with the bytes that they refer to.
fn put(tx: &Transaction<'_>, head: Head, new: &NewLines) -> Result<LineWriter, StoreError> {
    let mut writer = LineWriter::new(head, WHAT);
    for blob in &new.blobs {
        writer.blob(tx, blob)?;
    }
    for line in &new.lines {
        writer.append(tx, PreparedLine::of(line)?)?;
    }
    Ok(writer)
}

/// Writes the journal after lines were appended, and the queued messages and signals that are left.
fn write_journal(store: &mut Store, writer: &LineWriter) {
    if writer.count > 0 {
        writer.write_journal(store);
        store.inbox_mut().write_pending_rows(writer.head.session());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::new_id;

    /// The database has another second entry than this store.
    #[test]
    fn a_session_that_differs_from_the_database_becomes_two() {
        let dir = tempfile::tempdir().unwrap();
        let mut store = Store::open(dir.path()).unwrap();
        let new = NewSession {
            id: new_id(),
            workspace: "/w".into(),
            folder: "/w/f".into(),
        };
        let note = |text: &str| Entry::Noted {
            text: text.into(),
            about: None,
        };
        let first = note("first");
        hold(&mut store, &new.id, "db");
        let (mut head, _) = store.create(&new, 7, first.clone()).unwrap();
        let common = head.end();
        let here = Batch {
            entries: vec![note("here")],
            ..Batch::default()
        };
        store.append(&mut head, &here).unwrap();
        let mut lines = lines_of((ChainHash::of_nothing(), 0), 7, &[first], false).unwrap();
        lines.extend(lines_of(common, 8, &[note("there")], true).unwrap());
        let theirs = NewLines {
            lines,
            ..NewLines::default()
        };
        let diverged_id = replace(&mut store, &new.id, &theirs, 0).unwrap();
        assert_eq!(Some(end_of(&mut store, &new.id).unwrap()), theirs.end());
        assert_eq!(end_of(&mut store, &diverged_id).unwrap().1, 3);
        let [now, was] = [&new.id, &diverged_id].map(|id| store.history().find(id).unwrap());
        assert_eq!((now.workspace, now.folder), (was.workspace, was.folder));
        assert_eq!((now.created_ms, now.unfinished), (7, true));
        assert_eq!((now.shared.as_deref(), was.shared), (Some("db"), None));
        assert!(was.title.unwrap().ends_with("(diverged copy)"));
    }
}
