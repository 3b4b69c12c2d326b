//! Messages with their images, the external editor, exports.

use std::sync::Arc;

use super::editor::{edit, editor_command};
use super::outbox::Outgoing;
use super::{Effects, images};
use crate::core::entry::Via;
use crate::core::text::size_text;
use crate::engine::Command;
use crate::mcp::offers::Offers;
use crate::session::AppContext;
use crate::session::export::{self, Format, Replace};
use crate::ui::Wake;
use crate::ui::app::{ASKING, App, Msg, OutgoingMessage, Phase};
use crate::ui::composer::ImageCandidate;
use crate::ui::terminal::{Screen, with_restored_modes};
use crate::world::{OfferAnswer, OfferError, OfferKind, ServerRequest};

impl Effects {
    /// Sends a message after all earlier messages.
    pub(super) fn say(&mut self, words: OutgoingMessage, app: &mut App) {
        let via = match app.session.phase {
            Phase::Working { .. } => Via::Queue,
            _ => Via::Prompt,
        };
        if let Some(outbox) = &mut self.engines.outbox {
            let servers = self.ctx.defined_servers();
            let named = match &words.command {
                Some(typed) => servers.named(&typed.name),
                None => {
                    let mut mentions = servers.mentioned_resources(words.seen()).into_iter();
                    mentions.next().map(|mention| mention.server)
                }
            };
            if let Some(server) = &named {
                app.hint = Some(format!("{ASKING} {server} …"));
                // It is a draft until the server has answered. Sending the message then clears the
                // draft.
                outbox.send(Command::KeepInput(words.text.clone()));
            }
            let ctx = Arc::clone(&self.ctx);
            match words.command {
                Some(typed) => outbox.push(Outgoing::Custom(typed, via, ctx)),
                None if named.is_some() => outbox.push(Outgoing::Named(words, via, ctx)),
                None => outbox.say(words, via),
            }
            if named.is_none() {
                outbox.send(Command::KeepInput(String::new()));
            }
        }
    }

    /// Asks a server for its prompts and resources, for the list that is open during typing.
    pub(super) fn ask_server(&mut self, server: String) {
        let (sender, name) = (self.to_screen.clone(), server.clone());
        let reply = move |answer: Result<OfferAnswer, OfferError>| {
            let offers = match answer {
                Ok(OfferAnswer::List(offers)) => Ok(offers),
                Ok(OfferAnswer::Words(_)) => Ok(Offers::default()),
                Err(not) => Err((not.why, not.hint)),
            };
            // If the screen is gone, there is nothing to show.
            let _ = sender.send(Wake::Msg(Msg::Offered(name.clone(), offers)));
        };
        self.engines.send(Command::AskServer(ServerRequest {
            server,
            wanted: OfferKind::List,
            reply: Arc::new(reply),
        }));
    }

    /// Returns whether a text names images.
    pub(super) fn look(&self, look: ImageCandidate) {
        self.aside(move || {
            let found = images::found(&look.ways);
            Some(Msg::Looked(look, found))
        });
    }

    pub(super) fn editor(&mut self, text: &str, app: &App, screen: &mut Screen) {
        // The draft is stored with a session, so that a later start finds it.
        let is_open = !matches!(app.session.phase, Phase::Starting | Phase::Opening);
        let session = app.session.id.as_deref().filter(|_| is_open);
        let folder = session.map(|id| self.ctx.editor_files().folder(id));
        let env = &self.ctx.env;
        let edited = self.keyboard.lend(screen, || {
            let command = editor_command(|name| env.var(name).map(str::to_string));
            with_restored_modes(|| edit(text, &command, folder.as_deref()))
        });
        let edited = match edited {
            Ok(Ok(text)) => Ok(text),
            Ok(Err(why)) => Err(why.to_string()),
            Err(e) => Err(format!("the terminal did not come back: {e}")),
        };
        self.send(Msg::Edited(edited));
    }

    /// Exports a session. `file` is relative to the folder of this start; `~` is the home folder.
    /// Existing files are not replaced.
    pub(super) fn export(&self, session: String, file: Option<String>) {
        let ctx = Arc::clone(&self.ctx);
        self.aside(move || Some(Msg::Exported(exported(&ctx, &session, file.as_deref()))));
    }
}

/// Exports a session. Returns a text that names the content and the file.
fn exported(ctx: &AppContext, session: &str, file: Option<&str>) -> Result<String, String> {
    let file = file.unwrap_or_default();
    let format = match file.to_lowercase().ends_with(".json") || file == "json" {
        true => Format::Json,
        false => Format::Markdown,
    };
    let store = ctx.open_store().map_err(|e| e.to_string())?;
    let folder = &ctx.here.folder;
    let path = match (file, file.strip_prefix("~/"), ctx.env.home()) {
        ("" | "json", ..) => {
            export::to_folder(&store, session, format, folder).map_err(|e| e.to_string())?
        }
        (_, below, home) => {
            let path = match (below, home) {
                (Some(below), Some(home)) => home.join(below),
                _ => folder.join(file),
            };
            export::to_file(&store, session, format, &path, Replace::No)
                .map_err(|e| e.to_string())?;
            path
        }
    };
    let what = match format {
        Format::Json => "every entry as JSON",
        Format::Markdown => "the conversation as Markdown",
    };
    let bytes = std::fs::metadata(&path).map_or(0, |found| found.len());
    let path = path.display();
    Ok(format!("written to {path}: {what}, {}", size_text(bytes)))
}
