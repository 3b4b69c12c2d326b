//! Test of random changes of a folder against a plain map of its files: a scan with a watch and one
//! without find the same, which is the content of the map.

#![cfg(target_os = "linux")]

use std::ffi::OsStr;
use std::fs::{self, Permissions};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use proptest::prelude::*;

use super::tests::Looker;
use super::*;
use crate::core::tree::{Item, Tree};
use crate::workspace::files::cache::joined;
use crate::workspace::files::{Order, restore};

/// The file at a path.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Node {
    File { content: String, mode: u32 },
    Link,
}

#[derive(Debug, Clone)]
enum Act {
    Write(PathBytes, String),
    /// Replace a file with a folder, or a folder with a file.
    Swap(PathBytes),
    Remove(PathBytes),
    Rename(PathBytes, PathBytes),
    Link(PathBytes),
    Mode(PathBytes, u32),
    /// Set its time to one long ago.
    Age(PathBytes),
    Rules(PathBytes, String),
    /// Create a nested repository with these excludes.
    Repository(PathBytes, String),
    Look {
        is_whole: bool,
    },
    /// Restore the result of an earlier scan.
    Restore(prop::sample::Index),
}

fn path() -> impl Strategy<Value = PathBytes> {
    let names: Vec<&[u8]> = vec![b"a", b"A", b"b", b"c.log", b"d", b"\xff", b"new\nline"];
    let part = prop::sample::select(names);
    prop::collection::vec(part, 1..4).prop_map(|parts| parts.join(&b'/'))
}

fn act() -> impl Strategy<Value = Act> {
    // Most have the same size.
    let text = || prop::sample::select(vec!["", "1", "2", "3"]).prop_map(String::from);
    let rules = || prop::sample::select(vec!["", "d\n", "*.log\n", "/b/\n"]).prop_map(String::from);
    prop_oneof![
        6 => (path(), text()).prop_map(|(p, t)| Act::Write(p, t)),
        1 => path().prop_map(Act::Swap),
        2 => path().prop_map(Act::Remove),
        4 => (path(), path()).prop_map(|(a, b)| Act::Rename(a, b)),
        1 => path().prop_map(Act::Link),
        1 => (path(), prop::sample::select(vec![0o644, 0o755, 0o000])).prop_map(|(p, m)| Act::Mode(p, m)),
        1 => path().prop_map(Act::Age),
        2 => (path(), rules()).prop_map(|(p, r)| Act::Rules(p, r)),
        1 => (path(), rules()).prop_map(|(p, r)| Act::Repository(p, r)),
        5 => (0..4).prop_map(|n| Act::Look { is_whole: n == 0 }),
        1 => any::<prop::sample::Index>().prop_map(Act::Restore),
    ]
}

/// The folder, and the map of its files, covered or not.
struct Disk {
    _dir: tempfile::TempDir,
    root: PathBuf,
    map: BTreeMap<PathBytes, Node>,
    watching: Looker,
    verifying: Looker,
    trees: Vec<Tree>,
}

fn starts(path: &[u8], folder: &[u8]) -> bool {
    path == folder || (path.starts_with(folder) && path.get(folder.len()) == Some(&b'/'))
}

fn above(path: &[u8]) -> &[u8] {
    let end = path.iter().rposition(|b| *b == b'/');
    &path[..end.unwrap_or(0)]
}

impl Disk {
    fn new() -> Disk {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap().join("w");
        fs::create_dir(&root).unwrap();
        Disk {
            watching: Looker::new(&root, Some(Watch::new(1_000).unwrap())),
            verifying: Looker::new(&root, None),
            _dir: dir,
            root,
            map: BTreeMap::new(),
            trees: vec![Tree::default()],
        }
    }

    fn at(&self, path: &[u8]) -> PathBuf {
        self.root.join(OsStr::from_bytes(path))
    }

    fn forget(&mut self, path: &[u8]) {
        self.map.retain(|other, _| !starts(other, path));
    }

    /// Writes a file, if it is possible.
    fn write(&mut self, path: &[u8], content: &str) {
        let at = self.at(path);
        let is_there = at.symlink_metadata();
        if is_there.is_ok_and(|found| !found.is_file())
            || fs::create_dir_all(at.parent().unwrap()).is_err()
        {
            return;
        }
        let mode = match self.map.get(path) {
            Some(Node::File { mode, .. }) => *mode,
            _ => 0o644,
        };
        if fs::write(&at, content).is_ok() {
            fs::set_permissions(&at, Permissions::from_mode(mode)).unwrap();
            let content = content.to_string();
            self.map.insert(path.to_vec(), Node::File { content, mode });
        }
    }

    fn act(&mut self, act: &Act) {
        match act {
            Act::Write(path, content) => self.write(path, content),
            Act::Swap(path) => {
                let is_folder = self.at(path).is_dir();
                self.act(&Act::Remove(path.clone()));
                if is_folder {
                    self.write(path, "1");
                } else {
                    self.write(&[path, &b"/a"[..]].concat(), "2");
                }
            }
            Act::Remove(path) => {
                let at = self.at(path);
                if fs::remove_file(&at)
                    .or_else(|_| fs::remove_dir_all(&at))
                    .is_ok()
                {
                    self.forget(path);
                }
            }
            Act::Rename(a, b) => {
                if a == b || fs::rename(self.at(a), self.at(b)).is_err() {
                    return;
                }
                self.forget(b);
                let moved = self.map.clone().into_iter();
                for (path, node) in moved.filter(|(path, _)| starts(path, a)) {
                    self.map.remove(&path);
                    self.map.insert([b, &path[a.len()..]].concat(), node);
                }
            }
            Act::Link(path) => {
                if symlink("nowhere", self.at(path)).is_ok() {
                    self.map.insert(path.clone(), Node::Link);
                }
            }
            Act::Mode(path, to) => {
                if let Some(Node::File { mode, .. }) = self.map.get_mut(path) {
                    *mode = *to;
                    fs::set_permissions(self.at(path), Permissions::from_mode(*to)).unwrap();
                }
            }
            Act::Age(path) => {
                let long_ago = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000);
                if let Ok(file) = fs::File::open(self.at(path)) {
                    let _ = file.set_modified(long_ago);
                }
            }
            Act::Rules(path, rules) => {
                let folder = above(path);
                self.write(&joined(folder, b".gitignore"), rules);
            }
            Act::Repository(path, rules) => {
                let folder = above(path).to_vec();
                self.write(&joined(&folder, b".git/config"), "1");
                self.write(&joined(&folder, b".git/info/exclude"), rules);
            }
            Act::Look { is_whole } => self.look(*is_whole),
            Act::Restore(to) => self.restore(to),
        }
    }

    fn look(&mut self, is_whole: bool) {
        self.watching.look(is_whole);
        self.verifying.look(true);
        assert_eq!(
            self.watching.tree, self.verifying.tree,
            "with and without a watch"
        );
        let expected: Vec<_> = self
            .map
            .iter()
            .filter(|(path, _)| self.is_covered(path))
            .collect();
        let found = &self.watching.tree.0;
        assert_eq!(
            found.keys().collect::<Vec<_>>(),
            expected.iter().map(|(path, _)| *path).collect::<Vec<_>>()
        );
        for (path, node) in expected {
            match (node, &found[path]) {
                (Node::Link, Item::Link { target }) => assert_eq!(target, b"nowhere"),
                (
                    Node::File { content, mode },
                    Item::File {
                        hash, mode: found, ..
                    },
                ) => {
                    assert_eq!(u32::from(*found), *mode);
                    assert_eq!(
                        self.watching.contents[hash],
                        content.as_bytes(),
                        "{}",
                        path.escape_ascii()
                    );
                }
                // Only root may read it.
                (Node::File { mode: 0, .. }, Item::Marker { .. }) => {}
                (node, item) => panic!("{}: {node:?}, found {item:?}", path.escape_ascii()),
            }
        }
        self.trees.push(self.watching.tree.clone());
    }

    /// None of these rules negates another one.
    fn is_covered(&self, path: &[u8]) -> bool {
        let parts: Vec<&[u8]> = path.split(|b| *b == b'/').collect();
        if parts.contains(&&b".git"[..]) {
            return false;
        }
        let is_ignored = |depth: usize| {
            let (name, is_folder) = (parts[depth], depth + 1 < parts.len());
            (0..=depth).any(|from| {
                let folder = parts[..from].join(&b'/');
                [&b".gitignore"[..], b".git/info/exclude"]
                    .iter()
                    .any(|file| match self.map.get(&joined(&folder, file)) {
                        Some(Node::File { content, .. }) => match content.as_str() {
                            "d\n" => name == b"d",
                            "*.log\n" => name.ends_with(b".log"),
                            "/b/\n" => name == b"b" && is_folder && from == depth,
                            _ => false,
                        },
                        _ => false,
                    })
            })
        };
        !(0..parts.len()).any(is_ignored)
    }

    fn restore(&mut self, to: &prop::sample::Index) {
        self.look(true);
        let (before, target) = (self.watching.tree.clone(), to.get(&self.trees).clone());
        let contents = &self.watching.contents;
        let done = restore(&mut Order {
            root: &self.root,
            before: &before,
            target: &target,
            id: "0123456789abcdef",
            content: &mut |hash| Ok(contents.get(hash).cloned()),
            at: &mut |_| Ok(()),
        })
        .unwrap();
        assert_eq!(done.why, None);
        for path in done.removed {
            self.map.remove(&path);
        }
        for path in done.written {
            let node = match &target.0[&path] {
                Item::File { mode, hash, .. } => Node::File {
                    content: String::from_utf8(self.watching.contents[hash].clone()).unwrap(),
                    mode: u32::from(*mode),
                },
                _ => Node::Link,
            };
            self.map.insert(path, node);
        }
        self.look(false);
    }

    /// Returns everything in the folder, including ignored files and those of version control.
    fn everything(&self) -> BTreeMap<PathBytes, Node> {
        let mut all = BTreeMap::new();
        let mut folders = vec![self.root.clone()];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(folder).unwrap() {
                let (path, of) = entry.map(|e| (e.path(), e.file_type().unwrap())).unwrap();
                let at = path
                    .strip_prefix(&self.root)
                    .unwrap()
                    .as_os_str()
                    .as_bytes()
                    .to_vec();
                if of.is_dir() {
                    folders.push(path);
                } else if of.is_symlink() {
                    all.insert(at, Node::Link);
                } else {
                    let permissions = fs::metadata(&path).unwrap().permissions();
                    let mode = permissions.mode() & 0o777;
                    // Only root reads a file of mode 0 as it is.
                    fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
                    let content = fs::read_to_string(&path).unwrap();
                    fs::set_permissions(&path, permissions).unwrap();
                    all.insert(at, Node::File { content, mode });
                }
            }
        }
        all
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn looks_find_what_the_map_says(acts in prop::collection::vec(act(), 1..40)) {
        let mut disk = Disk::new();
        for act in &acts {
            disk.act(act);
        }
        disk.look(false);
        prop_assert_eq!(disk.everything(), disk.map);
    }
}
