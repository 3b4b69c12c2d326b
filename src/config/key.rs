//! The key of a provider. It comes from a variable, else from a file that the config names, else
//! from a stored file ([`super::kept_key`]). It is never logged.

use std::fmt;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use rustix::fs::OFlags;

use super::file::{open, read_text, read_text_from};
use super::kept_key::{MAX_KEY_BYTES, checked, read_stored_key};
use super::{ConfigError, Env, Origin, ProviderConfig, Warning};

/// A provider's key. Debug output leaves the secret out.
#[derive(Clone, PartialEq, Eq)]
pub struct Key {
    /// The key without white space around it.
    pub secret: String,
    /// Variable or file that the key was read from.
    pub origin: Origin,
    /// Set if others can read the file.
    pub warning: Option<Warning>,
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Key")
            .field("origin", &self.origin)
            .finish_non_exhaustive()
    }
}

impl ProviderConfig {
    /// Returns whether a key is configured, valid or not.
    pub fn has_key(&self, env: &Env) -> bool {
        let is_kept = || self.kept_key.as_ref().is_some_and(|file| file.exists());
        self.api_key_file.is_some()
            || self.api_key_env.iter().any(|name| env.var(name).is_some())
            || is_kept()
    }

    fn withheld(&self, file: &Path) -> ConfigError {
        let (name, url) = (&self.name, &self.base_url);
        let why = format!(
            "the key of {name} in {} is not sent to {url}: this folder's own config chose that address",
            file.display()
        );
        let variable = match self.api_key_env.first() {
            Some(variable) => format!("set {variable} to a key for it"),
            None => format!("name a variable with the key for it: providers.{name}.api_key_env"),
        };
        ConfigError::new(why).with_hint(format!(
            "{variable}, or, if your key is meant for that address, \
             say base_url = {url:?} below [providers.{name}] in your own config"
        ))
    }

    /// Returns the key, or `None` if the provider needs none.
    pub fn key(&self, env: &Env) -> Result<Option<Key>, ConfigError> {
        for name in &self.api_key_env {
            if let Some(value) = env.var(name).map(str::trim).filter(|v| !v.is_empty()) {
                let origin = Origin::Env(name.clone());
                return Ok(Some(Key {
                    secret: checked(value, &origin)?,
                    origin,
                    warning: None,
                }));
            }
        }
        if let Some(path) = &self.api_key_file {
            return read_key(path, self.is_key_file_of_project).map(Some);
        }
        if let Some(file) = &self.withheld_key {
            return Err(self.withheld(file));
        }
        if let Some(path) = &self.kept_key
            && let Some(secret) = read_stored_key(path)?
        {
            return Ok(Some(Key {
                secret,
                origin: Origin::Kept(path.clone()),
                warning: None,
            }));
        }
        if self.api_key_env.is_empty() {
            return Ok(None);
        }
        Err(ConfigError::new(format!(
            "there is no key for {}: {} is not set",
            self.name,
            self.api_key_env.join(" or ")
        ))
        .with_hint(format!(
            "set it, or type the key once: rewake key {}; `rewake demo` and a local server need no key",
            self.name
        )))
    }
}

/// Reads a key from a file. The user may name the stored key of another provider, a project may
/// not.
fn read_key(path: &Path, is_of_project: bool) -> Result<Key, ConfigError> {
    let text = if is_of_project {
        read_text(path, MAX_KEY_BYTES)
    } else {
        open(path, OFlags::empty()).and_then(|file| read_text_from(file, MAX_KEY_BYTES))
    };
    let text = text.map_err(|e| {
        ConfigError::new(format!("cannot read the key file {}: {e}", path.display()))
    })?;
    let origin = Origin::File {
        path: path.to_path_buf(),
        line: 1,
    };
    let secret = checked(text.trim(), &origin)?;
    let mode = std::fs::metadata(path).map_or(0, |meta| meta.permissions().mode());
    let warning = (mode & 0o077 != 0).then(|| Warning {
        text: format!("other users can read the key file {}", path.display()),
        hint: Some(format!("chmod 600 {}", path.display())),
    });
    Ok(Key {
        secret,
        origin,
        warning,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;
    use std::fs::Permissions;

    fn provider(text: &str) -> ProviderConfig {
        let config: Config = toml::from_str(text).unwrap();
        config.provider("anthropic").unwrap()
    }

    #[test]
    fn a_key_comes_from_the_variable_before_the_file() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("key");
        std::fs::write(&file, "from-file\n").unwrap();
        std::fs::set_permissions(&file, Permissions::from_mode(0o600)).unwrap();
        let provider = provider(&format!(
            "[providers.anthropic]\napi_key_file = {:?}",
            file.display().to_string()
        ));
        let key = |vars: &[(&str, &str)]| {
            let env = Env::new(vars.iter().copied(), "/");
            provider.key(&env).unwrap().unwrap()
        };
        let from_env = key(&[("ANTHROPIC_API_KEY", " from-env\n")]);
        assert_eq!(from_env.secret, "from-env");
        assert_eq!(from_env.origin, Origin::Env("ANTHROPIC_API_KEY".into()));
        assert_eq!(key(&[]).secret, "from-file");
        assert_eq!(key(&[]).warning, None);
        assert!(!format!("{from_env:?}").contains("from-env"));

        std::fs::set_permissions(&file, Permissions::from_mode(0o644)).unwrap();
        let warning = key(&[]).warning.unwrap();
        assert!(warning.text.starts_with("other users can read"));
        assert!(warning.hint.unwrap().starts_with("chmod 600 "));
    }

    #[test]
    fn no_key_names_the_variable_and_what_needs_none() {
        let err = provider("")
            .key(&Env::new::<&str, &str>([], "/"))
            .unwrap_err();
        assert_eq!(
            err.to_string(),
            "there is no key for anthropic: ANTHROPIC_API_KEY is not set"
        );
        assert!(
            err.hint()
                .unwrap()
                .contains("`rewake demo` and a local server")
        );
    }

    #[test]
    fn a_local_server_needs_no_key() {
        let ollama = Config::default().provider("ollama").unwrap();
        assert_eq!(ollama.key(&Env::new::<&str, &str>([], "/")), Ok(None));
    }

    #[test]
    fn a_key_that_cannot_be_one_is_refused_without_showing_it() {
        let env = Env::new([("ANTHROPIC_API_KEY", "two words")], "/");
        let err = provider("").key(&env).unwrap_err().to_string();
        assert!(
            err.contains("ANTHROPIC_API_KEY") && !err.contains("two"),
            "{err}"
        );
    }
}
