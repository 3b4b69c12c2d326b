//! The fate of a request according to the journals of a server, read by an agent.
//!
//! Invariant: an answer in the journal counts, even if the server, the keeper and the agent are
//! dead.

use std::io;
use std::path::{Path, PathBuf};

use super::end::ServerEnd;
use super::journal::{self, JournalReader, Span};
use super::line::LineKind;
use crate::command::status::How;

/// The fate of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ServerOutcome {
    /// The server never got it, and never will.
    NotBegun,
    /// The server has it, and is alive.
    Running,
    /// The answer.
    Answered(Vec<u8>),
    /// It may or may not have happened.
    Lost,
}

/// A server that has ended, with its journals.
#[derive(Debug, Clone)]
pub struct EndedServer {
    folder: PathBuf,
    how: How,
    handed: Option<u64>,
    /// Whether the run folder is missing, so that nothing is known.
    is_missing: bool,
}

impl EndedServer {
    pub(super) fn ended(folder: &Path, end: ServerEnd) -> EndedServer {
        EndedServer {
            folder: folder.to_path_buf(),
            how: end.how,
            handed: end.handed,
            is_missing: false,
        }
    }

    pub(super) fn lost(folder: &Path, group: Option<u32>) -> EndedServer {
        EndedServer {
            folder: folder.to_path_buf(),
            how: How::Lost { group },
            handed: None,
            is_missing: false,
        }
    }

    pub(super) fn missing(folder: &Path) -> EndedServer {
        EndedServer {
            is_missing: true,
            ..EndedServer::lost(folder, None)
        }
    }

    pub fn how(&self) -> &How {
        &self.how
    }

    /// Returns the fate of the request `id`.
    ///
    /// # Errors
    /// The journals cannot be read.
    pub fn outcome(&self, id: &str) -> io::Result<ServerOutcome> {
        if self.is_missing {
            return Ok(ServerOutcome::Lost);
        }
        if let Some(answer) = answer(&self.folder, id)? {
            return Ok(ServerOutcome::Answered(answer));
        }
        Ok(match request(&self.folder, id)? {
            None => ServerOutcome::NotBegun,
            Some(span) if self.handed.is_some_and(|handed| handed <= span.at) => {
                ServerOutcome::NotBegun
            }
            Some(_) => ServerOutcome::Lost,
        })
    }
}

/// Returns the fate of a request from the journals alone. `is_kept` says whether the server is
/// alive.
pub(super) fn outcome_from_journals(
    folder: &Path,
    id: &str,
    is_kept: bool,
) -> io::Result<ServerOutcome> {
    if let Some(answer) = answer(folder, id)? {
        return Ok(ServerOutcome::Answered(answer));
    }
    Ok(match (is_kept, request(folder, id)?) {
        (true, None) => ServerOutcome::NotBegun,
        (true, Some(_)) => ServerOutcome::Running,
        (false, _) => ServerOutcome::Lost,
    })
}

/// Returns the place in `in` of the request with this ID.
fn request(folder: &Path, id: &str) -> io::Result<Option<Span>> {
    find(
        folder,
        journal::INPUT,
        |kind| matches!(kind, LineKind::Request(other) if other == id),
    )
}

/// Returns the first answer with this ID.
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
