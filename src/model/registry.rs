//! The models of a config: their backends with keys, and their figures.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

use super::provider::{Provider, Secret};
use super::retry::Retry;
use super::script::Script;
use super::{
    Backend, Delta, KeyTrial, Reply, ServerFacts, catalogue, http, key_trial, offered, structured,
    target, text_calls, window,
};
use crate::config::{
    Config, ConfigError, Env, ModelName, Origin, Protocol, ProviderConfig, read_text,
};
use crate::core::choice::Effort;
use crate::core::entry::{Failure, FailureClass, RequestForm, Usage};
use crate::core::request::Request;
use crate::core::state::State;

const SCRIPT_MAX_BYTES: u64 = 64 * 1024 * 1024;

/// The models of the config. A provider is created when it is first used.
pub struct Models {
    config: Config,
    env: Env,
    backends: RefCell<BTreeMap<String, Backend>>,
    /// Models whose servers refused the field for the schema of an answer.
    without_field: RefCell<BTreeSet<String>>,
    /// Forms of the history that the servers of models said to need.
    said_forms: RefCell<BTreeMap<String, Vec<RequestForm>>>,
    /// Models whose servers said that they have no tools.
    without_tools: RefCell<BTreeSet<String>>,
}

impl Models {
    /// Creates the registry. Keys are read from `env` when a model is first used.
    pub fn new(config: Config, env: Env) -> Models {
        Models {
            config,
            env,
            backends: RefCell::default(),
            without_field: RefCell::default(),
            said_forms: RefCell::default(),
            without_tools: RefCell::default(),
        }
    }

    /// Returns whether the model can be used: its provider is known and has its key. Returns
    /// warnings for the user.
    pub fn check(&self, model: &str) -> Result<Vec<String>, ConfigError> {
        let name = ModelName::parse(model)?;
        let provider = self.config.provider(&name.provider)?;
        let key = provider.key(&self.env)?;
        if provider.protocol == Protocol::Script {
            self.backend(&name.provider)?;
        }
        Ok(key
            .and_then(|k| k.warning)
            .map(|warning| warning.to_string())
            .into_iter()
            .collect())
    }

    /// Sends the request to its model. Missing effort and temperature are taken from the config:
    /// of the model, else the global ones.
    pub async fn call(
        &self,
        mut request: Request,
        blobs: target::Blobs<'_>,
        on: &mut (dyn FnMut(Delta) + Send),
    ) -> Result<Reply, Failure> {
        let backend = ModelName::parse(&request.model)
            .and_then(|name| self.backend(&name.provider))
            .map_err(|error| Failure {
                class: FailureClass::Auth,
                message: error.to_string(),
                hint: error.hint().map(str::to_string),
            })?;
        let own = self.config.models.get(&request.model);
        if request.effort == Effort::Default {
            let of_model = own.and_then(|m| m.effort);
            request.effort = of_model.or(self.config.effort).unwrap_or_default();
        }
        let of_model = || own.and_then(|m| m.temperature);
        request.temperature = request
            .temperature
            .or_else(of_model)
            .or(self.config.temperature);
        let is_said = self.without_tools.borrow().contains(&request.model);
        let is_set = own.and_then(|m| m.calls_in_text);
        let has_text_calls = is_set.unwrap_or(is_said);
        let Some(schema) = request.schema.clone() else {
            let reply = backend.call(&request, blobs, on).await?;
            if has_text_calls {
                return Ok(text_calls::read(reply, &request.tools));
            }
            return Ok(reply);
        };
        match &backend {
            _ if self.without_field.borrow().contains(&request.model) => {
                structured::use_tool(&mut request);
            }
            Backend::Http(_, provider) => {
                structured::prepare(&mut request, provider.protocol, &provider.quirks)
            }
            Backend::Script(_) => {}
        }
        let reply = match backend.call(&request, blobs, on).await {
            Err(failure) if request.schema.is_some() && structured::is_refused(&failure) => {
                self.without_field
                    .borrow_mut()
                    .insert(request.model.clone());
                structured::use_tool(&mut request);
                backend.call(&request, blobs, on).await?
            }
            answered => answered?,
        };
        Ok(structured::read(reply, &schema))
    }

    /// Returns the length to which an answer of this model may be raised, in tokens: what the config
    /// or the catalogue allows, or for an unknown model a few times the usual.
    pub fn most_answer_tokens(&self, model: &str) -> u64 {
        const UNKNOWN: u64 = 4;
        let figures = Figures::new(&self.config);
        let info = figures.of(model);
        let own = self.config.models.get(model);
        let is_known = catalogue::lookup(model) != catalogue::ModelInfo::default()
            || own.is_some_and(|own| own.max_output.is_some());
        match self.config.max_output_tokens {
            Some(_) => figures.answer_tokens(model),
            None if !is_known => info.max_output * UNKNOWN,
            None => info.max_output,
        }
    }

    /// Returns the forms of the history that the server is known to need, or has said to need.
    pub fn first_forms(&self, model: &str) -> Vec<RequestForm> {
        let said = self.said_forms.borrow();
        let mut forms = said.get(model).cloned().unwrap_or_default();
        let provider = ModelName::parse(model).ok();
        let backend = provider.and_then(|name| self.backend(&name.provider).ok());
        let is_known = |provider: &Provider| provider.quirks.notes_in_results;
        if matches!(backend, Some(Backend::Http(_, provider)) if is_known(&provider))
            && !forms.contains(&RequestForm::NotesInResults)
        {
            forms.insert(0, RequestForm::NotesInResults);
        }
        forms
    }

    /// Returns what the server says about the model, and keeps its forms for [`Models::first_forms`].
    /// The window is asked for if the model is otherwise unknown. `has_window`: the session knows one,
    /// which only a restart of a self-hosted server changes.
    pub async fn server_facts(&self, model: &str, has_window: bool) -> ServerFacts {
        let is_unknown = Figures::new(&self.config).window(model).1 == WindowFrom::Nothing;
        let name = ModelName::parse(model).ok();
        let backend = |name: ModelName| Some((self.backend(&name.provider).ok()?, name.model));
        let Some((Backend::Http(client, provider), name)) = name.and_then(backend) else {
            return ServerFacts::default();
        };
        let asks_window = is_unknown && (!has_window || window::is_self_hosted(&provider));
        let facts = window::ask(&client, &provider, &name, asks_window).await;
        let mut said = self.said_forms.borrow_mut();
        said.insert(model.to_string(), facts.forms.clone());
        if facts.no_tools.is_some() {
            self.without_tools.borrow_mut().insert(model.to_string());
        }
        facts
    }

    fn backend(&self, name: &str) -> Result<Backend, ConfigError> {
        let known = self.backends.borrow().get(name).cloned();
        if let Some(backend) = known
            && !self.has_other_key(name, &backend)
        {
            return Ok(backend);
        }
        let config = self.config.provider(name)?;
        let backend = match config.protocol {
            Protocol::Script => Backend::Script(read_script(&config)?),
            Protocol::Anthropic
            | Protocol::OpenaiResponses
            | Protocol::OpenaiChat
            | Protocol::Gemini => self.http(&config)?,
        };
        self.backends
            .borrow_mut()
            .insert(name.to_string(), backend.clone());
        Ok(backend)
    }

    /// Returns whether the user has stored another key since. An unreadable key does not count as
    /// another one.
    fn has_other_key(&self, name: &str, backend: &Backend) -> bool {
        let Backend::Http(_, provider) = backend else {
            return false;
        };
        let key = self.config.provider(name).and_then(|p| p.key(&self.env));
        key.is_ok_and(|key| key.map(|key| Secret::new(key.secret)) != provider.key)
    }

    /// Tries a key that is not stored yet.
    pub async fn try_key(&self, provider: &str, key: Secret) -> KeyTrial {
        match self.config.provider(provider) {
            Ok(config) => {
                let (client, provider) = self.connected(&config, Some(key), String::new());
                key_trial::try_key(&client, &provider).await
            }
            Err(error) => KeyTrial::NotTried(error.to_string()),
        }
    }

    /// Returns the models that a provider lists. `key`: one that is not stored yet. `None`: the key
    /// that is in use.
    pub async fn offered(&self, provider: &str, key: Option<Secret>) -> offered::ModelList {
        let asked = self.config.provider(provider).and_then(|config| match key {
            Some(key) => Ok(self.connected(&config, Some(key), String::new())),
            None => match self.backend(&config.name)? {
                Backend::Http(client, provider) => Ok((client, provider)),
                Backend::Script(_) => Ok(self.connected(&config, None, String::new())),
            },
        });
        match asked {
            Ok((client, provider)) => offered::ask(&client, &provider).await,
            Err(error) => offered::ModelList::Unknown(error.to_string()),
        }
    }

    fn http(&self, config: &ProviderConfig) -> Result<Backend, ConfigError> {
        let key = config.key(&self.env)?;
        let origin = match key.as_ref().map(|key| &key.origin) {
            Some(Origin::Kept(file)) => file.display().to_string(),
            _ => config.api_key_env.first().cloned().unwrap_or_default(),
        };
        let key = key.map(|key| Secret::new(key.secret));
        let (client, provider) = self.connected(config, key, origin);
        Ok(Backend::Http(client, provider))
    }

    /// Returns a provider with its connections. `key_env`: where a person finds the key.
    fn connected(
        &self,
        config: &ProviderConfig,
        key: Option<Secret>,
        key_env: String,
    ) -> (http::Client, Provider) {
        let retry = Retry {
            tries: u32::try_from(self.config.retry.tries).unwrap_or(u32::MAX),
            base_ms: self.config.retry.base_ms,
            cap_ms: self.config.retry.cap_ms,
            max_wait_ms: self.config.retry.max_wait_ms,
            waits_for_server: self.config.fallback_model.is_empty(),
        };
        let provider = Provider {
            name: config.name.clone(),
            protocol: config.protocol,
            base_url: config.base_url.clone(),
            key_env,
            key,
            headers: config.headers.clone().into_iter().collect(),
            idle_timeout_ms: config.idle_timeout_ms,
            progress_timeout_ms: config.progress_timeout_ms,
            answer_timeout_ms: config.answer_timeout_ms,
            thinking_budget: self.config.thinking_budget_tokens,
            quirks: config.quirks.clone(),
        };
        (http::Client::new(retry, config.ca_file.clone()), provider)
    }
}

fn read_script(config: &ProviderConfig) -> Result<Script, ConfigError> {
    let path = config.script.clone().unwrap_or_default();
    let text = read_text(&path, SCRIPT_MAX_BYTES)
        .map_err(|e| ConfigError::new(format!("cannot read the script {}: {e}", path.display())))?;
    Script::parse(&text).map_err(|e| ConfigError::new(format!("{}: {e}", path.display())))
}

/// The source of the size of a context window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WindowFrom {
    /// The config for this model.
    Config,
    /// The built-in catalogue.
    Catalogue,
    /// The model is unknown.
    Nothing,
}

/// Context windows, output limits and prices from the catalogue and the config, which takes
/// precedence.
#[derive(Clone)]
pub struct Figures {
    config: Config,
}

impl Figures {
    /// Returns the figures for this config. They do not include learnt limits of models.
    pub fn new(config: &Config) -> Figures {
        Figures {
            config: config.clone(),
        }
    }

    /// Returns the figures of `provider/model`. An unknown model gets small, safe figures.
    pub fn of(&self, model: &str) -> catalogue::ModelInfo {
        let mut info = catalogue::lookup(model);
        let Some(own) = self.config.models.get(model) else {
            return info;
        };
        info.context_window = own.context_window.unwrap_or(info.context_window);
        info.max_output = own.max_output.unwrap_or(info.max_output);
        info.ends = own.ends.or(info.ends);
        if let Some(input) = own.input_price {
            info.long = None;
            info.prices = Some(catalogue::Prices {
                input,
                cached: own.cached_price.unwrap_or(input),
                cache_write: own.cache_write_price.unwrap_or(input),
                output: own.output_price.unwrap_or(input),
            });
        }
        info
    }

    /// Returns what a session has cost, US dollars. `None`: a price is not known.
    pub fn cost_of(&self, state: &State) -> Option<f64> {
        let spent = state.spent.iter();
        let mut spent = spent.flat_map(|(model, all)| all.iter().map(move |usage| (model, usage)));
        spent.try_fold(0.0, |sum, (model, usage)| {
            Some(sum + self.cost(model, usage)?)
        })
    }

    /// Returns the names of known models, those of the config first.
    pub fn names(&self) -> Vec<String> {
        let own = self.config.model.iter().chain(self.config.models.keys());
        let mut names: Vec<String> = own.cloned().collect();
        names.extend(catalogue::names().map(str::to_string));
        let mut seen = std::collections::HashSet::new();
        names.retain(|name| seen.insert(name.clone()));
        names
    }

    /// Returns the context window in tokens, and its source.
    pub fn window(&self, model: &str) -> (u64, WindowFrom) {
        let own = self.config.models.get(model).and_then(|m| m.context_window);
        let listed = catalogue::lookup(model);
        match own {
            Some(tokens) => (tokens, WindowFrom::Config),
            None if listed == catalogue::ModelInfo::default() => {
                (listed.context_window, WindowFrom::Nothing)
            }
            None => (listed.context_window, WindowFrom::Catalogue),
        }
    }

    /// Returns the maximum length of an answer in tokens.
    pub fn answer_tokens(&self, model: &str) -> u64 {
        let info = self.of(model);
        match self.config.max_output_tokens {
            Some(tokens) => tokens.min(info.max_output.max(1)),
            None => info.default_output(),
        }
    }

    /// Returns the cost of one answer in US dollars, or `None` if the price is unknown.
    pub fn cost(&self, model: &str, usage: &Usage) -> Option<f64> {
        self.of(model).cost(usage)
    }
}

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_key_file_that_others_can_read_is_used_with_a_warning() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("key");
        fs::write(&file, "sk-1").unwrap();
        let text = format!("[providers.anthropic]\napi_key_file = {file:?}");
        let models = Models::new(
            toml::from_str(&text).unwrap(),
            Env::new::<&str, &str>([], "/"),
        );
        for (mode, warnings) in [(0o600, 0), (0o640, 1), (0o604, 1)] {
            fs::set_permissions(&file, Permissions::from_mode(mode)).unwrap();
            let said = models.check("anthropic/claude").unwrap();
            assert_eq!(said.len(), warnings, "{mode:o}: {said:?}");
            let has_hint = |text: &String| text.contains("hint: chmod 600 ");
            assert!(said.iter().all(has_hint), "{said:?}");
        }
    }
}
