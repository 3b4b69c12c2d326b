//! A trial of a key that a person typed, before it is stored. It requests the provider's list of
//! models, which costs nothing.
//!
//! Source for OpenRouter, whose list is public: `GET /api/v1/key` describes the key.

use std::time::Duration;

use reqwest::Url;

use super::http::Client;
use super::provider::Provider;
use super::{offered, window};
use crate::core::entry::FailureClass;

/// Time limit, because a person waits for it.
const PATIENCE: Duration = Duration::from_secs(5);

/// The result of a trial.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KeyTrial {
    Accepted,
    /// The provider refused the key, with this message.
    Refused(String),
    /// Nobody can say, for this reason.
    NotTried(String),
}

/// Tries the key of this provider once.
pub(super) async fn try_key(client: &Client, provider: &Provider) -> KeyTrial {
    let list = window::list_url(provider.protocol, &provider.base_url, "");
    let (url, is_list) = match list {
        Some(url) if url.domain() == Some("openrouter.ai") => (of_key(&provider.base_url), false),
        list => (list, true),
    };
    let Some(url) = url else {
        return KeyTrial::NotTried(format!("{} has no list of models", provider.name));
    };
    match tokio::time::timeout(PATIENCE, client.json(provider, &url)).await {
        Ok(Ok(answer)) if is_list && !offered::has_models(&answer) => KeyTrial::NotTried(format!(
            "the answer of {} is not a list of models, or empty",
            provider.name
        )),
        Ok(Ok(_)) => KeyTrial::Accepted,
        Ok(Err(failure)) if failure.class == FailureClass::Auth => {
            KeyTrial::Refused(failure.message)
        }
        Ok(Err(failure)) => KeyTrial::NotTried(failure.message),
        Err(_) => KeyTrial::NotTried(format!(
            "{} did not answer within {} s",
            provider.name,
            PATIENCE.as_secs()
        )),
    }
}

fn of_key(base_url: &str) -> Option<Url> {
    window::at(&Url::parse(base_url).ok()?, &["key"])
}
