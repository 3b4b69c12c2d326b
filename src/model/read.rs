//! Reading a successful answer to its end: an event stream, or one JSON object from a server that
//! does not stream.
//!
//! Once the server has sent the stop reason, later problems do not fail the answer: invalid data,
//! errors or a broken connection. If the server then keeps the connection open, the wait is
//! limited to [`GRACE`]. The exception is a server that sends a stop reason in every event: there,
//! the answer ends with the connection.

use std::time::Duration;

use reqwest::Response;
use serde::de::IgnoredAny;
use serde_json::value::RawValue;
use tokio::time::Instant;

use super::timeouts::Timeouts;
use super::wire::{Codec, Decoder};
use super::{Delta, Reply, errors};
use crate::core::budget::BYTES_PER_TOKEN;
use crate::core::entry::{Failure, Usage};
use crate::core::text::size_text;
use crate::net::client::reason;
use crate::net::sse::{self, Event};

/// Time to wait for the end of the connection after the last event. A well-behaved server ends the
/// response, and the connection can be reused.
const LINGER: Duration = Duration::from_millis(100);

/// Time to wait for more data after the reason of the end. Counts and the protocol's own end
/// arrive at once or never.
const GRACE: Duration = Duration::from_secs(3);

/// Tokens of an answer between two reports of its usage.
const REPORTED_TOKENS: u64 = 64;

/// Pause after which a possible end of a JSON object is checked.
const PAUSE: Duration = Duration::from_millis(200);

/// Maximum size of a streamed answer, and of one that is not a stream.
const MAX_ANSWER_BYTES: usize = 128 * 1024 * 1024;
const MAX_OBJECT_BYTES: usize = 32 * 1024 * 1024;

/// Bytes that an error shows of an answer that is neither.
const HEAD_BYTES: usize = 200;

type Deltas<'a> = &'a mut (dyn FnMut(Delta) + Send);

/// Reads an answer to its end.
pub(super) async fn answer(
    codec: Codec,
    mut response: Response,
    patience: &mut Timeouts<'_>,
    on: Deltas<'_>,
) -> Result<Reply, Failure> {
    let mut body = ResponseBody::new(codec);
    let broken = loop {
        let next = patience.wait(response.chunk());
        let next = match body.end_at() {
            None => next.await,
            // The answer ends here if nothing more arrives.
            Some(end) => match tokio::time::timeout_at(end, next).await {
                Ok(next) => next,
                Err(_) if body.is_over() => break None,
                Err(_) => continue,
            },
        };
        match next {
            Ok(Ok(Some(chunk))) => match body.feed(&chunk, patience, on)? {
                Flow::Goes => {}
                Flow::Ended => break None,
            },
            Ok(Ok(None)) => break None,
            Ok(Err(error)) => {
                break Some(errors::network(&format!(
                    "the stream was cut: {}",
                    reason(error)
                )));
            }
            Err(waited) => break Some(waited),
        }
    };
    if broken.is_none() {
        // Data after the end does not belong to any answer, and may be endless.
        let rest = async { while let Ok(Some(_)) = response.chunk().await {} };
        let _ = tokio::time::timeout(LINGER, rest).await;
    }
    body.finish(broken, on)
}

enum Flow {
    Goes,
    /// Nothing relevant follows.
    Ended,
}

/// The part of the answer that was received.
struct ResponseBody {
    decoder: Decoder,
    parser: sse::Parser,
    head: Vec<u8>,
    bytes: usize,
    events: usize,
    /// The complete body, if it begins as JSON.
    object: Option<Vec<u8>>,
    /// Time at which the answer became complete.
    whole: Option<Instant>,
    /// The answer contains more than thinking.
    said: bool,
    /// The tokens of the answer that the caller was told last.
    usage: Usage,
    /// More pieces of the answer arrived after its end: the server reports an end in every event.
    reopened: bool,
}

impl ResponseBody {
    fn new(codec: Codec) -> ResponseBody {
        ResponseBody {
            decoder: codec.decoder(),
            parser: sse::Parser::new(),
            head: Vec::new(),
            bytes: 0,
            events: 0,
            object: None,
            whole: None,
            said: false,
            usage: Usage::default(),
            reopened: false,
        }
    }

    /// Returns the time until which to wait for more data, once the answer is complete.
    fn end_at(&self) -> Option<Instant> {
        let pause = if self.object.is_some() { PAUSE } else { GRACE };
        self.whole.filter(|_| !self.reopened).map(|at| at + pause)
    }

    /// Returns whether the answer is over, after a pause. If the JSON object is not complete yet,
    /// waiting continues.
    fn is_over(&mut self) -> bool {
        let Some(object) = &self.object else {
            return true;
        };
        let is_over = serde_json::from_slice::<IgnoredAny>(object).is_ok();
        if !is_over {
            self.whole = None;
        }
        is_over
    }

    fn feed(
        &mut self,
        chunk: &[u8],
        patience: &mut Timeouts<'_>,
        on: Deltas<'_>,
    ) -> Result<Flow, Failure> {
        self.bytes += chunk.len();
        if self.bytes > MAX_ANSWER_BYTES {
            return self.unless_whole(too_large(MAX_ANSWER_BYTES));
        }
        let missing = HEAD_BYTES.saturating_sub(self.head.len());
        self.head.extend(chunk.iter().take(missing));
        if self.events == 0 && self.object.is_none() && begins_as_json(&self.head) {
            // The bytes before are blank, otherwise it would not begin as JSON.
            self.object = Some(Vec::new());
        }
        match &mut self.object {
            Some(object) => {
                object.extend_from_slice(chunk);
                if object.len() > MAX_OBJECT_BYTES {
                    return Err(too_large(MAX_OBJECT_BYTES));
                }
                patience.progressed();
                let last = chunk.trim_ascii_end().last();
                self.whole = matches!(last, Some(b'}' | b']')).then(Instant::now);
                Ok(Flow::Goes)
            }
            None => self.feed_events(chunk, patience, on),
        }
    }

    fn feed_events(
        &mut self,
        chunk: &[u8],
        patience: &mut Timeouts<'_>,
        on: Deltas<'_>,
    ) -> Result<Flow, Failure> {
        let events = match self.parser.feed(chunk) {
            Ok(events) => events,
            Err(failure) => return self.unless_whole(failure),
        };
        for event in events {
            self.events += 1;
            let kept = self.decoder.kept();
            let deltas = match self.decoder.feed(&event) {
                Ok(deltas) => deltas,
                Err(failure) => match self.unless_whole(failure)? {
                    Flow::Goes => continue,
                    Flow::Ended => return Ok(Flow::Ended),
                },
            };
            if !deltas.is_empty() || self.decoder.kept() > kept {
                patience.progressed();
                self.reopened |= self.whole.is_some();
            }
            let is_thought = |d: &Delta| matches!(d, Delta::Thinking(_));
            self.said |= !deltas.iter().all(is_thought);
            deltas.into_iter().for_each(&mut *on);
            self.report_usage(on);
            if self.decoder.is_ended() {
                return Ok(Flow::Ended);
            }
            if self.whole.is_none() && self.decoder.is_whole() {
                self.whole = Some(Instant::now());
            }
        }
        Ok(Flow::Goes)
    }

    /// Tells the caller the tokens so far, at the beginning and after every few tokens: if the
    /// answer breaks off, they are billed.
    fn report_usage(&mut self, on: Deltas<'_>) {
        let estimate = (self.decoder.kept() as f64 / BYTES_PER_TOKEN).ceil() as u64;
        let mut usage = self.decoder.usage_so_far();
        usage.output = usage.output.max(estimate);
        let told = self.usage;
        if usage.prompt() != told.prompt()
            || (told.output == 0 && usage.output > 0)
            || usage.output >= told.output.saturating_add(REPORTED_TOKENS)
        {
            self.usage = usage;
            on(Delta::Usage(usage));
        }
    }

    /// Ignores a failure after the end of an answer. The exception is an answer without any text
    /// or call: there the failure explains more.
    fn unless_whole(&self, failure: Failure) -> Result<Flow, Failure> {
        if self.whole.is_some() && self.said && !self.reopened {
            Ok(Flow::Ended)
        } else {
            Err(failure)
        }
    }

    fn finish(mut self, broken: Option<Failure>, on: Deltas<'_>) -> Result<Reply, Failure> {
        if let Some(object) = self.object.take() {
            let objects = match objects(&object) {
                Some(objects) => objects,
                None => return Err(broken.unwrap_or_else(|| no_answer(&self.head))),
            };
            for data in objects {
                let event = Event {
                    event: String::new(),
                    data,
                };
                self.decoder.feed(&event)?.into_iter().for_each(&mut *on);
            }
            return self.decoder.finish().map_err(|_| no_answer(&self.head));
        }
        if self.events == 0 && self.bytes > 0 && !begins_as_events(&self.head) {
            return Err(no_answer(&self.head));
        }
        match broken {
            // A server that reports the end in every event does not prove that the answer is
            // complete.
            Some(failure) if self.reopened && !self.decoder.is_ended() => Err(failure),
            // A connection that breaks after the protocol's own end has not cut the answer.
            broken => self
                .decoder
                .finish()
                .map_err(|failure| broken.unwrap_or(failure)),
        }
    }
}

/// Returns one object, or a list of objects that would be the events of a stream. `None`: it is
/// not JSON.
fn objects(bytes: &[u8]) -> Option<Vec<String>> {
    let bytes = bytes.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(bytes);
    let text = String::from_utf8_lossy(bytes);
    match serde_json::from_str::<Vec<&RawValue>>(&text) {
        Ok(list) => Some(list.into_iter().map(|one| one.get().to_string()).collect()),
        Err(_) => {
            let is_json = serde_json::from_str::<IgnoredAny>(&text).is_ok();
            is_json.then(|| vec![text.into_owned()])
        }
    }
}

fn begins_as_json(head: &[u8]) -> bool {
    let head = head.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(head);
    matches!(head.trim_ascii_start().first(), Some(b'{' | b'['))
}

/// Returns whether the data is an event stream. Comments and empty lines, which servers send as
/// keep-alive data, count too.
fn begins_as_events(head: &[u8]) -> bool {
    let head = String::from_utf8_lossy(head);
    let line = head.trim_start_matches('\u{feff}').trim_start();
    let names = [":", "data:", "event:", "id:", "retry:"];
    line.is_empty() || names.iter().any(|name| line.starts_with(name))
}

fn no_answer(head: &[u8]) -> Failure {
    let head = String::from_utf8_lossy(head);
    let why = format!(
        "the answer is neither an event stream nor an object of the protocol, it begins {head:?}"
    );
    // A gateway sends its page while the server is away.
    let head = head.trim_start_matches('\u{feff}').trim_start();
    if head.starts_with('<') {
        errors::network(&why)
    } else {
        errors::nonsense(why)
    }
}

fn too_large(most: usize) -> Failure {
    let most = size_text(most as u64);
    errors::nonsense(format!("the answer has more than {most}"))
}
