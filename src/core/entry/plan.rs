//! The plan and its goals.

use serde::{Deserialize, Serialize};

use crate::core::text::one_line;

/// What the model means to do. Each plan replaces the one before as a whole.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Plan {
    pub steps: Vec<PlanStep>,
    /// What is to be true in the end.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub goals: Vec<String>,
}

impl Plan {
    /// The step that is being worked on.
    pub fn current(&self) -> Option<&PlanStep> {
        self.steps.iter().find(|s| s.state == StepState::Current)
    }

    /// A line for each step, then one for each goal. `None` for an empty plan.
    pub fn to_text(&self) -> Option<String> {
        const STEPS: usize = 30;
        const CHARS: usize = 100;
        if self.steps.is_empty() && self.goals.is_empty() {
            return None;
        }
        let mut text = String::new();
        for step in self.steps.iter().take(STEPS) {
            let state = format!("{:?}", step.state).to_lowercase();
            text.push_str(&format!("- [{state}] {}\n", one_line(&step.text, CHARS)));
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
    /// What is to be done, in the model's words.
    pub text: String,
    pub state: StepState,
}

/// How far a step of a plan is. The other names are those that models write of their own accord.
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
