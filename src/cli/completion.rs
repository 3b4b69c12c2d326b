//! `rewake completion SHELL`: prints a completion script, generated from the command line's
//! definition.

use clap::{Args, Command};
use clap_complete::Shell;

use crate::report::{CliError, exit, raw};

/// Print a shell completion script
#[derive(Debug, Clone, PartialEq, Args)]
pub(crate) struct CompletionArgs {
    /// Shell to complete for
    shell: Shell,
}

/// Prints the script. `tree`: the command line.
pub(super) fn run(args: &CompletionArgs, mut tree: Command) -> Result<u8, CliError> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut tree, "rewake", &mut script);
    raw(&script);
    Ok(exit::DONE)
}
