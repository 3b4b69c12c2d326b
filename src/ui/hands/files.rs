//! Messages with their images, the external editor, exports.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::Hands;
use crate::core::entry::{Image, Via};
use crate::core::image::media_type;
use crate::engine::Command;
use crate::session::export::{self, Format};
use crate::store::{Message, blob_ref};
use crate::ui::app::{App, Msg, Phase};
use crate::ui::composer::editor::{edit, editor_command};
use crate::ui::terminal::Screen;
use crate::ui::transcript::Tone;

/// Providers refuse larger ones.
const IMAGE_MAX_BYTES: u64 = 10 << 20;

impl Hands {
    pub(super) fn say(&mut self, text: String, paths: &[PathBuf], app: &App) {
        let mut images = Vec::new();
        let mut blobs = Vec::new();
        for path in paths {
            match image(path) {
                Ok((media_type, bytes)) => {
                    images.push(Image {
                        media_type: media_type.to_string(),
                        blob: blob_ref(&bytes),
                    });
                    blobs.push(bytes);
                }
                Err(why) => self.told(Tone::Bad, why),
            }
        }
        let via = match app.phase {
            Phase::Working { .. } => Via::Queue,
            _ => Via::Prompt,
        };
        let message = Message { text, images, via };
        self.engine(Command::Say { message, blobs });
        self.engine(Command::KeepInput(String::new()));
    }

    pub(super) fn editor(&mut self, text: &str, screen: &mut Screen) {
        self.be_deaf();
        let env = &self.around.env;
        let edited = screen.lend(|| {
            let command = editor_command(|name| env.var(name).map(str::to_string));
            edit(text, &command)
        });
        let edited = match edited {
            Ok(Ok(text)) => Ok(text),
            Ok(Err(why)) => Err(why.to_string()),
            Err(e) => Err(format!("the terminal did not come back: {e}")),
        };
        self.hear_again();
        self.send(Msg::Edited(edited));
    }

    pub(super) fn export(&self, session: String, json: bool, file: Option<PathBuf>) {
        let around = Arc::clone(&self.around);
        let format = match json {
            true => Format::Json,
            false => Format::Markdown,
        };
        self.aside(move || {
            let folder = &around.here.folder;
            let written = around
                .open_store()
                .map_err(|e| e.to_string())
                .and_then(|store| {
                    let written = match file {
                        None => export::to_folder(&store, &session, format, folder),
                        Some(file) => {
                            let path = folder.join(file);
                            export::to_file(&store, &session, format, &path).map(|()| path)
                        }
                    };
                    written.map_err(|e| e.to_string())
                });
            Some(match written {
                Ok(path) => Msg::Told(Tone::Calm, format!("written to {}", path.display())),
                Err(why) => Msg::Told(Tone::Bad, why),
            })
        });
    }
}

/// The type is told by the first bytes, not by the name.
fn image(path: &Path) -> Result<(&'static str, Vec<u8>), String> {
    let cannot = |why: String| format!("cannot send {}: {why}", path.display());
    let mut bytes = Vec::new();
    std::fs::File::open(path)
        .and_then(|file| file.take(IMAGE_MAX_BYTES + 1).read_to_end(&mut bytes))
        .map_err(|e| cannot(e.to_string()))?;
    if bytes.len() as u64 > IMAGE_MAX_BYTES {
        return Err(cannot("it is larger than 10 MiB".into()));
    }
    let media_type =
        media_type(&bytes).ok_or_else(|| cannot("it is no PNG, JPEG, GIF or WebP image".into()))?;
    Ok((media_type, bytes))
}
