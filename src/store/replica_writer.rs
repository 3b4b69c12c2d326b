//! The import into a copy of a session of another agent.
//!
//! An import is repeated from the beginning of its source. Entries that the copy has are compared
//! by their tips, and only the rest is appended. So the next import completes a killed one.

use super::append::{NewSession, Prepared};
use super::chain::{Head, insert_session, read_head};
use super::error::Doing;
use super::journal_writer::Recorded;
use super::replica::refuse_replica;
use super::row::Body;
use super::sessions::bring_up_to_date;
use super::tips::tip_upto;
use super::{Store, StoreError};
use crate::core::entry::{Entry, Seq};
use crate::journal::chain_hash::ChainHash;

const WHAT: &str = "import the session";

/// Maximum number of entries of one transaction.
const ENTRIES_AT_ONCE: usize = 1_000;
/// Size of entries and blobs from which a transaction is ended, bytes.
const BYTES_AT_ONCE: usize = 8 * 1024 * 1024;

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
    /// Begins an import. A session of rewake itself is never appended to: it differs.
    pub fn new(
        store: &'s mut Store,
        new: NewSession,
        created_ms: i64,
    ) -> Result<ReplicaWriter<'s>, StoreError> {
        let mut head = None;
        let mut differs = false;
        if store.history().knows(&new.id)? {
            differs = !matches!(
                refuse_replica(&store.conn, &new.id, None),
                Err(StoreError::Replica { .. })
            );
            // A kill may have come between a transaction and its lines in the journal.
            bring_up_to_date(store, &new.id)?;
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
            differs,
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
            _ if self.differs => {}
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
        if let Some(head) = self.head.as_ref().filter(|_| !self.differs)
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
            None => insert_session(&tx, &self.new.start(self.created_ms, None), WHAT)?,
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
            ..Recorded::default()
        };
        store.follow(&before, &head, &recorded);
        self.appended += entries.len() as u64;
        self.head = Some(head);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::entry::{ImportSource, Mode, PromptPrefix};
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
        let source = ImportSource {
            agent: "pi".to_string(),
            agent_version: None,
            id: "s".to_string(),
        };
        let entry = |number: usize| match number {
            0 => Entry::Opened {
                folder: "/w".to_string(),
                version: "import/1".to_string(),
                model: "pi".to_string(),
                mode: Mode::Default,
                layers: PromptPrefix::default(),
                imported: Some(Box::new(source.clone())),
            },
            number => Entry::Noted {
                text: format!("{number}{}", blake3::hash(&number.to_le_bytes())),
                about: None,
            },
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
