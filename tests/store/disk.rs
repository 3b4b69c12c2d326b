//! A full disk changes nothing; when there is room again the same store goes on.

#![cfg(target_os = "linux")]

use std::fs;
use std::path::Path;
use std::process::Command;

use rewake::store::{Store, StoreError};

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
