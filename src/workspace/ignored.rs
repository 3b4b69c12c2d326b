//! What `.gitignore`, `.ignore` and `.git/info/exclude` leave out.
//!
//! These files come with a clone, and may be anything: a link to `/dev/zero`, a FIFO, a
//! million patterns. So they are read here and not by the crate that matches them: only
//! regular files, of bounded size, with a bounded number of patterns in force at once. One
//! that is not used is told; what it would have left out is found.
//!
//! The meaning is that of the `ignore` crate: the nearest file with a pattern that matches
//! decides, the last such pattern in it; `.ignore` before `.gitignore` before
//! `.git/info/exclude`; files of the parents of the folder count too. A test compares both.

use std::io;
use std::path::{Path, PathBuf};

use ignore::Match;
use ignore::gitignore::{Gitignore, GitignoreBuilder};

use super::regular::{self, Kind};

/// Of one file.
pub(crate) const MAX_FILE_BYTES: u64 = 1024 * 1024;

/// In force at once: those of a folder, and of all folders it lies in. Compiled, this many
/// take a second and 100 MB at most.
pub(crate) const MAX_PATTERNS: usize = 10_000;
const MAX_PATTERN_BYTES: usize = MAX_FILE_BYTES as usize;

/// A path is no longer, so a longer pattern matches nothing that a person would have meant.
pub(crate) const MAX_LINE_BYTES: usize = 4_096;

/// Of `.git` and `commondir`, which hold one path.
const MAX_LINK_BYTES: u64 = 4_096;

/// So many that are not used are named.
pub(crate) const MAX_NAMED: usize = 5;

/// The rules of the folder that is being walked.
#[derive(Default)]
pub(crate) struct Ignored {
    /// From the root of the file system down.
    folders: Vec<Folder>,
    patterns: usize,
    bytes: usize,
    unused: Vec<String>,
    unnamed: usize,
}

/// The rules that a folder has of its own.
struct Folder {
    /// In the order of their precedence.
    kinds: [Gitignore; 3],
    patterns: usize,
    bytes: usize,
}

impl Ignored {
    /// Those of the parents of `folder`, which is absolute.
    pub(crate) fn above(folder: &Path) -> Ignored {
        let mut ignored = Ignored::default();
        let mut parents: Vec<&Path> = folder.ancestors().skip(1).collect();
        parents.reverse();
        for parent in parents {
            ignored.enter(parent);
        }
        ignored
    }

    /// Goes down into a folder: its rules come before those above it.
    pub(crate) fn enter(&mut self, path: &Path) {
        let exclude = exclude_file(path);
        let files = [
            Some(path.join(".ignore")),
            Some(path.join(".gitignore")),
            exclude,
        ];
        let (patterns, bytes) = (self.patterns, self.bytes);
        let kinds = files.map(|file| match file {
            Some(file) => self.rules(path, &file),
            None => Gitignore::empty(),
        });
        self.folders.push(Folder {
            kinds,
            patterns: self.patterns - patterns,
            bytes: self.bytes - bytes,
        });
    }

    /// Goes up again from the folder that was entered last.
    pub(crate) fn leave(&mut self) {
        if let Some(folder) = self.folders.pop() {
            self.patterns -= folder.patterns;
            self.bytes -= folder.bytes;
        }
    }

    /// `None`: no rule speaks of it.
    pub(crate) fn is_ignored(&self, path: &Path, is_folder: bool) -> Option<bool> {
        for kind in 0..3 {
            for folder in self.folders.iter().rev() {
                match folder.kinds[kind].matched(path, is_folder) {
                    Match::None => {}
                    Match::Ignore(_) => return Some(true),
                    Match::Whitelist(_) => return Some(false),
                }
            }
        }
        None
    }

    /// Which files were not used, and why: one line each.
    pub(crate) fn unused(&self) -> Vec<String> {
        let mut lines = self.unused.clone();
        if self.unnamed > 0 {
            let (files, were) = match self.unnamed {
                1 => ("ignore file", "was"),
                _ => ("ignore files", "were"),
            };
            lines.push(format!("{} more {files} {were} not used", self.unnamed));
        }
        lines
    }

    fn rules(&mut self, folder: &Path, file: &Path) -> Gitignore {
        match self.compiled(folder, file) {
            Ok(rules) => rules,
            Err(why) => {
                if self.unused.len() < MAX_NAMED {
                    let line = format!("{} was not used: {why}", file.display());
                    self.unused.push(line);
                } else {
                    self.unnamed += 1;
                }
                Gitignore::empty()
            }
        }
    }

    fn compiled(&mut self, folder: &Path, file: &Path) -> Result<Gitignore, String> {
        let Some(text) = load(file, MAX_FILE_BYTES)? else {
            return Ok(Gitignore::empty());
        };
        let lines: Vec<&str> = lines(&text).filter(|line| is_pattern(line)).collect();
        if lines.is_empty() {
            return Ok(Gitignore::empty());
        }
        if let Some(long) = lines.iter().find(|line| line.len() > MAX_LINE_BYTES) {
            return Err(format!(
                "a pattern has {} bytes, at most {MAX_LINE_BYTES} are taken",
                long.len()
            ));
        }
        let bytes: usize = lines.iter().map(|line| line.len()).sum();
        if self.patterns + lines.len() > MAX_PATTERNS || self.bytes + bytes > MAX_PATTERN_BYTES {
            return Err(format!(
                "too many patterns ({}): together with those of the folders above it, at most \
                 {MAX_PATTERNS} of {MAX_PATTERN_BYTES} bytes are taken",
                lines.len()
            ));
        }
        let mut builder = GitignoreBuilder::new(folder);
        for line in &lines {
            // A line that is no pattern leaves the others as they are.
            let _ = builder.add_line(None, line);
        }
        let rules = builder
            .build()
            .map_err(|e| format!("it cannot be used: {e}"))?;
        self.patterns += lines.len();
        self.bytes += bytes;
        Ok(rules)
    }
}

/// Up to the first that is not UTF-8, as the crate reads them.
fn lines(bytes: &[u8]) -> impl Iterator<Item = &str> {
    let bytes = bytes.strip_prefix("\u{feff}".as_bytes()).unwrap_or(bytes);
    bytes
        .split(|byte| *byte == b'\n')
        .map_while(|line| std::str::from_utf8(line).ok())
        .map(|line| line.strip_suffix('\r').unwrap_or(line))
}

fn is_pattern(line: &str) -> bool {
    !line.starts_with('#') && !line.trim_end().is_empty()
}

/// `info/exclude` of the repository whose root this is. In a linked worktree `.git` is a file
/// that names the place.
fn exclude_file(folder: &Path) -> Option<PathBuf> {
    let git = folder.join(".git");
    let git = match regular::kind(&git) {
        Ok(Kind::Folder) => git,
        Ok(Kind::Regular(_)) => {
            let named = first_line(&git)?;
            let git = folder.join(named.strip_prefix("gitdir: ")?);
            git.join(first_line(&git.join("commondir"))?)
        }
        _ => return None,
    };
    Some(git.join("info/exclude"))
}

fn first_line(file: &Path) -> Option<String> {
    let text = load(file, MAX_LINK_BYTES).ok()??;
    lines(&text).next().map(str::to_string)
}

/// `None` when there is no such file.
fn load(path: &Path, max_bytes: u64) -> Result<Option<Vec<u8>>, String> {
    match regular::kind(path) {
        Ok(Kind::Missing) => return Ok(None),
        Ok(Kind::Folder) => return Err("it is a folder".to_string()),
        Ok(Kind::Special(what)) => return Err(format!("it is {what}")),
        Ok(Kind::Regular(_)) => {}
        // A name cannot lie below what is no folder.
        Err(e) if e.kind() == io::ErrorKind::NotADirectory => return Ok(None),
        Err(e) => return Err(e.to_string()),
    }
    match regular::load(path, max_bytes) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(e) if e.kind() == io::ErrorKind::FileTooLarge => {
            Err(format!("it has more than {max_bytes} bytes"))
        }
        Err(e) => Err(e.to_string()),
    }
}
