//! What the config, the catalogue and the store know of context windows, for the engine and
//! for whoever shows the context.

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
use crate::core::window::Windows;
use crate::engine::Summarising;
use crate::model::{Figures, WindowFrom};
use crate::store::{Learnt, Store, StoreError};

const TITLE: &str = include_str!("../../assets/prompts/title.md");
const SUMMARY: &str = include_str!("../../assets/prompts/summary.md");
const CONTINUATION: &str = include_str!("../../assets/prompts/continuation.md");

/// A summary that takes longer than this is done without.
const PATIENCE: Duration = Duration::from_secs(90);

/// What is known of the windows of these models.
#[derive(Clone)]
pub struct Known {
    figures: Figures,
    /// In earlier sessions.
    learnt: BTreeMap<String, Learnt>,
}

/// Where the number of a context window came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    LearntHere,
    LearntBefore,
    Config,
    Catalogue,
    /// Nothing is known of the model.
    Assumed,
}

impl Source {
    /// In words for a person, as they stand behind the number.
    pub fn words(self) -> &'static str {
        match self {
            Source::LearntHere => "learnt in this session",
            Source::LearntBefore => "learnt in an earlier session",
            Source::Config => "from the config",
            Source::Catalogue => "from the list of models",
            Source::Assumed => "assumed: the model is not in the list",
        }
    }
}

impl Known {
    /// What the config, the catalogue and earlier sessions know of these models, each a
    /// `provider/model`.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub fn read(ctx: &AppContext, store: &Store, models: &[&str]) -> Result<Known, StoreError> {
        let mut learnt: BTreeMap<String, Learnt> = BTreeMap::new();
        for model in models {
            learnt.insert(model.to_string(), store.learnt(model)?);
        }
        Ok(Known {
            learnt,
            ..Known::of(ctx.config())
        })
    }

    /// What the config and the catalogue know.
    pub fn of(config: &Config) -> Known {
        Known {
            figures: Figures::new(config),
            learnt: BTreeMap::new(),
        }
    }

    /// `limit`: as learnt in the session. What the config says of a model is not overruled by
    /// what an earlier session learnt: the server may have been started with a larger window.
    /// An assumed window is overruled by whatever is learnt, also by a larger one.
    fn window(&self, model: &str, limit: Option<u64>) -> (u64, Source) {
        let (known, from) = self.figures.window(model);
        let before = self.learnt.get(model).and_then(|l| l.context_tokens);
        let (said, source) = match from {
            WindowFrom::Config => (known, Source::Config),
            WindowFrom::Catalogue => (known, Source::Catalogue),
            WindowFrom::Nothing => (known, Source::Assumed),
        };
        let before = before.filter(|_| from != WindowFrom::Config);
        let counts = |limit: u64| limit < said || source == Source::Assumed;
        match (limit, before) {
            (Some(limit), _) if counts(limit) => (limit, Source::LearntHere),
            (None, Some(limit)) if counts(limit) => (limit, Source::LearntBefore),
            _ => (said, source),
        }
    }

    /// The context window of a model, with what a session learnt of its limit and its ratio:
    /// that, else what an earlier one did.
    fn budget(&self, model: &str, limit: Option<u64>, ratio: Option<f64>) -> Budget {
        let before = self.learnt.get(model).and_then(|l| l.bytes_per_token);
        let (window, _) = self.window(model, limit);
        Budget::new(window, self.figures.answer_tokens(model), ratio.or(before))
    }

    /// The budget of the model that a session uses, with what the session learnt of it.
    pub fn budget_of(&self, state: &State) -> Budget {
        let model = &state.model;
        let limit = state.limits.get(model).copied();
        self.budget(model, limit, state.ratios.get(model).copied())
    }

    /// The same as a function, for the engine's [`crate::core::settings::Policy`].
    pub fn budgeting(self) -> Budgeting {
        Arc::new(move |model, limit, ratio| self.budget(model, limit, ratio))
    }
}

/// What a gauge is read with.
#[derive(Clone)]
pub struct Gauging {
    /// What is known of the windows of models.
    pub known: Known,
    /// When the context is compacted.
    pub windows: Windows,
}

impl Gauging {
    /// How full the context of this state is.
    pub fn of(&self, state: &State) -> Gauge {
        Gauge::of(state, &self.known, &self.windows)
    }
}

/// The context as a person is shown it.
#[derive(Debug, Clone, PartialEq)]
pub struct Gauge {
    /// Tokens of request and answer together, and where that number came from.
    pub window: u64,
    pub source: Source,
    /// A request over this is not sent.
    pub hard: u64,
    /// The next request, by its parts, tokens.
    pub parts: Parts,
    /// Windows that were summarised.
    pub compacted: u32,
    /// How often the context began again from a note.
    pub continuations: u32,
    /// Old results that left the context for a line each, and how often one was read again.
    pub freed: u64,
    pub read_again: u64,
    /// Learnt in this session, by model.
    pub limits: BTreeMap<String, u64>,
    /// Read from the provider's cache, of all that was asked.
    pub cached: u64,
    /// Tokens of all prompts of the session, those for summaries included.
    pub asked: u64,
    /// Of what was asked, for summaries and notes.
    pub summarising: u64,
}

impl Gauge {
    /// How full the context of this state is. `windows` says when it is compacted.
    pub fn of(state: &State, known: &Known, windows: &Windows) -> Gauge {
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

    /// The gauge in lines of text, as `/context` and `rewake show` print it.
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

/// When the context is compacted, as the config says.
pub fn windows(config: &Config) -> Windows {
    let context = &config.context;
    let size = |n: u64| usize::try_from(n).unwrap_or(usize::MAX);
    Windows {
        strategy: context.strategy,
        keep: size(context.keep),
        max_messages: size(context.max_messages),
        max_tokens: context.max_tokens,
        idle_sec: context.idle_sec,
        summary_max_tokens: context.summary_max_tokens,
        inline_max_bytes: size(config.inline_max_bytes),
    }
}

/// How summaries are asked for, as the config says.
pub fn summarising(config: &Config, interactive: bool) -> Summarising {
    // A title is for who looks through a list, and worth a call only of a model that was chosen
    // for such work.
    let makes_titles = interactive && config.summary_model.is_some();
    Summarising {
        title: makes_titles.then(|| TITLE.to_string()),
        model: config.summary_model.clone(),
        instructions: SUMMARY.to_string(),
        continuation: CONTINUATION.to_string(),
        fallback: config.context.fallback,
        patience: PATIENCE,
    }
}
