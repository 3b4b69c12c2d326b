//! The current branch, read from git's own files: a status line starts no process.

use std::path::Path;

use crate::config::read_text;

/// Maximum size of the files, which have a line or two.
const MAX_BYTES: u64 = 64 * 1024;

/// Returns the name of the branch, or the beginning of the commit's ID when no branch is checked
/// out.
pub fn branch(root: &Path) -> Option<String> {
    let git = root.join(".git");
    // In a worktree or a submodule, `.git` is a file that names the folder.
    let git = match read_text(&git, MAX_BYTES) {
        Ok(text) => root.join(text.strip_prefix("gitdir:")?.trim()),
        Err(_) => git,
    };
    let head = read_text(&git.join("HEAD"), MAX_BYTES).ok()?;
    let head = head.trim();
    match head.strip_prefix("ref: refs/heads/") {
        Some(name) => Some(name.to_string()),
        // Any other text is not a commit, and the file may not be git's.
        None if head.len() >= 40 && head.bytes().all(|b| b.is_ascii_hexdigit()) => {
            head.get(..8).map(str::to_string)
        }
        None => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_branch_is_named() {
        let root = tempfile::tempdir().unwrap();
        let at = |name: &str, text: &str| {
            let path = root.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        assert_eq!(branch(root.path()), None);
        at(".git/HEAD", "ref: refs/heads/feat/x\n");
        assert_eq!(branch(root.path()), Some("feat/x".into()));
        at(".git/HEAD", &format!("{}\n", "0123456789".repeat(4)));
        assert_eq!(branch(root.path()), Some("01234567".into()));
        at(".git/HEAD", "a secret of somebody that a link leads to\n");
        assert_eq!(branch(root.path()), None);
        at("tree/.git", "gitdir: ../real\n");
        at("real/HEAD", "ref: refs/heads/main\n");
        assert_eq!(branch(&root.path().join("tree")), Some("main".into()));
    }

    #[test]
    fn a_git_head_that_is_not_a_small_file_does_not_block() {
        let root = tempfile::tempdir().unwrap();
        let head = root.path().join(".git/HEAD");
        std::fs::create_dir(root.path().join(".git")).unwrap();
        std::os::unix::fs::symlink("/dev/zero", &head).unwrap();
        assert_eq!(branch(root.path()), None);
        std::fs::remove_file(&head).unwrap();
        let made = std::process::Command::new("mkfifo").arg(&head).status();
        assert!(made.unwrap().success());
        assert_eq!(branch(root.path()), None);
    }
}
