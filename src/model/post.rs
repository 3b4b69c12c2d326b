//! The HTTP form of a request: address, headers, body. It is built once, so every try sends the
//! same bytes.
//!
//! Invariant: what is wrong with the configuration is found here, before anything is sent.

use std::borrow::Cow;

use bytes::Bytes;
use reqwest::Url;
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};

use super::list::MessageCache;
use super::provider::Provider;
use super::split_name;
use super::target::{Blobs, Target};
use super::wire::Codec;
use crate::core::entry::{Failure, FailureClass};
use crate::core::request::Request;

pub(super) struct Post {
    pub codec: Codec,
    /// The name without the provider.
    pub model: String,
    pub url: Url,
    pub headers: HeaderMap,
    pub body: Bytes,
    /// The server has answered in this session.
    pub has_answered: bool,
}

impl Post {
    pub(super) fn new(
        provider: &Provider,
        request: &Request,
        blobs: Blobs,
        kept: &mut MessageCache,
    ) -> Result<Post, Failure> {
        let name = &provider.name;
        let Some(codec) = provider.protocol.codec() else {
            return Err(bad_request(format!(
                "the protocol of {name} is not one over HTTP"
            )));
        };
        let Some((_, model)) = split_name(&request.model) else {
            return Err(bad_request(format!(
                "{:?} is not of the form provider/model",
                request.model
            )));
        };
        let base_url = with_model(&provider.base_url, model);
        let Some(url) = codec.url(&base_url, model) else {
            // The address is not repeated, because it may contain a password instead of a host.
            let mut failure = bad_request(format!("the base_url of {name} is not an HTTP address"));
            failure.hint = Some("it begins with http:// or https://".to_string());
            return Err(failure);
        };
        let target = Target {
            model,
            stream: true,
            thinking_budget: provider.thinking_budget,
            quirks: &provider.quirks,
        };
        let body = codec.json(request, &target, blobs, kept);
        let body = body.map_err(|e| bad_request(format!("writing the request to {name}: {e}")))?;
        Ok(Post {
            codec,
            model: model.to_string(),
            url,
            headers: headers(codec, provider)?,
            body: body.into(),
            has_answered: request.has_answered,
        })
    }
}

/// Returns the address for a server that has a separate one for each model.
fn with_model<'a>(base_url: &'a str, model: &str) -> Cow<'a, str> {
    const PLACE: &str = "{model}";
    if !base_url.contains(PLACE) {
        return Cow::Borrowed(base_url);
    }
    // The name becomes one segment of the path.
    let plain = |b: &u8| b.is_ascii_alphanumeric() || b"-._~".contains(b);
    let segment: String = model
        .bytes()
        .map(|b| {
            if plain(&b) {
                char::from(b).to_string()
            } else {
                format!("%{b:02X}")
            }
        })
        .collect();
    Cow::Owned(base_url.replace(PLACE, &segment))
}

pub(super) fn headers(codec: Codec, provider: &Provider) -> Result<HeaderMap, Failure> {
    let mut headers = HeaderMap::new();
    headers.insert("content-type", HeaderValue::from_static("application/json"));
    headers.insert("accept", HeaderValue::from_static("text/event-stream"));
    if codec == Codec::Anthropic {
        headers.insert("anthropic-version", HeaderValue::from_static("2023-06-01"));
    }
    // Without a configured key, none is required, or a header of the user contains it. A missing
    // key is reported when the provider is created.
    let key = provider.key.as_ref().map(|key| key.expose().trim());
    if let Some(key) = key.filter(|key| !key.is_empty()) {
        let (name, before) = match &provider.quirks.key_header {
            Some(name) => (
                HeaderName::try_from(name).map_err(|_| bad_key(provider))?,
                "",
            ),
            None => {
                let (name, before) = codec.key_header();
                (HeaderName::from_static(name), before)
            }
        };
        let value = HeaderValue::from_str(&format!("{before}{key}"));
        let mut value = value.map_err(|_| bad_key(provider))?;
        value.set_sensitive(true);
        headers.insert(name, value);
    }
    for (name, value) in &provider.headers {
        let pair = HeaderName::try_from(name)
            .ok()
            .zip(HeaderValue::from_str(value).ok());
        let Some((key, mut value)) = pair else {
            let message = format!("the header {name:?} of {} cannot be sent", provider.name);
            return Err(bad_request(message));
        };
        value.set_sensitive(true);
        headers.insert(key, value);
    }
    Ok(headers)
}

fn bad_key(provider: &Provider) -> Failure {
    Failure {
        class: FailureClass::Auth,
        message: format!("the key for {} cannot be sent in a header", provider.name),
        hint: Some(format!("it is read from {}", provider.key_env)),
    }
}

fn bad_request(message: String) -> Failure {
    Failure::new(FailureClass::BadRequest, message)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Quirks;
    use crate::config::{ANSWER_TIMEOUT_MS, IDLE_TIMEOUT_MS, PROGRESS_TIMEOUT_MS};
    use crate::core::choice::Effort;
    use crate::model::provider::Secret;
    use crate::model::wire::Protocol;

    fn provider() -> Provider {
        Provider {
            name: "anthropic".into(),
            protocol: Protocol::Anthropic,
            base_url: "https://api.example".into(),
            key: Some(Secret::new(" sk-12345678\n")),
            key_env: "ANTHROPIC_API_KEY".into(),
            headers: vec![],
            idle_timeout_ms: IDLE_TIMEOUT_MS,
            progress_timeout_ms: PROGRESS_TIMEOUT_MS,
            answer_timeout_ms: ANSWER_TIMEOUT_MS,
            thinking_budget: None,
            quirks: Quirks::NONE,
        }
    }

    fn request(model: &str) -> Request {
        Request {
            model: model.into(),
            system: "s".into(),
            tools: vec![],
            instructions: String::new(),
            messages: vec![],
            max_tokens: 100,
            effort: Effort::Default,
            temperature: None,
            answers: 0,
            has_answered: false,
            schema: None,
        }
    }

    fn post(provider: &Provider) -> Result<Post, Failure> {
        Post::new(
            provider,
            &request("anthropic/claude-x"),
            &|_| None,
            &mut MessageCache::default(),
        )
    }

    #[test]
    fn the_key_goes_into_the_header_of_the_protocol() {
        let mut provider = provider();
        assert_eq!(post(&provider).unwrap().headers["x-api-key"], "sk-12345678");
        provider.protocol = Protocol::OpenaiChat;
        let headers = post(&provider).unwrap().headers;
        assert_eq!(headers["authorization"], "Bearer sk-12345678");
        provider.headers = vec![("Authorization".into(), "Token x".into())];
        assert_eq!(post(&provider).unwrap().headers["authorization"], "Token x");
    }

    #[test]
    fn an_address_may_hold_the_model_and_the_key_another_header() {
        let mut provider = provider();
        provider.protocol = Protocol::OpenaiChat;
        provider.base_url = "https://r.example/openai/deployments/{model}?api-version=1".into();
        provider.quirks.key_header = Some("api-key".into());
        let made = |model: &str| {
            Post::new(
                &provider,
                &request(model),
                &|_| None,
                &mut MessageCache::default(),
            )
            .unwrap()
        };
        let post = made("azure/my-gpt");
        assert_eq!(
            post.url.as_str(),
            "https://r.example/openai/deployments/my-gpt/chat/completions?api-version=1"
        );
        assert_eq!(post.headers["api-key"], "sk-12345678");
        assert!(!post.headers.contains_key("authorization"));
        assert!(made("azure/../a?b").url.path().contains("/..%2Fa%3Fb/"));
    }

    #[test]
    fn without_a_key_no_header_for_one_is_sent() {
        let mut provider = provider();
        for key in [None, Some(Secret::new("")), Some(Secret::new(" \n"))] {
            provider.key = key;
            for protocol in [
                Protocol::Anthropic,
                Protocol::OpenaiResponses,
                Protocol::OpenaiChat,
                Protocol::Gemini,
            ] {
                provider.protocol = protocol;
                let headers = post(&provider).unwrap().headers;
                let (name, _) = protocol.codec().unwrap().key_header();
                assert!(!headers.contains_key(name), "{protocol:?}");
            }
        }
    }

    #[test]
    fn config_errors_contain_no_secrets() {
        let with = |change: fn(&mut Provider)| {
            let mut provider = provider();
            change(&mut provider);
            let failure = post(&provider).err().unwrap();
            let said = format!("{} {:?}", failure.message, failure.hint);
            assert!(!said.contains("12345678"), "{said}");
            said
        };
        assert!(with(|p| p.base_url = "user:sk-12345678@host".into()).contains("base_url"));
        assert!(with(|p| p.key = Some(Secret::new("sk-12345678\u{7f}x"))).contains("key"));
        assert!(with(|p| p.headers = vec![("a b".into(), "12345678".into())]).contains("a b"));
        assert!(with(|p| p.protocol = Protocol::Script).contains("protocol"));
        let failure = Post::new(
            &provider(),
            &request("claude"),
            &|_| None,
            &mut MessageCache::default(),
        );
        assert!(failure.err().unwrap().message.contains("provider/model"));
    }
}
