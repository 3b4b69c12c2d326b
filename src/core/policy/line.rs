//! The decision about a command line: each of its commands, and each file that it names.
//!
//! Invariant: a part of a line is judged for every folder in which the line may be by then. It is
//! trusted less once an earlier part may have changed what commands mean.

use super::{Evaluation, Finding, asked, denied};
use crate::core::access::Access;
use crate::core::entry::Mode;
use crate::core::offer::{self, RuleOffer};
use crate::core::path;
use crate::core::permission::PathUse;
use crate::core::read_only_commands::{self, Reads};
use crate::core::rule::{Likeness, Rule};
use crate::core::shell::{self, Doubt, Redirect, SimpleCommand, Word};

/// Words of the shell that change what later commands mean.
#[rustfmt::skip]
const CHANGES_SHELL: &[&str] = &[
    ".", "alias", "builtin", "cd", "command", "declare", "enable", "eval", "exec", "export", "getopts", "hash", "let",
    "local", "mapfile", "popd", "pushd", "read", "readarray", "readonly", "set", "shopt", "source", "trap", "typeset",
    "unalias", "unset",
];

/// Programs that change the files in their arguments.
#[rustfmt::skip]
const CHANGES_FILES: &[&str] = &[
    "chgrp", "chmod", "chown", "cp", "dd", "git", "install", "ln", "mv", "patch", "perl", "rm", "rmdir", "rsync", "sed",
    "shred", "tee", "touch", "truncate", "unlink",
];

/// Subcommands of git that change the files in their arguments.
const GIT_CHANGES: [&str; 6] = ["apply", "checkout", "clean", "mv", "restore", "rm"];

const KEYS: &str = "the command names the folder where keys of model providers are kept: no call sees or changes it";

/// Maximum number of folders in which a line may be.
const MAX_PLACES: usize = 8;

/// The known state of the shell at one point of a line.
pub(super) struct Shell {
    /// The folders in which it may be: whether a `cd` took place depends on earlier commands.
    pub places: Vec<String>,
    /// An earlier command may have changed what commands mean.
    changed: bool,
}

impl Shell {
    pub(super) fn in_folder(folder: &str) -> Shell {
        Shell {
            places: vec![folder.to_string()],
            changed: false,
        }
    }
}

impl<'a> Evaluation<'a> {
    /// Judges a line by its words, for running with this access.
    pub(super) fn line(&self, text: &str, access: Access) -> Finding {
        let whole = |rule: &&Rule| rule.is_all_commands() || rule.is_line(text);
        if let Some(rule) = self.rules.deny.iter().find(whole) {
            return denied(rule);
        }
        // Also in the middle of a word, as in a line of Python code.
        let folded = path::fold(text);
        if self.keys.iter().any(|folder| folded.contains(folder)) {
            return Finding::Denied(KEYS.to_string());
        }
        let finding = match shell::split(text) {
            Ok(commands) => self.commands(&commands, access),
            Err(doubt) => self.doubtful(text, access, doubt),
        };
        let bypass = self.mode == Mode::BypassPermissions;
        if let Some(rule) = self.rules.ask.iter().find(whole).filter(|_| !bypass) {
            return finding.and(asked(rule));
        }
        // A rule for exactly this line does not require that the line is understood.
        match finding {
            Finding::Unknown { .. } if self.allows_line(text, access) => Finding::Fine,
            finding => finding,
        }
    }

    fn allows_line(&self, text: &str, access: Access) -> bool {
        let whole = |rule: &Rule| rule.is_all_commands() || rule.is_line(text);
        self.needed(access) <= Access::Workspace && self.rules.allow.iter().any(whole)
    }

    /// Returns the least access that an allow rule must give for a command with this access.
    /// Without a sandbox all rules give the same: the command runs as it is.
    fn needed(&self, access: Access) -> Access {
        if self.sandbox.available {
            access
        } else {
            Access::Read
        }
    }

    fn doubtful(&self, text: &str, access: Access, Doubt(why): Doubt) -> Finding {
        let refuses = |rule: &&Rule| rule.refuses_text(text);
        if let Some(rule) = self.rules.deny.iter().find(refuses) {
            return denied(rule);
        }
        if let Some((rule, Likeness::Yes)) = self.rules.denies_access(access, text, &[]) {
            return denied(rule);
        }
        let loose = shell::loose_words(text).concat();
        let here = Shell::in_folder(self.folder());
        if let Some(finding) = self.keys_in(loose.iter().map(String::as_str), &here) {
            return finding;
        }
        let words = if self.has_rules_for_paths() {
            loose
        } else {
            Vec::new()
        };
        let named = self.named(words.iter(), &[self.folder().to_string()], PathUse::Read);
        if let Some(finding @ Finding::Denied(_)) = named {
            return finding;
        }
        let finding = self.unknown(
            false,
            format!("it contains {why}, so no rule can be offered"),
        );
        let asks = self.rules.ask.iter().find(refuses);
        let by_access = self.rules.asks_for_access(access, text, &[]);
        let asks = asks.or(by_access.map(|(rule, _)| rule));
        match (finding, asks) {
            (Finding::Unknown { .. }, Some(rule)) => asked(rule),
            (finding, _) => finding,
        }
    }

    fn commands(&self, commands: &[SimpleCommand], access: Access) -> Finding {
        let mut shell = Shell::in_folder(self.folder());
        let mut finding = Finding::Fine;
        for command in commands {
            let redirects = command.redirects.iter().map(|r| self.redirect(r, &shell));
            finding = redirects.fold(finding, Finding::and);
            finding = finding.and(self.command(command, access, &shell));
            self.run(command, &mut shell);
        }
        finding
    }

    fn command(&self, command: &SimpleCommand, access: Access, shell: &Shell) -> Finding {
        if command.words.is_empty() && command.assignments.is_empty() {
            return Finding::Fine;
        }
        if let Some(rule) = self.find(&self.rules.deny, command, Likeness::Yes) {
            return denied(rule);
        }
        let part = std::slice::from_ref(command);
        let refusal = self.rules.denies_access(access, "", part);
        if let Some((rule, Likeness::Yes)) = refusal {
            return denied(rule);
        }
        if let Some(finding) = self.keys_in(command.words.iter().map(|w| w.text.as_str()), shell) {
            return finding;
        }
        let reads = self.reads(command, shell);
        let checked = reads
            .as_ref()
            .ok()
            .map(|reads| self.check_reads(reads, shell));
        if let Some(finding @ (Finding::Denied(_) | Finding::Asked(_))) = checked {
            return finding;
        }
        let named = self.arguments(command, reads.is_ok(), shell);
        if let Some(finding @ Finding::Denied(_)) = named {
            return finding;
        }
        if let (Some(Finding::Denied(plan)), Err(why)) = (self.planning(reads.is_ok()), &reads) {
            // The user may avoid this with another spelling.
            return Finding::Denied(format!("{plan} ({why})"));
        }
        if self.mode == Mode::BypassPermissions {
            return Finding::Fine;
        }
        if let Some(finding) = named {
            return finding;
        }
        if let Some(rule) = self.find(&self.rules.ask, command, Likeness::Maybe) {
            return asked(rule);
        }
        if let Some((rule, _)) = self.rules.asks_for_access(access, "", part) {
            return asked(rule);
        }
        let maybe = self.find(&self.rules.deny, command, Likeness::Maybe);
        if let Some(rule) = maybe.or(refusal.map(|(rule, _)| rule)) {
            return Finding::Asked(format!(
                "it may turn out to be what the rule `{rule}` denies"
            ));
        }
        let needed = self.needed(access);
        let is_allowed = || needed <= Access::Workspace && self.allows_command(command);
        let is_granted = || self.rules.grants("", part) >= Some(needed);
        if self.mode != Mode::Plan && (is_allowed() || is_granted()) {
            return Finding::Fine;
        }
        match (checked, reads) {
            (Some(finding), _) => finding,
            (None, Err(why)) => Finding::Unknown {
                why,
                // A listed command needs approval only because of its folder. A rule for it would
                // apply to every other folder too.
                rule: offer::for_command(command)
                    .filter(|_| read_only_commands::reads(command).is_err())
                    .map(RuleOffer::from),
            },
            (None, Ok(_)) => Finding::Fine,
        }
    }

    /// Returns the rule that refuses a command, or a command that it would run.
    pub(super) fn find(
        &self,
        rules: &'a [Rule],
        command: &SimpleCommand,
        least: Likeness,
    ) -> Option<&'a Rule> {
        let runs = read_only_commands::runs_others(&command.words);
        let texts = command.words.iter().skip(1).map(|w| w.text.as_str());
        let inner = texts.collect::<Vec<_>>().join(" ");
        rules.iter().find(|rule| {
            rule.refuses_words(&command.words) >= least
                || rule.refuses_words(&command.spelled()) >= least
                || (runs >= least && rule.refuses_text(&inner))
        })
    }

    /// Returns the strictest result of the path rules for the words of a command, whatever it does
    /// with them. The files of a read-only command are judged elsewhere.
    pub(super) fn arguments(
        &self,
        command: &SimpleCommand,
        looks: bool,
        shell: &Shell,
    ) -> Option<Finding> {
        let (name, rest) = command.words.split_first()?;
        // git shows the path after `HEAD:`.
        if (looks && name.text != "git") || !self.has_rules_for_paths() {
            return None;
        }
        let changed = changes(&name.text, rest);
        let mut finding = None;
        for (at, word) in rest.iter().enumerate().filter(|(_, word)| !word.expands) {
            let mut words = vec![word.text.clone()];
            if word.glob {
                for place in &shell.places {
                    match (self.disk.matches)(place, &word.text) {
                        Ok(names) => words.extend(names),
                        Err(why) => {
                            let why =
                                format!("which files `{}` names is not known: {why}", word.text);
                            finding = stricter(finding, Some(Finding::Asked(why)));
                        }
                    }
                }
            }
            if changed.contains(&at) {
                let named = self.named(words.iter(), &shell.places, PathUse::Write);
                finding = stricter(finding, named);
            }
            finding = stricter(
                finding,
                self.named(words.iter(), &shell.places, PathUse::Read),
            );
        }
        if read_only_commands::runs_others(&command.words) != Likeness::No {
            let inner: Vec<&str> = rest.iter().map(|w| w.text.as_str()).collect();
            let words: Vec<String> = shell::loose_words(&inner.join(" ")).concat();
            let named = self.named(words.iter(), &shell.places, PathUse::Read);
            finding = stricter(finding, named);
        }
        finding
    }

    /// Returns the strictest result of the path rules for words that may name files.
    fn named<'w>(
        &self,
        words: impl Iterator<Item = &'w String>,
        places: &[String],
        path_use: PathUse,
    ) -> Option<Finding> {
        let mut asks = None;
        for path in words.flat_map(|word| paths_in(word)) {
            for place in places {
                let spots = self.spots(place, path);
                let refuses = |rule: &&Rule| {
                    let is_named = |spot: &String| rule.refuses_path(path_use, spot, &self.bases);
                    rule.is_about_paths() && spots.iter().any(is_named)
                };
                if let Some(rule) = self.rules.deny.iter().find(refuses) {
                    return Some(denied(rule));
                }
                asks = asks.or_else(|| self.rules.ask.iter().find(refuses));
            }
        }
        asks.map(asked)
    }

    fn has_rules_for_paths(&self) -> bool {
        let mut rules = self.rules.deny.iter().chain(&self.rules.ask);
        rules.any(Rule::is_about_paths)
    }

    /// Denies words of a command that lead to the folder of the providers' keys.
    fn keys_in<'w>(&self, words: impl Iterator<Item = &'w str>, shell: &Shell) -> Option<Finding> {
        if self.keys.is_empty() {
            return None;
        }
        words.flat_map(paths_in).find_map(|path| {
            let at = |place: &String| self.keys_at(path, &self.spots(place, path));
            shell.places.iter().find_map(at)
        })
    }

    fn allows_command(&self, command: &SimpleCommand) -> bool {
        let settings = command
            .assignments
            .iter()
            .all(read_only_commands::is_setting);
        let spelled = command.spelled();
        self.rules
            .allow
            .iter()
            .any(|r| r.allows_words(&spelled) || (settings && r.allows_words(&command.words)))
    }

    /// Returns what the command reads, or why it does more.
    pub(super) fn reads(&self, command: &SimpleCommand, shell: &Shell) -> Result<Reads, String> {
        let mut reads = match cd_target(command) {
            Some(Ok(folder)) => Reads {
                paths: vec![folder],
                ..Reads::default()
            },
            Some(Err(why)) => return Err(why),
            None => read_only_commands::reads(command)?,
        };
        if shell.changed {
            return Err("an earlier part may have changed what commands mean".to_string());
        }
        if reads.repository {
            let places = shell.places.iter();
            places
                .map(|place| (self.disk.repository)(place))
                .collect::<Result<Vec<()>, _>>()?;
        }
        if shell.places.len() > 1 {
            reads.paths.push(".".to_string());
        }
        Ok(reads)
    }

    fn check_reads(&self, reads: &Reads, shell: &Shell) -> Finding {
        let path_use = if reads.recursive {
            PathUse::Grep
        } else {
            PathUse::Read
        };
        let mut finding = Finding::Fine;
        for place in &shell.places {
            for path in &reads.paths {
                finding = finding.and(self.path_from(place, path_use, path));
                if reads.recursive && self.holds_keys(&self.spots(place, path)) {
                    let why = "it goes through the folder where keys of model providers are kept";
                    finding = finding.and(self.unknown(true, why.to_string()));
                }
                if reads.files_only && (self.disk.is_folder)(&self.full(place, path)) {
                    finding = finding.and(self.unknown(true, through(path)));
                }
            }
            for pattern in &reads.patterns {
                finding = finding.and(self.pattern(place, path_use, pattern, reads.files_only));
            }
        }
        let guarded = self.rules.deny.iter().chain(&self.rules.ask);
        if reads.recursive && guarded.into_iter().any(Rule::is_about_reading) {
            let why = "it goes through files that a rule may keep from being read".to_string();
            finding = finding.and(self.unknown(true, why));
        }
        finding
    }

    /// Judges each file that a pattern of the shell matches, and the file with the pattern as its
    /// name.
    fn pattern(&self, place: &str, path_use: PathUse, pattern: &str, files_only: bool) -> Finding {
        let full = self.full(place, pattern);
        let (folder, below) = match path::below(&full, place) {
            Some(below) => (place, below),
            None => ("/", full.as_str()),
        };
        let mut finding = self.path_from(place, path_use, pattern);
        match (self.disk.matches)(folder, below) {
            Err(why) => {
                let why = format!("which files `{pattern}` names is not known: {why}");
                finding = finding.and(self.unknown(true, why));
            }
            Ok(names) => {
                for name in &names {
                    finding = finding.or_stricter(self.path_from(place, path_use, name));
                    if files_only && (self.disk.is_folder)(name) {
                        finding = finding.or_stricter(self.unknown(true, through(name)));
                    }
                }
            }
        }
        finding
    }

    fn redirect(&self, redirect: &Redirect, shell: &Shell) -> Finding {
        let Redirect { writes, target } = redirect;
        if target.expands || target.glob {
            let why = format!("which file `{}` names is not known", target.text);
            return self.unknown(!writes, why);
        }
        let harmless = match target.text.as_str() {
            "/dev/null" => true,
            "/dev/stdout" | "/dev/stderr" => *writes,
            _ => false,
        };
        if harmless {
            return Finding::Fine;
        }
        let path_use = if *writes {
            PathUse::Write
        } else {
            PathUse::Read
        };
        let changed = if shell.changed {
            let why = "an earlier part may have changed the folder".to_string();
            self.unknown(!writes, why)
        } else {
            Finding::Fine
        };
        shell
            .places
            .iter()
            .map(|place| self.path_from(place, path_use, &target.path()))
            .fold(changed, Finding::and)
    }

    /// Updates the known state of the shell after a command.
    pub(super) fn run(&self, command: &SimpleCommand, shell: &mut Shell) {
        let Some(name) = command.words.first() else {
            shell.changed |= !command
                .assignments
                .iter()
                .all(read_only_commands::is_setting);
            return;
        };
        match cd_target(command) {
            Some(Ok(folder)) => {
                for place in shell.places.clone() {
                    let full = path::join(&place, &folder);
                    shell.places.push(path::clean(&full));
                    shell.places.push(path::clean(&(self.disk.resolve)(&full)));
                }
                shell.places.sort();
                shell.places.dedup();
                shell.changed |= shell.places.len() > MAX_PLACES;
                shell.places.truncate(MAX_PLACES);
            }
            Some(Err(_)) => shell.changed = true,
            None => {
                shell.changed |= read_only_commands::assigns(command)
                    || CHANGES_SHELL.contains(&name.text.as_str());
            }
        }
    }
}

/// Returns the places of the operands that a command changes, removes or replaces.
fn changes(name: &str, rest: &[Word]) -> Vec<usize> {
    let name = name.rsplit('/').next().unwrap_or_default();
    let is_option = |start: &str| rest.iter().any(|w| w.text.starts_with(start));
    let verb = rest.iter().find(|w| !w.text.starts_with('-'));
    match name {
        // The operands before the last one are only read.
        "cp" | "install" | "ln" | "rsync" if !is_option("-t") && !is_option("--target") => {
            rest.len().checked_sub(1).into_iter().collect()
        }
        "sed" | "perl" if !is_option("-i") && !is_option("--in-place") => Vec::new(),
        "git" if !verb.is_some_and(|v| GIT_CHANGES.contains(&v.text.as_str())) => Vec::new(),
        _ if CHANGES_FILES.contains(&name) => (0..rest.len()).collect(),
        _ => Vec::new(),
    }
}

fn stricter(a: Option<Finding>, b: Option<Finding>) -> Option<Finding> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.or_stricter(b)),
        (a, b) => a.or(b),
    }
}

/// Returns the paths that a word of a command may name: itself, the text after `--file=`, `if=` or
/// `HEAD:`, and the text attached to a letter, as in `-f.env`.
pub(super) fn paths_in(word: &str) -> impl Iterator<Item = &str> {
    let attached = word
        .strip_prefix('-')
        .filter(|rest| !rest.starts_with('-'))
        .and_then(|rest| rest.get(rest.chars().next()?.len_utf8()..));
    let behind = |mark: char| word.split_once(mark).map(|(_, rest)| rest);
    [Some(word), attached, behind('='), behind(':')]
        .into_iter()
        .flatten()
        .filter(|path| !path.is_empty())
}

fn through(folder: &str) -> String {
    format!("it goes through the folder `{folder}`, and where links in it lead")
}

/// Returns where a `cd` leads, or why that is not known; `None` for any other command.
pub(super) fn cd_target(command: &SimpleCommand) -> Option<Result<String, String>> {
    let name = command.words.first().filter(|w| w.text == "cd")?;
    let unknown = || Err("where `cd` leads is not known".to_string());
    Some(match &command.words[1..] {
        [folder]
            if folder.is_literal()
                && !folder.text.is_empty()
                && !folder.text.starts_with('-')
                && !name.quoted
                && command.assignments.is_empty() =>
        {
            Ok(folder.path())
        }
        _ => unknown(),
    })
}
