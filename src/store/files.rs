//! Folders and files that only their owner can read.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use super::StoreError;
use super::error::io as io_error;
use crate::journal::folder::{self, restrict};

/// Creates the folder if it is missing. Sets its mode to 0700 in any case.
pub(crate) fn private_folder(path: &Path) -> Result<(), StoreError> {
    folder::private_folder(path)
        .map_err(|e| io_error(format!("make the folder {}", path.display()), e))
}

/// Opens the file for reading and writing, and creates it if it is missing. Sets its mode to 0600
/// in any case. Not for files of the database: see [`super::database`].
pub(super) fn private_file(path: &Path) -> Result<File, StoreError> {
    let fail = |e| io_error(format!("open {}", path.display()), e);
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .open(path)
        .map_err(fail)?;
    restrict(path, 0o600).map_err(fail)?;
    Ok(file)
}
