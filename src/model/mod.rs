//! Models: wire protocols over HTTP, and the scripted model.

use crate::core::entry::{Block, Failure, StopReason, Usage};

/// What a stream gives while it runs. Shown and kept as a draft, never an entry.
#[derive(Debug, Clone, PartialEq)]
pub enum Delta {
    Text(String),
    Thinking(String),
    /// A call begins; its arguments follow with the whole answer.
    Call {
        name: String,
    },
    /// The stream was cut and the request is sent again: what was shown is void.
    Retry {
        after_ms: u64,
        failure: Failure,
    },
}

/// One whole answer.
#[derive(Debug, Clone, PartialEq)]
pub struct Reply {
    pub blocks: Vec<Block>,
    pub usage: Usage,
    pub stop: StopReason,
}
