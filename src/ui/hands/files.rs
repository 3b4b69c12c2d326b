//! Messages with their images, the external editor, shell commands of the user, exports.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command as Process, Stdio};
use std::sync::Arc;

use super::Hands;
use crate::command::QUIET;
use crate::core::entry::{Image, Via};
use crate::core::image::media_type;
use crate::core::text::one_line;
use crate::core::visible::visible;
use crate::engine::Command;
use crate::session::export::{self, Format};
use crate::store::{Message, blob_ref};
use crate::ui::app::{App, Msg, Phase};
use crate::ui::composer::editor::{edit, editor_command};
use crate::ui::terminal::Screen;
use crate::ui::transcript::Tone;

/// Providers refuse larger ones.
const IMAGE_MAX_BYTES: u64 = 10 << 20;

/// Of what a `!` command prints, this much is kept.
const SHELL_MAX_BYTES: u64 = 64 << 10;

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

    /// A command of the user's own: no keeper and no rules; the model is told what came of it.
    pub(super) fn shell(&mut self, command: String) {
        let shell = self.around.config().shell.program(&self.around.env);
        let folder = self.around.here.folder.clone();
        // The model is told what it prints, so keys are as far from it as from the model's own.
        let unseen = self.around.unseen_by_commands();
        let engine = self.live.as_ref().map(|live| live.sender());
        let sender = self.to_screen.clone();
        self.told(Tone::Calm, format!("running {}", one_line(&command, 60)));
        std::thread::spawn(move || {
            let text = match run(&shell, &folder, &unseen, &command) {
                Ok((code, printed)) => format!(
                    "the user ran a command: {command}\n{code}\n{}",
                    visible(&printed)
                ),
                Err(e) => {
                    format!("the user ran a command that could not be started: {command}\n{e}")
                }
            };
            // The session may have been left meanwhile: then only the user is told.
            let unsaid = match engine {
                Some(engine) => engine.send(Command::Note(text)).err().map(|e| e.0),
                None => Some(Command::Note(text)),
            };
            if let Some(Command::Note(text)) = unsaid {
                let _ = sender.send(crate::ui::Wake::Msg(Msg::Told(Tone::Warn, text)));
            }
        });
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

fn run(
    shell: &Path,
    folder: &Path,
    unseen: &[String],
    command: &str,
) -> std::io::Result<(String, String)> {
    let (read, write) = std::io::pipe()?;
    let mut process = Process::new(shell);
    for name in unseen {
        process.env_remove(name);
    }
    let mut child = process
        .arg("-c")
        .arg(command)
        .current_dir(folder)
        .envs(QUIET)
        .stdin(Stdio::null())
        .stdout(write.try_clone()?)
        .stderr(write)
        .spawn()?;
    // It holds the pipe's other end, and with that open the reading would never end.
    drop(process);
    let mut printed = Vec::new();
    // Read on to the end, or the command would wait for ever on a full pipe.
    let mut read = read;
    let mut chunk = [0; 8192];
    loop {
        match read.read(&mut chunk)? {
            0 => break,
            n => {
                let room = (SHELL_MAX_BYTES as usize).saturating_sub(printed.len());
                printed.extend(&chunk[..n.min(room)]);
            }
        }
    }
    let status = child.wait()?;
    let code = match status.code() {
        Some(code) => format!("exit code {code}"),
        None => "ended by a signal".to_string(),
    };
    Ok((code, String::from_utf8_lossy(&printed).into_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_of_the_user_ends_and_sees_no_key() {
        let sh = Path::new("/bin/sh");
        // A variable that is there in every test.
        let unseen = ["PATH".to_string()];
        let line = "echo path=$(/usr/bin/env | /bin/grep -c ^PATH=) >&2; exit 3";
        let (code, printed) = run(sh, Path::new("/"), &unseen, line).unwrap();
        assert_eq!((code.as_str(), printed.trim()), ("exit code 3", "path=0"));
    }
}
