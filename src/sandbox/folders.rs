//! The entries of the folders of a tree, remembered from one scan to the next.
//!
//! A scan checks each folder for a change, and lists only changed ones. It misses no entry that was
//! created, renamed or removed before it. A folder is taken from memory only when it is the same
//! one and its status was last changed (ctime, which no program can set) well before it was listed.
//! A folder that was changed a moment ago is listed again, since a file system's clock is coarse
//! and a second change could have the same time.
//!
//! Invariant: the memory of a folder consists of which of its entries are folders and which are
//! marked. Both follow from names and kinds alone, which cannot change without the folder.

use std::collections::HashMap;
use std::ffi::OsString;
use std::fmt;
use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::workspace::handle::Folder;

/// Minimum age of a change before it counts as complete. No trusted file system has a coarser
/// clock.
const SETTLED: Duration = Duration::from_secs(2);

/// Maximum number of folders that are remembered.
const MAX_FOLDERS: usize = 50_000;

/// Returns whether an entry is marked, from its path and whether it is a folder.
type Mark = Box<dyn Fn(&Path, bool) -> bool + Send>;

pub struct Folders {
    mark: Mark,
    known: HashMap<PathBuf, KnownFolders>,
    /// For each device, whether times reveal changes.
    devices: HashMap<u64, bool>,
    /// Number of the scan. Folders that a scan did not visit are forgotten.
    look: u64,
    /// Number of folders that were listed and not taken from memory.
    listed: u64,
}

struct KnownFolders {
    stamp: Stamp,
    listing: Listing,
    look: u64,
}

/// The identity of a folder and the time of its last change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Stamp {
    device: u64,
    inode: u64,
    changed: (i64, i64),
}

/// The relevant entries of one folder. A marked folder is in `marked` only.
#[derive(Debug, Clone, Default)]
pub struct Listing {
    /// Names of folders that are not marked.
    pub folders: Vec<OsString>,
    pub marked: Vec<Marked>,
    /// Number of all entries.
    pub entries: usize,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Marked {
    pub name: OsString,
    pub is_folder: bool,
}

impl fmt::Debug for Folders {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let count = self.known.len();
        f.debug_struct("Folders").field("known", &count).finish()
    }
}

impl Folders {
    /// Creates an empty memory. `mark` must depend on the path and the kind only.
    pub fn new(mark: impl Fn(&Path, bool) -> bool + Send + 'static) -> Folders {
        Folders {
            mark: Box::new(mark),
            known: HashMap::new(),
            devices: HashMap::new(),
            look: 0,
            listed: 0,
        }
    }

    /// Starts a scan. Call it before the first [`Folders::list`].
    pub fn begin(&mut self) {
        self.look += 1;
    }

    /// Ends a scan.
    pub fn end(&mut self) {
        let look = self.look;
        self.known.retain(|_, known| known.look == look);
    }

    /// Returns the current entries of a folder; none if it cannot be read or is not a folder any
    /// more.
    pub fn list(&mut self, folder: &Path) -> Listing {
        // Before the listing, so that the next scan notices a change in between.
        let found = std::fs::symlink_metadata(folder);
        let Some(found) = found.ok().filter(Metadata::is_dir) else {
            return Listing::default();
        };
        let stamp = Stamp::of(&found);
        if let Some(known) = self.known.get_mut(folder)
            && known.stamp == stamp
        {
            known.look = self.look;
            return known.listing.clone();
        }
        self.listed += 1;
        let listing = self.read(folder);
        if self.can_be_remembered(folder, stamp) {
            let (look, listing) = (self.look, listing.clone());
            let known = KnownFolders {
                stamp,
                listing,
                look,
            };
            self.known.insert(folder.to_path_buf(), known);
        } else {
            self.known.remove(folder);
        }
        listing
    }

    fn read(&self, folder: &Path) -> Listing {
        let mut listing = Listing::default();
        for (path, is_folder) in entries(folder) {
            let name = path.file_name().unwrap_or_default().to_os_string();
            listing.entries += 1;
            if (self.mark)(&path, is_folder) {
                listing.marked.push(Marked { name, is_folder });
            } else if is_folder {
                listing.folders.push(name);
            }
        }
        listing
    }

    fn can_be_remembered(&mut self, folder: &Path, stamp: Stamp) -> bool {
        let device = self.devices.entry(stamp.device);
        let told = *device.or_insert_with(|| tells_changes(folder));
        told && self.known.len() < MAX_FOLDERS && stamp.is_settled(SystemTime::now())
    }
}

/// Returns the entries of a folder, and whether each is a folder. A folder of the user whose mode
/// forbids listing is listed all the same; otherwise nothing in it would be found and protected. No
/// link is followed.
pub(super) fn entries(folder: &Path) -> Vec<(PathBuf, bool)> {
    let Ok(open) = Folder::open(folder) else {
        return Vec::new();
    };
    let listed = open.list_ignoring_mode().unwrap_or_default();
    let entries = listed.into_iter();
    let entries = entries.map(|(name, kind)| (folder.join(name), kind.is_dir()));
    entries.collect()
}

impl Stamp {
    fn of(found: &Metadata) -> Stamp {
        Stamp {
            device: found.dev(),
            inode: found.ino(),
            changed: (found.ctime(), found.ctime_nsec()),
        }
    }

    fn is_settled(&self, now: SystemTime) -> bool {
        let (seconds, nanos) = self.changed;
        let (Ok(seconds), Ok(nanos)) = (u64::try_from(seconds), u64::try_from(nanos)) else {
            return false;
        };
        let changed = Duration::from_secs(seconds) + Duration::from_nanos(nanos);
        let now = now.duration_since(UNIX_EPOCH).unwrap_or_default();
        now.checked_sub(changed).is_some_and(|age| age >= SETTLED)
    }
}

/// Returns whether the file system is local, and so sets the times of a folder by this machine's
/// clock at each change. For others (network, FUSE) nothing is remembered.
#[cfg(target_os = "linux")]
fn tells_changes(folder: &Path) -> bool {
    const EXT: i64 = 0xEF53;
    const XFS: i64 = 0x5846_5342;
    const BTRFS: i64 = 0x9123_683E;
    const F2FS: i64 = 0xF2F5_2010;
    const ZFS: i64 = 0x2FC1_2FC1;
    const BCACHEFS: i64 = 0xCA45_1A4E;
    const TMPFS: i64 = 0x0102_1994;
    const OVERLAY: i64 = 0x794C_7630;
    let known = [EXT, XFS, BTRFS, F2FS, ZFS, BCACHEFS, TMPFS, OVERLAY];
    rustix::fs::statfs(folder).is_ok_and(|found| {
        #[allow(clippy::unnecessary_cast, reason = "its size differs by architecture")]
        known.contains(&(found.f_type as i64))
    })
}

#[cfg(not(target_os = "linux"))]
fn tells_changes(_: &Path) -> bool {
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Marks the names that end in `.env`.
    fn secrets() -> Folders {
        Folders::new(|path, _| path.to_string_lossy().ends_with(".env"))
    }

    fn marked(folders: &mut Folders, folder: &Path) -> Vec<String> {
        folders.begin();
        let listing = folders.list(folder);
        folders.end();
        let names = listing.marked.iter();
        let mut names: Vec<String> = names
            .map(|marked| marked.name.to_string_lossy().into_owned())
            .collect();
        names.sort();
        names
    }

    fn until_settled(folder: &Path) {
        let stamp = || Stamp::of(&std::fs::symlink_metadata(folder).unwrap());
        for _ in 0..3_000 {
            if stamp().is_settled(SystemTime::now()) {
                return;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        panic!("{} was changed in the future", folder.display());
    }

    #[test]
    fn a_file_created_a_moment_ago_is_found() {
        let place = tempfile::tempdir().unwrap();
        let folder = place.path().canonicalize().unwrap();
        let mut folders = secrets();
        // As fast as possible, so that many of the times are equal.
        for number in 0..300 {
            let name = folder.join(format!("{number}.env"));
            std::fs::write(&name, "").unwrap();
            assert_eq!(marked(&mut folders, &folder).len(), 1, "{number}");
            std::fs::remove_file(&name).unwrap();
            assert_eq!(marked(&mut folders, &folder).len(), 0, "{number}");
        }
    }

    #[test]
    fn only_a_changed_folder_is_listed_again() {
        let place = tempfile::tempdir().unwrap();
        let folder = place.path().canonicalize().unwrap();
        std::fs::create_dir(folder.join("sub")).unwrap();
        std::fs::write(folder.join("a.env"), "").unwrap();
        let mut folders = secrets();
        until_settled(&folder);
        assert_eq!(marked(&mut folders, &folder), ["a.env"]);
        assert_eq!(marked(&mut folders, &folder), ["a.env"]);
        let told = tells_changes(&folder);
        assert_eq!(folders.listed, if told { 1 } else { 2 });
        // The old modification time is set again; ctime reveals the change anyway.
        let modified = std::fs::metadata(&folder).unwrap().modified().unwrap();
        std::fs::write(folder.join("b.env"), "").unwrap();
        let times = std::fs::FileTimes::new().set_modified(modified);
        std::fs::File::open(&folder)
            .unwrap()
            .set_times(times)
            .unwrap();
        assert_eq!(marked(&mut folders, &folder), ["a.env", "b.env"]);
        // A rename, and another folder under the same name.
        std::fs::rename(folder.join("a.env"), folder.join("a")).unwrap();
        assert_eq!(marked(&mut folders, &folder), ["b.env"]);
        let (sub, other) = (folder.join("sub"), folder.join("other"));
        std::fs::create_dir(&other).unwrap();
        std::fs::write(other.join("c.env"), "").unwrap();
        until_settled(&other);
        assert_eq!(marked(&mut folders, &sub), [""; 0]);
        std::fs::remove_dir(&sub).unwrap();
        std::fs::rename(&other, &sub).unwrap();
        assert_eq!(marked(&mut folders, &sub), ["c.env"]);
    }

    /// The clock of a file system may stand still for a moment, and times from another machine may
    /// be in the future.
    #[test]
    fn a_change_counts_as_over_only_after_a_while() {
        let now = UNIX_EPOCH + Duration::from_secs(1_000);
        for (seconds, settled) in [(1_001, false), (1_000, false), (999, false), (998, true)] {
            let stamp = Stamp {
                device: 0,
                inode: 0,
                changed: (seconds, 0),
            };
            assert_eq!(stamp.is_settled(now), settled, "{seconds}");
        }
    }

    #[test]
    fn a_folder_that_is_gone_is_forgotten() {
        let place = tempfile::tempdir().unwrap();
        let folder = place.path().canonicalize().unwrap();
        until_settled(&folder);
        let mut folders = secrets();
        folders.begin();
        folders.list(&folder);
        folders.end();
        folders.begin();
        folders.end();
        assert!(folders.known.is_empty());
        assert_eq!(folders.list(&folder.join("none")).entries, 0);
    }
}
