//! The folder of a fork: its checks, and how it is made.

use std::fs::{self, DirBuilder, Permissions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};

use super::super::short_id;
use super::not_forked::NotForked;
use crate::config::Env;
use crate::core::path;
use crate::workspace::here;

/// The folders of forks, and the notes about them while they are made.
pub(in crate::session) struct ForkFolders {
    pub(super) env: Env,
    pub(super) data_dir: PathBuf,
    /// The folders of rewake itself, in which no fork may work.
    pub(super) own: Vec<PathBuf>,
}

impl ForkFolders {
    /// Checks the folder for a fork. Returns it with links followed, and whether it still has to be
    /// made.
    pub(super) fn fresh(&self, given: &Path, origin: &Path) -> Result<(PathBuf, bool), NotForked> {
        let whole = path::join(&text(self.env.cwd()), &text(given));
        let whole = PathBuf::from(path::clean(&whole));
        let refused = |why: String, hint: Option<&'static str>| {
            Err(NotForked::Folder {
                folder: whole.clone(),
                why,
                hint,
            })
        };
        if given.to_str().is_none() {
            return refused("its name is not UTF-8".into(), None);
        }
        let is_new = match fs::symlink_metadata(&whole) {
            Ok(found) if found.is_symlink() => {
                return refused(
                    "it is a symbolic link".into(),
                    Some("name the folder itself"),
                );
            }
            Ok(found) if !found.is_dir() => return refused("it is not a folder".into(), None),
            Ok(_) => false,
            Err(e) if e.kind() == ErrorKind::NotFound => true,
            Err(e) => return refused(e.to_string(), None),
        };
        let existing = match is_new {
            true => whole.parent().unwrap_or(Path::new("/")),
            false => &whole,
        };
        let real = match existing.canonicalize() {
            Ok(real) => real,
            Err(e) if e.kind() == ErrorKind::NotFound => {
                let why = format!("there is no folder {}", existing.display());
                return refused(why, Some("make it first: mkdir -p"));
            }
            Err(e) => return refused(e.to_string(), None),
        };
        let folder = match (is_new, whole.file_name()) {
            (true, Some(name)) => real.join(name),
            _ => real.clone(),
        };
        if folder.to_str().is_none() {
            return refused("its name is not UTF-8".into(), None);
        }
        if !is_new {
            match fs::read_dir(&folder).map(|mut names| names.next().is_none()) {
                Ok(true) => {}
                Ok(false) => {
                    let hint = "name a new folder; in an existing one, rewake diff and rewake restore \
                        --at ID:ENTRY -o FILE PATH take single files";
                    return refused("it is not empty".into(), Some(hint));
                }
                Err(e) => return refused(e.to_string(), None),
            }
        }
        let hint = Some("name a folder outside of it, as ../NAME");
        if folder.starts_with(origin) {
            let why = format!(
                "it lies in {}, whose files the fork is a copy of",
                origin.display()
            );
            return refused(why, hint);
        }
        let mut own = self
            .own
            .iter()
            .map(|own| own.canonicalize().unwrap_or(own.clone()));
        if let Some(own) = own.find(|own| folder.starts_with(own)) {
            return refused(
                format!("it lies in {}, which is rewake's own", own.display()),
                hint,
            );
        }
        match here(&real) {
            Ok(found) if found.is_git => {
                let why = format!("it lies in the repository {}", found.root.display());
                refused(format!("{why}, all of which it would work in"), hint)
            }
            _ => Ok((folder, is_new)),
        }
    }
}

pub(super) fn is_repository(root: &Path) -> Result<(), NotForked> {
    match here(root) {
        Ok(found) if found.is_git && found.root == root => Ok(()),
        _ => Err(NotForked::Worktree {
            repository: root.to_path_buf(),
            why: "it is not a git repository".to_string(),
        }),
    }
}

/// Returns the default folder beside the root: `../project-0199c2`.
pub(super) fn beside(root: &Path, id: &str) -> PathBuf {
    let mut name = root.file_name().unwrap_or_default().to_os_string();
    name.push(format!("-{}", short_id(id)));
    root.with_file_name(name)
}

/// Makes a folder with the mode of another one. The folder may exist already, as git made it.
pub(super) fn make_like(other: &Path, folder: &Path) -> io::Result<()> {
    let mode = fs::metadata(other).map_or(0o700, |found| found.permissions().mode() & 0o777);
    DirBuilder::new()
        .recursive(true)
        .mode(mode)
        .create(folder)?;
    fs::set_permissions(folder, Permissions::from_mode(mode))
}

/// Returns whether a worktree has no files but git's own.
pub(super) fn is_empty_worktree(root: &Path) -> bool {
    fs::read_dir(root).is_ok_and(|names| names.flatten().all(|entry| entry.file_name() == ".git"))
        || !root.exists()
}

pub(super) fn text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}
