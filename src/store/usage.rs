//! Requests to models, read from the log for sums over all sessions.
//!
//! Entries have no index for this: all rows are visited once, in their order. Only the bodies of
//! entries with a request are read, and of these only the usage.

use rusqlite::params;
use serde::Deserialize;

use super::error::Doing;
use super::row::BodyReader;
use super::{History, StoreError};
use crate::core::entry::{Spent, Usage};

const WHAT: &str = "read what models were asked for";

/// SQL for the kinds of entries that record usage: see [`crate::core::entry::Entry::spent`].
const ASKED: &str = "SELECT s.key, s.workspace, e.at_ms, e.body
FROM entries e CROSS JOIN sessions s ON s.key = e.session
WHERE e.kind IN ('replied', 'closed', 'continued', 'titled') AND e.at_ms >= ?1
  AND (?2 IS NULL OR s.workspace = ?2)";

/// A request to a model.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ModelRequest<'a> {
    /// A number that identifies the session within this store. Entries that a fork shares count
    /// once, for the session that recorded them.
    pub session: i64,
    pub workspace: &'a str,
    /// UTC, milliseconds since 1970.
    pub at_ms: i64,
    /// `provider/model`.
    pub model: &'a str,
    pub usage: &'a Usage,
}

/// The usage of an entry. Other fields are skipped.
#[derive(Deserialize)]
struct Spending {
    model: Option<String>,
    usage: Option<Usage>,
    #[serde(default)]
    spent: Vec<Spent>,
}

impl History<'_> {
    /// Calls `each` for every request to a model since `since_ms`, in the sessions of this
    /// workspace or in all. Sessions in the trash count, since they were paid for. Returns the
    /// number of entries that could not be read.
    pub fn each_asked(
        &self,
        since_ms: i64,
        workspace: Option<&str>,
        mut each: impl FnMut(ModelRequest<'_>),
    ) -> Result<u64, StoreError> {
        let mut bodies = BodyReader::new()?;
        let mut unreadable = 0;
        let mut read = || -> rusqlite::Result<()> {
            let mut statement = self.conn.prepare_cached(ASKED)?;
            let mut rows = statement.query(params![since_ms, workspace])?;
            while let Some(row) = rows.next()? {
                let Ok(spending) = bodies.read_as::<Spending>(row.get_ref(3)?) else {
                    unreadable += 1;
                    continue;
                };
                let workspace: String = row.get(1)?;
                let (session, at_ms) = (row.get(0)?, row.get(2)?);
                let answer = spending.model.as_ref().zip(spending.usage.as_ref());
                let besides = spending.spent.iter().map(|s| (&s.model, &s.usage));
                for (model, usage) in answer.into_iter().chain(besides) {
                    each(ModelRequest {
                        session,
                        workspace: &workspace,
                        at_ms,
                        model,
                        usage,
                    });
                }
            }
            Ok(())
        };
        read().doing(WHAT)?;
        Ok(unreadable)
    }
}
