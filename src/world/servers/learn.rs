//! Listing of the tools of servers, in parallel to the work. A server without a known list is asked
//! once the first request has been sent; any other when it was started or reported a change.
//!
//! Invariant: only two things wait for it. A search for tools waits, and only a little once some
//! server is known. A call waits for its own server: for its first list, or for a changed one.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::StreamExt;
use futures_util::future::join_all;
use futures_util::stream::FuturesUnordered;

use super::live::{Learning, LiveServers, RunningServers};
use crate::mcp::catalogue::{self, CatalogueServer};
use crate::store::now_ms;

/// Time limit for listing the tools after a change.
const ANSWERS_WITHIN: Duration = Duration::from_secs(30);

/// Time that a search waits for servers that are not ready, once another one is known.
const FIND_WAITS: Duration = Duration::from_secs(2);

impl Learning {
    fn is_known(&self, server: &str) -> bool {
        !self.catalogue.now().unknown().any(|name| name == server)
    }

    /// Lists the tools of a server that was started or that reported a change. When this returns,
    /// the list is current: a rule's approval is compared with it before a call. Returns false if
    /// the server did not answer.
    pub(super) async fn learn(&self, server: &str, live: &RunningServers, limit: Duration) -> bool {
        let listing = match catalogue::learn(&live.connection, limit).await {
            Ok(listing) => listing,
            Err(error) => {
                self.failed(server, error.to_string());
                return false;
            }
        };
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

    /// Lists the tools of a server that reported a change. A list that was requested after `since`
    /// is new enough, so a server that floods is asked once for all waiting calls.
    async fn list_tools_again(&self, server: &str, live: &RunningServers, since: Instant) {
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
        self.catalogue.failed(server, why);
    }

    /// Returns a message for a person on a server that could not be asked; each only once.
    pub(super) fn take_trouble(&self) -> Option<String> {
        self.catalogue.take_trouble()
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

    /// Starts to ask each unknown server. Each is tried once; a search for tools tries again.
    pub(crate) fn ask_unknown(&self) {
        for server in self.unknown() {
            if !self.is_begun(&server)
                && let Err(why) = self.begin(&server, None)
            {
                self.learning.failed(&server, why);
            }
        }
    }

    /// Returns once the list of this server is current, if the server reported a change. The future
    /// may be dropped: the answer is still used.
    pub(super) async fn learn_if_changed(&self, server: &str, live: &Arc<RunningServers>) {
        if !live.connection.is_changed() {
            return;
        }
        let (learning, since) = (self.learning.clone(), Instant::now());
        let (server, live) = (server.to_string(), Arc::clone(live));
        let asked =
            tokio::spawn(async move { learning.list_tools_again(&server, &live, since).await });
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

    /// Waits for the first list of the server to which this tool would belong, for as long as its
    /// start may take. A server that could not be asked before is not waited for again.
    pub(crate) async fn learn_first(&self, full_name: &str) {
        let now = self.learning.catalogue.now();
        let unknown = now.unknown_of(full_name);
        let unknown = unknown.filter(|server| self.learning.catalogue.trouble(server).is_none());
        if let Some(server) = unknown
            && let Err(why) = self.reach(server, None).await
        {
            self.learning.failed(server, why);
        }
    }

    /// Updates the lists for a search: of servers that are unknown, that changed, or that an
    /// earlier agent left running. Once some server is known, waits for the others only a little.
    /// Returns a line with the reason for each server without news.
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
        lines.extend(waiting.iter().map(|server| {
            if self.learning.is_known(server) {
                format!("server {server}: it listed its tools again; they are unchanged")
            } else {
                format!("server {server}: it is still starting; search again later")
            }
        }));
        lines
    }

    /// Updates the list of one server. `is_left`: a run of it existed before this process. Returns
    /// the reason if nothing new is known.
    async fn learn_one(&self, server: &str, is_left: bool) -> Option<String> {
        let was_known = self.learning.is_known(server);
        let reached = match self.started(server) {
            // A known server is not started for a search.
            None if was_known && !is_left => return None,
            _ => self.reach(server, None).await,
        };
        let trouble = self.learning.catalogue.trouble(server);
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
