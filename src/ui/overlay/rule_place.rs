//! The origin of a rule in the list of rules, and whether the rule can be removed here.

use crate::core::rule::RuleScope;

/// The origin of a rule, also in words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RulePlace {
    /// It can be removed here.
    Own(RuleScope, String),
    /// A flag, or a file that is not the user's own.
    Elsewhere(String),
}

/// A separator that no rule contains.
const BETWEEN: char = '\t';

impl RulePlace {
    /// Returns the place of the rule, for a line of the list.
    pub fn words(&self) -> String {
        match self {
            RulePlace::Own(RuleScope::Session, _) => "this session".to_string(),
            RulePlace::Own(RuleScope::Project, origin) => format!("this project: {origin}"),
            RulePlace::Own(RuleScope::Everywhere, origin) => format!("everywhere: {origin}"),
            RulePlace::Elsewhere(origin) => format!("not removable here: {origin}"),
        }
    }

    /// Encodes place, list and rule as the value of a choice.
    pub fn value(&self, list: &str, rule: &str) -> String {
        let (kind, origin) = match self {
            RulePlace::Own(RuleScope::Session, origin) => ("session", origin),
            RulePlace::Own(RuleScope::Project, origin) => ("project", origin),
            RulePlace::Own(RuleScope::Everywhere, origin) => ("everywhere", origin),
            RulePlace::Elsewhere(origin) => ("elsewhere", origin),
        };
        [kind, list, rule, origin].join(&BETWEEN.to_string())
    }

    /// Parses the place, the list and the rule of a value.
    pub fn parse(value: &str) -> Option<(RulePlace, String, String)> {
        let mut parts = value.splitn(4, BETWEEN).map(str::to_string);
        let (kind, list, rule) = (parts.next()?, parts.next()?, parts.next()?);
        let origin = parts.next()?;
        let place = match kind.as_str() {
            "session" => RulePlace::Own(RuleScope::Session, origin),
            "project" => RulePlace::Own(RuleScope::Project, origin),
            "everywhere" => RulePlace::Own(RuleScope::Everywhere, origin),
            _ => RulePlace::Elsewhere(origin),
        };
        Some((place, list, rule))
    }
}
