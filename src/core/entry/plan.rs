//! The plan and its goals.

use serde::{Deserialize, Serialize};

use crate::core::text::one_line;

/// The plan of the model. Each plan replaces the previous one as a whole.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Plan {
    pub steps: Vec<PlanStep>,
    /// Conditions that are true when the work is done.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub goals: Vec<String>,
}

impl Plan {
    /// Returns the step in progress.
    pub fn current(&self) -> Option<&PlanStep> {
        self.steps.iter().find(|s| s.state == StepState::Current)
    }

    /// Returns a line for each step, then one for each goal. `None` for an empty plan.
    pub fn to_text(&self) -> Option<String> {
        self.lines(StepState::status)
    }

    /// Returns the text that version 0.1 sent: a preface of its sessions keeps its bytes.
    pub(crate) fn to_text_as_before(&self) -> Option<String> {
        self.lines(|state| match state {
            StepState::Done => "done",
            StepState::Current => "current",
            StepState::Left => "left",
        })
    }

    fn lines(&self, name: fn(StepState) -> &'static str) -> Option<String> {
        const STEPS: usize = 30;
        const CHARS: usize = 100;
        if self.steps.is_empty() && self.goals.is_empty() {
            return None;
        }
        let mut text = String::new();
        for step in self.steps.iter().take(STEPS) {
            let name = name(step.state);
            text.push_str(&format!("- [{name}] {}\n", one_line(&step.text, CHARS)));
        }
        for goal in self.goals.iter().take(STEPS) {
            text.push_str(&format!("- goal: {}\n", one_line(goal, CHARS)));
        }
        Some(text)
    }
}

/// One step of a plan.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlanStep {
    /// The task of the step, in the model's words.
    pub text: String,
    pub state: StepState,
}

/// The status of a step. The log stores `done`, `current` and `left`; the model reads and writes
/// [`StepState::status`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StepState {
    /// It is done.
    #[serde(alias = "completed")]
    Done,
    /// It is being worked on.
    #[serde(alias = "in_progress")]
    Current,
    /// It is still to do.
    #[serde(alias = "pending", alias = "todo")]
    Left,
}

impl StepState {
    /// The name that the model sees.
    pub fn status(self) -> &'static str {
        match self {
            StepState::Done => "completed",
            StepState::Current => "in_progress",
            StepState::Left => "pending",
        }
    }
}
