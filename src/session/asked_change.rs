//! The change that a call would make to its file, for a person who is asked about the call. It is
//! computed from the current file.
//!
//! Invariant: only a file of the session's workspace is read, with links followed, and none of the
//! store or of the stored keys.

use std::path::{Component, Path, PathBuf};
use std::time::Duration;

use serde::Serialize;

use super::{AppContext, Question, SteerError};
use crate::config::{ReadError, read_exact_text};
use crate::core::entry::CallId;
use crate::core::file_name::named_path_text;
use crate::store::{SessionInfo, Store};
use crate::tools::{self, ShownBody};

/// Maximum size of a file, and of its new content, for which a diff is shown.
const MAX_BYTES: u64 = 1 << 20;

/// Time limit of a diff. If nearly every line differs, the shortest diff takes minutes. After this
/// time, a longer one is used.
const MAX_TIME: Duration = Duration::from_millis(100);

/// The diff of a file that is shown to a person.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct AskedChange {
    pub path: Option<String>,
    /// Whether the file does not exist yet.
    pub is_new: bool,
    /// The lines of a unified diff, without its header. `None`: see `why`.
    pub diff: Option<String>,
    /// Why a diff is not available, for a person.
    pub why: Option<String>,
}

impl AskedChange {
    fn unknown(path: Option<&str>, why: impl Into<String>) -> AskedChange {
        AskedChange {
            path: path.map(str::to_string),
            is_new: false,
            diff: None,
            why: Some(why.into()),
        }
    }
}

impl AppContext {
    /// Returns the question about a call, and the change that the call would make to its file.
    ///
    /// # Errors
    /// No question about this call is open.
    pub fn asked_change(
        &self,
        store: &Store,
        info: &SessionInfo,
        call: CallId,
    ) -> Result<(Question, AskedChange), SteerError> {
        let question = self.steering().question(store, info, Some(call))?;
        let body = tools::shown(&question.call).body;
        let change = change(&body, Path::new(&info.folder), Path::new(&info.workspace));
        Ok((question, change))
    }
}

fn change(body: &ShownBody, folder: &Path, workspace: &Path) -> AskedChange {
    let (ShownBody::File { path, .. } | ShownBody::Edits { path, .. }) = body else {
        return AskedChange::unknown(None, "it changes no file");
    };
    let unknown = |why: &str| AskedChange::unknown(Some(path), why);
    let Some(file) = inside(path, folder, workspace) else {
        return unknown("the file lies outside of the workspace");
    };
    let before = match read_exact_text(&file, MAX_BYTES) {
        Ok(text) => Some(text),
        Err(ReadError::Missing) => None,
        Err(ReadError::NotUtf8) => return unknown("the file is not text; all of it is replaced"),
        Err(ReadError::TooLarge { .. }) => return unknown("the file is too long to be compared"),
        Err(_) => return unknown("the file cannot be read"),
    };
    let Some(after) = body.text_after(before.as_deref().unwrap_or_default()) else {
        return unknown("the edit does not fit the file as it is now");
    };
    if after.len() as u64 > MAX_BYTES {
        return unknown("the file is too long to be compared");
    }
    let old = before.as_deref().unwrap_or_default();
    let diff = tools::by_lines(old, &after, MAX_TIME);
    AskedChange {
        path: Some(path.clone()),
        is_new: before.is_none(),
        diff: Some(diff.unified_diff().to_string()),
        why: None,
    }
}

/// Returns the file that a path names, with links followed. `None`: it is not in the workspace.
fn inside(path: &str, folder: &Path, workspace: &Path) -> Option<PathBuf> {
    let named = folder.join(&*named_path_text(path));
    let real = PathBuf::from(tools::real_path(named.to_str()?));
    let goes_up = real.components().any(|part| part == Component::ParentDir);
    let workspace = workspace.canonicalize().ok()?;
    (!goes_up && real.starts_with(workspace)).then_some(real)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(path: &str, content: &str) -> ShownBody {
        ShownBody::File {
            path: path.into(),
            content: content.into(),
        }
    }

    #[test]
    fn a_file_that_is_replaced_is_compared_with_what_it_was() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("f"), "one\ntwo\nthree\n").unwrap();
        let of = |body: &ShownBody| change(body, dir.path(), dir.path());
        let replaced = of(&write("f", "one\n2\nthree\n"));
        let diff = replaced.diff.unwrap();
        assert!(diff.contains("-two\n+2\n one\n") || diff.contains("-two\n+2\n three\n"));
        assert!(!replaced.is_new);
        let new = of(&write("g/h", "x\n"));
        assert!(new.is_new && new.diff.unwrap().contains("+x"));
    }

    #[test]
    fn no_file_outside_of_the_workspace_is_read() {
        let dir = tempfile::tempdir().unwrap();
        let (inner, secret) = (dir.path().join("w"), dir.path().join("secret"));
        std::fs::create_dir(&inner).unwrap();
        std::fs::write(&secret, "hidden\n").unwrap();
        std::os::unix::fs::symlink(&secret, inner.join("link")).unwrap();
        std::os::unix::fs::symlink(dir.path().join("gone"), inner.join("dangling")).unwrap();
        std::os::unix::fs::symlink(dir.path(), inner.join("up")).unwrap();
        for path in [
            secret.to_str().unwrap(),
            "../secret",
            "link",
            "dangling",
            "up/secret",
            "up/new",
            "up/no/new",
            "nowhere/../../secret",
        ] {
            let found = change(&write(path, "x\n"), &inner, &inner);
            assert_eq!(found.diff, None, "{path}");
            assert_eq!(
                found.why.as_deref(),
                Some("the file lies outside of the workspace"),
                "{path}"
            );
        }
    }

    #[test]
    fn a_change_that_cannot_be_compared_has_a_reason() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("binary"), [0xff, 0xfe, 0]).unwrap();
        std::fs::write(dir.path().join("long"), "x\n".repeat(1 << 20)).unwrap();
        for (path, why) in [
            ("binary", "not text"),
            ("long", "too long"),
            (".", "cannot be read"),
        ] {
            let found = change(&write(path, "x\n"), dir.path(), dir.path());
            assert!(found.why.unwrap().contains(why), "{path}");
        }
        let none = change(&ShownBody::Subject, dir.path(), dir.path());
        assert_eq!(none.path, None);
    }
}
