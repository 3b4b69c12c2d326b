//! The context window of a model, as its server says it: asked once before the first request to
//! a model of which neither the config nor the catalogue knows anything.
//!
//! Sources: `/v1/models` of vLLM and SGLang (`max_model_len`), of OpenRouter, Groq, Mistral and
//! others (`context_length`, `context_window`, `max_context_length`); `/props` of llama.cpp
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

/// For all questions together: the first message waits for it.
const PATIENCE: Duration = Duration::from_secs(2);

/// Smaller numbers are no windows, larger ones no real ones.
const PLAUSIBLE: std::ops::RangeInclusive<u64> = 256..=100_000_000;

/// The window in tokens; `None` when nobody says.
pub(super) async fn ask(client: &Client, provider: &Provider, model: &str) -> Option<u64> {
    let asked = tokio::time::timeout(PATIENCE, questions(client, provider, model));
    asked.await.ok().flatten()
}

async fn questions(client: &Client, provider: &Provider, model: &str) -> Option<u64> {
    let base = base(&provider.base_url)?;
    let list = client.get(provider, &at(&base, &["v1", "models"])?).await;
    if let Some(window) = list.and_then(|list| listed(&list, model)) {
        return Some(window);
    }
    // The others are servers that people run themselves.
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
        let answer = client.get(provider, &at(&base, path)?).await;
        if let Some(window) = answer.and_then(|answer| read(&answer, model)) {
            return Some(window);
        }
    }
    None
}

/// The address without the version of its protocol.
fn base(base_url: &str) -> Option<Url> {
    let mut url = Url::parse(base_url).ok()?;
    let last = url.path().trim_end_matches('/').rsplit('/').next()?;
    let is_version = matches!(last, "v1" | "v1beta");
    let mut path = url.path_segments_mut().ok()?;
    path.pop_if_empty();
    if is_version {
        path.pop();
    }
    drop(path);
    Some(url)
}

fn at(base: &Url, path: &[&str]) -> Option<Url> {
    let mut url = base.clone();
    url.path_segments_mut().ok()?.pop_if_empty().extend(path);
    Some(url)
}

/// The entry of a model, in a list under `data` or `models`.
fn entry<'a>(list: &'a Value, model: &str) -> Option<&'a Value> {
    let list = list
        .get("data")
        .or_else(|| list.get("models"))?
        .as_array()?;
    let is_it = |entry: &&Value| {
        ["id", "name", "model"].iter().any(|key| {
            let name = entry.get(key).and_then(Value::as_str).unwrap_or("");
            name == model || name.strip_suffix(":latest") == Some(model)
        })
    };
    // A server of one model answers to any name.
    let only = list.first().filter(|_| list.len() == 1);
    list.iter().find(is_it).or(only)
}

fn listed(list: &Value, model: &str) -> Option<u64> {
    let entry = entry(list, model)?;
    let places = [
        "/max_model_len",
        "/meta/n_ctx",
        "/loaded_context_length",
        "/context_length",
        "/context_window",
        "/max_context_length",
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
