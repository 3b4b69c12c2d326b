//! The state and the last request of a session, for lists. They are read from the end of the log,
//! without folding it.

use std::ops::ControlFlow;

use crate::core::ending::{Backwards, Ending};
use crate::store::{SessionInfo, Store};

/// Maximum number of entries that are read from the end of one session.
pub const GLANCE_ENTRIES: u64 = 2_000;

/// The result of reading the end of a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionSummary {
    ending: Ending,
    /// The last message of the user. In a fork, only of the fork itself.
    request: Option<String>,
    /// Whether a person named the session.
    is_named: bool,
    /// Number of entries that were read.
    pub entries: u64,
}

/// The state of a session in a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SessionState {
    /// A process uses it: its ID if known, and whether work is pending.
    InUse {
        pid: Option<u32>,
        works: bool,
    },
    Ended(Ending),
}

impl SessionState {
    /// Returns the state as lists show it.
    pub fn word(self) -> &'static str {
        match self {
            SessionState::InUse { works: true, .. } => "running",
            SessionState::InUse { works: false, .. } => "open",
            SessionState::Ended(ending) => ending.word(),
        }
    }
}

/// Reads at most `at_most` entries at the end of a session. If they cannot be read, the list still
/// shows the session's row.
pub fn glance(store: &Store, info: &SessionInfo, at_most: u64) -> SessionSummary {
    let shared = info.forked_from.as_ref().map(|from| from.seq);
    let mut backwards = Backwards::default();
    let mut ending = None;
    let mut request: Option<String> = None;
    let mut is_named = false;
    let mut is_first = true;
    let walked = store.history().backwards(&info.id, at_most, |mut met| {
        let is_own = shared.is_none_or(|shared| met.seq > shared);
        let is_telling = ending.is_none() && (is_first || Backwards::reads(met.kind));
        let is_request = is_own && request.is_none() && met.kind == "said";
        is_first = false;
        is_named |= is_own && met.kind == "named";
        if is_telling || is_request {
            let entry = met.entry();
            if let Some(entry) = entry.as_ref().filter(|_| is_telling) {
                ending = backwards.see(entry);
            }
            if let Some(entry) = entry.filter(|_| is_request) {
                request = entry.typed().map(|words| words.into_owned());
            }
        }
        let is_known = is_named || !is_own || request.is_some();
        match ending.is_some() && is_known {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        }
    });
    let entries = walked.unwrap_or_else(|error| {
        tracing::warn!(%error, session = info.id, "the end of a session is not shown");
        0
    });
    let ending = ending.or(backwards.if_work_is_pending());
    SessionSummary {
        ending: by_row(ending.unwrap_or(Ending::Killed), info),
        request,
        is_named,
        entries,
    }
}

/// Corrects the ending by the session's row, which has the latest state of pending and dismissed
/// work.
fn by_row(ending: Ending, info: &SessionInfo) -> Ending {
    match ending {
        _ if info.dismissed => Ending::Dismissed,
        Ending::Killed | Ending::Left | Ending::TurnLimit | Ending::Dismissed
            if !info.unfinished =>
        {
            Ending::Done
        }
        ending => ending,
    }
}

impl SessionSummary {
    pub(super) fn ending(&self) -> Ending {
        self.ending
    }

    /// Returns whether the session has a message or a name.
    pub fn is_of_something(&self) -> bool {
        self.request.is_some() || self.is_named
    }

    /// Returns the last message of the user. A fork inherits the title of the session that it was
    /// forked from, so this distinguishes the two.
    pub fn request(&self) -> Option<&str> {
        self.request.as_deref()
    }
}
