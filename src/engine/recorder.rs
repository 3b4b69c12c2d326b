//! The writer of a session's log.
//!
//! Invariant: an entry is folded, appended and published in this order, and nothing else appends.

use std::rc::Rc;
use std::time::Duration;

use tokio::time::Instant;

use super::sharing::Sharing;
use super::{EngineError, Event, Log, OnEvent};
use crate::core::budget::Budget;
use crate::core::entry::{Entry, Guard, HookRun, Record};
use crate::core::prompt::KeptMessages;
use crate::core::settings::Policy;
use crate::core::state::{Illegal, State};
use crate::shared::writer::{Listed, PushOutcome};
use crate::store::{self, Batch, Head, InboxId, LearntRatio, NewTree, SignalId, Store, StoreError};
use crate::tools;
use crate::world::{Boundary, World};

/// Number of retries for a busy store. Each takes as long as the store waits for a lock.
const BUSY_TRIES: u32 = 2;

/// Relative change of a ratio below which it is not stored again.
const RATIO_MOVED: f64 = 0.02;

/// An answer that is folded and not recorded yet.
struct PendingCommit {
    write: Write,
    /// The time of its transaction: UTC, milliseconds since 1970.
    at_ms: i64,
    /// When it is recorded even if no call is ready.
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

/// A session's log while it is written: its store, its end, its state, and the receiver of events.
/// The world and the policy are here because entries follow from them.
pub(super) struct Recorder<W> {
    pub store: Store,
    pub head: Head,
    /// The state that is folded from the log and a held answer.
    pub state: State,
    /// The messages that were rendered for the last request.
    pub kept: KeptMessages,
    pub world: Rc<W>,
    pub policy: Policy,
    /// Whether anything happened since the last checkpoint.
    pub changed: bool,
    pub signal: SignalCause,
    /// A person stopped this run, so the messages in the inbox are not to be sent now.
    pub inbox_is_held: bool,
    /// See [`super::Settings::begins_within`].
    pub begins_within: Duration,
    on_event: OnEvent,
    /// An answer that is in the state already and not in the log yet.
    held: Option<PendingCommit>,
    /// The bytes per token of a model, as they are in the store.
    stored_ratio: Option<(String, f64)>,
    /// The log could not be read again after an append failed, so the state is not reliable.
    is_stale: bool,
    sharing: Sharing,
}

impl<W: World> Recorder<W> {
    pub(super) fn new(
        log: Log,
        world: Rc<W>,
        policy: Policy,
        begins_within: Duration,
        on_event: OnEvent,
    ) -> Recorder<W> {
        let Log {
            store,
            head,
            state,
            shared,
        } = log;
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
            sharing: Sharing::new(shared),
        }
    }

    /// Drops a held answer that could not be recorded. The log is read again before its next use.
    pub(super) fn drop_pending_answer(&mut self) {
        self.held = None;
        self.is_stale = true;
    }

    /// Returns whether work that an open call started, or a check, is still running without this
    /// process.
    pub(super) fn is_at_work(&self) -> bool {
        let check = self.state.checks.running().map(|check| Guard::Supervised {
            run: check.run.clone(),
            boot: check.boot.clone(),
            background: false,
        });
        if check.is_some_and(|guard| self.world.is_at_work(&guard)) {
            return true;
        }
        let mut open = self.state.calls.iter().filter(|open| !open.finished);
        open.any(|open| match &open.guard {
            Some(guard) => self.world.is_at_work(guard),
            None => open.call.is_wait() && self.runs_in_background(),
        })
    }

    fn runs_in_background(&self) -> bool {
        let mut background = self.state.background.iter();
        background.any(|(id, b)| self.world.background_end(id, b).is_none())
    }

    /// Appends to the log, folds and publishes. A held answer goes first.
    ///
    /// The state is folded first, since the row of the session (is it unfinished?) follows from it.
    /// If the log cannot be written, the state is read from it again.
    pub(super) async fn record(&mut self, write: Write) -> Result<(), EngineError> {
        self.refresh().await?;
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
        let mut write = write;
        let hooks = self.fold_with_hooks(&mut write, at_ms).await?;
        let write = match &self.held {
            Some(held) => held.write.clone().and(write),
            None => write,
        };
        let changed = match &write.entries[..] {
            [] => self.changed,
            entries => !entries.iter().any(Entry::is_checkpoint),
        };
        let ratio = self.moved_ratio(&write.entries);
        let mut batch = Batch {
            at_ms,
            ratio,
            entries: write.entries,
            json: Vec::new(),
            blobs: write.blobs,
            taken: write.taken,
            signal: signal.as_ref().map(|(id, _)| *id),
            clear: write.clear,
            tree: write.tree,
            unfinished: self.state.unfinished(),
            asks: Some(self.state.asks()),
        };
        if let Err(error) = self.sharing.prepare(&mut self.store, &batch) {
            self.reload()?;
            self.discard_hooks(&hooks).await;
            return Err(error.into());
        }
        let listed = Listed::of(&self.state);
        let notice = |text| (self.on_event)(&self.state, Event::Notice(text));
        let pushed = self
            .sharing
            .push(&self.store, &self.head, &mut batch, &hooks, listed, notice);
        match pushed.await {
            Ok(true) => self.world.boundary(Boundary::Pushed).await,
            Ok(false) => {}
            Err(error) => {
                self.is_stale = true;
                return Err(error);
            }
        }
        let records = match append(&mut self.store, &mut self.head, &batch) {
            Ok(records) => records,
            Err(error) => {
                self.stored_ratio = None;
                // The shared database has them, so they follow later.
                if self.sharing.is_pushing() {
                    return Err(error.into());
                }
                self.reload()?;
                // They are prepared again with the entry that they follow.
                self.discard_hooks(&hooks).await;
                return Err(error.into());
            }
        };
        let first = records.first().map_or(0, |record| record.seq);
        self.fire_hooks_after(first, &batch.entries);
        self.held = None;
        self.sharing.is_stored();
        if let Some((id, _)) = signal {
            self.forget_signal(id);
        }
        self.world.boundary(Boundary::AfterAppend(kind)).await;
        self.changed = changed;
        for record in records {
            self.emit(Event::Recorded(Box::new(record)));
        }
        self.report_journal();
        Ok(())
    }

    /// Emits that the journal cannot be written. The store reports each failure once.
    pub(super) fn report_journal(&mut self) {
        if let Some(why) = self.store.take_journal_failure() {
            self.emit(Event::JournalFails(why));
        }
    }

    pub(super) fn emit(&mut self, event: Event) {
        (self.on_event)(&self.state, event);
    }

    /// Reports that something was not stored. The engine tries again.
    pub(super) fn emit_not_stored(&mut self, error: &StoreError) {
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

    /// Reads the log again, if that is necessary. Entries that the shared database has and this store
    /// lacks are stored first.
    pub(super) async fn refresh(&mut self) -> Result<(), EngineError> {
        if self.sharing.is_pushing() {
            self.is_stale = true;
        }
        let outcome = self.sharing.settle(&self.head).await?;
        if let (Some(outcome), Some(pushing)) = (outcome, self.sharing.take()) {
            match outcome {
                PushOutcome::NotRecorded => {
                    self.reload()?;
                    // They are prepared again with the entry that they follow.
                    self.discard_hooks(&pushing.hooks).await;
                }
                PushOutcome::Recorded => {
                    let records = match append(&mut self.store, &mut self.head, &pushing.batch) {
                        Ok(records) => records,
                        Err(error) => {
                            self.sharing.keep(pushing);
                            return Err(error.into());
                        }
                    };
                    // A held answer was among them.
                    self.held = None;
                    self.reload()?;
                    self.signal = SignalCause::default();
                    let first = records.first().map_or(0, |record| record.seq);
                    self.fire_hooks_after(first, &pushing.batch.entries);
                    for record in records {
                        self.emit(Event::Recorded(Box::new(record)));
                    }
                }
            }
        }
        if self.is_stale { self.reload() } else { Ok(()) }
    }

    pub(super) async fn hold(&mut self, write: Write) -> Result<(), EngineError> {
        self.refresh().await?;
        let at_ms = self.world.now_ms();
        let mut write = write;
        self.fold_with_hooks(&mut write, at_ms).await?;
        self.held = Some(PendingCommit {
            write,
            at_ms,
            due: Instant::now() + self.begins_within,
        });
        Ok(())
    }

    /// Folds the entries, and those that record the hooks which they cause. Returns these hooks.
    async fn fold_with_hooks(
        &mut self,
        write: &mut Write,
        at_ms: i64,
    ) -> Result<Vec<HookRun>, EngineError> {
        let mut folded = fold(&mut self.state, &write.entries, at_ms);
        let mut hooks = Vec::new();
        if folded.is_ok() {
            let hooking = self.hooks_after(&write.entries);
            for entry in &hooking {
                if let Entry::Hooking { runs, .. } = entry {
                    hooks.extend(runs.iter().cloned());
                }
            }
            folded = fold(&mut self.state, &hooking, at_ms);
            write.entries.extend(hooking);
        }
        if let Err(illegal) = folded {
            self.reload()?;
            self.discard_hooks(&hooks).await;
            return Err(illegal.into());
        }
        Ok(hooks)
    }

    /// Records the answer alone, if it is still held.
    pub(super) async fn record_pending_answer(&mut self) -> Result<(), EngineError> {
        match self.held {
            Some(_) => self.record(Write::default()).await,
            None => Ok(()),
        }
    }

    /// Returns when the held answer is due.
    pub(super) fn pending_answer_due(&self) -> Option<Instant> {
        self.held.as_ref().map(|held| held.due)
    }

    pub(super) fn budget(&self) -> Budget {
        self.policy.budget_of(&self.state, &self.state.model)
    }

    /// Returns the new bytes per token of the model if these entries changed it. It is stored for
    /// other sessions in the same transaction.
    pub(super) fn moved_ratio(&mut self, entries: &[Entry]) -> Option<LearntRatio> {
        let measures = |e: &Entry| matches!(e, Entry::Replied { .. } | Entry::Learned(_));
        if !entries.iter().any(measures) {
            return None;
        }
        let model = &self.state.model;
        let ratio = self.state.ratios.get(model).copied()?;
        let kept = match &self.stored_ratio {
            Some((of, kept)) if of == model => Ok(Some(*kept)),
            _ => self.store.models().learnt(model).map(|l| l.bytes_per_token),
        };
        let kept = match kept {
            Ok(kept) => kept.filter(|kept| (ratio / kept - 1.0).abs() <= RATIO_MOVED),
            // A ratio that cannot be stored does not fail the step.
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

    /// Returns the signal that caused these entries, and its sender.
    pub(super) fn signal_of(&self, entries: &[Entry]) -> Option<(SignalId, Option<String>)> {
        let is_compaction = |e: &Entry| matches!(e, Entry::Compacted { .. });
        match (&self.signal.obeying, self.signal.compaction) {
            (Some((id, origin)), _) => Some((*id, Some(origin.clone()))),
            (None, Some(id)) if entries.iter().any(is_compaction) => Some((id, None)),
            (None, _) => None,
        }
    }

    /// Forgets a signal: its entry is in the log, and its row is deleted.
    pub(super) fn forget_signal(&mut self, id: SignalId) {
        self.signal.obeying.take_if(|(obeying, _)| *obeying == id);
        self.signal
            .compaction
            .take_if(|compaction| *compaction == id);
    }

    /// Does one piece of the store's maintenance, which takes some tens of milliseconds. Returns
    /// true if there may be more. A failure does not fail the step.
    pub(super) fn tidy(&mut self) -> bool {
        let is_more = self.store.maintain().unwrap_or_else(|error| {
            tracing::warn!(%error, "the store was not tidied");
            false
        });
        self.report_journal();
        is_more
    }
}

/// Appends a batch. Another process may write for long, and the entries must not be lost because of
/// that.
fn append(store: &mut Store, head: &mut Head, batch: &Batch) -> Result<Vec<Record>, StoreError> {
    let mut busy = 0;
    loop {
        match store.append(head, batch) {
            Err(StoreError::Busy { .. }) if busy < BUSY_TRIES => busy += 1,
            appended => return appended,
        }
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

/// The content of one transaction of the log.
#[derive(Clone, Default)]
pub(super) struct Write {
    pub entries: Vec<Entry>,
    pub blobs: Vec<Vec<u8>>,
    /// The inbox row that becomes `Said`.
    pub taken: Option<InboxId>,
    pub clear: Vec<store::Draft>,
    /// The tree that an entry names, if it is not stored yet.
    pub tree: Option<NewTree>,
}

impl Write {
    pub(super) fn of(entry: Entry) -> Write {
        Write {
            entries: vec![entry],
            ..Write::default()
        }
    }

    /// Returns a write of several entries in one transaction.
    pub(super) fn of_all(entries: Vec<Entry>) -> Write {
        Write {
            entries,
            ..Write::default()
        }
    }

    /// Marks the entries with the signal that caused them.
    pub(super) fn from(mut self, signal: &str) -> Write {
        let entries = self.entries.into_iter();
        self.entries = entries.map(|entry| entry.from(signal)).collect();
        self
    }

    /// Joins this write and the one that follows it, in one transaction.
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

    /// Clears the draft of the stream, since this write records or discards its text.
    pub(super) fn clearing_stream(mut self) -> Write {
        self.clear.push(store::Draft::Stream);
        self
    }

    /// Clears the draft of the input box, since this write records its text.
    pub(super) fn clearing_input(mut self) -> Write {
        self.clear.push(store::Draft::Input);
        self
    }
}
