//! Settings that a person or a rule chose for the session: model, mode, effort, the schema of an
//! answer.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::Failure;
use crate::core::choice::Effort;

/// Settings that change from here on. `None` leaves a setting unchanged.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Choice {
    /// `provider/model`. It starts with the effort and the temperature of the config.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<Mode>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub effort: Option<Effort>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub temperature: Option<f64>,
    /// Another model answers until the user's next message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fallback: Option<Box<FallbackModel>>,
    /// A rule of this session that is withdrawn.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub without: Option<String>,
    /// The JSON Schema that the next answer has to fit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schema: Option<Value>,
    /// No answer has to fit a schema any more.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub without_schema: bool,
    /// Limits at which the session pauses. They replace the previous ones.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limits: Option<RunLimits>,
    /// Text at the end of the system prompt. It replaces the previous one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub system_prompt: Option<String>,
    /// Absolute folders beside the workspace that count as part of it. They replace the previous
    /// ones.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub folders: Option<Vec<String>>,
    /// The signal that brought the choice. `None`: it was made where the session runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub origin: Option<String>,
}

/// Limits at which a session pauses by itself. They count the whole session, its part from
/// ancestors included.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct RunLimits {
    /// Number of answers of the model. `None`: no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answers: Option<u64>,
    /// Cost in US dollars. `None`: no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usd: Option<f64>,
    /// Number of tokens of all requests and answers. `None`: no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens: Option<u64>,
}

/// The place where an answer does not fit its schema, and the reason.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unfit {
    /// JSON Pointer into the answer; empty: the answer as a whole.
    pub path: String,
    /// The reason, for the model and for a person.
    pub why: String,
}

impl std::fmt::Display for Unfit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.path.as_str() {
            "" => write!(f, "at the top: {}", self.why),
            path => write!(f, "at {path}: {}", self.why),
        }
    }
}

impl Choice {
    /// Returns a choice of only a model: `provider/model`.
    pub fn of_model(model: impl Into<String>) -> Choice {
        Choice {
            model: Some(model.into()),
            ..Choice::default()
        }
    }

    /// Returns a choice of only a mode.
    pub fn of_mode(mode: Mode) -> Choice {
        Choice {
            mode: Some(mode),
            ..Choice::default()
        }
    }

    /// Returns a choice of only limits.
    pub fn of_limits(limits: RunLimits) -> Choice {
        Choice {
            limits: Some(limits),
            ..Choice::default()
        }
    }

    /// Returns whether nothing is chosen. The origin does not count.
    pub fn is_empty(&self) -> bool {
        let nothing = Choice {
            origin: self.origin.clone(),
            ..Choice::default()
        };
        *self == nothing
    }
}

/// The model that answers instead of one that could not be asked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FallbackModel {
    /// `provider/model`.
    pub model: String,
    /// Why the previous model could not be asked.
    pub error: Failure,
}

/// Permission mode: the actions that need no approval.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum Mode {
    /// Reads inside the workspace and read-only commands run without approval.
    #[default]
    #[serde(rename = "default")]
    Default,
    /// The same, and changes of files inside the workspace.
    #[serde(rename = "acceptEdits")]
    AcceptEdits,
    /// As `Default`, but every change is denied without a question.
    #[serde(rename = "plan")]
    Plan,
    /// Everything runs unless a rule denies it.
    #[serde(rename = "bypassPermissions")]
    BypassPermissions,
}

impl Mode {
    /// All modes, in the order in which lists show them.
    pub const ALL: [Mode; 4] = [
        Mode::Default,
        Mode::AcceptEdits,
        Mode::Plan,
        Mode::BypassPermissions,
    ];

    /// Returns the mode's name in the config, in the log and on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Mode::Default => "default",
            Mode::AcceptEdits => "acceptEdits",
            Mode::Plan => "plan",
            Mode::BypassPermissions => "bypassPermissions",
        }
    }
}
