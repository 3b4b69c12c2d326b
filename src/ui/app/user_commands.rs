//! Shell commands of the user (`!`): from the box to the log, and how they are stopped.
//!
//! A command is shown as soon as Enter is pressed; its later states come from the log. A command
//! that needs the terminal (`!vim`, or any after `!!`) gets it once it is recorded.

use super::Intent;
use crate::core::entry::{Entry, Record};
use crate::core::shell;
use crate::engine::Command;
use crate::ui::live::UserRun;

/// Programs that are of no use without a terminal.
const INTERACTIVE: [&str; 37] = [
    "btop", "emacs", "ex", "fzf", "gitui", "helix", "htop", "hx", "info", "joe", "kak", "lazygit",
    "less", "lf", "man", "mc", "mcedit", "micro", "more", "most", "nano", "ncdu", "nnn", "nvim",
    "pico", "ranger", "screen", "tig", "tmux", "top", "vi", "view", "vifm", "vim", "vimdiff",
    "watch", "zellij",
];

/// A command that the user typed and that is not over.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct UserCommand {
    pub command: String,
    /// When it was typed or recorded: UTC, milliseconds since 1970.
    pub since_ms: i64,
    /// The place of its entry. `None`: it is not recorded yet.
    pub entry: Option<u64>,
    /// Its run folder. `None` while it has the terminal, and before it is recorded.
    pub run: Option<String>,
    /// The person stopped it.
    pub is_stopped: bool,
    /// The last lines that it printed.
    pub tail: String,
}

/// Splits a typed line into the command, and whether the command gets the terminal.
fn parsed(typed: &str) -> (String, bool) {
    match typed.strip_prefix('!').map(str::trim) {
        Some(command) => (command.to_string(), true),
        None => (typed.to_string(), is_interactive(typed)),
    }
}

/// Returns whether one of its programs needs a terminal.
fn is_interactive(line: &str) -> bool {
    let Ok(commands) = shell::split(line) else {
        return false;
    };
    commands.iter().any(|command| {
        let program = command.words.first().map(|word| word.text.as_str());
        let name = program.and_then(|p| p.rsplit('/').next());
        command.redirects.is_empty() && name.is_some_and(|name| INTERACTIVE.contains(&name))
    })
}

/// The shell commands of the user that are not over, oldest first.
#[derive(Debug, Default)]
pub struct UserCommands {
    pub list: Vec<UserCommand>,
}

impl UserCommands {
    /// Runs the text after the `!`.
    pub(super) fn run(&mut self, typed: &str, now_ms: i64) -> Intent {
        let (command, on_terminal) = parsed(typed);
        self.list.push(UserCommand {
            command: command.clone(),
            since_ms: now_ms,
            ..UserCommand::default()
        });
        Intent::Engine(Command::RunForUser {
            command,
            on_terminal,
        })
    }

    /// Ends the newest command, when one runs that was not asked to end yet.
    pub(super) fn stop(&mut self) -> Option<Vec<Intent>> {
        let mut newest = self.list.iter_mut().rev();
        let command = newest.find(|c| !c.is_stopped && (c.run.is_some() || c.entry.is_none()))?;
        command.is_stopped = true;
        // A command that is not recorded yet is stopped as soon as it is recorded.
        Some(
            command
                .run
                .clone()
                .map(Intent::StopRun)
                .into_iter()
                .collect(),
        )
    }

    /// Takes a record. `recorded`: the commands that the log says are open after it.
    pub(super) fn recorded(&mut self, record: &Record, recorded: &[UserRun]) -> Vec<Intent> {
        let mut intents = Vec::new();
        if let Entry::UserCommand { command, .. } = &record.entry
            && let Some(typed) = self
                .list
                .iter_mut()
                .find(|c| c.entry.is_none() && c.command == *command)
        {
            typed.entry = Some(record.seq);
            let recorded = recorded.iter().find(|c| c.entry == record.seq);
            typed.run = recorded.and_then(|c| c.run.clone());
            match &typed.run {
                Some(run) if typed.is_stopped => intents.push(Intent::StopRun(run.clone())),
                Some(_) => {}
                None => intents.push(Intent::OnTerminal {
                    entry: record.seq,
                    command: command.clone(),
                }),
            }
        }
        self.follow(recorded);
        intents
    }

    /// Removes those that are over, and adds those of the log that this screen did not begin.
    pub(super) fn follow(&mut self, recorded: &[UserRun]) {
        self.list.retain(|c| {
            let is_open = |entry| recorded.iter().any(|r| r.entry == entry);
            c.entry.is_none_or(is_open)
        });
        for run in recorded {
            if self.list.iter().any(|c| c.entry == Some(run.entry)) {
                continue;
            }
            self.list.push(UserCommand {
                command: run.command.clone(),
                since_ms: run.since_ms,
                entry: Some(run.entry),
                run: run.run.clone(),
                is_stopped: false,
                tail: String::new(),
            });
        }
    }

    /// Removes a command that was not run.
    pub(super) fn not_run(&mut self, command: &str) {
        let typed = |c: &UserCommand| c.entry.is_none() && c.command == command;
        if let Some(at) = self.list.iter().position(typed) {
            self.list.remove(at);
        }
    }

    /// Sets the last lines that the commands printed, by their runs.
    pub(super) fn set_tails(&mut self, tails: Vec<(String, String)>) {
        for (run, text) in tails {
            let mut commands = self.list.iter_mut();
            if let Some(command) = commands.find(|c| c.run.as_ref() == Some(&run)) {
                command.tail = text;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_that_need_a_terminal_are_run_on_it() {
        for (typed, command, on_terminal) in [
            ("vim a.rs", "vim a.rs", true),
            ("/usr/bin/less a", "/usr/bin/less a", true),
            ("git log | less", "git log | less", true),
            ("EDITOR=x nano a", "EDITOR=x nano a", true),
            ("ls", "ls", false),
            ("echo vim", "echo vim", false),
            ("top -b -n1 > out", "top -b -n1 > out", false),
            ("!python3", "python3", true),
            ("! ssh host", "ssh host", true),
            // Text that is not valid shell is not guessed at.
            ("echo 'vim", "echo 'vim", false),
        ] {
            assert_eq!(parsed(typed), (command.to_string(), on_terminal), "{typed}");
        }
    }
}
