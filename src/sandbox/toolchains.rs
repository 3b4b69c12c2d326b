//! The folders with programs that the environment names: `PATH`, and the homes of toolchains. If a
//! home folder is elsewhere, the lists of [`super::places`] do not have them.
//!
//! Nobody wrote these folders into the config, so a folder with more than programs is left out:
//! `/`, devices, any folder that contains the home folder or rewake's own folders, and any folder
//! inside of those or of a secret. A folder is also left out if it is reached by a link that a
//! command could have made.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::path::{Component, Path, PathBuf};

use super::paths::is_below_any;
use super::places;
use crate::config::{CERTIFICATES, Env};

/// Maximum number of links in a path, as in the kernel.
const MAX_LINKS: u8 = 40;

/// The folders that the environment names, unresolved.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Toolchains {
    on_path: Vec<PathBuf>,
    homes: Vec<PathBuf>,
    /// Certificates of authorities.
    certificates: Vec<PathBuf>,
    /// The home of cargo, which contains credentials beside programs.
    cargo_home: Option<PathBuf>,
}

impl Toolchains {
    /// Reads `PATH`, `CARGO_HOME`, `RUSTUP_HOME`, `PYENV_ROOT`, `NVM_DIR`, and the `bin` and `pkg`
    /// of each folder of `GOPATH`, whose `src` contains the user's projects; and the certificates.
    pub fn of(env: &Env) -> Toolchains {
        let list = |name| std::env::split_paths(env.var_os(name).unwrap_or_default());
        let homes = ["CARGO_HOME", "RUSTUP_HOME", "PYENV_ROOT", "NVM_DIR"];
        let homes = homes.into_iter().filter_map(|name| env.var_os(name));
        let go = list("GOPATH").flat_map(|folder| [folder.join("bin"), folder.join("pkg")]);
        Toolchains {
            on_path: list("PATH").collect(),
            homes: homes.map(PathBuf::from).chain(go).collect(),
            certificates: CERTIFICATES.iter().flat_map(|name| list(name)).collect(),
            cargo_home: env.var_os("CARGO_HOME").map(|home| env.cwd().join(home)),
        }
    }

    /// Returns the resolved folders, and files with certificates, that a command may read only
    /// because the environment names them.
    pub(super) fn readable(&self, off_limits: &OffLimits) -> Vec<PathBuf> {
        let mut found = harmless(self.on_path.iter().chain(&self.homes), off_limits);
        let certificates = self.certificates.iter();
        found.extend(harmless_paths(certificates, off_limits));
        found
    }

    /// Returns those of [`Toolchains::readable`] that `PATH` names.
    pub(super) fn readable_on_path(&self, off_limits: &OffLimits) -> Vec<PathBuf> {
        harmless(self.on_path.iter(), off_limits)
    }

    /// Returns the paths in readable folders that must not be read: the secrets that a home folder
    /// would contain, and the credentials of cargo.
    pub(super) fn secrets(&self, readable: &[PathBuf]) -> Vec<PathBuf> {
        let cargo = self.cargo_home.iter();
        let cargo =
            cargo.flat_map(|home| ["credentials", "credentials.toml"].map(|name| home.join(name)));
        let others = readable
            .iter()
            .flat_map(|folder| places::SECRETS.iter().map(|name| folder.join(name)));
        cargo.chain(others).collect()
    }
}

/// Resolved paths that a folder is compared with before a command may read it.
pub(super) struct OffLimits {
    /// Folders that are readable anyway.
    pub listed: Vec<PathBuf>,
    /// The home folder and rewake's own folders: no folder that contains one is readable.
    pub not_above: Vec<PathBuf>,
    /// Secrets and rewake's own folders: no folder inside of one is readable.
    pub not_in: Vec<PathBuf>,
    /// Folders that a command of any level may write. Links in them are not followed.
    pub writable: Vec<PathBuf>,
}

impl OffLimits {
    /// Returns whether the home folder or one of rewake's own is below this one.
    pub(super) fn is_below(&self, folder: &Path) -> bool {
        folder.parent().is_none() || self.not_above.iter().any(|own| own.starts_with(folder))
    }
}

fn harmless<'a>(
    folders: impl Iterator<Item = &'a PathBuf>,
    off_limits: &OffLimits,
) -> Vec<PathBuf> {
    let mut found = harmless_paths(folders, off_limits);
    found.retain(|path| path.is_dir());
    found
}

fn harmless_paths<'a>(
    paths: impl Iterator<Item = &'a PathBuf>,
    off_limits: &OffLimits,
) -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> = paths
        .filter_map(|folder| resolve(folder, &off_limits.writable))
        .filter(|folder| {
            !folder.starts_with("/dev")
                && !off_limits.is_below(folder)
                && !is_below_any(folder, &off_limits.not_in)
                && !is_below_any(folder, &off_limits.listed)
        })
        .collect();
    found.sort();
    found.dedup();
    found
}

/// Returns what an absolute path leads to. `None` if it does not exist, or if a link of
/// the path is in a writable folder, so that a command could have chosen its target.
fn resolve(path: &Path, writable: &[PathBuf]) -> Option<PathBuf> {
    if !path.is_absolute() {
        return None;
    }
    let parts = |path: &Path| -> VecDeque<OsString> {
        path.components()
            .map(|part| part.as_os_str().into())
            .collect()
    };
    let (mut at, mut rest, mut links) = (PathBuf::from("/"), parts(path), 0);
    while let Some(part) = rest.pop_front() {
        match Path::new(&part).components().next()? {
            Component::Prefix(_) | Component::CurDir => {}
            Component::RootDir => at = PathBuf::from("/"),
            Component::ParentDir => drop(at.pop()),
            Component::Normal(name) => match std::fs::read_link(at.join(name)) {
                Ok(_) if links == MAX_LINKS || is_below_any(&at, writable) => return None,
                Ok(target) => {
                    links += 1;
                    let mut ahead = parts(&target);
                    ahead.append(&mut rest);
                    rest = ahead;
                }
                Err(_) => at.push(name),
            },
        }
    }
    (at.is_file() || at.is_dir()).then_some(at)
}
