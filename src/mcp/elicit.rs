//! What a server asks a person for in the middle of a call: values of a form, or a visit to an
//! address. Who answers is behind [`Elicit`].
//!
//! Sources: <https://modelcontextprotocol.io/specification/2025-11-25/client/elicitation>,
//! <https://modelcontextprotocol.io/specification/2026-07-28/client/elicitation>.

use futures_util::future::BoxFuture;

use crate::core::form::{FormAnswer, Wanted};

/// A question of a server. All text in it is bounded and has no control characters.
#[derive(Debug, Clone, PartialEq)]
pub struct Elicitation {
    /// The same for the same question, also when another agent comes upon it.
    pub key: String,
    /// What the server says of it.
    pub message: String,
    pub wanted: Wanted,
}

/// Who answers the questions of servers.
pub trait Elicit: Send + Sync {
    /// May be dropped before it is answered; then it is asked again by who comes next.
    fn ask(&self, question: Elicitation) -> BoxFuture<'_, FormAnswer>;
}

/// Nobody is there: every question is declined.
#[derive(Debug, Clone, Copy)]
pub struct Declines;

impl Elicit for Declines {
    fn ask(&self, _: Elicitation) -> BoxFuture<'_, FormAnswer> {
        Box::pin(std::future::ready(FormAnswer::Decline))
    }
}
