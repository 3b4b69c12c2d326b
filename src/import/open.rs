//! Opens files of other agents: regular ones only, without links.

use std::fs::File;
use std::io;
use std::path::Path;

use crate::workspace::handle::Folder;

/// Opens a regular file below a folder; no part of its path may be a link.
pub(super) fn regular(folder: &Folder, path: &Path) -> io::Result<File> {
    let file = folder.file(path)?;
    match file.metadata()?.is_file() {
        true => Ok(file),
        false => Err(io::Error::other("it is not a regular file")),
    }
}
