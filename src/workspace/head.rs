//! Moves of HEAD since a time, from git's reflog. Without a reflog nothing is reported.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use crate::config::read_text;

/// Bytes at the end of the log that are read: some hundred moves.
const MAX_BYTES: u64 = 64 * 1024;

/// Maximum size of a file with one line that names a folder.
const MAX_LINE: u64 = 4 * 1024;

/// The moves of HEAD.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeadMoved {
    /// Number of moves, as far as the end of the log shows.
    pub times: usize,
    /// The last action, in git's words: `commit: fix the parser`.
    pub last: String,
}

/// Returns the moves of HEAD since this time (UTC, milliseconds since 1970). Git's log has seconds,
/// so a move within that second counts.
pub fn head_moved_since(root: &Path, since_ms: i64) -> Option<HeadMoved> {
    let log = end_of(&git_folder(root)?.join("logs/HEAD"))?;
    let text = String::from_utf8_lossy(&log);
    let moved: Vec<&str> = text
        .lines()
        .filter(|line| at_ms(line).is_some_and(|at| at + 999 >= since_ms))
        .collect();
    let last = moved.last()?.split_once('\t').map_or("", |(_, what)| what);
    Some(HeadMoved {
        times: moved.len(),
        last: last.to_string(),
    })
}

/// Returns the hash of the commit that HEAD was last moved to.
pub fn head_commit(root: &Path) -> Option<String> {
    let log = end_of(&git_folder(root)?.join("logs/HEAD"))?;
    let text = String::from_utf8_lossy(&log);
    let hash = text.lines().last()?.split(' ').nth(1)?;
    let is_hash = hash.len() >= 40 && hash.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_hash.then(|| hash.to_string())
}

/// Returns the git folder of the nearest repository at or above a folder.
fn git_folder(root: &Path) -> Option<PathBuf> {
    let git = root
        .ancestors()
        .map(|folder| folder.join(".git"))
        .find(|git| git.symlink_metadata().is_ok())?;
    match read_text(&git, MAX_LINE) {
        // In a worktree or a submodule, `.git` is a file that names the folder.
        Ok(text) => Some(git.parent()?.join(text.strip_prefix("gitdir:")?.trim())),
        Err(_) => Some(git),
    }
}

/// Reads the end of a regular file; anything else could block the reader.
fn end_of(path: &Path) -> Option<Vec<u8>> {
    let found = path.symlink_metadata().ok()?;
    if !found.is_file() {
        return None;
    }
    let mut file = File::open(path).ok()?;
    file.seek(SeekFrom::Start(found.len().saturating_sub(MAX_BYTES)))
        .ok()?;
    let mut end = Vec::new();
    file.take(MAX_BYTES).read_to_end(&mut end).ok()?;
    Some(end)
}

/// Returns the time of a line `OLD NEW Name <mail> SECONDS ZONE⇥what`.
fn at_ms(line: &str) -> Option<i64> {
    let who = line.split('\t').next()?;
    let (_, when) = who.rsplit_once("> ")?;
    let seconds: i64 = when.split(' ').next()?.parse().ok()?;
    seconds.checked_mul(1_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moves_of_head_since_a_time_are_counted() {
        let root = tempfile::tempdir().unwrap();
        assert_eq!(head_moved_since(root.path(), 0), None);
        let logs = root.path().join(".git/logs");
        std::fs::create_dir_all(&logs).unwrap();
        let line = |at: u32, what: &str| format!("0 1 A > B <a@b> {at} +0100\t{what}\n");
        let log = line(10, "commit (initial): a") + &line(20, "commit: b") + &line(30, "reset: c");
        std::fs::write(logs.join("HEAD"), log).unwrap();
        let moved = |since| head_moved_since(root.path(), since).map(|m| (m.times, m.last));
        assert_eq!(moved(15_000), Some((2, "reset: c".to_string())));
        assert_eq!(moved(30_500), Some((1, "reset: c".to_string())));
        assert_eq!(moved(31_000), None);
        // A worktree has a separate log, and a folder below the root uses the log of the root.
        let tree = root.path().join("tree/below");
        std::fs::create_dir_all(&tree).unwrap();
        std::fs::write(root.path().join("tree/.git"), "gitdir: ../real\n").unwrap();
        assert_eq!(head_moved_since(&tree, 0), None);
        let logs = root.path().join("real/logs");
        std::fs::create_dir_all(&logs).unwrap();
        std::fs::write(logs.join("HEAD"), line(40, "commit: d")).unwrap();
        assert_eq!(head_moved_since(&tree, 0).map(|m| m.times), Some(1));
    }
}
