//! `rewake set`: sets model, mode, effort, temperature and limits of a session.

use clap::Args;

use super::steer::{ORIGIN, open_store, report_delivery};
use super::values;
use crate::core::choice::Effort;
use crate::core::entry::Mode;
use crate::report::CliError;
use crate::session::{AppContext, Delivery, SettingsChange};

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
    #[arg(long, value_name = "N")]
    pub turns: Option<u64>,
    /// Pause when the session has cost this many US dollars
    #[arg(long, value_name = "DOLLARS")]
    pub usd: Option<f64>,
    /// Remove both limits
    #[arg(long)]
    pub no_limits: bool,
}

pub(super) fn run(ctx: &AppContext, args: &SetArgs) -> Result<u8, CliError> {
    let mut store = open_store(ctx)?;
    let info = ctx.steering().find_session(&store, &args.id)?;
    let change = SettingsChange {
        model: args.model.clone(),
        mode: args.mode,
        effort: args.effort,
        temperature: args.temperature,
        turns: args.turns,
        usd: args.usd,
        no_limits: args.no_limits,
        ..SettingsChange::default()
    };
    let receipts = ctx.change_settings(&mut store, &info, &change, ORIGIN)?;
    let sending = receipts.last().map_or(Delivery::Kept, |last| last.sending);
    Ok(report_delivery(&info, sending))
}
