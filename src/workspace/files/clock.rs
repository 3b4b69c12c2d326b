//! The clocks of file systems, measured with a new file, and the times of files.
//!
//! The file has no name where the file system allows that, so nobody who watches the folder sees it.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, Mode, Stat, fstat, statat};

use super::cover::STAGED;
use super::guard;
use crate::core::file_clock::{FileClock, FileTime};
use crate::workspace::handle::Folder;

/// Grain of the times of files on most systems: a time may be that much too early.
const GRAIN_MS: i64 = 10;

/// Measures the clock of the file system of a folder, which is absolute. `now_ms` returns the time
/// of the machine. If no file can be created there, the clock of a local file system is that of the
/// machine, since the kernel sets its times. `None`: the clock is not known.
pub fn measure(folder: &Path, now_ms: &dyn Fn() -> i64) -> Option<FileClock> {
    let of_kernel = || guard::reports_changes(folder).then_some(0);
    Some(FileClock {
        ahead_ms: measure_ahead_ms(folder, now_ms).or_else(of_kernel)?,
        booted_ms: booted_ms(),
    })
}

fn measure_ahead_ms(folder: &Path, now_ms: &dyn Fn() -> i64) -> Option<i64> {
    let folder = Folder::open(folder).ok()?;
    let before = now_ms();
    let time = new_file_ms(&folder).ok()?;
    let after = now_ms();
    Some(match time {
        time if time < before.saturating_sub(GRAIN_MS) => time.saturating_sub(before),
        time if time > after => time.saturating_sub(after),
        _ => 0,
    })
}

/// Returns the time of a new file, which is removed at once.
fn new_file_ms(folder: &Folder) -> io::Result<i64> {
    let mode = Mode::from_raw_mode(0o600);
    #[cfg(target_os = "linux")]
    {
        use rustix::fs::{OFlags, openat};
        let flags = OFlags::TMPFILE | OFlags::WRONLY | OFlags::CLOEXEC;
        if let Ok(file) = openat(folder.as_fd(), ".", flags, mode) {
            return Ok(changed_ms(&fstat(file)?));
        }
    }
    let name = OsString::from(format!("{STAGED}clock-{}", std::process::id()));
    // Left by a killed process with the same number.
    let _ = folder.remove(&name);
    let file = folder.new_file(&name, mode)?;
    let time = fstat(&file).map(|stat| changed_ms(&stat));
    folder.remove(&name)?;
    Ok(time?)
}

/// Returns when the machine was started, by its clock.
#[cfg(target_os = "linux")]
#[allow(
    clippy::unnecessary_cast,
    reason = "it has another type on other systems"
)]
fn booted_ms() -> Option<i64> {
    use rustix::time::{ClockId, Timespec, clock_gettime};
    let ms = |time: Timespec| {
        (time.tv_sec as i64).saturating_mul(1_000) + time.tv_nsec as i64 / 1_000_000
    };
    let up = ms(clock_gettime(ClockId::Boottime));
    Some(ms(clock_gettime(ClockId::Realtime)).saturating_sub(up))
}

#[cfg(not(target_os = "linux"))]
fn booted_ms() -> Option<i64> {
    None
}

#[allow(
    clippy::unnecessary_cast,
    reason = "it has another type on other systems"
)]
fn changed_ms(stat: &Stat) -> i64 {
    (stat.st_ctime as i64)
        .saturating_mul(1_000)
        .saturating_add(stat.st_ctime_nsec as i64 / 1_000_000)
}

#[allow(
    clippy::unnecessary_cast,
    clippy::cast_sign_loss,
    reason = "it has another type on other systems"
)]
pub(super) fn device(stat: &Stat) -> u64 {
    stat.st_dev as u64
}

/// The times of the files of a workspace. Each file system is measured once.
pub struct FileTimes {
    root: PathBuf,
    now_ms: Box<dyn Fn() -> i64>,
    clocks: RefCell<BTreeMap<u64, FileClock>>,
}

impl FileTimes {
    pub fn new(root: &Path, now_ms: impl Fn() -> i64 + 'static) -> FileTimes {
        FileTimes {
            root: root.to_path_buf(),
            now_ms: Box::new(now_ms),
            clocks: RefCell::default(),
        }
    }

    /// Returns the time of the file at a path of a tree. `None`: there is none.
    pub fn of(&self, path: &[u8]) -> Option<FileTime> {
        let path = self.root.join(OsStr::from_bytes(path));
        let stat = statat(CWD, &path, AtFlags::SYMLINK_NOFOLLOW).ok()?;
        let root = statat(CWD, &self.root, AtFlags::empty()).ok()?;
        let is_in_root = device(&stat) == device(&root);
        let is_there = |at: &&Path| {
            statat(CWD, *at, AtFlags::empty()).is_ok_and(|found| device(&found) == device(&stat))
        };
        let measured = || {
            let above = path.ancestors().skip(1).take_while(|at| *at != self.root);
            let folders = std::iter::once(self.root.as_path()).chain(above);
            let mut there = folders.filter(is_there);
            there.find_map(|at| measure(at, &self.now_ms))
        };
        let mut clocks = self.clocks.borrow_mut();
        let clock = clocks.get(&device(&stat)).copied().or_else(measured);
        clocks.extend(clock.map(|clock| (device(&stat), clock)));
        Some(FileTime {
            changed_ms: changed_ms(&stat),
            clock,
            is_in_root,
        })
    }
}
