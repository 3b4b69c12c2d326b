//! What can be read: the history, one session, its entries, what is asked.

use axum::extract::State;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::Response;
use serde::Deserialize;
use serde_json::{Value, json};

use super::Shared;
use super::answer::{Named, Wanted, bytes_as, json};
use super::problem::Problem;
use crate::core::entry::CallId;
use crate::core::image;
use crate::session::objects::{HistoryQuery, MAX_PAGE, checkpoint_objects, entry_line};
use crate::session::sandbox::given;
use crate::store::{Store, StoreError};

/// Entries of one answer.
const MAX_ENTRIES: u64 = 1_000;
const ENTRIES: u64 = 200;

/// An answer with more bytes ends, and says where it goes on.
const MAX_BYTES: usize = 4 * 1024 * 1024;

const MAX_CHECKPOINTS: u32 = 1_000;
const CHECKPOINTS: u32 = 100;

/// A browser needs four bytes for each, however few an image has on its way.
const MAX_SHOWN_PIXELS: u64 = 32_000_000;

/// Longer queries are refused.
const MAX_QUERY_CHARS: usize = 1_000;

/// A larger number is not exact in JSON that JavaScript reads.
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
    Wanted(page): Wanted<Page>,
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
    let asked = app
        .stores
        .read(|ctx, store| {
            let (questions, unread) = ctx.steering().questions(store)?;
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
    Named(id): Named<String>,
) -> Result<Response, Problem> {
    let found = app
        .stores
        .read(move |ctx, store| Ok(ctx.session_object(store, &id)?))
        .await?;
    json(StatusCode::OK, &found)
}

/// What a call that is asked about makes of its file, as the file is now. It is for who may
/// answer: the file itself is nothing that is recorded.
pub(super) async fn asked_change(
    State(app): State<Shared>,
    Named((id, call)): Named<(String, String)>,
) -> Result<Response, Problem> {
    let call: CallId = call.parse().map_err(|why: String| {
        Problem::bad(why).hint("GET /questions says which call each question is about")
    })?;
    let found = app
        .stores
        .read(move |ctx, store| {
            let info = store.find(&id)?;
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
pub(super) struct Range {
    #[serde(default)]
    from: u64,
    to: Option<u64>,
}

/// `{"entries": […], "next": SEQ or null}`: as `--output-format stream-json` prints them.
pub(super) async fn entries(
    State(app): State<Shared>,
    Named(id): Named<String>,
    Wanted(range): Wanted<Range>,
) -> Result<Response, Problem> {
    let Range { from, to } = range;
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
            let info = store.find(&id)?;
            let (entries, next) = lines(store, &info.id, info.entries, from, last, MAX_BYTES)?;
            let entries: Vec<Value> = entries;
            Ok(json!({"session": info.id, "entries": entries, "next": next}))
        })
        .await?;
    json(StatusCode::OK, &answer)
}

/// Entries from one to another, and where to go on when that is not the end of the session.
/// At least one, however long it is.
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
    Named(id): Named<String>,
    Wanted(Limit { limit }): Wanted<Limit>,
) -> Result<Response, Problem> {
    if limit.is_some_and(|n| !(1..=MAX_CHECKPOINTS).contains(&n)) {
        return Err(out_of(MAX_CHECKPOINTS));
    }
    let found = app
        .stores
        .read(move |_, store| {
            let id = store.find(&id)?.id;
            let all = checkpoint_objects(store, &id, limit.unwrap_or(CHECKPOINTS))?;
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

/// Bytes, as they are: a browser shows and runs none of them. Where an image is wanted, they are
/// one by their content, and not so large that a browser could not bear it.
pub(super) async fn blob(
    State(app): State<Shared>,
    Named((id, hash)): Named<(String, String)>,
    Wanted(Form { form }): Wanted<Form>,
) -> Result<Response, Problem> {
    let bytes = app
        .stores
        .read(move |_, store| {
            store.find(&id)?;
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

/// The media type of an image that may be shown.
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
