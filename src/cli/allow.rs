//! `rewake allow`: allows a call that needs approval, once.

use clap::Args;

use super::steer;
use crate::core::entry::{CallId, Verdict};
use crate::report::CliError;
use crate::session::AppContext;

/// Allow a call that needs approval, once
#[derive(Debug, Clone, PartialEq, Args)]
pub(crate) struct AllowArgs {
    /// Session ID or its beginning (@here: newest session of this folder)
    pub id: String,
    /// The session is in the shared database
    #[cfg(feature = "fleet")]
    #[arg(long)]
    pub shared: bool,
    /// Call to answer, as `rewake approvals` shows it (if there are several)
    #[arg(value_name = "CALL")]
    pub call: Option<CallId>,
}

pub(super) fn run(ctx: &AppContext, args: &AllowArgs) -> Result<u8, CliError> {
    steer::answer(ctx, &args.id, args.call, Verdict::Allow)
}
