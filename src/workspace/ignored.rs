//! The ignore rules of `.gitignore`, `.ignore` and `.git/info/exclude`.
//!
//! These files come with a clone, and may be anything: a link to `/dev/zero`, a FIFO, a million
//! patterns. So this module reads them instead of the crate that matches them. It reads only
//! regular files of bounded size, with a bounded number of patterns in force at once. A file that
//! is not used is reported, and excludes nothing.
//!
//! The meaning is that of the `ignore` crate. The nearest file with a matching pattern decides, by
//! its last such pattern. `.ignore` comes before `.gitignore`, and that before `.git/info/exclude`.
//! Files of the parent folders count too. A test compares both.

use std::io;
use std::path::{Path, PathBuf};

use ignore::Match;
use ignore::gitignore::{Gitignore, GitignoreBuilder};

use super::regular::{self, Kind};

/// Maximum size of one file.
pub const MAX_FILE_BYTES: u64 = 1024 * 1024;

/// Maximum number of patterns in force at once: those of a folder and of its parents. Compiled,
/// they take a second and 100 MB at most.
pub const MAX_PATTERNS: usize = 10_000;
const MAX_PATTERN_BYTES: usize = MAX_FILE_BYTES as usize;

/// Maximum length of a line. Paths are not longer, so a longer pattern matches nothing useful.
pub const MAX_LINE_BYTES: usize = 4_096;

/// Maximum size of `.git` and `commondir`, which contain one path.
const MAX_LINK_BYTES: u64 = 4_096;

/// Maximum number of unused files that are named.
pub const MAX_NAMED: usize = 5;

/// The rules of the current folder of a walk.
#[derive(Default)]
pub struct Ignored {
    /// The rules of each folder, from the root of the file system down.
    folders: Vec<Folder>,
    patterns: usize,
    bytes: usize,
    unused: Vec<String>,
    unnamed: usize,
}

/// The effect of a rule on a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IgnoreRule {
    Include,
    /// A rule of git, which does not apply to files that git tracks.
    ExcludeUntracked,
    /// A rule of `.ignore`, which applies to all files.
    ExcludeAll,
}

/// The rules that a folder itself contains.
struct Folder {
    /// The rules by kind of file, in order of precedence.
    kinds: [Gitignore; 3],
    patterns: usize,
    bytes: usize,
}

impl Ignored {
    /// Reads the rules of the parents of `folder`, which is absolute.
    pub fn above(folder: &Path) -> Ignored {
        let mut ignored = Ignored::default();
        let mut parents: Vec<&Path> = folder.ancestors().skip(1).collect();
        parents.reverse();
        for parent in parents {
            ignored.enter(parent);
        }
        ignored
    }

    /// Enters a folder, whose rules come before those of its parents.
    pub fn enter(&mut self, path: &Path) {
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

    /// Leaves the folder that was entered last.
    pub fn leave(&mut self) {
        if let Some(folder) = self.folders.pop() {
            self.patterns -= folder.patterns;
            self.bytes -= folder.bytes;
        }
    }

    /// Returns whether a path is ignored, or `None` if no rule matches it.
    pub(crate) fn is_ignored(&self, path: &Path, is_folder: bool) -> Option<bool> {
        let rule = self.rule_for(path, is_folder)?;
        Some(rule != IgnoreRule::Include)
    }

    /// Returns the effect of the rule that decides about a path.
    pub fn rule_for(&self, path: &Path, is_folder: bool) -> Option<IgnoreRule> {
        for kind in 0..3 {
            for folder in self.folders.iter().rev() {
                match folder.kinds[kind].matched(path, is_folder) {
                    Match::None => {}
                    Match::Ignore(_) if kind == 0 => return Some(IgnoreRule::ExcludeAll),
                    Match::Ignore(_) => return Some(IgnoreRule::ExcludeUntracked),
                    Match::Whitelist(_) => return Some(IgnoreRule::Include),
                }
            }
        }
        None
    }

    /// Returns the files that were not used, and why: one line each.
    pub fn unused(&self) -> Vec<String> {
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
            // An invalid line does not affect the others.
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

/// Returns the lines up to the first that is not UTF-8, as the crate does.
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

/// Returns `info/exclude` of the repository with this root. In a linked worktree `.git` is a file
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

/// Reads a file, or returns `None` when it does not exist.
fn load(path: &Path, max_bytes: u64) -> Result<Option<Vec<u8>>, String> {
    match regular::kind(path) {
        Ok(Kind::Missing) => return Ok(None),
        Ok(Kind::Folder) => return Err("it is a folder".to_string()),
        Ok(Kind::Special(what)) => return Err(format!("it is {what}")),
        Ok(Kind::Regular(_)) => {}
        // Nothing can be below a path that is not a folder.
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
