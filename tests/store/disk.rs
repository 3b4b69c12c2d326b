//! A full disk changes nothing; when there is room again the same store goes on.

#![cfg(target_os = "linux")]

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

use rewake::store::{Store, StoreError};

use crate::scene::Scene;
use crate::skip::skip;
use crate::story::*;

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
fn a_real_full_disk_pauses_and_goes_on() {
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
fn what_has_the_name_of_a_file_of_the_store_is_named() {
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
fn a_journal_that_is_no_folder_is_named() {
    let scene = Scene::new();
    let mut store = scene.open();
    let mut head = session(&mut store, HERE);
    drop(store);
    fs::remove_dir_all(scene.place().folder).unwrap();
    fs::write(scene.place().folder, "in the way").unwrap();
    let mut store = scene.open();
    append(&mut store, &mut head, vec![said("one")]);
    let trouble = store.journal_trouble().unwrap();
    assert!(trouble.contains("journal: it is not a folder"), "{trouble}");
}
