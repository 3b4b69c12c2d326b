//! Rules of Claude Code, written as ours.
//!
//! Invariant: a translated rule refuses at least what the original refuses. If ours would refuse
//! less, the rule is not translated. Two gaps are known. `Bash(name*)` does not cover a program in
//! a folder whose name begins like that. `Read(path)` needs [`edit_rule`] beside it.
//!
//! The meaning of the original is that of code.claude.com/docs/en/permissions, November 2026.

use std::path::Path;

use super::Agent;
use crate::core::permission::FOREIGN_PREFIX;
use crate::core::rule::Rule;
use crate::core::shell;
use crate::core::text::one_line;

const ABOUT_ARGUMENT: &str = "it is about an argument of the tool";

/// Characters beside which a `*` of the original reaches further than ours: over quotes, and over
/// several commands.
const SHELL_CHARS: &str = "'\"`$|&;<>()#";

/// Returns a deny or ask rule of another agent as one of ours, or why it has no equivalent.
/// `anchor`: the folder of `/path` in the rule, see [`super::ForeignFile::anchor`].
pub fn translate(agent: Agent, rule: &str, anchor: &Path) -> Result<String, String> {
    match agent {
        Agent::Claude => {}
        Agent::Codex | Agent::Gemini | Agent::Cursor | Agent::OpenCode => {
            return Err("only rules of Claude Code have an equivalent".to_string());
        }
    }
    let rule = rule.trim();
    if rule.chars().any(char::is_control) {
        return Err("it has control characters".to_string());
    }
    let (tool, what) = match rule.split_once('(') {
        None => (rule, ""),
        Some((tool, rest)) => match rest.strip_suffix(')') {
            Some(what) => (tool, what.trim()),
            None => return Err("the closing `)` is missing at its end".to_string()),
        },
    };
    if what.contains('\\') {
        return Err("it has a backslash".to_string());
    }
    let text = match (tool, what) {
        ("Bash", what) => bash(what)?,
        ("Read" | "Edit" | "Write" | "Grep" | "Glob", "") => tool.to_string(),
        ("LS", "") => "Glob".to_string(),
        ("MultiEdit", "") => "Edit".to_string(),
        ("NotebookEdit", "") => "Edit(*.ipynb)".to_string(),
        ("Read" | "Grep" | "Glob" | "LS", what) => format!("Read({})", path(what, anchor)?),
        ("Edit" | "Write" | "MultiEdit" | "NotebookEdit", what) => {
            format!("Edit({})", path(what, anchor)?)
        }
        ("WebFetch" | "WebSearch", "") => tool.to_string(),
        ("WebFetch" | "WebSearch", what) => format!("{tool}({what})"),
        (tool, "") if tool.starts_with(FOREIGN_PREFIX) => tool.to_string(),
        (tool, _) => return Err(format!("rewake has no rules for {}", one_line(tool, 40))),
    };
    Rule::parse(&text).map(|_| text)
}

/// Returns the rule for changes that belongs to a translated deny rule `Read(path)`: in Claude
/// Code such a rule also denies Edit and Write.
pub fn edit_rule(translated: &str) -> Option<String> {
    let path = translated.strip_prefix("Read(")?;
    Some(format!("Edit({path}"))
}

/// Translates a rule for commands. A `*` of the original is any text, blanks included. One of ours
/// stays in its word, unless it is a word itself.
fn bash(what: &str) -> Result<String, String> {
    if matches!(what, "" | "*" | ":*") {
        return Ok("Bash".to_string());
    }
    match argument(what) {
        // The beginning of a command, since there are such programs.
        Some("command" | "timeout") if what.ends_with(":*") => {}
        Some("command" | "timeout" | "description") => return Err(ABOUT_ARGUMENT.to_string()),
        Some("run_in_background" | "dangerouslyDisableSandbox") => {
            return Err(ABOUT_ARGUMENT.to_string());
        }
        _ => {}
    }
    let first_words = what.strip_suffix(":*").or_else(|| what.strip_suffix(" *"));
    let (body, is_prefix) = match first_words {
        Some(words) => (words.trim_end(), true),
        None => (what, false),
    };
    let has_star = body.contains('*');
    // A line of several commands is compared as a whole, by both.
    let is_line = !is_prefix && !has_star && body.contains([';', '&', '|']);
    if !is_line && !is_simple(body) {
        return Err("it is not one simple command".to_string());
    }
    if !has_star {
        let end = if is_prefix { ":*" } else { "" };
        return Ok(format!("Bash({body}{end})"));
    }
    if body.contains(|c| SHELL_CHARS.contains(c)) {
        return Err("it has a `*` beside quotes or operators of the shell".to_string());
    }
    let mut words: Vec<&str> = Vec::new();
    for word in body.split_whitespace() {
        let middle = word.trim_matches('*');
        if middle.contains('*') {
            return Err("it has a `*` inside a word".to_string());
        }
        if word.starts_with('*') {
            any_words(&mut words);
        }
        if !middle.is_empty() {
            words.push(word);
        }
        if word.ends_with('*') {
            any_words(&mut words);
        }
    }
    if is_prefix {
        any_words(&mut words);
    }
    // Ours compares only the name of a program, not its folder.
    let program = words.first().filter(|word| **word != "*");
    let name = program.and_then(|word| word.rsplit('/').next());
    if name.is_some_and(|name| name.trim_matches('*').is_empty()) {
        return Err("it names a folder of programs".to_string());
    }
    match words.split_last() {
        Some((&"*", [])) => Ok("Bash".to_string()),
        Some((&"*", words)) => Ok(format!("Bash({}:*)", words.join(" "))),
        _ => Ok(format!("Bash({})", words.join(" "))),
    }
}

/// Returns whether our rules compare this text word by word.
fn is_simple(text: &str) -> bool {
    let commands = shell::split(&format!("x {text}"));
    matches!(commands.as_deref(), Ok([only]) if only.redirects.is_empty())
}

/// Adds the pattern for any number of words, once.
fn any_words(words: &mut Vec<&str>) {
    if words.last() != Some(&"*") {
        words.push("*");
    }
}

/// Translates a pattern of paths. A rule that refuses matches a name, and a single folder with
/// `/**`, at any depth.
fn path(what: &str, anchor: &Path) -> Result<String, String> {
    if what.contains('[') {
        return Err("it has a `[`, which begins a set of characters".to_string());
    }
    if argument(what).is_some() {
        return Err(ABOUT_ARGUMENT.to_string());
    }
    if what.starts_with("//") || what == "~" || what.starts_with("~/") {
        return Ok(what.to_string());
    }
    if let Some(below) = what.strip_prefix('/') {
        let anchor = anchor.to_str().filter(|anchor| anchor.starts_with('/'));
        let anchor = anchor.ok_or("the folder of the file is not UTF-8")?;
        return Ok(format!("/{}/{below}", anchor.trim_end_matches('/')));
    }
    let below = what.trim_start_matches("./");
    Ok(match below.strip_suffix("/**").unwrap_or(below) {
        "" | "." | "**" => "./**".to_string(),
        _ if below != what && below.starts_with(['/', '~']) => what.to_string(),
        one if one.len() < below.len() && !one.contains('/') => format!("**/{below}"),
        _ => below.to_string(),
    })
}

/// Returns the name of the argument in `argument:value`.
fn argument(what: &str) -> Option<&str> {
    let (name, _) = what.split_once(':')?;
    let name = name.trim_end();
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    (!name.is_empty() && name.chars().all(is_name)).then_some(name)
}
