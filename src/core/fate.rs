//! What becomes of a call that was not begun: it runs, a person is asked, or it never runs.

use super::entry::{Outcome, Output, Verdict};
use super::policy::{Decision, Rule};
use super::settings::Policy;
use super::state::{OpenCall, State};
use super::text;
use super::tool::MAX_CALLS;

/// What becomes of a call that was not begun.
#[derive(Debug, Clone, PartialEq)]
pub enum Fate {
    /// It runs now, without a question.
    Run,
    /// `rule` is what "always" would write.
    Ask {
        /// What a person is told of the reason for the question.
        why: String,
        /// `None`: "always" is not offered.
        rule: Option<Rule>,
    },
    /// It never runs; this is its result.
    Close(Outcome),
}

/// Says what becomes of a call that was not begun. A person's verdict comes before the rules; a
/// stop, or a call that makes no sense, comes before both. Where nobody can be asked, what
/// would be asked is denied.
pub fn fate(state: &State, policy: &Policy, open: &OpenCall) -> Fate {
    if let Some(outcome) = hopeless(state, open) {
        return Fate::Close(outcome);
    }
    match &open.decided {
        Some(Verdict::Allow) => return Fate::Run,
        Some(Verdict::Deny { reason }) => return denied(reason.clone()),
        None => {}
    }
    let Some(described) = open.described() else {
        return denied("the call cannot be understood".into());
    };
    match (policy.permission_check)(&described.permission, state) {
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
            MAX_CALLS
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
    match &open.call.described {
        Err(why) => Some(Outcome::error(format!("not run: {why}"))),
        Ok(_) => None,
    }
}
