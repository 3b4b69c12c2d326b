//! The files with hooks, in the format of Claude Code and Codex.
//!
//! Source of the format: the hooks references of Claude Code and Codex. `{"hooks": {EVENT:
//! [{"matcher": …, "hooks": [{"type": "command", "command": …, "timeout": seconds, "onFailure":
//! "block" or "allow", "async": bool}]}]}}`.

use std::collections::BTreeMap;
use std::path::Path;

use regex::Regex;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::Value;

use super::tool_names::{TOOLS, is_of_server, tools_named};
use crate::core::entry::HookEvent;
use crate::core::repeated_key::has_key_twice;
use crate::core::text;

/// Default and highest time limit of a hook, in seconds.
const TIMEOUT_SEC: f64 = 60.0;
const MAX_TIMEOUT_SEC: f64 = 600.0;

/// Maximum number of handlers of one file.
const MAX_HANDLERS: usize = 1_000;

/// Maximum number of warnings about one file.
const MAX_WARNINGS: usize = 20;

/// Maximum size of a compiled matcher in bytes.
const MAX_MATCHER_BYTES: usize = 1 << 20;

/// A hook as a file defines it.
#[derive(Debug, Clone)]
pub struct HookDefinition {
    pub event: HookEvent,
    /// As it is written; empty if there is none.
    pub matcher: String,
    pub command: String,
    pub timeout_ms: u64,
    /// `onFailure: "allow"`.
    pub may_fail: bool,
    /// Nobody waits for it.
    pub is_async: bool,
    /// Why it cannot run. A guard then counts as failed.
    pub fault: Option<String>,
    /// blake3 of all the above, in hex.
    pub hash: String,
}

/// The hooks of one file, and what of it is not used.
#[derive(Debug, Clone, Default)]
pub struct DefinedHooks {
    pub hooks: Vec<HookDefinition>,
    pub warnings: Vec<String>,
}

#[derive(Deserialize)]
struct File {
    hooks: Option<BTreeMap<String, Vec<Group>>>,
    #[serde(default, rename = "disableAllHooks")]
    is_off: bool,
    #[serde(flatten)]
    others: BTreeMap<String, IgnoredAny>,
}

impl File {
    /// Returns why hooks may be in it at a wrong place. `is_settings`: a file of another agent that
    /// also has other keys.
    fn fault(&self, is_settings: bool) -> Option<String> {
        let names = || self.others.keys();
        let is_event = |name: &&String| HookEvent::ALL.iter().any(|event| event.name() == **name);
        let lost = names().find(|name| is_event(name) || name.eq_ignore_ascii_case("hooks"));
        let lost = lost.or_else(|| {
            let has_none = self.hooks.is_none() && !self.is_off && !is_settings;
            names().next().filter(|_| has_none)
        })?;
        let lost = text::one_line(lost, 60);
        Some(format!(
            "its hooks must be in the key `hooks`, and it has the key `{lost}`: {{\"hooks\": {{\"PreToolUse\": [...]}}}}"
        ))
    }
}

#[derive(Deserialize)]
struct Group {
    matcher: Option<String>,
    hooks: Vec<Handler>,
}

#[derive(Deserialize)]
struct Handler {
    #[serde(rename = "type")]
    kind: String,
    command: Option<String>,
    timeout: Option<f64>,
    #[serde(rename = "onFailure")]
    on_failure: Option<String>,
    #[serde(default, rename = "async")]
    is_async: bool,
    /// Arguments that follow the command, without a shell.
    args: Option<Value>,
    /// A permission rule: the hook is only for calls that it matches.
    #[serde(rename = "if")]
    condition: Option<Value>,
    #[serde(flatten)]
    others: BTreeMap<String, Value>,
}

/// Fields of a handler that change nothing here.
const KNOWN_FIELDS: [&str; 3] = ["statusMessage", "description", "name"];

/// Parses a file with hooks.
///
/// # Errors
/// It is not JSON, or it has another shape; with the line.
pub fn parse(file: &Path, text: &str) -> Result<DefinedHooks, String> {
    if !text.trim_start().starts_with('{') {
        return Err("line 1: it is not a JSON object".to_string());
    }
    let is_settings = !file.ends_with("hooks.json");
    let file: File = serde_json::from_str(text).map_err(|error| error.to_string())?;
    let twice = has_key_twice(text).then(|| "an object in it has a key twice".to_string());
    if let Some(fault) = twice.or_else(|| file.fault(is_settings)) {
        return Err(fault);
    }
    let mut defined = DefinedHooks::default();
    if file.is_off {
        return Ok(defined);
    }
    for (name, groups) in file.hooks.unwrap_or_default() {
        let Some(event) = HookEvent::ALL.into_iter().find(|e| e.name() == name) else {
            let name = text::one_line(&name, 60);
            defined.warn(format!(
                "the event {name} is unknown, and its hooks do not run"
            ));
            continue;
        };
        for group in groups {
            let matcher = group.matcher.unwrap_or_default();
            for handler in group.hooks {
                defined.add(event, &matcher, handler);
            }
        }
    }
    if defined.hooks.len() > MAX_HANDLERS {
        return Err(format!("it has more than {MAX_HANDLERS} hooks"));
    }
    Ok(defined)
}

impl DefinedHooks {
    fn warn(&mut self, text: String) {
        if self.warnings.len() < MAX_WARNINGS && !self.warnings.contains(&text) {
            self.warnings.push(text);
        }
    }

    fn add(&mut self, event: HookEvent, matcher: &str, handler: Handler) {
        let fault = handler.fault(event, matcher);
        if let Some(fault) = fault.as_ref().filter(|_| !event.is_guard()) {
            self.warn(format!("a hook for {} does not run: {fault}", event.name()));
            return;
        }
        for name in handler.others.keys() {
            if !KNOWN_FIELDS.contains(&name.as_str()) {
                let name = text::one_line(name, 60);
                self.warn(format!(
                    "the field `{name}` of a hook is unknown, and ignored"
                ));
            }
        }
        let compiled = Matcher::parse(event, matcher);
        if compiled.is_ok_and(|compiled| compiled.is_of_no_tool(event)) {
            self.warn(no_tool(event, matcher));
        }
        let seconds = handler.timeout.unwrap_or(TIMEOUT_SEC);
        let timeout_ms = (seconds.clamp(0.001, MAX_TIMEOUT_SEC) * 1_000.0) as u64;
        let command = handler.command.unwrap_or_default();
        let may_fail = handler.on_failure.as_deref() == Some("allow");
        let is_async = handler.is_async && !event.is_guard();
        let whole = serde_json::json!([
            event.name(),
            matcher,
            handler.kind,
            command,
            timeout_ms,
            may_fail,
            is_async,
            // Neither runs, and a hook without them is another one.
            handler.args.or(handler.condition)
        ]);
        self.hooks.push(HookDefinition {
            event,
            matcher: matcher.to_string(),
            hash: blake3::hash(whole.to_string().as_bytes())
                .to_hex()
                .to_string(),
            command,
            timeout_ms,
            may_fail,
            is_async,
            fault,
        });
    }
}

/// Returns a line for a person about a hook that never runs.
fn no_tool(event: HookEvent, matcher: &str) -> String {
    format!(
        "the matcher {:?} of a hook for {} matches no tool, so it never runs; names are Bash, Read, Write, Edit, Glob, Grep, Task, mcp__SERVER__TOOL",
        text::one_line(matcher, 60),
        event.name()
    )
}

impl Handler {
    /// Returns why the handler cannot run.
    fn fault(&self, event: HookEvent, matcher: &str) -> Option<String> {
        if self.kind != "command" {
            let kind = text::one_line(&self.kind, 60);
            return Some(format!("hooks of type `{kind}` are not supported"));
        }
        if self.args.is_some() {
            return Some("the field `args` is not supported; write it into `command`".into());
        }
        if self.condition.is_some() {
            return Some(
                "the field `if` is not supported; compare `tool_input` in `command`".into(),
            );
        }
        match self.on_failure.as_deref() {
            None | Some("allow" | "block") => {}
            Some(_) => return Some("`onFailure` is neither \"block\" nor \"allow\"".into()),
        }
        if self.is_async && event.is_guard() {
            return Some("a hook that decides cannot be `async`".into());
        }
        match self.command.as_deref() {
            None | Some("") => return Some("it has no `command`".into()),
            Some(command) if command.contains('\0') => {
                return Some("its command has a NUL character".into());
            }
            Some(_) => {}
        }
        Matcher::parse(event, matcher).err()
    }
}

/// A matcher of a hook, compiled.
#[derive(Debug, Clone)]
pub enum Matcher {
    All,
    /// Whole names.
    Names(Vec<String>),
    /// A regular expression that is searched within the name, and the tools that it names as other
    /// agents do.
    Pattern(Box<Regex>, Vec<&'static str>),
}

impl Matcher {
    /// Parses a matcher: empty or `*` for all; names and `|`; otherwise a regular expression. A name
    /// that another agent or rewake has for a tool means that tool.
    ///
    /// # Errors
    /// The regular expression is invalid, or it is a permission rule.
    pub fn parse(event: HookEvent, text: &str) -> Result<Matcher, String> {
        let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '|');
        match text.trim() {
            "" | "*" => Ok(Matcher::All),
            text if text.chars().all(|c| is_plain(c) || matches!(c, ' ' | ',')) => {
                let names = text
                    .split(['|', ','])
                    .map(str::trim)
                    .filter(|name| !name.is_empty());
                Ok(Matcher::Names(if is_of_tools(event) {
                    names.flat_map(tools_or_name).collect()
                } else {
                    names.map(str::to_string).collect()
                }))
            }
            pattern => Matcher::of_pattern(event, pattern),
        }
    }

    fn of_pattern(event: HookEvent, pattern: &str) -> Result<Matcher, String> {
        let shown = text::one_line(pattern, 60);
        let regex = regex::RegexBuilder::new(pattern)
            .size_limit(MAX_MATCHER_BYTES)
            .build()
            .map_err(|_| format!("its matcher `{shown}` is not a valid regular expression"));
        if !is_of_tools(event) {
            return Ok(Matcher::Pattern(Box::new(regex?), Vec::new()));
        }
        if let Some(tool) = rule_of(pattern) {
            return Err(format!(
                "its matcher `{shown}` is a permission rule; write `{tool}`, and compare `tool_input` in the command"
            ));
        }
        let regex = regex?;
        let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let words = pattern
            .split(|c| !is_word(c))
            .filter(|word| regex.is_match(word));
        let named = words.flat_map(tools_named).collect();
        Ok(Matcher::Pattern(Box::new(regex), named))
    }

    /// Returns whether the matcher covers a name.
    pub fn matches(&self, name: &str) -> bool {
        match self {
            Matcher::All => true,
            Matcher::Names(names) => names.iter().any(|known| {
                let rest = name.strip_prefix(known.as_str());
                // A server stands for all its tools.
                rest == Some("")
                    || (is_of_server(known) && rest.is_some_and(|r| r.starts_with("__")))
            }),
            Matcher::Pattern(regex, named) => regex.is_match(name) || named.contains(&name),
        }
    }

    /// Returns whether the matcher of a hook for calls covers no tool. Servers may have any tools.
    pub fn is_of_no_tool(&self, event: HookEvent) -> bool {
        let may_be_served = match self {
            Matcher::All => true,
            Matcher::Names(names) => names.iter().any(|name| is_of_server(name)),
            Matcher::Pattern(regex, _) => ["mcp", "__"]
                .iter()
                .any(|part| regex.as_str().contains(part)),
        };
        is_of_tools(event) && !may_be_served && !TOOLS.iter().any(|(tool, _)| self.matches(tool))
    }
}

/// Returns whether the matcher of this event is compared with tools.
fn is_of_tools(event: HookEvent) -> bool {
    event.decides_about_call()
        || matches!(
            event,
            HookEvent::PostToolUse | HookEvent::PostToolUseFailure
        )
}

fn tools_or_name(name: &str) -> Vec<String> {
    let tools: Vec<String> = tools_named(name).map(str::to_string).collect();
    if tools.is_empty() {
        vec![name.to_string()]
    } else {
        tools
    }
}

/// Returns the name in a matcher that is a permission rule, such as `Bash(rm:*)`, or has one beside
/// other names. A regular expression that covers the tool is none: `Edit(File)?`.
fn rule_of(pattern: &str) -> Option<&str> {
    let mut parts = Vec::new();
    let (mut depth, mut start) = (0_usize, 0);
    for (at, c) in pattern.char_indices() {
        match c {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            '|' if depth == 0 => {
                parts.push(&pattern[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    parts.push(&pattern[start..]);
    parts.into_iter().find_map(|part| {
        let (name, rest) = part.trim().split_once('(')?;
        let is_rule =
            rest.ends_with(')') && (is_of_server(name) || tools_named(name).next().is_some());
        let covers = Regex::new(part).is_ok_and(|regex| {
            is_of_server(name) || tools_named(name).any(|tool| regex.is_match(tool))
        });
        (is_rule && !covers).then_some(name)
    })
}
