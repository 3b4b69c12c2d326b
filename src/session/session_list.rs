//! Lists of sessions: the offered and the finished ones, and the state of each.

use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::Arc;

use super::edited::EditorFiles;
use super::summary::{GLANCE_ENTRIES, SessionState, SessionSummary, glance};
use super::waits::only_waits_for_person;
use super::{AppContext, SessionError};
use crate::core::ending::{Ending, UNANSWERED};
use crate::core::entry::{Entry, SaveReason};
use crate::core::marks::title_line;
use crate::core::settings::Pricing;
use crate::core::text::session_name;
use crate::store::{SessionFilter, SessionInfo, SessionLock, Store, StoreError};

/// Number of the newest sessions that are searched for those to show.
const LOOKED_AT: u32 = 30;

/// Maximum number of unfinished sessions that are offered.
const MAX_OFFERED: usize = 10;

/// Maximum number of entries of a session in which no model answered.
const MAX_UNANSWERED: u64 = 100;

/// A session without pending work.
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

/// The sessions of a data folder, and which of them belong to this workspace.
pub struct SessionList {
    pub(super) data_dir: PathBuf,
    /// The root of the workspace, in the form in which sessions record it.
    pub(super) workspace: String,
    pub(super) editor: EditorFiles,
}

impl AppContext {
    /// Returns the sessions of this data folder, seen from this workspace.
    pub fn session_list(&self) -> SessionList {
        SessionList {
            data_dir: self.paths.data_dir.clone(),
            workspace: self.workspace(),
            editor: self.editor_files(),
        }
    }
}

/// Returns whether a person left the session before a model answered, with nothing but messages in
/// it. A killed process, a closed terminal, and words that were not sent leave work to resume.
fn never_answered(store: &Store, info: &SessionInfo) -> bool {
    // A closed terminal ends a request that is in progress, and no failure.
    let signal = SaveReason::Signal;
    let is_signal =
        |entry: &Entry| matches!(entry, Entry::Saved { reason, .. } if *reason == signal);
    let mut last = None;
    let mut has_more = false;
    let walked = store
        .history()
        .backwards(&info.id, MAX_UNANSWERED, |mut met| {
            last = last
                .take()
                .or_else(|| met.entry().filter(|entry| !is_signal(entry)));
            has_more = !UNANSWERED.contains(&met.kind);
            if has_more {
                return ControlFlow::Break(());
            }
            ControlFlow::Continue(())
        });
    let is_left = matches!(last, Some(Entry::Failed { .. } | Entry::Saved { .. }));
    let is_whole = walked.is_ok_and(|entries| entries < MAX_UNANSWERED) && !has_more;
    let inbox = store.inbox();
    let is_queued = !matches!(inbox.oldest_queued(&info.id), Ok(None));
    let has_drafts = inbox.drafts(&info.id).map_or(true, |drafts| {
        let mut all = [drafts.input, drafts.stream].into_iter().flatten();
        all.any(|text| !text.trim().is_empty())
    });
    is_whole && is_left && !is_queued && !has_drafts
}

impl SessionList {
    /// Returns the state of a session, which is the same in every list.
    pub fn standing(&self, info: &SessionInfo, glance: &SessionSummary) -> SessionState {
        let data_dir = &self.data_dir;
        let pid = SessionLock::holder(data_dir, &info.id);
        match pid.is_some() || SessionLock::is_held(data_dir, &info.id) {
            true => SessionState::InUse {
                pid,
                works: matches!(
                    glance.ending(),
                    Ending::Killed | Ending::Left | Ending::TurnLimit
                ),
            },
            false => SessionState::Ended(glance.ending()),
        }
    }

    /// Returns the state as lists show it to a person, who may be what the session waits for. A
    /// limit of cost is not checked.
    pub fn state_word(&self, store: &Store, session: &str, state: SessionState) -> &'static str {
        let free: Pricing = Arc::new(|_, _| Some(0.0));
        let waits = || only_waits_for_person(store, session, &free).unwrap_or(false);
        match state {
            SessionState::InUse { works: true, .. } if waits() => "waits for you",
            state => state.word(),
        }
    }

    /// Returns whether a process uses the session.
    pub fn is_in_use(&self, session: &str) -> bool {
        SessionLock::is_held(&self.data_dir, session)
    }

    /// Returns whether a process works in the session, and does not only look at its journal. It
    /// may wait for the end of that look.
    pub fn is_worked_in(&self, session: &str) -> bool {
        SessionLock::is_worked_in(&self.data_dir, session)
    }

    /// Returns the unfinished sessions of this folder, newest first. Dismissed ones, and those that
    /// were left before a model answered, are included only with `all`.
    pub fn unfinished(&self, store: &Store, all: bool) -> Result<Vec<SessionInfo>, StoreError> {
        let filter = SessionFilter {
            workspace: Some(&self.workspace),
            unfinished: true,
            without_dismissed: !all,
            children: false,
            without_replicas: true,
        };
        let mut found = store.history().sessions(filter, LOOKED_AT)?;
        if !all {
            found.retain(|info| self.is_in_use(&info.id) || !never_answered(store, info));
        }
        found.truncate(MAX_OFFERED);
        Ok(found)
    }

    /// Returns the newest finished sessions of this folder that have a message or a name, without
    /// `except` and without those that another process uses.
    pub fn finished(
        &self,
        store: &Store,
        except: &str,
        at_most: usize,
    ) -> Result<Vec<Finished>, SessionError> {
        let filter = SessionFilter {
            without_replicas: true,
            ..SessionFilter::of(&self.workspace)
        };
        let mut found = Vec::new();
        for info in store.history().sessions(filter, LOOKED_AT)? {
            if found.len() == at_most {
                break;
            }
            if info.id == except || info.unfinished && !never_answered(store, &info) {
                continue;
            }
            let glance = glance(store, &info, GLANCE_ENTRIES);
            if !glance.is_of_something() {
                continue;
            }
            let SessionState::Ended(ending) = self.standing(&info, &glance) else {
                continue;
            };
            found.push(Finished {
                title: title_line(session_name(info.title.as_deref()), 200),
                how: ending.word(),
                updated_ms: info.updated_ms,
                id: info.id,
            });
        }
        Ok(found)
    }
}
