//! Models: wire protocols over HTTP, and the scripted model.
//!
//! One request goes in, deltas come out while it runs, one whole [`Reply`] at the end.
//!
//! Invariant: nothing here is stored, and nothing waits for anything but the model. The
//! future of a call may be dropped at any time; that ends the request.

mod answer;
pub(crate) mod anthropic;
pub(crate) mod catalogue;
pub(crate) mod discover;
mod effort;
pub(crate) mod errors;
pub(crate) mod gemini;
mod gemini_schema;
pub(crate) mod http;
mod image;
mod list;
mod names;
pub(crate) mod openai_chat;
pub(crate) mod openai_responses;
mod patience;
mod plain;
mod post;
pub(crate) mod provider;
mod read;
mod registry;
pub(crate) mod retry;
#[cfg(test)]
mod samples;
pub(crate) mod schema;
pub(crate) mod script;
mod structured;
pub mod target;
mod too_long;
mod wait;
mod window;
pub mod wire;

pub use registry::{Figures, Models, WindowFrom};

use futures_util::future::Either;

use crate::core::entry::{Block, Failure, StopReason, Usage};
use crate::core::request::Request;

/// What a stream gives while it runs. Shown and kept as a draft, never an entry.
#[derive(Debug, Clone, PartialEq)]
pub enum Delta {
    /// A piece of the words for the user.
    Text(String),
    Thinking(String),
    /// A call begins; its arguments follow with the whole answer.
    Call {
        name: String,
    },
    /// The stream was cut and the request is sent again: what was shown is void.
    Retry {
        /// The pause before the request is sent again, milliseconds.
        after_ms: u64,
        /// When it is sent: UTC, milliseconds since 1970.
        until_ms: i64,
        /// What broke the last try.
        failure: Failure,
    },
}

/// One whole answer.
#[derive(Debug, Clone, PartialEq)]
pub struct Reply {
    /// In the order the model gave them.
    pub blocks: Vec<Block>,
    /// What the provider counted. 0 where it counted nothing.
    pub usage: Usage,
    /// Why the answer ended.
    pub stop: StopReason,
}

/// A model that can be asked.
#[derive(Debug, Clone)]
pub enum Backend {
    /// A server that is asked over HTTP.
    Http(http::Client, provider::Provider),
    /// Answers from a file, for tests and the demo.
    Script(script::Script),
}

impl Backend {
    /// Images are read before this returns; what it returns holds no store.
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

/// `provider/model` -> provider, model. The model's own name may have slashes.
pub fn split_name(model: &str) -> Option<(&str, &str)> {
    let (provider, name) = model.split_once('/')?;
    (!provider.is_empty() && !name.is_empty()).then_some((provider, name))
}
