//! Rules: `Tool` or `Tool(what)`, written by people in the config and by "always".
//!
//! `Bash(npm run test)` is that command, `Bash(git status:*)` every command that begins with those
//! words, `Bash(git * --stat)` has any words in the middle. `Edit` covers `write` and `edit`;
//! `Read` covers `read`, `grep` and `glob`. Paths are patterns: `src/**` in the session's folder,
//! `name` at any depth in it, `./name` only there, `~/x` at home, `/x` and `//x` anywhere.
//! `mcp__server` is every tool of that server. `Network(…)` and `Full(…)` are commands as in
//! `Bash(…)`, with more access ([`grants`]). `mcp__server__tool(spec:HASH)` is that tool as long as
//! its description does not change. `Memory` and `History` are the tools that look back;
//! `Memory(all)` includes other projects. `WebFetch(domain:example.com)` is a host of pages,
//! `WebFetch(domain:*.example.com)` all hosts below it. `WebSearch` is any search.
//!
//! Invariant: a rule that refuses is matched widely (case, `/bin/rm` for `rm`, options between
//! words, a folder for what is in it). A rule that allows is matched narrowly: exactly as it is
//! written.

mod flags;
pub mod grants;
#[cfg(test)]
mod tests;

use std::fmt;

use super::permission::{FOREIGN_PREFIX, LookBack, PathUse, Reach};
use super::shell::{self, Word};
use super::{path, text};

/// Maximum length of a rule in bytes; longer ones are mistakes.
const MAX_RULE_BYTES: usize = 4096;

/// Maximum number of consecutive words in which a rule's words are looked for, in a text that is
/// not understood.
const MAX_LOOSE_WORDS: usize = 64;

/// Names of the tools in rules.
const NAMES: [(&str, Tool); 12] = [
    ("Bash", Tool::Bash),
    ("Network", Tool::Network),
    ("Full", Tool::Full),
    ("Read", Tool::Read),
    ("Edit", Tool::Edit),
    ("Write", Tool::Write),
    ("Grep", Tool::Grep),
    ("Glob", Tool::Glob),
    ("Memory", Tool::LookBack(LookBack::Memory)),
    ("History", Tool::LookBack(LookBack::History)),
    ("WebFetch", Tool::Fetch),
    ("WebSearch", Tool::Search),
];

/// The rules that allow, ask or deny: deny overrides ask, and ask overrides allow.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Rules {
    /// Rules for calls that run without a question.
    pub allow: Vec<Rule>,
    /// Rules for calls that need a question, even if another rule allows them.
    pub ask: Vec<Rule>,
    /// Rules for calls that never run.
    pub deny: Vec<Rule>,
}

/// One rule. It is displayed as it was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rule {
    written: String,
    tool: Tool,
    scope: Scope,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Tool {
    Bash,
    /// A command with the network.
    Network,
    /// A command without a sandbox.
    Full,
    Read,
    Edit,
    Write,
    Grep,
    Glob,
    LookBack(LookBack),
    Fetch,
    Search,
    Foreign(String),
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Scope {
    All,
    Command(CommandPattern),
    Path(PathPattern),
    Reach(Reach),
    /// A host of pages: lower case, and punycode for other letters.
    Host(String),
    /// All hosts below this one, without itself.
    HostsBelow(String),
    /// The beginning of the hash of a tool's description.
    Spec(String),
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct CommandPattern {
    text: String,
    /// The words, or none if the text is more than one simple command: then only the same text
    /// matches.
    words: Vec<String>,
    prefix: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct PathPattern {
    anchor: Anchor,
    parts: Vec<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Anchor {
    /// The session's folder.
    Folder,
    /// A name at any depth.
    Anywhere,
    Home,
    Root,
}

/// Scope for which a rule is stored when a person allows it in answer to a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RuleScope {
    Session,
    Project,
    Everywhere,
}

/// The folders to which patterns are anchored: clean absolute paths, each as named and as its real
/// path.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Bases {
    pub folders: Vec<String>,
    pub roots: Vec<String>,
    /// Folders that the user added to the workspace. Rules are not relative to them.
    pub added: Vec<String>,
    pub homes: Vec<String>,
    /// The project's main folder, if the root is a worktree that rewake made of it. A path that a
    /// rule refuses there is also refused at the same place here.
    pub projects: Vec<String>,
}

/// Whether a command matches a rule that refuses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Likeness {
    No,
    /// It depends on the shell's expansion of a variable or a pattern.
    Maybe,
    Yes,
}

impl Rules {
    /// Returns whether a file may not be shown at all, for tools that search folders.
    pub fn hide(&self, path: &str, bases: &Bases) -> bool {
        let path = path::clean(path);
        let refuses = |rule: &Rule| rule.refuses_path(PathUse::Read, &path, bases);
        self.deny.iter().any(refuses)
    }
}

impl Rules {
    /// Returns whether a rule denies reading a file or asks about it.
    pub fn guard(&self, path: &str, bases: &Bases) -> bool {
        let path = path::clean(path);
        let refuses = |rule: &Rule| rule.refuses_path(PathUse::Read, &path, bases);
        self.deny.iter().chain(&self.ask).any(refuses)
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.written)
    }
}

impl Rule {
    /// Parses a rule. Errors name the rule, the problem, and the nearest tool.
    pub fn parse(text: &str) -> Result<Rule, String> {
        let written = text.trim();
        parse(written).map_err(|why| format!("rule {:?}: {why}", text::one_line(written, 80)))
    }

    /// Returns whether the rule covers every shell command.
    pub fn is_all_commands(&self) -> bool {
        self.tool == Tool::Bash && self.scope == Scope::All
    }

    /// Returns whether the rule is about reading paths, so that a search of whole folders needs
    /// care.
    pub fn is_about_reading(&self) -> bool {
        self.tool == Tool::Read
    }

    /// Returns whether the rule is about some paths, so that the paths in commands are checked. A
    /// rule for every path does not apply to a command, which may name no path.
    pub fn is_about_paths(&self) -> bool {
        matches!(self.scope, Scope::Path(_))
    }

    /// Returns the paths that the rule names without a pattern, as written.
    pub fn plain_paths(&self, bases: &Bases) -> Vec<String> {
        let Scope::Path(PathPattern { anchor, parts }) = &self.scope else {
            return Vec::new();
        };
        let root = [String::new()];
        let anchors = match anchor {
            Anchor::Folder => bases.folders.as_slice(),
            Anchor::Home => bases.homes.as_slice(),
            Anchor::Root => root.as_slice(),
            Anchor::Anywhere => &[],
        };
        // A rule for a folder is one for all below it.
        let named = parts.strip_suffix(&["**".to_string()]).unwrap_or(parts);
        let is_plain = !named.iter().any(|part| part.contains(['*', '?', '[', '{']));
        let anchors = anchors.iter().filter(|_| is_plain && !named.is_empty());
        anchors
            .map(|anchor| path::join(anchor, &named.join("/")))
            .collect()
    }

    /// Returns whether the rule covers this tool of a server.
    pub fn covers_foreign(&self, name: &str) -> bool {
        match &self.tool {
            Tool::Foreign(pattern) if pattern.contains('*') => path::text_matches(pattern, name),
            Tool::Foreign(own) => name
                .strip_prefix(own.as_str())
                .is_some_and(|rest| rest.is_empty() || rest.starts_with("__")),
            _ => false,
        }
    }

    /// Returns whether the rule allows this tool of a server, for any description or the one with
    /// this hash. `None`: nothing is known of the tool.
    pub fn allows_foreign(&self, name: &str, hash: Option<&str>) -> bool {
        self.covers_foreign(name)
            && match &self.scope {
                Scope::Spec(spec) => hash.is_some_and(|hash| hash.starts_with(spec.as_str())),
                _ => true,
            }
    }

    /// Returns the beginning of the description's hash with which the rule allows this tool of a
    /// server. `None`: the rule allows any description, or covers another tool.
    pub fn spec_of(&self, name: &str) -> Option<&str> {
        match &self.scope {
            Scope::Spec(spec) if self.covers_foreign(name) => Some(spec),
            _ => None,
        }
    }

    /// Returns whether the rule allows a tool to look back as far as this.
    pub fn allows_look_back(&self, tool: LookBack, reach: Reach) -> bool {
        self.tool == Tool::LookBack(tool)
            && match self.scope {
                Scope::Reach(most) => reach <= most,
                _ => true,
            }
    }

    /// Returns whether the rule refuses a tool that looks back as far as this, or further.
    pub fn refuses_look_back(&self, tool: LookBack, reach: Reach) -> bool {
        self.tool == Tool::LookBack(tool)
            && match self.scope {
                Scope::Reach(least) => reach >= least,
                _ => true,
            }
    }

    /// Returns whether the rule covers searches of the web.
    pub fn covers_search(&self) -> bool {
        self.tool == Tool::Search
    }

    /// Returns whether the rule allows pages of this host.
    pub fn allows_host(&self, host: &str) -> bool {
        self.tool == Tool::Fetch
            && match &self.scope {
                Scope::Host(own) => own == host,
                Scope::HostsBelow(own) => is_host_below(host, own),
                _ => true,
            }
    }

    /// Returns whether the rule refuses pages of this host, or of one above it.
    pub fn refuses_host(&self, host: &str) -> bool {
        let is_above = |own: &String| is_host_below(host, own);
        self.allows_host(host) || matches!(&self.scope, Scope::Host(own) if is_above(own))
    }

    /// Returns whether the rule is written for this whole command line.
    pub fn is_line(&self, line: &str) -> bool {
        matches!(self.bash(), Some(c) if c.is_line(line))
    }

    /// Returns whether the rule allows these words: they are spelled as in the rule.
    pub fn allows_words(&self, words: &[Word]) -> bool {
        match self.bash() {
            None => self.is_all_commands(),
            Some(pattern) => pattern.allows(words),
        }
    }

    /// Returns whether the words are, or may become, a command that the rule refuses.
    pub fn refuses_words(&self, words: &[Word]) -> Likeness {
        match self.bash() {
            None if self.is_all_commands() => Likeness::Yes,
            None => Likeness::No,
            Some(pattern) => pattern.refuses(words),
        }
    }

    /// Returns whether the rule refuses a text whose grammar is not understood: it has the rule's
    /// words in a row.
    pub fn refuses_text(&self, text: &str) -> bool {
        match self.bash() {
            None => self.is_all_commands(),
            Some(pattern) => pattern.refuses_text(text),
        }
    }

    /// Returns whether the rule allows this clean path.
    pub fn allows_path(&self, path_use: PathUse, path: &str, bases: &Bases) -> bool {
        self.is_for(path_use)
            && match &self.scope {
                Scope::All => true,
                Scope::Path(pattern) => pattern.allows(path, bases),
                _ => false,
            }
    }

    /// Returns whether the rule refuses this clean path, or a folder above it.
    pub fn refuses_path(&self, path_use: PathUse, path: &str, bases: &Bases) -> bool {
        self.is_for(path_use)
            && match &self.scope {
                Scope::All => true,
                Scope::Path(pattern) => pattern.refuses(path, bases),
                _ => false,
            }
    }

    /// Returns the commands of a `Bash` rule, which is not about the network or the sandbox.
    fn bash(&self) -> Option<&CommandPattern> {
        self.command().filter(|_| self.tool == Tool::Bash)
    }

    fn command(&self) -> Option<&CommandPattern> {
        match &self.scope {
            Scope::Command(pattern) => Some(pattern),
            _ => None,
        }
    }

    fn is_for(&self, path_use: PathUse) -> bool {
        match self.tool {
            Tool::Read => matches!(path_use, PathUse::Read | PathUse::Grep | PathUse::Glob),
            Tool::Edit => matches!(path_use, PathUse::Edit | PathUse::Write),
            Tool::Write => path_use == PathUse::Write,
            Tool::Grep => path_use == PathUse::Grep,
            Tool::Glob => path_use == PathUse::Glob,
            Tool::Bash
            | Tool::Network
            | Tool::Full
            | Tool::LookBack(_)
            | Tool::Fetch
            | Tool::Search
            | Tool::Foreign(_) => false,
        }
    }
}

fn parse(written: &str) -> Result<Rule, String> {
    if written.len() > MAX_RULE_BYTES {
        return Err("it is longer than 4096 bytes".to_string());
    }
    if written.chars().any(char::is_control) {
        return Err("it has control characters".to_string());
    }
    let (name, what) = match written.split_once('(') {
        None => (written, None),
        Some((name, rest)) => match rest.strip_suffix(')') {
            Some(what) => (name, Some(what.trim())),
            None => return Err("the closing `)` is missing at its end".to_string()),
        },
    };
    let tool = tool(name)?;
    let scope = match (what, &tool) {
        (None, _) => Scope::All,
        (Some(what), Tool::Foreign(_)) => Scope::Spec(spec(what)?),
        (Some(""), _) => return Err("there is nothing in its parentheses".to_string()),
        (Some("*"), Tool::Bash | Tool::Network | Tool::Full) => Scope::All,
        (Some(what), Tool::Bash) => Scope::Command(command_pattern(what)?),
        (Some(what), Tool::Network | Tool::Full) => Scope::Command(literal_pattern(name, what)?),
        (Some(what), Tool::LookBack(_)) => Scope::Reach(reach(what)?),
        (Some(what), Tool::Fetch) => host_scope(what)?,
        (Some(_), Tool::Search) => {
            return Err("it covers all searches: write `WebSearch`".to_string());
        }
        (Some(what), _) => Scope::Path(path_pattern(what)?),
    };
    Ok(Rule {
        written: written.to_string(),
        tool,
        scope,
    })
}

fn tool(name: &str) -> Result<Tool, String> {
    if let Some(rest) = name.strip_prefix(FOREIGN_PREFIX) {
        return match rest {
            "" => Err("the name of the server is missing".to_string()),
            _ => Ok(Tool::Foreign(name.to_string())),
        };
    }
    if let Some((_, tool)) = NAMES.iter().find(|(known, _)| *known == name) {
        return Ok(tool.clone());
    }
    let names = NAMES.map(|(name, _)| name);
    let near = text::nearest(name, names).map(|near| format!("the nearest is {near}; "));
    Err(format!(
        "there is no rule named {name:?}; {}there are {} and {FOREIGN_PREFIX}SERVER__TOOL",
        near.unwrap_or_default(),
        names.join(", ")
    ))
}

/// Number of hex digits of a hash that are written, and the least that are accepted.
const SPEC_CHARS: usize = 16;

fn spec(what: &str) -> Result<String, String> {
    let is_hash = |hash: &&str| {
        hash.len() >= SPEC_CHARS && hash.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))
    };
    let hash = what.strip_prefix("spec:").filter(is_hash);
    hash.map(str::to_string).ok_or_else(|| {
        format!("of tools of a server only `spec:` and {SPEC_CHARS} or more hex digits is known in parentheses")
    })
}

/// Returns the rule for a tool of a server with this description.
pub(super) fn of_spec(name: &str, hash: &str) -> Option<Rule> {
    let hash = hash.get(..SPEC_CHARS)?;
    Rule::parse(&format!("{name}(spec:{hash})")).ok()
}

fn reach(what: &str) -> Result<Reach, String> {
    let names = Reach::ALL.map(Reach::name);
    Reach::ALL
        .into_iter()
        .find(|reach| reach.name() == what)
        .ok_or_else(|| {
            let near = text::nearest(what, names).map(|near| format!("the nearest is {near}; "));
            format!(
                "{what:?} is not how far a tool looks back; {}there are {}",
                near.unwrap_or_default(),
                names.join(", ")
            )
        })
}

fn is_host_below(host: &str, above: &str) -> bool {
    let rest = host.strip_suffix(above);
    rest.is_some_and(|rest| rest.len() > 1 && rest.ends_with('.'))
}

fn host_scope(what: &str) -> Result<Scope, String> {
    let Some(host) = what.strip_prefix("domain:") else {
        return Err("only `domain:HOST` and `domain:*.HOST` are known in it".to_string());
    };
    let host = host.trim().to_ascii_lowercase();
    let (below, host) = match host.strip_prefix("*.") {
        Some(host) => (true, host),
        None => (false, host.as_str()),
    };
    // An IPv6 address has brackets and colons.
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_.[:]".contains(c);
    if host.is_empty() || host.starts_with('.') || !host.chars().all(is_plain) {
        return Err(format!(
            "{host:?} is not the name of a host, without a port or a path; \
             write letters other than ASCII as punycode (xn--…)"
        ));
    }
    Ok(if below {
        Scope::HostsBelow(host.to_string())
    } else {
        Scope::Host(host.to_string())
    })
}

/// Parses the pattern of a rule that gives more access, which must be literal.
fn literal_pattern(name: &str, what: &str) -> Result<CommandPattern, String> {
    if let Some(c) = what.chars().find(|c| "$`".contains(*c)) {
        return Err(format!(
            "`{c}` has no meaning in it: {name} is for lines of literal words"
        ));
    }
    command_pattern(what)
}

fn command_pattern(what: &str) -> Result<CommandPattern, String> {
    let (text, prefix) = match what.strip_suffix(":*") {
        Some(text) => (text.trim(), true),
        None => (what, false),
    };
    if text.is_empty() {
        return Err("`:*` must follow the first words of a command".to_string());
    }
    if text.contains(":*") {
        return Err("`:*` may only be at its end".to_string());
    }
    let words = simple_words(text);
    if prefix && words.is_empty() {
        return Err("`:*` must follow one simple command".to_string());
    }
    Ok(CommandPattern {
        text: text.to_string(),
        words,
        prefix,
    })
}

/// Returns the words of one simple command, or none if the text is anything else. A `*` may replace
/// the command's name, which the shell's own grammar would not accept.
fn simple_words(text: &str) -> Vec<String> {
    let guarded = format!("x {text}");
    match shell::split(&guarded).as_deref() {
        Ok([only]) if only.redirects.is_empty() => {
            only.words[1..].iter().map(|w| w.text.clone()).collect()
        }
        _ => Vec::new(),
    }
}

fn path_pattern(what: &str) -> Result<PathPattern, String> {
    if let Some(c) = what.chars().find(|c| "{}!".contains(*c)) {
        return Err(format!(
            "`{c}` has no meaning in it: write one rule for each"
        ));
    }
    let (anchor, rest) = match what {
        _ if what.starts_with('/') => (Anchor::Root, what),
        "~" => (Anchor::Home, ""),
        _ => match (what.strip_prefix("~/"), what.strip_prefix("./")) {
            (Some(rest), _) => (Anchor::Home, rest),
            (_, Some(rest)) => (Anchor::Folder, rest),
            _ if what.starts_with('~') => {
                return Err("the home of another user is not known".to_string());
            }
            _ if what.trim_end_matches('/').contains('/') => (Anchor::Folder, what),
            _ => (Anchor::Anywhere, what),
        },
    };
    let mut parts: Vec<String> = rest
        .split('/')
        .filter(|p| !p.is_empty() && *p != ".")
        .map(str::to_string)
        .collect();
    if parts.iter().any(|p| p == "..") {
        return Err("`..` has no meaning in it: write the path from `/` or `~/`".to_string());
    }
    if what.ends_with('/') {
        parts.push("**".to_string());
    }
    if anchor == Anchor::Anywhere {
        parts.insert(0, "**".to_string());
    }
    Ok(PathPattern { anchor, parts })
}

fn plain(text: String) -> Word {
    Word {
        text,
        ..Word::default()
    }
}

/// Ways to match the words of a command with a pattern.
#[derive(Clone, Copy, PartialEq)]
enum Reading {
    /// Exactly; a word that the shell would expand matches nothing.
    Exact,
    /// Case and folder of the command's name are ignored, and options between the words too.
    Wide,
    /// As `Wide`, and a word that the shell would expand may be anything.
    Guess,
}

impl CommandPattern {
    fn is_line(&self, line: &str) -> bool {
        !self.prefix && self.text == line.trim()
    }

    fn allows(&self, words: &[Word]) -> bool {
        words.first().is_some_and(|w| !w.quoted) && self.matches(words, Reading::Exact)
    }

    fn refuses(&self, words: &[Word]) -> Likeness {
        if self.matches(words, Reading::Wide) || flags::refuse(&self.words, self.prefix, words) {
            Likeness::Yes
        } else if self.matches(words, Reading::Guess) {
            Likeness::Maybe
        } else {
            Likeness::No
        }
    }

    /// Returns whether the rule's words are consecutive in a text whose grammar is not understood.
    fn refuses_text(&self, text: &str) -> bool {
        if self.text == text.trim() {
            return true;
        }
        let pattern = CommandPattern {
            prefix: true,
            ..self.clone()
        };
        shell::loose_words(text).into_iter().any(|words| {
            let words: Vec<Word> = words.into_iter().map(plain).collect();
            (0..words.len()).any(|at| {
                let end = words.len().min(at + MAX_LOOSE_WORDS);
                pattern.refuses(&words[at..end]) == Likeness::Yes
            })
        })
    }

    /// Matches by the positions reached, as in `path::parts_match`, with options that may be
    /// skipped.
    fn matches(&self, words: &[Word], reading: Reading) -> bool {
        if self.words.is_empty() {
            return false;
        }
        let mut reached = vec![false; words.len() + 1];
        reached[0] = true;
        for (index, piece) in self.words.iter().enumerate() {
            if reading != Reading::Exact && index > 0 {
                pass_options(&mut reached, words, reading);
            }
            let mut next = vec![false; words.len() + 1];
            for (at, _) in reached.iter().enumerate().filter(|(_, hit)| **hit) {
                if piece == "*" {
                    next[at..].fill(true);
                    break;
                }
                let Some(word) = words.get(at) else { continue };
                next[at + 1] |= word_matches(piece, word, index == 0, reading);
                // An expansion may become several of the rule's words.
                next[at] |= reading == Reading::Guess && !word.is_literal();
            }
            reached = next;
            if reading == Reading::Guess {
                pass_nothing(&mut reached, words);
            }
        }
        reached[words.len()] || (self.prefix && reached.contains(&true))
    }
}

/// Skips options: one, with or without a value, may be between two words of a rule that refuses, as
/// in `git -C dir push`.
fn pass_options(reached: &mut [bool], words: &[Word], reading: Reading) {
    let is_option = |word: &Word| match reading {
        Reading::Guess => word.may_be_option(),
        Reading::Exact | Reading::Wide => word.text.starts_with('-'),
    };
    for at in 0..words.len() {
        if reached[at] && is_option(&words[at]) {
            let end = (at + 2).min(words.len());
            reached[at + 1..=end].fill(true);
        }
    }
}

/// Skips words with an expansion, which may become nothing.
fn pass_nothing(reached: &mut [bool], words: &[Word]) {
    for at in 0..words.len() {
        reached[at + 1] |= reached[at] && !words[at].is_literal();
    }
}

fn word_matches(piece: &str, word: &Word, is_name: bool, reading: Reading) -> bool {
    if reading == Reading::Exact {
        return word.is_literal() && path::text_matches(piece, &word.text);
    }
    if reading == Reading::Guess && !word.is_literal() {
        return true;
    }
    if is_name {
        let name = |text: &str| path::fold(text.rsplit('/').next().unwrap_or_default());
        return path::text_matches(&name(piece), &name(&word.text));
    }
    path::text_matches(piece, &word.text)
}

impl PathPattern {
    fn allows(&self, path: &str, bases: &Bases) -> bool {
        let parts: Vec<&str> = self.parts.iter().map(String::as_str).collect();
        let anchors = match self.anchor {
            Anchor::Folder | Anchor::Anywhere => bases.folders.as_slice(),
            Anchor::Home => bases.homes.as_slice(),
            Anchor::Root => &[String::new()],
        };
        anchors
            .iter()
            .filter_map(|anchor| path::below(path, anchor))
            .any(|rest| path::parts_match(&parts, &components(rest)))
    }

    fn refuses(&self, path: &str, bases: &Bases) -> bool {
        let of_root = |root: &String| path::below(path, root);
        let below = bases.roots.iter().find_map(of_root);
        let is_refused = |below: &str| {
            let mut there = bases.projects.iter().map(|p| path::join(p, below));
            there.any(|path| self.refuses_at(&path, bases))
        };
        self.refuses_at(path, bases) || below.is_some_and(is_refused)
    }

    fn refuses_at(&self, path: &str, bases: &Bases) -> bool {
        let pattern: Vec<String> = self.parts.iter().map(|p| path::fold(p)).collect();
        let pattern: Vec<&str> = pattern.iter().map(String::as_str).collect();
        let folded = path::fold(path);
        let everywhere = [String::new()];
        let anchors: Vec<&String> = match self.anchor {
            Anchor::Folder => bases.folders.iter().chain(&bases.roots).collect(),
            Anchor::Home => bases.homes.iter().collect(),
            Anchor::Root | Anchor::Anywhere => everywhere.iter().collect(),
        };
        anchors.into_iter().any(|anchor| {
            let anchor = path::fold(anchor);
            let Some(rest) = path::below(&folded, &anchor) else {
                return false;
            };
            path::parts_match_above(&pattern, &components(rest))
        })
    }
}

fn components(path: &str) -> Vec<&str> {
    path.split('/').filter(|p| !p.is_empty()).collect()
}
