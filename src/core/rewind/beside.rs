//! What somebody else made of a path and a call took away: where it does not fit into what the path
//! was, it lies beside it, as `NAME.rewake-kept`. A file that a command renamed is followed: its new
//! name goes when its old one is back.
//!
//! Invariant: a name goes only when all that others made of the file is at the old name or beside it.

use std::collections::BTreeSet;

use super::changes::{By, Chain, Changes, ENDING};
use super::{Merge, Plan, three_way};
use crate::core::entry::KeptWhy;
use crate::core::tree::{Item, PathBytes};

/// So many names beside a path are tried.
const MAX_NAMES: usize = 100;

/// What others made of a path, when none of it is in what lies there now: it was removed, or is what
/// it was before they changed it. `None`: it may be in there.
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

/// The changes of others without one of a call between them: from what, and to what.
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

/// Gives each of these a name beside the path. One that has such a name already gets no other.
pub(super) fn lay(
    changes: &Changes,
    path: &PathBytes,
    others: Vec<Item>,
    plan: &mut Plan,
) -> Result<(), KeptWhy> {
    for item in others {
        let name = (0..MAX_NAMES)
            .map(|number| beside(path, number))
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

fn beside(path: &[u8], number: usize) -> PathBytes {
    let number = match number {
        0 => String::new(),
        number => format!("-{number}"),
    };
    [path, ENDING, number.as_bytes()].concat()
}

/// Removes the new name of what a command renamed, where the old name is back. Returns those names.
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

/// Leaves the new name that was taken back, where the old name cannot come back after all: a folder
/// lies there. Returns whether there was one.
pub(super) fn leave_moves(changes: &Changes, taken: &BTreeSet<PathBytes>, plan: &mut Plan) -> bool {
    let mut is_any = false;
    let moved = changes.moved.iter().filter(|(to, _)| taken.contains(*to));
    for (to, from) in moved {
        let Some(item) = changes.now.0.get(to) else {
            continue;
        };
        if !plan.target.0.contains_key(to) && !plan.target.0.contains_key(from) {
            plan.target.0.insert(to.clone(), item.clone());
            plan.kept.insert(to.clone(), KeptWhy::Conflict);
            is_any = true;
        }
    }
    is_any
}
