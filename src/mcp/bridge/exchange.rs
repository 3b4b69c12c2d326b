//! One request and its answer, across broken streams.

use std::io::Write;
use std::sync::Arc;

use reqwest::{Method, Response};
use serde_json::{Value, json};

use super::headers;
use super::messages::{MessageHead, Messages};
use super::session::{RETRY, Session, backoff, is_forgotten, within_bounds};
use super::wire::{Bad, refused};
use crate::core::half_character::read_lenient;
use crate::mcp::refusal::{Refusal, Why};

/// Maximum number of attempts in a row to resume a broken stream.
const RESUMES_MAX: u32 = 5;

/// Maximum number of attempts to send an answer to a question of the server.
const TOLD_MAX: u32 = 8;

/// Maximum number of new sessions for one request. A server that forgets a new session at once
/// does not support sessions.
const RENEWALS_MAX: usize = 2;

/// JSON-RPC error code: arguments are missing in the headers.
const HEADER_MISMATCH: i64 = -32_020;

/// Maximum number of pages of a list of tools.
const PAGES_MAX: usize = 64;

/// Sends a request, and outputs its answer or the reason why there is none.
pub async fn exchange(session: &Arc<Session>, line: &[u8], message: &Value) {
    let id = &message["id"];
    let Some(done) = session.expect(id) else {
        let twice = Refusal::not_done("a request of this id is under way");
        return session.output.refuse(id, &twice).await;
    };
    let failed = tokio::select! {
        biased;
        // The answer came on another stream, or nobody waits for it any more.
        () = done.notified() => return,
        answered = answer(session, line, message) => answered.err(),
    };
    match failed {
        Some(_) if !session.take(id) => {}
        Some(Bad::Refused(refusal)) => session.output.refuse(id, &refusal).await,
        Some(Bad::Error(error)) => session.output.error(id, &error).await,
        None => {}
    }
}

/// Sends a message that has no answer. An answer to a question of the server is sent until the
/// server has received it, because a call waits for it. If that fails, the calls are in doubt.
pub async fn send_notification(session: &Arc<Session>, line: &[u8], message: &Value) {
    let is_answer = message["method"].is_null();
    for failures in 0..TOLD_MAX {
        let why = match post(session, line, message).await {
            Ok(response) if response.status().is_success() => return,
            Ok(response) => match refused(response).await {
                // An earlier attempt arrived, or the answer is not wanted any more.
                Bad::Refused(refusal) if refusal.why == Why::NotDone && failures > 0 => return,
                Bad::Refused(refusal) => refusal.message,
                Bad::Error(error) => error["message"].to_string(),
            },
            Err(Bad::Refused(refusal)) => refusal.message,
            Err(Bad::Error(error)) => error["message"].to_string(),
        };
        // Other failures need no report: the keeper's journal contains the message.
        if !is_answer || session.is_idle() {
            return;
        }
        if failures + 1 == TOLD_MAX {
            let why = format!("the server does not take the answer to what it asked: {why}");
            return session.give_up(&Refusal::in_doubt(why)).await;
        }
        tokio::time::sleep(backoff(RETRY, failures)).await;
    }
}

async fn post(session: &Arc<Session>, line: &[u8], message: &Value) -> Result<Response, Bad> {
    let mut renewals = 0;
    let is_stateless = headers::own_version(message).is_some();
    loop {
        let mut along = session.along(message);
        if is_stateless && message["method"] == "tools/call" {
            along
                .headers
                .extend(session.mirrors.of_call(&message["params"]));
        }
        let sent = session
            .wire
            .send(Method::POST, &along.headers, Some(line))
            .await;
        let response = sent?;
        match is_forgotten(response.status(), &along) {
            // The server did not accept it, so it may be sent in another session.
            Some(generation) if renewals < RENEWALS_MAX => {
                renewals += 1;
                session.renew(generation).await?;
            }
            _ => return Ok(response),
        }
    }
}

/// Sends the request, and returns the response of a server that accepted it.
async fn taken(session: &Arc<Session>, line: &[u8], message: &Value) -> Result<Response, Bad> {
    let mut is_first = true;
    loop {
        let response = post(session, line, message).await?;
        if response.status().is_success() {
            return Ok(response);
        }
        let bad = refused(response).await;
        // The server did not accept it: it expects arguments in headers.
        let is_mismatch = matches!(&bad, Bad::Error(error) if error["code"] == HEADER_MISMATCH);
        if !is_first || !is_mismatch || message["method"] != "tools/call" {
            return Err(bad);
        }
        is_first = false;
        learn(session, message).await?;
    }
}

/// Lists the tools to learn which arguments the server expects in headers.
async fn learn(session: &Arc<Session>, call: &Value) -> Result<(), Bad> {
    let mut cursor = Value::Null;
    for page in 0..PAGES_MAX {
        let mut params = json!({ "_meta": call["params"]["_meta"] });
        if !cursor.is_null() {
            params["cursor"] = cursor;
        }
        let ask = json!({ "jsonrpc": "2.0", "id": format!("rewake_bridge_{page}"),
            "method": "tools/list", "params": params });
        let response = post(session, ask.to_string().as_bytes(), &ask).await?;
        let Some(mut messages) = Messages::of(response) else {
            return Ok(());
        };
        cursor = loop {
            let Ok(Some(said)) = messages.next().await else {
                return Ok(());
            };
            if MessageHead::of(&said).is_some_and(|head| head.answers() == Some(&ask["id"])) {
                session.mirrors.learn(&said);
                let answer = read_lenient(&said).unwrap_or_default();
                break answer["result"]["nextCursor"].clone();
            }
        };
        if !cursor.is_string() {
            return Ok(());
        }
    }
    Ok(())
}

async fn answer(session: &Arc<Session>, line: &[u8], message: &Value) -> Result<(), Bad> {
    let response = taken(session, line, message).await?;
    let is_beginning = message["method"] == "initialize";
    if is_beginning {
        session.begin(line, &response);
    }
    let status = response.status().as_u16();
    let mut messages = Messages::of(response).ok_or_else(|| {
        Refusal::in_doubt(format!(
            "the server took it (HTTP {status}) and gave no answer"
        ))
    })?;
    let (mut last_id, mut retry) = (None, RETRY);
    loop {
        let broken = loop {
            match messages.next().await {
                Ok(Some(said)) => {
                    if hear(session, &said, message, is_beginning).await? {
                        return Ok(());
                    }
                }
                Ok(None) => break "the server ended the stream before the answer".to_string(),
                Err(why) => break format!("the connection broke before the answer: {why}"),
            }
        };
        last_id = messages.last_id().map(str::to_string).or(last_id);
        retry = messages.retry().map_or(retry, within_bounds);
        messages = match &last_id {
            Some(id) if headers::own_version(message).is_none() => {
                let mut failures = 0;
                loop {
                    tokio::time::sleep(backoff(retry, failures)).await;
                    match resume(session, id, &broken).await? {
                        Some(messages) => break messages,
                        None if failures < RESUMES_MAX => failures += 1,
                        None => return Err(Refusal::in_doubt(broken).into()),
                    }
                }
            }
            _ => return Err(Refusal::in_doubt(broken).into()),
        };
    }
}

/// Returns true if that was the answer.
async fn hear(
    session: &Arc<Session>,
    said: &[u8],
    message: &Value,
    is_beginning: bool,
) -> Result<bool, Bad> {
    let Some(head) = MessageHead::of(said) else {
        return Ok(false);
    };
    if let Some(error) = head.nameless_error(said) {
        return Err(Bad::Error(error));
    }
    let is_answer = head.answers() == Some(&message["id"]);
    if is_answer && is_beginning {
        session.agree(said);
    }
    let is_list = is_answer && message["method"] == "tools/list";
    if let Some((kept, why)) = Some(said)
        .filter(|_| is_list && headers::own_version(message).is_some())
        .and_then(|said| session.mirrors.learn(said))
    {
        let _ = writeln!(std::io::stderr(), "{}", why.join("; "));
        session.deliver(&kept).await;
    } else {
        session.deliver(said).await;
    }
    Ok(is_answer)
}

/// Reopens a broken stream. `None`: another attempt is possible.
async fn resume(
    session: &Arc<Session>,
    last_id: &str,
    broken: &str,
) -> Result<Option<Messages>, Bad> {
    let Ok(response) = session.open(Some(last_id)).await else {
        return Ok(None);
    };
    let status = response.status();
    if status.is_server_error() {
        return Ok(None);
    }
    let messages = Messages::of(response).filter(|_| status.is_success());
    messages.map(Some).ok_or_else(|| {
        let status = status.as_u16();
        let why = format!("{broken}, and it cannot be taken up again (HTTP {status})");
        Refusal::in_doubt(why).into()
    })
}
