//! Words and flags of other coding agents, and what to type instead.
//!
//! Sources: the command lines of Claude Code, Codex, opencode, gemini-cli, goose and pi. A word
//! counts only as the first argument that is not a flag. With `-p`, `-c` or `-r` before it, or after
//! `--`, it is a prompt.

use std::ffi::OsString;
use std::path::Path;

use super::tree;

/// Flags after which a word is a prompt.
const BEFORE_PROMPTS: [&str; 6] = ["-p", "--print", "-c", "--continue", "-r", "--resume"];

/// Flags of other agents, and those of rewake with the same effect.
#[rustfmt::skip]
const FLAGS: [(&str, &str); 34] = [
    ("--allowedTools", "--allow RULE"),
    ("--allowed-tools", "--allow RULE"),
    ("--disallowedTools", "--deny RULE"),
    ("--disallowed-tools", "--deny RULE"),
    ("--dangerously-skip-permissions", "--yolo"),
    ("--dangerously-bypass-approvals-and-sandbox", "--yolo"),
    ("--full-auto", "--permission-mode acceptEdits"),
    ("--approval-mode", "--permission-mode MODE"),
    ("--ask-for-approval", "--permission-mode MODE"),
    ("--sandbox", "--permission-mode MODE"),
    ("--max-budget-usd", "--max-usd N"),
    ("--max-budget", "--max-usd N"),
    ("--no-session-persistence", "--ephemeral"),
    ("--no-session", "--ephemeral"),
    ("--include-directories", "--add-dir DIR"),
    ("--system-prompt", "--append-system-prompt TEXT"),
    ("--append-system-prompt-file", "--append-system-prompt @FILE"),
    ("--output-schema", "--json-schema FILE"),
    ("--json", "--output-format json"),
    ("--format", "--output-format FORMAT"),
    ("--output-last-message", "-p \"…\" > FILE"),
    ("--include-partial-messages", "--output-format stream-json"),
    ("--prompt", "-p"),
    ("--prompt-interactive", "rewake \"…\""),
    ("--text", "-p"),
    ("--session", "--resume ID"),
    ("--last", "--continue"),
    ("--fork", "--fork-session"),
    ("--thinking", "--effort EFFORT"),
    ("--title", "--name TEXT"),
    ("--agent", "-m PROVIDER/MODEL"),
    ("--file", "@FILE in the prompt, or --image FILE"),
    ("--oss", "-m ollama/MODEL"),
    ("--timeout-seconds", "--timeout DURATION"),
];

/// Returns the flag of rewake for a flag of another agent.
pub(crate) fn flag(typed: &str) -> Option<&'static str> {
    let name = typed.split(['=', ' ']).next()?;
    let mut flags = FLAGS.iter();
    flags.find(|(known, _)| *known == name).map(|(_, own)| *own)
}

/// A subcommand of another agent that was typed, with its arguments.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct ForeignWord {
    pub word: String,
    rest: Vec<String>,
}

impl ForeignWord {
    /// Finds the word among the arguments of a process.
    pub(crate) fn find(argv: &[OsString]) -> Option<ForeignWord> {
        let at = first_word(argv)?;
        let mut words = argv[at..].iter().map(|arg| arg.to_string_lossy().into());
        let word: String = words.next()?;
        let found = ForeignWord {
            word,
            rest: words.collect(),
        };
        found.instead(Path::new("")).map(|_| found)
    }

    /// Returns what to type instead. `config` is the user's config file.
    pub(crate) fn hint(&self, config: &Path) -> String {
        let instead = self.instead(config).unwrap_or_default();
        let prompt = match self.rest.is_empty() {
            true => format!("rewake -- {}", self.word),
            false => format!(
                "rewake {}",
                quoted(&format!("{} {}", self.word, self.text()))
            ),
        };
        format!("{instead}; to send it as a prompt: {prompt}")
    }

    fn instead(&self, config: &Path) -> Option<String> {
        let operand = |or: &str| {
            let mut operands = self.rest.iter().filter(|arg| !arg.starts_with('-'));
            // `auth login PROVIDER`, `session resume ID`.
            let found = operands.find(|arg| !matches!(arg.as_str(), "login" | "add" | "set"));
            found.cloned().unwrap_or(or.to_string())
        };
        let text = |or: &str| match self.text() {
            text if text.is_empty() => or.to_string(),
            text => text,
        };
        Some(match self.word.to_lowercase().as_str() {
            "login" | "auth" => format!("rewake key {} stores a key", operand("PROVIDER")),
            "logout" => format!("rewake key {} --remove removes a key", operand("PROVIDER")),
            "exec" | "run" => format!("rewake -p {}", quoted(&text("what to do"))),
            "list" | "sessions" | "session" => "rewake history lists sessions".to_string(),
            "resume" => match operand("") {
                id if id.is_empty() => {
                    "rewake -r chooses a session, rewake -c resumes the newest".to_string()
                }
                id => format!("rewake -r {id}"),
            },
            "continue" => "rewake -c resumes the newest session here".to_string(),
            "upgrade" => "rewake update installs the newest version".to_string(),
            "config" | "configure" => {
                format!("edit {}; rewake doctor checks it", config.display())
            }
            "init" => "rewake -p /init writes AGENTS.md".to_string(),
            "review" => {
                let of = text("the changes in this branch");
                format!("rewake -p {}", quoted(&format!("review {of}")))
            }
            _ => return None,
        })
    }

    /// Returns the arguments that are no flags, as one text.
    fn text(&self) -> String {
        let words = self.rest.iter().filter(|arg| !arg.starts_with('-'));
        words.map(String::as_str).collect::<Vec<_>>().join(" ")
    }
}

/// Returns the place of the first argument that is neither a flag nor a value of one. `None`: it is a
/// prompt, or there is none.
fn first_word(argv: &[OsString]) -> Option<usize> {
    let command = tree::command();
    let takes_value = |name: &str| {
        let mut arguments = command.get_arguments();
        let found = arguments.find(|arg| match name.strip_prefix("--") {
            Some(long) => arg.get_long() == Some(long),
            None => arg.get_short().is_some_and(|c| name == format!("-{c}")),
        });
        found.is_some_and(|arg| arg.get_action().takes_values())
    };
    let mut at = 1;
    while let Some(arg) = argv.get(at) {
        let arg = arg.to_str()?;
        let name = arg.split('=').next().unwrap_or(arg);
        if arg == "--" || BEFORE_PROMPTS.contains(&name) {
            return None;
        }
        if !arg.starts_with('-') {
            return Some(at);
        }
        // Several short flags in one argument.
        if !arg.starts_with("--") && arg.len() > 2 && arg.contains(['p', 'c', 'r']) {
            return None;
        }
        at += if takes_value(arg) { 2 } else { 1 };
    }
    None
}

/// Returns a text as one argument of a shell.
fn quoted(text: &str) -> String {
    match text.contains(['"', '$', '`', '\\', '!']) {
        true => format!("'{}'", text.replace('\'', "'\\''")),
        false => format!("\"{text}\""),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hint(line: &str) -> Option<String> {
        let argv: Vec<OsString> = line.split(' ').map(OsString::from).collect();
        ForeignWord::find(&argv).map(|word| word.hint(Path::new("/c/config.toml")))
    }

    #[test]
    fn words_of_other_agents_have_a_hint() {
        let table = [
            ("rewake login", "rewake key PROVIDER"),
            ("rewake auth login openai", "rewake key openai"),
            ("rewake -m a/b exec fix it", "rewake -p \"fix it\""),
            ("rewake run", "rewake -p \"what to do\""),
            ("rewake list", "rewake history"),
            ("rewake sessions", "rewake history"),
            ("rewake resume", "rewake -c"),
            ("rewake resume 0197", "rewake -r 0197"),
            ("rewake continue", "rewake -c"),
            ("rewake upgrade", "rewake update"),
            ("rewake config", "edit /c/config.toml; rewake doctor"),
            ("rewake init", "rewake -p /init"),
            ("rewake review --uncommitted", "rewake -p \"review "),
            ("rewake -C /tmp Login", "rewake key"),
            ("rewake exec say $HOME", "rewake -p 'say $HOME'"),
        ];
        for (line, part) in table {
            let hint = hint(line).unwrap_or_default();
            assert!(hint.contains(part), "{line}: {hint}");
            assert!(hint.contains("to send it as a prompt: rewake "), "{hint}");
        }
    }

    #[test]
    fn prompts_have_none() {
        for line in [
            "rewake",
            "rewake -p login",
            "rewake --print=x login",
            "rewake -- login",
            "rewake -c continue",
            "rewake -pc continue",
            "rewake -r 0197 run",
            "rewake history list",
            "rewake -C run",
            "rewake fix",
        ] {
            assert_eq!(hint(line), None, "{line}");
        }
        let quoted = ["rewake", "run the tests"].map(OsString::from);
        assert_eq!(ForeignWord::find(&quoted), None);
    }

    #[test]
    fn flags_of_other_agents_are_none_of_ours() {
        let command = tree::command();
        for (foreign, _) in FLAGS {
            let mut own = command.get_arguments().filter_map(clap::Arg::get_long);
            assert!(!own.any(|own| foreign == format!("--{own}")), "{foreign}");
        }
        assert_eq!(flag("--allowedTools=Bash"), Some("--allow RULE"));
        assert_eq!(flag("--model"), None);
    }
}
