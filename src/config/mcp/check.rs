//! Checks of a server's definition beyond the types of its values.

use std::path::Path;

use super::{McpServer, PROTOCOL_VERSIONS};
use crate::config::ConfigError;
use crate::config::http::{is_header, is_http_url};
use crate::config::origin::dotted;

/// Maximum number of servers in one file: nobody reads a longer list before trusting it.
pub(in crate::config) const MAX_SERVERS: usize = 100;

const NAME_MAX: usize = 32;

/// Upper limit of durations, in seconds: one day.
const LONGEST_S: f64 = 86_400.0;

/// An error in a definition.
pub(in crate::config) struct Fault {
    /// Path of the key from the server's table on. Empty: the server itself.
    pub key: Vec<String>,
    /// Message without the name of the key.
    pub why: String,
    pub hint: Option<&'static str>,
}

impl Fault {
    /// Returns the text for a definition that is not the user's own.
    pub(in crate::config) fn text(&self) -> String {
        if self.key.is_empty() {
            format!("it {}", self.why)
        } else {
            format!("{} {}", dotted(&self.key), self.why)
        }
    }
}

/// Returns the first error of a definition.
pub(in crate::config) fn fault(name: &str, server: &McpServer) -> Option<Fault> {
    let with = |key: &[&str], why: &str, hint: Option<&'static str>| {
        Some(Fault {
            key: key.iter().map(ToString::to_string).collect(),
            why: why.to_string(),
            hint,
        })
    };
    let at = |key: &[&str], why: &str| with(key, why, None);
    if !is_server_name(name) {
        return at(&[], NO_NAME);
    }
    match (&server.command, &server.url) {
        (Some(_), Some(_)) => return with(&[], "has both a command and a url", Some(ONE_OF)),
        (None, None) => return with(&[], "has neither a command nor a url", Some(ONE_OF)),
        (Some(command), None) if command.trim().is_empty() => {
            return at(&["command"], "is empty");
        }
        (None, Some(url)) if !url.contains("${") && !is_http_url(url) => {
            return at(&["url"], "is not an http:// or https:// address");
        }
        _ => {}
    }
    if let Some(key) = only_other(server) {
        return at(&[key], "has no place beside a url or a command");
    }
    for key in server.env.keys() {
        if key.is_empty() || key.contains(['=', '\0']) {
            return at(&["env", key], "is not the name of a variable");
        }
    }
    for (header, value) in &server.headers {
        if !is_header(header, value) {
            return at(&["headers", header], "is not a valid header");
        }
    }
    let version = server.protocol_version.as_deref();
    if version.is_some_and(|version| !PROTOCOL_VERSIONS.contains(&version)) {
        let all = PROTOCOL_VERSIONS.join(", ");
        return at(&["protocol_version"], &format!("must be one of {all}"));
    }
    let times = [
        ("startup_timeout_sec", Some(server.startup_timeout_sec)),
        ("tool_timeout_sec", server.tool_timeout_sec),
    ];
    for (key, value) in times {
        if value.is_some_and(|value| !(0.1..=LONGEST_S).contains(&value)) {
            return at(&[key], "must be from 0.1 to 86400 seconds");
        }
    }
    if server.idle_timeout_sec > LONGEST_S as u64 {
        return at(&["idle_timeout_sec"], "must be from 0 to 86400 seconds");
    }
    None
}

const ONE_OF: &str = "a server on stdin and stdout has a command, a server over HTTP has a url";

/// Returns the first error of a definition as text.
pub fn server_fault(name: &str, server: &McpServer) -> Option<String> {
    fault(name, server).map(|fault| fault.text())
}

/// Error text for an invalid name.
const NO_NAME: &str =
    "is not a server name: it may have letters a to z, digits, - and _, at most 32";

/// Returns the error for too many servers: nobody reads such a list before trusting it.
pub(super) fn too_many(file: &Path, many: usize) -> ConfigError {
    ConfigError::new(format!(
        "{}: it defines {many} servers, more than {MAX_SERVERS}",
        file.display()
    ))
}

/// Returns whether this is a valid server name. It is part of the names of the server's tools.
pub fn is_server_name(name: &str) -> bool {
    (1..=NAME_MAX).contains(&name.len())
        && name
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_')
}

/// Returns a key that belongs to the other kind of server.
fn only_other(server: &McpServer) -> Option<&'static str> {
    let table = if server.url.is_some() {
        [
            ("args", !server.args.is_empty()),
            ("env", !server.env.is_empty()),
            ("cwd", server.cwd.is_some()),
            ("sandbox", server.sandbox.is_some()),
        ]
    } else {
        [
            ("headers", !server.headers.is_empty()),
            (
                "bearer_token_env_var",
                server.bearer_token_env_var.is_some(),
            ),
            ("", false),
            ("", false),
        ]
    };
    table
        .iter()
        .find(|(_, is_set)| *is_set)
        .map(|(key, _)| *key)
}
