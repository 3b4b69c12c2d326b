//! `next(&State, &Policy, &Pending) -> Step`: every decision of the loop.
//!
//! It is asked only when no step is in progress. So an open `Started` that it sees means a
//! crash, a stop that is still to be obeyed, or a sub-agent that is at work; all are settled in
//! the same way.

use super::entry::{CallId, Seq};
use super::exchange::{self, Range};
use super::fate::{Fate, fate};
use super::limits::Count;
use super::run_limits;
use super::settings::Policy;
use super::state::{OpenCall, State};
use super::structured::Standing;
use super::tool::Class;
use super::window::{self, Due, Pressure};

/// Starts in a row without progress, after which it is a crash loop.
pub const MAX_RESTARTS: u32 = 3;
/// Answers in a row that cannot be used, after which the user is asked.
pub const MAX_NONSENSE: u32 = 5;

/// Sub-agents that work at the same time.
pub const MAX_TASKS_AT_ONCE: usize = 4;
/// Tasks that are given for one message of the user.
pub const MAX_TASKS_OF_PROMPT: u32 = 16;

/// What waits outside of the log, looked up between two steps.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Pending {
    /// This start named another model or mode than the session was using.
    pub choice: bool,
    /// What is owed waits until a person says something or asks to go on.
    pub waits_for_person: bool,
    /// A server asks, an earlier start showed it to a person, and this one has none.
    pub left_open: bool,
    /// This version has another system prompt or other tools than the log.
    pub rendering: bool,
    /// A person asked for a compaction.
    pub compaction: bool,
    /// A background command that ended, by its id.
    pub ended: Option<String>,
    /// A shell command of the user that is over, by the place of its entry.
    pub user_ended: Option<Seq>,
    /// A message or a note waits in the inbox and may be taken out.
    pub message: bool,
    /// How far the summary is that is made in the background.
    pub summary: BackgroundSummary,
    /// [`recall_point`] for which the log and the memories were searched already.
    pub recalled: Option<Seq>,
}

/// The summary that is made while the loop goes on.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum BackgroundSummary {
    /// No summary is being made.
    #[default]
    None,
    /// The summary model was asked and has not answered yet.
    Running,
    /// It was made, or could not be made.
    Ready(Range),
    /// The summary model failed a moment ago and is not asked again yet.
    Paused,
}

/// What is to be done now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// Record the model and the mode that this start named.
    RecordChoice,
    /// Record this version's system prompt and tools.
    Render,
    /// A person asked for it: summarise all but the newest exchange.
    CompactAsAsked,
    /// Tell the model that this background command ended.
    ReportEnd(String),
    /// Record how this shell command of the user ended.
    ReportUserEnd(Seq),
    /// Record the oldest message of the inbox.
    TakeMessage,
    /// Begin to summarise these in the background.
    Summarise(Range),
    /// The server cut long requests and said nothing: record its limit.
    LearnLimit(Count),
    /// Search the log and the memories for what the message or note at this entry is about.
    Recall(Seq),
    /// Ask the model.
    CallModel,
    /// Ask the person about a call.
    Ask(CallId),
    /// Run these: several idempotent calls, or one of any class.
    Run(Vec<CallId>),
    /// A call was begun and has no result: find out.
    Settle(CallId),
    /// A call will not run: give it the result that [`fate`] says.
    Close(CallId),
    /// Compare the answer at this entry with the schema that it has to fit.
    CheckAnswer(Seq),
    /// Put a line in place of each of these results.
    Free(Vec<Seq>),
    /// Put a summary in place of these; wait for it when it is not made yet.
    Compact(Range),
    /// The request is too long however much is summarised: begin again from a note.
    Continue,
    /// The files are being set back: do what is not done yet of it.
    Restore,
    /// Do nothing until something comes from outside.
    Wait(Why),
}

/// Why the loop waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Why {
    /// Nothing is owed.
    Idle,
    /// The user stopped it, or the model call failed for good.
    Halted,
    /// Too many starts came to nothing; a person lifts it.
    CrashLoop,
    /// A person paused it; a person lifts it.
    Paused,
    /// A person was asked, and this start has none: the question stays open.
    Asked,
    /// A limit of answers or of cost is reached; a person lifts it.
    Limit,
    /// The number of answers for one message is used up.
    Turns,
    /// The model's answers cannot be used.
    Nonsense,
    /// The model's answers do not fit the schema.
    Unfit,
}

/// The first rule that fits.
pub fn next(state: &State, policy: &Policy, pending: &Pending) -> Step {
    if pending.choice {
        return Step::RecordChoice;
    }
    let rest = rest(state, policy);
    // A person asked for it, whatever else waits for one.
    if state.restoring.is_some() && rest != Some(Why::CrashLoop) {
        return Step::Restore;
    }
    if rest == Some(Why::Paused) {
        return next_in_pause(state, pending);
    }
    if pending.waits_for_person {
        let asked_for = asked_for(state, pending).filter(|_| rest != Some(Why::CrashLoop));
        return asked_for.unwrap_or(Step::Wait(rest.unwrap_or(Why::Idle)));
    }
    match (state.first_open(), rest) {
        // The user's words lift it.
        (None, Some(Why::CrashLoop)) if pending.message && state.restoring.is_none() => {
            Step::TakeMessage
        }
        (_, Some(Why::CrashLoop)) => Step::Wait(Why::CrashLoop),
        (Some(open), _) if pending.left_open && open.guard.is_some() && !state.is_stopped() => {
            Step::Wait(Why::Asked)
        }
        (Some(open), _) => next_of_call(state, policy, open),
        (None, None) if state.unchecked().is_some() => {
            Step::CheckAnswer(state.unchecked().unwrap_or_default())
        }
        (None, _) => take_in(state, policy, pending)
            .or(rest.map(Step::Wait))
            .unwrap_or_else(|| next_request(state, policy)),
    }
}

/// What was begun ends, and is recorded. The rest waits.
fn next_in_pause(state: &State, pending: &Pending) -> Step {
    if let Some(begun) = state.first_begun().filter(|_| !pending.left_open) {
        return Step::Settle(begun.call.id);
    }
    match pending.user_ended {
        Some(entry) if state.first_open().is_none() => Step::ReportUserEnd(entry),
        _ => Step::Wait(Why::Paused),
    }
}

/// Why nothing more is done without a person, as far as the log says.
pub fn rest(state: &State, policy: &Policy) -> Option<Why> {
    if state.restarts >= MAX_RESTARTS {
        return Some(Why::CrashLoop);
    }
    if state.paused {
        return Some(Why::Paused);
    }
    rest_but_pause(state, policy)
}

/// The same as if nobody had paused it: who lifts a pause lifts what is behind it, too.
pub fn rest_but_pause(state: &State, policy: &Policy) -> Option<Why> {
    if state.restarts >= MAX_RESTARTS {
        return Some(Why::CrashLoop);
    }
    if state.first_open().is_some() || state.restoring.is_some() {
        return None;
    }
    if state.halted.is_some() {
        return Some(Why::Halted);
    }
    if state.unchecked().is_some() {
        return None;
    }
    if !state.owed {
        let held = state.structured.as_ref();
        let given_up = held.is_some_and(|held| matches!(held.standing, Standing::GivenUp(_)));
        return Some(if given_up { Why::Unfit } else { Why::Idle });
    }
    used_up(state, policy)
}

/// Whether the model may be asked once more, although it ended its turn.
pub fn may_ask_again(state: &State, policy: &Policy) -> bool {
    let held = state.structured.as_ref();
    state.halted.is_none()
        && held.is_none_or(|held| held.standing == Standing::Owed)
        && used_up(state, policy).is_none()
}

/// Which bound on asking the model is reached.
fn used_up(state: &State, policy: &Policy) -> Option<Why> {
    if state.nonsense >= MAX_NONSENSE {
        return Some(Why::Nonsense);
    }
    let used_up = policy.max_turns.is_some_and(|max| state.turns >= max);
    if used_up {
        return Some(Why::Turns);
    }
    run_limits::reached(state, &policy.price).map(|_| Why::Limit)
}

fn next_of_call(state: &State, policy: &Policy, open: &OpenCall) -> Step {
    let id = open.call.id;
    if open.guard.is_some() {
        return Step::Settle(id);
    }
    match fate(state, policy, open) {
        Fate::Ask { .. } => ask(policy, id),
        Fate::Close(_) => Step::Close(id),
        Fate::Run { .. } if only_looks(open) => Step::Run(batch(state, policy, open)),
        // Whoever answers knows all that the answer of the model wants.
        Fate::Run { .. } => match first_question(state, policy, open) {
            Some(id) => ask(policy, id),
            None => Step::Run(batch(state, policy, open)),
        },
    }
}

/// A question that an earlier start asked is nothing that this one may answer.
fn ask(policy: &Policy, call: CallId) -> Step {
    match policy.interactive {
        true => Step::Ask(call),
        false => Step::Wait(Why::Asked),
    }
}

/// It changes nothing, and nobody had to allow it.
fn only_looks(open: &OpenCall) -> bool {
    open.call.class() == Some(Class::Idempotent) && open.decided.is_none()
}

/// The first call of the last answer about which a person is still to be asked, besides one that
/// runs unasked: to decide looks at the disk, so it is done once.
fn first_question(state: &State, policy: &Policy, known: &OpenCall) -> Option<CallId> {
    let mut open = state
        .calls
        .iter()
        .filter(|call| !call.finished && call.guard.is_none() && call.call.id != known.call.id);
    let asks = |call: &&OpenCall| matches!(fate(state, policy, call), Fate::Ask { .. });
    open.find(asks).map(|call| call.call.id)
}

/// What this start and the person asked for besides going on with the work.
fn asked_for(state: &State, pending: &Pending) -> Option<Step> {
    match state.first_open() {
        Some(_) => None,
        None if pending.rendering => Some(Step::Render),
        None if pending.compaction => Some(Step::CompactAsAsked),
        None => None,
    }
}

/// What waits outside of the log goes into it when no call is open.
fn take_in(state: &State, policy: &Policy, pending: &Pending) -> Option<Step> {
    if let Some(step) = asked_for(state, pending) {
        return Some(step);
    }
    if let Some(id) = &pending.ended {
        return Some(Step::ReportEnd(id.clone()));
    }
    if let Some(entry) = pending.user_ended {
        return Some(Step::ReportUserEnd(entry));
    }
    if pending.message {
        return Some(Step::TakeMessage);
    }
    next_of_windows(state, policy, pending.summary).or_else(|| {
        let since = recall_point(state).filter(|since| pending.recalled != Some(*since));
        since.map(Step::Recall)
    })
}

/// What is due so that the request does not come to its limit.
fn next_of_windows(state: &State, policy: &Policy, summary: BackgroundSummary) -> Option<Step> {
    if let BackgroundSummary::Ready(Range { first, last }) = summary
        && exchange::is_compactable(&state.context, first, last)
    {
        return Some(Step::Compact(Range { first, last }));
    }
    let budget = policy.budget_of(state, &state.model);
    if let Some(count) = state.counts.silent_limit()
        && count.tokens < budget.window
    {
        return Some(Step::LearnLimit(count));
    }
    if summary == BackgroundSummary::Running {
        return None;
    }
    Some(
        match (window::due(state, &budget, &policy.windows)?, summary) {
            (Due::Free(results), _) => Step::Free(results),
            // A digest stands in at once.
            (Due::Summarise(range), BackgroundSummary::Paused) => Step::Compact(range),
            (Due::Summarise(range), _) => Step::Summarise(range),
        },
    )
}

/// The entry since which what left the context may have become of use again: the user's last
/// words, or the note that the context began from after them.
pub fn recall_point(state: &State) -> Option<Seq> {
    let (words, _) = state.words.as_ref().filter(|_| state.recall_due)?;
    let left = state.preface.as_ref().map_or(0, |p| p.last);
    Some(left.max(*words))
}

fn next_request(state: &State, policy: &Policy) -> Step {
    let budget = policy.budget_of(state, &state.model);
    match window::pressure(state, &budget, &policy.windows) {
        Pressure::Fits => Step::CallModel,
        Pressure::Free(results) => Step::Free(results),
        Pressure::Compact(range) => Step::Compact(range),
        Pressure::Continue => Step::Continue,
    }
}

/// The call alone, or with the allowed calls of its kind directly behind it: idempotent ones, or
/// tasks, which are done at the same time.
fn batch(state: &State, policy: &Policy, first: &OpenCall) -> Vec<CallId> {
    if first.call.is_task() {
        return tasks(state, policy, first);
    }
    if first.call.class() != Some(Class::Idempotent) {
        return vec![first.call.id];
    }
    state
        .calls
        .iter()
        .skip_while(|c| c.call.id != first.call.id)
        .take_while(|c| !c.finished && c.call.class() == Some(Class::Idempotent))
        .take_while(|c| only_looks(c) == only_looks(first))
        .take_while(|c| runs(state, policy, first, c))
        .map(|c| c.call.id)
        .collect()
}

/// Whether a call runs unasked. That the first one does is known.
fn runs(state: &State, policy: &Policy, first: &OpenCall, call: &OpenCall) -> bool {
    call.call.id == first.call.id || matches!(fate(state, policy, call), Fate::Run { .. })
}

/// A task, and those behind it that may be begun with it.
fn tasks(state: &State, policy: &Policy, first: &OpenCall) -> Vec<CallId> {
    let room = MAX_TASKS_AT_ONCE
        .saturating_sub(state.tasks_at_work())
        .max(1);
    state
        .calls
        .iter()
        .skip_while(|c| c.call.id != first.call.id)
        .take_while(|c| !c.finished && c.guard.is_none() && c.call.is_task())
        .take_while(|c| runs(state, policy, first, c))
        .take(room)
        .map(|c| c.call.id)
        .collect()
}
