//! The context of a start: environment, paths, folder and config, and the store that they lead to.

use std::path::{Path, PathBuf};
use std::time::Duration;

use super::SessionError;
use crate::command::server::Servers;
use crate::command::{self, Runs};
use crate::config::{self, Config, Env, Loaded, NetworkUse, Paths, Setting, StoreConfig};
use crate::model::Models;
use crate::recovery::{self, Recovered, Repair};
use crate::store::{JournalPlace, SessionInfo, Store, StoreError, database, refuse_shared};
use crate::telemetry::settings::HEADERS_ENV;
use crate::workspace::{StartFolder, here};

/// Variables that change the meaning of a command line. bash and sh read the files that two of them
/// name before the command, and the third one leads `cd` elsewhere. The rules judge the line as it
/// is.
const MEANING_ENV: [&str; 3] = ["BASH_ENV", "ENV", "CDPATH"];

/// The version that renders layers and opens sessions.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

/// The context of the application: environment, paths, folder and config of this start.
#[derive(Clone)]
pub struct AppContext {
    pub env: Env,
    pub paths: Paths,
    pub here: StartFolder,
    pub loaded: Loaded,
    /// Settings of the command line. They apply in every folder that a session works in.
    pub flags: Vec<Setting>,
    /// Flags that are recorded in the session.
    pub given: GivenFlags,
}

/// Flags that are recorded in the session. `None`: not given, so the session keeps its own.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct GivenFlags {
    /// `--max-usd`: the cost at which the session pauses.
    pub max_usd: Option<f64>,
    /// `--append-system-prompt`.
    pub system_prompt: Option<String>,
    /// `--add-dir`: absolute folders.
    pub folders: Option<Vec<String>>,
    /// `--name`.
    pub name: Option<String>,
    /// `--shared`: the session is recorded in the shared database.
    pub shared: bool,
    /// A worker works on a task of the shared database.
    pub is_task: bool,
    /// The folder that the user confirmed for a copy of a session from elsewhere.
    pub confirmed_folder: Option<PathBuf>,
    /// The session that the user agreed to continue here, where its folder was moved to.
    pub confirmed_session: Option<String>,
    /// Questions of a run without a screen wait for an answer: `--on-approval wait`.
    pub is_attended: bool,
}

impl AppContext {
    /// Returns the config of this start, which is checked and complete.
    pub fn config(&self) -> &Config {
        &self.loaded.config
    }

    /// Returns the models of this config and their keys.
    pub fn models(&self) -> Models {
        Models::new(self.config().clone(), self.env.clone())
    }

    /// Returns this context for the folder of a session. The rules and the workspace of that folder
    /// apply, not those of the folder from which it is resumed.
    pub(super) fn of(&self, info: &SessionInfo) -> Result<AppContext, SessionError> {
        let here = here(Path::new(&info.folder)).map_err(|why| SessionError::Folder {
            session: info.id.clone(),
            why,
        })?;
        // A process has one config of a workspace. It changes only when a person applies the
        // change.
        let loaded = match here.root == self.here.root {
            true => self.loaded.clone(),
            false => config::load(&self.env, &self.paths, &here.root, &self.flags)?,
        };
        Ok(AppContext {
            here,
            loaded,
            ..self.clone()
        })
    }

    /// Returns this context with another config.
    pub fn with(&self, loaded: Loaded) -> AppContext {
        AppContext {
            loaded,
            ..self.clone()
        }
    }

    /// Returns the root of the workspace, in the form in which sessions record it.
    pub fn workspace(&self) -> String {
        self.here.root.to_string_lossy().into_owned()
    }

    /// Returns the root of the project if the workspace is a worktree of it that rewake made.
    pub(super) fn project(&self) -> Option<PathBuf> {
        let root = &self.here.root;
        // If this cannot be read, the config could not be loaded either.
        let project = config::project_root(&self.paths, root).ok()?;
        (project != *root).then_some(project)
    }

    /// Opens the store of this start's data folder, and creates it if it is missing.
    ///
    /// # Errors
    /// As [`Store::open`].
    pub fn open_store(&self) -> Result<Store, StoreError> {
        let place = self.journal_place();
        let data_dir = &self.paths.data_dir;
        if self.config().store.network == NetworkUse::Refuse {
            refuse_shared(data_dir)?;
        }
        let open = || -> Result<Store, StoreError> {
            let mut store = Store::open(data_dir)?;
            if let Some(place) = &place {
                store.start_copies(data_dir, place)?;
            }
            Ok(store)
        };
        let told = |error| with_journal_count(error, place.as_ref());
        let opened = open();
        let is_useless = match &opened {
            Ok(store) => store.is_damaged() || store.restore_report().is_damaged,
            Err(error) => error.is_damage(),
        };
        if !is_useless {
            return opened.map_err(told);
        }
        // The rebuild needs exclusive access, so the store is closed first.
        let failed = opened.map(drop);
        match self.recover_if_lossless() {
            Some(rebuilt) => {
                let mut store = open().map_err(told)?;
                store.was_rebuilt(rebuilt.line());
                Ok(store)
            }
            None => failed.and_then(|()| open()).map_err(told),
        }
    }

    /// Opens the store for reading. A store that cannot be written is opened read-only, and the
    /// reason is returned.
    ///
    /// # Errors
    /// As [`AppContext::open_store`], and as [`Store::open_read_only`].
    pub fn open_store_for_reading(&self) -> Result<(Store, Option<String>), StoreError> {
        let data_dir = &self.paths.data_dir;
        match self.open_store() {
            // A copy of the store, or a file without a writer, can be read on any disk.
            Err(error)
                if (error.is_forbidden() || matches!(error, StoreError::Network { .. }))
                    && database::exists(data_dir) =>
            {
                let store = Store::open_read_only(data_dir)?;
                let why = format!("the session store is only looked at: {error}");
                Ok((store, Some(why)))
            }
            opened => opened.map(|store| (store, None)),
        }
    }

    /// Rebuilds a damaged database, if all entries come back.
    pub(super) fn recover_if_lossless(&self) -> Option<Recovered> {
        let place = self.journal_place();
        let repair = Repair {
            from: &[],
            same_machine: false,
            only_whole: true,
            progress: &mut |doing| tracing::info!(doing, "rebuild"),
        };
        recovery::recover(&self.paths.data_dir, place.as_ref(), repair)
            .inspect_err(|error| tracing::warn!(%error, "the damaged database is not rebuilt"))
            .unwrap_or_default()
    }

    /// Returns the places of the journal and the high-water mark. `None`: the journal is off.
    pub(super) fn journal_place(&self) -> Option<JournalPlace> {
        journal_place(&self.config().store, &self.paths)
    }

    /// Returns the folders of rewake itself, and of a journal that is elsewhere.
    pub(crate) fn own_folders(&self) -> Vec<PathBuf> {
        let paths = &self.paths;
        let mut folders = vec![
            paths.config_dir.clone(),
            paths.data_dir.clone(),
            paths.state_dir.clone(),
        ];
        let journal = self.journal_place().map(|place| place.folder);
        folders.extend(journal.filter(|folder| !folder.starts_with(&paths.data_dir)));
        folders
    }

    /// Returns the run folders of all sessions, in the data folder.
    ///
    /// # Errors
    /// [`SessionError::OwnExe`]: supervisor processes are started from this program's own file.
    pub fn runs(&self) -> Result<Runs, SessionError> {
        let exe = command::own_exe().map_err(SessionError::OwnExe)?;
        Ok(Runs::new(self.paths.data_dir.join("runs"), exe))
    }

    /// Returns the run folders of the MCP servers of all sessions, in the data folder.
    ///
    /// # Errors
    /// [`SessionError::OwnExe`]: supervisor processes are started from this program's own file.
    pub fn servers(&self) -> Result<Servers, SessionError> {
        let exe = command::own_exe().map_err(SessionError::OwnExe)?;
        let runtime = self.env.var_os("XDG_RUNTIME_DIR").map(PathBuf::from);
        Ok(Servers::new(
            self.paths.data_dir.join("servers"),
            exe,
            runtime,
        ))
    }
}

/// Adds the number of sessions in the journal to a store error, for its hint.
pub fn with_journal_count(error: StoreError, place: Option<&JournalPlace>) -> StoreError {
    match place {
        Some(place) => place.with_journal_count(error),
        None => error,
    }
}

/// Returns the places of the journal and the high-water mark of this data folder. `None`: the
/// journal is off.
pub fn journal_place(config: &StoreConfig, paths: &Paths) -> Option<JournalPlace> {
    let folder = match config.journal_dir.as_os_str().is_empty() {
        true => paths.data_dir.join("journal"),
        false => config.journal_dir.clone(),
    };
    config.journal.then(|| JournalPlace {
        folder,
        state_dir: paths.state_dir.clone(),
        pause: Duration::from_millis(config.journal_sync_ms),
    })
}

/// Returns the variables that are removed for commands: those with keys, and those that change the
/// meaning of a line.
pub fn unseen_by_commands(config: &Config, env: &Env) -> Vec<String> {
    let meaning = MEANING_ENV.map(str::to_string);
    let own = [command::keeper::SETTINGS_ENV.to_string()];
    let names = config.key_env_names().into_iter();
    let copies = config.copies_of_keys(env).into_iter();
    let collector = HEADERS_ENV.map(str::to_string);
    let all = names.chain(meaning).chain(own).chain(copies);
    all.chain(collector).collect()
}
