//! `rewake completion SHELL` and `rewake man`: what an installation puts where the shell and
//! `man` look. Both are made from the definition of the command line.

use clap::Command;
use clap_complete::Shell;
use clap_mangen::Man;

use super::args::tree;
use crate::report::{Trouble, exit, raw};

pub(super) fn run(shell: Shell) -> Result<u8, Trouble> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut tree::command(), "rewake", &mut script);
    raw(&script);
    Ok(exit::DONE)
}

/// One page: the command, then each subcommand with its options.
pub(super) fn man() -> Result<u8, Trouble> {
    let mut page = Vec::new();
    let written = render(tree::command(), &mut page);
    written.map_err(|e| Trouble::new(exit::FAILED, format!("cannot make the manual page: {e}")))?;
    raw(&page);
    Ok(exit::DONE)
}

fn render(mut command: Command, page: &mut Vec<u8>) -> std::io::Result<()> {
    command.build();
    Man::new(command.clone()).render(page)?;
    for subcommand in command.get_subcommands().filter(|c| c.get_name() != "help") {
        let man = Man::new(subcommand.clone());
        man.render_name_section(page)?;
        man.render_synopsis_section(page)?;
        man.render_options_section(page)?;
    }
    Ok(())
}
