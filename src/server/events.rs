//! Streams of events (server-sent events, WHATWG HTML 9.2): the entries of a session as they are
//! recorded, and notices that some session has a new one.
//!
//! The `id` of an event is the place of its entry. So a client with `Last-Event-ID` gets the next
//! entries without a gap, also from a new server process. Events without an ID describe the
//! current state, and every new client gets them.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use futures_util::stream;
use serde::Deserialize;
use serde_json::json;
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

use super::answer::{NamedId, QueryParams, bytes_as};
use super::feed::{Feeder, Followed, Frame, Joined, entry_event, event, notice_event};
use super::problem::Problem;
use super::reading::lines;
use super::stores::Stores;
use super::{App, Shared};
use crate::session::AppContext;

/// Maximum number of followers.
const MAX_FOLLOWERS: usize = 200;

/// Interval of the keep-alive lines.
const ALIVE: Duration = Duration::from_secs(15);
const ALIVE_LINE: &[u8] = b": alive\n\n";

/// Limits for reading missed entries in one step.
const ENTRIES_AT_ONCE: u64 = 200;
const BYTES_AT_ONCE: usize = 512 * 1024;
const ROWS_AT_ONCE: u32 = 500;

/// Tells clients to reconnect after this many milliseconds.
const BEGIN: &[u8] = b"retry: 1000\n\n";

/// The followers of all streams.
pub(super) struct Hub {
    feeder: Feeder,
    places: Arc<Semaphore>,
}

impl Hub {
    pub(super) fn new(ctx: Arc<AppContext>) -> Hub {
        Hub {
            feeder: Feeder::new(ctx),
            places: Arc::new(Semaphore::new(MAX_FOLLOWERS)),
        }
    }

    fn place(&self) -> Result<OwnedSemaphorePermit, Problem> {
        let place = Arc::clone(&self.places).try_acquire_owned();
        place.map_err(|_| {
            Problem::busy(format!("{MAX_FOLLOWERS} clients follow already"))
                .hint("close one, or ask again in a moment")
        })
    }
}

#[derive(Deserialize)]
pub(super) struct From {
    from: Option<u64>,
}

/// Returns the first place that the client wants. `None`: only new events.
fn wanted(headers: &HeaderMap, from: Option<u64>) -> Result<Option<u64>, Problem> {
    let Some(last) = headers.get("last-event-id") else {
        return Ok(from);
    };
    let last = last
        .to_str()
        .ok()
        .and_then(|id| id.trim().parse::<u64>().ok());
    match last.and_then(|last| last.checked_add(1)) {
        Some(next) => Ok(Some(next)),
        None => Err(Problem::bad("Last-Event-ID is not a number")
            .hint("it is the id of the last event that came")),
    }
}

pub(super) async fn of_session(
    State(app): State<Shared>,
    NamedId(id): NamedId<String>,
    QueryParams(From { from }): QueryParams<From>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let from = wanted(&headers, from)?;
    let place = app.hub.place()?;
    let feeder = app.hub.feeder.clone();
    let joined = app.stores.read(move |_, store| {
        let info = store.history().find(&id)?;
        let followed = Followed::Session(info.id);
        let joined = feeder.join(followed.clone(), info.entries);
        Ok((followed, joined))
    });
    Ok(answer(&app, joined.await?, from, place))
}

pub(super) async fn all(
    State(app): State<Shared>,
    QueryParams(From { from }): QueryParams<From>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let from = wanted(&headers, from)?;
    let place = app.hub.place()?;
    let feeder = app.hub.feeder.clone();
    let joined = app.stores.read(move |_, store| {
        let row = store.history().last_row()?;
        let next = u64::try_from(row).unwrap_or_default() + 1;
        Ok((Followed::All, feeder.join(Followed::All, next)))
    });
    Ok(answer(&app, joined.await?, from, place))
}

fn answer(
    app: &App,
    (followed, joined): (Followed, Joined),
    from: Option<u64>,
    place: OwnedSemaphorePermit,
) -> Response {
    let Joined { next, now, frames } = joined;
    let follower = Follower {
        stores: Arc::clone(&app.stores),
        followed,
        // A rebuilt database may contain fewer entries than before.
        at: from.unwrap_or(next).min(next),
        missed: next,
        begin: Some(Bytes::from_static(BEGIN)),
        now: now.into(),
        frames: Some(frames),
        _place: place,
    };
    let stream = stream::unfold(follower, |mut follower| async move {
        let bytes = follower.next().await?;
        Some((Ok::<_, Infallible>(bytes), follower))
    });
    bytes_as(
        StatusCode::OK,
        "text/event-stream",
        Body::from_stream(stream),
    )
}

/// A follower: one client of a stream.
struct Follower {
    stores: Arc<Stores>,
    followed: Followed,
    /// Place of the next entry for this client.
    at: u64,
    /// Entries before this place are read from the store, not taken from the feed.
    missed: u64,
    begin: Option<Bytes>,
    /// Events that describe the state at the start of the stream.
    now: VecDeque<Bytes>,
    /// `None`: the last event was sent.
    frames: Option<Receiver<Frame>>,
    _place: OwnedSemaphorePermit,
}

impl Follower {
    async fn next(&mut self) -> Option<Bytes> {
        if let Some(begin) = self.begin.take() {
            return Some(begin);
        }
        loop {
            if self.at < self.missed {
                return Some(self.read_missed().await);
            }
            if let Some(bytes) = self.now.pop_front() {
                return Some(bytes);
            }
            let frames = self.frames.as_mut()?;
            match timeout(ALIVE, frames.recv()).await {
                Err(_) => return Some(Bytes::from_static(ALIVE_LINE)),
                Ok(Ok(Frame::Entry { place, .. })) if place < self.at => {}
                Ok(Ok(Frame::Entry {
                    place,
                    bytes: Some(bytes),
                })) => {
                    (self.at, self.missed) = (place + 1, place + 1);
                    return Some(bytes);
                }
                Ok(Ok(Frame::Entry { place, bytes: None })) => self.missed = place + 1,
                Ok(Ok(Frame::Now(bytes))) => return Some(bytes),
                Ok(Ok(Frame::End(bytes))) => {
                    self.frames = None;
                    return Some(bytes);
                }
                Ok(Err(RecvError::Lagged(_))) => {
                    self.frames = None;
                    return Some(self.too_slow());
                }
                Ok(Err(RecvError::Closed)) => return None,
            }
        }
    }

    /// Returns the last event for a client that reads too slowly. It contains the place to resume
    /// from.
    fn too_slow(&self) -> Bytes {
        let last = self.at.checked_sub(1);
        let why = json!({
            "error": "this reader is too slow",
            "hint": "ask again with Last-Event-ID: what was missed comes then",
            "last": last,
        });
        event("problem", &why.to_string())
    }

    async fn read_missed(&mut self) -> Bytes {
        let (from, upto) = (self.at, self.missed);
        let read = match &self.followed {
            Followed::Session(id) => {
                let id = id.clone();
                self.stores
                    .read(move |_, store| {
                        let length = store.history().find(&id)?.entries.min(upto);
                        let last = from + ENTRIES_AT_ONCE - 1;
                        let (lines, _) = lines(store, &id, length, from, last, BYTES_AT_ONCE)?;
                        let mut all = Vec::new();
                        for (line, seq) in lines.iter().zip(from..) {
                            all.extend_from_slice(&entry_event(line, seq));
                        }
                        Ok((all, from + lines.len() as u64))
                    })
                    .await
            }
            Followed::All => {
                self.stores
                    .read(move |_, store| {
                        let behind = i64::try_from(from).unwrap_or(i64::MAX) - 1;
                        let new = store.history().entries_after_row(behind, ROWS_AT_ONCE)?;
                        let (mut all, mut next) = (Vec::new(), upto);
                        for (count, entry) in new.iter().enumerate() {
                            let place = u64::try_from(entry.row).unwrap_or_default();
                            if place >= upto {
                                break;
                            }
                            all.extend_from_slice(&notice_event(entry));
                            if count + 1 == ROWS_AT_ONCE as usize {
                                next = place + 1;
                            }
                        }
                        Ok((all, next))
                    })
                    .await
            }
        };
        match read {
            // The session is shorter than before.
            Ok((bytes, at)) if at == from => {
                self.at = upto;
                bytes.into()
            }
            Ok((bytes, at)) => {
                self.at = at;
                bytes.into()
            }
            Err(problem) => {
                self.frames = None;
                (self.at, self.missed) = (upto, upto);
                self.now.clear();
                event("problem", &problem.to_json())
            }
        }
    }
}
