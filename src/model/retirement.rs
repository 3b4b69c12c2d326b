//! The end of a model: the day on which its provider takes it away, and the warning before it.

use jiff::Timestamp;
use jiff::civil::Date;
use jiff::tz::TimeZone;

use super::Figures;

/// Number of days before the end of a model from which on a person is warned.
const WARNED_BEFORE_DAYS: i32 = 60;

/// Returns the date in UTC at this time, in milliseconds since 1970.
pub fn date_at(ms: i64) -> Date {
    let at = Timestamp::from_millisecond(ms).unwrap_or_default();
    at.to_zoned(TimeZone::UTC).date()
}

/// Returns whether a model that ends on this day has ended or ends soon.
pub(super) fn is_soon(ends: Option<Date>, today: Date) -> bool {
    ends.is_some_and(|day| days_until(day, today) <= WARNED_BEFORE_DAYS)
}

/// Returns a warning for each of these models that ends soon or has ended.
pub fn warnings(figures: &Figures, models: &[&str], today: Date) -> Vec<String> {
    let mut seen: Vec<&str> = Vec::new();
    let mut warnings = Vec::new();
    for model in models {
        let ends = figures.of(model).ends;
        if let Some(day) = ends.filter(|_| is_soon(ends, today) && !seen.contains(model)) {
            warnings.push(warning(model, day, today));
            seen.push(model);
        }
    }
    warnings
}

fn warning(model: &str, day: Date, today: Date) -> String {
    let when = match days_until(day, today) {
        ..=0 => "has ended: its provider does not offer it since".to_string(),
        1 => "ends in 1 day: its provider does not offer it from".to_string(),
        days => format!("ends in {days} days: its provider does not offer it from"),
    };
    format!("{model} {when} {day} on; choose another with -m PROVIDER/MODEL, or /model")
}

fn days_until(day: Date, today: Date) -> i32 {
    today.until(day).map_or(i32::MAX, |span| span.get_days())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Config, default_models, keyed_providers};

    fn day(text: &str) -> Date {
        text.parse().unwrap()
    }

    #[test]
    fn a_model_is_warned_about_in_the_last_sixty_days() {
        let config: Config =
            toml::from_str("[models.\"p/m\"]\nends = \"2027-03-01\"\n[models.\"p/n\"]").unwrap();
        let figures = Figures::new(&config);
        let said = |today: &str| warnings(&figures, &["p/m", "p/n", "p/m"], day(today));
        assert_eq!(said("2026-12-30"), [""; 0]);
        assert_eq!(
            said("2026-12-31"),
            [
                "p/m ends in 60 days: its provider does not offer it from 2027-03-01 on; \
              choose another with -m PROVIDER/MODEL, or /model"
            ]
        );
        assert!(said("2027-02-28")[0].contains("ends in 1 day:"));
        assert!(said("2027-03-01")[0].contains("has ended"));
        assert!(said("2031-01-01")[0].contains("since 2027-03-01"));
        assert_eq!(date_at(1_795_910_400_000), day("2026-11-29"));
    }

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
        assert_eq!(warnings(&figures, &names, today), [""; 0]);
        let snapshot: Date = super::super::catalogue::snapshot().parse().unwrap();
        let age = -days_until(snapshot, today);
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
