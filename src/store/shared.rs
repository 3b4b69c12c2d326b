//! Sessions that are recorded in a shared database too: the lines for the database, and the lines of
//! the database that this store lacks.
//!
//! Invariant: a shared session is appended to only while this process holds its lease.

use std::collections::BTreeSet;

use rusqlite::{OptionalExtension, Transaction, params};
use serde_json::value::RawValue;

use super::append::{Batch, Prepared};
use super::blobs::{Packed, blob, blob_ref, insert_blob};
use super::chain::{Head, insert_session, read_head};
use super::error::Doing;
use super::fork::close_calls;
use super::held::Held;
use super::ids::id_of_diverged;
use super::inbox::{InboxId, SignalId};
use super::journal_writer::{Recorded, header};
use super::replica::{database_of, shared_source};
use super::row::Body;
use super::sessions::bring_up_to_date;
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
        let body = Body::new(entry).doing(WHAT)?;
        tip = tip.and(seq, at_ms, body.json().as_bytes());
        Ok(EntryLine {
            seq,
            at_ms,
            tip,
            taken: None,
            signal: None,
            owed,
            entry: RawValue::from_string(body.json().to_string()).doing(WHAT)?,
        })
    };
    (length..).zip(entries).map(line).collect()
}

/// Returns the lines of a batch after the end of a session, with all bytes that they refer to.
pub fn lines_after(store: &Store, head: &Head, batch: &Batch) -> Result<NewLines, StoreError> {
    let mut lines = lines_of(head.end(), batch.at_ms, &batch.entries, batch.unfinished)?;
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
    tx.execute(
        "INSERT OR REPLACE INTO meta VALUES ('shared_key', ?1)",
        [key.to_hex().as_str()],
    )
    .doing(WHAT)?;
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
    bring_up_to_date(store, session)?;
    let head = read_head(&store.conn, session)?;
    Ok((tip_upto(&store.conn, session, head.seq())?, head.length))
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
    bring_up_to_date(store, session)?;
    let mut head = read_head(&store.conn, session)?;
    head.tip = tip_upto(&store.conn, session, head.seq())?;
    let tx = store.write_entries(session, WHAT)?;
    let before = put(&tx, &mut head, new)?;
    tx.commit().doing(WHAT)?;
    followed(store, &before, &head, new)
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
    let mut head = insert_session(&tx, &new.start(created_ms, source.as_deref()), WHAT)?;
    let before = put(&tx, &mut head, lines)?;
    tx.commit().doing(WHAT)?;
    followed(store, &before, &head, lines)
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
    let (tip, _) = end_of(store, session)?;
    let mut parted_head = read_head(&store.conn, session)?;
    parted_head.tip = tip;
    let parted = id_of_diverged(session, tip);
    let tx = store.write_entries(session, WHAT)?;
    tx.execute(
        "UPDATE sessions SET id = ?2 WHERE id = ?1",
        [session, &parted],
    )
    .doing(WHAT)?;
    tx.execute(
        "INSERT INTO sessions (id, workspace, folder, head, length, created_ms, updated_ms, replica)
         SELECT ?1, workspace, folder, 0, 0, created_ms, updated_ms, replica
         FROM sessions WHERE id = ?2",
        [session, &parted],
    )
    .doing(WHAT)?;
    let mut head = Head::before_first(session.to_string(), tx.last_insert_rowid());
    tx.execute(
        "UPDATE sessions SET replica = NULL, title = coalesce(title, '') || ' (as this machine had it)'
         WHERE id = ?1",
        [&parted],
    )
    .doing(WHAT)?;
    let before = put(&tx, &mut head, new)?;
    parted_head.session.clone_from(&parted);
    close_calls(&tx, &mut parted_head, session, common)?;
    tx.commit().doing(WHAT)?;
    followed(store, &before, &head, new)?;
    Ok(parted)
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

/// Writes the journal after lines were appended.
fn followed(
    store: &mut Store,
    before: &Head,
    head: &Head,
    new: &NewLines,
) -> Result<(), StoreError> {
    let Some(last) = new.lines.last() else {
        return Ok(());
    };
    let entry = [serde_json::from_str(last.entry.get()).doing(WHAT)?];
    let recorded = Recorded {
        at_ms: last.at_ms,
        entries: &entry,
        json: vec![last.entry.get()],
        owed: last.owed,
        ..Recorded::default()
    };
    // The journal lacks those before the last one, and gets all of them.
    store.follow(before, head, &recorded);
    store.inbox_mut().write_pending_rows(head.session());
    Ok(())
}

/// Appends lines, and returns the end before the last one.
fn put(tx: &Transaction<'_>, head: &mut Head, new: &NewLines) -> Result<Head, StoreError> {
    for blob in &new.blobs {
        insert_blob(tx, &Packed::new(blob)).doing(WHAT)?;
    }
    let mut before = head.clone();
    for line in &new.lines {
        before = head.clone();
        for (table, row) in [("inbox", line.taken), ("signals", line.signal)] {
            let sql = format!("DELETE FROM {table} WHERE id = ?1 AND session = ?2");
            tx.execute(&sql, params![row, head.key]).doing(WHAT)?;
        }
        Prepared::of_line(line)?.put(tx, head, line.at_ms, line.owed)?;
        if head.tip != line.tip {
            return Err(StoreError::damaged(format!(
                "entry {} of session {} does not follow",
                line.seq, head.session
            )));
        }
    }
    Ok(before)
}
