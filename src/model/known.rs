//! The known models with their figures, for `rewake models` and the server.

use serde_json::{Value, json};

use super::catalogue::{ModelInfo, Prices, snapshot};
use super::{Figures, split_name};
use crate::config::Config;

/// A model of the catalogue or of the config.
pub struct KnownModel {
    pub provider: String,
    pub model: String,
    pub info: ModelInfo,
}

impl KnownModel {
    /// Returns whether the filter is the model's provider or part of its name.
    pub fn fits(&self, filter: &str) -> bool {
        let filter = filter.trim_end_matches('/').to_lowercase();
        let name = format!("{}/{}", self.provider, self.model).to_lowercase();
        self.provider.to_lowercase() == filter || name.contains(&filter)
    }
}

/// Returns all known models, by name.
pub fn known_models(config: &Config) -> Vec<KnownModel> {
    let figures = Figures::new(config);
    let mut names = figures.names();
    names.sort();
    names
        .iter()
        .filter_map(|name| {
            let (provider, model) = split_name(name)?;
            Some(KnownModel {
                provider: provider.to_string(),
                model: model.to_string(),
                info: figures.of(name),
            })
        })
        .collect()
}

/// Returns the object of `rewake models --json`.
pub fn models_json(found: &[&KnownModel]) -> Value {
    let prices = |p: &Prices| {
        json!({
            "input": p.input, "cached": p.cached, "cache_write": p.cache_write,
            "output": p.output,
        })
    };
    let models = found.iter().map(
        |KnownModel {
             provider,
             model,
             info,
         }| {
            json!({
                "provider": provider,
                "model": model,
                "context_window": info.context_window,
                "max_output": info.max_output,
                "ends": info.ends.map(|day| day.to_string()),
                "prices": info.prices.as_ref().map(prices),
                "long": info.long.map(|long| json!({
                    "over": long.over, "prices": prices(&long.prices),
                })),
            })
        },
    );
    json!({ "list_of": snapshot(), "models": models.collect::<Vec<_>>() })
}
