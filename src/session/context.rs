//! Context windows as the config, the catalogue and the store know them, for the engine and for the
//! display of the context.

use crate::core::text::count;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use super::AppContext;
use crate::config::Config;
use crate::core::budget::Budget;
use crate::core::gauge::Parts;
use crate::core::settings::Budgeting;
use crate::core::state::State;
use crate::core::window::CompactionSettings;
use crate::engine::Summarising;
use crate::model::{Figures, WindowFrom};
use crate::store::{Learnt, Store, StoreError};

const TITLE: &str = include_str!("../../assets/prompts/title.md");
const SUMMARY: &str = include_str!("../../assets/prompts/summary.md");
const CONTINUATION: &str = include_str!("../../assets/prompts/continuation.md");

/// Time limit of a summary.
const PATIENCE: Duration = Duration::from_secs(90);

/// The known context windows of some models.
#[derive(Clone)]
pub struct KnownWindows {
    figures: Figures,
    /// Values that earlier sessions learnt.
    learnt: BTreeMap<String, Learnt>,
}

/// The source of the size of a context window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WindowSource {
    LearntHere,
    LearntBefore,
    Config,
    Catalogue,
    /// Nothing is known of the model.
    Assumed,
}

impl WindowSource {
    /// Returns its words for a person, which follow the number.
    pub fn words(self) -> &'static str {
        match self {
            WindowSource::LearntHere => "learnt in this session",
            WindowSource::LearntBefore => "learnt in an earlier session",
            WindowSource::Config => "from the config",
            WindowSource::Catalogue => "from the list of models",
            WindowSource::Assumed => "assumed: the model is not in the list",
        }
    }
}

impl KnownWindows {
    /// Reads the values of the config, the catalogue and earlier sessions for these models, each a
    /// `provider/model`.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub fn read(
        ctx: &AppContext,
        store: &Store,
        models: &[&str],
    ) -> Result<KnownWindows, StoreError> {
        let mut learnt: BTreeMap<String, Learnt> = BTreeMap::new();
        for model in models {
            learnt.insert(model.to_string(), store.models().learnt(model)?);
        }
        Ok(KnownWindows {
            learnt,
            ..KnownWindows::of(ctx.config())
        })
    }

    /// Returns the values of the config and the catalogue alone.
    pub fn of(config: &Config) -> KnownWindows {
        KnownWindows {
            figures: Figures::new(config),
            learnt: BTreeMap::new(),
        }
    }

    /// Returns the context window of a model and its source. `limit` was learnt in the session. A
    /// limit of an earlier session does not override the config, since the server may have been
    /// restarted with a larger window. Any learnt limit overrides an assumed window, also a larger
    /// one.
    fn window(&self, model: &str, limit: Option<u64>) -> (u64, WindowSource) {
        let (known, from) = self.figures.window(model);
        let before = self.learnt.get(model).and_then(|l| l.context_tokens);
        let (said, source) = match from {
            WindowFrom::Config => (known, WindowSource::Config),
            WindowFrom::Catalogue => (known, WindowSource::Catalogue),
            WindowFrom::Nothing => (known, WindowSource::Assumed),
        };
        let before = before.filter(|_| from != WindowFrom::Config);
        let counts = |limit: u64| limit < said || source == WindowSource::Assumed;
        match (limit, before) {
            (Some(limit), _) if counts(limit) => (limit, WindowSource::LearntHere),
            (None, Some(limit)) if counts(limit) => (limit, WindowSource::LearntBefore),
            _ => (said, source),
        }
    }

    /// Returns the words for a window that an earlier session learnt, if it is smaller than the list of
    /// models says.
    pub fn warning(&self, model: &str) -> Option<String> {
        let (listed, from) = self.figures.window(model);
        let (window, source) = self.window(model, None);
        let usual = match from {
            WindowFrom::Catalogue => format!("the list of models says {listed}"),
            WindowFrom::Nothing => format!("otherwise {listed} are assumed"),
            WindowFrom::Config => return None,
        };
        let is_smaller = source == WindowSource::LearntBefore && window < listed;
        is_smaller.then(|| {
            format!(
                "{model} gets {window} tokens at most, as an earlier session learnt from its server \
                 ({usual}); rewake models --forget {model} forgets it"
            )
        })
    }

    /// Returns the budget of a model, with the limit and the ratio that the session learnt. Without
    /// them, those of an earlier session are used.
    fn budget(&self, model: &str, limit: Option<u64>, ratio: Option<f64>) -> Budget {
        let before = self.learnt.get(model).and_then(|l| l.bytes_per_token);
        let (window, _) = self.window(model, limit);
        Budget::new(window, self.figures.answer_tokens(model), ratio.or(before))
    }

    /// Returns the budget of the session's model, with the values that the session learnt.
    pub fn budget_of(&self, state: &State) -> Budget {
        let model = &state.model;
        let limit = state.limits.get(model).copied();
        let budget = self.budget(model, limit, state.ratios.get(model).copied());
        state.outputs.applied(model, budget)
    }

    /// Returns the budget as a function, for the engine's [`crate::core::settings::Policy`].
    pub fn budgeting(self) -> Budgeting {
        Arc::new(move |model, limit, ratio| self.budget(model, limit, ratio))
    }
}

/// The input of a [`Gauge`], besides the state.
#[derive(Clone)]
pub struct Gauging {
    /// The known context windows.
    pub known: KnownWindows,
    /// When the context is compacted.
    pub windows: CompactionSettings,
}

impl Gauging {
    /// Returns the gauge of this state.
    pub fn of(&self, state: &State) -> Gauge {
        Gauge::of(state, &self.known, &self.windows)
    }
}

/// The use of the context, for a person.
#[derive(Debug, Clone, PartialEq)]
pub struct Gauge {
    /// Maximum tokens of request and answer together, and the source of that number.
    pub window: u64,
    pub source: WindowSource,
    /// Maximum tokens of a request that is sent.
    pub hard: u64,
    /// Tokens of the next request, by its parts.
    pub parts: Parts,
    /// Number of compactions.
    pub compacted: u32,
    /// How often the context started over from a note.
    pub continuations: u32,
    /// Number of old results that a line replaced, and how often one was read again.
    pub freed: u64,
    pub read_again: u64,
    /// Limits that this session learnt, by model.
    pub limits: BTreeMap<String, u64>,
    /// Tokens of `asked` that came from the provider's cache.
    pub cached: u64,
    /// Tokens of all prompts of the session, including those for summaries.
    pub asked: u64,
    /// Tokens that summaries and notes took.
    pub summarising: u64,
}

impl Gauge {
    /// Returns the gauge of this state. `windows` says when it is compacted.
    pub fn of(state: &State, known: &KnownWindows, windows: &CompactionSettings) -> Gauge {
        let budget = known.budget_of(state);
        let limit = state.limits.get(&state.model).copied();
        let (_, source) = known.window(&state.model, limit);
        let windows_left = state.preface.as_ref().map_or(0, |p| p.windows);
        Gauge {
            window: budget.window,
            source,
            hard: budget.hard(),
            parts: Parts::of(state, &budget, windows),
            compacted: windows_left.saturating_sub(state.continuations),
            continuations: state.continuations,
            freed: state.freed.results,
            read_again: state.freed.read_again,
            limits: state.limits.clone(),
            cached: state.usage.cached,
            asked: state.usage.prompt(),
            summarising: state.summarising.all(),
        }
    }

    /// Returns the gauge as lines of text, as `/context` and `rewake show` print it.
    pub fn lines(&self) -> Vec<String> {
        let Parts {
            system,
            instructions,
            summary,
            recent,
        } = self.parts;
        let mut lines = vec![
            format!(
                "context window of {} tokens, {}",
                self.window,
                self.source.words()
            ),
            format!(
                "the next request has about {} tokens of at most {}: system and tools {system}, \
                 instructions {instructions}, summary {summary}, recent {recent}",
                self.parts.all(),
                self.hard,
            ),
            format!(
                "{} summarised, {}; that took {} tokens",
                count(self.compacted, "window"),
                count(self.continuations, "continuation"),
                self.summarising,
            ),
        ];
        if self.asked > 0 {
            let rate = self.cached as f64 / self.asked as f64 * 100.0;
            lines.push(format!(
                "{} of {} input tokens came from the cache, {rate:.1} %",
                self.cached, self.asked
            ));
        }
        if self.freed > 0 {
            lines.push(format!(
                "{} left the context for a line each; read again: {}",
                count(self.freed, "old result"),
                self.read_again
            ));
        }
        let limits = self.limits.iter();
        lines.extend(limits.map(|(model, limit)| format!("learnt: {model} takes {limit} tokens")));
        lines
    }
}

/// Returns when the context is compacted, from the config.
pub fn windows(config: &Config) -> CompactionSettings {
    let context = &config.context;
    let size = |n: u64| usize::try_from(n).unwrap_or(usize::MAX);
    CompactionSettings {
        strategy: context.strategy,
        keep: size(context.keep),
        max_messages: size(context.max_messages),
        max_tokens: context.max_tokens,
        idle_sec: context.idle_sec,
        summary_max_tokens: context.summary_max_tokens,
        inline_max_bytes: size(config.inline_max_bytes),
    }
}

/// Returns the settings for summaries, from the config. `others`: the fallback models.
pub fn summarising(config: &Config, others: Vec<String>, interactive: bool) -> Summarising {
    // A title helps people who read a list of sessions. It is worth a call only of a model that was
    // configured for such work.
    let makes_titles = interactive && config.summary_model.is_some();
    Summarising {
        title: makes_titles.then(|| TITLE.to_string()),
        model: config.summary_model.clone(),
        others,
        instructions: SUMMARY.to_string(),
        continuation: CONTINUATION.to_string(),
        fallback: config.context.fallback,
        patience: PATIENCE,
    }
}
