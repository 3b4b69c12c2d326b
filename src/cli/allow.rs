//! `rewake allow`: allows a call that needs approval, once.

use clap::Args;

use super::shared::{SharedCommand, SharedFlag};
use super::steer::SteeredSession;
use crate::core::entry::{CallId, Verdict};
use crate::report::CliError;
use crate::session::AppContext;

/// Allow a call that needs approval, once
#[derive(Debug, Clone, PartialEq, Args)]
#[command(shared_flag("The session is in the shared database", &[]))]
pub(crate) struct AllowArgs {
    /// Session ID or its beginning (@here: newest session of this folder)
    pub id: String,
    #[command(flatten)]
    pub shared: SharedFlag,
    /// Call to answer, as `rewake approvals` shows it (if there are several)
    #[arg(value_name = "CALL")]
    pub call: Option<CallId>,
}

pub(super) fn run(ctx: &AppContext, args: &AllowArgs) -> Result<u8, CliError> {
    let mut session = SteeredSession::find(ctx, &args.id, args.shared)?;
    let receipt = session.answer(args.call, Verdict::Allow)?;
    Ok(session.report(receipt.sending))
}
