//! The disk with the store is full: rewake stops and says how to go on; when there is room
//! again it goes on, and nothing ran twice. Needs the right to mount.

#![cfg(target_os = "linux")]

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::scene::*;
use crate::scenes::until;
use support::{Protocol, Run, Says, skip};

/// A small file system over this folder, while it lives.
struct SmallDisk(PathBuf);

impl SmallDisk {
    fn mount(at: &Path) -> Option<SmallDisk> {
        let done = Command::new("mount")
            .args(["-t", "tmpfs", "-o", "size=4m,mode=0700", "tmpfs"])
            .arg(at)
            .output()
            .is_ok_and(|out| out.status.success());
        done.then(|| SmallDisk(at.to_path_buf()))
    }

    fn ballast(&self) -> PathBuf {
        self.0.join("ballast")
    }

    /// To the last byte, and nothing is left to write over in the log of the database.
    fn fill(&self) {
        let database = self.0.join("rewake.db");
        if database.exists() {
            let store = rusqlite::Connection::open(database).expect("open the store");
            let (busy, _, _): (i64, i64, i64) = store
                .query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| {
                    Ok((row.get(0)?, row.get(1)?, row.get(2)?))
                })
                .expect("empty the write-ahead log");
            assert_eq!(busy, 0, "the write-ahead log was in use");
        }
        let mut file = File::create(self.ballast()).expect("make the ballast");
        for size in [64 << 10, 1 << 10, 1] {
            while file.write(&vec![1; size]).is_ok_and(|n| n > 0) {}
        }
    }

    fn make_room(&self) {
        fs::remove_file(self.ballast()).expect("remove the ballast");
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        // Lazily: after a failure a keeper may still have a file open.
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

fn on_small_disk(scene: &Scene) -> Option<SmallDisk> {
    let disk = SmallDisk::mount(&scene.home.rewake_home())?;
    scene.home.configure(&scene.server, Protocol::Chat, "");
    Some(disk)
}

fn assert_stopped(run: Run) {
    let run = run.expect(75);
    assert_has(
        &run.stderr,
        &["cannot be recorded", "hint: free some space"],
    );
}

#[test]
fn a_result_that_cannot_be_recorded_is_not_lost() {
    let scene = Scene::with_command(&waits_for_go());
    let Some(disk) = on_small_disk(&scene) else {
        return skip("the right to mount");
    };
    let live = scene.start_command();
    disk.fill();
    scene.go();
    let run = live.wait(LIMIT);
    assert_has(&run.stderr, &["to continue: rewake -p -r"]);
    assert_stopped(run);
    // Still full: it stops again, in the same way.
    assert_stopped(scene.go_on());
    assert_eq!(scene.server.requests().len(), 1);

    disk.make_room();
    scene.go_on().expect(0);
    assert_has(&scene.last_result(), &["first words", "[exit code 7]"]);
    assert_eq!(scene.effects(), 1);
    scene.server.assert_no_violations();
}

#[test]
fn a_call_that_cannot_be_recorded_is_not_run() {
    let asked = Arc::new(AtomicBool::new(false));
    let is_full = Arc::new(AtomicBool::new(false));
    let (asks, full) = (asked.clone(), is_full.clone());
    let scene = Scene::new(move |seen| {
        asks.store(true, Ordering::Relaxed);
        while !full.load(Ordering::Relaxed) {
            std::thread::sleep(Duration::from_millis(2));
        }
        match seen.turn {
            0 => bash("echo begun >> effects"),
            _ => Says::text(FINAL_WORDS).into(),
        }
    });
    let Some(disk) = on_small_disk(&scene) else {
        return skip("the right to mount");
    };
    let live = scene.start();
    until(|| asked.load(Ordering::Relaxed));
    disk.fill();
    is_full.store(true, Ordering::Relaxed);
    assert_stopped(live.wait(LIMIT));
    assert_eq!(scene.effects(), 0, "it acted without a record");

    disk.make_room();
    scene.go_on().expect(0);
    assert_eq!(scene.effects(), 1);
    scene.server.assert_no_violations();
}
