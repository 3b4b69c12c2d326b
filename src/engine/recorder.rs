//! The writer of a session's log.
//!
//! Invariant: an entry is folded, appended and published in this order, and nothing else appends.

use std::rc::Rc;
use std::time::Duration;

use tokio::time::Instant;

use super::{EngineError, Event, Log, OnEvent};
use crate::core::budget::Budget;
use crate::core::entry::{Entry, Record};
use crate::core::prompt::KeptMessages;
use crate::core::settings::Policy;
use crate::core::state::{Illegal, State};
use crate::store::{self, Batch, Head, InboxId, LearntRatio, NewTree, SignalId, Store, StoreError};
use crate::tools;
use crate::world::{Boundary, World};

/// How often a busy store is tried again, each time for as long as the store waits.
const BUSY_TRIES: u32 = 2;

/// A ratio that moved by less than this part is not written again.
const RATIO_MOVED: f64 = 0.02;

/// An answer that is folded and not recorded.
struct Held {
    write: Write,
    /// The time that its transaction gets.
    at_ms: i64,
    /// It is recorded now, whatever is ready.
    due: Instant,
}

/// The signals that caused the next entries.
#[derive(Default)]
pub(super) struct SignalCause {
    /// The signal in progress, until an entry is recorded for it: its row and its sender.
    pub obeying: Option<(SignalId, String)>,
    /// The signal that requested the compaction.
    pub compaction: Option<SignalId>,
}

/// A session's log while it is written: the store that it is in, its end, its fold, who is told of
/// each entry, and the world and the rules that entries follow from.
pub(super) struct Recorder<W> {
    pub store: Store,
    pub head: Head,
    /// The fold of the log and of a held answer.
    pub state: State,
    /// What was made of the log for the last request.
    pub kept: KeptMessages,
    pub world: Rc<W>,
    pub policy: Policy,
    /// Something happened since the last checkpoint.
    pub changed: bool,
    pub signal: SignalCause,
    /// A person stopped this run: what waits in the inbox is not what they want done now.
    pub inbox_is_held: bool,
    /// As that of [`super::Settings`].
    pub begins_within: Duration,
    on_event: OnEvent,
    /// An answer that the state has already, and that is not in the log yet.
    held: Option<Held>,
    /// The bytes per token that the store has of a model.
    stored_ratio: Option<(String, f64)>,
    /// The log could not be read again after an append that failed: the state is not to be
    /// relied on.
    is_stale: bool,
}

impl<W: World> Recorder<W> {
    pub(super) fn new(
        log: Log,
        world: Rc<W>,
        policy: Policy,
        begins_within: Duration,
        on_event: OnEvent,
    ) -> Recorder<W> {
        let Log { store, head, state } = log;
        Recorder {
            store,
            head,
            state,
            kept: KeptMessages::default(),
            world,
            policy,
            changed: false,
            signal: SignalCause::default(),
            inbox_is_held: false,
            begins_within,
            on_event,
            held: None,
            stored_ratio: None,
            is_stale: false,
        }
    }

    /// Drops a held answer that could not be recorded. The log is read again before its next use.
    pub(super) fn drop_held(&mut self) {
        self.held = None;
        self.is_stale = true;
    }

    /// Whether what an open call began goes on without this process.
    pub(super) fn is_at_work(&self) -> bool {
        let mut open = self.state.calls.iter().filter(|open| !open.finished);
        open.any(|open| {
            let guard = open.guard.as_ref();
            guard.is_some_and(|guard| self.world.is_at_work(guard))
        })
    }

    /// Appends to the log, folds and publishes. An answer that is held goes first.
    ///
    /// The state is folded first, since what the row of the session says (is it unfinished?)
    /// follows from it. When the log cannot be written, the state is read from it again.
    pub(super) async fn record(&mut self, write: Write) -> Result<(), EngineError> {
        self.refresh()?;
        let first = self.held.as_ref().map_or(&write, |held| &held.write);
        let kind = first.entries.first().map_or("none", Entry::kind);
        self.world.boundary(Boundary::BeforeAppend(kind)).await;
        let signal = self.signal_of(&write.entries);
        let write = match &signal {
            Some((_, Some(origin))) => write.from(origin),
            _ => write,
        };
        let held_ms = self.held.as_ref().map(|held| held.at_ms);
        let at_ms = held_ms.unwrap_or_else(|| self.world.now_ms());
        if let Err(illegal) = fold(&mut self.state, &write.entries, at_ms) {
            self.reload()?;
            return Err(illegal.into());
        }
        let write = match &self.held {
            Some(held) => held.write.clone().and(write),
            None => write,
        };
        let changed = match &write.entries[..] {
            [] => self.changed,
            entries => !entries.iter().any(Entry::is_checkpoint),
        };
        let ratio = self.moved_ratio(&write.entries);
        let batch = Batch {
            at_ms,
            ratio,
            entries: write.entries,
            blobs: write.blobs,
            taken: write.taken,
            signal: signal.as_ref().map(|(id, _)| *id),
            clear: write.clear,
            tree: write.tree,
            unfinished: self.state.unfinished(),
            asks: Some(self.state.asks()),
        };
        let mut busy = 0;
        let appended = loop {
            match self.store.append(&mut self.head, &batch) {
                // Another process writes for long; what is to be recorded is not thrown away.
                Err(StoreError::Busy { .. }) if busy < BUSY_TRIES => busy += 1,
                appended => break appended,
            }
        };
        let records = match appended {
            Ok(records) => records,
            Err(error) => {
                self.stored_ratio = None;
                self.reload()?;
                return Err(error.into());
            }
        };
        self.held = None;
        if let Some((id, _)) = signal {
            self.was_obeyed(id);
        }
        self.world.boundary(Boundary::AfterAppend(kind)).await;
        self.changed = changed;
        for record in records {
            self.emit(Event::Recorded(Box::new(record)));
        }
        self.report_journal();
        Ok(())
    }

    /// A journal that cannot be written is said once.
    pub(super) fn report_journal(&mut self) {
        if let Some(why) = self.store.journal_trouble() {
            self.emit(Event::JournalFails(why));
        }
    }

    pub(super) fn emit(&mut self, event: Event) {
        (self.on_event)(&self.state, event);
    }

    /// Reports that something was not stored. The engine tries again.
    pub(super) fn emit_not_kept(&mut self, error: &StoreError) {
        self.emit(Event::Kept(Err(error.to_string())));
    }

    pub(super) fn reload(&mut self) -> Result<(), EngineError> {
        self.is_stale = true;
        let (head, records) = self.store.load(self.head.session())?;
        self.state = State::of(tools::describe, &records)?;
        self.kept = KeptMessages::default();
        self.head = head;
        if let Some(held) = &self.held {
            fold(&mut self.state, &held.write.entries, held.at_ms)?;
        }
        self.is_stale = false;
        Ok(())
    }

    pub(super) fn refresh(&mut self) -> Result<(), EngineError> {
        match self.is_stale {
            true => self.reload(),
            false => Ok(()),
        }
    }

    pub(super) fn hold(&mut self, write: Write) -> Result<(), EngineError> {
        self.refresh()?;
        let at_ms = self.world.now_ms();
        if let Err(illegal) = fold(&mut self.state, &write.entries, at_ms) {
            self.reload()?;
            return Err(illegal.into());
        }
        self.held = Some(Held {
            write,
            at_ms,
            due: Instant::now() + self.begins_within,
        });
        Ok(())
    }

    /// Records the answer alone, if it is still held.
    pub(super) async fn record_held(&mut self) -> Result<(), EngineError> {
        match self.held {
            Some(_) => self.record(Write::default()).await,
            None => Ok(()),
        }
    }

    /// When the answer that is held is due.
    pub(super) fn held_due(&self) -> Option<Instant> {
        self.held.as_ref().map(|held| held.due)
    }

    pub(super) fn budget(&self) -> Budget {
        self.policy.budget_of(&self.state, &self.state.model)
    }

    /// What was learnt of the model's tokens, for other sessions, when these entries moved it. It
    /// is recorded with them.
    pub(super) fn moved_ratio(&mut self, entries: &[Entry]) -> Option<LearntRatio> {
        let measures = |e: &Entry| matches!(e, Entry::Replied { .. } | Entry::Learned { .. });
        if !entries.iter().any(measures) {
            return None;
        }
        let model = &self.state.model;
        let ratio = self.state.ratios.get(model).copied()?;
        let kept = match &self.stored_ratio {
            Some((of, kept)) if of == model => Ok(Some(*kept)),
            _ => self.store.learnt(model).map(|l| l.bytes_per_token),
        };
        let kept = match kept {
            Ok(kept) => kept.filter(|kept| (ratio / kept - 1.0).abs() <= RATIO_MOVED),
            // That it is not kept is no failure of the step.
            Err(error) => {
                tracing::warn!(model, %error, "the bytes per token are not kept");
                return None;
            }
        };
        self.stored_ratio = Some((model.clone(), kept.unwrap_or(ratio)));
        kept.is_none().then(|| LearntRatio {
            model: model.clone(),
            bytes_per_token: ratio,
        })
    }

    /// The signal that what is about to be recorded comes of, and who sent it.
    pub(super) fn signal_of(&self, entries: &[Entry]) -> Option<(SignalId, Option<String>)> {
        let is_compaction = |e: &Entry| matches!(e, Entry::Compacted { .. });
        match (&self.signal.obeying, self.signal.compaction) {
            (Some((id, origin)), _) => Some((*id, Some(origin.clone()))),
            (None, Some(id)) if entries.iter().any(is_compaction) => Some((id, None)),
            (None, _) => None,
        }
    }

    /// It is in the log, and its row is gone.
    pub(super) fn was_obeyed(&mut self, id: SignalId) {
        self.signal.obeying.take_if(|(obeying, _)| *obeying == id);
        self.signal
            .compaction
            .take_if(|compaction| *compaction == id);
    }

    /// One piece of what the store does when nobody waits for it: some tens of milliseconds.
    /// True when there may be more. That it fails is no failure of the step.
    pub(super) fn tidy(&mut self) -> bool {
        let is_more = self.store.maintain().unwrap_or_else(|error| {
            tracing::warn!(%error, "the store was not tidied");
            false
        });
        self.report_journal();
        is_more
    }
}

fn fold(state: &mut State, entries: &[Entry], at_ms: i64) -> Result<(), Illegal> {
    for entry in entries {
        let record = Record {
            seq: state.next_seq(),
            at_ms,
            entry: entry.clone(),
        };
        state.fold(&record)?;
    }
    Ok(())
}

/// What goes into the log in one transaction.
#[derive(Clone, Default)]
pub(super) struct Write {
    pub entries: Vec<Entry>,
    pub blobs: Vec<Vec<u8>>,
    /// The row of the inbox that became `Said`.
    pub taken: Option<InboxId>,
    pub clear: Vec<store::Draft>,
    /// What the files were, when an entry names a tree that is not kept yet.
    pub tree: Option<NewTree>,
}

impl Write {
    pub(super) fn of(entry: Entry) -> Write {
        Write {
            entries: vec![entry],
            ..Write::default()
        }
    }

    /// Together in one transaction.
    pub(super) fn of_all(entries: Vec<Entry>) -> Write {
        Write {
            entries,
            ..Write::default()
        }
    }

    /// Its entries say which signal they came with.
    pub(super) fn from(mut self, signal: &str) -> Write {
        let entries = self.entries.into_iter();
        self.entries = entries.map(|entry| entry.from(signal)).collect();
        self
    }

    /// This, and then `behind`, in one transaction.
    pub(super) fn and(mut self, behind: Write) -> Write {
        self.entries.extend(behind.entries);
        self.blobs.extend(behind.blobs);
        self.clear.extend(behind.clear);
        Write {
            taken: self.taken.or(behind.taken),
            tree: self.tree.or(behind.tree),
            ..self
        }
    }

    /// What was streaming is recorded with this, or void.
    pub(super) fn clearing_stream(mut self) -> Write {
        self.clear.push(store::Draft::Stream);
        self
    }

    /// What stood in the input box is recorded with this.
    pub(super) fn clearing_input(mut self) -> Write {
        self.clear.push(store::Draft::Input);
        self
    }
}
