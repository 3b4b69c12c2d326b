//! An unlimited context: compaction, continuation notes, and limits of models that become known.
//!
//! A summary is made in the background while the loop continues. Its range follows from the state,
//! so a summary that a crash interrupted is made again. A summary whose range is no longer next is
//! dropped. The loop waits only at the hard limit.

use std::collections::{BTreeMap, VecDeque};
use std::pin::Pin;
use std::rc::Rc;
use std::time::{Duration, Instant};

use tokio::time::timeout_at;

use super::broken_tries::UnrecordedTries;
use super::{Engine, EngineError, Event, Recorder, Write};
use crate::core::budget::{BYTES_PER_TOKEN, Budget};
use crate::core::compacting::{self, Summary};
use crate::core::entry::{
    Block, Entry, Failure, FailureClass, HookEvent, Learned, LearnedForm, PromptPrefix, Record,
    Refusal, RequestForm, Seq, Spent,
};
use crate::core::gauge::Parts;
use crate::core::limits::{self, Count, Figures};
use crate::core::next::BackgroundSummary;
use crate::core::request::Request;
use crate::core::summary::{self, Fallback};
use crate::core::turn::TurnRange;
use crate::core::{freeing, refused_history, request_form, unsent, window};
use crate::model::{Delta, Reply};
use crate::world::{Images, World};

/// Settings for summaries of the turns that leave the context.
pub struct Summarising {
    /// The summary model. `None`: the session's own model.
    pub model: Option<String>,
    /// Models that are asked in turn, if the provider does not have the summary model any more.
    pub others: Vec<String>,
    /// Instructions for the rolling summary, and for the model's part of a continuation note.
    pub instructions: String,
    /// Instructions for the model when the context starts over from a note.
    pub continuation: String,
    /// Instructions to `model` for a title. `None`: no title is made.
    pub title: Option<String>,
    /// The replacement for a summary that could not be made.
    pub fallback: Fallback,
    /// Maximum time to wait for a summary.
    pub patience: Duration,
}

/// A renderer of layers 1 and 2 for a window of this size.
pub type Render = Box<dyn Fn(&Budget) -> PromptPrefix>;

/// Number of failures in a row after which the summary model is not asked for [`LEFT_ALONE`].
const MAX_FAILURES: u32 = 3;
/// Time for which a failing summary model is not asked again.
const LEFT_ALONE: Duration = Duration::from_secs(300);

/// Maximum number of limits that are learnt in a row. The request fails after that.
pub(super) const MAX_LEARNED: u32 = 8;

/// The guess for a limit without figures, as a fraction of the refused request.
const GUESS: f64 = 0.7;

/// Figures of the context, for the log file and the stream of events.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ContextFigures {
    /// The change that these figures follow.
    pub what: ContextChange,
    /// Estimated tokens of the next request.
    pub request_tokens: u64,
    /// Maximum tokens of a request that is sent.
    pub hard_tokens: u64,
    /// Tokens of the summary or note in the next request.
    pub summary_tokens: u64,
    /// Number of entries that the request has in full.
    pub window_entries: usize,
    /// Tokens that the session has read from the provider's cache so far.
    pub cached_tokens: u64,
}

/// The answer of a summary model, and the tokens that it took.
pub(super) struct Written {
    pub(super) text: String,
    pub(super) spent: Spent,
    /// Why another model than the configured one wrote it.
    pub(super) notice: Option<String>,
}

/// A change of the context, or the warning that one is near.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ContextChange {
    /// The oldest turns were summarised.
    Compacted,
    /// The context started over from a note.
    Continued,
    /// Old results left the context, and a line replaces each of them.
    Freed,
    /// The context window of the model became known from its server.
    Learned,
    /// A limit became known without an error: the server truncated long requests silently.
    LearnedSilently,
    /// The server named no figure: this limit applies to this session only, tokens.
    Guessed(u64),
    /// The server refused images: they are sent as text from now on.
    ImagesRefused,
    /// The server refused the history: it is sent in this form from now on. `None`: as it is.
    Reformed(Option<RequestForm>),
    /// The server takes no longer answer than this, in tokens.
    OutputLearned(u64),
    /// Thinking used up the answer: from now on it may have this length, in tokens.
    OutputRaised(u64),
    /// The next request has over 80 % of the maximum tokens.
    NearLimit,
}

/// A summary that could not be made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SummaryFailure {
    /// The error of the server, or what was wrong with the answer.
    pub why: String,
    pub stands_in: StandIn,
    /// Time for which the summary model is not asked again, since it failed too often.
    pub left_alone: Option<Duration>,
}

impl SummaryFailure {
    /// Returns the failure as a sentence for a person.
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

/// The replacement for a text that the summary model did not write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StandIn {
    /// An extract made from the log.
    Digest,
    /// A line that names the entries.
    Placeholder,
    /// A note made from the log alone.
    Log,
}

impl StandIn {
    fn of(fallback: Fallback) -> StandIn {
        match fallback {
            Fallback::Digest => StandIn::Digest,
            Fallback::Placeholder => StandIn::Placeholder,
        }
    }

    /// Returns its name for a person.
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

/// A running or finished summary.
pub(super) struct SummaryTask {
    range: TurnRange,
    work: Option<Work>,
    made: Option<Result<Written, Failure>>,
}

/// The state of summaries in the engine.
pub(super) struct Summaries {
    pub(super) summarising: Summarising,
    render: Render,
    pending: Option<SummaryTask>,
    /// When the summary model last failed. `failures` counts the failures in a row.
    failed_at: Option<Instant>,
    failures: u32,
    near_limit_emitted: bool,
    /// Tokens of summary models since the last entry that records them, also those of dropped
    /// summaries.
    pub(super) unrecorded: UnrecordedTries,
    /// Context windows that servers named to this process, tokens.
    named_windows: BTreeMap<String, u64>,
    /// The model and the bytes of the last request that was refused as too long, although it is not.
    odd_refusal: Option<(String, u64)>,
    /// Models whose servers were asked for what they say about them.
    asked_servers: Vec<String>,
    /// Of these, those whose requests share the memory of one window.
    sharing_memory: Vec<String>,
    /// Reason for another summary model, which a person was not told yet.
    notice: Option<String>,
}

impl Summaries {
    pub(super) fn new(summarising: Summarising, render: Render) -> Summaries {
        Summaries {
            summarising,
            render,
            pending: None,
            failed_at: None,
            failures: 0,
            near_limit_emitted: false,
            unrecorded: UnrecordedTries::default(),
            named_windows: BTreeMap::new(),
            odd_refusal: None,
            asked_servers: Vec::new(),
            sharing_memory: Vec::new(),
            notice: None,
        }
    }

    pub(super) fn is_running(&self) -> bool {
        self.pending.as_ref().is_some_and(|p| p.work.is_some())
    }

    /// Drives the running summary to its end. Never returns if none is running.
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

    /// Returns the progress of the summary in a session with this model.
    pub(super) fn progress(&self, model: &str) -> BackgroundSummary {
        let provider = |model: &str| model.split_once('/').map(|(name, _)| name.to_string());
        let writer = self.summarising.model.as_deref().unwrap_or(model);
        let mut sharing = self.sharing_memory.iter();
        let is_shared = sharing.any(|one| one == model) && provider(writer) == provider(model);
        match &self.pending {
            Some(SummaryTask {
                range,
                made: Some(_),
                ..
            }) => BackgroundSummary::Ready(*range),
            Some(_) => BackgroundSummary::Running,
            None if self.is_left_alone() => BackgroundSummary::Paused,
            None if is_shared => BackgroundSummary::Alone,
            None => BackgroundSummary::None,
        }
    }

    /// Drops a summary whose range is no longer next. The tokens that it took still count.
    fn drop_pending(&mut self) {
        if let Some(SummaryTask {
            made: Some(made), ..
        }) = self.pending.take()
        {
            let _dropped = self.words(made);
        }
    }

    /// Returns the text of a summary, and adds the tokens that it took to those of the next entry.
    fn words(&mut self, made: Result<Written, Failure>) -> Result<String, Failure> {
        let Written {
            text,
            spent,
            notice,
        } = made?;
        if notice.is_some() {
            self.notice = notice;
            // Later summaries need not find out again.
            if let Some(model) = &mut self.summarising.model {
                model.clone_from(&spent.model);
            }
        }
        self.unrecorded.add(&spent.model, Some(spent.usage));
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

    pub(super) async fn finish_compaction<W: World>(
        &mut self,
        log: &mut Recorder<W>,
        range: TurnRange,
        made: Result<Written, Failure>,
    ) -> Result<(), EngineError> {
        let made = self.words(made);
        let budget = log.budget();
        let max_bytes = budget.bytes(log.policy.windows.summary_tokens(&budget));
        let records = self.to_summarise(log, range)?;
        let stands_in = StandIn::of(self.summarising.fallback);
        let accepted = self.accepted(log, made, max_bytes, stands_in, &records);
        self.record_compaction(log, range, accepted).await
    }

    /// Returns the text of the model if it can be used. If not, emits why and what replaces it.
    pub(super) fn accepted<W: World>(
        &mut self,
        log: &mut Recorder<W>,
        made: Result<String, Failure>,
        max_bytes: usize,
        stands_in: StandIn,
        about: &[Record],
    ) -> Option<String> {
        if let Some(notice) = self.notice.take() {
            log.emit(Event::Notice(notice));
        }
        let accepted = made.map(|text| match summary::flaw(&text, about) {
            Some(flaw) => Err(flaw),
            None => Ok(summary::accept(&text, max_bytes).unwrap_or_default()),
        });
        let why = match accepted {
            Ok(Ok(text)) => {
                self.answered();
                return Some(text);
            }
            Ok(Err(flaw)) => flaw.to_string(),
            Err(failure) => failure.message,
        };
        self.failed();
        tracing::warn!(failures = self.failures, "the summary model failed");
        let failed = SummaryFailure {
            why,
            stands_in,
            left_alone: self.is_left_alone().then_some(LEFT_ALONE),
        };
        log.emit(Event::SummaryFailed(failed));
        None
    }

    /// Records the summary of the model, or the replacement if there is none.
    pub(super) async fn record_compaction<W: World>(
        &mut self,
        log: &mut Recorder<W>,
        range: TurnRange,
        made: Option<String>,
    ) -> Result<(), EngineError> {
        let summary = match (made, self.summarising.fallback) {
            (Some(text), _) => Summary::Model(text),
            (None, Fallback::Digest) => Summary::Digest(self.to_summarise(log, range)?),
            (None, Fallback::Placeholder) => Summary::Placeholder,
        };
        let entries = compacting::compacted(
            &log.state,
            &log.budget(),
            &log.policy.windows,
            range,
            summary,
            self.unrecorded.take(),
        );
        log.record(Write::of_all(entries)).await?;
        self.near_limit_emitted = false;
        self.emit_context(log, ContextChange::Compacted);
        Ok(())
    }

    /// Replaces each of these results by a line from now on.
    pub(super) async fn free<W: World>(
        &mut self,
        log: &mut Recorder<W>,
        results: &[Seq],
    ) -> Result<(), EngineError> {
        if let Some(freed) = freeing::entry(&log.state, results) {
            log.record(Write::of(freed)).await?;
            self.near_limit_emitted = false;
            self.emit_context(log, ContextChange::Freed);
        }
        Ok(())
    }

    pub(super) fn begin_summary<W: World>(
        &mut self,
        log: &mut Recorder<W>,
        range: TurnRange,
    ) -> Result<(), EngineError> {
        self.drop_pending();
        let records = self.to_summarise(log, range)?;
        let preface = log.state.preface.as_ref();
        let before = preface.and_then(|p| match p.unsound_from {
            // The records to summarise contain the rest.
            Some(_) => p.sound.clone(),
            None => p.summary.clone().or_else(|| p.sound.clone()),
        });
        let instructions = &self.summarising.instructions;
        let work = self.summarise(
            log,
            instructions,
            before.as_deref(),
            records,
            Some(range.last),
        )?;
        self.pending = Some(SummaryTask {
            range,
            work: Some(work),
            made: None,
        });
        Ok(())
    }

    /// Returns the records of this range, after those that left the context without a summary.
    pub(super) fn to_summarise<W: World>(
        &self,
        log: &Recorder<W>,
        range: TurnRange,
    ) -> Result<Vec<Record>, EngineError> {
        let mut records = match compacting::unsummarised(&log.state) {
            Some(range) => log.store.records(log.head.session(), range)?,
            None => Vec::new(),
        };
        records.extend(compacting::leaving(&log.state, range));
        Ok(records)
    }

    /// Returns the models that are asked after this one, if its provider does not have it.
    fn others(&self, model: &str) -> VecDeque<String> {
        let others = self.summarising.others.iter();
        others.filter(|other| *other != model).cloned().collect()
    }

    /// Returns the request for a summary up to this entry at the end of the last request of the
    /// session's model, with its images. `None`: another model summarises, or it does not fit.
    fn in_place<W: World>(
        &self,
        log: &Recorder<W>,
        records: &[Record],
        last: Seq,
    ) -> Result<Option<(Request, Images)>, EngineError> {
        let other = self.summarising.model.as_ref();
        if other.is_some_and(|model| *model != log.state.model) {
            return Ok(None);
        }
        let (budget, windows) = (log.budget(), &log.policy.windows);
        let request = summary::request_in_place(
            &log.state,
            records,
            &budget,
            windows.inline_max_bytes,
            last,
            windows.summary_tokens(&budget),
        );
        let Some(request) = request else {
            return Ok(None);
        };
        let images = log.images(&request)?;
        Ok(Some((request, images)))
    }

    /// Asks the summary model about these records. `last`: their end, if the session's own model may
    /// be asked at the end of its last request. If a server refuses the request as too long, a
    /// shorter one is sent at once. If it does not have the model, the next one is asked.
    pub(super) fn summarise<W: World>(
        &self,
        log: &Recorder<W>,
        instructions: &str,
        before: Option<&str>,
        records: Vec<Record>,
        last: Option<Seq>,
    ) -> Result<Work, EngineError> {
        let mut in_place = match last {
            Some(last) => self.in_place(log, &records, last)?,
            None => None,
        };
        let model = self.summarising.model.as_ref().unwrap_or(&log.state.model);
        let own = log.budget();
        let room = log.policy.budget_of(&log.state, model);
        // The range fitted into the window of the session's model. The window of a model that was
        // never asked is only assumed.
        let room_of = |room: Budget| match own.window < room.window {
            true => Budget {
                bytes_per_token: room.bytes_per_token,
                ..own
            },
            false => room,
        };
        let others = self.others(model).into_iter().map(|other| {
            let room = room_of(log.policy.budget_of(&log.state, &other));
            (other, room)
        });
        let mut others: VecDeque<(String, Budget)> = others.collect();
        let mut room = room_of(room);
        let tokens = log.policy.windows.summary_tokens(&log.budget());
        let freed = log.state.freed.clone();
        let asker = self.asker(&log.world);
        let (mut model, instructions) = (model.clone(), instructions.to_string());
        let before = before.map(str::to_string);
        let request = move |model: &str, room: &Budget| {
            let before = before.as_deref();
            summary::request(model, &instructions, before, &records, &freed, room, tokens)
        };
        Ok(Box::pin(async move {
            let mut notice = None;
            loop {
                let here = in_place.take();
                let is_here = here.is_some();
                let (asked, images) =
                    here.unwrap_or_else(|| (request(&model, &room), Images::new()));
                let failure = match asker.ask(asked, images).await {
                    // It continued with the task: it is asked again without tools.
                    Ok(reply) if is_here && calls(&reply) => {
                        asker.unrecorded.add(&model, Some(reply.usage));
                        continue;
                    }
                    Ok(reply) => return Ok(written(model, reply, notice)),
                    Err(failure) => failure,
                };
                let is_refused = matches!(
                    failure.class,
                    FailureClass::TooLong | FailureClass::BadRequest
                );
                if is_here && is_refused {
                    continue;
                }
                let is_too_long = failure.class == FailureClass::TooLong;
                let smaller = summary::smaller_room(&room, &failure);
                if let Some(smaller) = smaller.filter(|_| is_too_long) {
                    room = smaller;
                    continue;
                }
                let next = others.pop_front();
                let Some(next) = next.filter(|_| failure.class.needs_other_model()) else {
                    return Err(failure);
                };
                notice = Some(replaced(&model, &next.0, &failure));
                (model, room) = next;
            }
        }))
    }

    fn asker<W: World>(&self, world: &Rc<W>) -> Asker<W> {
        Asker {
            world: Rc::clone(world),
            deadline: Instant::now() + self.summarising.patience,
            unrecorded: self.unrecorded.clone(),
        }
    }

    /// Asks the summary model something else.
    pub(super) fn ask<W: World>(&self, log: &Recorder<W>, mut request: Request) -> Work {
        let mut others = self.others(&request.model);
        let asker = self.asker(&log.world);
        Box::pin(async move {
            let mut notice = None;
            loop {
                let model = request.model.clone();
                let failure = match asker.ask(request.clone(), Images::new()).await {
                    Ok(reply) => return Ok(written(model, reply, notice)),
                    Err(failure) => failure,
                };
                let next = others.pop_front();
                let Some(next) = next.filter(|_| failure.class.needs_other_model()) else {
                    return Err(failure);
                };
                notice = Some(replaced(&model, &next, &failure));
                request.model = next;
            }
        })
    }

    /// Learns the model's window from the refusal of a request that was too long. Returns false if
    /// this happened too often in a row: then it is a failure.
    pub(super) async fn learn<W: World>(
        &mut self,
        log: &mut Recorder<W>,
        model: &str,
        failure: &Failure,
        bytes: u64,
    ) -> Result<bool, EngineError> {
        if failure.class != FailureClass::TooLong || log.state.learned >= MAX_LEARNED {
            return Ok(false);
        }
        // Not the budget of the session's model, which may have changed during the request.
        let budget = log.policy.budget_of(&log.state, model);
        let said = limits::figures(&failure.message);
        let asked = budget.tokens(usize::try_from(bytes).unwrap_or(usize::MAX)) + budget.answer;
        let guess = (asked.min(budget.window) as f64 * GUESS) as u64;
        // A limit that was known already did not prevent the refusal, so another limit applies.
        let limit = said
            .limit
            .filter(|l| *l < budget.window || said.counted.is_some())
            .unwrap_or(guess);
        let is_guess = self.is_odd(model, failure, asked);
        if !is_guess {
            log.store.models().learn_limit(model, limit)?;
        }
        let learned = Entry::Learned(Learned {
            model: model.to_string(),
            limit,
            tokens: said.counted,
            bytes,
            guess: is_guess,
            ..Learned::default()
        });
        log.record(Write::of(learned).clearing_stream()).await?;
        let change = if is_guess {
            ContextChange::Guessed(limit)
        } else {
            ContextChange::Learned
        };
        self.emit_context(log, change);
        Ok(true)
    }

    /// Returns whether a refusal as too long names no figure although the request fits the window that
    /// the server names. It may be about something else: llama.cpp refuses so when its slots share
    /// their memory.
    fn is_odd(&self, model: &str, failure: &Failure, asked: u64) -> bool {
        let fits = |window: &u64| asked <= *window;
        failure.class == FailureClass::TooLong
            && limits::figures(&failure.message) == Figures::default()
            && self.named_windows.get(model).is_some_and(fits)
    }

    /// Returns whether to send this request again before anything is learnt from its refusal: it is
    /// odd, and the first one of this request.
    pub(super) fn repeats_odd_refusal<W: World>(
        &mut self,
        log: &mut Recorder<W>,
        model: &str,
        failure: &Failure,
        bytes: u64,
    ) -> bool {
        let budget = log.policy.budget_of(&log.state, model);
        let asked = budget.tokens(usize::try_from(bytes).unwrap_or(usize::MAX)) + budget.answer;
        if !self.is_odd(model, failure, asked) {
            return false;
        }
        // The place in the log may differ: what broke off is billed, and the timer saves.
        let this = (model.to_string(), bytes);
        let is_first = self.odd_refusal.as_ref() != Some(&this);
        self.odd_refusal = Some(this);
        if is_first {
            log.emit(Event::Notice(format!(
                "{model} refused a request that fits its window; it is sent once more: {}",
                failure.message
            )));
        }
        is_first
    }

    /// Records that the server refused the images, so the request is sent again without them.
    /// Returns false if they were not the reason.
    pub(super) async fn learn_of_images<W: World>(
        &mut self,
        log: &mut Recorder<W>,
        model: &str,
        failure: &Failure,
    ) -> Result<bool, EngineError> {
        let Some(refusal) = unsent::refusal(failure.class, &failure.message, model) else {
            return Ok(false);
        };
        if log.state.learned >= MAX_LEARNED {
            return Ok(false);
        }
        if refusal.every {
            self.keep_forms(log, model, &[RequestForm::WithoutImages]);
        }
        self.record_refused_images(log, model, refusal).await?;
        self.emit_context(log, ContextChange::ImagesRefused);
        Ok(true)
    }

    async fn record_refused_images<W: World>(
        &mut self,
        log: &mut Recorder<W>,
        model: &str,
        refusal: Refusal,
    ) -> Result<(), EngineError> {
        let known = log.state.limits.get(model).copied();
        let window = || log.policy.budget_of(&log.state, model).window;
        let learned = Entry::Learned(Learned {
            model: model.to_string(),
            // A version without `images` reads this as a limit that it knows already.
            limit: known.unwrap_or_else(window),
            images: Some(refusal),
            ..Learned::default()
        });
        log.record(Write::of(learned).clearing_stream()).await
    }

    /// Records the forms of the history that the model's server is known to need, before its first
    /// request. Those that earlier sessions learnt count for a session that begins. Returns whether
    /// there are such.
    pub(super) async fn begin_in_form<W: World>(
        &mut self,
        log: &mut Recorder<W>,
    ) -> Result<bool, EngineError> {
        let model = log.state.model.clone();
        if log.state.request_forms.of(&model).is_some() {
            return Ok(false);
        }
        // A history that this model accepted stays as it is.
        if log.state.spent.contains_key(&model) {
            return Ok(false);
        }
        let mut forms = log.world.first_forms(&model);
        if log.state.replies == 0 {
            for form in log.store.models().forms(&model, log.world.now_ms())? {
                if !forms.contains(&form) {
                    forms.push(form);
                }
            }
        }
        let of_images = forms
            .iter()
            .position(|form| *form == RequestForm::WithoutImages);
        let takes_none = of_images.map(|at| forms.remove(at)).is_some();
        if takes_none && !log.state.refused_images.contains_key(&model) {
            let refusal = Refusal {
                why: "it took none in earlier sessions".to_string(),
                every: true,
            };
            self.record_refused_images(log, &model, refusal).await?;
            log.emit(Event::Notice(format!(
                "{model} took no images in earlier sessions, so they are sent as text; to try \
                 again: rewake models --forget {model}"
            )));
            return Ok(true);
        }
        if forms.is_empty() {
            return Ok(false);
        }
        self.record_form(log, request_form::known_before(&forms))
            .await?;
        Ok(true)
    }

    /// Returns the forms for later sessions that an answer of this model shows to be accepted.
    pub(super) fn accepted_forms<W: World>(
        &self,
        log: &Recorder<W>,
        model: &str,
    ) -> Vec<RequestForm> {
        let known = log.state.request_forms.of(model);
        known
            .into_iter()
            .flat_map(|known| known.to_keep())
            .collect()
    }

    /// Keeps them, once their answer is recorded. A session needs none of it.
    pub(super) fn keep_forms<W: World>(
        &self,
        log: &Recorder<W>,
        model: &str,
        forms: &[RequestForm],
    ) {
        for form in forms {
            let now_ms = log.world.now_ms();
            if let Err(error) = log.store.models().keep_form(model, *form, now_ms) {
                tracing::warn!(%error, model, ?form, "the form is not kept for later sessions");
            }
        }
    }

    /// Records another form of the history to try, since the server refused this one. Returns false
    /// if that was not the reason, or if nothing is left to try.
    pub(super) async fn learn_form<W: World>(
        &mut self,
        log: &mut Recorder<W>,
        model: &str,
        failure: &Failure,
    ) -> Result<bool, EngineError> {
        // Another model was chosen during the request.
        if log.state.model != model {
            return Ok(false);
        }
        let budget = log.budget();
        let next = refused_history::next_form(&log.state, failure, &budget, &log.policy.windows);
        let Some(form) = next else {
            return Ok(false);
        };
        let shown = form.forms.last().copied();
        self.record_form(log, form).await?;
        self.emit_context(log, ContextChange::Reformed(shown));
        Ok(true)
    }

    async fn record_form<W: World>(
        &mut self,
        log: &mut Recorder<W>,
        form: LearnedForm,
    ) -> Result<(), EngineError> {
        let model = log.state.model.clone();
        let learned = Entry::Learned(Learned {
            // A version without `form` reads this as a limit that it knows already.
            limit: log.budget().window,
            model,
            form: Some(Box::new(form)),
            ..Learned::default()
        });
        log.record(Write::of(learned).clearing_stream()).await
    }

    /// Records a limit that the token counts of the server revealed: it truncates longer requests
    /// silently.
    pub(super) async fn learn_silent_limit<W: World>(
        &mut self,
        log: &mut Recorder<W>,
        count: Count,
    ) -> Result<(), EngineError> {
        let Count { tokens, bytes } = count;
        let model = log.state.model.clone();
        log.store.models().learn_limit(&model, tokens)?;
        let learned = Entry::Learned(Learned {
            model,
            limit: tokens,
            tokens: Some(tokens),
            // If the first request was truncated already, its size in bytes is not a measure.
            bytes: bytes.min((tokens as f64 * BYTES_PER_TOKEN) as u64),
            silently: true,
            ..Learned::default()
        });
        log.record(Write::of(learned)).await?;
        self.emit_context(log, ContextChange::LearnedSilently);
        Ok(())
    }

    pub(super) fn emit_near_limit<W: World>(
        &mut self,
        log: &mut Recorder<W>,
        tokens: u64,
        budget: &Budget,
    ) {
        if tokens * 10 > budget.hard() * 8 && !self.near_limit_emitted {
            self.near_limit_emitted = true;
            self.emit_context(log, ContextChange::NearLimit);
        }
    }

    pub(super) fn emit_context<W: World>(&mut self, log: &mut Recorder<W>, what: ContextChange) {
        let budget = log.budget();
        let windows = &log.policy.windows;
        let parts = Parts::of(&log.state, &budget, windows);
        let figures = ContextFigures {
            what,
            request_tokens: parts.all(),
            hard_tokens: budget.hard(),
            summary_tokens: parts.summary,
            window_entries: log.state.context.len(),
            cached_tokens: log.state.usage.cached,
        };
        tracing::info!(session = log.head.session(), ?figures, "context");
        log.emit(Event::Context(figures));
    }
}

impl<W: World> Engine<W> {
    /// Replaces these turns by a summary. Waits for the summary, and starts it if it does not run
    /// yet. If the summary model cannot be asked, a digest replaces the turns. `trigger` is `auto`
    /// or `manual`, for hooks.
    pub(super) async fn compact_range(
        &mut self,
        range: TurnRange,
        trigger: &'static str,
    ) -> Result<(), EngineError> {
        let is_begun = self
            .summaries
            .pending
            .as_ref()
            .is_some_and(|p| p.range == range);
        if !is_begun {
            self.log.fire_hooks(HookEvent::PreCompact, trigger);
            // A running summary of another range would come too late for this one.
            if self.summaries.is_left_alone() {
                return self
                    .summaries
                    .record_compaction(&mut self.log, range, None)
                    .await;
            }
            self.summaries.begin_summary(&mut self.log, range)?;
        }
        let Some(pending) = self.summaries.pending.take() else {
            return self
                .summaries
                .record_compaction(&mut self.log, range, None)
                .await;
        };
        let made = match (pending.made, pending.work) {
            (Some(made), _) => made,
            (None, Some(work)) => match self
                .drive_step_silently(work, super::drive_step::Stoppable::Yes)
                .await?
            {
                Some(made) => made,
                None => return Ok(()),
            },
            (None, None) => Err(unanswered("nothing was asked")),
        };
        self.summaries
            .finish_compaction(&mut self.log, range, made)
            .await
    }

    /// Starts the context over from a note, and renders the layers for the current window again.
    pub(super) async fn continue_from_note(&mut self) -> Result<(), EngineError> {
        self.summaries.drop_pending();
        self.log.fire_hooks(HookEvent::PreCompact, "auto");
        self.render_again().await?;
        let budget = self.log.budget();
        let story = match self.summaries.is_left_alone() || self.log.state.context.is_empty() {
            true => None,
            false => match self.ask_for_story().await? {
                Some(story) => story,
                None => return Ok(()),
            },
        };
        let spent = self.summaries.unrecorded.take();
        let world = Rc::clone(&self.log.world);
        let exists = move |path: &str| world.is_there(std::path::Path::new(path));
        let continued = compacting::continued(&self.log.state, &budget, story, &exists, spent);
        self.log.record(Write::of(continued)).await?;
        self.summaries.near_limit_emitted = false;
        self.summaries
            .emit_context(&mut self.log, ContextChange::Continued);
        Ok(())
    }

    /// Asks the model for its part of the note. The outer `None`: the user stopped it.
    async fn ask_for_story(&mut self) -> Result<Option<Option<String>>, EngineError> {
        let preface = self.log.state.preface.as_ref();
        let before = preface.and_then(|p| p.summary.clone().or_else(|| p.sound.clone()));
        let instructions = &self.summaries.summarising.continuation;
        let records = self.log.state.context.clone();
        let work =
            self.summaries
                .summarise(&self.log, instructions, before.as_deref(), records, None)?;
        let Some(made) = self
            .drive_step_silently(work, super::drive_step::Stoppable::Yes)
            .await?
        else {
            return Ok(None);
        };
        let budget = self.log.budget();
        let max_bytes = budget.bytes(self.log.policy.windows.summary_tokens(&budget));
        let made = self.summaries.words(made);
        Ok(Some(self.summaries.accepted(
            &mut self.log,
            made,
            max_bytes,
            StandIn::Log,
            &[],
        )))
    }

    /// Compacts all but the newest turn, as a person asked. Returns false if there is nothing to
    /// compact.
    pub async fn compact(&mut self) -> Result<bool, EngineError> {
        match window::compactable(&self.log.state) {
            Some(range) => {
                self.compact_range(range, "manual").await?;
                Ok(true)
            }
            None => Ok(false),
        }
    }

    /// Asks the server of a model what it says about it, once in each process: it may have been
    /// restarted with another context window. Returns true if the window changed: then another step may
    /// be next.
    pub(super) async fn ask_about_model(&mut self) -> Result<bool, EngineError> {
        let model = self.log.state.model.clone();
        if self.summaries.asked_servers.contains(&model) {
            return Ok(false);
        }
        self.summaries.asked_servers.push(model.clone());
        let has_window = self.log.state.limits.contains_key(&model);
        let world = Rc::clone(&self.log.world);
        let asked = model.clone();
        let step = async move { world.server_facts(&asked, has_window).await };
        let said = self
            .drive_step_silently(step, super::drive_step::Stoppable::Yes)
            .await?
            .unwrap_or_default();
        if let Some(way_out) = said.no_tools {
            let notice = format!("{model} cannot call tools, as its server says: {way_out}");
            self.log.emit(Event::Notice(notice));
        }
        if said.shares_memory {
            self.summaries.sharing_memory.push(model.clone());
        }
        if let Some(named) = said.window {
            self.summaries.named_windows.insert(model.clone(), named);
        }
        let is_other = |limit: &u64| *limit != self.log.budget().window;
        let Some(limit) = said.window.filter(is_other) else {
            return Ok(false);
        };
        self.log.store.models().learn_limit(&model, limit)?;
        let learned = Entry::Learned(Learned {
            model,
            limit,
            ..Learned::default()
        });
        self.log.record(Write::of(learned)).await?;
        self.summaries
            .emit_context(&mut self.log, ContextChange::Learned);
        // The first request already has the system prompt and the tools of this window.
        if self.log.state.replies == 0 {
            self.render_again().await?;
        }
        Ok(true)
    }

    /// Records the layers for the current window, if they differ.
    async fn render_again(&mut self) -> Result<(), EngineError> {
        let layers = (self.summaries.render)(&self.log.budget());
        if layers == self.log.state.layers {
            return Ok(());
        }
        let version = self.log.state.version.clone();
        self.log
            .record(Write::of(Entry::Rendered { version, layers }))
            .await
    }
}

/// Asks summary models until a deadline.
struct Asker<W> {
    world: Rc<W>,
    deadline: Instant,
    unrecorded: UnrecordedTries,
}

impl<W: World> Asker<W> {
    async fn ask(&self, request: Request, images: Images) -> Result<Reply, Failure> {
        let mut tries = self.unrecorded.open(&request);
        let mut follow = |delta: Delta| tries.follow(&delta);
        let asked = self.world.summarise(request, images, &mut follow);
        let reply = timeout_at(self.deadline.into(), asked).await;
        let reply = reply.unwrap_or_else(|_| Err(too_late()));
        if reply.is_ok() {
            tries.answered();
        }
        reply
    }
}

/// Returns the notice that another model is asked for summaries and titles.
fn replaced(model: &str, other: &str, failure: &Failure) -> String {
    format!(
        "{model} is not there for summaries and titles, so {other} is asked: {}",
        failure.message
    )
}

fn written(model: String, reply: Reply, notice: Option<String>) -> Written {
    let usage = reply.usage;
    Written {
        text: Block::joined_texts(&reply.blocks),
        spent: Spent { model, usage },
        notice,
    }
}

fn calls(reply: &Reply) -> bool {
    let is_call = |block: &Block| matches!(block, Block::Call { .. });
    reply.blocks.iter().any(is_call)
}

fn too_late() -> Failure {
    unanswered("the summary model did not answer in time")
}

fn unanswered(why: &str) -> Failure {
    Failure::new(FailureClass::Network, why)
}
