//! The cache of the last scan: the item at each covered path, and the stamp that shows that it is
//! unchanged.
//!
//! If a part of the cache is lost, the files are read again, and nothing else happens.

use std::collections::BTreeMap;
use std::path::PathBuf;

use rustix::fs::Stat;

use crate::core::tree::{Builder, CompactTree, ContentHash, Item, PathBytes};

/// The identity of a file that was read. It includes the time of the last status change, since the
/// modification time can be set back by hand.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Stamp {
    pub size: u64,
    /// Nanoseconds since 1970.
    pub mtime_ns: i64,
    pub ctime_ns: i64,
    pub inode: u64,
    pub mode: u32,
}

impl Stamp {
    #[allow(
        clippy::unnecessary_cast,
        reason = "these have other types on other systems"
    )]
    pub(super) fn of(stat: &Stat) -> Stamp {
        let ns = |seconds: i64, ns: i64| seconds.saturating_mul(1_000_000_000).saturating_add(ns);
        Stamp {
            size: u64::try_from(stat.st_size).unwrap_or(0),
            mtime_ns: ns(stat.st_mtime as i64, stat.st_mtime_nsec as i64),
            ctime_ns: ns(stat.st_ctime as i64, stat.st_ctime_nsec as i64),
            inode: stat.st_ino as u64,
            mode: stat.st_mode as u32,
        }
    }

    /// Returns whether a later change could leave the same stamp, because the clock of the file
    /// system may not have moved on. `since_ns` is the start of the scan, less that clock's grain.
    pub(super) fn is_racy(&self, since_ns: i64, now_ns: i64) -> bool {
        // A modification time in the future was set by hand, and proves nothing.
        let is_recent = |ns: i64| ns >= since_ns && ns <= now_ns;
        self.ctime_ns >= since_ns || is_recent(self.mtime_ns)
    }
}

/// The state of a path that is not a folder, or of a folder that is only a marker.
#[derive(Debug, Clone)]
pub(super) struct FileState {
    pub stamp: Stamp,
    /// Whether it may have changed since without another stamp, so that it is read again.
    pub is_racy: bool,
    pub item: Item,
}

/// The state of a folder when it was listed.
#[derive(Debug, Clone, Default)]
pub(super) struct FolderState {
    /// The stamp; `None` if the next scan must list the folder.
    pub stamp: Option<Stamp>,
    /// The ignore files of this folder itself that were in force.
    pub rules: Vec<RuleFile>,
    pub files: BTreeMap<Vec<u8>, CachedName>,
    pub folders: BTreeMap<Vec<u8>, FolderState>,
    /// Whether it was listed at least once.
    pub is_listed: bool,
    /// Whether the ignore rules above it changed since it was listed.
    pub is_stale: bool,
    /// Whether it became covered only now, so that its files did too.
    pub has_entered: bool,
}

/// A file of ignore rules, known by its content.
#[derive(Debug, Clone)]
pub(super) struct RuleFile {
    pub path: PathBuf,
    /// `None` if the file does not exist.
    pub stamp: Option<Stamp>,
    /// `None` if no rule of it is in force.
    pub hash: Option<ContentHash>,
}

impl PartialEq for RuleFile {
    fn eq(&self, other: &RuleFile) -> bool {
        self.path == other.path && self.hash == other.hash
    }
}

/// The state of a name that is not a folder.
#[derive(Debug, Clone)]
pub(super) enum CachedName {
    /// It was listed, and not inspected yet.
    New {
        entered: bool,
    },
    Known(FileState),
}

/// The result of the last scan of a workspace.
#[derive(Debug, Default)]
pub struct Cache {
    pub(super) root: FolderState,
    /// The ignore files of the folders above the root.
    pub(super) above: Vec<RuleFile>,
    /// For each repository in the workspace, its folder and its exclude file, as the last full scan
    /// found it.
    pub(super) excludes: Vec<(PathBytes, RuleFile)>,
}

impl Cache {
    /// Returns an empty cache: the next scan reads everything.
    pub fn new() -> Cache {
        Cache::default()
    }

    /// Adds an item that was found and reported without listing its folder. The next full scan
    /// reports a difference from it. Otherwise a file that was created and removed between two full
    /// scans would seem to exist for ever.
    pub fn learn(&mut self, at: &[u8], item: Option<&Item>) {
        let mut folder = &mut self.root;
        let mut names = at.split(|byte| *byte == b'/').peekable();
        while let Some(name) = names.next() {
            if names.peek().is_some() {
                // The next scan lists a new folder.
                folder = match (item, folder.folders.contains_key(name)) {
                    (None, false) => return,
                    _ => folder.folders.entry(name.to_vec()).or_default(),
                };
                continue;
            }
            match item {
                Some(item) => {
                    let known = FileState {
                        // It was not compared yet.
                        stamp: Stamp::default(),
                        is_racy: true,
                        item: item.clone(),
                    };
                    folder.files.insert(name.to_vec(), CachedName::Known(known));
                }
                None => {
                    folder.files.remove(name);
                }
            }
        }
    }

    /// Pretends that a file of the root was read with its current stamp.
    #[cfg(test)]
    pub(super) fn believe(&mut self, name: &[u8], path: &std::path::Path) {
        if let (Some(CachedName::Known(known)), Ok(stat)) =
            (self.root.files.get_mut(name), rustix::fs::lstat(path))
        {
            known.stamp = Stamp::of(&stat);
            known.is_racy = false;
        }
    }

    /// Returns the tree of everything that was found.
    pub fn tree(&self) -> CompactTree {
        let mut tree = Builder::default();
        collect(&self.root, &mut Vec::new(), &mut tree);
        tree.end()
    }
}

/// Adds the items in the order of their paths, in which a folder's name ends with a slash.
fn collect(folder: &FolderState, path: &mut PathBytes, tree: &mut Builder) {
    let key = |name: &[u8]| [name, b"/"].concat();
    let mut folders: Vec<(PathBytes, &FolderState)> = folder
        .folders
        .iter()
        .map(|(name, state)| (key(name), state))
        .collect();
    folders.sort_unstable_by(|(a, _), (b, _)| a.cmp(b));
    let mut folders = folders.into_iter().peekable();
    let end = path.len();
    for (name, slot) in &folder.files {
        while let Some((below, state)) = folders.next_if(|(below, _)| below < name) {
            path.extend_from_slice(&below);
            collect(state, path, tree);
            path.truncate(end);
        }
        if let CachedName::Known(state) = slot {
            path.extend_from_slice(name);
            tree.push(path, &state.item);
            path.truncate(end);
        }
    }
    for (below, state) in folders {
        path.extend_from_slice(&below);
        collect(state, path, tree);
        path.truncate(end);
    }
}

pub(super) fn joined(folder: &[u8], name: &[u8]) -> PathBytes {
    if folder.is_empty() {
        name.to_vec()
    } else {
        [folder, b"/", name].concat()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tree_is_in_the_order_of_its_paths() {
        let known = |names: &[&str]| -> BTreeMap<Vec<u8>, CachedName> {
            let slot = |name: &&str| {
                let item = Item::Link {
                    target: name.as_bytes().to_vec(),
                };
                let stamp = Stamp {
                    size: 1,
                    mtime_ns: 0,
                    ctime_ns: 0,
                    inode: 1,
                    mode: 0,
                };
                let is_racy = false;
                let known = FileState {
                    stamp,
                    is_racy,
                    item,
                };
                (name.as_bytes().to_vec(), CachedName::Known(known))
            };
            names.iter().map(slot).collect()
        };
        let mut cache = Cache::new();
        cache.root.files = known(&["a-b", "a.c", "a0", "b"]);
        for folder in ["a", "a-", "a.d", "c"] {
            let below = FolderState {
                files: known(&["x"]),
                ..FolderState::default()
            };
            cache.root.folders.insert(folder.into(), below);
        }
        let mut paths = Vec::new();
        cache.tree().each(&mut |path, _| paths.push(path.to_vec()));
        let expected = ["a-/x", "a-b", "a.c", "a.d/x", "a/x", "a0", "b", "c/x"];
        assert_eq!(paths, expected.map(|path| path.as_bytes().to_vec()));
        for path in &paths {
            assert!(cache.tree().get(path).is_some());
        }
    }

    #[test]
    fn a_stamp_of_this_instant_proves_nothing() {
        let stamp = |mtime_ns, ctime_ns| Stamp {
            size: 1,
            mtime_ns,
            ctime_ns,
            inode: 1,
            mode: 0,
        };
        assert!(!stamp(10, 10).is_racy(11, 31));
        assert!(stamp(10, 11).is_racy(11, 31));
        assert!(stamp(11, 10).is_racy(11, 31));
        // A change by a clock that is ahead; a modification time that was set by hand.
        assert!(stamp(10, 99).is_racy(11, 31));
        assert!(!stamp(99, 10).is_racy(11, 31));
    }
}
