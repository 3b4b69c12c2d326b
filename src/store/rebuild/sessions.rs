//! Each session, put together of what was found: its chain by tips, as far as it goes without a
//! gap, and recorded anew.
//!
//! What is believed: an entry under the head of a session that SQL can read, or under the tip of
//! a line of its journal. The head is gone on from where the journal continues it; where both
//! went on, the head stays, and the journal's own is left to who opens the session next.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use rusqlite::{Transaction, params};
use serde_json::value::RawValue;

use super::WHAT;
use super::found::{Found, Rows};
use super::progress::Progress;
use super::sql::SessionRow;
use crate::core::entry::Seq;
use crate::core::text::count;
use crate::lines::line::{EntryLine, Header};
use crate::lines::tip::Tip;
use crate::store::StoreError;
use crate::store::append::Prepared;
use crate::store::error::Doing;
use crate::store::head::Head;
use crate::store::missing::Gap;
use crate::store::row::int;
use crate::store::waiting::{Became, Said, may_have_waited};

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
struct Plan {
    id: String,
    chain: Vec<Tip>,
    gap: Option<Gap>,
    /// The chain ends where the row of the session says it does.
    is_as_row: bool,
    /// The row of the session says where it ended, so nothing was recorded behind it.
    has_head: bool,
}

/// What was recorded anew.
#[derive(Default)]
pub(super) struct Made {
    pub entries: u64,
    pub from_journal: u64,
    /// The row key and the length of each.
    pub keys: BTreeMap<String, (i64, u64)>,
    pub gaps: Vec<Gap>,
    /// Messages and signals that became entries, and for each session those entries of which no
    /// line says which message or signal they were.
    pub became: Became,
    pub said: BTreeMap<String, Vec<Said>>,
    /// The row of each entry.
    rows: HashMap<Tip, i64>,
}

/// By their ids, so that what a fork goes on from comes before it.
pub(super) fn make(
    tx: &Transaction<'_>,
    found: &mut Found,
    sources: &[&Rows],
    sessions: &BTreeMap<String, Known>,
    progress: &mut Progress<'_>,
) -> Result<Made, StoreError> {
    let mut made = Made::default();
    let mut plans: Vec<(Plan, &Known)> = Vec::new();
    for (id, known) in sessions {
        plans.extend(plan(found, sources, id, known).map(|plan| (plan, known)));
    }
    hold_what_went_on(found, sources, &mut plans);
    for (plan, known) in plans {
        made.gaps.extend(plan.gap.clone());
        if plan.chain.is_empty() {
            continue;
        }
        let begin = begin(known, &plan, sessions, &made);
        let head = record(tx, found, known, &plan, begin, &mut made, progress)?;
        if let Some((_, row)) = &known.row {
            set_as_before(tx, row, &head, plan.is_as_row)?;
        }
        made.keys.insert(plan.id, (head.key, head.length));
    }
    Ok(made)
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

/// What a session begins with: the session that it was forked from, and the last entry of both.
struct Begin {
    from: Option<(i64, Seq)>,
    row: Option<i64>,
}

fn begin(known: &Known, plan: &Plan, sessions: &BTreeMap<String, Known>, made: &Made) -> Begin {
    let alone = Begin {
        from: None,
        row: None,
    };
    let by_row = known.row.as_ref().and_then(|(source, row)| {
        let (key, seq) = (row.forked_from?, row.forked_seq?);
        let is_it = |other: &&Known| {
            matches!(&other.row, Some((of, other)) if of == source && other.key == key)
        };
        let (_, parent) = sessions.values().find(is_it)?.row.as_ref()?;
        Some((parent.id.clone(), u64::try_from(seq).ok()?))
    });
    let by_header = || {
        let forked = known.header.as_ref()?.forked.as_ref()?;
        Some((forked.session.clone(), forked.seq))
    };
    let Some((parent, seq)) = by_row.or_else(by_header) else {
        return alone;
    };
    let tip = usize::try_from(seq)
        .ok()
        .and_then(|seq| plan.chain.get(seq));
    let row = tip.and_then(|tip| made.rows.get(tip));
    match (made.keys.get(&parent), row) {
        (Some((key, _)), Some(row)) => Begin {
            from: Some((*key, seq)),
            row: Some(*row),
        },
        // Nobody else has its beginning: it is its own now.
        _ => alone,
    }
}

fn record(
    tx: &Transaction<'_>,
    found: &mut Found,
    known: &Known,
    plan: &Plan,
    begin: Begin,
    made: &mut Made,
    progress: &mut Progress<'_>,
) -> Result<Head, StoreError> {
    let mut head = Head::before_first(plan.id.clone(), 0);
    if let Some((_, seq)) = begin.from {
        head.row = begin.row;
        head.length = seq + 1;
        head.tip = usize::try_from(seq)
            .ok()
            .and_then(|seq| plan.chain.get(seq).copied())
            .unwrap_or(head.tip);
    }
    let row = known.row.as_ref().map(|(_, row)| row);
    let header = known.header.as_ref();
    let of =
        |row: Option<&String>, header: Option<&String>| row.or(header).cloned().unwrap_or_default();
    tx.execute(
        "INSERT INTO sessions (id, workspace, folder, head, length, forked_from, forked_seq,
           created_ms, updated_ms)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?8)",
        params![
            plan.id,
            of(row.map(|r| &r.workspace), header.map(|h| &h.workspace)),
            of(row.map(|r| &r.folder), header.map(|h| &h.folder)),
            head.row.unwrap_or(0),
            int(head.length),
            begin.from.map(|(key, _)| key),
            begin.from.map(|(_, seq)| int(seq)),
            row.map(|r| r.created_ms)
                .or(header.map(|h| h.created_ms))
                .unwrap_or(0),
        ],
    )
    .doing(WHAT)?;
    head.key = tx.last_insert_rowid();
    let own = usize::try_from(head.length).unwrap_or(usize::MAX);
    for tip in plan.chain.iter().skip(own) {
        let Some(entry) = found.get(tip).copied() else {
            return Err(StoreError::damaged("an entry that was found is gone"));
        };
        let json = found.json(&entry)?;
        let line = EntryLine {
            seq: entry.seq,
            at_ms: entry.at_ms,
            tip: *tip,
            taken: entry.taken,
            signal: entry.signal,
            owed: entry.owed,
            entry: RawValue::from_string(json).doing(WHAT)?,
        };
        Prepared::of_line(&line)?.record(tx, &mut head, line.at_ms, line.owed)?;
        if head.tip != *tip {
            return Err(StoreError::damaged(format!(
                "entry {} of session {} does not follow",
                line.seq, plan.id
            )));
        }
        if let Some(row) = head.row {
            made.rows.entry(*tip).or_insert(row);
        }
        made.entries += 1;
        made.became.note(&line);
        progress.so_far(|| count(made.entries, "entry"));
        if let Some(said) = may_have_waited(&line) {
            made.said.entry(plan.id.clone()).or_default().push(said);
        }
        made.from_journal += u64::from(!entry.in_row);
    }
    Ok(head)
}

/// What lists show. Where entries were put behind the head, they say it better.
fn set_as_before(
    tx: &Transaction<'_>,
    row: &SessionRow,
    head: &Head,
    is_as_row: bool,
) -> Result<(), StoreError> {
    if !is_as_row {
        return tx
            .execute(
                "UPDATE sessions SET title = coalesce(title, ?2), version = coalesce(version, ?3),
                   model = coalesce(model, ?4) WHERE key = ?1",
                params![head.key, row.title, row.version, row.model],
            )
            .doing(WHAT)
            .map(drop);
    }
    let [input, cached, cache_written, output, bytes] = row.sums;
    tx.execute(
        "UPDATE sessions SET title = ?2, version = ?3, model = ?4, unfinished = ?5, input = ?6,
           cached = ?7, cache_written = ?8, output = ?9, bytes = ?10, trashed_ms = ?11,
           updated_ms = ?12, billed = ?13, asks = ?14 WHERE key = ?1",
        params![
            head.key,
            row.title,
            row.version,
            row.model,
            row.unfinished,
            input,
            cached,
            cache_written,
            output,
            bytes,
            row.trashed_ms,
            row.updated_ms,
            row.billed,
            row.asks
        ],
    )
    .doing(WHAT)
    .map(drop)
}
