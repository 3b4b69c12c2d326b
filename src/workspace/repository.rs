//! Checks of whether read-only git commands are safe in a folder.
//!
//! Git obeys the repository it is in: the settings in `.git/config` name programs that run on
//! `git status` (`core.fsmonitor`, `filter.*.clean`) and on `git diff` (`diff.external`, textconv),
//! and may lead out of it (`core.worktree`, `include.path`). [`is_plain`] reads the same files as
//! git, and finds them as git does (gitrepository-layout, git-config). It has a list of the
//! settings that do none of this. Any other setting is refused, and so is anything that git could
//! read in another way than rewake. The user's own settings, outside of the repository, are
//! trusted.
//!
//! Invariant: the list is closed. A repository that is not understood is not plain.

mod config;
mod index;
mod obeyed;

use std::ffi::OsStr;
use std::fs;
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use rustix::fs::{FileType, OFlags};

use super::handle::Folder;

use config::{IGNORED_REVISIONS, Settings};
pub use obeyed::{GitSetting, git_settings_of_user, names_program, obeyed_by_git};

/// Maximum depth of nested submodules.
const MAX_DEPTH: usize = 4;
const MAX_REPOSITORIES: usize = 64;

const MAX_CONFIG_BYTES: u64 = 256 * 1024;
const MAX_INDEX_BYTES: u64 = 64 * 1024 * 1024;

/// The hook that read-only commands run: git writes the index when times of files have changed.
const HOOK: &str = "post-index-change";

/// Maximum number of files and folders that are checked, in all repositories together.
const MAX_OWN_FILES: usize = 50_000;

/// Folders that read-only commands do not read; [`HOOK`] is checked separately.
const NOT_READ: [&str; 3] = ["hooks", "lfs", "annex"];

/// Paths that git reads in the folder of a repository, each with the depth. A link there may lead
/// anywhere.
const READ: [(&str, usize); 10] = [
    ("", 0),
    ("info", 0),
    ("logs", 64),
    ("objects", 0),
    ("objects/info", 0),
    ("objects/pack", 0),
    ("rebase-apply", 0),
    ("rebase-merge", 0),
    ("refs", 64),
    ("sequencer", 0),
];

/// File that names other repositories, whose objects git shows as if they were in this one.
const ALTERNATES: &str = "objects/info/alternates";

/// Checks that read-only git commands in an absolute folder run no program and stay in the
/// repository. The error says why they may not. A folder outside of any repository passes.
pub fn is_plain(folder: &str) -> Result<(), String> {
    let Ok(folder) = Path::new(folder).canonicalize() else {
        return Err(format!("there is no folder `{folder}` for `git` to run in"));
    };
    let mut checked = Checked::default();
    for top in folder.ancestors() {
        let dot_git = top.join(".git");
        let has_head = dot_git.join("HEAD").symlink_metadata().is_ok();
        let is_file = dot_git.symlink_metadata().is_ok_and(|m| !m.is_dir());
        // Git searches further up if it does not accept a repository, so this loop always does.
        if has_head || is_file {
            checked.repository(top, 0)?;
        }
        // A folder with these files is a repository with its own settings.
        let holds = |name: &str| top.join(name).symlink_metadata().is_ok();
        if holds("HEAD") && (holds("objects") || holds("commondir")) {
            return Err(obeys(&format!("the bare repository `{}`", top.display())));
        }
    }
    Ok(())
}

/// Checks that nothing in the repository of this folder makes git run a program later, when a
/// person works in it: no hook, and no setting but those that git itself writes when it creates or
/// clones a repository. For a repository that a command of the model created. If it is a worktree of
/// a git folder that `is_known`, that one is not judged.
pub fn is_inert(top: &Path, is_known: impl Fn(&Path) -> bool) -> Result<(), String> {
    let holds = |name: &str| top.join(name).symlink_metadata().is_ok();
    let own = if holds(".git") {
        let own = own_folder(top)?;
        let common = common_folder(&own)?.canonicalize();
        let common = common.ok().filter(|common| *common != own);
        if let Some(common) = common.filter(|common| is_known(common)) {
            return is_inert_worktree(top, &own, &common);
        }
        Checked::default().repository(top, 0)?;
        // Elsewhere nobody would check its settings.
        let parts: Vec<_> = own.iter().collect();
        let is_inner =
            |two: &[&OsStr]| two[0] == ".git" && (two[1] == "modules" || two[1] == "worktrees");
        if own != top.join(".git") && !parts.windows(2).any(is_inner) {
            return Err(obeys(&shown(&top.join(".git"))));
        }
        own
    } else if holds("HEAD") && (holds("objects") || holds("commondir")) {
        top.to_path_buf()
    } else {
        return Ok(());
    };
    let common = common_folder(&own)?;
    is_inert_folder(&own)?;
    is_inert_folder(&common)
}

/// Checks a linked worktree, but not the settings and hooks of the git folder that it shares.
fn is_inert_worktree(top: &Path, own: &Path, common: &Path) -> Result<(), String> {
    let shared = settings_of(common);
    let is_its_own = is_worktree_of(own, common) && is_own_top(top, own, &Settings::default());
    if !is_its_own {
        return Err(leads_out(common, "another repository"));
    }
    let mut checked = Checked::default();
    checked.without_links(own)?;
    is_inert_folder(own)?;
    checked.submodules(top, own, &shared, 0)
}

/// Returns the settings of a git folder. If they are not understood, the ones read so far count.
fn settings_of(folder: &Path) -> Settings {
    let mut settings = Settings::default();
    if let Ok(Some(text)) = read(&folder.join("config"), MAX_CONFIG_BYTES) {
        let _ = settings.add(&String::from_utf8_lossy(&text));
    }
    settings
}

/// Checks the same for the git folder of a repository.
pub fn is_inert_folder(folder: &Path) -> Result<(), String> {
    for name in ["config", "config.worktree"] {
        let file = folder.join(name);
        let Some(text) = read(&file, MAX_CONFIG_BYTES)? else {
            continue;
        };
        let text = String::from_utf8(text).map_err(|_| obeys(&shown(&file)))?;
        config::is_as_git_makes_it(&text)
            .map_err(|setting| format!("`git` obeys {}: {setting}", shown(&file)))?;
    }
    let hooks = folder.join("hooks");
    let entries = match fs::read_dir(&hooks) {
        Ok(entries) => Some(entries),
        Err(e) if e.kind() == io::ErrorKind::NotFound => None,
        Err(_) => return Err(obeys(&shown(&hooks))),
    };
    for entry in entries.into_iter().flatten() {
        let hook = entry.map_err(|_| obeys(&shown(&hooks)))?.path();
        if hook.extension().is_none_or(|e| e != "sample") {
            return Err(obeys(&format!("the hook {}", shown(&hook))));
        }
    }
    Ok(())
}

/// Returns the files of a repository that git has checked out without writing them, relative to its
/// root. None if its index is not understood.
pub fn unwritten_files(own: &Path, common: &Path) -> Vec<PathBuf> {
    let index = read(&own.join("index"), MAX_INDEX_BYTES).ok().flatten();
    let hash_bytes = settings_of(common).hash_bytes();
    let entries = index.and_then(|bytes| index::entries(&bytes, hash_bytes, |_| {}));
    entries.unwrap_or_default().unwritten
}

/// The files of a repository that git tracks, by their paths below its root, in order.
#[derive(Default)]
pub struct TrackedFiles(Vec<Vec<u8>>);

impl TrackedFiles {
    /// Reads the files of the repository whose `.git` is in `top`. There are none if it has no
    /// index, or one that is not understood.
    pub fn of(top: &Path) -> TrackedFiles {
        let mut paths = Vec::new();
        let index = || {
            let own = own_folder(top)?;
            let common = common_folder(&own)?;
            let hash_bytes = settings_of(&common).hash_bytes();
            Ok::<_, String>((read(&own.join("index"), MAX_INDEX_BYTES)?, hash_bytes))
        };
        if let Ok((Some(bytes), hash_bytes)) = index()
            && index::entries(&bytes, hash_bytes, |path| paths.push(path.to_vec())).is_none()
        {
            paths.clear();
        }
        paths.sort_unstable();
        TrackedFiles(paths)
    }

    /// Returns whether git tracks a file or a submodule, or a file in a folder. `path` is below the
    /// root.
    pub fn contains(&self, path: &Path, is_folder: bool) -> bool {
        let mut wanted = path.as_os_str().as_bytes().to_vec();
        let is_entry = self.0.binary_search(&wanted).is_ok();
        if is_entry || !is_folder {
            return is_entry;
        }
        wanted.push(b'/');
        let next = self.0.partition_point(|path| *path < wanted);
        self.0
            .get(next)
            .is_some_and(|path| path.starts_with(&wanted))
    }
}

/// Returns whether the repository in `own` says that its files are in `top`: by its settings, or by
/// the numbers of the files in its index. Another repository does not, whatever `.git` in `top` says.
pub fn is_repository_of(top: &Path, own: &Path) -> bool {
    let settings = settings_of(own);
    is_own_top(top, own, &settings) || settings.worktrees.is_empty() && has_file_of(top, own)
}

/// Returns whether a file of the folder is the very one that the index has. Nobody chooses the number
/// of a file and the time of its change, so a folder that somebody prepared has no such file.
fn has_file_of(top: &Path, own: &Path) -> bool {
    let index = read(&own.join("index"), MAX_INDEX_BYTES).ok().flatten();
    let hash_bytes = settings_of(own).hash_bytes();
    let entries = index.and_then(|bytes| index::entries(&bytes, hash_bytes, |_| {}));
    let Ok(top) = Folder::open(top) else {
        return false;
    };
    let is_here = |path: &Path, known: index::FileStat| {
        // No link on the way: it may lead to the files of the other repository.
        let folder = top.below(path.parent()?).ok()?;
        let found = folder.stat(path.file_name()?).ok()?;
        let modified = found.st_mtime as u32;
        let now = [
            found.st_ctime as u32,
            modified,
            known[2],
            found.st_ino as u32,
            found.st_size as u32,
        ];
        let is_file = FileType::from_raw_mode(found.st_mode).is_file();
        // Some programs store no device.
        let is_device = [0, found.st_dev as u32].contains(&known[2]);
        Some(is_file && is_device && found.st_nlink == 1 && now == known)
    };
    let written = entries.unwrap_or_default().written;
    let mut written = written.iter();
    written.any(|(path, known)| known[3] != 0 && is_here(path, *known) == Some(true))
}

fn obeys(what: &str) -> String {
    format!("`git` obeys {what}, which may run a program")
}

#[derive(Default)]
struct Checked {
    repositories: usize,
    own_files: usize,
}

impl Checked {
    /// Checks the repository whose files are in `top`, where its `.git` is.
    fn repository(&mut self, top: &Path, depth: usize) -> Result<(), String> {
        self.repositories += 1;
        if depth > MAX_DEPTH || self.repositories > MAX_REPOSITORIES {
            return Err(obeys("more submodules than are looked at"));
        }
        let own = own_folder(top)?;
        let common = common_folder(&own)?;
        if own != common && !is_worktree_of(&own, &common) {
            return Err(leads_out(&common, "another repository"));
        }
        self.without_links(&own)?;
        if own != common {
            self.without_links(&common)?;
        }
        let alternates = common.join(ALTERNATES);
        // The placeholder of a command that runs is empty.
        if read(&alternates, 0).is_err() {
            return Err(leads_out(&alternates, "a list of repositories"));
        }
        let ignored_revisions = top.join(IGNORED_REVISIONS);
        if ignored_revisions.is_symlink() {
            return Err(leads_out(&ignored_revisions, "a link"));
        }
        let mut settings = Settings::default();
        for (folder, name) in [(&common, "config"), (&own, "config.worktree")] {
            let file = folder.join(name);
            if let Some(text) = read(&file, MAX_CONFIG_BYTES)? {
                let text = String::from_utf8(text).map_err(|_| obeys(&shown(&file)))?;
                let why = |setting| format!("`git` obeys {}: {setting}", shown(&file));
                let hash_bytes = settings.hash_bytes();
                settings.add(&text).map_err(why)?;
                if own != common && !settings.has_worktree_settings() {
                    // git takes the one of the repository for its main folder alone.
                    settings.worktrees.clear();
                }
                // git takes the format only from the first file, and would read another index.
                if name != "config" && settings.hash_bytes() != hash_bytes {
                    return Err(format!("{} is not understood", shown(&file)));
                }
            }
        }
        if !is_own_top(top, &own, &settings) {
            return Err(obeys(&format!("`{}`, another repository", own.display())));
        }
        let set = settings.hooks.iter().map(|path| top.join(path));
        let mut hooks = set
            .chain([common.join("hooks")])
            .map(|folder| folder.join(HOOK));
        if let Some(hook) = hooks.find(|hook| hook.symlink_metadata().is_ok()) {
            return Err(obeys(&format!("the hook {}", shown(&hook))));
        }
        self.submodules(top, &own, &settings, depth)
    }

    fn without_links(&mut self, folder: &Path) -> Result<(), String> {
        for (name, depth) in READ {
            let mut folders = vec![(folder.join(name), 0)];
            while let Some((folder, at)) = folders.pop() {
                // A folder that cannot be listed does not exist, or git cannot list it either.
                for entry in fs::read_dir(&folder).into_iter().flatten() {
                    self.own_files += 1;
                    if self.own_files > MAX_OWN_FILES {
                        return Err(obeys("more files than are looked at"));
                    }
                    let failed = |_| obeys(&format!("{}, which cannot be listed", shown(&folder)));
                    let entry = entry.map_err(failed)?;
                    let of = entry.file_type().map_err(failed)?;
                    if of.is_symlink() && !is_not_read(name, &entry) {
                        return Err(leads_out(&entry.path(), "a link"));
                    }
                    if of.is_dir() && at < depth {
                        folders.push((entry.path(), at + 1));
                    }
                }
            }
        }
        Ok(())
    }

    /// Checks the existing submodules: git reads them, with their settings.
    fn submodules(
        &mut self,
        top: &Path,
        own: &Path,
        settings: &Settings,
        depth: usize,
    ) -> Result<(), String> {
        let file = own.join("index");
        let Some(bytes) = read(&file, MAX_INDEX_BYTES)? else {
            return Ok(());
        };
        let entries = index::entries(&bytes, settings.hash_bytes(), |_| {})
            .ok_or_else(|| format!("{} is not understood", shown(&file)))?;
        for path in entries.submodules {
            let inner = top.join(path);
            if inner.join(".git").symlink_metadata().is_ok() {
                self.repository(&inner, depth + 1)?;
            }
        }
        Ok(())
    }
}

fn leads_out(what: &Path, why: &str) -> String {
    let what = shown(what);
    format!("`git` reads {what}, {why}, which may lead out of the repository")
}

fn is_not_read(within: &str, entry: &fs::DirEntry) -> bool {
    within.is_empty() && NOT_READ.iter().any(|name| entry.file_name() == *name)
}

/// Returns whether the repository knows this worktree. So nobody can pretend that a repository
/// elsewhere is its own.
fn is_worktree_of(own: &Path, common: &Path) -> bool {
    let parent = own.parent().and_then(|parent| parent.canonicalize().ok());
    let worktrees = common.join("worktrees").canonicalize().ok();
    parent.is_some() && parent == worktrees
}

fn shown(file: &Path) -> String {
    format!("`{}`", file.display())
}

/// Reads a regular file; `None` if it does not exist.
fn read(file: &Path, max_bytes: u64) -> Result<Option<Vec<u8>>, String> {
    let Ok(metadata) = file.symlink_metadata() else {
        return Ok(None);
    };
    let failed = || format!("`git` obeys {}, which cannot be read", shown(file));
    if !metadata.is_file() || metadata.len() > max_bytes {
        return Err(failed());
    }
    let mut bytes = Vec::new();
    // If it became a FIFO or a link just now, the open does not block, and nothing else is read.
    let flags = OFlags::NONBLOCK | OFlags::NOFOLLOW;
    let opened = fs::File::options()
        .read(true)
        .custom_flags(flags.bits() as i32)
        .open(file)
        .map_err(|_| failed())?;
    if !opened.metadata().is_ok_and(|found| found.is_file()) {
        return Err(failed());
    }
    let mut limited = opened.take(max_bytes + 1);
    limited.read_to_end(&mut bytes).map_err(|_| failed())?;
    if bytes.len() as u64 > max_bytes {
        return Err(failed());
    }
    Ok(Some(bytes))
}

/// Returns the folder that a file of one line names.
fn named_folder(file: &Path, prefix: &str) -> Result<Option<PathBuf>, String> {
    let Some(bytes) = read(file, 64 * 1024)? else {
        return Ok(None);
    };
    let text = String::from_utf8(bytes).map_err(|_| obeys(&shown(file)))?;
    let Some(path) = text.strip_prefix(prefix) else {
        return Err(obeys(&shown(file)));
    };
    let base = file.parent().unwrap_or(file);
    let folder = base.join(path.trim_start_matches(' ').trim_end_matches(['\n', '\r']));
    let folder = folder.canonicalize().map_err(|_| obeys(&shown(file)))?;
    Ok(Some(folder))
}

/// Returns the folder that `.git` is or names.
fn own_folder(top: &Path) -> Result<PathBuf, String> {
    let dot_git = top.join(".git");
    if dot_git.is_symlink() {
        return Err(obeys(&format!("{}, a link", shown(&dot_git))));
    }
    if dot_git.is_dir() {
        return Ok(dot_git);
    }
    named_folder(&dot_git, "gitdir:")?.ok_or_else(|| obeys(&shown(&dot_git)))
}

/// Returns the git folder of the repository that a worktree belongs to.
fn common_folder(own: &Path) -> Result<PathBuf, String> {
    let common = named_folder(&own.join("commondir"), "")?;
    Ok(common.unwrap_or_else(|| own.to_path_buf()))
}

/// Returns whether the repository agrees that its files are in `top`. So nobody can write a `.git`
/// that names a repository elsewhere, whose files are then shown.
fn is_own_top(top: &Path, own: &Path, settings: &Settings) -> bool {
    let top = top.canonicalize().ok();
    let is_top = |path: PathBuf| path.canonicalize().ok() == top;
    if !settings.worktrees.is_empty() {
        return settings.worktrees.iter().all(|path| is_top(own.join(path)));
    }
    if own.parent().and_then(|p| p.canonicalize().ok()) == top {
        return true;
    }
    // Git records for a worktree where its `.git` is.
    let Ok(Some(bytes)) = read(&own.join("gitdir"), 64 * 1024) else {
        return false;
    };
    let Ok(text) = String::from_utf8(bytes) else {
        return false;
    };
    let dot_git = own.join(text.trim_end_matches(['\n', '\r']));
    dot_git.file_name().is_some_and(|name| name == ".git")
        && dot_git.parent().is_some_and(|p| is_top(p.to_path_buf()))
}

#[cfg(test)]
mod tests;
