//! Tests that swap a folder of a path for a link to one outside while calls run.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use serde_json::json;

use super::super::test_support::{ResultRoom, hash, work};
use super::super::work::Work;
use super::*;

/// Swaps a folder for a link, and back, until it is dropped.
struct Swapping {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<u64>>,
}

/// Swaps the folder away and back, for a time that differs in each turn, so that every step of a
/// write is hit.
fn swap(folder: &Path, aside: &Path, link_to: &Path, turn: u64) {
    thread::sleep(Duration::from_micros(turn * 37 % 900));
    fs::rename(folder, aside).unwrap();
    while let Err(error) = symlink(link_to, folder) {
        // A write makes the folders that are missing.
        assert_eq!(error.kind(), std::io::ErrorKind::AlreadyExists);
        // The other thread may be creating it right now.
        let _ = fs::remove_dir_all(folder);
    }
    thread::sleep(Duration::from_micros(turn * 61 % 300));
    fs::remove_file(folder).unwrap();
    while let Err(error) = fs::rename(aside, folder) {
        // A write may have made the folder here as well.
        assert_eq!(error.kind(), std::io::ErrorKind::DirectoryNotEmpty);
        let _ = fs::remove_dir_all(folder);
    }
}

impl Swapping {
    fn begin(folder: PathBuf, link_to: PathBuf) -> Swapping {
        let stop = Arc::new(AtomicBool::new(false));
        let ended = Arc::clone(&stop);
        let aside = folder.with_file_name("aside");
        let thread = thread::spawn(move || {
            let mut swaps = 0;
            while !ended.load(Ordering::Relaxed) || swaps < 300 {
                swap(&folder, &aside, &link_to, swaps);
                swaps += 1;
            }
            swaps
        });
        Swapping {
            stop,
            thread: Some(thread),
        }
    }
}

impl Drop for Swapping {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        let swaps = self.thread.take().unwrap().join();
        assert!(thread::panicking() || swaps.unwrap() >= 300);
    }
}

fn write(path: &str, content: &str) -> FileChange {
    match work("write", json!({"path": path, "content": content})) {
        Work::Replace(change) => change,
        _ => panic!("not a checked call"),
    }
}

#[test]
fn no_write_gets_out_of_a_folder_that_becomes_a_link() {
    let room = ResultRoom::new();
    let outside = ResultRoom::new();
    room.put("sub/here", "x");
    let swapping = Swapping::begin(room.path("sub"), outside.path(""));
    let mut written = 0;
    for n in 0..3_000 {
        let change = write(&format!("sub/f{n}"), "ours");
        let want = room.path(&format!("sub/f{n}"));
        // Policy would not allow a path that leads outside at this instant.
        let guard = match prepare(&change, &room.ctx, None) {
            Ok(guard @ Guard::Checked { .. }) => guard,
            _ => continue,
        };
        if matches!(&guard, Guard::Checked { path, .. } if Path::new(path) == want) {
            let ran = apply(&change, &guard, &room.ctx);
            written += usize::from(matches!(ran.outcome, Outcome::Done { .. }));
        }
        if written >= 300 {
            break;
        }
    }
    drop(swapping);
    assert_eq!(outside.names(), [""; 0]);
    assert!(written > 0, "no write came through");
}

#[test]
fn a_folder_that_became_a_link_is_a_conflict() {
    let room = ResultRoom::new();
    let outside = ResultRoom::new();
    room.put("sub/f", "old");
    let change = write("sub/f", "new");
    let seen = SeenFile::whole(hash("old"));
    let guard = prepare(&change, &room.ctx, Some(&seen)).unwrap();
    let leftover = format!(".rewake-{}-1.tmp", &hash("new")[..16]);
    outside.put("f", "new");
    outside.put(&leftover, "theirs");
    fs::rename(room.path("sub"), room.path("aside")).unwrap();
    symlink(outside.path(""), room.path("sub")).unwrap();
    let state = settle_file(&guard);
    assert!(
        matches!(&state, FileState::Conflict(why) if why.contains("symbolic link")),
        "{state:?}"
    );
    assert_eq!(outside.names(), [leftover.as_str(), "f"]);
}
