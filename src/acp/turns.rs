//! The prompts of an open session that have no answer yet.
//!
//! A prompt is a row of the inbox. It is answered when the engine has taken the row and rests, or
//! takes the row of the next prompt.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::{Value, json};

use super::output::Output;
use super::wire::{INTERNAL_ERROR, NO_KEY, RpcError};
use crate::core::entry::{Entry, FailureClass, StopReason};
use crate::core::next::Why;
use crate::core::state::{Halt, State};
use crate::store::InboxId;

/// Maximum number of prompts without an answer.
pub(super) const PROMPTS_MAX: usize = 64;

/// A prompt without an answer.
pub(super) struct OpenPrompt {
    pub request: Value,
    /// Its row. `None`: it is `/continue`.
    pub row: Option<InboxId>,
    /// Whether the engine has taken its row.
    pub is_taken: bool,
    /// Set when the engine has read what was written for it.
    pub heard: Arc<AtomicBool>,
    pub is_cancelled: bool,
}

/// The prompts without an answer, oldest first.
#[derive(Default)]
pub(super) struct Turns {
    pub prompts: VecDeque<OpenPrompt>,
    /// Rows that an earlier process left in the inbox. They come before those of the prompts.
    pub left_over: usize,
    /// Reason for the end of the last answer.
    pub last_stop: Option<StopReason>,
    /// A request to close the session, answered when it is closed.
    pub closing: Option<(Value, Arc<AtomicBool>)>,
}

impl Turns {
    /// Notes an entry that was recorded. If it is the message of a prompt, the prompt before it is
    /// answered, and this returns true.
    pub(super) fn recorded(&mut self, output: &Output, entry: &Entry) -> bool {
        match entry {
            Entry::Replied { stop, .. } => self.last_stop = Some(*stop),
            Entry::Said { origin, .. } if origin.as_deref() == Some(super::prompt::ORIGIN) => {
                self.last_stop = None;
                if self.left_over > 0 {
                    self.left_over -= 1;
                    return false;
                }
                let waits = |prompt: &OpenPrompt| prompt.row.is_some() && !prompt.is_taken;
                let Some(at) = self.prompts.iter().position(waits) else {
                    return false;
                };
                for before in self.prompts.drain(..at) {
                    let reason = if before.is_cancelled {
                        "cancelled"
                    } else {
                        "end_turn"
                    };
                    output.respond(&before.request, &json!({ "stopReason": reason }));
                }
                if let Some(taken) = self.prompts.front_mut() {
                    taken.is_taken = true;
                }
                return true;
            }
            _ => {}
        }
        false
    }

    /// Answers the prompts that the engine has taken, since it rests.
    pub(super) fn rested(&mut self, output: &Output, why: Why, state: &State) {
        let is_over = |prompt: &OpenPrompt| match prompt.row {
            Some(_) => prompt.is_taken,
            None => prompt.heard.load(Ordering::SeqCst),
        };
        let (over, waiting) = self.prompts.drain(..).partition(is_over);
        self.prompts = waiting;
        let over: VecDeque<OpenPrompt> = over;
        for prompt in over {
            let answer = match prompt.is_cancelled {
                true => Ok("cancelled"),
                false => stop_reason(why, state, self.last_stop),
            };
            match answer {
                Ok(reason) => output.respond(&prompt.request, &json!({ "stopReason": reason })),
                Err(error) => output.refuse(&prompt.request, &error),
            }
        }
    }

    /// Answers all prompts, since the session is closed or failed.
    pub(super) fn end(&mut self, output: &Output, error: Option<&RpcError>) {
        for prompt in self.prompts.drain(..) {
            match error {
                Some(error) => output.refuse(&prompt.request, error),
                None => output.respond(&prompt.request, &json!({ "stopReason": "cancelled" })),
            }
        }
        if let Some((request, _)) = self.closing.take() {
            output.respond(&request, &json!({}));
        }
    }

    /// Returns whether the session is to be left, since its close was read.
    pub(super) fn is_closing(&self) -> bool {
        let closing = self.closing.as_ref();
        closing.is_some_and(|(_, heard)| heard.load(Ordering::SeqCst))
    }
}

fn stop_reason(
    why: Why,
    state: &State,
    last: Option<StopReason>,
) -> Result<&'static str, RpcError> {
    let failed = |why: &str| Err(RpcError::new(INTERNAL_ERROR, why));
    match why {
        Why::Idle | Why::Asked => Ok(match last {
            Some(StopReason::MaxTokens) => "max_tokens",
            Some(StopReason::Refusal) => "refusal",
            _ => "end_turn",
        }),
        Why::Turns | Why::Limit | Why::Repeats => Ok("max_turn_requests"),
        Why::Paused => Ok("cancelled"),
        Why::Halted => match &state.halted {
            Some(Halt::Failed(failure)) => {
                let code = match failure.class {
                    FailureClass::Auth => NO_KEY,
                    _ => INTERNAL_ERROR,
                };
                let error = RpcError::new(code, &failure.message);
                Err(error.with_hint(failure.hint.as_deref()))
            }
            Some(Halt::Stopped) | None => Ok("cancelled"),
        },
        Why::CrashLoop => {
            failed("the last starts all ended without progress; /continue tries again")
        }
        Why::Nonsense => failed("the model's last answers cannot be used; /continue asks again"),
        Why::Unfit => failed("the model's answers do not match the JSON Schema"),
    }
}
