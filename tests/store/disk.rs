//! A full disk changes nothing; when there is room again the same store goes on.

#![cfg(target_os = "linux")]

use std::fs;
use std::os::unix::fs::{chown, symlink};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use rewake::store::{JournalPlace, Store, StoreError};

use crate::scene::Scene;
use crate::story::*;
use support::skip;

/// A file system of one megabyte, while it lives.
struct SmallDisk<'a>(&'a Path);

impl SmallDisk<'_> {
    fn mount(at: &Path) -> Option<SmallDisk<'_>> {
        let done = Command::new("mount")
            .args(["-t", "tmpfs", "-o", "size=1m", "tmpfs"])
            .arg(at)
            .output()
            .is_ok_and(|out| out.status.success());
        done.then(|| SmallDisk(at))
    }
}

impl Drop for SmallDisk<'_> {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(self.0).status();
    }
}

/// Needs the right to mount; the unit test with a limited database needs nothing.
#[test]
fn a_full_disk_pauses_writes_and_they_continue_afterwards() {
    let dir = tempfile::tempdir().unwrap();
    let Some(disk) = SmallDisk::mount(dir.path()) else {
        return skip("the right to mount");
    };
    let ballast = disk.0.join("ballast");
    fs::write(&ballast, vec![1; 400 << 10]).unwrap();
    let mut store = Store::open(&disk.0.join("data")).unwrap();
    let mut head = session(&mut store, HERE);
    let words = batch(vec![said(&noise(2_000))]);
    let mut recorded = 0;
    let error = loop {
        let before = head.clone();
        match store.append(&mut head, &words) {
            Ok(_) => recorded += 1,
            Err(error) => {
                assert_eq!(head, before);
                break error;
            }
        }
        assert!(recorded < 1_000, "the disk is never full");
    };
    assert!(matches!(error, StoreError::Full { .. }), "{error}");
    assert_eq!(store.load(head.session()).unwrap().1.len(), recorded + 1);
    fs::remove_file(&ballast).unwrap();
    store.append(&mut head, &words).unwrap();
    let (_, records) = store.load(head.session()).unwrap();
    assert_eq!(records.len(), recorded + 2);
    drop(store);
    drop(disk);
}

/// Text that does not compress well.
fn noise(bytes: usize) -> String {
    let mut state = 1u32;
    let letters = std::iter::repeat_with(|| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        char::from(b'!' + (state >> 24) as u8 % 90)
    });
    letters.take(bytes).collect()
}

/// A folder, or a link to nothing, where the store has a file: the error names it and what helps.
#[test]
fn a_wrong_file_type_at_a_store_path_is_reported() {
    for (name, has_database) in [
        ("rewake.db-wal", true),
        ("store.lock", true),
        ("rewake.db", false),
        ("rewake.db.new", false),
    ] {
        for is_link in [false, true] {
            if is_link && !has_database {
                continue;
            }
            let dir = tempfile::tempdir().unwrap();
            drop(Store::open(dir.path()).unwrap());
            if !has_database {
                fs::remove_file(database(dir.path())).unwrap();
            }
            let path = dir.path().join(name);
            let _ = fs::remove_file(&path);
            let what = match is_link {
                false => {
                    fs::create_dir(&path).unwrap();
                    "a folder"
                }
                true => {
                    symlink("nothing/there", &path).unwrap();
                    "a link that leads nowhere"
                }
            };
            let error = Store::open(dir.path()).err().unwrap();
            let text = error.to_string();
            let wanted = format!("{} is {what}", path.display());
            assert!(text.contains(&wanted), "{text}");
            let hint = error.hint().unwrap();
            assert!(hint.contains(&format!("mv {}", path.display())), "{hint}");
        }
    }
}

#[test]
fn a_file_at_the_path_of_the_journal_folder_is_reported() {
    let scene = Scene::new();
    let mut store = scene.open();
    let mut head = session(&mut store, HERE);
    drop(store);
    fs::remove_dir_all(scene.place().folder).unwrap();
    fs::write(scene.place().folder, "in the way").unwrap();
    let mut store = scene.open();
    append(&mut store, &mut head, vec![said("one")]);
    let trouble = store.take_journal_failure().unwrap();
    let wanted = format!("mv {}", scene.place().folder.display());
    assert!(trouble.contains(&wanted), "{trouble}");
}

/// The tail of a journal, or its folder: the session continues, and the trouble names the path and the
/// command that moves it away.
#[test]
fn a_wrong_file_type_at_a_journal_path_is_reported() {
    for (is_tail, is_link) in [(true, false), (true, true), (false, false), (false, true)] {
        let scene = Scene::new();
        let mut store = scene.open();
        let mut head = session(&mut store, HERE);
        drop(store);
        let folder = scene.place().folder.join(head.session());
        let path = match is_tail {
            true => folder.join("tail.jsonl"),
            false => folder.clone(),
        };
        match is_tail {
            true => fs::remove_file(&path).unwrap(),
            false => fs::remove_dir_all(&path).unwrap(),
        }
        match (is_link, is_tail) {
            (true, _) => symlink("nothing/there", &path).unwrap(),
            (false, true) => fs::create_dir(&path).unwrap(),
            (false, false) => fs::write(&path, "in the way").unwrap(),
        }
        let mut store = scene.open();
        append(&mut store, &mut head, vec![said("one")]);
        let trouble = store.take_journal_failure().unwrap();
        let wanted = format!("mv {}", path.display());
        assert!(trouble.contains(&wanted), "{trouble}");
        drop(store);
        let _ = fs::remove_dir(&path).or_else(|_| fs::remove_file(&path));
        let mut store = scene.open();
        append(&mut store, &mut head, vec![said("two")]);
        assert_eq!(store.take_journal_failure(), None);
        drop(store);
        assert_eq!(scene.standing().behind, 0);
    }
}

const OWNED: &str = "REWAKE_TEST_OWNED_FOLDER";

#[test]
#[ignore = "the child of the tests below"]
fn child_opens_what_belongs_to_another_user() {
    let Some(folder) = std::env::var_os(OWNED) else {
        return;
    };
    let data = Path::new(&folder);
    let mut store = match Store::open(data) {
        Ok(store) => store,
        Err(error) => {
            return println!("\nsaid {error}; {}", error.hint().unwrap_or_default());
        }
    };
    store.start_copies(data, &place_in(data)).unwrap();
    let newest = store.history().newest(None).unwrap().unwrap();
    let (mut head, _) = store.load(&newest.id).unwrap();
    append(&mut store, &mut head, vec![said("one")]);
    let trouble = store.take_journal_failure();
    println!("\nsaid {}", trouble.unwrap_or_default());
}

fn place_in(data: &Path) -> JournalPlace {
    JournalPlace {
        folder: data.join("journal"),
        state_dir: data.join("state"),
        pause: Duration::from_millis(100),
    }
}

/// A file that an earlier start with sudo made: the error names it, and the command that helps. The
/// database is not used. A session continues without its journal.
#[test]
fn a_file_owned_by_another_user_is_named_in_the_error() {
    const NOBODY: u32 = 65_534;
    if !rustix::process::geteuid().is_root() {
        return skip("root, to give a file to another user");
    }
    for name in ["store.lock", "rewake.db", "rewake.db-wal", "tail.jsonl"] {
        let dir = tempfile::tempdir().unwrap();
        let data = dir.path().join("data");
        let mut store = Store::open(&data).unwrap();
        store.start_copies(&data, &place_in(&data)).unwrap();
        let mut head = session(&mut store, HERE);
        append(&mut store, &mut head, vec![said("first")]);
        let mut path = data.join(name);
        if name == "tail.jsonl" {
            path = place_in(&data).folder.join(head.session()).join(name);
            drop(store);
            store = Store::open(&data).unwrap();
        }
        give_all(dir.path(), NOBODY);
        chown(&path, Some(0), None).unwrap();
        // That of the project may lie where only root can go.
        let exe = dir.path().join("exe");
        fs::copy(std::env::current_exe().unwrap(), &exe).unwrap();
        let ran = Command::new(&exe)
            .args(["disk::child_opens_what_belongs_to_another_user", "--exact"])
            .args(["--ignored", "--nocapture"])
            .env(OWNED, &data)
            .current_dir(dir.path())
            .uid(NOBODY)
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&ran.stdout).into_owned()
            + &String::from_utf8_lossy(&ran.stderr);
        let wanted = format!("{} is owned by another user", path.display());
        assert!(said.contains(&wanted), "{name}: {said}");
        let wanted = format!("sudo chown \"$USER\" {}", path.display());
        assert!(said.contains(&wanted), "{name}: {said}");
        drop(store);
    }
}

/// Gives a path to this user, with everything below.
fn give_all(path: &Path, user: u32) {
    chown(path, Some(user), None).unwrap();
    if path.is_dir() {
        for inner in fs::read_dir(path).unwrap() {
            give_all(&inner.unwrap().path(), user);
        }
    }
}
