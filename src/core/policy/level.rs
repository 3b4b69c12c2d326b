//! The access of a command, and the decision for a command that runs in the sandbox.
//!
//! In the sandbox the system itself prevents harm, so the words of a command need not be
//! understood: any line may run. The user's rules still apply to what the words show. Without the
//! sandbox a line is judged by its words alone ([`super::line`]).

use super::line::{Shell, cd_target, paths_in};
use super::{Evaluation, Finding, asked, denied, planning};
use crate::core::access::Access;
use crate::core::entry::Mode;
use crate::core::offer::{self, RuleOffer};
use crate::core::path;
use crate::core::permission::PathUse;
use crate::core::read_only_commands::{self, Reads};
use crate::core::rule::{Likeness, Rule, Rules};
use crate::core::shell::{self, SimpleCommand};

/// The sandbox features of the system, detected before the session starts.
///
/// The default is a system without a sandbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Sandbox {
    /// A command below `full` runs in a sandbox or not at all. If false, every command runs without
    /// a sandbox, whatever access it names.
    pub available: bool,
    /// It is strict enough that any line may run in `read` without approval.
    pub read: bool,
    /// The same in `workspace`: protected files are read-only while a command runs.
    pub workspace: bool,
    /// Files that a rule forbids to read are hidden in it.
    pub hides: bool,
    /// Protected files are read-only while a command runs; else changes of them are undone.
    pub protects: bool,
    /// Access `workspace` has a loopback network; otherwise it has no network.
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

/// Returns what an access allows, as the first words of a reason for a person.
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

/// Returns whether a line names this program, also in quotes: `re''wake`.
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

/// Returns whether a text has this program's name as a word, or as the last part of a path.
fn names_this_program(text: &str) -> bool {
    let is_part = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-');
    text.match_indices(THIS_PROGRAM).any(|(at, name)| {
        let before = text[..at].chars().next_back();
        let after = text[at + name.len()..].chars().next();
        !before.is_some_and(is_part) && !after.is_some_and(|c| is_part(c) || c == '/')
    })
}

impl Evaluation<'_> {
    /// Returns the access of a line, and whether it may run with it. `asked` is the access that the
    /// call names. Without it, the line gets the most that mode and rules give without a question.
    pub(super) fn command_line(
        &self,
        text: &str,
        asked: Option<Access>,
        background: bool,
    ) -> (Access, Finding) {
        let (access, finding) = self.access_and_finding(text, asked, background);
        (access, self.ask_if_it_names_rewake(text, finding))
    }

    /// Adds a question for a line that names this program. A command that runs rewake could answer
    /// the question about the next command. The exceptions are read-only lines, and lines that are
    /// allowed by a rule which also names rewake. In the sandbox a command cannot write the store;
    /// without one this check can be evaded.
    fn ask_if_it_names_rewake(&self, text: &str, finding: Finding) -> Finding {
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
            // With less access it would only fail.
            Some(_) => Access::Full,
            None => granted.map_or(usual, |granted| granted.max(usual)),
        });
        let finding = self.with_access(text, access, granted, background);
        (access, finding)
    }

    /// Returns the access of a call that names none, without any rule.
    fn usual(&self, background: bool) -> Access {
        match self.mode {
            Mode::BypassPermissions => Access::Full,
            Mode::Plan => Access::Read,
            // This sandbox is too weak to run lines without approval. Listed or approved commands
            // still use it.
            Mode::Default | Mode::AcceptEdits if !self.sandbox.read => Access::Workspace,
            Mode::AcceptEdits if self.sandbox.workspace && !background => Access::Workspace,
            Mode::Default | Mode::AcceptEdits => Access::Read,
        }
    }

    /// Returns the access that the rules give this line without a question, beyond the access that
    /// needs none: a `Bash` rule `workspace`, a `Network` rule `network`, a `Full` rule `full`. It
    /// is less if a rule denies or asks about more, or if the line writes something that needs a
    /// question.
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

    /// Returns the highest access that the rules give this line, if that is at least `least`.
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
            // A person works in the same folder while a command runs in the background. So its
            // changes of protected files are reported at its end and not undone.
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

    /// Returns the rules that would give this line this access, if they may be offered and no
    /// other rule contradicts them.
    fn offered(&self, text: &str, access: Access) -> Option<RuleOffer> {
        let parts = shell::split(text).ok()?;
        // A rule for a command that only reads would give it access that it does not need.
        let only_reads = |part: &SimpleCommand| {
            read_only_commands::reads(part).is_ok() || cd_target(part).is_some()
        };
        if parts.len() > 1 && parts.iter().any(only_reads) {
            return None;
        }
        let offers = parts
            .iter()
            .map(|part| offer::for_access(part, access).map(RuleOffer::from));
        let offer = offers.reduce(|all, one| all?.and(one?))??;
        let mut rules = self.rules.clone();
        rules.allow.extend(offer.rules().iter().cloned());
        let with_it = self.with_rules(self.mode, &rules);
        (with_it.grants(text) >= Some(access)).then_some(offer)
    }

    /// Returns the same workspace with another mode and other rules.
    fn with_rules<'r>(&'r self, mode: Mode, rules: &'r Rules) -> Evaluation<'r> {
        Evaluation {
            mode,
            rules,
            disk: self.disk,
            bases: self.bases.clone(),
            readable: self.readable.clone(),
            rewakes_own: self.rewakes_own,
            obeyed: self.obeyed.clone(),
            keys: self.keys.clone(),
            sandbox: self.sandbox,
            served: self.served,
            page: self.page,
        }
    }

    /// Applies the deny and ask rules to a line, as far as its words show.
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

    /// Applies the deny and ask rules for this access to a line.
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
        // The same words count as without a sandbox, whether they name a file to read or to change.
        let reads = self.reads(command, shell);
        if let Some(named) = self.arguments(command, reads.is_ok(), shell) {
            finding = finding.or_stricter(named);
        }
        for place in &shell.places {
            finding = finding.or_stricter(self.redirects_by_rules(command, place));
            // For a listed command it is known which words are files: `echo .env` reads nothing.
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
            let path_use = if redirect.writes {
                PathUse::Write
            } else {
                PathUse::Read
            };
            self.path_by_rules(place, path_use, &redirect.target.path(), |_| true)
        });
        findings.fold(Finding::Fine, Finding::or_stricter)
    }

    fn reads_by_rules(&self, reads: &Reads, place: &str) -> Finding {
        let path_use = if reads.recursive {
            PathUse::Grep
        } else {
            PathUse::Read
        };
        let mut paths = reads.paths.clone();
        for pattern in &reads.patterns {
            let full = self.full(place, pattern);
            let (folder, below) = match path::below(&full, place) {
                Some(below) => (place, below),
                None => ("/", full.as_str()),
            };
            paths.push(pattern.clone());
            // The matches of a pattern matter only if a rule is about reading.
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

    /// Judges a word of an unknown command, which may be or contain a path: see [`paths_in`].
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
