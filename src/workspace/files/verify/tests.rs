//! Tests of scans of a workspace, compared with the disk.

use std::collections::BTreeMap;
use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::process::Command;

use proptest::prelude::*;

use super::*;
use crate::core::tree::Tree;

const GRAIN: Duration = Duration::from_millis(20);

/// A workspace that is scanned, and the changes that were reported.
struct Scene {
    _dir: tempfile::TempDir,
    coverage: Coverage,
    cache: Cache,
    /// The sum of the reported changes.
    tree: Tree,
    contents: BTreeMap<ContentHash, Vec<u8>>,
    /// The changes of the last scan.
    pending: Pending,
    grain: Duration,
    watch: Option<Watch>,
    /// Scan everything, whatever the watch reports.
    is_whole: bool,
}

impl Scene {
    fn new() -> Scene {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap().join("w");
        fs::create_dir(&root).unwrap();
        let mut coverage = Coverage::new(root, vec![], &[], &[]).unwrap();
        coverage.max_file_bytes = 1_000;
        coverage.max_files = 1_000;
        Scene {
            _dir: dir,
            coverage,
            cache: Cache::new(),
            tree: Tree::default(),
            contents: BTreeMap::new(),
            pending: Pending::new(),
            grain: GRAIN,
            watch: None,
            is_whole: false,
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.coverage.root.join(name)
    }

    fn put(&self, name: &str, content: &str) {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }

    fn try_look(&mut self) -> Result<(), Stopped> {
        self.pending.clear();
        let contents = &mut self.contents;
        let mut keep = |content: Content<'_>| {
            assert_eq!(*blake3::hash(content.bytes).as_bytes(), content.hash);
            contents.insert(content.hash, content.bytes.to_vec());
            Ok(())
        };
        let progress = Progress::default();
        let dirty = self.watch.as_mut().map(Watch::changed).unwrap_or_default();
        let wanted = ScanSettings {
            coverage: &self.coverage,
            grain: self.grain,
            progress: &progress,
            watch: self.watch.as_mut(),
            dirty,
            is_whole: self.is_whole,
        };
        let looked = verify(wanted, &mut self.cache, Some(&mut self.pending), &mut keep);
        self.tree
            .apply(&crate::core::tree::Delta(self.pending.clone()));
        looked
    }

    /// Scans, and checks that the sum of the changes equals the cache.
    fn look(&mut self) {
        self.try_look().unwrap();
        assert_eq!(self.tree, Tree::from(&self.cache.tree()));
    }

    /// Describes the item at each path.
    fn seen(&self) -> Vec<String> {
        let item = |(path, item): (&PathBytes, &Item)| {
            let path = path.escape_ascii();
            match item {
                Item::File { hash, .. } => {
                    format!("{path}={}", self.contents[hash].escape_ascii())
                }
                Item::Link { target } => format!("{path}->{}", target.escape_ascii()),
                Item::Marker { why, .. } => format!("{path}: {}", why.words()),
            }
        };
        self.tree.0.iter().map(item).collect()
    }

    #[track_caller]
    fn sees(&mut self, expected: &[&str]) {
        self.look();
        assert_eq!(self.seen(), expected);
    }
}

fn unwatched<'a>(
    coverage: &'a Coverage,
    grain: Duration,
    progress: &'a Progress,
) -> ScanSettings<'a> {
    ScanSettings {
        coverage,
        grain,
        progress,
        watch: None,
        dirty: Dirty::default(),
        is_whole: true,
    }
}

#[test]
fn files_links_and_their_changes_are_found() {
    let mut scene = Scene::new();
    scene.put("a", "1");
    scene.put("sub/b", "2");
    symlink("nowhere", scene.path("link")).unwrap();
    scene.sees(&["a=1", "link->nowhere", "sub/b=2"]);
    scene.look();
    assert!(scene.pending.is_empty());
    scene.put("a", "one");
    scene.put("sub/deep/c", "3");
    fs::remove_file(scene.path("sub/b")).unwrap();
    scene.sees(&["a=one", "link->nowhere", "sub/deep/c=3"]);
    fs::remove_dir_all(scene.path("sub")).unwrap();
    scene.put("sub", "a file now");
    fs::remove_file(scene.path("a")).unwrap();
    scene.put("a/b", "in a folder now");
    scene.sees(&["a/b=in a folder now", "link->nowhere", "sub=a file now"]);
    fs::set_permissions(scene.path("sub"), Permissions::from_mode(0o755)).unwrap();
    scene.look();
    let put = &scene.pending[&b"sub"[..]];
    assert!(matches!(
        put,
        Change::Put {
            item: Item::File { mode: 0o755, .. },
            ..
        }
    ));
}

/// A rewrite of the same size in the same tick of the clock has the same stamp except for the time
/// of the status change, which may be the same too.
#[test]
fn a_rewrite_within_one_tick_is_found() {
    let mut scene = Scene::new();
    scene.put("a", "first");
    scene.look();
    // Simulates a clock of the file system that has not moved on.
    fn all(folder: &mut FolderState) -> impl Iterator<Item = &mut FileState> {
        folder.files.values_mut().filter_map(|slot| match slot {
            CachedName::Known(state) => Some(state),
            CachedName::New { .. } => None,
        })
    }
    scene.put("a", "other");
    let now = Stamp::of(&sys::stat(scene.path("a")).unwrap());
    all(&mut scene.cache.root).for_each(|state| state.stamp = now);
    scene.sees(&["a=other"]);
    // An hour later its stamp is trusted.
    scene.grain = Duration::ZERO;
    std::thread::sleep(Duration::from_millis(20));
    scene.look();
    scene.put("a", "third");
    let now = Stamp::of(&sys::stat(scene.path("a")).unwrap());
    all(&mut scene.cache.root).for_each(|state| state.stamp = now);
    scene.look();
    assert_eq!(scene.seen(), ["a=other"]);
}

/// The bytes that are read while somebody writes a file may be a state that the file never had.
#[test]
fn a_file_that_is_written_while_it_is_read_is_read_again() {
    let mut scene = Scene::new();
    scene.put("a", "first");
    let path = scene.path("a");
    let mut left = 1;
    let write_once = move || {
        if left > 0 {
            left -= 1;
            fs::write(&path, "the second, and longer").unwrap();
        }
    };
    read::WHILE_READ.set(Some(Box::new(write_once)));
    scene.sees(&["a=the second, and longer"]);
    // A write during each read: a known file keeps its state, and only the name of a new one is
    // known.
    scene.put("a", "third");
    scene.put("b", "new");
    let (a, b) = (scene.path("a"), scene.path("b"));
    let mut size = 0;
    let write_on = move || {
        size += 1;
        fs::write(&a, "x".repeat(size)).unwrap();
        fs::write(&b, "y".repeat(size + 10)).unwrap();
    };
    read::WHILE_READ.set(Some(Box::new(write_on)));
    scene.look();
    read::WHILE_READ.set(None);
    let seen = scene.seen();
    assert_eq!(seen[0], "a=the second, and longer");
    assert!(seen[1].starts_with("b: "), "{seen:?}");
    scene.put("a", "over");
    scene.put("b", "over");
    scene.sees(&["a=over", "b=over"]);
}

#[test]
fn special_files_are_named_and_not_opened() {
    let mut scene = Scene::new();
    let made = Command::new("mkfifo").arg(scene.path("fifo")).status();
    assert!(made.unwrap().success());
    let _socket = std::os::unix::net::UnixListener::bind(scene.path("socket")).unwrap();
    let big = fs::File::create(scene.path("big")).unwrap();
    big.set_len(50 << 30).unwrap();
    scene.put(".env", "KEY=1");
    scene.put("a", "1");
    scene.sees(&[
        ".env: a secret",
        "a=1",
        "big: too big",
        "fifo: a FIFO",
        "socket: a socket",
    ]);
    assert_eq!(
        scene.contents.len(),
        1,
        "the secret's content is not handed out"
    );
    scene.put(".env", "KEY=2");
    scene.look();
    assert!(scene.pending.contains_key(&b".env"[..]), "its hash tells");
}

#[test]
fn names_are_bytes() {
    let mut scene = Scene::new();
    for name in [&b"\xff\xfe"[..], b"new\nline", b"Case", b"case"] {
        fs::write(scene.coverage.root.join(OsStr::from_bytes(name)), "x").unwrap();
    }
    scene.sees(&["Case=x", "case=x", "new\\nline=x", "\\xff\\xfe=x"]);
}

#[test]
fn nested_repositories_are_folders_and_version_control_is_left_out() {
    let mut scene = Scene::new();
    scene.put(".git/config", "x");
    scene.put("nested/.git/config", "x");
    scene.put("nested/a", "1");
    scene.put("module/.git", "gitdir: ../.git/modules/module");
    scene.put("module/b", "2");
    scene.sees(&["module/b=2", "nested/a=1"]);
}

#[test]
fn an_ignore_rule_change_is_not_a_creation_or_deletion() {
    let mut scene = Scene::new();
    scene.put(".gitignore", "*.log\nout/\n");
    scene.put("a.log", "1");
    scene.put("b.tmp", "2");
    scene.put("out/c", "3");
    scene.put("sub/d.log", "4");
    scene.sees(&[".gitignore=*.log\\nout/\\n", "b.tmp=2"]);
    scene.put(".gitignore", "*.tmp\n");
    scene.sees(&[".gitignore=*.tmp\\n", "a.log=1", "out/c=3", "sub/d.log=4"]);
    for (path, change) in &scene.pending {
        let said = match change {
            Change::Put { entered, .. } => *entered,
            Change::Gone { left } => *left,
        };
        assert_eq!(said, path != b".gitignore", "{}", path.escape_ascii());
    }
    // A file that is created afterwards is a creation again.
    scene.put("new", "5");
    scene.look();
    assert_eq!(
        scene.pending[&b"new"[..]],
        Change::put(scene.tree.0[&b"new"[..]].clone())
    );
}

#[test]
fn a_look_that_was_cut_short_does_not_forget_a_change_of_the_rules() {
    let mut scene = Scene::new();
    scene.put("sub/deep/a.log", "1");
    scene.put("b", "2");
    scene.look();
    scene.put(".gitignore", "*.log\n");
    scene.coverage.max_files = 1;
    scene.try_look().unwrap_err();
    scene.coverage.max_files = 10;
    scene.sees(&[".gitignore=*.log\\n", "b=2"]);
}

#[test]
fn rules_above_the_root_and_in_the_repository_count() {
    let mut scene = Scene::new();
    scene.put(".git/info/exclude", "a\n");
    fs::write(scene.path("../.ignore"), "b\n").unwrap();
    for name in ["a", "b", "c"] {
        scene.put(name, "1");
    }
    scene.sees(&["c=1"]);
    scene.put(".git/info/exclude", "\n");
    scene.sees(&["a=1", "c=1"]);
    fs::remove_file(scene.path("../.ignore")).unwrap();
    scene.sees(&["a=1", "b=1", "c=1"]);
}

#[test]
fn a_folder_that_cannot_be_entered_is_named() {
    let mut scene = Scene::new();
    scene.put("closed/a", "1");
    let mode = |mode| {
        let path = scene.path("closed");
        fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
    };
    mode(0o000);
    let may_all = fs::read_dir(scene.path("closed")).is_ok();
    if !may_all {
        scene.sees(&["closed: not readable"]);
        let path = scene.path("closed");
        fs::set_permissions(path, Permissions::from_mode(0o700)).unwrap();
    }
    scene.sees(&["closed/a=1"]);
}

#[test]
fn the_number_of_files_is_bounded() {
    let mut scene = Scene::new();
    scene.coverage.max_files = 10;
    for n in 0..20 {
        scene.put(&format!("{n}"), "");
    }
    assert!(matches!(scene.try_look(), Err(Stopped::TooMany(10))));
    // The paths found up to the limit are reported; the rest comes with the next scan.
    scene.coverage.max_files = 20;
    scene.look();
    assert_eq!(scene.tree.0.len(), 20);
}

#[test]
fn content_that_was_not_stored_is_handed_out_again() {
    let mut scene = Scene::new();
    for name in ["a", "b", "c"] {
        scene.put(name, name);
    }
    let mut refuse = |content: Content<'_>| match content.bytes {
        b"b" => Err("no room".to_string()),
        _ => Ok(()),
    };
    let progress = Progress::default();
    let wanted = unwatched(&scene.coverage, GRAIN, &progress);
    let stopped = verify(
        wanted,
        &mut scene.cache,
        Some(&mut scene.pending),
        &mut refuse,
    );
    assert!(matches!(stopped, Err(Stopped::NotKept(why)) if why == "no room"));
    assert_eq!(scene.pending.keys().collect::<Vec<_>>(), [b"a"]);
    scene
        .tree
        .apply(&crate::core::tree::Delta(scene.pending.clone()));
    scene.look();
    assert_eq!(scene.contents.len(), 2);
    assert_eq!(scene.tree.0.len(), 3);
}

/// A change of a workspace between two scans.
#[derive(Debug, Clone)]
enum Act {
    Write(String, String),
    Remove(String),
    Rename(String, String),
    Link(String),
    Mode(String, bool),
    Rules(String, String),
    Look,
}

fn name() -> impl Strategy<Value = String> {
    let part = prop::sample::select(vec!["a", "b", "c.log", "d", ".git"]);
    prop::collection::vec(part, 1..4).prop_map(|parts| parts.join("/"))
}

fn act() -> impl Strategy<Value = Act> {
    let text = || prop::sample::select(vec!["", "1", "2", "long"]).prop_map(String::from);
    let rules = prop::sample::select(vec!["", "a\n", "*.log\n", "/b/\n!a\n", "d\n"]);
    prop_oneof![
        4 => (name(), text()).prop_map(|(n, t)| Act::Write(n, t)),
        2 => name().prop_map(Act::Remove),
        2 => (name(), name()).prop_map(|(a, b)| Act::Rename(a, b)),
        1 => name().prop_map(Act::Link),
        1 => (name(), any::<bool>()).prop_map(|(n, m)| Act::Mode(n, m)),
        1 => (name(), rules).prop_map(|(n, r)| Act::Rules(n, r.to_string())),
        3 => Just(Act::Look),
    ]
}

impl Scene {
    /// Makes the change, if it is possible.
    fn act(&mut self, act: &Act) {
        match act {
            Act::Write(name, text) => {
                let path = self.path(name);
                let _ = fs::create_dir_all(path.parent().unwrap());
                let _ = fs::write(path, text);
            }
            Act::Remove(name) => {
                let path = self.path(name);
                let _ = fs::remove_file(&path).or_else(|_| fs::remove_dir_all(&path));
            }
            Act::Rename(a, b) => {
                let _ = fs::rename(self.path(a), self.path(b));
            }
            Act::Link(name) => {
                let _ = symlink("a", self.path(name));
            }
            Act::Mode(name, is_run) => {
                let path = self.path(name);
                if path.is_file() {
                    let mode = if *is_run { 0o755 } else { 0o644 };
                    let _ = fs::set_permissions(path, Permissions::from_mode(mode));
                }
            }
            Act::Rules(name, rules) => {
                let path = self.path(name).with_file_name(".gitignore");
                let _ = fs::write(path, rules);
            }
            Act::Look => self.look(),
        }
    }

    /// Returns the tree that a scan with an empty cache finds.
    fn fresh(&self) -> Tree {
        let (mut cache, progress) = (Cache::new(), Progress::default());
        let wanted = unwatched(&self.coverage, self.grain, &progress);
        verify(wanted, &mut cache, None, &mut |_| Ok(())).unwrap();
        Tree::from(&cache.tree())
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    #[test]
    fn looks_that_build_on_each_other_see_what_one_look_sees(acts in prop::collection::vec(act(), 1..40)) {
        let mut scene = Scene::new();
        for act in &acts {
            scene.act(act);
        }
        scene.look();
        prop_assert_eq!(&scene.tree, &scene.fresh());
        // The walk of the tools finds the same.
        let mut walk = ignore::WalkBuilder::new(&scene.coverage.root);
        walk.hidden(false).require_git(false).git_global(false);
        walk.filter_entry(|entry| entry.depth() == 0 || entry.file_name() != ".git");
        let files = walk.build().map(|entry| entry.unwrap());
        let files = files.filter(|entry| !entry.file_type().unwrap().is_dir());
        let mut walked: Vec<PathBytes> = files
            .map(|entry| entry.path().strip_prefix(&scene.coverage.root).unwrap().as_os_str().as_bytes().to_vec())
            .collect();
        walked.sort();
        prop_assert_eq!(scene.tree.0.keys().cloned().collect::<Vec<_>>(), walked);
        for (path, item) in &scene.tree.0 {
            if let Item::File { hash, .. } = item {
                let on_disk = fs::read(scene.absolute_of(path)).unwrap();
                prop_assert_eq!(&scene.contents[hash], &on_disk);
            }
        }
    }
}

impl Scene {
    fn absolute_of(&self, path: &[u8]) -> PathBuf {
        self.coverage.root.join(OsStr::from_bytes(path))
    }
}
