//! The sessions of a folder that are finished, as the start screen lists them.

use super::describe::{How, end_of_turn};
use super::{AppContext, SessionError};
use crate::core::text::one_line;
use crate::store::{SessionFilter, Store, StoreError};

/// Among so many sessions, the newest, finished ones are looked for.
const LOOKED_AT: u32 = 30;

/// So far back from the end of a session it is looked how it ended.
const END_ENTRIES: u64 = 10;

/// A session in which nothing is owed any more.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finished {
    pub id: String,
    /// What it is about, in one line.
    pub title: String,
    /// `done`, `stopped` or `failed`.
    pub how: &'static str,
    /// UTC, milliseconds since 1970.
    pub updated_ms: i64,
}

impl AppContext {
    /// The newest finished sessions of this folder in which something was said, but for `except`;
    /// none that another process has.
    pub fn finished(
        &self,
        store: &Store,
        except: &str,
        at_most: usize,
    ) -> Result<Vec<Finished>, SessionError> {
        let workspace = self.workspace();
        let filter = SessionFilter {
            workspace: Some(&workspace),
            ..SessionFilter::default()
        };
        let mut found = Vec::new();
        for info in store.sessions(filter, LOOKED_AT)? {
            let is_other = info.id != except && !info.unfinished && !self.is_in_use(&info.id);
            if found.len() == at_most || !is_other {
                continue;
            }
            let Some(said) = store.last_said(&info.id)? else {
                continue;
            };
            found.push(Finished {
                title: one_line(info.title.as_deref().unwrap_or(&said), 200),
                how: how(store, &info.id)?,
                updated_ms: info.updated_ms,
                id: info.id,
            });
        }
        Ok(found)
    }
}

fn how(store: &Store, session: &str) -> Result<&'static str, StoreError> {
    let mut how = How::Done;
    store.trace(session, None, END_ENTRIES, |traced| {
        how = end_of_turn(&traced.record.entry).unwrap_or(how);
        Ok::<(), StoreError>(())
    })?;
    Ok(match how {
        How::Done => "done",
        How::Stopped => "stopped",
        How::Failed => "failed",
    })
}
