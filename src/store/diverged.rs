//! A second session that is made from a diverged journal: the database continues the first session
//! differently.

use rusqlite::Transaction;

use super::StoreError;
use super::append::{Prepared, WHAT_BROUGHT as WHAT};
use super::clock::now_ms;
use super::error::Doing;
use super::head::Head;
use crate::core::entry::{Entry, ForkPoint, Seq};

/// Adds to the title that this session was made from a journal.
pub(super) fn add_diverged_title(tx: &Transaction<'_>, key: i64) -> Result<(), StoreError> {
    let sql = "UPDATE sessions SET title = coalesce(title, '') || ' (as its journal has it)'
       WHERE key = ?1";
    tx.execute(sql, [key]).doing(WHAT).map(drop)
}

/// Appends `Forked`, which closes all open calls. The other session may have run them, so neither
/// session runs them again.
pub(super) fn close_calls(
    tx: &Transaction<'_>,
    head: &mut Head,
    other: &str,
    seq: Seq,
) -> Result<(), StoreError> {
    let from = ForkPoint {
        session: other.to_string(),
        seq,
    };
    let unfinished: bool = tx
        .query_row(
            "SELECT unfinished <> 0 FROM sessions WHERE key = ?1",
            [head.key],
            |row| row.get(0),
        )
        .doing(WHAT)?;
    let forked = [Entry::Forked { from, folder: None }];
    Prepared::new(&forked, &[])?.put(tx, head, now_ms(), unfinished)
}
