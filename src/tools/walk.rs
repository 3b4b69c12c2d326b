//! A walk through the files of a folder as a developer sees them. It leaves out the files that
//! `.gitignore` and `.ignore` exclude, inside a repository or not, and those that the user's rules
//! hide.
//!
//! Invariant: the order is that of the names, so the same tree gives the same output. The
//! user's global gitignore is not read: it would make results depend on the environment.

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
use super::paths::Hidden;
use crate::workspace::handle::Folder;
use crate::workspace::ignored::Ignored;

/// Maximum number of names in a folder, which are all in memory to be sorted.
const MAX_NAMES: usize = 1_000_000;
/// Bytes reserved for the lines after the matches: the number of those not shown, and [`hints`].
pub(super) const FRAME_BYTES: usize = 450;

/// Maximum length of a glob in bytes, more than a person would write.
const MAX_GLOB_BYTES: usize = 4_096;

/// An entry that a walk found below a folder.
#[derive(Debug)]
pub(crate) struct WalkEntry {
    pub path: PathBuf,
    pub of: FileType,
}

/// A depth-first walk through a folder. It does not follow links, even if one has just replaced a
/// folder: everything is opened below the folder that was opened first. That folder itself may be
/// hidden or ignored, since the caller named it.
pub(crate) struct Walk<'a> {
    root: PathBuf,
    /// `None` when it could not be opened.
    open: Option<Folder>,
    /// The remaining names of each folder, last one first.
    folders: Vec<Vec<WalkEntry>>,
    ignored: Ignored,
    with_dots: bool,
    hidden: Arc<Hidden>,
    watch: &'a Watch<'a>,
    stopped: Option<Stop>,
    failed: Option<io::Error>,
}

impl<'a> Walk<'a> {
    /// Starts a walk. `root` is absolute, with links followed.
    pub(crate) fn new(
        root: &Path,
        with_dots: bool,
        hidden: &Arc<Hidden>,
        watch: &'a Watch<'a>,
    ) -> Self {
        let (open, failed) = match Folder::open(root) {
            Ok(folder) => (Some(folder), None),
            Err(error) => (None, Some(error)),
        };
        let mut walk = Walk {
            root: root.to_path_buf(),
            open,
            folders: Vec::new(),
            ignored: Ignored::above(root),
            with_dots,
            hidden: Arc::clone(hidden),
            watch,
            stopped: None,
            failed,
        };
        if walk.failed.is_none() {
            walk.enter(root);
        }
        walk
    }

    /// Returns why the walk stopped early.
    pub(crate) fn stopped(&self) -> Option<Stop> {
        self.stopped
    }

    /// Returns the ignore files that were not used, and why.
    pub(crate) fn unused(&self) -> Vec<String> {
        self.ignored.unused()
    }

    /// Reads the names and the ignore rules of a folder. A failure becomes the walk's next item.
    fn enter(&mut self, folder: &Path) {
        match self.names(folder) {
            Ok(names) => {
                self.ignored.enter(folder);
                self.folders.push(names);
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

    fn is_left_out(&self, found: &WalkEntry) -> bool {
        let name = found.path.file_name().unwrap_or_default();
        // Nobody searches for git's own files.
        if name == ".git" {
            return true;
        }
        let is_dotted = name.as_encoded_bytes().first() == Some(&b'.');
        // A rule that keeps it (`!.env.example`) also shows a name with a dot.
        match self.ignored.is_ignored(&found.path, found.of.is_dir()) {
            Some(ignored) => ignored,
            None => is_dotted && !self.with_dots,
        }
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
            let Some(found) = self.folders.last_mut()?.pop() else {
                self.folders.pop();
                self.ignored.leave();
                continue;
            };
            if self.is_left_out(&found) || self.hidden.hides(&found.path) {
                continue;
            }
            if found.of.is_dir() {
                self.enter(&found.path);
            }
            return Some(Ok(found));
        }
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
