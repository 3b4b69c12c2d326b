//! A request to a model, independent of a provider. The protocols in `crate::model` convert it for
//! the wire.

use std::sync::Arc;

use serde_json::Value;

use super::budget::BYTES_PER_TOKEN;
use super::choice::Effort;
use super::entry::{BlobRef, ToolSpec};
use super::size::{self, IMAGE_BYTES, PART_BYTES};

/// A request, built by [`super::prompt::request`], and for summaries by
/// [`super::summary::request`].
#[derive(Debug, Clone, Default, PartialEq)]
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
    /// Reasoning effort of the model.
    pub effort: Effort,
    pub temperature: Option<f64>,
    /// Number of answers in the log before this one. Only a scripted model uses it.
    pub answers: u64,
    /// The provider has answered in this session, so it is waited for while it is away.
    pub has_answered: bool,
    /// The JSON Schema for the answer, which each protocol sends in its own form.
    pub schema: Option<Value>,
}

impl Request {
    /// Estimates the tokens of the prompt.
    pub fn estimated_tokens(&self) -> u64 {
        let tools: usize = self.tools.iter().map(size::tool_bytes).sum();
        let parts = self.messages.iter().flat_map(|m| m.parts.iter());
        let messages: usize = parts.map(MessagePart::estimated_bytes).sum();
        let bytes = self.system.len() + self.instructions.len() + tools + messages;
        (bytes as f64 / BYTES_PER_TOKEN).ceil() as u64
    }

    /// Returns a request with one message of the user, without tools.
    pub fn of_text(model: String, system: String, text: String, max_tokens: u64) -> Request {
        Request {
            model,
            system,
            messages: vec![Message {
                role: Role::User,
                parts: vec![plain(text)].into(),
                cache: false,
            }],
            max_tokens,
            ..Request::default()
        }
    }
}

/// Returns a part of text without a signature.
pub(super) fn plain(text: String) -> MessagePart {
    MessagePart::Text {
        text,
        signature: None,
    }
}

/// Author of a message. Results of tools are in messages of the user.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    User,
    Assistant,
}

/// One message of a request: consecutive content of one author.
#[derive(Debug, Clone, PartialEq)]
pub struct Message {
    pub role: Role,
    /// The parts, shared with the previous request if it had the same.
    pub parts: Arc<Vec<MessagePart>>,
    /// The provider may cache everything up to here.
    pub cache: bool,
}

/// A part of a message. Which parts a provider takes, and how, is known to its protocol.
#[derive(Debug, Clone, PartialEq)]
pub enum MessagePart {
    /// Never empty.
    Text {
        text: String,
        /// As [`super::entry::Block::Text`] keeps it. Only in the messages of the model that
        /// made it.
        signature: Option<String>,
    },
    /// The bytes are in the blobs of the store.
    Image { media_type: String, blob: BlobRef },
    /// Only in the messages of the model that made it.
    Thinking { text: String, sealed: Option<Value> },
    /// A call of a tool, in a message of the model.
    Call {
        /// Ours ([`super::entry::CallId::wire`]); unique.
        id: String,
        /// The one that the model's provider gave, for protocols that want it back: only in
        /// the messages of the model that made the call, and never twice in one answer.
        given_id: Option<String>,
        name: String,
        /// Always an object.
        arguments: Value,
        /// As [`super::entry::Block::Call`] keeps it. Only in the messages of the model that
        /// made it.
        signature: Option<String>,
    },
    /// The one result of the call with this id. In a user message, before everything else.
    Result {
        /// As in the call ([`super::entry::CallId::wire`]).
        id: String,
        /// As in the call.
        given_id: Option<String>,
        /// The name of the tool, as in the call.
        name: String,
        /// The text for the model.
        text: String,
        /// Each with its media type. Their bytes are in the blobs of the store.
        images: Vec<(String, BlobRef)>,
        /// The call failed, was denied or was cut short.
        is_error: bool,
    },
}

impl MessagePart {
    fn estimated_bytes(&self) -> usize {
        let content = match self {
            MessagePart::Text { text, .. } | MessagePart::Thinking { text, .. } => text.len(),
            MessagePart::Image { .. } => IMAGE_BYTES,
            MessagePart::Call {
                name, arguments, ..
            } => name.len() + arguments.to_string().len(),
            MessagePart::Result { text, images, .. } => text.len() + images.len() * IMAGE_BYTES,
        };
        content + PART_BYTES
    }
}
