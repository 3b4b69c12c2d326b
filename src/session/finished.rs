//! The sessions of a folder that are finished, as the start screen lists them.

use super::{AppContext, GLANCE_ENTRIES, SessionError, Standing, glance};
use crate::core::marks::title_line;
use crate::store::{SessionFilter, Store};

/// Among so many sessions, the newest, finished ones are looked for.
const LOOKED_AT: u32 = 30;

/// A session in which nothing is owed any more.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finished {
    pub id: String,
    /// Its name in lists, in one line.
    pub title: String,
    /// How it ended, in one word.
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
            let is_other = info.id != except && !info.unfinished;
            if found.len() == at_most || !is_other {
                continue;
            }
            let glance = glance(store, &info, GLANCE_ENTRIES);
            if !glance.is_of_something() {
                continue;
            }
            let Standing::Ended(ending) = self.standing(&info, &glance) else {
                continue;
            };
            found.push(Finished {
                title: title_line(glance.name(&info), 200),
                how: ending.word(),
                updated_ms: info.updated_ms,
                id: info.id,
            });
        }
        Ok(found)
    }
}
