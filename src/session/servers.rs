//! Servers of the Model Context Protocol beside a session: their sandbox, and run folders that nobody
//! needs any more.
//!
//! A folder is needed while something of it lives, while a process works in its session, and while a
//! call of that session is open that was made to it: what became of the call is in its journal.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use super::{AppContext, SessionError, permissions, sandbox};
use crate::command::server::{ServerInfo, Servers};
use crate::config::mcp::FoundServers;
use crate::core::access::Access;
use crate::core::entry::Entry;
use crate::mcp::catalogue::SessionCatalogue;
use crate::sandbox::Profile;
use crate::store::{SessionLock, Store, StoreError, is_purged, now_ms};

/// A server that is tried belongs to no session: its folder is left alone for so long.
const TRIAL_MS: i64 = 3_600_000;

/// A server has to close its input, then is asked to end, then is killed.
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

    /// The profile of a server that is to run at this level.
    ///
    /// # Errors
    /// Why there is no sandbox for it: it must not run.
    pub fn confine_server(&self, session: &str, access: Access) -> Result<Box<Profile>, String> {
        let runs = self.runs().map_err(|e| e.to_string())?;
        let no_servers = SessionCatalogue::unknown(FoundServers::default());
        let (_, hidden) = permissions::permission_check(self, &self.here.root, runs, no_servers)
            .map_err(|e| e.to_string())?;
        match sandbox::confine(self, session, hidden) {
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

    /// Removes them: how many are gone.
    pub fn remove_left(&self, store: &Store) -> u64 {
        let left = self.left(store);
        let removed = left.iter().filter(|run| remove(&self.servers, run));
        removed.count() as u64
    }

    /// What of a session's servers is needed.
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
        match store.find(session) {
            Ok(info) => open_runs(store, &info.id).map_or(Needs::All, Needs::Some),
            // What is not in the database may be in the journal, and come back.
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
    /// A process works in it, or it cannot be read.
    All,
    /// Those of its open calls.
    Some(BTreeSet<String>),
    /// It is the name of no session.
    Nobody,
}

fn lives(info: &ServerInfo) -> bool {
    info.is_kept || info.group.is_some()
}

/// A folder whose server lives, or is about to, stays.
fn remove(servers: &Servers, run: &str) -> bool {
    servers.remove(run).unwrap_or_else(|error| {
        tracing::warn!(run, %error, "a run folder stays");
        false
    })
}

/// The runs that calls without a result name.
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
