//! Each session, put together of what was found: its chain by tips, as far as it goes without a
//! gap.
//!
//! What is believed: an entry under the head of a session that SQL can read, or under the tip of
//! a line of its journal, and rows that continue from there. The longest chain that continues the head is taken, whatever has it:
//! rows, the journal, or a journal that was set aside. Where another chain parts from it, that
//! becomes a session of its own.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashSet};

use super::found::{Found, Rows};
use super::sql::SessionRow;
use crate::core::entry::Seq;
use crate::journal::line::Header;
use crate::journal::tip::Tip;
use crate::store::ids::id_of_parted;
use crate::store::missing::Gap;
use crate::store::purge::Purged;

/// All that the copies say of one session.
#[derive(Default)]
pub(super) struct Known {
    /// With the number of the database that it is in.
    pub row: Option<(usize, SessionRow)>,
    pub header: Option<Header>,
    /// Of the stretches of its journals.
    pub ends: Vec<(Seq, Tip)>,
    /// The same of journals that were set aside.
    pub set_aside: Vec<(Seq, Tip)>,
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
    /// The session that continues a part of it differently.
    pub other: Option<Other>,
}

/// Another session that begins with the same entries.
#[derive(Clone)]
pub(super) struct Other {
    pub session: String,
    /// How many entries they have in common.
    pub common: u64,
    /// The plan is for the second of them, which is made from a journal.
    pub is_second: bool,
}

/// What is made of each session, by their ids.
pub(super) fn plans<'a>(
    found: &Found,
    sources: &[&Rows],
    sessions: &'a BTreeMap<String, Known>,
    purged: &Purged,
) -> Vec<(Plan, &'a Known)> {
    let mut plans: Vec<(Plan, &Known)> = Vec::new();
    for (id, known) in sessions {
        let of_one = plan(found, sources, id, known, &|other| {
            sessions.contains_key(other) || purged.has(other)
        });
        plans.extend(of_one.into_iter().map(|plan| (plan, known)));
    }
    hold_what_went_on(found, sources, &mut plans);
    plans
}

/// The chains of a session that have no gap.
#[derive(Default)]
struct Whole {
    /// Up to the head that its row names.
    head: Option<Vec<Tip>>,
    journal: Vec<Vec<Tip>>,
    set_aside: Vec<Vec<Tip>>,
    /// The place of the oldest entry that is joined to the last one, where there is a gap.
    joined: Seq,
}

fn longest(chains: &[Vec<Tip>]) -> Option<&Vec<Tip>> {
    chains.iter().max_by_key(|chain| chain.len())
}

impl Whole {
    /// Returns the longest chain that continues the session's row, else its journal, else a journal
    /// that was set aside.
    fn best(&self) -> Option<&Vec<Tip>> {
        let base = self.head.as_ref();
        let base = base.or_else(|| longest(&self.journal));
        let base = base.or_else(|| longest(&self.set_aside))?;
        let continues = |chain: &&Vec<Tip>| chain.starts_with(base);
        self.all().filter(continues).max_by_key(|c| c.len())
    }

    fn all(&self) -> impl Iterator<Item = &Vec<Tip>> {
        self.head.iter().chain(&self.journal).chain(&self.set_aside)
    }

    /// The chains that part from this one, each once.
    fn parted(&self, best: &[Tip]) -> Vec<&Vec<Tip>> {
        let mut parted: Vec<&Vec<Tip>> = self.all().filter(|c| !best.starts_with(c)).collect();
        parted.sort_by_key(|chain| Reverse(chain.len()));
        let mut ends: Vec<&Vec<Tip>> = Vec::new();
        for chain in parted {
            if !ends.iter().any(|longer| longer.starts_with(chain)) {
                ends.push(chain);
            }
        }
        ends
    }
}

/// Returns the plan for the session, then one for each chain that parts from it. Empty: no copy
/// has an entry of it.
fn plan(
    found: &Found,
    sources: &[&Rows],
    id: &str,
    known: &Known,
    is_known: &dyn Fn(&str) -> bool,
) -> Vec<Plan> {
    let row = known.row.as_ref().and_then(|(source, row)| {
        let rows = sources.get(*source)?;
        Some((row, rows, rows.tip(row.head)?))
    });
    let is_head = |(row, _, tip): &(&SessionRow, _, Tip)| {
        found
            .get(tip)
            .is_some_and(|entry| entry.seq + 1 == row.length)
    };
    let mut ends: BTreeSet<Seq> = known.ends.iter().map(|(seq, _)| *seq).collect();
    if known.ends.is_empty() && known.row.is_none() {
        ends.extend(known.set_aside.iter().map(|(seq, _)| *seq));
    }
    let mut whole = Whole::default();
    // Newest first: a long journal has many ends, and most are inside one chain.
    let mut newest_first: Vec<_> = known.ends.iter().collect();
    newest_first.sort_by_key(|(seq, _)| Reverse(*seq));
    let mut seen: HashSet<Tip> = HashSet::new();
    for (seq, tip) in newest_first {
        if seen.contains(tip) {
            continue;
        }
        match found.chain(*tip) {
            Ok(chain) => {
                seen.extend(&chain);
                whole.journal.push(chain);
            }
            Err(from) if ends.last() == Some(seq) => whole.joined = from,
            Err(_) => {}
        }
    }
    let set_aside = known.set_aside.iter();
    whole.set_aside = set_aside
        .filter_map(|(_, tip)| found.chain(*tip).ok())
        .collect();
    // If the head and the length of a row contradict each other, one of them is damaged.
    let is_end = |(_, _, tip): &(_, _, Tip)| {
        longest(&whole.journal).is_some_and(|chain| chain.last() == Some(tip))
    };
    if !row.is_some_and(|row| !is_head(&row) && is_end(&row)) {
        let row = known.row.as_ref();
        ends.extend(row.and_then(|(_, row)| row.length.checked_sub(1)));
    }
    let Some(last) = ends.last().copied() else {
        return Vec::new();
    };
    if whole.joined == 0 {
        whole.joined = last + 1;
    }
    if let Some((row, rows, tip)) = row.filter(is_head) {
        match found.chain(tip) {
            Ok(chain) => whole.head = Some(with_rows_after(found, rows, row.key, chain)),
            Err(from) => whole.joined = whole.joined.min(from),
        }
    }
    let mut chain = whole.best().cloned().unwrap_or_default();
    let parted = whole.parted(&chain);
    let joined = whole.joined;
    // Where the head is whole, what the journal has more of another way is no gap.
    let has_head = whole.head.is_some();
    let is_whole = has_head || chain.len() as u64 > last;
    if !is_whole {
        chain = longer(chain, before_the_gap(found, sources, known));
    } else if !has_head {
        chain = with_committed(found, sources, known, chain);
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
    let mut plans = Vec::new();
    let mut other = None;
    for parted in parted {
        let Some(end) = parted.last() else { continue };
        let second = id_of_parted(id, *end);
        if is_known(&second) {
            continue;
        }
        let same = parted.iter().zip(&chain).take_while(|(one, of)| one == of);
        let common = same.count() as u64;
        other.get_or_insert_with(|| Other {
            session: second.clone(),
            common,
            is_second: false,
        });
        plans.push(Plan {
            id: second,
            chain: parted.clone(),
            gap: None,
            is_as_row: false,
            has_head: true,
            other: Some(Other {
                session: id.to_string(),
                common,
                is_second: true,
            }),
        });
    }
    let first = Plan {
        id: id.to_string(),
        is_as_row: as_row == Some(length),
        has_head,
        chain,
        gap,
        other,
    };
    plans.insert(0, first);
    plans
}

/// The chain up to the head of a session, and the rows after it that SQL can read: its row is
/// older than they are.
fn with_rows_after(found: &Found, rows: &Rows, session: i64, mut chain: Vec<Tip>) -> Vec<Tip> {
    while let Some(end) = chain.last()
        && let Some(next) = rows.next(found, session, chain.len() as Seq - 1, *end)
    {
        chain.push(next);
    }
    chain
}

/// The chain of a journal and the rows after it that SQL can read. A power cut takes the last second
/// of the journal, and the row of the session cannot be read.
fn with_committed(found: &Found, sources: &[&Rows], known: &Known, chain: Vec<Tip>) -> Vec<Tip> {
    let own = known.header.as_ref().map_or(0, |header| header.first);
    let Some(end) = chain.last().filter(|_| chain.len() as u64 > own) else {
        return chain;
    };
    let seq = chain.len() as Seq - 1;
    for rows in sources {
        if let Some(session) = rows.session_of(seq, end) {
            return with_rows_after(found, rows, session, chain);
        }
    }
    chain
}

/// A session ends where its journal does if neither its row nor that of its last entry can be read.
/// If rows continue from there, it is not known whether they are of this session or of a fork. What
/// they did is done, so the session is held.
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
                .filter(|next| is_of_one(sources, (next.0 - 1, tip), **next));
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
fn is_of_one(sources: &[&Rows], one: (Seq, Tip), other: (Seq, Tip)) -> bool {
    let key = |(seq, tip)| sources.iter().find_map(|rows| rows.session_of(seq, &tip));
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
