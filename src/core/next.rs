//! `next(&State, &Policy) -> Step`: the whole agent on one screen.
//!
//! It is asked only when no step is in progress. So an open `Started` that it sees means a
//! crash, or a stop that is still to be obeyed; both are settled in the same way.

use std::sync::Arc;

use super::budget::Budget;
use super::entry::{CallId, Outcome, Output, Verdict};
use super::policy::Decision;
use super::state::{OpenCall, State};
use super::text;
use super::tool::{Class, Input};
use super::window::{self, Pressure, Range, Windows};

/// Starts in a row without progress, after which the session is held.
pub const MAX_WAKES: u32 = 3;
/// Answers in a row that cannot be used, after which the user is asked.
pub const MAX_NONSENSE: u32 = 5;

/// The rules' verdict on a call as things are.
pub type Judge = Arc<dyn Fn(&Input, &State) -> Decision + Send + Sync>;

/// What the user and the program's start have set.
pub struct Policy {
    pub judge: Judge,
    /// A person is there to be asked.
    pub interactive: bool,
    /// Answers for one message of the user, or for one start.
    pub max_turns: Option<u32>,
    /// The context window of the session's model, with what was learnt of it.
    pub budget: Budgeting,
    pub windows: Windows,
}

/// What a model has room for, with what the session learnt of its limit (tokens) and of its
/// bytes per token.
pub type Budgeting = Arc<dyn Fn(&str, Option<u64>, Option<f64>) -> Budget + Send + Sync>;

impl Policy {
    pub fn budget_of(&self, state: &State, model: &str) -> Budget {
        let limit = state.limits.get(model).copied();
        let ratio = state.ratios.get(model).copied();
        (self.budget)(model, limit, ratio)
    }
}

/// What is to be done now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// Ask the model.
    CallModel,
    /// Ask the person about a call.
    Ask(CallId),
    /// Run these: several pure calls, or one of any class.
    Run(Vec<CallId>),
    /// A call was begun and has no result: find out.
    Settle(CallId),
    /// A call will not run: give it the result that [`fate`] says.
    Close(CallId),
    /// The request is too long: these are summarised first.
    CloseWindow(Range),
    /// The request is too long however much is summarised: begin again from a note.
    Continue,
    Wait(Why),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Why {
    /// Nothing is owed.
    Idle,
    /// The user stopped it, or the model call failed for good.
    Halted,
    /// Too many starts came to nothing; a person lifts it.
    Held,
    /// The number of answers for one message is used up.
    Turns,
    /// The model's answers cannot be used.
    Nonsense,
}

/// The first rule that fits.
pub fn next(state: &State, policy: &Policy) -> Step {
    if state.wakes >= MAX_WAKES {
        return Step::Wait(Why::Held);
    }
    if let Some(open) = state.first_open() {
        let id = open.call.id;
        return match fate(state, policy, open) {
            _ if open.guard.is_some() => Step::Settle(id),
            Fate::Run => Step::Run(batch(state, policy, open)),
            Fate::Ask { .. } => Step::Ask(id),
            Fate::Close(_) => Step::Close(id),
        };
    }
    if state.halted.is_some() {
        return Step::Wait(Why::Halted);
    }
    if !state.owed {
        return Step::Wait(Why::Idle);
    }
    if state.nonsense >= MAX_NONSENSE {
        return Step::Wait(Why::Nonsense);
    }
    match policy.max_turns {
        Some(max) if state.turns >= max => return Step::Wait(Why::Turns),
        _ => {}
    }
    match window::pressure(
        state,
        &policy.budget_of(state, &state.model),
        &policy.windows,
    ) {
        Pressure::Fits => Step::CallModel,
        Pressure::Close(range) => Step::CloseWindow(range),
        Pressure::Continue => Step::Continue,
    }
}

/// The call alone, or with the allowed pure calls directly behind it.
fn batch(state: &State, policy: &Policy, first: &OpenCall) -> Vec<CallId> {
    if first.call.class() != Some(Class::Pure) {
        return vec![first.call.id];
    }
    state
        .calls
        .iter()
        .skip_while(|c| c.call.id != first.call.id)
        .take_while(|c| !c.finished && c.call.class() == Some(Class::Pure))
        .take_while(|c| fate(state, policy, c) == Fate::Run)
        .map(|c| c.call.id)
        .collect()
}

/// What becomes of a call that was not begun.
#[derive(Debug, Clone, PartialEq)]
pub enum Fate {
    Run,
    /// `rule` is what "always" would write.
    Ask {
        why: String,
        rule: Option<super::policy::Rule>,
    },
    /// It never runs; this is its result.
    Close(Outcome),
}

pub fn fate(state: &State, policy: &Policy, open: &OpenCall) -> Fate {
    if let Some(outcome) = hopeless(state, open) {
        return Fate::Close(outcome);
    }
    match &open.decided {
        Some(Verdict::Allow) => return Fate::Run,
        Some(Verdict::Deny { reason }) => return denied(reason.clone()),
        None => {}
    }
    let Some(input) = open.input() else {
        return denied("the call cannot be understood".into());
    };
    match (policy.judge)(input, state) {
        Decision::Allow => Fate::Run,
        Decision::Deny { reason } => denied(reason),
        Decision::Ask { why, rule } if policy.interactive => Fate::Ask { why, rule },
        Decision::Ask { why, .. } => denied(format!(
            "{why}, and nobody is there to be asked; do without it, or say what is needed"
        )),
    }
}

fn denied(reason: String) -> Fate {
    Fate::Close(Outcome::Denied { reason })
}

/// Calls that run under no policy.
fn hopeless(state: &State, open: &OpenCall) -> Option<Outcome> {
    if state.is_stopped() {
        return Some(Outcome::Interrupted {
            output: Output::default(),
            why: "the user stopped before it began".into(),
        });
    }
    if open.is_surplus() {
        return Some(Outcome::error(format!(
            "not run: at most {} calls of one answer are run; send the rest again",
            super::tool::MAX_CALLS
        )));
    }
    if open.cut {
        return Some(Outcome::error(
            "not run: the answer was cut by the output limit inside this call; send it again, in smaller pieces",
        ));
    }
    let name = &open.call.name;
    if !state.layers.tools.iter().any(|t| t.name == *name) {
        let names: Vec<&str> = state.layers.tools.iter().map(|t| t.name.as_str()).collect();
        return Some(Outcome::error(format!(
            "there is no tool named {:?}; the tools are {}",
            text::one_line(name, 80),
            names.join(", ")
        )));
    }
    match &open.call.input {
        Err(why) => Some(Outcome::error(format!("not run: {why}"))),
        Ok(_) => None,
    }
}
