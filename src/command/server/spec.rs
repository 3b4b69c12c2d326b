//! What a keeper of a server is to run, and what the server may see of the environment.
//!
//! Invariant: values of variables are never in a run folder. They go from the agent to the keeper
//! to the server as an environment; the spec has the names.

use std::ffi::OsString;
use std::fmt;
use std::io;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::sandbox::Profile;

/// How long a server is kept that no agent uses: 15 minutes.
pub const LINGER_MS: u64 = 900_000;

/// What every server sees of the agent's environment. All else has to be named.
const INHERITED: [&str; 12] = [
    "PATH",
    "HOME",
    "LANG",
    "TMPDIR",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "ALL_PROXY",
    "NO_PROXY",
    "http_proxy",
    "https_proxy",
    "all_proxy",
    "no_proxy",
];

/// Longer command lines are refused, as the system does.
const ARGS_MAX_BYTES: usize = 100 * 1024;

/// A server as its run folder has it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServerSpec {
    /// What the config calls it.
    pub name: String,
    /// Whose server it is, for display.
    pub session: String,
    pub program: String,
    pub args: Vec<String>,
    /// The folder it starts in.
    pub folder: PathBuf,
    /// The names of the variables that it gets besides those of every server, for display.
    pub env: Vec<String>,
    /// How long it is kept without an agent and with nothing in flight.
    pub linger_ms: u64,
    /// What the system keeps the server from doing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sandbox: Option<Box<Profile>>,
}

impl ServerSpec {
    /// Program and arguments on one line, as a person reads them.
    pub fn command_line(&self) -> String {
        let words = std::iter::once(&self.program).chain(&self.args);
        words.map(String::as_str).collect::<Vec<_>>().join(" ")
    }

    /// What no server could be started with.
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

/// The whole environment of a server. Its values are not shown by `Debug`.
#[derive(Clone, Default)]
pub struct ServerEnv {
    variables: Vec<(OsString, OsString)>,
}

impl ServerEnv {
    /// `inherited` looks up a variable of the agent; `own` is what the config sets.
    pub fn new(inherited: impl Fn(&str) -> Option<OsString>, own: &[(String, String)]) -> Self {
        let of_all = INHERITED
            .iter()
            .filter_map(|name| Some((OsString::from(name), inherited(name)?)));
        let own = own
            .iter()
            .map(|(name, value)| (OsString::from(name), OsString::from(value)));
        ServerEnv {
            variables: of_all.chain(own).collect(),
        }
    }

    pub(crate) fn variables(&self) -> impl Iterator<Item = (&OsString, &OsString)> {
        self.variables.iter().map(|(name, value)| (name, value))
    }
}

impl fmt::Debug for ServerEnv {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = self.variables.iter().map(|(name, _)| name);
        f.debug_list().entries(names).finish()
    }
}

/// What the run folder's `spec` holds.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct PreparedServer {
    pub spec: ServerSpec,
    pub boot: String,
    pub at_ms: i64,
    /// Where the socket lies when the run folder's own name is too long for one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub socket: Option<PathBuf>,
}

#[cfg(test)]
mod tests {
    use super::*;

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
