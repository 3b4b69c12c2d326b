//! Providers: the ones that are built in, what the user says of them and of others, and
//! the model that is taken when none is named.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::PathBuf;

use serde::Deserialize;

use super::error::nearest;
use super::{Config, ConfigError, Env, ProviderEntry};

/// How a server is spoken to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[cfg_attr(test, derive(serde::Serialize))]
#[serde(rename_all = "kebab-case")]
pub enum Protocol {
    Anthropic,
    OpenaiResponses,
    OpenaiChat,
    Gemini,
    /// Plays a file of answers.
    Script,
}

/// All that is needed to speak to a provider, but for the key ([`super::Key`]).
#[derive(Clone, PartialEq, Eq)]
pub struct ProviderConfig {
    /// As the config and model names call it.
    pub name: String,
    pub protocol: Protocol,
    /// Without a slash at the end. Empty for [`Protocol::Script`].
    pub base_url: String,
    /// Variables that may hold the key, in the order they are looked at.
    pub api_key_env: Vec<String>,
    /// Read when none of the variables holds a key.
    pub api_key_file: Option<PathBuf>,
    /// Sent with each request, besides those of the protocol. Values may be secrets.
    pub headers: BTreeMap<String, String>,
    /// Silence after which a stream counts as cut.
    pub idle_timeout_ms: u64,
    /// Time without a word of the answer, once it began, after which a stream counts as cut.
    pub progress_timeout_ms: u64,
    /// From the request to the last byte of its answer.
    pub answer_timeout_ms: u64,
    /// Certificates in PEM that are trusted besides the system's.
    pub ca_file: Option<PathBuf>,
    /// Always there for [`Protocol::Script`].
    pub script: Option<PathBuf>,
}

/// Headers by name alone: their values may be secrets.
impl fmt::Debug for ProviderConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ProviderConfig")
            .field("name", &self.name)
            .field("protocol", &self.protocol)
            .field("base_url", &self.base_url)
            .field("headers", &self.headers.keys())
            .finish_non_exhaustive()
    }
}

/// Local servers are silent while they read a long prompt.
pub const IDLE_TIMEOUT_MS: u64 = 300_000;

/// Some servers gather a long call before they send any of it, and say meanwhile only that
/// they live.
pub const PROGRESS_TIMEOUT_MS: u64 = 600_000;

/// A long prompt and a long answer on a slow machine take this long.
pub const ANSWER_TIMEOUT_MS: u64 = 1_800_000;

struct Builtin {
    name: &'static str,
    protocol: Protocol,
    base_url: &'static str,
    base_url_env: Option<&'static str>,
    key_env: &'static [&'static str],
    /// Taken when no model is named and a key of this provider exists.
    default_model: Option<&'static str>,
}

/// In the order in which a default model is looked for.
const BUILTIN: [Builtin; 5] = [
    Builtin {
        name: "anthropic",
        protocol: Protocol::Anthropic,
        base_url: "https://api.anthropic.com",
        base_url_env: Some("ANTHROPIC_BASE_URL"),
        key_env: &["ANTHROPIC_API_KEY"],
        default_model: Some("claude-sonnet-4-5"),
    },
    Builtin {
        name: "openai",
        protocol: Protocol::OpenaiResponses,
        base_url: "https://api.openai.com/v1",
        base_url_env: Some("OPENAI_BASE_URL"),
        key_env: &["OPENAI_API_KEY"],
        default_model: Some("gpt-5"),
    },
    Builtin {
        name: "gemini",
        protocol: Protocol::Gemini,
        base_url: "https://generativelanguage.googleapis.com",
        base_url_env: None,
        key_env: &["GEMINI_API_KEY", "GOOGLE_API_KEY"],
        default_model: Some("gemini-2.5-pro"),
    },
    Builtin {
        name: "openrouter",
        protocol: Protocol::OpenaiChat,
        base_url: "https://openrouter.ai/api/v1",
        base_url_env: None,
        key_env: &["OPENROUTER_API_KEY"],
        default_model: Some("anthropic/claude-sonnet-4.5"),
    },
    Builtin {
        name: "ollama",
        protocol: Protocol::OpenaiChat,
        base_url: "http://127.0.0.1:11434/v1",
        base_url_env: Some("OLLAMA_HOST"),
        key_env: &[],
        default_model: None,
    },
];

/// The addresses of servers that the environment names: provider, variable, base URL.
pub(super) fn base_urls_of(env: &Env) -> Vec<(&'static str, &'static str, String)> {
    BUILTIN
        .iter()
        .filter_map(|builtin| {
            let name = builtin.base_url_env?;
            let value = env.var(name)?;
            let url = match builtin.name {
                "ollama" => ollama_url(value),
                _ => value.to_string(),
            };
            Some((builtin.name, name, url))
        })
        .collect()
}

/// `OLLAMA_HOST` is `[scheme://]host[:port]`, made for the server as much as for the
/// client: the address to listen on everywhere is this machine.
fn ollama_url(host: &str) -> String {
    let host = host.trim().trim_end_matches('/');
    let (scheme, rest, port) = match host.split_once("://") {
        Some(("https", rest)) => ("https", rest, 443),
        Some((_, rest)) => ("http", rest, 80),
        None => ("http", host, 11434),
    };
    let (name, given) = match rest.rsplit_once(':') {
        Some((name, given)) if given.bytes().all(|b| b.is_ascii_digit()) => (name, Some(given)),
        _ => (rest, None),
    };
    let name = match name {
        "" | "0.0.0.0" | "[::]" => "127.0.0.1",
        name => name,
    };
    match given.filter(|given| !given.is_empty()) {
        Some(given) => format!("{scheme}://{name}:{given}/v1"),
        None => format!("{scheme}://{name}:{port}/v1"),
    }
}

/// `provider/model`. The model's own name may hold slashes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelName {
    /// The provider's name in the config: the part before the first slash.
    pub provider: String,
    /// The provider's own name of the model: all behind the first slash.
    pub model: String,
}

impl ModelName {
    /// Splits a name at its first slash.
    ///
    /// # Errors
    /// When there is no slash, or nothing on one side of it.
    pub fn parse(text: &str) -> Result<ModelName, ConfigError> {
        match text.split_once('/') {
            Some((provider, model)) if !provider.is_empty() && !model.is_empty() => Ok(ModelName {
                provider: provider.to_string(),
                model: model.to_string(),
            }),
            _ => Err(
                ConfigError::new(format!("{text:?} does not name a model as provider/model"))
                    .with_hint("for example anthropic/claude-sonnet-4-5 or ollama/qwen3"),
            ),
        }
    }
}

impl fmt::Display for ModelName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.provider, self.model)
    }
}

/// The model of a built-in provider when none is named, as `provider/model`.
pub fn default_model(provider: &str) -> Option<String> {
    let builtin = BUILTIN.iter().find(|b| b.name == provider)?;
    Some(format!("{provider}/{}", builtin.default_model?))
}

impl Config {
    /// The configured model, else that of the first provider whose key exists.
    pub fn model_name(&self, env: &Env) -> Result<ModelName, ConfigError> {
        if let Some(model) = &self.model {
            return ModelName::parse(model);
        }
        let mut looked_for = Vec::new();
        for builtin in &BUILTIN {
            let Some(model) = builtin.default_model else {
                continue;
            };
            let provider = self.provider(builtin.name)?;
            if provider.has_key(env) {
                return Ok(ModelName {
                    provider: provider.name,
                    model: model.to_string(),
                });
            }
            looked_for.extend(provider.api_key_env);
        }
        Err(ConfigError::new(format!(
            "no model is configured, and none of these variables holds a key: {}",
            looked_for.join(", ")
        ))
        .with_hint(
            "set one of them, or name a model of a local server (-m ollama/MODEL); \
             `rewake demo` needs neither",
        ))
    }

    /// The provider of that name, complete.
    pub fn provider(&self, name: &str) -> Result<ProviderConfig, ConfigError> {
        let builtin = BUILTIN.iter().find(|b| b.name == name);
        match (builtin, self.providers.get(name)) {
            (None, None) => Err(self.unknown_provider(name)),
            (builtin, entry) => complete(name, builtin, &entry.cloned().unwrap_or_default()),
        }
    }

    /// The names of all providers there are.
    pub fn provider_names(&self) -> BTreeSet<&str> {
        BUILTIN
            .iter()
            .map(|b| b.name)
            .chain(self.providers.keys().map(String::as_str))
            .collect()
    }

    /// The variables that hold keys, which commands are run without.
    pub fn key_env_names(&self) -> BTreeSet<String> {
        let builtin = BUILTIN.iter().flat_map(|b| b.key_env).copied();
        let configured = self
            .providers
            .values()
            .filter_map(|p| p.api_key_env.as_deref())
            .filter(|name| !name.is_empty());
        builtin
            .chain(configured)
            .filter(|name| !self.shell.pass_env.iter().any(|pass| pass == name))
            .map(str::to_string)
            .collect()
    }

    fn unknown_provider(&self, name: &str) -> ConfigError {
        let known: Vec<&str> = self.provider_names().into_iter().collect();
        let hint = match nearest(name, &known) {
            Some(near) => format!("did you mean {near:?}?"),
            None => format!(
                "there are {}; another is defined by [providers.{name}] in the config",
                known.join(", ")
            ),
        };
        ConfigError::new(format!("there is no provider named {name:?}")).with_hint(hint)
    }
}

fn complete(
    name: &str,
    builtin: Option<&Builtin>,
    entry: &ProviderEntry,
) -> Result<ProviderConfig, ConfigError> {
    let protocol = entry
        .protocol
        .or(builtin.map(|b| b.protocol))
        .ok_or_else(|| {
            ConfigError::new(format!("provider {name:?} has no protocol")).with_hint(
                "protocol is one of anthropic, openai-responses, openai-chat, gemini, script",
            )
        })?;
    let base_url = entry
        .base_url
        .as_deref()
        .or(builtin.map(|b| b.base_url))
        .map(|url| url.trim_end_matches('/').to_string());
    if protocol == Protocol::Script && entry.script.is_none() {
        return Err(ConfigError::new(format!("provider {name:?} has no script"))
            .with_hint("script is the path of a file of answers"));
    }
    if protocol != Protocol::Script && base_url.is_none() {
        return Err(
            ConfigError::new(format!("provider {name:?} has no base_url"))
                .with_hint("for example base_url = \"http://127.0.0.1:8080/v1\""),
        );
    }
    let api_key_env = match &entry.api_key_env {
        // Named as empty: this server wants no key, though its provider is one that is built in.
        Some(name) if name.is_empty() => Vec::new(),
        Some(name) => vec![name.clone()],
        None if protocol == Protocol::Script => Vec::new(),
        None => builtin
            .map(|b| b.key_env.iter().map(|n| n.to_string()).collect())
            .unwrap_or_default(),
    };
    Ok(ProviderConfig {
        name: name.to_string(),
        protocol,
        base_url: base_url.unwrap_or_default(),
        api_key_env,
        api_key_file: entry.api_key_file.clone(),
        headers: entry.headers.clone(),
        idle_timeout_ms: entry.idle_timeout_ms.unwrap_or(IDLE_TIMEOUT_MS),
        progress_timeout_ms: entry.progress_timeout_ms.unwrap_or(PROGRESS_TIMEOUT_MS),
        answer_timeout_ms: entry.answer_timeout_ms.unwrap_or(ANSWER_TIMEOUT_MS),
        ca_file: entry.ca_file.clone(),
        script: entry.script.clone(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(text: &str) -> Config {
        toml::from_str(text).unwrap()
    }

    fn env(vars: &[(&str, &str)]) -> Env {
        Env::new(vars.iter().copied(), "/")
    }

    #[test]
    fn without_a_model_the_first_key_decides() {
        let model = |vars: &[(&str, &str)]| {
            Config::default()
                .model_name(&env(vars))
                .map(|m| m.to_string())
        };
        let (ant, oai) = (("ANTHROPIC_API_KEY", "k"), ("OPENAI_API_KEY", "k"));
        assert_eq!(model(&[oai, ant]).unwrap(), "anthropic/claude-sonnet-4-5");
        assert_eq!(model(&[oai]).unwrap(), "openai/gpt-5");
        assert_eq!(
            model(&[("GOOGLE_API_KEY", "k")]).unwrap(),
            "gemini/gemini-2.5-pro"
        );
        assert_eq!(
            model(&[("OPENROUTER_API_KEY", "k")]).unwrap(),
            "openrouter/anthropic/claude-sonnet-4.5"
        );
        // A key that cannot be one is no reason to go elsewhere: its own error will come.
        let broken = ("ANTHROPIC_API_KEY", "two words");
        assert_eq!(
            model(&[broken, oai]).unwrap(),
            "anthropic/claude-sonnet-4-5"
        );
        let err = model(&[]).unwrap_err();
        assert_eq!(
            err.to_string(),
            "no model is configured, and none of these variables holds a key: \
             ANTHROPIC_API_KEY, OPENAI_API_KEY, GEMINI_API_KEY, GOOGLE_API_KEY, OPENROUTER_API_KEY"
        );
        assert!(err.hint().unwrap().contains("`rewake demo`"));
    }

    #[test]
    fn a_model_splits_at_the_first_slash() {
        let name = ModelName::parse("openrouter/anthropic/claude").unwrap();
        assert_eq!(name.provider, "openrouter");
        assert_eq!(name.model, "anthropic/claude");
        for wrong in ["gpt-5", "/gpt-5", "openai/", ""] {
            assert!(ModelName::parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn the_user_overrides_what_is_built_in() {
        let config = config(
            "[providers.openai]\nbase_url = \"http://h/v1/\"\nprotocol = \"openai-chat\"\n\
             [providers.ollama]\nidle_timeout_ms = 5000\nanswer_timeout_ms = 9000000",
        );
        let openai = config.provider("openai").unwrap();
        assert_eq!(openai.base_url, "http://h/v1");
        assert_eq!(openai.protocol, Protocol::OpenaiChat);
        assert_eq!(openai.api_key_env, ["OPENAI_API_KEY"]);
        assert!(openai.key(&env(&[])).is_err());
        let ollama = config.provider("ollama").unwrap();
        assert_eq!(ollama.base_url, "http://127.0.0.1:11434/v1");
        assert_eq!(ollama.idle_timeout_ms, 5_000);
        assert_eq!(ollama.answer_timeout_ms, 9_000_000);
        assert_eq!(ollama.progress_timeout_ms, PROGRESS_TIMEOUT_MS);
    }

    #[test]
    fn a_server_in_the_place_of_a_provider_may_want_no_key() {
        let config = config("[providers.openai]\nbase_url = \"http://h\"\napi_key_env = \"\"");
        let openai = config.provider("openai").unwrap();
        assert_eq!(openai.key(&env(&[("OPENAI_API_KEY", "k")])), Ok(None));
        assert!(!config.key_env_names().contains(""));
    }

    #[test]
    fn an_unknown_or_half_provider_is_said() {
        let config = config(
            "[providers.a]\nbase_url = \"http://h\"\n[providers.b]\nprotocol = \"gemini\"\n[providers.c]\nprotocol = \"script\"",
        );
        let message = |name| {
            let err = config.provider(name).unwrap_err();
            format!("{err}; {}", err.hint().unwrap_or_default())
        };
        assert_eq!(
            message("antropic"),
            "there is no provider named \"antropic\"; did you mean \"anthropic\"?"
        );
        assert!(message("zzz").contains("[providers.zzz]"));
        assert!(message("a").starts_with("provider \"a\" has no protocol;"));
        assert!(message("b").starts_with("provider \"b\" has no base_url;"));
        assert!(message("c").starts_with("provider \"c\" has no script;"));
    }

    #[test]
    fn commands_do_not_see_keys_unless_told() {
        let config = config(
            "[shell]\npass_env = [\"OPENAI_API_KEY\"]\n[providers.x]\napi_key_env = \"X_KEY\"",
        );
        let names = config.key_env_names();
        assert!(names.contains("ANTHROPIC_API_KEY"));
        assert!(names.contains("GOOGLE_API_KEY"));
        assert!(names.contains("X_KEY"));
        assert!(!names.contains("OPENAI_API_KEY"));
    }

    #[test]
    fn ollama_host_is_read_as_ollama_reads_it() {
        let table = [
            ("10.0.0.5", "http://10.0.0.5:11434/v1"),
            ("box:8000", "http://box:8000/v1"),
            ("0.0.0.0", "http://127.0.0.1:11434/v1"),
            (":9000", "http://127.0.0.1:9000/v1"),
            ("http://box", "http://box:80/v1"),
            ("https://box/", "https://box:443/v1"),
            ("[::1]:11434", "http://[::1]:11434/v1"),
            ("[::1]", "http://[::1]:11434/v1"),
        ];
        for (host, url) in table {
            assert_eq!(ollama_url(host), url, "{host}");
        }
    }

    #[test]
    fn debug_output_holds_no_header_values() {
        let config = config("[providers.openai.headers]\nAuthorization = \"Bearer sk-secret\"");
        let shown = format!("{config:?} {:?}", config.provider("openai"));
        assert!(shown.contains("Authorization") && !shown.contains("secret"));
    }
}
