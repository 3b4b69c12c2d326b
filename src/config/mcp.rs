//! Servers of the Model Context Protocol: who defines them, which may run, and with what values.
//!
//! `[mcp_servers.NAME]` stands in the user's config or in the workspace's own, and the workspace may
//! have a `.mcp.json` besides. A definition is never put together from two files: else a
//! repository could send the user's tokens to an address of its own. Of two with one name the
//! nearer wins, and that is said.
//!
//! Invariant: what comes with a repository is used only when a person trusts that very definition
//! ([`DefinedServer::hash`], of the text before `${VAR}` is expanded).
//!
//! Invariant: values of `env` and `headers` are in no `Debug`, no log and no file.

pub(super) mod check;
pub(super) mod definition;
mod expand;
mod find;
mod import;
mod json;
mod project;
mod shown;

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;

use serde::Deserialize;

use crate::core::access::Access;

pub use check::{is_server_name, server_fault};
pub use definition::{DefinedServer, ServerSource, ServerTrusted};
pub use find::{
    FoundServer, FoundServers, ServerState, as_trusted, asked_variables, find, server_states,
};
pub use import::{Imported, importable};
pub use json::mcp_json;
pub(super) use project::{is_server, of_workspace, refused};
pub(super) use shown::shown;
pub use shown::start;

/// How long a server runs that no session uses, seconds.
const IDLE_TIMEOUT_SEC: u64 = 900;

/// How long a server may take until it answers, seconds.
const STARTUP_S: f64 = 10.0;

/// `[mcp_servers.NAME]` as written.
#[derive(Clone, PartialEq, Deserialize)]
#[cfg_attr(test, derive(serde::Serialize))]
#[serde(default, deny_unknown_fields, expecting = "a table")]
pub struct McpServer {
    /// The program; for a server that is spoken with over stdin and stdout.
    pub command: Option<String>,
    pub args: Vec<String>,
    /// What it gets besides PATH, HOME, LANG, TMPDIR and the proxies.
    pub env: BTreeMap<String, String>,
    /// None: the root of the workspace.
    pub cwd: Option<PathBuf>,
    /// For a server that is spoken with over HTTP.
    pub url: Option<String>,
    pub headers: BTreeMap<String, String>,
    /// The variable whose value is sent as `Authorization: Bearer`.
    pub bearer_token_env_var: Option<String>,
    /// It may take so long until it answers.
    pub startup_timeout_sec: f64,
    /// A call may take so long. None: no limit.
    pub tool_timeout_sec: Option<f64>,
    /// None: all.
    pub enabled_tools: Option<Vec<String>>,
    pub disabled_tools: Vec<String>,
    pub enabled: bool,
    /// What the server calls read-only runs without a question, and what it calls repeatable is
    /// repeated. Counts only in the user's own config.
    pub trust_annotations: bool,
    /// How long it runs without a session.
    pub idle_timeout_sec: u64,
    /// What the system keeps it from doing. None: nothing.
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

/// Variables and headers by name alone, and of an address no more than where it leads: the rest may
/// be secrets.
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
    /// Whether the model may know a tool of this name.
    pub fn offers(&self, tool: &str) -> bool {
        let is = |name: &String| name == tool;
        self.enabled_tools
            .as_ref()
            .is_none_or(|only| only.iter().any(is))
            && !self.disabled_tools.iter().any(is)
    }
}

/// An address without what may be a secret in it: user, password and query.
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
