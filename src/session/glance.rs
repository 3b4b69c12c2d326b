//! What a list says of a session without folding it: how it stands, and what was wanted last. It is
//! read from the session's end, and only so far.

use std::ops::ControlFlow;

use crate::core::ending::{Backwards, Ending};
use crate::core::text::task_title;
use crate::store::{SessionInfo, Store};

/// So far back from its end one session is looked through, entries.
pub const GLANCE_ENTRIES: u64 = 2_000;

/// What a look at the end of a session found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Glance {
    ending: Ending,
    /// What the user said last, of a fork in the fork itself.
    request: Option<String>,
    /// A person gave it its title.
    is_named: bool,
    /// Entries that were looked at.
    pub entries: u64,
}

/// How a session stands in a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// A process has it: which one, if it says so, and whether there is anything left to do.
    InUse {
        pid: Option<u32>,
        works: bool,
    },
    Ended(Ending),
}

impl Standing {
    /// In one word.
    pub fn word(self) -> &'static str {
        match self {
            Standing::InUse { works: true, .. } => "running",
            Standing::InUse { works: false, .. } => "open",
            Standing::Ended(ending) => ending.word(),
        }
    }
}

/// A look at the end of a session, at `at_most` entries. A list is shown also where they cannot be
/// read: then the session says what its row says.
pub fn glance(store: &Store, info: &SessionInfo, at_most: u64) -> Glance {
    let shared = info.forked_from.as_ref().map(|from| from.seq);
    let title = info.title.as_deref();
    let mut backwards = Backwards::default();
    let mut ending = None;
    let mut request: Option<String> = None;
    let mut is_named = false;
    let mut is_first = true;
    let walked = store.backwards(&info.id, at_most, |mut met| {
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
        // The first words are the title unless somebody gave it another.
        let is_title = |words: &String| title == Some(task_title(words).as_str());
        let has_name = is_named || !is_own || request.as_ref().is_some_and(is_title);
        match ending.is_some() && has_name {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        }
    });
    let entries = walked.unwrap_or_else(|error| {
        tracing::warn!(%error, session = info.id, "the end of a session is not shown");
        0
    });
    let ending = ending.or(backwards.if_owed());
    Glance {
        ending: by_row(ending.unwrap_or(Ending::Killed), info),
        request,
        is_named,
        entries,
    }
}

/// Whether anything is owed, and is to be offered, the row of the session knows best.
fn by_row(ending: Ending, info: &SessionInfo) -> Ending {
    match ending {
        _ if info.dismissed => Ending::Dismissed,
        Ending::Killed | Ending::Left | Ending::Dismissed if !info.unfinished => Ending::Done,
        ending => ending,
    }
}

impl Glance {
    pub(super) fn ending(&self) -> Ending {
        self.ending
    }

    /// Somebody said something in it, or gave it a name.
    pub fn is_of_something(&self) -> bool {
        self.request.is_some() || self.is_named
    }

    /// What a list calls the session: the name that a person gave it, else what was wanted last.
    pub fn name<'a>(&'a self, info: &'a SessionInfo) -> &'a str {
        let title = info.title.as_deref().unwrap_or("untitled");
        match (&self.request, &info.forked_from) {
            _ if self.is_named => title,
            (Some(request), _) => request,
            // All forks have the title of the session that they come from.
            (None, Some(_)) => "nothing said yet",
            (None, None) => title,
        }
    }
}
