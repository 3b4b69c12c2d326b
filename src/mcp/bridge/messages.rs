//! The messages of an HTTP response: one JSON object, an array, or a stream of events.

use std::collections::VecDeque;
use std::time::Duration;

use reqwest::Response;
use reqwest::header::CONTENT_TYPE;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::Value;
use serde_json::value::RawValue;

use crate::command::server::LINE_MAX_BYTES;
use crate::core::half_character::read_lenient;
use crate::net::client::reason;
use crate::net::sse::Parser;

/// Maximum number of messages that are read from one array.
const ARRAY_MAX: usize = 256;

/// The parts of a message that are needed to pass it on.
#[derive(Debug, Deserialize)]
pub struct MessageHead {
    #[serde(default)]
    pub id: Value,
    method: Option<IgnoredAny>,
}

impl MessageHead {
    /// Reads the head of `message`, or returns `None` if it is not a message.
    pub fn of(message: &[u8]) -> Option<MessageHead> {
        serde_json::from_slice(message).ok()
    }

    /// Returns the ID of the request that this message answers.
    pub fn answers(&self) -> Option<&Value> {
        (self.method.is_none() && !self.id.is_null()).then_some(&self.id)
    }

    /// Returns the error of an answer without an ID. It belongs to the request.
    pub fn nameless_error(&self, message: &[u8]) -> Option<Value> {
        if self.method.is_some() || !self.id.is_null() {
            return None;
        }
        let mut message = read_lenient(message).ok()?;
        Some(message["error"].take()).filter(|error| error["code"].is_i64())
    }
}

/// A reader for the messages of one response.
#[derive(Debug)]
pub struct Messages {
    response: Response,
    body: Body,
    ready: VecDeque<Vec<u8>>,
    is_over: bool,
}

#[derive(Debug)]
enum Body {
    Events(Parser),
    Whole,
}

impl Messages {
    /// Creates a reader. `None`: the response is neither JSON nor a stream of events.
    pub fn of(response: Response) -> Option<Messages> {
        let kind = response.headers().get(CONTENT_TYPE);
        let kind = kind.and_then(|kind| kind.to_str().ok()).unwrap_or_default();
        let kind = kind
            .split(';')
            .next()
            .unwrap_or_default()
            .trim()
            .to_ascii_lowercase();
        let body = match kind.as_str() {
            "text/event-stream" => Body::Events(Parser::new()),
            "application/json" => Body::Whole,
            _ => return None,
        };
        Some(Messages {
            response,
            body,
            ready: VecDeque::new(),
            is_over: false,
        })
    }

    /// Returns the ID of the event after which the stream can be resumed.
    pub fn last_id(&self) -> Option<&str> {
        match &self.body {
            Body::Events(parser) => parser.last_id(),
            Body::Whole => None,
        }
    }

    pub fn retry(&self) -> Option<Duration> {
        match &self.body {
            Body::Events(parser) => parser.retry(),
            Body::Whole => None,
        }
    }

    /// Returns the next message, or `None` at the regular end. After dropping the future, do not
    /// call it again.
    ///
    /// # Errors
    /// The connection broke, or the content is invalid.
    pub async fn next(&mut self) -> Result<Option<Vec<u8>>, String> {
        loop {
            if let Some(message) = self.ready.pop_front() {
                return Ok(Some(message));
            }
            if self.is_over {
                return Ok(None);
            }
            match &mut self.body {
                Body::Whole => {
                    let whole = whole(&mut self.response).await?;
                    self.is_over = true;
                    self.ready.extend(parts(whole));
                }
                Body::Events(parser) => match self.response.chunk().await.map_err(reason)? {
                    None => self.is_over = true,
                    Some(chunk) => {
                        let events = parser.feed(&chunk).map_err(|failure| failure.message)?;
                        // The first event of a stream often has an id and nothing else.
                        let said = events.into_iter().filter(|e| !e.data.trim().is_empty());
                        let said = said.flat_map(|event| parts(event.data.into_bytes()));
                        self.ready.extend(said);
                    }
                },
            }
        }
    }
}

async fn whole(response: &mut Response) -> Result<Vec<u8>, String> {
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(reason)? {
        body.extend_from_slice(&chunk);
        if body.len() > LINE_MAX_BYTES {
            return Err(format!("the answer is longer than {LINE_MAX_BYTES} bytes"));
        }
    }
    Ok(body)
}

/// Returns the messages of an array, as in 2025-03-26, or the single message.
fn parts(text: Vec<u8>) -> Vec<Vec<u8>> {
    if text.iter().find(|byte| !byte.is_ascii_whitespace()) != Some(&b'[') {
        return vec![text];
    }
    let parts: Result<Vec<&RawValue>, _> = serde_json::from_slice(&text);
    let parts = parts.unwrap_or_default().into_iter().take(ARRAY_MAX);
    parts.map(|part| part.get().as_bytes().to_vec()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_array_is_its_messages() {
        assert_eq!(
            parts(b" {\"a\": [1]}".to_vec()),
            [b" {\"a\": [1]}".to_vec()]
        );
        assert_eq!(
            parts(b"[{\"a\":1}, 2]".to_vec()),
            [b"{\"a\":1}".to_vec(), b"2".to_vec()]
        );
        assert!(parts(b"[{".to_vec()).is_empty());
    }

    #[test]
    fn responses_are_distinguished_from_requests() {
        let of = |text: &str| MessageHead::of(text.as_bytes()).and_then(|h| h.answers().cloned());
        assert_eq!(of(r#"{"id":"a","result":{}}"#), Some("a".into()));
        assert_eq!(of(r#"{"id":"a","method":"ping"}"#), None);
        assert_eq!(of(r#"{"id":null,"error":{}}"#), None);
        assert_eq!(of("[]"), None);
    }
}
