//! A request to a model in no provider's form. The protocols in `crate::model` put it on the
//! wire.

use serde_json::Value;

use super::choice::Effort;
use super::entry::{BlobRef, ToolSpec};

/// Made by [`super::prompt::request`], and for summaries by [`super::summary::request`].
#[derive(Debug, Clone, PartialEq)]
pub struct Request {
    /// `provider/model`.
    pub model: String,
    /// Layer 1: the system prompt.
    pub system: String,
    /// Layer 1: the tools.
    pub tools: Vec<ToolSpec>,
    /// Layer 2: instructions. May be empty. Sent as a second system text.
    pub instructions: String,
    /// Roles alternate, the first is the user's, the last is the user's.
    pub messages: Vec<Message>,
    /// Room for the answer, tokens.
    pub max_tokens: u64,
    /// How hard the model is to think.
    pub effort: Effort,
    pub temperature: Option<f64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    User,
    Assistant,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Message {
    pub role: Role,
    pub parts: Vec<Part>,
    /// The provider may cache everything up to here.
    pub cache: bool,
}

#[derive(Debug, Clone, PartialEq)]
pub enum Part {
    /// Never empty.
    Text {
        text: String,
        signature: Option<String>,
    },
    /// The bytes are in the blobs of the store.
    Image { media_type: String, blob: BlobRef },
    /// Only in the messages of the model that made it.
    Thinking { text: String, sealed: Option<Value> },
    Call {
        /// Ours ([`super::entry::CallId::wire`]); unique.
        id: String,
        /// The one that the model's provider gave, for protocols that want it back: only in
        /// the messages of the model that made the call, and never twice in one answer.
        given_id: Option<String>,
        name: String,
        /// Always an object.
        arguments: Value,
        signature: Option<String>,
    },
    /// The one result of the call with this id. In a user message, before everything else.
    Result {
        id: String,
        /// As in the call.
        given_id: Option<String>,
        name: String,
        text: String,
        images: Vec<(String, BlobRef)>,
        is_error: bool,
    },
}
