//! The rules that "always" would add for a call that needs approval.
//!
//! Invariant: a rule is offered only if a person can foresee its effect: no rule for programs that
//! run or destroy whatever their arguments say.

use std::fmt;

use super::access::Access;
use super::permission::{FOREIGN_PREFIX, LookBack, PathUse, Reach, served_parts};
use super::rule::{Bases, Likeness, Rule, of_spec};
use super::shell::{SimpleCommand, Word};
use super::{path, read_only_commands, visible};

/// Maximum number of rules of one offer.
const MAX_RULES: usize = 5;

/// Names of the rules for commands. Only they are offered together.
const OF_COMMANDS: [&str; 3] = ["Bash", "Network", "Full"];

/// The rules that "always" would add for one call: one rule, or one for each part of a command
/// line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RuleOffer(Vec<Rule>);

impl From<Rule> for RuleOffer {
    fn from(rule: Rule) -> RuleOffer {
        RuleOffer(vec![rule])
    }
}

impl fmt::Display for RuleOffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&joined(&self.0, ", "))
    }
}

impl RuleOffer {
    /// Returns the rules. There is at least one.
    pub fn rules(&self) -> &[Rule] {
        &self.0
    }

    /// Parses an offer in the form in which it is recorded: `Bash(a:*), Bash(b:*)`. Only rules of
    /// plain commands are separated, so the comma of a path is never taken for another rule.
    pub fn parse(text: &str) -> Result<RuleOffer, String> {
        let parts: Vec<&str> = text.split(", ").collect();
        if parts.iter().all(|part| is_of_plain_command(part)) {
            Ok(RuleOffer(
                parts
                    .into_iter()
                    .map(Rule::parse)
                    .collect::<Result<_, _>>()?,
            ))
        } else {
            Rule::parse(text).map(RuleOffer::from)
        }
    }

    /// Returns the offer that settles both parts of a command line.
    pub(super) fn and(mut self, other: RuleOffer) -> Option<RuleOffer> {
        if self == other {
            return Some(self);
        }
        for rule in other.0 {
            if !self.0.contains(&rule) {
                self.0.push(rule);
            }
        }
        let is_recordable = |rule: &Rule| is_of_plain_command(&rule.to_string());
        (self.0.len() <= MAX_RULES && self.0.iter().all(is_recordable)).then_some(self)
    }

    /// Describes the effect for a person: "`cargo test` and `cargo fmt`", "this tool", or the rule
    /// itself.
    pub fn to_words(&self) -> String {
        let words: Vec<String> = self.0.iter().map(words_of).collect();
        match words.as_slice() {
            [first @ .., last] if !first.is_empty() => format!("{} and {last}", first.join(", ")),
            words => words.concat(),
        }
    }
}

/// Returns the rule for all tools of a server, by the name of one of them.
pub fn for_server_of(name: &str) -> Option<Rule> {
    let (server, _) = served_parts(name)?;
    let rule = Rule::parse(&format!("{FOREIGN_PREFIX}{server}")).ok()?;
    (!name.contains('*') && name.is_ascii() && rule.covers_foreign(name)).then_some(rule)
}

/// Returns the rules that a question offers for the rest of a session, each with its effect in
/// words. `rule`: the recorded one, of a call of `tool`.
pub fn for_session(rule: Option<&str>, tool: &str) -> Vec<(String, String)> {
    let Some(rule) = rule else { return Vec::new() };
    let words = RuleOffer::parse(rule).map(|offer| offer.to_words());
    let this = (rule.to_string(), words.unwrap_or_else(|_| rule.to_string()));
    let server = for_server_of(tool).map(|rule| {
        let words = "all tools of this server".to_string();
        (rule.to_string(), words)
    });
    [Some(this), server].into_iter().flatten().collect()
}

/// Returns whether [`for_session`] has this rule.
pub fn is_offered(rule: &str, recorded: Option<&str>, tool: &str) -> bool {
    let offered = for_session(recorded, tool);
    offered.iter().any(|(one, _)| one == rule)
}

fn joined(rules: &[Rule], separator: &str) -> String {
    let texts: Vec<String> = rules.iter().map(Rule::to_string).collect();
    texts.join(separator)
}

/// Returns whether this is a rule for commands whose words are plain: no bracket or comma in it.
fn is_of_plain_command(rule: &str) -> bool {
    let inner = rule.strip_suffix(')').and_then(|rule| rule.split_once('('));
    inner.is_some_and(|(name, words)| {
        OF_COMMANDS.contains(&name) && words.chars().all(|c| is_plain_char(c) || " :*".contains(c))
    })
}

fn words_of(rule: &Rule) -> String {
    let text = rule.to_string();
    if text.starts_with(FOREIGN_PREFIX) {
        return "this tool".to_string();
    }
    if !is_of_plain_command(&text) {
        return text;
    }
    let (name, words) = text.split_once('(').unwrap_or_default();
    let words = words.trim_end_matches(')').trim_end_matches(":*");
    match name {
        "Network" => format!("`{words}` with the network"),
        "Full" => format!("`{words}` without the sandbox"),
        _ => format!("`{words}`"),
    }
}

/// Programs whose first two words identify the action.
#[rustfmt::skip]
const WITH_SUBCOMMANDS: &[&str] = &[
    "apt", "aws", "az", "brew", "bundle", "cargo", "composer", "dnf", "docker", "dotnet", "flutter", "gcloud", "gh",
    "git", "glab", "go", "gradle", "helm", "just", "kubectl", "make", "mise", "mix", "mvn", "npm", "nx", "pip", "pip3",
    "pnpm", "podman", "poetry", "rustup", "swift", "systemctl", "terraform", "turbo", "uv", "yarn", "zig",
];

/// Pairs of words after which the third word identifies the action.
const WITH_THREE_WORDS: [(&str, &str); 6] = [
    ("npm", "run"),
    ("pnpm", "run"),
    ("yarn", "run"),
    ("docker", "compose"),
    ("gh", "pr"),
    ("gh", "issue"),
];

/// Programs for which no rule is offered, since each use is different.
#[rustfmt::skip]
const NEVER: &[&str] = &[
    "chmod", "chown", "crontab", "curl", "dd", "ed", "ex", "export", "kill", "killall", "ln", "mkfs", "mount", "nc",
    "pkill", "reboot", "rm", "rmdir", "rsync", "scp", "sed", "set", "sftp", "shred", "shutdown", "socat", "tar", "tee",
    "truncate", "unset", "vi", "vim", "wget",
];

/// Subcommands that run anything, or make other programs do so.
const NEVER_SUBCOMMANDS: [&str; 7] = ["exec", "run", "config", "alias", "eval", "dlx", "x"];

/// Returns the rule for a command that needs approval only because of its words.
pub(crate) fn for_command(command: &SimpleCommand) -> Option<Rule> {
    named("Bash", command)
}

/// Returns the rule for a command that requests more access than a `Bash(…)` rule gives.
pub(crate) fn for_access(command: &SimpleCommand, access: Access) -> Option<Rule> {
    let name = match access {
        Access::Network => "Network",
        Access::Full => "Full",
        Access::Read | Access::Workspace => return None,
    };
    if read_only_commands::runs_the_workspace(&command.words) {
        return None;
    }
    named(name, command)
}

fn named(tool: &str, command: &SimpleCommand) -> Option<Rule> {
    let name = command.words.first()?;
    if !command.assignments.is_empty() || NEVER.contains(&name.text.as_str()) {
        return None;
    }
    let count = if WITH_SUBCOMMANDS.contains(&name.text.as_str()) {
        subcommand_words(&command.words)?
    } else if read_only_commands::runs_others(&command.words) != Likeness::No {
        return None;
    } else {
        1
    };
    let words = &command.words[..count];
    if !words.iter().all(is_plain) {
        return None;
    }
    let texts: Vec<&str> = words.iter().map(|w| w.text.as_str()).collect();
    // The bare name of such a program does not cover its subcommands.
    let any = if command.words.len() == 1 && WITH_SUBCOMMANDS.contains(&texts[0]) {
        ""
    } else {
        ":*"
    };
    let rule = Rule::parse(&format!("{tool}({}{any})", texts.join(" "))).ok()?;
    rule.names(command).then_some(rule)
}

fn subcommand_words(words: &[Word]) -> Option<usize> {
    let [name, verb, rest @ ..] = words else {
        return Some(1);
    };
    if WITH_THREE_WORDS.contains(&(name.text.as_str(), verb.text.as_str())) {
        return (!rest.is_empty()).then_some(3);
    }
    (!NEVER_SUBCOMMANDS.contains(&verb.text.as_str())).then_some(2)
}

/// Returns whether a word has only letters that are literal in a rule and in a shell.
fn is_plain(word: &Word) -> bool {
    word.is_literal()
        && !word.quoted
        && !word.text.starts_with('-')
        && word.text.chars().all(is_plain_char)
}

/// Other letters are refused because many look like these, and a person reads the rule.
fn is_plain_char(c: char) -> bool {
    c.is_ascii_alphanumeric() || "._-+/@".contains(c)
}

/// Returns the rule for a path: its folder, or the path itself if the folder would be too wide.
/// `spots` are the path as named and its real path; a rule that would not cover both is not
/// offered.
pub(crate) fn for_path(
    path_use: PathUse,
    spots: &[String],
    bases: &Bases,
    narrow: bool,
) -> Option<Rule> {
    let named = spots.first()?;
    let (tool, is_folder) = match path_use {
        PathUse::Read => ("Read", false),
        PathUse::Grep | PathUse::Glob => ("Read", true),
        PathUse::Edit | PathUse::Write => ("Edit", false),
    };
    let anchors = bases
        .folders
        .iter()
        .map(|f| ("./", f))
        .chain(bases.homes.iter().map(|h| ("~/", h)));
    let (anchor, rest) = anchors
        .filter_map(|(anchor, base)| Some((anchor, path::below(named, base)?)))
        .next()
        .unwrap_or(("//", named.trim_start_matches('/')));
    if rest.is_empty() || rest.contains(['*', '?']) || visible::has_lookalike(rest) {
        return None;
    }
    let folder = if is_folder {
        Some(rest)
    } else {
        rest.rsplit_once('/').map(|(folder, _)| folder)
    };
    let pattern = match folder.filter(|_| !narrow) {
        Some(folder) if anchor == "./" => format!("{folder}/**"),
        Some(folder) => format!("{anchor}{folder}/**"),
        None => format!("{anchor}{rest}"),
    };
    let rule = Rule::parse(&format!("{tool}({pattern})")).ok()?;
    let covers = |spot: &String| rule.allows_path(path_use, spot, bases);
    spots.iter().all(covers).then_some(rule)
}

/// Returns the rule for a tool that reads sessions of other projects.
pub(crate) fn for_look_back(tool: LookBack) -> Option<Rule> {
    let name = match tool {
        LookBack::Memory => "Memory",
        LookBack::History => "History",
    };
    Rule::parse(&format!("{name}({})", Reach::All.name())).ok()
}

/// Returns the rule for pages of a host.
pub(crate) fn for_host(host: &str) -> Option<Rule> {
    Rule::parse(&format!("WebFetch(domain:{host})")).ok()
}

/// Returns the rule for searches of the web.
pub(crate) fn for_search() -> Option<Rule> {
    Rule::parse("WebSearch").ok()
}

/// Returns the rule for a tool of a server. It covers only the tool's current description, if that
/// is known.
pub(crate) fn for_foreign(name: &str, hash: Option<&str>) -> Option<Rule> {
    let rule = match hash {
        Some(hash) => of_spec(name, hash)?,
        None => Rule::parse(name).ok()?,
    };
    (!name.contains('*') && name.is_ascii() && rule.allows_foreign(name, hash)).then_some(rule)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::shell;

    #[test]
    fn an_offer_of_several_rules_is_recorded_and_read_again() {
        let rule = |text: &str| RuleOffer::from(Rule::parse(text).unwrap());
        let both = rule("Bash(cargo test:*)").and(rule("Bash(cargo fmt:*)"));
        let both = both.unwrap();
        assert_eq!(both.to_string(), "Bash(cargo test:*), Bash(cargo fmt:*)");
        assert_eq!(both.to_words(), "`cargo test` and `cargo fmt`");
        assert_eq!(RuleOffer::parse(&both.to_string()).unwrap(), both);
        // The same rule settles both parts.
        assert_eq!(both.clone().and(both.clone()).unwrap(), both);
        // A rule for a path is never a part of such a list.
        assert_eq!(both.clone().and(rule("Edit(src/**)")), None);
        let path = "Edit(a), Bash(rm:*)/**)";
        for text in [path, "Bash(a, b:*)", "Bash(a), Edit(b)"] {
            let offer = RuleOffer::parse(text).map(|offer| offer.rules().len());
            assert!(offer.as_ref().map_or(true, |rules| *rules == 1), "{text}");
        }
        let many = ["a", "b", "c", "d", "e", "f"].map(|name| rule(&format!("Bash({name}:*)")));
        let all = many.into_iter().map(Some).reduce(|all, one| all?.and(one?));
        assert_eq!(all.flatten(), None);
    }

    #[test]
    fn an_offer_in_words_has_no_hash() {
        for (text, words) in [
            ("Bash(make)", "`make`"),
            ("Network(npm install:*)", "`npm install` with the network"),
            ("Full(git push:*)", "`git push` without the sandbox"),
            ("Edit(src/**)", "Edit(src/**)"),
            ("mcp__a__b(spec:0123456789abcdef)", "this tool"),
        ] {
            assert_eq!(RuleOffer::parse(text).unwrap().to_words(), words);
        }
        let server = |name| for_server_of(name).map(|rule| rule.to_string());
        assert_eq!(
            server("mcp__files__read_file").as_deref(),
            Some("mcp__files")
        );
        assert_eq!(server("bash"), None);
        assert_eq!(server("mcp__*__x"), None);
    }

    #[test]
    fn the_words_that_say_what_is_done_are_offered() {
        for (line, want) in [
            ("npm test -- --watch", "Bash(npm test:*)"),
            ("npm run build x", "Bash(npm run build:*)"),
            ("npm run", ""),
            ("cargo build", "Bash(cargo build:*)"),
            ("make", "Bash(make)"),
            ("make all", "Bash(make all:*)"),
            ("pytest -q", "Bash(pytest:*)"),
            ("./build.sh x", "Bash(./build.sh:*)"),
            ("docker compose up", "Bash(docker compose up:*)"),
            ("docker run x", ""),
            ("git config x y", ""),
            ("git -C x push", ""),
            ("git push origin", "Bash(git push:*)"),
            ("'npm' test", ""),
            ("npm \"test\"", ""),
            ("~/x a", ""),
            ("A=1 npm test", ""),
            ("python3 x.py", ""),
            ("node x", ""),
            ("bash x.sh", ""),
            ("sudo ls", ""),
            ("env x", ""),
            ("xargs ls", ""),
            ("rm x", ""),
            ("curl x", ""),
            ("find . -exec x", ""),
            ("npx x", ""),
            ("n\u{440}m test", ""),
            ("npm t\u{435}st", ""),
            ("\u{fe56}make", ""),
        ] {
            let offered = for_command(&shell::split(line).unwrap()[0]);
            let shown = offered.map(|r| r.to_string()).unwrap_or_default();
            assert_eq!(shown, want, "{line}");
        }
    }

    #[test]
    fn more_access_is_offered_for_what_the_workspace_does_not_define() {
        for (line, access, want) in [
            (
                "cargo fetch --locked",
                Access::Network,
                "Network(cargo fetch:*)",
            ),
            ("npm install x", Access::Network, "Network(npm install:*)"),
            ("docker ps -a", Access::Full, "Full(docker ps:*)"),
            ("git push origin main", Access::Full, "Full(git push:*)"),
            ("gh pr list", Access::Full, "Full(gh pr list:*)"),
            ("npm install", Access::Read, ""),
            ("npm install", Access::Workspace, ""),
            ("curl x", Access::Network, ""),
            ("ssh host", Access::Full, ""),
            ("sudo ls", Access::Full, ""),
            ("python3 x.py", Access::Network, ""),
            ("docker run x", Access::Full, ""),
            ("docker compose up", Access::Full, ""),
            ("./deploy.sh", Access::Full, ""),
            ("make", Access::Full, ""),
            ("cargo test", Access::Network, ""),
            ("npm test", Access::Full, ""),
            ("npm", Access::Full, ""),
            ("git config a b", Access::Full, ""),
            ("A=1 npm install", Access::Network, ""),
        ] {
            let offered = for_access(&shell::split(line).unwrap()[0], access);
            let shown = offered.map(|r| r.to_string()).unwrap_or_default();
            assert_eq!(shown, want, "{line} {access}");
        }
    }

    #[test]
    fn a_path_is_offered_with_its_folder() {
        let bases = Bases {
            folders: vec!["/home/u/w".into()],
            roots: vec!["/home/u/w".into()],
            homes: vec!["/home/u".into()],
            ..Bases::default()
        };
        for (path_use, path, narrow, want) in [
            (
                PathUse::Edit,
                "/home/u/w/src/a/b.rs",
                false,
                "Edit(src/a/**)",
            ),
            (PathUse::Write, "/home/u/w/x.md", false, "Edit(./x.md)"),
            (PathUse::Edit, "/home/u/x.md", false, "Edit(~/x.md)"),
            (PathUse::Read, "/home/u/docs/x.md", false, "Read(~/docs/**)"),
            (PathUse::Read, "/home/u/.ssh/id", true, "Read(~/.ssh/id)"),
            (PathUse::Read, "/etc/hosts", false, "Read(//etc/**)"),
            (PathUse::Read, "/hosts", false, "Read(//hosts)"),
            (PathUse::Grep, "/etc", false, "Read(//etc/**)"),
            (PathUse::Grep, "/", false, ""),
            (PathUse::Grep, "/home/u", false, ""),
            (PathUse::Edit, "/home/u/w/a{b}/c", false, ""),
            (PathUse::Edit, "/home/u/w/*/c", false, ""),
            (PathUse::Edit, "/home/u/w/s\u{433}c\u{441}/c", false, ""),
            (PathUse::Edit, "/home/u/w/größe/c", false, "Edit(größe/**)"),
            (
                PathUse::Edit,
                "/home/u/w/документы/c",
                false,
                "Edit(документы/**)",
            ),
        ] {
            let offered = for_path(path_use, &[path.to_string()], &bases, narrow);
            let shown = offered.map(|r| r.to_string()).unwrap_or_default();
            assert_eq!(shown, want, "{path}");
        }
        let link = ["/home/u/w/src/a".to_string(), "/etc/passwd".to_string()];
        assert_eq!(for_path(PathUse::Edit, &link, &bases, false), None);
    }

    #[test]
    fn a_foreign_tool_is_offered_by_its_name() {
        let shown = |name| for_foreign(name, None).map(|r| r.to_string());
        assert_eq!(shown("mcp__a__b"), Some("mcp__a__b".to_string()));
        assert_eq!(shown("mcp__a__*"), None);
        assert_eq!(shown("mcp__a__b(x)"), None);
        let hash = "0123456789abcdef0123";
        let of_spec = for_foreign("mcp__a__b", Some(hash)).map(|r| r.to_string());
        assert_eq!(of_spec.as_deref(), Some("mcp__a__b(spec:0123456789abcdef)"));
    }

    #[test]
    fn a_session_gets_only_the_rules_of_its_question() {
        let recorded = Some("Bash(touch:*)");
        assert!(is_offered("Bash(touch:*)", recorded, "bash"));
        assert!(!is_offered("Bash", recorded, "bash"));
        assert!(!is_offered("Bash(touch:*)", None, "bash"));
        let tool = "mcp__far__look";
        let offered = for_session(Some(tool), tool);
        let words: Vec<&str> = offered.iter().map(|(_, words)| words.as_str()).collect();
        assert_eq!(words, ["this tool", "all tools of this server"]);
        assert!(is_offered("mcp__far", Some(tool), tool) && !is_offered("mcp__far", None, tool));
    }
}
