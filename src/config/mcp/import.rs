//! Servers in the configs of other agents, in the format of each.
//!
//! Nothing from these files is run or expanded. The servers are shown, and written into the user's
//! config on request.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value, json};

use super::check::fault;
use super::json::{definition, mcp_json};
use super::{DefinedServer, McpServer, ServerSource};
use crate::config::{Env, ReadError, read_text};

/// Maximum size of such a file, which may contain the history of all projects.
const MAX_FILE_BYTES: u64 = 64 * 1024 * 1024;

/// Maximum number of servers from one file.
const MAX_OF_FILE: usize = 100;

/// A server of another agent.
#[derive(Debug, Clone, PartialEq)]
pub struct Imported {
    pub name: String,
    /// Name of the agent that has this server.
    pub agent: &'static str,
    pub file: PathBuf,
    /// The file comes with the workspace, so a stranger may have written it.
    pub is_of_workspace: bool,
    /// The server, or the reason why it cannot be imported.
    pub server: Result<McpServer, String>,
}

/// Returns the servers in the configs of other agents of this user and this workspace, and errors
/// about unreadable files.
pub fn importable(env: &Env, root: &Path) -> (Vec<Imported>, Vec<String>) {
    let mut places: Vec<(&'static str, PathBuf)> = Vec::new();
    let home = env.home().map(Path::to_path_buf);
    let config = match env.var_os("XDG_CONFIG_HOME") {
        Some(folder) => Some(PathBuf::from(folder)),
        None => home.as_ref().map(|home| home.join(".config")),
    };
    if let Some(home) = &home {
        let codex = env.var_os("CODEX_HOME").map(PathBuf::from);
        places.push(("claude", home.join(".claude.json")));
        places.push((
            "codex",
            codex.unwrap_or(home.join(".codex")).join("config.toml"),
        ));
        places.push(("gemini", home.join(".gemini/settings.json")));
    }
    if let Some(config) = config {
        places.push(("opencode", config.join("opencode/opencode.json")));
    }
    places.push((".mcp.json", mcp_json(root)));
    places.push(("codex", root.join(".codex/config.toml")));
    places.push(("gemini", root.join(".gemini/settings.json")));
    places.push(("opencode", root.join("opencode.json")));
    let (mut all, mut notes) = (Vec::new(), Vec::new());
    for (agent, file) in places {
        let text = match read_text(&file, MAX_FILE_BYTES) {
            Ok(text) => text,
            Err(ReadError::Missing) => continue,
            Err(e) => {
                notes.push(format!("cannot read {}: {e}", file.display()));
                continue;
            }
        };
        match servers_of(agent, &text, root) {
            Ok(servers) => {
                if let Some(more) = servers.len().checked_sub(MAX_OF_FILE + 1) {
                    notes.push(format!(
                        "{}: {} servers are left out",
                        file.display(),
                        more + 1
                    ));
                }
                let servers = servers.into_iter().take(MAX_OF_FILE);
                all.extend(servers.map(|(name, server)| Imported {
                    name,
                    agent,
                    is_of_workspace: file.starts_with(root),
                    file: file.clone(),
                    server,
                }));
            }
            Err(why) => notes.push(format!("{}: {why}", file.display())),
        }
    }
    (all, notes)
}

type Servers = Vec<(String, Result<McpServer, String>)>;

fn servers_of(agent: &str, text: &str, root: &Path) -> Result<Servers, String> {
    if agent == "codex" {
        return codex(text);
    }
    let text = match agent {
        "opencode" => without_comments(text),
        _ => text.to_string(),
    };
    let document: Value =
        serde_json::from_str(&text).map_err(|e| format!("line {}: it is not JSON", e.line()))?;
    let servers = |value: &Value| value.as_object().cloned().unwrap_or_default();
    let mut all: Map<String, Value> = match agent {
        "opencode" => servers(&document["mcp"]),
        _ => servers(&document["mcpServers"]),
    };
    if agent == "claude" {
        // The part for this folder takes precedence.
        let here = root.to_str().unwrap_or_default();
        all.extend(servers(&document["projects"][here]["mcpServers"]));
    }
    let each = all.into_iter().map(|(name, value)| {
        let server = match (agent, value) {
            ("opencode", value) => of_opencode(&name, value),
            ("gemini", Value::Object(map)) => of_gemini(&name, map),
            (_, value) => of_mcp_servers(&name, &value),
        };
        (name, server)
    });
    Ok(each.collect())
}

fn of_mcp_servers(name: &str, value: &Value) -> Result<McpServer, String> {
    if value["type"] == "sse" || value["transport"] == "sse" {
        return Err("its type is sse, an earlier transport that rewake does not have".to_string());
    }
    let DefinedServer { server, .. } = definition(name, &value.to_string(), ServerSource::User);
    server
}

/// Reads Gemini's format: `includeTools`, `excludeTools`, and `$VAR` without braces. Ignores its
/// trust.
fn of_gemini(name: &str, mut map: Map<String, Value>) -> Result<McpServer, String> {
    let mut tools = |key: &str| {
        let value = map.remove(key)?;
        let names = value.as_array()?.iter();
        Some(
            names
                .filter_map(Value::as_str)
                .map(str::to_string)
                .collect(),
        )
    };
    let (only, without) = (tools("includeTools"), tools("excludeTools"));
    let mut server = of_mcp_servers(name, &Value::Object(map))?;
    let texts = server.args.iter_mut().chain(&mut server.url);
    let texts = texts.chain(server.env.values_mut());
    for text in texts.chain(server.headers.values_mut()) {
        *text = with_braces(text);
    }
    server.enabled_tools = only;
    server.disabled_tools = without.unwrap_or_default();
    Ok(server)
}

/// Converts `$VAR` to `${VAR}`.
fn with_braces(text: &str) -> String {
    let mut parts = text.split('$');
    let mut out = parts.next().unwrap_or_default().to_string();
    for part in parts {
        let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let end = part.find(|c| !is_name(c)).unwrap_or(part.len());
        let (name, rest) = part.split_at(end);
        if name.is_empty() || name.starts_with(|c: char| c.is_ascii_digit()) {
            out.extend(["$", part]);
        } else {
            out.extend(["${", name, "}", rest]);
        }
    }
    out
}

/// Reads OpenCode's format: `local` with its command as a list and `environment`, or `remote`;
/// `{env:VAR}`.
fn of_opencode(name: &str, value: Value) -> Result<McpServer, String> {
    let mut words = value["command"].as_array().cloned().unwrap_or_default();
    let mut taken = Map::new();
    if !words.is_empty() {
        taken.insert("command".to_string(), words.remove(0));
        taken.insert("args".to_string(), Value::Array(words));
    }
    for (theirs, ours) in [
        ("environment", "env"),
        ("url", "url"),
        ("headers", "headers"),
        ("enabled", "enabled"),
    ] {
        if !value[theirs].is_null() {
            taken.insert(ours.to_string(), value[theirs].clone());
        }
    }
    let text = json!(taken).to_string();
    if text.contains("{file:") {
        return Err(
            "it has {file:…}: write ${VAR} and set the variable from that file".to_string(),
        );
    }
    let text = text.replace("{env:", "${");
    let DefinedServer { server, .. } = definition(name, &text, ServerSource::User);
    server
}

/// Removes both kinds of comments and trailing commas from JSON.
pub(in crate::config) fn without_comments(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars().peekable();
    let mut is_text = false;
    while let Some(c) = chars.next() {
        match (c, chars.peek()) {
            ('\\', _) if is_text => {
                out.push(c);
                out.extend(chars.next());
                continue;
            }
            ('"', _) => is_text = !is_text,
            ('/', Some('/')) if !is_text => {
                while chars.next_if(|c| *c != '\n').is_some() {}
                continue;
            }
            ('/', Some('*')) if !is_text => {
                let mut before = ' ';
                for c in chars.by_ref().skip(1) {
                    if (before, c) == ('*', '/') {
                        break;
                    }
                    before = c;
                }
                continue;
            }
            ('}' | ']', _) if !is_text => {
                let kept = out.trim_end().len();
                if out[..kept].ends_with(',') {
                    out.truncate(kept - 1);
                }
            }
            _ => {}
        }
        out.push(c);
    }
    out
}

/// Reads Codex's format: `[mcp_servers.NAME]`, with additional keys for inherited variables and
/// for headers from variables.
fn codex(text: &str) -> Result<Servers, String> {
    let table: toml::Table = toml::from_str(text).map_err(|e: toml::de::Error| {
        let at = e.span().map_or(0, |span| span.start);
        let line = text.get(..at).unwrap_or_default().matches('\n').count() + 1;
        format!("line {line}: it is not TOML")
    })?;
    let Some(toml::Value::Table(servers)) = table.get("mcp_servers") else {
        return Ok(Vec::new());
    };
    let each = servers.iter().map(|(name, value)| {
        let server = match value {
            toml::Value::Table(table) => of_codex(name, table),
            _ => Err("it must be a table".to_string()),
        };
        (name.clone(), server)
    });
    Ok(each.collect())
}

fn of_codex(name: &str, theirs: &toml::Table) -> Result<McpServer, String> {
    const TAKEN: [&str; 10] = [
        "command",
        "args",
        "env",
        "cwd",
        "url",
        "bearer_token_env_var",
        "startup_timeout_sec",
        "tool_timeout_sec",
        "enabled_tools",
        "disabled_tools",
    ];
    let mut ours: toml::Table = theirs
        .iter()
        .filter(|(key, _)| TAKEN.contains(&key.as_str()) || *key == "enabled")
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect();
    if let Some(headers) = theirs.get("http_headers") {
        ours.insert("headers".to_string(), headers.clone());
    }
    let mut server: McpServer =
        serde::Deserialize::deserialize(ours).map_err(|e: toml::de::Error| {
            match e.message().rsplit_once(", expected ") {
                Some((_, expected)) => format!("a value of it is not {expected}"),
                None => "a value of it is of another kind".to_string(),
            }
        })?;
    let names = |key: &str| -> Vec<String> {
        let names = theirs.get(key).and_then(toml::Value::as_array);
        let names = names.into_iter().flatten().filter_map(toml::Value::as_str);
        names.map(str::to_string).collect()
    };
    for variable in names("env_vars") {
        let value = format!("${{{variable}}}");
        server.env.entry(variable).or_insert(value);
    }
    if let Some(toml::Value::Table(headers)) = theirs.get("env_http_headers") {
        let headers = headers.iter();
        let headers: BTreeMap<String, String> = headers
            .filter_map(|(header, variable)| {
                Some((header.clone(), format!("${{{}}}", variable.as_str()?)))
            })
            .collect();
        server.headers.extend(headers);
    }
    match fault(name, &server) {
        None => Ok(server),
        Some(fault) => Err(fault.text()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(agent: &str, text: &str) -> BTreeMap<String, Result<McpServer, String>> {
        let root = Path::new("/w");
        servers_of(agent, text, root).unwrap().into_iter().collect()
    }

    fn map(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        let pairs = pairs.iter();
        pairs.map(|(a, b)| (a.to_string(), b.to_string())).collect()
    }

    #[test]
    fn each_agent_is_read_as_it_writes() {
        let claude = taken(
            "claude",
            r#"{"mcpServers":{"a":{"command":"x"},"b":{"type":"http","url":"https://h"}},
                "projects":{"/w":{"mcpServers":{"a":{"command":"near"}}},"/v":{"mcpServers":{"c":{"command":"x"}}}}}"#,
        );
        assert_eq!(claude.keys().collect::<Vec<_>>(), ["a", "b"]);
        assert_eq!(
            claude["a"].as_ref().unwrap().command.as_deref(),
            Some("near")
        );

        let codex = taken(
            "codex",
            "model = \"x\"\n[mcp_servers.a]\ncommand = \"x\"\nenv_vars = [\"T\"]\nstartup_timeout_sec = 20\nsupports_parallel_tool_calls = true\n\
             [mcp_servers.b]\nurl = \"https://h\"\nhttp_headers = { A = \"b\" }\nenv_http_headers = { C = \"D\" }\n\
             [mcp_servers.c]\ncommand = 3\n",
        );
        let a = codex["a"].as_ref().unwrap();
        assert_eq!(
            (&a.env, a.startup_timeout_sec),
            (&map(&[("T", "${T}")]), 20.0)
        );
        assert_eq!(
            codex["b"].as_ref().unwrap().headers,
            map(&[("A", "b"), ("C", "${D}")])
        );
        assert!(codex["c"].is_err());

        let opencode = taken(
            "opencode",
            r#"{ // all
                "mcp": {"a": {"type": "local", "command": ["bun", "x"], "environment": {"K": "{env:K}"}, "enabled": false,},
                /* far */ "b": {"type": "remote", "url": "https://h//x", "headers": {"A": "B, }"}},},}"#,
        );
        let a = opencode["a"].as_ref().unwrap();
        assert_eq!(
            (a.command.as_deref(), &a.args[..]),
            (Some("bun"), &["x".to_string()][..])
        );
        assert_eq!((&a.env, a.enabled), (&map(&[("K", "${K}")]), false));
        let b = opencode["b"].as_ref().unwrap();
        assert_eq!(
            (b.url.as_deref(), &b.headers["A"]),
            (Some("https://h//x"), &"B, }".to_string())
        );

        let gemini = taken(
            "gemini",
            r#"{"mcpServers":{"a":{"httpUrl":"https://h/$P","headers":{"A":"Bearer $T ${U} $1"},"trust":true,
                "timeout":2000,"includeTools":["t"],"excludeTools":["u"]}}}"#,
        );
        let a = gemini["a"].as_ref().unwrap();
        assert_eq!(a.url.as_deref(), Some("https://h/${P}"));
        assert_eq!(a.headers["A"], "Bearer ${T} ${U} $1");
        assert_eq!(a.enabled_tools.as_deref(), Some(&["t".to_string()][..]));
        assert_eq!(
            (&a.disabled_tools[..], a.tool_timeout_sec),
            (&["u".to_string()][..], Some(2.0))
        );
        assert!(!a.trust_annotations);
    }

    #[test]
    fn a_syntax_error_in_imported_servers_is_reported_with_its_line() {
        let root = Path::new("/w");
        for agent in ["claude", "gemini", "opencode", ".mcp.json"] {
            let error = servers_of(agent, "{\n\"mcp", root).unwrap_err();
            assert_eq!(error, "line 2: it is not JSON");
        }
        let error = servers_of("codex", "a = 1\nb", root).unwrap_err();
        assert_eq!(error, "line 2: it is not TOML");
        let sse = "{\"mcpServers\": {\"a\": {\"type\": \"sse\", \"url\": \"https://h\"}}}";
        let why = taken("claude", sse)["a"].clone().unwrap_err();
        assert!(why.contains("its type is sse"), "{why}");
        let file =
            "{\"mcp\": {\"a\": {\"url\": \"https://h\", \"headers\": {\"A\": \"{file:~/k}\"}}}}";
        let why = taken("opencode", file)["a"].clone().unwrap_err();
        assert!(why.contains("it has {file:…}"), "{why}");
        assert_eq!(taken("claude", "{}"), BTreeMap::new());
        assert_eq!(taken("opencode", "{\"mcp\": 3}"), BTreeMap::new());
    }
}
