//! The sessions are recorded anew: a thread puts each together and reads its entries, and this one
//! writes them, a part of a session at a time. So neither a session nor the store is ever held in
//! memory.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::path::Path;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread;

use rusqlite::{Transaction, params};

use super::WHAT;
use super::bodies::Bodies;
use super::found::{Found, FoundEntry, Rows, Was};
use super::progress::Progress;
use super::sessions::{Known, Other, Plan, plans};
use super::sql::SessionRow;
use crate::core::entry::Seq;
use crate::core::signal;
use crate::core::text::count;
use crate::journal::state::read_state;
use crate::journal::tip::Tip;
use crate::store::StoreError;
use crate::store::append::Prepared;
use crate::store::error::Doing;
use crate::store::head::Head;
use crate::store::missing::Gap;
use crate::store::parted::{close_calls, name_parted};
use crate::store::purge::Purged;
use crate::store::row::int;
use crate::store::waiting::{Became, Said};

/// Entries are handed over when they have so many bytes together, and so often before the thread
/// waits for who writes them.
const BATCH: usize = 256 << 10;
const BATCHES: usize = 4;

/// What is to be recorded.
pub(super) struct Recorded<'a> {
    pub found: &'a Found,
    pub rows: &'a [&'a Rows],
    pub sessions: &'a BTreeMap<String, Known>,
    pub journal: Option<&'a Path>,
    pub purged: &'a Purged,
}

/// What was recorded anew.
#[derive(Default)]
pub(super) struct Made {
    pub entries: u64,
    pub from_journal: u64,
    /// The row key and the length of each.
    pub keys: BTreeMap<String, (i64, u64)>,
    pub gaps: Vec<Gap>,
    /// Messages and signals that became entries, and for each session where something waits those
    /// entries of which no line says which message or signal they were.
    pub became: Became,
    pub said: BTreeMap<String, Vec<Said>>,
    /// The rows of those entries that a fork may go on behind.
    rows: HashMap<Tip, i64>,
}

/// What the thread gives to who writes.
enum Given<'a> {
    Session(Box<Begin<'a>>),
    /// Of the session that was given last.
    Entries(Vec<Ready>),
    End,
}

/// What a session begins with.
struct Begin<'a> {
    known: &'a Known,
    id: String,
    gap: Option<Gap>,
    is_as_row: bool,
    /// It has entries.
    is_made: bool,
    from: Option<From>,
    other: Option<Other>,
    /// An entry from this place on may be what became of something that waits.
    waits_since: Option<Seq>,
}

/// The session that it was forked from, and the last entry of both.
struct From {
    session: String,
    seq: Seq,
    tip: Tip,
}

/// An entry with all the work done that needs no database.
struct Ready {
    tip: Tip,
    entry: FoundEntry,
    was: Was,
    prepared: Prepared<'static>,
    /// A fork may go on behind it.
    may_fork: bool,
}

/// By their ids, so that what a fork goes on from comes before it.
pub(super) fn record(
    tx: &Transaction<'_>,
    recorded: &Recorded<'_>,
    progress: &mut Progress<'_>,
) -> Result<Made, StoreError> {
    thread::scope(|scope| {
        let (sender, given) = sync_channel(BATCHES);
        let Recorded { found, rows, .. } = *recorded;
        let plans = plans(found, rows, recorded.sessions, recorded.purged);
        let mut giving = Giving {
            bodies: found.bodies()?,
            recorded,
            forked: forked(recorded.sessions, &plans),
            given: HashSet::new(),
            made: HashSet::new(),
            parted: Vec::new(),
            sender,
        };
        let thread = scope.spawn(move || giving.all(plans));
        let mut writing = Writing {
            tx,
            progress,
            made: Made::default(),
            open: None,
        };
        // When one fails, nobody receives any more, and the thread ends.
        let written = given.into_iter().try_for_each(|given| writing.take(given));
        match thread.join() {
            Ok(given) => written.and(given).map(|()| writing.made),
            Err(panic) => std::panic::resume_unwind(panic),
        }
    })
}

/// The places that forks go on behind.
fn forked(sessions: &BTreeMap<String, Known>, plans: &[(Plan, &Known)]) -> BTreeSet<Seq> {
    let of = |known: &Known| {
        let by_row = known.row.as_ref().and_then(|(_, row)| row.forked_seq);
        let by_header = known.header.as_ref().and_then(|h| h.forked.as_ref());
        let by_row = by_row.and_then(|seq| u64::try_from(seq).ok());
        [by_row, by_header.map(|forked| forked.seq)]
    };
    let parted = plans.iter().filter_map(|(plan, _)| plan.other.as_ref());
    let parted = parted.filter_map(|other| other.common.checked_sub(1));
    let forked = sessions.values().flat_map(of).flatten();
    forked.chain(parted).collect()
}

struct Giving<'a> {
    recorded: &'a Recorded<'a>,
    bodies: Bodies<'a>,
    forked: BTreeSet<Seq>,
    /// Of the entries that a fork may go on behind, those that were given.
    given: HashSet<Tip>,
    /// The sessions that were.
    made: HashSet<String>,
    /// Those that part from another one, with their chains.
    parted: Vec<(String, Other, Vec<Tip>)>,
    sender: SyncSender<Given<'a>>,
}

impl<'a> Giving<'a> {
    fn all(&mut self, plans: Vec<(Plan, &'a Known)>) -> Result<(), StoreError> {
        for (plan, known) in plans {
            if self.session(known, plan)?.is_none() {
                return Ok(());
            }
        }
        // Nobody receives it any more when that failed.
        let _ = self.sender.send(Given::End);
        Ok(())
    }

    /// `None`: nobody receives it any more.
    fn session(&mut self, known: &'a Known, plan: Plan) -> Result<Option<()>, StoreError> {
        let from = match &plan.other {
            Some(other) if other.is_second => self.parted_from(other, &plan.chain),
            _ => self.from(known, &plan.chain),
        };
        let own = from.as_ref().map_or(0, |from| from.seq + 1);
        if let Some(other) = plan.other.as_ref().filter(|other| other.is_second) {
            let second = (plan.id.clone(), other.clone(), plan.chain.clone());
            self.parted.push(second);
        }
        let begin = Begin {
            known,
            is_made: !plan.chain.is_empty(),
            waits_since: self.waits_since(&plan.id),
            id: plan.id,
            gap: plan.gap,
            is_as_row: plan.is_as_row,
            from,
            other: plan.other,
        };
        if begin.is_made {
            self.made.insert(begin.id.clone());
        }
        if self.sender.send(Given::Session(Box::new(begin))).is_err() {
            return Ok(None);
        }
        let own = usize::try_from(own).unwrap_or(usize::MAX);
        let (mut batch, mut bytes) = (Vec::new(), 0);
        for tip in plan.chain.iter().skip(own) {
            let ready = self.ready(*tip)?;
            bytes += ready.prepared.bytes();
            batch.push(ready);
            if bytes >= BATCH {
                bytes = 0;
                let batch = std::mem::take(&mut batch);
                if self.sender.send(Given::Entries(batch)).is_err() {
                    return Ok(None);
                }
            }
        }
        Ok(self.sender.send(Given::Entries(batch)).ok())
    }

    fn ready(&mut self, tip: Tip) -> Result<Ready, StoreError> {
        let found = self.recorded.found;
        let Some(entry) = found.get(&tip).copied() else {
            return Err(StoreError::damaged("an entry that was found is gone"));
        };
        let may_fork = self.forked.contains(&entry.seq);
        if may_fork {
            self.given.insert(tip);
        }
        Ok(Ready {
            tip,
            entry,
            was: found.was(&tip),
            prepared: Prepared::of_body(self.bodies.read(entry.place)?)?,
            may_fork,
        })
    }

    /// Where nobody else has its beginning, that is its own now.
    fn from(&self, known: &Known, chain: &[Tip]) -> Option<From> {
        let by_row = known.row.as_ref().and_then(|(source, row)| {
            let (key, seq) = (row.forked_from?, row.forked_seq?);
            let is_it = |other: &&Known| {
                matches!(&other.row, Some((of, other)) if of == source && other.key == key)
            };
            let (_, parent) = self
                .recorded
                .sessions
                .values()
                .find(is_it)?
                .row
                .as_ref()?;
            Some((parent.id.clone(), u64::try_from(seq).ok()?))
        });
        let by_header = || {
            let forked = known.header.as_ref()?.forked.as_ref()?;
            Some((forked.session.clone(), forked.seq))
        };
        let (mut session, seq) = by_row.or_else(by_header)?;
        let at = usize::try_from(seq).ok()?;
        let tip = *chain.get(at)?;
        // The entry it continues from may be in a session that parted from that one.
        let is_it = |(_, of, chain): &&(String, Other, Vec<Tip>)| {
            of.session == session && seq >= of.common && chain.get(at) == Some(&tip)
        };
        if let Some((second, ..)) = self.parted.iter().find(is_it) {
            session.clone_from(second);
        }
        let is_there = self.made.contains(&session) && self.given.contains(&tip);
        is_there.then_some(From { session, seq, tip })
    }

    fn parted_from(&self, other: &Other, chain: &[Tip]) -> Option<From> {
        let seq = other.common.checked_sub(1)?;
        let tip = *chain.get(usize::try_from(seq).ok()?)?;
        let is_there = self.made.contains(&other.session) && self.given.contains(&tip);
        is_there.then(|| From {
            session: other.session.clone(),
            seq,
            tip,
        })
    }

    fn waits_since(&self, session: &str) -> Option<Seq> {
        let (state, _) = read_state(&self.recorded.journal?.join(session))?;
        let waits = !state.inbox.is_empty() || !state.signals.is_empty();
        waits.then_some(state.length)
    }
}

struct Writing<'t, 'p, 'a> {
    tx: &'t Transaction<'t>,
    progress: &'t mut Progress<'p>,
    made: Made,
    /// The session that is written.
    open: Option<(Box<Begin<'a>>, Head)>,
}

impl<'a> Writing<'_, '_, 'a> {
    fn take(&mut self, given: Given<'a>) -> Result<(), StoreError> {
        match given {
            Given::Entries(batch) => batch.into_iter().try_for_each(|ready| self.entry(&ready)),
            Given::Session(begin) => {
                self.end_session()?;
                self.made.gaps.extend(begin.gap.clone());
                if begin.is_made {
                    let head = self.begin_session(&begin)?;
                    self.open = Some((begin, head));
                }
                Ok(())
            }
            Given::End => self.end_session(),
        }
    }

    fn begin_session(&mut self, begin: &Begin<'_>) -> Result<Head, StoreError> {
        let mut head = Head::before_first(begin.id.clone(), 0);
        let mut forked_from = None;
        if let Some(from) = &begin.from {
            let parent = self.made.keys.get(&from.session);
            let (Some((key, _)), Some(row)) = (parent, self.made.rows.get(&from.tip)) else {
                return Err(StoreError::damaged("what a session goes on from is gone"));
            };
            forked_from = Some(*key);
            head.row = Some(*row);
            head.length = from.seq + 1;
            head.tip = from.tip;
        }
        let row = begin.known.row.as_ref().map(|(_, row)| row);
        let header = begin.known.header.as_ref();
        let of = |row: Option<&String>, header: Option<&String>| {
            row.or(header).cloned().unwrap_or_default()
        };
        self.tx
            .execute(
                "INSERT INTO sessions (id, workspace, folder, head, length, forked_from,
                   forked_seq, created_ms, updated_ms)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?8)",
                params![
                    begin.id,
                    of(row.map(|r| &r.workspace), header.map(|h| &h.workspace)),
                    of(row.map(|r| &r.folder), header.map(|h| &h.folder)),
                    head.row.unwrap_or(0),
                    int(head.length),
                    forked_from,
                    begin.from.as_ref().map(|from| int(from.seq)),
                    row.map(|r| r.created_ms)
                        .or(header.map(|h| h.created_ms))
                        .unwrap_or(0),
                ],
            )
            .doing(WHAT)?;
        head.key = self.tx.last_insert_rowid();
        Ok(head)
    }

    fn entry(&mut self, ready: &Ready) -> Result<(), StoreError> {
        let (Some((begin, head)), made) = (&mut self.open, &mut self.made) else {
            return Err(StoreError::damaged("an entry is of no session"));
        };
        let Ready { entry, was, .. } = ready;
        let prepared = &ready.prepared;
        prepared.put(self.tx, head, entry.at_ms, entry.owed)?;
        if head.tip != ready.tip {
            return Err(StoreError::damaged(format!(
                "entry {} of session {} does not follow",
                entry.seq, begin.id
            )));
        }
        if let (true, Some(row)) = (ready.may_fork, head.row) {
            made.rows.entry(ready.tip).or_insert(row);
        }
        made.entries += 1;
        made.became.note(was.taken, was.signal);
        self.progress.so_far(|| count(made.entries, "entry"));
        let is_unknown = was.taken.is_none() && was.signal.is_none();
        if is_unknown && begin.waits_since.is_some_and(|since| entry.seq >= since) {
            note_said(made, &begin.id, entry.seq, prepared);
        }
        made.from_journal += u64::from(!entry.in_row);
        Ok(())
    }

    fn end_session(&mut self) -> Result<(), StoreError> {
        let Some((begin, mut head)) = self.open.take() else {
            return Ok(());
        };
        let is_second = begin.other.as_ref().is_some_and(|other| other.is_second);
        if let Some((_, row)) = begin.known.row.as_ref().filter(|_| !is_second) {
            set_as_before(self.tx, row, &head, begin.is_as_row)?;
        }
        if is_second {
            name_parted(self.tx, head.key)?;
        }
        // A session with a gap is locked, so it repeats no call.
        if let Some(other) = begin.other.as_ref().filter(|_| begin.gap.is_none()) {
            let seq = other.common.saturating_sub(1);
            close_calls(self.tx, &mut head, &other.session, seq)?;
        }
        self.made.keys.insert(begin.id, (head.key, head.length));
        Ok(())
    }
}

fn note_said(made: &mut Made, session: &str, seq: Seq, prepared: &Prepared<'_>) {
    let may_be = |kind: &str| {
        ["said", "noted"]
            .iter()
            .chain(signal::BECOME)
            .any(|k| *k == kind)
    };
    for entry in prepared.entries().iter().filter(|e| may_be(e.kind())) {
        let said = made.said.entry(session.to_string()).or_default();
        said.push((seq, entry.clone()));
    }
}

/// What lists show. Where entries were put behind the head, they say it better.
fn set_as_before(
    tx: &Transaction<'_>,
    row: &SessionRow,
    head: &Head,
    is_as_row: bool,
) -> Result<(), StoreError> {
    if !is_as_row {
        return tx
            .execute(
                "UPDATE sessions SET title = coalesce(title, ?2), version = coalesce(version, ?3),
                   model = coalesce(model, ?4) WHERE key = ?1",
                params![head.key, row.title, row.version, row.model],
            )
            .doing(WHAT)
            .map(drop);
    }
    let [input, cached, cache_written, output, bytes] = row.sums;
    tx.execute(
        "UPDATE sessions SET title = ?2, version = ?3, model = ?4, unfinished = ?5, input = ?6,
           cached = ?7, cache_written = ?8, output = ?9, bytes = ?10, trashed_ms = ?11,
           updated_ms = ?12, billed = ?13, asks = ?14 WHERE key = ?1",
        params![
            head.key,
            row.title,
            row.version,
            row.model,
            row.unfinished,
            input,
            cached,
            cache_written,
            output,
            bytes,
            row.trashed_ms,
            row.updated_ms,
            row.billed,
            row.asks
        ],
    )
    .doing(WHAT)
    .map(drop)
}
