//! `rewake mcp tools`: lists the tools of servers and the tokens that each costs.

use super::trial::{Tried, cost, try_server};
use super::{note_faults, states};
use crate::cli::table::terminal_columns;
use crate::config::mcp::{McpServer, ServerState};
use crate::core::text::{count, one_line};
use crate::report::{CliError, exit, line, note};
use crate::session::AppContext;

/// Width of the output without a terminal: longer descriptions are cut.
const COLUMNS: usize = 120;

pub(super) fn run(ctx: &AppContext, name: Option<&str>) -> Result<u8, CliError> {
    note_faults(ctx);
    let states = states(ctx, name)?;
    if states.is_empty() {
        note("no MCP server is configured; add one with rewake mcp add");
        return Ok(exit::DONE);
    }
    let (mut shown, mut wrong) = (0, Vec::new());
    for (defined, state) in &states {
        let name = &defined.name;
        let found = match state {
            ServerState::Usable(found) => found,
            ServerState::Shadowed(_) => continue,
            other => {
                note(&format!("server {name}: {}", super::list::in_words(other)));
                continue;
            }
        };
        match try_server(ctx, found) {
            Ok(tried) => {
                if shown > 0 {
                    line("");
                }
                shown += 1;
                print(name, &found.server, &tried);
            }
            Err(failed) => wrong.push((name, failed)),
        }
    }
    for (name, wrong) in &wrong {
        let printed = wrong.printed.iter();
        let printed = printed.map(|text| format!("; its last words: {text}"));
        note(&format!(
            "server {name}: {}{}",
            wrong.why,
            printed.collect::<String>()
        ));
    }
    if wrong.is_empty() {
        return Ok(exit::DONE);
    }
    let servers = count(wrong.len() as u64, "server");
    let error = CliError::failed(format!("{servers} did not answer"));
    Err(error.with_hint("rewake mcp doctor says more"))
}

/// Prints the tools of one server, aligned.
pub(super) fn print(name: &str, server: &McpServer, tried: &Tried) {
    let rows: Vec<(String, u64, bool, String)> = tried
        .listing
        .tools
        .iter()
        .map(|tool| {
            let (full, tokens) = cost(name, tool);
            let is_on = server.offers(&tool.name);
            (full, tokens, is_on, one_line(&tool.description, 400))
        })
        .collect();
    let on = rows.iter().filter(|(_, _, is_on, _)| *is_on);
    let sum: u64 = on.clone().map(|(_, tokens, _, _)| tokens).sum();
    let off = rows.len() - on.count();
    let off = match off {
        0 => String::new(),
        off => format!(", {off} of them off"),
    };
    line(&format!(
        "{name}: {}, {}{off}, about {}",
        tried.summary(),
        count(rows.len() as u64, "tool"),
        count(sum, "token"),
    ));
    let wide = rows
        .iter()
        .map(|(full, _, _, _)| full.chars().count())
        .max();
    let wide = wide.unwrap_or(0);
    for (full, tokens, is_on, text) in &rows {
        let figure = if *is_on {
            tokens.to_string()
        } else {
            "off".to_string()
        };
        let start = format!("  {full:<wide$}  {figure:>6}  ");
        let room = terminal_columns().unwrap_or(COLUMNS);
        let room = room.saturating_sub(start.chars().count()).max(20);
        line(format!("{start}{}", one_line(text, room)).trim_end());
    }
    tried.notes().for_each(|text| note(&text));
}
