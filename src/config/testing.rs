//! A user's config folder, a workspace and a working folder on a temporary disk.

use std::path::{Path, PathBuf};

use super::{ConfigError, Env, Loaded, Paths, Setting, load, trust};

pub(crate) struct Fixture(tempfile::TempDir);

impl Fixture {
    pub(crate) fn new() -> Fixture {
        let fixture = Fixture(tempfile::tempdir().unwrap());
        for dir in [&fixture.paths().config_dir, &fixture.root(), &fixture.cwd()] {
            std::fs::create_dir(dir).unwrap();
        }
        fixture
    }

    pub(crate) fn root(&self) -> PathBuf {
        self.0.path().join("root")
    }

    pub(crate) fn cwd(&self) -> PathBuf {
        self.0.path().join("cwd")
    }

    pub(crate) fn paths(&self) -> Paths {
        Paths {
            config_dir: self.0.path().join("config"),
            data_dir: self.0.path().join("data"),
            state_dir: self.0.path().join("state"),
        }
    }

    pub(crate) fn user(&self, text: &str) {
        std::fs::write(self.paths().config_file(), text).unwrap();
    }

    pub(crate) fn project(&self, text: &str) {
        let dir = self.root().join(".rewake");
        std::fs::create_dir_all(&dir).unwrap();
        std::fs::write(dir.join("config.toml"), text).unwrap();
    }

    pub(crate) fn trust(&self) {
        let content = trust::content(&self.paths(), &self.root()).unwrap();
        trust::trust(&self.paths(), &self.root(), &content).unwrap();
    }

    pub(crate) fn load(&self, vars: &[(&str, &str)], sets: &[&str]) -> Result<Loaded, ConfigError> {
        let env = Env::new(vars.iter().copied(), self.cwd());
        let flags: Vec<Setting> = sets
            .iter()
            .map(|s| Setting::parse(s))
            .collect::<Result<_, _>>()?;
        let paths = match env.var("REWAKE_HOME") {
            Some(_) => Paths::new(&env)?,
            None => self.paths(),
        };
        load(&env, &paths, &self.root(), &flags)
    }

    /// Without the temporary folder, which differs from run to run.
    pub(crate) fn short(&self, text: &str) -> String {
        let dir: &Path = self.0.path();
        text.replace(&format!("{}/", dir.display()), "")
    }
}
