//! The files of a folder as a developer sees them: what `.gitignore` and `.ignore` leave
//! out is left out, inside a repository and outside one; and so is what the user's rules hide.
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

/// Names of a folder are sorted, so all of them are held at once.
const MAX_NAMES: usize = 1_000_000;
/// The room for the lines behind what was found: what was not shown, and [`hints`].
pub(super) const FRAME_BYTES: usize = 450;

/// A longer one is no glob that a person would write.
const MAX_GLOB_BYTES: usize = 4_096;

/// What is found below a folder.
#[derive(Debug)]
pub(crate) struct WalkEntry {
    pub path: PathBuf,
    pub of: FileType,
}

/// Goes through a folder, depth first. Links are not followed, also not where one has just
/// taken the place of a folder: all is opened below the one that was opened first. The folder
/// itself may be hidden or ignored: it was named.
pub(crate) struct Walk<'a> {
    root: PathBuf,
    /// `None` when it could not be opened.
    open: Option<Folder>,
    /// Names of each folder that are still to come, in the order they are taken from.
    folders: Vec<Vec<WalkEntry>>,
    ignored: Ignored,
    with_dots: bool,
    hidden: Arc<Hidden>,
    watch: &'a Watch<'a>,
    stopped: Option<Stop>,
    failed: Option<io::Error>,
}

impl<'a> Walk<'a> {
    /// `root` is absolute, links followed.
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

    /// Why it ended before everything was looked at.
    pub(crate) fn stopped(&self) -> Option<Stop> {
        self.stopped
    }

    /// Ignore files that were not used, and why.
    pub(crate) fn unused(&self) -> Vec<String> {
        self.ignored.unused()
    }

    /// The names of a folder, and its rules; when it cannot be read, that comes next.
    fn enter(&mut self, folder: &Path) {
        match self.names(folder) {
            Ok(names) => {
                self.ignored.enter(folder);
                self.folders.push(names);
            }
            Err(error) => self.failed = Some(error),
        }
    }

    /// Opens a file that was found.
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
                // The others are still of use.
                Err(error) => self.failed = Some(error),
            }
        }
        // The last one is taken first.
        names.sort_unstable_by(|a, b| b.path.file_name().cmp(&a.path.file_name()));
        Ok(names)
    }

    fn is_left_out(&self, found: &WalkEntry) -> bool {
        let name = found.path.file_name().unwrap_or_default();
        // What git itself keeps is never what is looked for.
        if name == ".git" {
            return true;
        }
        let is_dotted = name.as_encoded_bytes().first() == Some(&b'.');
        // A rule that keeps it (`!.env.example`) shows a dotted name too.
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

/// A name and what it is of. `None`: the folder itself, and the one it lies in.
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
        // Some file systems do not say.
        FileType::Unknown => FileType::from_raw_mode(open.below(below)?.stat(name)?.st_mode),
        of => of,
    };
    Ok(Some((name.to_os_string(), of)))
}

/// What the model is told besides: where it was stopped, and which ignore files were not used.
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

/// A glob on paths below a folder. One without a slash is about the name alone, as in
/// `.gitignore`.
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

    /// About the path also without a slash.
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

    /// `path` is relative to the folder.
    pub(crate) fn is_match(&self, path: &Path) -> bool {
        match (self.by_name, path.file_name()) {
            (true, Some(name)) => self.matcher.is_match(name),
            _ => self.matcher.is_match(path),
        }
    }
}

#[cfg(test)]
mod tests;
