//! `rewake man`: prints the manual page, generated from the command line's definition.

use clap::Command;
use clap_mangen::Man;

use crate::report::{CliError, exit, raw};

/// Prints one page: the command, then each subcommand with its options.
pub(super) fn run(tree: Command) -> Result<u8, CliError> {
    let mut page = Vec::new();
    let written = render(tree, &mut page);
    written.map_err(|e| CliError::failed(format!("cannot make the manual page: {e}")))?;
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
