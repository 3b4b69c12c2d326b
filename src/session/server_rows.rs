//! The servers that are configured, as `/mcp` shows them: whether each is used, what is known of it,
//! what it costs, whether it runs, and what it printed last.

use super::{AppContext, clock, now_ms};
use crate::command::server::{ServerInfo, Servers};
use crate::config::mcp::{FoundServer, ServerState, server_states};
use crate::core::budget::BYTES_PER_TOKEN;
use crate::core::text::{count, large_count, one_line};
use crate::core::visible::figure;
use crate::mcp::catalogue::{Catalogue, CatalogueServer};
use crate::mcp::clean;

/// Of what a server printed on stderr, the last line is shown; it is looked for in so much.
const PRINTED_BYTES: u64 = 4096;
const LINE_CHARS: usize = 200;

/// As many tools that have another name are named.
const RENAMED_MAX: usize = 8;

/// One server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerRow {
    pub name: String,
    /// Whether it is used and what is known of it, in one line.
    pub state: String,
    /// What is known besides, a line each.
    pub more: Vec<String>,
}

impl AppContext {
    /// Those that are configured here, by name. `session`: whose runs are looked at.
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

    /// All of them: the name of a tool may depend on a server before its own.
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

/// `14 tools, 1,230 tokens if they are listed`
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

/// Tools that have not the name that a person expects.
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
    /// The rows as a text of lines.
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
