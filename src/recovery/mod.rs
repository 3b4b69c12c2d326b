//! The only way to recover a damaged or lost database: it is rebuilt from the rows that SQL can
//! read and from the journals. `rewake doctor --repair` and the start of a session call
//! [`recover`].
//!
//! Invariant: no other process has the store open during a recovery. The old database is not
//! changed and stays under another name.
//! Invariant: no session silently goes back in time. Recorded entries that are in no copy are
//! counted. A session with a gap is locked. If it is not known which sessions lack entries, all
//! older sessions are locked.

mod background_sync;
mod bodies;
mod copy;
mod found;
mod journal;
mod pending_input;
mod progress;
mod record;
mod sessions;
mod sql;

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::fs;
use std::path::{Path, PathBuf};

use crate::core::text::count;
use crate::journal::folder::{JournalPlace, folders, session_of};
use crate::journal::salvage::{ReadablePart, salvage};
use crate::journal::state::read_state;
use crate::store::recovering::{
    HighWaterMark, MarkText, NewDatabase, Purged, StoreLock, WHAT, database, finish, gap_of,
    in_use, io_error, is_begun, is_of_another_machine, machine_name, private_folder, purged, swap,
};
use crate::store::{Gap, StoreError, now_ms, replica_source};
use background_sync::SyncAhead;
use copy::{copy_files, copy_in};
use database::Names;
use found::{EntryIndex, Rows};
use pending_input::{InputSources, waiting};
use progress::Progress;
use record::{WrittenSessions, keys};
use sessions::SessionCopies;
use sql::Source;

const LAST_SECOND: &str = "this computer was restarted after the last entry: if it lost power, the \
    last second of the sessions may be missing, and what was done then is done";

/// The options of a recovery.
pub struct Repair<'a> {
    /// Other copies: data folders, databases, journals.
    pub from: &'a [PathBuf],
    /// Whether their sessions belong to this machine, whatever they say. Otherwise those of another
    /// store or another machine become copies.
    pub same_machine: bool,
    /// Whether to change nothing if entries stay lost that were not reported as missing before.
    pub only_whole: bool,
    /// Receives the progress messages for the user.
    pub progress: &'a mut dyn FnMut(&str),
}

/// The result of a recovery.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recovered {
    pub sessions: u64,
    pub entries: u64,
    /// Number of these entries that were in no row.
    pub from_journal: u64,
    pub gaps: Vec<Gap>,
    /// Number of missing entries of unknown sessions.
    pub missing: u64,
    /// Descriptions of tables that could not be read completely, and of other differences.
    pub torn: Vec<String>,
    /// Path of the old database. `None`: there was none.
    pub kept: Option<PathBuf>,
}

impl Recovered {
    /// Returns the number of entries that are in no copy.
    pub fn lost(&self) -> u64 {
        let in_gaps = self.gaps.iter().map(|gap| gap.last + 1 - gap.first);
        in_gaps.sum::<u64>() + self.missing
    }

    /// Describes the result for the user.
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

/// Recovers the database of this folder. Returns `None` if nothing was changed: `only_whole`
/// prevented it, or no copy has an entry.
///
/// # Errors
/// `InUse` when another process, or another part of this one, has the store open. Nothing was
/// changed then.
pub fn recover(
    data_dir: &Path,
    place: Option<&JournalPlace>,
    mut repair: Repair<'_>,
) -> Result<Option<Recovered>, StoreError> {
    private_folder(data_dir)?;
    let lock = StoreLock::shared(data_dir)?;
    let lock = match is_begun(data_dir) {
        true => finish(data_dir, lock)?,
        false => lock,
    };
    let alone = lock.exclusive(data_dir, || Ok(false));
    let _alone = alone.map_err(|error| in_use(error, WHAT))?;
    let names = database::names(data_dir);
    let mut rebuilding = Rebuilding::begin(data_dir, place, &names)?;
    let made = rebuilding.make(&mut repair);
    let recovered = made.and_then(|made| match made {
        Some(made) if !repair.only_whole || rebuilding.loses_nothing(&made) => {
            rebuilding.keep(made, &names).map(Some)
        }
        _ => Ok(None),
    });
    // After the swap has started, the next start needs the new database.
    if !matches!(recovered, Ok(Some(_))) && !is_begun(data_dir) {
        let _ = NewDatabase::remove(&names);
    }
    recovered
}

struct Rebuilding<'a> {
    data_dir: &'a Path,
    place: Option<&'a JournalPlace>,
    /// The high-water mark of this store.
    said: MarkText,
    /// Number of row IDs that purging removed.
    unused: u64,
    purged: Purged,
    found: EntryIndex,
    sources: Vec<Source>,
    sessions: BTreeMap<String, SessionCopies>,
    new: NewDatabase,
    /// Syncs the new database while it is written. `None`: it is synced only at the end.
    ahead: Option<SyncAhead>,
    /// Number of journal files and frames with an unreadable part.
    damaged_files: u64,
    /// Whether there was a database to recover.
    was_there: bool,
    /// Whether SQL could read all its rows.
    has_all_rows: bool,
}

impl<'a> Rebuilding<'a> {
    fn begin(
        data_dir: &'a Path,
        place: Option<&'a JournalPlace>,
        names: &Names,
    ) -> Result<Self, StoreError> {
        let new = NewDatabase::make(names)?;
        let said = place.map(|place| HighWaterMark::look(&place.state_dir, data_dir));
        Ok(Rebuilding {
            data_dir,
            place,
            said: said.unwrap_or_default(),
            unused: 0,
            purged: purged(data_dir),
            found: EntryIndex::new(data_dir)?,
            sources: Vec::new(),
            sessions: BTreeMap::new(),
            new,
            ahead: SyncAhead::start(&names.rebuilding).ok(),
            damaged_files: 0,
            was_there: names.database.exists(),
            has_all_rows: false,
        })
    }

    fn make(&mut self, repair: &mut Repair<'_>) -> Result<Option<Recovered>, StoreError> {
        let mut given = Vec::new();
        for from in repair.from {
            let (database, journal) = copy_in(from)?;
            given.push((
                database,
                journal.map(|journal| (writers(&journal), journal)),
            ));
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
        progress.begin("reading the journal");
        if let Some(place) = self.place {
            self.read_journal(&place.folder, &BTreeMap::new(), progress)?;
        }
        let own = self.own_store();
        // SQLite would create files beside a copy, so it reads a duplicate.
        let mut private = Vec::new();
        for (copy, journal) in &given {
            let Some(copy) = copy else {
                continue;
            };
            let folder = tempfile::tempdir_in(self.data_dir).map_err(|e| io_error(WHAT, e))?;
            let path = folder.path().join("copy.db");
            private.push(folder);
            copy_files(copy, &path).map_err(|e| io_error(format!("read {}", copy.display()), e))?;
            progress.begin(&format!("reading {}", copy.display()));
            // A database does not say which machine wrote it, but the journal beside it does.
            let mut beside = journal.iter().flat_map(|(writers, _)| writers.values());
            let is_moved = beside.any(|by| by.iter().any(|by| !is_here(by, own.as_deref())));
            let is_own =
                own.is_some() && !is_moved && Source::open(&path)?.and_then(|s| s.store()) == own;
            match is_own || repair.same_machine {
                true => drop(self.read_database(&path, &mut Vec::new(), progress)?),
                false => torn.push(format!(
                    "{} is of another store or machine: rewake export --bundle there, or --same-machine",
                    copy.display()
                )),
            }
        }
        for (writers, journal) in given.iter().filter_map(|(_, journal)| journal.as_ref()) {
            let elsewhere = match repair.same_machine {
                true => BTreeMap::new(),
                false => elsewhere(writers, own.as_deref()),
            };
            // What a session did elsewhere is not appended to one of this store.
            for id in elsewhere.keys().filter(|id| self.is_own(id)) {
                torn.push(format!(
                    "session {id} is here, and its copy in {} is of another store or machine: it is \
                     not used; --same-machine uses it",
                    journal.display()
                ));
            }
            self.read_journal(journal, &elsewhere, progress)?;
        }
        self.found.flush()?;
        self.found.find_missing_parents()?;
        if self.sessions.is_empty() {
            return Ok(None);
        }
        progress.begin("writing the new database");
        let made = self.write(progress, &mut torn)?;
        Ok((!made.keys.is_empty()).then(|| self.rebuilt(made, torn)))
    }

    /// Returns whether every entry is restored, except those that were missing before.
    fn loses_nothing(&self, rebuilt: &Recovered) -> bool {
        let is_known = |gap: &Gap| {
            let source = self.sources.first();
            let known = source.and_then(|source| gap_of(&source.conn, &gap.session).ok());
            known.flatten().is_some_and(|of| of.first <= gap.first)
        };
        let held = self.said.held.map_or(0, |(missing, _)| missing);
        // Without a mark, only an undamaged journal shows how many entries there were. Without a
        // journal too, only a database that SQL can read to the end does. No readable row may be
        // dropped.
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

    /// Returns whether the last entries may have been only in rows that cannot be read: a power cut
    /// takes the last second of the journal and of the mark.
    fn may_lack_the_last(&self) -> bool {
        let by = self.said.by.as_ref();
        !self.has_all_rows && by.is_some_and(|(machine, _)| !machine.is_of_this_boot())
    }

    fn rebuilt(&self, made: WrittenSessions, mut torn: Vec<String>) -> Recovered {
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
        Recovered {
            sessions: made.keys.len() as u64,
            entries: made.entries,
            from_journal: made.from_journal,
            gaps: made.gaps,
            missing: recorded.saturating_sub(here),
            torn,
            kept: None,
        }
    }

    /// Reads a database. Returns whether SQL could read all entries.
    fn read_database(
        &mut self,
        path: &Path,
        torn: &mut Vec<String>,
        progress: &mut Progress<'_>,
    ) -> Result<bool, StoreError> {
        // SQLite would remove the write-ahead log of an empty database.
        let is_empty = fs::metadata(path).map_or(0, |file| file.len()) == 0;
        let source = if is_empty { None } else { Source::open(path)? };
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

    /// Returns the ID of this store. `None`: nothing here says it.
    fn own_store(&self) -> Option<String> {
        let by_database = || self.sources.first().filter(|_| self.was_there)?.store();
        let by_journal = || {
            self.sessions
                .values()
                .find_map(|known| known.header.as_ref())
        };
        match &*self.said.store {
            "" => by_database().or_else(|| by_journal().map(|header| header.store.clone())),
            store => Some(store.to_string()),
        }
    }

    /// Returns whether this store has a session that is not from elsewhere.
    fn is_own(&self, session: &str) -> bool {
        let known = self.sessions.get(session);
        known.is_some_and(|known| known.source.is_none())
    }

    /// `elsewhere`: the sessions of another store or machine, with where they come from.
    fn read_journal(
        &mut self,
        journal: &Path,
        elsewhere: &BTreeMap<String, String>,
        progress: &mut Progress<'_>,
    ) -> Result<(), StoreError> {
        let own: HashSet<String> = elsewhere
            .keys()
            .filter(|id| self.is_own(id))
            .cloned()
            .collect();
        let (found, new, sessions) = (&mut self.found, &self.new, &mut self.sessions);
        let purged = &self.purged;
        let is_wanted = |session: &str| !purged.has(session) && !own.contains(session);
        let damaged = &mut self.damaged_files;
        let mut lines = 0_u64;
        journal::read(journal, &is_wanted, &mut |read| match read {
            journal::Read::Pieces(pieces) => {
                lines += pieces.len() as u64;
                progress.so_far(|| count(lines, "line"));
                pieces.into_iter().try_for_each(|piece| match piece {
                    ReadablePart::Entry(before, line) => found.line(Some(before), &line),
                    ReadablePart::Unproven(line) => found.line(None, &line),
                    ReadablePart::Blob(bytes) => new.blob(&bytes),
                })
            }
            journal::Read::Session(journal, read) => {
                if !journal.is_set_aside {
                    *damaged += read.damaged;
                }
                if !read.ends.is_empty() || !read.unproven.is_empty() {
                    let session = journal.session;
                    let known = sessions.entry(session.clone()).or_default();
                    known.header = known.header.take().or(read.header);
                    // A copy stays one, also if another journal of it is of this store.
                    known.source = known
                        .source
                        .take()
                        .or_else(|| elsewhere.get(&session).cloned());
                    known.unproven.extend(read.unproven);
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
    ) -> Result<WrittenSessions, StoreError> {
        let new = self.new.rows()?;
        let mut has_meta = false;
        // The damaged database comes first: only its `meta` is copied.
        for (number, source) in self.sources.iter_mut().enumerate() {
            copy::blobs(&new, source)?;
            copy::files(&new, source)?;
            if number == 0 {
                has_meta = copy::small(&new, source)?;
            }
        }
        if let Some(id) = store_id(&self.said, &self.sessions) {
            new.name_store(id)?;
        }
        self.unused = new.unused()?.max(self.purged.unused);
        new.begin_after(self.unused)?;
        let rows: Vec<&Rows> = self.sources.iter().map(|source| &source.rows).collect();
        let waits = InputSources {
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
        let made = record::record(&new, &known, progress)?;
        new.end_after(self.unused)?;
        for (number, source) in self.sources.iter().enumerate() {
            let keys = keys(number, &self.sessions, &made);
            copy::memories(&new, source, &keys)?;
        }
        waiting(&new, &made, &waits, torn)?;
        // If `meta` was not read completely, the journals have the gaps of an earlier rebuild.
        let journal = waits.journal.filter(|_| !has_meta);
        for (id, (_, length)) in &made.keys {
            let state = journal.and_then(|journal| read_state(&journal.join(id)));
            // The session's journal may have closed the gap since.
            let gap = state.and_then(|(state, _)| state.gap.filter(|gap| gap.first >= *length));
            if let Some(gap) = gap {
                new.gap(&gap.of(id))?;
            }
        }
        for gap in &made.gaps {
            new.gap(gap)?;
        }
        new.commit()?;
        let of_tables = self.sources.first().map(|source| &source.torn);
        // `sessions` follows from the entries, and the journals have the blobs too.
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

    /// Completes the new database and swaps it with the old one.
    fn keep(self, mut rebuilt: Recovered, names: &Names) -> Result<Recovered, StoreError> {
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
        drop(sources);
        let synced = ahead.map_or(Ok(()), SyncAhead::finish);
        synced.map_err(|e| io_error("sync the new database", e))?;
        new.close()?;
        let now_ms = now_ms();
        // Before the swap: a kill after this locks too many sessions rather than too few.
        if rebuilt.missing > 0
            && said.held.is_none()
            && let Some(place) = place
        {
            let mut mark = HighWaterMark::open(&place.state_dir, data_dir)?;
            mark.hold(rebuilt.missing, now_ms)
                .map_err(|e| io_error("write down what is missing", e))?;
        }
        // A kill after this leaves the old database. The next start finds that entries are missing
        // and locks the sessions again.
        if rebuilt.lost() == 0
            && said.held.is_some()
            && let Some(place) = place
        {
            let mut mark = HighWaterMark::open(&place.state_dir, data_dir)?;
            mark.lift()
                .map_err(|e| io_error("write down that nothing is missing", e))?;
        }
        let time = now_ms.to_string();
        swap(names, &time).map_err(|e| io_error(WHAT, e))?;
        let [damaged, ..] = names.damaged(&time);
        rebuilt.kept = was_there.then_some(damaged);
        Ok(rebuilt)
    }
}

/// The stores and machines that wrote in a journal, by session.
type Writers = BTreeMap<String, BTreeSet<(String, Option<String>)>>;

/// Returns the writers of each session of a journal. What this cannot read has nothing to restore: the
/// same reading gives the entries.
fn writers(journal: &Path) -> Writers {
    let of = |folder: &PathBuf| {
        let read = salvage(folder, &mut |_| Ok(())).unwrap_or_default();
        (session_of(folder), read.writers)
    };
    folders(journal).iter().map(of).collect()
}

fn is_here((store, machine): &(String, Option<String>), own: Option<&str>) -> bool {
    own == Some(&**store) && !is_of_another_machine(machine.as_deref())
}

/// Returns the sessions that another store or another machine wrote in, or nobody that is known, with
/// where they come from.
fn elsewhere(writers: &Writers, own: Option<&str>) -> BTreeMap<String, String> {
    let source = |(id, by): (&String, &BTreeSet<(String, Option<String>)>)| {
        let other = by.iter().find(|writer| !is_here(writer, own));
        let host = machine_name(other.and_then(|(_, machine)| machine.as_deref()));
        (other.is_some() || by.is_empty()).then(|| (id.clone(), replica_source(&host)))
    };
    writers.iter().filter_map(source).collect()
}

/// Returns the ID of the store from the mark, or else from a journal.
fn store_id<'a>(
    said: &'a MarkText,
    sessions: &'a BTreeMap<String, SessionCopies>,
) -> Option<&'a str> {
    let own = sessions.values().filter(|known| known.source.is_none());
    let by_journal = own.filter_map(|known| known.header.as_ref()).next();
    match &*said.store {
        "" => by_journal.map(|header| &*header.store),
        store => Some(store),
    }
}
