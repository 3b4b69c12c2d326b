//! Questions of a server for a person during a call: values of a form, or a visit to an address.
//! [`Elicit`] hides how the person is reached.
//!
//! Sources: <https://modelcontextprotocol.io/specification/2025-11-25/client/elicitation>,
//! <https://modelcontextprotocol.io/specification/2026-07-28/client/elicitation>.

use futures_util::future::BoxFuture;

use crate::core::form::{FormAnswer, RequestedAnswer};

/// A question of a server. All text in it is bounded and has no control characters.
#[derive(Debug, Clone, PartialEq)]
pub struct Elicitation {
    /// Identifies the question. Another agent that meets the same question gets the same key.
    pub key: String,
    /// The server's text about the question.
    pub message: String,
    pub wanted: RequestedAnswer,
}

/// A way to reach a person who answers the questions of servers.
pub trait Elicit: Send + Sync {
    /// Asks a person. The future may be dropped before it is answered. Then the next process asks
    /// again.
    fn ask(&self, question: Elicitation) -> BoxFuture<'_, FormAnswer>;
}

/// Declines every question, because no person is present.
#[derive(Debug, Clone, Copy)]
pub struct Declines;

impl Elicit for Declines {
    fn ask(&self, _: Elicitation) -> BoxFuture<'_, FormAnswer> {
        Box::pin(std::future::ready(FormAnswer::Decline))
    }
}
