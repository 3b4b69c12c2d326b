//! The paths of rewake's own files: by XDG (also on macOS), or all in `REWAKE_HOME`.

use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use super::rights::hint_of;
use super::{ConfigError, Env};

/// The folders of rewake's own files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Paths {
    /// `config.toml`, `trusted.toml`, `AGENTS.md`.
    pub config_dir: PathBuf,
    /// The store.
    pub data_dir: PathBuf,
    /// Logs and stored keys.
    pub state_dir: PathBuf,
}

impl Paths {
    /// Finds the folders: all in `REWAKE_HOME` if that is set, else those of the XDG base
    /// directory specification. Creates nothing.
    ///
    /// # Errors
    /// Neither the variables nor `HOME` are set.
    pub fn new(env: &Env) -> Result<Paths, ConfigError> {
        if let Some(home) = env.var_os("REWAKE_HOME") {
            let home = env.cwd().join(home);
            return Ok(Paths {
                config_dir: home.clone(),
                data_dir: home.clone(),
                state_dir: home,
            });
        }
        Ok(Paths {
            config_dir: xdg(env, "XDG_CONFIG_HOME", ".config")?,
            data_dir: xdg(env, "XDG_DATA_HOME", ".local/share")?,
            state_dir: xdg(env, "XDG_STATE_HOME", ".local/state")?,
        })
    }

    /// Creates missing folders, readable by the user only.
    pub fn create(&self) -> Result<(), ConfigError> {
        for dir in [&self.config_dir, &self.data_dir, &self.state_dir] {
            create_private_dir(dir)?;
        }
        Ok(())
    }

    /// Returns the folder of stored keys.
    pub fn keys_dir(&self) -> PathBuf {
        self.state_dir.join("keys")
    }

    /// Returns the user's config file.
    pub fn config_file(&self) -> PathBuf {
        self.config_dir.join("config.toml")
    }
}

/// Follows the XDG base directory specification, by which relative paths are ignored.
fn xdg(env: &Env, name: &str, below_home: &str) -> Result<PathBuf, ConfigError> {
    let set = env
        .var_os(name)
        .map(PathBuf::from)
        .filter(|path| path.is_absolute());
    let base = match set {
        Some(base) => base,
        None => home(env)?.join(below_home),
    };
    Ok(base.join("rewake"))
}

fn home(env: &Env) -> Result<&Path, ConfigError> {
    env.home().ok_or_else(|| {
        ConfigError::new("cannot tell where rewake's files are: HOME is not set to a folder")
            .with_hint("set HOME, or set REWAKE_HOME to the folder for all of rewake's files")
    })
}

pub(super) fn create_private_dir(dir: &Path) -> Result<(), ConfigError> {
    make_private_folder(dir).map_err(|e| {
        let hint = hint_of(dir, &e);
        ConfigError::new(format!("cannot create the folder {}: {e}", dir.display())).with_hint(
            hint.as_deref()
                .unwrap_or("set REWAKE_HOME to a folder that you can write to"),
        )
    })
}

/// Makes a folder with mode 0700, and those above it, if they are missing. The mode of an existing one
/// does not change.
pub fn make_private_folder(folder: &Path) -> io::Result<()> {
    let mut builder = DirBuilder::new();
    builder.recursive(true).mode(0o700).create(folder)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn folders_follow_xdg() {
        let env = Env::new(
            [
                ("HOME", "/home/ann"),
                ("XDG_CONFIG_HOME", "/conf"),
                ("XDG_STATE_HOME", "relative"),
            ],
            "/",
        );
        let paths = Paths::new(&env).unwrap();
        assert_eq!(paths.config_dir, Path::new("/conf/rewake"));
        assert_eq!(paths.data_dir, Path::new("/home/ann/.local/share/rewake"));
        assert_eq!(paths.state_dir, Path::new("/home/ann/.local/state/rewake"));
    }

    #[test]
    fn rewake_home_holds_everything_and_needs_no_home() {
        let paths = Paths::new(&Env::new([("REWAKE_HOME", "box")], "/w")).unwrap();
        assert_eq!(paths.config_file(), Path::new("/w/box/config.toml"));
        assert_eq!(paths.data_dir, Path::new("/w/box"));
        assert_eq!(paths.state_dir, Path::new("/w/box"));
    }

    #[test]
    fn a_missing_home_is_an_error_with_a_hint_at_rewake_home() {
        let err = Paths::new(&Env::new([("HOME", "")], "/")).unwrap_err();
        assert!(err.to_string().contains("HOME is not set"));
        assert!(err.hint().unwrap().contains("REWAKE_HOME"));
    }

    #[test]
    fn new_folders_are_private() {
        let dir = tempfile::tempdir().unwrap();
        let home = dir.path().join("a/b");
        let env = Env::new([("REWAKE_HOME", &home)], "/");
        Paths::new(&env).unwrap().create().unwrap();
        let mode = std::fs::metadata(&home).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o700);
    }
}
