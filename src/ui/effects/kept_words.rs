//! Unsent words, where the engine of the session cannot keep or forget them.

use std::sync::Arc;

use super::Effects;
use crate::engine::Event;
use crate::store::Draft;
use crate::ui::app::{Msg, StoredMessagePlace};
use crate::ui::transcript::Tone;

impl Effects {
    /// Clears a message that is stored elsewhere now. If that fails, it is only offered again.
    pub(super) fn forget(&self, place: StoredMessagePlace) {
        let ctx = Arc::clone(&self.ctx);
        self.aside(move || {
            let StoredMessagePlace::Editor { session } = place;
            ctx.editor_files().forget(&session);
            None::<Msg>
        });
    }

    /// Stores a draft of a closed session, so that it survives a kill.
    pub(super) fn store_closed_draft(&self, session: String, draft: String, engine: u64) {
        let ctx = Arc::clone(&self.ctx);
        self.aside(move || {
            let kept = ctx.open_store().and_then(|mut store| match draft.as_str() {
                "" => store.inbox_mut().clear_draft(&session, Draft::Input),
                draft => store.inbox_mut().set_input(&session, draft),
            });
            Some(match kept {
                Ok(()) => Msg::Engine(engine, Event::InputKept(draft).into()),
                Err(e) => Msg::Notice(Tone::Warn, format!("unsent text is not saved: {e}")),
            })
        });
    }
}
