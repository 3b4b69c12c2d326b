//! The specification of a server that a keeper runs, and the environment that the server gets.
//!
//! Invariant: values of variables are never in a run folder. The agent passes them to the keeper,
//! and the keeper to the server, as an environment; the spec has only the names.

use std::ffi::OsString;
use std::fmt;
use std::io;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::config::CERTIFICATES;
use crate::sandbox::Profile;

/// The variables of the agent that every server gets, with those that name certificates. All others
/// must be named.
#[rustfmt::skip]
const INHERITED: [&str; 12] = [
    "PATH", "HOME", "LANG", "TMPDIR", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY", "http_proxy",
    "https_proxy", "all_proxy", "no_proxy",
];

/// Maximum length of a command line. The system refuses longer ones, too.
const ARGS_MAX_BYTES: usize = 100 * 1024;

/// The specification of a server in its run folder.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServerSpec {
    /// The name of the server in the config.
    pub name: String,
    /// The session of the server, for display.
    pub session: String,
    pub program: String,
    pub args: Vec<String>,
    /// The folder it starts in.
    pub folder: PathBuf,
    /// The names of the variables that it gets besides those of every server, for display.
    pub env: Vec<String>,
    /// Time in milliseconds that it is kept without an agent and with nothing in flight.
    pub linger_ms: u64,
    /// The sandbox of the server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sandbox: Option<Box<Profile>>,
    /// The file with the lease of the session, if the session is shared: the server is not started
    /// after the end of the lease, and ends with it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lease: Option<PathBuf>,
}

impl ServerSpec {
    /// Returns program and arguments on one line, for display.
    pub fn command_line(&self) -> String {
        let words = std::iter::once(&self.program).chain(&self.args);
        words.map(String::as_str).collect::<Vec<_>>().join(" ")
    }

    /// Refuses a spec with which no server can be started.
    pub(super) fn check(&self) -> io::Result<()> {
        let refuse = |why: String| Err(io::Error::new(io::ErrorKind::InvalidInput, why));
        if self.program.is_empty() {
            return refuse(format!("server {}: no command is named", self.name));
        }
        let words = || std::iter::once(&self.program).chain(&self.args);
        if words().any(|word| word.contains('\0')) {
            return refuse(format!(
                "server {}: the command holds a NUL byte",
                self.name
            ));
        }
        let bytes: usize = words().map(String::len).sum();
        if bytes > ARGS_MAX_BYTES {
            return refuse(format!(
                "server {}: the command is {bytes} bytes long, more than {ARGS_MAX_BYTES}",
                self.name
            ));
        }
        Ok(())
    }
}

/// The whole environment of a server. `Debug` does not show its values.
#[derive(Clone, Default)]
pub struct ServerEnv {
    variables: Vec<(OsString, OsString)>,
}

impl ServerEnv {
    /// Builds the environment. `inherited` looks up a variable of the agent; `own` is from the
    /// config.
    pub fn new(inherited: impl Fn(&str) -> Option<OsString>, own: &[(String, String)]) -> Self {
        let of_all = INHERITED
            .iter()
            .chain(&CERTIFICATES)
            .filter_map(|name| Some((OsString::from(name), inherited(name)?)));
        let own = own
            .iter()
            .map(|(name, value)| (OsString::from(name), OsString::from(value)));
        ServerEnv {
            variables: of_all.chain(own).collect(),
        }
    }

    pub fn variables(&self) -> impl Iterator<Item = (&OsString, &OsString)> {
        self.variables.iter().map(|(name, value)| (name, value))
    }
}

impl fmt::Debug for ServerEnv {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = self.variables.iter().map(|(name, _)| name);
        f.debug_list().entries(names).finish()
    }
}

/// The content of the run folder's `spec`.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct PreparedServer {
    pub spec: ServerSpec,
    pub boot: String,
    pub at_ms: i64,
    /// The path of the socket when the run folder's path is too long for one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub socket: Option<PathBuf>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_spec_that_an_older_version_wrote_is_read() {
        let older = r#"{"name":"a","session":"s","program":"p","args":[],"folder":"/","env":[],"linger_ms":1}"#;
        let spec: ServerSpec = serde_json::from_str(older).unwrap();
        assert_eq!(spec.lease, None);
        assert_eq!(serde_json::to_string(&spec).unwrap(), older);
    }

    #[test]
    fn a_server_sees_what_is_named_and_no_key_of_ours() {
        let agent = |name: &str| match name {
            "PATH" | "HOME" | "ANTHROPIC_API_KEY" | "https_proxy" => Some(name.into()),
            _ => None,
        };
        let env = ServerEnv::new(agent, &[("TOKEN".into(), "secret".into())]);
        let names: Vec<_> = env.variables().map(|(name, _)| name).collect();
        assert_eq!(names, ["PATH", "HOME", "https_proxy", "TOKEN"]);
        assert!(!format!("{env:?}").contains("secret"));
    }
}
