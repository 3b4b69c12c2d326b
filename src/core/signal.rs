//! Signals: requests from another process to a session, such as pause, continue, a verdict, another
//! model.
//!
//! A signal is a row of the store until it is carried out. It is deleted in the transaction of the
//! entry that it becomes, or alone when it can have no effect any more. `docs/signals.md` has the
//! table.
//!
//! Messages are not signals: they wait in the inbox, and become `Said`.

use super::marks::cut_title;
use serde::{Deserialize, Serialize};

use super::entry::{CallId, Choice, Entry, Seq, Verdict};
use super::form::{self, FormAnswer};
use super::state::State;

/// A request to a session. Its JSON is a format of the store: it only grows.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "signal", rename_all = "snake_case")]
pub enum Signal {
    /// Stop the work in progress.
    Stop {
        /// The last entry when it was sent. The signal does not apply to a later resume.
        seen: Seq,
    },
    /// End running work, and start nothing more.
    Pause {
        /// The same as in `Stop`.
        seen: Seq,
    },
    /// Lift a pause, a limit, a failure or a crash loop, and deliver the messages that a stop holds
    /// back.
    GoOn,
    /// A person's verdict on a call with a question.
    Decide {
        call: CallId,
        /// The place of the answered `Asked`. A question that was asked again in another form has
        /// another place.
        asked: Seq,
        verdict: Verdict,
        /// A rule that the question offers. It is allowed for the rest of the session.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        rule: Option<String>,
    },
    /// A person's answer to a question of a server during a call.
    Answer {
        call: CallId,
        /// The same as in `Decide`.
        asked: Seq,
        answer: FormAnswer,
    },
    /// Settings that apply from the next step on.
    Choose(Choice),
    /// A title.
    Name { title: String },
    /// Summarise all but the newest turn when no call is open.
    Compact,
    /// Leave the session, while its background work continues.
    Leave {
        /// The same as in `Stop`.
        seen: Seq,
    },
    /// Pause after this number of further answers or tokens, or at this cost of the whole session.
    /// Limits that are not named stay. A signal without any limit removes all.
    Limit {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        turns: Option<u64>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        usd: Option<f64>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        tokens: Option<u64>,
    },
}

/// Kinds of entries that signals can become.
pub const BECOME: &[&str] = &[
    "stopped", "paused", "lifted", "decided", "answered", "chose", "named", "closed", "woke",
];

impl Signal {
    /// A stop of whatever is in progress. [`Signal::sent_after`] names the last entry.
    pub const STOP: Signal = Signal::Stop { seen: 0 };

    /// A pause of the session as it is. [`Signal::sent_after`] names the last entry.
    pub const PAUSE: Signal = Signal::Pause { seen: 0 };

    /// Returns the signal as it is stored when `last` is the last entry of the session.
    #[must_use]
    pub fn sent_after(mut self, last: Seq) -> Signal {
        if let Signal::Stop { seen } | Signal::Pause { seen } | Signal::Leave { seen } = &mut self {
            *seen = last;
        }
        self
    }

    /// Returns whether this answers the same question as an earlier signal. If so, the earlier one
    /// is ignored: the newest answer wins.
    pub fn replaces(&self, earlier: &Signal) -> bool {
        match (self, earlier) {
            (
                Signal::Decide { call, asked, .. },
                Signal::Decide {
                    call: before,
                    asked: of,
                    ..
                },
            )
            | (
                Signal::Answer { call, asked, .. },
                Signal::Answer {
                    call: before,
                    asked: of,
                    ..
                },
            ) => (call, asked) == (before, of),
            _ => false,
        }
    }

    /// Returns whether the signal may have become this entry. A rebuilt store needs this, because
    /// it has no other record.
    pub fn became(&self, entry: &Entry) -> bool {
        match (self, entry) {
            (Signal::Stop { .. }, Entry::Stopped { origin, .. })
            | (Signal::Pause { .. }, Entry::Paused { origin })
            | (Signal::GoOn, Entry::Lifted { origin }) => origin.is_some(),
            (Signal::GoOn, Entry::Chose(Choice { limits, origin, .. })) => {
                limits.is_some() && origin.is_some()
            }
            (Signal::GoOn, Entry::Resumed { .. }) | (Signal::Compact, Entry::Compacted { .. }) => {
                true
            }
            (Signal::Decide { call, .. }, Entry::Decided { call: decided, .. }) => call == decided,
            (Signal::Answer { asked, .. }, Entry::Answered { asked: of, .. }) => asked == of,
            (Signal::Choose(_), Entry::Chose(choice)) => {
                choice.limits.is_none() && choice.origin.is_some()
            }
            (Signal::Limit { .. }, Entry::Chose(choice)) => {
                choice.limits.is_some() && choice.origin.is_some()
            }
            (Signal::Name { title }, Entry::Named { title: named }) => cut_title(title) == *named,
            _ => false,
        }
    }
}

/// Returns why a signal can no longer be carried out, in words for a person. `None`: it can.
pub fn late(state: &State, signal: &Signal) -> Option<String> {
    match signal {
        Signal::Stop { seen } | Signal::Pause { seen } | Signal::Leave { seen } => {
            let is_old = *seen < state.taken_up;
            is_old.then(|| "the session was taken up again since it was sent".to_string())
        }
        Signal::Decide { call, asked, .. } => late_verdict(state, *call, *asked),
        Signal::Answer {
            call,
            asked,
            answer,
        } => late_answer(state, *call, *asked, answer),
        Signal::GoOn
        | Signal::Choose(_)
        | Signal::Name { .. }
        | Signal::Compact
        | Signal::Limit { .. } => None,
    }
}

fn late_verdict(state: &State, call: CallId, asked: Seq) -> Option<String> {
    let Some(open) = state.call(call) else {
        return Some(format!("call {call} is over"));
    };
    if open.finished {
        return Some(format!("call {call} has its result"));
    }
    if open.decided.is_some() {
        return Some(format!("call {call} was decided already"));
    }
    if open.guard.is_some() {
        return Some(format!("call {call} was begun already"));
    }
    match &open.asked {
        Some(question) if question.seq == asked => None,
        _ => Some(format!(
            "another question is asked about call {call} by now"
        )),
    }
}

fn late_answer(state: &State, call: CallId, asked: Seq, answer: &FormAnswer) -> Option<String> {
    let Some(open) = state.call(call) else {
        return Some(format!("call {call} is over"));
    };
    if open.finished {
        return Some(format!("call {call} has its result"));
    }
    match &open.server_question {
        Some(open) if open.seq == asked && open.answer.is_some() => {
            Some("the question is answered already".to_string())
        }
        Some(open) if open.seq == asked => form::check(&open.question, answer).err(),
        _ => Some(format!("another question is asked in call {call} by now")),
    }
}
