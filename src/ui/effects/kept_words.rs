//! Unsent words, where the engine of the session cannot keep or forget them.

use std::sync::Arc;

use super::Effects;
use crate::engine::Event;
use crate::store::Draft;
use crate::ui::app::{Msg, WordsPlace};
use crate::ui::transcript::Tone;

impl Effects {
    /// The words are kept elsewhere by now. Those that cannot be forgotten are only offered again.
    pub(super) fn forget(&self, place: WordsPlace) {
        let ctx = Arc::clone(&self.ctx);
        self.aside(move || {
            let WordsPlace::Editor { session } = place;
            ctx.editor_files().forget(&session);
            None::<Msg>
        });
    }

    /// The session is closed, but what is typed below it outlives a kill all the same.
    pub(super) fn keep_aside(&self, session: String, draft: String, engine: u64) {
        let ctx = Arc::clone(&self.ctx);
        self.aside(move || {
            let kept = ctx.open_store().and_then(|mut store| match draft.as_str() {
                "" => store.clear_draft(&session, Draft::Input),
                draft => store.set_input(&session, draft),
            });
            Some(match kept {
                Ok(()) => Msg::Engine(engine, Event::InputKept(draft).into()),
                Err(e) => Msg::Notice(Tone::Warn, format!("unsent text is not saved: {e}")),
            })
        });
    }
}
