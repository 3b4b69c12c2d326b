//! `.mcp.json` of the workspace: `mcpServers`, in the common format of agents.
//!
//! An error of the file is reported with its place, and none of its servers is used. An error of
//! one server excludes only that server.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use super::check::{MAX_SERVERS, fault, too_many};
use super::{DefinedServer, McpServer, ServerSource, ServerTrusted};
use crate::config::file::{Digest, ReadError, read_text};
use crate::config::layer::MAX_FILE_BYTES;
use crate::config::{ConfigError, Origin};

/// Returns the path of the file.
pub fn mcp_json(root: &Path) -> PathBuf {
    root.join(".mcp.json")
}

/// The content of the file.
pub(in crate::config) struct McpJson {
    /// Digest of exactly the text that was parsed.
    pub digest: Digest,
    /// Empty if there is no such file.
    pub servers: Result<Vec<DefinedServer>, ConfigError>,
}

pub(in crate::config) fn read(path: &Path) -> McpJson {
    let read = read_text(path, MAX_FILE_BYTES);
    let digest = Digest::of(&read);
    let servers = match read {
        Ok(text) => parse(path, &text),
        Err(ReadError::Missing) => Ok(Vec::new()),
        Err(e) => Err(ConfigError::new(format!(
            "cannot read {}: {e}",
            path.display()
        ))),
    };
    McpJson { digest, servers }
}

/// Returns the servers in a file that the user named.
///
/// # Errors
/// It is missing, cannot be read, or has another shape.
pub(in crate::config) fn servers_in(path: &Path) -> Result<Vec<DefinedServer>, ConfigError> {
    if !path.is_file() {
        return Err(ConfigError::new(format!(
            "there is no file {}",
            path.display()
        )));
    }
    read(path).servers
}

/// Parses the servers in the text, each with its place.
pub(super) fn parse(path: &Path, text: &str) -> Result<Vec<DefinedServer>, ConfigError> {
    let document: Document<'_> =
        serde_json::from_str(text).map_err(|e| ConfigError::new(parser_error(path, 0, &e)))?;
    let Some(Pairs(pairs)) = document.servers else {
        let why = format!("{}: there is no \"mcpServers\" in it", path.display());
        return Err(ConfigError::new(why)
            .with_hint("for example {\"mcpServers\": {\"files\": {\"command\": \"npx\", \"args\": [\"-y\", \"…\"]}}}"));
    };
    if pairs.len() > MAX_SERVERS {
        return Err(too_many(path, pairs.len()));
    }
    let mut all: BTreeMap<String, DefinedServer> = BTreeMap::new();
    for (name, raw) in pairs {
        let before = text[..offset(text, raw.get())].matches('\n').count();
        let mut defined = definition(&name, raw.get(), ServerSource::McpJson);
        defined.origin = Origin::File {
            path: path.to_path_buf(),
            line: before + 1,
        };
        if let Some(twice) = all.get_mut(&name) {
            twice.server = Err("it is defined twice in this file".to_string());
        } else {
            all.insert(name, defined);
        }
    }
    Ok(all.into_values().collect())
}

/// Parses one definition in the form of `mcpServers`, without its place.
pub(super) fn definition(name: &str, json: &str, source: ServerSource) -> DefinedServer {
    let value: Value = serde_json::from_str(json).unwrap_or_default();
    let hash = blake3::hash(value.to_string().as_bytes());
    let entry = match value {
        Value::Object(map) => entry(map),
        _ => Err("it must be an object".to_string()),
    };
    let (server, unused) = match entry {
        Ok((server, unused)) => match fault(name, &server) {
            None => (Ok(server), unused),
            Some(fault) => (Err(fault.text()), unused),
        },
        Err(why) => (Err(why), Vec::new()),
    };
    DefinedServer {
        name: name.to_string(),
        source,
        origin: Origin::Default,
        server,
        hash: hash.to_hex().to_string(),
        trusted: ServerTrusted::No,
        access: None,
        unused,
    }
}

/// Types of servers over HTTP.
const HTTP: [&str; 5] = [
    "http",
    "streamable-http",
    "streamableHttp",
    "streamable_http",
    "sse",
];

/// Converts an entry to a server, and returns its unknown keys.
fn entry(map: Map<String, Value>) -> Result<(McpServer, Vec<String>), String> {
    let mut server = McpServer::default();
    let mut unused = Vec::new();
    let mut kind = None;
    for (key, value) in map {
        match key.as_str() {
            "type" | "transport" => kind = Some(text(&key, value)?),
            "command" => server.command = Some(text(&key, value)?),
            "args" => server.args = texts(&key, value)?,
            "env" => server.env = pairs(&key, value)?,
            "cwd" => server.cwd = Some(text(&key, value)?.into()),
            "url" | "httpUrl" | "serverUrl" => server.url = Some(text(&key, value)?),
            "headers" => server.headers = pairs(&key, value)?,
            // Milliseconds.
            "timeout" => {
                let ms = value.as_f64().ok_or("timeout must be a number")?;
                server.tool_timeout_sec = Some(ms / 1000.0);
            }
            "enabled" => server.enabled = switch(&key, &value)?,
            "disabled" => server.enabled = !switch(&key, &value)?,
            _ => unused.push(key),
        }
    }
    match kind.as_deref() {
        None => {}
        Some("stdio") if server.url.is_some() => {
            return Err("its type is stdio, and it has a url".to_string());
        }
        Some("stdio") => {}
        Some(kind) if HTTP.contains(&kind) && server.url.is_none() => {
            return Err(format!("its type is {kind}, and it has no url"));
        }
        Some(kind) if HTTP.contains(&kind) => {}
        Some(other) => {
            return Err(format!(
                "its type is {other:?}, and there are only stdio and http"
            ));
        }
    }
    Ok((server, unused))
}

fn text(key: &str, value: Value) -> Result<String, String> {
    match value {
        Value::String(text) => Ok(text),
        _ => Err(format!("{key} must be a string")),
    }
}

fn texts(key: &str, value: Value) -> Result<Vec<String>, String> {
    let wrong = || format!("{key} must be a list of strings");
    let Value::Array(values) = value else {
        return Err(wrong());
    };
    let texts = values.into_iter().map(|value| text(key, value));
    texts.collect::<Result<_, _>>().map_err(|_| wrong())
}

fn pairs(key: &str, value: Value) -> Result<BTreeMap<String, String>, String> {
    let wrong = || format!("{key} must be an object of strings");
    let Value::Object(map) = value else {
        return Err(wrong());
    };
    let pairs = map
        .into_iter()
        .map(|(name, value)| Ok((name, text(key, value)?)));
    pairs.collect::<Result<_, String>>().map_err(|_| wrong())
}

fn switch(key: &str, value: &Value) -> Result<bool, String> {
    value
        .as_bool()
        .ok_or_else(|| format!("{key} must be true or false"))
}

/// Returns the position of `part` in `text`.
fn offset(text: &str, part: &str) -> usize {
    let offset = (part.as_ptr() as usize).saturating_sub(text.as_ptr() as usize);
    offset.min(text.len())
}

/// Returns an error of the parser with its place. The value is not shown, because it may be a
/// misplaced secret.
fn parser_error(path: &Path, lines_before: usize, error: &serde_json::Error) -> String {
    let place = format!("{}:{}", path.display(), error.line() + lines_before);
    let text = error.to_string();
    let text = text
        .rsplit_once(" at line ")
        .map_or(&*text, |(text, _)| text);
    match (error.is_data(), text.rsplit_once(", expected ")) {
        (true, Some((_, expected))) => format!("{place}: expected {expected}"),
        _ => format!("{place}: {text}"),
    }
}

#[derive(Deserialize)]
#[serde(expecting = "an object with \"mcpServers\"")]
struct Document<'a> {
    #[serde(borrow, default, rename = "mcpServers")]
    servers: Option<Pairs<'a>>,
}

/// The members of an object, including duplicate names.
struct Pairs<'a>(Vec<(String, &'a RawValue)>);

impl<'de: 'a, 'a> Deserialize<'de> for Pairs<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct All;
        impl<'de> Visitor<'de> for All {
            type Value = Vec<(String, &'de RawValue)>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object with a server for each name")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut all = Vec::new();
                while let Some(pair) = map.next_entry()? {
                    all.push(pair);
                }
                Ok(all)
            }
        }
        deserializer.deserialize_map(All).map(Pairs)
    }
}
