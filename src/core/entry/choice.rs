//! What a person or a rule chose for the session: model, mode, effort, the schema of an answer.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::Failure;
use crate::core::choice::Effort;

/// What is another from here on. `None` leaves what is.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Choice {
    /// `provider/model`. It begins with the effort and the temperature of the config.
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
    pub fallback: Option<FallbackModel>,
    /// A rule of this session that is taken back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub without: Option<String>,
    /// The JSON Schema that the next answer has to fit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schema: Option<Value>,
    /// No answer has to fit a schema any more.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub without_schema: bool,
    /// At these the session pauses. They replace those before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limits: Option<RunLimits>,
    /// Which signal it came with. `None`: it was chosen where the session runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub origin: Option<String>,
}

/// Where a session pauses by itself. Of the whole session, what it has from its ancestors
/// included.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct RunLimits {
    /// So many answers of the model. `None`: no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answers: Option<u64>,
    /// So many US dollars. `None`: no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usd: Option<f64>,
    /// So many tokens, of all requests and answers. `None`: no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens: Option<u64>,
}

/// Where an answer does not fit its schema, and why.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unfit {
    /// JSON Pointer into the answer; empty: the answer as a whole.
    pub path: String,
    /// In words for the model and for a person.
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
    /// Only another model: `provider/model`.
    pub fn of_model(model: impl Into<String>) -> Choice {
        Choice {
            model: Some(model.into()),
            ..Choice::default()
        }
    }

    /// Only another mode.
    pub fn of_mode(mode: Mode) -> Choice {
        Choice {
            mode: Some(mode),
            ..Choice::default()
        }
    }

    /// Nothing is chosen, whoever did not.
    pub fn is_empty(&self) -> bool {
        let nothing = Choice {
            origin: self.origin.clone(),
            ..Choice::default()
        };
        *self == nothing
    }
}

/// The model that answers in place of one that could not be asked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FallbackModel {
    /// `provider/model`.
    pub model: String,
    /// Why the one before could not be asked.
    pub error: Failure,
}

/// What may be done without asking.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum Mode {
    /// Reading inside the workspace runs without a question, and commands that only look.
    #[default]
    #[serde(rename = "default")]
    Default,
    /// That, and changing files inside the workspace.
    #[serde(rename = "acceptEdits")]
    AcceptEdits,
    /// As `Default`, but what changes anything is denied, not asked about.
    #[serde(rename = "plan")]
    Plan,
    /// Everything runs that no rule denies.
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

    /// The mode's name in the config, in the log and on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Mode::Default => "default",
            Mode::AcceptEdits => "acceptEdits",
            Mode::Plan => "plan",
            Mode::BypassPermissions => "bypassPermissions",
        }
    }
}
