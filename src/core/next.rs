//! `next(&State, &Policy, &Pending) -> Step`: every decision of the loop.
//!
//! It is called only when no step is in progress. So an open `Started` means a crash, a stop that
//! was not carried out yet, or a running subagent; all three are settled in the same way.

use std::cell::LazyCell;

use super::access::Access;
use super::authorization::{Authorization, authorize};
use super::entry::{CallId, Guard, Seq};
use super::hook::{MAX_HOOKS_AT_ONCE, PendingHooks};
use super::limits::Count;
use super::loop_guard::Repetition;
use super::settings::Policy;
use super::state::{CutAnswer, OpenCall, State};
use super::structured::AnswerStatus;
use super::tool::Class;
use super::turn::{self, TurnRange};
use super::window::{self, CompactionStep, Pressure};
use super::{background, run_limits};

/// Number of starts in a row without progress that make a crash loop.
pub const MAX_RESTARTS: u32 = 3;
/// Number of unusable answers in a row after which the user is asked.
pub const MAX_NONSENSE: u32 = 5;

/// Maximum number of calls that run at the same time, and of commands in one batch.
pub const MAX_CALLS_AT_ONCE: usize = 4;

/// Maximum number of subagents that run at the same time.
pub const MAX_TASKS_AT_ONCE: usize = 4;
/// Maximum number of tasks for one message of the user.
pub const MAX_TASKS_OF_PROMPT: u32 = 16;

/// Work that waits outside of the log, looked up between two steps.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Pending {
    /// This start named another model or mode than the session was using.
    pub choice: bool,
    /// Pending work waits until a person sends a message or asks to continue.
    pub waits_for_person: bool,
    /// Results of calls that were started are recorded during that wait.
    pub settles: bool,
    /// A server's question, which an earlier start showed to a person, is open, and this start has
    /// no person.
    pub left_open: bool,
    /// This version has another system prompt or other tools than the log.
    pub rendering: bool,
    /// A person asked for a compaction.
    pub compaction: bool,
    /// A background command that ended, by its id.
    pub ended: Option<String>,
    /// A shell command of the user that ended, by the place of its entry.
    pub user_ended: Option<Seq>,
    /// The inbox has a message or a note that may be taken out.
    pub message: bool,
    /// Progress of the summary in the background.
    pub summary: BackgroundSummary,
    /// The files that the calls of the last answer changed, below the root of the workspace. Empty
    /// without checks.
    pub changed: Vec<String>,
    /// The [`recall_point`] for which the log and the memories were already searched.
    pub recalled: Option<Seq>,
}

/// Progress of the summary that is made in the background.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum BackgroundSummary {
    /// No summary is being made.
    #[default]
    None,
    /// The summary model was asked and has not answered yet.
    Running,
    /// It is done or has failed.
    Ready(TurnRange),
    /// The summary model failed a moment ago and is not asked again yet.
    Paused,
    /// None is made: the server that would write it has no memory for two requests.
    Alone,
}

/// The next step of the loop.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// Record the model and the mode that this start named.
    RecordChoice,
    /// Record this version's system prompt and tools.
    Render,
    /// A person asked for it: summarise all but the newest turn.
    CompactAsAsked,
    /// Tell the model that this background command ended.
    ReportEnd(String),
    /// Record how this shell command of the user ended.
    ReportUserEnd(Seq),
    /// Remind the model of these background commands, since the run ends with its answer.
    Remind(Vec<String>),
    /// Tell the model that it repeats itself.
    NoteRepetition,
    /// Tell the model to continue its answer, which the output limit cut.
    ContinueAnswer,
    /// Record the oldest message of the inbox.
    TakeMessage,
    /// Start to summarise this range in the background.
    Summarise(TurnRange),
    /// The server truncated long requests without an error: record its limit.
    LearnLimit(Count),
    /// Search the log and the memories for the subject of the message or note at this entry.
    Recall(Seq),
    /// Ask the model.
    CallModel,
    /// Ask the person about a call.
    Ask(CallId),
    /// Run the pending hooks of this `Hooking` that are about these calls, or about none.
    RunHooks {
        hooking: Seq,
        calls: Vec<Option<CallId>>,
    },
    /// Start this check, since these files that it matches were changed.
    StartCheck { check: String, files: Vec<String> },
    /// A check was started and has no end: run it, or find how it ended.
    RunCheck(Seq),
    /// Run these calls: several that may run at the same time, or one of any class.
    Run(Vec<CallId>),
    /// A call was started and has no result: find its outcome.
    Settle(CallId),
    /// A call will not run: record the result that [`authorize`] returns.
    Close(CallId),
    /// Compare the answer at this entry with the schema that it has to fit.
    CheckAnswer(Seq),
    /// Replace each of these results with a line.
    Free(Vec<Seq>),
    /// Replace this range with a summary; wait for the summary if it is not done yet.
    Compact(TurnRange),
    /// The request is too long even with a summary: start over from a note.
    Continue,
    /// A restore of files is in progress: do the rest of it.
    Restore,
    /// Do nothing until something comes from outside.
    Wait(Why),
}

/// Why the loop waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Why {
    /// No work is pending.
    Idle,
    /// The user stopped it, or the model call failed for good.
    Halted,
    /// Too many starts made no progress; a person lifts it.
    CrashLoop,
    /// A person paused it; a person lifts it.
    Paused,
    /// A person was asked, and this start has no person: the question stays open.
    Asked,
    /// A limit of answers or of cost is reached; a person lifts it.
    Limit,
    /// The maximum number of answers for one message is reached.
    Turns,
    /// The model repeats itself, also after a note; a person lifts it.
    Repeats,
    /// The model's answers cannot be used.
    Nonsense,
    /// The model's answers do not fit the schema.
    Unfit,
}

/// Returns the step of the first rule that applies.
pub fn next(state: &State, policy: &Policy, pending: &Pending) -> Step {
    if pending.choice {
        return Step::RecordChoice;
    }
    let rest = rest(state, policy);
    // A person requested the restore, so it precedes other waits.
    if state.restoring.is_some() && rest != Some(Why::CrashLoop) {
        return Step::Restore;
    }
    if rest == Some(Why::Paused) {
        return next_in_pause(state, pending);
    }
    if pending.waits_for_person {
        let started = state.first_open().filter(|open| open.guard.is_some());
        if let Some(started) = started.filter(|_| pending.settles && rest != Some(Why::CrashLoop)) {
            return Step::Settle(started.call.id);
        }
        let asked_for = asked_for(state, pending).filter(|_| rest != Some(Why::CrashLoop));
        if let Some(running) = state.checks.running()
            && pending.settles
            && rest != Some(Why::CrashLoop)
        {
            return Step::RunCheck(running.seq);
        }
        return asked_for.unwrap_or(Step::Wait(rest.unwrap_or(Why::Idle)));
    }
    match (state.first_open(), rest) {
        // A message of the user lifts the crash loop.
        (None, Some(Why::CrashLoop))
            if pending.message
                && state.restoring.is_none()
                && state.hooks.first_due().is_none() =>
        {
            Step::TakeMessage
        }
        (_, Some(Why::CrashLoop)) => Step::Wait(Why::CrashLoop),
        _ if state.hooks.first_due().is_some() => next_hooks(state.hooks.first_due()),
        (None, _) if state.checks.running().is_some() => run_check(state),
        (Some(open), _) if pending.left_open && open.guard.is_some() && !state.is_stopped() => {
            Step::Wait(Why::Asked)
        }
        (Some(open), _) => next_of_call(state, policy, open),
        (None, None) if state.unchecked().is_some() => {
            Step::CheckAnswer(state.unchecked().unwrap_or_default())
        }
        (None, _) => take_in(state, policy, pending)
            .or_else(|| next_reminder(state, policy))
            .or(rest.map(Step::Wait))
            .or_else(|| next_check(state, policy, pending))
            .or_else(|| repetition(state, policy).map(|_| Step::NoteRepetition))
            .or_else(|| (state.cut_answer == CutAnswer::Owed).then_some(Step::ContinueAnswer))
            .unwrap_or_else(|| next_request(state, policy)),
    }
}

/// Returns the step for the check that has no end.
fn run_check(state: &State) -> Step {
    match state.checks.running() {
        Some(running) => Step::RunCheck(running.seq),
        None => Step::Wait(Why::Idle),
    }
}

/// Returns the step for the check that the request waits for.
fn next_check(state: &State, policy: &Policy, pending: &Pending) -> Option<Step> {
    let (check, files) = state.checks.due(&policy.checks, &pending.changed)?;
    Some(Step::StartCheck { check, files })
}

/// Returns the next step during a pause: running work ends and is recorded. The rest waits.
fn next_in_pause(state: &State, pending: &Pending) -> Step {
    // A read waits during a pause, and so do the results of the calls after it.
    let first = state.first_open().filter(|_| !pending.left_open);
    if let Some(started) = first.filter(|open| open.guard.is_some()) {
        return Step::Settle(started.call.id);
    }
    match pending.user_ended {
        _ if state.first_open().is_none() && state.checks.running().is_some() => run_check(state),
        Some(entry) if state.first_open().is_none() => Step::ReportUserEnd(entry),
        _ => Step::Wait(Why::Paused),
    }
}

/// Returns why the loop waits for a person, judging by the log.
pub fn rest(state: &State, policy: &Policy) -> Option<Why> {
    if state.restarts >= MAX_RESTARTS {
        return Some(Why::CrashLoop);
    }
    if state.paused {
        return Some(Why::Paused);
    }
    rest_but_pause(state, policy)
}

/// Returns the same as [`rest`] without the pause: the person who lifts a pause also lifts the
/// reason that it hides.
pub fn rest_but_pause(state: &State, policy: &Policy) -> Option<Why> {
    if state.restarts >= MAX_RESTARTS {
        return Some(Why::CrashLoop);
    }
    let has_hooks = !state.hooks.pending().is_empty() || state.checks.running().is_some();
    if state.first_open().is_some() || state.restoring.is_some() || has_hooks {
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
        let given_up = held.is_some_and(|held| matches!(held.standing, AnswerStatus::GivenUp(_)));
        return Some(if given_up { Why::Unfit } else { Why::Idle });
    }
    used_up(state, policy)
}

/// Returns whether the model may be asked once more, although it ended its turn.
pub fn may_ask_again(state: &State, policy: &Policy) -> bool {
    let held = state.structured.as_ref();
    state.halted.is_none()
        && held.is_none_or(|held| held.standing == AnswerStatus::Owed)
        && used_up(state, policy).is_none()
}

/// Returns the limit on model calls that is reached.
fn used_up(state: &State, policy: &Policy) -> Option<Why> {
    if state.nonsense >= MAX_NONSENSE {
        return Some(Why::Nonsense);
    }
    let used_up = policy.max_turns.is_some_and(|max| state.turns >= max);
    if used_up {
        return Some(Why::Turns);
    }
    if run_limits::reached(state, &policy.price).is_some() {
        return Some(Why::Limit);
    }
    let is_stuck = policy.loop_guard && state.loop_guard.stuck().is_some();
    is_stuck.then_some(Why::Repeats)
}

/// Returns the repetition that the model has to be told before it is asked again.
pub fn repetition<'a>(state: &'a State, policy: &Policy) -> Option<&'a Repetition> {
    state.loop_guard.due().filter(|_| policy.loop_guard)
}

fn next_of_call(state: &State, policy: &Policy, open: &OpenCall) -> Step {
    let id = open.call.id;
    if open.guard.is_some() {
        // Further tasks start while the first ones work.
        let further = match open.guard {
            Some(Guard::Child { .. }) if !state.is_stopped() => tasks(state, policy, open),
            _ => Vec::new(),
        };
        return if further.is_empty() {
            Step::Settle(id)
        } else {
            Step::Run(further)
        };
    }
    if let Some(hooks) = state.hooks.of_call(id) {
        return guards(state, open, hooks);
    }
    match authorize(state, policy, open) {
        Authorization::Ask { .. } => ask(policy, id),
        // The hooks of this call have ended.
        Authorization::AwaitHooks => Step::Wait(Why::Idle),
        Authorization::Close(_) => Step::Close(id),
        Authorization::Run { .. } if only_looks(open) => Step::Run(batch(state, policy, open)),
        // A person who answers a question should see all questions of the answer first.
        Authorization::Run { .. } => match first_question(state, policy, open) {
            Some(id) => ask(policy, id),
            None => Step::Run(batch(state, policy, open)),
        },
    }
}

/// Returns the step for hooks that are about no call, or about calls that have ended.
fn next_hooks(hooks: Option<&PendingHooks>) -> Step {
    let Some(hooks) = hooks else {
        return Step::Wait(Why::Idle);
    };
    let mut calls: Vec<Option<CallId>> = hooks.runs.iter().map(|run| run.call).collect();
    calls.dedup();
    Step::RunHooks {
        hooking: hooks.seq,
        calls,
    }
}

/// Returns the step for the guards of a call. They see the files that earlier calls wrote, so only
/// the guards of idempotent calls run together.
fn guards(state: &State, first: &OpenCall, hooks: &PendingHooks) -> Step {
    let is_idempotent = |open: &&OpenCall| open.call.class() == Some(Class::Idempotent);
    let calls = state
        .calls
        .iter()
        .skip_while(|c| c.call.id != first.call.id);
    let has_hooks = |open: &&OpenCall| {
        let its = state.hooks.of_call(open.call.id);
        its.is_some_and(|its| its.seq == hooks.seq)
    };
    let calls = calls
        .take_while(|open| {
            open.call.id == first.call.id || is_idempotent(&first) && is_idempotent(open)
        })
        .filter(has_hooks)
        .take(MAX_HOOKS_AT_ONCE);
    Step::RunHooks {
        hooking: hooks.seq,
        calls: calls.map(|open| Some(open.call.id)).collect(),
    }
}

/// Waits without a person: this start may not answer the question of an earlier start.
fn ask(policy: &Policy, call: CallId) -> Step {
    if policy.interactive {
        Step::Ask(call)
    } else {
        Step::Wait(Why::Asked)
    }
}

/// Returns whether the call is idempotent and needed no approval.
fn only_looks(open: &OpenCall) -> bool {
    open.call.class() == Some(Class::Idempotent) && open.decided.is_none()
}

/// Returns the first call of the last answer that still needs a person's approval. `known` is a
/// call that needs none. It is skipped, because a decision reads the disk.
fn first_question(state: &State, policy: &Policy, known: &OpenCall) -> Option<CallId> {
    let mut open = state
        .calls
        .iter()
        .filter(|call| !call.finished && call.guard.is_none() && call.call.id != known.call.id);
    let asks =
        |call: &&OpenCall| matches!(authorize(state, policy, call), Authorization::Ask { .. });
    open.find(asks).map(|call| call.call.id)
}

/// Returns the step that this start or the person requested, other than the pending work.
fn asked_for(state: &State, pending: &Pending) -> Option<Step> {
    match state.first_open() {
        Some(_) => None,
        None if pending.rendering => Some(Step::Render),
        None if pending.compaction => Some(Step::CompactAsAsked),
        None => None,
    }
}

/// Returns the step that moves waiting work into the log, when no call is open.
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

/// Returns the step that reminds the model of its background commands, if the turn has ended.
fn next_reminder(state: &State, policy: &Policy) -> Option<Step> {
    let ids = background::reminder(state, policy.background)?;
    may_ask_again(state, policy).then_some(Step::Remind(ids))
}

/// Returns the step that keeps the request below its limit.
fn next_of_windows(state: &State, policy: &Policy, summary: BackgroundSummary) -> Option<Step> {
    if let BackgroundSummary::Ready(TurnRange { first, last }) = summary
        && turn::is_compactable(&state.context, first, last)
    {
        return Some(Step::Compact(TurnRange { first, last }));
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
            (CompactionStep::Free(results), _) => Step::Free(results),
            // A digest is used at once, and no request is made beside the summary.
            (
                CompactionStep::Summarise(range),
                BackgroundSummary::Paused | BackgroundSummary::Alone,
            ) => Step::Compact(range),
            (CompactionStep::Summarise(range), _) => Step::Summarise(range),
        },
    )
}

/// Returns the entry since which content outside of the context may be relevant again. It is the
/// user's last message, or a later note from which the context started over.
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

/// Returns the call alone, or with the allowed calls directly after it that may run at the same
/// time: idempotent ones, those that only read, or tasks.
fn batch(state: &State, policy: &Policy, first: &OpenCall) -> Vec<CallId> {
    if first.call.is_task() {
        return tasks(state, policy, first);
    }
    let may_be_with_others = only_looks(first) || only_reads(state, policy, first);
    // The calls after a wait may read what it waits for.
    if first.call.is_wait() || !may_be_with_others {
        return vec![first.call.id];
    }
    // A command waits until all questions of the answer are answered.
    let is_asking = LazyCell::new(|| first_question(state, policy, first).is_some());
    // Idempotent calls that do more than to read, as one that stops a command.
    let mut others = 0;
    let mut commands = 0;
    state
        .calls
        .iter()
        .skip_while(|c| c.call.id != first.call.id)
        .take_while(|c| !c.finished && c.guard.is_none() && !c.call.is_wait())
        .take_while(|c| {
            if only_looks(c) {
                others += usize::from(!c.call.reads_outside());
                (others == 0 || commands == 0) && runs(state, policy, first, c)
            } else {
                commands += 1;
                others == 0
                    && commands <= MAX_CALLS_AT_ONCE
                    && only_reads(state, policy, c)
                    && !*is_asking
            }
        })
        .map(|c| c.call.id)
        .collect()
}

/// Returns whether a call runs without approval. For the first one this is known.
fn runs(state: &State, policy: &Policy, first: &OpenCall, call: &OpenCall) -> bool {
    call.call.id == first.call.id
        || matches!(authorize(state, policy, call), Authorization::Run { .. })
}

/// Returns whether the call is a command that runs without approval and writes nothing that another
/// call can see.
fn only_reads(state: &State, policy: &Policy, open: &OpenCall) -> bool {
    let read = Authorization::Run {
        access: Some(Access::Read),
    };
    open.decided.is_none()
        && open.call.may_have_private_tmp()
        && authorize(state, policy, open) == read
}

/// Returns the tasks that may start: of the first open call and of those directly after it.
fn tasks(state: &State, policy: &Policy, first: &OpenCall) -> Vec<CallId> {
    let room = MAX_TASKS_AT_ONCE.saturating_sub(state.tasks_at_work());
    // Without room, the first task is refused.
    let room = room.max(usize::from(first.guard.is_none()));
    let is_new = |c: &OpenCall| !c.finished && c.guard.is_none();
    state
        .calls
        .iter()
        .skip_while(|c| c.call.id != first.call.id)
        .take_while(|c| c.call.is_task() && (!is_new(c) || runs(state, policy, first, c)))
        .filter(|c| is_new(c))
        .take(room)
        .map(|c| c.call.id)
        .collect()
}
