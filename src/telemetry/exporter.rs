//! Reading what is new in the log, and sending it in batches.
//!
//! Invariant: a batch that the collector neither accepts nor refuses is the last one of the run.

use std::time::Duration;

use bytes::Bytes;
use reqwest::header::RETRY_AFTER;
use reqwest::{Client, StatusCode};
use serde_json::Value;
use tokio::sync::watch;

use super::settings::Target;
use super::spans::{Span, SpanFold};
use super::{Job, LOOK, Warning, encode, trace_of};
use crate::core::entry::Seq;
use crate::core::text::{count, one_line};
use crate::net::client::{self, Kind};
use crate::store::{SessionLock, Store, StoreError, Telemetry, TelemetryCursor};

/// Maximum number of spans of a batch. Those with contents are larger.
const MAX_SPANS: usize = 512;
const MAX_SPANS_WITH_CONTENTS: usize = 64;

/// Maximum number of spans that end with one entry: a call and its turn.
const SPANS_OF_ENTRY: usize = 2;

/// Number of entries that are read at once.
const PAGE: u64 = 64;

/// Maximum number of entries that a start sends after an earlier run that did not: those of its
/// session, and those of all others together.
const MAX_REST: u64 = 10_000;

/// Maximum number of other sessions with a rest.
const MAX_OTHERS: u32 = 100;

/// Pauses before a batch is sent again. After the last one, this run sends nothing more.
const PAUSES: [Duration; 4] = [
    Duration::from_secs(1),
    Duration::from_secs(5),
    Duration::from_secs(20),
    MAX_PAUSE,
];
const MAX_PAUSE: Duration = Duration::from_secs(60);

const ANSWER_WITHIN: Duration = Duration::from_secs(10);
const MAX_ANSWER_BYTES: usize = 64 * 1024;
const WHY_CHARS: usize = 200;

/// The answer of the collector to one request.
enum Answer {
    Accepted,
    /// Not accepted, and it will not be.
    Refused(String),
    /// It may be accepted later: why, and after what time.
    Later(String, Option<Duration>),
}

/// The place in a session up to which its spans were read.
struct Reader {
    fold: SpanFold,
    cursor: TelemetryCursor,
    /// The next entry to read.
    next: Seq,
}

impl Reader {
    /// Returns the next spans, at most `most`. `None`: nothing follows the cursor.
    fn read(
        &mut self,
        store: &Store,
        session: &str,
        most: usize,
    ) -> Result<Option<Vec<Span>>, StoreError> {
        let length = Telemetry::of(store).length(session)?;
        let mut spans = Vec::new();
        let is_full = |spans: &Vec<Span>| spans.len() + SPANS_OF_ENTRY > most;
        while self.next < length && !is_full(&spans) {
            let last = (self.next + PAGE).min(length) - 1;
            for record in store.records(session, self.next..=last)? {
                let ended = self.fold.fold(&record);
                self.next = record.seq + 1;
                // Earlier ones were sent: those entries are read for the turn that is open.
                if record.seq >= self.cursor.seq {
                    spans.extend(ended);
                }
                if is_full(&spans) {
                    break;
                }
            }
        }
        Ok((self.next > self.cursor.seq).then_some(spans))
    }
}

pub(super) struct Exporter {
    job: Job,
    store: Store,
    traces: Option<(Client, Target)>,
    metrics: Option<(Client, Target)>,
    stopped: watch::Receiver<bool>,
    warning: Warning,
    /// The reader of the own session, once it is open.
    own: Option<Reader>,
    /// As the log was looked at last.
    version: Option<i64>,
    /// Number of entries of other sessions that may still be sent.
    rest: u64,
    /// The collector does not answer: this run sends nothing more.
    is_given_up: bool,
}

impl Exporter {
    pub(super) fn new(
        job: Job,
        store: Store,
        stopped: watch::Receiver<bool>,
        warning: Warning,
    ) -> Result<Exporter, String> {
        let with_client = |target: &Option<Target>| {
            let built = target.clone().map(|target| {
                let builder = client::builder(Kind::of(&target.url), None)?;
                Ok((client::build(builder.timeout(ANSWER_WITHIN))?, target))
            });
            let built: Result<_, client::ClientError> = built.transpose();
            built.map_err(|error| error.to_string())
        };
        Telemetry::of(&store)
            .stop_syncing()
            .map_err(|error| error.to_string())?;
        Ok(Exporter {
            traces: with_client(&job.exporting.traces)?,
            metrics: with_client(&job.exporting.metrics)?,
            job,
            store,
            stopped,
            warning,
            own: None,
            version: None,
            rest: MAX_REST,
            is_given_up: false,
        })
    }

    /// Sends what is new until the run ends, and the rest after that.
    pub(super) async fn run(&mut self) -> Result<(), StoreError> {
        loop {
            let is_last = self.is_over();
            if !self.is_given_up {
                self.send_rest().await?;
            }
            if is_last {
                return Ok(());
            }
            self.pause(LOOK).await;
        }
    }

    /// Returns whether the run has ended.
    fn is_over(&self) -> bool {
        *self.stopped.borrow() || self.stopped.has_changed().is_err()
    }

    /// Waits, at most until the run ends.
    async fn pause(&self, time: Duration) {
        let mut stopped = self.stopped.clone();
        let _ = tokio::time::timeout(time, stopped.wait_for(|is| *is)).await;
    }

    async fn send_rest(&mut self) -> Result<(), StoreError> {
        let version = self.store.inbox().data_version()?;
        if self.version.replace(version) == Some(version) {
            return Ok(());
        }
        let own = self.job.session.clone();
        let mut sessions = vec![own.clone()];
        // A live process sends its own.
        let others = Telemetry::of(&self.store).unsent(MAX_OTHERS)?.into_iter();
        sessions.extend(others.filter(|id| {
            *id != own && self.rest > 0 && !SessionLock::is_held(&self.job.data_dir, id)
        }));
        for session in sessions {
            if !self.is_given_up {
                self.send_session(&session, session == own).await?;
            }
        }
        Ok(())
    }

    async fn send_session(&mut self, session: &str, is_own: bool) -> Result<(), StoreError> {
        let Some(mut reader) = self.reader(session, is_own)? else {
            return Ok(());
        };
        let most = match self.job.exporting.has_contents {
            true => MAX_SPANS_WITH_CONTENTS,
            false => MAX_SPANS,
        };
        while let Some(spans) = reader.read(&self.store, session, most)? {
            if !self.deliver(&spans, &reader.cursor).await {
                self.is_given_up = true;
                return Ok(());
            }
            reader.cursor.seq = reader.next;
            reader.cursor.turn = reader.fold.needs(reader.next);
            Telemetry::of(&self.store).set_cursor(session, &reader.cursor)?;
        }
        if is_own {
            self.own = Some(reader);
        }
        Ok(())
    }

    fn reader(&mut self, session: &str, is_own: bool) -> Result<Option<Reader>, StoreError> {
        if is_own && let Some(reader) = self.own.take() {
            return Ok(Some(reader));
        }
        let Some(mut cursor) = Telemetry::of(&self.store).cursor(session)? else {
            return Ok(None);
        };
        let length = Telemetry::of(&self.store).length(session)?;
        let unsent = length.saturating_sub(cursor.seq);
        let most = if is_own { MAX_REST } else { self.rest };
        if unsent > most {
            tracing::warn!(session, unsent, "the oldest spans are left out");
            cursor.seq = length - most;
            cursor.turn = cursor.seq;
        }
        if !is_own {
            self.rest -= unsent.min(most);
        }
        let has_contents = self.job.exporting.has_contents;
        Ok(Some(Reader {
            fold: SpanFold::new(session, trace_of(&cursor), has_contents),
            next: cursor.turn,
            cursor,
        }))
    }

    /// Sends a batch. Returns false if the collector accepts nothing in this run.
    async fn deliver(&self, spans: &[Span], cursor: &TelemetryCursor) -> bool {
        let resource = &self.job.exporting.resource;
        let traces = encode::traces(spans, &trace_of(cursor), resource);
        self.post(&self.traces, traces).await
            && self
                .post(&self.metrics, encode::metrics(spans, resource))
                .await
    }

    /// Posts until the collector accepts or refuses. Returns false if it does neither.
    async fn post(&self, to: &Option<(Client, Target)>, body: Option<Value>) -> bool {
        let Some(((client, target), body)) = to.as_ref().zip(body) else {
            return true;
        };
        let body = Bytes::from(body.to_string());
        let mut pauses = PAUSES.into_iter();
        let host = target.url.host_str().unwrap_or_default();
        loop {
            match post_once(client, target, body.clone(), &self.warning).await {
                Answer::Accepted => return true,
                Answer::Refused(why) => {
                    self.warning.set(&format!("{host} refused a batch: {why}"));
                    return true;
                }
                Answer::Later(why, after) => {
                    let Some(pause) = pauses.next().filter(|_| !self.is_over()) else {
                        self.warning
                            .set(&format!("{host}: {why}; the next start sends the rest"));
                        return false;
                    };
                    self.pause(after.unwrap_or(pause).min(MAX_PAUSE)).await;
                }
            }
        }
    }
}

async fn post_once(client: &Client, target: &Target, body: Bytes, warning: &Warning) -> Answer {
    let request = client
        .post(target.url.clone())
        .headers(target.headers.clone())
        .body(body);
    let mut response = match request.send().await {
        Ok(response) => response,
        Err(error) => return Answer::Later(client::reason(error), None),
    };
    let status = response.status();
    let after = response.headers().get(RETRY_AFTER);
    let after = after.and_then(|value| value.to_str().ok()?.trim().parse().ok());
    let mut text = Vec::new();
    while text.len() < MAX_ANSWER_BYTES
        && let Ok(Some(chunk)) = response.chunk().await
    {
        text.extend_from_slice(&chunk);
    }
    if status.is_success() {
        if let Some(why) = partly_refused(&text) {
            warning.set(&format!("the collector refused a part: {why}"));
        }
        return Answer::Accepted;
    }
    let text = one_line(&String::from_utf8_lossy(&text), WHY_CHARS);
    let why = format!("{status} {text}").trim_end().to_string();
    match status.is_server_error() || status == StatusCode::TOO_MANY_REQUESTS {
        true => Answer::Later(why, after.map(Duration::from_secs)),
        false => Answer::Refused(why),
    }
}

/// Returns why the collector refused a part, from the `partialSuccess` of its answer.
fn partly_refused(answer: &[u8]) -> Option<String> {
    let answer: Value = serde_json::from_slice(answer).ok()?;
    let partial = answer.get("partialSuccess")?;
    let mut rejected = ["rejectedSpans", "rejectedDataPoints"].iter();
    let rejected = rejected.find_map(|key| match partial.get(key)? {
        Value::String(number) => number.parse().ok(),
        number => number.as_u64(),
    });
    let rejected = rejected.unwrap_or(0_u64);
    let why = partial.get("errorMessage").and_then(Value::as_str);
    let why = one_line(why.unwrap_or_default(), WHY_CHARS);
    (rejected > 0 || !why.is_empty()).then(|| format!("{} {why}", count(rejected, "item")))
}
