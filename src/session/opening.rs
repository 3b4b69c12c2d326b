//! The opening of a session: a new one, an existing one, or a fork.
//!
//! Invariant: a session is locked before anything is written to it, and a new one before
//! anybody can see it.

use std::collections::BTreeMap;
use std::path::Path;

use super::context::KnownWindows;
use super::last::last_session;
use super::layers::{self, Renderer};
use super::missing_sessions::MissingSessions;
use super::reading::{Recent, fold, readable};
use super::relocation::Relocation;
use super::resume_report::ResumeReport;
use super::{
    AppContext, Opened, Parting, Session, SessionError, SessionSelector, VERSION, journal_fails,
    now_ms, replica, shared,
};
use crate::command::server::Servers;
use crate::command::{OF_UNAWAITED_HOOK, RunState, Runs};
use crate::config::{Config, ConfigError, Paths};
use crate::core::budget::Budget;
use crate::core::entry::{Choice, Entry, ForkPoint, PromptPrefix, Record};
use crate::core::state::{State, UserCommand};
use crate::engine::Log;
use crate::model::discover;
use crate::store::{
    Batch, Gap, Head, NewFork, NewPlace, NewSession, NewTree, SessionInfo, SessionLock, Store,
    StoreError, is_purged,
};
use crate::tools;

/// Maximum number of blank sessions that are checked. More are open at once only by chance.
const MAX_BLANK: u32 = 20;

/// The way in which an existing session is opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum OpenMode {
    Resume,
    Fork(Parting),
    /// A blank session, as if it were a new one.
    Reuse,
}

impl AppContext {
    /// Opens a session. Records a new one or a fork.
    ///
    /// # Errors
    /// [`StoreError::Held`] if another process uses it.
    pub fn open(
        &self,
        which: &SessionSelector,
        interactive: bool,
    ) -> Result<Session, SessionError> {
        if matches!(
            which,
            SessionSelector::Newest { fork: false }
                | SessionSelector::Named { fork: false, .. }
                | SessionSelector::Given { .. }
        ) {
            self.steering().may_take_up()?;
        }
        let store = self.open_store()?;
        self.fork_folders().settle(&store);
        // This must come before a new session is created.
        let lost = self.missing_sessions_warning(&store)?;
        let session = self.recovering(store, |store| self.opened(store, which, interactive));
        let mut session = session.map_err(|why| {
            if !why.is_missing() {
                return why;
            }
            match lost
                .clone()
                .or_else(|| self.find_missing_sessions_warning())
            {
                Some(hint) => SessionError::Lost {
                    why: Box::new(why),
                    hint,
                },
                None => why,
            }
        })?;
        self.given.queue_name(&mut session)?;
        session.warnings.extend(lost);
        session
            .warnings
            .extend(session.log.store.restore_report().line());
        let trouble = session.log.store.take_journal_failure();
        session
            .warnings
            .extend(trouble.as_deref().map(journal_fails));
        tracing::info!(
            session = session.id,
            entries = session.log.state.next_seq(),
            // `Lost` reads this line again, together with the word before it and the quotes.
            data = ?self.paths.data_dir,
            "opened"
        );
        Ok(session)
    }

    /// Calls `act` with the store. If the database is damaged and every entry can be restored,
    /// rebuilds it and calls `act` a second time.
    ///
    /// # Errors
    /// Those of `act`. After an error, `act` must not hold the store or a lock.
    pub fn recovering<T>(
        &self,
        store: Store,
        mut act: impl FnMut(Store) -> Result<T, SessionError>,
    ) -> Result<T, SessionError> {
        let why = match act(store) {
            Err(SessionError::Store(why)) if why.is_damage() => why,
            done => return done,
        };
        match self.recover_if_lossless() {
            // The damage explains more to the user than the reason why it cannot be repaired now.
            None => Err(why.into()),
            Some(rebuilt) => {
                let mut store = self.open_store()?;
                store.was_rebuilt(rebuilt.line());
                act(store)
            }
        }
    }

    /// Returns the warning about sessions that the database has lost. An error here does not
    /// prevent the start.
    pub fn missing_sessions_warning(&self, store: &Store) -> Result<Option<String>, SessionError> {
        let Paths {
            data_dir,
            state_dir,
            ..
        } = &self.paths;
        let lost = MissingSessions::newer(data_dir, state_dir, &self.runs()?, store)
            .unwrap_or_else(|error| {
                tracing::warn!(%error, "it is not known whether sessions were lost");
                None
            });
        let lost = lost.map(|lost| {
            format!(
                "{}; {}",
                lost.line(),
                MissingSessions::hint(data_dir, state_dir)
            )
        });
        // If nothing names a session, the high-water mark still says how many there were.
        Ok(lost.or_else(|| {
            let missing = store.missing()?;
            Some(format!("{missing}; {}", missing.hint()?))
        }))
    }

    /// Returns the same for a request of a missing session, from a complete search.
    pub fn find_missing_sessions_warning(&self) -> Option<String> {
        let Paths {
            data_dir,
            state_dir,
            ..
        } = &self.paths;
        let store = Store::open_current(data_dir).ok()??;
        let lost =
            MissingSessions::all(data_dir, state_dir, &self.runs().ok()?, &[], &store).ok()??;
        Some(format!(
            "{}; {}",
            lost.line(),
            MissingSessions::hint(data_dir, state_dir)
        ))
    }

    /// Checks that the session to open, or its entry, exists.
    pub fn check_exists(&self, which: &SessionSelector) -> Result<(), SessionError> {
        let store = self.open_store()?;
        match which {
            SessionSelector::New
            | SessionSelector::Newest { .. }
            | SessionSelector::Given { .. } => Ok(()),
            SessionSelector::Named { id, .. } => Ok(store.history().find(id).map(|_| ())?),
            SessionSelector::ForkAt { id, seq } => {
                let info = store.history().find(id)?;
                Ok(store.history().has_entry(&info.id, *seq)?)
            }
        }
    }

    fn opened(
        &self,
        store: Store,
        which: &SessionSelector,
        interactive: bool,
    ) -> Result<Session, SessionError> {
        let now_ms = now_ms();
        match which {
            SessionSelector::New if interactive && !self.given.shared => {
                match self.blank(&store)? {
                    Some(blank) => self.reuse(store, blank, now_ms),
                    None => self.create(store, None, now_ms, interactive),
                }
            }
            SessionSelector::New => self.create(store, None, now_ms, interactive),
            SessionSelector::Given { id } => given(self, store, id, now_ms, interactive),
            SessionSelector::Newest { fork } => {
                let newest = store.history().newest(Some(&self.workspace()))?;
                let newest = newest.or_else(|| Relocation::newest(self, &store, false));
                let info = newest.ok_or_else(|| replica::nothing_here(self, &store))?;
                let parting = fork.then_some(Parting::End);
                self.take_up(store, info, parting, now_ms, interactive)
            }
            SessionSelector::Named { id, fork } => {
                let info = match store.history().find(id) {
                    Err(StoreError::NotFound { .. }) if self.given.shared => {
                        return Err(SessionError::Elsewhere {
                            session: id.clone(),
                        });
                    }
                    info => info?,
                };
                if self.given.shared && !*fork && info.replica.is_some() {
                    return Err(SessionError::Elsewhere { session: info.id });
                }
                // Only an import appends to a copy of another agent's session.
                let forks = *fork || info.replica.is_some();
                let parting = forks.then_some(Parting::End);
                self.take_up(store, info, parting, now_ms, interactive)
            }
            SessionSelector::ForkAt { id, seq } => {
                let info = store.history().find(id)?;
                let parting = Some(Parting::Behind(*seq));
                self.take_up(store, info, parting, now_ms, interactive)
            }
        }
    }

    /// Creates a session, with this ID and lock if they are given.
    fn create(
        &self,
        mut store: Store,
        given: Option<(String, SessionLock)>,
        now_ms: i64,
        interactive: bool,
    ) -> Result<Session, SessionError> {
        let model = self.config().model_name(&self.env);
        let model = model.map_err(|error| with_running_server(self.config(), error))?;
        let model = model.to_string();
        // A session whose model can never be used is not created.
        self.models().check(&model)?;
        self.given.check_price(self.config(), &model)?;
        let budget = KnownWindows::read(self, &store, &[&model])?.budgeting()(&model, None, None);
        let catalogue = self.catalogue(&store);
        let renderer = Renderer::new(self, interactive, catalogue.clone());
        let renderer = renderer.with_added(self.given.added(None));
        let (layers, mut warnings) = renderer.render(&budget, now_ms);
        if interactive {
            warnings.extend(replica::sessions_of_others(self, &store));
        }
        let layers = self.with_last_session(layers, &store, &budget);
        let folder = self.here.folder.to_string_lossy().into_owned();
        let opened = Entry::Opened {
            folder: folder.clone(),
            version: VERSION.to_string(),
            model,
            mode: self.config().permission_mode,
            layers,
            imported: None,
        };
        // The lock is taken before anybody can see the session.
        let (id, mut lock) = match given {
            Some(given) => given,
            None => SessionLock::take_new(&self.paths.data_dir)?,
        };
        let new = NewSession {
            id: id.clone(),
            workspace: self.workspace(),
            folder,
        };
        // Not before the lock: a start compares the two times.
        let now_ms = super::now_ms();
        let (shared, known) = if self.given.shared {
            let (writer, known) = shared::create(self, &mut store, &new, now_ms, &opened)?;
            (Some(writer), known)
        } else {
            (None, None)
        };
        if let Some((at_ms, opened)) = known {
            store.create(&new, at_ms, opened)?;
            lock.recorded();
            drop((shared, lock));
            let info = store.history().find(&id)?;
            return self.take_up(store, info, None, now_ms, interactive);
        }
        let (head, first) = store.create(&new, now_ms, opened)?;
        lock.recorded();
        if let Some(shared) = &shared {
            shared.take_mail()?;
        }
        let state = State::of(tools::describe, [&first])
            .map_err(|why| SessionError::Illegal { session: id, why })?;
        let log = Log {
            store,
            head,
            state,
            shared,
        };
        let opened = Opened {
            log,
            lock,
            found: None,
            as_new: true,
            recent: vec![first],
            spent: BTreeMap::new(),
            warnings,
            catalogue,
        };
        self.assemble(opened, interactive)
    }

    /// Adds the report about the last session here to the first request.
    fn with_last_session(
        &self,
        layers: PromptPrefix,
        store: &Store,
        budget: &Budget,
    ) -> PromptPrefix {
        let room = layers::list_bytes(budget);
        let in_use = |id: &str| SessionLock::is_held(&self.paths.data_dir, id);
        let cross = self.config().context.cross_session;
        let last = cross.then(|| last_session(store, &self.workspace(), in_use, room));
        match last.flatten() {
            Some(last) => layers.with_start(&last),
            None => layers,
        }
    }

    /// Returns a session here that was opened and never used. A new start reuses it, and finds the
    /// unsent text in its input box.
    fn blank(&self, store: &Store) -> Result<Option<SessionInfo>, StoreError> {
        let folder = self.here.folder.to_string_lossy();
        let blank = store
            .history()
            .blank(&self.workspace(), &folder, MAX_BLANK)?;
        Ok(blank
            .into_iter()
            .find(|info| !SessionLock::is_held(&self.paths.data_dir, &info.id)))
    }

    /// Opens a blank session as if it were new.
    fn reuse(
        &self,
        store: Store,
        blank: SessionInfo,
        now_ms: i64,
    ) -> Result<Session, SessionError> {
        let folder = blank.folder.clone();
        let mut session = match self.reopen(store, blank, (OpenMode::Reuse, None), now_ms, true) {
            // Another start took it first.
            Err(SessionError::Store(StoreError::Held { .. })) => {
                return self.create(self.open_store()?, None, now_ms, true);
            }
            session => session?,
        };
        let store = &session.log.store;
        let blank = store
            .history()
            .blank(&self.workspace(), &folder, MAX_BLANK)?;
        if !blank.iter().any(|info| info.id == session.id) {
            // Another process used it and sent a message before we locked it.
            drop(session);
            return self.create(self.open_store()?, None, now_ms, true);
        }
        let state = &session.log.state;
        let model = match &session.settings.chosen {
            Some(Choice { model: Some(m), .. }) => m,
            _ => &state.model,
        };
        let budget = session.settings.policy.budget_of(state, model);
        let layers = (session.settings.render)(&budget);
        let layers = self.with_last_session(layers, store, &budget);
        session.settings.renewed = (layers != state.layers || state.version != VERSION)
            .then(|| (VERSION.to_string(), layers));
        session.found = None;
        // Choices of its earlier starts do not apply to this one.
        let is_first = |record: &Record| matches!(record.entry, Entry::Opened { .. });
        session.recent.retain(is_first);
        Ok(session)
    }

    pub(super) fn take_up(
        &self,
        store: Store,
        mut info: SessionInfo,
        parting: Option<Parting>,
        now_ms: i64,
        interactive: bool,
    ) -> Result<Session, SessionError> {
        let was_away = self.worktrees().there(Path::new(&info.folder))?;
        let relocation = Relocation::of(self, &store, &info);
        if let Some(relocation) = &relocation {
            if interactive && relocation.needs_question(self) {
                return Err(SessionError::NoSourceFolder {
                    session: info.id,
                    why: relocation.words(),
                });
            }
            info.workspace.clone_from(&relocation.root);
            info.folder.clone_from(&relocation.folder);
        }
        let its = match info.replica.is_some() && replica::is_elsewhere(self, &info)? {
            true => self.clone(),
            false => self.of(&info)?,
        };
        let mode = parting.map_or(OpenMode::Resume, OpenMode::Fork);
        let at = (mode, relocation.as_ref());
        let mut session = its.reopen(store, info, at, now_ms, interactive)?;
        session.warnings.extend(was_away);
        let unconfirmed = relocation.filter(|relocation| !relocation.is_confirmed(self));
        let here = unconfirmed.map(|r| format!("the session continues here: {}", r.words()));
        session.warnings.extend(here);
        // Warnings about the config of this folder were shown already.
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
        (mode, relocation): (OpenMode, Option<&Relocation>),
        now_ms: i64,
        interactive: bool,
    ) -> Result<Session, SessionError> {
        let mut warnings = Vec::new();
        let (id, mut lock) = match mode {
            OpenMode::Fork(_) if self.given.shared => return Err(shared::is_fork()),
            OpenMode::Fork(parting) => {
                // These checks come before anything is created.
                store.check_other_machine(&info.id)?;
                store.check_missing_entries(&info.id)?;
                let (id, lock, warning) =
                    self.fork_with(&mut store, &info.id, parting, now_ms, |_| {
                        (
                            relocation.map(Relocation::entry).into_iter().collect(),
                            None,
                        )
                    })?;
                warnings.extend(warning);
                (id, lock)
            }
            OpenMode::Resume | OpenMode::Reuse => {
                let lock = SessionLock::take(&self.paths.data_dir, &info.id)?;
                (info.id.clone(), lock)
            }
        };
        let shared = match (&info.shared, mode) {
            (Some(_), OpenMode::Resume | OpenMode::Reuse) => {
                Some(shared::take(self, &mut store, &id, &mut warnings)?)
            }
            (None, OpenMode::Resume | OpenMode::Reuse) if self.given.shared => {
                return Err(shared::is_not_shared(&id));
            }
            _ => None,
        };
        store.take_up(&id)?;
        let mut recent = Recent::new(interactive);
        let (mut head, mut state, last) = fold(&store, &id, &mut recent)?;
        lock.recorded();
        let runs = self.runs()?;
        let queued = store.inbox().queued(&id)?.len();
        let title = info.title.as_deref();
        let mut found =
            ResumeReport::look(&id, title, last.as_ref(), &state, &runs, queued, now_ms);
        // A fork with separate files is recorded before it is opened.
        let is_new = |last: &Record| {
            matches!(
                last.entry,
                Entry::Restored {
                    new_folder: true,
                    ..
                }
            )
        };
        found.forked = matches!(mode, OpenMode::Fork(_)) || last.as_ref().is_some_and(is_new);
        found.brought = store.history().restored_entry_count(&id)?;
        if let Some(relocation) =
            relocation.filter(|r| mode == OpenMode::Resume && state.folder == r.from)
        {
            // Before anything else is done there.
            let batch = Batch {
                at_ms: super::now_ms(),
                entries: vec![relocation.entry()],
                unfinished: state.unfinished(),
                ..Batch::default()
            };
            store.append(&mut head, &batch)?;
            recent = Recent::new(interactive);
            (head, state, _) = fold(&store, &id, &mut recent)?;
        }
        sweep(&runs, &id, &state);
        sweep_servers(&self.servers()?, &id, &state);
        let catalogue = self.catalogue(&store);
        let log = Log {
            store,
            head,
            state,
            shared,
        };
        let opened = Opened {
            log,
            lock,
            found: Some(found),
            spent: std::mem::take(&mut recent.spent),
            as_new: mode == OpenMode::Reuse,
            recent: recent.into_records(),
            warnings,
            catalogue,
        };
        self.assemble(opened, interactive)
    }

    /// Forks a session. Returns the ID and the lock of the fork, and a warning if the origin is
    /// damaged and the fork ends before its last entry.
    pub fn fork(
        &self,
        store: &mut Store,
        origin: &str,
        parting: Parting,
        now_ms: i64,
    ) -> Result<(String, SessionLock, Option<String>), SessionError> {
        self.fork_with(store, origin, parting, now_ms, |_| (Vec::new(), None))
    }

    /// Forks a session like [`AppContext::fork`], and adds entries that follow from its state, and
    /// a tree that they name.
    pub(super) fn fork_with(
        &self,
        store: &mut Store,
        origin: &str,
        parting: Parting,
        now_ms: i64,
        also: impl FnOnce(&State) -> (Vec<Entry>, Option<NewTree>),
    ) -> Result<(String, SessionLock, Option<String>), SessionError> {
        let copy = NewCopy::begin(&self.paths.data_dir)?;
        let id = copy.id.clone();
        let also = |state: &State| {
            let (also, tree) = also(state);
            (also, Vec::from_iter(tree))
        };
        let copied = self.copy(store, copy, origin, parting, None, now_ms, also)?;
        Ok((id, copied.lock, copied.warning))
    }

    /// Records a new fork. `place` is its folder, if it is not that of the origin.
    #[allow(clippy::too_many_arguments, reason = "each is said by another caller")]
    pub(super) fn copy(
        &self,
        store: &mut Store,
        new: NewCopy,
        origin: &str,
        parting: Parting,
        place: Option<NewPlace>,
        now_ms: i64,
        also: impl FnOnce(&State) -> (Vec<Entry>, Vec<NewTree>),
    ) -> Result<Copied, SessionError> {
        let (mut state, warning) = readable(store, origin, parting)?;
        let info = store.history().find(origin)?;
        let from = ForkPoint {
            session: origin.to_string(),
            seq: state.next_seq() - 1,
        };
        // The session may be a fork of the copy.
        let of_copy = store.history().copy_at(&from)?;
        let note = of_copy
            .as_ref()
            .map(|copy| replica::note(store, copy, &state));
        let place = match (place, &of_copy) {
            (None, Some(copy)) => replica::place_of_fork(self, &info, copy)?,
            (place, _) => place,
        };
        // Not before the lock: a start compares the two times.
        let now_ms = now_ms.max(super::now_ms());
        let fold = |state: &mut State, entry: Entry| {
            let record = Record {
                seq: state.next_seq(),
                at_ms: now_ms,
                entry,
            };
            state.fold(&record).map_err(|why| SessionError::Illegal {
                session: origin.to_string(),
                why,
            })
        };
        let folder = place.as_ref().map(|place| place.folder.clone());
        fold(&mut state, store.history().forked(&from, folder)?)?;
        let (more, trees) = also(&state);
        let copy = of_copy.as_ref();
        let choice = copy.and_then(|copy| replica::choice(self, copy, &state));
        let warning = warning.or_else(|| {
            let model = choice.as_ref().map(|_| &state.model)?;
            Some(format!(
                "the model {model} of the session cannot be used here"
            ))
        });
        // The entries after this one are lost, so the workspace may have changes that the fork does
        // not know.
        let gap = store
            .history()
            .gap(origin)?
            .filter(|gap| gap.first == from.seq + 1);
        let warning = warning.or_else(|| gap.as_ref().map(Gap::line));
        let of_gap = gap.map(|gap| Entry::Noted {
            text: gap.note(),
            about: None,
        });
        // A restore of files comes last: until its end nothing else may follow.
        let before = [choice, note, of_gap];
        let also: Vec<Entry> = before.into_iter().flatten().chain(more).collect();
        for entry in &also {
            fold(&mut state, entry.clone())?;
        }
        let NewCopy { id, mut lock } = new;
        let new = NewFork {
            id,
            from,
            place,
            unfinished: state.unfinished(),
        };
        let head = store.fork(&new, &also, &trees, now_ms)?;
        lock.recorded();
        Ok(Copied {
            head,
            state,
            lock,
            warning,
        })
    }
}

/// Opens the session with this ID, or creates it.
fn given(
    ctx: &AppContext,
    store: Store,
    id: &str,
    now_ms: i64,
    interactive: bool,
) -> Result<Session, SessionError> {
    if is_purged(&ctx.paths.data_dir, id) {
        return Err(SessionError::GivenId {
            session: id.to_string(),
            why: "it was purged".to_string(),
        });
    }
    let mut lock = None;
    if !store.history().knows(id)? {
        // Another start may create it at this moment.
        lock = Some(SessionLock::take(&ctx.paths.data_dir, id)?);
    }
    if !store.history().knows(id)? {
        // It is in no database, and was in one: creating it would hide what was lost.
        if SessionLock::was_recorded(&ctx.paths.data_dir, id) || store.has_journal(id) {
            return Err(StoreError::no_session(id).into());
        }
        let new = lock.map(|lock| (id.to_string(), lock));
        return ctx.create(store, new, now_ms, interactive);
    }
    drop(lock);
    let info = store.history().find(id)?;
    if info.workspace != ctx.workspace() && Relocation::of(ctx, &store, &info).is_none() {
        return Err(SessionError::GivenId {
            session: id.to_string(),
            why: format!("it works in {}", info.folder),
        });
    }
    ctx.take_up(store, info, None, now_ms, interactive)
}

/// A fork that is about to be recorded. Its lock is taken before anybody can see it.
pub(super) struct NewCopy {
    pub(super) id: String,
    lock: SessionLock,
}

impl NewCopy {
    pub(super) fn begin(data_dir: &Path) -> Result<NewCopy, StoreError> {
        let (id, lock) = SessionLock::take_new(data_dir)?;
        Ok(NewCopy { id, lock })
    }
}

/// A fork that is recorded.
pub(super) struct Copied {
    pub(super) head: Head,
    pub(super) state: State,
    pub(super) lock: SessionLock,
    /// Set if the origin is damaged and the fork ends before its last entry.
    pub(super) warning: Option<String>,
}

/// Removes the run folders of this session's servers that have ended and that no open call names. A
/// running server is used again.
fn sweep_servers(servers: &Servers, session: &str, state: &State) {
    let open = state.calls.iter().filter(|c| !c.finished);
    let known: Vec<&str> = open.filter_map(|c| c.guard.as_ref()?.run()).collect();
    for info in servers.list() {
        let is_own = info.spec.session == session && !known.contains(&info.run.as_str());
        if is_own
            && !info.is_kept
            && let Err(error) = servers.remove(&info.run)
        {
            tracing::warn!(run = info.run, %error, "the folder of a server stays");
        }
    }
}

/// Removes run folders of this session that its log does not name any more. A crash came between
/// their creation and their `Started`, or between a result and the cleanup. Also removes half-made
/// run folders of any session.
fn sweep(runs: &Runs, session: &str, state: &State) {
    if let Err(error) = runs.remove_unfinished() {
        tracing::warn!(%error, "a half-made run folder stays");
    }
    let open = state
        .calls
        .iter()
        .filter(|c| !c.finished)
        .filter_map(|c| c.guard.as_ref()?.run());
    let hooks = state.hooks.pending().iter().flat_map(|hooks| &hooks.runs);
    let known: Vec<&str> = open
        .chain(state.background.values().map(|b| b.run.as_str()))
        .chain(state.user_commands.values().filter_map(UserCommand::run))
        .chain(hooks.map(|run| run.run.as_str()))
        .chain(state.checks.running().map(|check| check.run.as_str()))
        .collect();
    for info in runs.list() {
        let over = !matches!(info.state, RunState::Running { .. });
        let is_own = info.spec.session == session && !known.contains(&info.run.as_str());
        let is_unawaited = info.spec.call == OF_UNAWAITED_HOOK;
        if over
            && (is_own || is_unawaited)
            && let Err(error) = runs.remove(&info.run)
        {
            tracing::warn!(run = info.run, %error, "a run folder stays");
        }
    }
}

/// Returns an error about a missing model, with a server that answers on this machine as its hint.
fn with_running_server(config: &Config, error: ConfigError) -> ConfigError {
    match discover::running_servers(config).into_iter().next() {
        Some(server) if config.model.is_none() => error.with_hint(server),
        _ => error,
    }
}
