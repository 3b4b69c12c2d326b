//! Sessions as JSON objects, for programs: `rewake history --json`, `show --json` and `asks --json`
//! print what the routes of the server give.
//!
//! Compatibility: fields are added, and never renamed or removed.

use std::ops::ControlFlow;

use serde::Serialize;
use serde_json::Value;

use super::sandbox::given;
use super::steer::folded;
use super::{AppContext, GLANCE_ENTRIES, Glance, SessionError, SessionList, glance};
use crate::core::choice::Effort;
use crate::core::entry::{Entry, Fact, ForkPoint, Mode, Plan, Record, RunLimits, Seq, Usage};
use crate::core::state::Halt;
use crate::model::Figures;
use crate::store::{PageFilter, Paged, SaidIn, SessionInfo, Store, StoreError};

/// Sessions of a page that asks for no number.
pub const PAGE: u32 = 30;

/// Sessions of the largest page.
pub const MAX_PAGE: u32 = 200;

/// Of each session so many of the last checkpoints are named.
const CHECKPOINTS: u32 = 3;

/// So far back from its end the plan of a session in a list is looked for, entries.
const PLAN_ENTRIES: u64 = 200;

/// A session in a list.
#[derive(Debug, Clone, Serialize)]
pub struct ListedSession {
    pub id: String,
    pub title: Option<String>,
    /// What was wanted last, or the name that a person gave it.
    pub name: String,
    pub folder: String,
    pub workspace: String,
    /// In one word: running, open, done, left, stopped, failed, dismissed, killed.
    pub state: &'static str,
    /// A process has it.
    pub live: bool,
    /// A person was asked something, and has not answered.
    pub asks: bool,
    pub unfinished: bool,
    pub entries: u64,
    pub forked_from: Option<ForkPoint>,
    /// The session that gave this sub-agent its task.
    pub parent: Option<String>,
    pub created_ms: i64,
    pub updated_ms: i64,
    pub version: Option<String>,
    pub model: Option<String>,
    pub usage: Usage,
    pub bytes: u64,
    pub plan: Option<Plan>,
    /// What stands for the oldest part of it in requests.
    pub summary: Option<String>,
    /// The newest first.
    pub checkpoints: Vec<CheckpointObject>,
    /// Where the words are that were searched for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub found: Option<Found>,
}

/// An entry that a session can be forked or resumed from.
#[derive(Debug, Clone, Serialize)]
pub struct CheckpointObject {
    pub session: String,
    pub seq: Seq,
    pub at_ms: i64,
    pub reason: String,
    pub plan_step: Option<String>,
}

/// The newest place with the words, and how many entries have them.
#[derive(Debug, Clone, Serialize)]
pub struct Found {
    pub seq: Seq,
    pub snippet: String,
    pub entries: u64,
}

/// A page of the history.
#[derive(Debug, Clone, Serialize)]
pub struct HistoryPage {
    pub sessions: Vec<ListedSession>,
    /// `before` of the page that follows. `None`: there is none.
    pub next: Option<i64>,
}

/// Which page of the history is wanted.
#[derive(Debug, Clone, Default)]
pub struct HistoryQuery {
    /// Words that were said, called or printed; empty: all sessions.
    pub words: String,
    pub folder: Option<String>,
    pub before: Option<i64>,
    /// [`PAGE`] when it is `None`.
    pub limit: Option<u32>,
}

/// All of one session but its entries.
#[derive(Debug, Clone, Serialize)]
pub struct SessionObject {
    #[serde(flatten)]
    pub listed: ListedSession,
    pub mode: Mode,
    pub effort: Effort,
    pub temperature: Option<f64>,
    pub limits: RunLimits,
    pub paused: bool,
    /// Why the model could not be asked. `None`: it could.
    pub failure: Option<Value>,
    /// US dollars. `None`: a price is not known.
    pub cost_usd: Option<f64>,
    pub questions: Vec<Value>,
    /// Messages that wait, the oldest first.
    pub queued: Vec<QueuedObject>,
    /// Signals that wait.
    pub signals: u64,
    /// Commands that run in the background.
    pub background: Vec<BackgroundObject>,
}

/// A message that waits until no call is open.
#[derive(Debug, Clone, Serialize)]
pub struct QueuedObject {
    pub id: i64,
    pub at_ms: i64,
    pub text: String,
    pub images: usize,
    pub origin: Option<String>,
}

/// A command that goes on while the model is asked.
#[derive(Debug, Clone, Serialize)]
pub struct BackgroundObject {
    pub id: String,
    pub command: String,
}

/// An entry of the log as a line of the stream: its fields, with place, time and type.
pub fn entry_line(record: &Record) -> Value {
    let mut value = serde_json::to_value(&record.entry).unwrap_or_default();
    if let Value::Object(fields) = &mut value {
        let kind = fields.remove("kind").unwrap_or_default();
        let kind = kind.as_str().unwrap_or_default();
        fields.insert("type".into(), format!("entry.{kind}").into());
        fields.insert("seq".into(), record.seq.into());
        fields.insert("at_ms".into(), record.at_ms.into());
    }
    value
}

/// The messages that wait in a session.
pub fn queued_objects(store: &Store, session: &str) -> Result<Vec<QueuedObject>, StoreError> {
    let queued = store.queued(session)?.into_iter();
    let object = |queued: crate::store::Queued| QueuedObject {
        id: queued.id.number(),
        at_ms: queued.at_ms,
        text: queued.message.typed().into_owned(),
        images: queued.message.images.len(),
        origin: queued.message.origin,
    };
    Ok(queued.filter(|q| !q.is_note()).map(object).collect())
}

/// The checkpoints of a session and of those it is a fork of, the newest first.
pub fn checkpoint_objects(
    store: &Store,
    session: &str,
    limit: u32,
) -> Result<Vec<CheckpointObject>, StoreError> {
    let all = store.checkpoints(session, limit)?;
    Ok(all.into_iter().map(CheckpointObject::from).collect())
}

impl From<crate::store::Checkpoint> for CheckpointObject {
    fn from(it: crate::store::Checkpoint) -> CheckpointObject {
        CheckpointObject {
            session: it.session,
            seq: it.seq,
            at_ms: it.at_ms,
            reason: it.reason,
            plan_step: it.plan_step,
        }
    }
}

impl From<SaidIn> for Found {
    fn from(said: SaidIn) -> Found {
        Found {
            seq: said.seq,
            snippet: said.snippet,
            entries: said.entries,
        }
    }
}

impl SessionList {
    /// A page of all sessions, or of those in which the words were said, the newest first.
    ///
    /// # Errors
    /// The store cannot be read.
    pub fn history(
        &self,
        store: &mut Store,
        query: &HistoryQuery,
    ) -> Result<HistoryPage, StoreError> {
        let limit = query.limit.unwrap_or(PAGE).clamp(1, MAX_PAGE);
        let folder = query
            .folder
            .as_deref()
            .map(|f| match f.trim_end_matches('/') {
                "" => "/",
                folder => folder,
            });
        let filter = PageFilter {
            folder,
            before: query.before,
        };
        // With one more it is known whether a page follows.
        let mut page = match query.words.trim() {
            "" => store.page(filter, limit + 1)?,
            words => store.page_saying(words, filter, limit + 1)?,
        };
        let is_more = page.len() > limit as usize;
        page.truncate(limit as usize);
        let next = page.last().map(|paged| paged.at).filter(|_| is_more);
        let listed = page.into_iter().map(|paged| self.listed(store, paged));
        Ok(HistoryPage {
            sessions: listed.collect::<Result<_, _>>()?,
            next,
        })
    }

    fn listed(&self, store: &Store, paged: Paged) -> Result<ListedSession, StoreError> {
        let info = paged.info;
        let seen: Glance = glance(store, &info, GLANCE_ENTRIES);
        let standing = self.standing(&info, &seen);
        let checkpoints = store.last_checkpoints(&info.id, CHECKPOINTS)?;
        let plans = checkpoints.iter().any(|c| c.plan_step.is_some());
        let plan = match plans {
            true => last_plan(store, &info)?,
            false => None,
        };
        Ok(ListedSession {
            name: seen.name(&info).to_string(),
            state: standing.word(),
            live: matches!(standing, super::Standing::InUse { .. }),
            asks: paged.asks && info.unfinished,
            plan,
            summary: store.kept_summary(&info.id)?,
            checkpoints: checkpoints
                .into_iter()
                .map(CheckpointObject::from)
                .collect(),
            found: paged.said.map(Found::from),
            id: info.id,
            title: info.title,
            folder: info.folder,
            workspace: info.workspace,
            unfinished: info.unfinished,
            entries: info.entries,
            forked_from: info.forked_from,
            parent: info.parent,
            created_ms: info.created_ms,
            updated_ms: info.updated_ms,
            version: info.version,
            model: info.model,
            usage: info.usage,
            bytes: info.bytes,
        })
    }
}

impl AppContext {
    /// All of one session but its entries, given by its id or the beginning of it.
    ///
    /// # Errors
    /// There is none, or it cannot be read.
    pub fn session_object(&self, store: &Store, id: &str) -> Result<SessionObject, SessionError> {
        let paged = store.one_paged(id)?;
        let info = paged.info.clone();
        // Before the entries: what is not there any more has become one of them.
        let queued = queued_objects(store, &info.id)?;
        let signals = store.signals(&info.id)?.len() as u64;
        let mut listed = self.session_list().listed(store, paged)?;
        let (_, state) = folded(store, &info.id)?;
        let questions = self.steering().questions_in(&info, &state);
        let sandbox = given(self);
        listed.plan = state.plan.clone();
        listed.asks = !questions.is_empty();
        Ok(SessionObject {
            listed,
            mode: state.mode,
            effort: state.effort,
            temperature: state.temperature,
            limits: state.run_limits,
            paused: state.paused,
            failure: match &state.halted {
                Some(Halt::Failed(failure)) => serde_json::to_value(failure).ok(),
                Some(Halt::Stopped) | None => None,
            },
            cost_usd: Figures::new(self.config()).cost_of(&state),
            questions: questions.iter().map(|q| q.to_json(&sandbox)).collect(),
            queued,
            signals,
            background: state
                .background
                .iter()
                .map(|(id, it)| BackgroundObject {
                    id: id.clone(),
                    command: it.command.clone(),
                })
                .collect(),
        })
    }
}

/// The newest plan among the last entries.
fn last_plan(store: &Store, info: &SessionInfo) -> Result<Option<Plan>, StoreError> {
    let mut plan = None;
    store.backwards(&info.id, PLAN_ENTRIES, |mut met| {
        if met.kind != "finished" {
            return ControlFlow::Continue(());
        }
        if let Some(Entry::Finished {
            fact: Some(Fact::Planned { plan: found }),
            ..
        }) = met.entry()
        {
            plan = Some(found);
            return ControlFlow::Break(());
        }
        ControlFlow::Continue(())
    })?;
    Ok(plan)
}
