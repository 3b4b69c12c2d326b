//! Export of a session as a document: Markdown for people, JSON for programs.
//!
//! Invariant: the document is written entry by entry. Neither the session nor the document is ever
//! in memory as a whole.

mod json;
mod markdown;

use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use tempfile::{NamedTempFile, PersistError};

use super::short_id;
use crate::store::{Store, StoreError};

pub(crate) use json::json;
pub(crate) use markdown::markdown;

/// Maximum number of documents of one session in a folder.
const MAX_NAMES: u32 = 100;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    Markdown,
    Json,
}

#[derive(Debug, thiserror::Error)]
pub enum ExportError {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("cannot write the export: {0}")]
    Write(#[from] io::Error),
    #[error("cannot write {path}: {why}", path = path.display())]
    File { path: PathBuf, why: io::Error },
    #[error("{} exists: nothing was written", .0.display())]
    Exists(PathBuf),
}

impl ExportError {
    /// Returns whether the reader of the output has gone.
    pub fn is_broken_pipe(&self) -> bool {
        matches!(self, ExportError::Write(e) if e.kind() == io::ErrorKind::BrokenPipe)
    }
}

impl Format {
    fn extension(self) -> &'static str {
        match self {
            Format::Markdown => "md",
            Format::Json => "json",
        }
    }

    pub fn write(
        self,
        store: &Store,
        session: &str,
        out: &mut impl Write,
    ) -> Result<(), ExportError> {
        match self {
            Format::Markdown => markdown(store, session, out),
            Format::Json => json(store, session, out),
        }
    }
}

/// Whether a file of the same name may be replaced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Replace {
    Yes,
    No,
}

/// Writes the document to a file, as a whole or not at all.
pub fn to_file(
    store: &Store,
    session: &str,
    format: Format,
    path: &Path,
    replace: Replace,
) -> Result<(), ExportError> {
    let folder = path.parent().filter(|p| !p.as_os_str().is_empty());
    let file = written(store, session, format, folder.unwrap_or(Path::new(".")))?;
    let kept = match replace {
        Replace::Yes => file.persist(path),
        Replace::No => file.persist_noclobber(path),
    };
    kept.map(drop).map_err(|e| match e.error.kind() {
        io::ErrorKind::AlreadyExists => ExportError::Exists(path.to_path_buf()),
        _ => failed(path, e.error),
    })
}

/// Writes the document to a file with a free name in this folder, and returns its path.
pub fn to_folder(
    store: &Store,
    session: &str,
    format: Format,
    folder: &Path,
) -> Result<PathBuf, ExportError> {
    let mut file = written(store, session, format, folder)?;
    let (id, extension) = (short_id(session), format.extension());
    for number in 1..=MAX_NAMES {
        let path = folder.join(match number {
            1 => format!("rewake-{id}.{extension}"),
            n => format!("rewake-{id}-{n}.{extension}"),
        });
        match file.persist_noclobber(&path) {
            Ok(_) => return Ok(path),
            Err(PersistError { error, file: back })
                if error.kind() == io::ErrorKind::AlreadyExists =>
            {
                file = back;
            }
            Err(e) => return Err(failed(&path, e.error)),
        }
    }
    let taken = io::Error::from(io::ErrorKind::AlreadyExists);
    Err(failed(
        &folder.join(format!("rewake-{id}.{extension}")),
        taken,
    ))
}

/// Writes the document to a temporary file that only its owner can read.
fn written(
    store: &Store,
    session: &str,
    format: Format,
    folder: &Path,
) -> Result<NamedTempFile, ExportError> {
    let fail = |why| failed(folder, why);
    let mut file = NamedTempFile::new_in(folder).map_err(fail)?;
    let mut out = BufWriter::new(file.as_file_mut());
    format.write(store, session, &mut out)?;
    out.flush().map_err(fail)?;
    drop(out);
    file.as_file().sync_all().map_err(fail)?;
    Ok(file)
}

fn failed(path: &Path, why: io::Error) -> ExportError {
    ExportError::File {
        path: path.to_path_buf(),
        why,
    }
}

#[cfg(test)]
mod tests;
