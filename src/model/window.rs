//! Facts about a model that its server says: asked once in each process before the first request.
//! The context window is asked for if neither the config nor the catalogue knows the model, and the
//! capabilities of its template if the server is self-hosted.
//!
//! Sources: `/v1/models` of vLLM and SGLang (`max_model_len`), of OpenRouter, Groq, Mistral and
//! others (`context_length`, `context_window`, `max_context_length`), of Together (a list without
//! an object around it), of Anthropic (`max_input_tokens`); `/v1beta/models/MODEL` of Gemini
//! (`inputTokenLimit`); the same below another version (`/v4/models` of Z.ai); `/props` of llama.cpp
//! (`default_generation_settings.n_ctx`, which a slot has, where `/v1/models` says what the
//! model was trained with); `/api/v0/models` of LM Studio and `/api/ps` of Ollama (what is
//! loaded, not what could be). The capabilities: `/props` of llama.cpp (`chat_template_caps` of newer
//! versions, and `chat_template`, whose texts of exceptions are those of the models), and
//! `/api/show` of Ollama (`capabilities`).
//!
//! Invariant: it is asked for a short time, and nothing depends on an answer. A figure that is
//! wrong is corrected by the refusal of a request, as every other.

use std::time::Duration;

use reqwest::Url;
use serde_json::{Value, json};

use super::http::Client;
use super::provider::Provider;
use crate::config::Protocol;
use crate::core::entry::RequestForm;

/// Time limit for all requests together, because the first message waits for it.
const PATIENCE: Duration = Duration::from_secs(2);

/// Range of plausible sizes.
const PLAUSIBLE: std::ops::RangeInclusive<u64> = 256..=100_000_000;

/// Facts about a model that its server says.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ServerFacts {
    /// The context window in tokens.
    pub window: Option<u64>,
    /// The forms of the history that its template needs.
    pub forms: Vec<RequestForm>,
    /// The way out for a person, if its template has no tools.
    pub no_tools: Option<&'static str>,
    /// Its requests share the memory of one window, so two at once may refuse each other.
    pub shares_memory: bool,
}

/// Returns the facts that the server reports within a short time. `asks_window`: the window too.
pub(super) async fn ask(
    client: &Client,
    provider: &Provider,
    model: &str,
    asks_window: bool,
) -> ServerFacts {
    let mut facts = ServerFacts::default();
    let asked = questions(client, provider, model, asks_window, &mut facts);
    // The answers that came in time count.
    let _ = tokio::time::timeout(PATIENCE, asked).await;
    facts
}

async fn questions(
    client: &Client,
    provider: &Provider,
    model: &str,
    asks_window: bool,
    facts: &mut ServerFacts,
) -> Option<()> {
    if asks_window && let Some(url) = list_url(provider.protocol, &provider.base_url, model) {
        let list = client.json(provider, &url).await.ok();
        facts.window = list.and_then(|list| listed(&list, model));
    }
    if !is_self_hosted(provider) {
        return None;
    }
    let base = base(&provider.base_url)?;
    if let Ok(said) = client.json(provider, &at(&base, &["props"])?).await {
        if asks_window {
            facts.window = facts.window.or(props(&said, model));
        }
        facts.forms = forms(&said);
        facts.no_tools = lacks_tools(&said).then_some(OTHER_TEMPLATE);
        // No other server has these settings.
        if said.get("chat_template").is_some() {
            facts.shares_memory = true;
            return None;
        }
    }
    if asks_window && facts.window.is_none() {
        let url = at(&base, &["api", "v0", "models"])?;
        let list = client.json(provider, &url).await.ok();
        facts.window = list.and_then(|list| loaded(&list, model));
    }
    let url = at(&base, &["api", "ps"])?;
    let list = client.json(provider, &url).await.ok()?;
    if asks_window {
        facts.window = facts.window.or(running(&list, model));
    }
    let about = json!({ "model": model });
    let url = at(&base, &["api", "show"])?;
    let said = client.json_for(provider, &url, &about).await.ok()?;
    let capabilities = said.get("capabilities")?.as_array()?;
    let has_tools = capabilities.iter().any(|capability| capability == "tools");
    facts.no_tools = (!has_tools).then_some(OTHER_MODEL);
    None
}

/// The way out at llama.cpp.
const OTHER_TEMPLATE: &str = "start llama-server with --jinja and a --chat-template-file that has tools, or choose another model";

/// The way out at Ollama.
const OTHER_MODEL: &str = "choose a model whose capabilities in `ollama show MODEL` include tools";

/// Returns whether the server is somebody's own: only these have more addresses than a list.
pub(super) fn is_self_hosted(provider: &Provider) -> bool {
    provider.base_url.starts_with("http://")
}

/// Returns the forms that the template of `/props` needs. The texts are those of the exceptions in the
/// templates of Mistral and Gemma, and of Llama 3.
fn forms(props: &Value) -> Vec<RequestForm> {
    let template = props.get("chat_template").and_then(Value::as_str);
    let raises = |words| template.is_some_and(|template| template.contains(words));
    let takes_calls = can(props, "supports_tool_calls") == Some(true);
    let is_single = takes_calls && can(props, "supports_parallel_tool_calls") == Some(false);
    if lacks_tools(props) || can(props, "supports_tool_calls") == Some(false) {
        // Without an error, such templates drop calls and results.
        return vec![RequestForm::PlainText];
    }
    let mut forms = Vec::new();
    if raises("roles must alternate") {
        forms.push(RequestForm::NotesInResults);
    }
    if is_single || raises("only supports single tool-calls") {
        forms.push(RequestForm::OneCall);
    }
    forms
}

/// Returns whether the template has neither tools nor calls. One with either has tools: llama.cpp
/// adds the other.
fn lacks_tools(props: &Value) -> bool {
    let known = ["supports_tools", "supports_tool_calls"].map(|name| can(props, name));
    known.contains(&Some(false)) && !known.contains(&Some(true))
}

fn can(props: &Value, name: &str) -> Option<bool> {
    props.get("chat_template_caps")?.get(name)?.as_bool()
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
        // The trained length is not the served window.
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

    /// The texts are of the templates of Mistral Small and Llama 3.3, the capabilities of llama.cpp.
    #[test]
    fn a_template_says_which_history_it_takes() {
        use RequestForm::{NotesInResults, OneCall, PlainText};
        let mistral = "{{- raise_exception('After the optional system message, conversation roles must alternate user and assistant roles except for tool calls and results.') }}";
        let llama =
            "{{- raise_exception(\"This model only supports single tool-calls at once!\") }}";
        let caps = |tools: bool, calls: bool, parallel: bool| json!({ "supports_tools": tools, "supports_tool_calls": calls, "supports_parallel_tool_calls": parallel });
        let table = [
            (
                json!({ "chat_template": mistral }),
                vec![NotesInResults],
                false,
            ),
            (json!({ "chat_template": llama }), vec![OneCall], false),
            (
                json!({ "chat_template": "x", "chat_template_caps": caps(true, true, false) }),
                vec![OneCall],
                false,
            ),
            (
                json!({ "chat_template_caps": caps(true, true, true) }),
                vec![],
                false,
            ),
            (
                json!({ "chat_template_caps": caps(false, true, true) }),
                vec![],
                false,
            ),
            (
                json!({ "chat_template_caps": caps(true, false, false) }),
                vec![PlainText],
                false,
            ),
            (
                json!({ "chat_template": mistral, "chat_template_caps": caps(false, false, false) }),
                vec![PlainText],
                true,
            ),
            (
                json!({ "chat_template_caps": { "supports_tools": false } }),
                vec![PlainText],
                true,
            ),
            (
                json!({ "chat_template": 7, "chat_template_caps": ["supports_tools"] }),
                vec![],
                false,
            ),
            (json!("<html>roles must alternate</html>"), vec![], false),
            (json!(null), vec![], false),
        ];
        for (said, want, lacks) in table {
            assert_eq!((forms(&said), lacks_tools(&said)), (want, lacks), "{said}");
        }
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
            ("llamacpp", "http://127.0.0.1:8080/v1/models"),
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
