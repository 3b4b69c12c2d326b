//! Import: the sessions of a verified bundle become copies.
//!
//! Invariant: a session that is not a copy never changes.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use super::read::{BundleLine, BundlePart, Lines};
use super::{Bundle, BundleError, CheckedSession};
use crate::core::path::clean;
use crate::core::visible::visible;
use crate::journal::chain_hash::ChainHash;
use crate::journal::line::Parent;
use crate::store::{
    Compared, FileImport, ImportLock, NewReplica, NewSession, PartSink, SessionLock, SessionPart,
    Store, StoreError, append_replica, id_of_copy, is_purged, replica_source,
};

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
    /// Maximum stored size of all files, bytes (`files.max_bytes`).
    pub max_file_bytes: u64,
    /// UTC, milliseconds since 1970.
    pub now_ms: i64,
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
        self.check_room(bundle)?;
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
        drop(reader);
        if bundle.files.states() > 0 {
            let trees = bundle.sessions.iter().map(|session| session.trees.clone());
            let uses = places.iter().map(|place| place.id.clone()).zip(trees);
            bundle.record_files(self.store, self.data_dir, &uses.collect(), self.now_ms)?;
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

    /// Fails if the files that are not here yet are more than the configuration allows.
    fn check_room(&self, bundle: &Bundle) -> Result<(), BundleError> {
        let snapshots = self.store.snapshots();
        let mut needed = 0;
        for (hash, bytes) in &bundle.files.contents {
            if !snapshots.has_content(hash)? {
                needed += bytes;
            }
        }
        let left = self.max_file_bytes.saturating_sub(snapshots.files_bytes()?);
        match needed > left {
            true => Err(BundleError::Full { needed, left }),
            false => Ok(()),
        }
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
            None => session.folder(),
        };
        let new = NewReplica {
            session: NewSession {
                id: place.id.clone(),
                workspace: (self.workspace_of)(Path::new(&folder)),
                folder,
            },
            created_ms: header.created_ms,
            source: replica_source(from),
            forked: header.forked.as_ref().map(|forked| Parent {
                session: here(&forked.session),
                seq: forked.seq,
            }),
            // Only a session of the bundle.
            parent: session
                .parent
                .as_deref()
                .filter(|parent| *parent != header.session && ids.contains_key(parent))
                .map(here),
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

impl CheckedSession {
    /// Returns the folder in which it was used. Empty: none that can be one here.
    pub fn folder(&self) -> String {
        let folder = visible(&self.header.folder);
        match folder.starts_with('/') {
            true => clean(&folder),
            false => String::new(),
        }
    }

    /// Returns the tip of its last entry.
    pub fn tip(&self) -> ChainHash {
        self.tips.last().copied().unwrap_or(self.header.tip)
    }
}

impl Bundle {
    /// Records the files for the sessions here, by the names of their trees.
    fn record_files(
        &self,
        store: &mut Store,
        data_dir: &Path,
        uses: &BTreeMap<String, BTreeSet<String>>,
        at_ms: i64,
    ) -> Result<(), BundleError> {
        let mut lines = Lines::new(&self.input)?;
        let mut next = || loop {
            match lines.next() {
                Ok(Some(BundlePart::Line(_))) => {}
                Ok(part) => return Ok(part),
                // With `partial`, what follows the damage is not wanted.
                Err(_) if self.loss.is_some() => return Ok(None),
                Err(error) => return Err(error),
            }
        };
        let mut import = FileImport::new(store, data_dir, uses, at_ms);
        let mut first = None;
        while let Some(part) = next()? {
            match part {
                BundlePart::Content(hash, bytes) => import.content(hash, &bytes)?,
                BundlePart::Tree(tree) => {
                    first = Some(tree);
                    break;
                }
                BundlePart::Line(_) => {}
            }
        }
        import.trees(&mut || {
            let tree = match first.take() {
                Some(tree) => Some(tree),
                None => next()?.and_then(|part| match part {
                    BundlePart::Tree(tree) => Some(tree),
                    BundlePart::Content(..) | BundlePart::Line(_) => None,
                }),
            };
            // With `partial`, a tree that was not verified is the first one of the damage.
            Ok::<_, BundleError>(tree.filter(|tree| self.files.has(&tree.name)))
        })
    }
}
