//! The slash commands: one table, from which they are parsed, completed and shown in the help
//! sheet. The app implements their effects.
//!
//! Invariant: a line that begins with a slash and is not a command is an error or a path, never
//! silently a message.

use std::sync::Arc;

use nucleo_matcher::pattern::{CaseMatching, Normalization, Pattern};
use nucleo_matcher::{Config, Matcher};

use crate::core::text::{clip, nearest};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SlashCommand {
    Help,
    New,
    Resume,
    Fork,
    Rewind,
    Undo,
    Redo,
    Stop,
    History,
    Compact,
    Context,
    Cost,
    Plan,
    Model,
    Schema,
    Key,
    Permissions,
    Memory,
    Skills,
    Mcp,
    Hooks,
    Ps,
    Init,
    Diff,
    Files,
    Export,
    Rename,
    Theme,
    Vim,
    Reload,
    Status,
    Doctor,
    Quit,
}

/// A command as a person meets it.
#[derive(Debug, PartialEq)]
pub(crate) struct Entry {
    pub command: SlashCommand,
    pub name: &'static str,
    pub aliases: &'static [&'static str],
    /// `[optional]` or `<needed>`; empty when it takes no argument.
    pub argument: &'static str,
    pub help: &'static str,
}

impl Entry {
    /// Returns whether it cannot run without its argument.
    pub(crate) fn needs_argument(&self) -> bool {
        self.argument.starts_with('<')
    }
}

#[rustfmt::skip]
pub(crate) const COMMANDS: &[Entry] = &[
    entry(SlashCommand::Help, "help", &["h", "?"], "", "keys and commands"),
    entry(SlashCommand::New, "new", &["clear", "reset"], "[task]", "begin a new session; this one stays in the history"),
    entry(SlashCommand::Resume, "resume", &["continue"], "[session]", "resume another session"),
    entry(SlashCommand::Fork, "fork", &["branch"], "[entry]", "fork from here or after an entry; --files dir: with its own files"),
    entry(SlashCommand::Rewind, "rewind", &["checkpoint"], "", "rewind to before a message, and the files if you want"),
    entry(SlashCommand::Undo, "undo", &[], "", "undo the last message and its changes to files"),
    entry(SlashCommand::Redo, "redo", &[], "", "undo the last rewind"),
    entry(SlashCommand::Stop, "stop", &["interrupt"], "", "stop the work in this session, also of another process"),
    entry(SlashCommand::History, "history", &["sessions"], "[words]", "all sessions, searched as you type"),
    entry(SlashCommand::Compact, "compact", &["summarise", "summarize"], "", "summarise the older part of the conversation now"),
    entry(SlashCommand::Context, "context", &["tokens"], "", "what fills the context, in tokens"),
    entry(SlashCommand::Cost, "cost", &[], "", "what this session cost so far, in money and tokens"),
    entry(SlashCommand::Plan, "plan", &["todos"], "", "the plan and where it stands"),
    entry(SlashCommand::Model, "model", &["m"], "[words | provider/model] [effort]", "choose the model, and its thinking effort"),
    entry(SlashCommand::Schema, "schema", &["json"], "[drop]", "the JSON Schema for the next answer; drop removes it"),
    entry(SlashCommand::Key, "key", &["login"], "[provider] [remove]", "enter the key of a provider, or remove it"),
    entry(SlashCommand::Permissions, "permissions", &["mode", "allow"], "[mode]", "the current mode and rules"),
    entry(SlashCommand::Memory, "memory", &["remember"], "[words]", "what is remembered, searched"),
    entry(SlashCommand::Skills, "skills", &["skill"], "", "the skills found here"),
    entry(SlashCommand::Mcp, "mcp", &["servers"], "", "the MCP servers: their state, tools and what they cost"),
    entry(SlashCommand::Hooks, "hooks", &["guards"], "", "the hooks and checks, and their trust"),
    entry(SlashCommand::Ps, "ps", &["jobs", "bashes"], "", "commands that run in the background"),
    entry(SlashCommand::Init, "init", &[], "[what matters most]", "write AGENTS.md by looking at the project, or improve it"),
    entry(SlashCommand::Diff, "diff", &["changes"], "", "what changed since the last commit"),
    entry(SlashCommand::Files, "files", &["snapshots"], "", "what the snapshots of files contain and use"),
    entry(SlashCommand::Export, "export", &["save"], "[file.md | file.json]", "write the conversation to a file"),
    entry(SlashCommand::Rename, "rename", &["title"], "<title>", "give this session another title"),
    entry(SlashCommand::Theme, "theme", &["colours", "colors"], "[name]", "choose the colours"),
    entry(SlashCommand::Vim, "vim", &["vi"], "", "turn vim's keys in the box on or off"),
    entry(SlashCommand::Reload, "reload", &["config"], "", "read the config again, also what the session changed in it"),
    entry(SlashCommand::Status, "status", &["about"], "", "session, model, folder, configuration"),
    entry(SlashCommand::Doctor, "doctor", &[], "", "check config, keys, store and sandbox, and report problems"),
    entry(SlashCommand::Quit, "quit", &["exit", "q"], "", "leave; everything is saved"),
];

const fn entry(
    command: SlashCommand,
    name: &'static str,
    aliases: &'static [&'static str],
    argument: &'static str,
    help: &'static str,
) -> Entry {
    Entry {
        command,
        name,
        aliases,
        argument,
        help,
    }
}

/// A command of the user or of the workspace, as a person sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Custom {
    /// The name without its slash: `git:commit`.
    pub name: String,
    /// `[optional]` or `<needed>`; empty when it is not declared.
    pub argument: String,
    pub help: String,
}

/// The custom commands as they were listed.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CustomList {
    pub commands: Vec<Arc<Custom>>,
    /// Warnings about commands that are not used, a line each.
    pub warnings: Vec<String>,
    /// Names of the servers (MCP), whose prompts are commands too.
    pub servers: Vec<String>,
}

/// One of rewake's own commands, or a custom one.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum ListedCommand {
    Own(&'static Entry),
    Custom(Arc<Custom>),
}

impl ListedCommand {
    pub(crate) fn name(&self) -> &str {
        match self {
            ListedCommand::Own(entry) => entry.name,
            ListedCommand::Custom(custom) => &custom.name,
        }
    }

    pub(crate) fn argument(&self) -> &str {
        match self {
            ListedCommand::Own(entry) => entry.argument,
            ListedCommand::Custom(custom) => &custom.argument,
        }
    }

    pub(crate) fn help(&self) -> &str {
        match self {
            ListedCommand::Own(entry) => entry.help,
            ListedCommand::Custom(custom) => &custom.help,
        }
    }

    /// Returns whether it cannot run without its argument.
    pub(crate) fn needs_argument(&self) -> bool {
        self.argument().starts_with('<')
    }
}

/// Returns whether a name is one of rewake's own commands, which wins over a custom one.
pub fn is_own(name: &str) -> bool {
    find(name).is_some()
}

/// Why a line is not run. The text is for a person.
#[derive(Debug, thiserror::Error, PartialEq)]
pub(crate) enum NotRun {
    #[error("there is no command /{name}{}", hint(nearest))]
    Unknown {
        name: String,
        nearest: Option<String>,
    },
    #[error("/{name} needs {argument}")]
    NoArgument {
        name: &'static str,
        argument: &'static str,
    },
    #[error("/{name} takes no arguments; a message may begin with a space")]
    TakesNone { name: &'static str },
}

fn hint(nearest: &Option<String>) -> String {
    match nearest {
        Some(name) => format!("; did you mean /{name}?"),
        None => "; /help lists them".to_string(),
    }
}

/// Converts a hint for the shell for the screen: commands of the shell become slash commands.
pub(crate) fn on_screen(hint: &str) -> String {
    hint.replace("rewake key ", "/key ")
}

/// Returns whether a line begins with a slash and a word. A path (`/usr/bin/env is missing`) does
/// not count.
pub fn is_command(line: &str) -> bool {
    let Some(rest) = line.strip_prefix('/') else {
        return false;
    };
    let word = rest.split(char::is_whitespace).next().unwrap_or("");
    rest.is_empty() || (!word.is_empty() && !word.contains(['/', '.']))
}

/// Parses a line that begins with a slash into its command and its argument. Suggestions for
/// unknown names include the `custom` commands.
pub(crate) fn parse(line: &str, custom: &[Arc<Custom>]) -> Result<(SlashCommand, String), NotRun> {
    let line = line.trim();
    let rest = line.strip_prefix('/').unwrap_or(line);
    let (name, argument) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
    let argument = argument.trim();
    let Some(entry) = find(name) else {
        let mut all: Vec<&str> = names().collect();
        all.extend(custom.iter().map(|custom| custom.name.as_str()));
        let near = nearest(name, all).map(str::to_string);
        return Err(NotRun::Unknown {
            name: clip(name, 40).into_owned(),
            nearest: near,
        });
    };
    if argument.is_empty() && entry.needs_argument() {
        return Err(NotRun::NoArgument {
            name: entry.name,
            argument: entry.argument,
        });
    }
    if !argument.is_empty() && entry.argument.is_empty() {
        return Err(NotRun::TakesNone { name: entry.name });
    }
    Ok((entry.command, argument.to_string()))
}

fn find(name: &str) -> Option<&'static Entry> {
    let name = name.to_lowercase();
    COMMANDS
        .iter()
        .find(|e| e.name == name || e.aliases.contains(&name.as_str()))
}

fn names() -> impl Iterator<Item = &'static str> {
    let aliases = COMMANDS.iter().flat_map(|e| e.aliases.iter().copied());
    COMMANDS.iter().map(|e| e.name).chain(aliases)
}

/// Returns the commands that `word` (without its slash) may become, the likeliest first.
pub(crate) fn complete(word: &str, custom: &[Arc<Custom>]) -> Vec<ListedCommand> {
    let word = word.to_lowercase();
    let mut matcher = Matcher::new(Config::DEFAULT);
    let pattern = Pattern::parse(&word, CaseMatching::Ignore, Normalization::Smart);
    let mut buffer = Vec::new();
    let own = COMMANDS.iter().map(ListedCommand::Own);
    let custom = custom.iter().cloned().map(ListedCommand::Custom);
    let mut scored: Vec<(u32, ListedCommand)> = own
        .chain(custom)
        .filter_map(|entry| {
            let name = entry.name().to_lowercase();
            let own = score(&name, &word, &pattern, &mut matcher, &mut buffer);
            let aliases = match &entry {
                ListedCommand::Own(entry) => entry.aliases,
                ListedCommand::Custom(_) => &[],
            };
            let alias = aliases.iter().filter_map(|alias| {
                let score = score(alias, &word, &pattern, &mut matcher, &mut buffer);
                // A command's own name counts more than another's alias.
                score.map(|s| s / 2)
            });
            let best = own.into_iter().chain(alias).max()?;
            Some((best, entry))
        })
        .collect();
    // Stable: equals stay in the order of the table.
    scored.sort_by_key(|(score, entry)| (std::cmp::Reverse(*score), rank(entry.name(), &word)));
    scored.into_iter().map(|(_, entry)| entry).collect()
}

/// Returns all commands, those that are used most first.
pub(crate) fn commands() -> impl Iterator<Item = &'static Entry> {
    let mut all: Vec<&Entry> = COMMANDS.iter().collect();
    all.sort_by_key(|entry| rank(entry.name, ""));
    all.into_iter()
}

/// The commands that are used most.
const USUAL: [&str; 6] = ["model", "resume", "compact", "undo", "diff", "cost"];

/// Returns the place of a command among those with the same score. An alias counts as its command.
fn rank(name: &str, word: &str) -> usize {
    let entry = find(name);
    let is_it = |usual: &&str| find(usual) == entry && entry.is_some();
    let place = USUAL.iter().position(is_it);
    place.filter(|_| word.is_empty()).unwrap_or(USUAL.len())
}

fn score(
    name: &str,
    word: &str,
    pattern: &Pattern,
    matcher: &mut Matcher,
    buffer: &mut Vec<char>,
) -> Option<u32> {
    const WHOLE: u32 = 100_000;
    const BEGINNING: u32 = 10_000;
    let fuzzy = pattern.score(nucleo_matcher::Utf32Str::new(name, buffer), matcher)?;
    let bonus = match name.strip_prefix(word) {
        Some("") => WHOLE,
        Some(_) if !word.is_empty() => BEGINNING,
        _ => 0,
    };
    Some(fuzzy + bonus)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hint_names_the_command_that_works_where_it_is_read() {
        let config = crate::config::Config::default();
        let provider = config.provider("groq").unwrap();
        let none = crate::config::Env::new::<&str, &str>([], "/");
        let error = provider.key(&none).unwrap_err();
        let hint = error.hint().unwrap();
        assert!(hint.contains("rewake key groq") && error.to_string().contains("GROQ_API_KEY"));
        let shown = on_screen(hint);
        assert!(
            shown.contains("/key groq") && !shown.contains("rewake key"),
            "{shown}"
        );
    }

    #[test]
    fn every_other_name_of_a_command_is_documented() {
        let manual = include_str!("../../docs/screen.md");
        let manual = manual.split_whitespace().collect::<Vec<_>>().join(" ");
        for entry in COMMANDS.iter().filter(|entry| !entry.aliases.is_empty()) {
            let aliases: String = entry.aliases.iter().map(|a| format!(" `/{a}`")).collect();
            let want = format!("`/{}`{aliases}", entry.name);
            assert!(manual.contains(&want), "{want}");
        }
    }

    #[test]
    fn lines_are_parsed() {
        for (line, want) in [
            ("/help", Ok((SlashCommand::Help, ""))),
            ("/HELP ", Ok((SlashCommand::Help, ""))),
            ("/q", Ok((SlashCommand::Quit, ""))),
            (
                "/rename  a new  title ",
                Ok((SlashCommand::Rename, "a new  title")),
            ),
            ("/new\nfix it", Ok((SlashCommand::New, "fix it"))),
            ("/rename", Err("/rename needs <title>")),
            (
                "/quit now",
                Err("/quit takes no arguments; a message may begin with a space"),
            ),
            (
                "/hlep",
                Err("there is no command /hlep; did you mean /help?"),
            ),
            (
                "/deploy",
                Err("there is no command /deploy; /help lists them"),
            ),
            ("/", Err("there is no command /; /help lists them")),
        ] {
            let got = parse(line, &[]).map_err(|e| e.to_string());
            let want = want
                .map(|(command, argument)| (command, argument.to_string()))
                .map_err(str::to_string);
            assert_eq!(got, want, "{line:?}");
        }
    }

    #[test]
    fn custom_commands_stand_beside_rewakes_own() {
        let custom = |name: &str| {
            Arc::new(Custom {
                name: name.to_string(),
                argument: "[message]".to_string(),
                help: "make a commit (yours)".to_string(),
            })
        };
        let all = [custom("git:commit"), custom("Review")];
        let names = |word: &str| -> Vec<String> {
            let found = complete(word, &all);
            found.iter().map(|e| e.name().to_string()).collect()
        };
        assert_eq!(names("").len(), COMMANDS.len() + 2);
        assert_eq!(names("git")[0], "git:commit");
        assert_eq!(names("rev")[0], "Review");
        let why = parse("/git:comit", &all).unwrap_err().to_string();
        assert_eq!(
            why,
            "there is no command /git:comit; did you mean /git:commit?"
        );
        assert!(is_own("HELP") && is_own("m") && !is_own("git:commit"));
    }

    #[test]
    fn a_path_is_not_a_command() {
        for (line, want) in [
            ("/help", true),
            ("/", true),
            ("/nonsense now", true),
            ("/usr/bin/env is missing", false),
            ("/etc/", false),
            ("/notes.md", false),
            ("/ x", false),
            (" /help", false),
            ("help", false),
        ] {
            assert_eq!(is_command(line), want, "{line:?}");
        }
    }

    #[test]
    fn the_likeliest_comes_first() {
        let names = |word: &str| -> Vec<String> {
            let found = complete(word, &[]);
            found.iter().map(|e| e.name().to_string()).collect()
        };
        assert_eq!(names("").len(), COMMANDS.len());
        let first = ["model", "resume", "compact", "undo", "diff"];
        assert_eq!(names("")[..5], first);
        let cost = find("cost").unwrap().name;
        assert_eq!(names("")[5..7], [cost, "help"]);
        assert_eq!(names("re")[..2], ["resume", "rewind"]);
        assert_eq!(names("ps")[0], "ps");
        assert_eq!(names("exit")[0], "quit");
        assert_eq!(names("cmpct"), ["compact"]);
        assert_eq!(names("zzz"), [""; 0]);
    }

    #[test]
    fn no_two_commands_share_a_name_and_each_has_help() {
        let mut all: Vec<&str> = names().collect();
        let count = all.len();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), count);
        for entry in COMMANDS {
            assert!(
                !entry.help.is_empty() && !entry.help.ends_with('.'),
                "{entry:?}"
            );
            assert_eq!(
                parse(&format!("/{} {}", entry.name, "x"), &[]).is_ok(),
                !entry.argument.is_empty()
            );
        }
    }
}
