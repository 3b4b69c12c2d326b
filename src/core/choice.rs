//! The effort of a model, and the order of the fallback models. [`super::entry::Choice`] records a
//! choice.

use serde::{Deserialize, Serialize};

/// Reasoning effort of a model. Each protocol has a field for it, and takes the nearest level that
/// it knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Effort {
    /// No effort is requested: the model's setting in the config applies, else the model's default.
    #[default]
    Default,
    /// No thinking.
    None,
    Minimal,
    Low,
    Medium,
    High,
    Xhigh,
    Max,
}

impl Effort {
    /// All efforts, from the config's own setting to the highest.
    pub const ALL: [Effort; 8] = [
        Effort::Default,
        Effort::None,
        Effort::Minimal,
        Effort::Low,
        Effort::Medium,
        Effort::High,
        Effort::Xhigh,
        Effort::Max,
    ];

    /// Returns the name in the config, in flags and in the log.
    pub fn name(self) -> &'static str {
        match self {
            Effort::Default => "default",
            Effort::None => "none",
            Effort::Minimal => "minimal",
            Effort::Low => "low",
            Effort::Medium => "medium",
            Effort::High => "high",
            Effort::Xhigh => "xhigh",
            Effort::Max => "max",
        }
    }

    /// Returns the effort with this name, in upper or lower case.
    pub fn named(name: &str) -> Option<Effort> {
        let is = |effort: &Effort| effort.name().eq_ignore_ascii_case(name);
        Effort::ALL.into_iter().find(is)
    }
}

/// Returns the model to ask after `model` could not be asked: the next one of the list. No model is
/// asked twice. `first` is the model that the session is set to use.
pub fn next_fallback<'a>(list: &'a [String], first: &str, model: &str) -> Option<&'a String> {
    let behind = match list.iter().position(|name| name == model) {
        Some(place) if model != first => place + 1,
        _ => 0,
    };
    list.iter()
        .skip(behind)
        .find(|name| *name != first && *name != model)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn efforts_have_the_same_name_everywhere() {
        for effort in Effort::ALL {
            let json = serde_json::to_value(effort).unwrap();
            assert_eq!(json, effort.name());
            assert_eq!(Effort::named(&effort.name().to_uppercase()), Some(effort));
        }
        assert_eq!(Effort::named("hard"), None);
    }

    #[test]
    fn fallbacks_are_asked_in_order_and_once() {
        let list = ["p/a", "p/b", "p/c"].map(String::from);
        let next = |first, model| next_fallback(&list, first, model).map(String::as_str);
        assert_eq!(next("p/x", "p/x"), Some("p/a"));
        assert_eq!(next("p/x", "p/a"), Some("p/b"));
        assert_eq!(next("p/x", "p/c"), None);
        // One of the list is the session's own.
        assert_eq!(next("p/b", "p/b"), Some("p/a"));
        assert_eq!(next("p/b", "p/a"), Some("p/c"));
        assert_eq!(next("p/b", "p/c"), None);
        assert_eq!(next_fallback(&[], "p/x", "p/x"), None);
    }
}
