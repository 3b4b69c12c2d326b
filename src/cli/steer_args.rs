//! What is said to the subcommands that steer a session.

use std::path::PathBuf;

use clap::Args;

use super::answer::AnswerArgs;
use crate::core::choice::Effort;
use crate::core::entry::{CallId, Mode, Verdict};
use crate::core::signal::Signal;

/// What is done to a session.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Steer {
    Send(SendArgs),
    Stop {
        id: String,
    },
    Pause {
        id: String,
    },
    Go {
        id: String,
    },
    Set(SetArgs),
    Asks {
        watch: bool,
        json: bool,
    },
    Answer {
        id: String,
        call: Option<CallId>,
        verdict: Verdict,
    },
    AnswerServer(AnswerArgs),
}

#[derive(Debug, Clone, PartialEq, Args)]
pub(crate) struct SendArgs {
    /// Session ID or its beginning (@here: newest session of this folder)
    pub id: String,
    /// Message text (- reads it, or the rest of it, from stdin)
    #[arg(value_name = "TEXT")]
    pub text: Vec<String>,
    /// Attach an image (repeatable)
    #[arg(long, value_name = "FILE")]
    pub image: Vec<PathBuf>,
    /// Continue the session here if it is not running, like -p -r ID
    #[arg(long)]
    pub start: bool,
}

#[derive(Debug, Clone, PartialEq, Args)]
pub(crate) struct SetArgs {
    /// Session ID or its beginning (@here: newest session of this folder)
    pub id: String,
    /// Use this model
    #[arg(short, long, value_name = "PROVIDER/MODEL")]
    pub model: Option<String>,
    /// Set what runs without approval
    #[arg(long, value_name = "MODE", value_parser = super::values::mode())]
    pub mode: Option<String>,
    /// Set the reasoning effort of the model
    #[arg(long, value_name = "EFFORT", value_parser = super::values::effort())]
    pub effort: Option<String>,
    /// Set the temperature, from 0 to 2
    #[arg(long, value_name = "T")]
    pub temperature: Option<f64>,
    /// Pause after N more answers of the model
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    pub turns: Option<u64>,
    /// Pause when the session has cost this many US dollars
    #[arg(long, value_name = "DOLLARS")]
    pub usd: Option<f64>,
    /// Remove both limits
    #[arg(long, conflicts_with_all = ["turns", "usd"])]
    pub no_limits: bool,
}

impl SetArgs {
    pub(super) fn signals(&self) -> Vec<Signal> {
        let mode = self.mode.as_deref();
        let mode = mode.and_then(|name| Mode::ALL.into_iter().find(|m| m.name() == name));
        let effort = self.effort.as_deref().and_then(Effort::named);
        let choice = Signal::Choose {
            model: self.model.clone(),
            mode,
            effort,
            temperature: self.temperature,
        };
        let chooses = self.model.is_some()
            || mode.is_some()
            || effort.is_some()
            || self.temperature.is_some();
        let limit = Signal::Limit {
            turns: self.turns,
            usd: self.usd,
            tokens: None,
        };
        let limits = self.turns.is_some() || self.usd.is_some() || self.no_limits;
        let choice = chooses.then_some(choice);
        choice.into_iter().chain(limits.then_some(limit)).collect()
    }
}
