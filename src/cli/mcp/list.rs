//! `rewake mcp list` and `get`: the configured servers and their states. No server is started.

use serde_json::{Value, json};

use super::{note_faults, states};
use crate::cli::print_json;
use crate::cli::table::terminal_columns;
use crate::config::mcp::{
    DefinedServer, McpServer, ServerSource, ServerState, ServerTrusted, asked_variables, bare_url,
    start,
};
use crate::core::access::Access;
use crate::core::text::one_line;
use crate::core::visible::command;
use crate::report::{CliError, exit, line, note};
use crate::session::AppContext;

/// Width of the output without a terminal: longer commands of servers are cut.
const COLUMNS: usize = 160;

pub(super) fn list(ctx: &AppContext, json: bool) -> Result<u8, CliError> {
    note_faults(ctx);
    let states = states(ctx, None)?;
    if json {
        let all: Vec<Value> = states.iter().map(|(d, s)| as_json(d, s)).collect();
        return print_json(&all);
    }
    if states.is_empty() {
        note(
            "no MCP server is configured; rewake mcp add adds one, rewake mcp import imports those of other agents",
        );
        return Ok(exit::DONE);
    }
    let rows: Vec<[String; 4]> = states
        .iter()
        .map(|(defined, state)| {
            [
                shown_name(&defined.name),
                word(defined, state).to_string(),
                defined.source.name().to_string(),
                starts(defined),
            ]
        })
        .collect();
    print(&rows);
    for (defined, state) in &states {
        match state {
            ServerState::Wrong(why, hint) => {
                note(&format!("{}: {why}", shown_name(&defined.name)));
                if let Some(hint) = hint {
                    note(&format!("hint: {hint}"));
                }
            }
            ServerState::Untrusted | ServerState::Usable(_) => {}
            ServerState::Off | ServerState::Shadowed(_) => {}
        }
    }
    let is_untrusted = |(_, state): &(_, ServerState)| *state == ServerState::Untrusted;
    if states.iter().any(is_untrusted) {
        note("hint: rewake trust trusts what this folder defines, as it is now");
    }
    Ok(exit::DONE)
}

fn print(rows: &[[String; 4]]) {
    let heads = ["name", "state", "from", "starts"];
    let wide = |at: usize| {
        let cells = rows.iter().map(|row| row[at].chars().count());
        cells.max().unwrap_or(0).max(heads[at].len())
    };
    let (name, state, from) = (wide(0), wide(1), wide(2));
    let room = terminal_columns().unwrap_or(COLUMNS);
    let room = room.saturating_sub(name + state + from + 6).max(20);
    let heads = heads.map(str::to_string);
    for [a, b, c, d] in std::iter::once(&heads).chain(rows) {
        let d = one_line(d, room);
        line(format!("{a:<name$}  {b:<state$}  {c:<from$}  {d}").trim_end());
    }
}

/// Escapes a name, because a file may contain any characters.
fn shown_name(name: &str) -> String {
    one_line(&command(name), 40)
}

/// Returns the line about keys of a definition that mean nothing.
pub(super) fn unused_keys(defined: &DefinedServer) -> Option<String> {
    let keys = defined.unused.iter().map(|key| format!("{key:?}"));
    let keys = keys.collect::<Vec<_>>().join(", ");
    (!keys.is_empty()).then(|| format!("keys that mean nothing here: {keys}"))
}

fn starts(defined: &DefinedServer) -> String {
    defined.server.as_ref().map(start).unwrap_or_default()
}

/// Returns a short name of the state.
fn word(defined: &DefinedServer, state: &ServerState) -> &'static str {
    match (state, defined.trusted) {
        (ServerState::Usable(_), _) => "ok",
        (ServerState::Off, _) => "off",
        (ServerState::Untrusted, ServerTrusted::Changed) => "changed",
        (ServerState::Untrusted, _) => "not trusted",
        (ServerState::Shadowed(_), _) => "not used",
        (ServerState::Wrong(..), _) => "wrong",
    }
}

/// Returns a text about a state in which a server cannot be used.
pub(super) fn in_words(state: &ServerState) -> String {
    match state {
        ServerState::Usable(_) => "it is used".to_string(),
        ServerState::Off => "it is off: enabled = false".to_string(),
        ServerState::Untrusted => {
            "it is not trusted as it is now; `rewake trust` trusts it".to_string()
        }
        ServerState::Shadowed(by) => format!("the one of {by} is used"),
        ServerState::Wrong(why, None) => why.clone(),
        ServerState::Wrong(why, Some(hint)) => format!("{why}; {hint}"),
    }
}

pub(super) fn get(ctx: &AppContext, name: &str) -> Result<u8, CliError> {
    for (at, (defined, state)) in states(ctx, Some(name))?.iter().enumerate() {
        if at > 0 {
            line("");
        }
        let row = |key: &str, text: &str| line(&format!("{key:<10} {text}"));
        row("server", &shown_name(&defined.name));
        row("from", &format!("{} ({})", defined.source, defined.origin));
        let state = match state {
            ServerState::Usable(_) => "ok".to_string(),
            other => in_words(other),
        };
        row("state", &state);
        if let Ok(server) = &defined.server {
            describe(defined, server, &row);
        }
        if let Some(unused) = unused_keys(defined) {
            row("unused", &unused);
        }
        row("hash", &defined.hash);
    }
    Ok(exit::DONE)
}

fn describe(defined: &DefinedServer, server: &McpServer, row: &dyn Fn(&str, &str)) {
    let kind = if server.url.is_some() {
        "url"
    } else {
        "command"
    };
    row(kind, &command(&start(server)));
    if let Some(cwd) = &server.cwd {
        row("cwd", &command(&cwd.display().to_string()));
    }
    let names = |names: Vec<&String>| {
        let names = names.into_iter().map(|name| command(name));
        names.collect::<Vec<_>>().join(", ")
    };
    if !server.env.is_empty() {
        row("env", &names(server.env.keys().collect()));
    }
    if !server.headers.is_empty() {
        row("headers", &names(server.headers.keys().collect()));
    }
    let asked = asked_variables(server);
    if !asked.is_empty() {
        row("asks for", &asked.join(", "));
    }
    if let Some(version) = &server.protocol_version {
        row("protocol", version);
    }
    row("start", &format!("within {} s", server.startup_timeout_sec));
    if let Some(seconds) = server.tool_timeout_sec {
        row("call", &format!("within {seconds} s"));
    }
    row("idle", &format!("ends after {} s", server.idle_timeout_sec));
    if let Some(only) = &server.enabled_tools {
        row("only", &names(only.iter().collect()));
    }
    if !server.disabled_tools.is_empty() {
        row("without", &names(server.disabled_tools.iter().collect()));
    }
    let is_own = defined.source == ServerSource::User;
    let trust = match (server.trust_annotations, is_own) {
        (true, true) => "annotations: a call that it calls read-only runs without a question",
        (true, false) => "ask (trust_annotations counts only in your own config)",
        (false, _) => "ask",
    };
    row("trust", trust);
    if server.command.is_some() {
        let levels = server.sandbox.into_iter().chain(defined.granted_access());
        row("sandbox", levels.min().unwrap_or(Access::Full).name());
    }
}

fn as_json(defined: &DefinedServer, state: &ServerState) -> Value {
    let why = match state {
        ServerState::Usable(_) => None,
        other => Some(in_words(other)),
    };
    let server = defined.server.as_ref().ok();
    json!({
        "name": defined.name,
        "state": word(defined, state),
        "why": why,
        "from": defined.source.name(),
        "place": defined.origin.to_string(),
        "command": server.and_then(|server| server.command.clone()),
        "args": server.map(|server| server.args.clone()),
        "url": server.and_then(|server| server.url.as_deref().map(bare_url)),
        "env": server.map(|server| server.env.keys().cloned().collect::<Vec<_>>()),
        "headers": server.map(|server| server.headers.keys().cloned().collect::<Vec<_>>()),
        "hash": defined.hash,
    })
}
