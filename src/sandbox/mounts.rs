//! Mounts that protect files and hide secret ones, in a separate mount namespace.
//!
//! A protected path is bound on itself read-only. Each folder between it and the writable folder is
//! bound on itself too, since a mount cannot be renamed; otherwise renaming the folder would bypass
//! the protection. `/dev/null` covers a hidden file, and an empty folder that nobody can open
//! covers a hidden folder.
//!
//! Binds are recursive: in a user namespace the kernel refuses to bind a folder without the mounts
//! below it, since they may cover something.
//!
//! Every path is opened without following links and mounted by its descriptor.
//!
//! Invariant: hidden paths are covered after all other mounts. A later bind of a folder above would
//! lie over the cover.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use rustix::fs::{FileType, StatVfsMountFlags, fstat, fstatvfs};
use rustix::mount::{
    MountFlags, MountPropagationFlags, mount, mount_bind_recursive, mount_change, mount_remount,
};

use super::calls::MOUNT_SETATTR;
use super::files::{NEW_TERMINAL, TERMINALS, open_exactly};
use super::paths::{is_below_any, without_nested};
use super::places::SHARED_MEMORY;
use super::profile::Profile;

/// Makes the new mount namespace private: nothing that is mounted here is visible elsewhere.
pub(super) fn make_private() -> Result<(), String> {
    mount_change(
        "/",
        MountPropagationFlags::REC | MountPropagationFlags::PRIVATE,
    )
    .map_err(|e| format!("cannot make mounts private: {e}"))
}

/// Mounts a `/proc` that lists only the processes of this namespace. In a container whose `/proc`
/// is partly covered this is not possible, and the existing one stays.
pub(super) fn own_process_list() {
    let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
    let _ = mount("proc", "/proc", "proc", flags, None);
}

/// Returns whether mounting works, by mounting as [`hold`] does, on a folder with mounts below it.
/// Some systems allow the namespace and then refuse to mount.
pub(super) fn can_mount() -> bool {
    let try_all = || {
        let folder = Path::new("/dev");
        make_private()?;
        bind_on_itself(folder)?;
        make_read_only(folder)?;
        if Path::new(SHARED_MEMORY).is_dir() {
            own_shared_memory(&[])?;
        }
        hide(Path::new("/dev/zero"))?;
        hide(folder)
    };
    try_all().is_ok()
}

pub(super) fn hold(profile: &Profile) -> Result<(), String> {
    if profile
        .write
        .iter()
        .any(|path| path == Path::new(SHARED_MEMORY))
    {
        let granted = [profile.read.as_slice(), &profile.write].concat();
        own_shared_memory(&granted)?;
    }
    if profile.kernel.terminals {
        own_terminals()?;
    }
    for folder in parents(&profile.protected, &profile.write) {
        bind_on_itself(&folder)?;
    }
    for path in &profile.protected {
        if bind_on_itself(path)? {
            make_read_only(path)?;
        }
    }
    for path in &profile.hidden {
        hide(path)?;
    }
    Ok(())
}

/// Returns the folders between protected paths and the writable folders, outermost first.
fn parents(protected: &[PathBuf], write: &[PathBuf]) -> BTreeSet<PathBuf> {
    let mut folders = BTreeSet::new();
    for path in protected {
        let above = path.ancestors().skip(1);
        let inside = above.take_while(|folder| {
            is_below_any(folder, write) && !write.iter().any(|root| root == folder)
        });
        folders.extend(inside.map(Path::to_path_buf));
    }
    folders
}

/// Binds a path on itself, with the mounts below it. Returns false when it does not exist or is a
/// link.
fn bind_on_itself(path: &Path) -> Result<bool, String> {
    let Some(fd) = open_unlinked(path)? else {
        return Ok(false);
    };
    let at = by_descriptor(&fd);
    mount_bind_recursive(&at, &at).map_err(|e| cannot("hold", path, e))?;
    Ok(true)
}

/// Makes the mount at a path and all mounts below it read-only. Where the kernel cannot do that in
/// one step, each is remounted.
fn make_read_only(path: &Path) -> Result<(), String> {
    let Some(fd) = open_unlinked(path)? else {
        return Err(cannot("hold", path, "it is gone"));
    };
    if set_read_only(&fd).is_ok() {
        return Ok(());
    }
    remount_read_only(path)?;
    let mounts = std::fs::read("/proc/self/mountinfo").map_err(|e| cannot("hold", path, e))?;
    for below in mount_points(&mounts) {
        if below != path && below.starts_with(path) {
            remount_read_only(&below)?;
        }
    }
    Ok(())
}

/// Sets the flag with mount_setattr(2), which needs Linux 5.12.
#[allow(unsafe_code)]
fn set_read_only(fd: &OwnedFd) -> io::Result<()> {
    const READ_ONLY: u64 = 1;
    /// `attr_set`, `attr_clr`, `propagation` and `userns_fd` of `struct mount_attr`.
    type Attributes = [u64; 4];
    let attributes: Attributes = [READ_ONLY, 0, 0, 0];
    let flags = libc::AT_EMPTY_PATH | libc::AT_RECURSIVE;
    // SAFETY: the kernel reads as many bytes as it is told to, and changes no memory.
    let done = unsafe {
        libc::syscall(
            MOUNT_SETATTR,
            fd.as_raw_fd(),
            c"".as_ptr(),
            flags,
            attributes.as_ptr(),
            size_of::<Attributes>(),
        )
    };
    if done == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

/// Returns the folders and files of `/proc/self/mountinfo` on which something is mounted.
fn mount_points(mounts: &[u8]) -> Vec<PathBuf> {
    let lines = mounts.split(|byte| *byte == b'\n');
    let names = lines.filter_map(|line| line.split(|byte| *byte == b' ').nth(4));
    names.map(|name| PathBuf::from(unescaped(name))).collect()
}

/// Replaces the octal numbers by which the kernel writes spaces and the like.
fn unescaped(name: &[u8]) -> OsString {
    let mut bytes = Vec::with_capacity(name.len());
    let mut at = 0;
    while let Some(byte) = name.get(at) {
        let digits = name.get(at + 1..at + 4).filter(|_| *byte == b'\\');
        let number = digits.and_then(|digits| str::from_utf8(digits).ok());
        let number = number.and_then(|digits| u8::from_str_radix(digits, 8).ok());
        bytes.push(number.unwrap_or(*byte));
        at += if number.is_some() { 4 } else { 1 };
    }
    OsString::from_vec(bytes)
}

fn remount_read_only(path: &Path) -> Result<(), String> {
    let Some(fd) = open_unlinked(path)? else {
        return Err(cannot("hold", path, "it cannot be opened"));
    };
    let flags = fstatvfs(&fd).map_err(|e| cannot("hold", path, e))?.f_flag;
    let mut keep = MountFlags::BIND | MountFlags::RDONLY;
    // Only the owner of the file system may drop these flags.
    keep.set(
        MountFlags::NOSUID,
        flags.contains(StatVfsMountFlags::NOSUID),
    );
    keep.set(MountFlags::NODEV, flags.contains(StatVfsMountFlags::NODEV));
    keep.set(
        MountFlags::NOEXEC,
        flags.contains(StatVfsMountFlags::NOEXEC),
    );
    keep.set(
        MountFlags::NOATIME,
        flags.contains(StatVfsMountFlags::NOATIME),
    );
    keep.set(
        MountFlags::NODIRATIME,
        flags.contains(StatVfsMountFlags::NODIRATIME),
    );
    keep.set(
        MountFlags::RELATIME,
        flags.contains(StatVfsMountFlags::RELATIME),
    );
    mount_remount(by_descriptor(&fd), keep, "").map_err(|e| cannot("hold", path, e))
}

fn hide(path: &Path) -> Result<(), String> {
    let Some(fd) = open_unlinked(path)? else {
        return Ok(());
    };
    let kind = fstat(&fd).map_err(|e| cannot("hide", path, e))?.st_mode;
    let done = match FileType::from_raw_mode(kind) {
        FileType::Directory => cover_folder(&by_descriptor(&fd)),
        _ => mount_bind_recursive("/dev/null", by_descriptor(&fd)),
    };
    done.map_err(|e| cannot("hide", path, e))
}

/// Mounts an empty folder for shared memory, separate from that of the user's other processes. Of the
/// one below, it has the granted paths.
fn own_shared_memory(granted: &[PathBuf]) -> Result<(), String> {
    let memory = Path::new(SHARED_MEMORY);
    let below = granted.iter().filter(|path| path.starts_with(memory));
    let below: Vec<PathBuf> = below.filter(|path| *path != memory).cloned().collect();
    let mut kept = Vec::new();
    for path in without_nested(below) {
        if let Some(fd) = open_unlinked(&path)? {
            kept.push((path, fd));
        }
    }
    let flags = MountFlags::NOSUID | MountFlags::NODEV;
    let data = Some(c"size=25%,mode=1777");
    mount("none", SHARED_MEMORY, "tmpfs", flags, data).map_err(|e| cannot("mount", memory, e))?;
    for (path, fd) in kept {
        let found = fstat(&fd).map_err(|e| cannot("open", &path, e))?;
        let made = if FileType::from_raw_mode(found.st_mode).is_dir() {
            std::fs::create_dir_all(&path)
        } else {
            let above = std::fs::create_dir_all(path.parent().unwrap_or(memory));
            above.and_then(|()| std::fs::write(&path, ""))
        };
        made.map_err(|e| cannot("make", &path, e))?;
        mount_bind_recursive(by_descriptor(&fd), &path).map_err(|e| cannot("mount", &path, e))?;
    }
    Ok(())
}

/// Mounts a folder of pseudo-terminals with none of the user's.
pub(super) fn own_terminals() -> Result<(), String> {
    let flags = MountFlags::NOSUID | MountFlags::NOEXEC;
    let data = Some(c"newinstance,ptmxmode=0666,mode=0620,max=256");
    mount("none", TERMINALS, "devpts", flags, data)
        .map_err(|e| cannot("mount", Path::new(TERMINALS), e))?;
    let device = Path::new(NEW_TERMINAL);
    // On some systems it is a link to the one in the folder.
    let Some(fd) = open_unlinked(device)? else {
        return Ok(());
    };
    mount_bind_recursive(format!("{TERMINALS}/ptmx"), by_descriptor(&fd))
        .map_err(|e| cannot("mount", device, e))
}

fn cover_folder(at: &str) -> rustix::io::Result<()> {
    let flags = MountFlags::RDONLY | MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
    mount(
        "none",
        at,
        "tmpfs",
        flags,
        Some(c"size=4k,nr_inodes=1,mode=000"),
    )
}

/// Opens a path. `None` also for a link: nothing can be mounted on it, so it is compared
/// afterwards.
fn open_unlinked(path: &Path) -> Result<Option<OwnedFd>, String> {
    let Some(fd) = open_exactly(path)? else {
        return Ok(None);
    };
    let found = fstat(&fd).map_err(|e| cannot("open", path, e))?;
    let is_link = FileType::from_raw_mode(found.st_mode) == FileType::Symlink;
    Ok((!is_link).then_some(fd))
}

fn by_descriptor(fd: &OwnedFd) -> String {
    format!("/proc/self/fd/{}", fd.as_raw_fd())
}

fn cannot(what: &str, path: &Path, e: impl std::fmt::Display) -> String {
    format!("cannot {what} {}: {e}", path.display())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_folder_on_the_way_is_held() {
        let path = |names: &[&str]| -> Vec<PathBuf> { names.iter().map(PathBuf::from).collect() };
        let protected = path(&["/w/.git/config", "/w/a/b/.git/hooks", "/w/AGENTS.md"]);
        let held: Vec<PathBuf> = parents(&protected, &path(&["/w"])).into_iter().collect();
        assert_eq!(held, path(&["/w/.git", "/w/a", "/w/a/b", "/w/a/b/.git"]));
    }

    #[test]
    fn names_of_mounts_have_their_spaces() {
        let mounts = b"29 1 8:1 / / rw,relatime - ext4 /dev/sda rw\n\
            30 29 0:26 / /w/a\\040b\\134c rw - tmpfs none rw\nshort line\n";
        let found = mount_points(mounts);
        assert_eq!(found, ["/", "/w/a b\\c"].map(PathBuf::from));
    }
}
