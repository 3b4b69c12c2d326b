//! Messages that are on the disk outside of the draft of the open session: in the draft of the
//! session that was left, or in the editor's file.
//!
//! Invariant: they are removed from there only when they are stored here.

use super::{Intent, StoredMessagePlace};
use crate::store::AbandonedDraft;

/// A place that may be cleared as soon as this draft is stored here.
#[derive(Debug)]
struct Elsewhere {
    draft: String,
    place: StoredMessagePlace,
}

/// Maximum number of places. Beyond it, the message is only offered once more.
const MAX_ELSEWHERE: usize = 16;

/// Words that are stored in other places too.
#[derive(Debug, Default)]
pub(super) struct StoredMessages {
    elsewhere: Vec<Elsewhere>,
    /// The draft of the session that was left with words in the box.
    came_along: Option<AbandonedDraft>,
}

impl StoredMessages {
    /// Notes that the box takes its draft from this session into another one.
    pub(super) fn take_along(&mut self, session: Option<&str>, draft: &str) {
        self.elsewhere.clear();
        if let Some(session) = session.filter(|_| !draft.is_empty()) {
            self.came_along = Some(AbandonedDraft {
                session: session.to_string(),
                draft: draft.to_string(),
            });
        }
    }

    /// Returns the draft from another session, if there is one.
    pub(super) fn moved_draft(&mut self, here: Option<&str>) -> Option<AbandonedDraft> {
        let from = self.came_along.take();
        from.filter(|from| Some(from.session.as_str()) != here)
    }

    /// Notes that this draft is in another place too.
    pub(super) fn also_at(&mut self, place: StoredMessagePlace, draft: String) {
        if self.elsewhere.len() < MAX_ELSEWHERE {
            self.elsewhere.push(Elsewhere { draft, place });
        }
    }

    /// Handles that this draft is on the disk: other places can be cleared.
    pub(super) fn kept(&mut self, draft: &str) -> Vec<Intent> {
        let done = self.elsewhere.extract_if(.., |e| e.draft == draft);
        done.map(|e| Intent::Forget(e.place)).collect()
    }
}
