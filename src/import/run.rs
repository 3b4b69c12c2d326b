//! The import of one session: its entries are appended to a copy.
//!
//! The ID of a copy follows from its source, so an import finds it again on every machine. If the
//! copy has other entries than the source now has, another copy is made.

use std::io;
use std::path::{Path, PathBuf};

use super::find::{ForeignSession, SourceError};
use super::normal::{Ended, Normal};
use super::opencode::Database;
use super::{Agent, Report};
use crate::store::{
    Copied, NewSession, ReplicaWriter, SessionLock, Store, StoreError, cache_sources, id_of,
    is_purged, now_ms,
};

/// Maximum number of copies of one source.
const MAX_COPIES: u32 = 1_000;

#[derive(Debug, thiserror::Error)]
pub enum ImportError {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Source(#[from] SourceError),
    /// More than half of its lines are of unknown kinds.
    #[error("cannot import {}: it is newer than this version of rewake knows", .0.display())]
    Newer(PathBuf),
    #[error("cannot import {}: it has no message of the user", .0.display())]
    Empty(PathBuf),
    #[error("cannot import {}: its copy {session} was purged", path.display())]
    Purged { path: PathBuf, session: String },
}

impl ImportError {
    /// Returns a hint for a person.
    pub fn hint(&self) -> Option<String> {
        match self {
            ImportError::Store(error) => error.hint(),
            ImportError::Source(_) | ImportError::Empty(_) => None,
            ImportError::Newer(_) => Some("update rewake".to_string()),
            ImportError::Purged { .. } => Some("--new-id imports it again".to_string()),
        }
    }
}

/// A session that was imported.
#[derive(Debug)]
pub struct Imported {
    /// The ID of the copy.
    pub session: String,
    /// Number of entries that were appended.
    pub appended: u64,
    /// The copy that has other entries than the source now has.
    pub before: Option<String>,
    pub report: Report,
}

/// Imports sessions one by one.
pub struct Importer<'a> {
    pub store: &'a mut Store,
    pub data_dir: &'a Path,
    /// Returns the root of the workspace of a folder.
    pub workspace_of: &'a dyn Fn(&Path) -> String,
    /// Makes another copy, whatever copies there are or were.
    pub new_id: bool,
    /// The copy of the last database, with the path of the database.
    pub database: Option<(PathBuf, Database)>,
}

impl Importer<'_> {
    /// Imports a session, or appends what is new in it.
    pub fn import(&mut self, found: &mut ForeignSession) -> Result<Imported, ImportError> {
        if let Some(session) = found.whole_copy().cloned().filter(|_| !self.new_id) {
            self.restore(&session)?;
            return Ok(Imported {
                session,
                appended: 0,
                before: None,
                report: Report::default(),
            });
        }
        if found.is_newer {
            return Err(ImportError::Newer(found.path.clone()));
        }
        if !found.has_messages {
            return Err(ImportError::Empty(found.path.clone()));
        }
        let (newest, free) = self.copies(found)?;
        let database = match (found.agent, self.database.take()) {
            (Agent::Opencode, Some((path, database))) if path == found.path => Some(database),
            (Agent::Opencode, _) => Some(found.database()?),
            _ => None,
        };
        let imported = self.import_from(found, database.as_ref(), newest, free);
        self.database = database.map(|database| (found.path.clone(), database));
        imported
    }

    fn import_from(
        &mut self,
        found: &mut ForeignSession,
        database: Option<&Database>,
        newest: Option<u32>,
        free: u32,
    ) -> Result<Imported, ImportError> {
        let mut before: Option<String> = None;
        for number in newest.filter(|_| !self.new_id).into_iter().chain([free]) {
            let session = id(found, number);
            let (copied, report, printed) = self.copy(found, &session, database)?;
            if let Copied::Appended(appended) = copied {
                found.was_imported(session.clone(), printed);
                self.restore(&session)?;
                cache_sources(self.store, &[found.cached()])?;
                if let Some(before) = &before {
                    self.leave(before)?;
                }
                return Ok(Imported {
                    session,
                    appended,
                    before,
                    report,
                });
            }
            before = Some(session);
        }
        Err(StoreError::no_session(&found.about.id).into())
    }

    /// Returns the number of the newest copy, and the first one that is free.
    fn copies(&self, found: &ForeignSession) -> Result<(Option<u32>, u32), ImportError> {
        let (mut newest, mut purged, mut free) = (None, None, 0);
        for number in 0..MAX_COPIES {
            let session = id(found, number);
            free = number;
            if is_purged(self.data_dir, &session) {
                purged = Some(session);
            } else if self.store.history().knows(&session)? {
                newest = Some(number);
            } else {
                break;
            }
        }
        match (newest, purged) {
            (None, Some(session)) if !self.new_id => Err(ImportError::Purged {
                path: found.path.clone(),
                session,
            }),
            _ => Ok((newest, free)),
        }
    }

    fn copy(
        &mut self,
        found: &ForeignSession,
        session: &str,
        database: Option<&Database>,
    ) -> Result<(Copied, Report, Vec<Option<String>>), ImportError> {
        let mut lock = SessionLock::take(self.data_dir, session)?;
        let folder = found.about.shown_folder();
        let new = NewSession {
            id: session.to_string(),
            workspace: (self.workspace_of)(Path::new(&folder)),
            folder,
        };
        let mut writer = ReplicaWriter::new(self.store, new, found.about.began_ms)?;
        let mut failed = None;
        let mut wants_more = true;
        let mut entries = |at_ms, entry, blobs| {
            if wants_more {
                match writer.push(at_ms, entry, blobs) {
                    Ok(more) => wants_more = more,
                    Err(error) => {
                        failed = Some(error);
                        wants_more = false;
                    }
                }
            }
        };
        let mut normal = Normal::new(found.agent, &found.about, &mut entries);
        let mut report = Report::default();
        let read = found.read(&mut report, &mut |piece| normal.take(piece), database);
        let Ended {
            report: of_entries,
            printed,
            ..
        } = normal.end();
        read.map_err(|e: io::Error| found.unreadable(&e))?;
        if let Some(error) = failed {
            return Err(error.into());
        }
        report.add(of_entries);
        let copied = writer.finish()?;
        lock.recorded();
        Ok((copied, report, printed))
    }

    /// Takes a copy out of the trash: the user wants it.
    fn restore(&mut self, session: &str) -> Result<(), StoreError> {
        match self.store.history().is_in_trash(session)? {
            true => self.store.restore(session),
            false => Ok(()),
        }
    }

    /// Moves a copy to the trash that another one replaces, unless a fork continues it.
    fn leave(&mut self, session: &str) -> Result<(), StoreError> {
        match self.store.history().has_forks(session)? {
            true => Ok(()),
            false => self.store.trash(session, now_ms()),
        }
    }
}

/// Returns the ID of a copy of a source.
fn id(found: &ForeignSession, number: u32) -> String {
    let about = &found.about;
    let branch = found.branch.as_deref().unwrap_or_default();
    let text = format!("{}\0{}\0{branch}\0{number}", found.agent, about.id);
    let hash = blake3::hash(text.as_bytes());
    let mut rest = [0; 10];
    rest.copy_from_slice(&hash.as_bytes()[..10]);
    // People type the milliseconds of an ID: those of two copies differ.
    let ms = u64::try_from(about.began_ms).unwrap_or(0);
    id_of(ms.saturating_add(u64::from(number)), rest)
}
