//! A server as one file defines it, before `${VAR}` is expanded, and its trust.

use std::collections::BTreeMap;
use std::fmt;

use serde::Deserialize;
use toml::Table;

use super::McpServer;
use super::check::fault;
use crate::config::Origin;
use crate::config::layer::{Leaf, insert};
use crate::core::access::Access;

/// The source of a server's definition.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ServerSource {
    /// The user's own config, or a flag.
    User,
    /// `.mcp.json` of the workspace.
    McpJson,
    /// `.rewake/config.toml` of the workspace.
    Project,
}

impl ServerSource {
    /// Returns the file's path from the root of the workspace, or the kind of source.
    pub fn name(self) -> &'static str {
        match self {
            ServerSource::User => "your own config",
            ServerSource::McpJson => ".mcp.json",
            ServerSource::Project => ".rewake/config.toml",
        }
    }
}

impl fmt::Display for ServerSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The trust in a definition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ServerTrusted {
    /// The definition is the user's own, or was trusted unchanged.
    Yes,
    /// The folder is not trusted.
    No,
    /// The folder was trusted before it contained this server.
    New,
    /// The server was trusted with another definition.
    Changed,
}

/// A server as one file defines it.
#[derive(Debug, Clone, PartialEq)]
pub struct DefinedServer {
    pub name: String,
    pub source: ServerSource,
    /// Place of the definition.
    pub origin: Origin,
    /// The definition as written, or the reason why it is invalid.
    pub server: Result<McpServer, String>,
    /// Hash of the definition as written: blake3 in hex.
    pub hash: String,
    pub trusted: ServerTrusted,
    /// The access in the sandbox that was stored with the trust.
    pub access: Option<Access>,
    /// Keys of the definition that rewake does not know.
    pub unused: Vec<String>,
}

impl DefinedServer {
    /// Returns the access in the sandbox with which a server of a workspace runs, once it is
    /// trusted. `None`: it is the user's own, or it runs no program of a workspace.
    pub fn granted_access(&self) -> Option<Access> {
        let server = self.server.as_ref().ok()?;
        let is_sandboxed = self.source != ServerSource::User && server.command.is_some();
        is_sandboxed.then(|| self.access.unwrap_or(Access::Workspace))
    }
}

/// Key of the config table with the servers.
pub(in crate::config) const KEY: &str = "mcp_servers";

/// Returns whether a key of the config is part of a server's definition.
pub(in crate::config) fn is_server(path: &[String]) -> bool {
    path.first().is_some_and(|first| first == KEY)
}

/// Returns the servers defined in one file, or in the user's file and the flags together. The
/// leaves were checked against the schema when they were read.
pub(in crate::config) fn defined(leaves: &[Leaf], source: ServerSource) -> Vec<DefinedServer> {
    let mut tables: BTreeMap<&str, (Table, &Origin)> = BTreeMap::new();
    for leaf in leaves {
        let [first, name, rest @ ..] = &leaf.path[..] else {
            continue;
        };
        if first == KEY && !rest.is_empty() {
            let (table, origin) = tables
                .entry(name)
                .or_insert_with(|| (Table::new(), &leaf.origin));
            if is_before(&leaf.origin, origin) {
                *origin = &leaf.origin;
            }
            insert(table, rest, leaf.value.clone());
        }
    }
    let server = |(name, (table, origin)): (&str, (Table, &Origin))| {
        let hash = blake3::hash(table.to_string().as_bytes());
        let server = McpServer::deserialize(table).map_err(|e| e.message().to_string());
        DefinedServer {
            name: name.to_string(),
            source,
            origin: origin.clone(),
            server: server.and_then(|server| match fault(name, &server) {
                None => Ok(server),
                Some(fault) => Err(fault.text()),
            }),
            hash: hash.to_hex().to_string(),
            trusted: ServerTrusted::Yes,
            access: None,
            unused: Vec::new(),
        }
    };
    tables.into_iter().map(server).collect()
}

/// Returns whether `one` is an earlier line of the same file.
fn is_before(one: &Origin, other: &Origin) -> bool {
    match (one, other) {
        (
            Origin::File { path, line },
            Origin::File {
                path: of,
                line: than,
            },
        ) => path == of && line < than,
        _ => false,
    }
}
