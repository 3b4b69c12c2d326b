//! The files of ignore rules: which are in force in a folder, and whether they are unchanged.

use std::path::{Path, PathBuf};

use rustix::fs::{self as sys, FileType};

use super::Scan;
use crate::core::tree::PathBytes;
use crate::workspace::files::cache::{Cache, FolderState, RuleFile, Stamp, joined};
use crate::workspace::ignored::Ignored;
use crate::workspace::regular;

/// The ignore rules of the current folder and its parents. They are read when they are first needed
/// there.
pub(super) struct Rules {
    folders: Vec<PathBuf>,
    /// The rules, with the number of folders that were entered.
    read: Option<(Ignored, usize)>,
    root: PathBuf,
}

impl Rules {
    pub(super) fn new(root: &Path) -> Rules {
        Rules {
            folders: Vec::new(),
            read: None,
            root: root.to_path_buf(),
        }
    }

    pub(super) fn enter(&mut self, folder: PathBuf) {
        self.folders.push(folder);
    }

    pub(super) fn leave(&mut self) {
        self.folders.pop();
        if let Some((ignored, entered)) = &mut self.read
            && *entered > self.folders.len()
        {
            ignored.leave();
            *entered -= 1;
        }
    }

    pub(super) fn is_ignored(&mut self, path: &Path, is_folder: bool) -> bool {
        let (ignored, entered) = self
            .read
            .get_or_insert_with(|| (Ignored::above(&self.root), 0));
        for folder in &self.folders[*entered..] {
            ignored.enter(folder);
            *entered += 1;
        }
        ignored.is_ignored(path, is_folder) == Some(true)
    }
}

/// Returns the files of ignore rules in the folders above the root.
pub(super) fn rules_above(root: &Path) -> Vec<PathBuf> {
    let above = root.ancestors().skip(1);
    let files = above.flat_map(|folder| RULES.map(|name| folder.join(name)));
    files.collect()
}

const EXCLUDE: &str = ".git/info/exclude";
pub(super) const RULES: [&str; 3] = [".ignore", ".gitignore", EXCLUDE];

/// Maximum size of a file of ignore rules. Their readers ignore larger ones too.
const MAX_RULE_BYTES: u64 = 1024 * 1024;

impl Scan<'_> {
    /// Returns the current state of the files of rules. Links are followed, as when rules are read.
    pub(super) fn rule_files(&self, paths: Vec<PathBuf>, before: &[RuleFile]) -> Vec<RuleFile> {
        let now = |path: PathBuf| {
            let stamp = sys::stat(&path).ok().map(|stat| Stamp::of(&stat));
            let before = before.iter().find(|file| file.path == path);
            let hash = match (stamp, before) {
                (None, _) => None,
                (Some(stamp), Some(before))
                    if before.stamp == Some(stamp) && !self.clock.is_racy(&stamp) =>
                {
                    before.hash
                }
                (Some(_), _) => regular::load(&path, MAX_RULE_BYTES)
                    .ok()
                    .map(|content| *blake3::hash(&content).as_bytes()),
            };
            RuleFile { path, stamp, hash }
        };
        paths.into_iter().map(now).collect()
    }

    /// Returns the folders of repositories whose `info/exclude` changed: nothing below `.git` is
    /// watched.
    pub(super) fn changed_excludes(&self, cache: &Cache) -> Vec<PathBytes> {
        let is_other = |file: &&(PathBytes, RuleFile)| {
            let now = self.rule_files(vec![file.1.path.clone()], std::slice::from_ref(&file.1));
            now.first() != Some(&file.1)
        };
        let changed = cache.excludes.iter().filter(is_other);
        changed.map(|(folder, _)| joined(folder, b".git")).collect()
    }
}

/// Collects the files of ignore rules in folders that are not watched, each with its folder.
pub(super) fn collect_excludes(
    state: &FolderState,
    path: &[u8],
    all: &mut Vec<(PathBytes, RuleFile)>,
) {
    let excludes = state.rules.iter();
    let excludes = excludes.filter(|file| file.path.ends_with(EXCLUDE));
    all.extend(excludes.map(|file| (path.to_vec(), file.clone())));
    for (name, below) in &state.folders {
        collect_excludes(below, &joined(path, name), all);
    }
}

/// Returns the files of ignore rules that are in a folder itself.
pub(super) fn own_rules(folder: &Path, names: &[(Vec<u8>, FileType)]) -> Vec<PathBuf> {
    let has = |name: &str| names.iter().any(|(found, _)| found == name.as_bytes());
    let files = RULES
        .iter()
        .filter(|file| has(file.split('/').next().unwrap_or_default()));
    files.map(|file| folder.join(file)).collect()
}
