//! A session of this folder, opened: lock, log, state, world and settings put together.
//!
//! Used by whatever drives the engine, with a screen or without. Opening writes only what
//! starting a session or forking one means; waking it is the engine's.

pub mod context;
pub mod export;
mod found;
mod judge;
mod last;
mod layers;
mod offer;
mod reading;
mod skills;
mod takeover;

pub use found::{Ending, Found, ago, clock, short_id};
pub use offer::{Details, Offer, StillRunning};

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use context::{Gauging, Known};
use last::last_session;
use layers::Renderer;
use reading::{Recent, fold, readable};

use crate::command::{self, RunState, Runs};
use crate::config::{self, Config, ConfigError, Env, Loaded, Origin, Paths, Setting};
use crate::core::budget::Budget;
use crate::core::entry::{Entry, ForkPoint, Guard, Layers, Record, Seq, Usage};
use crate::core::next::{Judge, Policy};
use crate::core::state::{Illegal, State};
use crate::engine::{Log, Settings};
use crate::model::{Figures, Models};
use crate::store::{
    NewFork, NewSession, SessionFilter, SessionInfo, SessionLock, Store, StoreError, new_id,
};
use crate::tools::Place;
use crate::workspace::{Here, HereError, here};
use crate::world::machine::{Machine, Shell};

/// Variables that change what a command line means: bash and sh read the files that two of
/// them name before the command, and with the third `cd` leads elsewhere. The rules judge
/// the line as it stands.
const MEANING_ENV: [&str; 3] = ["BASH_ENV", "ENV", "CDPATH"];

/// Of blank sessions here so many are looked at: more are open at once only by chance.
const MAX_BLANK: u32 = 20;

/// The version that renders layers and opens sessions.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Where and with what settings rewake was started.
#[derive(Clone)]
pub struct Surroundings {
    pub env: Env,
    pub paths: Paths,
    pub here: Here,
    pub loaded: Loaded,
    /// Those of the command line: they hold in whatever folder a session works.
    pub flags: Vec<Setting>,
}

/// Which session is meant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Which {
    New,
    /// The newest one here, and never an older one.
    Newest {
        fork: bool,
    },
    /// An id, or the beginning of one.
    Named {
        id: String,
        fork: bool,
    },
    /// A copy that goes its own way behind this entry.
    ForkAt {
        id: String,
        seq: Seq,
    },
}

#[derive(Debug, thiserror::Error)]
pub enum SessionError {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// Of the folder that a session works in.
    #[error("session {session}: {why}")]
    Folder { session: String, why: HereError },
    #[error("cannot read session {session}: {why}")]
    Illegal { session: String, why: Illegal },
    #[error("there is no session in {0}")]
    NothingHere(PathBuf),
    #[error("cannot find this program's own file: {0}")]
    OwnExe(std::io::Error),
}

impl SessionError {
    pub fn hint(&self) -> Option<String> {
        match self {
            SessionError::Store(e) => e.hint(),
            SessionError::Config(e) => e.hint().map(str::to_string),
            SessionError::Folder { .. } => Some("it works in that folder: make it again".into()),
            SessionError::Illegal { session, .. } => Some(format!(
                "rewake history lists the others; rewake doctor looks at the store ({session})"
            )),
            SessionError::NothingHere(_) => Some(
                "start one: rewake -p \"what to do\"; rewake history lists those of other folders"
                    .into(),
            ),
            SessionError::OwnExe(_) => None,
        }
    }
}

/// A session that is ours: nobody else has it while `lock` lives.
pub struct Session {
    pub id: String,
    pub lock: SessionLock,
    pub log: Log,
    pub world: Rc<Machine>,
    pub settings: Settings,
    pub figures: Figures,
    pub gauging: Gauging,
    /// What was there, when it is not new.
    pub found: Option<Found>,
    /// The last of its entries, when somebody looks on.
    pub recent: Vec<Record>,
    /// What each model was asked for so far.
    pub spent: BTreeMap<String, Usage>,
    /// For the user, not for the model.
    pub warnings: Vec<String>,
}

/// A session before its world is made.
struct Opened {
    log: Log,
    lock: SessionLock,
    found: Option<Found>,
    /// What the config says holds for it.
    as_new: bool,
    recent: Vec<Record>,
    spent: BTreeMap<String, Usage>,
    warnings: Vec<String>,
}

/// How a session that is there is opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Taking {
    Up,
    Copy(Parting),
    /// As if it had been opened now.
    Blank,
}

/// Where a copy of a session parts from it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Parting {
    /// Behind its last entry.
    End,
    Behind(Seq),
}

impl Surroundings {
    pub fn config(&self) -> &Config {
        &self.loaded.config
    }

    /// The same start in the folder of a session: its rules and its workspace hold there, not
    /// those of the folder it is resumed from.
    fn of(&self, info: &SessionInfo) -> Result<Surroundings, SessionError> {
        let here = here(Path::new(&info.folder)).map_err(|why| SessionError::Folder {
            session: info.id.clone(),
            why,
        })?;
        let loaded = config::load(&self.env, &self.paths, &here.root, &self.flags)?;
        Ok(Surroundings {
            env: self.env.clone(),
            paths: self.paths.clone(),
            here,
            loaded,
            flags: self.flags.clone(),
        })
    }

    /// The same start with another config.
    pub fn with(&self, loaded: Loaded) -> Surroundings {
        Surroundings {
            env: self.env.clone(),
            paths: self.paths.clone(),
            here: self.here.clone(),
            loaded,
            flags: self.flags.clone(),
        }
    }

    /// The variables that commands are run without: those that hold keys, and those that
    /// change what a line means.
    pub fn unseen_by_commands(&self) -> Vec<String> {
        unseen_by_commands(self.config())
    }

    /// The rules as they are now, for a session that works in this folder.
    pub fn judge_of(&self, folder: &str) -> Result<Judge, SessionError> {
        let folder = match folder {
            "" => &self.here.folder,
            folder => Path::new(folder),
        };
        Ok(judge::judge(self, folder, self.runs()?)?.0)
    }

    /// How full a context is, for one who only looks on.
    pub fn gauging(&self, store: &Store, model: &str) -> Result<Gauging, SessionError> {
        Ok(Gauging {
            known: Known::read(self, store, &[model])?,
            windows: context::windows(self.config()),
        })
    }

    pub fn workspace(&self) -> String {
        self.here.root.to_string_lossy().into_owned()
    }

    pub fn open_store(&self) -> Result<Store, StoreError> {
        Store::open(&self.paths.data_dir)
    }

    pub fn runs(&self) -> Result<Runs, SessionError> {
        let exe = command::own_exe().map_err(SessionError::OwnExe)?;
        Ok(Runs::new(self.paths.data_dir.join("runs"), exe))
    }

    /// Unfinished sessions of this folder, newest first.
    pub fn unfinished(&self, store: &Store) -> Result<Vec<SessionInfo>, StoreError> {
        let workspace = self.workspace();
        let filter = SessionFilter {
            workspace: Some(&workspace),
            unfinished: true,
        };
        store.sessions(filter, 10)
    }

    /// Another process has the session.
    pub fn is_in_use(&self, session: &str) -> bool {
        SessionLock::is_held(&self.paths.data_dir, session)
    }

    /// Opens a session; a new one, or a fork, is recorded.
    ///
    /// # Errors
    /// [`StoreError::Held`] when another process has it.
    pub fn open(&self, which: &Which, interactive: bool) -> Result<Session, SessionError> {
        let store = self.open_store()?;
        let now_ms = now_ms();
        match which {
            Which::New if interactive => match self.blank(&store)? {
                Some(blank) => self.reuse(store, blank, now_ms),
                None => self.create(store, now_ms, interactive),
            },
            Which::New => self.create(store, now_ms, interactive),
            Which::Newest { fork } => {
                let newest = store.newest(Some(&self.workspace()))?;
                let info =
                    newest.ok_or_else(|| SessionError::NothingHere(self.here.root.clone()))?;
                let parting = fork.then_some(Parting::End);
                self.take_up(store, info, parting, now_ms, interactive)
            }
            Which::Named { id, fork } => {
                let info = store.find(id)?;
                let parting = fork.then_some(Parting::End);
                self.take_up(store, info, parting, now_ms, interactive)
            }
            Which::ForkAt { id, seq } => {
                let info = store.find(id)?;
                let parting = Some(Parting::Behind(*seq));
                self.take_up(store, info, parting, now_ms, interactive)
            }
        }
        .inspect(|session| {
            tracing::info!(
                session = session.id,
                entries = session.log.state.next_seq(),
                "opened"
            )
        })
    }

    fn create(
        &self,
        mut store: Store,
        now_ms: i64,
        interactive: bool,
    ) -> Result<Session, SessionError> {
        let model = self.config().model_name(&self.env)?.to_string();
        // A session that could never ask its model is not begun.
        Models::new(self.config().clone(), self.env.clone()).check(&model)?;
        let budget = Known::read(self, &store, &[&model])?.budgeting()(&model, None, None);
        let (layers, warnings) = Renderer::new(self).render(&budget, now_ms);
        let layers = self.with_last_session(layers, &store, &budget);
        let folder = self.here.folder.to_string_lossy().into_owned();
        let opened = Entry::Opened {
            folder: folder.clone(),
            version: VERSION.to_string(),
            model,
            mode: self.config().permission_mode,
            layers,
        };
        // Ours before anybody can see it.
        let id = new_id();
        let lock = SessionLock::take(&self.paths.data_dir, &id)?;
        let new = NewSession {
            id: id.clone(),
            workspace: self.workspace(),
            folder,
        };
        let (head, first) = store.create(&new, now_ms, opened)?;
        let state =
            State::of([&first]).map_err(|why| SessionError::Illegal { session: id, why })?;
        let log = Log { store, head, state };
        let opened = Opened {
            log,
            lock,
            found: None,
            as_new: true,
            recent: vec![first],
            spent: BTreeMap::new(),
            warnings,
        };
        self.assemble(opened, interactive)
    }

    /// The first request of a session is told how the last one here ended.
    fn with_last_session(&self, mut layers: Layers, store: &Store, budget: &Budget) -> Layers {
        if self.config().context.cross_session {
            let workspace = self.workspace();
            let room = layers::list_bytes(budget);
            let told = last_session(store, &workspace, |id| self.is_in_use(id), room);
            layers.instructions = layers::joined([layers.instructions, told.unwrap_or_default()]);
        }
        layers
    }

    /// A session here that was opened and in which nothing was ever said: who starts anew goes
    /// on with it, and finds the words that stood in its input box.
    fn blank(&self, store: &Store) -> Result<Option<SessionInfo>, StoreError> {
        let folder = self.here.folder.to_string_lossy();
        let blank = store.blank(&self.workspace(), &folder, MAX_BLANK)?;
        Ok(blank.into_iter().find(|info| !self.is_in_use(&info.id)))
    }

    /// A blank session is as if it had been opened now.
    fn reuse(
        &self,
        store: Store,
        blank: SessionInfo,
        now_ms: i64,
    ) -> Result<Session, SessionError> {
        let folder = blank.folder.clone();
        let mut session = match self.reopen(store, blank, Taking::Blank, now_ms, true) {
            // Another start was faster.
            Err(SessionError::Store(StoreError::Held { .. })) => {
                return self.create(self.open_store()?, now_ms, true);
            }
            session => session?,
        };
        let store = &session.log.store;
        let blank = store.blank(&self.workspace(), &folder, MAX_BLANK)?;
        if !blank.iter().any(|info| info.id == session.id) {
            // Another process had it, and said something, before it was locked.
            drop(session);
            return self.create(self.open_store()?, now_ms, true);
        }
        let state = &session.log.state;
        let model = match &session.settings.chosen {
            Some(Entry::Chose { model: Some(m), .. }) => m,
            _ => &state.model,
        };
        let budget = session.settings.policy.budget_of(state, model);
        let layers = (session.settings.render)(&budget);
        let layers = self.with_last_session(layers, store, &budget);
        session.settings.renewed = (layers != state.layers || state.version != VERSION)
            .then(|| (VERSION.to_string(), layers));
        session.found = None;
        Ok(session)
    }

    fn take_up(
        &self,
        store: Store,
        info: SessionInfo,
        parting: Option<Parting>,
        now_ms: i64,
        interactive: bool,
    ) -> Result<Session, SessionError> {
        let its = self.of(&info)?;
        let taking = parting.map_or(Taking::Up, Taking::Copy);
        let mut session = its.reopen(store, info, taking, now_ms, interactive)?;
        // What is wrong with the config here was told already.
        let warnings = its.loaded.warnings.iter().map(|w| &w.text);
        let known = |text: &&String| self.loaded.warnings.iter().any(|w| w.text == **text);
        session
            .warnings
            .extend(warnings.filter(|text| !known(text)).cloned());
        Ok(session)
    }

    fn reopen(
        &self,
        mut store: Store,
        info: SessionInfo,
        taking: Taking,
        now_ms: i64,
        interactive: bool,
    ) -> Result<Session, SessionError> {
        let mut warnings = Vec::new();
        let (id, lock) = match taking {
            Taking::Copy(parting) => {
                let (id, lock, warning) = self.fork(&mut store, &info.id, parting, now_ms)?;
                warnings.extend(warning);
                (id, lock)
            }
            Taking::Up | Taking::Blank => {
                let lock = SessionLock::take(&self.paths.data_dir, &info.id)?;
                (info.id.clone(), lock)
            }
        };
        let mut recent = Recent::new(interactive);
        let (head, state, last) = fold(&store, &id, &mut recent)?;
        let runs = self.runs()?;
        let queued = store.queued(&id)?.len();
        let title = info.title.as_deref();
        let mut found = Found::look(&id, title, last.as_ref(), &state, &runs, queued, now_ms);
        found.forked = matches!(taking, Taking::Copy(_));
        sweep(&runs, &id, &state);
        let log = Log { store, head, state };
        let opened = Opened {
            log,
            lock,
            found: Some(found),
            spent: std::mem::take(&mut recent.spent),
            as_new: taking == Taking::Blank,
            recent: recent.into_records(),
            warnings,
        };
        self.assemble(opened, interactive)
    }

    /// A copy that goes its own way: its id, its lock, and a warning when the origin is damaged
    /// and the copy ends before its last entry.
    pub fn fork(
        &self,
        store: &mut Store,
        origin: &str,
        parting: Parting,
        now_ms: i64,
    ) -> Result<(String, SessionLock, Option<String>), SessionError> {
        let (mut state, warning) = readable(store, origin, parting)?;
        let from = ForkPoint {
            session: origin.to_string(),
            seq: state.next_seq() - 1,
        };
        let forked = Record {
            seq: state.next_seq(),
            at_ms: now_ms,
            entry: Entry::Forked { from: from.clone() },
        };
        state.fold(&forked).map_err(|why| SessionError::Illegal {
            session: origin.to_string(),
            why,
        })?;
        let id = new_id();
        let lock = SessionLock::take(&self.paths.data_dir, &id)?;
        let new = NewFork {
            id: id.clone(),
            from,
            unfinished: state.unfinished(),
        };
        store.fork(&new, now_ms)?;
        Ok((id, lock, warning))
    }

    fn assemble(&self, opened: Opened, interactive: bool) -> Result<Session, SessionError> {
        let Opened {
            log,
            lock,
            mut found,
            as_new,
            recent,
            spent,
            mut warnings,
        } = opened;
        let state = &log.state;
        let id = log.head.session().to_string();
        let config = self.config();
        let folder = PathBuf::from(&state.folder);
        let runs = self.runs()?;
        let (judge, hidden) = judge::judge(self, &folder, runs.clone())?;
        let place = Place {
            folder,
            root: self.here.root.clone(),
            home: self.env.home().map(PathBuf::from),
            inline_max_bytes: usize::try_from(config.inline_max_bytes).unwrap_or(usize::MAX),
            hidden,
        };
        let shell = Shell {
            path: config.shell.program(&self.env),
            timeout_ms: config.shell.timeout_ms,
            output_cap_bytes: config.shell.output_cap_bytes,
            env_remove: unseen_by_commands(config),
        };
        let chosen = self.choices(state, as_new)?;
        let model = match &chosen {
            Some(Entry::Chose {
                model: Some(model), ..
            }) => model.clone(),
            _ => state.model.clone(),
        };
        if let (
            Some(found),
            Some(Entry::Chose {
                mode: Some(mode), ..
            }),
        ) = (&mut found, &chosen)
        {
            found.mode = *mode;
        }
        let asked = Models::new(config.clone(), self.env.clone());
        warnings.extend(asked.check(&model)?);
        let mode_is_chosen = matches!(&chosen, Some(Entry::Chose { mode: Some(_), .. }));
        if state.mode != config.permission_mode && !mode_is_chosen {
            warnings.push(format!(
                "this session goes on in mode {}, as it was left; --permission-mode changes it",
                state.mode.name()
            ));
        }
        let world = Machine::new(
            place,
            shell,
            runs,
            asked,
            id.clone(),
            self.paths.data_dir.clone(),
        );
        let mut models = vec![model.as_str(), state.model.as_str()];
        models.extend(config.summary_model.as_deref());
        let known = Known::read(self, &log.store, &models)?;
        let policy = Policy {
            judge,
            interactive,
            max_turns: config
                .max_turns
                .map(|n| u32::try_from(n).unwrap_or(u32::MAX)),
            budget: known.clone().budgeting(),
            windows: context::windows(config),
        };
        let renderer = Renderer::new(self);
        let budget = policy.budget_of(state, &model);
        let renewed = (state.version != VERSION).then(|| renderer.render(&budget, now_ms()).0);
        let settings = Settings {
            policy,
            checkpoint_interval: Duration::from_secs(config.checkpoint_interval_secs),
            summarising: context::summarising(config),
            render: Box::new(move |budget| renderer.render(budget, now_ms()).0),
            renewed: renewed.map(|layers| (VERSION.to_string(), layers)),
            chosen,
        };
        let world = Rc::new(world);
        Ok(Session {
            id,
            lock,
            log,
            world,
            settings,
            gauging: Gauging {
                known,
                windows: context::windows(config),
            },
            figures: Figures::new(config),
            found,
            recent,
            spent,
            warnings,
        })
    }

    /// A flag of this start wins over what the session was using, and in one in which nothing
    /// was said yet so does the config.
    fn choices(&self, state: &State, as_new: bool) -> Result<Option<Entry>, SessionError> {
        let by_flag = |key: &str| as_new || matches!(self.loaded.origins.of(key), Origin::Flag(_));
        let model = match by_flag("model") {
            true => Some(self.config().model_name(&self.env)?.to_string()),
            false => None,
        };
        let model = model.filter(|m| *m != state.model);
        let mode = Some(self.config().permission_mode)
            .filter(|mode| by_flag("permission_mode") && *mode != state.mode);
        Ok((model.is_some() || mode.is_some()).then_some(Entry::Chose { model, mode }))
    }
}

/// The variables that commands are run without.
fn unseen_by_commands(config: &Config) -> Vec<String> {
    let meaning = MEANING_ENV.map(str::to_string);
    config.key_env_names().into_iter().chain(meaning).collect()
}

/// Run folders of this session that nothing in its log speaks of any more: a crash came
/// between their making and their `Started`, or between a result and its tidying up. And what
/// a crash left half made, whosever it was.
fn sweep(runs: &Runs, session: &str, state: &State) {
    if let Err(error) = runs.remove_half_made() {
        tracing::warn!(%error, "a half-made run folder stays");
    }
    let open = state
        .calls
        .iter()
        .filter(|c| !c.finished)
        .filter_map(|c| match &c.guard {
            Some(Guard::Supervised { run, .. }) => Some(run.as_str()),
            _ => None,
        });
    let known: Vec<&str> = open
        .chain(state.background.values().map(|b| b.run.as_str()))
        .collect();
    for info in runs.list() {
        let over = !matches!(info.state, RunState::Running { .. });
        if info.spec.session == session
            && over
            && !known.contains(&info.run.as_str())
            && let Err(error) = runs.remove(&info.run)
        {
            tracing::warn!(run = info.run, %error, "a run folder stays");
        }
    }
}

/// UTC, milliseconds since 1970.
pub fn now_ms() -> i64 {
    let since = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}
