//! The end of a model: the day on which its provider takes it away, and the warning before it.

use jiff::Timestamp;
use jiff::civil::Date;
use jiff::tz::TimeZone;

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

/// Returns a warning for each of these models that ends soon or has ended. `end_of`: the day on which
/// a model ends.
pub fn warnings(
    end_of: impl Fn(&str) -> Option<Date>,
    models: &[&str],
    today: Date,
) -> Vec<String> {
    let mut seen: Vec<&str> = Vec::new();
    let mut warnings = Vec::new();
    for model in models {
        let ends = end_of(model);
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
    format!(
        "{model} {when} {day} on; choose another with -m PROVIDER/MODEL or /model, or in the config (model, fallback_model, summary_model)"
    )
}

fn days_until(day: Date, today: Date) -> i32 {
    today.until(day).map_or(i32::MAX, |span| span.get_days())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn day(text: &str) -> Date {
        text.parse().unwrap()
    }

    #[test]
    fn a_model_is_warned_about_in_the_last_sixty_days() {
        let end_of = |model: &str| (model == "p/m").then(|| day("2027-03-01"));
        let said = |today: &str| warnings(end_of, &["p/m", "p/n", "p/m"], day(today));
        assert_eq!(said("2026-12-30"), [""; 0]);
        assert_eq!(
            said("2026-12-31"),
            [
                "p/m ends in 60 days: its provider does not offer it from 2027-03-01 on; \
              choose another with -m PROVIDER/MODEL or /model, or in the config (model, fallback_model, summary_model)"
            ]
        );
        assert!(said("2027-02-28")[0].contains("ends in 1 day:"));
        assert!(said("2027-03-01")[0].contains("has ended"));
        assert!(said("2031-01-01")[0].contains("since 2027-03-01"));
        assert_eq!(date_at(1_795_910_400_000), day("2026-11-29"));
    }
}
