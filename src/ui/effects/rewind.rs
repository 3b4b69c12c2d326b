//! Going back, outside of the screen: the order to the engine, the copy of a session, and the lines
//! of a path.

use std::sync::Arc;

use super::Effects;
use crate::core::entry::Seq;
use crate::core::rewind::PathChoice;
use crate::core::tree::PathBytes;
use crate::engine::{Command, Rewind, RewindOrder, Rewinding};
use crate::session::{SessionError, SessionSelector, rewind_diff};
use crate::ui::Wake;
use crate::ui::app::{App, Msg};
use crate::ui::rewind::RewindRequest;
use crate::ui::text::with_hint;
use crate::ui::transcript::Tone;

impl Effects {
    pub(super) fn plan_rewind(&mut self, request: RewindRequest, app: &App) {
        let RewindRequest {
            number,
            back,
            whole,
            chosen,
            allowed,
            then,
        } = request;
        let rewind = Rewind {
            whole,
            chosen,
            allowed,
            ..self.ctx.rewind(&app.session.now.folder, back)
        };
        self.engines.send(Command::Rewind(Box::new(RewindOrder {
            number,
            rewind,
            then,
        })));
    }

    /// Makes the copy, with the words in its box, and opens it.
    pub(super) fn rewind_copy(
        &mut self,
        origin: String,
        to: Seq,
        files: Option<Box<Rewinding>>,
        draft: Option<String>,
        app: &mut App,
    ) {
        app.hint = Some("making the copy …".into());
        let (ctx, engine) = (Arc::clone(&self.ctx), app.session.engine);
        self.aside(move || {
            let copied = || -> Result<(String, Option<String>), SessionError> {
                let mut store = ctx.open_store()?;
                let files = files.map(|files| *files);
                let copied = ctx.rewind_conversation(&mut store, &origin, to, files)?;
                if let Some(draft) = &draft {
                    // The box here has the text too, so a failure to store it is not fatal.
                    if let Err(error) = store.inbox_mut().set_input(&copied.0, draft) {
                        tracing::warn!(%error, "the words of the message are not kept");
                    }
                }
                Ok(copied)
            };
            Some(match copied() {
                Ok((id, warning)) => {
                    if let Some(warning) = warning {
                        tracing::warn!(warning, "the copy is shorter");
                    }
                    Wake::Rewound { engine, id }
                }
                Err(error) => {
                    let why = with_hint(format!("nothing was changed: {error}"), error.hint());
                    Wake::Msg(Msg::Notice(Tone::Bad, why))
                }
            })
        });
    }

    /// Opens the copy. It needs no question whether to continue: its pending work is stopped.
    pub(crate) fn rewound(&mut self, engine: u64, id: String, app: &mut App) {
        if engine == app.session.engine {
            app.named = true;
            app.hint = Some("nothing runs yet: Enter sends the text in the box".into());
            self.switch(SessionSelector::Named { id, fork: false }, false, app);
        }
    }

    pub(super) fn rewind_diff(
        &self,
        rewinding: Arc<Rewinding>,
        path: PathBytes,
        choice: Option<PathChoice>,
    ) {
        let ctx = Arc::clone(&self.ctx);
        self.aside(move || {
            let text = ctx
                .open_store()
                .and_then(|store| rewind_diff(&store, &rewinding, &path, choice));
            Some(Msg::RewindDiff(path, text.map_err(|e| e.to_string())))
        });
    }
}
