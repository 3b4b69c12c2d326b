//! Writing in the person's own editor: which one, and the way there and back through a file
//! that only they can read. The terminal is given up and taken back by the app.
//!
//! The file of a session stands in a folder of its own until what was written is kept in the
//! draft: see [`crate::session::EditorFiles::text`].

use std::fs::File;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::core::shell;
use crate::core::text::{clip, size_text};
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

/// The program and its arguments: `$VISUAL`, `$EDITOR`, vi.
pub(super) fn editor_command(env: impl Fn(&str) -> Option<String>) -> Vec<String> {
    let named = ["VISUAL", "EDITOR"].into_iter().filter_map(env);
    let mut commands = named
        .map(|line| split(&line))
        .filter(|words| !words.is_empty());
    commands
        .next()
        .unwrap_or_else(|| vec![FALLBACK.to_string()])
}

/// What cannot be split with certainty is the path of a program.
fn split(line: &str) -> Vec<String> {
    match shell::split(line).as_deref() {
        Ok([command]) if command.redirects.is_empty() && command.assignments.is_empty() => {
            command.words.iter().map(|word| word.text.clone()).collect()
        }
        Ok([]) => Vec::new(),
        _ => vec![line.trim().to_string()],
    }
}

/// The file that is edited. Without a folder of its session it goes with this.
struct Edited {
    path: PathBuf,
    temporary: Option<tempfile::TempPath>,
}

impl Edited {
    /// With mode 0600, and whole or not at all: what is there may be words of the person.
    fn keep(text: &str, folder: Option<&Path>) -> io::Result<Edited> {
        let mut builder = tempfile::Builder::new();
        builder.prefix("rewake-").suffix(".md");
        let mut file = match folder {
            Some(folder) => {
                private_folder(folder)?;
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

    /// Nothing of it is wanted.
    fn remove(self) {
        if self.temporary.is_none()
            && let Some(folder) = self.path.parent()
        {
            let _ = std::fs::remove_dir_all(folder);
        }
    }

    /// The file stays, also a temporary one.
    fn leave(self) {
        if let Some(temporary) = self.temporary {
            // It is named in what is said.
            let _ = temporary.keep();
        }
    }
}

fn private_folder(folder: &Path) -> io::Result<()> {
    use std::os::unix::fs::DirBuilderExt;
    std::fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(folder)
}

/// Runs the editor on the text and gives what it made of it. The terminal must be as a
/// program expects it. In `folder` the file stays behind when the editor ended well: it goes when
/// what was written is kept elsewhere.
pub(super) fn edit(
    text: &str,
    command: &[String],
    folder: Option<&Path>,
) -> Result<String, EditorError> {
    let edited = Edited::keep(text, folder).map_err(EditorError::Keep)?;
    let written = run(command, &edited.path);
    match &written {
        // It was not begun, or said itself that nothing is to change.
        Err(EditorError::Start { .. } | EditorError::Ended { .. }) => edited.remove(),
        Err(EditorError::Read { .. } | EditorError::TooLong { .. }) => edited.leave(),
        _ => {}
    }
    written
}

fn run(command: &[String], path: &Path) -> Result<String, EditorError> {
    let name = command.first().map_or(FALLBACK, String::as_str);
    let status = Command::new(name)
        .args(command.iter().skip(1))
        .arg(path)
        .status()
        .map_err(|error| EditorError::Start {
            name: clip(name, 100).into_owned(),
            error,
        })?;
    // An editor that was killed said nothing: what it had saved is what the person wants.
    if status.code().is_some_and(|code| code != 0) {
        return Err(EditorError::Ended {
            name: clip(name, 100).into_owned(),
            status,
        });
    }
    // By its path: many editors write another file and rename it.
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
    fn what_was_saved_by_an_editor_that_is_killed_is_taken() {
        let home = tempfile::tempdir().unwrap();
        let folder = home.path().join("session");
        let (_folder, command) = script("echo saved > \"$1\"; kill -9 $$");
        assert_eq!(edit("a", &command, Some(&folder)).unwrap(), "saved");
        assert!(folder.join(EDITED).exists());
    }

    #[test]
    fn what_cannot_be_taken_back_stays_in_its_file() {
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
