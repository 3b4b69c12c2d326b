//! Shell commands of the user (`!`): from the box to the log, and how they are stopped.
//!
//! A command is shown from the key on; the log says the rest. One that wants a terminal of its
//! own (`!vim`, or any behind `!!`) gets the screen once it is recorded.

use super::{App, Intent, Phase, Tone, Which};
use crate::core::entry::{Entry, Record};
use crate::core::shell;
use crate::engine::Command;

/// Programs that are of no use without a terminal.
const INTERACTIVE: [&str; 37] = [
    "btop", "emacs", "ex", "fzf", "gitui", "helix", "htop", "hx", "info", "joe", "kak", "lazygit",
    "less", "lf", "man", "mc", "mcedit", "micro", "more", "most", "nano", "ncdu", "nnn", "nvim",
    "pico", "ranger", "screen", "tig", "tmux", "top", "vi", "view", "vifm", "vim", "vimdiff",
    "watch", "zellij",
];

/// A command that the user typed and that is not over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UserCommand {
    pub command: String,
    /// When it was typed or recorded: UTC, milliseconds since 1970.
    pub since_ms: i64,
    /// The place of its entry. `None`: it is not recorded yet.
    pub entry: Option<u64>,
    /// Its run folder. `None` for one that has the terminal, and before it is recorded.
    pub run: Option<String>,
    /// It was asked to end.
    pub is_stopped: bool,
    /// The last lines that it printed.
    pub tail: String,
}

/// The command, and whether it is to have the terminal.
fn parsed(typed: &str) -> (String, bool) {
    match typed.strip_prefix('!').map(str::trim) {
        Some(command) => (command.to_string(), true),
        None => (typed.to_string(), is_interactive(typed)),
    }
}

/// Whether one of its programs is one that is looked at on a terminal.
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

impl App {
    /// Runs what was typed behind the `!`.
    pub(super) fn run_shell(&mut self, typed: String) -> Vec<Intent> {
        match self.phase {
            Phase::Watching => {
                self.composer.set_text(&format!("!{typed}"));
                self.hint =
                    Some("another process uses this session: /fork makes a copy for you".into());
                Vec::new()
            }
            Phase::Nothing | Phase::Ended => {
                self.first_commands.push(typed);
                vec![Intent::Open {
                    which: Which::New,
                    take_over: false,
                }]
            }
            Phase::Starting | Phase::Opening => {
                self.first_commands.push(typed);
                self.hint = Some("run when the session is open".into());
                Vec::new()
            }
            Phase::Working { .. } | Phase::Resting(_) => vec![self.run_now(&typed)],
        }
    }

    /// The session is open.
    pub(super) fn run_now(&mut self, typed: &str) -> Intent {
        let (command, on_terminal) = parsed(typed);
        self.user_commands.push(UserCommand {
            command: command.clone(),
            since_ms: self.now_ms,
            entry: None,
            run: None,
            is_stopped: false,
            tail: String::new(),
        });
        // The draft goes with the command; what was typed behind it is kept anew.
        if !self.composer.is_empty() {
            self.typed_ms = Some(self.now_ms);
        }
        Intent::Engine(Command::RunForUser {
            command,
            on_terminal,
        })
    }

    /// Ends the newest command of the user, when one runs that was not asked to end yet.
    pub(super) fn stop_shell(&mut self) -> Option<Vec<Intent>> {
        let mut newest = self.user_commands.iter_mut().rev();
        let command = newest.find(|c| !c.is_stopped && (c.run.is_some() || c.entry.is_none()))?;
        command.is_stopped = true;
        // One that is not recorded yet is stopped as soon as it is.
        Some(
            command
                .run
                .clone()
                .map(Intent::StopRun)
                .into_iter()
                .collect(),
        )
    }

    /// What the log says of them after this record.
    pub(super) fn user_commands_recorded(&mut self, record: &Record) -> Vec<Intent> {
        let mut intents = Vec::new();
        if let Entry::UserCommand { command, .. } = &record.entry
            && let Some(typed) = self
                .user_commands
                .iter_mut()
                .find(|c| c.entry.is_none() && c.command == *command)
        {
            typed.entry = Some(record.seq);
            let recorded = self
                .now
                .user_commands
                .iter()
                .find(|c| c.entry == record.seq);
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
        self.follow_user_commands();
        intents
    }

    /// Those that are over go, and those of the log that this screen did not begin come.
    pub(super) fn follow_user_commands(&mut self) {
        let recorded = &self.now.user_commands;
        self.user_commands.retain(|c| {
            let is_open = |entry| recorded.iter().any(|r| r.entry == entry);
            c.entry.is_none_or(is_open)
        });
        for run in recorded {
            if self
                .user_commands
                .iter()
                .any(|c| c.entry == Some(run.entry))
            {
                continue;
            }
            self.user_commands.push(UserCommand {
                command: run.command.clone(),
                since_ms: run.since_ms,
                entry: Some(run.entry),
                run: run.run.clone(),
                is_stopped: false,
                tail: String::new(),
            });
        }
    }

    pub(super) fn user_command_not_run(&mut self, command: &str, why: &str) {
        let typed = |c: &UserCommand| c.entry.is_none() && c.command == command;
        if let Some(at) = self.user_commands.iter().position(typed) {
            self.user_commands.remove(at);
        }
        let line = crate::core::text::one_line(command, 100);
        self.notify(Tone::Bad, format!("{line} was not run: {why}"));
    }

    /// Sets the last lines that a command of the user printed.
    pub(super) fn user_tails(&mut self, tails: Vec<(String, String)>) {
        for (run, text) in tails {
            let mut commands = self.user_commands.iter_mut();
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
    fn what_is_of_no_use_without_a_terminal_gets_it() {
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
            // What is no shell is not guessed at.
            ("echo 'vim", "echo 'vim", false),
        ] {
            assert_eq!(parsed(typed), (command.to_string(), on_terminal), "{typed}");
        }
    }
}
