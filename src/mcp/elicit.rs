//! What a server asks a person for in the middle of a call: values of a form, or a visit to an
//! address. Who answers is behind [`Elicit`].
//!
//! Sources: <https://modelcontextprotocol.io/specification/2025-11-25/client/elicitation>,
//! <https://modelcontextprotocol.io/specification/2026-07-28/client/elicitation>.

use futures_util::future::BoxFuture;
use serde_json::{Map, Value};

/// A question of a server. All text in it is bounded and has no control characters.
#[derive(Debug, Clone, PartialEq)]
pub struct Elicitation {
    /// The same for the same question, also when another agent comes upon it.
    pub key: String,
    /// What the server says of it.
    pub message: String,
    pub wanted: Wanted,
}

/// What the answer is to be.
#[derive(Debug, Clone, PartialEq)]
pub enum Wanted {
    Form(Vec<Field>),
    /// To be opened by the person, who says whether it is to be. Never opened unasked.
    Visit {
        url: String,
    },
}

/// A value that the form asks for.
#[derive(Debug, Clone, PartialEq)]
pub struct Field {
    pub name: String,
    /// What a person reads in place of the name; may be empty.
    pub title: String,
    pub description: String,
    pub is_required: bool,
    pub kind: FieldKind,
    /// Fits `kind`.
    pub default: Option<Value>,
}

#[derive(Debug, Clone, PartialEq)]
pub enum FieldKind {
    Text {
        min_chars: Option<u64>,
        max_chars: Option<u64>,
        /// `email`, `uri`, `date`, `date-time`, or what else the server names.
        format: Option<String>,
    },
    Number {
        is_integer: bool,
        min: Option<f64>,
        max: Option<f64>,
    },
    YesNo,
    /// One of these.
    OneOf(Vec<Choice>),
    /// Some of these.
    SomeOf {
        choices: Vec<Choice>,
        min: Option<u64>,
        max: Option<u64>,
    },
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Choice {
    /// What the server gets.
    pub value: String,
    /// What a person reads.
    pub label: String,
}

#[derive(Debug, Clone, PartialEq)]
pub enum ElicitAnswer {
    /// The values by the names of the fields; empty for a visit.
    Accept(Map<String, Value>),
    Decline,
    /// No answer: the question was closed.
    Cancel,
}

/// Who answers the questions of servers.
pub trait Elicit: Send + Sync {
    /// May be dropped before it is answered; then it is asked again by who comes next.
    fn ask(&self, question: Elicitation) -> BoxFuture<'_, ElicitAnswer>;
}

/// Nobody is there: every question is declined.
#[derive(Debug, Clone, Copy)]
pub struct Declines;

impl Elicit for Declines {
    fn ask(&self, _: Elicitation) -> BoxFuture<'_, ElicitAnswer> {
        Box::pin(std::future::ready(ElicitAnswer::Decline))
    }
}
