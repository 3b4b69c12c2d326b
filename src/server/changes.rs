//! Routes about what sessions do to the machine: changed files, running commands; and the list of
//! models.

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use serde::Deserialize;
use serde_json::{Value, json};

use super::Shared;
use super::answer::{NamedId, QueryParams, json};
use super::problem::Problem;
use crate::command::Stopped;
use crate::core::entry::{CallId, Seq};
use crate::model::{KnownModel, known_models, models_json};
use crate::session::{
    FileDiff, NoDiff, NotStopped, add_tails, call_diff, process_objects, session_diff, stop_process,
};

/// Maximum number of files of an answer, and of bytes of their diffs.
const MAX_FILES: usize = 1_000;
const MAX_DIFF_BYTES: usize = 1024 * 1024;

/// Maximum size of the last output of a command.
const MAX_TAIL_BYTES: u64 = 64 * 1024;

#[derive(Deserialize)]
pub(super) struct DiffRange {
    from: Option<Seq>,
    to: Option<Seq>,
}

/// Returns the files that changed between two entries, like `rewake diff`.
pub(super) async fn diff(
    State(app): State<Shared>,
    NamedId(id): NamedId<String>,
    QueryParams(DiffRange { from, to }): QueryParams<DiffRange>,
) -> Result<Response, Problem> {
    let found = app.stores.read(move |_, store| {
        let id = store.history().find(&id)?.id;
        let files = session_diff(store, &id, (from, to), false)?;
        Ok(bounded(json!({ "session": id }), files))
    });
    json(StatusCode::OK, &found.await?)
}

/// Returns the files that one finished call changed.
pub(super) async fn of_call(
    State(app): State<Shared>,
    NamedId((id, call)): NamedId<(String, String)>,
) -> Result<Response, Problem> {
    let call: CallId = call.parse().map_err(|why: String| {
        Problem::bad(why).hint("an answer at entry 3 has the calls 3.0, 3.1 and so on")
    })?;
    let found = app.stores.read(move |_, store| {
        let id = store.history().find(&id)?.id;
        let files = call_diff(store, &id, call)?;
        Ok(bounded(
            json!({ "session": id, "call": call.to_string() }),
            files,
        ))
    });
    json(StatusCode::OK, &found.await?)
}

/// Adds the files to an answer. Beyond the limits files have no diff, or are only counted.
fn bounded(mut answer: Value, mut files: Vec<FileDiff>) -> Value {
    let mut left = MAX_DIFF_BYTES;
    answer["more"] = files.len().saturating_sub(MAX_FILES).into();
    files.truncate(MAX_FILES);
    for file in &mut files {
        let bytes = file.diff.as_ref().map_or(0, String::len);
        match left.checked_sub(bytes) {
            Some(less) => left = less,
            None => file.diff = None,
        }
    }
    answer["files"] = serde_json::to_value(files).unwrap_or_default();
    answer
}

impl From<NoDiff> for Problem {
    fn from(error: NoDiff) -> Problem {
        let hint = error.hint().unwrap_or_default();
        match error {
            NoDiff::Store(error) => error.into(),
            NoDiff::Authors(error) => Problem::inside(&error),
            NoDiff::Unknown(_) | NoDiff::Forgotten => {
                Problem::new(StatusCode::CONFLICT, error.to_string()).hint(hint)
            }
        }
    }
}

#[derive(Deserialize)]
pub(super) struct ProcessQuery {
    /// Only those of this session.
    session: Option<String>,
    /// Bytes of the last output of each command.
    tail: Option<u64>,
}

/// Returns the running commands and servers, like `rewake ps --json`.
pub(super) async fn processes(
    State(app): State<Shared>,
    QueryParams(ProcessQuery { session, tail }): QueryParams<ProcessQuery>,
) -> Result<Response, Problem> {
    if tail.is_some_and(|bytes| bytes > MAX_TAIL_BYTES) {
        return Err(
            Problem::bad(format!("tail is at most {MAX_TAIL_BYTES} bytes"))
                .hint("ask for less of the output"),
        );
    }
    let found = app.stores.read(move |ctx, store| {
        let session = session.map(|id| store.history().find(&id)).transpose()?;
        let mut found = process_objects(ctx)?;
        found.retain(|one| session.as_ref().is_none_or(|info| one.session == info.id));
        if let Some(bytes) = tail {
            add_tails(ctx, &mut found, bytes)?;
        }
        Ok(found)
    });
    json(StatusCode::OK, &found.await?)
}

/// Stops a command or a server, like `rewake ps stop`.
pub(super) async fn stop(
    State(app): State<Shared>,
    NamedId(run): NamedId<String>,
) -> Result<Response, Problem> {
    let stopped = app.stores.read(move |ctx, _| {
        let (id, command, stopped) = stop_process(ctx, &run)?;
        let became = match stopped {
            Stopped::Asked => "stopping",
            Stopped::NotBegun => "not_started",
            Stopped::Over => "ended",
        };
        Ok(json!({ "id": id, "command": command, "became": became }))
    });
    json(StatusCode::ACCEPTED, &stopped.await?)
}

impl From<NotStopped> for Problem {
    fn from(error: NotStopped) -> Problem {
        let status = match error {
            NotStopped::Session(error) => return error.into(),
            NotStopped::Failed(error) => return Problem::inside(&error),
            NotStopped::Missing(_) => StatusCode::NOT_FOUND,
            NotStopped::Empty | NotStopped::Ambiguous { .. } => StatusCode::BAD_REQUEST,
        };
        let hint = match status {
            StatusCode::NOT_FOUND => "GET /ps lists what runs",
            _ => "give more of the id: GET /ps lists them",
        };
        Problem::new(status, error.to_string()).hint(hint)
    }
}

/// Returns the known models, like `rewake models --json`.
pub(super) async fn models(State(app): State<Shared>) -> Result<Response, Problem> {
    let known = known_models(app.stores.ctx().config());
    let known: Vec<&KnownModel> = known.iter().collect();
    json(StatusCode::OK, &models_json(&known))
}
