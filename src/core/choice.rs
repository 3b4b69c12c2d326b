//! What is known of choosing: how hard a model is to think, and which model is asked when
//! another cannot be. [`super::entry::Choice`] is what is recorded of it.

use serde::{Deserialize, Serialize};

/// How hard a model is to think. Each protocol has its own field for it, and takes the nearest
/// of its own steps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Effort {
    /// Nothing is asked for: as the config says of the model, else as the model sees fit.
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
    /// From what the config says to the most.
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

    /// As it is written in the config, in flags and in the log.
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

    /// The effort of this name; `None` when there is none.
    pub fn named(name: &str) -> Option<Effort> {
        let is = |effort: &Effort| effort.name().eq_ignore_ascii_case(name);
        Effort::ALL.into_iter().find(is)
    }
}

/// The model to ask after `model` could not be asked: the next of the list, never one again.
/// `first` is the one that the session is to use.
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
