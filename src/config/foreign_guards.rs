//! Guards of other coding agents: their hooks, and their rules that deny or ask.
//!
//! [`find`] only looks: nothing in these files is run or applied. [`translate`] writes a rule of
//! another agent as one of ours. Left out on purpose: allow rules, and files of administrators.
//!
//! Invariant: a file that may have guards is never skipped. If it cannot be read, it is reported
//! with the reason.

mod rules;
#[cfg(test)]
mod tests;

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::{Map, Value};

pub use rules::{edit_rule, translate};

use super::mcp::without_comments;
use super::{ReadError, read_text};
use crate::core::text::{clip, count, one_line};

/// Maximum size of such a file.
const MAX_FILE_BYTES: u64 = 1024 * 1024;

/// Maximum number of deny rules, and of ask rules, in a file.
const MAX_RULES: usize = 1000;

/// Maximum length of each key in a rule of OpenCode, since a key may be in many rules.
const MAX_KEY_BYTES: usize = 200;

/// Maximum length of a reason in a line for a person.
const MAX_FAULT_CHARS: usize = 60;

const FILES: [(Agent, &str); 10] = [
    (Agent::Claude, ".claude/settings.json"),
    (Agent::Claude, ".claude/settings.local.json"),
    (Agent::Codex, ".codex/hooks.json"),
    (Agent::Codex, ".codex/config.toml"),
    (Agent::Gemini, ".gemini/settings.json"),
    (Agent::Cursor, ".cursor/hooks.json"),
    (Agent::OpenCode, "opencode.json"),
    (Agent::OpenCode, "opencode.jsonc"),
    (Agent::OpenCode, ".opencode/opencode.json"),
    (Agent::OpenCode, ".opencode/opencode.jsonc"),
];

/// Those that are also looked for in the home folder.
const OF_HOME: [&str; 4] = [
    ".claude/settings.json",
    ".claude/settings.local.json",
    ".codex/hooks.json",
    ".codex/config.toml",
];

/// Members of `hooks` that are no events: Codex stores its trust in `state`, and older versions of
/// Gemini CLI have a list of names in `disabled`.
const NO_EVENTS: [&str; 2] = ["state", "disabled"];

/// A coding agent whose guards are looked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Agent {
    Claude,
    Codex,
    Gemini,
    Cursor,
    OpenCode,
}

/// A file of another agent that has guards, or may have some.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ForeignFile {
    pub path: PathBuf,
    /// The path for a person: `.claude/settings.json` or `~/.claude/settings.json`.
    pub shown: String,
    pub agent: Agent,
    /// Number of hook handlers.
    pub hooks: usize,
    /// Rules as in the file. They may have any characters: mark those before you show a rule.
    pub deny: Vec<String>,
    pub ask: Vec<String>,
    /// The file comes with the workspace, so a stranger may have written it.
    pub is_of_workspace: bool,
    /// Blake3 of the text in hex. Empty if the text could not be read.
    pub hash: String,
    /// The reason why the guards are not known. Then there are no hooks and rules here.
    pub fault: Option<String>,
}

/// Returns the files of other agents in the workspace and in the home folder that have guards or
/// cannot be read. Missing files are skipped.
pub fn find(root: &Path, home: Option<&Path>) -> Vec<ForeignFile> {
    let real = |folder: &Path| folder.canonicalize().unwrap_or(folder.to_path_buf());
    let real_root = real(root);
    let of_root = FILES.iter();
    let of_root = of_root.filter_map(|file| look(*file, root, Some(&real_root)));
    let mut found: Vec<ForeignFile> = of_root.collect();
    if let Some(home) = home.filter(|home| real(home) != real_root) {
        let of_home = FILES.iter().filter(|(_, name)| OF_HOME.contains(name));
        found.extend(of_home.filter_map(|file| look(*file, home, None)));
    }
    found
}

/// Returns a file if it has guards or a fault. `inside`: a link may not lead out of this folder.
fn look(file: (Agent, &str), folder: &Path, inside: Option<&Path>) -> Option<ForeignFile> {
    let (agent, name) = file;
    let mut file = ForeignFile {
        path: folder.join(name),
        shown: inside.map_or(format!("~/{name}"), |_| name.to_string()),
        agent,
        hooks: 0,
        deny: Vec::new(),
        ask: Vec::new(),
        is_of_workspace: inside.is_some(),
        hash: String::new(),
        fault: None,
    };
    if let Err(why) = file.fill(inside) {
        file.hooks = 0;
        file.deny.clear();
        file.ask.clear();
        file.fault = Some(why);
    }
    let rules = file.deny.len() + file.ask.len();
    (file.hooks + rules > 0 || file.fault.is_some()).then_some(file)
}

/// Reads a file. The text is empty if there is none.
fn read(path: &Path, inside: Option<&Path>) -> Result<String, String> {
    let real = match path.canonicalize() {
        Ok(real) if inside.is_some_and(|root| !real.starts_with(root)) => {
            return Err("it is a link that leads out of the workspace".to_string());
        }
        Ok(real) => real,
        Err(e) if !matches!(e.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
            return Err(e.to_string());
        }
        Err(_) if path.is_symlink() => return Err("it is a link that leads nowhere".to_string()),
        Err(_) => return Ok(String::new()),
    };
    match read_text(&real, MAX_FILE_BYTES) {
        Err(ReadError::Missing) => Ok(String::new()),
        read => read.map_err(|e| e.to_string()),
    }
}

impl ForeignFile {
    /// Returns a line for a person: what is in the file, and that it is not in force.
    pub fn line(&self) -> String {
        let shown = &self.shown;
        if let Some(fault) = &self.fault {
            let fault = one_line(fault, MAX_FAULT_CHARS);
            let rest = "so its hooks and rules are not in force";
            return format!("{shown} cannot be read ({fault}), {rest}");
        }
        let rules = self.deny.len() + self.ask.len();
        let what = match (count(self.hooks, "hook"), count(rules, "deny or ask rule")) {
            (hooks, _) if rules == 0 => hooks,
            (_, rules) if self.hooks == 0 => rules,
            (hooks, rules) => format!("{hooks} and {rules}"),
        };
        let is_one = self.hooks + rules == 1;
        let (are, them) = if is_one {
            ("is", "it")
        } else {
            ("are", "them")
        };
        let end = match self.agent {
            Agent::Claude | Agent::Codex => format!("`rewake hooks import` shows {them}"),
            Agent::Gemini | Agent::Cursor | Agent::OpenCode => format!("rewake cannot use {them}"),
        };
        format!("{shown} has {what} that {are} not in force; {end}")
    }

    /// Returns the folder at which Claude Code anchors `/path` in a rule of this file: the root of
    /// the workspace, or `~/.claude`.
    pub fn anchor(&self) -> &Path {
        let levels = if self.is_of_workspace { 2 } else { 1 };
        self.path.ancestors().nth(levels).unwrap_or(&self.path)
    }

    /// Reads the guards of the file, or returns why they are not known. The reason has nothing of
    /// the text in it.
    fn fill(&mut self, inside: Option<&Path>) -> Result<(), String> {
        let text = read(&self.path, inside)?;
        if text.trim().is_empty() {
            return Ok(());
        }
        self.hash = blake3::hash(text.as_bytes()).to_hex().to_string();
        let document = match self.agent {
            Agent::Codex if self.shown.ends_with(".toml") => parse_toml(&text)?,
            Agent::Claude | Agent::Codex | Agent::Cursor => parse_json(&text)?,
            Agent::Gemini | Agent::OpenCode => parse_json(&without_comments(&text))?,
        };
        match self.agent {
            Agent::Codex | Agent::Cursor => self.hooks = hook_count(&document)?,
            Agent::Claude => {
                self.hooks = hook_count(&document)?;
                if document["disableAllHooks"] == true {
                    self.hooks = 0;
                }
                members(&document, "permissions")?;
                self.deny = texts(&document["permissions"], "deny")?;
                self.ask = texts(&document["permissions"], "ask")?;
            }
            Agent::Gemini => {
                self.hooks = hook_count(&document)?;
                members(&document, "tools")?;
                self.deny = texts(&document["tools"], "exclude")?;
                self.deny.extend(texts(&document, "excludeTools")?);
            }
            Agent::OpenCode => {
                self.add_opencode("", &document)?;
                for list in ["agent", "agents"] {
                    for (name, agent) in members(&document, list)?.into_iter().flatten() {
                        self.add_opencode(&format!("{}: ", clip(name, MAX_KEY_BYTES)), agent)?;
                    }
                }
            }
        }
        if self.deny.len().max(self.ask.len()) > MAX_RULES {
            return Err(format!("it has more than {MAX_RULES} rules"));
        }
        Ok(())
    }

    /// Adds the rules of OpenCode's config, or of one agent in it. Version 1 has `permission`, an
    /// effect or a tree of effects. Version 2 has the list `permissions`.
    fn add_opencode(&mut self, agent: &str, config: &Value) -> Result<(), String> {
        self.add(&format!("{agent}permission"), &config["permission"])?;
        let rules = match &config["permissions"] {
            Value::Null => return Ok(()),
            rules => rules.as_array().ok_or_else(|| wrong("permissions"))?,
        };
        for rule in rules {
            let part = |name: &str| rule[name].as_str().ok_or_else(|| wrong("permissions"));
            let name = format!("{agent}{}: {}", part("action")?, part("resource")?);
            self.add(&name, &rule["effect"])?;
        }
        Ok(())
    }

    /// Adds a tree of effects. A rule is the path to its effect, such as `permission: bash: rm *`.
    fn add(&mut self, name: &str, effects: &Value) -> Result<(), String> {
        let list = match effects {
            Value::Object(members) => {
                let mut members = members.iter();
                return members.try_for_each(|(key, effects)| {
                    self.add(&format!("{name}: {}", clip(key, MAX_KEY_BYTES)), effects)
                });
            }
            Value::String(effect) if effect == "deny" => &mut self.deny,
            Value::String(effect) if effect == "ask" => &mut self.ask,
            Value::String(_) | Value::Null => return Ok(()),
            _ => return Err(wrong("permission")),
        };
        // More than the maximum is an error later.
        if list.len() <= MAX_RULES {
            list.push(name.to_string());
        }
        Ok(())
    }
}

fn parse_json(text: &str) -> Result<Value, String> {
    let parsed: Result<Value, _> = serde_json::from_str(text);
    match parsed {
        Ok(document) if document.is_object() => Ok(document),
        Ok(_) => Err("it is not a JSON object".to_string()),
        Err(e) => Err(format!(
            "not JSON: line {}, column {}",
            e.line(),
            e.column()
        )),
    }
}

fn parse_toml(text: &str) -> Result<Value, String> {
    toml::from_str(text).map_err(|e| {
        let before = text.get(..e.span().map_or(0, |span| span.start));
        let lines = before.unwrap_or_default().matches('\n').count();
        format!("not TOML: line {}", lines + 1)
    })
}

fn wrong(name: &str) -> String {
    format!("`{name}` in it has a wrong shape")
}

fn members<'a>(object: &'a Value, name: &str) -> Result<Option<&'a Map<String, Value>>, String> {
    match &object[name] {
        Value::Null => Ok(None),
        members => members.as_object().map(Some).ok_or_else(|| wrong(name)),
    }
}

fn texts(object: &Value, name: &str) -> Result<Vec<String>, String> {
    match &object[name] {
        Value::Null => Ok(Vec::new()),
        texts => Vec::deserialize(texts).map_err(|_| wrong(name)),
    }
}

/// Handlers of one event. Without a list it is a handler itself, as in Cursor's format.
#[derive(Deserialize)]
struct HookEntry {
    hooks: Option<Vec<IgnoredAny>>,
}

/// Returns the number of handlers in `hooks`. Single values in it are settings.
fn hook_count(document: &Value) -> Result<usize, String> {
    let mut sum = 0;
    for (name, value) in members(document, "hooks")?.into_iter().flatten() {
        if NO_EVENTS.contains(&name.as_str()) || !(value.is_array() || value.is_object()) {
            continue;
        }
        let entries: Vec<HookEntry> = Vec::deserialize(value).map_err(|_| wrong("hooks"))?;
        let counts = entries
            .iter()
            .map(|entry| entry.hooks.as_ref().map_or(1, Vec::len));
        sum += counts.sum::<usize>();
    }
    Ok(sum)
}
