//! Open folders, whose path has no link in any part.
//!
//! Policy decides on the real path of a file, with links followed. Before a tool opens that path, a
//! command that runs at the same time may replace one of its folders with a link. So a real path is
//! opened part by part, and a part that is a link now is an error. All further actions happen in
//! the opened folder, by names in it, wherever its path leads by then.
//!
//! Invariant: nothing here follows a link.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, ErrorKind};
#[cfg(target_os = "linux")]
use std::os::fd::AsRawFd;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
#[cfg(target_os = "linux")]
use std::os::unix::fs::PermissionsExt;
use std::path::{Component, Path, PathBuf};

use rustix::fs::{
    self as sys, Access, AtFlags, CWD, Dir, FileType, Mode, OFlags, RenameFlags, Stat,
};
use rustix::io::Errno;

/// Flags to pass through a folder, not to read its names, which needs other permissions.
#[cfg(target_os = "linux")]
const FOLDER: OFlags = OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);
#[cfg(not(target_os = "linux"))]
const FOLDER: OFlags = OFlags::RDONLY
    .union(OFlags::DIRECTORY)
    .union(OFlags::CLOEXEC);

/// Flags to inspect an entry and to change its mode, also for a file that nobody may read.
#[cfg(target_os = "linux")]
const ENTRY: OFlags = OFlags::PATH.union(OFlags::NOFOLLOW);
#[cfg(not(target_os = "linux"))]
const ENTRY: OFlags = OFlags::RDONLY.union(OFlags::NONBLOCK);

/// Maximum depth of a removal: each level has an open folder meanwhile.
const MAX_REMOVED_DEPTH: usize = 400;

/// An open folder.
#[derive(Debug)]
pub struct Folder(OwnedFd);

impl Folder {
    /// Opens the folder at `path`, which is absolute, with its links followed.
    pub fn open(path: &Path) -> io::Result<Folder> {
        let root = sys::openat(CWD, "/", FOLDER, Mode::empty())?;
        let below = path.strip_prefix("/").map_err(|_| unfit(path))?;
        Folder(root).below(below)
    }

    /// Opens the deepest existing folder of `path`, and returns it with the rest of the path.
    pub fn deepest(path: &Path) -> io::Result<(Folder, PathBuf)> {
        for part in path.ancestors() {
            match Folder::open(part) {
                Ok(folder) => {
                    let rest = path.strip_prefix(part).unwrap_or(Path::new(""));
                    return Ok((folder, rest.to_path_buf()));
                }
                Err(e) if e.kind() == ErrorKind::NotFound => {}
                Err(e) => return Err(e),
            }
        }
        Err(ErrorKind::NotFound.into())
    }

    pub(crate) fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }

    pub fn below(&self, path: &Path) -> io::Result<Folder> {
        open_below(self.0.as_fd(), path, FOLDER, Mode::empty()).map(Folder)
    }

    /// Opens the file at `path` below this folder, without blocking on a FIFO.
    pub fn file(&self, path: &Path) -> io::Result<File> {
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY;
        open_below(self.0.as_fd(), path, flags, Mode::empty()).map(File::from)
    }

    /// Creates a file that does not exist yet.
    pub fn new_file(&self, name: &OsStr, mode: Mode) -> io::Result<File> {
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL;
        open_below(self.0.as_fd(), Path::new(name), flags, mode).map(File::from)
    }

    pub fn make_folder(&self, name: &OsStr) -> io::Result<()> {
        Ok(sys::mkdirat(&self.0, name, Mode::from_raw_mode(0o777))?)
    }

    /// Opens the folder at `path` below this one. Creates missing parts.
    pub fn make_below(&self, path: &Path) -> io::Result<Folder> {
        let mut at = self.below(Path::new(""))?;
        for name in path {
            at = match at.below(Path::new(name)) {
                Err(e) if e.kind() == ErrorKind::NotFound => {
                    match at.make_folder(name) {
                        Err(e) if e.kind() != ErrorKind::AlreadyExists => return Err(e),
                        Ok(()) | Err(_) => {}
                    }
                    at.below(Path::new(name))?
                }
                opened => opened?,
            };
        }
        Ok(at)
    }

    /// Opens an entry of any kind and mode, to inspect it and to set its mode.
    pub fn entry(&self, name: &OsStr) -> io::Result<OwnedFd> {
        open_below(self.0.as_fd(), Path::new(name), ENTRY, Mode::empty())
    }

    /// Returns the metadata of a name; of a link, its own.
    pub fn stat(&self, name: &OsStr) -> io::Result<Stat> {
        Ok(sys::statat(&self.0, name, AtFlags::SYMLINK_NOFOLLOW)?)
    }

    /// Opens the list of names of a folder below this one, including `.` and `..`.
    pub fn names(&self, path: &Path) -> io::Result<Dir> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY;
        let folder = open_below(self.0.as_fd(), path, flags, Mode::empty())?;
        Ok(Dir::new(folder)?)
    }

    /// Returns the names in the folder, without `.` and `..`, each with its kind.
    pub fn list(&self) -> io::Result<Vec<(OsString, FileType)>> {
        let mut found = Vec::new();
        for entry in self.names(Path::new(""))?.filter_map(Result::ok) {
            let name = OsStr::from_bytes(entry.file_name().to_bytes());
            let kind = match entry.file_type() {
                // Not every file system gives the kind with the name.
                FileType::Unknown => self
                    .stat(name)
                    .map_or(FileType::Unknown, |s| FileType::from_raw_mode(s.st_mode)),
                kind => kind,
            };
            if name != "." && name != ".." {
                found.push((name.to_owned(), kind));
            }
        }
        Ok(found)
    }

    /// Does the same even if the mode of the folder forbids it: changes the mode for a moment.
    pub fn list_ignoring_mode(&self) -> io::Result<Vec<(OsString, FileType)>> {
        const LIST: u32 = 0o500;
        match self.list() {
            Err(e) if e.kind() == ErrorKind::PermissionDenied => {
                let before = mode(self)?;
                set_mode(self, before | LIST)?;
                let listed = self.list();
                set_mode(self, before)?;
                listed
            }
            listed => listed,
        }
    }

    /// Returns the target of a link.
    pub fn read_link(&self, name: &OsStr) -> io::Result<PathBuf> {
        let target = sys::readlinkat(&self.0, name, Vec::new())?;
        Ok(OsString::from_vec(target.into_bytes()).into())
    }

    pub fn may(&self, name: &OsStr, access: Access) -> io::Result<()> {
        Ok(sys::accessat(&self.0, name, access, AtFlags::empty())?)
    }

    /// Renames `from` to `to`, and replaces an entry of that name.
    pub fn rename(&self, from: &OsStr, to: &OsStr) -> io::Result<()> {
        Ok(sys::renameat(&self.0, from, &self.0, to)?)
    }

    /// Renames `from` to `to`, and fails with `AlreadyExists` if that name is taken. Not every file
    /// system supports this.
    pub fn rename_new(&self, from: &OsStr, to: &OsStr) -> io::Result<()> {
        match sys::renameat_with(&self.0, from, &self.0, to, RenameFlags::NOREPLACE) {
            Err(Errno::INVAL | Errno::NOSYS | Errno::NOTSUP) => self.rename(from, to),
            renamed => Ok(renamed?),
        }
    }

    /// Does the same into another folder of the same file system.
    pub fn move_new(&self, from: &OsStr, folder: &Folder, to: &OsStr) -> io::Result<()> {
        match sys::renameat_with(&self.0, from, &folder.0, to, RenameFlags::NOREPLACE) {
            Err(Errno::INVAL | Errno::NOSYS | Errno::NOTSUP) => match folder.stat(to) {
                Ok(_) => Err(ErrorKind::AlreadyExists.into()),
                Err(_) => self.move_over(from, folder, to),
            },
            renamed => Ok(renamed?),
        }
    }

    /// Moves `from` to `to` in another folder, and replaces an entry of that name.
    pub(crate) fn move_over(&self, from: &OsStr, folder: &Folder, to: &OsStr) -> io::Result<()> {
        Ok(sys::renameat(&self.0, from, &folder.0, to)?)
    }

    /// Exchanges the names of two entries. Not every file system supports this.
    pub fn exchange(&self, from: &OsStr, folder: &Folder, to: &OsStr) -> io::Result<()> {
        let flags = RenameFlags::EXCHANGE;
        Ok(sys::renameat_with(&self.0, from, &folder.0, to, flags)?)
    }

    pub fn make_link(&self, target: &OsStr, name: &OsStr) -> io::Result<()> {
        Ok(sys::symlinkat(target, &self.0, name)?)
    }

    /// Removes an empty folder. Fails with `DirectoryNotEmpty` if it has entries.
    pub fn remove_folder(&self, name: &OsStr) -> io::Result<()> {
        Ok(sys::unlinkat(&self.0, name, AtFlags::REMOVEDIR)?)
    }

    pub fn remove(&self, name: &OsStr) -> io::Result<()> {
        Ok(sys::unlinkat(&self.0, name, AtFlags::empty())?)
    }

    /// Removes an entry with everything below it, for any modes of its folders. Fails with
    /// `NotFound` if the name does not exist.
    pub fn remove_all(&self, name: &OsStr) -> io::Result<()> {
        self.remove_down_to(name, MAX_REMOVED_DEPTH)
    }

    fn remove_down_to(&self, name: &OsStr, depth: usize) -> io::Result<()> {
        if !FileType::from_raw_mode(self.stat(name)?.st_mode).is_dir() {
            return self.remove(name);
        }
        let Some(depth) = depth.checked_sub(1) else {
            return Err(io::Error::other("folders lie too deep in each other"));
        };
        let inner = self.below(Path::new(name))?;
        let mode = mode(&inner)?;
        if mode & 0o700 != 0o700 {
            set_mode(&inner, mode | 0o700)?;
        }
        for (name, _) in inner.list()? {
            inner.remove_down_to(&name, depth)?;
        }
        self.remove_folder(name)
    }

    /// Makes the names in the folder durable.
    pub fn sync(&self) -> io::Result<()> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let folder = sys::openat(&self.0, ".", flags, Mode::empty())?;
        match File::from(folder).sync_all() {
            // Some network file systems cannot sync folders; nothing more can be done.
            Err(e) if e.kind() == ErrorKind::InvalidInput => Ok(()),
            result => result,
        }
    }
}

impl AsFd for Folder {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Returns the permission bits of an open file.
pub fn mode(of: impl AsFd) -> io::Result<u32> {
    #[allow(
        clippy::useless_conversion,
        reason = "it has another type on other systems"
    )]
    let mode = u32::from(sys::fstat(of)?.st_mode);
    Ok(mode & 0o7777)
}

/// Sets the permission bits of an open file, wherever its name leads by now.
#[cfg(target_os = "linux")]
pub fn set_mode(of: impl AsFd, mode: u32) -> io::Result<()> {
    // `fchmod` does not work for a descriptor with `O_PATH`.
    let path = format!("/proc/self/fd/{}", of.as_fd().as_raw_fd());
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode))
}

#[cfg(not(target_os = "linux"))]
pub fn set_mode(of: impl AsFd, mode: u32) -> io::Result<()> {
    #[allow(clippy::cast_possible_truncation, reason = "permission bits")]
    Ok(sys::fchmod(of, Mode::from_bits_truncate(mode as _))?)
}

/// Returns whether a file system refuses to change permission bits at all: some FUSE mounts, CIFS,
/// shared folders of virtual machines (which do not find the open file).
pub fn refuses_mode(error: &io::Error) -> bool {
    let refusals = [
        Errno::PERM,
        Errno::ACCESS,
        Errno::NOSYS,
        Errno::NOTSUP,
        Errno::OPNOTSUPP,
        Errno::INVAL,
        Errno::NOENT,
    ];
    refusals
        .iter()
        .any(|errno| error.raw_os_error() == Some(errno.raw_os_error()))
}

/// Sets the permission bits of a new file. Returns whether it has them: the file system may refuse.
pub fn try_mode(of: &File, wanted: Mode) -> io::Result<bool> {
    #[allow(
        clippy::useless_conversion,
        reason = "it has another type on other systems"
    )]
    let bits = u32::from(wanted.bits());
    match sys::fchmod(of, wanted).map_err(io::Error::from) {
        Ok(()) => Ok(true),
        Err(e) if refuses_mode(&e) => Ok(mode(of)? == bits),
        Err(e) => Err(e),
    }
}

/// Opens `path` below a folder; no part of it may be a link.
fn open_below(at: BorrowedFd<'_>, path: &Path, flags: OFlags, mode: Mode) -> io::Result<OwnedFd> {
    let flags = flags | OFlags::CLOEXEC;
    let opened = if path.as_os_str().is_empty() {
        open_by_kernel(at, Path::new("."), flags, mode)
    } else {
        open_by_kernel(at, path, flags, mode)
    };
    let opened = opened.unwrap_or_else(|| open_by_parts(at, path, flags, mode));
    opened.map_err(|e| {
        if e.raw_os_error() == Some(Errno::LOOP.raw_os_error()) {
            io::Error::other("it, or a folder on the way to it, is a symbolic link now")
        } else {
            e
        }
    })
}

/// Opens a path in one call. `None` if the kernel has no such call, or something forbids it.
#[cfg(target_os = "linux")]
fn open_by_kernel(
    at: BorrowedFd<'_>,
    path: &Path,
    flags: OFlags,
    mode: Mode,
) -> Option<io::Result<OwnedFd>> {
    use rustix::fs::ResolveFlags as Resolve;
    let resolve = Resolve::BENEATH | Resolve::NO_SYMLINKS | Resolve::NO_MAGICLINKS;
    match sys::openat2(at, path, flags, mode, resolve) {
        // A container's filter answers with PERM to system calls that it does not know.
        Err(Errno::NOSYS | Errno::PERM | Errno::AGAIN) => None,
        opened => Some(opened.map_err(io::Error::from)),
    }
}

#[cfg(not(target_os = "linux"))]
fn open_by_kernel(_: BorrowedFd<'_>, _: &Path, _: OFlags, _: Mode) -> Option<io::Result<OwnedFd>> {
    None
}

/// Does the same part by part.
fn open_by_parts(
    at: BorrowedFd<'_>,
    path: &Path,
    flags: OFlags,
    mode: Mode,
) -> io::Result<OwnedFd> {
    let mut parts = Vec::new();
    for part in path.components() {
        match part {
            Component::Normal(name) => parts.push(name),
            Component::CurDir => {}
            _ => return Err(unfit(path)),
        }
    }
    let Some((last, folders)) = parts.split_last() else {
        return Ok(sys::openat(at, ".", flags, mode)?);
    };
    let mut folder: Option<OwnedFd> = None;
    for name in folders {
        let at = folder.as_ref().map_or(at, AsFd::as_fd);
        folder = Some(open_part(at, name, FOLDER, Mode::empty())?);
    }
    open_part(folder.as_ref().map_or(at, AsFd::as_fd), last, flags, mode)
}

fn open_part(at: BorrowedFd<'_>, name: &OsStr, flags: OFlags, mode: Mode) -> io::Result<OwnedFd> {
    match sys::openat(at, name, flags | OFlags::NOFOLLOW | OFlags::CLOEXEC, mode) {
        // For a link instead of a folder the kernel reports that it is not a folder.
        Err(Errno::NOTDIR) if is_link(at, name) => Err(Errno::LOOP.into()),
        opened => Ok(opened?),
    }
}

fn is_link(at: BorrowedFd<'_>, name: &OsStr) -> bool {
    let found = sys::statat(at, name, AtFlags::SYMLINK_NOFOLLOW);
    found.is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode).is_symlink())
}

fn unfit(path: &Path) -> io::Error {
    let path = path.display();
    io::Error::new(
        ErrorKind::InvalidInput,
        format!("{path} is not a path with its links followed"),
    )
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::Read;
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    struct Room(tempfile::TempDir);

    impl Room {
        fn new() -> Room {
            Room(tempfile::tempdir().unwrap())
        }

        /// Returns the path of a name, with links followed.
        fn path(&self, name: &str) -> PathBuf {
            self.0.path().canonicalize().unwrap().join(name)
        }

        fn put(&self, name: &str, content: &str) {
            let path = self.path(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, content).unwrap();
        }

        fn is_empty(&self) -> bool {
            fs::read_dir(self.0.path()).unwrap().next().is_none()
        }
    }

    type Open = fn(BorrowedFd<'_>, &Path, OFlags, Mode) -> io::Result<OwnedFd>;

    /// The two implementations: one call of the kernel, and part by part.
    const WAYS: [Open; 2] = [open_below, open_by_parts];

    #[test]
    fn both_ways_open_what_is_there_and_follow_no_link() {
        let room = Room::new();
        room.put("a/b/file", "text");
        symlink("b", room.path("a/link")).unwrap();
        symlink("b/file", room.path("a/link-to-file")).unwrap();
        symlink(room.path("a"), room.path("absolute")).unwrap();
        let root = Folder::open(&room.path("")).unwrap();
        for open in WAYS {
            let open = |path: &str| {
                open(
                    root.0.as_fd(),
                    Path::new(path),
                    OFlags::RDONLY,
                    Mode::empty(),
                )
            };
            let mut text = String::new();
            File::from(open("a/b/file").unwrap())
                .read_to_string(&mut text)
                .unwrap();
            assert_eq!(text, "text");
            open(".").unwrap();
            for link in [
                "a/link/file",
                "a/link-to-file",
                "absolute/b/file",
                "absolute",
            ] {
                open(link).unwrap_err();
            }
            for out in ["..", "a/../../x", "/etc"] {
                open(out).unwrap_err();
            }
            assert_eq!(open("a/x").unwrap_err().kind(), ErrorKind::NotFound);
            assert_eq!(
                open("a/b/file/x").unwrap_err().kind(),
                ErrorKind::NotADirectory
            );
        }
    }

    #[test]
    fn a_symbolic_link_in_the_path_is_reported() {
        let room = Room::new();
        room.put("a/file", "");
        symlink("a", room.path("link")).unwrap();
        let said = Folder::open(&room.path("link")).unwrap_err().to_string();
        assert!(said.contains("symbolic link"), "{said}");
        let root = Folder::open(&room.path("")).unwrap();
        let link = Path::new("link");
        let by_parts = open_by_parts(root.0.as_fd(), &link.join("file"), FOLDER, Mode::empty());
        assert_eq!(
            by_parts.unwrap_err().raw_os_error(),
            Some(Errno::LOOP.raw_os_error())
        );
        Folder::open(Path::new("relative")).unwrap_err();
        Folder::open(Path::new("/"))
            .unwrap()
            .stat(OsStr::new("."))
            .unwrap();
    }

    #[test]
    fn all_is_removed_and_no_link_is_followed() {
        let room = Room::new();
        let outside = Room::new();
        outside.put("kept/file", "");
        room.put("tmp/a/b/file", "");
        room.put("tmp/locked/file", "");
        symlink(outside.path("kept"), room.path("tmp/a/link")).unwrap();
        let locked = fs::Permissions::from_mode(0o000);
        fs::set_permissions(room.path("tmp/locked"), locked).unwrap();
        let folder = Folder::open(&room.path("")).unwrap();
        // The path leads elsewhere by now.
        let (name, link) = (OsStr::new("tmp"), room.0.path());
        let moved = outside.path("moved");
        fs::rename(link, &moved).unwrap();
        symlink(outside.0.path(), link).unwrap();
        outside.put("tmp/file", "");
        let done = folder.remove_all(name);
        fs::remove_file(link).unwrap();
        fs::rename(&moved, link).unwrap();
        done.unwrap();
        assert!(room.is_empty());
        assert!(outside.path("kept/file").exists() && outside.path("tmp/file").exists());
        let gone = folder.remove_all(name).unwrap_err();
        assert_eq!(gone.kind(), ErrorKind::NotFound);
        room.put(&format!("{}file", "d/".repeat(MAX_REMOVED_DEPTH + 1)), "");
        folder.remove_all(OsStr::new("d")).unwrap_err();
    }

    #[test]
    fn a_folder_that_was_opened_stays_the_same_one() {
        let room = Room::new();
        let outside = Room::new();
        room.put("sub/a", "");
        let folder = Folder::open(&room.path("sub")).unwrap();
        fs::rename(room.path("sub"), room.path("aside")).unwrap();
        symlink(outside.path(""), room.path("sub")).unwrap();
        let name = OsStr::new("new");
        folder.new_file(name, Mode::from_raw_mode(0o600)).unwrap();
        folder.rename(name, OsStr::new("b")).unwrap();
        assert!(room.path("aside/b").exists() && outside.is_empty());
        let taken = folder.rename_new(OsStr::new("a"), OsStr::new("b"));
        assert_eq!(taken.unwrap_err().kind(), ErrorKind::AlreadyExists);
    }
}
