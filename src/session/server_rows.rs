//! The configured MCP servers as `/mcp` shows them: whether each is used, its tools and their cost,
//! whether it runs, and its last output.

use super::{AppContext, clock, now_ms};
use crate::command::server::{ServerInfo, Servers};
use crate::config::mcp::{FoundServer, ServerState, server_states};
use crate::core::budget::BYTES_PER_TOKEN;
use crate::core::text::{count, large_count, one_line};
use crate::core::visible::figure;
use crate::mcp::catalogue::{Catalogue, CatalogueServer};
use crate::mcp::clean;

/// Number of bytes at the end of a server's stderr that are searched for the last line.
const PRINTED_BYTES: u64 = 4096;
const LINE_CHARS: usize = 200;

/// Maximum number of renamed tools that are listed.
const RENAMED_MAX: usize = 8;

/// A configured server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerRow {
    pub name: String,
    /// Whether it is used, and its tools, in one line.
    pub state: String,
    /// More facts, one per line.
    pub more: Vec<String>,
}

impl AppContext {
    /// Returns the servers that are configured here, by name. `session`: the session whose runs are
    /// shown.
    pub fn server_rows(&self, session: Option<&str>) -> Vec<ServerRow> {
        let servers = self.servers().ok();
        let runs = servers.as_ref().map(Servers::list).unwrap_or_default();
        let own = |name: &str| {
            // The newest is last.
            runs.iter()
                .rev()
                .find(|info| info.spec.name == name && Some(info.spec.session.as_str()) == session)
        };
        let known = self.known_servers();
        let states = server_states(&self.env, &self.loaded);
        let rows = states.into_iter().map(|(defined, state)| {
            let name = one_line(&defined.name, 40);
            match state {
                ServerState::Usable(found) => {
                    let run = own(&found.name);
                    ServerRow::usable(name, &found, &known, run, servers.as_ref())
                }
                other => ServerRow {
                    name,
                    state: not_used(&other),
                    more: vec![format!("from {}", defined.source)],
                },
            }
        });
        rows.collect()
    }

    /// Returns the tools of all servers, since the name of a tool may depend on an earlier server.
    fn known_servers(&self) -> Catalogue {
        let store = self.open_store().ok();
        let found = self.found_servers();
        let known = store.and_then(|store| Catalogue::load(&store, &found).ok());
        known.unwrap_or_default()
    }
}

impl ServerRow {
    fn usable(
        name: String,
        found: &FoundServer,
        known: &Catalogue,
        run: Option<&ServerInfo>,
        servers: Option<&Servers>,
    ) -> ServerRow {
        let mut all = known.servers.iter();
        let known = all.find(|server| server.name == found.name);
        let mut state = match known.filter(|server| server.is_known()) {
            Some(server) => tools(server),
            None => "its tools are not known yet".to_string(),
        };
        let mut more = vec![format!("from {} ({})", found.source, found.origin)];
        more.extend(known.into_iter().flat_map(renamed));
        if let Some(run) = run {
            state.push_str(&match run.is_kept {
                true => format!(" · runs for {}", clock(now_ms() - run.since_ms)),
                false => " · it ended".to_string(),
            });
            let printed = servers.and_then(|servers| servers.printed(&run.run, PRINTED_BYTES).ok());
            more.extend(printed.as_deref().and_then(last_line));
        }
        ServerRow { name, state, more }
    }
}

/// Returns a text such as `14 tools, about 1,230 tokens if listed`.
fn tools(server: &CatalogueServer) -> String {
    let bytes = server
        .tools
        .iter()
        .map(|tool| tool.full_name.len() + tool.description.len() + tool.schema.to_string().len());
    let tokens = (bytes.sum::<usize>() as f64 / BYTES_PER_TOKEN).ceil() as u64;
    let off = match server.switched_off.len() {
        0 => String::new(),
        off => format!(" ({} switched off)", figure(off)),
    };
    format!(
        "{}{off}, about {} if listed",
        large_count(server.tools.len() as u64, "tool"),
        large_count(tokens, "token"),
    )
}

/// Returns lines about the tools whose names differ from the usual ones.
fn renamed(server: &CatalogueServer) -> Vec<String> {
    let tools = server.tools.iter();
    let renamed = tools.filter(|tool| server.renamed.contains(&tool.full_name));
    let line = |name: &str, full_name: &str| {
        format!("the tool {name} is {full_name} for the model: another tool has its usual name")
    };
    renamed
        .take(RENAMED_MAX)
        .map(|tool| line(&tool.name, &tool.full_name))
        .collect()
}

fn not_used(state: &ServerState) -> String {
    match state {
        ServerState::Usable(_) => "used".to_string(),
        ServerState::Off => "off: enabled = false".to_string(),
        ServerState::Untrusted => "not trusted: rewake trust".to_string(),
        ServerState::Shadowed(by) => format!("not used: {by} defines it, too"),
        ServerState::Wrong(why, hint) => match hint {
            Some(hint) => format!("cannot be used: {why}; {hint}"),
            None => format!("cannot be used: {why}"),
        },
    }
}

fn last_line(printed: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(printed);
    let last = text.lines().rev().find(|line| !line.trim().is_empty())?;
    let last = one_line(&clean(last, LINE_CHARS), LINE_CHARS);
    Some(format!("it printed last: {last}"))
}

impl ServerRow {
    /// Returns the rows as text.
    pub fn text(rows: &[ServerRow]) -> String {
        if rows.is_empty() {
            return "no MCP server is configured; add one with rewake mcp add".to_string();
        }
        let mut text = count(rows.len(), "server");
        for row in rows {
            text.push_str(&format!("\n\n{}: {}", row.name, row.state));
            for more in &row.more {
                text.push_str(&format!("\n  {more}"));
            }
        }
        text
    }
}
