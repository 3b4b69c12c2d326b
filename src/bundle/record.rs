//! Import: the sessions of a verified bundle become copies.
//!
//! Invariant: a session that is not a copy never changes.

use std::collections::BTreeMap;
use std::path::Path;

use super::read::BundleLine;
use super::{Bundle, BundleError, CheckedSession};
use crate::core::text::one_line;
use crate::core::visible::visible;
use crate::journal::chain_hash::ChainHash;
use crate::journal::line::Parent;
use crate::store::{
    Compared, ImportLock, NewReplica, NewSession, PartSink, SessionLock, SessionPart, Store,
    StoreError, append_replica, id_of_copy, is_purged, replica_source,
};

/// Maximum length of the name of a host, characters.
const HOST_CHARS: usize = 60;
/// Maximum number of copies of one session.
const MAX_COPIES: u32 = 100;

/// Imports the sessions of a bundle.
pub struct Importer<'a> {
    pub store: &'a mut Store,
    pub data_dir: &'a Path,
    /// The folder in which the copies are continued. `None`: that of each session.
    pub folder: Option<&'a Path>,
    /// Returns the root of the workspace of a folder.
    pub workspace_of: &'a dyn Fn(&Path) -> String,
    /// Imports a session whose copy was purged, under another ID.
    pub new_id: bool,
}

/// A session that was imported.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Import {
    /// The ID here.
    pub session: String,
    /// Number of entries that were recorded.
    pub appended: u64,
    pub open_calls: u64,
    pub is_named: bool,
}

/// The place of a session of the bundle here.
struct Place {
    id: String,
    compared: Compared,
}

impl Importer<'_> {
    /// Records what is not here yet.
    ///
    /// # Errors
    /// Each session is there completely or not at all. The next import completes the others.
    pub fn import(&mut self, bundle: &Bundle) -> Result<Vec<Import>, BundleError> {
        let _lock = ImportLock::take(self.data_dir)?;
        let disk = rustix::fs::statvfs(self.data_dir).map_err(std::io::Error::from)?;
        let free = disk.f_bavail.saturating_mul(disk.f_frsize);
        if bundle.about.bytes > free {
            let needed = bundle.about.bytes;
            return Err(BundleError::NoSpace { needed, free });
        }
        // All IDs are known before the first row is written.
        let mut places = Vec::new();
        for session in &bundle.sessions {
            places.push(self.place(session)?);
        }
        let ids: BTreeMap<&str, &str> = bundle
            .sessions
            .iter()
            .zip(&places)
            .map(|(session, place)| (session.header.session.as_str(), place.id.as_str()))
            .collect();
        let mut appended = vec![0; places.len()];
        let mut reader = bundle.reader()?;
        for (number, place) in places.iter().enumerate() {
            if place.compared != Compared::Whole {
                let mut next = || reader.next_of(number);
                let session = &bundle.sessions[number];
                appended[number] =
                    self.record(&bundle.about.host, session, place, &ids, &mut next)?;
            }
        }
        let all = bundle.sessions.iter().zip(places).zip(appended);
        let import = |((session, place), appended): ((&CheckedSession, Place), u64)| Import {
            session: place.id,
            appended,
            open_calls: session.open_calls,
            is_named: session.is_named,
        };
        Ok(all.map(import).collect())
    }

    /// Returns the ID that a session has here, or gets.
    fn place(&self, session: &CheckedSession) -> Result<Place, BundleError> {
        let header = &session.header;
        let last = session.tip();
        let mut id = header.session.clone();
        for _ in 0..MAX_COPIES {
            let compared = match is_purged(self.data_dir, &id) {
                true if !self.new_id => return Err(BundleError::Purged { session: id }),
                true => Compared::Differs,
                false => {
                    let (first, before) = (header.first, header.tip);
                    self.store
                        .history()
                        .compared(&id, first, before, &session.tips)?
                }
            };
            if compared != Compared::Differs {
                return Ok(Place { id, compared });
            }
            id = id_of_copy(&id, last);
        }
        Err(StoreError::no_session(&header.session).into())
    }

    /// Records a session, or the entries that its copy lacks.
    fn record(
        &mut self,
        from: &str,
        session: &CheckedSession,
        place: &Place,
        ids: &BTreeMap<&str, &str>,
        next: &mut dyn FnMut() -> Result<Option<BundleLine>, BundleError>,
    ) -> Result<u64, BundleError> {
        let header = &session.header;
        let here = |id: &str| {
            ids.get(id)
                .map_or_else(|| id.to_string(), |id| (*id).to_string())
        };
        let folder = match self.folder {
            Some(folder) => folder.to_string_lossy().into_owned(),
            None => visible(&header.folder).into_owned(),
        };
        let new = NewReplica {
            session: NewSession {
                id: place.id.clone(),
                workspace: (self.workspace_of)(Path::new(&folder)),
                folder,
            },
            created_ms: header.created_ms,
            source: replica_source(&host(from)),
            forked: header.forked.as_ref().map(|forked| Parent {
                session: here(&forked.session),
                seq: forked.seq,
            }),
            parent: session.parent.as_deref().map(here),
        };
        let mut lock = SessionLock::take(self.data_dir, &place.id)?;
        let pass_on = |sink: PartSink<'_>| {
            while let Some(line) = next()? {
                match &line {
                    BundleLine::Blob(bytes) => sink(SessionPart::Blob(bytes))?,
                    BundleLine::Entry(line) => sink(SessionPart::Entry(line))?,
                }
            }
            Ok(())
        };
        let appended = append_replica::<BundleError>(self.store, &new, pass_on)?;
        lock.recorded();
        Ok(appended)
    }
}

/// Returns the name of a host without control characters.
pub(super) fn host(name: &str) -> String {
    one_line(&visible(name), HOST_CHARS)
}

impl CheckedSession {
    /// Returns the tip of its last entry.
    pub fn tip(&self) -> ChainHash {
        self.tips.last().copied().unwrap_or(self.header.tip)
    }
}
