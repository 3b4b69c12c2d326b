//! An image from the clipboard, through whichever program reads it here. Each is run with a time
//! limit, and no more than an image may have is read of it.

use std::io::Read;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::sync_channel;
use std::time::{Duration, SystemTime};

use rustix::process::{Pid, Signal, kill_process_group};

use super::Effects;
use crate::config::{Env, make_private_folder};
use crate::core::image;
use crate::core::text::one_line;
use crate::ui::app::Msg;

/// A program that hangs is ended.
const TIME: Duration = Duration::from_secs(5);

/// Maximum size of a list of types.
const MAX_LIST_BYTES: u64 = 64 * 1024;

/// Images that were pasted are removed when they are so old: a draft may still name one.
const KEPT: Duration = Duration::from_secs(30 * 24 * 3_600);

/// Maximum number of old files that are examined at each paste.
const MAX_LOOKED_AT: usize = 1_000;

const TYPES: [(&str, &str); 4] = [
    ("image/png", "png"),
    ("image/jpeg", "jpg"),
    ("image/webp", "webp"),
    ("image/gif", "gif"),
];

const NO_PROGRAM: &str = "no program here reads the clipboard: wl-paste, xclip and pngpaste are not in PATH\n\
    hint: install wl-clipboard (Wayland), xclip (X11) or pngpaste (macOS); or paste the path of an image";

/// A program that reads the clipboard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Program {
    WlPaste,
    Xclip,
    Pngpaste,
}

impl Program {
    fn name(self) -> &'static str {
        match self {
            Program::WlPaste => "wl-paste",
            Program::Xclip => "xclip",
            Program::Pngpaste => "pngpaste",
        }
    }

    /// Lists the types in the clipboard. `None`: the program only knows whether there is an image.
    fn list(self) -> Option<&'static [&'static str]> {
        match self {
            Program::WlPaste => Some(&["--list-types"]),
            Program::Xclip => Some(&["-selection", "clipboard", "-t", "TARGETS", "-o"]),
            Program::Pngpaste => None,
        }
    }

    fn read(self, media_type: &str) -> Vec<&str> {
        match self {
            Program::WlPaste => vec!["--type", media_type],
            Program::Xclip => vec!["-selection", "clipboard", "-t", media_type, "-o"],
            Program::Pngpaste => vec!["-"],
        }
    }
}

impl Effects {
    /// Stores the image of the clipboard as a file, which is sent with the message like any other.
    pub(super) fn paste_image(&mut self) {
        if self.is_pasting.swap(true, Ordering::SeqCst) {
            return;
        }
        let is_over = Over(Arc::clone(&self.is_pasting));
        let env = self.ctx.env.clone();
        let folder = self.ctx.paths.data_dir.join("pasted");
        self.aside(move || {
            let pasted = pasted(&env, TIME).and_then(|bytes| keep(&bytes, &folder));
            drop(is_over);
            Some(Msg::PastedImage(pasted))
        });
    }
}

/// However it ended, the next one may begin.
struct Over(Arc<AtomicBool>);

impl Drop for Over {
    fn drop(&mut self) {
        self.0.store(false, Ordering::SeqCst);
    }
}

/// Returns the bytes of an image that can be sent.
fn pasted(env: &Env, time: Duration) -> Result<Vec<u8>, String> {
    let programs = programs(env);
    let mut why = NO_PROGRAM.to_string();
    for (program, path) in programs {
        match image_of(program, &path, time) {
            Ok(bytes) => {
                let checked = image::check(&bytes);
                let cannot = |why| format!("cannot paste what is in the clipboard: it {why}");
                return checked.map(|_| bytes).map_err(cannot);
            }
            Err(error) => why = error,
        }
    }
    Err(why)
}

/// Returns the installed programs; the one that fits the display is first.
fn programs(env: &Env) -> Vec<(Program, PathBuf)> {
    let wayland = env.var("WAYLAND_DISPLAY").is_some_and(|v| !v.is_empty());
    let order = match wayland {
        true => [Program::WlPaste, Program::Xclip, Program::Pngpaste],
        false => [Program::Xclip, Program::WlPaste, Program::Pngpaste],
    };
    let path = env.var("PATH").unwrap_or_default();
    let find = |program: Program| {
        let mut folders = std::env::split_paths(path).filter(|folder| folder.is_absolute());
        let found = folders.find_map(|folder| {
            let path = folder.join(program.name());
            path.is_file().then_some(path)
        });
        found.map(|path| (program, path))
    };
    order.into_iter().filter_map(find).collect()
}

fn image_of(program: Program, path: &Path, time: Duration) -> Result<Vec<u8>, String> {
    let media_type = match program.list() {
        None => TYPES[0].0,
        Some(list) => {
            let listed = output(path, list, MAX_LIST_BYTES, time)?;
            let listed = String::from_utf8_lossy(&listed).into_owned();
            let has = |wanted: &str| listed.lines().any(|line| line.trim() == wanted);
            let Some((media_type, _)) = TYPES.iter().find(|(name, _)| has(name)) else {
                let what: Vec<&str> = listed.lines().take(3).collect();
                let what = match what.is_empty() {
                    true => String::new(),
                    false => format!(" (it has {})", one_line(&what.join(", "), 100)),
                };
                return Err(format!("no image is in the clipboard{what}"));
            };
            media_type
        }
    };
    let bytes = output(path, &program.read(media_type), image::MAX_BYTES, time)?;
    match bytes.is_empty() {
        true => Err("no image is in the clipboard".to_string()),
        false => Ok(bytes),
    }
}

/// Runs the program and returns its output.
///
/// # Errors
/// The reason why nothing was printed, for the person: the program failed, hung, or printed more
/// than `most`.
fn output(path: &Path, args: &[&str], most: u64, time: Duration) -> Result<Vec<u8>, String> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let mut child = crate::sandbox::child(path)
        .args(args)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .process_group(0)
        .spawn()
        .map_err(|e| format!("cannot read the clipboard: cannot start {name}: {e}"))?;
    let Some(stdout) = child.stdout.take() else {
        end(&mut child);
        return Err(format!("cannot read the clipboard: {name} has no output"));
    };
    // A program may leave a child with its output open: that is not waited for.
    let (done, read) = sync_channel(1);
    let reading = move || {
        let mut bytes = Vec::new();
        let read = stdout.take(most + 1).read_to_end(&mut bytes);
        let _ = done.send(read.map(|_| bytes));
    };
    let spawned = std::thread::Builder::new()
        .name("clipboard".into())
        .spawn(reading);
    let read = match spawned {
        Ok(_) => read.recv_timeout(time),
        Err(e) => {
            end(&mut child);
            return Err(format!("cannot read the clipboard: {e}"));
        }
    };
    end(&mut child);
    match read {
        Ok(Ok(bytes)) if bytes.len() as u64 > most => Err(format!(
            "the image in the clipboard has more than {most} bytes, and no more is sent\n\
             hint: make it smaller, or copy a part of it"
        )),
        Ok(Ok(bytes)) => Ok(bytes),
        Ok(Err(e)) => Err(format!("cannot read the clipboard through {name}: {e}")),
        Err(_) => Err(format!(
            "cannot read the clipboard: {name} gave nothing within {} s",
            time.as_secs()
        )),
    }
}

/// Ends a program that is not needed any more, and its children.
fn end(child: &mut Child) {
    if let Ok(None) = child.try_wait()
        && let Some(pid) = i32::try_from(child.id()).ok().and_then(Pid::from_raw)
    {
        let _ = kill_process_group(pid, Signal::KILL);
    }
    let _ = child.wait();
}

/// Stores the image in a file of rewake, which is read when the message is sent.
fn keep(bytes: &[u8], folder: &Path) -> Result<PathBuf, String> {
    let kind = image::media_type(bytes);
    let end = TYPES.iter().find(|(name, _)| Some(*name) == kind);
    let end = end.map_or("png", |(_, end)| end);
    let name: String = blake3::hash(bytes).to_hex().chars().take(8).collect();
    let path = folder.join(format!("clipboard-{name}.{end}"));
    let write = || -> std::io::Result<()> {
        make_private_folder(folder)?;
        // Made with mode 0600.
        let mut file = tempfile::NamedTempFile::new_in(folder)?;
        std::io::Write::write_all(&mut file, bytes)?;
        file.as_file().sync_all()?;
        file.persist(&path)?;
        Ok(())
    };
    write().map_err(|e| format!("cannot keep the image as {}: {e}", path.display()))?;
    remove_old(folder);
    Ok(path)
}

fn remove_old(folder: &Path) {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    for entry in entries.take(MAX_LOOKED_AT) {
        let age = entry.metadata().and_then(|m| m.modified());
        let age = age
            .ok()
            .and_then(|at| SystemTime::now().duration_since(at).ok());
        if age.is_some_and(|age| age > KEPT) {
            let _ = std::fs::remove_file(entry.path());
        }
    }
}

#[cfg(test)]
mod tests;
