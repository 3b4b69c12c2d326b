//! Servers of the Model Context Protocol: their definitions, their trust and their final values.
//!
//! `[mcp_servers.NAME]` is in the user's config or in the workspace's, and the workspace may also
//! have a `.mcp.json`. A definition is never merged from two files: otherwise a repository could
//! send the user's tokens to its own address. If two definitions have the same name, the
//! user's own one is used, or else the nearer one, with a note.
//!
//! Invariant: a definition that comes with a repository is used only when a person trusts exactly
//! that definition ([`DefinedServer::hash`], of the text before `${VAR}` is expanded).
//!
//! Invariant: values of `env` and `headers` are in no `Debug`, no log and no file.

pub(super) mod check;
pub(super) mod definition;
mod expand;
mod find;
mod import;
mod json;
pub mod names;
mod project;
mod shown;

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::core::access::Access;

pub use check::{is_server_name, server_fault};
pub(super) use definition::is_server;
pub use definition::{DefinedServer, ServerSource, ServerTrusted};
pub use find::{
    FoundServer, FoundServers, ServerState, as_trusted, asked_variables, find, server_states,
};
pub(super) use import::without_comments;
pub use import::{Imported, importable};
pub use json::mcp_json;
pub(super) use json::servers_in;
pub(super) use project::{of_workspace, refused};
pub(super) use shown::shown;
pub use shown::start;

/// Default time that a server runs without a session, seconds.
const IDLE_TIMEOUT_SEC: u64 = 900;

/// Default time until a server has to answer, seconds.
const STARTUP_S: f64 = 10.0;

/// The versions of the protocol that are spoken, newest first.
pub const PROTOCOL_VERSIONS: [&str; 4] = ["2026-07-28", "2025-11-25", "2025-06-18", "2025-03-26"];

/// `[mcp_servers.NAME]` as written.
#[derive(Clone, PartialEq, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields, expecting = "a table")]
pub struct McpServer {
    /// The program of a server over stdin and stdout.
    pub command: Option<String>,
    pub args: Vec<String>,
    /// Variables for the server besides PATH, HOME, LANG, TMPDIR and the proxies.
    pub env: BTreeMap<String, String>,
    /// Working directory. `None`: the root of the workspace.
    pub cwd: Option<PathBuf>,
    /// Address of a server over HTTP.
    pub url: Option<String>,
    pub headers: BTreeMap<String, String>,
    /// Name of the variable whose value is sent as `Authorization: Bearer`.
    pub bearer_token_env_var: Option<String>,
    /// Version of the protocol. `None`: the server is asked.
    pub protocol_version: Option<String>,
    /// Time until the server has to answer, seconds.
    pub startup_timeout_sec: f64,
    /// Time limit of a call, seconds. `None`: no limit.
    pub tool_timeout_sec: Option<f64>,
    /// `None`: all tools.
    pub enabled_tools: Option<Vec<String>>,
    pub disabled_tools: Vec<String>,
    pub enabled: bool,
    /// Tools that the server calls read-only run without approval, and those that it calls
    /// repeatable are repeated. Applies only in the user's own config.
    pub trust_annotations: bool,
    /// Time that the server runs without a session, seconds.
    pub idle_timeout_sec: u64,
    /// Sandbox level. `None`: no sandbox.
    pub sandbox: Option<Access>,
}

impl Default for McpServer {
    fn default() -> McpServer {
        McpServer {
            command: None,
            args: Vec::new(),
            env: BTreeMap::new(),
            cwd: None,
            url: None,
            headers: BTreeMap::new(),
            bearer_token_env_var: None,
            protocol_version: None,
            startup_timeout_sec: STARTUP_S,
            tool_timeout_sec: None,
            enabled_tools: None,
            disabled_tools: Vec::new(),
            enabled: true,
            trust_annotations: false,
            idle_timeout_sec: IDLE_TIMEOUT_SEC,
            sandbox: None,
        }
    }
}

/// Shows variables and headers by name only, and of an address only its target: the rest may
/// contain secrets.
impl fmt::Debug for McpServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("McpServer")
            .field("command", &self.command)
            .field("args", &self.args.len())
            .field("env", &self.env.keys())
            .field("url", &self.url.as_deref().map(bare_url))
            .field("headers", &self.headers.keys())
            .field("enabled", &self.enabled)
            .field("trust_annotations", &self.trust_annotations)
            .field("sandbox", &self.sandbox)
            .finish_non_exhaustive()
    }
}

impl McpServer {
    /// Returns whether the model may use a tool of this name.
    pub fn offers(&self, tool: &str) -> bool {
        let is = |name: &String| name == tool;
        self.enabled_tools
            .as_ref()
            .is_none_or(|only| only.iter().any(is))
            && !self.disabled_tools.iter().any(is)
    }
}

/// Returns an address without the parts that may be secret: user, password and query.
pub fn bare_url(url: &str) -> String {
    let end = url.find(['?', '#']).unwrap_or(url.len());
    let (address, rest) = url.split_at(end);
    let more = if rest.is_empty() { "" } else { "?…" };
    let (scheme, place) = match address.split_once("://") {
        Some((scheme, place)) => (format!("{scheme}://"), place),
        None => (String::new(), address),
    };
    let host_end = place.find('/').unwrap_or(place.len());
    let (host, path) = place.split_at(host_end);
    let host = match host.rsplit_once('@') {
        Some((_, host)) => format!("…@{host}"),
        None => host.to_string(),
    };
    format!("{scheme}{host}{path}{more}")
}

#[cfg(test)]
mod tests;
