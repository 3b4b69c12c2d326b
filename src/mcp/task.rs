//! A call that a server answers with a task (`io.modelcontextprotocol/tasks`), which is polled
//! until it is done. The answer of the call contains the task's ID and is in the journal, so the
//! next agent continues to poll.
//!
//! Source: <https://github.com/modelcontextprotocol/ext-tasks>, 2026-07-28.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::clean;
use super::message::RpcError;

pub const EXTENSION: &str = "io.modelcontextprotocol/tasks";

const ID_MAX_BYTES: usize = 1024;
const MESSAGE_MAX_BYTES: usize = 2048;

const POLL: Duration = Duration::from_secs(1);
const POLL_MIN: Duration = Duration::from_millis(50);
const POLL_MAX: Duration = Duration::from_secs(60);

/// A task of a server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Task {
    pub id: String,
    /// Time that the server stores the task. `None`: unlimited or unknown.
    pub ttl_ms: Option<u64>,
    /// Interval between status requests.
    pub poll_ms: u64,
}

/// The status of a task.
#[derive(Debug, Clone, PartialEq)]
pub enum Status {
    Working,
    /// The task waits for answers to these questions.
    Waiting(Map<String, Value>),
    /// The task is done, with the result of the call.
    Done(Value),
    Failed(RpcError),
    Cancelled(String),
    /// The status is unknown.
    Garbled,
}

impl Task {
    /// Reads a task from the answer to a call or to `tasks/get`.
    pub fn read(result: &Value) -> Option<Task> {
        let id = result["taskId"].as_str()?;
        let is_usable = !id.is_empty() && id.len() <= ID_MAX_BYTES;
        let poll = result["pollIntervalMs"].as_u64().map(Duration::from_millis);
        let poll = poll.unwrap_or(POLL).clamp(POLL_MIN, POLL_MAX);
        is_usable.then(|| Task {
            id: id.to_string(),
            ttl_ms: result["ttlMs"].as_u64(),
            poll_ms: u64::try_from(poll.as_millis()).unwrap_or(u64::MAX),
        })
    }

    /// Returns the pause before the next status request. A task that the server stores for no time
    /// is requested at once the first time.
    pub fn pause(&self, is_first: bool) -> Duration {
        match self.ttl_ms {
            Some(0) if is_first => Duration::ZERO,
            Some(0) => POLL_MIN,
            _ => Duration::from_millis(self.poll_ms),
        }
    }
}

/// Reads the answer to `tasks/get`.
pub fn status(result: &Value) -> Status {
    let said = || {
        let said = result["statusMessage"].as_str().unwrap_or_default();
        clean(said, MESSAGE_MAX_BYTES)
    };
    match result["status"].as_str().unwrap_or_default() {
        "working" => Status::Working,
        "input_required" => Status::Waiting(
            result["inputRequests"]
                .as_object()
                .cloned()
                .unwrap_or_default(),
        ),
        "completed" => Status::Done(result["result"].clone()),
        "failed" => {
            let error = serde_json::from_value::<RpcError>(result["error"].clone()).ok();
            let mut error = error.unwrap_or_else(|| RpcError {
                code: 0,
                message: said(),
                data: None,
            });
            error.message = clean(&error.message, MESSAGE_MAX_BYTES);
            Status::Failed(error)
        }
        "cancelled" => Status::Cancelled(said()),
        _ => Status::Garbled,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_task_is_asked_about_as_often_as_the_server_wants_within_bounds() {
        let read = |poll: Value, ttl: Value| {
            Task::read(&json!({ "taskId": "t", "pollIntervalMs": poll, "ttlMs": ttl }))
                .unwrap()
                .pause(true)
        };
        assert_eq!(read(json!(2000), json!(null)), Duration::from_secs(2));
        assert_eq!(read(json!(0), json!(9)), POLL_MIN);
        assert_eq!(read(json!(9_999_999), json!(9)), POLL_MAX);
        assert_eq!(read(json!(null), json!(9)), POLL);
        assert_eq!(read(json!(2000), json!(0)), Duration::ZERO);
        let kept_no_time = json!({ "taskId": "t", "pollIntervalMs": 0, "ttlMs": 0 });
        let kept_no_time = Task::read(&kept_no_time).unwrap();
        assert_eq!(kept_no_time.pause(false), POLL_MIN);
        for none in [
            json!({}),
            json!({ "taskId": "" }),
            json!({ "taskId": "x".repeat(5000) }),
        ] {
            assert_eq!(Task::read(&none), None);
        }
    }

    #[test]
    fn every_status_is_told_apart() {
        assert_eq!(status(&json!({ "status": "working" })), Status::Working);
        let done = json!({ "status": "completed", "result": { "content": [] } });
        assert_eq!(status(&done), Status::Done(json!({ "content": [] })));
        let failed = json!({ "status": "failed", "error": { "code": -1, "message": "no\u{7}" } });
        assert!(matches!(status(&failed), Status::Failed(e) if e.message == "no" && e.code == -1));
        let failed = json!({ "status": "failed", "statusMessage": "out of memory" });
        assert!(matches!(status(&failed), Status::Failed(e) if e.message == "out of memory"));
        let cancelled = json!({ "status": "cancelled", "statusMessage": "by you" });
        assert_eq!(status(&cancelled), Status::Cancelled("by you".into()));
        assert_eq!(status(&json!({})), Status::Garbled);
        let waiting = json!({ "status": "input_required", "inputRequests": { "a": {} } });
        assert!(matches!(status(&waiting), Status::Waiting(asked) if asked.len() == 1));
    }
}
