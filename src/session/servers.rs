//! Sandboxes and abandoned run folders of MCP servers.
//!
//! A run folder is needed in three cases: its server runs, a process uses its session, or the
//! session has an open call to it. In the last case its journal has the outcome of the call.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use super::hooks::confine;
use super::{AppContext, SessionError};
use crate::command::server::{ServerInfo, Servers};
use crate::core::access::Access;
use crate::core::entry::Entry;
use crate::sandbox::Profile;
use crate::store::{SessionLock, Store, StoreError, is_purged, now_ms};

/// Time for which the run folder of a server test is left alone. Such a server does not belong to a
/// session.
const TRIAL_MS: i64 = 3_600_000;

/// Time limit for a server to end: its input is closed, then it is asked to end, then it is killed.
const END_WITHIN: Duration = Duration::from_secs(6);

/// The run folders of servers, in a data folder.
pub struct ServerFolders {
    servers: Servers,
    data_dir: PathBuf,
}

impl AppContext {
    /// Returns the run folders of servers.
    ///
    /// # Errors
    /// As [`AppContext::servers`].
    pub fn server_folders(&self) -> Result<ServerFolders, SessionError> {
        Ok(ServerFolders {
            servers: self.servers()?,
            data_dir: self.paths.data_dir.clone(),
        })
    }

    /// Returns the sandbox profile for a server with this access.
    ///
    /// # Errors
    /// Why no sandbox is available. Then the server must not run.
    pub fn confine_server(&self, session: &str, access: Access) -> Result<Box<Profile>, String> {
        match confine(self, session).map_err(|e| e.to_string())? {
            Some(confine) => confine.profile(access, &[]),
            None => Err("sandbox.enabled is false, or this system has none".to_string()),
        }
    }
}

impl ServerFolders {
    /// Returns the runs of servers that nobody needs.
    pub fn left(&self, store: &Store) -> Vec<String> {
        let mut needed: BTreeMap<String, Needs> = BTreeMap::new();
        let mut is_left = |info: &ServerInfo| {
            let session = &info.spec.session;
            let needs = needed
                .entry(session.clone())
                .or_insert_with(|| self.needs(store, session));
            let is_needed = match needs {
                Needs::All => true,
                Needs::Some(runs) => runs.contains(&info.run),
                Needs::Nobody => now_ms() - info.since_ms < TRIAL_MS,
            };
            !lives(info) && !is_needed
        };
        let list = self.servers.list().into_iter();
        list.filter(|info| is_left(info))
            .map(|info| info.run)
            .collect()
    }

    /// Removes those runs. Returns the number of removed ones.
    pub fn remove_left(&self, store: &Store) -> u64 {
        let left = self.left(store);
        let removed = left.iter().filter(|run| remove(&self.servers, run));
        removed.count() as u64
    }

    /// Returns which runs of a session are needed.
    fn needs(&self, store: &Store, session: &str) -> Needs {
        let data_dir = &self.data_dir;
        if uuid::Uuid::try_parse(session).is_err() {
            return Needs::Nobody;
        }
        if SessionLock::holder(data_dir, session).is_some()
            || SessionLock::is_held(data_dir, session)
        {
            return Needs::All;
        }
        match store.history().find(session) {
            Ok(info) => open_runs(store, &info.id).map_or(Needs::All, Needs::Some),
            // A session that is missing in the database may be restored from the journal.
            Err(_) if is_purged(data_dir, session) => Needs::Some(BTreeSet::new()),
            Err(_) => Needs::All,
        }
    }
}

/// Ends the servers of a session that is gone, and removes their folders.
pub(super) fn end_servers(servers: &Servers, session: &str) {
    let own = servers.list().into_iter();
    let own: Vec<ServerInfo> = own.filter(|info| info.spec.session == session).collect();
    for info in own.iter().filter(|info| lives(info)) {
        if let Err(error) = servers.stop(&info.run) {
            tracing::warn!(run = info.run, %error, "a server was not stopped");
        }
    }
    let since = Instant::now();
    for info in own {
        while !remove(servers, &info.run) && since.elapsed() < END_WITHIN {
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

enum Needs {
    /// A process uses the session, or it cannot be read.
    All,
    /// The runs of its open calls.
    Some(BTreeSet<String>),
    /// The name does not belong to a session.
    Nobody,
}

fn lives(info: &ServerInfo) -> bool {
    info.is_kept || info.group.is_some()
}

/// Removes a run folder, unless its server runs or is about to. Returns whether it is gone.
fn remove(servers: &Servers, run: &str) -> bool {
    servers.remove(run).unwrap_or_else(|error| {
        tracing::warn!(run, %error, "a run folder stays");
        false
    })
}

/// Returns the runs of calls without a result.
fn open_runs(store: &Store, session: &str) -> Result<BTreeSet<String>, StoreError> {
    let mut open = BTreeMap::new();
    store.load_each(session, |record| {
        match &record.entry {
            Entry::Started { call, guard, .. } => {
                if let Some(run) = guard.run() {
                    open.insert(*call, run.to_string());
                }
            }
            Entry::Finished { call, .. } => drop(open.remove(call)),
            _ => {}
        }
        Ok::<(), StoreError>(())
    })?;
    Ok(open.into_values().collect())
}
