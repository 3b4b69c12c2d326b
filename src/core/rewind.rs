//! Setting files back: who changed a path since a place in the log, and what it is to be then.
//!
//! A path that only calls changed is set back. One that only somebody else changed stays as it
//! is. Where both did, the changes of the others are put onto what it was. What is not certain
//! stays as it is, and is named.
//!
//! Invariant: by default a path is removed only if a recorded call created it, nobody else
//! touched it, and it is what was recorded.

use std::collections::{BTreeMap, BTreeSet};

use super::entry::KeptWhy;
use super::path;
use super::tree::{ContentHash, Item, PathBytes, Tree};
use changes::{By, Chain, Link, SLACK_MS, absolute};

pub use author::{Author, Maker};
pub use changes::Changes;
pub use since::{Cause, NamedTree, Written, named_since};
pub use told::{kept, told, told_of_folder};

mod author;
mod beside;
mod changes;
mod since;
mod told;

/// Folders in which version control keeps what is its own: nothing in them is set back.
const VERSION_CONTROL: [&str; 5] = [".git", ".jj", ".hg", ".svn", ".sl"];

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
    /// Paths beside others, which get what somebody else made of those and what does not fit in.
    pub beside: BTreeSet<PathBytes>,
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
        if !is_wanted(wanted.only, path) || is_told_elsewhere(changes, path) {
            continue;
        }
        if now == start {
            undone_by_calls(changes, path, chain, wanted, &mut plan);
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
                .and_then(|()| of_path(changes, path, chain, wanted, is_whole, &mut plan)),
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
    let taken = beside::take_back_moves(changes, &mut plan);
    no_file_is_a_folder(changes, &mut plan);
    while beside::leave_moves(changes, &taken, &mut plan) {
        no_file_is_a_folder(changes, &mut plan);
    }
    plan.of_commands
        .retain(|path| !plan.kept.contains_key(path));
    plan.merged.retain(|path| !plan.kept.contains_key(path));
    plan
}

/// A path is as it was, but only since a call took away what somebody else had made of it: they get
/// that back.
fn undone_by_calls(
    changes: &Changes,
    path: &PathBytes,
    chain: &Chain,
    wanted: &mut Wanted<'_>,
    plan: &mut Plan,
) {
    let is_outside = |link: &Link| link.by == By::Outside;
    let is_mixed =
        chain.links.iter().any(Link::may_be_of_others) && !chain.links.iter().all(is_outside);
    if wanted.whole || !is_mixed || chosen_for(wanted.chosen, path).is_some() {
        return;
    }
    let mut tried = Plan {
        target: plan.target.clone(),
        ..Plan::default()
    };
    let Ok(to) = of_path(changes, path, chain, wanted, false, &mut tried) else {
        return;
    };
    if to.as_ref() == changes.now.0.get(path) && tried.beside.is_empty() {
        return;
    }
    if let Err(why) = may_touch(changes, path, chain, wanted, false) {
        plan.kept.insert(path.clone(), why);
        return;
    }
    let Plan {
        mut target,
        beside,
        merged,
        of_commands,
        ..
    } = tried;
    match to {
        Some(item) => target.0.insert(path.clone(), item),
        None => target.0.remove(path),
    };
    plan.target = target;
    plan.fixed.extend(beside.iter().cloned());
    plan.beside.extend(beside);
    plan.merged.extend(merged);
    plan.of_commands.extend(of_commands);
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
    changes: &Changes,
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
        By::Command(ended) if place == last && !chain.is_set_back => match late(ended) {
            true => By::Outside,
            false => By::Command(ended),
        },
        By::Command(_) if link.may_be_of_others() => By::Outside,
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
    match with_others(chain, &by, wanted.merge) {
        Some(None) if now.is_some() => Err(KeptWhy::Conflict),
        Some(made) => {
            plan.merged.insert(path.clone());
            Ok(made)
        }
        None => {
            let start = as_it_was(chain)?;
            if start.is_none() && now.is_some() {
                return Err(KeptWhy::Conflict);
            }
            let others = beside::gone(chain, &by, wanted.merge).ok_or(KeptWhy::Conflict)?;
            beside::lay(changes, path, others, plan)?;
            Ok(start)
        }
    }
}

/// What it was, with the changes of others put onto it. `None`: they collide.
fn with_others(chain: &Chain, by: &[By], merge: &mut Merge<'_>) -> Option<Option<Item>> {
    let mut made = chain.start.clone();
    let mut was = &chain.start;
    for (link, by) in chain.links.iter().zip(by) {
        if *by == By::Outside {
            made = three_way(was, &link.to, &made, merge)?;
        }
        was = &link.to;
    }
    Some(made)
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

#[cfg(test)]
mod tests;
