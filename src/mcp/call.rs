//! A tool call: in several rounds if the server needs more input first, and as a task if it takes
//! long.
//!
//! Invariant: each round has an id that follows from the call's, so the journal says how far a
//! call got: `ID`, `ID:2`, `ID:3`, … (`ID.2` is the second try of a call.)

use std::collections::HashSet;
use std::io;
use std::time::Duration;

use serde_json::{Map, Value, json};

use super::connection::{Connection, McpError, new_id};
use super::era;
use super::message::{self, ServerMessage};
use super::result::{self, CallResult, Called};
use super::task::{self, Status, Task};
use crate::command::server::ServerOutcome;

/// Maximum number of rounds of one call. A server may ask for more input in each.
const ROUNDS_MAX: usize = 8;

/// Pause after a round without a question: the server wants the request again later.
const ASK_AGAIN: Duration = Duration::from_millis(500);

/// Maximum number of questions that are answered in one round.
const QUESTIONS_MAX: usize = 16;

/// Maximum number of failed status requests in a row for a task.
const LOOKS_MAX: u32 = 10;

const CANCEL_WITHIN: Duration = Duration::from_secs(5);
const CANCELLED: &str = "notifications/cancelled";
const UPDATE: &str = "tasks/update";

/// JSON-RPC error code: the user has to visit an address first (2025-11-25).
const VISIT_REQUIRED: i64 = -32_042;

/// JSON-RPC error code: the server does not know this task.
const INVALID_PARAMS: i64 = -32_602;

impl Connection {
    /// Calls a tool, or waits for a call of this ID that was made before. A `repeatable` call may
    /// be made again, so it need not be on the disk first. The future may be dropped: the call
    /// continues.
    ///
    /// # Errors
    /// Errors with [`McpError::is_in_doubt`] mean that the call may have happened. After the
    /// others, the call has no result.
    pub async fn call(
        &self,
        id: &str,
        tool: &str,
        arguments: &Value,
        repeatable: bool,
    ) -> Result<CallResult, McpError> {
        let params = json!({ "name": tool, "arguments": arguments });
        let answer = self.rounds(id, "tools/call", params, !repeatable).await?;
        match result::read(&answer) {
            Called::Done(result) => Ok(result),
            Called::Task(task) => self.follow(&task).await,
            Called::NotSupported(why) => Err(McpError::NotSupported(why)),
        }
    }

    /// Tells the server that the result of a call is not wanted any more. The result may still
    /// arrive.
    pub async fn cancel(&self, id: &str, why: &str) {
        let begun = |id: &String| !matches!(self.client().outcome(id), Ok(ServerOutcome::NotBegun));
        let rounds = (2..=ROUNDS_MAX).rev().map(|round| round_id(id, round));
        let last = rounds
            .into_iter()
            .find(begun)
            .unwrap_or_else(|| id.to_string());
        if let Ok(Some(task)) = task_of(self.client().outcome(&last)) {
            let cancelled = self.look("tasks/cancel", json!({ "taskId": task.id }));
            // A server that does not support cancellation continues the task.
            let _ = tokio::time::timeout(CANCEL_WITHIN, cancelled).await;
            return;
        }
        let params = json!({ "requestId": last, "reason": why });
        let params = era::params(self.known().era, params);
        let line = message::notification(CANCELLED, &params);
        // A server that ended has nothing to cancel.
        let _ = self.client().send(&line, false).await;
    }

    /// Polls a task until it is done: one of this call, or one that an earlier server process
    /// began. The future may be dropped: the task continues.
    ///
    /// # Errors
    /// The task failed, is not known any more, or cannot be polled.
    pub async fn follow(&self, task: &Task) -> Result<CallResult, McpError> {
        let mut task = task.clone();
        let mut told = self.answered_keys(&task.id)?;
        let mut failures = 0;
        let mut is_first = true;
        loop {
            let pause = task.pause(is_first) * (failures + 1);
            is_first = false;
            tokio::time::sleep(pause).await;
            let got = match self.look("tasks/get", json!({ "taskId": task.id })).await {
                Ok(got) => got,
                Err(McpError::Rpc { error, .. }) if error.code == INVALID_PARAMS => {
                    return Err(McpError::InDoubt(forgotten(&task, &error.message)));
                }
                Err(McpError::InDoubt(_) | McpError::Refused(_)) if failures < LOOKS_MAX => {
                    failures += 1;
                    continue;
                }
                Err(e @ (McpError::Journal(_) | McpError::NotSupported(_))) => return Err(e),
                Err(e) => {
                    let why = e.to_string();
                    return Err(McpError::Unfinished { task, why });
                }
            };
            failures = 0;
            let now = Task::read(&got).filter(|now| now.id == task.id);
            task = now.unwrap_or(task);
            match task::status(&got) {
                Status::Working => {}
                Status::Waiting(mut asked) => {
                    asked.retain(|key, _| !told.contains(key));
                    self.send_answers(&task.id, asked, &mut told).await?;
                }
                Status::Done(answer) => {
                    return match result::read(&answer) {
                        Called::Done(result) => Ok(result),
                        Called::Task(_) | Called::NotSupported(_) => {
                            Err(McpError::Garbled("tasks/get".to_string()))
                        }
                    };
                }
                Status::Failed(error) => {
                    return Err(McpError::Rpc {
                        method: "tools/call".to_string(),
                        error,
                    });
                }
                Status::Cancelled(why) => {
                    let why = format!("the task was cancelled {why}");
                    return Err(McpError::InDoubt(why.trim_end().to_string()));
                }
                Status::Garbled => return Err(McpError::Garbled("tasks/get".to_string())),
            }
        }
    }

    /// Sends the answers that a task waits for.
    async fn send_answers(
        &self,
        task: &str,
        asked: Map<String, Value>,
        told: &mut HashSet<String>,
    ) -> Result<(), McpError> {
        if asked.is_empty() {
            return Ok(());
        }
        let answers = self.inputs(task, &asked).await?;
        told.extend(answers.keys().cloned());
        let params = json!({ "taskId": task, "inputResponses": answers });
        let params = era::params(self.known().era, params);
        // The line must be on the disk first, since it contains a person's answer.
        self.ask(&new_id(), UPDATE, &params, true).await.map(drop)
    }

    /// Returns the keys of the questions of a task that were already answered.
    fn answered_keys(&self, task: &str) -> io::Result<HashSet<String>> {
        let mut told = HashSet::new();
        self.client().each_sent(|line| {
            if let ServerMessage::Request { method, params, .. } = message::read_other(line)
                && method == UPDATE
                && params["taskId"] == task
                && let Some(answers) = params["inputResponses"].as_object()
            {
                told.extend(answers.keys().cloned());
            }
        })?;
        Ok(told)
    }

    /// Sends a request, in as many rounds as the server needs. The ID of each round follows from
    /// the first, so a person's answers are found after a crash.
    pub(super) async fn rounds(
        &self,
        id: &str,
        method: &str,
        params: Value,
        durable: bool,
    ) -> Result<Value, McpError> {
        let mut more = Map::new();
        for round in 1..=ROUNDS_MAX {
            let mut params = params.clone();
            if let Some(params) = params.as_object_mut() {
                params.append(&mut more);
            }
            let params = era::params(self.known().era, params);
            let id_of_round = round_id(id, round);
            let answer = self.ask(&id_of_round, method, &params, durable).await;
            let Some(wanted) = CallInput::read(&answer) else {
                return answer;
            };
            if self.client().outcome(&round_id(id, round + 1))? == ServerOutcome::NotBegun {
                more = self.fulfil(&id_of_round, wanted).await?;
            }
        }
        Err(McpError::NotSupported(
            "it wants to know something again and again",
        ))
    }

    async fn fulfil(&self, id: &str, wanted: CallInput) -> Result<Map<String, Value>, McpError> {
        let mut more = Map::new();
        if wanted.requests.is_empty() {
            tokio::time::sleep(ASK_AGAIN).await;
        } else {
            let answers = self.inputs(id, &wanted.requests).await?;
            // A declined visit is not reported to the server, so the next round would only repeat
            // the call.
            if wanted.is_visit && answers.values().any(|answer| answer["action"] != "accept") {
                return Err(McpError::Refused(
                    "the server wants an address to be opened first, and that was declined"
                        .to_string(),
                ));
            }
            if !wanted.is_visit {
                more.insert("inputResponses".to_string(), Value::Object(answers));
            }
        }
        if let Some(state) = wanted.state {
            more.insert("requestState".to_string(), state);
        }
        Ok(more)
    }

    async fn inputs(
        &self,
        of: &str,
        asked: &Map<String, Value>,
    ) -> Result<Map<String, Value>, McpError> {
        let mut answers = Map::new();
        if asked.len() > QUESTIONS_MAX {
            return Err(McpError::NotSupported("it asks too much at once"));
        }
        for (key, request) in asked {
            let answer = self.input(format!("{of}/{key}"), request).await;
            let Some(answer) = answer else {
                return Err(McpError::NotSupported(
                    "it asks for what no server is told (only elicitation and roots are answered)",
                ));
            };
            answers.insert(key.clone(), answer);
        }
        Ok(answers)
    }
}

/// The input that a server requests before it continues a call.
struct CallInput {
    requests: Map<String, Value>,
    state: Option<Value>,
    /// The older way, a visit to an address: no answers are sent back.
    is_visit: bool,
}

impl CallInput {
    fn read(answer: &Result<Value, McpError>) -> Option<CallInput> {
        match answer {
            Ok(result) if result["resultType"] == "input_required" => Some(CallInput {
                requests: result["inputRequests"]
                    .as_object()
                    .cloned()
                    .unwrap_or_default(),
                state: Some(result["requestState"].clone()).filter(Value::is_string),
                is_visit: false,
            }),
            Err(McpError::Rpc { error, .. }) if error.code == VISIT_REQUIRED => {
                let visits = error.data.as_ref()?["elicitations"].as_array()?;
                let visits = visits.iter().enumerate().map(|(at, params)| {
                    let request = json!({ "method": "elicitation/create", "params": params });
                    (at.to_string(), request)
                });
                let requests: Map<String, Value> = visits.collect();
                (!requests.is_empty()).then_some(CallInput {
                    requests,
                    state: None,
                    is_visit: true,
                })
            }
            Ok(_) | Err(_) => None,
        }
    }
}

/// Returns the IDs of all possible rounds of a request.
pub fn rounds_of(id: &str) -> impl Iterator<Item = String> + '_ {
    (1..=ROUNDS_MAX).map(move |round| round_id(id, round))
}

/// Returns the ID of a round of a request.
fn round_id(id: &str, round: usize) -> String {
    match round {
        1 => id.to_string(),
        round => format!("{id}:{round}"),
    }
}

fn task_of(fate: io::Result<ServerOutcome>) -> io::Result<Option<Task>> {
    let ServerOutcome::Answered(line) = fate? else {
        return Ok(None);
    };
    let answer = message::read_answer(&line).and_then(Result::ok);
    Ok(answer.and_then(|answer| match result::read(&answer) {
        Called::Task(task) => Some(task),
        Called::Done(_) | Called::NotSupported(_) => None,
    }))
}

fn forgotten(task: &Task, said: &str) -> String {
    let kept = match task.ttl_ms {
        Some(ms) => format!(", which it keeps for {ms} ms"),
        None => String::new(),
    };
    format!(
        "the server does not know the task {:?} any more{kept}: {said}",
        super::clean(&task.id, 100)
    )
}
