//! Sessions as JSON objects for programs. `rewake history --json`, `show --json` and `asks --json`
//! print the same objects as the routes of the server.
//!
//! Compatibility: fields are added, and never renamed or removed.

use std::ops::ControlFlow;

use serde::Serialize;
use serde_json::Value;

use super::sandbox::given;
use super::{
    AppContext, FoldCache, GLANCE_ENTRIES, SessionError, SessionList, SessionSummary, glance,
};
use crate::core::choice::Effort;
use crate::core::entry::{Entry, Fact, ForkPoint, Mode, Plan, Record, RunLimits, Seq, Usage};
use crate::core::marks::title_line;
use crate::core::state::{Halt, State};
use crate::core::text::session_name;
use crate::model::Figures;
use crate::store::{Checkpoint, PageFilter, Paged, SessionInfo, Store, StoreError};

/// Default number of sessions in a page.
pub const PAGE: u32 = 30;

/// Maximum number of sessions in a page.
pub const MAX_PAGE: u32 = 200;

/// Number of the last checkpoints that are listed for each session.
const CHECKPOINTS: u32 = 3;

/// Number of entries at the end of a session that are searched for its plan.
const PLAN_ENTRIES: u64 = 200;

/// Length to which the last message is cut.
const REQUEST_CHARS: usize = 200;

/// A session in a list.
#[derive(Debug, Clone, Serialize)]
pub struct ListedSession {
    pub id: String,
    pub title: Option<String>,
    /// The name of the session on every screen: its title, or `untitled`.
    pub name: String,
    /// The last message of the user, on one line. In a fork, only of the fork itself.
    pub last_request: Option<String>,
    pub folder: String,
    pub workspace: String,
    /// State in one word: running, open, done, left, stopped, failed, dismissed, killed.
    pub state: &'static str,
    /// Whether a process uses it.
    pub live: bool,
    /// Whether a question to a person is open.
    pub asks: bool,
    pub unfinished: bool,
    pub entries: u64,
    pub forked_from: Option<ForkPoint>,
    /// The agent whose session it is a copy of.
    pub imported_from: Option<String>,
    /// The session that gave this subagent its task.
    pub parent: Option<String>,
    pub created_ms: i64,
    pub updated_ms: i64,
    pub version: Option<String>,
    pub model: Option<String>,
    pub usage: Usage,
    pub bytes: u64,
    pub plan: Option<Plan>,
    /// The summary that replaces its oldest part in requests.
    pub summary: Option<String>,
    /// The last checkpoints, the newest first.
    pub checkpoints: Vec<Checkpoint>,
    /// The place of the words of a search.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub found: Option<SearchHit>,
}

/// The newest entry with the words, and the number of entries with them.
#[derive(Debug, Clone, Serialize)]
pub struct SearchHit {
    pub seq: Seq,
    pub snippet: String,
    pub entries: u64,
}

/// A page of the history.
#[derive(Debug, Clone, Serialize)]
pub struct HistoryPage {
    pub sessions: Vec<ListedSession>,
    /// The `before` of the next page. `None`: this is the last page.
    pub next: Option<i64>,
}

/// A query for a page of the history.
#[derive(Debug, Clone, Default)]
pub struct HistoryQuery {
    /// Words to search for in messages, calls and output. Empty: all sessions.
    pub words: String,
    pub folder: Option<String>,
    pub before: Option<i64>,
    /// Maximum number of sessions. `None`: [`PAGE`].
    pub limit: Option<u32>,
}

/// One session without its entries.
#[derive(Debug, Clone, Serialize)]
pub struct SessionObject {
    #[serde(flatten)]
    pub listed: ListedSession,
    pub mode: Mode,
    pub effort: Effort,
    pub temperature: Option<f64>,
    pub limits: RunLimits,
    pub paused: bool,
    /// The failure of the last request to the model. `None`: it succeeded.
    pub failure: Option<Value>,
    /// Cost in US dollars. `None`: a price is not known.
    pub cost_usd: Option<f64>,
    pub questions: Vec<Value>,
    /// Queued messages, the oldest first.
    pub queued: Vec<QueuedObject>,
    /// Number of pending signals.
    pub signals: u64,
    /// Commands that run in the background.
    pub background: Vec<BackgroundObject>,
}

/// A queued message, which waits until no call is open.
#[derive(Debug, Clone, Serialize)]
pub struct QueuedObject {
    pub id: i64,
    pub at_ms: i64,
    pub text: String,
    pub images: usize,
    pub origin: Option<String>,
}

/// A command that runs in the background.
#[derive(Debug, Clone, Serialize)]
pub struct BackgroundObject {
    pub id: String,
    pub command: String,
}

/// Returns an entry of the log as a line of the stream: its fields, with its sequence number, time
/// and type.
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

/// Returns the queued messages of a session.
pub fn queued_objects(store: &Store, session: &str) -> Result<Vec<QueuedObject>, StoreError> {
    let queued = store.inbox().queued(session)?.into_iter();
    let object = |queued: crate::store::Queued| QueuedObject {
        id: queued.id.number(),
        at_ms: queued.at_ms,
        text: queued.message.typed().into_owned(),
        images: queued.message.images.len(),
        origin: queued.message.origin,
    };
    Ok(queued.filter(|q| !q.is_note()).map(object).collect())
}

impl SessionList {
    /// Returns a page of all sessions, or of those with the words, the newest first.
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
        // One more than needed shows whether another page follows.
        let mut page = match query.words.trim() {
            "" => store.history().page(filter, limit + 1)?,
            words => store.index().page_of_matches(words, filter, limit + 1)?,
        };
        let is_more = page.len() > limit as usize;
        page.truncate(limit as usize);
        let next = page.last().map(|paged| paged.at).filter(|_| is_more);
        let listed = page.into_iter().map(|paged| {
            let seen = glance(store, &paged.info, GLANCE_ENTRIES);
            self.listed(store, paged, &seen)
        });
        Ok(HistoryPage {
            sessions: listed.collect::<Result<_, _>>()?,
            next,
        })
    }

    fn listed(
        &self,
        store: &Store,
        paged: Paged,
        seen: &SessionSummary,
    ) -> Result<ListedSession, StoreError> {
        let info = paged.info;
        let standing = self.standing(&info, seen);
        let checkpoints = store.history().last_checkpoints(&info.id, CHECKPOINTS)?;
        let plans = checkpoints.iter().any(|c| c.plan_step.is_some());
        let plan = match plans {
            true => last_plan(store, &info)?,
            false => None,
        };
        Ok(ListedSession {
            name: session_name(info.title.as_deref()).to_string(),
            last_request: seen.request().map(|words| title_line(words, REQUEST_CHARS)),
            state: match standing.word() {
                "interrupted" | "turn limit" => "left",
                word => word,
            },
            live: matches!(standing, super::SessionState::InUse { .. }),
            asks: paged.asks && info.unfinished,
            plan,
            summary: store.history().stored_summary(&info.id)?,
            checkpoints,
            found: paged.said.map(|said| SearchHit {
                seq: said.seq,
                snippet: said.snippet,
                entries: said.entries,
            }),
            id: info.id,
            title: info.title,
            folder: info.folder,
            workspace: info.workspace,
            unfinished: info.unfinished,
            entries: info.entries,
            forked_from: info.forked_from,
            imported_from: info.replica,
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
    /// Returns one session without its entries, given by its ID or the beginning of it.
    ///
    /// # Errors
    /// No such session exists, or it cannot be read.
    pub fn session_object(
        &self,
        store: &Store,
        folds: &FoldCache,
        id: &str,
    ) -> Result<SessionObject, SessionError> {
        let paged = store.history().one_paged(id)?;
        let info = paged.info.clone();
        // Read before the entries: a message that is missing here has become one of them.
        let queued = queued_objects(store, &info.id)?;
        let signals = store.inbox().signals(&info.id)?.len() as u64;
        let object = folds.with(store, &info.id, |fold| {
            let seen = fold.glance(store, &info);
            let listed = self.session_list().listed(store, paged, &seen)?;
            Ok::<_, StoreError>(described(self, listed, &info, &fold.state))
        })??;
        Ok(SessionObject {
            queued,
            signals,
            ..object
        })
    }
}

/// Returns a session in a list together with what its state says.
fn described(
    ctx: &AppContext,
    mut listed: ListedSession,
    info: &SessionInfo,
    state: &State,
) -> SessionObject {
    let questions = ctx.steering().questions_in(info, state);
    let sandbox = given(ctx);
    listed.plan = state.plan.clone();
    listed.asks = !questions.is_empty();
    SessionObject {
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
        cost_usd: Figures::new(ctx.config()).cost_of(state),
        questions: questions.iter().map(|q| q.to_json(&sandbox)).collect(),
        queued: Vec::new(),
        signals: 0,
        background: state
            .background
            .iter()
            .map(|(id, it)| BackgroundObject {
                id: id.clone(),
                command: it.command.clone(),
            })
            .collect(),
    }
}

/// Returns the newest plan among the last entries.
fn last_plan(store: &Store, info: &SessionInfo) -> Result<Option<Plan>, StoreError> {
    let mut plan = None;
    store
        .history()
        .backwards(&info.id, PLAN_ENTRIES, |mut met| {
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
