//! The import into a copy of a session of another agent.
//!
//! An import is repeated from the beginning of its source. Entries that the copy has are compared
//! by their tips, and only the rest is appended. So the next import completes a killed one.

use super::append::{NewSession, Prepared};
use super::chain::{Head, insert_session};
use super::error::Doing;
use super::line_writer::{LineWriter, PreparedLine};
use super::replica::refuse_replica;
use super::row::Body;
use super::sessions::up_to_date_head;
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
    lines: Vec<PreparedLine>,
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
            head = Some(up_to_date_head(store, &new.id)?);
        }
        Ok(ReplicaWriter {
            store,
            new,
            created_ms,
            head,
            next: 0,
            tip: ChainHash::of_nothing(),
            lines: Vec::new(),
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
                let prepared = Prepared::of_entry(entry, Body::of(json));
                self.lines
                    .push(PreparedLine::new(at_ms, self.tip, prepared));
                self.blobs.extend(blobs);
                if self.lines.len() >= ENTRIES_AT_ONCE || self.bytes >= BYTES_AT_ONCE {
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
        let mut lines = std::mem::take(&mut self.lines);
        let Some(first) = lines.first_mut() else {
            return Ok(());
        };
        let blobs = std::mem::take(&mut self.blobs);
        self.bytes = 0;
        let tx = self.store.write_entries(&self.new.id, WHAT)?;
        let head = match &self.head {
            Some(head) => head.clone(),
            None => insert_session(&tx, &self.new.start(self.created_ms, None), WHAT)?,
        };
        let mut writer = LineWriter::new(head, WHAT);
        for blob in &blobs {
            first.prepared.add_bytes(writer.blob(&tx, blob)?);
        }
        for line in lines {
            writer.append(&tx, line)?;
        }
        tx.commit().doing(WHAT)?;
        writer.write_journal(self.store);
        self.appended += writer.count;
        self.head = Some(writer.head);
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
