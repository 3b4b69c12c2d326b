//! Routes that rewind or compact a session. A process with the engine of the session does it, as for
//! `rewake rewind` and `rewake compact`: no engine runs in the server.

use axum::extract::Request;
use axum::http::StatusCode;
use axum::response::Response;
use serde::Deserialize;
use serde_json::Value;

use super::answer::{Target, json};
use super::body;
use super::problem::Problem;
use super::starter::ProcessResult;
use super::steering::{GoOn, may_reach, send_signal};
use crate::core::entry::Seq;
use crate::core::signal::Signal;
use crate::report::exit;
use crate::session::{Accepted, Delivery};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RewindBody {
    /// The last entry that stays.
    entry: Seq,
    what: Rewound,
    /// Nothing is changed.
    #[serde(default)]
    preview: bool,
}

#[derive(Deserialize, Clone, Copy)]
#[serde(rename_all = "snake_case")]
enum Rewound {
    Files,
    Conversation,
    Both,
}

impl Rewound {
    fn flag(self) -> &'static str {
        match self {
            Rewound::Files => "--files",
            Rewound::Conversation => "--conversation",
            Rewound::Both => "--both",
        }
    }
}

/// Returns the object of `rewake rewind --json`. Protected paths and paths outside of the workspace
/// stay as they are: each needs the answer of a person at a terminal.
pub(super) async fn rewind(target: Target, request: Request) -> Result<Response, Problem> {
    let Target { app, scope, id } = target;
    let wanted: RewindBody = body::json(request).await?;
    may_reach(&app, scope, &id).await?;
    let session = app
        .stores
        .read(move |_, store| Ok(store.history().find(&id)?.id));
    let session = session.await?;
    let entry = wanted.entry.to_string();
    let last = if wanted.preview { "--preview" } else { "--yes" };
    let args = [
        "rewind",
        &session,
        &entry,
        wanted.what.flag(),
        "--json",
        last,
    ];
    let done = app.starter.run(&app.stores, &session, &args).await?;
    let done = done.ok_or_else(|| {
        let still = "the rewind did not end in time, and continues";
        Problem::new(StatusCode::INTERNAL_SERVER_ERROR, still)
            .hint("GET /sessions/{id}/entries shows what is recorded")
    })?;
    match serde_json::from_str::<Value>(&done.stdout) {
        Ok(said) => json(StatusCode::OK, &said),
        Err(_) => Err(problem(&done)),
    }
}

/// Summarises all but the newest turn: a process that uses the session does it, or one that is
/// started for it.
pub(super) async fn compact(target: Target, request: Request) -> Result<Response, Problem> {
    let Target { app, scope, id } = target;
    let GoOn { start } = body::json_if_any(request).await?;
    may_reach(&app, scope, &id).await?;
    let found = app.stores.read(move |ctx, store| {
        let id = store.history().find(&id)?.id;
        let is_in_use = ctx.session_list().is_worked_in(&id);
        Ok((id, is_in_use))
    });
    let (session, is_in_use) = found.await?;
    if is_in_use || !start {
        return send_signal(&app, scope, session, Signal::Compact, false).await;
    }
    let args = ["compact", &session];
    let became = match app.starter.run(&app.stores, &session, &args).await? {
        Some(done) if done.code == Some(exit::DONE.into()) => Delivery::Done,
        Some(done) => return Err(problem(&done)),
        // The summary takes its time.
        None => Delivery::Heard,
    };
    let answer = Accepted {
        became: became.word(),
        started: true,
        ..Accepted::of(session, &[])
    };
    json(StatusCode::ACCEPTED, &answer)
}

/// Returns the error of a process that printed no result, and so changed nothing.
fn problem(done: &ProcessResult) -> Problem {
    let status = match done.code.and_then(|code| u8::try_from(code).ok()) {
        Some(exit::USAGE) => StatusCode::BAD_REQUEST,
        Some(exit::RESUMABLE) => StatusCode::CONFLICT,
        _ => return Problem::inside(&done.stderr),
    };
    let of = |name: &str| done.stderr.lines().find_map(|line| line.strip_prefix(name));
    let error = of("error: ").unwrap_or("nothing was changed");
    Problem::new(status, error)
        .hint(of("hint: ").unwrap_or("GET /sessions/{id}/checkpoints lists entries to rewind to"))
}
