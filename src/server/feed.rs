//! The new events of the store, read once for all followers.
//!
//! While there are followers, one thread checks ten times a second whether anything was committed.
//! New events of a session become frames, which all its followers share. Each check is a short
//! transaction: an open one would keep the write-ahead log from ever being emptied.
//!
//! Invariant: a follower that is too slow loses its place in the feed, never another one's, and
//! nothing is kept for it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use axum::body::Bytes;
use serde::Serialize;
use serde_json::{Value, json};
use tokio::sync::broadcast;

use super::problem::Problem;
use super::stores;
use crate::session::AppContext;
use crate::session::objects::{QueuedObject, entry_line, queued_objects};
use crate::store::{Store, StoreError};

/// Interval for checking whether anything was committed.
const LOOK: Duration = Duration::from_millis(100);

/// Interval for changes that no commit reports: a process that died, files that were moved.
const LOOK_BESIDE: Duration = Duration::from_secs(1);

/// Number of frames that a follower may lag.
const FRAMES: usize = 64;

/// Maximum size of a frame with an entry. Each follower reads larger entries itself.
const MAX_FRAME_BYTES: usize = 64 * 1024;

/// Maximum number of entries read per check of one session.
const ENTRIES_AT_ONCE: u64 = 100;

/// Maximum number of entries of all sessions read per check.
const ROWS_AT_ONCE: u32 = 500;

/// The subject of a stream.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum Followed {
    All,
    Session(String),
}

/// A part of a stream, for all its followers.
#[derive(Debug, Clone)]
pub(super) enum Frame {
    /// An entry of the session, or of all sessions. Without bytes, each follower reads it itself.
    Entry { place: u64, bytes: Option<Bytes> },
    /// Any other event. A client cannot resume from it.
    Now(Bytes),
    /// The last event.
    End(Bytes),
}

/// The place where a follower joins. It reads the entries before `next` itself.
pub(super) struct Joined {
    pub next: u64,
    pub now: Vec<Bytes>,
    pub frames: broadcast::Receiver<Frame>,
}

struct Feed {
    frames: broadcast::Sender<Frame>,
    /// Place of the next entry.
    next: u64,
    /// Streamed text that is not part of an entry yet.
    streamed: String,
    /// The last event that described the state of the session.
    state: Option<String>,
    /// No state was sent yet.
    is_new: bool,
}

#[derive(Default)]
struct Feeds {
    all: HashMap<Followed, Feed>,
    is_read: bool,
}

/// All feeds, and the thread that reads for them.
#[derive(Clone)]
pub(super) struct Feeder {
    ctx: Arc<AppContext>,
    feeds: Arc<Mutex<Feeds>>,
}

impl Feeder {
    pub(super) fn new(ctx: Arc<AppContext>) -> Feeder {
        Feeder {
            ctx,
            feeds: Arc::default(),
        }
    }

    fn feeds(&self) -> MutexGuard<'_, Feeds> {
        self.feeds.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Joins a feed. A feed without followers begins at `next`.
    pub(super) fn join(&self, followed: Followed, next: u64) -> Joined {
        let mut feeds = self.feeds();
        let feed = feeds.all.entry(followed).or_insert_with(|| Feed {
            frames: broadcast::channel(FRAMES).0,
            next,
            streamed: String::new(),
            state: None,
            is_new: true,
        });
        let mut now = Vec::new();
        if !feed.is_new {
            now.extend(feed.state.as_deref().map(|state| event("state", state)));
            now.push(stream_event(&feed.streamed, true));
        }
        let joined = Joined {
            next: feed.next,
            now,
            frames: feed.frames.subscribe(),
        };
        if !feeds.is_read {
            feeds.is_read = true;
            let feeder = self.clone();
            thread::spawn(move || feeder.read());
        }
        joined
    }

    /// Reads until the last follower leaves.
    fn read(&self) {
        if let Err(problem) = self.read_on() {
            let last = Frame::End(event("problem", &problem.to_json()));
            let mut feeds = self.feeds();
            for (_, feed) in feeds.all.drain() {
                let _ = feed.frames.send(last.clone());
            }
            feeds.is_read = false;
        }
    }

    fn read_on(&self) -> Result<(), Problem> {
        let store = stores::open(&self.ctx)?;
        let mut version = None;
        let mut looked = Instant::now();
        loop {
            let now = store.inbox().data_version()?;
            let is_beside = looked.elapsed() >= LOOK_BESIDE;
            if is_beside {
                looked = Instant::now();
                store.check_names()?;
            }
            let is_changed = version.replace(now) != Some(now);
            let mut feeds = self.feeds();
            feeds.all.retain(|_, feed| feed.frames.receiver_count() > 0);
            if feeds.all.is_empty() {
                feeds.is_read = false;
                return Ok(());
            }
            let mut over = Vec::new();
            for (followed, feed) in &mut feeds.all {
                if !(is_changed || is_beside || feed.is_new) {
                    continue;
                }
                if let Err(problem) = self.look(&store, followed, feed) {
                    let last = Frame::End(event("problem", &problem.to_json()));
                    let _ = feed.frames.send(last);
                    over.push(followed.clone());
                }
            }
            over.iter()
                .for_each(|followed| drop(feeds.all.remove(followed)));
            drop(feeds);
            thread::sleep(LOOK);
        }
    }

    fn look(&self, store: &Store, followed: &Followed, feed: &mut Feed) -> Result<(), Problem> {
        match followed {
            Followed::All => feed.look_at_all(store)?,
            Followed::Session(id) => {
                feed.look_at_session(store, id)?;
                let state = self.state(store, id)?;
                feed.say_state(state);
            }
        }
        feed.is_new = false;
        Ok(())
    }

    /// Returns the state of a session besides its entries.
    fn state(&self, store: &Store, id: &str) -> Result<String, StoreError> {
        #[derive(Serialize)]
        struct CurrentState {
            live: bool,
            queued: Vec<QueuedObject>,
            signals: usize,
        }
        let now = CurrentState {
            live: self.ctx.session_list().is_in_use(id),
            queued: queued_objects(store, id)?,
            signals: store.inbox().signals(id)?.len(),
        };
        Ok(serde_json::to_string(&now).unwrap_or_default())
    }
}

impl Feed {
    fn look_at_session(&mut self, store: &Store, id: &str) -> Result<(), StoreError> {
        loop {
            let length = store.history().find(id)?.entries;
            if length <= self.next {
                break;
            }
            let last = (length - 1).min(self.next + ENTRIES_AT_ONCE - 1);
            for record in store.records(id, self.next..=last)? {
                let bytes = entry_event(&entry_line(&record), record.seq);
                self.next = record.seq + 1;
                let _ = self.frames.send(Frame::Entry {
                    place: record.seq,
                    bytes: Some(bytes).filter(|bytes| bytes.len() <= MAX_FRAME_BYTES),
                });
            }
        }
        let streamed = store.inbox().drafts(id)?.stream.unwrap_or_default();
        let is_more = streamed.strip_prefix(self.streamed.as_str());
        let frame = match is_more {
            Some("") => None,
            Some(more) if !self.streamed.is_empty() => Some(stream_event(more, false)),
            _ => Some(stream_event(&streamed, true)),
        };
        if let Some(frame) = frame {
            let _ = self.frames.send(Frame::Now(frame));
            self.streamed = streamed;
        }
        Ok(())
    }

    fn look_at_all(&mut self, store: &Store) -> Result<(), StoreError> {
        loop {
            let behind = i64::try_from(self.next).unwrap_or(i64::MAX) - 1;
            let new = store.history().entries_after_row(behind, ROWS_AT_ONCE)?;
            for entry in &new {
                let place = u64::try_from(entry.row).unwrap_or_default();
                self.next = place + 1;
                let _ = self.frames.send(Frame::Entry {
                    place,
                    bytes: Some(notice_event(entry)),
                });
            }
            if new.len() < ROWS_AT_ONCE as usize {
                return Ok(());
            }
        }
    }

    fn say_state(&mut self, state: String) {
        if self.state.as_ref() != Some(&state) {
            let _ = self.frames.send(Frame::Now(event("state", &state)));
            self.state = Some(state);
        }
    }
}

/// Returns the event for an entry, in the format of `stream-json`.
pub(super) fn entry_event(line: &Value, seq: u64) -> Bytes {
    format!("id: {seq}\nevent: entry\ndata: {line}\n\n").into()
}

/// Returns the notice that a session has a new entry, without the entry.
pub(super) fn notice_event(entry: &crate::store::NewEntry) -> Bytes {
    let line = json!({
        "session": entry.session,
        "seq": entry.seq,
        "type": format!("entry.{}", entry.kind),
        "at_ms": entry.at_ms,
    });
    format!("id: {}\nevent: entry\ndata: {line}\n\n", entry.row).into()
}

/// Returns an event with streamed text: a continuation, or the complete text if `begins`.
fn stream_event(text: &str, begins: bool) -> Bytes {
    event(
        "stream",
        &json!({"begins": begins, "text": text}).to_string(),
    )
}

/// Returns an event without an ID, from which no client resumes. `json` contains no line breaks.
pub(super) fn event(name: &str, json: &str) -> Bytes {
    format!("event: {name}\ndata: {json}\n\n").into()
}
