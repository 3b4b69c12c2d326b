//! Hints for errors of rights: the command that gives this user the files of another.

use std::io::{self, ErrorKind};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use super::read_text;
use crate::core::shell::one_argument;

const MAX_PASSWD_BYTES: u64 = 1 << 20;

/// Maximum number of entries of a folder of which the owner is looked at.
pub(super) const MAX_ENTRIES: usize = 10_000;

/// Returns the hint for an error of rights: the command that gives this user the files of another.
/// `None`: nothing of the path belongs to another user, or all of it does.
pub(super) fn rights_hint(path: &Path) -> Option<String> {
    let me = rustix::process::geteuid().as_raw();
    let owner = |path: &Path| path.symlink_metadata().ok().map(|found| found.uid());
    let known = path
        .ancestors()
        .filter_map(|path| Some((path, owner(path)?)));
    let known: Vec<(&Path, u32)> = known.collect();
    // The first one that is another's in a folder of this user.
    let pair = known
        .windows(2)
        .find(|pair| pair[0].1 != me && pair[1].1 == me)?;
    let (path, uid) = pair[0];
    Some(format!(
        "{} belongs to {}: sudo chown -R {} {}",
        path.display(),
        user_name(uid),
        user_name(me),
        one_argument(&path.to_string_lossy())
    ))
}

/// Returns the hint of [`rights_hint`] for a folder or for the first entry of another user in it.
pub fn rights_hint_below(folder: &Path) -> Option<String> {
    let entries = folder.read_dir().into_iter().flatten().flatten();
    let mut paths = entries.take(MAX_ENTRIES).map(|entry| entry.path());
    rights_hint(folder).or_else(|| paths.find_map(|path| rights_hint(&path)))
}

/// Returns the hint of [`rights_hint`] if this is an error of rights.
pub fn hint_of(path: &Path, error: &io::Error) -> Option<String> {
    match error.kind() {
        ErrorKind::PermissionDenied => rights_hint(path),
        _ => None,
    }
}

/// Returns the name of a user, or the number if the system's file of users has none.
pub(super) fn user_name(uid: u32) -> String {
    let passwd = read_text(Path::new("/etc/passwd"), MAX_PASSWD_BYTES).unwrap_or_default();
    let number = uid.to_string();
    let line = passwd
        .lines()
        .map(|line| line.split(':').collect::<Vec<_>>());
    let name = line
        .filter(|fields| fields.get(2) == Some(&number.as_str()))
        .find_map(|fields| fields.first().map(ToString::to_string));
    name.filter(|name| !name.is_empty()).unwrap_or(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_are_named() {
        assert_eq!(user_name(0), "root");
        assert_eq!(user_name(4_000_000_000), "4000000000");
    }
}
