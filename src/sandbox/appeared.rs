//! Protected names that were made anywhere in the workspace, or in another writable folder of the
//! config, while a command ran.
//!
//! The folders are scanned when the command ends, with the bounds of the scan before it. Paths of
//! the first scan are known by name. A repository that the command created may stay if nothing in
//! it runs. The other files of a repository that was cloned with the network, which always needs
//! approval, may stay too.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};
use std::sync::LazyLock;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustix::fs::Stat;

use super::folders::entries;
use super::profile::Profile;
use super::protected::{MAX_DEPTH, ScanFolder, ScanQueue, modules_of};
use crate::config::read_text;
use crate::core::access::Access;
use crate::core::path::text_matches;
use crate::core::policy::OBEYED;
use crate::workspace::{is_inert, is_inert_folder};

/// Maximum lag of a file system's clock.
const GRAIN: Duration = Duration::from_millis(20);

/// Returns the protected paths that were created since then and must not stay: the topmost path of
/// each. `before` has those protected paths of the profile that existed.
pub(super) fn appeared(
    profile: &Profile,
    before: &BTreeSet<PathBuf>,
    since: SystemTime,
) -> Vec<PathBuf> {
    let mut look = FolderLook {
        before,
        since,
        whole: [false; 2],
        is_allowed: profile.access >= Access::Network,
        found: Vec::new(),
    };
    for scan in profile.scans() {
        look.whole = [scan.whole, scan.filled_whole];
        look.through(&scan.workspace);
    }
    look.found
}

struct FolderLook<'a> {
    before: &'a BTreeSet<PathBuf>,
    since: SystemTime,
    /// Whether the scan before the command was complete, so that any path that it did not find is
    /// new: in ordinary folders, and in those that tools fill.
    whole: [bool; 2],
    /// Whether a person or a rule allowed the command.
    is_allowed: bool,
    found: Vec<PathBuf>,
}

impl FolderLook<'_> {
    fn through(&mut self, root: &Path) {
        let mut queue = ScanQueue::new(root);
        // The repositories that the command created and that may stay.
        let mut created: Vec<PathBuf> = Vec::new();
        while let Some(folder) = queue.pop() {
            // Further down, tests leave repositories.
            if folder.is_filled && folder.depth > 1 {
                continue;
            }
            if self.judge_repository(&folder) {
                created.push(folder.path.clone());
            }
            if folder.is_filled && folder.depth > 0 {
                continue;
            }
            let is_inside = created.iter().any(|top| folder.path.starts_with(top));
            let is_skipped = is_inside || folder.depth == MAX_DEPTH;
            for (path, is_folder) in entries(&folder.path) {
                let name = path.file_name().unwrap_or_default();
                if self.before.contains(&path) || name == ".git" || self.found.contains(&path) {
                    continue;
                }
                // The scan before the command had the same depth, and followed no link.
                let is_old_link = is_link(&path) && !made_since(&path, self.since, false);
                let obeyed = if is_skipped || is_old_link {
                    Vec::new()
                } else {
                    obeyed(&path)
                };
                for one in obeyed {
                    let is_known = self.before.contains(&one);
                    if !is_known && self.is_new(&one, &folder) && !self.found.contains(&one) {
                        self.found.push(one);
                    }
                }
                if is_folder && !self.found.contains(&path) {
                    queue.add(&folder, name);
                }
            }
        }
    }

    /// Records a repository in this folder if it may not stay. Returns whether the repository is
    /// new and may stay with all files in it.
    fn judge_repository(&mut self, folder: &ScanFolder) -> bool {
        let top = &folder.path;
        let git = top.join(".git");
        let is_head = |path: &PathBuf| {
            let name = path.file_name().unwrap_or_default();
            name.eq_ignore_ascii_case("HEAD") && (top.join("objects").exists() || is_link(path))
        };
        let found = if git.symlink_metadata().is_ok() {
            Some(git)
        } else if folder.is_filled && folder.depth > 0 {
            None
        } else {
            let mut paths = entries(top).into_iter().map(|(path, _)| path);
            paths.find(is_head)
        };
        let Some(found) = found else {
            return false;
        };
        if found.is_dir() {
            // For a submodule that is not checked out yet, git uses a folder that is already there.
            for module in modules_of(&found) {
                let was_there = self.before.contains(&module);
                let is_inert = || !is_link(&module) && is_inert_folder(&module).is_ok();
                if !was_there && self.is_new(&module, folder) && !is_inert() {
                    self.found
                        .push(obeyed_of_worktree(&found, &module).unwrap_or(module));
                }
            }
        }
        let was_there = self.before.contains(&found);
        if was_there || !self.is_new(&found, folder) {
            return false;
        }
        match is_inert(top, |common| self.before.contains(common)) {
            // A person allowed its source: nothing reaches the network without approval.
            Ok(()) => self.is_allowed && is_repository(&found),
            Err(_) => {
                self.found.push(found);
                false
            }
        }
    }

    fn is_new(&self, path: &Path, folder: &ScanFolder) -> bool {
        self.whole[usize::from(folder.is_filled)]
            || made_since(path, self.since, !is_link(path) && path.is_dir())
    }
}

fn is_repository(git: &Path) -> bool {
    git.is_file()
        || ["HEAD", "objects", "refs"]
            .iter()
            .all(|name| git.join(name).exists())
}

/// Returns the only file that git obeys in the folder of a linked worktree, in which somebody else
/// may work already. `None` if `module` is another folder, or that file does not exist.
fn obeyed_of_worktree(git: &Path, module: &Path) -> Option<PathBuf> {
    let common = read_text(&module.join("commondir"), 16).ok()?;
    let is_worktree = module.parent() == Some(&git.join("worktrees")) && common.trim() == "../..";
    let obeyed = module.join("config.worktree");
    (is_worktree && !is_link(module) && obeyed.symlink_metadata().is_ok()).then_some(obeyed)
}

fn is_link(path: &Path) -> bool {
    path.symlink_metadata()
        .is_ok_and(|found| found.is_symlink())
}

/// Returns those parts of a path that the user's tools run or obey without asking. The policy
/// protects more: names that builds create all the time, and whole folders of which one file is
/// obeyed.
fn obeyed(path: &Path) -> Vec<PathBuf> {
    let is_project = |e: &OsStr| e.eq_ignore_ascii_case("code-workspace");
    if path.extension().is_some_and(is_project) {
        return vec![path.to_path_buf()];
    }
    let lower = |part: Component<'_>| part.as_os_str().to_string_lossy().to_lowercase();
    let parts: Vec<String> = path.components().map(lower).collect();
    static NAMES: LazyLock<Vec<Vec<String>>> = LazyLock::new(|| {
        let parts = |name: &&str| name.split('/').map(str::to_lowercase).collect();
        OBEYED.iter().map(parts).collect()
    });
    let mut found = Vec::new();
    // Most paths of a workspace end here.
    let last = parts.last().map_or("", String::as_str);
    let all = OBEYED.iter().zip(NAMES.iter());
    for (written, names) in all.filter(|(_, names)| names.iter().any(|name| is(name, last))) {
        for count in (1..=names.len()).rev() {
            let is_its_end = parts.len() >= count
                && parts[parts.len() - count..]
                    .iter()
                    .zip(names.iter())
                    .all(|(part, name)| is(name, part));
            let below = written.split('/').skip(count);
            let whole = below.fold(path.to_path_buf(), |path, name| path.join(name));
            if is_its_end && whole.symlink_metadata().is_ok() {
                found.push(whole);
                break;
            }
        }
    }
    found
}

fn is(name: &str, part: &str) -> bool {
    match name.split_once('*') {
        // Compares the beginning first, since most names have another one.
        Some((start, _)) => part.starts_with(start) && text_matches(name, part),
        None => name == part,
    }
}

/// Returns whether a path was created since then. For folders (`by_birth`) only the creation time
/// counts, if the file system has it, since they change with their entries. For other files the
/// last status change counts too, since a rename changes it.
pub(super) fn made_since(path: &Path, since: SystemTime, by_birth: bool) -> bool {
    last_made(path, by_birth).is_some_and(|at| at + GRAIN >= since)
}

/// Returns whether a path was created in one of these times, in the sense of [`made_since`].
pub(super) fn made_within(path: &Path, times: &[(SystemTime, SystemTime)], by_birth: bool) -> bool {
    let is_within = |at| {
        let mut times = times.iter();
        times.any(|(from, to)| *from <= at && at + GRAIN <= *to)
    };
    !times.is_empty() && last_made(path, by_birth).is_some_and(is_within)
}

fn last_made(path: &Path, by_birth: bool) -> Option<SystemTime> {
    let found = fs::symlink_metadata(path).ok()?;
    let changed = time_of(found.ctime(), found.ctime_nsec());
    let born = found.created().unwrap_or(changed);
    Some(if by_birth { born } else { born.max(changed) })
}

/// Returns whether a file that is not a folder was created, renamed or changed since then.
#[allow(
    clippy::unnecessary_cast,
    clippy::useless_conversion,
    reason = "they have other types on other systems"
)]
pub(super) fn is_changed_since(found: &Stat, since: SystemTime) -> bool {
    time_of(i64::from(found.st_ctime), found.st_ctime_nsec as i64) + GRAIN >= since
}

fn time_of(seconds: i64, nanos: i64) -> SystemTime {
    let seconds = u64::try_from(seconds).unwrap_or_default();
    let nanos = u32::try_from(nanos).unwrap_or_default();
    UNIX_EPOCH + Duration::new(seconds, nanos)
}
