//! Messages with their images, the external editor, exports.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::Effects;
use crate::core::entry::{Image, Via};
use crate::core::image;
use crate::engine::Command;
use crate::session::export::{self, Format};
use crate::store::{Message, blob_ref};
use crate::tools::load_file;
use crate::ui::app::{App, Msg, Phase};
use crate::ui::composer::editor::{edit, editor_command};
use crate::ui::terminal::{Screen, keep_modes};
use crate::ui::transcript::Tone;

impl Effects {
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
                Err(why) => self.notify(Tone::Bad, why),
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
        self.pause_input();
        let env = &self.ctx.env;
        let edited = screen.lend(|| {
            let command = editor_command(|name| env.var(name).map(str::to_string));
            keep_modes(|| edit(text, &command))
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
                            export::to_file(&store, &session, format, &path).map(|()| path)
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

/// One that cannot be read would be refused with every request from then on.
fn image(path: &Path) -> Result<(&'static str, Vec<u8>), String> {
    let cannot = |why: &str| format!("cannot send {}: {why}", path.display());
    let bytes = load_file(path, image::MAX_BYTES).map_err(|e| match e.kind() {
        std::io::ErrorKind::FileTooLarge => {
            cannot(&format!("it has more than {} bytes", image::MAX_BYTES))
        }
        _ => cannot(&e.to_string()),
    })?;
    let known = image::check(&bytes).map_err(|why| cannot(&format!("it {why}")))?;
    Ok((known.media_type, bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_image_that_can_be_read_is_sent() {
        let folder = tempfile::tempdir().unwrap();
        let png = image::sample::PNG;
        let put = |name: &str, bytes: &[u8]| {
            let path = folder.path().join(name);
            std::fs::write(&path, bytes).unwrap();
            path
        };
        let sent = super::image(&put("a.png", png)).unwrap();
        assert_eq!(sent, ("image/png", png.to_vec()));
        let cut = super::image(&put("cut.png", &png[..50])).unwrap_err();
        assert!(cut.contains("but ends in the middle"), "{cut}");
        let large = [png, &vec![0; image::MAX_BYTES as usize]].concat();
        let large = super::image(&put("large.png", &large)).unwrap_err();
        assert!(large.contains("more than 3932160 bytes"), "{large}");
        let device = super::image(Path::new("/dev/zero")).unwrap_err();
        assert!(device.contains("not a regular file"), "{device}");
    }
}
