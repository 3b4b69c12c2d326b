//! Checks of whether the files of a folder can be snapshotted at all, before anything is read.

use crate::core::text::size_text;
use std::path::Path;
use std::time::Duration;

use rustix::fs::{StatVfs, statvfs};

/// Free space in bytes, or as a part of a smaller disk, that snapshots leave to others. A
/// percentage of a large disk would be wrong: many people work for years on disks that are 95 %
/// full.
const MIN_FREE_BYTES: u64 = 1 << 30;
const MIN_FREE_PART: u64 = 20;

/// Folders directly below the root of the file system that belong to the system, on Linux and on
/// macOS. Others are workspaces (`docker run -w /app`).
#[rustfmt::skip]
const SYSTEM: [&str; 28] = [
    "bin", "boot", "dev", "etc", "home", "lib", "lib32", "lib64", "libx32", "lost+found", "proc", "root", "run", "sbin",
    "snap", "sys", "tmp", "usr", "var",
    "Applications", "Library", "Network", "System", "Users", "Volumes", "cores", "nix", "private",
];

/// Minimum distance of two changes with different times: on file systems that are known to store
/// exact times, and on others.
const FINE_GRAIN: Duration = Duration::from_millis(20);
const COARSE_GRAIN: Duration = Duration::from_secs(2);

/// Returns why snapshots of a workspace have only the files that tools write: no project has this
/// root.
pub fn unfit(root: &Path, home: Option<&Path>) -> Option<&'static str> {
    if root == Path::new("/") {
        return Some("this is the root of the file system");
    }
    match home {
        Some(home) if root == home => return Some("this is your home folder"),
        Some(home) if home.starts_with(root) => return Some("your home folder lies in this one"),
        _ => {}
    }
    let name = root.strip_prefix("/").ok().and_then(Path::to_str);
    let is_system = name.is_some_and(|name| SYSTEM.contains(&name));
    is_system.then_some("this is a folder of the system")
}

/// Returns the grain of the clock of the file system that a path is on.
pub fn grain(path: &Path) -> Duration {
    if is_exact(path) {
        FINE_GRAIN
    } else {
        COARSE_GRAIN
    }
}

/// Returns whether the kernel notices every change of the file system that a path is on. It does
/// not if another machine or a user-space file system may change it.
pub fn reports_changes(path: &Path) -> bool {
    is_exact(path)
}

/// Returns whether the file system stores times with the precision of the kernel's clock: ext, xfs,
/// btrfs, f2fs, zfs, bcachefs, tmpfs and overlayfs do.
#[cfg(target_os = "linux")]
fn is_exact(path: &Path) -> bool {
    const EXACT: [u32; 8] = [
        0xEF53,
        0x5846_5342,
        0x9123_683E,
        0xF2F5_2010,
        0x2FC1_2FC1,
        0xCA45_1A4E,
        0x0102_1994,
        0x794C_7630,
    ];
    #[allow(
        clippy::cast_possible_truncation,
        reason = "the numbers have 32 bits, in a type that differs by system"
    )]
    rustix::fs::statfs(path).is_ok_and(|found| EXACT.contains(&(found.f_type as u32)))
}

#[cfg(not(target_os = "linux"))]
fn is_exact(_: &Path) -> bool {
    false
}

/// Returns why nothing more is stored on the disk of this folder, or `None` when there is space.
pub fn nearly_full(folder: &Path) -> Option<String> {
    let StatVfs {
        f_frsize,
        f_blocks,
        f_bavail,
        ..
    } = statvfs(folder).ok()?;
    let (free, all) = (
        f_bavail.saturating_mul(f_frsize),
        f_blocks.saturating_mul(f_frsize),
    );
    is_low(free, all).then(|| format!("the disk is nearly full ({} free)", size_text(free)))
}

fn is_low(free: u64, all: u64) -> bool {
    free < MIN_FREE_BYTES.min(all / MIN_FREE_PART)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_that_are_no_projects_are_told() {
        let home = Some(Path::new("/home/u"));
        for root in [
            "/", "/home/u", "/home", "/etc", "/usr", "/var", "/tmp", "/proc",
        ] {
            assert!(unfit(Path::new(root), home).is_some(), "{root}");
            assert!(unfit(Path::new(root), None).is_some() || root == "/home/u");
        }
        for root in [
            "/home/u/x",
            "/app",
            "/src",
            "/mnt",
            "/srv",
            "/srv/x",
            "/etcetera",
            "/root/x",
        ] {
            assert_eq!(unfit(Path::new(root), home), None, "{root}");
        }
    }

    #[test]
    fn the_low_space_threshold_depends_on_the_disk_size() {
        let gib = 1 << 30;
        assert!(is_low(gib - 1, 200 * gib) && !is_low(gib, 2_000 * gib));
        // A disk in memory of 64 MiB.
        assert!(!is_low(4 << 20, 64 << 20) && is_low(3 << 20, 64 << 20));
        assert!(nearly_full(Path::new("/nowhere")).is_none());
    }
}
