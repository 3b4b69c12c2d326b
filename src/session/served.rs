//! The MCP servers of a session: their list, their known tools, and how a server is started.

use std::path::PathBuf;
use std::time::Duration;

use super::{AppContext, SessionError};
use crate::command::own_exe;
use crate::config::mcp::{FoundServers, find};
use crate::core::policy::{Rule, ServedTool};
use crate::core::settings::ServedCheck;
use crate::mcp::catalogue::SessionCatalogue;
use crate::mcp::changed::changed as changed_text;
use crate::mcp::era::ProtocolHint;
use crate::mcp::launch::{LaunchPlace, launch};
use crate::store::Store;
use crate::world::confine::Confine;
use crate::world::{FindTool, KnownTool, Launch, LaunchServer, ServerAccess};

impl AppContext {
    /// Returns the servers that may be used here.
    pub fn found_servers(&self) -> FoundServers {
        find(&self.env, &self.loaded)
    }

    /// Returns the known tools of the servers. If the store cannot be read, the start continues
    /// without known tools.
    pub(super) fn catalogue(&self, store: &Store) -> SessionCatalogue {
        let found = self.found_servers();
        let loaded = SessionCatalogue::load(store, found.clone());
        loaded.unwrap_or_else(|error| {
            tracing::warn!(%error, "what is known of the servers cannot be read");
            SessionCatalogue::unknown(found)
        })
    }

    /// Returns the access of a session to its servers.
    pub(super) fn server_access(
        &self,
        catalogue: &SessionCatalogue,
        session: &str,
        sandbox: Option<&Confine>,
        lease_file: Option<PathBuf>,
    ) -> Result<ServerAccess, SessionError> {
        Ok(ServerAccess {
            servers: self.servers()?,
            find: find_tool(catalogue.clone()),
            launch: self.launch_server(catalogue.clone(), session, sandbox, lease_file)?,
        })
    }

    fn launch_server(
        &self,
        catalogue: SessionCatalogue,
        session: &str,
        sandbox: Option<&Confine>,
        lease_file: Option<PathBuf>,
    ) -> Result<LaunchServer, SessionError> {
        let exe = own_exe().map_err(SessionError::OwnExe)?;
        let env = self.env.clone();
        let keys_dir = self.paths.keys_dir();
        let (session, workspace) = (session.to_string(), self.here.root.clone());
        let sandbox = sandbox.cloned();
        Ok(Box::new(move |name| {
            let found = catalogue.found(name);
            let found = found.ok_or_else(|| format!("there is no server {name} any more"))?;
            let profile = sandbox
                .as_ref()
                .map(|sandbox| move |access| sandbox.profile(access, &[]));
            let at = LaunchPlace {
                env: &env,
                keys_dir: &keys_dir,
                session: &session,
                workspace: &workspace,
                exe: &exe,
                confine: profile.as_ref().map(|profile| profile as _),
                lease_file: lease_file.as_deref(),
            };
            let (spec, env) = launch(found, &at)?;
            Ok(Launch {
                spec,
                env,
                startup: Duration::from_secs_f64(found.server.startup_timeout_sec),
                protocol: ProtocolHint::of(
                    found.server.protocol_version.as_deref(),
                    catalogue.now().era(name),
                ),
            })
        }))
    }
}

fn find_tool(catalogue: SessionCatalogue) -> FindTool {
    Box::new(move |full_name| {
        let now = catalogue.now();
        now.check(full_name)?;
        let missing = || format!("there is no tool {full_name}");
        let (server, tool) = now.lookup(full_name).ok_or_else(missing)?;
        let found = catalogue.found(&server.name).ok_or_else(missing)?;
        let says = |hint: &str| tool.annotations[hint] == true;
        let is_believed = found.server.trust_annotations;
        Ok(KnownTool {
            server: server.name.clone(),
            name: tool.name.clone(),
            repeatable: is_believed && (says("readOnlyHint") || says("idempotentHint")),
            limit: found.server.tool_timeout_sec.map(Duration::from_secs_f64),
        })
    })
}

/// Returns the properties of a server's tool that the rules use, from its current description.
/// `allowed` are the rules that a person gave.
pub(super) fn judged<'a>(
    catalogue: &SessionCatalogue,
    full_name: &str,
    allowed: impl Iterator<Item = &'a Rule>,
) -> Option<ServedTool> {
    let now = catalogue.now();
    let (server, tool) = now.lookup(full_name)?;
    let says = |hint: &str| tool.annotations[hint] == true;
    let found = catalogue.found(&server.name)?;
    let specs = allowed.filter_map(|rule| rule.spec_of(full_name));
    // The last rule is the newest one.
    let changed = specs.last().filter(|spec| !tool.hash.starts_with(spec));
    let changed = changed.map(|spec| {
        let former = server.former.iter().chain(&server.tools);
        let was = former.filter(|was| was.name == tool.name && was.hash.starts_with(spec));
        was.map(|was| changed_text(was, tool))
            .next()
            .unwrap_or_default()
    });
    Some(ServedTool {
        hash: tool.hash.clone(),
        only_looks: found.server.trust_annotations && says("readOnlyHint"),
        is_destructive: says("destructiveHint"),
        changed,
    })
}

/// Returns the check whether a server's tool can be called.
pub(super) fn served_check(catalogue: SessionCatalogue) -> ServedCheck {
    std::sync::Arc::new(move |full_name| catalogue.check(full_name))
}
