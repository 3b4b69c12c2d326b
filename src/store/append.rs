//! Appending entries: preparing them, and writing their rows. Lines that were recorded elsewhere before
//! come from [`super::line_writer`].

use std::borrow::Cow;

use rusqlite::{Transaction, params};
use serde_json::value::RawValue;

use super::blobs::{Packed, insert_blob};
use super::chain::{Head, SessionStart, insert_session, read_head};
use super::conversation::summarised;
use super::error::Doing;
use super::gap::clear_restored_count;
use super::held::Held;
use super::inbox::{Draft, InboxId, SignalId, clear, obey, take};
use super::journal_writer::Recorded;
use super::memories::remember;
use super::models::{LearntRatio, learn_ratio};
use super::replica::{refuse_replica, set_replica};
use super::row::{Body, MAX_SUM_OF_TOKENS, checksum, clip, int, sum_of_tokens};
use super::sessions::DISMISSED;
use super::trees::{self, NewTree};
use super::{Store, StoreError, cached};
use crate::core::entry::{Choice, Entry, Fact, HookEvent, HookVerdict, Record, Seq, Usage};
use crate::core::text::task_title;

const WHAT: &str = "append to the session";
pub(super) const WHAT_BROUGHT: &str = "put entries of the journal back into the database";

/// Length to which the title from the user is cut, in characters.
const TITLE_CHARS: usize = 200;

/// A session that is not stored yet.
#[derive(Debug, Clone)]
pub struct NewSession {
    /// See [`super::new_id`].
    pub id: String,
    /// The canonical root, which decides whether the session belongs to the current workspace.
    pub workspace: String,
    /// The folder that the session works in.
    pub folder: String,
}

impl NewSession {
    pub(super) fn start<'a>(&'a self, at_ms: i64, replica: Option<&'a str>) -> SessionStart<'a> {
        SessionStart {
            id: &self.id,
            workspace: &self.workspace,
            folder: &self.folder,
            created_ms: at_ms,
            from: None,
            replica,
        }
    }
}

/// Changes that one transaction records.
#[derive(Debug, Clone, Default)]
pub struct Batch {
    /// The time of all the entries: UTC, milliseconds since 1970.
    pub at_ms: i64,
    /// Entries to append. May be empty: then only the other changes are recorded.
    pub entries: Vec<Entry>,
    /// The entries as they were sent to a shared database. Empty: they were not.
    pub json: Vec<Box<RawValue>>,
    /// Contents of the blobs that the entries refer to, see [`super::blob_ref`].
    pub blobs: Vec<Vec<u8>>,
    /// The queued message that is now among the entries as `Said`. If it is no longer queued,
    /// because another process took or removed it, nothing is appended.
    pub taken: Option<InboxId>,
    /// The signal that became one of the entries. As with `taken`, nothing is appended if it is
    /// gone.
    pub signal: Option<SignalId>,
    /// The drafts that are now recorded, and are removed.
    pub clear: Vec<Draft>,
    /// The state of the workspace's files, when an entry names a tree that is not stored yet.
    pub tree: Option<NewTree>,
    /// The bytes of a request per token, as measured with this answer, for other sessions.
    pub ratio: Option<LearntRatio>,
    /// Whether work is pending after this, apart from queued messages: see
    /// [`super::SessionInfo::unfinished`].
    pub unfinished: bool,
    /// Whether a question for a person is open after this. `None` leaves the stored value
    /// unchanged.
    pub asks: Option<bool>,
}

impl Store {
    /// Creates a session with its first entry.
    pub fn create(
        &mut self,
        new: &NewSession,
        at_ms: i64,
        opened: Entry,
    ) -> Result<(Head, Record), StoreError> {
        let entries = [opened];
        let batch = Prepared::new(&entries, &[])?;
        let source = Held::source_of(self.held.as_ref(), &new.id).map(str::to_string);
        let tx = self.write_entries(&new.id, WHAT)?;
        let mut head = insert_session(&tx, &new.start(at_ms, source.as_deref()), WHAT)?;
        let before = head.clone();
        let mut records = batch.record(&tx, &mut head, at_ms, false)?;
        tx.commit().doing(WHAT)?;
        self.follow(&before, &head, &batch.recorded(at_ms));
        let first = records
            .pop()
            .ok_or_else(|| StoreError::damaged("no entry"))?;
        Ok((head, first))
    }

    /// Creates the session of a subagent with its first entries, in one transaction. Its `Assigned`
    /// names the parent session.
    pub fn create_child(
        &mut self,
        new: &NewSession,
        parent: &str,
        at_ms: i64,
        entries: &[Entry],
    ) -> Result<Head, StoreError> {
        let batch = Prepared::new(entries, &[])?;
        let tx = self.write_entries(&new.id, WHAT)?;
        read_head(&tx, parent)?;
        let mut head = insert_session(&tx, &new.start(at_ms, None), WHAT)?;
        let before = head.clone();
        batch.record(&tx, &mut head, at_ms, true)?;
        tx.commit().doing(WHAT)?;
        let recorded = Recorded {
            owed: true,
            ..batch.recorded(at_ms)
        };
        self.follow(&before, &head, &recorded);
        Ok(head)
    }

    /// Records the batch in one transaction and moves the head. The batch is durable when this
    /// returns.
    /// `HeadMoved`: another process appended since `head` was loaded. `Full`: the disk is full; the
    /// same batch can be retried.
    pub fn append(&mut self, head: &mut Head, batch: &Batch) -> Result<Vec<Record>, StoreError> {
        let appended = self.append_once(head, batch);
        appended.map_err(|error| self.explain(error))
    }

    fn append_once(&mut self, head: &mut Head, batch: &Batch) -> Result<Vec<Record>, StoreError> {
        let prepared = if batch.json.len() == batch.entries.len() {
            let bodies = batch.json.iter().map(|json| Body::of(json.get().into()));
            Prepared::with_bodies(&batch.entries, bodies.collect(), &batch.blobs)
        } else {
            Prepared::new(&batch.entries, &batch.blobs)?
        };
        let mut next = head.clone();
        let held = self.held.as_ref().map(|held| held.session.clone());
        let tx = self.write_entries(&next.session, WHAT)?;
        refuse_replica(&tx, &next.session, held.as_deref())?;
        // The database has the entries of a shared session already, so a row that was removed
        // meanwhile is not missed.
        let is_shared = held.as_deref() == Some(next.session());
        let found = |row: Result<(), StoreError>| match row {
            Err(StoreError::NotFound { .. }) if is_shared => Ok(()),
            row => row,
        };
        // This comes first, since a message that is still queued counts as unfinished work.
        if let Some(id) = batch.taken {
            found(take(&tx, next.key, id))?;
        }
        if let Some(id) = batch.signal {
            found(obey(&tx, next.key, id))?;
        }
        if let Some(tree) = &batch.tree {
            trees::insert(&tx, batch.at_ms, tree).doing(WHAT)?;
        }
        let records = prepared.record(&tx, &mut next, batch.at_ms, batch.unfinished)?;
        if let Some(asks) = batch.asks {
            let sql = "UPDATE sessions SET asks = ?2 WHERE key = ?1 AND asks <> ?2";
            cached::execute(&tx, sql, params![next.key, asks]).doing(WHAT)?;
        }
        if let Some(ratio) = &batch.ratio {
            learn_ratio(&tx, ratio).doing(WHAT)?;
        }
        for draft in &batch.clear {
            clear(&tx, next.key, *draft).doing(WHAT)?;
        }
        if batch
            .entries
            .iter()
            .any(|e| matches!(e, Entry::Resumed { .. }))
        {
            clear_restored_count(&tx, head.session())?;
        }
        tx.commit().doing(WHAT)?;
        let recorded = Recorded {
            blobs: &batch.blobs,
            taken: batch.taken.map(InboxId::number),
            signal: batch.signal.map(SignalId::number),
            owed: batch.unfinished,
            ..prepared.recorded(batch.at_ms)
        };
        self.follow(head, &next, &recorded);
        let takes = batch.taken.is_some() || batch.signal.is_some();
        if takes || batch.clear.contains(&Draft::Input) {
            self.inbox_mut().write_pending_rows(head.session());
        }
        *head = next;
        Ok(records)
    }
}

/// A batch that is serialised, hashed and compressed, so that the transaction has only to write it.
pub(crate) struct Prepared<'a> {
    entries: Cow<'a, [Entry]>,
    bodies: Vec<Body>,
    blobs: Vec<Packed<'a>>,
    listed: ListValues,
    /// Size of the bodies and blobs as stored, in bytes.
    bytes: usize,
}

impl<'a> Prepared<'a> {
    pub(super) fn new(entries: &'a [Entry], blobs: &'a [Vec<u8>]) -> Result<Self, StoreError> {
        let bodies: serde_json::Result<Vec<Body>> = entries.iter().map(Body::new).collect();
        Ok(Prepared::with_bodies(entries, bodies.doing(WHAT)?, blobs))
    }

    /// Prepares entries with their bodies.
    fn with_bodies(entries: &'a [Entry], bodies: Vec<Body>, blobs: &'a [Vec<u8>]) -> Self {
        let blobs: Vec<Packed<'_>> = blobs.iter().map(|bytes| Packed::new(bytes)).collect();
        let in_rows: usize = bodies.iter().map(|body| body.bytes().len()).sum();
        let in_blobs: usize = blobs.iter().map(Packed::stored_bytes).sum();
        Prepared {
            entries: Cow::Borrowed(entries),
            bodies,
            blobs,
            listed: ListValues::of(entries),
            bytes: in_rows + in_blobs,
        }
    }

    /// Prepares an entry from its stored body.
    pub(crate) fn of_body(body: Body) -> Result<Prepared<'static>, StoreError> {
        let entry: Entry = serde_json::from_str(body.json()).doing(WHAT_BROUGHT)?;
        Ok(Prepared::of_entry(entry, body))
    }

    /// Prepares an entry with its body.
    pub(super) fn of_entry(entry: Entry, body: Body) -> Prepared<'static> {
        Prepared {
            listed: ListValues::of(std::slice::from_ref(&entry)),
            bytes: body.bytes().len(),
            entries: Cow::Owned(vec![entry]),
            bodies: vec![body],
            blobs: Vec::new(),
        }
    }

    /// Counts stored bytes that are not among the blobs of the batch.
    pub(super) fn add_bytes(&mut self, bytes: usize) {
        self.bytes += bytes;
    }

    pub(crate) fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// Returns about how many bytes of memory the batch takes.
    pub(crate) fn bytes(&self) -> usize {
        self.bodies.iter().map(|body| body.json().len()).sum()
    }

    /// Returns the batch as input for the journal.
    pub(super) fn recorded(&self, at_ms: i64) -> Recorded<'_> {
        Recorded {
            at_ms,
            entries: &self.entries,
            json: self.bodies.iter().map(Body::json).collect(),
            ..Recorded::default()
        }
    }

    /// Writes the blobs and the rows, moves the head if it is still at `head`, and updates the rows
    /// that are derived from the entries.
    pub(super) fn record(
        &self,
        tx: &Transaction<'_>,
        head: &mut Head,
        at_ms: i64,
        unfinished: bool,
    ) -> Result<Vec<Record>, StoreError> {
        let first = head.length;
        self.put(tx, head, at_ms, unfinished)?;
        let record = |(seq, entry): (Seq, &Entry)| Record {
            seq,
            at_ms,
            entry: entry.clone(),
        };
        Ok((first..).zip(self.entries.iter()).map(record).collect())
    }

    /// Does the same as [`Prepared::record`], without returning the records.
    pub(super) fn put(
        &self,
        tx: &Transaction<'_>,
        head: &mut Head,
        at_ms: i64,
        unfinished: bool,
    ) -> Result<(), StoreError> {
        let (expected, first) = (head.row.unwrap_or(0), head.length);
        for blob in &self.blobs {
            insert_blob(tx, blob).doing(WHAT)?;
        }
        for (entry, body) in self.entries.iter().zip(&self.bodies) {
            insert_entry(tx, head, at_ms, entry, body).doing(WHAT)?;
        }
        if !self
            .move_head(tx, head, expected, at_ms, unfinished)
            .doing(WHAT)?
        {
            return Err(StoreError::HeadMoved {
                session: head.session.clone(),
            });
        }
        for (seq, entry) in (first..).zip(self.entries.iter()) {
            derive_rows(tx, head, (seq, at_ms), entry).doing(WHAT)?;
        }
        Ok(())
    }

    fn move_head(
        &self,
        tx: &Transaction<'_>,
        head: &Head,
        expected: i64,
        at_ms: i64,
        unfinished: bool,
    ) -> rusqlite::Result<bool> {
        let ListValues {
            named,
            said,
            model,
            version,
            usage,
            dismissed,
            asks,
        } = &self.listed;
        let rows = tx
            .prepare_cached(
                "UPDATE sessions SET head = ?3, length = ?4, updated_ms = ?5,
                   unfinished = (?6 OR EXISTS (SELECT 1 FROM inbox WHERE session = ?1)) * ?17,
                   title = coalesce(?7, title, ?8), model = coalesce(?9, model),
                   version = coalesce(?10, version),
                   input = iif(input > ?16, 0, input) + ?11,
                   cached = iif(cached > ?16, 0, cached) + ?12,
                   cache_written = iif(cache_written > ?16, 0, cache_written) + ?13,
                   output = iif(output > ?16, 0, output) + ?14,
                   billed = CASE WHEN NOT ?18 THEN billed
                     WHEN input + cached + cache_written + output = 0 THEN ?19
                     ELSE min(billed + ?19, ?16) END,
                   asks = max(asks, ?20),
                   bytes = bytes + ?15, trashed_ms = NULL
                 WHERE key = ?1 AND head = ?2",
            )?
            .execute(params![
                head.key,
                expected,
                head.row.unwrap_or(0),
                int(head.length),
                at_ms,
                unfinished,
                named,
                said,
                model,
                version,
                sum_of_tokens(int(usage.input)),
                sum_of_tokens(int(usage.cached)),
                sum_of_tokens(int(usage.cache_written)),
                sum_of_tokens(int(usage.output)),
                int(self.bytes as u64),
                MAX_SUM_OF_TOKENS,
                if *dismissed { DISMISSED } else { 1 },
                *usage != Usage::default(),
                usage
                    .billed_nanos
                    .map(|nanos| int(nanos).min(MAX_SUM_OF_TOKENS)),
                *asks,
            ])?;
        Ok(rows == 1)
    }
}

fn insert_entry(
    tx: &Transaction<'_>,
    head: &mut Head,
    at_ms: i64,
    entry: &Entry,
    body: &Body,
) -> rusqlite::Result<()> {
    let seq = head.length;
    head.note(entry);
    let plan_step = head.plan_step.as_ref().filter(|_| entry.is_checkpoint());
    let checksum = checksum(head.row, seq, at_ms, body.bytes());
    head.tip = head.tip.and(seq, at_ms, body.json().as_bytes());
    tx.prepare_cached(
        "INSERT INTO entries (parent, session, seq, at_ms, kind, checksum, plan_step, body, tip)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
    )?
    .execute(params![
        head.row,
        head.key,
        int(seq),
        at_ms,
        entry.kind(),
        checksum,
        plan_step,
        body,
        head.tip.as_bytes()
    ])?;
    head.row = Some(tx.last_insert_rowid());
    head.length += 1;
    Ok(())
}

/// Updates the rows of other tables that are derived from an entry.
fn derive_rows(
    tx: &Transaction<'_>,
    head: &Head,
    (seq, at_ms): (Seq, i64),
    entry: &Entry,
) -> rusqlite::Result<()> {
    trees::note_use(tx, head, entry)?;
    match entry {
        Entry::Compacted { last, summary, .. } => summarised(tx, head, summary, *last, at_ms),
        Entry::Finished {
            fact: Some(Fact::Remembered { memory }),
            ..
        } => remember(tx, head.key, seq, at_ms, memory),
        Entry::Assigned(assignment) => is_child_of(tx, head, &assignment.parent),
        Entry::Opened {
            imported: Some(source),
            ..
        } => set_replica(tx, head, Some(&source.agent)),
        Entry::Forked { .. } => set_replica(tx, head, None),
        Entry::Relocated { folder, root, .. } => set_place(tx, head, root, folder),
        Entry::Hooked {
            event: HookEvent::UserPromptSubmit,
            results,
            ..
        } if results.iter().any(|r| r.verdict == HookVerdict::Deny) => forget_title(tx, head),
        _ => Ok(()),
    }
}

/// Sets the place of a session of this store. What entries of elsewhere say of a folder has no effect
/// here: copies and shared sessions keep theirs.
fn set_place(tx: &Transaction<'_>, head: &Head, root: &str, folder: &str) -> rusqlite::Result<()> {
    tx.prepare_cached(
        "UPDATE sessions SET workspace = ?2, folder = ?3 WHERE key = ?1 AND replica IS NULL",
    )?
    .execute(params![head.key, root, folder])
    .map(drop)
}

/// Removes the title if it is of a message that the model never got. The next message gives it.
fn forget_title(tx: &Transaction<'_>, head: &Head) -> rusqlite::Result<()> {
    tx.prepare_cached(
        "UPDATE sessions SET title = NULL WHERE key = ?1 AND forked_from IS NULL AND NOT EXISTS
           (SELECT 1 FROM entries WHERE session = ?1 AND kind IN ('replied', 'named', 'titled'))",
    )?
    .execute([head.key])
    .map(drop)
}

/// Records `parent` as the origin of a subagent's session. Unlike a fork, it shares no entry with
/// its origin, so `forked_seq` stays `NULL`.
fn is_child_of(tx: &Transaction<'_>, head: &Head, parent: &str) -> rusqlite::Result<()> {
    tx.prepare_cached(
        "UPDATE sessions AS s SET forked_from = (SELECT p.key FROM sessions p
           WHERE p.id = ?2 AND p.key <> s.key AND (p.replica IS NULL) = (s.replica IS NULL))
         WHERE key = ?1 AND forked_seq IS NULL",
    )?
    .execute(params![head.key, parent])
    .map(drop)
}

/// Values that lists of sessions show, gathered from the entries.
#[derive(Default)]
struct ListValues {
    named: Option<String>,
    said: Option<String>,
    model: Option<String>,
    version: Option<String>,
    usage: Usage,
    /// Whether the last of these entries says that the session is not to be offered.
    dismissed: bool,
    /// Whether one of the entries is a question. The caller says whether it is still open.
    asks: bool,
}

impl ListValues {
    fn of(entries: &[Entry]) -> ListValues {
        let mut listed = ListValues::default();
        for entry in entries {
            listed.add(entry);
        }
        listed
    }

    fn add(&mut self, entry: &Entry) {
        self.dismissed = matches!(entry, Entry::Dismissed);
        self.asks |= matches!(entry, Entry::Asked { .. });
        for (_, usage) in entry.spent() {
            self.usage.add(usage);
        }
        match entry {
            Entry::Opened { version, model, .. } => {
                self.version = Some(version.clone());
                self.model = Some(model.clone());
            }
            Entry::Rendered { version, .. } => self.version = Some(version.clone()),
            Entry::Chose(Choice { model: Some(m), .. }) => self.model = Some(m.clone()),
            Entry::Replied { model, .. } => self.model = Some(model.clone()),
            // A `Titled` entry is recorded only if no person named the session.
            Entry::Titled {
                title: Some(title), ..
            }
            | Entry::Named { title } => self.named = Some(clip(title, TITLE_CHARS)),
            Entry::Said { .. } if self.said.is_none() => {
                let typed = entry.typed().filter(|text| !text.trim().is_empty());
                self.said = typed.map(|text| task_title(&text));
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::new_id;

    #[test]
    fn an_entry_is_recorded_as_it_was_sent() {
        let dir = tempfile::tempdir().unwrap();
        let mut store = Store::open(dir.path()).unwrap();
        let new = NewSession {
            id: new_id(),
            workspace: "/w".into(),
            folder: "/w".into(),
        };
        let note = |text: &str| Entry::Noted {
            text: text.into(),
            about: None,
        };
        let (mut head, _) = store.create(&new, 1, note("first")).unwrap();
        let sent = r#"{"kind":"noted", "text":"second"}"#;
        let tip = head.tip.and(1, 2, sent.as_bytes());
        let batch = Batch {
            at_ms: 2,
            entries: vec![note("second")],
            json: vec![RawValue::from_string(sent.into()).unwrap()],
            ..Batch::default()
        };
        store.append(&mut head, &batch).unwrap();
        assert_eq!(head.tip, tip);
        assert_eq!(store.load(&new.id).unwrap().1[1].entry, batch.entries[0]);
    }

    #[test]
    fn a_full_disk_changes_nothing_and_the_same_batch_goes_in_later() {
        let dir = tempfile::tempdir().unwrap();
        let mut store = Store::open(dir.path()).unwrap();
        let new = NewSession {
            id: new_id(),
            workspace: "/w".into(),
            folder: "/w".into(),
        };
        let note = |text: String| Entry::Noted { text, about: None };
        let (mut head, _) = store.create(&new, 1, note("first".into())).unwrap();
        let batch = Batch {
            entries: vec![note("small".into()), note("x".repeat(1 << 10))],
            blobs: vec![
                (0..200_000u32)
                    .flat_map(|n| n.wrapping_mul(n).to_le_bytes())
                    .collect(),
            ],
            ..Batch::default()
        };
        let limit = |store: &Store, pages: i64| {
            store
                .conn
                .pragma_update_and_check(None, "max_page_count", pages, |_| Ok(()))
                .unwrap();
        };
        limit(&store, 1);
        let before = head.clone();
        let full = store.append(&mut head, &batch).unwrap_err();
        assert!(matches!(full, StoreError::Full { .. }), "{full}");
        assert!(full.hint().is_some());
        assert_eq!(head, before);
        assert_eq!(store.load(head.session()).unwrap().1.len(), 1);
        limit(&store, 1 << 30);
        store.append(&mut head, &batch).unwrap();
        assert_eq!(store.load(head.session()).unwrap().1.len(), 3);
    }
}
