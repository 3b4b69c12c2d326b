//! Messages with their images, the external editor, exports.

use std::path::PathBuf;
use std::sync::Arc;

use super::editor::{edit, editor_command};
use super::{Effects, images};
use crate::core::entry::Via;
use crate::engine::Command;
use crate::session::export::{self, Format, Replace};
use crate::ui::app::{App, Msg, Phase, Words};
use crate::ui::composer::Look;
use crate::ui::terminal::{Screen, keep_modes};
use crate::ui::transcript::Tone;

impl Effects {
    /// What is said, behind all that was said before.
    pub(super) fn say(&mut self, words: Words, app: &App) {
        let via = match app.phase {
            Phase::Working { .. } => Via::Queue,
            _ => Via::Prompt,
        };
        if let Some(outbox) = &mut self.outbox {
            outbox.say(words, via);
            outbox.send(Command::KeepInput(String::new()));
        }
    }

    /// Whether a text names images.
    pub(super) fn look(&self, look: Look) {
        self.aside(move || {
            let found = images::found(&look.ways);
            Some(Msg::Looked(look, found))
        });
    }

    pub(super) fn editor(&mut self, text: &str, app: &App, screen: &mut Screen) {
        self.pause_input();
        // Below a session, so that a later start finds it.
        let is_open = !matches!(app.phase, Phase::Starting | Phase::Opening);
        let session = app.id.as_deref().filter(|_| is_open);
        let folder = session.map(|id| self.ctx.editor_folder(id));
        let env = &self.ctx.env;
        let edited = screen.lend(|| {
            let command = editor_command(|name| env.var(name).map(str::to_string));
            keep_modes(|| edit(text, &command, folder.as_deref()))
        });
        let edited = match edited {
            Ok(Ok(text)) => Ok(text),
            Ok(Err(why)) => Err(why.to_string()),
            Err(e) => Err(format!("the terminal did not come back: {e}")),
        };
        self.resume_input();
        self.send(Msg::Edited(edited));
    }

    pub(super) fn export(&self, session: String, json: bool, file: Option<PathBuf>) {
        let ctx = Arc::clone(&self.ctx);
        let format = match json {
            true => Format::Json,
            false => Format::Markdown,
        };
        self.aside(move || {
            let folder = &ctx.here.folder;
            let written = ctx
                .open_store()
                .map_err(|e| e.to_string())
                .and_then(|store| {
                    let written = match file {
                        None => export::to_folder(&store, &session, format, folder),
                        Some(file) => {
                            let path = folder.join(file);
                            export::to_file(&store, &session, format, &path, Replace::No)
                                .map(|()| path)
                        }
                    };
                    written.map_err(|e| e.to_string())
                });
            Some(match written {
                Ok(path) => Msg::Notice(Tone::Calm, format!("written to {}", path.display())),
                Err(why) => Msg::Notice(Tone::Bad, why),
            })
        });
    }
}
