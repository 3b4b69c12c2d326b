//! One HTTP request: retried where that is safe, and refused with a reason.

use std::time::Duration;

use jiff::Timestamp;
use jiff::fmt::rfc2822;
use reqwest::header::{
    AUTHORIZATION, HeaderMap, HeaderValue, LOCATION, RETRY_AFTER, WWW_AUTHENTICATE,
};
use reqwest::{Method, Response, StatusCode, Url};
use serde_json::Value;

use super::access::Access;
use super::definition;
use crate::core::half_character::read_lenient;
use crate::mcp::clean;
use crate::mcp::launch::BridgeConfig;
use crate::mcp::oauth::challenge::Challenge;
use crate::mcp::oauth::web::shown;
use crate::mcp::refusal::{Refusal, Why};
use crate::net::client::{self, Kind, reason};

/// Pauses before new attempts to connect.
const CONNECT_AGAIN: [Duration; 2] = [Duration::from_millis(250), Duration::from_secs(1)];

/// Limits for waiting when a server asks for a pause: number of waits, and length of each.
const WAITS_MAX: usize = 3;
const WAIT_MAX: Duration = Duration::from_secs(60);
const WAIT_UNSAID: Duration = Duration::from_secs(1);

const REDIRECTS_MAX: usize = 5;
const TOKENS_MAX: usize = 2;

/// Limits for an error body that is not a message: bytes that are read, and bytes that are shown.
const ERROR_MAX_BYTES: usize = 64 * 1024;
const WORDS_MAX_BYTES: usize = 300;

/// Time after which an unused connection is closed, so that the client closes it before the server
/// does. A request on a connection that the server is closing may or may not have arrived. Node
/// closes after 5 seconds.
const IDLE: Duration = Duration::from_secs(3);

/// Keep-alive settings that detect a lost network within about two minutes.
const ALIVE_EVERY: Duration = Duration::from_secs(30);
const ALIVE_TRIES: u32 = 3;

/// The connections to one server.
pub struct Wire {
    client: reqwest::Client,
    url: Url,
    headers: HeaderMap,
    access: Access,
    name: String,
}

/// The reason why a request has no answer.
#[derive(Debug)]
pub enum Bad {
    Refused(Refusal),
    /// The server's own error: the `error` of JSON-RPC.
    Error(Value),
}

impl From<Refusal> for Bad {
    fn from(refusal: Refusal) -> Bad {
        Bad::Refused(refusal)
    }
}

impl Wire {
    /// # Errors
    /// The definition of the server is invalid.
    pub fn new(config: &BridgeConfig) -> Result<Wire, String> {
        let url = definition::address(config)?;
        let builder = client::builder(Kind::of(&url), None).map_err(|e| e.to_string())?;
        let builder = builder
            .pool_idle_timeout(IDLE)
            .tcp_keepalive(ALIVE_EVERY)
            .tcp_keepalive_interval(ALIVE_EVERY)
            .tcp_keepalive_retries(ALIVE_TRIES)
            .http2_keep_alive_interval(ALIVE_EVERY)
            .http2_keep_alive_timeout(ALIVE_EVERY);
        Ok(Wire {
            client: client::build(builder).map_err(|e| e.to_string())?,
            headers: definition::headers(config)?,
            access: Access::new(config, &url),
            url,
            name: config.name.clone(),
        })
    }

    /// Sends a request. Handles redirects, retries and expired tokens, and returns any other
    /// response.
    ///
    /// # Errors
    /// The request got no response.
    pub async fn send(
        &self,
        method: Method,
        headers: &HeaderMap,
        body: Option<&[u8]>,
    ) -> Result<Response, Refusal> {
        let mut url = self.url.clone();
        let (mut failed, mut waits, mut redirects, mut tokens) = (0, 0, 0, 0);
        loop {
            let token = self.access.header().await;
            let request = self.client.request(method.clone(), url.clone());
            let mut request = request
                .headers(self.headers.clone())
                .headers(headers.clone());
            if let Some(token) = &token {
                request = request.header(AUTHORIZATION, token);
            }
            if let Some(body) = body {
                request = request.body(body.to_vec());
            }
            let response = match request.send().await {
                Ok(response) => response,
                Err(error) if error.is_connect() => {
                    let Some(pause) = CONNECT_AGAIN.get(failed) else {
                        let why = format!("cannot connect to {}: {}", shown(&url), reason(error));
                        return Err(Refusal::not_done(why));
                    };
                    failed += 1;
                    tokio::time::sleep(*pause).await;
                    continue;
                }
                Err(error) => {
                    let why = format!("the connection to {} broke: {}", shown(&url), reason(error));
                    return Err(Refusal::in_doubt(why));
                }
            };
            let status = response.status();
            if status == StatusCode::UNAUTHORIZED {
                tokens += 1;
                if tokens < TOKENS_MAX && self.access.is_newer_than(token.as_ref()).await {
                    continue;
                }
                return Err(self.login(&response, token.is_some()));
            }
            if status == StatusCode::FORBIDDEN && challenge(&response).is_scope() {
                return Err(self.login(&response, true));
            }
            if let Some(pause) = pause(&response) {
                waits += 1;
                if waits > WAITS_MAX || pause > WAIT_MAX {
                    return Err(Refusal::not_done(format!(
                        "the server takes no more requests (HTTP {}) and asks for a pause of {} s ({})",
                        status.as_u16(),
                        pause.as_secs(),
                        shown(&url)
                    )));
                }
                tokio::time::sleep(pause).await;
                continue;
            }
            if status.is_redirection() {
                redirects += 1;
                url = self.redirected(&url, &response, redirects)?;
                continue;
            }
            return Ok(response);
        }
    }

    /// Returns the target of a redirect, within the same origin and only if it keeps the method.
    fn redirected(&self, from: &Url, response: &Response, count: usize) -> Result<Url, Refusal> {
        let status = response.status().as_u16();
        // Other statuses may mean that the call happened.
        let refused = |why| match status {
            307 | 308 => Refusal::not_done(why),
            _ => Refusal::in_doubt(why),
        };
        let to = response.headers().get(LOCATION);
        let to = to.and_then(|to| from.join(to.to_str().ok()?).ok());
        let Some(to) = to else {
            let from = shown(from);
            return Err(refused(format!(
                "the server redirects (HTTP {status}) nowhere ({from})"
            )));
        };
        if to.origin() == self.url.origin() && matches!(status, 307 | 308) && count <= REDIRECTS_MAX
        {
            return Ok(to);
        }
        Err(refused(format!(
            "the server redirects (HTTP {status}) to {}, which is not followed ({}); hint: if that is \
             the server, make it the url of {}",
            shown(&to),
            shown(from),
            self.name
        )))
    }

    fn login(&self, response: &Response, has_token: bool) -> Refusal {
        let challenge = challenge(response);
        let name = &self.name;
        let status = response.status().as_u16();
        let message = match (&challenge.scope, has_token) {
            _ if self.access.has_key() => format!(
                "the server refuses the key (HTTP {status}); hint: check the headers and \
                 bearer_token_env_var of {name}"
            ),
            (Some(scope), true) if challenge.is_scope() => format!(
                "the login does not permit this: {} is needed; hint: rewake mcp login {name}",
                clean(scope, WORDS_MAX_BYTES)
            ),
            (_, true) => format!(
                "the login is not valid any more (HTTP {status}); hint: rewake mcp login {name}"
            ),
            (_, false) => {
                format!(
                    "the server requires a login (HTTP {status}); hint: rewake mcp login {name}"
                )
            }
        };
        Refusal {
            why: match self.access.has_key() {
                true => Why::NotDone,
                false => Why::Login(challenge),
            },
            message,
        }
    }
}

fn challenge(response: &Response) -> Challenge {
    let said = response.headers().get_all(WWW_AUTHENTICATE).iter();
    Challenge::read(said.filter_map(|value| value.to_str().ok()))
}

/// Returns the pause that the server asks for, if it did not accept the request.
fn pause(response: &Response) -> Option<Duration> {
    let asked = response.headers().get(RETRY_AFTER).and_then(retry_after);
    match response.status() {
        StatusCode::TOO_MANY_REQUESTS => Some(asked.unwrap_or(WAIT_UNSAID)),
        StatusCode::SERVICE_UNAVAILABLE => asked,
        _ => None,
    }
}

/// Parses a number of seconds or a date.
fn retry_after(value: &HeaderValue) -> Option<Duration> {
    let text = value.to_str().ok()?.trim();
    if let Ok(seconds) = text.parse() {
        return Some(Duration::from_secs(seconds));
    }
    let at = rfc2822::DateTimeParser::new()
        .parse_timestamp(text.replace("GMT", "+0000"))
        .ok()?;
    let left = at.as_second().saturating_sub(Timestamp::now().as_second());
    Some(Duration::from_secs(u64::try_from(left).unwrap_or(0)))
}

/// Returns the error in a response that does not report success.
pub async fn refused(mut response: Response) -> Bad {
    let status = response.status();
    let mut body = Vec::new();
    while body.len() < ERROR_MAX_BYTES
        && let Ok(Some(chunk)) = response.chunk().await
    {
        body.extend(chunk.iter().take(ERROR_MAX_BYTES - body.len()));
    }
    let said = read_lenient(&body).unwrap_or_default();
    if said["error"]["code"].is_i64() {
        return Bad::Error(said["error"].clone());
    }
    let words = [&said["error_description"], &said["message"], &said["error"]];
    let words = words
        .into_iter()
        .find_map(Value::as_str)
        .map(str::to_string);
    let is_page = || body.trim_ascii_start().starts_with(b"<");
    let words = words.or_else(|| (!is_page()).then(|| String::from_utf8_lossy(&body).into_owned()));
    let words = clean(&words.unwrap_or_default(), WORDS_MAX_BYTES).replace('\n', " ");
    let message = match words.trim() {
        "" => format!("the server answers HTTP {}", status.as_u16()),
        words => format!("the server answers HTTP {}: {words}", status.as_u16()),
    };
    let may_be_done = status.is_server_error() || status == StatusCode::REQUEST_TIMEOUT;
    Bad::Refused(match may_be_done {
        true => Refusal::in_doubt(message),
        false => Refusal::not_done(message),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_may_say_when_in_two_ways() {
        let read = |text: &str| retry_after(&HeaderValue::from_str(text).unwrap());
        assert_eq!(read("7"), Some(Duration::from_secs(7)));
        assert_eq!(read("Wed, 21 Oct 2015 07:28:00 GMT"), Some(Duration::ZERO));
        let far = read("Fri, 21 Oct 2095 07:28:00 GMT").unwrap();
        assert!(far > WAIT_MAX);
        assert_eq!(read("soon"), None);
    }
}
