//! Writing in the person's own editor: the choice of the editor, and the exchange of text through a
//! file that only the person can read. The app gives up the terminal and takes it back.
//!
//! The file of a session is in a separate folder until the edited text is stored as the draft: see
//! [`crate::session::EditorFiles::text`].

use std::fs::File;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use crate::config::make_private_folder;
use crate::core::shell;
use crate::core::text::{clip, size_text};
use crate::sandbox::child;
use crate::session::{EDITED, MAX_EDITED_BYTES};

const FALLBACK: &str = "vi";

#[derive(Debug, thiserror::Error)]
pub(super) enum EditorError {
    #[error("cannot keep the text in a temporary file: {0}")]
    Keep(io::Error),
    #[error("cannot start the editor {name:?}: {error}; $VISUAL or $EDITOR names another")]
    Start { name: String, error: io::Error },
    #[error("the editor {name:?} ended with {status}; the text is as it was")]
    Ended {
        name: String,
        status: std::process::ExitStatus,
    },
    #[error("cannot read back what the editor wrote into {}: {error}; it stays there", path.display())]
    Read { path: PathBuf, error: io::Error },
    #[error("what the editor wrote into {} is more than {}: it stays there", path.display(), size_text(MAX_EDITED_BYTES))]
    TooLong { path: PathBuf },
}

/// Returns the program and its arguments: `$VISUAL`, `$EDITOR`, vi.
pub(super) fn editor_command(env: impl Fn(&str) -> Option<String>) -> Vec<String> {
    let named = ["VISUAL", "EDITOR"].into_iter().filter_map(env);
    let mut commands = named
        .map(|line| split(&line))
        .filter(|words| !words.is_empty());
    commands
        .next()
        .unwrap_or_else(|| vec![FALLBACK.to_string()])
}

/// Splits a command line. A line that cannot be split with certainty is the path of a program.
fn split(line: &str) -> Vec<String> {
    match shell::split(line).as_deref() {
        Ok([command]) if command.redirects.is_empty() && command.assignments.is_empty() => {
            command.words.iter().map(|word| word.text.clone()).collect()
        }
        Ok([]) => Vec::new(),
        _ => vec![line.trim().to_string()],
    }
}

/// The file for the editor. A temporary one, without a folder of its session, is removed at the
/// end.
struct Edited {
    path: PathBuf,
    temporary: Option<tempfile::TempPath>,
}

impl Edited {
    /// Writes the file completely or not at all, with mode 0600, because it may contain private
    /// text.
    fn keep(text: &str, folder: Option<&Path>) -> io::Result<Edited> {
        let mut builder = tempfile::Builder::new();
        builder.prefix("rewake-").suffix(".md");
        let mut file = match folder {
            Some(folder) => {
                make_private_folder(folder)?;
                builder.tempfile_in(folder)?
            }
            None => builder.tempfile()?,
        };
        file.write_all(text.as_bytes())?;
        let Some(folder) = folder else {
            let temporary = file.into_temp_path();
            return Ok(Edited {
                path: temporary.to_path_buf(),
                temporary: Some(temporary),
            });
        };
        let path = folder.join(EDITED);
        file.persist(&path)?;
        Ok(Edited {
            path,
            temporary: None,
        })
    }

    /// Removes the file.
    fn remove(self) {
        if self.temporary.is_none()
            && let Some(folder) = self.path.parent()
        {
            let _ = std::fs::remove_dir_all(folder);
        }
    }

    /// Leaves the file in place, also a temporary one.
    fn leave(self) {
        if let Some(temporary) = self.temporary {
            // The error message names the file.
            let _ = temporary.keep();
        }
    }
}

/// Runs the editor on the text and returns the edited text. The terminal must be in the state that
/// a program expects. In `folder` the file remains when the editor ended well; it is removed when
/// the edited text is stored elsewhere.
pub(super) fn edit(
    text: &str,
    command: &[String],
    folder: Option<&Path>,
) -> Result<String, EditorError> {
    let edited = Edited::keep(text, folder).map_err(EditorError::Keep)?;
    let written = run(command, &edited.path);
    match &written {
        // The editor did not start, or reported itself that nothing changes.
        Err(EditorError::Start { .. } | EditorError::Ended { .. }) => edited.remove(),
        Err(EditorError::Read { .. } | EditorError::TooLong { .. }) => edited.leave(),
        _ => {}
    }
    written
}

fn run(command: &[String], path: &Path) -> Result<String, EditorError> {
    let name = command.first().map_or(FALLBACK, String::as_str);
    let status = child(name)
        .args(command.iter().skip(1))
        .arg(path)
        .status()
        .map_err(|error| EditorError::Start {
            name: clip(name, 100).into_owned(),
            error,
        })?;
    // The file of a killed editor is used: the person wants the text that was saved.
    if status.code().is_some_and(|code| code != 0) {
        return Err(EditorError::Ended {
            name: clip(name, 100).into_owned(),
            status,
        });
    }
    // The file is read by its path: many editors write another file and rename it.
    let mut bytes = Vec::new();
    let path_of = || path.to_path_buf();
    File::open(path)
        .and_then(|file| file.take(MAX_EDITED_BYTES + 1).read_to_end(&mut bytes))
        .map_err(|error| EditorError::Read {
            path: path_of(),
            error,
        })?;
    if bytes.len() as u64 > MAX_EDITED_BYTES {
        return Err(EditorError::TooLong { path: path_of() });
    }
    let text = String::from_utf8_lossy(&bytes);
    // Editors end every line.
    Ok(text.strip_suffix('\n').unwrap_or(&text).to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_editor_is_the_persons() {
        for (visual, editor, want) in [
            (None, None, &["vi"][..]),
            (None, Some("nano"), &["nano"]),
            (Some("code --wait"), Some("nano"), &["code", "--wait"]),
            (Some(" "), Some("emacs -nw"), &["emacs", "-nw"]),
            (Some("'/opt/my editor' -x"), None, &["/opt/my editor", "-x"]),
            (Some("$(odd)"), None, &["$(odd)"]),
        ] {
            let env = |name: &str| match name {
                "VISUAL" => visual.map(String::from),
                _ => editor.map(String::from),
            };
            assert_eq!(editor_command(env), want);
        }
    }

    fn script(text: &str) -> (tempfile::TempDir, Vec<String>) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("edit.sh");
        std::fs::write(&path, text).unwrap();
        let command = ["sh", path.to_str().unwrap()].map(String::from).to_vec();
        (folder, command)
    }

    #[test]
    fn the_text_goes_there_and_back() {
        let (_folder, command) = script("printf 'and more\\n' >> \"$1\"");
        assert_eq!(edit("a\n", &command, None).unwrap(), "a\nand more");
        let (_folder, command) = script("mv \"$1\" \"$1.old\"; echo new > \"$1\"; rm \"$1.old\"");
        assert_eq!(edit("a", &command, None).unwrap(), "new");
        let (_folder, command) = script(
            "stat -c %a \"$1\" > \"$1.mode\" 2>/dev/null || stat -f %Lp \"$1\" > \"$1.mode\"; mv \"$1.mode\" \"$1\"",
        );
        assert_eq!(edit("secret", &command, None).unwrap(), "600");
    }

    #[test]
    fn text_saved_by_a_killed_editor_is_used() {
        let home = tempfile::tempdir().unwrap();
        let folder = home.path().join("session");
        let (_folder, command) = script("echo saved > \"$1\"; kill -9 $$");
        assert_eq!(edit("a", &command, Some(&folder)).unwrap(), "saved");
        assert!(folder.join(EDITED).exists());
    }

    #[test]
    fn an_edited_text_that_is_too_large_stays_in_its_file() {
        let home = tempfile::tempdir().unwrap();
        let folder = home.path().join("session");
        let (_folder, command) = script("head -c 9000000 /dev/zero | tr '\\0' x > \"$1\"");
        let error = edit("a", &command, Some(&folder)).unwrap_err().to_string();
        assert!(
            error.contains("is more than 8 MiB: it stays there"),
            "{error}"
        );
        assert!(folder.join(EDITED).metadata().unwrap().len() > 8 << 20);
    }

    #[test]
    fn an_editor_that_fails_changes_nothing() {
        let (_folder, command) = script("echo gone > \"$1\"; exit 3");
        let error = edit("a", &command, None).unwrap_err().to_string();
        assert!(
            error.contains("\"sh\" ended with exit status: 3"),
            "{error}"
        );
        let error = edit("a", &["/no/such/editor".into()], None).unwrap_err();
        assert!(
            error.to_string().starts_with("cannot start the editor"),
            "{error}"
        );
    }
}
