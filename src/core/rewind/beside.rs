//! Content of others that a call removed. If it cannot be merged into the restored file, it is put
//! beside it, as `NAME.rewake-kept`. A file that a command renamed is followed: its new name is
//! removed when the old one is back.
//!
//! Invariant: a name is removed only if everything that others made of the file is at the old name
//! or beside it.

use std::collections::BTreeSet;

use super::changes::{By, Chain, Changes, ENDING};
use super::{Merge, Plan, three_way};
use crate::core::entry::KeptWhy;
use crate::core::tree::{Item, PathBytes};

/// Maximum number of names that are tried beside a path.
const MAX_NAMES: usize = 100;

/// Returns the contents that others made of a path, if the current content has none of them: the
/// file was removed, or has the content from before their changes. `None`: it may have some.
pub(super) fn gone(chain: &Chain, by: &[By], merge: &mut Merge<'_>) -> Option<Vec<Item>> {
    let last = by.iter().rposition(|by| *by == By::Outside)?;
    chain.links.get(last)?.to.as_ref()?;
    let mut earlier =
        std::iter::once(&chain.start).chain(chain.links.iter().take(last).map(|link| &link.to));
    let now = chain.now();
    if now.is_some() && !earlier.any(|item| item.as_ref() == now) {
        return None;
    }
    let mut others: Vec<Item> = Vec::new();
    for (was, to) in runs(chain, by).into_iter().rev() {
        let Some(item @ (Item::File { .. } | Item::Link { .. })) = to else {
            continue;
        };
        let mut is_in = |other: &Item| {
            let other = Some(other.clone());
            other == *to || three_way(was, to, &other, merge) == Some(other)
        };
        let is_there = Some(item) == now || Some(item) == chain.start.as_ref();
        if !is_there && !others.iter().any(&mut is_in) {
            others.push(item.clone());
        }
    }
    Some(others)
}

/// Groups the changes of others without a call between them: the states before and after each
/// group.
fn runs<'a>(chain: &'a Chain, by: &[By]) -> Vec<(&'a Option<Item>, &'a Option<Item>)> {
    let mut runs: Vec<(&Option<Item>, &Option<Item>)> = Vec::new();
    let mut was = &chain.start;
    let mut before = None;
    for (link, by) in chain.links.iter().zip(by) {
        match runs.last_mut() {
            Some(run) if *by == By::Outside && before == Some(By::Outside) => run.1 = &link.to,
            _ if *by == By::Outside => runs.push((was, &link.to)),
            _ => {}
        }
        was = &link.to;
        before = Some(*by);
    }
    runs
}

/// Gives each of these a name beside the path. Content that is already there gets no second name.
pub(super) fn name_copies(
    changes: &Changes,
    path: &PathBytes,
    others: Vec<Item>,
    plan: &mut Plan,
) -> Result<(), KeptWhy> {
    for item in others {
        let name = (0..MAX_NAMES)
            .map(|number| copy_name(path, number))
            .find(|name| {
                let lies = changes.now.0.get(name).or(plan.target.0.get(name));
                lies.is_none_or(|lies| *lies == item)
            });
        let name = name.ok_or(KeptWhy::Conflict)?;
        plan.target.0.insert(name.clone(), item);
        plan.fixed.insert(name.clone());
        plan.beside.insert(name);
    }
    Ok(())
}

fn copy_name(path: &[u8], number: usize) -> PathBytes {
    let number = match number {
        0 => String::new(),
        number => format!("-{number}"),
    };
    [path, ENDING, number.as_bytes()].concat()
}

/// Removes the new names of renamed files whose old names are back. Returns the removed names.
pub(super) fn take_back_moves(changes: &Changes, plan: &mut Plan) -> BTreeSet<PathBytes> {
    let mut taken = BTreeSet::new();
    for (to, from) in &changes.moved {
        let Some(chain) = changes.chains.get(to) else {
            continue;
        };
        let is_ours = chain.start.is_none()
            && plan.kept.get(to) == Some(&KeptWhy::Command)
            && chain.links.iter().all(|link| link.by != By::Outside);
        let is_back = !changes.now.0.contains_key(from)
            && plan.target.0.contains_key(from)
            && !plan.kept.contains_key(from);
        if is_ours && is_back {
            plan.kept.remove(to);
            plan.target.0.remove(to);
            taken.insert(to.clone());
        }
    }
    taken
}

/// Keeps the new name after all if the old name cannot come back because a folder is there. Returns
/// whether there was such a name.
pub(super) fn keep_new_names(
    changes: &Changes,
    taken: &BTreeSet<PathBytes>,
    plan: &mut Plan,
) -> bool {
    let mut is_any = false;
    let moved = changes.moved.iter().filter(|(to, _)| taken.contains(*to));
    for (to, from) in moved {
        let Some(item) = changes.now.0.get(to) else {
            continue;
        };
        if !plan.target.0.contains_key(to) && !plan.target.0.contains_key(from) {
            plan.target.0.insert(to.clone(), item.clone());
            plan.kept.insert(to.clone(), KeptWhy::Command);
            is_any = true;
        }
    }
    is_any
}
