//! The access that the rules give a command line: `Bash(…)` at most the workspace, `Network(…)` the
//! network, `Full(…)` no sandbox.
//!
//! Invariant: more access than the workspace is given only to a line whose every word is literal,
//! and only when every part of it has a rule of that level.

use super::{CommandPattern, Likeness, Rule, Rules, Scope, Tool};
use crate::core::access::Access;
use crate::core::read_only_commands;
use crate::core::shell::SimpleCommand;

impl Rule {
    /// Returns the access that a command rule gives if it allows, and from which on it refuses.
    pub(crate) fn level(&self) -> Option<Access> {
        match self.tool {
            Tool::Bash => Some(Access::Workspace),
            Tool::Network => Some(Access::Network),
            Tool::Full => Some(Access::Full),
            _ => None,
        }
    }

    /// Returns the access from which on a rule that refuses covers a command.
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

    /// Returns whether the rule covers exactly this command.
    pub(crate) fn names(&self, part: &SimpleCommand) -> bool {
        self.grants_part(part)
    }

    fn grants_part(&self, part: &SimpleCommand) -> bool {
        let Some(pattern) = self.pattern() else {
            return self.level().is_some() && self.scope == Scope::All;
        };
        let settings = part.assignments.iter().all(read_only_commands::is_setting);
        pattern.allows(&part.spelled()) || (settings && pattern.allows(&part.words))
    }
}

impl Rules {
    /// Returns the highest access that the allow rules give this line. `None`: they do not allow
    /// it. `parts` are the result of [`crate::core::shell::split`], or empty if it failed.
    /// Redirections to files and deny rules are judged separately.
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

    /// Returns the rule that denies the line this access, and how certainly it applies.
    pub(crate) fn denies_access(
        &self,
        access: Access,
        line: &str,
        parts: &[SimpleCommand],
    ) -> Option<(&Rule, Likeness)> {
        refusing(&self.deny, access, line, parts)
    }

    /// Returns the rule that asks before the line gets this access, and how certainly it applies.
    pub(crate) fn asks_for_access(
        &self,
        access: Access,
        line: &str,
        parts: &[SimpleCommand],
    ) -> Option<(&Rule, Likeness)> {
        refusing(&self.ask, access, line, parts)
    }
}

/// Returns the rule that refuses with the highest certainty, the first of several. A rule for a
/// level covers all access from that level on.
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
        let runs = read_only_commands::runs_others(&part.words);
        let texts = part.words.iter().skip(1).map(|w| w.text.as_str());
        let inner = texts.collect::<Vec<_>>().join(" ");
        let hidden = if runs != Likeness::No && pattern.refuses_text(&inner) {
            runs
        } else {
            Likeness::No
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

/// Commands that seldom work without the network, or inside of the sandbox. The first match counts.
#[rustfmt::skip]
const NEED_MORE: &[(&[&str], Access)] = {
    use Access::{Full, Network};
    &[
        (&["npm", "install"], Network), (&["npm", "i"], Network), (&["npm", "ci"], Network),
        (&["npm", "update"], Network), (&["npx"], Network), (&["pnpm", "install"], Network),
        (&["pnpm", "add"], Network), (&["yarn", "install"], Network), (&["yarn", "add"], Network),
        (&["bun", "install"], Network), (&["cargo", "fetch"], Network), (&["cargo", "install"], Full),
        (&["cargo", "update"], Network), (&["cargo", "add"], Network), (&["go", "get"], Network),
        (&["go", "mod", "download"], Network), (&["pip", "install"], Network), (&["pip3", "install"], Network),
        (&["uv", "sync"], Network), (&["uv", "add"], Network), (&["poetry", "install"], Network),
        (&["bundle", "install"], Network), (&["composer", "install"], Network), (&["curl"], Network),
        (&["wget"], Network), (&["git", "push"], Full), (&["git", "pull"], Full), (&["git", "fetch"], Full),
        (&["git", "clone"], Full), (&["ssh"], Full), (&["scp"], Full), (&["sftp"], Full), (&["rsync"], Full),
        (&["gh"], Full), (&["glab"], Full), (&["docker"], Full), (&["podman"], Full), (&["kubectl"], Full),
        (&["gpg"], Full), (&["sudo"], Full), (&["apt"], Full), (&["apt-get"], Full), (&["brew"], Full),
    ]
};

impl Rules {
    /// Returns the `Bash(…)` rules that do not give the access which their commands need. Each
    /// comes with the rule that would give it, if there is none yet. A start reports them once.
    pub fn lacking(&self) -> Vec<(&Rule, Rule)> {
        let lacking = self.allow.iter().filter_map(|rule| {
            let needed = rule.needs()?;
            let name = match needed {
                Access::Full => "Full",
                _ => "Network",
            };
            let what = rule.written.strip_prefix("Bash")?;
            let wanted = Rule::parse(&format!("{name}{what}")).ok()?;
            let is_given = |known: &Rule| {
                known.level() >= Some(needed)
                    && (known.scope == wanted.scope || known.scope == Scope::All)
            };
            (!self.allow.iter().any(is_given)).then_some((rule, wanted))
        });
        lacking.collect()
    }
}

impl Rule {
    /// Returns the access that the rule's command needs, if a `Bash(…)` rule does not give it.
    fn needs(&self) -> Option<Access> {
        if self.tool != Tool::Bash {
            return None;
        }
        let words = &self.command()?.words;
        let begins = |known: &[&str]| {
            words.len() >= known.len() && words.iter().zip(known).all(|(word, known)| word == known)
        };
        let found = NEED_MORE.iter().find(|(known, _)| begins(known));
        found.map(|(_, access)| *access)
    }
}

/// Renders one line for [`Rules::lacking`]. `None`: no rule lacks access.
pub fn lacking_notice(lacking: &[(&Rule, Rule)]) -> Option<String> {
    const MOST: usize = 5;
    let (first, _) = lacking.first()?;
    let does = |wanted: &Rule| match wanted.level() {
        Some(Access::Full) => "runs without a sandbox",
        _ => "uses the network",
    };
    let of: Vec<String> = lacking
        .iter()
        .take(MOST)
        .map(|(_, wanted)| format!("{wanted} ({})", does(wanted)))
        .collect();
    let more = match lacking.len().saturating_sub(MOST) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let subject = match lacking.len() {
        1 => format!("the rule {first} does not give its command all that it needs"),
        n => format!("{n} rules such as {first} do not give their commands all that they need"),
    };
    Some(format!(
        "{subject}: a Bash rule gives at most access workspace; to allow more, add to \
         permissions.allow: {}{more}",
        of.join(", ")
    ))
}
