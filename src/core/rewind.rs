//! Restores of files: who changed a path since a place in the log, and its target state.
//!
//! A path that only calls changed is restored. A path that only somebody else changed stays. If
//! both changed it, the changes of others are applied to the earlier content. A path whose state is
//! uncertain stays and is named.
//!
//! Invariant: by default a path is removed only if a recorded call created it, nobody else touched
//! it, and its content is the recorded one.

use std::collections::{BTreeMap, BTreeSet};

use super::entry::KeptWhy;
use super::file_clock::{CommandEnd, FileTime};
use super::path;
use super::tree::{ContentHash, Item, PathBytes, Tree, below, to_root};
use changes::{By, Chain, Link, absolute};

pub use author::{Author, Maker};
pub use changes::Changes;
pub use since::{Cause, NamedTree, Written, named_since};
pub use told::{folder_copy_note, kept, told};

mod author;
mod beside;
mod changes;
mod since;
mod told;

/// Folders that belong to version control: nothing in them is restored.
const VERSION_CONTROL: [&str; 5] = [".git", ".jj", ".hg", ".svn", ".sl"];

/// A three-way merge: the earlier content, the content that somebody else made of it, and the
/// target without their change. `None`: they conflict.
pub type Merge<'a> =
    dyn FnMut(&ContentHash, &ContentHash, &ContentHash) -> Option<(ContentHash, u64)> + 'a;

/// A person's choice for a path, and for everything below it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PathChoice {
    /// Restore it, no matter who changed it.
    Take,
    /// Leave it.
    Keep,
}

/// The options of a restore.
pub struct RestoreOptions<'a> {
    /// Restore all covered files, no matter who changed them.
    pub whole: bool,
    /// Only these paths, and what is below them. `None`: all.
    pub only: Option<&'a BTreeSet<PathBytes>>,
    /// Paths that need a separate approval, and have it.
    pub allowed: &'a BTreeSet<PathBytes>,
    /// Choices by path; for each file the longest matching path decides.
    pub chosen: &'a BTreeMap<PathBytes, PathChoice>,
    /// Returns whether a clean absolute path is protected.
    pub is_protected: &'a dyn Fn(&str) -> bool,
    /// Returns when the file at a path last changed.
    pub file_time: &'a dyn Fn(&[u8]) -> Option<FileTime>,
    pub merge: &'a mut Merge<'a>,
}

/// The planned result of a restore.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Plan {
    pub target: Tree,
    /// Paths that differ from the target and stay, and why.
    pub kept: BTreeMap<PathBytes, KeptWhy>,
    /// Restored paths that changed while a command ran.
    pub of_commands: BTreeSet<PathBytes>,
    /// Restored paths to which the changes of somebody else are applied.
    pub merged: BTreeSet<PathBytes>,
    /// Paths that stay, whatever the person chooses.
    pub fixed: BTreeSet<PathBytes>,
    /// New paths beside others, with content of somebody else that does not fit into the original.
    pub beside: BTreeSet<PathBytes>,
}

/// Plans the target state of every path.
pub fn plan(changes: &Changes, wanted: &mut RestoreOptions<'_>) -> Plan {
    let mut plan = Plan {
        target: changes.now.clone(),
        ..Plan::default()
    };
    for (path, chain) in &changes.chains {
        let now = changes.now.0.get(path);
        let start = changes.start.0.get(path);
        if !is_wanted(wanted.only, path) || has_other_spelling(changes, path) {
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
    make_room(changes, &mut plan);
    no_file_is_a_folder(changes, &mut plan);
    while beside::keep_new_names(changes, &taken, &mut plan) {
        no_file_is_a_folder(changes, &mut plan);
    }
    plan.of_commands
        .retain(|path| !plan.kept.contains_key(path));
    plan.merged.retain(|path| !plan.kept.contains_key(path));
    plan
}

/// Handles a path that is unchanged only because a call removed the changes of somebody else: they
/// get their changes back.
fn undone_by_calls(
    changes: &Changes,
    path: &PathBytes,
    chain: &Chain,
    wanted: &mut RestoreOptions<'_>,
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
    // The empty path is the root of the workspace.
    let is_below_root = !path.starts_with(b"/") && only.contains(&b""[..]);
    is_below_root || to_root(path).any(|path| only.contains(path))
}

fn chosen_for(chosen: &BTreeMap<PathBytes, PathChoice>, path: &[u8]) -> Option<PathChoice> {
    to_root(path).find_map(|path| chosen.get(path).copied())
}

/// Returns an error if a path is not restored even on request.
fn never(changes: &Changes, path: &PathBytes) -> Result<(), KeptWhy> {
    if is_version_control(path) {
        return Err(KeptWhy::VersionControl);
    }
    let is_marker = |tree: &Tree| matches!(tree.0.get(path), Some(Item::Marker { .. }));
    // A present file without a stored content is moved beside what comes back, and never removed.
    let makes_room = changes.start.0.contains_key(path) || changes.in_place.contains(path);
    if is_marker(&changes.start) || (is_marker(&changes.now) && !makes_room) {
        return Err(KeptWhy::Marker);
    }
    Ok(())
}

/// Returns an error if a path may not be restored.
fn may_touch(
    changes: &Changes,
    path: &PathBytes,
    chain: &Chain,
    wanted: &RestoreOptions<'_>,
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
    // If only others changed the file, no approval is needed.
    let is_theirs = !is_whole && chain.links.iter().all(|link| link.by == By::Outside);
    if !is_theirs && (wanted.is_protected)(&path::clean(&spot)) {
        return Err(KeptWhy::Protected);
    }
    Ok(())
}

/// Returns whether another spelling of the path represents this file. A file that a tool wrote
/// outside of the covered files is recorded by its whole path. If it is also covered, or a marker,
/// it has two paths, and the one with content counts.
fn has_other_spelling(changes: &Changes, at: &PathBytes) -> bool {
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
    // If both have content, the one below the root counts.
    is_marker(at) || (at.starts_with(b"/") && !is_marker(&other))
}

fn is_version_control(path: &[u8]) -> bool {
    let text = path::fold(&String::from_utf8_lossy(path));
    text.split('/').any(|part| VERSION_CONTROL.contains(&part))
}

/// Returns whether nothing at or below a path may be written, whatever the options.
pub fn is_never_written(path: &[u8]) -> bool {
    is_version_control(path)
}

/// Returns the earlier state, unless the file may have existed without being covered.
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
    wanted: &mut RestoreOptions<'_>,
    is_whole: bool,
    plan: &mut Plan,
) -> Result<Option<Item>, KeptWhy> {
    let (start, now) = (&chain.start, chain.now());
    let last = chain.links.len().saturating_sub(1);
    // A change after the end of the command was not made by it.
    let late =
        |ended: CommandEnd| (wanted.file_time)(path).is_some_and(|at| !ended.may_have_changed(&at));
    let by = |place: usize, link: &Link| match link.by {
        By::Command(ended) if place == last && !chain.is_set_back => {
            if late(ended) {
                By::Outside
            } else {
                By::Command(ended)
            }
        }
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
            beside::name_copies(changes, path, others, plan)?;
            Ok(start)
        }
    }
}

/// Applies the changes of others to the earlier content. `None`: they conflict.
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

/// Applies the change from `base` to `ours` to `theirs`. `None`: they conflict.
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
    let mode = if base.0 == ours.0 { theirs.0 } else { ours.0 };
    Some(Some(Item::File { mode, hash, bytes }))
}

/// Removes files of a command that are in the way of restored ones: the same command replaced a
/// file with a folder, or a folder with a file or a link.
fn make_room(changes: &Changes, plan: &mut Plan) {
    let (target, kept) = (&plan.target.0, &plan.kept);
    let is_commands = |path: &PathBytes| {
        changes.in_place.contains(path) && kept.get(path) == Some(&KeptWhy::Command)
    };
    let is_in_the_way =
        |path: &PathBytes| match to_root(path).skip(1).find(|at| target.contains_key(*at)) {
            Some(file) => below(target, file).all(|(path, _)| is_commands(path)),
            None => below(target, path).next().is_some(),
        };
    let gone = changes
        .in_place
        .iter()
        .filter(|path| is_commands(path) && is_in_the_way(path));
    for path in gone.cloned().collect::<Vec<_>>() {
        plan.target.0.remove(&path);
        plan.kept.remove(&path);
    }
}

/// Leaves paths unchanged if the plan has a file where it also needs a folder.
fn no_file_is_a_folder(changes: &Changes, plan: &mut Plan) {
    loop {
        let target = &plan.target.0;
        let is_put = |path: &PathBytes| changes.now.0.get(path) != target.get(path);
        let mut wrong: BTreeMap<PathBytes, KeptWhy> = BTreeMap::new();
        for path in target.keys() {
            for above in to_root(path).skip(1) {
                if let Some((above, _)) = target.get_key_value(above) {
                    let both = [(path, KeptWhy::Way), (above, KeptWhy::Folder)];
                    let put = both.into_iter().filter(|(path, _)| is_put(path));
                    wrong.extend(put.map(|(path, why)| (path.clone(), why)));
                }
            }
        }
        if wrong.is_empty() {
            return;
        }
        for (path, why) in wrong {
            match changes.now.0.get(&path) {
                Some(item) => plan.target.0.insert(path.clone(), item.clone()),
                None => plan.target.0.remove(&path),
            };
            plan.kept.insert(path, why);
        }
    }
}

#[cfg(test)]
mod tests;
