//! The parts of the next request in tokens, for a person and for the log. Deliberately absent: any
//! decision; those are in [`super::window`].

use super::budget::Budget;
use super::state::State;
use super::window::{self, CompactionSettings};

/// The parts of a request in tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Parts {
    /// The system prompt and the tools.
    pub system: u64,
    pub instructions: u64,
    /// The summary or the continuation note.
    pub summary: u64,
    /// The part that is neither summarised nor in the layers.
    pub recent: u64,
}

impl Parts {
    /// Measures the request that would be sent now.
    pub fn of(state: &State, budget: &Budget, windows: &CompactionSettings) -> Parts {
        let instructions = state.layers.instructions_and_start().0.len();
        let system = budget.tokens(state.fixed_bytes() - instructions);
        let instructions = budget.tokens(instructions);
        let summary = budget.tokens(state.preface.as_ref().map_or(0, |p| p.text.len()));
        let all = window::request_tokens(state, budget, windows);
        Parts {
            system,
            instructions,
            summary,
            recent: all.saturating_sub(system + instructions + summary),
        }
    }

    pub fn all(&self) -> u64 {
        self.system + self.instructions + self.summary + self.recent
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::entry::{Entry, Mode, PromptPrefix, Record, SummaryBy, Via};
    use crate::core::window::Strategy;

    fn push(state: &mut State, entry: Entry) {
        let record = Record {
            seq: state.next_seq(),
            at_ms: 0,
            entry,
        };
        state.fold(&record).unwrap();
    }

    fn said(state: &mut State, bytes: usize) {
        push(
            state,
            Entry::Said {
                text: "a".repeat(bytes),
                images: Vec::new(),
                via: Via::Prompt,
                command: None,
                origin: None,
            },
        );
    }

    #[test]
    fn the_parts_are_the_request() {
        let budget = Budget::new(100_000, 1_000, Some(4.0));
        let windows = CompactionSettings {
            strategy: Strategy::Tokens,
            keep: 10,
            max_messages: 50,
            max_tokens: 50_000,
            idle_sec: 1_800,
            summary_max_tokens: 500,
            inline_max_bytes: 16 * 1024,
        };
        let mut state = State::new(|_, _| Err("no tool".into()));
        let layers = PromptPrefix {
            system: "s".repeat(4_000),
            tools: Vec::new(),
            instructions: "i".repeat(400),
        };
        push(
            &mut state,
            Entry::Opened {
                folder: "/w".into(),
                version: "0".into(),
                model: "a/b".into(),
                mode: Mode::Default,
                layers,
                imported: None,
            },
        );
        said(&mut state, 8_000);
        said(&mut state, 800);
        let before = Parts::of(&state, &budget, &windows);
        assert_eq!((before.instructions, before.summary), (100, 0));
        assert!((1_000..1_050).contains(&before.system) && before.recent > 2_200);

        push(
            &mut state,
            Entry::Compacted {
                window: 1,
                first: 1,
                last: 1,
                summary: "b".repeat(400),
                by: SummaryBy::Model,
                spent: Vec::new(),
                preface: None,
            },
        );
        let after = Parts::of(&state, &budget, &windows);
        assert_eq!((after.system, after.instructions), (before.system, 100));
        assert!(after.summary > 100 && after.recent < 300, "{after:?}");
        let all = window::request_tokens(&state, &budget, &windows);
        assert_eq!(after.all(), all);
    }
}
