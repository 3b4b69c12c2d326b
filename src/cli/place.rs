//! The surroundings of a subcommand: its folder, and its config and log if it needs them.

use std::path::PathBuf;

use tracing_appender::non_blocking::WorkerGuard;

use super::logging;
use crate::command;
use crate::config::{self, Env, Paths, Setting};
use crate::report::{CliError, note};
use crate::session::AppContext;
use crate::workspace::{StartFolder, here};

/// The environment, rewake's folders, the workspace, and the settings of the command line.
pub(super) struct SessionPlace {
    pub env: Env,
    pub paths: Paths,
    pub here: StartFolder,
    pub settings: Vec<Setting>,
}

impl SessionPlace {
    /// Finds the place, and creates nothing there. `cd`: the folder to work in, as typed.
    pub fn find(cd: Option<PathBuf>, settings: Vec<Setting>) -> Result<SessionPlace, CliError> {
        let env = Env::capture(cd.as_deref())?;
        let paths = Paths::new(&env)?;
        paths.check_owner(&env)?;
        let here = here(&env.cwd().join(cd.unwrap_or_default()))?;
        Ok(SessionPlace {
            env,
            paths,
            here,
            settings,
        })
    }

    /// Returns the place, if a person uses it: a model could give itself more, or delete for good.
    pub fn of_person(self) -> Result<SessionPlace, CliError> {
        match command::is_below_keeper(self.env.var(command::keeper::RUN_ENV)) {
            false => Ok(self),
            true => Err(CliError::usage("trust, keys, sessions and the program are not changed from inside a command that an agent runs",
            )
            .with_hint("type it in a terminal of your own")),
        }
    }

    /// Creates rewake's folders and reads the config.
    pub fn config(self) -> Result<AppContext, CliError> {
        self.paths.create()?;
        self.paths.check_rights(true)?;
        if let Some(warning) = self.paths.shared_folder() {
            note(&format!("note: {warning}"));
        }
        self.load()
    }

    /// Does the same, and starts the log.
    pub fn work(self, log: &mut Option<WorkerGuard>) -> Result<AppContext, CliError> {
        let ctx = self.config()?;
        *log = logging::start(&ctx.paths, ctx.config().log.level);
        Ok(ctx)
    }

    /// Does the same for a subcommand that only reads: also where no folder can be created.
    pub fn look(self, log: &mut Option<WorkerGuard>) -> Result<AppContext, CliError> {
        let _ = self.paths.create();
        self.paths.check_rights(false)?;
        let ctx = self.load()?;
        *log = logging::start(&ctx.paths, ctx.config().log.level);
        Ok(ctx)
    }

    /// Reads the config.
    pub fn load(self) -> Result<AppContext, CliError> {
        let loaded = config::load(&self.env, &self.paths, &self.here.root, &self.settings)?;
        Ok(AppContext {
            env: self.env,
            paths: self.paths,
            here: self.here,
            loaded,
            flags: self.settings,
            given: Default::default(),
        })
    }
}
