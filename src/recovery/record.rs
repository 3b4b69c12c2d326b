//! Writing of the recovered sessions. A thread builds each session and reads its entries, and the
//! calling thread writes them in batches. So neither a session nor the store is in memory as a
//! whole.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::path::Path;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread;

use super::bodies::Bodies;
use super::found::{ConsumedRows, EntryIndex, FoundEntry, Rows};
use super::progress::Progress;
use super::sessions::{Plan, RelatedSession, SessionCopies, plans};
use crate::core::entry::Seq;
use crate::core::signal;
use crate::core::text::count;
use crate::journal::chain_hash::ChainHash;
use crate::journal::state::read_state;
use crate::store::recovering::{
    ConsumedIds, ForkedFrom, LineWriter, MayHaveWaited, NewRows, Prepared, PreparedLine, Purged,
    SessionStart,
};
use crate::store::{Gap, StoreError};

/// Size of a batch of entries, in bytes.
const BATCH: usize = 256 << 10;
/// Number of batches that may wait for the writer.
const BATCHES: usize = 4;

/// The content of all copies, which is to be recorded.
pub(super) struct Recorded<'a> {
    pub found: &'a EntryIndex,
    pub rows: &'a [&'a Rows],
    pub sessions: &'a BTreeMap<String, SessionCopies>,
    pub journal: Option<&'a Path>,
    pub purged: &'a Purged,
}

/// The sessions that were written.
#[derive(Default)]
pub(super) struct WrittenSessions {
    pub entries: u64,
    pub from_journal: u64,
    /// The row key and the length of each session, by its ID.
    pub keys: BTreeMap<String, (i64, u64)>,
    pub gaps: Vec<Gap>,
    /// Messages and signals that became entries.
    pub became: ConsumedIds,
    /// Entries that may have been a pending message or signal, by session.
    pub said: BTreeMap<String, Vec<MayHaveWaited>>,
    /// Row IDs of possible fork points.
    rows: HashMap<ChainHash, i64>,
}

/// A message from the thread to the writer.
enum WriterMessage<'a> {
    Session(Box<Begin<'a>>),
    /// Entries of the session that was sent last.
    Entries(Vec<Ready>),
    End,
}

/// The start of a session, sent before its entries.
struct Begin<'a> {
    known: &'a SessionCopies,
    id: String,
    gap: Option<Gap>,
    is_as_row: bool,
    /// Whether the session has entries.
    is_made: bool,
    from: Option<From>,
    other: Option<RelatedSession>,
    /// Sequence number from which an entry may have been a message or signal that the journal lists
    /// as pending.
    waits_since: Option<Seq>,
}

/// The session that another one was forked from, and the last entry of both.
struct From {
    session: String,
    seq: Seq,
    tip: ChainHash,
}

/// An entry that is ready to be written.
struct Ready {
    tip: ChainHash,
    entry: FoundEntry,
    was: ConsumedRows,
    prepared: Prepared<'static>,
    /// Whether it is a possible fork point.
    may_fork: bool,
}

/// Writes each session before its forks.
pub(super) fn record(
    new: &NewRows<'_>,
    recorded: &Recorded<'_>,
    progress: &mut Progress<'_>,
) -> Result<WrittenSessions, StoreError> {
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
            new,
            progress,
            made: WrittenSessions::default(),
            open: None,
        };
        // If writing fails, the receiver is dropped and the thread ends.
        let written = given.into_iter().try_for_each(|given| writing.take(given));
        match thread.join() {
            Ok(given) => written.and(given).map(|()| writing.made),
            Err(panic) => std::panic::resume_unwind(panic),
        }
    })
}

/// Returns the sequence numbers of all fork points.
fn forked(
    sessions: &BTreeMap<String, SessionCopies>,
    plans: &[(Plan, &SessionCopies)],
) -> BTreeSet<Seq> {
    let of = |known: &SessionCopies| {
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
    /// The possible fork points that were sent.
    given: HashSet<ChainHash>,
    /// The IDs of the sessions with entries that were sent.
    made: HashSet<String>,
    /// The sessions that diverged from another one, with their chains.
    parted: Vec<(String, RelatedSession, Vec<ChainHash>)>,
    sender: SyncSender<WriterMessage<'a>>,
}

impl<'a> Giving<'a> {
    fn all(&mut self, plans: Vec<(Plan, &'a SessionCopies)>) -> Result<(), StoreError> {
        for (plan, known) in plans {
            if self.session(known, plan)?.is_none() {
                return Ok(());
            }
        }
        // This fails if the writer failed and dropped the receiver.
        let _ = self.sender.send(WriterMessage::End);
        Ok(())
    }

    /// Sends one session. `None`: the receiver was dropped.
    fn session(&mut self, known: &'a SessionCopies, plan: Plan) -> Result<Option<()>, StoreError> {
        let from = match &plan.other {
            Some(other) if other.is_second => self.diverged_from(other, &plan.chain),
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
        if self
            .sender
            .send(WriterMessage::Session(Box::new(begin)))
            .is_err()
        {
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
                if self.sender.send(WriterMessage::Entries(batch)).is_err() {
                    return Ok(None);
                }
            }
        }
        Ok(self.sender.send(WriterMessage::Entries(batch)).ok())
    }

    fn ready(&mut self, tip: ChainHash) -> Result<Ready, StoreError> {
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

    /// Returns the fork point of a session. `None`: no other session has its beginning, so these
    /// entries become its own.
    fn from(&self, known: &SessionCopies, chain: &[ChainHash]) -> Option<From> {
        let by_row = known.row.as_ref().and_then(|(source, row)| {
            let (key, seq) = (row.forked_from?, row.forked_seq?);
            let is_it = |other: &&SessionCopies| {
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
        // The fork point may be in a session that diverged from the recorded parent.
        let is_it = |(_, of, chain): &&(String, RelatedSession, Vec<ChainHash>)| {
            of.session == session && seq >= of.common && chain.get(at) == Some(&tip)
        };
        if let Some((second, ..)) = self.parted.iter().find(is_it) {
            session.clone_from(second);
        }
        let is_there = self.made.contains(&session) && self.given.contains(&tip);
        is_there.then_some(From { session, seq, tip })
    }

    fn diverged_from(&self, other: &RelatedSession, chain: &[ChainHash]) -> Option<From> {
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
    new: &'t NewRows<'t>,
    progress: &'t mut Progress<'p>,
    made: WrittenSessions,
    /// The session that is being written.
    open: Option<(Box<Begin<'a>>, LineWriter)>,
}

impl<'a> Writing<'_, '_, 'a> {
    fn take(&mut self, given: WriterMessage<'a>) -> Result<(), StoreError> {
        match given {
            WriterMessage::Entries(batch) => {
                batch.into_iter().try_for_each(|ready| self.entry(ready))
            }
            WriterMessage::Session(begin) => {
                self.end_session()?;
                self.made.gaps.extend(begin.gap.clone());
                if begin.is_made {
                    let writer = self.begin_session(&begin)?;
                    self.open = Some((begin, writer));
                }
                Ok(())
            }
            WriterMessage::End => self.end_session(),
        }
    }

    fn begin_session(&mut self, begin: &Begin<'_>) -> Result<LineWriter, StoreError> {
        let from = match &begin.from {
            None => None,
            Some(from) => {
                let parent = self.made.keys.get(&from.session);
                let (Some((session, _)), Some(row)) = (parent, self.made.rows.get(&from.tip))
                else {
                    return Err(StoreError::damaged("what a session continues is gone"));
                };
                Some(ForkedFrom {
                    session: *session,
                    row: *row,
                    seq: from.seq,
                    tip: from.tip,
                })
            }
        };
        let row = begin.known.row.as_ref().map(|(_, row)| row);
        let header = begin.known.header.as_ref();
        let (workspace, folder, created_ms) = match (row, header) {
            (Some(row), _) => (&*row.workspace, &*row.folder, row.created_ms),
            (None, Some(header)) => (&*header.workspace, &*header.folder, header.created_ms),
            (None, None) => ("", "", 0),
        };
        let replica = begin.known.replica();
        self.new.session(&SessionStart {
            id: &begin.id,
            workspace,
            folder,
            created_ms,
            from,
            replica: replica.as_deref(),
        })
    }

    fn entry(&mut self, ready: Ready) -> Result<(), StoreError> {
        let (Some((begin, writer)), made) = (&mut self.open, &mut self.made) else {
            return Err(StoreError::damaged("an entry is of no session"));
        };
        let Ready { entry, was, .. } = ready;
        let is_elsewhere = begin.known.source.is_some();
        let is_unknown = was.taken.is_none() && was.signal.is_none();
        if is_unknown && !is_elsewhere && begin.waits_since.is_some_and(|since| entry.seq >= since)
        {
            note_said(made, &begin.id, entry.seq, &ready.prepared);
        }
        // No message and no signal is in the new database yet.
        let line = PreparedLine {
            owed: entry.owed && !is_elsewhere,
            ..PreparedLine::new(entry.at_ms, ready.tip, ready.prepared)
        };
        let row = self.new.append(writer, line)?;
        if ready.may_fork {
            made.rows.entry(ready.tip).or_insert(row);
        }
        made.entries += 1;
        // Those of another store are numbers of its messages and signals.
        if !is_elsewhere {
            made.became.note(was.taken, was.signal);
        }
        self.progress.so_far(|| count(made.entries, "entry"));
        made.from_journal += u64::from(!entry.in_row);
        Ok(())
    }

    fn end_session(&mut self) -> Result<(), StoreError> {
        let Some((begin, LineWriter { mut head, .. })) = self.open.take() else {
            return Ok(());
        };
        let is_second = begin.other.as_ref().is_some_and(|other| other.is_second);
        if let Some((_, row)) = begin.known.row.as_ref().filter(|_| !is_second) {
            self.new.list_as_before(&head, row, begin.is_as_row)?;
        }
        if is_second {
            self.new.add_diverged_title(&head)?;
        }
        // A session with a gap is locked, so it repeats no call.
        if let Some(other) = begin.other.as_ref().filter(|_| begin.gap.is_none()) {
            let seq = other.common.saturating_sub(1);
            self.new.close_calls(&mut head, &other.session, seq)?;
        }
        self.made.keys.insert(begin.id, head.key_and_length());
        Ok(())
    }
}

/// Returns the new keys of a database's sessions, by their old keys.
pub(super) fn keys(
    number: usize,
    sessions: &BTreeMap<String, SessionCopies>,
    made: &WrittenSessions,
) -> HashMap<i64, i64> {
    let new = |(id, known): (&String, &SessionCopies)| match &known.row {
        Some((source, row)) if *source == number => Some((row.key, made.keys.get(id)?.0)),
        _ => None,
    };
    sessions.iter().filter_map(new).collect()
}

fn note_said(made: &mut WrittenSessions, session: &str, seq: Seq, prepared: &Prepared<'_>) {
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
