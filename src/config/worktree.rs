//! Worktrees that rewake made: `worktrees/PROJECT/NAME` in the data folder, where PROJECT is a hash of
//! the folder of the project that they are worktrees of. What holds in that folder (its config, what
//! is trusted there, the rules that were allowed for it) holds in them, whatever their own files say.
//!
//! Invariant: which project a worktree is of is read from rewake's own folder, never from the worktree
//! or from git: a command that works in it can change those.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::{Component, Path, PathBuf};

use super::{ConfigError, Paths};

/// Below the data folder.
const FOLDER: &str = "worktrees";

/// Holds the path of the project, beside its worktrees. No worktree has such a name.
const PROJECT: &str = ".project";

/// Enough that no two projects share one.
const NAME_DIGITS: usize = 16;

const MAX_BYTES: u64 = 16 * 1024;

/// The folder of all worktrees.
pub fn worktrees_folder(data_dir: &Path) -> PathBuf {
    let folder = data_dir.join(FOLDER);
    // Roots have their links followed.
    match (folder.canonicalize(), data_dir.canonicalize()) {
        (Ok(folder), _) => folder,
        (Err(_), Ok(data_dir)) => data_dir.join(FOLDER),
        (Err(_), Err(_)) => folder,
    }
}

/// The folder of the worktrees of this project, given by its canonical root.
pub fn worktrees_of(data_dir: &Path, project: &Path) -> PathBuf {
    let hash = blake3::hash(project.as_os_str().as_encoded_bytes()).to_hex();
    worktrees_folder(data_dir).join(&hash[..NAME_DIGITS])
}

/// The file that says which project a folder of worktrees is of.
pub fn project_note(folder: &Path) -> PathBuf {
    folder.join(PROJECT)
}

/// The worktree of rewake's that this path is, or lies in.
pub fn worktree_at(data_dir: &Path, path: &Path) -> Option<PathBuf> {
    let all = worktrees_folder(data_dir);
    let below = path.strip_prefix(&all).ok()?;
    let mut parts = below.components();
    match (parts.next()?, parts.next()?) {
        (Component::Normal(project), Component::Normal(name)) => Some(all.join(project).join(name)),
        _ => None,
    }
}

/// The folder whose config, trust and rules hold in the workspace with this root: that of the project
/// for a worktree that rewake made, else the root itself.
///
/// # Errors
/// It is such a worktree, and its project cannot be told or is gone.
pub fn project_root(paths: &Paths, root: &Path) -> Result<PathBuf, ConfigError> {
    match worktree_at(&paths.data_dir, root) {
        Some(worktree) if worktree == root => project_of(&worktree),
        _ => Ok(root.to_path_buf()),
    }
}

fn project_of(worktree: &Path) -> Result<PathBuf, ConfigError> {
    let folder = worktree.parent().unwrap_or(worktree);
    let file = project_note(folder);
    let failed = |why: String| {
        ConfigError::new(format!(
            "cannot tell whose worktree {} is: {why}",
            worktree.display()
        ))
    };
    let small = std::fs::metadata(&file).is_ok_and(|found| found.len() <= MAX_BYTES);
    let read = std::fs::read(&file).map_err(|e| failed(format!("{}: {e}", file.display())))?;
    let project = PathBuf::from(OsString::from_vec(read));
    let hash = blake3::hash(project.as_os_str().as_encoded_bytes()).to_hex();
    let is_its = folder
        .file_name()
        .is_some_and(|name| *name == hash[..NAME_DIGITS]);
    if !small || !is_its {
        return Err(failed(format!("{} is damaged", file.display()))
            .with_hint("rewake doctor names the worktrees; git worktree list their repositories"));
    }
    match project.is_dir() {
        true => Ok(project),
        false => Err(ConfigError::new(format!(
            "cannot work in the worktree {}: its project {} is gone",
            worktree.display(),
            project.display()
        ))
        .with_hint("its rules hold in the worktree: put it back where it was")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::testing::Fixture;

    #[test]
    fn a_worktree_is_of_the_project_that_its_folder_names() {
        let f = Fixture::new();
        let (paths, root) = (f.paths(), f.root().canonicalize().unwrap());
        assert_eq!(project_root(&paths, &root), Ok(root.clone()));
        let folder = worktrees_of(&paths.data_dir, &root);
        let worktree = folder.join("fix");
        std::fs::create_dir_all(&worktree).unwrap();
        let folder = folder.canonicalize().unwrap();
        let worktree = worktree.canonicalize().unwrap();
        assert!(project_root(&paths, &worktree).is_err());
        std::fs::write(project_note(&folder), root.as_os_str().as_encoded_bytes()).unwrap();
        assert_eq!(project_root(&paths, &worktree), Ok(root.clone()));
        // A folder in it is a repository of its own, if it is a root.
        let inner = worktree.join("inner");
        assert_eq!(project_root(&paths, &inner), Ok(inner.clone()));
        assert_eq!(worktree_at(&paths.data_dir, &inner), Some(worktree.clone()));
        // What names another project is not believed.
        std::fs::write(project_note(&folder), "/").unwrap();
        let error = project_root(&paths, &worktree).unwrap_err();
        assert!(error.to_string().contains("is damaged"), "{error}");
    }
}
