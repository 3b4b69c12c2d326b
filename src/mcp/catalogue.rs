//! The catalogue of the tools of a session's servers, in memory and in the store. A new session
//! starts from the stored catalogue and waits for no server.
//!
//! Invariant: a tool's full name depends on what the config and its server's list say, and not on
//! which server answers first. Where two names meet, the second ends with a hash.
//!
//! Invariant: a catalogue entry belongs to one definition. A server whose definition changed is
//! unknown until it has answered again.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::connection::{Connection, McpError};
use super::era::{Era, NegotiatedServer};
use super::tools::{Listing, ServerTool};
use crate::config::mcp::names::{server_part, tool_name, tool_name_apart};
use crate::config::mcp::{FoundServer, FoundServers};
use crate::core::text::nearest;
use crate::store::{Catalogued, Store, StoreError};

/// Maximum size of the tools of one server. Tools beyond it are left out.
const KEPT_MAX_BYTES: usize = 4 * 1024 * 1024;

/// Limits for former descriptions of tools: number and total size.
const FORMER_MAX: usize = 64;
const FORMER_MAX_BYTES: usize = 256 * 1024;

/// Number of similar names in the error about an unknown name.
const NEAR_NAMES: usize = 3;

/// A tool of a server as the model sees it.
#[derive(Debug, Clone, PartialEq)]
pub struct CatalogueTool {
    /// `mcp__server__tool`.
    pub full_name: String,
    /// Name on the server.
    pub name: String,
    pub description: String,
    /// An object's JSON Schema.
    pub schema: Value,
    /// Hints of the server about the tool's effects. They are not trusted.
    pub annotations: Value,
    /// [`ServerTool::hash`].
    pub hash: String,
}

/// A server of this session and its catalogue entry.
#[derive(Debug, Clone, PartialEq)]
pub struct CatalogueServer {
    /// Name in the config.
    pub name: String,
    /// Hash of the definition that this entry belongs to.
    pub config_hash: String,
    /// Name and version that the server reports; empty while it is unknown.
    pub calls_itself: String,
    pub instructions: String,
    pub tools: Vec<CatalogueTool>,
    /// Former versions of tools that changed or were removed, the newest first.
    pub former: Vec<CatalogueTool>,
    /// Full names of tools that end with a hash because another tool has the usual name.
    pub renamed: BTreeSet<String>,
    /// Full names of tools that the config disables.
    pub switched_off: BTreeSet<String>,
    /// Its protocol at its last start, if that is known.
    pub era: Option<Era>,
    /// Time of the server's answer: UTC, milliseconds since 1970. `None`: the server is unknown.
    pub at_ms: Option<i64>,
}

impl CatalogueServer {
    /// Returns the server's part in the full names of its tools.
    pub fn short_name(&self) -> String {
        server_part(&self.name)
    }

    pub fn is_known(&self) -> bool {
        self.at_ms.is_some()
    }
}

/// A snapshot of the catalogue entries of all servers of a session.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Catalogue {
    /// Servers, sorted by name.
    pub servers: Vec<CatalogueServer>,
}

impl Catalogue {
    /// Loads the entries of the configured servers from the store.
    ///
    /// # Errors
    /// Fails if the store cannot be read.
    pub fn load(store: &Store, found: &FoundServers) -> Result<Catalogue, StoreError> {
        let mut catalogue = Catalogue::default();
        for server in &found.servers {
            let said = store.catalogue().catalogued(&server.name, &server.hash)?;
            // An entry that another version stored in an unknown form is requested from the server
            // again.
            let said = said.and_then(|said| Some((said.at_ms, StoredServer::read(&said.body)?)));
            // Under another definition the server may have had other tools.
            let before = store
                .catalogue()
                .catalogued_before(&server.name, &server.hash)?;
            let before = before.and_then(|before| StoredServer::read(&before.body));
            catalogue.put(server, None);
            if let (Some(before), Some(place)) = (before, catalogue.servers.last_mut()) {
                place.former = former(server, before.tools.into_iter().chain(before.former));
            }
            if said.is_some() {
                catalogue.put(server, said);
            }
        }
        Ok(catalogue)
    }

    /// Returns the tool with this full name.
    pub fn lookup(&self, full_name: &str) -> Option<(&CatalogueServer, &CatalogueTool)> {
        self.tools().find(|(_, tool)| tool.full_name == full_name)
    }

    pub fn tools(&self) -> impl Iterator<Item = (&CatalogueServer, &CatalogueTool)> {
        let servers = self.servers.iter();
        servers.flat_map(|server| server.tools.iter().map(move |tool| (server, tool)))
    }

    /// Checks that the tool with this full name can be called.
    ///
    /// # Errors
    /// Returns the reason, as a text for the model.
    pub fn check(&self, full_name: &str) -> Result<(), String> {
        if self.lookup(full_name).is_some() {
            return Ok(());
        }
        if self
            .servers
            .iter()
            .any(|s| s.switched_off.contains(full_name))
        {
            return Err(format!("{full_name} is switched off in the config"));
        }
        if let Some(server) = self.unknown_of(full_name) {
            return Err(format!(
                "the tools of server {server} are not known yet; mcp_find lists them once it has started"
            ));
        }
        let near = self.near(full_name);
        let hint = match near.is_empty() {
            true => "mcp_find lists those that there are".to_string(),
            false => format!("near to it: {}", near.join(", ")),
        };
        Err(format!(
            "there is no tool {:?} of a server; {hint}",
            crate::core::text::one_line(full_name, 100)
        ))
    }

    /// Returns the names of servers that are still unknown.
    pub fn unknown(&self) -> impl Iterator<Item = &str> {
        let unknown = self.servers.iter().filter(|server| !server.is_known());
        unknown.map(|server| server.name.as_str())
    }

    /// Returns the server that a tool with this full name would belong to, if it is still unknown.
    pub fn unknown_of(&self, full_name: &str) -> Option<&str> {
        let is_of = |name: &&str| full_name.starts_with(&format!("mcp__{}__", server_part(name)));
        self.unknown().find(is_of)
    }

    /// Returns full names that are similar to this one.
    fn near(&self, full_name: &str) -> Vec<String> {
        let wanted = full_name.rsplit("__").next().unwrap_or(full_name);
        let all = || self.tools().map(|(_, tool)| tool);
        let same = all().filter(|tool| tool.name == wanted || tool.full_name.ends_with(wanted));
        let mut near: Vec<String> = match wanted.is_empty() {
            true => Vec::new(),
            false => same.map(|tool| tool.full_name.clone()).collect(),
        };
        let names = || all().map(|tool| tool.full_name.as_str());
        near.extend(nearest(full_name, names()).map(str::to_string));
        let mut seen = BTreeSet::new();
        near.retain(|name| seen.insert(name.clone()));
        near.truncate(NEAR_NAMES);
        near
    }

    /// Returns the protocol of a server at its last start, if that is known.
    pub fn era(&self, server: &str) -> Option<Era> {
        let mut servers = self.servers.iter();
        servers.find(|known| known.name == server)?.era
    }

    /// Replaces the entry of a server by its new answer.
    fn put(&mut self, found: &FoundServer, said: Option<(i64, StoredServer)>) {
        let others = self.servers.iter().filter(|s| s.name != found.name);
        let taken: BTreeSet<String> = others
            .flat_map(|s| &s.tools)
            .map(|tool| tool.full_name.clone())
            .collect();
        let place = self.servers.iter_mut().find(|s| s.name == found.name);
        let said = said.map(|(at_ms, mut said)| {
            if let Some(place) = &place {
                let before = |tools: &[CatalogueTool]| tools.iter().map(ServerTool::from).collect();
                said.remember(before(&place.tools), before(&place.former));
            }
            (at_ms, said)
        });
        let server = known(found, said, taken);
        match place {
            Some(place) => *place = server,
            None => self.servers.push(server),
        }
    }
}

/// Builds the entry of a known server.
fn known(
    found: &FoundServer,
    said: Option<(i64, StoredServer)>,
    mut taken: BTreeSet<String>,
) -> CatalogueServer {
    let at_ms = said.as_ref().map(|(at_ms, _)| *at_ms);
    let said = said.map(|(_, said)| said).unwrap_or_default();
    let mut switched_off = BTreeSet::new();
    let mut renamed = BTreeSet::new();
    let mut tools = Vec::new();
    for tool in said.tools {
        let full_name = tool_name(&found.name, &tool.name);
        if !found.server.offers(&tool.name) {
            switched_off.insert(full_name);
        } else if taken.insert(full_name.clone()) {
            tools.push(named(tool, full_name));
        } else {
            let apart = tool_name_apart(&found.name, &tool.name);
            if taken.insert(apart.clone()) {
                renamed.insert(apart.clone());
                tools.push(named(tool, apart));
            }
        }
    }
    let former = former(found, said.former.into_iter());
    CatalogueServer {
        name: found.name.clone(),
        config_hash: found.hash.clone(),
        calls_itself: said.name,
        era: said.era,
        instructions: said.instructions,
        tools,
        former,
        renamed,
        switched_off,
        at_ms,
    }
}

fn former(found: &FoundServer, tools: impl Iterator<Item = ServerTool>) -> Vec<CatalogueTool> {
    let tools = tools.map(|tool| {
        let full_name = tool_name(&found.name, &tool.name);
        named(tool, full_name)
    });
    tools.take(FORMER_MAX).collect()
}

/// The stored form of a server's description of itself.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
struct StoredServer {
    name: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    era: Option<Era>,
    #[serde(default)]
    instructions: String,
    #[serde(default)]
    tools: Vec<ServerTool>,
    /// Former versions of tools, to describe how they changed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    former: Vec<ServerTool>,
}

impl StoredServer {
    /// Converts the answer of a server. If the list is too long, only the first tools are stored.
    fn of(known: &NegotiatedServer, listing: &Listing) -> StoredServer {
        let mut left = KEPT_MAX_BYTES;
        let tools = listing.tools.iter().map_while(|tool| {
            let bytes =
                tool.description.len() + tool.schema.to_string().len() + 2 * tool.name.len();
            left = left.checked_sub(bytes)?;
            Some(tool.clone())
        });
        StoredServer {
            name: known.name.clone(),
            era: Some(known.era),
            instructions: known.instructions.clone(),
            tools: tools.collect(),
            former: Vec::new(),
        }
    }

    /// Adds the tools that changed or were removed to the former ones.
    fn remember(&mut self, tools: Vec<ServerTool>, former: Vec<ServerTool>) {
        let mut left = FORMER_MAX_BYTES;
        let own = std::mem::take(&mut self.former);
        for tool in tools.into_iter().chain(own).chain(former) {
            let bytes = tool.description.len() + tool.schema.to_string().len();
            let is_kept = self.tools.contains(&tool) || self.former.contains(&tool);
            if is_kept || self.former.len() >= FORMER_MAX || bytes > left {
                continue;
            }
            left -= bytes;
            self.former.push(tool);
        }
    }

    fn read(body: &str) -> Option<StoredServer> {
        match serde_json::from_str(body) {
            Ok(said) => Some(said),
            Err(error) => {
                tracing::warn!(%error, "what was known of a server cannot be read");
                None
            }
        }
    }
}

impl From<&CatalogueTool> for ServerTool {
    fn from(tool: &CatalogueTool) -> ServerTool {
        ServerTool {
            name: tool.name.clone(),
            description: tool.description.clone(),
            schema: tool.schema.clone(),
            annotations: tool.annotations.clone(),
        }
    }
}

fn named(tool: ServerTool, full_name: String) -> CatalogueTool {
    CatalogueTool {
        full_name,
        hash: tool.hash(),
        name: tool.name,
        description: tool.description,
        schema: tool.schema,
        annotations: tool.annotations,
    }
}

/// Requests the tools of a server.
///
/// # Errors
/// The server does not answer within the limit, or with an error.
pub async fn learn(connection: &Connection, limit: Duration) -> Result<Listing, McpError> {
    match connection.known().has_tools {
        true => connection.tools(limit).await,
        false => Ok(Listing::default()),
    }
}

/// Stores the description of a server for later sessions.
///
/// # Errors
/// Fails if the store cannot be written.
pub fn keep(
    store: &mut Store,
    server: &str,
    config_hash: &str,
    known: &NegotiatedServer,
    listing: &Listing,
    now_ms: i64,
) -> Result<(), StoreError> {
    let mut said = StoredServer::of(known, listing);
    let before = store.catalogue().catalogued(server, config_hash)?;
    if let Some(before) = before.and_then(|before| StoredServer::read(&before.body)) {
        said.remember(before.tools, before.former);
    }
    let body = serde_json::to_string(&said).unwrap_or_default();
    let said = Catalogued {
        at_ms: now_ms,
        body,
    };
    store
        .catalogue()
        .store_catalogued(server, config_hash, &said)
}

/// The catalogue of one session, which is updated as servers answer. The beginning of the
/// session's requests does not change when that happens.
#[derive(Debug, Clone, Default)]
pub struct SessionCatalogue(Arc<SharedCatalogue>);

#[derive(Debug, Default)]
struct SharedCatalogue {
    found: FoundServers,
    now: RwLock<Arc<Catalogue>>,
    troubles: Mutex<BTreeMap<String, Trouble>>,
}

/// The reason why a server could not be asked for its tools.
#[derive(Debug)]
struct Trouble {
    why: String,
    /// A person was told.
    is_said: bool,
}

impl SessionCatalogue {
    /// Loads the catalogue of these servers.
    ///
    /// # Errors
    /// Fails if the store cannot be read.
    pub fn load(store: &Store, found: FoundServers) -> Result<SessionCatalogue, StoreError> {
        let now = Catalogue::load(store, &found)?;
        Ok(SessionCatalogue(Arc::new(SharedCatalogue {
            found,
            now: RwLock::new(Arc::new(now)),
            troubles: Mutex::default(),
        })))
    }

    /// Creates a catalogue in which all servers are unknown.
    pub fn unknown(found: FoundServers) -> SessionCatalogue {
        let mut now = Catalogue::default();
        for server in &found.servers {
            now.put(server, None);
        }
        SessionCatalogue(Arc::new(SharedCatalogue {
            found,
            now: RwLock::new(Arc::new(now)),
            troubles: Mutex::default(),
        }))
    }

    /// Returns the current catalogue.
    pub fn now(&self) -> Arc<Catalogue> {
        let now = self.0.now.read().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(&now)
    }

    /// Returns the server of this name in the config.
    pub fn found(&self, server: &str) -> Option<&FoundServer> {
        self.0
            .found
            .servers
            .iter()
            .find(|found| found.name == server)
    }

    /// Returns notes for the user about servers that are not used.
    pub fn notes(&self) -> &[String] {
        &self.0.found.notes
    }

    /// Returns whether no server is configured.
    pub fn is_empty(&self) -> bool {
        self.0.found.servers.is_empty()
    }

    /// Checks that the tool with this full name can be called.
    ///
    /// # Errors
    /// Returns the reason, as a text for the model.
    pub fn check(&self, full_name: &str) -> Result<(), String> {
        let now = self.now();
        let unknown = now.unknown_of(full_name);
        match unknown.and_then(|server| Some((server, self.trouble(server)?))) {
            Some((server, why)) => Err(format!(
                "server {server} cannot be asked: {why}; mcp_find asks it again"
            )),
            None => now.check(full_name),
        }
    }

    /// Notes why a server could not be asked for its tools.
    pub fn failed(&self, server: &str, why: String) {
        let mut troubles = self.troubles();
        if troubles.get(server).is_none_or(|known| known.why != why) {
            let is_said = false;
            troubles.insert(server.to_string(), Trouble { why, is_said });
        }
    }

    /// Returns why an unknown server could not be asked.
    pub fn trouble(&self, server: &str) -> Option<String> {
        self.troubles()
            .get(server)
            .map(|trouble| trouble.why.clone())
    }

    /// Returns a message for a person on a server that could not be asked; each only once.
    pub fn take_trouble(&self) -> Option<String> {
        let mut troubles = self.troubles();
        let mut unsaid = troubles.iter_mut().filter(|(_, trouble)| !trouble.is_said);
        let (server, trouble) = unsaid.next()?;
        trouble.is_said = true;
        Some(format!(
            "the tools of server {server} are not known: {}; rewake mcp doctor {server} tries it again",
            trouble.why
        ))
    }

    fn troubles(&self) -> MutexGuard<'_, BTreeMap<String, Trouble>> {
        let troubles = self.0.troubles.lock();
        troubles.unwrap_or_else(PoisonError::into_inner)
    }

    /// Updates the entry of a server after it answered. Returns whether anything changed.
    pub fn learnt(
        &self,
        server: &str,
        known: &NegotiatedServer,
        listing: &Listing,
        now_ms: i64,
    ) -> bool {
        self.troubles().remove(server);
        let Some(found) = self.found(server) else {
            return false;
        };
        let said = StoredServer::of(known, listing);
        let mut now = self.0.now.write().unwrap_or_else(PoisonError::into_inner);
        let mut new = Catalogue::clone(&now);
        new.put(found, Some((now_ms, said)));
        let without_time = |catalogue: &Catalogue| {
            let server = catalogue.servers.iter().find(|known| known.name == server);
            server
                .filter(|s| s.is_known())
                .map(|server| CatalogueServer {
                    at_ms: None,
                    ..server.clone()
                })
        };
        let is_news = without_time(&now) != without_time(&new);
        if is_news {
            *now = Arc::new(new);
        }
        is_news
    }
}

#[cfg(test)]
mod tests;
