//! Selection of the servers that may be used, with their final values.
//!
//! Invariant: no definition of a repository replaces one of the user, so the user's rules for a
//! server apply to no other.
//! Invariant: a key of a provider does not go to a server that a repository defines, whatever it
//! is called there and however much the repository is trusted.

use std::collections::BTreeMap;

use super::check::fault;
use super::expand::{expand, variables};
use super::names::server_part;
use super::{DefinedServer, McpServer, ServerSource, ServerTrusted};
use crate::config::{Env, Loaded, Origin};
use crate::core::access::Access;

/// Minimum length of a value that is treated as a key. A shorter one may occur elsewhere by
/// chance.
const KEY_MIN_BYTES: usize = 12;

/// Maximum number of notes.
const MAX_NOTES: usize = 10;

/// A server that may be used.
#[derive(Debug, Clone, PartialEq)]
pub struct FoundServer {
    pub name: String,
    pub source: ServerSource,
    pub origin: Origin,
    /// The definition after variables were expanded.
    pub server: McpServer,
    /// The access in the sandbox with which a workspace's server was trusted. `None`: it is the
    /// user's own, or it runs no program of a workspace.
    pub access: Option<Access>,
    /// Hash of the definition before that: blake3 in hex.
    pub hash: String,
}

/// The servers that may be used, by name, and notes about the others. Untrusted servers are
/// reported by [`Loaded::warnings`].
#[derive(Debug, Clone, PartialEq, Default)]
pub struct FoundServers {
    pub servers: Vec<FoundServer>,
    pub notes: Vec<String>,
}

/// The state of a definition.
#[derive(Debug, Clone, PartialEq)]
pub enum ServerState {
    Usable(Box<FoundServer>),
    /// `enabled = false`.
    Off,
    /// The user has not trusted the current definition.
    Untrusted,
    /// The user, or else a nearer config, defines the same name.
    Shadowed(Origin),
    /// Reason why the server cannot be used, and a hint.
    Wrong(String, Option<String>),
}

/// Returns the servers that may be used.
pub fn find(env: &Env, loaded: &Loaded) -> FoundServers {
    let mut found = FoundServers::default();
    for (defined, state) in server_states(env, loaded) {
        let (name, origin) = (&defined.name, &defined.origin);
        match state {
            ServerState::Usable(server) => {
                found.notes.extend(not_counted(defined));
                found.servers.push(*server);
            }
            ServerState::Shadowed(by) => found.notes.push(format!(
                "server {name:?}: the one of {by} is used, not the one of {origin}"
            )),
            ServerState::Wrong(why, hint) => {
                let hint = hint.map(|hint| format!("; {hint}")).unwrap_or_default();
                found.notes.push(format!(
                    "server {name:?} of {origin} is not used: {why}{hint}"
                ));
            }
            ServerState::Off | ServerState::Untrusted => {}
        }
    }
    if let Some(more) = found
        .notes
        .len()
        .checked_sub(MAX_NOTES)
        .filter(|more| *more > 0)
    {
        found.notes.truncate(MAX_NOTES);
        found
            .notes
            .push(format!("{more} more notes on servers: rewake mcp list"));
    }
    found
}

/// Returns a note about keys in a repository's definition that only the user may set.
fn not_counted(defined: &DefinedServer) -> Option<String> {
    let server = defined.server.as_ref().ok()?;
    if defined.source == ServerSource::User {
        return None;
    }
    let trust = server.trust_annotations.then_some("trust_annotations");
    let sandbox = (server.sandbox == Some(Access::Full)).then_some("sandbox = \"full\"");
    let keys: Vec<&str> = trust.into_iter().chain(sandbox).collect();
    (!keys.is_empty()).then(|| {
        format!(
            "server {:?} of {}: not used, since only your own config says it: {}",
            defined.name,
            defined.origin,
            keys.join(", ")
        )
    })
}

/// Returns every definition and its state, sorted by the part of the name that is in the names of
/// tools, the user's own and then the nearest
/// first. The user's own counts even if it is off.
pub fn server_states<'a>(env: &Env, loaded: &'a Loaded) -> Vec<(&'a DefinedServer, ServerState)> {
    let mut by_name: BTreeMap<String, Vec<&DefinedServer>> = BTreeMap::new();
    for defined in &loaded.servers {
        by_name
            .entry(server_part(&defined.name))
            .or_default()
            .push(defined);
    }
    let mut states = Vec::new();
    for mut all in by_name.into_values() {
        all.sort_by_key(|defined| {
            let is_own = defined.source == ServerSource::User;
            std::cmp::Reverse((is_own, defined.source))
        });
        let mut winner: Option<&DefinedServer> = None;
        for defined in all {
            let state = match (&defined.server, defined.trusted, winner) {
                (Err(why), _, _) => ServerState::Wrong(why.clone(), None),
                (_, _, Some(winner)) => ServerState::Shadowed(winner.origin.clone()),
                (Ok(server), ServerTrusted::Yes, None) => {
                    winner = Some(defined);
                    used(env, loaded, defined, server)
                }
                (_, _, _) => ServerState::Untrusted,
            };
            states.push((defined, state));
        }
    }
    states
}

/// Returns the state that a definition would have if it were trusted and no nearer one existed:
/// for a user who has just written it.
pub fn as_trusted(env: &Env, loaded: &Loaded, defined: &DefinedServer) -> ServerState {
    match &defined.server {
        Ok(server) => used(env, loaded, defined, server),
        Err(why) => ServerState::Wrong(why.clone(), None),
    }
}

/// Returns the state of a definition whose name no other one has.
fn used(env: &Env, loaded: &Loaded, defined: &DefinedServer, server: &McpServer) -> ServerState {
    if !server.enabled {
        return ServerState::Off;
    }
    let mut server = server.clone();
    if defined.source != ServerSource::User {
        server.trust_annotations = false;
        server.sandbox = server.sandbox.filter(|level| *level != Access::Full);
    }
    let expanding = Expanding {
        env,
        loaded,
        is_own: defined.source == ServerSource::User,
    };
    match expanding.server(&mut server) {
        Err((why, hint)) => ServerState::Wrong(why, hint),
        Ok(()) => match fault(&defined.name, &server) {
            Some(fault) => ServerState::Wrong(fault.text(), None),
            None => ServerState::Usable(Box::new(FoundServer {
                name: defined.name.clone(),
                source: defined.source,
                origin: defined.origin.clone(),
                server,
                access: defined.granted_access(),
                hash: defined.hash.clone(),
            })),
        },
    }
}

type Refused = (String, Option<String>);

struct Expanding<'a> {
    env: &'a Env,
    loaded: &'a Loaded,
    /// The definition is the user's own, so it may use any variable.
    is_own: bool,
}

impl Expanding<'_> {
    fn server(&self, server: &mut McpServer) -> Result<(), Refused> {
        let one = [&mut server.command, &mut server.url].into_iter().flatten();
        let texts = one
            .chain(&mut server.args)
            .chain(server.env.values_mut())
            .chain(server.headers.values_mut());
        for text in texts {
            *text = self.text(text)?;
        }
        // The token is inserted last, so it is not expanded itself.
        if let Some(name) = server.bearer_token_env_var.take() {
            let is_key = !self.is_own && self.loaded.key_variables.contains(&name);
            if !is_key && self.env.var(&name).is_none() {
                let hint = format!("set {name} to the token");
                return Err((format!("the variable {name} is not set"), Some(hint)));
            }
            let token = self.value(&name, None)?;
            let value = format!("Bearer {}", token.trim());
            server.headers.insert("Authorization".to_string(), value);
        }
        if let Some(cwd) = &mut server.cwd
            && let Some(text) = cwd.to_str()
        {
            *cwd = self.text(text)?.into();
        }
        Ok(())
    }

    fn text(&self, text: &str) -> Result<String, Refused> {
        expand(text, |name, otherwise| self.value(name, otherwise))
    }

    fn value(&self, name: &str, otherwise: Option<&str>) -> Result<String, Refused> {
        let key = |why: String| {
            let hint = "define the server in your own config if it is meant to have it";
            Err((why, Some(hint.to_string())))
        };
        if !self.is_own && self.loaded.key_variables.contains(name) {
            return key(format!(
                "it asks for {name}, which is for the key of a provider, and this folder defines it"
            ));
        }
        match (self.env.var(name), otherwise) {
            (Some(value), _) if !self.is_own && self.is_key(value) => key(format!(
                "it asks for {name}, which holds the key of a provider, and this folder defines it"
            )),
            (Some(value), _) => Ok(value.to_string()),
            (None, Some(otherwise)) => Ok(otherwise.to_string()),
            (None, None) => Err((
                format!("the variable {name} is not set"),
                Some(format!("set {name}, or write ${{{name}:-otherwise}}")),
            )),
        }
    }

    fn is_key(&self, value: &str) -> bool {
        let keys = self.loaded.key_variables.iter();
        let mut keys = keys.filter_map(|name| self.env.var(name)).map(str::trim);
        value.len() >= KEY_MIN_BYTES
            && keys.any(|key| key.len() >= KEY_MIN_BYTES && value.contains(key))
    }
}

/// Returns the variables that a definition uses.
pub fn asked_variables(server: &McpServer) -> Vec<String> {
    let cwd = server.cwd.as_ref().and_then(|cwd| cwd.to_str());
    let one = [server.command.as_deref(), server.url.as_deref(), cwd];
    let texts = one.into_iter().flatten();
    let texts = texts.chain(server.args.iter().map(String::as_str));
    let values = server.env.values().chain(server.headers.values());
    let texts = texts.chain(values.map(String::as_str));
    let mut names: Vec<String> = texts.flat_map(variables).collect();
    names.extend(server.bearer_token_env_var.clone());
    names.sort();
    names.dedup();
    names
}
