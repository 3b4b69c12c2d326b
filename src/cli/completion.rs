//! `rewake completion SHELL`.

use clap::CommandFactory;
use clap_complete::Shell;

use super::args::Cli;
use super::output;
use super::trouble::Trouble;
use crate::headless::exit;

pub fn run(shell: Shell) -> Result<u8, Trouble> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "rewake", &mut script);
    output::raw(&script);
    Ok(exit::DONE)
}
