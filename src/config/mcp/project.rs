//! The servers that a workspace defines itself.

use std::path::Path;

use super::check::{MAX_SERVERS, too_many};
use super::definition::{KEY, defined};
use super::json::{McpJson, mcp_json, read};
use super::{DefinedServer, ServerSource, ServerTrusted};
use crate::config::file::Digest;
use crate::config::layer::Leaf;
use crate::config::project::project_file;
use crate::config::{ConfigError, Warning};

/// As many are named in a warning.
const MAX_NAMED: usize = 10;

/// Whether a key of the config is part of a server's definition.
pub(in crate::config) fn is_server(path: &[String]) -> bool {
    path.first().is_some_and(|first| first == KEY)
}

/// The servers of a workspace, as they were read.
pub(in crate::config) struct OfWorkspace {
    pub servers: Vec<DefinedServer>,
    /// Why a file gives none.
    pub faults: Vec<ConfigError>,
    /// Of `.mcp.json`.
    pub digest: Digest,
}

/// Those of its own config, of which these are the leaves, and its `.mcp.json`.
pub(in crate::config) fn of_workspace(root: &Path, leaves: &[Leaf]) -> OfWorkspace {
    let McpJson { digest, servers } = read(&mcp_json(root));
    let mut own = defined(leaves, ServerSource::Project);
    let mut faults = Vec::new();
    if own.len() > MAX_SERVERS {
        faults.push(too_many(&project_file(root), own.len()));
        own.clear();
    }
    match servers {
        Ok(servers) => own.extend(servers),
        Err(error) => faults.push(error),
    }
    OfWorkspace {
        servers: own,
        faults,
        digest,
    }
}

/// One line on the servers that are not used, since nobody trusts them as they are.
pub(in crate::config) fn refused(root: &Path, servers: &[DefinedServer]) -> Option<Warning> {
    let is_wanted = |defined: &&DefinedServer| {
        let is_on = defined.server.as_ref().is_ok_and(|server| server.enabled);
        defined.trusted != ServerTrusted::Yes && is_on
    };
    let refused: Vec<&DefinedServer> = servers.iter().filter(is_wanted).collect();
    let first = refused.first()?;
    let is_untrusted = first.trusted == ServerTrusted::No;
    let named = refused.iter().take(MAX_NAMED).map(|defined| {
        let how = match defined.trusted {
            ServerTrusted::Changed => ", changed since it was trusted",
            ServerTrusted::New => ", new since the folder was trusted",
            ServerTrusted::No | ServerTrusted::Yes => "",
        };
        format!("{} ({}{how})", defined.name, defined.source)
    });
    let mut named: Vec<String> = named.collect();
    if let Some(more) = refused
        .len()
        .checked_sub(MAX_NAMED)
        .filter(|more| *more > 0)
    {
        named.push(format!("{more} more"));
    }
    let folder = root.display();
    Some(Warning {
        text: match is_untrusted {
            true => format!(
                "MCP servers of {folder} are not used, since the folder is not trusted: {}",
                named.join(", ")
            ),
            false => format!("MCP servers of {folder} are not used: {}", named.join(", ")),
        },
        hint: Some(
            match is_untrusted {
                true => "`rewake mcp list` shows them; `rewake trust` trusts the folder",
                false => "`rewake mcp list` shows them; `rewake trust` trusts them as they are now",
            }
            .to_string(),
        ),
    })
}
