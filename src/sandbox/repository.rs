//! The git folders of a repository, to which a command may write besides the workspace, and the
//! folders of objects elsewhere, which it may read.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::folders::entries;
use super::places::PROTECTED_GIT;
use super::protected::modules_of;
use crate::config::read_text;
use crate::core::file_name::unquote_name;
use crate::workspace::{git_settings_of_user, is_repository_of, obeyed_by_git};

/// Maximum size of a file that names a folder.
const MAX_LINE: u64 = 4096;

/// File of an object folder that names others.
const ALTERNATES: &str = "info/alternates";
const MAX_ALTERNATES: u64 = 64 * 1024;

/// Maximum depth of alternates of alternates, as in git.
const MAX_DEPTH: usize = 6;

/// Maximum number of object folders elsewhere, and of names in one.
const MAX_OBJECTS: usize = 64;
const MAX_NAMES: usize = 2_000;

/// Names in an object folder, besides those of two hexadecimal digits.
const IN_OBJECTS: [&str; 4] = ["info", "pack", "maintenance.lock", "loose-object-idx"];
const TEMPORARY_OBJECTS: [&str; 3] = ["tmp_obj", "incoming-", "bulk-"];

/// Names of files, in the git folder of another worktree and in the shared one, that a command in a
/// worktree may not write to.
const OF_OTHERS: [&str; 5] = [
    "HEAD",
    "index",
    "locked",
    "info/exclude",
    "info/sparse-checkout",
];

/// The git folders of a repository, as `git rev-parse` prints them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Repository {
    /// The folder with `HEAD` and the index.
    pub git_dir: PathBuf,
    /// The shared folder; it differs from `git_dir` only in a linked worktree.
    pub common_dir: PathBuf,
}

impl Repository {
    /// Returns the repository that `.git` of a workspace leads to, if it is the one of the workspace.
    pub fn of(workspace: &Path) -> Option<Repository> {
        Repository::usable(workspace, &[])
    }

    /// Does the same, also for one that is in a folder of the config.
    pub fn usable(workspace: &Path, granted: &[PathBuf]) -> Option<Repository> {
        let named = Repository::named_by(workspace)?;
        let mut granted = granted.iter().filter_map(|path| path.canonicalize().ok());
        let is_granted = granted.any(|folder| named.common_dir.starts_with(folder));
        (is_granted || named.is_of(workspace)).then_some(named)
    }

    /// Reads `.git` of a workspace: the folder, or a link to it, or a file that names it. The
    /// repository may be another one, which anybody can name.
    pub fn named_by(workspace: &Path) -> Option<Repository> {
        let dot_git = workspace.join(".git");
        let git_dir = match std::fs::symlink_metadata(&dot_git).ok()? {
            _ if dot_git.is_dir() => dot_git,
            found if found.is_file() => {
                let text = read_text(&dot_git, MAX_LINE).ok()?;
                workspace.join(text.strip_prefix("gitdir:")?.trim())
            }
            _ => return None,
        };
        let git_dir = git_dir.canonicalize().ok()?;
        let common_dir = match read_text(&git_dir.join("commondir"), MAX_LINE) {
            Ok(text) => git_dir.join(text.trim()).canonicalize().ok()?,
            Err(_) => git_dir.clone(),
        };
        let is_real = common_dir.join("objects").is_dir() && git_dir.join("HEAD").is_file();
        // A worktree's git folder is in the repository that it names. Otherwise a `.git` file could
        // name any folder as writable for commands.
        let belongs = git_dir == common_dir
            || git_dir.parent() == Some(common_dir.join("worktrees").as_path());
        (is_real && belongs).then_some(Repository {
            git_dir,
            common_dir,
        })
    }

    /// Returns whether the repository says that its files are in this workspace.
    pub fn is_of(&self, workspace: &Path) -> bool {
        is_repository_of(workspace, &self.git_dir)
    }

    /// Returns the folders with objects elsewhere that git reads, also for submodules: those that
    /// `alternates` or `further` name, and the targets of links. What was named after `until`, counted
    /// from 1970, is left out: a command may have named it.
    pub fn objects_elsewhere(
        &self,
        further: impl IntoIterator<Item = PathBuf>,
        until: Option<Duration>,
    ) -> Vec<PathBuf> {
        let all = modules_of(&self.common_dir).into_iter();
        let own = all.chain([self.common_dir.clone()]);
        let own = own.map(|git| (git.join("objects"), 0));
        let mut waiting: Vec<(PathBuf, usize)> = own.collect();
        waiting.extend(further.into_iter().map(|folder| (folder, 1)));
        let mut found = Vec::new();
        while let Some((named, depth)) = waiting.pop() {
            if depth > 0 && found.len() >= MAX_OBJECTS {
                continue;
            }
            let Ok(real) = named.canonicalize() else {
                continue;
            };
            if depth > 0 || real != named {
                let is_named = depth > 0 || is_named_until(&named, until);
                let is_room = found.len() < MAX_OBJECTS && !found.contains(&real);
                if !is_named || !is_room || !holds_objects(&real) {
                    continue;
                }
                found.push(real.clone());
            }
            let (info, file) = (real.join("info"), real.join(ALTERNATES));
            // A command can move or link a folder with an older file.
            let is_folder = info.symlink_metadata().is_ok_and(|found| found.is_dir());
            let is_old = is_named_until(&info, until) && is_named_until(&file, until);
            if depth < MAX_DEPTH && is_folder && is_old {
                let next = alternates(&file).into_iter().take(MAX_OBJECTS);
                waiting.extend(next.map(|folder| (real.join(folder), depth + 1)));
            }
        }
        found
    }

    /// Returns the folder elsewhere that git, with this output, could not use in the sandbox, and
    /// the setting that would allow it.
    pub fn missing_elsewhere(workspace: &Path, output: &str) -> Option<(PathBuf, &'static str)> {
        let is_unknown = output.contains("fatal: not a git repository");
        let denied = |line: &str| line.to_lowercase().contains("permission");
        if !is_unknown && !output.lines().any(|l| l.contains("objects") && denied(l)) {
            return None;
        }
        let named = Repository::named_by(workspace)?;
        let is_outside = |folder: &Path| !folder.starts_with(workspace);
        if is_unknown {
            let is_missing = is_outside(&named.common_dir) && !named.is_of(workspace);
            return is_missing.then_some((named.common_dir, "write"));
        }
        let objects = named.common_dir.join("objects");
        if objects.is_symlink() {
            let target = objects.canonicalize().ok();
            return Some((target.filter(|target| is_outside(target))?, "write"));
        }
        let mut all = named.objects_elsewhere([], None).into_iter();
        let folder = all.find(|folder| output.contains(&*folder.to_string_lossy()))?;
        is_outside(&folder).then_some((folder, "read"))
    }

    /// Returns the files to which the settings and links of the repository lead git.
    pub fn obeyed(&self, workspace: &Path, home: Option<&Path>) -> BTreeSet<PathBuf> {
        let of_user = home.map(git_settings_of_user).unwrap_or_default();
        let folders = BTreeSet::from([&self.git_dir, &self.common_dir]);
        let folders = folders.into_iter();
        let obeyed = |git| obeyed_by_git(git, workspace, &PROTECTED_GIT, &of_user, home);
        folders.flat_map(|git: &PathBuf| obeyed(git)).collect()
    }

    /// Returns, for a linked worktree, the paths that say where other worktrees are, what is staged
    /// there, and which files they include.
    pub(super) fn of_others(&self) -> Vec<PathBuf> {
        if self.git_dir == self.common_dir {
            return Vec::new();
        }
        let worktrees = entries(&self.common_dir.join("worktrees"));
        let others = worktrees.into_iter().map(|(path, _)| path);
        let others = others.filter(|path| *path != self.git_dir);
        let all = others.chain([self.common_dir.clone()]);
        all.flat_map(|folder| OF_OTHERS.iter().map(move |name| folder.join(name)))
            .collect()
    }
}

/// Returns whether an entry is from this time or before. Nobody can set back the time of its change.
fn is_named_until(path: &Path, until: Option<Duration>) -> bool {
    until.is_none_or(|until| {
        let found = path.symlink_metadata();
        let changed = found.map(|found| (found.ctime(), found.ctime_nsec()));
        let until = (until.as_secs() as i64, i64::from(until.subsec_nanos()));
        changed.is_ok_and(|changed| changed <= until)
    })
}

/// Returns whether a folder has nothing but what git puts into an object folder.
fn holds_objects(folder: &Path) -> bool {
    let is_of_git = |name: &str| {
        let is_temporary = TEMPORARY_OBJECTS.iter().any(|of| name.starts_with(of));
        let is_hex = name.len() == 2 && name.bytes().all(|byte| byte.is_ascii_hexdigit());
        is_hex || is_temporary || IN_OBJECTS.contains(&name)
    };
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let names = entries.take(MAX_NAMES).map(|entry| entry.file_name());
    let names: Vec<OsString> = names.collect();
    let is_whole = folder.join("pack").is_dir() && names.len() < MAX_NAMES;
    is_whole
        && names
            .iter()
            .all(|name| name.to_str().is_some_and(is_of_git))
}

/// Returns the folders that a file of alternates names: one a line, perhaps quoted. A line that
/// begins with `#` is a comment.
fn alternates(file: &Path) -> Vec<PathBuf> {
    let is_file = file.symlink_metadata().is_ok_and(|found| found.is_file());
    let text = read_text(file, MAX_ALTERNATES).ok().filter(|_| is_file);
    let text = text.unwrap_or_default();
    let lines = text.lines();
    let lines = lines.filter(|line| !line.is_empty() && !line.starts_with('#'));
    let named = lines.map(|line| unquote_name(line).unwrap_or_else(|| line.as_bytes().to_vec()));
    named.map(|name| OsString::from_vec(name).into()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::ffi::OsStrExt;
    use std::os::unix::fs::symlink;
    use std::time::SystemTime;
    use support::git;

    fn repositories(names: &[&str]) -> (tempfile::TempDir, PathBuf) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().canonicalize().unwrap();
        for name in names {
            fs::create_dir(path.join(name)).unwrap();
            git(&path.join(name), &["init", "-q"]);
        }
        (dir, path)
    }

    fn objects(dir: &Path, name: &str) -> PathBuf {
        dir.join(name).join(".git/objects")
    }

    fn name_alternates(dir: &Path, name: &str, text: &str) {
        fs::write(objects(dir, name).join(ALTERNATES), text).unwrap();
    }

    fn elsewhere(dir: &Path, until: Option<Duration>) -> Vec<PathBuf> {
        let repository = Repository::of(&dir.join("ws")).unwrap();
        let mut found = repository.objects_elsewhere([], until);
        found.sort();
        found
    }

    #[test]
    fn alternates_are_read_as_git_reads_them() {
        let (_dir, dir) = repositories(&["ws", "a", "b ä", "c", "d"]);
        let text = "# ../../../d/.git/objects\n\n../../../a/.git/objects\n\
             \"../../../b \\303\\244/.git/objects\"\n/none\n../../../c/.git\n";
        name_alternates(&dir, "ws", text);
        // In a circle, and of alternates.
        name_alternates(
            &dir,
            "a",
            "../../../ws/.git/objects\n../../../c/.git/objects\n",
        );
        let expected = ["a", "b ä", "c", "ws"].map(|name| objects(&dir, name));
        assert_eq!(elsewhere(&dir, None), expected);
        let now = SystemTime::UNIX_EPOCH.elapsed().unwrap();
        let before = now - Duration::from_secs(3600);
        assert_eq!(elsewhere(&dir, Some(before)), Vec::<PathBuf>::new());
        let after = now + Duration::from_secs(3600);
        assert_eq!(elsewhere(&dir, Some(after)), expected);
    }

    #[test]
    fn alternates_that_were_moved_or_linked_later_are_left_out() {
        let (_dir, dir) = repositories(&["ws", "a"]);
        let (prepared, info) = (dir.join("prepared"), objects(&dir, "ws").join("info"));
        fs::create_dir(&prepared).unwrap();
        let named = objects(&dir, "a");
        fs::write(prepared.join("alternates"), named.as_os_str().as_bytes()).unwrap();
        let until = SystemTime::UNIX_EPOCH.elapsed().unwrap();
        let clock = dir.join("clock");
        fs::write(&clock, "").unwrap();
        while is_named_until(&clock, Some(until)) {
            fs::write(&clock, "").unwrap();
        }
        fs::remove_dir(&info).unwrap();
        fs::rename(&prepared, &info).unwrap();
        assert_eq!(elsewhere(&dir, Some(until)), Vec::<PathBuf>::new());
        assert_eq!(elsewhere(&dir, None), [named]);
        fs::rename(&info, &prepared).unwrap();
        symlink(&prepared, &info).unwrap();
        assert_eq!(elsewhere(&dir, None), Vec::<PathBuf>::new());
    }

    #[test]
    fn a_chain_of_alternates_ends_where_that_of_git_does() {
        let names = ["ws", "a", "b", "c", "d", "e", "f", "g"];
        let (_dir, dir) = repositories(&names);
        for pair in names.windows(2) {
            let next = objects(&dir, pair[1]).display().to_string();
            name_alternates(&dir, pair[0], &next);
        }
        let expected = ["a", "b", "c", "d", "e", "f"].map(|name| objects(&dir, name));
        assert_eq!(elsewhere(&dir, None), expected);
    }

    #[test]
    fn only_a_folder_of_objects_is_named_by_alternates() {
        let (_dir, dir) = repositories(&["ws", "a"]);
        let named = ["/", "/etc", "/root", "../../../a", "../../../a/.git"];
        name_alternates(&dir, "ws", &named.join("\n"));
        assert_eq!(elsewhere(&dir, None), Vec::<PathBuf>::new());
        name_alternates(&dir, "ws", "../../../a/.git/objects\n");
        assert_eq!(elsewhere(&dir, None).len(), 1);
        fs::write(objects(&dir, "a").join("notes"), "x").unwrap();
        assert_eq!(elsewhere(&dir, None), Vec::<PathBuf>::new());
    }

    #[test]
    fn objects_behind_a_link_are_found() {
        let (_dir, dir) = repositories(&["ws"]);
        fs::rename(objects(&dir, "ws"), dir.join("objects")).unwrap();
        symlink("../../objects", objects(&dir, "ws")).unwrap();
        assert_eq!(elsewhere(&dir, None), [dir.join("objects")]);
        let (ws, denied) = (dir.join("ws"), "error: Permission denied: .git/objects/1a");
        let missing = Repository::missing_elsewhere(&ws, denied);
        assert_eq!(missing, Some((dir.join("objects"), "write")));
        assert_eq!(
            Repository::missing_elsewhere(&ws, "fatal: bad revision"),
            None
        );
    }

    #[test]
    fn the_shared_folder_of_a_worktree_is_the_one_around_its_own() {
        let (_dir, dir) = repositories(&["ws"]);
        let own = dir.join("ws/own");
        fs::create_dir_all(dir.join("objects")).unwrap();
        fs::create_dir_all(own.join("objects")).unwrap();
        fs::write(own.join("HEAD"), "ref: refs/heads/main\n").unwrap();
        fs::remove_dir_all(dir.join("ws/.git")).unwrap();
        fs::write(dir.join("ws/.git"), "gitdir: own").unwrap();
        assert!(Repository::of(&dir.join("ws")).is_some());
        // A command could widen its sandbox to a folder above.
        fs::write(own.join("commondir"), "../..").unwrap();
        assert_eq!(Repository::of(&dir.join("ws")), None);
    }
}
