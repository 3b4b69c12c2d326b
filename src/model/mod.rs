//! Models: wire protocols over HTTP, and the scripted model.
//!
//! A request produces deltas while it runs, and one complete [`Reply`] at the end.
//!
//! Invariant: nothing here is stored, and nothing waits for anything but the model. The future of
//! a call may be dropped at any time; that ends the request.

mod answer;
pub(crate) mod anthropic;
pub mod broken_try;
pub mod catalogue;
pub mod discover;
mod effort;
pub(crate) mod errors;
pub(crate) mod gemini;
mod gemini_schema;
mod halves;
pub(crate) mod http;
mod image;
mod key_trial;
mod known;
mod list;
mod names;
mod no_model;
pub mod offered;
pub(crate) mod openai_chat;
pub(crate) mod openai_responses;
mod plain;
mod post;
pub mod provider;
mod read;
mod registry;
pub mod retirement;
pub mod retry;
pub mod schema;
pub(crate) mod script;
mod structured;
pub mod target;
#[cfg(test)]
mod test_samples;
mod text_calls;
mod timeouts;
mod too_long;
mod wait;
mod window;
pub mod wire;

pub use key_trial::KeyTrial;
pub use known::{KnownModel, known_models, models_json};
pub use registry::{Figures, Models, WindowFrom};
pub use window::ServerFacts;

use futures_util::future::Either;

use crate::core::entry::{Block, Failure, StopReason, Usage};
use crate::core::request::Request;

/// A piece of an answer while it streams. It is shown and stored as a draft, never as an entry.
#[derive(Debug, Clone, PartialEq)]
pub enum Delta {
    /// A piece of the text for the user.
    Text(String),
    Thinking(String),
    /// Start of a call. Its arguments follow with the complete answer.
    Call {
        name: String,
    },
    /// The tokens of the answer so far: those that the server reports, and an estimate of the rest
    /// of the answer. No screen gets it.
    Usage(Usage),
    /// The stream broke and the request is sent again. The deltas so far are void.
    Retry {
        /// The pause before the request is sent again, milliseconds.
        after_ms: u64,
        /// Time of the next try: UTC, milliseconds since 1970.
        until_ms: i64,
        /// Reason why the last try failed.
        failure: Failure,
    },
}

/// A complete answer.
#[derive(Debug, Clone, PartialEq)]
pub struct Reply {
    /// Blocks in the order in which the model produced them.
    pub blocks: Vec<Block>,
    /// Token counts of the provider, 0 for those that it does not report.
    pub usage: Usage,
    /// Reason for the end of the answer.
    pub stop: StopReason,
    /// The model wrote its calls as text.
    pub has_text_calls: bool,
}

/// A model that can answer requests.
#[derive(Debug, Clone)]
pub enum Backend {
    /// A server over HTTP.
    Http(http::Client, provider::Provider),
    /// Answers from a file, for tests and the demo.
    Script(script::Script),
}

impl Backend {
    /// Sends the request. Images are read before this returns, so the future does not use the
    /// store.
    pub fn call<'a>(
        &'a self,
        request: &'a Request,
        blobs: target::Blobs<'_>,
        on: &'a mut (dyn FnMut(Delta) + Send),
    ) -> impl Future<Output = Result<Reply, Failure>> + Send + use<'a> {
        match self {
            Backend::Http(client, provider) => {
                Either::Left(client.call(provider, request, blobs, on))
            }
            Backend::Script(script) => Either::Right(script.call(request, on)),
        }
    }
}

/// Splits `provider/model`. The model's own name may contain slashes.
pub fn split_name(model: &str) -> Option<(&str, &str)> {
    let (provider, name) = model.split_once('/')?;
    (!provider.is_empty() && !name.is_empty()).then_some((provider, name))
}
