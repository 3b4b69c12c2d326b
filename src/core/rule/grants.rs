//! How much access the rules give a command line: `Bash(…)` at most the workspace,
//! `Network(…)` the network, `Full(…)` no sandbox.
//!
//! Invariant: more than the workspace is given only to a line whose every word is literal, and
//! only when every part of it has a rule of that level.

use super::{CommandPattern, Likeness, Rule, Rules, Scope, Tool};
use crate::core::access::Access;
use crate::core::harmless;
use crate::core::shell::SimpleCommand;

impl Rule {
    /// The access that a rule of commands gives where it allows, and begins at where it refuses.
    pub(crate) fn level(&self) -> Option<Access> {
        match self.tool {
            Tool::Bash => Some(Access::Workspace),
            Tool::Network => Some(Access::Network),
            Tool::Full => Some(Access::Full),
            _ => None,
        }
    }

    /// Access from which on a rule that refuses speaks of a command.
    fn refuses_from(&self) -> Option<Access> {
        match self.tool {
            Tool::Bash => Some(Access::Read),
            _ => self.level(),
        }
    }

    fn pattern(&self) -> Option<&CommandPattern> {
        self.level().and_then(|_| self.command())
    }

    fn grants_line(&self, line: &str) -> bool {
        self.level().is_some()
            && (self.scope == Scope::All || self.pattern().is_some_and(|p| p.is_line(line)))
    }

    fn grants_part(&self, part: &SimpleCommand) -> bool {
        let Some(pattern) = self.pattern() else {
            return self.level().is_some() && self.scope == Scope::All;
        };
        let settings = part.assignments.iter().all(harmless::is_setting);
        pattern.allows(&part.spelled()) || (settings && pattern.allows(&part.words))
    }
}

impl Rules {
    /// The most access that the rules which allow give this line, `None` when they do not allow
    /// it. `parts` are those that [`crate::core::shell::split`] made of it; none when it could not.
    /// Files that it is redirected to are judged for themselves, and so is what is denied.
    pub(crate) fn grants(&self, line: &str, parts: &[SimpleCommand]) -> Option<Access> {
        let is_literal = !parts.is_empty() && parts.iter().all(is_literal);
        let counts = |rule: &&Rule| is_literal || rule.level() == Some(Access::Workspace);
        let rules: Vec<&Rule> = self.allow.iter().filter(counts).collect();
        let most = |fits: &dyn Fn(&Rule) -> bool| {
            let fitting = rules.iter().filter(|rule| fits(rule));
            fitting.filter_map(|rule| rule.level()).max()
        };
        let whole = most(&|rule| rule.grants_line(line));
        let runs = |part: &&SimpleCommand| !part.words.is_empty() || !part.assignments.is_empty();
        let each = parts
            .iter()
            .filter(runs)
            .map(|part| most(&|rule| rule.grants_part(part)))
            .min()
            .flatten();
        whole.max(each)
    }

    /// The rule that denies the line this much access, and how surely it speaks of it.
    pub(crate) fn denies_access(
        &self,
        access: Access,
        line: &str,
        parts: &[SimpleCommand],
    ) -> Option<(&Rule, Likeness)> {
        refusing(&self.deny, access, line, parts)
    }

    /// The rule that asks before the line gets this much access, and how surely it speaks of it.
    pub(crate) fn asks_for_access(
        &self,
        access: Access,
        line: &str,
        parts: &[SimpleCommand],
    ) -> Option<(&Rule, Likeness)> {
        refusing(&self.ask, access, line, parts)
    }
}

/// The surest of the rules that refuse, the first of those. A rule for a level speaks of all
/// access from that level on.
fn refusing<'a>(
    rules: &'a [Rule],
    access: Access,
    line: &str,
    parts: &[SimpleCommand],
) -> Option<(&'a Rule, Likeness)> {
    let mut found: Option<(&Rule, Likeness)> = None;
    for rule in rules {
        if rule.refuses_from().is_none_or(|from| access < from) {
            continue;
        }
        let likeness = likeness(rule, line, parts);
        if likeness > found.map_or(Likeness::No, |(_, known)| known) {
            found = Some((rule, likeness));
        }
    }
    found
}

fn likeness(rule: &Rule, line: &str, parts: &[SimpleCommand]) -> Likeness {
    let Some(pattern) = rule.pattern() else {
        return Likeness::Yes;
    };
    if pattern.is_line(line) || (parts.is_empty() && pattern.refuses_text(line)) {
        return Likeness::Yes;
    }
    let of_part = |part: &SimpleCommand| {
        let runs = harmless::runs_others(&part.words);
        let texts = part.words.iter().skip(1).map(|w| w.text.as_str());
        let inner = texts.collect::<Vec<_>>().join(" ");
        let hidden = match runs != Likeness::No && pattern.refuses_text(&inner) {
            true => runs,
            false => Likeness::No,
        };
        let words = pattern.refuses(&part.words);
        words.max(pattern.refuses(&part.spelled())).max(hidden)
    };
    parts.iter().map(of_part).max().unwrap_or(Likeness::No)
}

fn is_literal(part: &SimpleCommand) -> bool {
    let values = part.assignments.iter().map(|a| &a.value);
    let targets = part.redirects.iter().map(|r| &r.target);
    let mut words = part.words.iter().chain(values).chain(targets);
    words.all(|word| word.is_literal())
}
