//! The expansion of a custom command that was typed: its file is found, its trust is checked, and
//! its text becomes the message.
//!
//! The file is read when the command is sent, not when it was listed. The text of a repository's
//! command is used only if a person trusts exactly that text.
//!
//! Invariant: a command of the workspace inserts only files of the workspace, and no command
//! inserts a file that a rule denies to read.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use super::{AppContext, permissions};
use crate::config::{self, ConfigError, Paths, ReadError, read_text_from};
use crate::core::custom::{self, MAX_FILE_BYTES, Mention, Template};
use crate::core::entry::UsedCommand;
use crate::core::text::nearest;
use crate::mcp::catalogue::SessionCatalogue;
use crate::tools::{Hidden, TaskOrder};
use crate::workspace::regular::open_on_disk;
use crate::workspace::{
    Agent, Agents, CustomCommand, CustomCommands, StartFolder, agents, commands,
};

/// Maximum size of an inserted file.
const MAX_PUT_IN_BYTES: u64 = 256 * 1024;
/// Maximum size of the whole message.
const MAX_SAID_BYTES: usize = 1024 * 1024;

/// Built-in commands that are a text for the model.
const BUILT_IN: [(&str, &str); 1] = [("init", include_str!("../../assets/prompts/init.md"))];

/// Returns whether a built-in command is a text for the model. Such a command works without a
/// screen.
pub fn is_prompt(name: &str) -> bool {
    BUILT_IN.iter().any(|(own, _)| *own == name)
}

/// A typed command.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CommandLine {
    /// Its name without the slash.
    pub name: String,
    pub arguments: String,
    /// Hash of the text that the person has just trusted.
    pub trusts: Option<String>,
}

impl CommandLine {
    /// Parses a line that begins with a slash and a name.
    pub fn parse(line: &str) -> Option<CommandLine> {
        let rest = line.trim().strip_prefix('/')?;
        let (name, arguments) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
        Some(CommandLine {
            name: name.to_string(),
            arguments: arguments.trim().to_string(),
            trusts: None,
        })
    }

    /// Returns the command as a line to type.
    pub fn line(&self) -> String {
        let used = UsedCommand {
            name: self.name.clone(),
            arguments: self.arguments.clone(),
            model: None,
        };
        used.line()
    }
}

/// The message that a command expands to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Expanded {
    pub text: String,
    pub command: UsedCommand,
    /// Notes for the user about parts of the command that are not used.
    pub notes: Vec<String>,
}

/// Why a command is not sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NotSaid {
    /// It comes with the repository, and its current text is not trusted.
    Untrusted(Box<UntrustedCommand>),
    /// The reason, and a hint.
    Failed(String, Option<String>),
}

/// A command of the workspace whose text must be trusted first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UntrustedCommand {
    pub typed: CommandLine,
    /// Path from the root of the workspace.
    pub path: String,
    pub hash: String,
    /// Whether another text of it was trusted.
    pub is_changed: bool,
    /// The model in its file.
    pub model: Option<String>,
    pub body: String,
}

/// Returns all current commands and agents of the workspace: the path of each, and the hash of its
/// text.
pub fn commands_to_trust(
    here: &StartFolder,
    paths: &Paths,
    is_taken: impl Fn(&str) -> bool,
) -> BTreeMap<String, String> {
    let found = commands(here, &paths.config_dir, is_taken)
        .found
        .into_iter();
    let agents = agents(here, &paths.config_dir).found.into_iter();
    found
        .filter_map(|command| Some((command.of_workspace?, command.hash)))
        .chain(agents.filter_map(|agent| Some((agent.of_workspace?, agent.hash))))
        .collect()
}

/// Trusts these commands and agents of the workspace. Returns whether anything changed.
///
/// # Errors
/// The trust cannot be stored.
pub fn trust_commands(
    here: &StartFolder,
    paths: &Paths,
    commands: BTreeMap<String, String>,
) -> Result<bool, ConfigError> {
    config::trust::trust_commands(paths, &here.root, commands, true)
}

/// The commands and agents that files of the user and of the workspace define.
pub struct CommandFiles {
    here: StartFolder,
    paths: Paths,
    home: Option<PathBuf>,
}

impl CommandFiles {
    /// Returns the custom commands that can be typed here. `is_taken` knows the built-in ones.
    pub fn commands(&self, is_taken: impl Fn(&str) -> bool) -> CustomCommands {
        commands(&self.here, &self.paths.config_dir, is_taken)
    }

    fn find_command(
        &self,
        typed: &CommandLine,
        is_taken: impl Fn(&str) -> bool,
    ) -> Result<CustomCommand, NotSaid> {
        let CustomCommands { found, warnings } = self.commands(is_taken);
        let names: Vec<String> = found.iter().map(|command| command.name.clone()).collect();
        let mut found = found.into_iter();
        if let Some(command) = found.find(|command| command.name == typed.name) {
            return Ok(command);
        }
        // The warning about an unusable file explains more than the error for a missing command.
        let file = format!("/{}.md is not used", typed.name.replace(':', "/"));
        if let Some(why) = warnings.iter().find(|why| why.contains(&file)) {
            return Err(NotSaid::Failed(why.clone(), None));
        }
        let near = nearest(&typed.name, names.iter().map(String::as_str));
        let hint = near.map(|name| format!("did you mean /{name}?"));
        let why = format!("there is no command /{}", typed.name);
        Err(NotSaid::Failed(why, hint))
    }

    /// Checks that a command is trusted. Commands of the user need no trust. If the person has just
    /// trusted the text, that is stored first.
    fn check_trust(&self, typed: &CommandLine, command: &CustomCommand) -> Result<(), NotSaid> {
        let Some(path) = &command.of_workspace else {
            return Ok(());
        };
        let failed = |e: ConfigError| NotSaid::Failed(e.to_string(), e.hint().map(str::to_string));
        let root = &self.here.root;
        let trusted = config::trust::trusted_commands(&self.paths, root).map_err(failed)?;
        let before = trusted.get(path);
        if before == Some(&command.hash) {
            return Ok(());
        }
        if typed.trusts.as_ref() == Some(&command.hash) {
            let with = BTreeMap::from([(path.clone(), command.hash.clone())]);
            config::trust::trust_commands(&self.paths, root, with, false).map_err(failed)?;
            return Ok(());
        }
        Err(NotSaid::Untrusted(Box::new(UntrustedCommand {
            typed: typed.clone(),
            path: path.clone(),
            hash: command.hash.clone(),
            is_changed: before.is_some(),
            model: command.template.model.clone(),
            body: command.template.body.clone(),
        })))
    }

    /// Returns the text of a file that a command mentions. `None`: the mention stays as it is.
    fn put_in(
        &self,
        mention: &Mention,
        inside: Option<&Path>,
        hidden: &Hidden,
    ) -> Result<Option<String>, String> {
        let path = self.mentioned(&mention.path);
        let canonical = match path.canonicalize() {
            Ok(canonical) => canonical,
            Err(_) if !mention.is_path => return Ok(None),
            Err(e) if e.kind() == ErrorKind::NotFound => return Err(ReadError::Missing.to_string()),
            Err(e) => return Err(e.to_string()),
        };
        if inside.is_some_and(|root| !canonical.starts_with(root)) {
            return Err("it lies outside of the workspace, as the command does not".to_string());
        }
        if hidden.hides(&path) || hidden.hides(&canonical) {
            return Err("a rule denies to read it".to_string());
        }
        if canonical.is_dir() {
            return Ok(None);
        }
        // A link that replaced the file meanwhile is not followed: the opened file is the one that
        // is checked and read.
        let file = open_on_disk(&canonical).map_err(|e| e.to_string())?;
        let text = read_text_from(file, MAX_PUT_IN_BYTES).map_err(|e| e.to_string())?;
        Ok(Some(text))
    }

    /// Resolves a path as a person writes it: from the home folder, from the folder of this start,
    /// else from the root of the workspace.
    fn mentioned(&self, written: &str) -> PathBuf {
        if let (Some(below), Some(home)) = (written.strip_prefix("~/"), self.home.as_deref()) {
            return home.join(below);
        }
        let path = self.here.folder.join(written);
        match path.symlink_metadata() {
            Ok(_) => path,
            Err(_) => self.here.root.join(written),
        }
    }

    /// Returns the agents that may be used here: those of the user, and those of the workspace
    /// whose current text is trusted.
    pub(super) fn agents(&self) -> Agents {
        let Agents {
            found,
            mut warnings,
        } = agents(&self.here, &self.paths.config_dir);
        let trusted = config::trust::trusted_commands(&self.paths, &self.here.root);
        let trusted = trusted.unwrap_or_default();
        let is_trusted = |agent: &Agent| {
            let of_workspace = agent.of_workspace.as_ref();
            of_workspace.is_none_or(|path| trusted.get(path) == Some(&agent.hash))
        };
        let (found, others): (Vec<Agent>, Vec<Agent>) = found.into_iter().partition(is_trusted);
        if let [first, ..] = &others[..] {
            let path = first.of_workspace.as_deref().unwrap_or_default();
            let more = match others.len() {
                1 => String::new(),
                n => format!(" and {} more", n - 1),
            };
            warnings.push(format!(
                "the agent {path}{more} is not used: it comes with this folder and is not trusted; read it, `rewake trust` trusts it as it is now"
            ));
        }
        Agents { found, warnings }
    }

    /// Returns the agent that a task names. `None`: it names none.
    pub(super) fn agent_of(&self, order: &TaskOrder) -> Result<Option<Agent>, String> {
        let Some(name) = &order.agent else {
            return Ok(None);
        };
        let found = self.agents().found;
        let names: Vec<&str> = found.iter().map(|agent| agent.file.name.as_str()).collect();
        let near = nearest(name, names.iter().copied());
        let why = match (&names[..], near) {
            ([], _) => format!("there is no agent {name:?}, and no other: leave out `agent`"),
            (_, Some(near)) => format!("there is no agent {name:?}; did you mean {near:?}?"),
            _ => format!("there is no agent {name:?}; there are {}", names.join(", ")),
        };
        let mut found = found.into_iter();
        found
            .find(|agent| agent.file.name == *name)
            .map(Some)
            .ok_or(why)
    }
}

impl AppContext {
    /// Returns the commands and agents of this folder.
    pub fn command_files(&self) -> CommandFiles {
        CommandFiles {
            here: self.here.clone(),
            paths: self.paths.clone(),
            home: self.env.home().map(PathBuf::from),
        }
    }

    /// Returns the message for a command that was typed.
    ///
    /// # Errors
    /// [`NotSaid`]; nothing is sent.
    pub fn expand(
        &self,
        typed: &CommandLine,
        is_taken: impl Fn(&str) -> bool,
    ) -> Result<Expanded, NotSaid> {
        let failed =
            |why: String| NotSaid::Failed(format!("/{} was not sent: {why}", typed.name), None);
        let files = self.command_files();
        let mut built_in = BUILT_IN.iter();
        let (template, inside) = match built_in.find(|(name, _)| *name == typed.name) {
            Some((_, text)) => (custom::parse(text).map_err(failed)?, None),
            None => {
                let command = files.find_command(typed, is_taken)?;
                let inside = command
                    .of_workspace
                    .as_ref()
                    .map(|_| self.here.root.as_path());
                files.check_trust(typed, &command)?;
                (command.template, inside)
            }
        };
        let mut notes = Vec::new();
        let model = model_of(self, &template, &mut notes).map_err(failed)?;
        let expanded = custom::expand(&template.body, &typed.arguments).map_err(failed)?;
        let mut text = expanded.text;
        if !expanded.mentions.is_empty() {
            let runs = self.runs().map_err(|e| failed(e.to_string()))?;
            let folder = &self.here.folder;
            let (_, hidden) =
                permissions::permission_check(self, folder, &[], runs, SessionCatalogue::default())
                    .map_err(|e| failed(e.to_string()))?;
            for mention in &expanded.mentions {
                let put_in = files.put_in(mention, inside, &hidden).map_err(|why| {
                    let why = format!("/{} was not sent: @{}: {why}", typed.name, mention.path);
                    let hint = "a name in backticks (`@name`) does not insert a file";
                    NotSaid::Failed(why, Some(hint.to_string()))
                })?;
                if let Some(contents) = put_in {
                    custom::append_mentioned_file(&mut text, &mention.path, &contents);
                }
                if text.len() > MAX_SAID_BYTES {
                    return Err(failed(format!(
                        "with its files it has more than {MAX_SAID_BYTES} bytes"
                    )));
                }
            }
        }
        let command = UsedCommand {
            name: typed.name.clone(),
            arguments: typed.arguments.clone(),
            model,
        };
        Ok(Expanded {
            text,
            command,
            notes,
        })
    }
}

/// Returns the model that a command names, if it can be asked.
fn model_of(
    ctx: &AppContext,
    template: &Template,
    notes: &mut Vec<String>,
) -> Result<Option<String>, String> {
    let Some(model) = &template.model else {
        return Ok(None);
    };
    if !model.contains('/') {
        notes.push(format!(
            "the model {model:?} of the command is not used: it is not PROVIDER/MODEL"
        ));
        return Ok(None);
    }
    match ctx.models().check(model) {
        Ok(_) => Ok(Some(model.clone())),
        Err(e) => Err(format!("its model {model} cannot be asked: {e}")),
    }
}

// A command's file must be small enough to be mentioned itself.
const _: () = assert!(MAX_FILE_BYTES <= MAX_PUT_IN_BYTES);
