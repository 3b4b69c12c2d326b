//! Changes of the settings of a session, as people and programs ask for them.
//!
//! `rewake set`, the server, lines on stdin, editors (ACP) and the screen use this, so all refuse
//! the same values with the same reason and hint.
//!
//! Invariant: a change is checked as a whole before a part of it is sent.

use serde::Deserialize;
use serde::de::Error as _;
use serde_json::{Map, Value};

use super::steer::refused;
use super::{AppContext, Receipt, Refusal, SessionError, SteerError};
use crate::core::choice::Effort;
use crate::core::entry::{Choice, Mode};
use crate::core::marks::MAX_TITLE_CHARS;
use crate::core::signal::Signal;
use crate::core::text::{clip, one_line};
use crate::store::{SessionInfo, Store};

/// Hint for a temperature.
pub const TEMPERATURE_RANGE: &str = "a temperature is a number from 0 to 2";

const MAX_TURNS: u64 = 1_000_000;

/// Hint for a limit.
const REMOVE_LIMITS: &str = "rewake set ID --no-limits removes the limits";

/// New settings of a session. `None`: the setting stays. Its JSON is the body of
/// `PATCH /sessions/{id}`.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SettingsChange {
    pub title: Option<String>,
    /// `provider/model`.
    pub model: Option<String>,
    pub mode: Option<Mode>,
    pub effort: Option<Effort>,
    pub temperature: Option<f64>,
    /// Number of further answers until the session pauses.
    pub turns: Option<u64>,
    /// Cost of the whole session in US dollars at which it pauses.
    pub usd: Option<f64>,
    /// Number of further tokens until the session pauses. The server does not take it.
    #[serde(skip)]
    pub tokens: Option<u64>,
    /// All limits are removed.
    #[serde(default)]
    pub no_limits: bool,
}

impl SettingsChange {
    /// Parses settings by name.
    ///
    /// # Errors
    /// A name is not one of `names`, or a value is unknown or has another type.
    pub fn parse(
        given: Map<String, Value>,
        names: &'static [&'static str],
    ) -> Result<SettingsChange, SteerError> {
        let parse = |mut given: Map<String, Value>| {
            let other = given.keys().find(|name| !names.contains(&name.as_str()));
            if let Some(other) = other {
                return Err(serde_json::Error::unknown_field(&clip(other, 100), names));
            }
            let tokens = given.remove("tokens").unwrap_or_default();
            Ok(SettingsChange {
                tokens: serde_json::from_value(tokens)?,
                ..serde_json::from_value(Value::Object(given))?
            })
        };
        parse(given).map_err(|error| {
            let hint = "rewake set --help lists settings and values";
            nonsense(error.to_string(), hint)
        })
    }

    /// Returns whether only the title is set.
    pub fn is_title(&self) -> bool {
        let title = SettingsChange {
            title: self.title.clone(),
            ..SettingsChange::default()
        };
        *self == title
    }

    /// Returns the settings that are recorded as one choice. Limits and the title are not.
    pub fn choice(&self) -> Choice {
        Choice {
            model: self.model.clone(),
            mode: self.mode,
            effort: self.effort,
            temperature: self.temperature,
            ..Choice::default()
        }
    }

    /// Returns the signals that make the change: for the title, the choice and the limits. It does
    /// not check whether the model can be used.
    ///
    /// # Errors
    /// Nothing is set, or a value is out of range, or limits are set and removed.
    pub fn signals(&self) -> Result<Vec<Signal>, SteerError> {
        let title = self.title.as_ref();
        let title = title.map(|title| one_line(title, MAX_TITLE_CHARS));
        if title.as_ref().is_some_and(String::is_empty) {
            let hint = "give one of up to 200 characters";
            return Err(nonsense("the title is empty", hint));
        }
        if let Some(t) = self.temperature.filter(|t| !(0.0..=2.0).contains(t)) {
            let what = format!("the temperature {t} makes no sense");
            return Err(nonsense(what, TEMPERATURE_RANGE));
        }
        let has_limit = self.check_limits()?;
        let choice = self.choice();
        let (turns, usd, tokens) = (self.turns, self.usd, self.tokens);
        let signals = [
            title.map(|title| Signal::Name { title }),
            (!choice.is_empty()).then_some(Signal::Choose(choice)),
            (has_limit || self.no_limits).then_some(Signal::Limit { turns, usd, tokens }),
        ];
        let signals: Vec<Signal> = signals.into_iter().flatten().collect();
        if signals.is_empty() {
            let hint = "give a model, a mode, an effort, a temperature or a limit";
            return Err(nonsense("there is nothing to set", hint));
        }
        Ok(signals)
    }

    /// Returns whether there are limits.
    fn check_limits(&self) -> Result<bool, SteerError> {
        if self.turns.is_some_and(|n| !(1..=MAX_TURNS).contains(&n)) {
            let what = format!("turns is a number from 1 to {MAX_TURNS}");
            return Err(nonsense(what, REMOVE_LIMITS));
        }
        if let Some(usd) = self.usd.filter(|usd| !usd.is_finite() || *usd <= 0.0) {
            let what = format!("a limit of ${usd} makes no sense");
            return Err(nonsense(what, REMOVE_LIMITS));
        }
        if self.tokens == Some(0) {
            return Err(nonsense("tokens is a number above 0", REMOVE_LIMITS));
        }
        let has_limit = self.turns.is_some() || self.usd.is_some() || self.tokens.is_some();
        if has_limit && self.no_limits {
            let hint = "set limits, or remove all of them";
            return Err(nonsense("there are limits, and none", hint));
        }
        Ok(has_limit)
    }
}

impl AppContext {
    /// Returns the signals that make a change in a session.
    ///
    /// # Errors
    /// As [`SettingsChange::signals`], or the model is unknown or has no key.
    pub fn settings_signals(
        &self,
        info: &SessionInfo,
        change: &SettingsChange,
    ) -> Result<Vec<Signal>, SteerError> {
        let signals = change.signals()?;
        if let Some(model) = &change.model {
            let models = self.of(info)?.models();
            models.check(model).map_err(SessionError::from)?;
        }
        Ok(signals)
    }

    /// Sends a change of settings to a session. Returns a receipt for each signal.
    ///
    /// # Errors
    /// As [`AppContext::settings_signals`] and [`AppContext::steer`].
    pub fn change_settings(
        &self,
        store: &mut Store,
        info: &SessionInfo,
        change: &SettingsChange,
        origin: &str,
    ) -> Result<Vec<Receipt>, SteerError> {
        let signals = self.settings_signals(info, change)?.into_iter();
        signals
            .map(|signal| self.steer(store, info, signal, origin))
            .collect()
    }
}

fn nonsense(what: impl Into<String>, hint: &str) -> SteerError {
    refused(Refusal::Nonsense, what, hint)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const NAMES: &[&str] = &[
        "model",
        "mode",
        "effort",
        "temperature",
        "turns",
        "usd",
        "tokens",
    ];

    /// Returns the signals of a change, or why it is refused.
    fn signals(change: Result<SettingsChange, SteerError>) -> Result<Value, String> {
        let signals = change.and_then(|change| change.signals());
        signals
            .map(|signals| json!(signals))
            .map_err(|refused| refused.with_hint())
    }

    /// Parses the body of a `PATCH`.
    fn of_body(body: &Value) -> Result<SettingsChange, SteerError> {
        SettingsChange::deserialize(body).map_err(|error| nonsense(error.to_string(), ""))
    }

    /// Parses a line on stdin, or an option of an editor.
    fn of_line(line: &Value) -> Result<SettingsChange, SteerError> {
        SettingsChange::parse(line.as_object().unwrap().clone(), NAMES)
    }

    /// Fills the fields, as `rewake set` and the screen do.
    fn with(set: impl FnOnce(&mut SettingsChange)) -> Result<SettingsChange, SteerError> {
        let mut change = SettingsChange::default();
        set(&mut change);
        Ok(change)
    }

    #[test]
    fn good_values_become_the_same_signals_from_every_sender() {
        for (signal, body) in [
            ("choose", json!({ "mode": "plan" })),
            ("choose", json!({ "mode": "bypassPermissions" })),
            ("choose", json!({ "effort": "xhigh", "model": "p/m" })),
            ("choose", json!({ "temperature": 0.0 })),
            ("choose", json!({ "temperature": 2.0 })),
            ("limit", json!({ "turns": 1 })),
            ("limit", json!({ "turns": MAX_TURNS, "usd": 0.01 })),
        ] {
            let mut want = body.clone();
            want["signal"] = json!(signal);
            let want = Ok(json!([want]));
            assert_eq!(signals(of_body(&body)), want);
            assert_eq!(signals(of_line(&body)), want);
        }
        let none = Ok(json!([{ "signal": "limit" }]));
        assert_eq!(signals(of_body(&json!({ "no_limits": true }))), none);
        let tokens = json!({ "tokens": 1 });
        let want = Ok(json!([{ "signal": "limit", "tokens": 1 }]));
        assert_eq!(signals(of_line(&tokens)), want);
        let both = json!({ "title": " a  title ", "mode": "plan", "turns": 2 });
        let want = json!([
            { "signal": "name", "title": "a title" },
            { "signal": "choose", "mode": "plan" },
            { "signal": "limit", "turns": 2 },
        ]);
        assert_eq!(signals(of_body(&both)), Ok(want));
    }

    #[test]
    fn bad_values_are_refused_with_the_same_words_from_every_sender() {
        let limits = |what: &str| format!("{what}; {REMOVE_LIMITS}");
        let turns = || limits("turns is a number from 1 to 1000000");
        let usd = |usd: &str| limits(&format!("a limit of ${usd} makes no sense"));
        let range = |t: &str| format!("the temperature {t} makes no sense; {TEMPERATURE_RANGE}");
        let nothing =
            "there is nothing to set; give a model, a mode, an effort, a temperature or a limit";
        for (body, want) in [
            (json!({ "turns": 0 }), turns()),
            (json!({ "turns": MAX_TURNS + 1 }), turns()),
            (json!({ "usd": 5.0, "turns": 0 }), turns()),
            (json!({ "mode": "plan", "usd": 0.0 }), usd("0")),
            (json!({ "usd": -1.5 }), usd("-1.5")),
            (json!({ "temperature": 2.5 }), range("2.5")),
            (json!({ "temperature": -1.0, "model": "p/m" }), range("-1")),
            (json!({}), nothing.to_string()),
        ] {
            assert_eq!(signals(of_body(&body)), Err(want.clone()), "{body}");
            assert_eq!(signals(of_line(&body)), Err(want.clone()), "{body}");
            let filled = with(|change| {
                change.turns = body["turns"].as_u64();
                change.usd = body["usd"].as_f64();
                change.temperature = body["temperature"].as_f64();
            });
            assert_eq!(signals(filled), Err(want), "{body}");
        }
        for not_finite in [f64::NAN, f64::INFINITY] {
            let name = not_finite.to_string();
            let t = signals(with(|change| change.temperature = Some(not_finite)));
            assert_eq!(t, Err(range(&name)));
            let limit = signals(with(|change| change.usd = Some(not_finite)));
            assert_eq!(limit, Err(usd(&name)));
        }
        let tokens = signals(of_line(&json!({ "tokens": 0 })));
        assert_eq!(tokens, Err(limits("tokens is a number above 0")));
        let both = signals(of_body(&json!({ "usd": 1.0, "no_limits": true })));
        let want = "there are limits, and none; set limits, or remove all of them";
        assert_eq!(both, Err(want.to_string()));
        let title = signals(of_body(&json!({ "title": " \n " })));
        assert!(title.is_err_and(|why| why.starts_with("the title is empty")));
    }

    #[test]
    fn unknown_names_and_other_types_are_refused_with_the_same_words() {
        let why = |change: Result<SettingsChange, SteerError>| change.unwrap_err().to_string();
        for (body, start) in [
            (json!({ "mode": "wild" }), "unknown variant `wild`"),
            (json!({ "mode": "PLAN" }), "unknown variant `PLAN`"),
            (json!({ "effort": "much" }), "unknown variant `much`"),
            (json!({ "usd": "much" }), "invalid type: string"),
            (json!({ "turns": -1 }), "invalid value: integer `-1`"),
        ] {
            let said = why(of_body(&body));
            assert!(said.starts_with(start), "{said}");
            assert_eq!(why(of_line(&body)), said);
        }
        // A sender takes only some of the settings.
        assert!(why(of_body(&json!({ "tokens": 5 }))).starts_with("unknown field `tokens`"));
        assert!(why(of_line(&json!({ "title": "x" }))).starts_with("unknown field `title`"));
    }
}
