//! `rewake dismiss ID`: stops offering an unfinished session.

use clap::Args;

use crate::report::{CliError, exit, note};
use crate::session::{AppContext, Dismissal, dismiss, short_id};

/// Stop offering an unfinished session at start-up
#[derive(Debug, Clone, PartialEq, Args)]
pub(crate) struct DismissArgs {
    /// Session ID or its beginning
    id: String,
}

pub(super) fn run(ctx: &AppContext, args: &DismissArgs) -> Result<u8, CliError> {
    let mut store = ctx.open_store()?;
    let info = store.history().find(&args.id)?;
    let id = short_id(&info.id);
    let said = match dismiss(&mut store, &ctx.paths.data_dir, &info.id)? {
        Dismissal::Done => {
            format!(
                "{id} is dismissed: it is not offered again; rewake --all still offers it, rewake -r {id} resumes it"
            )
        }
        Dismissal::Already => format!("{id} is already dismissed"),
        Dismissal::NotOffered => {
            format!("{id} is finished, so it is not offered anyway")
        }
    };
    note(&said);
    Ok(exit::DONE)
}
