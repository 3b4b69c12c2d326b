//! Each session, put together of what was found: its chain by tips, as far as it goes without a
//! gap.
//!
//! What is believed: an entry under the head of a session that SQL can read, or under the tip of
//! a line of its journal. The head is gone on from where the journal continues it; where both
//! went on, the head stays, and the journal's own is left to who opens the session next.

use std::collections::{BTreeMap, BTreeSet};

use super::found::{Found, Rows};
use super::sql::SessionRow;
use crate::core::entry::Seq;
use crate::journal::line::Header;
use crate::journal::tip::Tip;
use crate::store::missing::Gap;

/// All that the copies say of one session.
#[derive(Default)]
pub(super) struct Known {
    /// With the number of the database that it is in.
    pub row: Option<(usize, SessionRow)>,
    pub header: Option<Header>,
    /// Of the stretches of its journals.
    pub ends: Vec<(Seq, Tip)>,
}

/// What is made of a session.
pub(super) struct Plan {
    pub id: String,
    pub chain: Vec<Tip>,
    pub gap: Option<Gap>,
    /// The chain ends where the row of the session says it does.
    pub is_as_row: bool,
    /// The row of the session says where it ended, so nothing was recorded behind it.
    has_head: bool,
}

/// What is made of each session, by their ids.
pub(super) fn plans<'a>(
    found: &Found,
    sources: &[&Rows],
    sessions: &'a BTreeMap<String, Known>,
) -> Vec<(Plan, &'a Known)> {
    let mut plans: Vec<(Plan, &Known)> = Vec::new();
    for (id, known) in sessions {
        plans.extend(plan(found, sources, id, known).map(|plan| (plan, known)));
    }
    hold_what_went_on(found, sources, &mut plans);
    plans
}

/// `None`: nothing says that it had an entry.
fn plan(found: &Found, sources: &[&Rows], id: &str, known: &Known) -> Option<Plan> {
    let head = known
        .row
        .as_ref()
        .and_then(|(source, row)| Some((row, sources.get(*source)?.tip(row.head)?)));
    let head = head.filter(|(row, tip)| {
        found
            .get(tip)
            .is_some_and(|entry| entry.seq + 1 == row.length)
    });
    let head = head.map(|(_, tip)| tip);
    let mut ends: BTreeSet<Seq> = known.ends.iter().map(|(seq, _)| *seq).collect();
    ends.extend(
        known
            .row
            .as_ref()
            .and_then(|(_, row)| row.length.checked_sub(1)),
    );
    let last = *ends.last()?;
    let mut whole: Vec<Vec<Tip>> = Vec::new();
    let (mut joined, mut is_head_whole) = (last + 1, false);
    if let Some(tip) = head {
        match found.chain(tip) {
            Ok(chain) => {
                is_head_whole = true;
                whole.push(chain);
            }
            Err(from) => joined = joined.min(from),
        }
    }
    for (seq, tip) in &known.ends {
        match found.chain(*tip) {
            Ok(chain) => whole.push(chain),
            Err(from) if *seq == last => joined = joined.min(from),
            Err(_) => {}
        }
    }
    let on_head = |chain: &Vec<Tip>| !is_head_whole || head.is_none_or(|tip| chain.contains(&tip));
    let best = whole
        .iter()
        .filter(|chain| on_head(chain))
        .max_by_key(|chain| chain.len());
    let mut chain = best.cloned().unwrap_or_default();
    // Where the head is whole, what the journal has more of another way is no gap.
    let is_whole = is_head_whole || chain.len() as u64 == last + 1;
    if !is_whole {
        chain = longer(chain, before_the_gap(found, sources, known));
    }
    let length = chain.len() as u64;
    let gap = (!is_whole && length <= last).then(|| Gap {
        session: id.to_string(),
        first: length,
        last: joined.max(length + 1).min(last + 1) - 1,
        behind: (last + 1).saturating_sub(joined.max(length + 1)),
        since_ms: at_ms(found, chain.last()),
        until_ms: known
            .ends
            .iter()
            .filter(|(seq, _)| *seq == last)
            .find_map(|(_, tip)| at_ms_of(found, *tip, joined.max(length + 1))),
        summary: None,
    });
    let as_row = known.row.as_ref().map(|(_, row)| row.length);
    Some(Plan {
        id: id.to_string(),
        is_as_row: as_row == Some(length),
        has_head: is_head_whole,
        chain,
        gap,
    })
}

/// A session whose row cannot be read ends where its journal does. A power cut takes the last
/// second of that, and of the mark: rows that go on from there say that there was more. They are
/// not believed, and what they did is done, so the session is held.
fn hold_what_went_on(found: &Found, sources: &[&Rows], plans: &mut [(Plan, &Known)]) {
    let is_open = |plan: &Plan| !plan.has_head && plan.gap.is_none();
    if !plans.iter().any(|(plan, _)| is_open(plan)) {
        return;
    }
    let besides = found.besides(plans.iter().flat_map(|(plan, _)| &plan.chain));
    if besides.is_empty() {
        return;
    }
    for (plan, _) in plans.iter_mut().filter(|(plan, _)| is_open(plan)) {
        let length = plan.chain.len() as u64;
        let Some(end) = plan.chain.last() else {
            continue;
        };
        let (mut tip, mut last) = (*end, None);
        while let Some((seq, next)) = besides.get(&tip).and_then(|all| {
            // What another session begins with is a fork.
            let mut own = all
                .iter()
                .filter(|(_, next)| is_of_one(sources, &tip, next));
            own.next()
        }) {
            (tip, last) = (*next, Some(*seq));
        }
        plan.gap = last.map(|last| Gap {
            session: plan.id.clone(),
            first: length,
            last,
            behind: 0,
            since_ms: at_ms(found, plan.chain.last()),
            until_ms: at_ms(found, Some(&tip)),
            summary: None,
        });
    }
}

/// When the entry at this place was recorded, of a chain that ends with this tip.
fn at_ms_of(found: &Found, end: Tip, seq: Seq) -> Option<i64> {
    let mut entry = found.get(&end)?;
    while entry.seq > seq {
        entry = found.get(&entry.before?)?;
    }
    Some(entry.at_ms)
}

fn at_ms(found: &Found, tip: Option<&Tip>) -> Option<i64> {
    tip.and_then(|tip| found.get(tip)).map(|entry| entry.at_ms)
}

/// Whether these two may have been appended by one session: false where rows say that they were
/// not.
fn is_of_one(sources: &[&Rows], one: &Tip, other: &Tip) -> bool {
    let key = |tip| sources.iter().find_map(|rows| rows.session_of(tip));
    match (key(one), key(other)) {
        (Some(one), Some(other)) => one == other,
        _ => true,
    }
}

fn longer(one: Vec<Tip>, other: Vec<Tip>) -> Vec<Tip> {
    match other.len() > one.len() {
        true => other,
        false => one,
    }
}

/// The entries before a gap, from the rows of the session: one at each place, or it ends there,
/// for nothing says which of two was recorded.
fn before_the_gap(found: &Found, sources: &[&Rows], known: &Known) -> Vec<Tip> {
    let Some((source, row)) = &known.row else {
        return Vec::new();
    };
    let Some(rows) = sources.get(*source) else {
        return Vec::new();
    };
    let own = rows.own.range((row.key, 0)..(row.key, row.length));
    let mut best = None;
    let mut next = None;
    for ((_, seq), tips) in own {
        let [tip] = tips[..] else {
            break;
        };
        if next.is_some_and(|next| next != *seq) {
            break;
        }
        next = Some(seq + 1);
        best = Some(tip);
    }
    best.and_then(|tip| found.chain(tip).ok())
        .unwrap_or_default()
}
