//! The user's trust in folders: `trusted.toml` in the user's config folder, by canonical path. A
//! folder cannot declare itself or a folder above or below it as trusted. Trust applies to the
//! config at that time: to the hash of each key's value and of each server's definition.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::file::{Digest, ReadError, lock, read_text, replace_file};
use super::layer::read_layer;
use super::mcp::{self};
use super::paths::create_private_dir;
pub use super::project::Content;
use super::project::project_file;
use super::trusted::{Record, TrustedContent, TrustedHooks};
use super::worktree::project_root;
use super::{ConfigError, Paths};
use crate::core::access::Access;

pub(super) const FILE: &str = "trusted.toml";

pub(super) const MAX_FILE_BYTES: u64 = 16 * 1024 * 1024;

/// Maximum number of keys: nobody reads a longer list before trusting it, and the file must stay
/// readable.
const MAX_KEYS: usize = 1_000;

#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Trusted {
    /// Canonical path -> time of the decision.
    #[serde(default)]
    folders: BTreeMap<String, String>,
    /// Folders that the user declined to trust, so that the question is not repeated.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    declined: BTreeMap<String, String>,
    /// Canonical path -> trusted content.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    contents: BTreeMap<String, TrustedContent>,
    /// Canonical path -> path of a custom command in the folder -> hash of its text.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    commands: BTreeMap<String, BTreeMap<String, String>>,
    /// Absolute path of a file with hooks -> its trusted hooks.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    hooks: BTreeMap<String, TrustedHooks>,
    /// Absolute path of a file of another agent -> hash of the file about which the user wants no
    /// more lines.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    dismissed: BTreeMap<String, String>,
}

/// Returns the record of this folder, and the state of the file that stores it. If the folder has
/// no config, the record is not needed (`is_needed`), and a damaged file is ignored.
pub(super) fn record(
    paths: &Paths,
    root: &Path,
    is_needed: bool,
) -> Result<(Record, Digest), ConfigError> {
    let read = read_text(&file(paths), MAX_FILE_BYTES);
    let digest = Digest::of(&read);
    let record =
        canonical(paths, root).and_then(|name| Ok(parse(&file(paths), read)?.record(&name)));
    match record {
        Err(_) if !is_needed => Ok((Record::None, digest)),
        record => Ok((record?, digest)),
    }
}

impl Trusted {
    fn record(mut self, name: &str) -> Record {
        let content = self.contents.remove(name);
        let content = content.filter(|_| self.folders.contains_key(name));
        content.map_or(Record::None, Record::Bound)
    }
}

/// Returns the content that a person would trust by trusting this folder now, with the access that
/// each server has now or gets at least.
///
/// # Errors
/// The folder's own config cannot be read completely, so its content is unknown.
pub fn content(paths: &Paths, root: &Path) -> Result<Content, ConfigError> {
    let layer = read_layer(&project_file(root));
    let leaves = layer.leaves?;
    let mut defined = mcp::of_workspace(root, &leaves);
    let (record, _) = record(paths, root, false)?;
    // The access that was chosen before stays the proposed one.
    defined.servers.iter_mut().for_each(|s| s.trust_as(&record));
    match defined.faults.into_iter().next() {
        Some(fault) => Err(fault),
        None => Ok(Content::of(&layer.digest, &leaves).with_servers(&defined.servers)),
    }
}

/// Trusts the folder with this content, even if the folder has changed since. Returns false if it
/// was trusted already.
pub fn trust(paths: &Paths, root: &Path, content: &Content) -> Result<bool, ConfigError> {
    if content.keys.len() > MAX_KEYS {
        return Err(ConfigError::new(format!(
            "cannot trust {}: it sets {} keys, and at most {MAX_KEYS} can be trusted",
            project_file(root).display(),
            content.keys.len()
        )));
    }
    let name = canonical(paths, root)?;
    let hashes = content.keys.iter();
    let mut servers: BTreeMap<String, BTreeMap<String, String>> = BTreeMap::new();
    let mut access: BTreeMap<String, BTreeMap<String, Access>> = BTreeMap::new();
    for ((source, name), given) in &content.servers {
        let of_file = servers.entry(source.name().to_string()).or_default();
        of_file.insert(name.clone(), given.hash.clone());
        if let Some(level) = given.access {
            let of_file = access.entry(source.name().to_string()).or_default();
            of_file.insert(name.clone(), level);
        }
    }
    let content = TrustedContent {
        file: content.file.clone(),
        keys: hashes
            .map(|(key, given)| (key.clone(), given.hash.clone()))
            .collect(),
        servers,
        access,
    };
    change(paths, |trusted| {
        let before = trusted.contents.get(&name);
        let before = before.filter(|_| trusted.folders.contains_key(&name));
        let is_new = before.is_none_or(|before| {
            (&before.keys, &before.servers, &before.access)
                != (&content.keys, &content.servers, &content.access)
        });
        let is_changed = before != Some(&content);
        if is_new {
            trusted.declined.remove(&name);
            trusted.folders.insert(name.clone(), now());
        }
        trusted.contents.insert(name, content);
        (is_changed, is_new)
    })
}

/// Records that the user does not trust the folder.
pub fn decline(paths: &Paths, root: &Path) -> Result<bool, ConfigError> {
    let name = canonical(paths, root)?;
    change(paths, |trusted| {
        let is_new = trusted.declined.insert(name, now()).is_none();
        (is_new, is_new)
    })
}

/// Returns whether the user declined to trust the folder.
pub fn was_declined(paths: &Paths, root: &Path) -> Result<bool, ConfigError> {
    let name = canonical(paths, root)?;
    Ok(read(&file(paths))?.declined.contains_key(&name))
}

fn now() -> String {
    jiff::Timestamp::now().to_string()
}

/// Returns the trusted custom commands of the folder: path in the folder -> blake3 of the text.
pub fn trusted_commands(
    paths: &Paths,
    root: &Path,
) -> Result<BTreeMap<String, String>, ConfigError> {
    let name = canonical(paths, root)?;
    Ok(read(&file(paths))?
        .commands
        .remove(&name)
        .unwrap_or_default())
}

/// Trusts these commands of the folder, with the hashes of their texts. `only`: removes the trust
/// in all others. Returns false if nothing changed.
pub fn trust_commands(
    paths: &Paths,
    root: &Path,
    commands: BTreeMap<String, String>,
    only: bool,
) -> Result<bool, ConfigError> {
    let name = canonical(paths, root)?;
    change(paths, |trusted| {
        let before = trusted.commands.get(&name).cloned().unwrap_or_default();
        let mut now = if only {
            BTreeMap::new()
        } else {
            before.clone()
        };
        now.extend(commands);
        while now.len() > MAX_KEYS {
            now.pop_first();
        }
        let is_new = now != before;
        if now.is_empty() {
            trusted.commands.remove(&name)
        } else {
            trusted.commands.insert(name, now)
        };
        (is_new, is_new)
    })
}

/// Returns the trusted hooks of all files, by absolute path.
pub fn trusted_hooks(paths: &Paths) -> Result<BTreeMap<String, TrustedHooks>, ConfigError> {
    Ok(read(&file(paths))?.hooks)
}

/// Trusts exactly these hooks of a file. A hook that was trusted already keeps the files of other
/// workspaces that it names. Returns false if nothing changed.
pub fn trust_hooks(paths: &Paths, of: &Path, mut hooks: TrustedHooks) -> Result<bool, ConfigError> {
    let of = of.to_string_lossy().into_owned();
    change(paths, |trusted| {
        let before = trusted.hooks.get(&of);
        for (hash, hook) in &mut hooks {
            let known = before.and_then(|before| before.get(hash));
            let known = known.map(|known| known.files.clone()).unwrap_or_default();
            for (file, hash) in known {
                hook.files.entry(file).or_insert(hash);
            }
        }
        let before = if hooks.is_empty() {
            trusted.hooks.remove(&of)
        } else {
            trusted.hooks.insert(of.clone(), hooks.clone())
        };
        let is_new = before.unwrap_or_default() != hooks;
        (is_new, is_new)
    })
}

/// Returns the dismissed files of other agents: absolute path -> hash.
pub fn dismissed(paths: &Paths) -> Result<BTreeMap<String, String>, ConfigError> {
    Ok(read(&file(paths))?.dismissed)
}

/// Ends the lines about files of other agents, as long as these do not change.
pub fn dismiss(paths: &Paths, files: BTreeMap<String, String>) -> Result<bool, ConfigError> {
    change(paths, |trusted| {
        let before = trusted.dismissed.clone();
        trusted.dismissed.extend(files);
        let is_new = before != trusted.dismissed;
        (is_new, is_new)
    })
}

/// Removes the trust in a folder. Returns false if it was not trusted. A deleted folder can be
/// named by its old path.
pub fn untrust(paths: &Paths, root: &Path) -> Result<bool, ConfigError> {
    let name = canonical(paths, root).unwrap_or_else(|_| root.to_string_lossy().into_owned());
    change(paths, |trusted| {
        let content = trusted.contents.remove(&name).is_some();
        let folder = trusted.folders.remove(&name).is_some();
        let commands = trusted.commands.remove(&name).is_some();
        let hooks = trusted.hooks.len();
        trusted
            .hooks
            .retain(|file, _| !Path::new(file).starts_with(&name));
        let hooks = trusted.hooks.len() < hooks;
        (
            folder || content || commands || hooks,
            folder || commands || hooks,
        )
    })
}

/// Returns the path of the file.
pub(crate) fn file(paths: &Paths) -> PathBuf {
    paths.config_dir.join(FILE)
}

/// Returns the canonical path of the folder. A worktree that rewake created shares the trust of
/// its project.
fn canonical(paths: &Paths, root: &Path) -> Result<String, ConfigError> {
    let path = root.canonicalize().map_err(|e| {
        ConfigError::new(format!("cannot look at the folder {}: {e}", root.display()))
    })?;
    let path = project_root(paths, &path)?;
    match path.to_str() {
        Some(path) => Ok(path.to_string()),
        None => Err(ConfigError::new(format!(
            "cannot trust the folder {}: its name is not UTF-8",
            path.display()
        ))),
    }
}

fn read(file: &Path) -> Result<Trusted, ConfigError> {
    parse(file, read_text(file, MAX_FILE_BYTES))
}

fn parse(file: &Path, read: Result<String, ReadError>) -> Result<Trusted, ConfigError> {
    let broken = |why: String| {
        ConfigError::new(format!("cannot read {}: {why}", file.display()))
            .with_hint("repair or delete the file, then run `rewake trust` where it is needed")
    };
    match read {
        Ok(text) => toml::from_str(&text).map_err(|e| broken(e.message().replace('\n', ", "))),
        Err(ReadError::Missing) => Ok(Trusted::default()),
        Err(e) => Err(broken(e.to_string())),
    }
}

/// Reads, changes and replaces the file under a lock, so that simultaneous changes are both
/// applied. `edit` returns whether to write the file, and a result for the caller.
fn change(
    paths: &Paths,
    edit: impl FnOnce(&mut Trusted) -> (bool, bool),
) -> Result<bool, ConfigError> {
    create_private_dir(&paths.config_dir)?;
    let file = file(paths);
    let failed = |e: io::Error| ConfigError::new(format!("cannot write {}: {e}", file.display()));
    let _lock = lock(&paths.config_dir.join("trusted.lock")).map_err(failed)?;
    let mut trusted = read(&file)?;
    let (is_changed, answer) = edit(&mut trusted);
    if is_changed {
        let text = toml::to_string(&trusted)
            .map_err(|e| ConfigError::new(format!("cannot write {}: {e}", file.display())))?;
        replace_file(&paths.config_dir, &file, text.as_bytes()).map_err(failed)?;
    }
    Ok(answer)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::testing::Fixture;
    use std::os::unix::fs::{PermissionsExt, symlink};

    /// Trusts a folder as it is.
    fn trust(paths: &Paths, root: &Path) -> Result<bool, ConfigError> {
        super::trust(paths, root, &content(paths, root)?)
    }

    fn is_trusted(paths: &Paths, root: &Path) -> Result<bool, ConfigError> {
        let (record, _) = record(paths, root, true)?;
        Ok(record != Record::None)
    }

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
    fn a_command_is_trusted_with_its_text() {
        let f = Fixture::new();
        let (paths, root) = (f.paths(), f.root());
        let of = |hash: &str| BTreeMap::from([("a.md".to_string(), hash.to_string())]);
        assert_eq!(trusted_commands(&paths, &root), Ok(BTreeMap::new()));
        assert_eq!(trust_commands(&paths, &root, of("1"), false), Ok(true));
        assert_eq!(trust_commands(&paths, &root, of("1"), false), Ok(false));
        assert_eq!(trust_commands(&paths, &root, of("2"), false), Ok(true));
        assert_eq!(trusted_commands(&paths, &root), Ok(of("2")));
        // The folder's config is another matter.
        assert_eq!(is_trusted(&paths, &root), Ok(false));
        assert_eq!(untrust(&paths, &root), Ok(true));
        assert_eq!(trusted_commands(&paths, &root), Ok(BTreeMap::new()));
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
