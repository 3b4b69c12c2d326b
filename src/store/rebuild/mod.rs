//! A damaged or lost database is rebuilt from the rows that SQL can read and from the journal. The
//! old one stays under another name, and is never deleted.
//!
//! Invariant: the store is had alone meanwhile, and the old database is not changed.
//! Invariant: nothing goes back in time unseen. What was recorded and is in no copy is counted;
//! a session with a gap is held, and so is all from before when it is not known whose it is.

mod ahead;
mod bodies;
mod copies;
mod copy;
mod found;
mod journal;
mod progress;
mod record;
mod sessions;
mod sql;
mod swap;
mod waits;

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::path::{Path, PathBuf};

use rusqlite::{Connection, Transaction, TransactionBehavior, params};

use super::blobs::{Packed, insert_blob};
use super::database::{self, Names};
use super::error::{Doing, io as io_error};
use super::files::private_folder;
use super::gap::{gap_of, keep_gap};
use super::gc::in_use;
use super::lock::StoreLock;
use super::mark::{Mark, Said};
use super::migrate::{self, MIGRATIONS};
use super::missing::Gap;
use super::purge::{self, Purged};
use super::{JournalPlace, Store, StoreError, now_ms};
use crate::core::text::count;
use crate::journal::salvage::Piece;
use crate::journal::state::read_state;
use ahead::SyncAhead;
use copies::{copy_files, copy_in};
use found::{Found, Rows};
use progress::Progress;
use record::Made;
use sessions::Known;
use sql::Source;
use waits::{Waits, waiting};

pub(super) use swap::{finish, is_begun};

pub(super) const WHAT: &str = "rebuild the session store";

const LAST_SECOND: &str = "this computer was restarted after the last entry: if it lost power, the \
    last second of the sessions may be missing, and what was done then is done";

/// What is to be made good of what.
pub struct Repair<'a> {
    /// Other copies: data folders, databases, journals.
    pub from: &'a [PathBuf],
    /// Changes nothing if an entry stays lost that was not reported as missing before.
    pub only_whole: bool,
    /// What a person is told while it takes long.
    pub progress: &'a mut dyn FnMut(&str),
}

/// What came of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rebuilt {
    pub sessions: u64,
    pub entries: u64,
    /// Of these, so many were in no row.
    pub from_journal: u64,
    pub gaps: Vec<Gap>,
    /// Entries that were recorded, and it is not known in which sessions.
    pub missing: u64,
    /// Tables of which not everything could be read, and what else is not as it was.
    pub torn: Vec<String>,
    /// The old database. `None`: there was none.
    pub kept: Option<PathBuf>,
}

impl Rebuilt {
    /// Entries that are in no copy.
    pub fn lost(&self) -> u64 {
        let in_gaps = self.gaps.iter().map(|gap| gap.last + 1 - gap.first);
        in_gaps.sum::<u64>() + self.missing
    }

    /// For a person.
    pub fn line(&self) -> String {
        let of = match self.from_journal {
            0 => "what could be read of it",
            n if n == self.entries => "the journal",
            _ => "what could be read of it, and the journal",
        };
        let was = match self.kept {
            Some(_) => "the database was damaged and was rebuilt",
            None => "there was no database, and it was rebuilt",
        };
        let behind: u64 = self.gaps.iter().map(|gap| gap.behind).sum();
        let all = self.entries + self.lost() + behind;
        let kept = match &self.kept {
            Some(kept) => format!("; the old file is {}", kept.display()),
            None => String::new(),
        };
        let torn = self.torn.iter().map(|torn| format!("; {torn}"));
        let torn: String = torn.collect();
        format!(
            "{was} from {of}: {} of {}{kept}{torn}",
            self.entries,
            count(all, "entry")
        )
    }
}

impl Store {
    /// Makes the database anew. `None`: nothing was changed, for `only_whole` does not hold, or
    /// there is nothing to make it of.
    ///
    /// # Errors
    /// `InUse` when another process, or another part of this one, has it open. Nothing was
    /// changed then.
    pub fn rebuild(
        data_dir: &Path,
        place: Option<&JournalPlace>,
        mut repair: Repair<'_>,
    ) -> Result<Option<Rebuilt>, StoreError> {
        private_folder(data_dir)?;
        let lock = StoreLock::shared(data_dir)?;
        let lock = match is_begun(data_dir) {
            true => finish(data_dir, lock)?,
            false => lock,
        };
        let alone = lock.alone(data_dir, || Ok(false));
        let _alone = alone.map_err(|error| in_use(error, WHAT))?;
        let names = database::names(data_dir);
        let mut rebuilding = Rebuilding::begin(data_dir, place, &names)?;
        let made = rebuilding.make(&mut repair);
        let rebuilt = made.and_then(|rebuilt| match rebuilt {
            Some(rebuilt) if !repair.only_whole || rebuilding.loses_nothing(&rebuilt) => {
                rebuilding.keep(rebuilt, &names).map(Some)
            }
            _ => Ok(None),
        });
        if !matches!(rebuilt, Ok(Some(_))) {
            remove_half_made(&names);
        }
        rebuilt
    }
}

fn remove_half_made(names: &Names) {
    let _ = database::remove(&names.rebuilding);
}

struct Rebuilding<'a> {
    data_dir: &'a Path,
    place: Option<&'a JournalPlace>,
    /// What the mark says of this store.
    said: Said,
    /// Row ids that were taken away by purging.
    unused: u64,
    purged: Purged,
    found: Found,
    sources: Vec<Source>,
    sessions: BTreeMap<String, Known>,
    new: Connection,
    /// Of the new database. `None`: it is synced at the end alone.
    ahead: Option<SyncAhead>,
    /// Files and frames of journals with something in them that cannot be read.
    damaged_files: u64,
    /// The database that is to be made good was there.
    was_there: bool,
    /// SQL could read all rows of it.
    has_all_rows: bool,
}

impl<'a> Rebuilding<'a> {
    fn begin(
        data_dir: &'a Path,
        place: Option<&'a JournalPlace>,
        names: &Names,
    ) -> Result<Self, StoreError> {
        remove_half_made(names);
        let mut new = database::make(&names.rebuilding)?;
        let set = |new: &Connection| -> rusqlite::Result<()> {
            // It is of no use before it is complete, and is synced for good then.
            new.pragma_update_and_check(None, "journal_mode", "OFF", |_| Ok(()))?;
            new.pragma_update(None, "synchronous", "OFF")?;
            new.pragma_update(None, "foreign_keys", false)?;
            new.pragma_update(None, "cache_size", -65_536)?;
            new.set_prepared_statement_cache_capacity(64);
            Ok(())
        };
        set(&new).doing(WHAT)?;
        migrate::migrate(&mut new, data_dir, MIGRATIONS)?;
        // What is found goes into it as it is met, in one transaction: each has its price.
        new.execute_batch("BEGIN IMMEDIATE").doing(WHAT)?;
        let said = place.map(|place| Mark::look(&place.state_dir, data_dir));
        Ok(Rebuilding {
            data_dir,
            place,
            said: said.unwrap_or_default(),
            unused: 0,
            purged: purge::purged(data_dir),
            found: Found::new(data_dir)?,
            sources: Vec::new(),
            sessions: BTreeMap::new(),
            new,
            ahead: SyncAhead::start(&names.rebuilding).ok(),
            damaged_files: 0,
            was_there: names.database.exists(),
            has_all_rows: false,
        })
    }

    fn make(&mut self, repair: &mut Repair<'_>) -> Result<Option<Rebuilt>, StoreError> {
        let mut copies = Vec::new();
        let mut journals: Vec<PathBuf> = self.place.iter().map(|p| p.folder.clone()).collect();
        for from in repair.from {
            let (database, journal) = copy_in(from)?;
            copies.extend(database);
            journals.extend(journal);
        }
        let mut progress = Progress::new(&mut *repair.progress);
        let progress = &mut progress;
        progress.begin("reading the damaged database");
        let mut torn = Vec::new();
        let names = database::names(self.data_dir);
        if self.was_there {
            self.has_all_rows = self.read_database(&names.database, &mut torn, progress)?;
        }
        if repair.only_whole && self.may_lack_the_last() {
            return Ok(None);
        }
        // Of a copy nothing is changed: SQLite would make files beside it.
        let private = tempfile::tempdir_in(self.data_dir).map_err(|e| io_error(WHAT, e))?;
        for (n, copy) in copies.iter().enumerate() {
            let path = private.path().join(format!("{n}.db"));
            copy_files(copy, &path).map_err(|e| io_error(format!("read {}", copy.display()), e))?;
            progress.begin(&format!("reading {}", copy.display()));
            self.read_database(&path, &mut Vec::new(), progress)?;
        }
        progress.begin("reading the journal");
        for journal in &journals {
            self.read_journal(journal, progress)?;
        }
        self.found.flush()?;
        self.found.adopt()?;
        if self.sessions.is_empty() {
            return Ok(None);
        }
        progress.begin("writing the new database");
        let made = self.write(progress, &mut torn)?;
        Ok((!made.keys.is_empty()).then(|| self.rebuilt(made, torn)))
    }

    /// Returns whether every entry is restored, except those that were missing before.
    fn loses_nothing(&self, rebuilt: &Rebuilt) -> bool {
        let is_known = |gap: &Gap| {
            let source = self.sources.first();
            let known = source.and_then(|source| gap_of(&source.conn, &gap.session).ok());
            known.flatten().is_some_and(|of| of.first <= gap.first)
        };
        let held = self.said.held.map_or(0, |(missing, _)| missing);
        // Without a mark, only an undamaged journal shows how many entries there were, and without a
        // journal only a database that SQL can read to the end. No readable row may be dropped then.
        let rows = rebuilt.entries - rebuilt.from_journal;
        let shows_all = match self.place {
            Some(_) => self.damaged_files == 0,
            None => self.has_all_rows && self.has_all_sessions(),
        };
        (self.said.highest > 0 || shows_all)
            && self.found.in_rows() <= rows
            && rebuilt.missing <= held
            && rebuilt.gaps.iter().all(is_known)
    }

    fn has_all_sessions(&self) -> bool {
        let first = self.sources.first();
        first.is_some_and(|source| !source.torn.contains(&"sessions"))
    }

    /// Returns whether entries may have been only in rows that cannot be read: a power cut takes
    /// the last second of journal and mark.
    fn may_lack_the_last(&self) -> bool {
        let by = self.said.by.as_ref();
        !self.has_all_rows && by.is_some_and(|(machine, _)| !machine.is_of_this_boot())
    }

    fn rebuilt(&self, made: Made, mut torn: Vec<String>) -> Rebuilt {
        if self.may_lack_the_last() {
            torn.push(LAST_SECOND.to_string());
        }
        let of_none = self
            .found
            .in_rows()
            .saturating_sub(made.entries - made.from_journal);
        if of_none > 0 && made.gaps.is_empty() {
            let what = count(of_none, "entry");
            torn.push(format!(
                "{what} of sessions that nothing names: only the old file has them"
            ));
        }
        let in_gaps: u64 = made
            .gaps
            .iter()
            .map(|g| g.last + 1 - g.first + g.behind)
            .sum();
        let recorded = u64::try_from(self.said.highest).unwrap_or(0);
        let here = self.unused + made.entries + in_gaps;
        Rebuilt {
            sessions: made.keys.len() as u64,
            entries: made.entries,
            from_journal: made.from_journal,
            gaps: made.gaps,
            missing: recorded.saturating_sub(here),
            torn,
            kept: None,
        }
    }

    /// Returns whether SQL could read all entries.
    fn read_database(
        &mut self,
        path: &Path,
        torn: &mut Vec<String>,
        progress: &mut Progress<'_>,
    ) -> Result<bool, StoreError> {
        // SQLite would remove the log of an empty one.
        let is_empty = fs::metadata(path).map_or(0, |file| file.len()) == 0;
        let source = match is_empty {
            true => None,
            false => Source::open(path)?,
        };
        let Some(mut source) = source else {
            torn.push(
                "what was kept of files and what was learnt of models is in the old file alone"
                    .to_string(),
            );
            return Ok(false);
        };
        source.read_sessions();
        let is_whole = source.read_entries(&mut self.found, self.said.highest, progress)?;
        let number = self.sources.len();
        for row in std::mem::take(&mut source.sessions) {
            if !self.purged.has(&row.id) {
                let known = self.sessions.entry(row.id.clone()).or_default();
                known.row.get_or_insert((number, row));
            }
        }
        self.sources.push(source);
        Ok(is_whole)
    }

    fn read_journal(
        &mut self,
        journal: &Path,
        progress: &mut Progress<'_>,
    ) -> Result<(), StoreError> {
        let (found, new, sessions) = (&mut self.found, &self.new, &mut self.sessions);
        let damaged = &mut self.damaged_files;
        let mut lines = 0_u64;
        journal::read(journal, &self.purged, &mut |read| match read {
            journal::Read::Pieces(pieces) => {
                lines += pieces.len() as u64;
                progress.so_far(|| count(lines, "line"));
                pieces.into_iter().try_for_each(|piece| match piece {
                    Piece::Entry(before, line) => found.line(before, &line),
                    Piece::Blob(bytes) => insert_blob(new, &Packed::new(&bytes)).doing(WHAT),
                })
            }
            journal::Read::Session(journal, read) => {
                if !journal.is_set_aside {
                    *damaged += read.damaged;
                }
                if !read.ends.is_empty() {
                    let known = sessions.entry(journal.session).or_default();
                    known.header = known.header.take().or(read.header);
                    match journal.is_set_aside {
                        true => known.set_aside.extend(read.ends),
                        false => known.ends.extend(read.ends),
                    }
                }
                Ok(())
            }
        })
    }

    fn write(
        &mut self,
        progress: &mut Progress<'_>,
        torn: &mut Vec<String>,
    ) -> Result<Made, StoreError> {
        self.new.execute_batch("COMMIT").doing(WHAT)?;
        let tx = self
            .new
            .transaction_with_behavior(TransactionBehavior::Immediate)
            .doing(WHAT)?;
        let mut has_meta = false;
        // The damaged one first: what it says of the store applies.
        for (number, source) in self.sources.iter_mut().enumerate() {
            copy::blobs(&tx, source)?;
            copy::files(&tx, source)?;
            if number == 0 {
                has_meta = copy::small(&tx, source)?;
            }
        }
        name_store(&tx, &self.said, &self.sessions)?;
        self.unused = purge::unused(&tx)?.max(self.purged.unused);
        purge::begin_behind(&tx, self.unused)?;
        let rows: Vec<&Rows> = self.sources.iter().map(|source| &source.rows).collect();
        let waits = Waits {
            source: self.sources.first(),
            sessions: &self.sessions,
            journal: self.place.map(|place| place.folder.as_path()),
        };
        let known = record::Recorded {
            found: &self.found,
            rows: &rows,
            sessions: &self.sessions,
            journal: waits.journal,
            purged: &self.purged,
        };
        let made = record::record(&tx, &known, progress)?;
        purge::end_behind(&tx, self.unused)?;
        for (number, source) in self.sources.iter().enumerate() {
            let keys = keys(number, &self.sessions, &made);
            copy::memories(&tx, source, &keys)?;
        }
        waiting(&tx, &made, &waits, torn)?;
        // Gaps of an earlier rebuild.
        let journal = waits.journal.filter(|_| !has_meta);
        for (id, (_, length)) in &made.keys {
            let state = journal.and_then(|journal| read_state(&journal.join(id)));
            // Its journal may have closed it since.
            let gap = state.and_then(|(state, _)| state.gap.filter(|gap| gap.first >= *length));
            if let Some(gap) = gap {
                keep_gap(&tx, &gap.of(id))?;
            }
        }
        for gap in &made.gaps {
            keep_gap(&tx, gap)?;
        }
        tx.commit().doing(WHAT)?;
        let of_tables = self.sources.first().map(|source| &source.torn);
        // What follows from entries, and what the journal has too, is there.
        let needed = |table: &&&str| match **table {
            "sessions" => false,
            "blobs" => self.place.is_none(),
            _ => true,
        };
        torn.extend(
            of_tables
                .into_iter()
                .flatten()
                .filter(needed)
                .map(|table| format!("the table {table} could not be read to its end")),
        );
        Ok(made)
    }

    /// The new database gets the name.
    fn keep(self, mut rebuilt: Rebuilt, names: &Names) -> Result<Rebuilt, StoreError> {
        let Rebuilding {
            new,
            ahead,
            sources,
            place,
            data_dir,
            was_there,
            said,
            ..
        } = self;
        drop((sources, ahead));
        new.close().map_err(|(_, e)| e).doing(WHAT)?;
        let now_ms = now_ms();
        // First, so that a kill behind it holds too much rather than too little.
        if rebuilt.missing > 0
            && said.held.is_none()
            && let Some(place) = place
        {
            let mut mark = Mark::open(&place.state_dir, data_dir)?;
            mark.hold(rebuilt.missing, now_ms)
                .map_err(|e| io_error("write down what is missing", e))?;
        }
        let time = now_ms.to_string();
        swap::swap(names, &time, &mut |_| Ok(())).map_err(|e| io_error(WHAT, e))?;
        let [damaged, ..] = names.damaged(&time);
        rebuilt.kept = was_there.then_some(damaged);
        Ok(rebuilt)
    }
}

/// The keys of a database's sessions, and what they are in the new one.
fn keys(number: usize, sessions: &BTreeMap<String, Known>, made: &Made) -> HashMap<i64, i64> {
    let new = |(id, known): (&String, &Known)| match &known.row {
        Some((source, row)) if *source == number => Some((row.key, made.keys.get(id)?.0)),
        _ => None,
    };
    sessions.iter().filter_map(new).collect()
}

/// The id of the store: copies and journals are told by it.
fn name_store(
    tx: &Transaction<'_>,
    said: &Said,
    sessions: &BTreeMap<String, Known>,
) -> Result<(), StoreError> {
    let by_journal = sessions.values().find_map(|known| known.header.as_ref());
    let name = match (&said.store, by_journal) {
        (store, _) if !store.is_empty() => store.clone(),
        (_, Some(header)) => header.store.clone(),
        _ => return Ok(()),
    };
    tx.execute(
        "UPDATE meta SET value = ?1 WHERE name = 'store'",
        params![name],
    )
    .doing(WHAT)
    .map(drop)
}
