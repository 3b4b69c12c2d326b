//! A new name beside a file, for a file of the user that has lost its own name.

use std::ffi::{OsStr, OsString};
use std::io::{self, ErrorKind};

use super::handle::Folder;

/// Maximum number of names that are tried.
const MAX_NAMES: u32 = 100;

/// Moves `from` to the first free name of `NAME.rewake-kept`, `NAME.rewake-kept-1`, … in `to`, and
/// syncs that folder. Returns the name.
pub fn move_to_free_name(
    folder: &Folder,
    from: &OsStr,
    to: &Folder,
    name: &OsStr,
) -> io::Result<OsString> {
    for number in 0..MAX_NAMES {
        let mut beside = name.to_os_string();
        beside.push(".rewake-kept");
        if number > 0 {
            beside.push(format!("-{number}"));
        }
        match folder.move_new(from, to, &beside) {
            Err(e) if e.kind() == ErrorKind::AlreadyExists => {}
            moved => {
                moved?;
                to.sync()?;
                return Ok(beside);
            }
        }
    }
    Err(ErrorKind::AlreadyExists.into())
}
