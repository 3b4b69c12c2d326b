//! Which files of a workspace are covered by snapshots.
//!
//! Files are covered if they are not ignored, tracked by git or not. Ignored files are covered only
//! if `files.include` names them. Files of version control, rewake's own folders, and files that
//! `files.exclude` names are never covered.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use globset::{GlobBuilder, GlobSet, GlobSetBuilder};

use crate::core::path::{self, name_matches};

/// Folders of version control, which are not covered at any depth and never written.
const VERSION_CONTROL: [&[u8]; 5] = [b".git", b".jj", b".hg", b".svn", b".sl"];

/// Prefix of the folder in which a restore stages its files.
pub(super) const STAGED: &str = ".rewake-restore-";

/// Maximum length of a glob in bytes, more than a person would write.
const MAX_GLOB_BYTES: usize = 4_096;
const MAX_GLOBS: usize = 1_000;

/// Files that contain keys, passwords or tokens: names, or consecutive names, at any depth. `*` is
/// any part of a name. Case is ignored.
#[rustfmt::skip]
const SECRETS: &[&str] = &[
    ".env", ".env.*", "*.pem", "*.key", "*.p12", "*.pfx", "*.jks", "*.keystore", "*.kdbx", "id_rsa", "id_dsa", "id_ecdsa",
    "id_ed25519", ".ssh", ".aws", ".gnupg", ".netrc", "_netrc", ".kube", ".docker/config.json", ".npmrc", ".pypirc",
    ".cargo/credentials*", ".git-credentials", ".pgpass", ".my.cnf", ".vault-token", ".m2/settings.xml",
    ".gradle/gradle.properties", ".terraform.d", ".terraformrc", "terraform.tfstate*", ".azure", ".password-store",
    ".config/gh", ".config/gcloud", ".config/op", ".config/rclone", ".local/share/keyrings", "credentials.json",
    "client_secret*.json", "service-account*.json", ".htpasswd",
];

/// Files with similar names that are made to be shared.
const NO_SECRETS: &[&str] = &[
    ".env.example",
    ".env.sample",
    ".env.template",
    ".env.dist",
    ".env.defaults",
];

/// The coverage of snapshots, and its limits.
#[derive(Debug, Clone)]
pub struct Coverage {
    /// The root of the workspace: absolute, with links followed.
    pub root: PathBuf,
    /// rewake's own folders: absolute, with links followed.
    own: Vec<PathBuf>,
    include: GlobSet,
    exclude: GlobSet,
    /// Maximum number of covered files.
    pub max_files: u64,
    /// Maximum size of a file whose content is stored.
    pub max_file_bytes: u64,
}

/// The error for a glob of the config that cannot be used.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("{key} cannot be used: {why}")]
pub struct CoverageError {
    key: &'static str,
    why: String,
}

impl Coverage {
    /// Creates the coverage of `root`. `include` and `exclude` are globs for paths below the root;
    /// a glob without a slash matches names at any depth.
    pub fn new(
        root: PathBuf,
        own: Vec<PathBuf>,
        include: &[String],
        exclude: &[String],
    ) -> Result<Coverage, CoverageError> {
        Ok(Coverage {
            root,
            own,
            include: globs("files.include", include)?,
            exclude: globs("files.exclude", exclude)?,
            max_files: u64::MAX,
            max_file_bytes: u64::MAX,
        })
    }

    /// Returns whether a path below the root is covered. `ignored` is the verdict of the ignore
    /// rules.
    pub(super) fn covers(&self, path: &[u8], ignored: bool) -> bool {
        let path = Path::new(OsStr::from_bytes(path));
        let name = path.file_name().unwrap_or_default();
        if is_version_control(name) || is_staged(name) || self.exclude.is_match(path) {
            return false;
        }
        let is_own = || self.own.iter().any(|own| *own == self.root.join(path));
        (!ignored || self.include.is_match(path)) && !is_own()
    }
}

/// Returns whether the name is that of a staging folder, which exists during a restore.
fn is_staged(name: &OsStr) -> bool {
    name.as_bytes().starts_with(STAGED.as_bytes())
}

fn is_version_control(name: &OsStr) -> bool {
    VERSION_CONTROL.contains(&name.as_bytes())
}

/// Returns whether a file is known to contain keys, passwords or tokens, by its path.
pub fn is_secret(path: &[u8]) -> bool {
    let folded = path::fold(&String::from_utf8_lossy(path));
    let parts: Vec<&str> = folded.split('/').filter(|part| !part.is_empty()).collect();
    let name = parts.last().copied().unwrap_or_default();
    if NO_SECRETS.contains(&name) {
        return false;
    }
    SECRETS.iter().any(|written| {
        let names: Vec<&str> = written.split('/').collect();
        let begins = |at: &[&str]| at.iter().zip(&names).all(|(p, n)| name_matches(n, p));
        parts.windows(names.len()).any(begins)
    })
}

fn globs(key: &'static str, written: &[String]) -> Result<GlobSet, CoverageError> {
    let failed = |why: String| CoverageError { key, why };
    if written.len() > MAX_GLOBS {
        return Err(failed(format!("it has over {MAX_GLOBS} globs")));
    }
    let mut set = GlobSetBuilder::new();
    for glob in written {
        if glob.len() > MAX_GLOB_BYTES {
            return Err(failed(format!("a glob has over {MAX_GLOB_BYTES} bytes")));
        }
        let anywhere = if glob.contains('/') {
            glob.trim_start_matches('/').to_string()
        } else {
            format!("**/{glob}")
        };
        let built = GlobBuilder::new(&anywhere).literal_separator(true).build();
        set.add(built.map_err(|e| failed(format!("{glob:?}: {}", e.kind())))?);
    }
    set.build().map_err(|e| failed(e.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_known_by_their_names() {
        for secret in [
            ".env",
            "sub/.ENV",
            ".env.local",
            "a/b/server.pem",
            "x/.ssh/config",
            ".cargo/credentials.toml",
            "/home/u/.aws/credentials",
        ] {
            assert!(is_secret(secret.as_bytes()), "{secret}");
        }
        for other in [
            ".env.example",
            "environment.rs",
            "src/key.rs",
            "cargo/credentials",
            "keys",
        ] {
            assert!(!is_secret(other.as_bytes()), "{other}");
        }
    }

    #[test]
    fn coverage_follows_ignore_rules_and_globs() {
        let words = |words: &[&str]| words.iter().map(ToString::to_string).collect::<Vec<_>>();
        let own = vec![PathBuf::from("/w/state")];
        let include = words(&["keep.log", "sub/x/*.bin"]);
        let coverage = Coverage::new("/w".into(), own, &include, &words(&["*.tmp"])).unwrap();
        let covers = |path: &str, ignored| coverage.covers(path.as_bytes(), ignored);
        assert!(covers("a", false) && !covers("a", true));
        assert!(covers("deep/keep.log", true) && covers("sub/x/a.bin", true));
        assert!(!covers("sub/x/y/a.bin", true) && !covers("a.tmp", false));
        assert!(!covers("state", false) && covers("sub/state", false));
        for git in [".git", "nested/.git", "a/.jj"] {
            assert!(!covers(git, false));
        }
        let wrong = Coverage::new("/w".into(), vec![], &words(&["a{"]), &[]).unwrap_err();
        assert!(
            wrong
                .to_string()
                .starts_with("files.include cannot be used")
        );
    }
}
