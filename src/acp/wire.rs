//! Messages of the Agent Client Protocol, version 1, as far as rewake uses them. Unknown fields are
//! ignored. Source: <https://agentclientprotocol.com>, schema v1.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use crate::config::ConfigError;
use crate::config::mcp::{self, DefinedServer, ServerSource, ServerTrusted};
use crate::core::text::clip;
use crate::session::{AppContext, SessionError, SteerError, added_folder};
use crate::store::StoreError;

pub(super) const PARSE_ERROR: i64 = -32700;
pub(super) const INVALID_REQUEST: i64 = -32600;
pub(super) const UNKNOWN_METHOD: i64 = -32601;
pub(super) const INVALID_PARAMS: i64 = -32602;
pub(super) const INTERNAL_ERROR: i64 = -32603;
/// A key is missing or wrong: "Authentication required" in the protocol.
pub(super) const NO_KEY: i64 = -32000;
/// A session is unknown: "Resource not found" in the protocol.
pub(super) const NOT_FOUND: i64 = -32002;

/// Maximum size of the client's capabilities.
const CAPABILITIES_MAX_BYTES: usize = 64 * 1024;

/// Maximum number of servers (MCP) of a session.
const SERVERS_MAX: usize = 64;

/// Maximum number of additional folders of a session.
const FOLDERS_MAX: usize = 64;

/// Longest name of a server (MCP).
const SERVER_NAME_MAX: usize = 32;

/// An error for the client.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct RpcError {
    pub code: i64,
    pub message: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub data: Option<Value>,
}

impl RpcError {
    pub(super) fn new(code: i64, message: impl Into<String>) -> RpcError {
        RpcError {
            code,
            message: message.into(),
            data: None,
        }
    }

    /// Adds advice for the user.
    pub(super) fn with_hint(mut self, hint: Option<impl Into<String>>) -> RpcError {
        let hint = hint.map(|hint| json!({ "hint": hint.into() }));
        self.data = self.data.or(hint);
        self
    }

    pub(super) fn unknown_session(id: &str) -> RpcError {
        let id = clip(id, 100);
        RpcError::new(NOT_FOUND, format!("there is no open session {id:?}"))
    }
}

impl From<SessionError> for RpcError {
    fn from(error: SessionError) -> RpcError {
        let code = match &error {
            SessionError::Store(StoreError::NotFound { .. }) => NOT_FOUND,
            SessionError::Lost { .. } => NOT_FOUND,
            SessionError::Folder { .. } => INVALID_PARAMS,
            _ => INTERNAL_ERROR,
        };
        let in_use = match &error {
            SessionError::Store(StoreError::Held { pid, .. }) => {
                Some(json!({ "reason": "in_use", "pid": pid }))
            }
            _ => None,
        };
        RpcError {
            code,
            message: error.to_string(),
            data: in_use,
        }
        .with_hint(error.hint())
    }
}

impl From<StoreError> for RpcError {
    fn from(error: StoreError) -> RpcError {
        SessionError::from(error).into()
    }
}

impl From<ConfigError> for RpcError {
    fn from(error: ConfigError) -> RpcError {
        SessionError::from(error).into()
    }
}

impl From<SteerError> for RpcError {
    fn from(error: SteerError) -> RpcError {
        match error {
            SteerError::Session(error) => error.into(),
            SteerError::Refused { what, hint, .. } => {
                RpcError::new(INVALID_PARAMS, what).with_hint(Some(hint))
            }
        }
    }
}

/// Parses the parameters of a method.
pub(super) fn params<'a, T: Deserialize<'a>>(params: &'a RawValue) -> Result<T, RpcError> {
    serde_json::from_str(params.get())
        .map_err(|error| RpcError::new(INVALID_PARAMS, format!("invalid parameters: {error}")))
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Initialize<'a> {
    #[serde(borrow)]
    pub client_capabilities: Option<&'a RawValue>,
}

/// The parts of the protocol that the client supports. Nothing else is sent.
#[derive(Debug, Clone, Default)]
pub(super) struct ClientCapabilities(Value);

impl ClientCapabilities {
    /// Reads the capabilities. What cannot be understood is not supported.
    pub(super) fn read(given: Option<&RawValue>) -> ClientCapabilities {
        let text = given.map_or("", RawValue::get);
        let small = Some(text).filter(|text| text.len() <= CAPABILITIES_MAX_BYTES);
        let value = small.and_then(|text| serde_json::from_str(text).ok());
        ClientCapabilities(value.unwrap_or_default())
    }

    /// Returns whether the client has the capability at a JSON Pointer: `true`, or an object.
    pub(super) fn has(&self, capability: &str) -> bool {
        let value = self.0.pointer(capability);
        value.is_some_and(|value| value.is_object() || *value == true)
    }
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Authenticate {
    pub method_id: String,
}

/// The parameters of `session/new`, `session/load` and `session/resume`.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct OpenSession {
    pub session_id: Option<String>,
    pub cwd: PathBuf,
    additional_directories: Option<Vec<PathBuf>>,
    mcp_servers: Option<Vec<McpServer>>,
}

/// A server (MCP) of the client. `env` and `headers` may have secrets.
#[derive(Deserialize)]
pub(super) struct McpServer {
    #[serde(default, rename = "type")]
    kind: Option<String>,
    name: String,
    command: Option<String>,
    args: Option<Vec<String>>,
    env: Option<Vec<NameValue>>,
    url: Option<String>,
    headers: Option<Vec<NameValue>>,
}

impl std::fmt::Debug for McpServer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("McpServer").finish_non_exhaustive()
    }
}

#[derive(Deserialize)]
struct NameValue {
    name: String,
    value: String,
}

impl OpenSession {
    /// Checks the folders.
    ///
    /// # Errors
    /// One of them cannot be used.
    pub(super) fn check(&self) -> Result<(), RpcError> {
        let wrong = |why: String| Err(RpcError::new(INVALID_PARAMS, why));
        if !self.cwd.is_absolute() {
            return wrong(format!("cwd is not absolute: {}", self.cwd.display()));
        }
        let folders = self.additional_directories.iter().flatten();
        match folders.into_iter().find(|folder| !folder.is_absolute()) {
            Some(folder) => wrong(format!("a folder is not absolute: {}", folder.display())),
            None => Ok(()),
        }
    }

    /// Returns the folders that count as part of the workspace. `None`: the session keeps its own.
    ///
    /// # Errors
    /// A folder is missing, or may not be added.
    pub(super) fn folders(&self, ctx: &AppContext) -> Result<Option<Vec<String>>, RpcError> {
        let Some(folders) = &self.additional_directories else {
            return Ok(None);
        };
        if folders.len() > FOLDERS_MAX {
            let why = format!("there are more than {FOLDERS_MAX} folders");
            return Err(RpcError::new(INVALID_PARAMS, why));
        }
        let added = folders.iter().map(|folder| {
            let added = added_folder(ctx, folder);
            added.map_err(|why| {
                RpcError::new(INVALID_PARAMS, format!("{}: {why}", folder.display()))
            })
        });
        added.collect::<Result<_, _>>().map(Some)
    }

    /// Returns the servers (MCP) of the client. They count as the user's own.
    ///
    /// # Errors
    /// A definition is invalid.
    pub(super) fn servers(&mut self) -> Result<Vec<DefinedServer>, RpcError> {
        let servers = self.mcp_servers.take().unwrap_or_default();
        if servers.len() > SERVERS_MAX {
            let why = format!("there are more than {SERVERS_MAX} servers");
            return Err(RpcError::new(INVALID_PARAMS, why));
        }
        let servers = servers.into_iter().map(McpServer::defined);
        let mut servers: Vec<DefinedServer> = servers.collect::<Result<_, _>>()?;
        name_apart(&mut servers);
        Ok(servers)
    }
}

/// Gives each server another name: names that differ only in signs have become one.
fn name_apart(servers: &mut [DefinedServer]) {
    let mut taken = BTreeSet::new();
    for server in servers {
        let given = server.name.clone();
        for number in 2.. {
            if taken.insert(server.name.clone()) {
                break;
            }
            let end = format!("-{number}");
            let room = SERVER_NAME_MAX - end.len();
            server.name = given.chars().take(room).collect::<String>() + &end;
        }
    }
}

impl McpServer {
    fn defined(self) -> Result<DefinedServer, RpcError> {
        let wrong = |why: String| Err(RpcError::new(INVALID_PARAMS, why));
        let name: String = self
            .name
            .chars()
            .map(|c| if c.is_ascii_alphanumeric() { c } else { '-' })
            .take(SERVER_NAME_MAX)
            .collect();
        if !matches!(self.kind.as_deref(), None | Some("stdio" | "http")) {
            return wrong(format!(
                "server {name:?}: only stdio and http are supported"
            ));
        }
        let values = |all: Option<Vec<NameValue>>| -> BTreeMap<String, String> {
            let all = all.unwrap_or_default().into_iter();
            all.map(|one| (one.name, one.value)).collect()
        };
        let server = mcp::McpServer {
            command: self.command,
            args: self.args.unwrap_or_default(),
            env: values(self.env),
            url: self.url,
            headers: values(self.headers),
            ..mcp::McpServer::default()
        };
        if let Some(why) = mcp::server_fault(&name, &server) {
            return wrong(format!("server {name:?}: {why}"));
        }
        Ok(DefinedServer {
            name,
            source: ServerSource::User,
            origin: crate::config::Origin::Flag("the editor".to_string()),
            hash: hash(&server),
            server: Ok(server),
            trusted: ServerTrusted::Yes,
            access: None,
            unused: Vec::new(),
        })
    }
}

/// Returns a hash of the whole definition, so that a server with another key counts as another one.
fn hash(server: &mcp::McpServer) -> String {
    let parts = (&server.command, &server.args, &server.env);
    let text = format!("{parts:?}{:?}{:?}", server.url, server.headers);
    blake3::hash(text.as_bytes()).to_hex().to_string()
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct OfSession {
    pub session_id: String,
}

#[derive(Debug, Default, Deserialize)]
pub(super) struct ListSessions {
    pub cwd: Option<PathBuf>,
    pub cursor: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct SetMode {
    pub session_id: String,
    pub mode_id: String,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct SetConfigOption {
    pub session_id: String,
    pub config_id: String,
    pub value: String,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct CancelRequest {
    pub request_id: Value,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Prompt {
    pub session_id: String,
    pub prompt: Vec<ContentBlock>,
}

/// A part of a prompt.
#[derive(Debug, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum ContentBlock {
    Text { text: String },
    Image { data: String },
    Audio {},
    ResourceLink { name: String, uri: String },
    Resource { resource: Resource },
}

/// Content that the client put into the prompt.
#[derive(Debug, Deserialize)]
pub(super) struct Resource {
    pub uri: String,
    pub text: Option<String>,
    pub blob: Option<String>,
}

/// The answer to `session/request_permission`.
#[derive(Debug, Deserialize)]
pub(super) struct PermissionAnswer {
    pub outcome: PermissionOutcome,
}

#[derive(Debug, Deserialize)]
#[serde(tag = "outcome", rename_all = "snake_case")]
pub(super) enum PermissionOutcome {
    Cancelled,
    #[serde(rename_all = "camelCase")]
    Selected {
        option_id: String,
    },
}

/// The answer to `elicitation/create`.
#[derive(Debug, Deserialize)]
#[serde(tag = "action", rename_all = "snake_case")]
pub(super) enum ElicitationAnswer {
    Accept { content: Option<Map<String, Value>> },
    Decline,
    Cancel,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_whose_names_differ_in_signs_only_have_names_of_their_own() {
        let server = |name: &str| json!({ "name": name, "command": "x", "args": [], "env": [] });
        let params =
            json!({ "cwd": "/", "mcpServers": [server("a b"), server("a.b"), server("a-b-2")] });
        let mut params: OpenSession = serde_json::from_value(params).unwrap();
        let servers = params.servers().ok().unwrap();
        let names: Vec<&str> = servers.iter().map(|server| &*server.name).collect();
        assert_eq!(names, ["a-b", "a-b-2", "a-b-2-2"]);
    }
}
