//! Routes that read: the history, one session, its entries, open questions.

use std::sync::Arc;

use axum::extract::State;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::Response;
use serde::Deserialize;
use serde_json::{Value, json};

use super::Shared;
use super::answer::{NamedId, QueryParams, bytes_as, json};
use super::problem::Problem;
use crate::core::entry::CallId;
use crate::core::image;
use crate::session::objects::{HistoryQuery, MAX_PAGE, entry_line};
use crate::session::sandbox::given;
use crate::store::{Store, StoreError};

/// Maximum number of entries of one answer.
const MAX_ENTRIES: u64 = 1_000;
const ENTRIES: u64 = 200;

/// Size at which an answer ends. It names the place of the next entry.
const MAX_BYTES: usize = 4 * 1024 * 1024;

const MAX_CHECKPOINTS: u32 = 1_000;
const CHECKPOINTS: u32 = 100;

/// Limit for shown images. A browser needs four bytes for each pixel, however small the file is.
const MAX_SHOWN_PIXELS: u64 = 32_000_000;

/// Maximum length of a query.
const MAX_QUERY_CHARS: usize = 1_000;

/// Maximum number: JavaScript does not read larger ones exactly.
const MAX_NUMBER: u64 = (1 << 53) - 1;

#[derive(Deserialize)]
pub(super) struct Page {
    #[serde(default)]
    q: String,
    folder: Option<String>,
    limit: Option<u32>,
    before: Option<i64>,
}

pub(super) async fn history(
    State(app): State<Shared>,
    QueryParams(page): QueryParams<Page>,
) -> Result<Response, Problem> {
    if page.limit.is_some_and(|n| !(1..=MAX_PAGE).contains(&n)) {
        return Err(out_of(MAX_PAGE));
    }
    if page.q.chars().count() > MAX_QUERY_CHARS {
        return Err(Problem::bad("the query is too long").hint("search for fewer words"));
    }
    if page.before.is_some_and(|at| at.unsigned_abs() > MAX_NUMBER) {
        return Err(Problem::bad("before is out of range").hint("give it the next of a page"));
    }
    let query = HistoryQuery {
        words: page.q,
        folder: page.folder,
        before: page.before,
        limit: page.limit,
    };
    let found = app
        .stores
        .read(move |ctx, store| Ok(ctx.session_list().history(store, &query)?))
        .await?;
    json(StatusCode::OK, &found)
}

fn out_of(most: impl std::fmt::Display) -> Problem {
    Problem::bad(format!("limit is a number from 1 to {most}")).hint("ask for several pages")
}

pub(super) async fn questions(State(app): State<Shared>) -> Result<Response, Problem> {
    let folds = Arc::clone(&app.folds);
    let asked = app
        .stores
        .read(move |ctx, store| {
            let (questions, unread) = ctx.steering().questions(store, &folds)?;
            for error in unread {
                tracing::warn!(%error, "a session cannot be read");
            }
            let sandbox = given(ctx);
            let all = questions.iter().map(|question| question.to_json(&sandbox));
            Ok(all.collect::<Vec<_>>())
        })
        .await?;
    json(StatusCode::OK, &asked)
}

pub(super) async fn session(
    State(app): State<Shared>,
    NamedId(id): NamedId<String>,
) -> Result<Response, Problem> {
    let folds = Arc::clone(&app.folds);
    let found = app
        .stores
        .read(move |ctx, store| Ok(ctx.session_object(store, &folds, &id)?))
        .await?;
    json(StatusCode::OK, &found)
}

/// Returns the change that a call waiting for approval would make to the current file. It requires
/// the right to answer, because the file's content is not in the log.
pub(super) async fn asked_change(
    State(app): State<Shared>,
    NamedId((id, call)): NamedId<(String, String)>,
) -> Result<Response, Problem> {
    let call: CallId = call.parse().map_err(|why: String| {
        Problem::bad(why).hint("GET /questions says which call each question is about")
    })?;
    let found = app
        .stores
        .read(move |ctx, store| {
            let info = store.history().find(&id)?;
            let (question, change) = ctx.asked_change(store, &info, call)?;
            let mut object = serde_json::to_value(&change).unwrap_or_default();
            object["session"] = question.session.id.into();
            object["call"] = question.call.id.to_string().into();
            Ok(object)
        })
        .await?;
    json(StatusCode::OK, &found)
}

#[derive(Deserialize)]
pub(super) struct EntryRange {
    #[serde(default)]
    from: u64,
    to: Option<u64>,
}

/// Returns `{"entries": […], "next": SEQ or null}`, in the format of `--output-format
/// stream-json`.
pub(super) async fn entries(
    State(app): State<Shared>,
    NamedId(id): NamedId<String>,
    QueryParams(range): QueryParams<EntryRange>,
) -> Result<Response, Problem> {
    let EntryRange { from, to } = range;
    if to.is_some_and(|to| to < from) {
        return Err(Problem::bad("to lies before from").hint("entries are numbered from 0"));
    }
    if from.max(to.unwrap_or(0)) > MAX_NUMBER {
        return Err(Problem::bad("from or to is out of range").hint("entries are numbered from 0"));
    }
    let last = match to {
        Some(to) => to.min(from.saturating_add(MAX_ENTRIES - 1)),
        None => from.saturating_add(ENTRIES - 1),
    };
    let answer = app
        .stores
        .read(move |_, store| {
            let info = store.history().find(&id)?;
            let (entries, next) = lines(store, &info.id, info.entries, from, last, MAX_BYTES)?;
            let entries: Vec<Value> = entries;
            Ok(json!({"session": info.id, "entries": entries, "next": next}))
        })
        .await?;
    json(StatusCode::OK, &answer)
}

/// Returns entries of a range, and the place of the next one if the session has more. It returns
/// at least one entry, whatever its size.
pub(super) fn lines(
    store: &Store,
    session: &str,
    length: u64,
    from: u64,
    last: u64,
    max_bytes: usize,
) -> Result<(Vec<Value>, Option<u64>), StoreError> {
    let mut found = Vec::new();
    if from >= length {
        return Ok((found, None));
    }
    let mut bytes = 0;
    let mut next = from;
    for record in store.records(session, from..=last.min(length - 1))? {
        let line = entry_line(&record);
        let size = line.to_string().len();
        if !found.is_empty() && bytes + size > max_bytes {
            break;
        }
        bytes += size;
        next = record.seq + 1;
        found.push(line);
    }
    Ok((found, Some(next).filter(|next| *next < length)))
}

#[derive(Deserialize)]
pub(super) struct Limit {
    limit: Option<u32>,
}

pub(super) async fn checkpoints(
    State(app): State<Shared>,
    NamedId(id): NamedId<String>,
    QueryParams(Limit { limit }): QueryParams<Limit>,
) -> Result<Response, Problem> {
    if limit.is_some_and(|n| !(1..=MAX_CHECKPOINTS).contains(&n)) {
        return Err(out_of(MAX_CHECKPOINTS));
    }
    let found = app
        .stores
        .read(move |_, store| {
            let id = store.history().find(&id)?.id;
            let limit = limit.unwrap_or(CHECKPOINTS);
            let all = store.history().checkpoints(&id, limit)?;
            Ok(json!({"session": id, "checkpoints": all}))
        })
        .await?;
    json(StatusCode::OK, &found)
}

#[derive(Deserialize)]
pub(super) struct Form {
    #[serde(rename = "as")]
    form: Option<BlobForm>,
}

#[derive(Deserialize, PartialEq)]
#[serde(rename_all = "snake_case")]
enum BlobForm {
    Image,
}

/// Returns the bytes of a blob with headers that keep a browser from showing or running them. If
/// an image is requested, the content must be one, of a size that a browser can show.
pub(super) async fn blob(
    State(app): State<Shared>,
    NamedId((id, hash)): NamedId<(String, String)>,
    QueryParams(Form { form }): QueryParams<Form>,
) -> Result<Response, Problem> {
    let bytes = app
        .stores
        .read(move |_, store| {
            store.history().find(&id)?;
            let missing = || {
                Problem::new(StatusCode::NOT_FOUND, format!("there is no blob {hash:?}"))
                    .hint("entries name blobs by their hash")
            };
            store.blob(&hash)?.ok_or_else(missing)
        })
        .await?;
    let kind = match form {
        Some(BlobForm::Image) => shown_image(&bytes)?,
        None => "application/octet-stream",
    };
    let mut response = bytes_as(StatusCode::OK, kind, bytes);
    response.headers_mut().insert(
        header::CONTENT_DISPOSITION,
        HeaderValue::from_static("attachment"),
    );
    Ok(response)
}

/// Returns the media type of an image that may be shown.
fn shown_image(bytes: &[u8]) -> Result<&'static str, Problem> {
    let known = image::check(bytes).map_err(|why| {
        Problem::bad(format!("the blob cannot be shown as an image: it {why}"))
            .hint("without ?as=image its bytes are given as they are")
    })?;
    if u64::from(known.width) * u64::from(known.height) > MAX_SHOWN_PIXELS {
        return Err(Problem::bad(format!(
            "the image has {} x {} pixels, which are too many to be shown",
            known.width, known.height
        ))
        .hint("without ?as=image its bytes are given as they are"));
    }
    Ok(known.media_type)
}
