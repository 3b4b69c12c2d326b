//! Context without end: compaction, notes to go on from, limits that are learnt.
//!
//! A summary is made in the background while the loop goes on. What is to be summarised
//! follows from the state, so after a crash it is begun again; one whose range is no longer
//! the next is dropped. Only at the hard limit the loop waits.

use std::pin::Pin;
use std::rc::Rc;
use std::time::{Duration, Instant};

use super::{Engine, EngineError, Event, Write};
use crate::core::budget::{BYTES_PER_TOKEN, Budget};
use crate::core::compacting::{self, Summary};
use crate::core::entry::{Block, Entry, Failure, FailureClass, Layers, Record, Seq, Spent};
use crate::core::exchange::Range;
use crate::core::freeing;
use crate::core::gauge::Parts;
use crate::core::limits::{self, Count};
use crate::core::next::BackgroundSummary;
use crate::core::request::Request;
use crate::core::summary::{self, Fallback};
use crate::core::unsent;
use crate::core::window;
use crate::model::Reply;
use crate::world::{Boundary, World};

/// How what leaves the context is summarised.
pub struct Summarising {
    /// `None`: the session's own model.
    pub model: Option<String>,
    /// For the rolling summary, and for the model's part of a continuation note.
    pub instructions: String,
    /// What the model is asked for when the context begins again from a note.
    pub continuation: String,
    /// What `model` is asked for when a title is to be made. `None`: none is made.
    pub title: Option<String>,
    /// What stands for a summary that could not be made.
    pub fallback: Fallback,
    /// A summary that takes longer is not waited for.
    pub patience: Duration,
}

/// Renders layers 1 and 2 for a window of this size.
pub type Render = Box<dyn Fn(&Budget) -> Layers>;

/// After so many failures in a row …
const MAX_FAILURES: u32 = 3;
/// … the summary model is left alone for this long.
const LEFT_ALONE: Duration = Duration::from_secs(300);

/// Limits learnt in a row before the request is given up.
const MAX_LEARNED: u32 = 8;

/// A limit without figures is guessed to be this part of what was refused.
const GUESS: f64 = 0.7;

/// Figures of the context, for the log and the stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ContextFigures {
    /// What happened.
    pub what: ContextChange,
    /// Of the next request.
    pub request_tokens: u64,
    /// A request over so many tokens is not sent.
    pub hard_tokens: u64,
    /// Of the next request: those of the summary or note.
    pub summary_tokens: u64,
    /// Entries that are in full.
    pub window_entries: usize,
    /// Read from the provider's cache so far.
    pub cached_tokens: u64,
}

/// What a summary model wrote, and what that took.
pub(super) struct Written {
    pub(super) text: String,
    pub(super) spent: Spent,
}

/// What happened to the context, or is about to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ContextChange {
    /// The oldest exchanges were summarised.
    Compacted,
    /// The context began again from a note.
    Continued,
    /// Old results left the context for a line each.
    Freed,
    /// The window of the model was learnt from its server.
    Learned,
    /// Learnt without an error: the server cut long requests and said nothing.
    LearnedSilently,
    /// The server refused images: they are sent as text from now on.
    ImagesRefused,
    /// The next request is over eight tenths of what is sent at most.
    NearLimit,
}

/// A summary that could not be made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SummaryFailure {
    /// In the words of the server, or of what was wrong with the answer.
    pub why: String,
    pub stands_in: StandIn,
    /// It failed so often that it is not asked again for this long.
    pub left_alone: Option<Duration>,
}

impl SummaryFailure {
    /// In a sentence for a person.
    pub fn to_text(&self) -> String {
        let again = match self.left_alone {
            Some(time) => format!("it is asked again in {} s at the earliest", time.as_secs()),
            None => "it is asked again at the next compaction".to_string(),
        };
        format!(
            "the summary model failed: {}; {} stands in; {again}",
            self.why,
            self.stands_in.name()
        )
    }
}

/// What stands in for what the summary model did not write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StandIn {
    /// An extract made from the log.
    Digest,
    /// A line that names the entries.
    Placeholder,
    /// A note that the log alone makes.
    Log,
}

impl StandIn {
    fn of(fallback: Fallback) -> StandIn {
        match fallback {
            Fallback::Digest => StandIn::Digest,
            Fallback::Placeholder => StandIn::Placeholder,
        }
    }

    /// For a person.
    pub fn name(self) -> &'static str {
        match self {
            StandIn::Digest => "a digest made from the log",
            StandIn::Placeholder => "a line that names the entries",
            StandIn::Log => "a note made from the log",
        }
    }
}

/// A question to the summary model.
pub(super) type Work = Pin<Box<dyn Future<Output = Result<Written, Failure>>>>;

/// A summary in the making.
pub(super) struct SummaryTask {
    range: Range,
    work: Option<Work>,
    made: Option<Result<Written, Failure>>,
}

/// The summariser's part of the engine.
#[derive(Default)]
pub(super) struct Summaries {
    pending: Option<SummaryTask>,
    /// When it failed last, and how often in a row.
    failed_at: Option<Instant>,
    failures: u32,
    near_limit_emitted: bool,
    pub(super) recalled: Option<u64>,
    /// What was asked since the last entry that says so, also for what was dropped.
    spent: Vec<Spent>,
    /// The models whose server was asked for its window.
    asked_windows: Vec<String>,
}

impl Summaries {
    pub(super) fn is_running(&self) -> bool {
        self.pending.as_ref().is_some_and(|p| p.work.is_some())
    }

    /// Drives the summary in the making. Never ends when there is none.
    pub(super) async fn drive(&mut self) {
        let work = self.pending.as_mut().and_then(|p| p.work.as_mut());
        let made = match work {
            Some(work) => work.await,
            None => std::future::pending().await,
        };
        if let Some(pending) = &mut self.pending {
            pending.work = None;
            pending.made = Some(made);
        }
    }

    pub(super) fn progress(&self) -> BackgroundSummary {
        match &self.pending {
            Some(SummaryTask {
                range,
                made: Some(_),
                ..
            }) => BackgroundSummary::Ready(*range),
            Some(_) => BackgroundSummary::Running,
            None if self.is_left_alone() => BackgroundSummary::Paused,
            None => BackgroundSummary::None,
        }
    }

    /// Its range is no longer next. What it took is counted all the same.
    fn drop_pending(&mut self) {
        if let Some(SummaryTask {
            made: Some(made), ..
        }) = self.pending.take()
        {
            let _dropped = self.words(made);
        }
    }

    /// The words alone; what they took waits for the next entry.
    fn words(&mut self, made: Result<Written, Failure>) -> Result<String, Failure> {
        let Written { text, spent } = made?;
        match self.spent.iter_mut().find(|s| s.model == spent.model) {
            Some(sum) => sum.usage.add(&spent.usage),
            None => self.spent.push(spent),
        }
        Ok(text)
    }

    fn is_left_alone(&self) -> bool {
        self.failures >= MAX_FAILURES && self.failed_at.is_some_and(|at| at.elapsed() < LEFT_ALONE)
    }

    fn answered(&mut self) {
        self.failed_at = None;
        self.failures = 0;
    }

    fn failed(&mut self) {
        self.failed_at = Some(Instant::now());
        self.failures = self.failures.saturating_add(1);
    }
}

impl<W: World> Engine<W> {
    /// Puts a summary in place of these. When none was begun in the background, or it is still
    /// being made, it is waited for; when the summary model cannot be asked, a digest stands in.
    pub(super) async fn compact_range(&mut self, range: Range) -> Result<(), EngineError> {
        let is_begun = self
            .summaries
            .pending
            .as_ref()
            .is_some_and(|p| p.range == range);
        if !is_begun {
            // One that covers another range would come too late for this one.
            if self.summaries.is_left_alone() {
                return self.record_compaction(range, None).await;
            }
            self.begin_summary(range)?;
        }
        let Some(pending) = self.summaries.pending.take() else {
            return self.record_compaction(range, None).await;
        };
        let made = match (pending.made, pending.work) {
            (Some(made), _) => made,
            (None, Some(work)) => match self
                .attend_quiet(work, super::attend::Stoppable::Yes)
                .await?
            {
                Some(made) => made,
                None => return Ok(()),
            },
            (None, None) => Err(unanswered("nothing was asked")),
        };
        self.finish_compaction(range, made).await
    }

    async fn finish_compaction(
        &mut self,
        range: Range,
        made: Result<Written, Failure>,
    ) -> Result<(), EngineError> {
        let made = self.summaries.words(made);
        let budget = self.log.budget();
        let max_bytes = budget.bytes(self.log.policy.windows.summary_tokens(&budget));
        let accepted = self.accepted(made, max_bytes, StandIn::of(self.summarising.fallback));
        self.record_compaction(range, accepted).await
    }

    /// What a model wrote, when it can be used. That it cannot be is said, with why and with what
    /// stands in.
    fn accepted(
        &mut self,
        made: Result<String, Failure>,
        max_bytes: usize,
        stands_in: StandIn,
    ) -> Option<String> {
        let why = match made.map(|text| summary::accept(&text, max_bytes)) {
            Ok(Some(text)) => {
                self.summaries.answered();
                return Some(text);
            }
            Ok(None) => "its answer has no words".to_string(),
            Err(failure) => failure.message,
        };
        self.summaries.failed();
        tracing::warn!(
            failures = self.summaries.failures,
            "the summary model failed"
        );
        let failed = SummaryFailure {
            why,
            stands_in,
            left_alone: self.summaries.is_left_alone().then_some(LEFT_ALONE),
        };
        self.log.emit(Event::SummaryFailed(failed));
        None
    }

    /// Records the summary that a model made, else what stands in for it.
    async fn record_compaction(
        &mut self,
        range: Range,
        made: Option<String>,
    ) -> Result<(), EngineError> {
        let summary = match (made, self.summarising.fallback) {
            (Some(text), _) => Summary::Model(text),
            (None, Fallback::Digest) => Summary::Digest(self.to_summarise(range)?),
            (None, Fallback::Placeholder) => Summary::Placeholder,
        };
        let entries = compacting::compacted(
            &self.log.state,
            &self.log.budget(),
            &self.log.policy.windows,
            range,
            summary,
            std::mem::take(&mut self.summaries.spent),
        );
        self.log.record(Write::of_all(entries)).await?;
        self.summaries.near_limit_emitted = false;
        self.emit_context(ContextChange::Compacted);
        Ok(())
    }

    /// A line stands in place of each of these results from here on.
    pub(super) async fn free(&mut self, results: &[Seq]) -> Result<(), EngineError> {
        if let Some(freed) = freeing::entry(&self.log.state, results) {
            self.log.record(Write::of(freed)).await?;
            self.summaries.near_limit_emitted = false;
            self.emit_context(ContextChange::Freed);
        }
        Ok(())
    }

    pub(super) fn begin_summary(&mut self, range: Range) -> Result<(), EngineError> {
        self.summaries.drop_pending();
        let records = self.to_summarise(range)?;
        let preface = self.log.state.preface.as_ref();
        let before = preface.and_then(|p| match p.unsound_from {
            // The records say it.
            Some(_) => p.sound.clone(),
            None => p.summary.clone().or_else(|| p.sound.clone()),
        });
        let request =
            self.summary_request(&self.summarising.instructions, before.as_deref(), &records);
        self.summaries.pending = Some(SummaryTask {
            range,
            work: Some(self.summarise(request)),
            made: None,
        });
        Ok(())
    }

    /// The records of this range, after those that left the context without a summary.
    fn to_summarise(&self, range: Range) -> Result<Vec<Record>, EngineError> {
        let mut records = match compacting::unsummarised(&self.log.state) {
            Some(range) => self.log.store.records(self.log.head.session(), range)?,
            None => Vec::new(),
        };
        records.extend(compacting::leaving(&self.log.state, range));
        Ok(records)
    }

    fn summary_request(
        &self,
        instructions: &str,
        before: Option<&str>,
        records: &[Record],
    ) -> Request {
        let model = self
            .summarising
            .model
            .as_ref()
            .unwrap_or(&self.log.state.model);
        let own = self.log.budget();
        let room = self.log.policy.budget_of(&self.log.state, model);
        // What leaves fitted into the session's own window; that of a model which was never
        // asked is only assumed.
        let room = match own.window < room.window {
            true => Budget {
                bytes_per_token: room.bytes_per_token,
                ..own
            },
            false => room,
        };
        let tokens = self.log.policy.windows.summary_tokens(&self.log.budget());
        let freed = &self.log.state.freed;
        summary::request(model, instructions, before, records, freed, &room, tokens)
    }

    pub(super) fn summarise(&self, request: Request) -> Work {
        let world = Rc::clone(&self.log.world);
        let patience = self.summarising.patience;
        let model = request.model.clone();
        Box::pin(async move {
            world.boundary(Boundary::BeforeSummary).await;
            let made = tokio::time::timeout(patience, world.summarise(request)).await;
            world.boundary(Boundary::AfterSummary).await;
            let made = made
                .unwrap_or_else(|_| Err(unanswered("the summary model did not answer in time")));
            made.map(|reply| written(model, reply))
        })
    }

    /// The context begins again from a note. What is rendered for the window is rendered
    /// again with it.
    pub(super) async fn continue_from_note(&mut self) -> Result<(), EngineError> {
        self.summaries.drop_pending();
        let budget = self.log.budget();
        let layers = (self.render)(&budget);
        if layers != self.log.state.layers {
            let version = self.log.state.version.clone();
            self.log
                .record(Write::of(Entry::Rendered { version, layers }))
                .await?;
        }
        let story = match self.summaries.is_left_alone() || self.log.state.context.is_empty() {
            true => None,
            false => match self.ask_for_story().await? {
                Some(story) => story,
                None => return Ok(()),
            },
        };
        let spent = std::mem::take(&mut self.summaries.spent);
        let world = Rc::clone(&self.log.world);
        let exists = move |path: &str| world.is_there(std::path::Path::new(path));
        let continued = compacting::continued(&self.log.state, &budget, story, &exists, spent);
        self.log.record(Write::of(continued)).await?;
        self.summaries.near_limit_emitted = false;
        self.emit_context(ContextChange::Continued);
        Ok(())
    }

    /// The model's part of the note. The outer `None`: the user stopped it.
    async fn ask_for_story(&mut self) -> Result<Option<Option<String>>, EngineError> {
        let preface = self.log.state.preface.as_ref();
        let before = preface.and_then(|p| p.summary.clone().or_else(|| p.sound.clone()));
        let instructions = &self.summarising.continuation;
        let request =
            self.summary_request(instructions, before.as_deref(), &self.log.state.context);
        let work = self.summarise(request);
        let Some(made) = self
            .attend_quiet(work, super::attend::Stoppable::Yes)
            .await?
        else {
            return Ok(None);
        };
        let budget = self.log.budget();
        let max_bytes = budget.bytes(self.log.policy.windows.summary_tokens(&budget));
        let made = self.summaries.words(made);
        Ok(Some(self.accepted(made, max_bytes, StandIn::Log)))
    }

    /// All but the newest exchange, since a person asks for it. False when there is nothing.
    pub async fn compact(&mut self) -> Result<bool, EngineError> {
        match window::compactable(&self.log.state) {
            Some(range) => self.compact_range(range).await.map(|()| true),
            None => Ok(false),
        }
    }

    /// Asks the server of a model that nothing is known of for its window, once. True when that
    /// was learnt: what is to be done next may be something else now.
    pub(super) async fn ask_window(&mut self) -> Result<bool, EngineError> {
        let model = self.log.state.model.clone();
        if self.log.state.limits.contains_key(&model)
            || self.summaries.asked_windows.contains(&model)
        {
            return Ok(false);
        }
        self.summaries.asked_windows.push(model.clone());
        let world = Rc::clone(&self.log.world);
        let asked = model.clone();
        let step = async move { world.asked_window(&asked).await };
        let said = self
            .attend_quiet(step, super::attend::Stoppable::Yes)
            .await?;
        let Some(limit) = said
            .flatten()
            .filter(|limit| *limit != self.log.budget().window)
        else {
            return Ok(false);
        };
        self.log.store.learn_limit(&model, limit)?;
        let learned = Entry::Learned {
            model,
            limit,
            tokens: None,
            bytes: 0,
            silently: false,
            images: None,
        };
        self.log.record(Write::of(learned)).await?;
        self.emit_context(ContextChange::Learned);
        Ok(true)
    }

    /// A request that is too long teaches the model's window. False when that was learnt too
    /// often in a row: it is a failure then.
    pub(super) async fn learn(
        &mut self,
        model: &str,
        failure: &Failure,
        bytes: u64,
    ) -> Result<bool, EngineError> {
        if failure.class != FailureClass::TooLong || self.log.state.learned >= MAX_LEARNED {
            return Ok(false);
        }
        // Not the session's own: that may have been changed while this one was asked.
        let budget = self.log.policy.budget_of(&self.log.state, model);
        let said = limits::figures(&failure.message);
        let asked = budget.tokens(usize::try_from(bytes).unwrap_or(usize::MAX)) + budget.answer;
        let guess = (asked.min(budget.window) as f64 * GUESS) as u64;
        // A limit that was known already did not help: then it is another figure that counts.
        let limit = said
            .limit
            .filter(|l| *l < budget.window || said.counted.is_some())
            .unwrap_or(guess);
        self.log.store.learn_limit(model, limit)?;
        let learned = Entry::Learned {
            model: model.to_string(),
            limit,
            tokens: said.counted,
            bytes,
            silently: false,
            images: None,
        };
        self.log
            .record(Write::of(learned).clearing_stream())
            .await?;
        self.emit_context(ContextChange::Learned);
        Ok(true)
    }

    /// A request that was refused for its images is sent again without them. False when they
    /// were not the reason.
    pub(super) async fn learn_of_images(
        &mut self,
        model: &str,
        failure: &Failure,
    ) -> Result<bool, EngineError> {
        let Some(refusal) = unsent::refusal(failure.class, &failure.message, model) else {
            return Ok(false);
        };
        if self.log.state.learned >= MAX_LEARNED {
            return Ok(false);
        }
        let known = self.log.state.limits.get(model).copied();
        let window = || self.log.policy.budget_of(&self.log.state, model).window;
        let learned = Entry::Learned {
            model: model.to_string(),
            // A version that knows nothing of `images` reads this as what it knows already.
            limit: known.unwrap_or_else(window),
            tokens: None,
            bytes: 0,
            silently: false,
            images: Some(refusal),
        };
        self.log
            .record(Write::of(learned).clearing_stream())
            .await?;
        self.emit_context(ContextChange::ImagesRefused);
        Ok(true)
    }

    /// A server that cuts long requests and says nothing is found out by its counts.
    pub(super) async fn learn_silent_limit(&mut self, count: Count) -> Result<(), EngineError> {
        let Count { tokens, bytes } = count;
        let model = self.log.state.model.clone();
        self.log.store.learn_limit(&model, tokens)?;
        let learned = Entry::Learned {
            model,
            limit: tokens,
            tokens: Some(tokens),
            // When the first request was cut already, its bytes are no measure.
            bytes: bytes.min((tokens as f64 * BYTES_PER_TOKEN) as u64),
            silently: true,
            images: None,
        };
        self.log.record(Write::of(learned)).await?;
        self.emit_context(ContextChange::LearnedSilently);
        Ok(())
    }

    pub(super) fn emit_near_limit(&mut self, tokens: u64, budget: &Budget) {
        if tokens * 10 > budget.hard() * 8 && !self.summaries.near_limit_emitted {
            self.summaries.near_limit_emitted = true;
            self.emit_context(ContextChange::NearLimit);
        }
    }

    fn emit_context(&mut self, what: ContextChange) {
        let budget = self.log.budget();
        let windows = &self.log.policy.windows;
        let parts = Parts::of(&self.log.state, &budget, windows);
        let figures = ContextFigures {
            what,
            request_tokens: parts.all(),
            hard_tokens: budget.hard(),
            summary_tokens: parts.summary,
            window_entries: self.log.state.context.len(),
            cached_tokens: self.log.state.usage.cached,
        };
        tracing::info!(session = self.log.head.session(), ?figures, "context");
        self.log.emit(Event::Context(figures));
    }
}

fn written(model: String, reply: Reply) -> Written {
    let usage = reply.usage;
    let words = reply.blocks.into_iter().filter_map(|block| match block {
        Block::Text { text, .. } => Some(text),
        Block::Thinking { .. } | Block::Call { .. } => None,
    });
    Written {
        text: words.collect::<Vec<_>>().join("\n"),
        spent: Spent { model, usage },
    }
}

fn unanswered(why: &str) -> Failure {
    Failure {
        class: FailureClass::Network,
        message: why.to_string(),
        hint: None,
    }
}
