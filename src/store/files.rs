//! Folders and files that only their owner can read.

use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;

use super::StoreError;
use super::error::io as io_error;

/// Makes the folder if it is missing; 0700 in any case.
pub(super) fn private_folder(path: &Path) -> Result<(), StoreError> {
    let fail = |e| io_error(format!("make the folder {}", path.display()), e);
    if !path.is_dir() {
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(path)
            .map_err(fail)?;
        if let Some(parent) = path.parent().filter(|p| !p.as_os_str().is_empty()) {
            sync_folder(parent).map_err(fail)?;
        }
    }
    restrict(path, 0o700).map_err(fail)
}

/// Opens the file for reading and writing, and makes it if it is missing; 0600 in any case.
/// Never a file of the database: see [`super::database`].
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

/// By its path: see [`super::database`].
pub(super) fn restrict(path: &Path, mode: u32) -> io::Result<()> {
    let now = fs::metadata(path)?.permissions().mode() & 0o777;
    // Never widens: a folder made read-only on purpose stays so.
    if now & !mode != 0 {
        fs::set_permissions(path, Permissions::from_mode(now & mode))?;
    }
    Ok(())
}

fn sync_folder(path: &Path) -> io::Result<()> {
    File::open(path)?.sync_all()
}
