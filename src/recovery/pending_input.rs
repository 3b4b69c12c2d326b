//! The pending input of sessions: queued messages, signals, unsent text. It is restored from the
//! rows if SQL can read them, otherwise from the journals.

use std::collections::BTreeMap;
use std::path::Path;

use super::copy::table_of_sessions;
use super::record::{WrittenSessions, keys};
use super::sessions::SessionCopies;
use super::sql::Source;
use crate::store::recovering::NewRows;
use crate::store::{StoreError, now_ms};

/// The sources of pending input.
pub(super) struct InputSources<'a> {
    /// The damaged database.
    pub source: Option<&'a Source>,
    pub sessions: &'a BTreeMap<String, SessionCopies>,
    pub journal: Option<&'a Path>,
}

pub(super) fn waiting(
    rows: &NewRows<'_>,
    made: &WrittenSessions,
    waits: &InputSources<'_>,
    torn: &mut Vec<String>,
) -> Result<(), StoreError> {
    let is_whole = match waits.source {
        Some(source) => from_rows(rows, source, waits, made)? && source.numbers().is_ok(),
        None => false,
    };
    for (id, session) in &made.keys {
        let row = waits.sessions.get(id).and_then(|known| known.row.as_ref());
        let by_rows = is_whole && row.is_some_and(|(source, _)| *source == 0);
        if let (Some(journal), false) = (waits.journal, by_rows) {
            let said = made.said.get(id).map_or(&[][..], Vec::as_slice);
            rows.waits(&journal.join(id), *session, &made.became, said)?;
        }
    }
    if !is_whole && waits.journal.is_none() {
        torn.push("queued messages, signals and unsent words may be missing".to_string());
    }
    let last = |ids: &std::collections::BTreeSet<i64>| ids.last().copied().unwrap_or(0);
    let became = [last(&made.became.taken), last(&made.became.obeyed)];
    for (table, became) in ["inbox", "signals"].into_iter().zip(became) {
        let used = match waits.source.map(Source::numbers) {
            Some(Ok(numbers)) => numbers.get(table).copied().unwrap_or(0),
            // The time in milliseconds is usually higher than any row ID.
            Some(Err(_)) | None => now_ms(),
        };
        rows.mark_ids_used(table, used.max(became))?;
    }
    rows.mark_unfinished()
}

/// Copies the pending input from rows. Returns whether all rows could be read.
fn from_rows(
    rows: &NewRows<'_>,
    source: &Source,
    waits: &InputSources<'_>,
    made: &WrittenSessions,
) -> Result<bool, StoreError> {
    let keys = keys(0, waits.sessions, made);
    // The journal may show that a message or signal already became an entry.
    let is_unsaid = |id: i64| !made.became.taken.contains(&id);
    let is_unobeyed = |id: i64| !made.became.obeyed.contains(&id);
    let inbox = table_of_sessions(rows, source, ("inbox", Some("id")), &keys, &is_unsaid)?;
    let drafts = table_of_sessions(rows, source, ("drafts", None), &keys, &|_| true)?;
    let signals = table_of_sessions(rows, source, ("signals", Some("id")), &keys, &is_unobeyed)?;
    Ok(inbox && drafts && signals)
}
