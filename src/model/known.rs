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

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use jiff::civil::Date;
    use jiff::tz::TimeZone;

    use super::*;
    use crate::config::{default_models, keyed_providers};
    use crate::model::retirement;

    /// `.ci/long` runs it: the only test that depends on the day.
    #[test]
    #[ignore = "depends on the day; .ci/long runs it"]
    fn no_default_model_ends_soon() {
        let figures = Figures::new(&Config::default());
        let defaults: Vec<String> = keyed_providers()
            .flat_map(|provider| default_models(provider.name))
            .collect();
        let names: Vec<&str> = defaults.iter().map(String::as_str).collect();
        let today = Timestamp::now().to_zoned(TimeZone::UTC).date();
        assert_eq!(
            retirement::warnings(|m| figures.of(m).ends, &names, today),
            [""; 0]
        );
        let read: Date = snapshot().parse().unwrap();
        let age = read.until(today).unwrap().get_days();
        assert!(age <= 90, "assets/models.toml is {age} days old");
    }

    #[test]
    fn every_default_model_is_in_the_catalogue() {
        for provider in keyed_providers().filter(|provider| provider.name != "openrouter") {
            for model in default_models(provider.name) {
                let info = Figures::new(&Config::default()).of(&model);
                assert!(info.prices.is_some(), "{model}");
            }
        }
    }
}
