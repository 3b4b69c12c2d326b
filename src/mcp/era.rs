//! The beginning of a connection: the protocol era of a server, and its description of itself.
//!
//! Sources: <https://modelcontextprotocol.io/specification/2025-11-25/basic/lifecycle>,
//! <https://modelcontextprotocol.io/specification/2026-07-28>.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::clean;
use super::task::EXTENSION;
use crate::config::mcp::PROTOCOL_VERSIONS;

/// The version without a handshake.
pub const STATELESS: &str = PROTOCOL_VERSIONS[0];

/// The versions with `initialize`, newest first.
pub const HANDSHAKE: [&str; 3] = [
    PROTOCOL_VERSIONS[1],
    PROTOCOL_VERSIONS[2],
    PROTOCOL_VERSIONS[3],
];

const NAME_MAX_BYTES: usize = 200;
const INSTRUCTIONS_MAX_BYTES: usize = 8 * 1024;

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Era {
    /// The connection begins with `initialize`.
    #[default]
    Handshake,
    /// Each request contains all data in its `_meta`.
    Stateless,
}

/// The protocol of a server, as far as it is known before the server answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ProtocolHint {
    #[default]
    Unknown,
    /// The protocol of an earlier start of the server.
    Earlier(Era),
    /// The version that the user's config names.
    Only(&'static str),
}

impl ProtocolHint {
    /// Returns the hint for a version of the config and the protocol of an earlier start.
    pub fn of(version: Option<&str>, earlier: Option<Era>) -> ProtocolHint {
        let mut all = PROTOCOL_VERSIONS.into_iter();
        match (all.find(|known| Some(*known) == version), earlier) {
            (Some(version), _) => ProtocolHint::Only(version),
            (None, Some(era)) => ProtocolHint::Earlier(era),
            (None, None) => ProtocolHint::Unknown,
        }
    }
}

/// The protocol and the abilities of a server. They are stored beside it for the next agent.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NegotiatedServer {
    pub era: Era,
    /// The protocol's version.
    pub version: String,
    /// Name and version that the server reports.
    pub name: String,
    #[serde(default)]
    pub instructions: String,
    /// The server has tools.
    #[serde(default)]
    pub has_tools: bool,
    #[serde(default)]
    pub has_prompts: bool,
    #[serde(default)]
    pub has_resources: bool,
    /// The server announces changes of its tools.
    #[serde(default)]
    pub tells_changes: bool,
}

fn client_info() -> Value {
    json!({ "name": "rewake", "version": env!("CARGO_PKG_VERSION") })
}

/// Returns the capabilities of this client: the workspace, and questions for a person. They are
/// declared even without a person, since the next agent may have one.
fn capabilities() -> Value {
    json!({ "roots": {}, "elicitation": { "form": {}, "url": {} } })
}

/// Returns the capabilities in the newer era, in which a server may answer a call with a task.
fn stateless_capabilities() -> Value {
    let mut capabilities = capabilities();
    capabilities["extensions"] = json!({ EXTENSION: {} });
    capabilities
}

/// Returns the params of `initialize` in this version.
pub fn initialize_params(version: &str) -> Value {
    json!({
        "protocolVersion": version,
        "capabilities": capabilities(),
        "clientInfo": client_info(),
    })
}

/// Returns the params of a request. In the stateless era they include the client's data.
pub fn params(era: Era, mut params: Value) -> Value {
    if era == Era::Stateless
        && let Some(params) = params.as_object_mut()
    {
        params.insert(
            "_meta".to_string(),
            json!({
                "io.modelcontextprotocol/protocolVersion": STATELESS,
                "io.modelcontextprotocol/clientInfo": client_info(),
                "io.modelcontextprotocol/clientCapabilities": stateless_capabilities(),
            }),
        );
    }
    params
}

/// Reads the answer to `server/discover`. Fails with the versions of the server if none of them is
/// supported without a handshake.
pub fn read_discover(result: &Value) -> Result<NegotiatedServer, Vec<String>> {
    let versions = result["supportedVersions"].as_array();
    let versions: Vec<&str> = versions
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    match versions.contains(&STATELESS) {
        true => Ok(known(Era::Stateless, STATELESS, result)),
        false => Err(versions.iter().map(|v| clean(v, NAME_MAX_BYTES)).collect()),
    }
}

/// Reads the answer to `initialize`. Fails with the version that the server wants.
pub fn read_initialize(result: &Value) -> Result<NegotiatedServer, String> {
    let version = result["protocolVersion"].as_str().unwrap_or_default();
    match HANDSHAKE.contains(&version) {
        true => Ok(known(Era::Handshake, version, result)),
        false => Err(clean(version, NAME_MAX_BYTES)),
    }
}

fn known(era: Era, version: &str, result: &Value) -> NegotiatedServer {
    // In the newer era the server's name is in the answer's `_meta`.
    let info = match &result["serverInfo"] {
        Value::Null => &result["_meta"]["io.modelcontextprotocol/serverInfo"],
        info => info,
    };
    let name = [&info["name"], &info["version"]].map(|part| part.as_str().unwrap_or_default());
    let tools = &result["capabilities"]["tools"];
    NegotiatedServer {
        era,
        version: version.to_string(),
        name: clean(name.join(" ").trim(), NAME_MAX_BYTES).replace('\n', " "),
        instructions: clean(
            result["instructions"].as_str().unwrap_or_default(),
            INSTRUCTIONS_MAX_BYTES,
        ),
        has_tools: !tools.is_null(),
        has_prompts: !result["capabilities"]["prompts"].is_null(),
        has_resources: !result["capabilities"]["resources"].is_null(),
        tells_changes: tools["listChanged"] == true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_of_either_era_is_known() {
        let old = json!({
            "protocolVersion": "2025-06-18",
            "capabilities": { "tools": { "listChanged": true } },
            "serverInfo": { "name": "files", "version": "1" },
        });
        let old = read_initialize(&old).unwrap();
        assert_eq!((old.era, old.name.as_str()), (Era::Handshake, "files 1"));
        assert!(old.has_tools && old.tells_changes);
        let new = json!({
            "supportedVersions": ["2026-07-28"],
            "capabilities": {},
            "_meta": { "io.modelcontextprotocol/serverInfo": { "name": "new" } },
        });
        let new = read_discover(&new).unwrap();
        assert_eq!((new.era, new.name.as_str()), (Era::Stateless, "new"));
        assert!(!new.has_tools);
    }

    #[test]
    fn versions_that_are_not_spoken_are_refused_by_name() {
        let refused = read_initialize(&json!({ "protocolVersion": "1999-01-01\u{7}" }));
        assert_eq!(refused, Err("1999-01-01".to_string()));
        assert_eq!(read_initialize(&json!([])), Err(String::new()));
        let refused = read_discover(&json!({ "supportedVersions": ["2031-01-01", 4] }));
        assert_eq!(refused, Err(vec!["2031-01-01".to_string()]));
        assert_eq!(read_discover(&Value::Null), Err(vec![]));
    }

    #[test]
    fn a_hint_names_a_version_that_is_spoken() {
        let hint = |version, earlier| ProtocolHint::of(version, earlier);
        let known = Some(Era::Handshake);
        assert_eq!(hint(None, None), ProtocolHint::Unknown);
        assert_eq!(hint(None, known), ProtocolHint::Earlier(Era::Handshake));
        assert_eq!(hint(Some(STATELESS), known), ProtocolHint::Only(STATELESS));
    }

    #[test]
    fn only_a_stateless_server_is_told_everything_each_time() {
        assert_eq!(params(Era::Handshake, json!({ "a": 1 })), json!({ "a": 1 }));
        let told = params(Era::Stateless, json!({ "a": 1 }));
        assert_eq!(
            told["_meta"]["io.modelcontextprotocol/protocolVersion"],
            STATELESS
        );
    }
}
