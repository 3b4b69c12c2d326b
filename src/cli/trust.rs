//! `rewake trust`: what the config of a folder may say, its servers and its custom commands.

use super::confirm::{can_ask, is_yes};
use crate::config::{Paths, trust};
use crate::core::visible::command;
use crate::report::{Trouble, exit, line, note};
use crate::session::trust_commands;
use crate::ui::commands::is_own;
use crate::workspace::Here;

/// As many commands are listed.
const MAX_LISTED: usize = 50;

pub(super) fn trust(paths: &Paths, here: &Here) -> Result<u8, Trouble> {
    let root = here.root.display();
    let content = trust::content(&here.root).map_err(|error| match error.hint() {
        Some(_) => error,
        None => error.with_hint("repair the file first: what cannot be read cannot be trusted"),
    })?;
    let lines = content.lines(usize::MAX).into_iter();
    let lines = lines.map(|text| format!("  {}", command(&text).replace('\n', "\n  ")));
    let asks = trust::has_new_servers(paths, &here.root, &content)?;
    if asks {
        // A server is a program that will run: it is seen before that.
        line(&format!("{root} says:"));
        lines.clone().for_each(|text| line(&text));
        if can_ask() && !is_yes("trust it with this?") {
            note("nothing was trusted");
            return Ok(exit::DONE);
        }
    }
    let config_is_new = trust::trust(paths, &here.root, &content)?;
    let (commands, commands_are_new) = trust_commands(here, paths, is_own)?;
    if !config_is_new && !commands_are_new {
        line(&format!(
            "{root} was trusted already, with what it says now"
        ));
        return Ok(exit::DONE);
    }
    line(&format!(
        "{root} is trusted now: its .rewake/config.toml is read whole, and its MCP servers are used, \
         until they say something else"
    ));
    if !asks {
        lines.for_each(|text| line(&text));
    }
    if !commands.is_empty() {
        line("its custom commands may be used, until they say something else:");
    }
    for path in commands.iter().take(MAX_LISTED) {
        line(&format!("  {path}"));
    }
    if let Some(more) = commands.len().checked_sub(MAX_LISTED).filter(|n| *n > 0) {
        line(&format!("  {more} more"));
    }
    Ok(exit::DONE)
}

pub(super) fn untrust(paths: &Paths, here: &Here) -> Result<u8, Trouble> {
    let root = here.root.display();
    match trust::untrust(paths, &here.root)? {
        true => line(&format!("{root} is trusted no longer")),
        false => line(&format!("{root} was not trusted")),
    }
    Ok(exit::DONE)
}
