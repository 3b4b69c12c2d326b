//! The built-in figures of models: context window, output limit and prices. The figures and their
//! date are in `assets/models.toml`.
//!
//! Invariant: nothing depends on a model being known. An unknown one gets small, safe figures
//! and no price; the config and the provider's own errors correct them.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use jiff::civil::Date;
use serde::Deserialize;

use crate::core::entry::Usage;

/// Maximum default length of an answer, tokens. The space for the answer is not available to the
/// context.
const MAX_DEFAULT_OUTPUT: u64 = 32_000;

#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ModelInfo {
    /// Maximum size of a prompt, tokens.
    pub context_window: u64,
    /// Maximum size of an answer, tokens.
    pub max_output: u64,
    pub prices: Option<Prices>,
    /// Prices for the whole request if the prompt is long.
    pub long: Option<LongPrices>,
    /// The day on which its provider takes it away, if that is known.
    pub ends: Option<Date>,
}

/// US dollars per million tokens.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Prices {
    pub input: f64,
    pub cached: f64,
    pub cache_write: f64,
    pub output: f64,
}

#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LongPrices {
    /// Size of the prompt above which these prices apply, tokens.
    pub over: u64,
    pub prices: Prices,
}

impl Default for ModelInfo {
    /// Returns the figures of an unknown model.
    fn default() -> ModelInfo {
        ModelInfo {
            context_window: 32_000,
            max_output: 4_096,
            prices: None,
            long: None,
            ends: None,
        }
    }
}

impl ModelInfo {
    /// Returns the default limit of an answer, tokens.
    pub fn default_output(&self) -> u64 {
        self.max_output.min(MAX_DEFAULT_OUTPUT)
    }

    /// Returns the cost of one answer in US dollars: the provider's figure, else computed from the
    /// prices.
    pub fn cost(&self, usage: &Usage) -> Option<f64> {
        if let Some(nanos) = usage.billed_nanos {
            return Some(nanos as f64 / 1e9);
        }
        let long = self.long.filter(|long| usage.prompt() > long.over);
        let prices = long.map(|long| long.prices).or(self.prices)?;
        let per_million = usage.input as f64 * prices.input
            + usage.cached as f64 * prices.cached
            + usage.cache_written as f64 * prices.cache_write
            + usage.output as f64 * prices.output;
        Some(per_million / 1_000_000.0)
    }
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Catalogue {
    /// Date of the figures.
    snapshot: String,
    models: BTreeMap<String, ModelInfo>,
}

fn catalogue() -> &'static Catalogue {
    static CATALOGUE: OnceLock<Catalogue> = OnceLock::new();
    let text = include_str!("../../assets/models.toml");
    // A test parses the table, so it cannot be invalid here.
    CATALOGUE.get_or_init(|| toml::from_str(text).unwrap_or_default())
}

/// Returns the date of the prices.
pub fn snapshot() -> &'static str {
    &catalogue().snapshot
}

/// Returns the names of all known models. A row without prices is the beginning of many names.
pub(crate) fn names() -> impl Iterator<Item = &'static str> {
    let models = catalogue().models.iter();
    let models = models.filter(|(_, info)| info.prices.is_some());
    models.map(|(name, _)| name.as_str())
}

/// Returns the figures of `provider/model`: of that name, or of the longest known name that it
/// begins with. `claude-x-20260102` is `claude-x`. Another variant of a known model gets its
/// figures, but not its prices.
pub(crate) fn lookup(model: &str) -> ModelInfo {
    let models = &catalogue().models;
    if let Some(info) = models.get(model) {
        return info.clone();
    }
    let longest = models
        .iter()
        .filter_map(|(name, info)| Some((name.len(), info, model.strip_prefix(name)?)))
        .filter(|(_, _, rest)| rest.starts_with(['-', ':', '@', '.']))
        .max_by_key(|(length, _, _)| *length);
    match longest {
        Some((_, info, rest)) if is_version(rest) => info.clone(),
        Some((_, info, _)) => ModelInfo {
            prices: None,
            long: None,
            ends: None,
            ..info.clone()
        },
        None => ModelInfo::default(),
    }
}

/// Returns whether the rest of a name is a version: `-20250929`, `-2025-08-07`, `-001`, `-latest`.
/// Not `.2` or `-2`, which name other models.
pub(super) fn is_version(rest: &str) -> bool {
    let digits = rest.bytes().filter(u8::is_ascii_digit).count();
    let is_date = rest
        .bytes()
        .all(|b| b == b'-' || b == b'@' || b.is_ascii_digit());
    rest == "-latest" || (is_date && digits >= 3)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_catalogue_is_read_and_plausible() {
        let catalogue: Catalogue =
            toml::from_str(include_str!("../../assets/models.toml")).unwrap();
        assert!(catalogue.snapshot.parse::<jiff::civil::Date>().is_ok());
        assert!(catalogue.models.len() > 10);
        for (name, info) in &catalogue.models {
            assert!(
                name.split_once('/')
                    .is_some_and(|(p, m)| !p.is_empty() && !m.is_empty()),
                "{name}"
            );
            assert!(info.context_window >= 32_000, "{name}");
            assert!(info.max_output <= info.context_window, "{name}");
            let long = info.long.map(|long| long.prices);
            for p in info.prices.iter().chain(&long) {
                assert!(
                    0.0 < p.cached && p.cached <= p.input && p.input < p.output,
                    "{name}"
                );
                assert!(
                    p.cache_write >= p.input && p.cache_write < p.output,
                    "{name}"
                );
            }
            let dearer = |long: Prices| info.prices.is_some_and(|p| p.input < long.input);
            assert!(long.is_none_or(dearer), "{name}");
        }
    }

    #[test]
    fn a_dated_name_is_the_model_and_a_variant_is_not() {
        let known = lookup("anthropic/claude-sonnet-4-5");
        assert!(known.prices.is_some());
        assert_eq!(lookup("anthropic/claude-sonnet-4-5-20250929"), known);
        assert_eq!(lookup("openai/gpt-5-2025-08-07"), lookup("openai/gpt-5"));
        let variant = lookup("openai/gpt-5-turbo");
        assert_eq!(
            variant.context_window,
            lookup("openai/gpt-5").context_window
        );
        assert_eq!(variant.prices, None);
        assert_eq!(lookup("openai/gpt-5.99").prices, None);
    }

    #[test]
    fn an_unknown_model_gets_safe_figures() {
        let unknown = lookup("local/my-model");
        assert_eq!(
            (unknown.context_window, unknown.max_output),
            (32_000, 4_096)
        );
        assert_eq!(unknown.cost(&Usage::default()), None);
        assert_eq!(lookup("anthropic/claudette"), unknown);
    }

    #[test]
    fn the_default_output_is_capped() {
        let mut info = ModelInfo::default();
        assert_eq!(info.default_output(), 4_096);
        info.max_output = 128_000;
        assert_eq!(info.default_output(), 32_000);
    }

    #[test]
    fn cost_counts_each_kind_of_token_and_long_prompts() {
        let prices = |x: f64| Prices {
            input: 4.0 * x,
            cached: 0.4 * x,
            cache_write: 5.0 * x,
            output: 20.0 * x,
        };
        let info = ModelInfo {
            prices: Some(prices(1.0)),
            long: Some(LongPrices {
                over: 200_000,
                prices: prices(2.0),
            }),
            ..ModelInfo::default()
        };
        let usage = |input| Usage {
            input,
            cached: 100_000,
            cache_written: 10_000,
            output: 1_000,
            billed_nanos: None,
        };
        let near = |cost: Option<f64>, want: f64| (cost.unwrap() - want).abs() < 1e-9;
        assert!(near(info.cost(&usage(90_000)), 0.36 + 0.04 + 0.05 + 0.02));
        assert!(near(info.cost(&usage(90_001)), 2.0 * (0.47 + 0.000004)));
    }
}
