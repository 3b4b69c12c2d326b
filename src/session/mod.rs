//! An open session of this folder: its lock, log, state, world and settings.
//!
//! The callers drive the engine, with a screen or without. Opening a session writes only the start
//! of a new session or a fork. The engine records that a session was resumed.

mod asked_change;
mod assembly;
mod authors;
mod bypass;
mod changed_files;
mod changes;
pub mod checks;
#[cfg(feature = "fleet")]
pub mod clone;
pub mod context;
mod custom;
pub mod describe;
mod dismiss;
mod driver;
mod edited;
pub mod export;
mod file_change;
mod files;
mod files_rows;
mod fold_cache;
mod fork_files;
mod git;
mod git_settings;
mod git_worktree;
mod given_flags;
pub mod hook_list;
pub mod hooks;
mod last;
mod layers;
mod missing_sessions;
#[cfg(not(feature = "fleet"))]
pub mod no_remote;
mod notify_command;
pub mod objects;
mod offer;
mod opening;
mod permissions;
mod placed_edit;
mod processes;
mod purge;
mod reading;
mod relocation;
#[cfg(feature = "fleet")]
pub mod remote;
mod rename;
mod replica;
#[cfg(feature = "fleet")]
mod repo_address;
mod resume_report;
mod rewind;
mod rewind_preview;
mod said;
pub mod sandbox;
mod served;
mod server_list;
mod server_rows;
mod server_schema;
mod server_words;
mod servers;
mod session_diff;
mod session_list;
pub mod shared;
pub mod shared_branch;
mod shared_files;
#[cfg(feature = "fleet")]
pub mod shared_task;
mod skills;
mod steer;
mod summary;
mod takeover;
mod tasks;
mod telemetry;
mod tmp;
mod waits;
mod worktree;
mod worktree_end;
mod worktree_use;
mod worktrees;

pub use crate::core::ending::Ending;
use crate::shared::SharedError;
pub use crate::store::{now_ms, short_id};
pub use authors::FileAuthors;
pub use bypass::{fork_without_bypass, is_in_bypass};
pub use changed_files::{ChangedFiles, TreePair, changed_by_call};
pub use changes::looking_git;
pub use custom::{
    CommandFiles, CommandLine, Expanded, NotSaid, UntrustedCommand, commands_to_trust, is_prompt,
    trust_commands,
};
pub use dismiss::{Dismissal, dismiss};
pub use driver::{Attended, Driver, drive};
pub use edited::{EDITED, EditorFiles, MAX_EDITED_BYTES};
pub use file_change::FileChange;
pub use files::watch;
pub use files_rows::{FilesRow, Grade, files_rows};
pub use fold_cache::FoldCache;
pub use fork_files::{ForkFolder, ForkedInto, NotForked};
pub use given_flags::{GivenFlags, added_folder};
pub use missing_sessions::MissingSessions;
pub use notify_command::{NotifyCommand, RunningNotifiers, notification_line};
pub use offer::{Details, Offer, StillRunning, still_running};
pub use permissions::DISK;
pub use placed_edit::{EditPlace, EditQuery, PlacedEdit, edit_places};
pub use processes::{NotStopped, ProcessObject, add_tails, process_objects, stop_process};
pub use purge::lock_with_children;
pub use relocation::Relocation;
pub use rename::rename;
pub use replica::folder_to_confirm;
pub use resume_report::{ResumeReport, ago, clock, resumed_in_short};
pub use rewind_preview::{
    NEVER_SET_BACK, PathBecomes, PathChange, RewindPreview, RewindRow, RewindSection, RewindSums,
    rewind_diff,
};
pub use server_rows::ServerRow;
pub use server_words::{AskServer, DefinedServers, ExpandedWords};
pub use session_diff::{FileDiff, NoDiff, call_diff, session_diff};
pub use session_list::{Finished, SessionList};
pub use steer::{
    Accepted, Delivery, HERE, MAX_MESSAGE_BYTES, Outgoing, Post, Question, QuestionChoice, Receipt,
    Refusal, SteerError, Steering, check_message, decode_image, denial, read_image,
};
pub use summary::{GLANCE_ENTRIES, SessionState, SessionSummary, glance};
pub use tasks::decode_from_parent;
pub use waits::only_waits_for_person;
pub use worktree::NoWorktree;
pub use worktree_end::{
    EndedWorktree, KeptWorktree, WorktreeRow, removed_ignored_note, worktree_rows,
};
pub use worktrees::Worktrees;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::Duration;

use context::{Gauging, KnownWindows};

use crate::command::server::Servers;
use crate::command::{self, Runs};
use crate::config::{
    self, Config, ConfigError, Env, Loaded, NetworkUse, Paths, Setting, StoreConfig,
};
use crate::core::entry::{Entry, Record, Seq, Usage};
use crate::core::settings::PermissionCheck;
use crate::core::state::{Illegal, State};
use crate::engine::{Log, Settings};
use crate::mcp::catalogue::SessionCatalogue;
use crate::model::Figures;
use crate::recovery::{self, Recovered, Repair};
use crate::store::{
    JournalPlace, SessionInfo, SessionLock, Store, StoreError, database, refuse_shared,
};
use crate::telemetry::settings::HEADERS_ENV;
use crate::workspace::{HereError, StartFolder, here};
use crate::world::machine::Machine;

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

/// The choice of a session to open.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SessionSelector {
    New,
    /// The newest one of this workspace. No older one is opened instead.
    Newest {
        /// Whether to open a fork of it instead of the session itself.
        fork: bool,
    },
    /// A session ID, or the beginning of one.
    Named {
        id: String,
        /// Whether to open a fork of it instead of the session itself.
        fork: bool,
    },
    /// The session with this ID. If there is none, it is created.
    Given {
        id: String,
    },
    /// A fork after this entry.
    ForkAt {
        /// A session ID, or the beginning of one.
        id: String,
        /// The last entry that the fork shares.
        seq: Seq,
    },
}

/// Why a session could not be opened, read or driven.
#[derive(Debug, thiserror::Error)]
pub enum SessionError {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Config(#[from] ConfigError),
    #[error(transparent)]
    Shared(#[from] SharedError),
    /// A shared session of another data folder.
    #[error("session {session} is not in this data folder")]
    Elsewhere { session: String },
    /// An error of the folder that a session works in.
    #[error("session {session}: {why}")]
    Folder { session: String, why: HereError },
    #[error("cannot read session {session}: {why}")]
    Illegal { session: String, why: Illegal },
    /// The workspace with this root has no session to resume.
    #[error("there is no session in {0}")]
    NothingHere(PathBuf),
    /// The workspace has only copies of sessions of other agents.
    #[error("the only sessions here are imported: {session} is one of {agent}")]
    OnlyReplicas { session: String, agent: String },
    /// A fork of an imported session has no folder.
    #[error("cannot continue session {session}: {why}")]
    NoSourceFolder { session: String, why: String },
    /// The requested session is missing, and other recorded sessions are missing too.
    #[error("{why}")]
    Lost {
        why: Box<SessionError>,
        hint: String,
    },
    /// It works in a worktree of rewake that cannot be used or made again.
    #[error(transparent)]
    Worktree(#[from] NoWorktree),
    /// The ID that the user gave cannot be used here.
    #[error("cannot use session {session} here: {why}")]
    GivenId { session: String, why: String },
    /// A supervisor process runs each command, and it is this program.
    #[error("cannot find this program's own file: {0}")]
    OwnExe(std::io::Error),
    /// A command of the session is still running.
    #[error("command {run} of session {session} runs")]
    Running { session: String, run: String },
    #[error("cannot start the runtime: {0}")]
    Runtime(std::io::Error),
    /// An agent could answer its own questions this way, or choose another mode.
    #[error("a session is not resumed from inside a command that an agent runs")]
    BelowAgent,
}

impl SessionError {
    /// Returns whether the requested session is missing.
    fn is_missing(&self) -> bool {
        matches!(
            self,
            SessionError::NothingHere(_) | SessionError::Store(StoreError::NotFound { .. })
        )
    }

    /// Returns a hint for a person. `None`: no remedy is known.
    pub fn hint(&self) -> Option<String> {
        match self {
            SessionError::Store(e) => e.hint(),
            SessionError::Config(e) => e.hint().map(str::to_string),
            SessionError::Shared(e) => e.hint().map(str::to_string),
            SessionError::Elsewhere { session } => Some(format!(
                "a fork continues it: rewake fork {session} --shared; without -p, -r watches it"
            )),
            SessionError::Folder { session, .. } => Some(format!(
                "make that folder again; if it was moved: rewake -C DIR -r {session} continues there"
            )),
            SessionError::Illegal { session, .. } => Some(format!(
                "rewake history lists the others; rewake doctor looks at the store ({session})"
            )),
            SessionError::NothingHere(_) => Some(
                "start one: rewake -p \"what to do\"; rewake history lists those of other folders"
                    .into(),
            ),
            SessionError::OnlyReplicas { session, .. } => {
                Some(format!("rewake -r {session} continues it in a fork"))
            }
            SessionError::NoSourceFolder { session, .. } => Some(format!(
                "name the folder in which it continues: rewake -C DIR -r {session}"
            )),
            SessionError::GivenId { .. } => {
                Some("give another UUID, or none: rewake -p \"what to do\"".into())
            }
            SessionError::Lost { hint, .. } => Some(hint.clone()),
            SessionError::Worktree(error) => error.hint().map(str::to_string),
            SessionError::Running { run, .. } => Some(format!("rewake ps stop {run}")),
            SessionError::BelowAgent => Some("type it in a terminal of your own".into()),
            SessionError::OwnExe(_) | SessionError::Runtime(_) => None,
        }
    }
}

/// An open session of this process. No other process can use it while `lock` lives.
pub struct Session {
    pub id: String,
    pub lock: SessionLock,
    pub log: Log,
    /// Temporary folder of its commands.
    pub tmp: tmp::SessionTmp,
    /// The world in which its tools act.
    pub world: Rc<Machine>,
    pub settings: Settings,
    pub figures: Figures,
    pub gauging: Gauging,
    /// The report about a session that was resumed.
    pub found: Option<ResumeReport>,
    /// Its last entries, if a screen shows them.
    pub recent: Vec<Record>,
    /// Usage so far, by model.
    pub spent: BTreeMap<String, Usage>,
    /// Warnings for the user, not for the model.
    pub warnings: Vec<String>,
    /// The spans that are sent. `None`: telemetry is off.
    pub telemetry: Option<crate::telemetry::Job>,
}

impl Session {
    /// Returns the state after the choices of this start, which the engine records first.
    pub fn state_as_chosen(&self) -> Cow<'_, State> {
        let state = &self.log.state;
        let Some(chosen) = self.settings.chosen.clone() else {
            return Cow::Borrowed(state);
        };
        let record = Record {
            seq: state.next_seq(),
            at_ms: now_ms(),
            entry: Entry::Chose(chosen),
        };
        let mut state = state.clone();
        // If the choice is invalid, recording it gives the error.
        if let Err(error) = state.fold(&record) {
            tracing::warn!(%error, "what was chosen cannot be shown");
        }
        Cow::Owned(state)
    }
}

/// An opened session whose world is not made yet.
struct Opened {
    log: Log,
    lock: SessionLock,
    found: Option<ResumeReport>,
    /// Whether the config applies to it as to a new session.
    as_new: bool,
    recent: Vec<Record>,
    spent: BTreeMap<String, Usage>,
    warnings: Vec<String>,
    catalogue: SessionCatalogue,
}

/// The place at which a fork starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Parting {
    /// After the last entry.
    End,
    /// After this entry.
    Behind(Seq),
}

impl AppContext {
    /// Returns the config of this start, which is checked and complete.
    pub fn config(&self) -> &Config {
        &self.loaded.config
    }

    /// Returns this context for the folder of a session. The rules and the workspace of that folder
    /// apply, not those of the folder from which it is resumed.
    fn of(&self, info: &SessionInfo) -> Result<AppContext, SessionError> {
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
            env: self.env.clone(),
            paths: self.paths.clone(),
            here,
            loaded,
            flags: self.flags.clone(),
            given: self.given.clone(),
        })
    }

    /// Returns this context with another config.
    pub fn with(&self, loaded: Loaded) -> AppContext {
        AppContext {
            env: self.env.clone(),
            paths: self.paths.clone(),
            here: self.here.clone(),
            loaded,
            flags: self.flags.clone(),
            given: self.given.clone(),
        }
    }

    /// Returns the check by the current rules, for a session that works in this folder.
    pub fn permission_check_of(&self, folder: &str) -> Result<PermissionCheck, SessionError> {
        let folder = match folder {
            "" => &self.here.folder,
            folder => Path::new(folder),
        };
        // The session stores the tools of its servers, so the store has them too.
        let catalogue = self.catalogue(&self.open_store()?);
        let hook_files = hooks::files_of_hooks(self);
        let (check, _) =
            permissions::permission_check(self, folder, &hook_files, self.runs()?, catalogue)?;
        Ok(check)
    }

    /// Returns the input for a gauge of the context, for a process that only reads the session.
    pub fn gauging(&self, store: &Store, model: &str) -> Result<Gauging, SessionError> {
        Ok(Gauging {
            known: KnownWindows::read(self, store, &[model])?,
            windows: context::windows(self.config()),
        })
    }

    /// Returns the root of the workspace, in the form in which sessions record it.
    pub fn workspace(&self) -> String {
        self.here.root.to_string_lossy().into_owned()
    }

    /// Returns the root of the project if the workspace is a worktree of it that rewake made.
    fn project(&self) -> Option<PathBuf> {
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
    fn recover_if_lossless(&self) -> Option<Recovered> {
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
    fn journal_place(&self) -> Option<JournalPlace> {
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

/// Returns the message for a journal that cannot be written.
pub fn journal_fails(why: &str) -> String {
    format!("the journal is not written: {why}; the session is in the database alone")
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
