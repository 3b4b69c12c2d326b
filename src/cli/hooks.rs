//! `rewake hooks`: lists, tries and imports hooks.

mod import;
mod list;
mod try_out;

use clap::Subcommand;

use crate::report::CliError;
use crate::session::AppContext;

use super::place::SessionPlace;

/// The actions of `rewake hooks`.
#[derive(Debug, Clone, PartialEq, Subcommand)]
pub(crate) enum HooksAction {
    /// List the hooks and checks of this folder, their trust and last result
    List {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Run the hooks of an event and show their verdict
    Test(try_out::TestArgs),
    /// Show hooks and rules of other agents, and take them with --yes
    Import {
        /// Trust the hooks and add the deny and ask rules
        #[arg(long, short)]
        yes: bool,
        /// Stop naming these files until they change
        #[arg(long, conflicts_with = "yes")]
        dismiss: bool,
    },
}

impl Default for HooksAction {
    fn default() -> HooksAction {
        HooksAction::List { json: false }
    }
}

pub(super) fn run(place: SessionPlace, action: &HooksAction) -> Result<u8, CliError> {
    let config = |place: SessionPlace| -> Result<AppContext, CliError> { place.config() };
    match action {
        HooksAction::List { json } => list::run(&config(place)?, *json),
        HooksAction::Test(args) => try_out::run(&config(place.of_person()?)?, args),
        HooksAction::Import {
            yes: false,
            dismiss: false,
        } => import::show(&config(place)?),
        HooksAction::Import { yes: true, .. } => import::take(&config(place.of_person()?)?),
        HooksAction::Import { .. } => import::dismiss(&config(place.of_person()?)?),
    }
}
