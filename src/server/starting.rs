//! Routes that start a session: a new one, or a fork.

use std::path::Path;

use axum::Extension;
use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::response::Response;
use serde::Deserialize;
use serde_json::json;

use super::answer::{Target, json};
use super::problem::Problem;
use super::starter::Begin;
use super::steering::may_choose;
use super::{Shared, TokenScope, body};
use crate::session::{MAX_MESSAGE_BYTES, Parting, fork_without_bypass, now_ms};

pub(super) async fn start(
    State(app): State<Shared>,
    Extension(scope): Extension<TokenScope>,
    request: Request,
) -> Result<Response, Problem> {
    let mut begin: Begin = body::json(request).await?;
    may_choose(begin.mode, scope)?;
    begin.prompt = begin.prompt.replace('\0', "\u{2400}");
    if begin.prompt.trim().is_empty() {
        return Err(Problem::bad("there is nothing to do: the prompt is empty")
            .hint("prompt says what to do"));
    }
    if begin.prompt.len() > MAX_MESSAGE_BYTES {
        return Err(Problem::new(
            StatusCode::PAYLOAD_TOO_LARGE,
            format!("the prompt has more than {MAX_MESSAGE_BYTES} bytes"),
        )
        .hint("put it into a file, and name the file in the prompt"));
    }
    let is_clean = |text: &str| !text.contains('\0');
    if !begin.model.as_deref().is_none_or(is_clean) {
        return Err(Problem::bad("the model has a NUL in its name").hint("provider/model"));
    }
    if begin.turns.is_some_and(|n| !(1..=1_000_000).contains(&n)) {
        return Err(
            Problem::bad("turns is a number from 1 to 1000000").hint("leave it out: no limit")
        );
    }
    if begin.usd.is_some_and(|usd| !usd.is_finite() || usd <= 0.0) {
        return Err(Problem::bad("usd is a number above 0").hint("leave it out: no limit"));
    }
    if let Some(folder) = &begin.folder {
        check_folder(folder)?;
    }
    let session = app.starter.begin(&app.stores, begin, scope).await?;
    json(StatusCode::CREATED, &json!({"session": session}))
}

fn check_folder(folder: &Path) -> Result<(), Problem> {
    let what = if !folder.is_absolute() {
        "is not an absolute path"
    } else if !folder.exists() {
        "does not exist"
    } else if !folder.is_dir() {
        "is not a folder"
    } else {
        return Ok(());
    };
    let said = format!("{} {what}", folder.display());
    Err(Problem::bad(said).hint("folder is the absolute path of a folder"))
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields)]
struct Fork {
    /// The last common entry. The default is the end of the session.
    at: Option<u64>,
}

pub(super) async fn fork(target: Target, request: Request) -> Result<Response, Problem> {
    let Target { app, scope, id } = target;
    let Fork { at } = body::json_if_any(request).await?;
    let parting = at.map_or(Parting::End, Parting::Behind);
    let made = app
        .stores
        .write(move |ctx, store| {
            let origin = store.history().find(&id)?.id;
            let (fork, _lock, warning) = match scope {
                TokenScope::Admin => ctx.fork(store, &origin, parting, now_ms())?,
                _ => fork_without_bypass(ctx, store, &origin, parting)?,
            };
            Ok(json!({"session": fork, "forked_from": origin, "warning": warning}))
        })
        .await?;
    json(StatusCode::CREATED, &made)
}
