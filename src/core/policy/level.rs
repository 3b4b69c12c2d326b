//! Which access a command gets, and the decision for a command that runs in the sandbox.
//!
//! In the sandbox the system itself keeps a command from doing harm, so its words need not be
//! understood: any line may run. The rules of the user still hold for what the words show.
//! Without the sandbox a line is judged by its words alone ([`super::line`]).

use super::line::{Shell, paths_in};
use super::{Evaluation, Finding, asked, denied, planning};
use crate::core::access::Access;
use crate::core::entry::Mode;
use crate::core::harmless::Reads;
use crate::core::offer;
use crate::core::path;
use crate::core::permission::PathUse;
use crate::core::rule::{Likeness, Rule, Rules};
use crate::core::shell::{self, SimpleCommand};

/// What the system keeps commands from doing, found before the session begins.
///
/// The default is a system without a sandbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Sandbox {
    /// A command below `full` runs in a sandbox or not at all. Without this every command runs
    /// without one, whatever access it names.
    pub available: bool,
    /// It is strict enough for any line to run unasked in `read`.
    pub read: bool,
    /// The same in `workspace`: protected files are read-only while a command runs.
    pub workspace: bool,
    /// Files that a rule keeps from being read cannot be read in it.
    pub hides: bool,
    /// Protected files are read-only while a command runs; else changes of them are undone.
    pub protects: bool,
    /// Access `workspace` has a loopback network; else no network.
    pub loopback: bool,
}

impl Sandbox {
    /// A system with everything that a sandbox needs.
    pub const WHOLE: Sandbox = Sandbox {
        available: true,
        read: true,
        workspace: true,
        hides: true,
        protects: true,
        loopback: true,
    };
}

/// What a person is told of an access, as the first words of a reason.
fn reaches(access: Access) -> Option<&'static str> {
    match access {
        Access::Read => None,
        Access::Workspace => Some("it writes in the workspace"),
        Access::Network => {
            Some("it uses the network; services on this machine and cloud metadata can be reached")
        }
        Access::Full => Some("it runs without a sandbox"),
    }
}

const THIS_PROGRAM: &str = "rewake";

/// Whether a line names this program, also in quotes: `re''wake`.
fn line_names_this_program(line: &str) -> bool {
    let in_words = || match shell::split(line) {
        Ok(commands) => commands.iter().any(|command| {
            command
                .spelled()
                .iter()
                .any(|word| names_this_program(&word.text))
        }),
        Err(_) => shell::loose_words(line)
            .into_iter()
            .flatten()
            .any(|word| names_this_program(&word)),
    };
    names_this_program(line) || in_words()
}

/// Whether a text has this program's name as a word, or as the last part of a path.
fn names_this_program(text: &str) -> bool {
    let is_part = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-');
    text.match_indices(THIS_PROGRAM).any(|(at, name)| {
        let before = text[..at].chars().next_back();
        let after = text[at + name.len()..].chars().next();
        !before.is_some_and(is_part) && !after.is_some_and(|c| is_part(c) || c == '/')
    })
}

impl Evaluation<'_> {
    /// The access that a line gets, and whether it may run with it. `asked` is what the call
    /// names; without, it is the most that mode and rules give without a question.
    pub(super) fn command_line(
        &self,
        text: &str,
        asked: Option<Access>,
        background: bool,
    ) -> (Access, Finding) {
        let (access, finding) = self.access_and_finding(text, asked, background);
        (access, self.unless_it_steers(text, finding))
    }

    /// A command that runs this program could answer the question about the next one. So a line
    /// that names it is asked about, unless it only looks, or a rule that names it too allows it.
    /// In the sandbox it cannot write the store; without one this is a fence, not a wall.
    fn unless_it_steers(&self, text: &str, finding: Finding) -> Finding {
        let may_run = matches!(finding, Finding::Fine | Finding::Unknown { .. });
        if !may_run || self.mode == Mode::BypassPermissions || !line_names_this_program(text) {
            return finding;
        }
        let is_fine = |finding: Finding| matches!(finding, Finding::Fine);
        let allowing = |names: fn(&Rule) -> bool| Rules {
            allow: self
                .rules
                .allow
                .iter()
                .filter(|r| names(r))
                .cloned()
                .collect(),
            ..self.rules.clone()
        };
        let by_name = allowing(|rule| names_this_program(&rule.to_string()));
        if is_fine(finding)
            && is_fine(
                self.with_rules(Mode::Default, &by_name)
                    .line(text, Access::Read),
            )
        {
            return Finding::Fine;
        }
        Finding::Asked(
            "the line names rewake, which could answer what is asked here; it is always asked about"
                .to_string(),
        )
    }

    fn access_and_finding(
        &self,
        text: &str,
        asked: Option<Access>,
        background: bool,
    ) -> (Access, Finding) {
        if !self.sandbox.available {
            return (Access::Full, self.line(text, Access::Full));
        }
        let granted = self.grants(text);
        let usual = self.usual(background);
        let access = asked.unwrap_or_else(|| match self.needs_full(text) {
            // With less it would only fail.
            Some(_) => Access::Full,
            None => granted.map_or(usual, |granted| granted.max(usual)),
        });
        let finding = self.with_access(text, access, granted, background);
        (access, finding)
    }

    /// The access that a call gets which names none, and that no rule speaks of.
    fn usual(&self, background: bool) -> Access {
        match self.mode {
            Mode::BypassPermissions => Access::Full,
            Mode::Plan => Access::Read,
            // Nothing runs unasked because of this sandbox. What is listed or approved has it.
            Mode::Default | Mode::AcceptEdits if !self.sandbox.read => Access::Workspace,
            Mode::AcceptEdits if self.sandbox.workspace && !background => Access::Workspace,
            Mode::Default | Mode::AcceptEdits => Access::Read,
        }
    }

    /// The access that the rules give this line without a question, beyond what needs none: a
    /// `Bash` rule `workspace`, a `Network` rule `network`, a `Full` rule `full`. It is less where
    /// a rule denies or asks about more, or where the line writes what needs a question.
    fn grants(&self, text: &str) -> Option<Access> {
        if matches!(self.mode, Mode::Plan | Mode::BypassPermissions) {
            return None;
        }
        let without = Rules {
            allow: Vec::new(),
            ..self.rules.clone()
        };
        let listed = self.with_rules(Mode::Default, &without);
        let is_fine = |finding: Finding| matches!(finding, Finding::Fine);
        if is_fine(listed.line(text, Access::Workspace)) {
            return self.grants_beyond(text, Access::Network);
        }
        self.grants_beyond(text, Access::Workspace)
    }

    /// The most that the rules give this line, if that is at least so much.
    fn grants_beyond(&self, text: &str, least: Access) -> Option<Access> {
        let parts = shell::split(text).unwrap_or_default();
        let most = self.rules.grants(text, &parts);
        let most = most.unwrap_or(Access::Workspace);
        let levels = Access::ALL.into_iter().rev();
        let mut levels = levels.filter(|level| (least..=most).contains(level));
        levels.find(|level| matches!(self.line(text, *level), Finding::Fine))
    }

    fn with_access(
        &self,
        text: &str,
        access: Access,
        granted: Option<Access>,
        background: bool,
    ) -> Finding {
        let by_rules = self.by_rules(text, access);
        if matches!(by_rules, Finding::Denied(_)) {
            return by_rules;
        }
        match self.mode {
            Mode::BypassPermissions if access == Access::Full => return self.line(text, access),
            Mode::BypassPermissions => return Finding::Fine,
            Mode::Plan if access > Access::Read => {
                let more = "in plan mode a command has access read";
                return Finding::Denied(format!("{} ({more})", planning()));
            }
            Mode::Plan | Mode::Default | Mode::AcceptEdits => {}
        }
        if let Finding::Asked(why) = by_rules {
            return Finding::Asked(told(access, &why));
        }
        let unasked = match access {
            Access::Read => self.sandbox.read,
            // While a command runs in the background a person works in the same folder, so what it
            // makes of protected files is told at its end and not undone.
            Access::Workspace => {
                self.mode == Mode::AcceptEdits && self.sandbox.workspace && !background
            }
            Access::Network | Access::Full => false,
        };
        if unasked || granted.is_some_and(|granted| granted >= access) {
            return Finding::Fine;
        }
        if access > Access::Workspace {
            return Finding::Unknown {
                why: self.needs_full(text).map_or_else(
                    || reaches(access).unwrap_or_default().to_string(),
                    |why| told(access, &why),
                ),
                rule: self.offered(text, access),
            };
        }
        match self.line(text, access) {
            Finding::Unknown { why, rule } => Finding::Unknown {
                why: told(access, &why),
                rule,
            },
            Finding::Asked(why) => Finding::Asked(told(access, &why)),
            finding => finding,
        }
    }

    /// The rule that would give this line so much access, where one may be offered and no other
    /// rule stands against it.
    fn offered(&self, text: &str, access: Access) -> Option<Rule> {
        let parts = shell::split(text).ok()?;
        let [part] = parts.as_slice() else {
            return None;
        };
        let rule = offer::for_access(part, access)?;
        let mut rules = self.rules.clone();
        rules.allow.push(rule.clone());
        let with_it = self.with_rules(self.mode, &rules);
        (with_it.grants(text) >= Some(access)).then_some(rule)
    }

    /// The same place with another mode and other rules.
    fn with_rules<'r>(&'r self, mode: Mode, rules: &'r Rules) -> Evaluation<'r> {
        Evaluation {
            mode,
            rules,
            disk: self.disk,
            bases: self.bases.clone(),
            readable: self.readable.clone(),
            rewakes_own: self.rewakes_own,
            keys: self.keys.clone(),
            sandbox: self.sandbox,
            served: self.served,
        }
    }

    /// What the rules that deny or ask say of a line, as far as its words show it.
    fn by_rules(&self, text: &str, access: Access) -> Finding {
        let whole = |rule: &&Rule| rule.is_all_commands() || rule.is_line(text);
        if let Some(rule) = self.rules.deny.iter().find(whole) {
            return denied(rule);
        }
        let mut finding = match self.rules.ask.iter().find(whole) {
            Some(rule) => asked(rule),
            None => Finding::Fine,
        };
        match shell::split(text) {
            Ok(commands) => {
                finding = finding.or_stricter(self.level_by_rules(text, &commands, access));
                let mut shell = Shell::in_folder(self.folder());
                for command in &commands {
                    finding = finding.or_stricter(self.command_by_rules(command, access, &shell));
                    self.run(command, &mut shell);
                }
                finding
            }
            Err(_) => {
                let refuses = |rule: &&Rule| rule.refuses_text(text);
                if let Some(rule) = self.rules.deny.iter().find(refuses) {
                    return denied(rule);
                }
                if let Some(rule) = self.rules.ask.iter().find(refuses) {
                    finding = finding.or_stricter(asked(rule));
                }
                finding = finding.or_stricter(self.level_by_rules(text, &[], access));
                let words = shell::loose_words(text).into_iter().flatten();
                let words = words.map(|word| self.word_by_rules(self.folder(), &word, access));
                words.fold(finding, Finding::or_stricter)
            }
        }
    }

    /// What the rules that deny or ask say of so much access for this line.
    fn level_by_rules(&self, text: &str, parts: &[SimpleCommand], access: Access) -> Finding {
        match self.rules.denies_access(access, text, parts) {
            Some((rule, Likeness::Yes)) => return denied(rule),
            Some((rule, _)) => {
                let why = format!("it may turn out to be what the rule `{rule}` denies");
                return Finding::Asked(why);
            }
            None => {}
        }
        match self.rules.asks_for_access(access, text, parts) {
            Some((rule, _)) => asked(rule),
            None => Finding::Fine,
        }
    }

    fn command_by_rules(&self, command: &SimpleCommand, access: Access, shell: &Shell) -> Finding {
        if let Some(rule) = self.find(&self.rules.deny, command, Likeness::Yes) {
            return denied(rule);
        }
        let mut finding = Finding::Fine;
        if let Some(rule) = self.find(&self.rules.ask, command, Likeness::Maybe) {
            finding = asked(rule);
        } else if let Some(rule) = self.find(&self.rules.deny, command, Likeness::Maybe) {
            finding = Finding::Asked(format!(
                "it may turn out to be what the rule `{rule}` denies"
            ));
        }
        // The same words as without a sandbox, whether they name a file or one that is changed.
        let reads = self.reads(command, shell);
        if let Some(named) = self.arguments(command, reads.is_ok(), shell) {
            finding = finding.or_stricter(named);
        }
        for place in &shell.places {
            finding = finding.or_stricter(self.redirects_by_rules(command, place));
            // What a listed command looks at is known word by word: `echo .env` reads nothing.
            finding = finding.or_stricter(match &reads {
                Ok(reads) => self.reads_by_rules(reads, place),
                Err(_) => {
                    let words = command.words.iter().skip(1).filter(|word| !word.expands);
                    let words = words.map(|word| self.word_by_rules(place, &word.path(), access));
                    words.fold(Finding::Fine, Finding::or_stricter)
                }
            });
        }
        finding
    }

    fn redirects_by_rules(&self, command: &SimpleCommand, place: &str) -> Finding {
        let known = command.redirects.iter().filter(|r| !r.target.expands);
        let findings = known.map(|redirect| {
            let path_use = match redirect.writes {
                true => PathUse::Write,
                false => PathUse::Read,
            };
            self.path_by_rules(place, path_use, &redirect.target.path(), |_| true)
        });
        findings.fold(Finding::Fine, Finding::or_stricter)
    }

    fn reads_by_rules(&self, reads: &Reads, place: &str) -> Finding {
        let path_use = match reads.recursive {
            true => PathUse::Grep,
            false => PathUse::Read,
        };
        let mut paths = reads.paths.clone();
        for pattern in &reads.patterns {
            let full = self.full(place, pattern);
            let (folder, below) = match path::below(&full, place) {
                Some(below) => (place, below),
                None => ("/", full.as_str()),
            };
            paths.push(pattern.clone());
            // Which files a pattern names is of use only where a rule names one of them.
            if self.guards_reading() {
                paths.extend((self.disk.matches)(folder, below).unwrap_or_default());
            }
        }
        let paths = paths.iter();
        let paths = paths.map(|path| self.path_by_rules(place, path_use, path, |_| true));
        let finding = paths.fold(Finding::Fine, Finding::or_stricter);
        if reads.recursive && self.guards_reading() && !self.sandbox.hides {
            let why = "goes through files that a rule may keep from being read".to_string();
            return finding.or_stricter(Finding::Asked(why));
        }
        finding
    }

    fn guards_reading(&self) -> bool {
        let mut rules = self.rules.deny.iter().chain(&self.rules.ask);
        rules.any(Rule::is_about_reading)
    }

    /// A word of a command that is not known may be a path, also in a part of it: see [`paths_in`].
    fn word_by_rules(&self, place: &str, word: &str, access: Access) -> Finding {
        let mut finding = Finding::Fine;
        for path in paths_in(word) {
            let of = |path_use| self.path_by_rules(place, path_use, path, Rule::is_about_paths);
            finding = finding.or_stricter(of(PathUse::Read));
            if access >= Access::Workspace {
                finding = finding.or_stricter(of(PathUse::Write));
            }
        }
        finding
    }

    fn path_by_rules(
        &self,
        place: &str,
        path_use: PathUse,
        path: &str,
        speaks: fn(&Rule) -> bool,
    ) -> Finding {
        if self.rules.deny.is_empty() && self.rules.ask.is_empty() {
            return Finding::Fine;
        }
        let spots = self.spots(place, path);
        let refuses = |rule: &&Rule| speaks(rule) && self.refuses(rule, path_use, &spots);
        if let Some(rule) = self.rules.deny.iter().find(refuses) {
            return denied(rule);
        }
        match self.rules.ask.iter().find(refuses) {
            Some(rule) => asked(rule),
            None => Finding::Fine,
        }
    }
}

fn told(access: Access, why: &str) -> String {
    match reaches(access) {
        Some(reaches) => format!("{reaches}; {why}"),
        None => why.to_string(),
    }
}

#[cfg(test)]
mod tests;
