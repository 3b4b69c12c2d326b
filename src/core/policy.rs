//! Allow, ask or deny: the decision about one call, from the mode, the rules and the workspace.
//!
//! The order is the same for every effect of a call: a rule that denies; the mode that forbids
//! (`plan`) or asks nothing (`bypassPermissions`); a rule that asks; a path that always needs a
//! question; a rule that allows; what the mode allows. A call with several effects gets the
//! strictest of their decisions.
//!
//! Invariant: a path is judged as named and as its real path, and the stricter decision applies.
//! Invariant: what is not understood is never allowed by itself.
//! Invariant: no rule allows a change of rewake's own files, nor of those in the table of
//! [`protected`]. Such a change needs approval each time.

mod level;
mod line;
mod needs;
mod protected;
mod reach;
#[cfg(test)]
mod tests;

use std::borrow::Cow;

use super::access::Access;
use super::entry::Mode;
use super::file_name::named_path_text;
use super::offer::{self, RuleOffer};
use super::path;
use super::permission::{LookBack, PathUse, Permission, Reach};
use super::rule::Bases;
pub use super::rule::{Rule, Rules};
use super::to_person::FINISH_THE_PLAN;
pub use level::Sandbox;
pub use protected::{OBEYED, is_protected, may_be_protected};
pub use reach::AccessText;

/// Where a session works: absolute paths.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Workspace {
    /// Where relative paths and commands start, as the user gave it.
    pub folder: String,
    /// The folder that may be read without a question: the repository, or the folder.
    pub root: String,
    /// The project's main folder, if the root is a worktree that rewake made in its data folder.
    /// The files of the worktree belong to the project, not to rewake.
    pub project: Option<String>,
    /// The user's home folder, for `~/` in rules. `None` when it is not known.
    pub home: Option<String>,
    /// Folders that the user added: they count as part of the workspace.
    pub added: Vec<String>,
    /// Further folders that may be read, such as those of skills and command output.
    pub readable: Vec<String>,
    /// rewake's own folders and files: rules, trust, instructions and records. They are never
    /// changed without a question, wherever they are.
    pub rewakes_own: Vec<String>,
    /// The real paths of further files that git obeys: its settings or links lead to them.
    pub obeyed: Vec<String>,
    /// The folder with the keys of model providers: no call sees or changes anything in it.
    pub keys: Option<String>,
    /// The restrictions that the system puts on commands here.
    pub sandbox: Sandbox,
    /// The server's tool that is judged. `None`: nothing is known of it.
    pub served: Option<ServedTool>,
    /// The page that is judged.
    pub page: PageFacts,
}

/// The facts of the session about a page that is to be fetched.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PageFacts {
    /// A person allowed a page of this host in this session.
    pub host_is_approved: bool,
    /// The reason why its address may carry data of the session away.
    pub carries: Option<String>,
}

/// The known properties of a server's tool.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ServedTool {
    /// Hash of its description: blake3 in hex.
    pub hash: String,
    /// It changes nothing: its server says so, and the user's config trusts that.
    pub only_looks: bool,
    /// Its server says that it may be destructive.
    pub is_destructive: bool,
    /// How its description changed since it was allowed, as far as that is known. `None`: it did
    /// not.
    pub changed: Option<String>,
}

/// A decision, with the access that it covers if the call is a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Judgement {
    pub decision: Decision,
    /// Access of the command when it runs. `None`: the call runs no command.
    pub access: Option<Access>,
}

impl From<Decision> for Judgement {
    fn from(decision: Decision) -> Judgement {
        Judgement {
            decision,
            access: None,
        }
    }
}

/// The decision of the rules on one call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decision {
    /// It runs without a question.
    Allow,
    /// A person is asked. If there is nobody, it is denied.
    Ask {
        /// The reason why the call needs approval.
        why: String,
        /// The allow rules that "always" would add.
        rule: Option<RuleOffer>,
    },
    /// It never runs.
    Deny {
        /// The reason for the model.
        reason: String,
    },
}

/// Reason for a denial in plan mode, for the model.
const PLANNING: &str = "plan mode is on: nothing may be changed and no command may run that does \
                        more than look";

/// Returns the reason of plan mode, with advice.
fn planning() -> String {
    format!("{PLANNING}{FINISH_THE_PLAN}")
}

/// The disk as a decision needs it. The core does not read the disk itself.
#[derive(Clone, Copy)]
pub struct Disk {
    /// Returns the real path of an absolute path that is not cleaned: links are followed one by
    /// one, and the part that does not exist stays as it is.
    pub resolve: fn(&str) -> String,
    /// Returns the absolute paths that a shell may expand a pattern in a folder to, or why they are
    /// not known. Extra names do no harm, a missing one does.
    pub matches: fn(&str, &str) -> Result<Vec<String>, String>,
    /// Returns whether there is a folder at this absolute path.
    pub is_folder: fn(&str) -> bool,
    /// Returns an error if the repository around a folder could make a read-only git command run a
    /// program, or show content from outside of it.
    pub repository: fn(&str) -> Result<(), String>,
}

/// Decides about a call that needs `permission`.
///
/// Invariant: a command runs with the access of the judgement or not at all. A judgement for the
/// sandbox says nothing about running without one.
pub fn judge(
    permission: &Permission,
    mode: Mode,
    rules: &Rules,
    place: &Workspace,
    disk: &Disk,
) -> Judgement {
    let evaluation = Evaluation::new(mode, rules, place, disk);
    let (finding, access) = match permission {
        Permission::Command {
            line,
            access,
            background,
        } => {
            let (access, finding) = evaluation.command_line(line, *access, *background);
            (finding, Some(access))
        }
        Permission::None | Permission::Wait | Permission::Task => (Finding::Fine, None),
        Permission::Path { path_use, path } => (evaluation.path(*path_use, &of_tool(path)), None),
        Permission::WriteInWorkspace { path } => {
            let finding = evaluation.path_from(evaluation.root(), PathUse::Write, path);
            (finding, None)
        }
        Permission::Glob { pattern, path } => (evaluation.glob(pattern, path.as_deref()), None),
        Permission::LookBack { tool, reach } => (evaluation.look_back(*tool, *reach), None),
        Permission::Foreign { name } => (evaluation.foreign(name), None),
        Permission::Fetch {
            host, usual_port, ..
        } => (evaluation.fetch(host, *usual_port), None),
        Permission::Search { .. } => (evaluation.search(), None),
    };
    let decision = match finding {
        Finding::Fine => Decision::Allow,
        Finding::Unknown { why, rule } => Decision::Ask { why, rule },
        Finding::Asked(why) => Decision::Ask { why, rule: None },
        Finding::Denied(reason) => Decision::Deny { reason },
    };
    Judgement { decision, access }
}

impl Workspace {
    /// Returns the folders to which the patterns of rules are anchored.
    pub fn bases(&self, resolve: &dyn Fn(&str) -> String) -> Bases {
        Bases {
            folders: named_and_real(&self.folder, resolve),
            roots: named_and_real(&self.root, resolve),
            added: self
                .added
                .iter()
                .flat_map(|folder| named_and_real(folder, resolve))
                .collect(),
            homes: self
                .home
                .as_deref()
                .map_or_else(Vec::new, |home| named_and_real(home, resolve)),
            projects: self
                .project
                .as_deref()
                .map_or_else(Vec::new, |project| named_and_real(project, resolve)),
        }
    }
}

/// Returns a path of a tool in the form of a shell's.
fn of_tool(path: &str) -> Cow<'_, str> {
    match named_path_text(path) {
        Cow::Borrowed(path) => without_home_of_others(path),
        path => path,
    }
}

/// Returns a path with `./` before `~name`: to a tool that is a file, not the home of a user.
fn without_home_of_others(path: &str) -> Cow<'_, str> {
    match path.strip_prefix('~') {
        Some(rest) if !rest.is_empty() && !rest.starts_with('/') => Cow::Owned(format!("./{path}")),
        _ => Cow::Borrowed(path),
    }
}

/// Returns a path as named, and its real paths if they differ. `..` after a link means one place
/// for the kernel and another for a tool that goes by the name: both count.
fn named_and_real(path: &str, resolve: &dyn Fn(&str) -> String) -> Vec<String> {
    let named = path::clean(path);
    let of_named = path::clean(&resolve(&named));
    // The disk is asked only once if both are the same.
    let of_path = (named != path).then(|| path::clean(&resolve(path)));
    let mut paths = vec![named];
    for real in std::iter::once(of_named).chain(of_path) {
        if !paths.contains(&real) {
            paths.push(real);
        }
    }
    paths
}

/// The result for one effect of a call, from the mildest to the strictest.
enum Finding {
    Fine,
    /// Neither mode nor rules allow it; a rule could.
    Unknown {
        why: String,
        rule: Option<RuleOffer>,
    },
    /// A person is asked, whatever the rules allow.
    Asked(String),
    Denied(String),
}

impl Finding {
    fn rank(&self) -> u8 {
        match self {
            Finding::Fine => 0,
            Finding::Unknown { .. } => 1,
            Finding::Asked(_) => 2,
            Finding::Denied(_) => 3,
        }
    }

    /// Returns the stricter of two, for long lists: of two equally strict ones the first, without a
    /// rule.
    fn or_stricter(self, other: Finding) -> Finding {
        match (self, other) {
            (Finding::Unknown { why, .. }, Finding::Unknown { .. }) => {
                Finding::Unknown { why, rule: None }
            }
            (a, b) if a.rank() >= b.rank() => a,
            (_, b) => b,
        }
    }

    /// Returns the stricter of two. Rules are offered only if they would settle both.
    fn and(self, other: Finding) -> Finding {
        match (self, other) {
            (
                Finding::Unknown { why, rule },
                Finding::Unknown {
                    why: also,
                    rule: second,
                },
            ) => Finding::Unknown {
                why: if why == also {
                    why
                } else {
                    format!("{why}; {also}")
                },
                rule: rule.zip(second).and_then(|(rule, second)| rule.and(second)),
            },
            (a, b) if a.rank() >= b.rank() => a,
            (_, b) => b,
        }
    }
}

/// The evaluation of one call by the rules.
struct Evaluation<'a> {
    mode: Mode,
    rules: &'a Rules,
    disk: &'a Disk,
    bases: Bases,
    /// Everything below these folders may be read.
    readable: Vec<String>,
    /// As given; resolved when a call changes something.
    rewakes_own: &'a [String],
    /// Folded.
    obeyed: Vec<String>,
    /// As given and as the real path, folded.
    keys: Vec<String>,
    sandbox: Sandbox,
    served: Option<&'a ServedTool>,
    page: &'a PageFacts,
}

impl<'a> Evaluation<'a> {
    fn new(mode: Mode, rules: &'a Rules, place: &'a Workspace, disk: &'a Disk) -> Evaluation<'a> {
        let bases = place.bases(&disk.resolve);
        let own = bases.folders.iter().chain(&bases.roots);
        let own = own.chain(&bases.added).cloned();
        let more = place.readable.iter();
        let more = more.flat_map(|folder| named_and_real(folder, &disk.resolve));
        let readable = own.chain(more).collect();
        Evaluation {
            mode,
            rules,
            disk,
            bases,
            readable,
            rewakes_own: &place.rewakes_own,
            obeyed: place.obeyed.iter().map(|path| path::fold(path)).collect(),
            keys: place
                .keys
                .iter()
                .flat_map(|folder| named_and_real(folder, &disk.resolve))
                .map(|folder| path::fold(&folder))
                .collect(),
            sandbox: place.sandbox,
            served: place.served.as_ref(),
            page: &place.page,
        }
    }

    fn folder(&self) -> &str {
        self.bases.folders.first().map_or("/", String::as_str)
    }

    fn root(&self) -> &str {
        self.bases.roots.first().map_or("/", String::as_str)
    }

    /// Denies everything but reading in plan mode, when no rule has denied it already.
    fn planning(&self, looks: bool) -> Option<Finding> {
        (self.mode == Mode::Plan && !looks).then(|| Finding::Denied(planning()))
    }

    fn path(&self, path_use: PathUse, path: &str) -> Finding {
        self.path_from(self.folder(), path_use, path)
    }

    fn path_from(&self, base: &str, path_use: PathUse, path: &str) -> Finding {
        let spots = self.spots(base, path);
        if let Some(finding) = self.keys_at(path, &spots) {
            return finding;
        }
        let refuses = |rule: &&Rule| self.refuses(rule, path_use, &spots);
        if let Some(rule) = self.rules.deny.iter().find(refuses) {
            return denied(rule);
        }
        let writes = matches!(path_use, PathUse::Edit | PathUse::Write);
        if let Some(finding) = self.planning(!writes) {
            return finding;
        }
        if self.mode == Mode::BypassPermissions {
            return Finding::Fine;
        }
        if let Some(rule) = self.rules.ask.iter().find(refuses) {
            return asked(rule);
        }
        if writes && self.is_rewakes_own(&spots) {
            return Finding::Asked(format!(
                "`{path}` belongs to rewake's own settings and records, so it is always asked about"
            ));
        }
        let is_protected = |spot: &String| {
            is_protected(spot, &self.bases) || is_below_any(&path::fold(spot), &self.obeyed)
        };
        let protected = spots.iter().any(is_protected);
        if writes && protected {
            return Finding::Asked(format!(
                "`{path}` is run or obeyed by other programs, so it is always asked about"
            ));
        }
        let by_mode = |spot: &String| match (writes, self.mode) {
            (true, Mode::AcceptEdits) => self.is_in_workspace(spot),
            (true, _) => false,
            (false, _) => is_below_any(spot, &self.readable),
        };
        let open: Vec<String> = spots
            .iter()
            .filter(|spot| !by_mode(spot) && !self.allows_path(path_use, spot))
            .cloned()
            .collect();
        if open.is_empty() {
            return Finding::Fine;
        }
        Finding::Unknown {
            why: self.why_path(writes, path, &spots),
            rule: offer::for_path(path_use, &open, &self.bases, protected).map(RuleOffer::from),
        }
    }

    fn refuses(&self, rule: &Rule, path_use: PathUse, spots: &[String]) -> bool {
        let refuses = |spot: &String| rule.refuses_path(path_use, spot, &self.bases);
        spots.iter().any(refuses)
    }

    /// Returns the path as named and, if it differs, the real path.
    fn spots(&self, base: &str, path: &str) -> Vec<String> {
        named_and_real(&self.full(base, path), &self.disk.resolve)
    }

    /// Returns an absolute path, not cleaned.
    fn full(&self, base: &str, path: &str) -> String {
        match (path.strip_prefix('~'), self.bases.homes.first()) {
            (Some(""), Some(home)) => home.clone(),
            (Some(rest), Some(home)) if rest.starts_with('/') => format!("{home}{rest}"),
            // The home of an unknown user does not exist.
            (Some(_), _) => format!("/{path}"),
            (None, _) => path::join(base, path),
        }
    }

    fn allows_path(&self, path_use: PathUse, spot: &str) -> bool {
        // A search of a folder must be allowed at any depth of it.
        let deep = match path_use {
            PathUse::Grep | PathUse::Glob => Some(format!("{spot}/-/-")),
            PathUse::Read | PathUse::Edit | PathUse::Write => None,
        };
        self.rules.allow.iter().any(|rule| {
            rule.allows_path(path_use, spot, &self.bases)
                && deep
                    .as_ref()
                    .is_none_or(|d| rule.allows_path(path_use, d, &self.bases))
        })
    }

    fn is_in_workspace(&self, spot: &str) -> bool {
        let Bases {
            folders,
            roots,
            added,
            ..
        } = &self.bases;
        [folders, roots, added]
            .into_iter()
            .any(|bases| is_below_any(spot, bases))
    }

    /// Denies access to the folder of the providers' keys, whatever the mode and the rules.
    fn keys_at(&self, path: &str, spots: &[String]) -> Option<Finding> {
        let is_key = spots
            .iter()
            .any(|spot| is_below_any(&path::fold(spot), &self.keys));
        is_key.then(|| {
            Finding::Denied(format!(
                "`{path}` is where keys of model providers are kept: no call sees or changes it"
            ))
        })
    }

    /// Returns whether the folder of the keys is below one of these paths.
    fn holds_keys(&self, spots: &[String]) -> bool {
        let spots: Vec<String> = spots.iter().map(|spot| path::fold(spot)).collect();
        self.keys.iter().any(|folder| is_below_any(folder, &spots))
    }

    /// Returns whether one of these belongs to rewake itself. Allow rules do not apply there:
    /// `Edit(~/**)` would let a model write its own rules.
    fn is_rewakes_own(&self, spots: &[String]) -> bool {
        let own = self.rewakes_own.iter();
        let own = own.flat_map(|path| named_and_real(path, &self.disk.resolve));
        let own: Vec<String> = own.map(|path| path::fold(&path)).collect();
        let is_projects =
            |spot: &&String| !self.bases.projects.is_empty() && self.is_in_worktree(spot);
        spots
            .iter()
            .filter(|spot| !is_projects(spot))
            .any(|spot| is_below_any(&path::fold(spot), &own))
    }

    /// Compares the spelling exactly: if names differ only by case, the other spelling needs a
    /// question.
    fn is_in_worktree(&self, spot: &str) -> bool {
        is_below_any(spot, &self.bases.roots)
    }

    fn why_path(&self, writes: bool, path: &str, spots: &[String]) -> String {
        let does = if writes { "it changes" } else { "it looks at" };
        match spots {
            [named, real, ..] if self.is_in_workspace(named) && !self.is_in_workspace(real) => {
                format!("{does} `{path}`, which leads out of the workspace to `{real}`")
            }
            [named, ..] if !self.is_in_workspace(named) => {
                format!("{does} `{path}`, outside the workspace")
            }
            _ => format!("{does} `{path}`"),
        }
    }

    fn glob(&self, pattern: &str, path: Option<&str>) -> Finding {
        let pattern = &*without_home_of_others(pattern);
        let base = &*of_tool(path.unwrap_or("."));
        let parts: Vec<&str> = pattern.split('/').collect();
        let is_uncertain = |part: &&str| part.contains(['*', '?', '[', '{']);
        let certain = parts.iter().position(is_uncertain).unwrap_or(parts.len());
        let start = match parts[..certain].join("/") {
            root if root.is_empty() && pattern.starts_with('/') => "/".to_string(),
            start => path::join(base, &start),
        };
        let finding = self.path(PathUse::Glob, base);
        let finding = finding.and(self.path(PathUse::Glob, &start));
        // `*/..` depends on where a link leads, and braces over a `/` may hide it.
        let is_unclear = |part: &&str| {
            part.contains("..") || part.matches('{').count() != part.matches('}').count()
        };
        if parts[certain..].iter().any(is_unclear) {
            let why = format!("where the pattern `{pattern}` leads is not known");
            return finding.and(self.unknown(true, why));
        }
        finding
    }

    /// Returns the finding for something that cannot be judged by its content.
    fn unknown(&self, looks: bool, why: String) -> Finding {
        if let Some(finding) = self.planning(looks) {
            return finding;
        }
        if self.mode == Mode::BypassPermissions {
            return Finding::Fine;
        }
        Finding::Unknown { why, rule: None }
    }

    /// Judges the reading of earlier records. Those of other workspaces need approval.
    fn look_back(&self, tool: LookBack, reach: Reach) -> Finding {
        if let Some(found) = self.before_allow(|rule| rule.refuses_look_back(tool, reach)) {
            return found;
        }
        let allows = |rule: &Rule| rule.allows_look_back(tool, reach);
        if reach < Reach::All || self.rules.allow.iter().any(allows) {
            return Finding::Fine;
        }
        Finding::Unknown {
            why: "it looks at sessions of other projects".to_string(),
            rule: offer::for_look_back(tool).map(RuleOffer::from),
        }
    }

    /// Returns the finding that comes before the rules that allow: of a rule that denies or asks, or
    /// of the mode.
    fn before_allow(&self, refuses: impl Fn(&Rule) -> bool) -> Option<Finding> {
        if let Some(rule) = self.rules.deny.iter().find(|rule| refuses(rule)) {
            return Some(denied(rule));
        }
        if self.mode == Mode::BypassPermissions {
            return Some(Finding::Fine);
        }
        let rule = self.rules.ask.iter().find(|rule| refuses(rule));
        rule.map(asked)
    }

    fn foreign(&self, name: &str) -> Finding {
        let covers = |rule: &&Rule| rule.covers_foreign(name);
        if let Some(rule) = self.rules.deny.iter().find(covers) {
            return denied(rule);
        }
        let only_looks = self.served.is_some_and(|tool| tool.only_looks);
        if let Some(finding) = self.planning(only_looks) {
            return finding;
        }
        if self.mode == Mode::BypassPermissions {
            return Finding::Fine;
        }
        if let Some(rule) = self.rules.ask.iter().find(covers) {
            return asked(rule);
        }
        let hash = self.served.map(|tool| tool.hash.as_str());
        let mut allow = self.rules.allow.iter();
        if only_looks || allow.any(|rule| rule.allows_foreign(name, hash)) {
            return Finding::Fine;
        }
        Finding::Unknown {
            why: self.why_foreign(name),
            rule: offer::for_foreign(name, hash).map(RuleOffer::from),
        }
    }

    /// Judges the fetching of a page, which changes nothing here. A host needs approval once, or a
    /// rule; another port than the usual ones needs a rule.
    fn fetch(&self, host: &str, usual_port: bool) -> Finding {
        if let Some(found) = self.before_allow(|rule| rule.refuses_host(host)) {
            return found;
        }
        if let Some(why) = &self.page.carries {
            return Finding::Asked(why.clone());
        }
        let is_approved = self.page.host_is_approved && usual_port;
        if is_approved || self.rules.allow.iter().any(|rule| rule.allows_host(host)) {
            return Finding::Fine;
        }
        Finding::Unknown {
            why: format!("it fetches a page of `{host}`"),
            rule: offer::for_host(host).map(RuleOffer::from),
        }
    }

    fn search(&self) -> Finding {
        if let Some(found) = self.before_allow(Rule::covers_search) {
            return found;
        }
        if let Some(why) = &self.page.carries {
            return Finding::Asked(why.clone());
        }
        if self.rules.allow.iter().any(Rule::covers_search) {
            return Finding::Fine;
        }
        Finding::Unknown {
            why: "it searches the web".to_string(),
            rule: offer::for_search().map(RuleOffer::from),
        }
    }

    fn why_foreign(&self, name: &str) -> String {
        let mut why = format!("it calls `{name}`, a tool of a server");
        if self.served.is_some_and(|tool| tool.is_destructive) {
            why.push_str(" that may destroy something, by the server's own word");
        }
        // An earlier approval was for an earlier description.
        let changed = self.served.and_then(|tool| tool.changed.as_deref());
        let mut allow = self.rules.allow.iter();
        if changed.is_some() || allow.any(|rule| rule.covers_foreign(name)) {
            why.push_str("; its description changed since it was allowed");
            if let Some(changed) = changed.filter(|changed| !changed.is_empty()) {
                why.push_str(": ");
                why.push_str(changed);
            }
        }
        why
    }
}

fn is_below_any(path: &str, folders: &[String]) -> bool {
    folders.iter().any(|f| path::below(path, f).is_some())
}

fn denied(rule: &Rule) -> Finding {
    Finding::Denied(format!("the user's rule `{rule}` denies it"))
}

fn asked(rule: &Rule) -> Finding {
    Finding::Asked(format!("the rule `{rule}` asks"))
}
