//! The text about MCP servers in a request: the tools to find and call the servers' tools, all of
//! their tools if they are few, and a line for each server.
//!
//! Invariant: texts of servers are quoted as data: a line of one cannot be taken for another line,
//! nor for the end of the list.

use super::server_schema;
use crate::core::budget::Budget;
use crate::core::entry::ToolSpec;
use crate::core::permission::MCP_FIND;
use crate::core::text::{clip, count};
use crate::core::visible::visible;
use crate::mcp::catalogue::{Catalogue, CatalogueServer, CatalogueTool};
use crate::tools;

/// Limits for listing all tools of the servers directly: a percentage of the window, and a number
/// of tokens.
const DIRECT_PERCENT: u64 = 8;
const DIRECT_TOKENS: u64 = 4_000;

/// Maximum size of a line: 20 tokens.
const LINE_BYTES: usize = 79;

/// Minimum size of a quote. A shorter one means nothing.
const QUOTE_MIN_BYTES: usize = 12;

/// Size that is reserved for the line about left-out servers.
const MORE_BYTES: usize = 40;

/// Returns the tools for a window of this size. Where all tools of the servers are listed whole, the
/// one that finds them is left out.
pub(super) fn specs(catalogue: &Catalogue, budget: &Budget) -> Vec<ToolSpec> {
    if catalogue.servers.is_empty() {
        return Vec::new();
    }
    let direct = direct(catalogue, budget);
    let mut specs = match budget.is_tiny() {
        true => tools::short_server_specs(),
        false => tools::server_specs(),
    };
    let is_known = catalogue.servers.iter().all(CatalogueServer::is_known);
    if is_known && !direct.is_empty() && direct.iter().all(|(_, is_whole)| *is_whole) {
        specs.retain(|tool| tool.name != MCP_FIND);
    }
    specs.extend(direct.into_iter().map(|(spec, _)| spec));
    specs
}

/// Returns all tools of all servers, and whether each is whole, or none if they are too many.
fn direct(catalogue: &Catalogue, budget: &Budget) -> Vec<(ToolSpec, bool)> {
    let room = (budget.window * DIRECT_PERCENT / 100).min(DIRECT_TOKENS);
    let room = budget.bytes(room);
    let mut used = 0;
    let mut specs = Vec::new();
    for (_, tool) in catalogue.tools() {
        // Stops early, so that a far too long list is not measured as a whole.
        if used + tool.description.len() > room {
            return Vec::new();
        }
        let (spec, is_whole) = spec(tool);
        used += serde_json::to_string(&spec).map_or(0, |text| text.len());
        specs.push((spec, is_whole));
    }
    if used <= room { specs } else { Vec::new() }
}

fn spec(tool: &CatalogueTool) -> (ToolSpec, bool) {
    let (schema, is_whole) = server_schema::for_requests(&tool.schema);
    let description = match is_whole {
        true => tool.description.clone(),
        false => format!("{} (mcp_find shows all arguments)", tool.description),
    };
    let spec = ToolSpec {
        name: tool.full_name.clone(),
        description,
        schema,
    };
    (spec, is_whole)
}

/// Returns a line for each server, within its room, or nothing without servers.
pub(super) fn list(catalogue: &Catalogue, room: usize) -> String {
    if catalogue.servers.is_empty() {
        return String::new();
    }
    let mut text = "<servers>\n".to_string();
    let mut left_out = 0;
    for server in &catalogue.servers {
        let line = line(server);
        match left_out == 0 && text.len() + line.len() + MORE_BYTES <= room.max(2 * LINE_BYTES) {
            true => text.push_str(&line),
            false => left_out += 1,
        }
    }
    if left_out > 0 {
        text.push_str(&format!("- {} more\n", count(left_out, "server")));
    }
    text.push_str("</servers>");
    text
}

fn line(server: &CatalogueServer) -> String {
    let name = server.short_name();
    if !server.is_known() {
        return format!("- {name}: tools not known yet\n");
    }
    let mut line = format!("- {name}: {}", count(server.tools.len(), "tool"));
    let said = [&server.instructions, &server.calls_itself];
    let said = said.map(|text| quotable(text));
    let quoted = said.into_iter().find(|text| !text.is_empty());
    let room = LINE_BYTES.saturating_sub(line.len() + ", \"\"".len());
    if let Some(quoted) = quoted
        && room >= QUOTE_MIN_BYTES
    {
        line.push_str(&format!(", \"{}\"", clip(&quoted, room)));
    }
    line.push('\n');
    line
}

/// Returns the text as one line that cannot end the quote or the list.
fn quotable(text: &str) -> String {
    let shown = visible(clip(text, 1_000).as_ref()).into_owned();
    let words: Vec<&str> = shown.split_whitespace().collect();
    words
        .join(" ")
        .replace('<', "‹")
        .replace('>', "›")
        .replace('"', "'")
}

#[cfg(test)]
mod tests;
