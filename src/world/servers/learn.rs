//! What servers say of their tools, learnt beside the work: of one that is not known yet once the
//! first request is on its way, of any other when it was started or says that its list changed.
//!
//! Invariant: nobody waits for it but a search for tools, and that only a little once some server is
//! known; and a call whose server was started for it or says that its list changed.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use futures_util::StreamExt;
use futures_util::future::join_all;
use futures_util::stream::FuturesUnordered;

use super::live::{Live, LiveServers};
use crate::mcp::catalogue::{self, CatalogueServer, SessionCatalogue};
use crate::store::now_ms;
use crate::world::archive::Archive;

/// For the list of its tools, when that changed.
const ANSWERS_WITHIN: Duration = Duration::from_secs(30);

/// So long a search waits for servers that are not ready, once another one is known.
const FIND_WAITS: Duration = Duration::from_secs(2);

/// Where what is learnt is put, for this session and for those to come.
#[derive(Clone)]
pub(crate) struct Learning {
    catalogue: SessionCatalogue,
    archive: Archive,
    /// Why a server that is not known could not be asked.
    troubles: Arc<Mutex<BTreeMap<String, String>>>,
}

impl Learning {
    pub(in crate::world) fn new(catalogue: SessionCatalogue, archive: Archive) -> Learning {
        Learning {
            catalogue,
            archive,
            troubles: Arc::default(),
        }
    }

    fn is_known(&self, server: &str) -> bool {
        !self.catalogue.now().unknown().any(|name| name == server)
    }

    /// A server was started, or says that its list changed. Its tools are as it says now when this
    /// returns: what a rule allowed is compared with that before a call. False: it did not say.
    pub(super) async fn learn(&self, server: &str, live: &Live, limit: Duration) -> bool {
        let listing = match catalogue::learn(&live.connection, limit).await {
            Ok(listing) => listing,
            Err(error) => {
                self.failed(server, error.to_string());
                return false;
            }
        };
        self.troubles().remove(server);
        let now_ms = now_ms();
        let known = live.connection.known();
        if !self.catalogue.learnt(server, known, &listing, now_ms) {
            return true;
        }
        let Some(hash) = self.catalogue.found(server).map(|found| found.hash.clone()) else {
            return true;
        };
        let (archive, name, known) = (self.archive.clone(), server.to_string(), known.clone());
        let keep = move || {
            archive.with(|store| catalogue::keep(store, &name, &hash, &known, &listing, now_ms))
        };
        match tokio::task::spawn_blocking(keep).await {
            Ok(Ok(Ok(()))) => {}
            Ok(Ok(Err(error)) | Err(error)) => {
                tracing::warn!(server, %error, "the tools of a server are not kept");
            }
            Err(error) => tracing::warn!(server, %error, "the tools of a server are not kept"),
        }
        true
    }

    /// Asks a server whose list changed. `since`: a list that was asked for later is new enough, so a
    /// server that floods is asked once for all who wait.
    async fn learn_again(&self, server: &str, live: &Live, since: Instant) {
        let mut relisted = live.relisted.lock().await;
        if relisted.is_enough(since) || !live.connection.is_changed() {
            return;
        }
        live.connection.note_changed(false);
        relisted.begun = Some(Instant::now());
        relisted.is_failed = !self.learn(server, live, ANSWERS_WITHIN).await;
        if relisted.is_failed {
            live.connection.note_changed(true);
        }
    }

    fn failed(&self, server: &str, why: String) {
        tracing::warn!(server, why, "the tools of a server are not known");
        self.troubles().insert(server.to_string(), why);
    }

    fn troubles(&self) -> std::sync::MutexGuard<'_, BTreeMap<String, String>> {
        self.troubles.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl LiveServers {
    fn unknown(&self) -> Vec<String> {
        let now = self.learning.catalogue.now();
        now.unknown().map(str::to_string).collect()
    }

    pub(crate) fn has_unknown(&self) -> bool {
        !self.unknown().is_empty()
    }

    /// Begins to ask each server of which nothing is known. It is tried once; a search for tools
    /// tries it again.
    pub(crate) fn ask_unknown(&self) {
        for server in self.unknown() {
            if !self.is_begun(&server)
                && let Err(why) = self.begin(&server, None)
            {
                self.learning.failed(&server, why);
            }
        }
    }

    /// Returns once the list of this server is as it says now, if it said that its list changed.
    /// May be dropped: its answer is used all the same.
    pub(super) async fn learn_if_changed(&self, server: &str, live: &Arc<Live>) {
        if !live.connection.is_changed() {
            return;
        }
        let (learning, since) = (self.learning.clone(), Instant::now());
        let (server, live) = (server.to_string(), Arc::clone(live));
        let asked = tokio::spawn(async move { learning.learn_again(&server, &live, since).await });
        let _ = asked.await;
    }

    /// Lists the tools of live servers that changed, before a call of one is refused.
    pub(crate) async fn learn_changed(&self) {
        let names = self.names();
        let changed = names.iter().filter_map(|server| {
            let live = self.started(server)?;
            Some(async move { self.learn_if_changed(server, &live).await })
        });
        let _ = tokio::time::timeout(FIND_WAITS, join_all(changed)).await;
    }

    /// Brings what is known up to date for a search: of servers that are not known, that changed, or
    /// that an agent before this one left. Once some server is known, the others are waited for only a
    /// little. Returns a line for each of which nothing new is known, with the reason.
    pub(crate) async fn learn_for_search(&self) -> Vec<String> {
        let left: Vec<String> = self.kept().map(|info| info.spec.name).collect();
        let names = self.names();
        let mut waiting: BTreeSet<&String> = names.iter().collect();
        let mut asked: FuturesUnordered<_> = names
            .iter()
            .map(async |server| (server, self.learn_one(server, left.contains(server)).await))
            .collect();
        let mut lines = Vec::new();
        let mut patience = std::pin::pin!(tokio::time::sleep(FIND_WAITS));
        let mut is_patient = true;
        while is_patient || !self.is_any_known() {
            tokio::select! {
                biased;
                learnt = asked.next() => match learnt {
                    None => return lines,
                    Some((server, line)) => {
                        waiting.remove(server);
                        lines.extend(line);
                    }
                },
                () = &mut patience, if is_patient => is_patient = false,
            }
        }
        lines.extend(
            waiting
                .iter()
                .map(|server| match self.learning.is_known(server) {
                    true => {
                        format!("server {server}: it listed its tools again; they are unchanged")
                    }
                    false => format!("server {server}: it is still starting; search again later"),
                }),
        );
        lines
    }

    /// `is_left`: a run of it was there before this process. Returns why nothing new is known of it.
    async fn learn_one(&self, server: &str, is_left: bool) -> Option<String> {
        let was_known = self.learning.is_known(server);
        let reached = match self.started(server) {
            // One that is known is not started for a search.
            None if was_known && !is_left => return None,
            _ => self.reach(server, None).await,
        };
        let trouble = self.learning.troubles().get(server).cloned();
        let why = match (self.learning.is_known(server), reached) {
            (false, reached) => reached.err().or(trouble),
            (true, Ok(live)) if was_known && live.connection.is_changed() => {
                trouble.map(|why| format!("its tools changed, and it does not list them: {why}"))
            }
            (true, _) => None,
        };
        why.map(|why| format!("server {server}: {why}"))
    }

    fn names(&self) -> Vec<String> {
        let now = self.learning.catalogue.now();
        now.servers
            .iter()
            .map(|server| server.name.clone())
            .collect()
    }

    fn is_any_known(&self) -> bool {
        let now = self.learning.catalogue.now();
        now.servers.iter().any(CatalogueServer::is_known)
    }
}
