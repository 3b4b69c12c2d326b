//! Tests of restores in a real folder, interrupted and disturbed at every point.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};

use super::*;
use crate::core::tree::Marked;

const BIG: u64 = 1 << 20;

/// A workspace, and all stored contents.
struct Room {
    dir: tempfile::TempDir,
    contents: BTreeMap<ContentHash, Vec<u8>>,
}

impl Room {
    fn new() -> Room {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("root")).unwrap();
        Room {
            dir,
            contents: BTreeMap::new(),
        }
    }

    /// Below the temporary folder, so that `..` belongs to this room too.
    fn root(&self) -> PathBuf {
        self.dir.path().join("root").canonicalize().unwrap()
    }

    fn path(&self, name: &str) -> PathBuf {
        self.root().join(name)
    }

    fn put(&self, name: &str, content: &str) {
        fs::create_dir_all(self.path(name).parent().unwrap()).unwrap();
        fs::write(self.path(name), content).unwrap();
        fs::set_permissions(self.path(name), fs::Permissions::from_mode(0o644)).unwrap();
    }

    /// Returns a tree of files with mode 644, links (`-> x`) and executables (`! x`), and stores
    /// their contents.
    fn tree(&mut self, items: &[(&str, &str)]) -> Tree {
        let mut tree = Tree::default();
        for (path, content) in items {
            let item = match (content.strip_prefix("-> "), content.strip_prefix("! ")) {
                (Some(target), _) => Item::Link {
                    target: target.as_bytes().to_vec(),
                },
                (None, script) => {
                    let content = script.unwrap_or(content);
                    let hash = *blake3::hash(content.as_bytes()).as_bytes();
                    self.contents.insert(hash, content.as_bytes().to_vec());
                    Item::File {
                        mode: if script.is_some() { 0o755 } else { 0o644 },
                        hash,
                        bytes: content.len() as u64,
                    }
                }
            };
            tree.0.insert(path.as_bytes().to_vec(), item);
        }
        tree
    }

    /// Writes these files to disk.
    fn lay_out(&self, items: &[(&str, &str)]) {
        for (path, content) in items {
            match (content.strip_prefix("-> "), content.strip_prefix("! ")) {
                (Some(target), _) => {
                    fs::create_dir_all(self.path(path).parent().unwrap()).unwrap();
                    symlink(target, self.path(path)).unwrap();
                }
                (None, Some(script)) => {
                    self.put(path, script);
                    fs::set_permissions(self.path(path), fs::Permissions::from_mode(0o755))
                        .unwrap();
                }
                (None, None) => self.put(path, content),
            }
        }
    }

    fn restore(
        &self,
        before: &Tree,
        target: &Tree,
        at: &mut dyn FnMut(Point) -> Result<(), CutShort>,
    ) -> Result<Done, CutShort> {
        restore(&mut Order {
            root: &self.root(),
            before,
            target,
            id: "0123456789abcdef",
            content: &mut |hash| Ok(self.contents.get(hash).cloned()),
            at,
        })
    }

    /// Restores, cut short at this point (from 1; 0: nowhere). Returns the number of points that it
    /// passed, too.
    fn cut(&self, before: &Tree, target: &Tree, stop: usize) -> (usize, Result<Done, CutShort>) {
        let mut passed = 0;
        let end = self.restore(before, target, &mut |_| {
            passed += 1;
            if passed == stop {
                Err(CutShort)
            } else {
                Ok(())
            }
        });
        (passed, end)
    }

    fn done(&self, before: &Tree, target: &Tree) -> Done {
        self.restore(before, target, &mut |_| Ok(())).unwrap()
    }

    /// Returns all files on disk, in the form of [`Room::tree`].
    fn now(&self) -> BTreeMap<String, String> {
        let mut found = BTreeMap::new();
        list(&self.root(), &self.root(), &mut found);
        found
    }

    #[track_caller]
    fn is(&self, items: &[(&str, &str)]) {
        let want: BTreeMap<String, String> = items
            .iter()
            .map(|(p, c)| (p.to_string(), c.to_string()))
            .collect();
        assert_eq!(self.now(), want);
    }
}

fn list(root: &Path, folder: &Path, found: &mut BTreeMap<String, String>) {
    for entry in fs::read_dir(folder).unwrap().flatten() {
        let path = entry.path();
        let name = path.strip_prefix(root).unwrap().display().to_string();
        let kind = entry.file_type().unwrap();
        if kind.is_symlink() {
            found.insert(
                name,
                format!("-> {}", fs::read_link(&path).unwrap().display()),
            );
        } else if kind.is_dir() {
            list(root, &path, found);
        } else {
            let content = fs::read_to_string(&path).unwrap();
            let is_script = fs::metadata(&path).unwrap().permissions().mode() & 0o100 != 0;
            found.insert(
                name,
                if is_script {
                    format!("! {content}")
                } else {
                    content
                },
            );
        }
    }
}

const BEFORE: [(&str, &str); 7] = [
    ("a", "new"),
    ("deep/er/gone", "made"),
    ("folder", "was a folder"),
    ("link", "-> new"),
    ("now/a/folder", "was a file"),
    ("same", "same"),
    ("tool", "plain"),
];
const TARGET: [(&str, &str); 7] = [
    ("a", "old"),
    ("back/again", "was removed"),
    ("folder/x", "in it"),
    ("link", "-> old"),
    ("now", "a file"),
    ("same", "same"),
    ("tool", "! plain"),
];

fn scene() -> (Room, Tree, Tree) {
    let mut room = Room::new();
    room.lay_out(&BEFORE);
    let (before, target) = (room.tree(&BEFORE), room.tree(&TARGET));
    (room, before, target)
}

#[test]
fn files_links_modes_and_folders_are_set_back() {
    let (room, before, target) = scene();
    let inode = |name: &str| {
        use std::os::unix::fs::MetadataExt;
        fs::metadata(room.path(name)).unwrap().ino()
    };
    let same = inode("same");
    let done = room.done(&before, &target);
    room.is(&TARGET);
    assert_eq!((done.written.len(), done.removed.len()), (6, 3));
    assert!(done.kept.is_empty() && done.why.is_none());
    assert!(!room.path("deep").exists(), "an empty folder stays");
    assert_eq!(inode("same"), same, "what is the same was written");
    // And back.
    assert!(room.done(&target, &before).kept.is_empty());
    room.is(&BEFORE);
}

/// Disables the exchange of names until the end of a test.
struct NoExchange;

impl NoExchange {
    fn begin() -> NoExchange {
        stage::NO_EXCHANGE.set(true);
        NoExchange
    }
}

impl Drop for NoExchange {
    fn drop(&mut self) {
        stage::NO_EXCHANGE.set(false);
    }
}

#[test]
fn a_restore_survives_interruptions_at_any_two_points() {
    cut_short_everywhere();
}

#[test]
fn where_names_cannot_be_exchanged_it_can_be_cut_short_just_as_well() {
    let _no_exchange = NoExchange::begin();
    cut_short_everywhere();
}

/// A file that is saved before its path is checked is noticed there, too. Only a save between that
/// check and the rename is not.
#[test]
fn where_names_cannot_be_exchanged_a_change_before_the_place_stays() {
    let _no_exchange = NoExchange::begin();
    for name in ["a", "tool", "link"] {
        let (room, before, target) = scene();
        let done = room.restore(&before, &target, &mut |point| {
            if point == Point::AfterStage {
                let _ = fs::remove_file(room.path(name));
                room.put(name, "saved by somebody");
            }
            Ok(())
        });
        let done = done.unwrap();
        let why = done.kept.get(name.as_bytes());
        assert_eq!(why, Some(&KeptWhy::Changed), "{name}");
        assert_eq!(room.now()[name], "saved by somebody");
        assert!(!room.now().keys().any(|path| path.contains(STAGED)));
    }
}

#[test]
fn a_name_that_changed_in_case_alone_goes_back() {
    let mut room = Room::new();
    room.lay_out(&[("src/Lexer.rs", "new"), ("b", "b")]);
    let before = room.tree(&[("src/Lexer.rs", "new"), ("b", "b")]);
    let target = room.tree(&[("src/lexer.rs", "old"), ("b", "b")]);
    assert!(room.done(&before, &target).kept.is_empty());
    room.is(&[("src/lexer.rs", "old"), ("b", "b")]);
    assert!(room.done(&target, &before).kept.is_empty());
    room.is(&[("src/Lexer.rs", "new"), ("b", "b")]);
}

/// A separate file system, which root can mount.
struct Small(PathBuf);

impl Small {
    fn mount(folder: PathBuf, kilobytes: u64) -> Option<Small> {
        let mounted = std::process::Command::new("mount")
            .args(["-t", "tmpfs", "-o", &format!("size={kilobytes}k"), "none"])
            .arg(&folder)
            .output();
        mounted
            .is_ok_and(|done| done.status.success())
            .then_some(Small(folder))
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        let _ = std::process::Command::new("umount")
            .args(["-l".as_ref(), self.0.as_os_str()])
            .output();
    }
}

/// If the disk becomes full at any point of the staging, nothing is placed and nothing is left.
/// With space again, the restore works.
#[test]
fn on_a_full_disk_nothing_is_placed_and_nothing_is_left() {
    let mut room = Room::new();
    let Some(_small) = Small::mount(room.root(), 512) else {
        eprintln!("not tested: no file system can be mounted here");
        return;
    };
    let old = ["1", "2", "3", "4"].map(|text| text.repeat(40_000));
    let now = [
        ("a", "new 1"),
        ("b", "new 2"),
        ("c", "new 3"),
        ("gone", "x"),
    ];
    room.lay_out(&now);
    let before = room.tree(&now);
    let items = [
        ("a", old[0].as_str()),
        ("b", old[1].as_str()),
        ("c", old[2].as_str()),
        ("back/d", old[3].as_str()),
    ];
    let target = room.tree(&items);
    // Other files use between all of the disk and hardly any of it.
    for pages in [128, 118, 110, 100, 90] {
        let filler = vec![0; 4096];
        let mut written = Vec::new();
        for _ in 0..pages {
            written.extend(&filler);
        }
        let _ = fs::write(room.path(".filler"), &written);
        let done = room.done(&before, &target);
        fs::remove_file(room.path(".filler")).unwrap();
        let why = done
            .why
            .unwrap_or_else(|| panic!("{pages} pages left room"));
        assert!(
            why.contains("cannot be laid out") || why.contains("no folder"),
            "{why}"
        );
        assert!(done.written.is_empty() && done.removed.is_empty());
        room.is(&now);
    }
    assert_eq!(room.done(&before, &target).why, None);
    room.is(&items);
}

fn cut_short_everywhere() {
    let (room, before, target) = scene();
    let (last, _) = room.cut(&before, &target, 0);
    assert!(last > 20, "{last} points");
    for first in 1..=last {
        for second in (0..=last).step_by(if first % 3 == 0 { 1 } else { 5 }) {
            let (room, before, target) = scene();
            for stop in [first, second] {
                let (_, cut) = room.cut(&before, &target, stop);
                for (path, content) in room.now() {
                    let is = |items: &[(&str, &str)]| items.contains(&(&path, &content));
                    let is_known = is(&BEFORE) || is(&TARGET) || path.starts_with(STAGED);
                    assert!(is_known, "{path}: {content} after {stop}");
                }
                if cut.is_ok() {
                    break;
                }
            }
            let done = room.done(&before, &target);
            assert!(done.kept.is_empty(), "{first}, {second}: {:?}", done.kept);
            room.is(&TARGET);
            // Another start changes nothing.
            assert!(room.done(&before, &target).kept.is_empty());
            room.is(&TARGET);
        }
    }
}

/// An editor saves a file at each point, in both of the usual ways. The saved content is there at
/// the end, even if the restore is interrupted at the next point.
#[test]
fn a_restore_never_loses_a_concurrent_save() {
    const SAVED: &str = "saved by somebody";
    type Save = fn(&Room, &str) -> bool;
    let in_place: Save = |room, name| match fs::metadata(room.path(name)) {
        Ok(found) if found.is_file() => fs::write(room.path(name), SAVED).is_ok(),
        _ => false,
    };
    let beside: Save = |room, name| {
        if room.path(name).is_dir() || !room.path(name).parent().unwrap().is_dir() {
            return false;
        }
        room.put("../beside", SAVED);
        fs::rename(room.path("../beside"), room.path(name)).is_ok()
    };
    let mut last = 0;
    let (room, before, target) = scene();
    let count = &mut |_| {
        last += 1;
        Ok(())
    };
    room.restore(&before, &target, count).unwrap();
    for (save, name) in [
        (in_place, "a"),
        (beside, "a"),
        (beside, "deep/er/gone"),
        (beside, "back/again"),
        (beside, "tool"),
    ] {
        for when in 1..=last {
            for cut in [0, when, when + 1, when + 2] {
                let (room, before, target) = scene();
                let (mut passed, mut saved) = (0, false);
                let _ = room.restore(&before, &target, &mut |_| {
                    passed += 1;
                    if passed == when {
                        saved = save(&room, name);
                    }
                    if passed == cut { Err(CutShort) } else { Ok(()) }
                });
                room.done(&before, &target);
                let left = room.now();
                let is_there = left.iter().any(|(path, content)| {
                    (path == name || path.starts_with(&format!("{name}.rewake-kept")))
                        && content == SAVED
                });
                assert!(
                    is_there || !saved,
                    "{name} at {when}, cut at {cut}: {left:?}"
                );
                let is_staged = left.keys().any(|path| path.contains(STAGED));
                assert!(!is_staged, "{name} at {when}, cut at {cut}: {left:?}");
            }
        }
    }
}

/// The scene with modes that forbid a restore: of the root, and of a folder.
fn locked_scene() -> (Room, Tree, Tree) {
    let now = [
        ("a", "new"),
        ("d/e/x", "new"),
        ("d/y", "new"),
        ("gone/z", "made"),
    ];
    let old = [
        ("a", "old"),
        ("d/e/x", "old"),
        ("d/e/back/b", "b"),
        ("d/y", "old"),
    ];
    let mut room = Room::new();
    room.lay_out(&now);
    let (before, target) = (room.tree(&now), room.tree(&old));
    for (folder, mode) in [("d/e", 0o555), ("d", 0o111), ("gone", 0o500), ("", 0o555)] {
        fs::set_permissions(room.path(folder), fs::Permissions::from_mode(mode)).unwrap();
    }
    (room, before, target)
}

/// Makes the folders accessible, and returns the modes that they had.
fn unlocked(room: &Room) -> Vec<u32> {
    let unlock = |folder: &str| {
        let mode = fs::metadata(room.path(folder))
            .unwrap()
            .permissions()
            .mode()
            & 0o777;
        fs::set_permissions(room.path(folder), fs::Permissions::from_mode(0o755)).unwrap();
        mode
    };
    ["", "d", "d/e"].map(unlock).to_vec()
}

#[test]
fn folders_of_the_user_are_writable_during_a_restore_and_have_their_modes_afterwards() {
    let old = [
        ("a", "old"),
        ("d/e/x", "old"),
        ("d/e/back/b", "b"),
        ("d/y", "old"),
    ];
    let (room, before, target) = locked_scene();
    let (points, done) = room.cut(&before, &target, 0);
    assert_eq!(done.unwrap().kept, BTreeMap::new());
    assert_eq!(unlocked(&room), [0o555, 0o111, 0o555]);
    room.is(&old);
    for stop in 1..=points {
        let (room, before, target) = locked_scene();
        let (_, cut) = room.cut(&before, &target, stop);
        assert_eq!(cut, Err(CutShort));
        assert_eq!(room.done(&before, &target).kept, BTreeMap::new(), "{stop}");
        assert_eq!(unlocked(&room), [0o555, 0o111, 0o555], "{stop}");
        room.is(&old);
    }
    // Nothing is placed without the contents, and the modes are as they were.
    let (mut room, before, target) = locked_scene();
    room.contents.clear();
    assert_eq!(room.done(&before, &target).written.len(), 0);
    assert_eq!(unlocked(&room), [0o555, 0o111, 0o555]);
}

/// The root belongs to somebody else: each file is staged beside its path.
#[test]
fn without_a_writable_root_files_are_restored_beside_their_paths() {
    struct NoBench;
    impl Drop for NoBench {
        fn drop(&mut self) {
            stage::NO_BENCH.set(false);
        }
    }
    let _no_bench = NoBench;
    stage::NO_BENCH.set(true);
    let now = [("src/a", "new"), ("src/made", "made"), ("src/l", "-> new")];
    let old = [("src/a", "old"), ("src/back/b", "b"), ("src/l", "-> old")];
    let scene = || {
        let mut room = Room::new();
        room.lay_out(&now);
        let (before, target) = (room.tree(&now), room.tree(&old));
        (room, before, target)
    };
    for exchanges in [true, false] {
        let _no_exchange = (!exchanges).then(NoExchange::begin);
        let (room, before, target) = scene();
        let (points, done) = room.cut(&before, &target, 0);
        assert_eq!(done.unwrap().kept, BTreeMap::new());
        room.is(&old);
        for stop in 1..=points {
            for save in [false, true] {
                let (room, before, target) = scene();
                let mut passed = 0;
                let cut = room.restore(&before, &target, &mut |point| {
                    passed += 1;
                    if passed == stop && save && exchanges && point != Point::InPlace {
                        room.put("saved", "saved");
                        fs::rename(room.path("saved"), room.path("src/a")).unwrap();
                    }
                    if passed == stop {
                        Err(CutShort)
                    } else {
                        Ok(())
                    }
                });
                assert_eq!(cut, Err(CutShort));
                let is_saved = fs::read(room.path("src/a")).unwrap() == b"saved";
                let done = room.done(&before, &target);
                if is_saved {
                    assert_eq!(room.now()["src/a"], "saved", "{stop}: {done:?}");
                } else {
                    room.is(&old);
                }
                let is_staged = |path: &String| path.contains(STAGED);
                assert!(!room.now().keys().any(is_staged), "{stop}");
            }
        }
    }
}

#[test]
fn what_cannot_be_read_is_kept_beside_the_restored_file() {
    let unreadable = |room: &Room, path: &str, mode: u32| {
        fs::set_permissions(room.path(path), fs::Permissions::from_mode(mode)).unwrap();
    };
    let marker = |why, room: &Room, path: &str| {
        use std::os::unix::fs::MetadataExt;
        let stat = fs::metadata(room.path(path)).unwrap();
        Item::Marker {
            why,
            bytes: if stat.is_file() { stat.size() } else { 0 },
            mtime_ms: if stat.is_file() {
                stat.mtime() * 1_000 + stat.mtime_nsec() / 1_000_000
            } else {
                0
            },
            hash: None,
        }
    };
    for exchanges in [true, false] {
        let _no_exchange = (!exchanges).then(NoExchange::begin);
        // A folder that could not be read: one file in it differs, one does not.
        let mut room = Room::new();
        room.lay_out(&[("d/x", "new"), ("d/same", "same"), ("d/more", "more")]);
        let before = Tree([(b"d".to_vec(), marker(Marked::Unreadable, &room, "d"))].into());
        let target = room.tree(&[("d/x", "old"), ("d/same", "same")]);
        unreadable(&room, "d", 0);
        let done = room.done(&before, &target);
        assert_eq!(
            done.kept,
            BTreeMap::from([(b"d/x".to_vec(), KeptWhy::Aside)])
        );
        let is = [
            ("d/x", "old"),
            ("d/x.rewake-kept", "new"),
            ("d/same", "same"),
            ("d/more", "more"),
        ];
        room.is(&is);
        // Once more, as after a kill.
        assert_eq!(room.done(&before, &target).kept, BTreeMap::new());
        room.is(&is);
        // Back: what was hidden then is not removed now.
        let now = room.tree(&is);
        assert!(room.done(&now, &before).removed.is_empty());
        room.is(&is);
        // A file that could not be read, and a FIFO.
        let mut room = Room::new();
        let pipe = std::process::Command::new("mkfifo")
            .arg(room.path("p"))
            .status();
        assert!(pipe.unwrap().success());
        let why = Marked::Fifo;
        let mut before = Tree([(b"p".to_vec(), read::bare(why))].into());
        if !rustix::process::geteuid().is_root() {
            room.put("x", "new and longer");
            unreadable(&room, "x", 0);
            before
                .0
                .insert(b"x".to_vec(), marker(Marked::Unreadable, &room, "x"));
        }
        let target = room.tree(&[("p", "old"), ("x", "old")]);
        let done = room.done(&before, &target);
        assert_eq!(done.written.len(), 2, "{done:?}");
        assert_eq!(done.kept.len(), before.0.len(), "{done:?}");
        for name in ["p", "x"] {
            assert_eq!(fs::read(room.path(name)).unwrap(), b"old");
        }
        assert!(before.0.len() == 1 || room.path("x.rewake-kept").exists());
        assert!(!fs::metadata(room.path("p.rewake-kept")).unwrap().is_file());
        // Somebody made it readable and saved it.
        fs::remove_file(room.path("p")).unwrap();
        room.put("p", "saved by somebody");
        let done = room.done(&before, &target);
        assert_eq!(done.kept[b"p".as_slice()], KeptWhy::Changed);
        assert_eq!(fs::read(room.path("p")).unwrap(), b"saved by somebody");
    }
}

#[test]
fn an_empty_folder_makes_room_for_a_file_and_another_one_stays() {
    let mut room = Room::new();
    room.lay_out(&[("full/y", "y")]);
    fs::create_dir(room.path("empty")).unwrap();
    let before = room.tree(&[]);
    let target = room.tree(&[("empty", "old"), ("full", "old")]);
    let done = room.done(&before, &target);
    assert_eq!(
        done.kept,
        BTreeMap::from([(b"full".to_vec(), KeptWhy::Folder)])
    );
    room.is(&[("empty", "old"), ("full/y", "y")]);
}

#[test]
fn a_file_open_for_writing_is_kept_beside_the_restored_file() {
    use std::io::Write;
    let mut room = Room::new();
    room.put("a", "new");
    let (before, target) = (room.tree(&[("a", "new")]), room.tree(&[("a", "old")]));
    let mut open = fs::OpenOptions::new()
        .append(true)
        .open(room.path("a"))
        .unwrap();
    let done = room.done(&before, &target);
    assert_eq!(done.kept.get(b"a".as_slice()), Some(&KeptWhy::Open));
    open.write_all(b" and more").unwrap();
    room.is(&[("a", "old"), ("a.rewake-kept", "new and more")]);
}

#[test]
fn a_folder_that_became_a_link_is_not_followed() {
    let outside = Room::new();
    outside.put("a", "theirs");
    outside.put("b", "theirs");
    let mut room = Room::new();
    room.lay_out(&[("sub/a", "new"), ("sub/b", "made")]);
    let before = room.tree(&[("sub/a", "new"), ("sub/b", "made")]);
    let target = room.tree(&[("sub/a", "old"), ("sub/c/d", "back")]);
    let (points, _) = room.cut(&before, &target, 0);
    for when in 1..=points {
        let mut room = Room::new();
        room.lay_out(&[("sub/a", "new"), ("sub/b", "made")]);
        room.tree(&[("sub/a", "old"), ("sub/c/d", "back")]);
        let mut passed = 0;
        let swap = &mut |_| {
            passed += 1;
            if passed == when {
                fs::rename(room.path("sub"), room.path("aside")).unwrap();
                symlink(outside.root(), room.path("sub")).unwrap();
            }
            Ok(())
        };
        room.restore(&before, &target, swap).unwrap();
        room.done(&before, &target);
        outside.is(&[("a", "theirs"), ("b", "theirs")]);
    }
}

#[test]
fn nothing_below_version_control_and_no_marker_is_touched() {
    let mut room = Room::new();
    room.lay_out(&[
        ("x/.git/config", "theirs"),
        (".GIT/hooks/a", "theirs"),
        ("big", "theirs"),
    ]);
    let marker = Item::Marker {
        why: Marked::TooBig,
        bytes: BIG,
        mtime_ms: 0,
        hash: None,
    };
    let before = room.tree(&[("x/.git/config", "theirs"), ("big", "theirs")]);
    let mut target = room.tree(&[("x/.git/config", "ours"), (".GIT/hooks/a", "ours")]);
    target.0.insert(b"big".to_vec(), marker);
    let done = room.done(&before, &target);
    assert_eq!(done.kept.len(), 3, "{:?}", done.kept);
    room.is(&[
        ("x/.git/config", "theirs"),
        (".GIT/hooks/a", "theirs"),
        ("big", "theirs"),
    ]);
}

#[test]
fn without_room_nothing_is_placed() {
    let (room, before, target) = scene();
    let mut given = 0;
    let done = restore(&mut Order {
        root: &room.root(),
        before: &before,
        target: &target,
        id: "0123456789abcdef",
        content: &mut |hash| {
            given += 1;
            match given {
                3 => Err("no room".to_string()),
                _ => Ok(room.contents.get(hash).cloned()),
            }
        },
        at: &mut |_| Ok(()),
    });
    assert_eq!(done.unwrap().why.as_deref(), Some("no room"));
    room.is(&BEFORE);
    assert!(!room.path("back").exists());
}

#[test]
fn a_content_that_is_lost_stays_as_it_is_alone() {
    let (mut room, before, target) = scene();
    room.contents.remove(blake3::hash(b"old").as_bytes());
    let done = room.done(&before, &target);
    assert_eq!(done.kept.get(b"a".as_slice()), Some(&KeptWhy::Lost));
    assert_eq!(room.now().get("a").map(String::as_str), Some("new"));
    assert_eq!(room.now().get("now").map(String::as_str), Some("a file"));
}

#[test]
fn an_obstructed_staging_folder_is_reported() {
    let (room, before, target) = scene();
    symlink("/tmp", room.path(&staged_folder("0123456789abcdef"))).unwrap();
    let why = room.done(&before, &target).why.unwrap();
    assert!(why.contains("is in the way"), "{why}");
}

#[test]
fn a_path_elsewhere_is_set_back_beside_it_and_one_below_the_root_as_such() {
    let other = tempfile::tempdir_in("/dev/shm").unwrap_or_else(|_| tempfile::tempdir().unwrap());
    let elsewhere = other.path().canonicalize().unwrap().join("sub/file");
    fs::create_dir_all(elsewhere.parent().unwrap()).unwrap();
    fs::write(&elsewhere, "new").unwrap();
    fs::set_permissions(&elsewhere, fs::Permissions::from_mode(0o644)).unwrap();
    let mut room = Room::new();
    room.put("ignored", "new");
    let (one, two) = (
        elsewhere.display().to_string(),
        room.path("ignored").display().to_string(),
    );
    let before = room.tree(&[(&one, "new"), (&two, "new")]);
    let target = room.tree(&[(&one, "old"), (&two, "old")]);
    let done = room.done(&before, &target);
    assert_eq!(done.written.len(), 2, "{:?}", done.kept);
    assert_eq!(fs::read_to_string(&elsewhere).unwrap(), "old");
    room.is(&[("ignored", "old")]);
    assert_eq!(
        fs::read_dir(elsewhere.parent().unwrap()).unwrap().count(),
        1
    );
}

/// Says to a test that it is the child with few descriptors.
const FEW: &str = "REWAKE_TEST_FEW";

#[test]
fn ten_thousand_files_are_restored_with_256_descriptors() {
    const FILES: usize = 10_000;
    if std::env::var_os(FEW).is_none() {
        let name = "workspace::files::restore::tests::ten_thousand_files_are_restored_with_256_descriptors";
        let limited = std::process::Command::new("sh")
            .args(["-c", "ulimit -n 256 && exec \"$@\"", "sh"])
            .arg(std::env::current_exe().unwrap())
            .args(["--exact", name, "--nocapture"])
            .env(FEW, "1")
            .output()
            .unwrap();
        let printed = String::from_utf8_lossy(&limited.stderr);
        assert!(limited.status.success(), "{printed}");
        assert!(printed.contains("10000 files"), "{printed}");
        return;
    }
    let mut room = Room::new();
    let names: Vec<String> = (0..FILES).map(|n| format!("d{}/f{n}", n % 50)).collect();
    let all = |text: &'static str| names.iter().map(move |name| (name.as_str(), text));
    room.lay_out(&all("new").collect::<Vec<_>>());
    let before = room.tree(&all("new").collect::<Vec<_>>());
    let target = room.tree(&all("old").collect::<Vec<_>>());
    let done = room.done(&before, &target);
    assert_eq!((done.why, done.kept.len()), (None, 0));
    let is_old = |name: &&String| fs::read(room.path(name)).is_ok_and(|text| text == b"old");
    assert_eq!(names.iter().filter(is_old).count(), FILES);
    eprintln!("{} files", done.written.len());
}

#[cfg(target_os = "linux")]
#[test]
fn a_file_system_that_refuses_modes_gets_the_content_and_the_loss_is_named() {
    let mut room = Room::new();
    room.put("run", "new");
    room.put("a", "new");
    let before = room.tree(&[("a", "new"), ("run", "new")]);
    let mut target = room.tree(&[("a", "old"), ("run", "old")]);
    for (path, wanted) in [("a", 0o600), ("run", 0o777)] {
        let item = target.0.get_mut(path.as_bytes());
        let Some(Item::File { mode, .. }) = item else {
            panic!("{path} is not a file");
        };
        *mode = wanted;
    }
    support::Refusal::Modes.apply();
    let done = room.done(&before, &target);
    assert_eq!(done.written.len(), 2);
    // No umask leaves this mode.
    let lost = BTreeMap::from([(b"run".to_vec(), KeptWhy::Mode)]);
    assert_eq!(done.kept, lost);
    for path in ["a", "run"] {
        assert_eq!(fs::read_to_string(room.path(path)).unwrap(), "old");
        let mode = fs::metadata(room.path(path)).unwrap().permissions().mode();
        assert_eq!(mode & 0o600, 0o600, "{path}");
    }
}
