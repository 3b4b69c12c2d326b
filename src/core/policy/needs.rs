//! Commands that cannot work in the sandbox, recognised by their words: they change files outside
//! of the workspace, or protected files in it.
//!
//! Deliberately narrow: only lines of literal words, and only changes of protected files that a
//! kernel was seen to refuse. Everything else is tried in the sandbox, where a failure does no
//! harm.

use super::Evaluation;
use super::line::Shell;
use crate::core::shell::{self, SimpleCommand, Word};

/// Options of git itself, before its subcommand, with a value in the next word.
const GIT_WITH_VALUE: [&str; 5] = ["-C", "-c", "--git-dir", "--work-tree", "--namespace"];

/// Subcommands of git that write its settings or its hooks, with the first word after them.
#[rustfmt::skip]
const GIT_SETTINGS: &[(&str, &[&str])] = &[
    ("lfs", &["install", "uninstall"]),
    ("maintenance", &["register", "start", "stop", "unregister"]),
    ("remote", &["add", "remove", "rename", "rm", "set-branches", "set-url"]),
    ("sparse-checkout", &["disable", "init", "set"]),
    ("submodule", &["absorbgitdirs", "add", "deinit", "init", "set-branch", "set-url", "sync"]),
];

/// Subcommands of git that write its settings only with one of these options.
#[rustfmt::skip]
const GIT_OPTIONS: &[(&str, &[&str])] = &[
    ("branch", &["-u", "--set-upstream-to", "--unset-upstream", "-t", "--track", "-m", "-M", "--move", "-c", "-C",
                 "--copy", "--edit-description"]),
    ("checkout", &["-t", "--track"]),
    ("switch", &["-t", "--track"]),
];

/// Commands of `git worktree` that make or remove the folder in their arguments.
const WORKTREE: [&str; 3] = ["add", "move", "remove"];

/// Programs that write hooks of git, with the subcommand that does so.
#[rustfmt::skip]
const HOOKS: &[(&str, &[&str])] = &[
    ("husky", &["init", "install"]),
    ("lefthook", &["install", "uninstall"]),
    ("pre-commit", &["install", "uninstall"]),
];

impl Evaluation<'_> {
    /// Returns why a line cannot work below `full`, as far as its words show.
    pub(super) fn needs_full(&self, text: &str) -> Option<String> {
        let commands = shell::split(text).ok()?;
        let mut shell = Shell::in_folder(self.folder());
        for command in &commands {
            if let Some(why) = self.command_needs_full(command, &shell) {
                return Some(why);
            }
            self.run(command, &mut shell);
        }
        None
    }

    fn command_needs_full(&self, command: &SimpleCommand, shell: &Shell) -> Option<String> {
        if !command.assignments.is_empty() || !command.words.iter().all(Word::is_literal) {
            return None;
        }
        let words: Vec<&str> = command.words.iter().map(|w| w.text.as_str()).collect();
        let (name, rest) = words.split_first()?;
        if *name != "git" {
            let verb = rest.first()?;
            return is_listed(HOOKS, name, &[verb]).then(|| {
                format!("`{name} {verb}` changes hooks of git, which no command in the sandbox may")
            });
        }
        let (verb, rest) = sub_command(rest)?;
        let settings = match verb {
            "config" => writes_config(rest),
            "worktree" => return self.worktree_needs_full(rest, shell),
            _ => {
                is_listed(GIT_SETTINGS, verb, &rest[..rest.len().min(1)])
                    || is_listed(GIT_OPTIONS, verb, &options(rest))
            }
        };
        let shown = match rest.first() {
            Some(first) if verb != "config" => format!("git {verb} {first}"),
            _ => format!("git {verb}"),
        };
        settings.then(|| {
            format!("`{shown}` changes the settings of git, which no command in the sandbox may")
        })
    }

    fn worktree_needs_full(&self, rest: &[&str], shell: &Shell) -> Option<String> {
        let (verb, rest) = rest.split_first()?;
        if !WORKTREE.contains(verb) {
            return None;
        }
        let named = rest.iter().filter(|word| !word.starts_with('-'));
        let is_outside = |word: &&&str| {
            let spots = shell.places.iter().flat_map(|p| self.spots(p, word));
            spots.into_iter().any(|spot| !self.is_in_workspace(&spot))
        };
        if let Some(outside) = named.clone().find(is_outside) {
            return Some(format!(
                "`git worktree {verb}` changes `{outside}`, outside the workspace"
            ));
        }
        (*verb != "add").then(|| {
            format!("`git worktree {verb}` changes files of git that no command in the sandbox may")
        })
    }
}

fn is_listed(table: &[(&str, &[&str])], name: &str, words: &[impl AsRef<str>]) -> bool {
    let of_name = table.iter().filter(|(known, _)| *known == name);
    let mut known = of_name.flat_map(|(_, known)| known.iter());
    known.any(|known| words.iter().any(|word| word.as_ref() == *known))
}

/// Splits the words into the subcommand of git and the words after it.
fn sub_command<'w>(words: &'w [&'w str]) -> Option<(&'w str, &'w [&'w str])> {
    let mut at = 0;
    while words.get(at)?.starts_with('-') {
        at += 1 + usize::from(GIT_WITH_VALUE.contains(&words[at]));
    }
    let (verb, rest) = words.get(at..)?.split_first()?;
    Some((*verb, rest))
}

/// Returns the options without their values: `--track=direct` is `--track`, and `-uorigin/main` is
/// `-u`.
fn options<'w>(words: &[&'w str]) -> Vec<&'w str> {
    let before_paths = words.iter().take_while(|word| **word != "--");
    let options = before_paths.filter(|word| word.starts_with('-'));
    options
        .map(|word| {
            if word.starts_with("--") {
                word.split('=').next().unwrap_or(word)
            } else {
                word.get(..2).unwrap_or(word)
            }
        })
        .collect()
}

/// Options of `git config` with a value in the next word.
const CONFIG_WITH_VALUE: [&str; 5] = ["--type", "--default", "--comment", "--value", "--url"];

/// Returns whether `git config` writes git's settings. With an explicit file (`-f`) it may be any
/// file of the workspace.
fn writes_config(words: &[&str]) -> bool {
    let options = options(words);
    let has = |some: &[&str]| options.iter().any(|option| some.contains(option));
    if has(&["-f", "--file", "--blob", "-l", "--list"]) || has_get(&options) {
        return false;
    }
    let mut operands = Vec::new();
    let mut words = words.iter();
    while let Some(word) = words.next() {
        if CONFIG_WITH_VALUE.contains(word) {
            words.next();
        } else if !word.starts_with('-') {
            operands.push(*word);
        }
    }
    match operands.first() {
        Some(&("get" | "list")) => false,
        Some(&("edit" | "remove-section" | "rename-section" | "set" | "unset")) => true,
        // One name alone is shown, with a value it is set.
        _ => {
            operands.len() > 1
                || has(&["-e", "--edit", "--remove-section", "--unset", "--unset-all"])
        }
    }
}

/// Returns whether an option such as `--get`, `--get-all` or `--get-regexp` only reads.
fn has_get(options: &[&str]) -> bool {
    options.iter().any(|option| option.starts_with("--get"))
}
