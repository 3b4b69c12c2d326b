//! Setting files back: who changed a path since a place in the log, and what it is to be then.
//!
//! A path that only calls changed is set back. One that only somebody else changed stays as it
//! is. Where both did, the changes of the others are put onto what it was. What is not certain
//! stays as it is, and is named.
//!
//! Invariant: by default a path is removed only if a recorded call created it, nobody else
//! touched it, and it is what was recorded.

use std::collections::{BTreeMap, BTreeSet};

use super::access::Access;
use super::entry::{CallId, Entry, Fact, Guard, Kept, KeptWhy, MAX_KEPT, Record};
use super::path;
use super::text::count;
use super::tree::{Change, ContentHash, Delta, Item, PathBytes, Tree, named, path_text};

/// Folders in which version control keeps what is its own: nothing in them is set back.
const VERSION_CONTROL: [&str; 5] = [".git", ".jj", ".hg", ".svn", ".sl"];

/// So many paths are named to the model.
const MAX_TOLD: usize = 20;

/// From its record to the begin of a command, at most.
const BEGIN_MS: i64 = 2_000;

/// A command ends a little after the clock says so, and a file system's clock is coarse.
const SLACK_MS: i64 = 500;

/// A tree that a log names behind a place, and who made what differs from the tree before.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamedTree {
    pub name: String,
    pub cause: Cause,
}

/// Who made the difference between two trees.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Cause {
    /// Calls that wrote one file each; and a command, when one ran. What neither can have been is
    /// somebody else's.
    Calls {
        written: Vec<Written>,
        /// The end of the last command. UTC, milliseconds since 1970.
        command_ended_ms: Option<i64>,
    },
    /// Files were set back to this tree. What is not as in it is somebody else's.
    Restored { target: String },
    /// Somebody else.
    Outside,
}

/// A file that a call replaced: its hashes in hex.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Written {
    /// Absolute.
    pub path: String,
    pub before: Option<String>,
    pub after: String,
}

/// The trees that the log names behind the place `start` in `records`, where the files were as in
/// the tree `from`.
pub fn named_since(records: &[Record], start: usize, from: &str) -> Vec<NamedTree> {
    let mut since = Since {
        trees: Vec::new(),
        last: from.to_string(),
        written: Vec::new(),
        commands: BTreeMap::new(),
        command_ended_ms: None,
        restoring: None,
        resumed_ms: i64::MIN,
    };
    for record in records.get(start..).unwrap_or_default() {
        since.record(record);
    }
    since.trees
}

/// [`named_since`], as far as it is.
struct Since {
    trees: Vec<NamedTree>,
    last: String,
    written: Vec<Written>,
    /// Commands that were begun, and when.
    commands: BTreeMap<CallId, i64>,
    command_ended_ms: Option<i64>,
    restoring: Option<String>,
    /// When another process took the session up last.
    resumed_ms: i64,
}

impl Since {
    fn record(&mut self, record: &Record) {
        match &record.entry {
            Entry::Started { access, .. } if *access == Some(Access::Read) => {}
            Entry::Started { call, guard, .. } => match guard {
                Guard::Checked {
                    path,
                    before,
                    after,
                } => self.written.push(Written {
                    path: path.clone(),
                    before: before.clone(),
                    after: after.clone(),
                }),
                Guard::Supervised { .. } | Guard::Child { .. } | Guard::Opaque => {
                    self.commands.entry(*call).or_insert(record.at_ms);
                }
            },
            Entry::Finished { call, fact, .. } => {
                if let Some(began) = self.commands.remove(call) {
                    let ended = match fact {
                        // Settled by another process: it may have ended long before.
                        Some(Fact::Ran { took_ms, .. }) if began < self.resumed_ms => began
                            .saturating_add(i64::try_from(*took_ms).unwrap_or(i64::MAX))
                            .saturating_add(BEGIN_MS),
                        _ => record.at_ms,
                    };
                    let ended = ended.min(record.at_ms);
                    self.command_ended_ms = self.command_ended_ms.max(Some(ended));
                }
            }
            Entry::Resumed { .. } => self.resumed_ms = record.at_ms,
            // What runs on belongs to the other branch.
            Entry::Forked { .. } => {
                self.commands.clear();
                self.restoring = None;
            }
            Entry::Restoring { before, target, .. } => {
                if *before != self.last {
                    self.take(before, Cause::Outside);
                }
                self.restoring = Some(target.clone());
            }
            _ => {}
        }
        let Some(name) = named(&record.entry) else {
            return;
        };
        let cause = match self.restoring.take() {
            Some(target) => Cause::Restored { target },
            None if self.written.is_empty() && self.command_ended_ms.is_none() => Cause::Outside,
            None => Cause::Calls {
                written: std::mem::take(&mut self.written),
                command_ended_ms: self.command_ended_ms.take(),
            },
        };
        self.take(name, cause);
    }

    fn take(&mut self, name: &str, cause: Cause) {
        self.written.clear();
        self.command_ended_ms = None;
        if name != self.last {
            self.last = name.to_string();
            let name = name.to_string();
            self.trees.push(NamedTree { name, cause });
        }
    }
}

/// Who changed a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum By {
    /// A call that wrote it, or a setting back.
    Us,
    /// A command ran until then.
    Command(i64),
    Outside,
}

/// One change of a path.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Link {
    to: Option<Item>,
    by: By,
    /// It may have been there before, and only became covered.
    may_have_been: bool,
}

/// All changes of one path.
#[derive(Debug, Clone)]
struct Chain {
    start: Option<Item>,
    links: Vec<Link>,
    /// What `links` were before each setting back: one that led back to there, leads to them.
    undone: Vec<Vec<Link>>,
    /// What was changed last was set back: its time on the disk is of that.
    is_set_back: bool,
}

impl Chain {
    fn now(&self) -> Option<&Item> {
        match self.links.last() {
            Some(link) => link.to.as_ref(),
            None => self.start.as_ref(),
        }
    }

    /// What links led to.
    fn end<'a>(&'a self, links: &'a [Link]) -> &'a Option<Item> {
        links.last().map_or(&self.start, |link| &link.to)
    }

    /// What led to this: what was set back last, when that is there again; else some time before.
    fn time_of(&self, whole: &[Link], to: &Option<Item>) -> Option<Vec<Link>> {
        if let Some(list) = self.undone.last().filter(|list| self.end(list) == to) {
            return Some(list.clone());
        }
        let lists = self.undone.iter().rev().map(Vec::as_slice);
        let lists = [whole].into_iter().chain(lists);
        let mut times = lists.flat_map(|list| (0..=list.len()).rev().map(|length| &list[..length]));
        times
            .find(|list| self.end(list) == to)
            .map(<[Link]>::to_vec)
    }

    /// A setting back led to this: to what it was at some time, with all that led there; or to
    /// something new.
    fn set_back(&mut self, to: Option<Item>) {
        self.is_set_back = true;
        let whole = self.links.clone();
        let found = self.time_of(&whole, &to);
        if !self.undone.contains(&whole) {
            self.undone.push(whole);
        }
        match found {
            Some(links) => self.links = links,
            None => self.links.push(Link {
                to,
                by: By::Us,
                may_have_been: false,
            }),
        }
    }
}

/// What became of the paths of a workspace since a tree.
#[derive(Debug, Clone)]
pub struct Changes {
    root: String,
    start: Tree,
    now: Tree,
    chains: BTreeMap<PathBytes, Chain>,
}

impl Changes {
    /// The tree that they begin with.
    pub fn start(&self) -> &Tree {
        &self.start
    }

    /// `root` is the workspace's: paths below it have no slash in front.
    pub fn new(root: &str, start: Tree) -> Changes {
        Changes {
            root: root.to_string(),
            now: start.clone(),
            start,
            chains: BTreeMap::new(),
        }
    }

    /// The last tree so far.
    pub fn now(&self) -> &Tree {
        &self.now
    }

    /// The next tree differs so from the last one. `is_exact`: the delta says which paths only
    /// became covered. `target` is the tree of [`Cause::Restored`].
    pub fn add(&mut self, delta: &Delta, is_exact: bool, cause: &Cause, target: Option<&Tree>) {
        for (path, change) in &delta.0 {
            let (to, entered) = match change {
                Change::Put { item, entered } => (Some(item.clone()), *entered),
                Change::Gone { .. } => (None, false),
            };
            let before = self.now.0.get(path).cloned();
            if before == to {
                continue;
            }
            let chain = self.chains.entry(path.clone()).or_insert_with(|| Chain {
                start: before.clone(),
                links: Vec::new(),
                undone: Vec::new(),
                is_set_back: false,
            });
            if let Cause::Restored { .. } = cause
                && target.is_some_and(|target| target.0.get(path) == to.as_ref())
            {
                chain.set_back(to);
                continue;
            }
            // It is there still, or was.
            let is_only_coverage = entered || matches!(change, Change::Gone { left: true });
            let by = match cause {
                _ if is_only_coverage => By::Outside,
                Cause::Outside | Cause::Restored { .. } => By::Outside,
                Cause::Calls {
                    written,
                    command_ended_ms,
                } => {
                    let absolute = absolute(&self.root, path);
                    match of_call(written, &absolute, before.as_ref(), to.as_ref()) {
                        Some(by) => by,
                        None => command_ended_ms.map_or(By::Outside, By::Command),
                    }
                }
            };
            chain.is_set_back = false;
            chain.links.push(Link {
                may_have_been: entered || (before.is_none() && !is_exact && by != By::Us),
                to,
                by,
            });
        }
        self.now.apply(delta);
    }
}

fn absolute(root: &str, path: &[u8]) -> String {
    let path = String::from_utf8_lossy(path);
    path::join(root, &path)
}

/// Whether calls made a path what it is: each wrote onto what the one before left.
fn of_call(
    written: &[Written],
    path: &str,
    before: Option<&Item>,
    to: Option<&Item>,
) -> Option<By> {
    let mut its = written.iter().filter(|w| w.path == path).peekable();
    let first = its.peek()?;
    let hash = |item: Option<&Item>| item.and_then(Item::content).map(hex);
    let began_on_it = first.before == hash(before);
    let is_its = its
        .last()
        .is_some_and(|last| Some(&last.after) == hash(to).as_ref());
    Some(match began_on_it && is_its {
        true => By::Us,
        false => By::Outside,
    })
}

fn hex(hash: &ContentHash) -> String {
    hash.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Three contents to one: what it was, what somebody else made of it, and what it is to be without
/// that. `None`: they collide.
pub type Merge<'a> =
    dyn FnMut(&ContentHash, &ContentHash, &ContentHash) -> Option<(ContentHash, u64)> + 'a;

/// What a person chose for a path, and for all below it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PathChoice {
    /// As it was, whoever changed it.
    Take,
    /// As it is.
    Keep,
}

/// What is asked of a setting back.
pub struct Wanted<'a> {
    /// All that is covered, whoever changed it.
    pub whole: bool,
    /// Only these paths, and what is below them. `None`: all.
    pub only: Option<&'a BTreeSet<PathBytes>>,
    /// Paths that need an answer of their own, and have it.
    pub allowed: &'a BTreeSet<PathBytes>,
    /// The longest path that leads to another decides.
    pub chosen: &'a BTreeMap<PathBytes, PathChoice>,
    /// Whether a clean absolute path is protected.
    pub is_protected: &'a dyn Fn(&str) -> bool,
    /// When what lies at a path last changed: UTC, milliseconds since 1970.
    pub changed_ms: &'a dyn Fn(&[u8]) -> Option<i64>,
    pub merge: &'a mut Merge<'a>,
}

/// What is to be.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Plan {
    pub target: Tree,
    /// What differs from the place that is meant and stays as it is.
    pub kept: BTreeMap<PathBytes, KeptWhy>,
    /// Paths that are set back and that changed while a command ran.
    pub of_commands: BTreeSet<PathBytes>,
    /// Paths that are set back with the changes of somebody else put onto them.
    pub merged: BTreeSet<PathBytes>,
    /// Paths that stay whatever is chosen for them.
    pub fixed: BTreeSet<PathBytes>,
}

/// What every path is to be.
pub fn plan(changes: &Changes, wanted: &mut Wanted<'_>) -> Plan {
    let mut plan = Plan {
        target: changes.now.clone(),
        ..Plan::default()
    };
    for (path, chain) in &changes.chains {
        let now = changes.now.0.get(path);
        let start = changes.start.0.get(path);
        if now == start || !is_wanted(wanted.only, path) {
            continue;
        }
        if is_told_elsewhere(changes, path) {
            continue;
        }
        if never(changes, path).is_err() || as_it_was(chain).is_err() {
            plan.fixed.insert(path.clone());
        }
        let choice = chosen_for(wanted.chosen, path);
        let is_whole = wanted.whole || choice == Some(PathChoice::Take);
        let to = match choice {
            Some(PathChoice::Keep) => Err(KeptWhy::Chosen),
            Some(PathChoice::Take) | None => may_touch(changes, path, chain, wanted, is_whole)
                .and_then(|()| of_path(path, chain, wanted, is_whole, &mut plan)),
        };
        match to {
            Ok(to) if to.as_ref() == now => {
                plan.kept.insert(path.clone(), KeptWhy::Yours);
            }
            Ok(Some(item)) => {
                plan.target.0.insert(path.clone(), item);
            }
            Ok(None) => {
                plan.target.0.remove(path);
            }
            Err(why) => {
                plan.kept.insert(path.clone(), why);
            }
        }
    }
    no_file_is_a_folder(changes, &mut plan);
    plan.of_commands
        .retain(|path| !plan.kept.contains_key(path));
    plan.merged.retain(|path| !plan.kept.contains_key(path));
    plan
}

fn is_wanted(only: Option<&BTreeSet<PathBytes>>, path: &PathBytes) -> bool {
    let Some(only) = only else {
        return true;
    };
    to_root(path).any(|path| only.contains(path))
}

/// A path, and the folders that it lies in, the deepest first.
fn to_root(path: &[u8]) -> impl Iterator<Item = &[u8]> {
    let slashes = (1..path.len()).rev().filter(|at| path[*at] == b'/');
    std::iter::once(path).chain(slashes.map(|at| &path[..at]))
}

fn chosen_for(chosen: &BTreeMap<PathBytes, PathChoice>, path: &[u8]) -> Option<PathChoice> {
    to_root(path).find_map(|path| chosen.get(path).copied())
}

/// Whether a path may be set back if that is asked for.
fn never(changes: &Changes, path: &PathBytes) -> Result<(), KeptWhy> {
    if is_version_control(path) {
        return Err(KeptWhy::VersionControl);
    }
    let items = [changes.start.0.get(path), changes.now.0.get(path)];
    if items
        .iter()
        .any(|item| matches!(item, Some(Item::Marker { .. })))
    {
        return Err(KeptWhy::Marker);
    }
    Ok(())
}

/// Whether a path may be set back at all.
fn may_touch(
    changes: &Changes,
    path: &PathBytes,
    chain: &Chain,
    wanted: &Wanted<'_>,
    is_whole: bool,
) -> Result<(), KeptWhy> {
    never(changes, path)?;
    let spot = absolute(&changes.root, path);
    if wanted.allowed.contains(path) {
        return Ok(());
    }
    if path.starts_with(b"/") && path::below(&spot, &changes.root).is_none() {
        return Err(KeptWhy::Outside);
    }
    // Whoever changed only their own has nothing to be asked.
    let is_theirs = !is_whole && chain.links.iter().all(|link| link.by == By::Outside);
    if !is_theirs && (wanted.is_protected)(&path::clean(&spot)) {
        return Err(KeptWhy::Protected);
    }
    Ok(())
}

/// A file that a tool wrote where nothing was covered has its whole path; when it is covered, or a
/// marker there, it has two. The one that has a content says all of it.
fn is_told_elsewhere(changes: &Changes, at: &PathBytes) -> bool {
    let root = changes.root.as_bytes();
    let other = match at
        .strip_prefix(root)
        .and_then(|rest| rest.strip_prefix(b"/"))
    {
        Some(below) if at.starts_with(b"/") => below.to_vec(),
        _ => [root, b"/", at].concat(),
    };
    let items = |path: &PathBytes| [changes.start.0.get(path), changes.now.0.get(path)];
    let is_marker = |path| {
        let mut items = items(path).into_iter().flatten();
        items.any(|item| matches!(item, Item::Marker { .. }))
    };
    if items(&other) == [None, None] {
        return false;
    }
    // Of two with a content, the one below the root.
    is_marker(at) || (at.starts_with(b"/") && !is_marker(&other))
}

fn is_version_control(path: &[u8]) -> bool {
    let text = path::fold(&String::from_utf8_lossy(path));
    text.split('/').any(|part| VERSION_CONTROL.contains(&part))
}

/// Whether nothing at or below a path may be written, whatever is asked for.
pub fn is_never_written(path: &[u8]) -> bool {
    is_version_control(path)
}

/// What lay there, unless it may have been there without being covered.
fn as_it_was(chain: &Chain) -> Result<Option<Item>, KeptWhy> {
    let may_have_been = chain.links.iter().any(|link| link.may_have_been);
    match &chain.start {
        None if may_have_been => Err(KeptWhy::Entered),
        start => Ok(start.clone()),
    }
}

fn of_path(
    path: &PathBytes,
    chain: &Chain,
    wanted: &mut Wanted<'_>,
    is_whole: bool,
    plan: &mut Plan,
) -> Result<Option<Item>, KeptWhy> {
    let (start, now) = (&chain.start, chain.now());
    let last = chain.links.len().saturating_sub(1);
    // Whoever touched it after the command ended was not the command.
    let late = |ended: i64| {
        (wanted.changed_ms)(path).is_some_and(|at| at > ended.saturating_add(SLACK_MS))
    };
    let by = |place: usize, link: &Link| match link.by {
        By::Command(ended) if place == last && !chain.is_set_back && late(ended) => By::Outside,
        by => by,
    };
    let by: Vec<By> = chain
        .links
        .iter()
        .enumerate()
        .map(|(n, l)| by(n, l))
        .collect();
    let has_command = by.iter().any(|by| matches!(by, By::Command(_)));
    if has_command {
        plan.of_commands.insert(path.clone());
    }
    if is_whole {
        return as_it_was(chain);
    }
    if by.iter().all(|by| *by == By::Outside) {
        return Err(KeptWhy::Yours);
    }
    if !by.contains(&By::Outside) {
        return match start {
            None if has_command && now.is_some() => Err(KeptWhy::Command),
            start => Ok(start.clone()),
        };
    }
    let mut made = start.clone();
    let mut was = start.clone();
    for (link, by) in chain.links.iter().zip(&by) {
        if *by == By::Outside {
            made = three_way(&was, &link.to, &made, wanted.merge).ok_or(KeptWhy::Conflict)?;
        }
        was.clone_from(&link.to);
    }
    match made {
        None if now.is_some() => Err(KeptWhy::Conflict),
        made => {
            plan.merged.insert(path.clone());
            Ok(made)
        }
    }
}

/// What `theirs` is with the change from `base` to `ours`. `None`: they collide.
fn three_way(
    base: &Option<Item>,
    ours: &Option<Item>,
    theirs: &Option<Item>,
    merge: &mut Merge<'_>,
) -> Option<Option<Item>> {
    if base == theirs || ours == theirs {
        return Some(ours.clone());
    }
    let file = |item: &Option<Item>| match item {
        Some(Item::File { mode, hash, bytes }) => Some((*mode, *hash, *bytes)),
        _ => None,
    };
    let (base, ours, theirs) = (file(base)?, file(ours)?, file(theirs)?);
    let (hash, bytes) = match (base.1 == ours.1, base.1 == theirs.1 || ours.1 == theirs.1) {
        (true, _) => (theirs.1, theirs.2),
        (false, true) => (ours.1, ours.2),
        (false, false) => merge(&base.1, &ours.1, &theirs.1)?,
    };
    let mode = match base.0 == ours.0 {
        true => theirs.0,
        false => ours.0,
    };
    Some(Some(Item::File { mode, hash, bytes }))
}

/// What was decided path by path may ask for a file where there is to be a folder: there nothing is
/// set back.
fn no_file_is_a_folder(changes: &Changes, plan: &mut Plan) {
    loop {
        let target = &plan.target.0;
        let is_put = |path: &PathBytes| changes.now.0.get(path) != target.get(path);
        let mut wrong: BTreeSet<PathBytes> = BTreeSet::new();
        for path in target.keys() {
            let slashes = path
                .iter()
                .enumerate()
                .skip(1)
                .filter(|(_, byte)| **byte == b'/');
            for (end, _) in slashes {
                let above = &path[..end];
                if let Some((above, _)) = target.get_key_value(above) {
                    let both = [path, above];
                    wrong.extend(both.into_iter().filter(|path| is_put(path)).cloned());
                }
            }
        }
        if wrong.is_empty() {
            return;
        }
        for path in wrong {
            match changes.now.0.get(&path) {
                Some(item) => plan.target.0.insert(path.clone(), item.clone()),
                None => plan.target.0.remove(&path),
            };
            plan.kept.insert(path, KeptWhy::Conflict);
        }
    }
}

/// The first of the paths that stay, and how many more there are.
pub fn kept(kept: &BTreeMap<PathBytes, KeptWhy>) -> (Vec<Kept>, u64) {
    // What is no surprise comes last.
    let mut all: Vec<(&PathBytes, KeptWhy)> = kept.iter().map(|(p, why)| (p, *why)).collect();
    all.sort_by_key(|(_, why)| *why == KeptWhy::Yours);
    let more = all.len().saturating_sub(MAX_KEPT) as u64;
    let named = all.into_iter().take(MAX_KEPT).map(|(path, why)| Kept {
        path: path_text(path),
        why,
    });
    (named.collect(), more)
}

/// What the model is told when a session was copied into a folder with files of its own.
pub fn told_of_folder(folder: &str) -> String {
    format!(
        "This session was copied, and works in a folder of its own from here on: {folder}. The files in it are \
         copies of those that you know. Use paths in it, and read a file there before you change it; \
         ignored files, secrets and large files are not in it."
    )
}

/// What the model is told of a setting back. `None`: it is told nothing.
pub fn told(entry: &Entry) -> Option<String> {
    let Entry::Restored {
        new_folder,
        written,
        removed,
        paths,
        kept,
        more_kept,
        why,
        ..
    } = entry
    else {
        return None;
    };
    if *new_folder {
        return (why.as_ref())
            .map(|why| format!("The files could not be put into the new folder: {why}"));
    }
    if let Some(why) = why {
        return Some(format!(
            "The user wanted to set files back to what they were before. Nothing was changed: {why}"
        ));
    }
    let all = written + removed;
    let named = |paths: Vec<String>, all: u64| {
        let shown = paths.len() as u64;
        let more = all.saturating_sub(shown);
        let more = (more > 0).then(|| format!(" and {more} more"));
        format!("{}{}", paths.join(", "), more.unwrap_or_default())
    };
    let mut text = match all {
        0 => {
            "The user set files back to what they were before; none had to be changed.".to_string()
        }
        _ => format!(
            "The user set {} back to what they were before: {}. Read them again before you change them.",
            count(usize::try_from(all).unwrap_or(usize::MAX), "file"),
            named(paths.iter().take(MAX_TOLD).cloned().collect(), all)
        ),
    };
    let differ: Vec<&Kept> = kept.iter().filter(|k| k.why != KeptWhy::Yours).collect();
    if !differ.is_empty() {
        let words = differ.iter().take(MAX_TOLD);
        let words = words
            .map(|k| format!("{} ({})", k.path, k.why.words()))
            .collect();
        let all = differ.len() as u64 + more_kept;
        text.push_str(&format!("\nLeft as they are: {}.", named(words, all)));
    }
    Some(text)
}

#[cfg(test)]
mod tests;
