//! The chain of each session, put together by tips up to the first gap.
//!
//! These entries are trusted:
//!
//! - those up to a head that SQL can read;
//! - those up to the tip of a journal line;
//! - rows that continue from there.
//!
//! The longest chain that continues the head is taken from rows, the journal or a journal that was
//! set aside. A chain that diverges from it becomes a separate session.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap, HashSet};

use super::found::{EntryIndex, Rows};
use crate::core::entry::Seq;
use crate::journal::chain_hash::ChainHash;
use crate::journal::line::Header;
use crate::store::recovering::{Purged, SessionRow, id_of_diverged, parents_first};
use crate::store::{Gap, of_header};

/// Everything that the copies have of one session.
#[derive(Default)]
pub(super) struct SessionCopies {
    /// The row, and the index of its database.
    pub row: Option<(usize, SessionRow)>,
    pub header: Option<Header>,
    /// The ends of the stretches of its journals.
    pub ends: Vec<(Seq, ChainHash)>,
    /// The same of journals that were set aside.
    pub set_aside: Vec<(Seq, ChainHash)>,
    /// Entries of these journals that come after unreadable lines.
    pub unproven: Vec<(Seq, ChainHash)>,
    /// Where it comes from, if it is of another store or another machine. It becomes a copy.
    pub source: Option<String>,
}

impl SessionCopies {
    /// Returns the value of the column `replica` for a session of rewake that is a copy.
    pub(super) fn replica(&self) -> Option<String> {
        let row = self
            .row
            .as_ref()
            .and_then(|(_, row)| row.replica.as_deref());
        let header = self.header.as_ref();
        let header = header.and_then(|header| header.source.as_deref());
        let known = self.source.as_deref().or(row).or(header);
        known.and_then(of_header)
    }
}

/// Returns the session that this one was forked from, by its row or its journal.
fn parent(sessions: &BTreeMap<String, SessionCopies>, id: &str) -> Option<String> {
    let known = sessions.get(id)?;
    if let Some(forked) = known
        .header
        .as_ref()
        .and_then(|header| header.forked.as_ref())
    {
        return Some(forked.session.clone());
    }
    let (source, row) = known.row.as_ref()?;
    let key = row.forked_from?;
    let is_it = |known: &&SessionCopies| matches!(&known.row, Some((of, row)) if of == source && row.key == key);
    let found = sessions.values().find(is_it)?;
    Some(found.row.as_ref()?.1.id.clone())
}

/// A session to be recorded.
pub(super) struct Plan {
    pub id: String,
    pub chain: Vec<ChainHash>,
    pub gap: Option<Gap>,
    /// Whether the chain has the length that the session's row names.
    pub is_as_row: bool,
    /// Whether the chain up to the head in the session's row is complete. Then no entries after the
    /// chain are missing.
    has_head: bool,
    /// The session that begins with the same entries and continues differently.
    pub other: Option<RelatedSession>,
}

/// Another session that begins with the same entries.
#[derive(Clone)]
pub(super) struct RelatedSession {
    pub session: String,
    /// Number of entries that both have.
    pub common: u64,
    /// Whether this plan is for the second session, which is made from a journal.
    pub is_second: bool,
}

/// Returns the plans for all sessions, in the order of their IDs.
pub(super) fn plans<'a>(
    found: &EntryIndex,
    sources: &[&Rows],
    sessions: &'a BTreeMap<String, SessionCopies>,
    purged: &Purged,
) -> Vec<(Plan, &'a SessionCopies)> {
    let mut plans: Vec<(Plan, &SessionCopies)> = Vec::new();
    for (id, known) in sessions {
        let of_one = plan(found, sources, id, known, &|other| {
            sessions.contains_key(other) || purged.has(other)
        });
        plans.extend(of_one.into_iter().map(|plan| (plan, known)));
    }
    lock_possibly_continued(found, sources, &mut plans);
    // A session comes before its forks, and one that diverged directly after the other.
    let order = parents_first(sessions.keys().cloned().collect(), |id| {
        parent(sessions, id)
    });
    let place: HashMap<&str, usize> = order.iter().map(String::as_str).zip(0..).collect();
    plans.sort_by_key(|(plan, _)| {
        let of_other = plan.other.as_ref().filter(|other| other.is_second);
        let id = of_other.map_or(&plan.id, |other| &other.session);
        place.get(id.as_str()).copied()
    });
    plans
}

/// The chains of a session that have no gap.
#[derive(Default)]
struct Chains {
    /// The chain up to the head that its row names, with the rows after it.
    head: Option<Vec<ChainHash>>,
    journal: Vec<Vec<ChainHash>>,
    set_aside: Vec<Vec<ChainHash>>,
    /// Sequence number of the last entry, according to the row or a journal.
    last: Seq,
    /// Sequence number of the oldest entry that is connected to the last one, if there is a gap.
    joined: Seq,
}

fn longest(chains: &[Vec<ChainHash>]) -> Option<&Vec<ChainHash>> {
    chains.iter().max_by_key(|chain| chain.len())
}

impl Chains {
    /// Collects the chains of a session. `None`: no copy has an entry of it.
    fn of(found: &EntryIndex, sources: &[&Rows], known: &SessionCopies) -> Option<Chains> {
        let mut chains = Chains::default();
        let in_journal = known.ends.iter().map(|(seq, _)| *seq).max();
        let joined = chains.add_journal(found, &known.ends, in_journal);
        // An unproven entry counts like any other if another copy proves it.
        let set_aside = known.set_aside.iter().chain(&known.unproven);
        chains.set_aside = set_aside
            .filter_map(|(_, tip)| found.chain(*tip).ok())
            .collect();
        let row = known.row.as_ref().and_then(|(source, row)| {
            let rows = sources.get(*source)?;
            Some((row, *rows, rows.tip(row.head)?))
        });
        let is_head = |(row, _, tip): &(&SessionRow, &Rows, ChainHash)| {
            found
                .get(tip)
                .is_some_and(|entry| entry.seq + 1 == row.length)
        };
        // If the head and the length of a row contradict each other, one of them is damaged.
        let is_end = |(_, _, tip): &(&SessionRow, &Rows, ChainHash)| {
            longest(&chains.journal).is_some_and(|chain| chain.last() == Some(tip))
        };
        let in_row = match &row {
            Some(row) if !is_head(row) && is_end(row) => None,
            _ => known
                .row
                .as_ref()
                .and_then(|(_, row)| row.length.checked_sub(1)),
        };
        let aside = known.set_aside.iter().map(|(seq, _)| *seq).max();
        let aside = aside.filter(|_| known.ends.is_empty() && known.row.is_none());
        chains.last = [in_journal, in_row, aside].into_iter().flatten().max()?;
        chains.joined = joined.filter(|from| *from > 0).unwrap_or(chains.last + 1);
        if let Some((row, rows, tip)) = row.filter(is_head) {
            match found.chain(tip) {
                Ok(chain) => chains.head = Some(with_rows_after(found, rows, row.key, chain)),
                Err(from) => chains.joined = chains.joined.min(from),
            }
        }
        Some(chains)
    }

    /// Adds the chains of a journal. If a gap comes before the last entry, returns the sequence
    /// number of the oldest entry that is connected to it.
    fn add_journal(
        &mut self,
        found: &EntryIndex,
        ends: &[(Seq, ChainHash)],
        last: Option<Seq>,
    ) -> Option<Seq> {
        // Newest first: a long journal has many ends, and most are inside one chain.
        let mut newest_first: Vec<_> = ends.iter().collect();
        newest_first.sort_by_key(|(seq, _)| Reverse(*seq));
        let mut joined = None;
        let mut seen: HashSet<ChainHash> = HashSet::new();
        for (seq, tip) in newest_first {
            if seen.contains(tip) {
                continue;
            }
            match found.chain(*tip) {
                Ok(chain) => {
                    seen.extend(&chain);
                    self.journal.push(chain);
                }
                Err(from) if last == Some(*seq) => joined = Some(from),
                Err(_) => {}
            }
        }
        joined
    }

    /// Returns the longest chain that continues the base. The base is the chain of the session's row,
    /// or else of its journal, or else of a journal that was set aside.
    fn best(&self) -> Option<&Vec<ChainHash>> {
        let base = self.head.as_ref();
        let base = base.or_else(|| longest(&self.journal));
        let base = base.or_else(|| longest(&self.set_aside))?;
        let continues = |chain: &&Vec<ChainHash>| chain.starts_with(base);
        self.all().filter(continues).max_by_key(|c| c.len())
    }

    fn all(&self) -> impl Iterator<Item = &Vec<ChainHash>> {
        self.head.iter().chain(&self.journal).chain(&self.set_aside)
    }

    /// Returns the chains that diverge from this one, each once.
    fn diverged_chains(&self, best: &[ChainHash]) -> Vec<&Vec<ChainHash>> {
        let mut parted: Vec<&Vec<ChainHash>> =
            self.all().filter(|c| !best.starts_with(c)).collect();
        parted.sort_by_key(|chain| Reverse(chain.len()));
        let mut ends: Vec<&Vec<ChainHash>> = Vec::new();
        for chain in parted {
            if !ends.iter().any(|longer| longer.starts_with(chain)) {
                ends.push(chain);
            }
        }
        ends
    }

    /// Returns the gap after this chain, if the session had more entries.
    fn gap(
        &self,
        found: &EntryIndex,
        id: &str,
        known: &SessionCopies,
        chain: &[ChainHash],
    ) -> Option<Gap> {
        let length = chain.len() as u64;
        let joined = self.joined.max(length + 1);
        let end = known.ends.iter().find(|(seq, _)| *seq == self.last);
        (length <= self.last).then(|| Gap {
            session: id.to_string(),
            first: length,
            last: joined.min(self.last + 1) - 1,
            behind: (self.last + 1).saturating_sub(joined),
            since_ms: at_ms(found, chain.last()),
            until_ms: end.and_then(|(_, tip)| at_ms_of(found, *tip, joined)),
            summary: None,
        })
    }
}

/// Returns the plan for the session, then one for each chain that diverges from it. Empty: no copy
/// has an entry of it.
fn plan(
    found: &EntryIndex,
    sources: &[&Rows],
    id: &str,
    known: &SessionCopies,
    is_known: &dyn Fn(&str) -> bool,
) -> Vec<Plan> {
    let Some(chains) = Chains::of(found, sources, known) else {
        return Vec::new();
    };
    let mut chain = chains.best().cloned().unwrap_or_default();
    let parted = chains.diverged_chains(&chain);
    // If the chain up to the head is complete, entries of a diverged journal are not a gap.
    let has_head = chains.head.is_some();
    let mut gap = None;
    if !has_head && chain.len() as u64 <= chains.last {
        chain = with_committed(found, sources, known, chain);
        chain = longer(chain, chain_before_gap(found, sources, known));
        gap = chains.gap(found, id, known, &chain);
    } else if !has_head {
        chain = with_committed(found, sources, known, chain);
    }
    let mut seconds: Vec<Plan> = Vec::new();
    for parted in parted {
        let Some(end) = parted.last() else { continue };
        let second = id_of_diverged(id, *end);
        if is_known(&second) {
            continue;
        }
        let same = parted.iter().zip(&chain).take_while(|(one, of)| one == of);
        seconds.push(Plan {
            id: second,
            gap: None,
            is_as_row: false,
            has_head: true,
            other: Some(RelatedSession {
                session: id.to_string(),
                common: same.count() as u64,
                is_second: true,
            }),
            chain: parted.clone(),
        });
    }
    let other = seconds.first().and_then(|second| {
        Some(RelatedSession {
            session: second.id.clone(),
            common: second.other.as_ref()?.common,
            is_second: false,
        })
    });
    let as_row = known.row.as_ref().map(|(_, row)| row.length);
    let first = Plan {
        id: id.to_string(),
        is_as_row: as_row == Some(chain.len() as u64),
        has_head,
        chain,
        gap,
        other,
    };
    std::iter::once(first).chain(seconds).collect()
}

/// Extends the chain up to a session's head with the rows after it that SQL can read. The session's
/// row is older than they are.
fn with_rows_after(
    found: &EntryIndex,
    rows: &Rows,
    session: i64,
    mut chain: Vec<ChainHash>,
) -> Vec<ChainHash> {
    while let Some(end) = chain.last()
        && let Some(next) = rows.next(found, session, chain.len() as Seq - 1, *end)
    {
        chain.push(next);
    }
    chain
}

/// Extends the chain of a journal with the rows after it that SQL can read. A power cut takes the
/// last second of the journal, or the session's head cannot be read.
fn with_committed(
    found: &EntryIndex,
    sources: &[&Rows],
    known: &SessionCopies,
    chain: Vec<ChainHash>,
) -> Vec<ChainHash> {
    if let Some((source, row)) = &known.row
        && let Some(rows) = sources.get(*source)
    {
        return with_rows_after(found, rows, row.key, chain);
    }
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

/// Locks sessions that may have continued after their journal. If neither a session's row nor that
/// of its last entry can be read, the session ends where its journal does. Rows may continue from
/// there, and it is not known whether they belong to the session or to a fork. Their actions
/// already happened, so the session gets a gap.
fn lock_possibly_continued(
    found: &EntryIndex,
    sources: &[&Rows],
    plans: &mut [(Plan, &SessionCopies)],
) {
    let is_open = |plan: &Plan| !plan.has_head && plan.gap.is_none();
    if !plans.iter().any(|(plan, _)| is_open(plan)) {
        return;
    }
    let besides = found.entries_outside(plans.iter().flat_map(|(plan, _)| &plan.chain));
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
            // An entry of another session belongs to a fork.
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

/// Returns when the entry with this sequence number was recorded, in the chain that ends with
/// `end`.
fn at_ms_of(found: &EntryIndex, end: ChainHash, seq: Seq) -> Option<i64> {
    let mut entry = found.get(&end)?;
    while entry.seq > seq {
        entry = found.get(&entry.before?)?;
    }
    Some(entry.at_ms)
}

fn at_ms(found: &EntryIndex, tip: Option<&ChainHash>) -> Option<i64> {
    tip.and_then(|tip| found.get(tip)).map(|entry| entry.at_ms)
}

/// Returns whether one session may have appended both entries. Returns false if rows prove that it
/// did not.
fn is_of_one(sources: &[&Rows], one: (Seq, ChainHash), other: (Seq, ChainHash)) -> bool {
    let key = |(seq, tip)| sources.iter().find_map(|rows| rows.session_of(seq, &tip));
    match (key(one), key(other)) {
        (Some(one), Some(other)) => one == other,
        _ => true,
    }
}

fn longer(one: Vec<ChainHash>, other: Vec<ChainHash>) -> Vec<ChainHash> {
    if other.len() > one.len() { other } else { one }
}

/// Returns the entries before a gap, from the rows of the session. They end where two rows have the
/// same sequence number, since nothing shows which one was recorded.
fn chain_before_gap(
    found: &EntryIndex,
    sources: &[&Rows],
    known: &SessionCopies,
) -> Vec<ChainHash> {
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
