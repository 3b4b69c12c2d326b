//! Worktrees that rewake created: `worktrees/PROJECT/NAME` in the data folder, where PROJECT is a
//! hash of the project's folder. The config, the trust and the allowed rules of the project apply
//! in its worktrees, whatever their own files say.
//!
//! Invariant: which project a worktree is of is read from rewake's own folder, never from the worktree
//! or from git: a command that works in it can change those.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::{Component, Path, PathBuf};

use super::{ConfigError, Paths};

/// Folder below the data folder.
const FOLDER: &str = "worktrees";

/// File with the path of the project, beside its worktrees. No worktree has this name.
const PROJECT: &str = ".project";

/// Length of a hash, enough to avoid collisions.
const NAME_DIGITS: usize = 16;

const MAX_BYTES: u64 = 16 * 1024;

/// Returns the folder of all worktrees.
pub fn worktrees_folder(data_dir: &Path) -> PathBuf {
    let folder = data_dir.join(FOLDER);
    // Roots are canonical paths.
    match (folder.canonicalize(), data_dir.canonicalize()) {
        (Ok(folder), _) => folder,
        (Err(_), Ok(data_dir)) => data_dir.join(FOLDER),
        (Err(_), Err(_)) => folder,
    }
}

/// Returns the folder of the worktrees of this project, given by its canonical root.
pub fn worktrees_of(data_dir: &Path, project: &Path) -> PathBuf {
    let hash = blake3::hash(project.as_os_str().as_encoded_bytes()).to_hex();
    worktrees_folder(data_dir).join(&hash[..NAME_DIGITS])
}

/// Returns the file that names the project of a folder of worktrees.
pub fn project_note(folder: &Path) -> PathBuf {
    folder.join(PROJECT)
}

/// Returns the worktree of rewake that this path is in.
pub fn worktree_at(data_dir: &Path, path: &Path) -> Option<PathBuf> {
    let all = worktrees_folder(data_dir);
    let below = path.strip_prefix(&all).ok()?;
    let mut parts = below.components();
    match (parts.next()?, parts.next()?) {
        (Component::Normal(project), Component::Normal(name)) => Some(all.join(project).join(name)),
        _ => None,
    }
}

/// Returns the folder whose config, trust and rules apply in the workspace with this root. For a
/// worktree that rewake created, this is its project. Otherwise it is the root itself.
///
/// # Errors
/// The root is such a worktree, and its project is unknown or missing.
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
    if project.is_dir() {
        Ok(project)
    } else {
        Err(ConfigError::new(format!(
            "cannot work in the worktree {}: its project {} is gone",
            worktree.display(),
            project.display()
        ))
        .with_hint("its rules hold in the worktree: put it back where it was"))
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
        // A folder inside it that is the root of another repository is treated as separate.
        let inner = worktree.join("inner");
        assert_eq!(project_root(&paths, &inner), Ok(inner.clone()));
        assert_eq!(worktree_at(&paths.data_dir, &inner), Some(worktree.clone()));
        // What names another project is not believed.
        std::fs::write(project_note(&folder), "/").unwrap();
        let error = project_root(&paths, &worktree).unwrap_err();
        assert!(error.to_string().contains("is damaged"), "{error}");
    }
}
