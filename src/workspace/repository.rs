//! Whether git may be run in a folder just to look.
//!
//! Git obeys the repository it is in: the settings in `.git/config` name programs that run
//! on `git status` (`core.fsmonitor`, `filter.*.clean`) and on `git diff` (`diff.external`,
//! textconv), and may lead out of it (`core.worktree`, `include.path`). [`is_plain`] reads
//! what git would read, as git finds it (gitrepository-layout, git-config), and has a list
//! of the settings that do no such thing. Any other is in the way, and so is whatever git
//! could read in another way than we do. The user's own settings, outside the repository,
//! are trusted.
//!
//! Invariant: the list is closed. A repository that is not understood is not plain.

mod config;
mod index;

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

use config::Settings;

/// Submodules in submodules.
const MAX_DEPTH: usize = 4;
const MAX_REPOSITORIES: usize = 64;

const MAX_CONFIG_BYTES: u64 = 256 * 1024;
const MAX_INDEX_BYTES: u64 = 64 * 1024 * 1024;

/// The hook that looking runs: git writes the index when times of files have changed.
const HOOK: &str = "post-index-change";

/// What git reads by itself at the root of a repository: a link may lead anywhere.
const OWN_FILES: [&str; 9] = [
    "HEAD",
    "commondir",
    "config",
    "config.worktree",
    "index",
    "objects",
    "packed-refs",
    "refs",
    "shallow",
];

/// Nothing in the repository around an absolute folder has a git that only looks run a
/// program or leave the repository; else why it may. Where there is no repository nothing
/// is in the way.
pub fn is_plain(folder: &str) -> Result<(), String> {
    let Ok(folder) = Path::new(folder).canonicalize() else {
        return Err(format!("there is no folder `{folder}` for `git` to run in"));
    };
    let mut checked = Checked::default();
    for top in folder.ancestors() {
        let dot_git = top.join(".git");
        let has_head = dot_git.join("HEAD").symlink_metadata().is_ok();
        let is_file = dot_git.symlink_metadata().is_ok_and(|m| !m.is_dir());
        // Git goes on above what it does not take for a repository, so we always do.
        if has_head || is_file {
            checked.repository(top, 0)?;
        }
        // Anything with these is a repository with settings of its own.
        let holds = |name: &str| top.join(name).symlink_metadata().is_ok();
        if holds("HEAD") && (holds("objects") || holds("commondir")) {
            return Err(obeys(&format!("the bare repository `{}`", top.display())));
        }
    }
    Ok(())
}

fn obeys(what: &str) -> String {
    format!("`git` obeys {what}, which may run a program")
}

#[derive(Default)]
struct Checked {
    repositories: usize,
}

impl Checked {
    /// The repository whose files are in `top`, where its `.git` is.
    fn repository(&mut self, top: &Path, depth: usize) -> Result<(), String> {
        self.repositories += 1;
        if depth > MAX_DEPTH || self.repositories > MAX_REPOSITORIES {
            return Err(obeys("more submodules than are looked at"));
        }
        let own = own_folder(top)?;
        let common = common_folder(&own)?;
        for folder in [&own, &common] {
            if let Some(link) = OWN_FILES.iter().find(|n| folder.join(n).is_symlink()) {
                let link = folder.join(link);
                return Err(obeys(&format!("`{}`, a link", link.display())));
            }
        }
        let mut settings = Settings::default();
        for (folder, name) in [(&common, "config"), (&own, "config.worktree")] {
            let file = folder.join(name);
            if let Some(text) = read(&file, MAX_CONFIG_BYTES)? {
                let text = String::from_utf8(text).map_err(|_| obeys(&shown(&file)))?;
                let why = |setting| format!("`git` obeys {}: {setting}", shown(&file));
                settings.add(&text).map_err(why)?;
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

    /// Git looks into the submodules that are there, with their settings.
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
        let paths = index::submodules(&bytes, settings.hash_bytes())
            .ok_or_else(|| format!("{} is not understood", shown(&file)))?;
        for path in paths {
            let inner = top.join(path);
            if inner.join(".git").symlink_metadata().is_ok() {
                self.repository(&inner, depth + 1)?;
            }
        }
        Ok(())
    }
}

fn shown(file: &Path) -> String {
    format!("`{}`", file.display())
}

/// A regular file; `None` where there is none.
fn read(file: &Path, max_bytes: u64) -> Result<Option<Vec<u8>>, String> {
    let Ok(metadata) = file.symlink_metadata() else {
        return Ok(None);
    };
    let failed = || format!("`git` obeys {}, which cannot be read", shown(file));
    if !metadata.is_file() || metadata.len() > max_bytes {
        return Err(failed());
    }
    let mut bytes = Vec::new();
    let opened = fs::File::open(file).map_err(|_| failed())?;
    let mut limited = opened.take(max_bytes + 1);
    limited.read_to_end(&mut bytes).map_err(|_| failed())?;
    match bytes.len() as u64 > max_bytes {
        true => Err(failed()),
        false => Ok(Some(bytes)),
    }
}

/// A file of one line that names a folder.
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

/// The folder that `.git` is, or that it names.
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

/// Of a worktree, the folder of the repository it belongs to.
fn common_folder(own: &Path) -> Result<PathBuf, String> {
    let common = named_folder(&own.join("commondir"), "")?;
    Ok(common.unwrap_or_else(|| own.to_path_buf()))
}

/// The repository agrees that its files are in `top`. So no `.git` can be written that
/// names a repository elsewhere, whose files are then shown.
fn is_own_top(top: &Path, own: &Path, settings: &Settings) -> bool {
    let top = top.canonicalize().ok();
    let is_top = |path: PathBuf| path.canonicalize().ok() == top;
    if !settings.worktrees.is_empty() {
        return settings.worktrees.iter().all(|path| is_top(own.join(path)));
    }
    if own.parent().and_then(|p| p.canonicalize().ok()) == top {
        return true;
    }
    // The note that git keeps of a worktree: where its `.git` is.
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
