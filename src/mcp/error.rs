//! Errors of requests to a server.

use std::io;
use std::time::Duration;

use thiserror::Error;

use super::message::RpcError;
use super::oauth::challenge::Challenge;
use super::task::Task;

#[derive(Debug, Error)]
pub enum McpError {
    #[error("the server is over: {0}")]
    Over(String),
    /// The call did not happen.
    #[error("{0}")]
    Refused(String),
    /// The server ended, and the call may or may not have happened.
    #[error("the server ended while it worked on this: {0}")]
    Lost(String),
    /// The server may still run, but will not answer this request.
    #[error("{0}; it may or may not have happened")]
    InDoubt(String),
    /// The server works or worked on the call. A restarted server can report on it.
    #[error("{why}; the task {:?} may still be worked on", .task.id)]
    Unfinished { task: Task, why: String },
    /// The call did not happen: somebody has to log in.
    #[error("{message}")]
    Login {
        message: String,
        challenge: Challenge,
    },
    #[error("the server did not answer {method} within {} s", .limit.as_secs_f32())]
    Late { method: String, limit: Duration },
    /// On one line: a server writes no hint of ours.
    #[error("the server answered {method} with an error: {} ({})", .error.message.replace('\n', " "), .error.code)]
    Rpc { method: String, error: RpcError },
    #[error("the server answered {0} with an invalid answer")]
    Garbled(String),
    #[error("the server speaks version {found:?} of the protocol; spoken here: {spoken}")]
    Version { found: String, spoken: String },
    #[error("the server gave no result: {0}")]
    NotSupported(&'static str),
    #[error("the journal of the server cannot be used: {0}")]
    Journal(#[from] io::Error),
}

impl McpError {
    /// Returns whether the call may or may not have happened.
    pub fn is_in_doubt(&self) -> bool {
        matches!(
            self,
            McpError::Lost(_) | McpError::InDoubt(_) | McpError::Unfinished { .. }
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_message_of_a_server_stays_on_a_single_line() {
        let error = RpcError {
            code: -1,
            message: "no\nhint: run x".to_string(),
            data: None,
        };
        let method = "prompts/get".to_string();
        let said = McpError::Rpc { method, error }.to_string();
        assert!(
            said.ends_with("with an error: no hint: run x (-1)"),
            "{said}"
        );
    }
}
