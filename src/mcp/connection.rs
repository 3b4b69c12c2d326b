//! Asking a server: which era it speaks, what tools it has, and a call.
//!
//! Invariant: a request is sent once for its id. What an agent had asked before it died is found in
//! the journal, and its answer is waited for.

use std::collections::HashSet;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::{Value, json};
use thiserror::Error;
use uuid::Uuid;

use super::era::{self, Era, HANDSHAKE, Known, STATELESS};
use super::message::{self, Heard, METHOD_NOT_FOUND, RpcError};
use super::result::{self, Called};
use super::tools::Listing;
use crate::command::server::{Client, Fate, Unsent, describe};

/// A server that refuses a line because it ends is over by then.
const ENDS_WITHIN: Duration = Duration::from_secs(1);

/// How long a server may take to say that it has no handshake.
const DISCOVER_WITHIN: Duration = Duration::from_millis(1500);

const DISCOVER_ID: &str = "rewake_discover";
const INITIALIZE_ID: &str = "rewake_initialize";
const INITIALIZED: &str = "notifications/initialized";
const CANCELLED: &str = "notifications/cancelled";
const LIST_CHANGED: &str = "notifications/tools/list_changed";

/// Why a server did not answer as was asked.
#[derive(Debug, Error)]
pub enum McpError {
    #[error("the server is over: {0}")]
    Over(String),
    #[error("{0}")]
    Refused(String),
    /// It may or may not have happened.
    #[error("the server ended while it worked on this: {0}")]
    Lost(String),
    #[error("the server did not answer {method} within {} s", .limit.as_secs_f32())]
    Late { method: String, limit: Duration },
    #[error("the server answered {method} with an error: {} ({})", .error.message, .error.code)]
    Rpc { method: String, error: RpcError },
    #[error("the server answered {0} with what is no answer")]
    Garbled(String),
    #[error("the server speaks version {found:?} of the protocol; spoken here: {spoken}")]
    Version { found: String, spoken: String },
    #[error("the server gave no result: {0}")]
    NotSupported(&'static str),
    #[error("the journal of the server cannot be used: {0}")]
    Journal(#[from] io::Error),
}

/// A server that is known.
#[derive(Debug)]
pub struct Connection {
    client: Client,
    known: Known,
    root: PathBuf,
    /// Its requests that an agent before this one answered.
    answered: HashSet<String>,
    is_changed: AtomicBool,
    noise: AtomicUsize,
}

impl Connection {
    /// Learns what the server is, if no agent before did. `root` is the workspace, which the server
    /// may ask for.
    ///
    /// # Errors
    /// It does not answer within the limit, or speaks no version that is known here.
    pub async fn begin(client: Client, root: &Path, limit: Duration) -> Result<Self, McpError> {
        let mut connection = Connection {
            answered: answered_before(&client)?,
            client,
            known: Known {
                era: Era::Handshake,
                version: String::new(),
                name: String::new(),
                instructions: String::new(),
                has_tools: false,
                tells_changes: false,
            },
            root: root.to_path_buf(),
            is_changed: AtomicBool::new(false),
            noise: AtomicUsize::new(0),
        };
        let kept = connection.client.remembered()?;
        let kept = kept.and_then(|kept| serde_json::from_slice(&kept).ok());
        connection.known = match kept {
            Some(known) => known,
            None => connection.learn(limit).await?,
        };
        Ok(connection)
    }

    async fn learn(&self, limit: Duration) -> Result<Known, McpError> {
        let discover = era::params(Era::Stateless, json!({}));
        let asked = self.ask(DISCOVER_ID, "server/discover", &discover, false);
        let known = match tokio::time::timeout(DISCOVER_WITHIN.min(limit), asked).await {
            Ok(Ok(result)) => era::read_discover(&result).ok(),
            Ok(Err(McpError::Rpc { .. } | McpError::Garbled(_))) | Err(_) => None,
            Ok(Err(other)) => return Err(other),
        };
        let known = match known {
            Some(known) => known,
            None => self.shake_hands(limit).await?,
        };
        let bytes = serde_json::to_vec(&known).map_err(io::Error::from)?;
        self.client.remember(&bytes)?;
        Ok(known)
    }

    async fn shake_hands(&self, limit: Duration) -> Result<Known, McpError> {
        let late = |method: &str| McpError::Late {
            method: method.to_string(),
            limit,
        };
        let params = era::initialize_params();
        let asked = self.ask(INITIALIZE_ID, "initialize", &params, false);
        let result = match tokio::time::timeout(limit, asked).await {
            Err(_) => return Err(late("initialize")),
            // One that was late with the first question has no handshake.
            Ok(Err(error @ McpError::Rpc { .. })) => {
                return match self.client.fate(DISCOVER_ID)? {
                    Fate::Answered(line) => match message::read_answer(&line) {
                        Some(Ok(result)) => {
                            let versions = |found: Vec<String>| version(&found.join(", "));
                            era::read_discover(&result).map_err(versions)
                        }
                        Some(Err(_)) | None => Err(error),
                    },
                    Fate::NotBegun | Fate::Running | Fate::Lost => Err(error),
                };
            }
            Ok(result) => result?,
        };
        let known = era::read_initialize(&result).map_err(|found| version(&found))?;
        let mut is_told = false;
        self.client.each_sent(|line| {
            let heard = message::read_other(line);
            is_told |= matches!(heard, Heard::Notification { method, .. } if method == INITIALIZED);
        })?;
        if !is_told {
            let line = message::notification(INITIALIZED, &json!({}));
            if let Err(unsent) = self.client.send(&line, false).await {
                return Err(self.unsent(unsent).await);
            }
        }
        Ok(known)
    }

    pub fn known(&self) -> &Known {
        &self.known
    }

    pub fn client(&self) -> &Client {
        &self.client
    }

    /// How many lines the server printed that are no messages.
    pub fn noise(&self) -> usize {
        self.noise.load(Ordering::Relaxed)
    }

    /// True once after the server said that its tools are others now.
    pub fn take_changed(&self) -> bool {
        self.is_changed.swap(false, Ordering::Relaxed)
    }

    /// All tools, within the bounds of [`Listing`].
    ///
    /// # Errors
    /// The server does not answer within the limit, or with an error.
    pub async fn tools(&self, limit: Duration) -> Result<Listing, McpError> {
        let mut listing = Listing::default();
        let mut cursor = None;
        let all = async {
            loop {
                let params = match &cursor {
                    Some(cursor) => json!({ "cursor": cursor }),
                    None => json!({}),
                };
                let params = era::params(self.known.era, params);
                let id = format!("rewake_{}", Uuid::now_v7().simple());
                let page = self.ask(&id, "tools/list", &params, false).await?;
                cursor = listing.take(&page);
                if cursor.is_none() {
                    return Ok(());
                }
            }
        };
        match tokio::time::timeout(limit, all).await {
            Ok(done) => done.map(|()| listing),
            Err(_) => Err(McpError::Late {
                method: "tools/list".to_string(),
                limit,
            }),
        }
    }

    /// Calls a tool, or waits for a call of this id that was made before. Repeatable: it may be
    /// made again, so it need not be on the disk first. May be dropped: the call goes on.
    ///
    /// # Errors
    /// [`McpError::Lost`] when nobody knows whether it happened; the others say that there is no
    /// result.
    pub async fn call(
        &self,
        id: &str,
        tool: &str,
        arguments: &Value,
        repeatable: bool,
    ) -> Result<result::CallResult, McpError> {
        let params = json!({ "name": tool, "arguments": arguments });
        let params = era::params(self.known.era, params);
        let answer = self.ask(id, "tools/call", &params, !repeatable).await?;
        match result::read(&answer) {
            Called::Done(result) => Ok(result),
            Called::NotSupported(why) => Err(McpError::NotSupported(why)),
        }
    }

    /// Tells the server that the result of a call is not wanted any more. It may come all the same.
    pub async fn cancel(&self, id: &str, why: &str) {
        let params = json!({ "requestId": id, "reason": why });
        let params = era::params(self.known.era, params);
        let line = message::notification(CANCELLED, &params);
        // A server that is gone has nothing to cancel.
        let _ = self.client.send(&line, false).await;
    }

    /// Sends a request if it was never sent, and waits for its answer. What the server asks
    /// meanwhile is answered.
    async fn ask(
        &self,
        id: &str,
        method: &str,
        params: &Value,
        durable: bool,
    ) -> Result<Value, McpError> {
        if self.client.fate(id)? == Fate::NotBegun {
            let line = message::request(id, method, params);
            let sent = self.client.send(&line, durable).await;
            match sent {
                // The keeper took it, or died: then the journal says what became of it.
                Ok(()) | Err(Unsent::Gone) => {}
                Err(refused) => return Err(self.unsent(refused).await),
            }
        }
        let fate = loop {
            tokio::select! {
                biased;
                fate = self.client.answer(id) => break fate?,
                Ok(Some(line)) = self.client.other() => self.hear(&line).await,
            }
        };
        match fate {
            Fate::Answered(line) => match message::read_answer(&line) {
                Some(Ok(result)) => Ok(result),
                Some(Err(error)) => Err(McpError::Rpc {
                    method: method.to_string(),
                    error,
                }),
                None => Err(McpError::Garbled(method.to_string())),
            },
            Fate::NotBegun => Err(McpError::Over(self.how().await)),
            Fate::Running | Fate::Lost => Err(McpError::Lost(self.how().await)),
        }
    }

    async fn how(&self) -> String {
        describe(self.client.ended().await.how())
    }

    /// A server that is ending takes no more lines. How it ended says more than that.
    async fn unsent(&self, unsent: Unsent) -> McpError {
        match unsent {
            Unsent::Refused(why) => {
                match tokio::time::timeout(ENDS_WITHIN, self.client.ended()).await {
                    Ok(past) => McpError::Over(describe(past.how())),
                    Err(_) => McpError::Refused(why),
                }
            }
            Unsent::Gone => McpError::Over("its keeper is gone".to_string()),
        }
    }

    async fn hear(&self, line: &[u8]) {
        match message::read_other(line) {
            Heard::Noise => drop(self.noise.fetch_add(1, Ordering::Relaxed)),
            Heard::Notification { method, .. } => {
                if method == LIST_CHANGED {
                    self.is_changed.store(true, Ordering::Relaxed);
                }
            }
            Heard::Request { id, .. } if self.answered.contains(&id.to_string()) => {}
            Heard::Request { id, method, .. } => {
                let line = message::answer(&id, answer_to(&method, &self.root));
                // A server that is gone needs no answer.
                let _ = self.client.send(&line, false).await;
            }
        }
    }
}

fn version(found: &str) -> McpError {
    McpError::Version {
        found: found.to_string(),
        spoken: format!("{STATELESS}, {}", HANDSHAKE.join(", ")),
    }
}

/// What a server may ask of a client.
fn answer_to(method: &str, root: &Path) -> Result<Value, RpcError> {
    match method {
        "ping" => Ok(json!({})),
        "roots/list" => Ok(json!({ "roots": [{ "uri": file_uri(root) }] })),
        other => Err(RpcError {
            code: METHOD_NOT_FOUND,
            message: format!("rewake does not answer {}", super::clean(other, 100)),
            data: None,
        }),
    }
}

/// RFC 8089, with what may not stand in a URI as `%XX`.
fn file_uri(path: &Path) -> String {
    let mut uri = "file://".to_string();
    for byte in path.as_os_str().as_encoded_bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'/' | b'-' | b'_' | b'.' | b'~' => {
                uri.push(char::from(*byte));
            }
            byte => uri.push_str(&format!("%{byte:02X}")),
        }
    }
    uri
}

/// The ids of the server's requests that were answered already.
fn answered_before(client: &Client) -> io::Result<HashSet<String>> {
    let mut answered = HashSet::new();
    client.each_sent(|line| {
        if message::read_answer(line).is_some()
            && let Ok(message) = serde_json::from_slice::<Value>(line)
        {
            answered.insert(message["id"].to_string());
        }
    })?;
    Ok(answered)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_is_told_the_workspace_and_that_there_is_no_more() {
        let roots = answer_to("roots/list", Path::new("/a b/ü")).unwrap();
        assert_eq!(roots["roots"][0]["uri"], "file:///a%20b/%C3%BC");
        assert_eq!(answer_to("ping", Path::new("/")).unwrap(), json!({}));
        let refused = answer_to("sampling/createMessage", Path::new("/")).unwrap_err();
        assert_eq!(refused.code, METHOD_NOT_FOUND);
    }
}
