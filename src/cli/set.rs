//! `rewake set`: sets model, mode, effort, temperature and limits of a session.

use clap::Args;

use super::steer::{ORIGIN, open_store, report_delivery};
use super::values;
use crate::core::choice::Effort;
use crate::core::entry::{Choice, Mode};
use crate::core::signal::Signal;
use crate::report::CliError;
use crate::session::{AppContext, Delivery};

/// Set the model, mode, effort, temperature or limits of a session
#[derive(Debug, Clone, PartialEq, Args)]
pub(crate) struct SetArgs {
    /// Session ID or its beginning (@here: newest session of this folder)
    pub id: String,
    /// Use this model
    #[arg(short, long, value_name = "PROVIDER/MODEL")]
    pub model: Option<String>,
    /// Set what runs without approval
    #[arg(long, value_name = "MODE", value_parser = values::mode())]
    pub mode: Option<Mode>,
    /// Set the reasoning effort of the model
    #[arg(long, value_name = "EFFORT", value_parser = values::effort())]
    pub effort: Option<Effort>,
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
    fn signals(&self) -> Vec<Signal> {
        let choice = Choice {
            model: self.model.clone(),
            mode: self.mode,
            effort: self.effort,
            temperature: self.temperature,
            ..Choice::default()
        };
        let signals = Signal::of_settings(choice, (self.turns, self.usd, None), self.no_limits);
        signals.into_iter().flatten().collect()
    }
}

pub(super) fn run(ctx: &AppContext, args: &SetArgs) -> Result<u8, CliError> {
    let mut store = open_store(ctx)?;
    let signals = args.signals();
    if signals.is_empty() {
        return Err(CliError::usage("there is nothing to set").with_hint(
            "--model, --mode, --effort, --temperature, --turns, --usd or --no-limits says what",
        ));
    }
    let info = ctx.steering().find_session(&store, &args.id)?;
    let mut sending = Delivery::Kept;
    for signal in signals {
        sending = ctx.steer(&mut store, &info, signal, ORIGIN)?.sending;
    }
    Ok(report_delivery(&info, sending))
}
