//! The process environment as a value. It is captured once, so all other code can be tested.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::path::{Path, PathBuf};

use super::ConfigError;

/// The variables that name certificates of authorities: files, and folders of them.
#[rustfmt::skip]
pub const CERTIFICATES: [&str; 12] = [
    "SSL_CERT_FILE", "SSL_CERT_DIR", "NIX_SSL_CERT_FILE", "NODE_EXTRA_CA_CERTS", "REQUESTS_CA_BUNDLE",
    "CURL_CA_BUNDLE", "GIT_SSL_CAINFO", "GIT_SSL_CAPATH", "PIP_CERT", "CARGO_HTTP_CAINFO", "AWS_CA_BUNDLE",
    "DENO_CERT",
];

/// The variables and the working folder of a process.
#[derive(Clone)]
pub struct Env {
    vars: BTreeMap<OsString, OsString>,
    cwd: PathBuf,
    is_folder_named: bool,
}

impl Env {
    /// Reads the environment of this process. If its working folder does not exist any more, uses
    /// `named` if that is absolute.
    pub fn capture(named: Option<&Path>) -> Result<Env, ConfigError> {
        let is_folder_named = named.is_some();
        let named = named.filter(|folder| folder.is_absolute());
        let cwd = match (std::env::current_dir(), named) {
            (Ok(cwd), _) => cwd,
            (Err(_), Some(folder)) => folder.to_path_buf(),
            (Err(e), None) => {
                return Err(
                    ConfigError::new(format!("cannot tell the working folder: {e}")).with_hint(
                        "change to a folder that exists, or name one with -C, from / on",
                    ),
                );
            }
        };
        Ok(Env {
            is_folder_named,
            ..Env::new(std::env::vars_os(), cwd)
        })
    }

    /// Creates an environment with these variables. `cwd`: the folder for relative paths.
    pub fn new<K, V>(vars: impl IntoIterator<Item = (K, V)>, cwd: impl Into<PathBuf>) -> Env
    where
        K: Into<OsString>,
        V: Into<OsString>,
    {
        Env {
            vars: vars
                .into_iter()
                .map(|(name, value)| (name.into(), value.into()))
                .collect(),
            cwd: cwd.into(),
            is_folder_named: false,
        }
    }

    /// Returns whether the user named the folder of this start with `-C`.
    pub fn is_folder_named(&self) -> bool {
        self.is_folder_named
    }

    /// Returns the value of a variable that is set, not empty and UTF-8.
    pub fn var(&self, name: &str) -> Option<&str> {
        self.var_os(name)?.to_str()
    }

    /// Returns the value of a variable that is set and not empty.
    pub fn var_os(&self, name: &str) -> Option<&OsStr> {
        self.vars
            .get(OsStr::new(name))
            .map(OsString::as_os_str)
            .filter(|value| !value.is_empty())
    }

    /// Returns the names of the variables with this value, ignoring white space around it.
    pub(crate) fn names_of(&self, value: &str) -> Vec<String> {
        let vars = self.vars.iter();
        let same = vars.filter(|(_, found)| found.to_str().is_some_and(|f| f.trim() == value));
        same.filter_map(|(name, _)| Some(name.to_str()?.to_string()))
            .collect()
    }

    /// Returns the working folder, an absolute path.
    pub fn cwd(&self) -> &Path {
        &self.cwd
    }

    /// Returns `HOME` if it is an absolute path.
    pub fn home(&self) -> Option<&Path> {
        self.var_os("HOME")
            .map(Path::new)
            .filter(|home| home.is_absolute())
    }

    /// Resolves a path as people write it: `~/` is the home folder, a relative path is below
    /// `base`.
    pub fn resolve(&self, path: &str, base: &Path) -> PathBuf {
        match (path.strip_prefix("~/"), self.home()) {
            (Some(rest), Some(home)) => home.join(rest),
            _ => base.join(path),
        }
    }
}

/// Leaves out the values, since some of them are keys.
impl fmt::Debug for Env {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Env")
            .field("vars", &self.vars.len())
            .field("cwd", &self.cwd)
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_variable_is_as_good_as_none() {
        let env = Env::new([("A", ""), ("B", "b")], "/");
        assert_eq!(env.var("A"), None);
        assert_eq!(env.var("B"), Some("b"));
        assert_eq!(env.var("C"), None);
    }

    #[test]
    fn paths_resolve_as_people_write_them() {
        let env = Env::new([("HOME", "/home/ann")], "/");
        let resolve = |path| env.resolve(path, Path::new("/base"));
        assert_eq!(resolve("~/key"), Path::new("/home/ann/key"));
        assert_eq!(resolve("key"), Path::new("/base/key"));
        assert_eq!(resolve("/key"), Path::new("/key"));
    }

    #[test]
    fn debug_output_holds_no_values() {
        let env = Env::new([("ANTHROPIC_API_KEY", "sk-secret")], "/");
        assert!(!format!("{env:?}").contains("secret"));
    }
}
