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

use super::file::{self, Kind};

/// Of one file.
const MAX_FILE_BYTES: u64 = 1024 * 1024;

/// In force at once: those of a folder, and of all folders it lies in. Compiled, this many
/// take a second and 100 MB at most.
const MAX_PATTERNS: usize = 10_000;
const MAX_PATTERN_BYTES: usize = MAX_FILE_BYTES as usize;

/// A path is no longer, so a longer pattern matches nothing that a person would have meant.
const MAX_LINE_BYTES: usize = 4_096;

/// Of `.git` and `commondir`, which hold one path.
const MAX_LINK_BYTES: u64 = 4_096;

/// So many that are not used are named.
const MAX_NAMED: usize = 5;

/// The rules of the folder that is being walked.
#[derive(Default)]
pub(super) struct Ignored {
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
    pub(super) fn above(folder: &Path) -> Ignored {
        let mut ignored = Ignored::default();
        let mut parents: Vec<&Path> = folder.ancestors().skip(1).collect();
        parents.reverse();
        for parent in parents {
            ignored.enter(parent);
        }
        ignored
    }

    /// Goes down into a folder: its rules come before those above it.
    pub(super) fn enter(&mut self, path: &Path) {
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
    pub(super) fn leave(&mut self) {
        if let Some(folder) = self.folders.pop() {
            self.patterns -= folder.patterns;
            self.bytes -= folder.bytes;
        }
    }

    /// `None`: no rule speaks of it.
    pub(super) fn is_ignored(&self, path: &Path, is_folder: bool) -> Option<bool> {
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
    pub(super) fn unused(&self) -> Vec<String> {
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
    let git = match file::kind(&git) {
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
    match file::kind(path) {
        Ok(Kind::Missing) => return Ok(None),
        Ok(Kind::Folder) => return Err("it is a folder".to_string()),
        Ok(Kind::Special(what)) => return Err(format!("it is {what}")),
        Ok(Kind::Regular(_)) => {}
        // A name cannot lie below what is no folder.
        Err(e) if e.kind() == io::ErrorKind::NotADirectory => return Ok(None),
        Err(e) => return Err(e.to_string()),
    }
    match file::load(path, max_bytes) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(e) if e.kind() == io::ErrorKind::FileTooLarge => {
            Err(format!("it has more than {max_bytes} bytes"))
        }
        Err(e) => Err(e.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::fs;
    use std::os::unix::fs::symlink;
    use std::sync::Arc;
    use std::sync::atomic::AtomicBool;

    use ignore::WalkBuilder;
    use proptest::prelude::*;
    use serde_json::json;

    use super::super::limit::{Limits, Watch};
    use super::super::support::{Room, done};
    use super::super::walk::Walk;
    use super::*;

    /// With a file that is ignored, and one that is not.
    fn room() -> Room {
        let room = Room::new();
        room.put("sub/.gitignore", "*.log\n");
        room.put("sub/a.log", "needle\n");
        room.put("sub/a.txt", "needle\n");
        room
    }

    /// What `glob` and `grep` find, and what they say of the ignore file.
    #[track_caller]
    fn not_used(room: &Room, name: &str, why: &str) {
        let said = format!("{} was not used: {why}", room.path(name).display());
        for (tool, arguments) in [
            ("glob", json!({"pattern": "**/*.log"})),
            ("grep", json!({"pattern": "needle"})),
        ] {
            let ran = room.idempotent(tool, arguments);
            let text = done(&ran);
            assert!(text.contains("sub/a.log"), "{tool}: {text}");
            assert!(text.contains(&said), "{tool}: {text}");
        }
    }

    #[test]
    fn an_ignore_file_is_used() {
        let ran = room().idempotent("grep", json!({"pattern": "needle"}));
        assert_eq!(done(&ran), "sub/a.txt\n1:needle\n");
    }

    #[test]
    fn what_is_no_regular_file_is_not_read() {
        for target in ["/dev/zero", "/dev/full"] {
            let room = room();
            fs::remove_file(room.path("sub/.gitignore")).unwrap();
            symlink(target, room.path("sub/.gitignore")).unwrap();
            not_used(&room, "sub/.gitignore", "it is a device");
        }
        let room = room();
        fs::remove_file(room.path("sub/.gitignore")).unwrap();
        for name in ["sub/.gitignore", "sub/.ignore"] {
            let made = std::process::Command::new("mkfifo")
                .arg(room.path(name))
                .status();
            assert!(made.unwrap().success());
            not_used(&room, name, "it is a FIFO");
        }
        room.put(".git/info/x", "");
        symlink("/dev/zero", room.path(".git/info/exclude")).unwrap();
        not_used(&room, ".git/info/exclude", "it is a device");
    }

    #[test]
    fn a_git_file_that_never_ends_is_not_read() {
        let room = room();
        symlink("/dev/zero", room.path("sub/.git")).unwrap();
        let ran = room.idempotent("grep", json!({"pattern": "needle"}));
        assert_eq!(done(&ran), "sub/a.txt\n1:needle\n");
    }

    #[test]
    fn size_and_patterns_are_bounded() {
        let over = MAX_FILE_BYTES as usize + 1;
        let room = room();
        room.put("sub/.gitignore", format!("*.log\n#{}", "x".repeat(over)));
        not_used(&room, "sub/.gitignore", "it has more than 1048576 bytes");
        room.put(
            "sub/.gitignore",
            format!("*.log\n{}", "a\n".repeat(MAX_PATTERNS)),
        );
        not_used(&room, "sub/.gitignore", "too many patterns (10001)");
        room.put(
            "sub/.gitignore",
            format!("*.log\n{}", "x".repeat(MAX_LINE_BYTES + 1)),
        );
        not_used(&room, "sub/.gitignore", "a pattern has 4097 bytes");
        // Those of the folders above count.
        room.put(".gitignore", "a\n".repeat(MAX_PATTERNS));
        room.put("sub/.gitignore", "*.log\n");
        not_used(
            &room,
            "sub/.gitignore",
            "too many patterns (1): together with",
        );
    }

    #[test]
    fn patterns_are_in_force_only_below_their_folder() {
        let room = Room::new();
        for n in 0..4 {
            room.put(&format!("{n}/.gitignore"), "*.log\n".repeat(MAX_PATTERNS));
            room.put(&format!("{n}/a.log"), "");
        }
        let ran = room.idempotent("glob", json!({"pattern": "**/*.log"}));
        assert!(done(&ran).starts_with("no file matches"), "{ran:?}");
    }

    #[test]
    fn not_all_that_is_not_used_is_named() {
        let room = Room::new();
        for n in 0..9 {
            room.put(&format!("{n}/x"), "");
            symlink("/dev/zero", room.path(&format!("{n}/.ignore"))).unwrap();
        }
        let text = done(&room.idempotent("glob", json!({"pattern": "*"}))).to_string();
        assert_eq!(text.matches("was not used").count(), MAX_NAMED);
        assert!(
            text.contains("[4 more ignore files were not used]"),
            "{text}"
        );
    }

    fn names() -> impl Strategy<Value = String> {
        prop::sample::select(vec!["a", "b", ".c", "d.log", "e.txt"]).prop_map(str::to_string)
    }

    fn pattern() -> impl Strategy<Value = String> {
        let part = prop::sample::select(vec![
            "a", "b", ".c", "*.log", "*", "**", "?", "[ab]", ".*", "e.txt", "\\!a", "#",
        ]);
        let parts = prop::collection::vec(part, 1..3);
        (any::<bool>(), any::<bool>(), parts, any::<bool>()).prop_map(
            |(keeps, anchored, parts, only_folders)| {
                format!(
                    "{}{}{}{}",
                    if keeps { "!" } else { "" },
                    if anchored { "/" } else { "" },
                    parts.join("/"),
                    if only_folders { "/" } else { "" }
                )
            },
        )
    }

    /// A folder, and what lies in it: files, and ignore files with their patterns.
    type Tree = Vec<(Vec<String>, Option<usize>, Vec<String>)>;

    fn tree() -> impl Strategy<Value = Tree> {
        let path = prop::collection::vec(names(), 1..4);
        let kind = prop::option::weighted(0.4, 0usize..4);
        prop::collection::vec((path, kind, prop::collection::vec(pattern(), 1..4)), 1..14)
    }

    fn plant(root: &Path, tree: &Tree) {
        const FILES: [&str; 4] = [".gitignore", ".ignore", ".git/info/exclude", ".git/HEAD"];
        for (path, kind, patterns) in tree {
            let path: PathBuf = path.iter().collect();
            let file = match kind {
                Some(kind) => root.join(path).join(FILES[*kind]),
                None => root.join(path),
            };
            // What is in its way stays.
            if fs::create_dir_all(file.parent().unwrap()).is_ok() && !file.exists() {
                fs::write(file, patterns.join("\r\n")).unwrap();
            }
        }
        fs::write(root.join(".gitignore"), tree[0].2.join("\n")).unwrap();
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(400))]

        #[test]
        fn the_meaning_is_that_of_the_crate(tree in tree(), with_dots: bool, at in any::<prop::sample::Index>()) {
            let room = tempfile::tempdir().unwrap();
            let whole = room.path().canonicalize().unwrap();
            plant(&whole, &tree);
            // Also a folder below: the files of its parents count.
            let mut folders = vec![whole.clone()];
            folders.extend(tree.iter().map(|(path, ..)| whole.join(&path[0])).filter(|p| p.is_dir()));
            let root = &folders[at.index(folders.len())];
            let crates: BTreeSet<PathBuf> = WalkBuilder::new(root)
                .hidden(!with_dots)
                .require_git(false)
                .git_global(false)
                .filter_entry(|entry| entry.depth() == 0 || entry.file_name() != ".git")
                .build()
                .map(|entry| entry.unwrap().into_path())
                .filter(|path| path != root)
                .collect();
            let on = AtomicBool::new(false);
            let watch = Watch::new(Limits::TOOL, &on);
            let ours: Vec<PathBuf> = Walk::new(root, with_dots, &Arc::default(), &watch)
                .map(|found| found.unwrap().path)
                .collect();
            prop_assert!(ours.is_sorted(), "{:?}", ours);
            prop_assert_eq!(ours.into_iter().collect::<BTreeSet<_>>(), crates);
        }
    }
}
