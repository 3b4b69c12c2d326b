//! Reading other copies of the store, which the user names with `--from`.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::journal::folder::folders;
use crate::store::StoreError;
use crate::store::recovering::{database, io_error};

/// Returns the database and the journal in a path of `--from`: a data folder, a journal or a
/// database.
pub(super) fn copy_in(from: &Path) -> Result<(Option<PathBuf>, Option<PathBuf>), StoreError> {
    let none = || {
        let what = format!("find a database or a journal in {}", from.display());
        io_error(what, io::ErrorKind::NotFound.into())
    };
    if from.is_file() {
        return Ok((Some(from.to_path_buf()), None));
    }
    let database = database::exists(from).then(|| database::names(from).database);
    let journal = [from.join("journal"), from.to_path_buf()];
    let journal = journal
        .into_iter()
        .find(|folder| !folders(folder).is_empty());
    match (&database, &journal) {
        (None, None) => Err(none()),
        _ => Ok((database, journal)),
    }
}

pub(super) fn copy_files(from: &Path, to: &Path) -> io::Result<()> {
    fs::copy(from, to)?;
    match fs::copy(database::wal_path(from), database::wal_path(to)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        copied => copied.map(drop),
    }
}
