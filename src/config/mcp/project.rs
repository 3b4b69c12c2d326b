//! The servers that a workspace defines.

use std::path::Path;

use super::check::{MAX_SERVERS, too_many};
use super::definition::defined;
use super::json::{McpJson, mcp_json, read};
use super::{DefinedServer, ServerSource, ServerTrusted};
use crate::config::file::Digest;
use crate::config::layer::Leaf;
use crate::config::project::project_file;
use crate::config::{ConfigError, Warning};

/// Maximum number of servers that a warning names.
const MAX_NAMED: usize = 10;

/// The servers of a workspace, as they were read.
pub(in crate::config) struct OfWorkspace {
    pub servers: Vec<DefinedServer>,
    /// Errors of files that could not be used.
    pub faults: Vec<ConfigError>,
    /// Digest of `.mcp.json`.
    pub digest: Digest,
}

/// Returns the servers in the workspace's config, which has these leaves, and in its `.mcp.json`.
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

/// Returns a warning about the servers that are not used because their definitions are not
/// trusted.
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
        text: if is_untrusted {
            format!(
                "MCP servers of {folder} are not used, since the folder is not trusted: {}",
                named.join(", ")
            )
        } else {
            format!("MCP servers of {folder} are not used: {}", named.join(", "))
        },
        hint: Some(
            if is_untrusted {
                "`rewake mcp list` shows them; `rewake trust` trusts the folder"
            } else {
                "`rewake mcp list` shows them; `rewake trust` trusts them as they are now"
            }
            .to_string(),
        ),
    })
}
