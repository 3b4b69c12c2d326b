//! The context window of a model, as its server says it: asked once before the first request to
//! a model of which neither the config nor the catalogue knows anything.
//!
//! Sources: `/v1/models` of vLLM and SGLang (`max_model_len`), of OpenRouter, Groq, Mistral and
//! others (`context_length`, `context_window`, `max_context_length`), of Together (a list without
//! an object around it), of Anthropic (`max_input_tokens`); `/v1beta/models/MODEL` of Gemini
//! (`inputTokenLimit`); the same below another version (`/v4/models` of Z.ai); `/props` of llama.cpp
//! (`default_generation_settings.n_ctx`, which a slot has, where `/v1/models` says what the
//! model was trained with); `/api/v0/models` of LM Studio and `/api/ps` of Ollama (what is
//! loaded, not what could be).
//!
//! Invariant: it is asked for a short time, and nothing depends on an answer. A figure that is
//! wrong is corrected by the refusal of a request, as every other.

use std::time::Duration;

use reqwest::Url;
use serde_json::Value;

use super::http::Client;
use super::provider::Provider;
use crate::config::Protocol;

/// Time limit for all requests together, because the first message waits for it.
const PATIENCE: Duration = Duration::from_secs(2);

/// Range of plausible sizes.
const PLAUSIBLE: std::ops::RangeInclusive<u64> = 256..=100_000_000;

/// Returns the context window in tokens, or `None` if no server reports it.
pub(super) async fn ask(client: &Client, provider: &Provider, model: &str) -> Option<u64> {
    let asked = tokio::time::timeout(PATIENCE, questions(client, provider, model));
    asked.await.ok().flatten()
}

async fn questions(client: &Client, provider: &Provider, model: &str) -> Option<u64> {
    if let Some(url) = list_url(provider.protocol, &provider.base_url, model) {
        let list = client.json(provider, &url).await.ok();
        if let Some(window) = list.and_then(|list| listed(&list, model)) {
            return Some(window);
        }
    }
    let base = base(&provider.base_url)?;
    // The other addresses are for self-hosted servers.
    if base.scheme() != "http" {
        return None;
    }
    type Read = fn(&Value, &str) -> Option<u64>;
    let questions: [(&[&str], Read); 3] = [
        (&["props"], props),
        (&["api", "v0", "models"], loaded),
        (&["api", "ps"], running),
    ];
    for (path, read) in questions {
        let answer = client.json(provider, &at(&base, path)?).await.ok();
        if let Some(window) = answer.and_then(|answer| read(&answer, model)) {
            return Some(window);
        }
    }
    None
}

/// Returns the address of the provider's list of models, or `None`. An address with the name of a
/// deployment (Azure) has no list. Without a model it is the list, also with pages.
pub(super) fn list_url(protocol: Protocol, base_url: &str, model: &str) -> Option<Url> {
    if base_url.contains("{model}") {
        return None;
    }
    let url = Url::parse(base_url).ok()?;
    let version: &[&str] = match (has_version(&url), protocol) {
        (true, _) => &[],
        (false, Protocol::Gemini) => &["v1beta"],
        (false, _) => &["v1"],
    };
    let url = at(&at(&url, version)?, &["models"])?;
    match protocol {
        // The complete list has pages.
        Protocol::Gemini if !model.is_empty() => at(&url, &[model]),
        Protocol::Gemini => Some(url),
        Protocol::Script => None,
        Protocol::Anthropic | Protocol::OpenaiChat | Protocol::OpenaiResponses => Some(url),
    }
}

/// Returns whether the address ends with an API version: `v1`, `v1beta`, `v4`.
fn has_version(url: &Url) -> bool {
    let last = url.path().trim_end_matches('/').rsplit('/').next();
    let version = last.and_then(|last| last.strip_prefix('v'));
    version.is_some_and(|v| v.starts_with(|c: char| c.is_ascii_digit()))
}

/// Returns the address without the version of its protocol.
fn base(base_url: &str) -> Option<Url> {
    let mut url = Url::parse(base_url).ok()?;
    let has_version = has_version(&url);
    let mut path = url.path_segments_mut().ok()?;
    path.pop_if_empty();
    if has_version {
        path.pop();
    }
    drop(path);
    Some(url)
}

pub(super) fn at(base: &Url, path: &[&str]) -> Option<Url> {
    let mut url = base.clone();
    url.path_segments_mut().ok()?.pop_if_empty().extend(path);
    Some(url)
}

/// Returns the entry of a model, in a list under `data` or `models`, or in a top-level list.
fn entry<'a>(list: &'a Value, model: &str) -> Option<&'a Value> {
    let inner = list.get("data").or_else(|| list.get("models"));
    let list = inner.unwrap_or(list).as_array()?;
    let is_it = |entry: &&Value| {
        ["id", "name", "model"].iter().any(|key| {
            let name = entry.get(key).and_then(Value::as_str).unwrap_or("");
            name == model || name.strip_suffix(":latest") == Some(model)
        })
    };
    // A server with one model answers to any name.
    let only = list.first().filter(|_| list.len() == 1);
    list.iter().find(is_it).or(only)
}

fn listed(list: &Value, model: &str) -> Option<u64> {
    // Gemini returns only the entry of this model.
    let entry = entry(list, model).unwrap_or(list);
    let places = [
        "/max_model_len",
        "/meta/n_ctx",
        "/loaded_context_length",
        "/context_length",
        "/context_window",
        "/max_context_length",
        "/max_input_tokens",
        "/inputTokenLimit",
    ];
    places.iter().find_map(|at| tokens(entry.pointer(at)))
}

fn props(props: &Value, _model: &str) -> Option<u64> {
    let places = ["/default_generation_settings/n_ctx", "/n_ctx"];
    places.iter().find_map(|at| tokens(props.pointer(at)))
}

fn loaded(list: &Value, model: &str) -> Option<u64> {
    tokens(entry(list, model)?.get("loaded_context_length"))
}

fn running(list: &Value, model: &str) -> Option<u64> {
    tokens(entry(list, model)?.get("context_length"))
}

fn tokens(value: Option<&Value>) -> Option<u64> {
    value?.as_u64().filter(|tokens| PLAUSIBLE.contains(tokens))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::config::Config;

    #[test]
    fn every_server_is_understood() {
        let listed = |entry: Value| listed(&json!({ "object": "list", "data": [entry] }), "m");
        assert_eq!(
            listed(json!({ "id": "m", "max_model_len": 40_960 })),
            Some(40_960)
        );
        assert_eq!(
            listed(json!({ "id": "m", "context_length": 200_000 })),
            Some(200_000)
        );
        assert_eq!(
            listed(json!({ "id": "m", "context_window": 8_192 })),
            Some(8_192)
        );
        assert_eq!(
            super::listed(
                &json!([{ "id": "n" }, { "id": "m", "context_length": 8_192 }]),
                "m"
            ),
            Some(8_192)
        );
        assert_eq!(
            listed(json!({ "id": "m", "max_input_tokens": 200_000 })),
            Some(200_000)
        );
        let gemini = json!({ "name": "models/m", "inputTokenLimit": 1_048_576 });
        assert_eq!(super::listed(&gemini, "m"), Some(1_048_576));
        // What the model was trained with is not what it has.
        assert_eq!(
            listed(json!({ "id": "m", "meta": { "n_ctx_train": 131_072 } })),
            None
        );
        for nonsense in [
            json!(0),
            json!(-1),
            json!(1e300),
            json!("8192"),
            json!(null),
        ] {
            assert_eq!(
                listed(json!({ "id": "m", "max_model_len": nonsense })),
                None
            );
        }
        let llama = json!({ "default_generation_settings": { "n_ctx": 8_192 }, "total_slots": 4 });
        assert_eq!(props(&llama, "m"), Some(8_192));
        let studio = json!({ "data": [
            { "id": "other", "loaded_context_length": 1_000 },
            { "id": "m", "state": "loaded", "max_context_length": 131_072, "loaded_context_length": 16_384 },
        ]});
        assert_eq!(loaded(&studio, "m"), Some(16_384));
        let ollama = json!({ "models": [
            { "name": "m:latest", "context_length": 4_096 }, { "name": "n:7b", "context_length": 9_999 },
        ]});
        assert_eq!(running(&ollama, "m"), Some(4_096));
        assert_eq!(running(&ollama, "unknown"), None);
        assert_eq!(props(&json!([]), "m"), None);
    }

    /// As their manuals name them.
    #[test]
    fn every_provider_is_asked_where_it_lists_its_models() {
        let table = [
            ("anthropic", "https://api.anthropic.com/v1/models"),
            ("openai", "https://api.openai.com/v1/models"),
            (
                "gemini",
                "https://generativelanguage.googleapis.com/v1beta/models/m",
            ),
            ("openrouter", "https://openrouter.ai/api/v1/models"),
            ("ollama", "http://127.0.0.1:11434/v1/models"),
            ("azure", ""),
            ("cerebras", "https://api.cerebras.ai/v1/models"),
            ("deepseek", "https://api.deepseek.com/v1/models"),
            ("fireworks", "https://api.fireworks.ai/inference/v1/models"),
            ("groq", "https://api.groq.com/openai/v1/models"),
            ("mistral", "https://api.mistral.ai/v1/models"),
            ("moonshot", "https://api.moonshot.ai/v1/models"),
            ("together", "https://api.together.xyz/v1/models"),
            ("vercel", "https://ai-gateway.vercel.sh/v1/models"),
            ("xai", "https://api.x.ai/v1/models"),
            ("zai", "https://api.z.ai/api/paas/v4/models"),
        ];
        let config: Config = toml::from_str(
            "[providers.azure]\nbase_url = \"https://r.openai.azure.com\"\napi_version = \"2024-10-21\"",
        )
        .unwrap();
        let names: Vec<&str> = config.provider_names().into_iter().collect();
        assert_eq!(names.len(), table.len());
        for (name, want) in table {
            let provider = config.provider(name).unwrap();
            let url = list_url(provider.protocol, &provider.base_url, "m");
            assert_eq!(url.map(String::from).unwrap_or_default(), want, "{name}");
        }
        let own = |protocol, base: &str| list_url(protocol, base, "m").unwrap().to_string();
        assert_eq!(
            own(Protocol::Anthropic, "http://127.0.0.1:8080"),
            "http://127.0.0.1:8080/v1/models"
        );
        assert_eq!(
            own(Protocol::OpenaiChat, "http://127.0.0.1:8080/v1/?a=b"),
            "http://127.0.0.1:8080/v1/models?a=b"
        );
    }

    #[test]
    fn the_address_is_the_servers() {
        for (base_url, want) in [
            ("http://127.0.0.1:8080/v1", "http://127.0.0.1:8080/props"),
            ("http://127.0.0.1:8080/v1/", "http://127.0.0.1:8080/props"),
            ("http://127.0.0.1:8080", "http://127.0.0.1:8080/props"),
            (
                "https://h.example/api/v1?a=b",
                "https://h.example/api/props?a=b",
            ),
        ] {
            let url = at(&base(base_url).unwrap(), &["props"]).unwrap();
            assert_eq!(url.as_str(), want);
        }
        assert_eq!(base("localhost"), None);
    }
}
