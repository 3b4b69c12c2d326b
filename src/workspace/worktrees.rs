//! The worktrees of a repository, read from git's own files, without starting git and without
//! reading the worktrees themselves.
//!
//! Invariant: a folder is a worktree only when it and the repository name each other, so a
//! repository cannot claim folders of others.

use std::path::{Path, PathBuf};

use crate::config::read_text;

/// Maximum size of a file that contains a path.
const MAX_BYTES: u64 = 16 * 1024;

/// Maximum number of worktrees.
const MAX_WORKTREES: usize = 100;

/// Returns the root itself, then the others that share its repository. Returns only the root
/// without a readable repository.
pub fn worktrees(root: &Path) -> Vec<PathBuf> {
    let mut found = vec![root.to_path_buf()];
    if let Some(common) = common_folder(root) {
        let main = common.parent().filter(|_| common.ends_with(".git"));
        let main = main.map(Path::to_path_buf);
        for other in main.into_iter().chain(linked(&common)) {
            if !found.contains(&other) {
                found.push(other);
            }
        }
    }
    found
}

/// Returns the git folder that all worktrees share.
fn common_folder(root: &Path) -> Option<PathBuf> {
    let git = root.join(".git");
    if git.is_dir() {
        return git.canonicalize().ok();
    }
    let text = read_text(&git, MAX_BYTES).ok()?;
    let own = root.join(text.strip_prefix("gitdir:")?.trim());
    let own = own.canonicalize().ok()?;
    if root_of(&own)? != root.canonicalize().ok()? {
        return None;
    }
    let common = read_text(&own.join("commondir"), MAX_BYTES).ok()?;
    let common = own.join(common.trim()).canonicalize().ok()?;
    own.starts_with(common.join("worktrees")).then_some(common)
}

/// Returns the folder that a worktree's own git folder names.
fn root_of(own: &Path) -> Option<PathBuf> {
    let named = read_text(&own.join("gitdir"), MAX_BYTES).ok()?;
    let file = own.join(named.trim());
    file.parent()?.canonicalize().ok()
}

fn linked(common: &Path) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(common.join("worktrees")) else {
        return Vec::new();
    };
    let folders = entries.flatten().take(MAX_WORKTREES).map(|e| e.path());
    let roots = folders.filter_map(|own| root_of(&own));
    let names_it = |root: &PathBuf| common_folder(root).as_deref() == Some(common);
    roots.filter(names_it).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn git(folder: &Path, args: &[&str]) {
        let done = std::process::Command::new("git")
            .args(["-c", "user.name=a", "-c", "user.email=a@b.c"])
            .args(args)
            .current_dir(folder)
            .output()
            .unwrap();
        assert!(done.status.success(), "{done:?}");
    }

    #[test]
    fn worktrees_of_a_repository_are_found_from_each_of_them() {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path().canonicalize().unwrap();
        let (main, other) = (dir.join("main"), dir.join("other"));
        std::fs::create_dir(&main).unwrap();
        let alone = |root: &Path| worktrees(root) == [root];
        assert!(alone(&main));
        git(&main, &["init", "-q"]);
        git(&main, &["commit", "-q", "--allow-empty", "-m", "x"]);
        git(&main, &["worktree", "add", "-q", "../other"]);
        assert_eq!(worktrees(&main), [main.clone(), other.clone()]);
        assert_eq!(worktrees(&other), [other.clone(), main.clone()]);
        // A folder that names another person's repository is not a worktree of it.
        let stranger = dir.join("stranger");
        std::fs::create_dir(&stranger).unwrap();
        std::fs::copy(other.join(".git"), stranger.join(".git")).unwrap();
        assert!(alone(&stranger));
        std::fs::remove_dir_all(&other).unwrap();
        assert!(alone(&main));
    }
}
