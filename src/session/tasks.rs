//! Subagents: the session of a task, and the process that works in it.
//!
//! Invariant: a call that gives a task has one session, which is durable before the call starts.
//! Its second entry names its parent. It may do no more than its parent may.

use std::cell::RefCell;
use std::path::Path;

use super::context::KnownWindows;
use super::fold_cache::folded;
use super::layers::{AddedByUser, Renderer};
use super::{AppContext, NoWorktree, Session, SessionError, VERSION, now_ms, short_id};
use crate::config::{ConfigError, Setting, project_root, worktree_at};
use crate::core::entry::{Assignment, By, CallId, Choice, Entry, Mode, Outcome, RunLimits, Via};
use crate::core::signal::Signal;
use crate::core::state::State;
use crate::model::Figures;
use crate::store::{
    Message, NewSession, SessionInfo, SessionLock, Store, StoreError, WorktreeNote,
};
use crate::tools::TaskOrder;
use crate::workspace::is_plain;
use crate::world::{PrepareError, Tasks};

const ORIGIN: &str = "task";

/// Number of entries at the beginning of a subagent's session.
const FIRST_ENTRIES: u64 = 4;

/// Maximum number of unused subagent sessions that are checked. Each crash between the creation of
/// a session and its call leaves one.
const MAX_UNTOUCHED: u32 = 64;

/// The session of a subagent that is about to be recorded.
struct NewTask {
    id: String,
    lock: SessionLock,
    model: String,
}

fn refused(why: impl Into<String>) -> PrepareError {
    PrepareError::Refused(Outcome::error(format!("not begun: {}", why.into())))
}

fn no_session(error: SessionError) -> PrepareError {
    match error {
        SessionError::Store(error @ StoreError::Full { .. }) => {
            PrepareError::NoRoom(error.to_string())
        }
        error => refused(format!("its session cannot be made: {error}")),
    }
}

impl AppContext {
    /// Returns the functions by which the session `parent` gives tasks.
    pub(super) fn tasks(&self, parent: &str) -> Tasks {
        let (ctx, parent) = (self.clone(), parent.to_string());
        let figures = Figures::new(self.config());
        Tasks {
            begin: Box::new(move |order, call, state| ctx.begin_task(&parent, order, call, state)),
            end: {
                let worktrees = self.worktrees();
                Box::new(move |session, is_used| worktrees.end_of_task(session, is_used))
            },
            price: std::sync::Arc::new(move |model, usage| figures.cost(model, usage)),
            settings: Setting::encode_for_subagent(&self.flags),
            limit_ms: self.config().agents.max_sec.saturating_mul(1_000),
            runs: RefCell::default(),
            ended: RefCell::default(),
        }
    }

    fn begin_task(
        &self,
        parent: &str,
        order: &TaskOrder,
        call: CallId,
        state: &State,
    ) -> Result<String, PrepareError> {
        if !self.config().agents.enabled {
            return Err(refused("`[agents] enabled = false`: do it yourself"));
        }
        if state.assignment.is_some() {
            return Err(refused("a subagent cannot give tasks: do it yourself"));
        }
        let mut store = self.open_store().map_err(|e| no_session(e.into()))?;
        match &order.resume {
            Some(id) => self.resume_task(&mut store, parent, id, order, call, state),
            None => {
                let made = session_created_for(&store, parent, call).map_err(no_session)?;
                made.map_or_else(|| self.new_task(&mut store, parent, order, call, state), Ok)
            }
        }
    }

    fn new_task(
        &self,
        store: &mut Store,
        parent: &str,
        order: &TaskOrder,
        call: CallId,
        state: &State,
    ) -> Result<String, PrepareError> {
        let parent_info = store
            .history()
            .find(parent)
            .map_err(|e| no_session(e.into()))?;
        if parent_info.shared.is_some() {
            return Err(refused("a shared session has no subagents yet"));
        }
        let agent = self.command_files().agent_of(order).map_err(refused)?;
        let named = agent.as_ref().and_then(|agent| agent.file.model.clone());
        // Short names of models, as other programs use them, are ignored.
        let named = named.filter(|model| model.contains('/'));
        let model = named.unwrap_or_else(|| state.own_model().to_string());
        self.models()
            .check(&model)
            .map_err(|e| refused(format!("the model {model} cannot be asked: {e}")))?;
        let assignment = Assignment {
            parent: parent.to_string(),
            call,
            agent: agent.as_ref().map(|agent| agent.file.name.clone()),
            instructions: agent
                .as_ref()
                .map_or_else(String::new, |a| a.file.body.clone()),
            tools: agent.and_then(|agent| agent.file.tools),
            rules: state
                .session_rules
                .iter()
                .map(ToString::to_string)
                .collect(),
            branch: None,
        };
        // The lock is taken before anybody can see the session.
        let taken = SessionLock::take_new(&self.paths.data_dir);
        let (id, lock) = taken.map_err(|e| no_session(e.into()))?;
        let new = NewTask { id, lock, model };
        if !order.worktree {
            let folder = state.folder.clone();
            let made = self.record_task(store, order, state, new, assignment, folder);
            return made.map_err(no_session);
        }
        if state.mode == Mode::Plan {
            return Err(refused("mode plan changes nothing: leave out `worktree`"));
        }
        let worktrees = self.worktrees();
        worktrees.settle(store);
        let note = self.worktree_of_task(&new.id)?;
        let assignment = Assignment {
            branch: Some(note.branch.clone()),
            ..assignment
        };
        let folder = worktrees.below(&note.folder(&self.paths.data_dir));
        let recorded = self.at(&folder).and_then(|its| {
            let folder = folder.to_string_lossy().into_owned();
            its.record_task(store, order, state, new, assignment, folder)
        });
        if recorded.is_err() {
            worktrees.end(&note, true);
        }
        recorded.map_err(no_session)
    }

    /// Makes the worktree of a task. This comes before its session is recorded, since its first
    /// request is rendered there. The next task removes a worktree whose session was never
    /// recorded.
    fn worktree_of_task(&self, session: &str) -> Result<WorktreeNote, PrepareError> {
        let root = &self.here.root;
        let project = project_root(&self.paths, root).map_err(|e| no_session(e.into()))?;
        let end = session.get(session.len().saturating_sub(6)..);
        let name = format!("task-{}-{}", short_id(session), end.unwrap_or_default());
        let none = |error: NoWorktree| match error.hint() {
            Some(hint) => refused(format!("{error}; {hint}")),
            None => refused(error.to_string()),
        };
        let worktrees = self.worktrees();
        let note = worktrees.begin(&project, &name, Some(session));
        let note = note.map_err(none)?;
        // Nobody approved this, and git runs programs that the repository names when it checks out
        // files.
        if let Err(why) = is_plain(&root.to_string_lossy()) {
            note.remove(&self.paths.data_dir);
            return Err(refused(format!(
                "{why}; leave out `worktree`, or the user makes one: rewake -w NAME"
            )));
        }
        worktrees.make_noted(note).map_err(none)
    }

    fn record_task(
        &self,
        store: &mut Store,
        order: &TaskOrder,
        state: &State,
        new: NewTask,
        assignment: Assignment,
        folder: String,
    ) -> Result<String, SessionError> {
        let NewTask {
            id,
            mut lock,
            model,
        } = new;
        let now_ms = now_ms();
        let budget = KnownWindows::read(self, store, &[&model])?.budgeting()(&model, None, None);
        let added = AddedByUser {
            system_prompt: String::new(),
            folders: state.added_folders.clone(),
        };
        let renderer = Renderer::new(self, true, self.catalogue(store))
            .with_added(added)
            .for_task(&assignment, state.mode);
        let (layers, _) = renderer.render(&budget, now_ms);
        let opened = Entry::Opened {
            folder: folder.clone(),
            version: VERSION.to_string(),
            model,
            mode: state.mode,
            layers,
            imported: None,
        };
        let said = Entry::Said {
            text: order.prompt.replace('\0', "\u{2400}"),
            images: Vec::new(),
            via: Via::Prompt,
            command: None,
            origin: Some(origin(&assignment.parent, assignment.call)),
        };
        let limits = Choice {
            limits: Some(RunLimits {
                answers: Some(self.config().agents.max_turns),
                usd: remaining_cost(&Figures::new(self.config()), state),
                tokens: self.config().agents.max_tokens,
            }),
            folders: (!state.added_folders.is_empty()).then(|| state.added_folders.clone()),
            ..Choice::default()
        };
        let parent = assignment.parent.clone();
        let entries: [Entry; FIRST_ENTRIES as usize] = [
            opened,
            Entry::Assigned(assignment),
            Entry::Chose(limits),
            said,
        ];
        let new = NewSession {
            id: id.clone(),
            workspace: self.workspace(),
            folder,
        };
        store.create_child(&new, &parent, now_ms, &entries)?;
        lock.recorded();
        Ok(id)
    }

    /// Resumes the session of a task. The prompt goes into its inbox, once for each call.
    fn resume_task(
        &self,
        store: &mut Store,
        parent: &str,
        id: &str,
        order: &TaskOrder,
        call: CallId,
        state: &State,
    ) -> Result<String, PrepareError> {
        let info = task_named(store, parent, id)?;
        if state.children().any(|child| child == info.id) || self.session_list().is_in_use(&info.id)
        {
            return Err(refused(format!("task {} is still running", info.id)));
        }
        if order.agent.is_some() {
            return Err(refused("a resumed task keeps its agent: leave out `agent`"));
        }
        if order.worktree && worktree_at(&self.paths.data_dir, Path::new(&info.folder)).is_none() {
            return Err(refused(
                "a resumed task keeps its folder: leave out `worktree`",
            ));
        }
        let origin = origin(parent, call);
        let is_said = is_end_reported(store, &info.id, &origin).map_err(no_session)?;
        if !is_said {
            let message = Message {
                origin: Some(origin),
                ..Message::new(order.prompt.replace('\0', "\u{2400}"), Via::Prompt)
            };
            let (_, its) = folded(store, &info.id).map_err(no_session)?;
            let cost = Figures::new(self.config())
                .cost_of(&its)
                .unwrap_or_default();
            let limit = Signal::Limit {
                turns: Some(self.config().agents.max_turns),
                usd: remaining_cost(&Figures::new(self.config()), state).map(|left| cost + left),
                tokens: self.config().agents.max_tokens,
            };
            // The mode of the parent may be stricter by now.
            let mode = Signal::Choose(Choice::of_mode(state.mode));
            for signal in [mode, limit] {
                store
                    .inbox_mut()
                    .signal(&info.id, ORIGIN, now_ms(), |_| signal)
                    .map_err(|e| no_session(e.into()))?;
            }
            store
                .inbox_mut()
                .queue(&info.id, &message, &[], now_ms())
                .map_err(|e| no_session(e.into()))?;
        }
        Ok(info.id)
    }

    /// Opens the session of a subagent, in the process that its supervisor process started as
    /// `run`. Returns who resumes it, too.
    ///
    /// # Errors
    /// [`SessionError::BelowAgent`]: the process was not started that way.
    pub fn open_task(&self, session: &str, run: &str) -> Result<(Session, By), SessionError> {
        if !self.runs()?.is_child(run, session) {
            return Err(SessionError::BelowAgent);
        }
        let store = self.open_store()?;
        let info = store.history().find(session)?;
        let (_, state) = folded(&store, &info.id)?;
        if state.assignment.is_none() {
            return Err(SessionError::BelowAgent);
        }
        let is_told = !store.inbox().queued(&info.id)?.is_empty();
        let is_new = state.replies == 0 && state.restarts == 0 && state.taken_up == 0;
        let mut session = self.take_up(store, info, None, now_ms(), false)?;
        if is_new {
            // The session was not interrupted, since nothing was done in it yet.
            session.found = None;
        }
        let by = if is_told { By::Person } else { By::Start };
        Ok((session, by))
    }
}

/// Returns the session that a process created for this call before it died and could start the
/// call. Nothing else was recorded in it.
fn session_created_for(
    store: &Store,
    parent: &str,
    call: CallId,
) -> Result<Option<String>, SessionError> {
    for child in store
        .history()
        .untouched_children(parent, FIRST_ENTRIES, MAX_UNTOUCHED)?
    {
        let first = store.records(&child, 0..=1)?;
        let is_it = |entry: &Entry| matches!(entry, Entry::Assigned(a) if a.call == call);
        if first.iter().any(|record| is_it(&record.entry)) {
            return Ok(Some(child));
        }
    }
    Ok(None)
}

fn task_named(store: &Store, parent: &str, id: &str) -> Result<SessionInfo, PrepareError> {
    let none = || refused(format!("there is no task {id:?} of this session"));
    let info = store.history().find(id).map_err(|error| match error {
        StoreError::NotFound { .. } => none(),
        error => no_session(error.into()),
    })?;
    match info.parent.as_deref() == Some(parent) {
        true => Ok(info),
        false => Err(none()),
    }
}

fn is_end_reported(store: &Store, id: &str, origin: &str) -> Result<bool, SessionError> {
    let mut is_said = store
        .inbox()
        .queued(id)?
        .iter()
        .any(|queued| queued.message.origin.as_deref() == Some(origin));
    store.load_each(id, |record| {
        if let Entry::Said {
            origin: Some(of), ..
        } = &record.entry
        {
            is_said |= of == origin;
        }
        Ok::<(), StoreError>(())
    })?;
    Ok(is_said)
}

/// Returns the remaining budget of the parent in US dollars. `None`: it has no limit.
fn remaining_cost(figures: &Figures, state: &State) -> Option<f64> {
    let of = state.run_limits.usd?;
    Some((of - figures.cost_of(state).unwrap_or(of)).max(0.000_001))
}

/// Returns the origin of a task's prompt, which is unique for each call.
fn origin(parent: &str, call: CallId) -> String {
    format!("{ORIGIN} {call} of {parent}")
}

/// Returns the settings of the parent's command line.
///
/// # Errors
/// This program did not write the text.
pub fn decode_from_parent(text: Option<&str>) -> Result<Vec<Setting>, ConfigError> {
    Setting::decode_from_parent(text.unwrap_or("[]"))
}
