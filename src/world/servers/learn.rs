//! What servers say of their tools, learnt beside the work: of one that is not known yet once the
//! first request is on its way, of any other when it was started or says that its list changed.
//!
//! Invariant: nobody waits for it but a search for tools, and that only for servers of which nothing
//! is known; and a call whose server was started for it or says that its list changed.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::future::join_all;

use super::live::{Live, LiveServers};
use crate::mcp::catalogue::{self, SessionCatalogue};
use crate::store::now_ms;
use crate::world::archive::Archive;

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
    /// returns: what a rule allowed is compared with that before a call.
    pub(super) async fn learn(&self, server: &str, live: &Live, limit: Duration) {
        let listing = match catalogue::learn(&live.connection, limit).await {
            Ok(listing) => listing,
            Err(error) => return self.failed(server, error.to_string()),
        };
        self.troubles().remove(server);
        let now_ms = now_ms();
        let known = live.connection.known();
        if !self.catalogue.learnt(server, known, &listing, now_ms) {
            return;
        }
        let Some(hash) = self.catalogue.found(server).map(|found| found.hash.clone()) else {
            return;
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

    /// Waits until each server is known or cannot be asked; why not, a line for each of those.
    pub(crate) async fn wait_for_unknown(&self) -> Vec<String> {
        let asked = self.unknown().into_iter().map(async |server| {
            let reached = self.reach(&server, None).await;
            let trouble = self.learning.troubles().get(&server).cloned();
            let why = match self.learning.is_known(&server) {
                true => None,
                false => reached.err().or(trouble),
            };
            why.map(|why| format!("server {server}: {why}"))
        });
        join_all(asked).await.into_iter().flatten().collect()
    }
}
