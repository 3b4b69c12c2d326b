//! Providers: the built-in ones, the user's settings, and the default model.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::PathBuf;

use super::builtin::{Builtin, Protocol, Quirks, builtin, builtins, elsewhere};
use super::error::nearest;
use super::kept_key::stored_key_path;
use super::schema::ChosenByProject;
use super::{Config, ConfigError, Env, ProviderEntry};

/// Minimum length of a key that is searched in variables. A shorter value, such as "test" or
/// "none", may occur in a variable by chance.
const MIN_KEY_CHARS: usize = 16;

/// All that is needed to connect to a provider, except for the key ([`super::Key`]).
#[derive(Clone, PartialEq, Eq)]
pub struct ProviderConfig {
    /// Name in the config and in model names.
    pub name: String,
    pub protocol: Protocol,
    /// Base URL without a slash at the end. `{model}` stands for the model's name. Empty for
    /// [`Protocol::Script`].
    pub base_url: String,
    pub quirks: Quirks,
    /// Variables that may contain the key, in order of precedence.
    pub api_key_env: Vec<String>,
    /// File with the key, if none of the variables contains it.
    pub api_key_file: Option<PathBuf>,
    /// File for a stored key, which is read last. `None` for a server that requires no key.
    pub kept_key: Option<PathBuf>,
    /// [`Self::api_key_file`] comes from the workspace's own config.
    pub is_key_file_of_project: bool,
    /// A key of the user that is not sent, because the workspace's own config chose the address.
    pub withheld_key: Option<PathBuf>,
    /// Headers of each request, besides those of the protocol. Values may be secrets.
    pub headers: BTreeMap<String, String>,
    /// Time of silence after which a stream counts as broken.
    pub idle_timeout_ms: u64,
    /// Time without progress of a started answer after which a stream counts as broken.
    pub progress_timeout_ms: u64,
    /// Time limit from the request to the last byte of its answer.
    pub answer_timeout_ms: u64,
    /// Certificates in PEM that are trusted besides the system's.
    pub ca_file: Option<PathBuf>,
    /// Script of [`Protocol::Script`], where it is always set.
    pub script: Option<PathBuf>,
}

/// Shows headers by name only, because their values may be secrets.
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

/// Default: local servers are silent while they read a long prompt.
pub const IDLE_TIMEOUT_MS: u64 = 300_000;

/// Default: some servers collect a long call before they send it, and only send keep-alive data
/// meanwhile.
pub const PROGRESS_TIMEOUT_MS: u64 = 600_000;

/// Time limit of an answer, enough for a long prompt and a long answer on a slow machine.
pub const ANSWER_TIMEOUT_MS: u64 = 1_800_000;

/// A value of a provider that comes from the environment.
pub(super) struct EnvValue {
    pub provider: &'static str,
    pub key: &'static str,
    pub variable: &'static str,
    pub value: String,
}

/// Returns the server addresses and API versions from the environment.
pub(super) fn named_in(env: &Env) -> Vec<EnvValue> {
    let mut all = Vec::new();
    for builtin in builtins() {
        let keys = [
            ("base_url", &builtin.base_url_env),
            ("api_version", &builtin.api_version_env),
        ];
        for (key, variables) in keys {
            let set = |name: &'static String| Some((name.as_str(), env.var(name)?));
            let Some((variable, value)) = variables.iter().find_map(set) else {
                continue;
            };
            let value = match (builtin.name.as_str(), key) {
                ("ollama", "base_url") => ollama_url(value),
                _ => value.to_string(),
            };
            all.push(EnvValue {
                provider: &builtin.name,
                key,
                variable,
                value,
            });
        }
    }
    all
}

/// Converts `OLLAMA_HOST`, which is `[scheme://]host[:port]`. It is used by the server too, so an
/// address that means all interfaces is replaced by this machine.
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

/// `provider/model`. The model's own name may contain slashes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelName {
    /// Name of the provider in the config: the part before the first slash.
    pub provider: String,
    /// The provider's own name of the model: everything after the first slash.
    pub model: String,
}

impl ModelName {
    /// Splits a name at its first slash.
    ///
    /// # Errors
    /// Fails if the slash is missing, or if one side of it is empty.
    pub fn parse(text: &str) -> Result<ModelName, ConfigError> {
        match text.split_once('/') {
            Some((provider, model)) if !provider.is_empty() && !model.is_empty() => Ok(ModelName {
                provider: provider.to_string(),
                model: model.to_string(),
            }),
            _ => Err(
                ConfigError::new(format!("{text:?} does not name a model as provider/model"))
                    .with_hint(how_to_name(text.trim_matches('/'))),
            ),
        }
    }
}

/// Returns a hint on naming a model. The user may have named the provider alone.
fn how_to_name(provider: &str) -> String {
    match builtin(provider) {
        Some(builtin) => {
            let what = builtin.model_is.as_deref().unwrap_or("the name of a model");
            format!("after {provider}/ stands {what}")
        }
        None => "for example anthropic/claude-sonnet-5-5 or ollama/qwen3".to_string(),
    }
}

impl fmt::Display for ModelName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.provider, self.model)
    }
}

/// A built-in provider that requires a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyedProvider {
    pub name: &'static str,
    /// Variables to set: the key, and the address if each user has a different one.
    pub variables: Vec<&'static str>,
    /// The provider has a default model.
    pub is_usual: bool,
    /// The part of its model names after the slash.
    pub model: &'static str,
}

/// Returns the providers that require a key, in the order in which a default model is searched.
pub fn keyed_providers() -> impl Iterator<Item = KeyedProvider> {
    let wanted = builtins().iter().filter(|b| !b.key_env.is_empty());
    wanted.map(|builtin| {
        let address = builtin.base_url_env.first();
        let address = address.filter(|_| builtin.base_url.is_none());
        let variables = address.into_iter().chain(builtin.key_env.first());
        KeyedProvider {
            name: &builtin.name,
            variables: variables.map(String::as_str).collect(),
            is_usual: !builtin.default_models.is_empty(),
            model: match builtin.model_is {
                Some(_) => "DEPLOYMENT",
                None => "MODEL",
            },
        }
    })
}

/// Returns the default models of a built-in provider in order of preference, as `provider/model`.
pub fn default_models(provider: &str) -> Vec<String> {
    let models = builtin(provider).map(|builtin| &builtin.default_models[..]);
    let models = models.unwrap_or_default().iter();
    models.map(|model| format!("{provider}/{model}")).collect()
}

impl Config {
    /// Returns the configured model, else the default model of the first provider with a key.
    pub fn model_name(&self, env: &Env) -> Result<ModelName, ConfigError> {
        if let Some(model) = &self.model {
            return ModelName::parse(model);
        }
        let mut looked_for = Vec::new();
        let mut withheld = None;
        for builtin in builtins() {
            let Some(model) = builtin.default_models.first() else {
                continue;
            };
            let provider = self.provider(&builtin.name)?;
            if provider.has_key(env) {
                return Ok(ModelName {
                    provider: provider.name,
                    model: model.to_string(),
                });
            }
            if provider.withheld_key.is_some() {
                withheld = withheld.or(provider.key(env).err());
            }
            looked_for.extend(provider.api_key_env);
        }
        if let Some(why) = withheld {
            return Err(why);
        }
        let none = ConfigError::new(format!(
            "no model is configured, and none of these variables holds a key: {}",
            looked_for.join(", ")
        ));
        Err(match self.keyed_without_default(env) {
            Some(name) => none.with_hint(format!(
                "there is a key for {name}; name a model of it: -m {name}/MODEL"
            )),
            None => none.with_hint(
                "set one of them, type a key once (rewake key PROVIDER), or name a model of a local server (-m ollama/MODEL); \
                 `rewake demo` needs neither",
            ),
        })
    }

    /// Returns a provider with a key but without a default model.
    fn keyed_without_default(&self, env: &Env) -> Option<&'static str> {
        let has_key = |b: &&Builtin| self.names_key(b, env);
        let mut others = builtins().iter().filter(|b| b.default_models.is_empty());
        others.find(has_key).map(|b| b.name.as_str())
    }

    /// Returns whether the user probably uses this provider: it is in the config, has a key, or
    /// has a default model.
    pub fn is_expected(&self, name: &str, env: &Env) -> bool {
        let Some(builtin) = builtin(name) else {
            return true;
        };
        let has_key = self.names_key(builtin, env);
        let is_usual = !builtin.default_models.is_empty() || builtin.key_env.is_empty();
        is_usual || has_key || self.providers.contains_key(name)
    }

    /// Returns whether a key for it is in the environment or stored, whatever else is missing.
    fn names_key(&self, builtin: &Builtin, env: &Env) -> bool {
        let is_sent = !self.chosen_by_project(&builtin.name).base_url;
        let folder = self.keys_dir.as_deref().filter(|_| is_sent);
        let kept = folder.and_then(|folder| stored_key_path(folder, &builtin.name));
        builtin.key_env.iter().any(|name| env.var(name).is_some())
            || kept.is_some_and(|file| file.exists())
    }

    /// Returns the complete settings of a provider.
    pub fn provider(&self, name: &str) -> Result<ProviderConfig, ConfigError> {
        match (builtin(name), self.providers.get(name)) {
            (None, None) => Err(self.unknown_provider(name)),
            (builtin, entry) => {
                let entry = entry.cloned().unwrap_or_default();
                let mut provider = complete(name, builtin, &entry)?;
                let wants_none = entry.api_key_env.as_deref() == Some("");
                let folder = self.keys_dir.as_deref().filter(|_| !wants_none);
                provider.kept_key = folder.and_then(|folder| stored_key_path(folder, name));
                let chosen = self.chosen_by_project(name);
                provider.is_key_file_of_project = chosen.api_key_file;
                if chosen.base_url {
                    let kept = provider.kept_key.take().filter(|file| file.exists());
                    let own = provider
                        .api_key_file
                        .take_if(|_| !chosen.api_key_file || chosen.is_key_elsewhere);
                    provider.withheld_key = own.or(kept);
                }
                Ok(provider)
            }
        }
    }

    fn chosen_by_project(&self, provider: &str) -> ChosenByProject {
        let chosen = self.chosen_by_project.get(provider);
        chosen.copied().unwrap_or_default()
    }

    /// Returns the folder of stored keys, and the files of keys that the config names.
    pub fn key_files(&self, keys_dir: PathBuf) -> Vec<PathBuf> {
        let names = self.provider_names().into_iter();
        let providers = names.filter_map(|name| self.provider(name).ok());
        let named = providers.flat_map(|provider| [provider.api_key_file, provider.withheld_key]);
        std::iter::once(keys_dir).chain(named.flatten()).collect()
    }

    /// Returns the names of all providers.
    pub fn provider_names(&self) -> BTreeSet<&str> {
        builtins()
            .iter()
            .map(|b| b.name.as_str())
            .chain(self.providers.keys().map(String::as_str))
            .collect()
    }

    /// Returns the variables that contain keys. Commands run without them.
    pub fn key_env_names(&self) -> BTreeSet<String> {
        let builtin = builtins().iter().flat_map(|b| &b.key_env);
        let builtin = builtin.map(String::as_str);
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

    /// Returns other variables whose value is the key of a provider. Commands run without them
    /// too, unless `shell.pass_env` names them.
    pub fn copies_of_keys(&self, env: &Env) -> BTreeSet<String> {
        let used = self.provider_names().into_iter().filter_map(|name| {
            let key = self.provider(name).ok()?.key(env).ok()??;
            Some(key.secret)
        });
        let variables = self.all_key_variables().into_iter();
        let given = variables.filter_map(|name| Some(env.var(&name)?.trim().to_string()));
        let keys: BTreeSet<String> = used.chain(given).collect();
        let long = keys
            .iter()
            .filter(|key| key.chars().count() >= MIN_KEY_CHARS);
        long.flat_map(|key| env.names_of(key))
            .filter(|name| !self.shell.pass_env.iter().any(|pass| pass == name))
            .collect()
    }

    /// Returns all variables that contain keys, including those that are passed to commands.
    pub(super) fn all_key_variables(&self) -> BTreeSet<String> {
        let builtin = builtins().iter().flat_map(|b| &b.key_env).cloned();
        let configured = self
            .providers
            .values()
            .filter_map(|p| p.api_key_env.clone());
        // The address of the shared database has its password, or the file does.
        let fleet = self.fleet.url_env.clone().into_iter();
        let configured = configured.chain(fleet).filter(|name| !name.is_empty());
        let password_file = std::iter::once("PGPASSFILE".to_string());
        builtin.chain(configured).chain(password_file).collect()
    }

    /// Returns the error for an unknown provider.
    pub fn unknown_provider(&self, name: &str) -> ConfigError {
        if let Some(other) = elsewhere(name) {
            let why = format!("{name} is not spoken to: {}", other.why);
            return ConfigError::new(why).with_hint(
                "put a gateway in front of it, LiteLLM for example: docs/models.md shows how",
            );
        }
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
    let base_url = entry.base_url.as_deref();
    let base_url = base_url
        .or(builtin.and_then(|b| b.base_url.as_deref()))
        .map(|url| url.trim_end_matches('/').to_string());
    if protocol == Protocol::Script && entry.script.is_none() {
        return Err(ConfigError::new(format!("provider {name:?} has no script"))
            .with_hint("script is the path of a file of answers"));
    }
    if protocol != Protocol::Script && base_url.is_none() {
        return Err(
            ConfigError::new(format!("provider {name:?} has no base_url"))
                .with_hint(base_url_hint(name, builtin)),
        );
    }
    let base_url = address(name, builtin, entry, base_url.unwrap_or_default())?;
    let api_key_env = match &entry.api_key_env {
        // The name is set to empty: this server requires no key, although the built-in provider
        // does.
        Some(name) if name.is_empty() => Vec::new(),
        Some(name) => vec![name.clone()],
        None if protocol == Protocol::Script => Vec::new(),
        None => builtin.map(|b| b.key_env.clone()).unwrap_or_default(),
    };
    Ok(ProviderConfig {
        name: name.to_string(),
        protocol,
        base_url,
        quirks: builtin.map(|b| b.quirks.clone()).unwrap_or_default(),
        api_key_env,
        api_key_file: entry.api_key_file.clone(),
        kept_key: None,
        is_key_file_of_project: false,
        withheld_key: None,
        headers: entry.headers.clone(),
        idle_timeout_ms: entry.idle_timeout_ms.unwrap_or(IDLE_TIMEOUT_MS),
        progress_timeout_ms: entry.progress_timeout_ms.unwrap_or(PROGRESS_TIMEOUT_MS),
        answer_timeout_ms: entry.answer_timeout_ms.unwrap_or(ANSWER_TIMEOUT_MS),
        ca_file: entry.ca_file.clone(),
        script: entry.script.clone(),
    })
}

fn base_url_hint(name: &str, builtin: Option<&Builtin>) -> String {
    let variable = builtin.and_then(|b| b.base_url_env.first());
    let example = builtin.and_then(|b| b.base_url_example.as_deref());
    match (variable, example) {
        (Some(variable), Some(example)) => {
            format!("set {variable}, or base_url in [providers.{name}], to {example}")
        }
        _ => "for example base_url = \"http://127.0.0.1:8080/v1\"".to_string(),
    }
}

/// Returns the base URL of the config, or the one built from the provider's template.
fn address(
    name: &str,
    builtin: Option<&Builtin>,
    entry: &ProviderEntry,
    base_url: String,
) -> Result<String, ConfigError> {
    let Some((builtin, address)) = builtin.and_then(|b| Some((b, b.address.as_ref()?))) else {
        return Ok(base_url);
    };
    let Some(version) = entry.api_version.as_deref().filter(|v| !v.is_empty()) else {
        let variable = builtin.api_version_env.first();
        let variable = variable.map(String::as_str).unwrap_or_default();
        return Err(
            ConfigError::new(format!("provider {name:?} has no api_version")).with_hint(format!(
                "set {variable}, or api_version in [providers.{name}], to a version such as \
                 \"2024-10-21\", or to \"v1\" for the address without versions"
            )),
        );
    };
    let address = match &builtin.address_v1 {
        Some(address) if version == "v1" => address,
        _ => address,
    };
    // People copy the address with its path.
    let base_url = ["/openai/v1", "/openai"]
        .iter()
        .find_map(|path| base_url.strip_suffix(path))
        .unwrap_or(&base_url);
    Ok(address
        .replace("{base_url}", base_url)
        .replace("{api_version}", version))
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
        assert_eq!(model(&[oai, ant]).unwrap(), "anthropic/claude-sonnet-5-5");
        assert_eq!(model(&[oai]).unwrap(), "openai/gpt-6.2-sol");
        assert_eq!(
            model(&[("GOOGLE_API_KEY", "k")]).unwrap(),
            "gemini/gemini-4-hydrogen"
        );
        assert_eq!(
            model(&[("OPENROUTER_API_KEY", "k")]).unwrap(),
            "openrouter/anthropic/claude-sonnet-5.5"
        );
        // An invalid key does not select another provider: its own error will be reported.
        let broken = ("ANTHROPIC_API_KEY", "two words");
        assert_eq!(
            model(&[broken, oai]).unwrap(),
            "anthropic/claude-sonnet-5-5"
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
    fn an_unknown_or_incomplete_provider_is_reported() {
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
    fn providers_by_name_are_complete_with_their_key_alone() {
        let table = [
            ("cerebras", "CEREBRAS_API_KEY", "https://api.cerebras.ai/v1"),
            (
                "deepseek",
                "DEEPSEEK_API_KEY",
                "https://api.deepseek.com/v1",
            ),
            (
                "fireworks",
                "FIREWORKS_API_KEY",
                "https://api.fireworks.ai/inference/v1",
            ),
            ("groq", "GROQ_API_KEY", "https://api.groq.com/openai/v1"),
            ("mistral", "MISTRAL_API_KEY", "https://api.mistral.ai/v1"),
            ("moonshot", "MOONSHOT_API_KEY", "https://api.moonshot.ai/v1"),
            (
                "together",
                "TOGETHER_API_KEY",
                "https://api.together.xyz/v1",
            ),
            (
                "vercel",
                "AI_GATEWAY_API_KEY",
                "https://ai-gateway.vercel.sh/v1",
            ),
            ("xai", "XAI_API_KEY", "https://api.x.ai/v1"),
            ("zai", "ZAI_API_KEY", "https://api.z.ai/api/paas/v4"),
        ];
        let config = Config::default();
        for (name, variable, url) in table {
            let provider = config.provider(name).unwrap();
            assert_eq!(provider.base_url, url);
            assert_eq!(provider.protocol, Protocol::OpenaiChat, "{name}");
            assert!(provider.has_key(&env(&[(variable, "k")])), "{name}");
            assert!(!provider.has_key(&env(&[])), "{name}");
            assert!(config.key_env_names().contains(variable), "{name}");
            let hint = config.model_name(&env(&[(variable, "k")])).unwrap_err();
            assert_eq!(
                hint.hint().unwrap(),
                format!("there is a key for {name}; name a model of it: -m {name}/MODEL")
            );
        }
    }

    #[test]
    fn azure_says_what_it_lacks() {
        let said = |text: &str| {
            let err = config(text).provider("azure").unwrap_err();
            format!("{err}; {}", err.hint().unwrap_or_default())
        };
        assert_eq!(
            said(""),
            "provider \"azure\" has no base_url; set AZURE_OPENAI_ENDPOINT, or base_url in \
             [providers.azure], to https://RESOURCE.openai.azure.com"
        );
        let half = said("[providers.azure]\nbase_url = \"https://r.openai.azure.com\"");
        assert!(
            half.starts_with("provider \"azure\" has no api_version; set AZURE_OPENAI_API_VERSION")
        );
        let err = ModelName::parse("azure/").unwrap_err();
        assert_eq!(
            err.hint().unwrap(),
            "after azure/ stands the name of your deployment"
        );
        let url = |version: &str, base: &str| {
            let text =
                format!("[providers.azure]\nbase_url = \"{base}\"\napi_version = \"{version}\"");
            config(&text).provider("azure").unwrap().base_url
        };
        for base in [
            "https://r.openai.azure.com/",
            "https://r.openai.azure.com/openai/v1/",
        ] {
            assert_eq!(
                url("2024-10-21", base),
                "https://r.openai.azure.com/openai/deployments/{model}?api-version=2024-10-21"
            );
            assert_eq!(url("v1", base), "https://r.openai.azure.com/openai/v1");
        }
    }

    #[test]
    fn bedrock_and_vertex_are_refused_with_a_gateway_hint() {
        for name in ["bedrock", "vertex"] {
            let err = Config::default().provider(name).unwrap_err();
            assert!(err.to_string().contains("is not spoken to"), "{err}");
            assert!(err.hint().unwrap().contains("gateway"));
        }
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
