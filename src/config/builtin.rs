//! The built-in providers: `assets/providers.toml`, read once. A provider is a row of that table
//! and needs no code.

use std::sync::OnceLock;

use serde::Deserialize;

/// The wire protocol of a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[cfg_attr(test, derive(serde::Serialize))]
#[serde(rename_all = "kebab-case")]
pub enum Protocol {
    Anthropic,
    OpenaiResponses,
    OpenaiChat,
    Gemini,
    /// The scripted model, which plays a file of answers.
    Script,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Builtin {
    pub name: String,
    pub protocol: Protocol,
    pub base_url: Option<String>,
    #[serde(default)]
    pub base_url_env: Vec<String>,
    /// Example of the base URL, for providers where each user has a different one.
    pub base_url_example: Option<String>,
    #[serde(default)]
    pub key_env: Vec<String>,
    /// Variables with the version of the API, for providers that require one.
    #[serde(default)]
    pub api_version_env: Vec<String>,
    /// Template of the address, from the base URL, the API version and the model.
    pub address: Option<String>,
    /// Same as `address`, for API version `v1`.
    pub address_v1: Option<String>,
    /// Models that are used when none is named and a key of this provider exists, in order of
    /// preference.
    #[serde(default)]
    pub default_models: Vec<String>,
    /// Meaning of the part after the slash, if it is not the name of a model.
    pub model_is: Option<String>,
    #[serde(default)]
    pub quirks: Quirks,
}

/// Differences of a server from the others of its protocol.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Quirks {
    /// The field for the length of an answer has this name, not `max_tokens` (Chat Completions).
    pub max_completion_tokens: bool,
    /// The server refuses `stream_options` (Chat Completions).
    pub no_stream_options: bool,
    /// Field for the effort (Chat Completions).
    pub effort: EffortField,
    /// The server accepts `response_format` with a schema beside tools (Chat Completions).
    pub json_schema: bool,
    /// Header for the key, without `Bearer`.
    pub key_header: Option<String>,
    /// The server refuses a message of the user directly after the result of a call.
    pub notes_in_results: bool,
}

impl Quirks {
    /// No differences.
    pub const NONE: Quirks = Quirks {
        max_completion_tokens: false,
        no_stream_options: false,
        effort: EffortField::ReasoningEffort,
        json_schema: false,
        key_header: None,
        notes_in_results: false,
    };
}

/// The field of Chat Completions for the effort.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EffortField {
    /// `reasoning_effort: "high"`
    #[default]
    ReasoningEffort,
    /// `reasoning: {"effort": "high"}`
    Reasoning,
    /// `thinking: {"type": "enabled"}`, or `"disabled"`.
    Thinking,
}

/// A known provider that rewake does not support.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Elsewhere {
    pub name: String,
    pub why: String,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    provider: Vec<Builtin>,
    elsewhere: Vec<Elsewhere>,
}

const TABLE: &str = include_str!("../../assets/providers.toml");

fn table() -> &'static Table {
    static READ: OnceLock<Table> = OnceLock::new();
    // A test parses the table, so it cannot be invalid here.
    READ.get_or_init(|| toml::from_str(TABLE).unwrap_or_default())
}

/// Returns the providers in the order in which a default model is searched.
pub(super) fn builtins() -> &'static [Builtin] {
    &table().provider
}

pub(super) fn builtin(name: &str) -> Option<&'static Builtin> {
    builtins().iter().find(|b| b.name == name)
}

pub(super) fn elsewhere(name: &str) -> Option<&'static Elsewhere> {
    table().elsewhere.iter().find(|e| e.name == name)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn the_manual_names_every_provider_with_its_key() {
        let manual = include_str!("../../docs/models.md");
        for row in builtins() {
            let line = format!("| `{}` |", row.name);
            let line = manual.lines().find(|l| l.starts_with(&line)).unwrap();
            for variable in row.key_env.iter().chain(&row.base_url_env) {
                assert!(line.contains(variable), "{line}: {variable}");
            }
        }
        assert!(table().elsewhere.iter().all(|e| manual.contains(&e.name)));
    }

    #[test]
    fn the_table_is_read_and_every_row_can_be_used() {
        let table: Table = toml::from_str(TABLE).unwrap();
        let names: BTreeSet<&str> = table.provider.iter().map(|b| b.name.as_str()).collect();
        assert_eq!(names.len(), table.provider.len(), "a name is there twice");
        for name in [
            "anthropic",
            "openai",
            "gemini",
            "openrouter",
            "ollama",
            "llamacpp",
            "azure",
            "cerebras",
            "deepseek",
            "fireworks",
            "groq",
            "mistral",
            "moonshot",
            "together",
            "vercel",
            "xai",
            "zai",
        ] {
            assert!(names.contains(name), "{name}");
        }
        for row in &table.provider {
            let name = &row.name;
            assert!(!name.is_empty() && !name.contains('/'), "{name}");
            for url in row.base_url.iter().chain(&row.base_url_example) {
                let local = url.starts_with("http://127.0.0.1");
                assert!(local || url.starts_with("https://"), "{name}: {url}");
                assert!(!url.ends_with('/'), "{name}: {url}");
            }
            assert!(
                row.base_url.is_some() || row.base_url_example.is_some(),
                "{name}"
            );
            let variables = row
                .key_env
                .iter()
                .chain(&row.base_url_env)
                .chain(&row.api_version_env);
            for variable in variables {
                let fits = |b: u8| b.is_ascii_uppercase() || b.is_ascii_digit() || b == b'_';
                assert!(variable.bytes().all(fits), "{name}: {variable}");
            }
            let needs_version = row.address.iter().any(|a| a.contains("{api_version}"));
            assert_eq!(needs_version, !row.api_version_env.is_empty(), "{name}");
        }
        let gone = table.elsewhere.iter().map(|e| e.name.as_str());
        assert!(gone.clone().eq(["bedrock", "vertex"]));
        assert!(gone.into_iter().all(|name| !names.contains(name)));
        assert_eq!(Quirks::NONE, Quirks::default());
        let quirks = |name| builtin(name).unwrap().quirks.clone();
        assert!(quirks("openai").max_completion_tokens && quirks("mistral").no_stream_options);
        assert_eq!(quirks("azure").key_header.as_deref(), Some("api-key"));
        assert_eq!(quirks("zai").effort, EffortField::Thinking);
    }
}
