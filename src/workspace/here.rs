//! The workspace of a folder: the canonical git root, or the folder itself.

use std::io;
use std::path::{Component, Path, PathBuf};

use crate::config::read_text;

/// The folder that rewake was started in, and the workspace it belongs to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StartFolder {
    /// The absolute folder as the user named it: links are kept, unless the path has `..`.
    pub folder: PathBuf,
    /// The canonical root, the same for every folder of a repository. Sessions belong to it.
    pub root: PathBuf,
    /// Whether the root is that of a git repository.
    pub is_git: bool,
}

/// The reason why a folder cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum HereError {
    #[error("cannot work in {}: there is no such folder", .0.display())]
    Missing(PathBuf),
    #[error("cannot work in {}: it is not a folder", .0.display())]
    NotAFolder(PathBuf),
    #[error("cannot work in {}: {}", .0.display(), .1)]
    Unreadable(PathBuf, io::Error),
    /// Entries, rows and requests name files as text.
    #[error("cannot work in {}: its path is not UTF-8; rename the folder", .0.display())]
    NotText(PathBuf),
}

/// Returns the root of the workspace of a folder, or the folder if it does not exist.
pub fn root_text(folder: &Path) -> String {
    match here(folder) {
        Ok(here) => here.root.to_string_lossy().into_owned(),
        Err(_) => folder.to_string_lossy().into_owned(),
    }
}

/// Returns the workspace of `folder`, which must be absolute: the caller knows what it is relative
/// to.
pub fn here(folder: &Path) -> Result<StartFolder, HereError> {
    let failed = |e: io::Error| match e.kind() {
        io::ErrorKind::NotFound => HereError::Missing(folder.to_path_buf()),
        io::ErrorKind::NotADirectory => HereError::NotAFolder(folder.to_path_buf()),
        _ => HereError::Unreadable(folder.to_path_buf(), e),
    };
    let canonical = folder.canonicalize().map_err(failed)?;
    if !canonical.is_dir() {
        return Err(HereError::NotAFolder(folder.to_path_buf()));
    }
    if canonical.to_str().is_none() || folder.to_str().is_none() {
        return Err(HereError::NotText(folder.to_path_buf()));
    }
    let root = canonical.ancestors().find(|dir| is_git_root(dir));
    Ok(StartFolder {
        folder: plain(folder).unwrap_or_else(|| canonical.clone()),
        is_git: root.is_some(),
        root: root.unwrap_or(&canonical).to_path_buf(),
    })
}

/// Returns the path without redundant parts. `None` if it has `..`, which after a link leads
/// elsewhere than the name says.
fn plain(folder: &Path) -> Option<PathBuf> {
    let parts = || folder.components();
    let leads_up = parts().any(|part| part == Component::ParentDir);
    (!leads_up).then(|| parts().collect())
}

/// Returns whether git treats the folder as a root (gitrepository-layout): `.git` is a folder with
/// a `HEAD`, or, in a worktree and in a submodule, a file that names that folder. An empty `.git`
/// folder does not count.
fn is_git_root(dir: &Path) -> bool {
    let git = dir.join(".git");
    // HEAD may be a link to a branch that does not exist yet.
    git.join("HEAD").symlink_metadata().is_ok()
        || read_text(&git, 64 * 1024).is_ok_and(|text| text.starts_with("gitdir:"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::OsStr;
    use std::fs;
    use std::os::unix::fs::symlink;

    fn temp() -> (tempfile::TempDir, PathBuf) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().canonicalize().unwrap();
        (dir, path)
    }

    fn repository(root: &Path) {
        fs::create_dir_all(root.join(".git")).unwrap();
        fs::write(root.join(".git/HEAD"), "ref: refs/heads/main\n").unwrap();
    }

    #[test]
    fn a_folder_of_a_repository_belongs_to_its_root() {
        let (_dir, dir) = temp();
        repository(&dir);
        fs::create_dir_all(dir.join("a/b")).unwrap();
        let found = here(&dir.join("a/b")).unwrap();
        assert_eq!(found.root, dir);
        assert_eq!(found.folder, dir.join("a/b"));
        assert!(found.is_git);
    }

    #[test]
    fn a_path_that_is_not_utf8_is_refused() {
        let (_dir, dir) = temp();
        let name = <OsStr as std::os::unix::ffi::OsStrExt>::from_bytes(b"f\xfcr");
        fs::create_dir(dir.join(name)).unwrap();
        let refused = here(&dir.join(name)).unwrap_err();
        assert!(matches!(refused, HereError::NotText(_)), "{refused}");
    }

    #[test]
    fn worktrees_and_submodules_are_roots_of_their_own() {
        let (_dir, dir) = temp();
        repository(&dir);
        let inner = dir.join("sub/src");
        fs::create_dir_all(&inner).unwrap();
        fs::write(dir.join("sub/.git"), "gitdir: ../.git/modules/sub\n").unwrap();
        assert_eq!(here(&inner).unwrap().root, dir.join("sub"));
    }

    #[test]
    fn an_invalid_git_entry_is_not_a_repository() {
        let (_dir, dir) = temp();
        fs::create_dir_all(dir.join("a/.git")).unwrap();
        fs::create_dir_all(dir.join("b")).unwrap();
        fs::write(dir.join("b/.git"), "notes").unwrap();
        for name in ["a", "b"] {
            let found = here(&dir.join(name)).unwrap();
            assert_eq!(found.root, dir.join(name));
            assert!(!found.is_git);
        }
    }

    #[test]
    fn a_link_is_kept_for_the_user_and_resolved_for_the_root() {
        let (_dir, dir) = temp();
        fs::create_dir(dir.join("real")).unwrap();
        symlink(dir.join("real"), dir.join("link")).unwrap();
        let found = here(&dir.join("link")).unwrap();
        assert_eq!(found.folder, dir.join("link"));
        assert_eq!(found.root, dir.join("real"));
    }

    #[test]
    fn a_folder_has_one_name_however_it_is_written() {
        let (_dir, dir) = temp();
        fs::create_dir_all(dir.join("a/b")).unwrap();
        for name in ["a/", "a/.", "./a", "a/b/..", "a//"] {
            let found = here(&dir.join(name)).unwrap();
            assert_eq!(
                found.folder.as_os_str(),
                dir.join("a").as_os_str(),
                "{name}"
            );
        }
    }

    #[test]
    fn a_folder_that_cannot_be_worked_in_is_named() {
        let (_dir, dir) = temp();
        fs::write(dir.join("file"), "").unwrap();
        let message = |name: &str| here(&dir.join(name)).unwrap_err().to_string();
        assert!(message("none").ends_with("none: there is no such folder"));
        assert!(message("file").ends_with("file: it is not a folder"));
        assert!(message("file/below").ends_with("file/below: it is not a folder"));
    }
}
