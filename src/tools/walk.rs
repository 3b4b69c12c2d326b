//! A walk through the files of a folder as a developer sees them. It leaves out the files that
//! `.gitignore` and `.ignore` exclude, inside a repository or not, and those that the user's rules
//! hide. Files that git tracks are never excluded, as in git.
//!
//! Invariant: the order is that of the names, so the same tree gives the same output. The
//! user's global gitignore is not read: it would make results depend on the environment.

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use globset::{GlobBuilder, GlobMatcher};
use rustix::fs::{DirEntry, FileType};

use super::file;
use super::limit::{Stop, Watch};
use super::paths::{self, Hidden};
use crate::workspace::TrackedFiles;
use crate::workspace::handle::Folder;
use crate::workspace::ignored::{IgnoreRule, Ignored};

/// Maximum number of names in a folder, which are all in memory to be sorted.
const MAX_NAMES: usize = 1_000_000;
/// Bytes reserved for the lines after the matches: the number of those not shown, and [`hints`].
pub(super) const FRAME_BYTES: usize = 450;

/// Maximum number of repositories of which a walk knows the tracked files.
const MAX_REPOSITORIES: usize = 64;

/// Maximum number of entries that a walk left out and remembers, for each reason.
const MAX_LEFT_OUT: usize = 64;
/// Maximum number of them that are named.
const MAX_SHOWN_LEFT_OUT: usize = 3;

/// Maximum length of a glob in bytes, more than a person would write.
const MAX_GLOB_BYTES: usize = 4_096;

/// An entry that a walk found below a folder.
#[derive(Debug)]
pub struct WalkEntry {
    pub path: PathBuf,
    pub of: FileType,
}

/// A folder that a walk is in.
struct OpenFolder {
    /// The remaining names, last one first.
    names: Vec<WalkEntry>,
    /// The root of the repository that the folder belongs to.
    top: Option<PathBuf>,
    /// A rule excludes the folder, so only its tracked files are found.
    is_ignored: bool,
}

/// The entries that a walk left out, by the reason. Those that rules of the user hide are not named.
#[derive(Default)]
pub(crate) struct LeftOut {
    ignored: Vec<PathBuf>,
    dotted: Vec<PathBuf>,
    links: Vec<PathBuf>,
}

/// A depth-first walk through a folder. It does not follow links, even if one has just replaced a
/// folder: everything is opened below the folder that was opened first. That folder itself may be
/// hidden or ignored, since the caller named it.
pub struct Walk<'a> {
    root: PathBuf,
    /// `None` when it could not be opened.
    open: Option<Folder>,
    folders: Vec<OpenFolder>,
    ignored: Ignored,
    /// The tracked files of the repositories in which something was ignored, by their roots.
    tracked: HashMap<PathBuf, TrackedFiles>,
    left_out: LeftOut,
    with_dots: bool,
    hidden: Arc<Hidden>,
    watch: &'a Watch<'a>,
    stopped: Option<Stop>,
    failed: Option<io::Error>,
}

impl<'a> Walk<'a> {
    /// Starts a walk. `root` is absolute, with links followed.
    pub fn new(root: &Path, with_dots: bool, hidden: &Arc<Hidden>, watch: &'a Watch<'a>) -> Self {
        let (open, failed) = match Folder::open(root) {
            Ok(folder) => (Some(folder), None),
            Err(error) => (None, Some(error)),
        };
        let mut walk = Walk {
            root: root.to_path_buf(),
            open,
            folders: Vec::new(),
            ignored: Ignored::above(root),
            tracked: HashMap::new(),
            left_out: LeftOut::default(),
            with_dots,
            hidden: Arc::clone(hidden),
            watch,
            stopped: None,
            failed,
        };
        if walk.failed.is_none() {
            let mut above = root.ancestors().skip(1);
            let top = above.find(|folder| folder.join(".git").symlink_metadata().is_ok());
            walk.enter(root, top.map(Path::to_path_buf), false);
        }
        walk
    }

    /// Returns why the walk stopped early.
    pub fn stopped(&self) -> Option<Stop> {
        self.stopped
    }

    /// Returns the ignore files that were not used, and why.
    pub fn unused(&self) -> Vec<String> {
        self.ignored.unused()
    }

    /// Returns the entries that were left out.
    pub(crate) fn left_out(&self) -> &LeftOut {
        &self.left_out
    }

    /// Reads the names and the ignore rules of a folder. A failure becomes the walk's next item.
    /// `top` is the repository of the folder above.
    fn enter(&mut self, folder: &Path, top: Option<PathBuf>, is_ignored: bool) {
        match self.names(folder) {
            Ok(names) => {
                self.ignored.enter(folder);
                let is_top = names.iter().any(|entry| entry.path.ends_with(".git"));
                self.folders.push(OpenFolder {
                    names,
                    top: if is_top { Some(folder.into()) } else { top },
                    is_ignored: is_ignored && !is_top,
                });
            }
            Err(error) => self.failed = Some(error),
        }
    }

    /// Opens a file that the walk found.
    pub(crate) fn file(&self, path: &Path) -> io::Result<File> {
        let open = self.open.as_ref().ok_or(io::ErrorKind::NotFound)?;
        file::open_in(open, self.below(path), path)
    }

    fn below<'p>(&self, path: &'p Path) -> &'p Path {
        path.strip_prefix(&self.root).unwrap_or(Path::new(""))
    }

    fn names(&mut self, folder: &Path) -> io::Result<Vec<WalkEntry>> {
        let open = self.open.as_ref().ok_or(io::ErrorKind::NotFound)?;
        let below = self.below(folder);
        let mut names = Vec::new();
        for entry in open.names(below)? {
            self.watch.path();
            self.stopped = self.stopped.or(self.watch.stop());
            if self.stopped.is_none() && names.len() >= MAX_NAMES {
                self.stopped = Some(Stop::Paths(MAX_NAMES as u64));
            }
            if self.stopped.is_some() {
                break;
            }
            match entry
                .map_err(io::Error::from)
                .and_then(|e| found(open, below, &e))
            {
                Ok(Some((name, of))) => names.push(WalkEntry {
                    path: folder.join(name),
                    of,
                }),
                Ok(None) => {}
                // The other names are still useful.
                Err(error) => self.failed = Some(error),
            }
        }
        // Sorted backwards, since the last one is taken first.
        names.sort_unstable_by(|a, b| b.path.file_name().cmp(&a.path.file_name()));
        Ok(names)
    }

    /// Returns whether an entry is found in spite of the rules, and whether a rule excludes it.
    fn judge(&mut self, found: &WalkEntry) -> (bool, bool) {
        let name = found.path.file_name().unwrap_or_default();
        // Nobody searches for git's own files.
        if name == ".git" {
            return (false, false);
        }
        let folder = self.folders.last();
        let is_dotted = name.as_encoded_bytes().first() == Some(&b'.');
        // A rule that keeps it (`!.env.example`) also shows a name with a dot.
        let rule = self.ignored.rule_for(&found.path, found.of.is_dir());
        let is_excluded = matches!(
            rule,
            Some(IgnoreRule::ExcludeUntracked | IgnoreRule::ExcludeAll)
        );
        let is_ignored = is_excluded || folder.is_some_and(|f| f.is_ignored);
        if rule.is_none() && is_dotted && !self.with_dots {
            self.left_out.add(&found.path, |out| &mut out.dotted);
            return (false, false);
        }
        if !is_ignored {
            return (true, false);
        }
        let top = folder.and_then(|f| f.top.clone());
        let is_tracked =
            rule != Some(IgnoreRule::ExcludeAll) && top.is_some_and(|top| self.tracks(&top, found));
        if !is_tracked {
            self.left_out.add(&found.path, |out| &mut out.ignored);
        }
        (is_tracked, true)
    }

    fn tracks(&mut self, top: &Path, found: &WalkEntry) -> bool {
        if !self.tracked.contains_key(top) && self.tracked.len() < MAX_REPOSITORIES {
            self.tracked.insert(top.into(), TrackedFiles::of(top));
        }
        let below = found.path.strip_prefix(top).ok();
        let tracked = self.tracked.get(top).zip(below);
        tracked.is_some_and(|(files, below)| files.contains(below, found.of.is_dir()))
    }
}

impl Iterator for Walk<'_> {
    type Item = io::Result<WalkEntry>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(error) = self.failed.take() {
                return Some(Err(error));
            }
            self.stopped = self.stopped.or(self.watch.stop());
            if self.stopped.is_some() {
                return None;
            }
            let Some(found) = self.folders.last_mut()?.names.pop() else {
                self.folders.pop();
                self.ignored.leave();
                continue;
            };
            if self.hidden.hides(&found.path) {
                continue;
            }
            let (is_found, is_ignored) = self.judge(&found);
            if !is_found {
                continue;
            }
            if found.of.is_dir() {
                let top = self.folders.last().and_then(|folder| folder.top.clone());
                self.enter(&found.path, top, is_ignored);
            } else if found.of.is_symlink() {
                self.left_out.add(&found.path, |out| &mut out.links);
            }
            return Some(Ok(found));
        }
    }
}

impl LeftOut {
    fn add(&mut self, path: &Path, kind: impl FnOnce(&mut LeftOut) -> &mut Vec<PathBuf>) {
        let paths = kind(self);
        if paths.len() < MAX_LEFT_OUT {
            paths.push(path.to_path_buf());
        }
    }

    /// Returns a line for a search that found nothing: the entries that it did not look at, and the
    /// way to search them.
    pub(crate) fn in_words(&self, folder: &Path, way: &str) -> String {
        let is_folder = |path: &&PathBuf| path.metadata().is_ok_and(|m| m.is_dir());
        let links: Vec<PathBuf> = self.links.iter().filter(is_folder).cloned().collect();
        let kinds = [
            (&self.ignored, "ignored"),
            (&self.dotted, "hidden"),
            (&links, "linked folders"),
        ];
        let named = kinds.into_iter().filter(|(paths, _)| !paths.is_empty());
        let named: Vec<String> = named
            .map(|(paths, kind)| {
                let shown = paths.iter().take(MAX_SHOWN_LEFT_OUT);
                let shown: Vec<String> = shown.map(|path| paths::shown(path, folder)).collect();
                let more = if paths.len() > shown.len() {
                    ", …"
                } else {
                    ""
                };
                format!("{kind}: {}{more}", shown.join(", "))
            })
            .collect();
        if named.is_empty() {
            return String::new();
        }
        format!("[not searched: {}; {way}]\n", named.join("; "))
    }
}

/// Returns a name and the type of its file. `None` for the folder itself and its parent.
fn found(
    open: &Folder,
    below: &Path,
    entry: &DirEntry,
) -> io::Result<Option<(OsString, FileType)>> {
    let name = entry.file_name().to_bytes();
    if name == b"." || name == b".." {
        return Ok(None);
    }
    let name = OsStr::from_bytes(name);
    let of = match entry.file_type() {
        // Some file systems do not give the type.
        FileType::Unknown => FileType::from_raw_mode(open.below(below)?.stat(name)?.st_mode),
        of => of,
    };
    Ok(Some((name.to_os_string(), of)))
}

/// Returns the hints for the model: where the walk stopped, and which ignore files were not used.
pub(crate) fn hints(stopped: Option<Stop>, last: &str, unused: &[String]) -> String {
    let mut lines: Vec<String> = unused.iter().map(|line| format!("[{line}]\n")).collect();
    if let Some(stop) = stopped {
        lines.push(format!(
            "[stopped {}, at {last}: what comes after it was not searched; name a folder below as \
             path, or a narrower pattern or glob]\n",
            stop.words()
        ));
    }
    lines.concat()
}

/// A glob for paths below a folder. Without a slash it matches the name alone, as in `.gitignore`.
pub(crate) struct PathGlob {
    matcher: GlobMatcher,
    by_name: bool,
}

impl PathGlob {
    pub(crate) fn new(pattern: &str) -> Result<PathGlob, String> {
        Ok(PathGlob {
            by_name: !pattern.contains('/'),
            ..PathGlob::on_paths(pattern)?
        })
    }

    /// Parses a glob that matches the whole path even if it has no slash.
    pub(crate) fn on_paths(pattern: &str) -> Result<PathGlob, String> {
        if pattern.len() > MAX_GLOB_BYTES {
            return Err(format!("the glob has over {MAX_GLOB_BYTES} bytes"));
        }
        let glob = GlobBuilder::new(pattern)
            .literal_separator(true)
            .build()
            .map_err(|e| format!("the glob {pattern:?} cannot be used: {}", e.kind()))?;
        Ok(PathGlob {
            matcher: glob.compile_matcher(),
            by_name: false,
        })
    }

    /// Returns whether the glob matches `path`, which is relative to the folder.
    pub(crate) fn is_match(&self, path: &Path) -> bool {
        match (self.by_name, path.file_name()) {
            (true, Some(name)) => self.matcher.is_match(name),
            _ => self.matcher.is_match(path),
        }
    }
}

#[cfg(test)]
mod tests;
