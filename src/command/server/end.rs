//! The end of a server, as its keeper records it.

use serde::{Deserialize, Serialize};

use crate::command::lease::LEASE_ENDED;
use crate::command::status::How;
use crate::store::now_ms;

const WHY_MAX_CHARS: usize = 500;

/// The record in the run folder's `status`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct ServerEnd {
    #[serde(flatten)]
    pub how: How,
    pub ended_at_ms: i64,
    /// How far the server read `in`: it has no byte after that place.
    pub handed: Option<u64>,
}

impl ServerEnd {
    pub(super) fn not_run(why: String) -> ServerEnd {
        ServerEnd {
            how: How::NotRun(why.chars().take(WHY_MAX_CHARS).collect()),
            ended_at_ms: now_ms(),
            handed: Some(0),
        }
    }
}

/// Describes in words how a server ended.
pub fn describe(how: &How) -> String {
    match how {
        How::Exited(code) => format!("it exited with code {code}"),
        How::Signalled(signal) => format!("it was ended by signal {signal}"),
        How::TimedOut | How::Stopped => "it was stopped".to_string(),
        How::LeaseEnded => LEASE_ENDED.to_string(),
        How::NotRun(why) => why.clone(),
        How::Lost { .. } => "its keeper was killed, or the machine went down".to_string(),
    }
}
