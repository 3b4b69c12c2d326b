//! Reading all stored data, to find damage before the data is needed.
//!
//! Maintenance when the process is idle, and checks of the database. Maintenance copies the
//! write-ahead log into the database, fills the search index and writes missing journals.

use std::collections::{HashMap, HashSet};
use std::io;
use std::path::Path;

use rusqlite::Connection;

use super::blobs::BlobRow;
use super::chain::{chain, read_head};
use super::error::Doing;
use super::load::load_each;
use super::purge::purged;
use super::row::count;
use super::{Check, JournalPlace, Store, StoreError, cached};
use crate::core::tree::ContentHash;
use crate::journal::chain_hash::ChainHash;
use crate::journal::folder::{folders, session_of, sessions};
use crate::journal::salvage::{ReadablePart, salvage};

const WHAT: &str = "read all of the store";

/// Counts of the data that was read, and the damage that was found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Scrubbed {
    pub pages: u64,
    pub sessions: u64,
    /// Entries with a valid checksum and tip, in each chain that includes them.
    pub entries: u64,
    pub blobs: u64,
    pub contents: u64,
    pub trees: u64,
    pub journals: u64,
    pub journal_files: u64,
    pub frames: u64,
    pub lines: u64,
    /// Descriptions of the damage, for a person.
    pub damaged: Vec<String>,
}

impl Check<'_> {
    /// Reads everything: pages, entries, blobs, contents and trees, the journal.
    ///
    /// # Errors
    /// A failure that stops the reading. Damage is not an error: it is listed in the result.
    pub fn scrub(
        &self,
        place: Option<&JournalPlace>,
        progress: &mut dyn FnMut(&str),
    ) -> Result<Scrubbed, StoreError> {
        let mut scrubbed = Scrubbed::default();
        progress("reading the pages");
        let pages: rusqlite::Result<i64> =
            self.conn
                .pragma_query_value(None, "page_count", |row| row.get(0));
        scrubbed.pages = pages.map_or(0, count);
        match self.quick_check() {
            Ok(faults) => scrubbed.damaged.extend(faults),
            Err(error) => scrubbed.damaged.push(error.to_string()),
        }
        progress("reading the sessions");
        self.scrub_sessions(&mut scrubbed);
        progress("reading blobs and contents of files");
        self.scrub_blobs(&mut scrubbed);
        self.scrub_files(&mut scrubbed);
        if let Some(place) = place {
            progress("reading the journal");
            self.scrub_journal(&place.folder, &mut scrubbed);
        }
        Ok(scrubbed)
    }

    fn scrub_sessions(&self, scrubbed: &mut Scrubbed) {
        match self.session_ids() {
            Ok(ids) => {
                for id in ids {
                    scrubbed.sessions += 1;
                    let read = load_each(self.conn, self.copies, &id, |_| {
                        scrubbed.entries += 1;
                        Ok::<(), StoreError>(())
                    });
                    scrubbed.damaged.extend(read.err().map(|e| e.to_string()));
                }
            }
            Err(error) => scrubbed.damaged.push(error.to_string()),
        }
    }

    fn scrub_blobs(&self, scrubbed: &mut Scrubbed) {
        let mut walk = || -> rusqlite::Result<()> {
            let sql = "SELECT hash, bytes, encoding, data FROM blobs";
            let mut statement = self.conn.prepare(sql)?;
            let mut rows = statement.query([])?;
            while let Some(row) = rows.next()? {
                let (hash, bytes): (Vec<u8>, i64) = (row.get(0)?, row.get(1)?);
                let (encoding, data): (String, Vec<u8>) = (row.get(2)?, row.get(3)?);
                scrubbed.blobs += 1;
                let blob = BlobRow {
                    hash: &hash,
                    bytes,
                    is_packed: encoding == "zstd",
                    data: &data,
                };
                if !blob.is_whole() {
                    let hash = super::contents::hex(&hash);
                    scrubbed
                        .damaged
                        .push(format!("blob {hash} is not what it was"));
                }
            }
            Ok(())
        };
        if let Err(error) = walk().doing(WHAT) {
            scrubbed.damaged.push(error.to_string());
        }
    }

    fn scrub_files(&self, scrubbed: &mut Scrubbed) {
        let sql = "SELECT hash FROM contents";
        let hashes: Result<Vec<Vec<u8>>, StoreError> =
            cached::rows(self.conn, sql, [], |row| row.get(0)).doing(WHAT);
        let sql = "SELECT id FROM trees";
        let trees: Result<Vec<i64>, StoreError> =
            cached::rows(self.conn, sql, [], |row| row.get(0)).doing(WHAT);
        for hash in hashes.as_deref().unwrap_or_default() {
            scrubbed.contents += 1;
            let read =
                <ContentHash>::try_from(&hash[..]).map(|hash| self.snapshots().content(&hash));
            if let Ok(Err(error)) = read {
                scrubbed.damaged.push(error.to_string());
            }
        }
        for tree in trees.as_deref().unwrap_or_default() {
            scrubbed.trees += 1;
            let read = super::trees::read(self.conn, *tree);
            scrubbed.damaged.extend(read.err().map(|e| e.to_string()));
        }
        let failed = hashes.err().into_iter().chain(trees.err());
        scrubbed.damaged.extend(failed.map(|e| e.to_string()));
    }

    fn scrub_journal(&self, journal: &Path, scrubbed: &mut Scrubbed) {
        for session in sessions(journal, usize::MAX) {
            scrubbed.journals += 1;
            let folder = journal.join(&session);
            // Damage of the rows was reported already.
            let tips = self.tips(&session).unwrap_or_default();
            let (mut lines, mut differs) = (0, None);
            let read = salvage(&folder, &mut |piece| -> io::Result<()> {
                let ReadablePart::Entry(_, line) = piece else {
                    return Ok(());
                };
                lines += 1;
                let recorded = usize::try_from(line.seq).ok().and_then(|seq| tips.get(seq));
                if recorded.is_some_and(|tip| tip.is_some_and(|tip| tip != line.tip)) {
                    differs.get_or_insert(line.seq);
                }
                Ok(())
            });
            scrubbed.lines += lines;
            scrubbed.damaged.extend(differs.map(|seq| {
                format!(
                    "the journal in {} differs from the database from entry {seq} on",
                    folder.display()
                )
            }));
            match read {
                Ok(read) => {
                    scrubbed.journal_files += read.files;
                    scrubbed.frames += read.frames;
                    if read.damaged > 0 {
                        scrubbed.damaged.push(format!(
                            "the journal in {} is damaged in {}",
                            folder.display(),
                            crate::core::text::count(read.damaged, "place")
                        ));
                    }
                }
                Err(error) => scrubbed
                    .damaged
                    .push(format!("the journal in {}: {error}", folder.display())),
            }
        }
    }

    /// Counts the entries that are only in a journal, also in one that was set aside. Purged
    /// sessions do not count.
    ///
    /// # Errors
    /// The sessions cannot be listed, or a chain of theirs cannot be read.
    pub fn count_only_in_journals(
        &self,
        data_dir: &Path,
        place: &JournalPlace,
    ) -> Result<u64, StoreError> {
        let purged = purged(data_dir);
        // By the place of the next entry.
        let mut known: HashMap<u64, HashSet<ChainHash>> = HashMap::new();
        known.entry(0).or_default().insert(ChainHash::of_nothing());
        for session in self.session_ids()? {
            for (next, tip) in (1..).zip(self.tips(&session)?) {
                known.entry(next).or_default().extend(tip);
            }
        }
        let mut lacks = 0;
        for folder in folders(&place.folder) {
            if purged.has(&session_of(&folder)) {
                continue;
            }
            let read = salvage(&folder, &mut |piece| -> io::Result<()> {
                // A line that follows no known entry is not proven to be one.
                let before = known.get(&piece.place());
                let is_proven = before.is_some_and(|before| match &piece {
                    ReadablePart::Entry(of, _) => before.contains(of),
                    ReadablePart::Unproven(line) => before.iter().any(|of| line.follows(*of)),
                    ReadablePart::Blob(_) => false,
                });
                if let (true, ReadablePart::Entry(_, line) | ReadablePart::Unproven(line)) =
                    (is_proven, piece)
                    && known.entry(line.seq + 1).or_default().insert(line.tip)
                {
                    lacks += 1;
                }
                Ok(())
            });
            if let Err(error) = read {
                tracing::warn!(%error, folder = %folder.display(), "a journal is not looked at");
            }
        }
        Ok(lacks)
    }

    fn session_ids(&self) -> Result<Vec<String>, StoreError> {
        let sql = "SELECT id FROM sessions ORDER BY id";
        cached::rows(self.conn, sql, [], |row| row.get(0)).doing(WHAT)
    }

    /// Returns the tips that the rows of a session state.
    fn tips(&self, session: &str) -> Result<Vec<Option<ChainHash>>, StoreError> {
        let head = read_head(self.conn, session)?;
        let chain = chain(self.conn, &head, 0)?;
        let mut statement = self
            .conn
            .prepare_cached("SELECT tip FROM entries WHERE id = ?1")
            .doing(WHAT)?;
        let mut tip = |row: &i64| -> Result<Option<ChainHash>, StoreError> {
            let tip: Option<Vec<u8>> = statement.query_row([row], |row| row.get(0)).doing(WHAT)?;
            Ok(tip.as_deref().and_then(ChainHash::from_bytes))
        };
        // The newest comes first.
        chain.rows.iter().rev().map(&mut tip).collect()
    }
}

/// Pages in the write-ahead log (4 MiB) that are worth copying into the database. The later they
/// are copied, the fewer copies are made of a page that changes with every append.
const WORTH_COPYING: i64 = 1024;

/// Number of entries that are worth indexing: larger steps write less in total. A search does not
/// wait for this: it indexes missing entries first.
const WORTH_INDEXING: u64 = 1_000;

/// Number of entries indexed in one step, which takes some tens of milliseconds.
const ROWS_IN_A_STEP: u32 = 500;

/// Number of faults after which `quick_check` stops.
const MAX_FAULTS: u32 = 20;

impl Store {
    /// Does one step of the maintenance. Call it when there is nothing else to do. Returns whether
    /// there may be more to do.
    pub fn maintain(&mut self) -> Result<bool, StoreError> {
        if waiting_pages(&self.conn, "NOOP")? >= WORTH_COPYING {
            let left = waiting_pages(&self.conn, "PASSIVE")?;
            // A reader may prevent the copy, which is then not retried at once.
            return Ok(left < WORTH_COPYING);
        }
        if self.catch_up()? || self.journal_older()? {
            return Ok(true);
        }
        // This comes last: a damaged index prevents nothing else.
        let is_worth_it = self.indexing || self.index().index_waiting()? >= WORTH_INDEXING;
        if is_worth_it {
            self.indexing = self.index().index_pending(ROWS_IN_A_STEP)? > 0;
        }
        Ok(is_worth_it)
    }
}

/// Runs a checkpoint of this kind. Returns the number of pages of the log that are not in the
/// database.
fn waiting_pages(conn: &Connection, kind: &str) -> Result<i64, StoreError> {
    conn.query_row(&format!("PRAGMA wal_checkpoint({kind})"), [], |row| {
        let (in_log, copied): (i64, i64) = (row.get(1)?, row.get(2)?);
        Ok(in_log - copied)
    })
    .doing("copy the log into the database")
}

impl Check<'_> {
    /// Returns the faults of the database file; empty when it is sound. Reads all of it.
    pub fn quick_check(&self) -> Result<Vec<String>, StoreError> {
        let sql = format!("PRAGMA quick_check({MAX_FAULTS})");
        let found: Vec<String> =
            cached::rows(self.conn, &sql, [], |row| row.get(0)).doing("check the session store")?;
        Ok(found.into_iter().filter(|line| line != "ok").collect())
    }
}
