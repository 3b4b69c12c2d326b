//! Tests of scans with a watch, in a real folder.

#![cfg(target_os = "linux")]

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::*;
use crate::core::tree::{ContentHash, Delta, Item, Tree};
use crate::workspace::files::{Cache, Content, Coverage, Pending, Progress, ScanSettings, verify};

pub(super) const GRAIN: Duration = Duration::from_millis(20);

/// A scanner that scans a workspace again and again.
pub(super) struct Looker {
    pub coverage: Coverage,
    cache: Cache,
    pub watch: Option<Watch>,
    /// The sum of the reported changes.
    pub tree: Tree,
    pub contents: BTreeMap<ContentHash, Vec<u8>>,
    /// Number of paths that the last scan visited.
    looked_at: u64,
}

impl Looker {
    pub fn new(root: &Path, watch: Option<Watch>) -> Looker {
        Looker {
            coverage: Coverage::new(root.to_path_buf(), vec![], &[], &[]).unwrap(),
            cache: Cache::new(),
            watch,
            tree: Tree::default(),
            contents: BTreeMap::new(),
            looked_at: 0,
        }
    }

    pub fn look(&mut self, is_whole: bool) {
        let dirty = self.watch.as_mut().map(Watch::changed).unwrap_or_default();
        let progress = Progress::default();
        let wanted = ScanSettings {
            coverage: &self.coverage,
            grain: GRAIN,
            progress: &progress,
            watch: self.watch.as_mut(),
            dirty,
            is_whole,
        };
        let (mut pending, contents) = (Pending::new(), &mut self.contents);
        let mut keep = |content: Content<'_>| {
            contents.insert(content.hash, content.bytes.to_vec());
            Ok(())
        };
        verify(wanted, &mut self.cache, Some(&mut pending), &mut keep).unwrap();
        self.tree.apply(&Delta(pending));
        assert_eq!(
            self.tree,
            Tree::from(&self.cache.tree()),
            "what is reported is what is known"
        );
        self.looked_at = progress.files.load(Ordering::Relaxed);
    }

    /// Scans, and returns each path with its content.
    fn sees(&mut self) -> Vec<String> {
        self.look(false);
        let item = |(path, item): (&PathBytes, &Item)| match item {
            Item::File { hash, .. } => {
                let content = self.contents[hash].escape_ascii();
                format!("{}={content}", path.escape_ascii())
            }
            Item::Link { .. } => format!("{}->", path.escape_ascii()),
            Item::Marker { why, .. } => format!("{}: {}", path.escape_ascii(), why.words()),
        };
        self.tree.0.iter().map(item).collect()
    }
}

struct Scene {
    _dir: tempfile::TempDir,
    root: PathBuf,
    looker: Looker,
}

impl Scene {
    /// Creates these files, and scans once.
    fn new(files: &[&str]) -> Scene {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap().join("w");
        fs::create_dir(&root).unwrap();
        let mut scene = Scene {
            looker: Looker::new(&root, Some(Watch::new(1_000).unwrap())),
            _dir: dir,
            root,
        };
        for file in files {
            scene.put(file, "1");
        }
        scene.looker.look(true);
        scene
    }

    fn path(&self, name: &str) -> PathBuf {
        self.root.join(name)
    }

    fn put(&self, name: &str, content: &str) {
        fs::create_dir_all(self.path(name).parent().unwrap()).unwrap();
        fs::write(self.path(name), content).unwrap();
    }

    #[track_caller]
    fn sees(&mut self, expected: &[&str]) {
        assert_eq!(self.looker.sees(), expected);
    }
}

#[test]
fn only_what_changed_is_looked_at() {
    let mut scene = Scene::new(&["a", "b", "sub/c", "sub/d", "sub/deep/e"]);
    scene.sees(&["a=1", "b=1", "sub/c=1", "sub/d=1", "sub/deep/e=1"]);
    assert_eq!(scene.looker.looked_at, 0);
    scene.put("sub/c", "2");
    scene.put("sub/new", "3");
    fs::remove_file(scene.path("sub/d")).unwrap();
    fs::rename(scene.path("a"), scene.path("sub/deep/moved")).unwrap();
    scene.sees(&[
        "b=1",
        "sub/c=2",
        "sub/deep/e=1",
        "sub/deep/moved=1",
        "sub/new=3",
    ]);
    // One of the files is gone from two places.
    assert_eq!(scene.looker.looked_at, 5);
    scene.put("made/since/f", "4");
    scene.sees(&[
        "b=1",
        "made/since/f=4",
        "sub/c=2",
        "sub/deep/e=1",
        "sub/deep/moved=1",
        "sub/new=3",
    ]);
    scene.put("made/since/f", "5");
    scene.looker.look(false);
    assert_eq!(scene.looker.looked_at, 1, "what is new is watched");
}

#[test]
fn ignored_folders_are_not_watched() {
    let mut scene = Scene::new(&["a"]);
    scene.put(".gitignore", "target/\n");
    scene.put("target/debug/x", "1");
    scene.sees(&[".gitignore=target/\\n", "a=1"]);
    assert_eq!(scene.looker.watch.as_ref().unwrap().watches.len(), 1);
    scene.put("target/debug/x", "2");
    assert_eq!(
        scene.looker.watch.as_mut().unwrap().changed(),
        Dirty::default()
    );
    // The folder becomes covered, and is watched from here on.
    scene.put(".gitignore", "\n");
    scene.sees(&[".gitignore=\\n", "a=1", "target/debug/x=2"]);
    scene.put("target/debug/x", "3");
    scene.sees(&[".gitignore=\\n", "a=1", "target/debug/x=3"]);
    scene.put(".gitignore", "target/\n");
    scene.sees(&[".gitignore=target/\\n", "a=1"]);
    assert_eq!(scene.looker.watch.as_ref().unwrap().watches.len(), 1);
}

#[test]
fn events_that_were_lost_have_everything_looked_at() {
    let mut scene = Scene::new(&["a", "b", "c"]);
    let system = "/proc/sys/fs/inotify/max_queued_events";
    let most: usize = fs::read_to_string(system).unwrap().trim().parse().unwrap();
    // Two consecutive events of the same kind are merged.
    let both = ["a", "b"].map(|name| fs::File::create(scene.path(name)).unwrap());
    for n in 0..most + 10 {
        std::io::Write::write_all(&mut &both[n % 2], b"x").unwrap();
    }
    drop(both);
    scene.put("c", "behind the last event");
    scene.looker.look(false);
    let hash = *blake3::hash(b"behind the last event").as_bytes();
    assert_eq!(scene.looker.tree.0[&b"c"[..]].content(), Some(&hash));
}

#[test]
fn a_folder_is_followed_where_it_is_moved() {
    let mut scene = Scene::new(&["a/deep/x", "b/y"]);
    fs::rename(scene.path("a"), scene.path("moved")).unwrap();
    // Its watch still has the old name.
    scene.put("moved/deep/x", "2");
    scene.put("moved/new", "3");
    scene.sees(&["b/y=1", "moved/deep/x=2", "moved/new=3"]);
    scene.put("moved/deep/x", "4");
    scene.sees(&["b/y=1", "moved/deep/x=4", "moved/new=3"]);
    fs::create_dir(scene.path("a")).unwrap();
    scene.put("a/other", "5");
    fs::rename(scene.path("moved/deep"), scene.path("a/deep")).unwrap();
    scene.sees(&["a/deep/x=4", "a/other=5", "b/y=1", "moved/new=3"]);
    scene.put("a/deep/x", "6");
    scene.put("moved/new", "7");
    scene.sees(&["a/deep/x=6", "a/other=5", "b/y=1", "moved/new=7"]);
    // Moves one folder out of the workspace, and another one in.
    fs::rename(scene.path("a"), scene.path("../out")).unwrap();
    fs::create_dir(scene.path("../in")).unwrap();
    fs::write(scene.path("../in/z"), "8").unwrap();
    fs::rename(scene.path("../in"), scene.path("a")).unwrap();
    scene.sees(&["a/z=8", "b/y=1", "moved/new=7"]);
    fs::write(scene.path("../out/other"), "9").unwrap();
    scene.sees(&["a/z=8", "b/y=1", "moved/new=7"]);
}

#[test]
fn a_folder_that_becomes_a_link_is_not_followed() {
    let mut scene = Scene::new(&["a/x", "b/x"]);
    fs::remove_dir_all(scene.path("a")).unwrap();
    symlink("b", scene.path("a")).unwrap();
    scene.put("b/x", "2");
    scene.sees(&["a->", "b/x=2"]);
    fs::remove_file(scene.path("a")).unwrap();
    fs::write(scene.path("a"), "a file").unwrap();
    scene.sees(&["a=a file", "b/x=2"]);
    fs::remove_file(scene.path("a")).unwrap();
    scene.put("a/x", "3");
    scene.sees(&["a/x=3", "b/x=2"]);
    scene.put("a/x", "4");
    scene.sees(&["a/x=4", "b/x=2"]);
}

#[test]
fn a_root_that_is_another_folder_is_looked_at_whole() {
    let mut scene = Scene::new(&["a", "b"]);
    fs::rename(&scene.root, scene.path("../elsewhere")).unwrap();
    fs::create_dir(&scene.root).unwrap();
    scene.put("a", "2");
    scene.sees(&["a=2"]);
    scene.put("a", "3");
    scene.sees(&["a=3"]);
}

/// A write to mapped memory changes no stamp; only the close is reported.
#[test]
fn a_file_that_was_closed_is_read_whatever_its_stamp_says() {
    let mut scene = Scene::new(&["a"]);
    for is_whole in [false, true] {
        let content = format!("{is_whole}");
        scene.put("a", &content);
        scene.looker.cache.believe(b"a", &scene.path("a"));
        scene.looker.look(is_whole);
        scene.sees(&[&format!("a={content}")]);
        // Without an event the stamp is trusted.
        fs::write(scene.path("a"), "unseen").unwrap();
        scene.looker.cache.believe(b"a", &scene.path("a"));
        scene.looker.watch.as_mut().unwrap().changed();
        scene.sees(&[&format!("a={content}")]);
    }
}

#[test]
fn rules_are_seen_where_nothing_is_watched() {
    let mut scene = Scene::new(&["a", "nested/b", "nested/.git/info/exclude"]);
    scene.sees(&["a=1", "nested/b=1"]);
    scene.put("nested/.git/info/exclude", "b\n");
    scene.sees(&["a=1"]);
    scene.put(".git/info/exclude", "a\n");
    scene.sees(&[]);
    scene.put(".git/info/exclude", "c\n");
    scene.put("nested/.git/info/exclude", "c\n");
    scene.sees(&["a=1", "nested/b=1"]);
    fs::write(scene.path("../.ignore"), "a\n").unwrap();
    scene.sees(&["nested/b=1"]);
}

#[test]
fn with_too_few_watches_there_is_none() {
    let mut scene = Scene::new(&["a/x", "b/x", "c/x"]);
    scene.looker.watch = Some(Watch::new(3).unwrap());
    scene.looker.look(true);
    let watch = scene.looker.watch.as_mut().unwrap();
    assert_eq!(watch.failed(), Some(&Unwatched::Limit(3)));
    assert!(watch.failed().unwrap().hint().is_some());
    // It never reports that nothing changed.
    assert_eq!(watch.changed(), Dirty::All);
    scene.put("c/x", "2");
    scene.sees(&["a/x=1", "b/x=1", "c/x=2"]);
}

#[test]
fn many_changes_have_everything_looked_at() {
    let mut dirty = Dirty::default();
    for n in 0..=MAX_PATHS {
        dirty.add(format!("{n}").into_bytes());
    }
    assert_eq!(dirty, Dirty::All);
    dirty.add(b"a".to_vec());
    assert_eq!(dirty, Dirty::All);
}

#[test]
fn two_who_look_at_one_folder_both_see_all() {
    let mut scene = Scene::new(&["a/x"]);
    let mut other = Looker::new(&scene.root, Some(Watch::new(1_000).unwrap()));
    other.look(true);
    for n in 0..5 {
        scene.put("a/x", &format!("{n}"));
        scene.put(&format!("{n}/y"), "1");
        let seen = scene.looker.sees();
        assert_eq!(other.sees(), seen);
        assert!(seen.contains(&format!("a/x={n}")) && seen.contains(&format!("{n}/y=1")));
    }
}

#[test]
fn special_files_are_named_and_not_opened() {
    let mut scene = Scene::new(&["a"]);
    let made = |program: &str, args: &[&str]| {
        let mut command = Command::new(program);
        command.args(args).current_dir(&scene.root);
        command.stderr(Stdio::null()).status().unwrap().success()
    };
    assert!(made("mkfifo", &["fifo"]));
    // Only root makes one.
    let has_device = made("mknod", &["device", "c", "1", "3"]);
    let _socket = std::os::unix::net::UnixListener::bind(scene.path("socket")).unwrap();
    let mut expected = vec![
        "a=1",
        "device: a device",
        "fifo: a FIFO",
        "socket: a socket",
    ];
    expected.retain(|item| has_device || !item.starts_with("device"));
    scene.sees(&expected);
    fs::remove_file(scene.path("fifo")).unwrap();
    scene.put("fifo", "2");
    expected[usize::from(has_device) + 1] = "fifo=2";
    scene.sees(&expected);
}

#[test]
fn a_folder_that_may_not_be_entered_is_entered_once_it_may() {
    let mut scene = Scene::new(&["closed/deep/x", "y"]);
    let mode = |scene: &Scene, mode| {
        fs::set_permissions(scene.path("closed"), Permissions::from_mode(mode)).unwrap();
    };
    mode(&scene, 0o000);
    // Root may.
    let may_all = fs::read_dir(scene.path("closed")).is_ok();
    let closed = if may_all {
        "closed/deep/x=1"
    } else {
        "closed: not readable"
    };
    scene.sees(&[closed, "y=1"]);
    mode(&scene, 0o700);
    scene.put("closed/deep/x", "2");
    scene.sees(&["closed/deep/x=2", "y=1"]);
    scene.put("closed/deep/x", "3");
    scene.sees(&["closed/deep/x=3", "y=1"]);
}

#[test]
#[ignore = "it makes 300,000 files"]
fn only_the_changed_file_of_300000_is_checked() {
    let mut scene = Scene::new(&[]);
    for folder in 0..600 {
        let folder = scene.path(&format!("{folder}"));
        fs::create_dir(&folder).unwrap();
        for file in 0..500 {
            fs::File::create(folder.join(format!("{file}"))).unwrap();
        }
    }
    scene.looker.look(false);
    assert_eq!(scene.looker.tree.0.len(), 300_000);
    scene.put("599/499", "2");
    scene.looker.look(false);
    assert_eq!(scene.looker.looked_at, 1);
}
