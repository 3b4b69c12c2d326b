//! What the journals of a server say of a request, read by an agent.
//!
//! Invariant: an answer that is there counts, whoever is dead.

use std::io;
use std::path::{Path, PathBuf};

use super::end::ServerEnd;
use super::journal::{self, JournalReader, Span};
use super::line::LineKind;
use crate::command::status::How;

/// What became of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fate {
    /// The server never had it, and never will.
    NotBegun,
    /// It is with the server, which lives.
    Running,
    /// The line that came back.
    Answered(Vec<u8>),
    /// It may or may not have happened.
    Lost,
}

/// A server that is over, with what it had said.
#[derive(Debug, Clone)]
pub struct Past {
    folder: PathBuf,
    how: How,
    handed: Option<u64>,
    /// There is no run folder, so nothing can be known.
    is_missing: bool,
}

impl Past {
    pub(super) fn ended(folder: &Path, end: ServerEnd) -> Past {
        Past {
            folder: folder.to_path_buf(),
            how: end.how,
            handed: end.handed,
            is_missing: false,
        }
    }

    pub(super) fn lost(folder: &Path, group: Option<u32>) -> Past {
        Past {
            folder: folder.to_path_buf(),
            how: How::Lost { group },
            handed: None,
            is_missing: false,
        }
    }

    pub(super) fn missing(folder: &Path) -> Past {
        Past {
            is_missing: true,
            ..Past::lost(folder, None)
        }
    }

    pub fn how(&self) -> &How {
        &self.how
    }

    /// # Errors
    /// The journals cannot be read.
    pub fn fate(&self, id: &str) -> io::Result<Fate> {
        if self.is_missing {
            return Ok(Fate::Lost);
        }
        if let Some(answer) = answer(&self.folder, id)? {
            return Ok(Fate::Answered(answer));
        }
        Ok(match request(&self.folder, id)? {
            None => Fate::NotBegun,
            Some(span) if self.handed.is_some_and(|handed| handed <= span.at) => Fate::NotBegun,
            Some(_) => Fate::Lost,
        })
    }
}

/// What the journals say of a request, of a server that lives if `is_kept`.
pub(super) fn fate_unattached(folder: &Path, id: &str, is_kept: bool) -> io::Result<Fate> {
    if let Some(answer) = answer(folder, id)? {
        return Ok(Fate::Answered(answer));
    }
    Ok(match (is_kept, request(folder, id)?) {
        (true, None) => Fate::NotBegun,
        (true, Some(_)) => Fate::Running,
        (false, _) => Fate::Lost,
    })
}

/// Where the request with this id lies in `in`.
fn request(folder: &Path, id: &str) -> io::Result<Option<Span>> {
    find(
        folder,
        journal::INPUT,
        |kind| matches!(kind, LineKind::Request(other) if other == id),
    )
}

/// The first answer with this id.
pub(super) fn answer(folder: &Path, id: &str) -> io::Result<Option<Vec<u8>>> {
    let found = find(
        folder,
        journal::OUTPUT,
        |kind| matches!(kind, LineKind::Answer(other) if other == id),
    )?;
    match found {
        Some(span) => journal::line_at(folder, journal::OUTPUT, span),
        None => Ok(None),
    }
}

fn find(
    folder: &Path,
    name: &'static str,
    is_it: impl Fn(&LineKind) -> bool,
) -> io::Result<Option<Span>> {
    let mut found = None;
    JournalReader::new(folder, name).read(None, |span, line| {
        if found.is_none() && is_it(&LineKind::of(line)) {
            found = Some(span);
        }
    })?;
    Ok(found)
}
