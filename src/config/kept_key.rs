//! Keys that the user typed. Each provider has a file, in a folder of the state folder that only
//! its owner may open. The variable and the file that the config names take precedence.
//!
//! They are not in the config folder, because many people keep that in a repository.
//!
//! Invariant: a file that others may read or have made is not used. A file is replaced as a whole,
//! so a crash leaves the old key or the new one.

use std::fmt;
use std::fs;
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;
use rustix::io::Errno;

use super::file::{open, read_text_from, replace_file};
use super::paths::create_private_dir;
use super::{ConfigError, Origin, Paths, ReadError};

pub(super) const MAX_KEY_BYTES: u64 = 16 * 1024;

/// Maximum length of a provider's name, which is also the name of the file.
const MAX_NAME_BYTES: usize = 100;

/// Stores the key of a provider, and returns the path of its file.
///
/// # Errors
/// The text cannot be a key, or the file cannot be written. The error never contains the key.
pub fn store_key(paths: &Paths, provider: &str, secret: &str) -> Result<PathBuf, ConfigError> {
    let file = file_for(paths, provider)?;
    if secret.len() as u64 > MAX_KEY_BYTES {
        return Err(ConfigError::new(format!(
            "what was given for {provider} is longer than any key"
        )));
    }
    let secret = checked(secret.trim(), &"what was given")?;
    let folder = paths.keys_dir();
    create_private_dir(&folder)?;
    let write = || -> io::Result<()> {
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o700))?;
        replace_file(&folder, &file, format!("{secret}\n").as_bytes())
    };
    write().map_err(|e| {
        ConfigError::new(format!("cannot keep the key in {}: {e}", file.display()))
            .with_hint("make room or set REWAKE_HOME to a folder that you can write to")
    })?;
    Ok(file)
}

/// Removes the key of a provider. Returns false if there was none.
///
/// # Errors
/// The file cannot be removed.
pub fn remove_key(paths: &Paths, provider: &str) -> Result<bool, ConfigError> {
    let file = file_for(paths, provider)?;
    match fs::remove_file(&file) {
        Ok(()) => Ok(true),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(e) => Err(ConfigError::new(format!(
            "cannot remove the key file {}: {e}",
            file.display()
        ))),
    }
}

/// Returns the path of a provider's key, whether or not it exists.
fn file_for(paths: &Paths, provider: &str) -> Result<PathBuf, ConfigError> {
    stored_key_path(&paths.keys_dir(), provider).ok_or_else(|| {
        ConfigError::new(format!(
            "no key can be kept for {provider:?}: its name is not one of a file"
        ))
        .with_hint("name the variable of its key with api_key_env in the config")
    })
}

/// Same, or `None` if the name would lead to another folder.
pub(super) fn stored_key_path(folder: &Path, provider: &str) -> Option<PathBuf> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    let is_name = !provider.is_empty()
        && provider.len() <= MAX_NAME_BYTES
        && !provider.starts_with('.')
        && provider.chars().all(is_plain);
    is_name.then(|| folder.join(provider))
}

/// Reads a stored key. `None`: there is none.
pub(super) fn read_stored_key(file: &Path) -> Result<Option<String>, ConfigError> {
    // The checks use the open file, so they apply to the file that is read.
    let opened = match open(file, OFlags::NOFOLLOW) {
        Ok(opened) => opened,
        Err(ReadError::Missing) => return Ok(None),
        Err(ReadError::Io(e)) if e.raw_os_error() == Some(Errno::LOOP.raw_os_error()) => {
            return Err(unusable(file, "it is not a regular file"));
        }
        Err(e) => return Err(unusable(file, &e.to_string())),
    };
    let metadata = opened
        .metadata()
        .map_err(|e| unusable(file, &e.to_string()))?;
    if !metadata.is_file() {
        return Err(unusable(file, "it is not a regular file"));
    }
    if metadata.uid() != rustix::process::geteuid().as_raw() {
        return Err(unusable(file, "it belongs to another user"));
    }
    if metadata.mode() & 0o077 != 0 {
        let why = format!(
            "its mode is {:o}, so others can read it",
            metadata.mode() & 0o777
        );
        return Err(unusable(file, &why).with_hint(format!(
            "chmod 600 {}; if somebody else uses this machine, put another key in: rewake key",
            file.display()
        )));
    }
    let text = read_text_from(opened, MAX_KEY_BYTES).map_err(|e| unusable(file, &e.to_string()))?;
    let origin = Origin::Kept(file.to_path_buf());
    checked(text.trim(), &origin).map(Some)
}

/// Checks that a key contains only visible ASCII. Other characters would fail later, in a header,
/// with a less clear error.
pub(super) fn checked(secret: &str, origin: &impl fmt::Display) -> Result<String, ConfigError> {
    if secret.is_empty() {
        return Err(ConfigError::new(format!("{origin}: the key is empty")));
    }
    if secret.chars().any(char::is_control) {
        return Err(ConfigError::new(format!(
            "{origin}: the key holds a control character or an escape sequence"
        ))
        .with_hint("copy the key alone, without what a terminal puts around it"));
    }
    if !secret.bytes().all(|b| b.is_ascii_graphic()) {
        return Err(ConfigError::new(format!(
            "{origin}: the key holds a space or another character that no key has"
        )));
    }
    Ok(secret.to_string())
}

fn unusable(file: &Path, why: &str) -> ConfigError {
    ConfigError::new(format!(
        "the key file {} is not used: {why}",
        file.display()
    ))
    .with_hint("rewake key PROVIDER writes it again, rewake key PROVIDER --remove takes it away")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Config, Env};

    const SECRET: &str = "sk-kept-0123456789";

    fn home() -> (tempfile::TempDir, Paths) {
        let dir = tempfile::tempdir().unwrap();
        let env = Env::new([("REWAKE_HOME", dir.path())], "/");
        (dir, Paths::new(&env).unwrap())
    }

    fn config(paths: &Paths, text: &str) -> Config {
        let mut config: Config = toml::from_str(text).unwrap();
        config.keys_dir = Some(paths.keys_dir());
        config
    }

    fn none() -> Env {
        Env::new::<&str, &str>([], "/")
    }

    #[test]
    fn a_kept_key_is_for_its_owner_alone_and_is_used() {
        let (_dir, paths) = home();
        let file = store_key(&paths, "anthropic", &format!(" {SECRET}\n")).unwrap();
        let mode = |path: &Path| fs::metadata(path).unwrap().mode() & 0o777;
        assert_eq!(mode(&file), 0o600);
        assert_eq!(mode(file.parent().unwrap()), 0o700);
        // There are no other files.
        assert_eq!(fs::read_dir(paths.keys_dir()).unwrap().count(), 1);
        let provider = config(&paths, "").provider("anthropic").unwrap();
        let key = provider.key(&none()).unwrap().unwrap();
        assert_eq!(key.secret, SECRET);
        assert_eq!(key.origin, Origin::Kept(file));
        assert!(!format!("{key:?}{}", key.origin).contains("sk-kept"));
        let model = config(&paths, "").model_name(&none()).unwrap();
        assert_eq!(model.provider, "anthropic");
        // Another one takes its place.
        store_key(&paths, "anthropic", "sk-other").unwrap();
        assert_eq!(provider.key(&none()).unwrap().unwrap().secret, "sk-other");
        assert!(remove_key(&paths, "anthropic").unwrap());
        assert!(!remove_key(&paths, "anthropic").unwrap());
        assert!(provider.key(&none()).is_err());
    }

    #[test]
    fn environment_and_config_take_precedence_over_a_kept_key() {
        let (dir, paths) = home();
        store_key(&paths, "anthropic", SECRET).unwrap();
        let env = Env::new([("ANTHROPIC_API_KEY", "from-env")], "/");
        let provider = config(&paths, "").provider("anthropic").unwrap();
        assert_eq!(provider.key(&env).unwrap().unwrap().secret, "from-env");
        let own = dir.path().join("own");
        fs::write(&own, "from-file").unwrap();
        let text = format!("[providers.anthropic]\napi_key_file = {own:?}");
        let provider = config(&paths, &text).provider("anthropic").unwrap();
        assert_eq!(provider.key(&none()).unwrap().unwrap().secret, "from-file");
        // A server in the place of a provider that wants no key is sent none.
        let text = "[providers.anthropic]\nbase_url = \"http://h\"\napi_key_env = \"\"";
        let provider = config(&paths, text).provider("anthropic").unwrap();
        assert_eq!(provider.key(&none()), Ok(None));
    }

    #[test]
    fn a_file_that_others_can_read_is_not_used() {
        let (_dir, paths) = home();
        let file = store_key(&paths, "anthropic", SECRET).unwrap();
        let provider = config(&paths, "").provider("anthropic").unwrap();
        for mode in [0o640, 0o604, 0o620] {
            fs::set_permissions(&file, fs::Permissions::from_mode(mode)).unwrap();
            let error = provider.key(&none()).unwrap_err();
            assert!(
                error.to_string().contains("is not used: its mode is"),
                "{error}"
            );
            assert!(error.hint().unwrap().starts_with("chmod 600 "));
        }
        fs::remove_file(&file).unwrap();
        let elsewhere = paths.keys_dir().join("elsewhere");
        fs::write(&elsewhere, SECRET).unwrap();
        std::os::unix::fs::symlink(&elsewhere, &file).unwrap();
        let error = provider.key(&none()).unwrap_err().to_string();
        assert!(error.contains("not a regular file"), "{error}");
    }

    #[test]
    fn an_invalid_key_is_refused_and_not_shown_in_the_error() {
        let (_dir, paths) = home();
        for secret in ["", " \n", "two words", "sk-\u{1b}[31m", &"k".repeat(20_000)] {
            let error = store_key(&paths, "openai", secret).unwrap_err().to_string();
            assert!(
                !error.contains("words") && !error.contains("kkk"),
                "{error}"
            );
        }
        for name in ["", "../config", "a/b", ".hidden", "x y"] {
            assert!(store_key(&paths, name, SECRET).is_err(), "{name}");
        }
        assert!(!paths.keys_dir().exists());
    }
}
