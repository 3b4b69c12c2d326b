//! The folders the user trusts: `trusted.toml` in the user's config folder, by canonical
//! path. A folder cannot speak for itself, nor for one above or below it.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::file::{ReadError, lock, read_text};
use super::paths::create_private_dir;
use super::{ConfigError, Paths};

const MAX_FILE_BYTES: u64 = 16 * 1024 * 1024;

#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Trusted {
    /// Canonical path -> since when.
    #[serde(default)]
    folders: BTreeMap<String, String>,
    /// Asked about, and not trusted: nobody is asked again.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    declined: BTreeMap<String, String>,
}

pub fn is_trusted(paths: &Paths, root: &Path) -> Result<bool, ConfigError> {
    let name = canonical(root)?;
    Ok(read(&file(paths))?.folders.contains_key(&name))
}

/// False when it was trusted already.
pub fn trust(paths: &Paths, root: &Path) -> Result<bool, ConfigError> {
    let name = canonical(root)?;
    change(paths, |trusted| {
        if trusted.folders.contains_key(&name) {
            return false;
        }
        trusted.declined.remove(&name);
        trusted.folders.insert(name, now());
        true
    })
}

/// The person was asked, and does not trust it now.
pub fn decline(paths: &Paths, root: &Path) -> Result<bool, ConfigError> {
    let name = canonical(root)?;
    change(paths, |trusted| {
        trusted.declined.insert(name, now()).is_none()
    })
}

/// Whether a person was asked about the folder before.
pub fn was_asked(paths: &Paths, root: &Path) -> Result<bool, ConfigError> {
    let name = canonical(root)?;
    let trusted = read(&file(paths))?;
    Ok(trusted.folders.contains_key(&name) || trusted.declined.contains_key(&name))
}

fn now() -> String {
    jiff::Timestamp::now().to_string()
}

/// False when it was not trusted. A folder that is gone can be named by its old path.
pub fn untrust(paths: &Paths, root: &Path) -> Result<bool, ConfigError> {
    let name = match canonical(root) {
        Ok(name) => name,
        Err(_) => root.to_string_lossy().into_owned(),
    };
    change(paths, |trusted| trusted.folders.remove(&name).is_some())
}

fn file(paths: &Paths) -> PathBuf {
    paths.config_dir.join("trusted.toml")
}

fn canonical(root: &Path) -> Result<String, ConfigError> {
    let path = root.canonicalize().map_err(|e| {
        ConfigError::new(format!("cannot look at the folder {}: {e}", root.display()))
    })?;
    match path.to_str() {
        Some(path) => Ok(path.to_string()),
        None => Err(ConfigError::new(format!(
            "cannot trust the folder {}: its name is not UTF-8",
            path.display()
        ))),
    }
}

fn read(file: &Path) -> Result<Trusted, ConfigError> {
    let broken = |why: String| {
        ConfigError::new(format!("cannot read {}: {why}", file.display()))
            .with_hint("repair or delete the file, then run `rewake trust` where it is needed")
    };
    match read_text(file, MAX_FILE_BYTES) {
        Ok(text) => toml::from_str(&text).map_err(|e| broken(e.message().replace('\n', ", "))),
        Err(ReadError::Missing) => Ok(Trusted::default()),
        Err(e) => Err(broken(e.to_string())),
    }
}

/// Reads, changes and replaces the file under a lock, so that two at once both count.
fn change(paths: &Paths, edit: impl FnOnce(&mut Trusted) -> bool) -> Result<bool, ConfigError> {
    create_private_dir(&paths.config_dir)?;
    let file = file(paths);
    let failed = |e: io::Error| ConfigError::new(format!("cannot write {}: {e}", file.display()));
    let _lock = lock(&paths.config_dir.join("trusted.lock")).map_err(failed)?;
    let mut trusted = read(&file)?;
    let changed = edit(&mut trusted);
    if changed {
        let text = toml::to_string(&trusted)
            .map_err(|e| ConfigError::new(format!("cannot write {}: {e}", file.display())))?;
        replace(&paths.config_dir, &file, text.as_bytes()).map_err(failed)?;
    }
    Ok(changed)
}

/// The new file is whole and on disk before it takes the name, and the name after.
fn replace(dir: &Path, file: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut beside = tempfile::NamedTempFile::new_in(dir)?;
    beside.write_all(bytes)?;
    beside.as_file().sync_all()?;
    beside.persist(file).map_err(|e| e.error)?;
    File::open(dir)?.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::testing::Fixture;
    use std::os::unix::fs::{PermissionsExt, symlink};

    #[test]
    fn trust_is_given_and_taken_back() {
        let f = Fixture::new();
        let (paths, root) = (f.paths(), f.root());
        assert_eq!(is_trusted(&paths, &root), Ok(false));
        assert_eq!(trust(&paths, &root), Ok(true));
        assert_eq!(trust(&paths, &root), Ok(false));
        assert_eq!(is_trusted(&paths, &root), Ok(true));
        let mode = std::fs::metadata(file(&paths))
            .unwrap()
            .permissions()
            .mode();
        assert_eq!(mode & 0o777, 0o600);
        assert_eq!(untrust(&paths, &root), Ok(true));
        assert_eq!(untrust(&paths, &root), Ok(false));
        assert_eq!(is_trusted(&paths, &root), Ok(false));
    }

    #[test]
    fn trust_is_for_the_real_folder_alone() {
        let f = Fixture::new();
        let (paths, root) = (f.paths(), f.root());
        let (link, below, other) = (f.cwd().join("link"), root.join("below"), f.cwd());
        symlink(&root, &link).unwrap();
        std::fs::create_dir(&below).unwrap();
        trust(&paths, &link).unwrap();
        assert_eq!(is_trusted(&paths, &root), Ok(true));
        assert_eq!(is_trusted(&paths, &below), Ok(false));
        // The link now leads elsewhere: what it leads to was never trusted.
        std::fs::remove_file(&link).unwrap();
        symlink(&other, &link).unwrap();
        assert_eq!(is_trusted(&paths, &link), Ok(false));
    }

    #[test]
    fn two_at_once_both_count() {
        let f = Fixture::new();
        let paths = f.paths();
        let folders: Vec<PathBuf> = (0..8).map(|i| f.cwd().join(i.to_string())).collect();
        std::thread::scope(|scope| {
            for folder in &folders {
                std::fs::create_dir(folder).unwrap();
                scope.spawn(|| trust(&paths, folder).unwrap());
            }
        });
        for folder in &folders {
            assert_eq!(is_trusted(&paths, folder), Ok(true));
        }
    }

    #[test]
    fn a_damaged_file_trusts_nobody() {
        let f = Fixture::new();
        std::fs::write(file(&f.paths()), "folders = [").unwrap();
        let err = is_trusted(&f.paths(), &f.root()).unwrap_err();
        assert!(
            f.short(&err.to_string())
                .starts_with("cannot read config/trusted.toml: ")
        );
        assert!(trust(&f.paths(), &f.root()).is_err());
    }
}
