//! Protected names that were made anywhere in the workspace while a command ran.
//!
//! What was there before is known from the look that the profile was made with. This is the same
//! look again, with the same bounds. A repository that was made or cloned may stay when nothing
//! in it runs; what else lies in it is that repository's own.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::places;
use super::profile::Profile;
use super::protected::Remembered;
use crate::workspace::is_inert;

/// Clocks of file systems are behind by as much.
const GRAIN: Duration = Duration::from_millis(20);

/// What was made since then and is not to stay: the topmost path of each.
pub(super) fn appeared(profile: &Profile, since: SystemTime) -> Vec<PathBuf> {
    let Some(looked) = &profile.looked else {
        return Vec::new();
    };
    let known: BTreeSet<&PathBuf> = profile.protected.iter().collect();
    let is_new = |path: &Path| looked.whole || made_since(path, since);
    let found = Remembered::default().look_below(&looked.workspace, looked.home.as_deref());
    let (repositories, others) = found
        .protected
        .into_iter()
        .partition::<Vec<_>, _>(|path| is_of_a_repository(path));
    let mut made: Vec<PathBuf> = Vec::new();
    let mut appeared = Vec::new();
    for path in found.git.into_iter().chain(repositories) {
        let was_known = known.contains(&path) || known.contains(&path.join("config"));
        let Some(top) = path.parent().filter(|_| !was_known && is_new(&path)) else {
            continue;
        };
        if is_inert(top).is_err() {
            appeared.push(path.clone());
        }
        made.push(top.to_path_buf());
    }
    for path in others {
        let is_inside = made.iter().any(|top| path.starts_with(top));
        if is_inside || known.iter().any(|known| path.starts_with(known)) {
            continue;
        }
        appeared.extend(obeyed(&path).into_iter().filter(|path| is_new(path)));
    }
    appeared
}

/// `.git`, or the `HEAD` of a folder that is a repository itself.
fn is_of_a_repository(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default();
    name == ".git" || name.eq_ignore_ascii_case("HEAD")
}

/// What of a protected path the user's tools run or obey unasked. The policy protects more: names
/// that a build makes all day, and whole folders of which one file is obeyed.
fn obeyed(path: &Path) -> Vec<PathBuf> {
    let parts: Vec<&OsStr> = path.components().map(Component::as_os_str).collect();
    let mut found = Vec::new();
    for name in places::PROTECTED {
        let names: Vec<&OsStr> = Path::new(name).iter().collect();
        for count in (1..=names.len()).rev() {
            let is_its_end = parts.len() >= count
                && parts[parts.len() - count..]
                    .iter()
                    .zip(&names)
                    .all(|(part, name)| part.eq_ignore_ascii_case(name));
            let whole = names[count..]
                .iter()
                .fold(path.to_path_buf(), |path, name| path.join(name));
            if is_its_end && whole.symlink_metadata().is_ok() {
                found.push(whole);
                break;
            }
        }
    }
    found
}

/// By when it was made, where the file system knows; else by when it last changed.
fn made_since(path: &Path, since: SystemTime) -> bool {
    let Ok(found) = fs::symlink_metadata(path) else {
        return false;
    };
    let changed = || {
        let seconds = u64::try_from(found.ctime()).unwrap_or_default();
        let nanos = u32::try_from(found.ctime_nsec()).unwrap_or_default();
        UNIX_EPOCH + Duration::new(seconds, nanos)
    };
    found.created().unwrap_or_else(|_| changed()) + GRAIN >= since
}
