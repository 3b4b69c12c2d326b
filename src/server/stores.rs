//! Access of requests to the store. Reads share a few open connections. Each write opens a new
//! one, like a subcommand.
//!
//! Reading a row blocks, so all of it runs on blocking threads. Unused connections are closed
//! soon, because another version may want to migrate the store.

use std::convert::Infallible;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::Semaphore;

use super::problem::Problem;
use crate::session::AppContext;
use crate::store::{SessionInfo, Store, StoreError};

/// Maximum number of requests that use the store at the same time. Others wait.
pub(super) const MAX_AT_ONCE: usize = 8;

/// Maximum time that a request waits for its turn.
const PATIENCE: Duration = Duration::from_secs(20);

/// Time after which an unused connection is closed.
const IDLE: Duration = Duration::from_secs(5);

pub(super) struct Stores {
    ctx: Arc<AppContext>,
    idle: Mutex<Vec<(Instant, Store)>>,
    turns: Semaphore,
}

impl Stores {
    pub(super) fn new(ctx: Arc<AppContext>) -> Stores {
        Stores {
            ctx,
            idle: Mutex::new(Vec::new()),
            turns: Semaphore::new(MAX_AT_ONCE),
        }
    }

    pub(super) fn ctx(&self) -> &AppContext {
        &self.ctx
    }

    /// Runs `act` with an open store on a blocking thread. It only writes data derived from
    /// entries, such as the search index.
    pub(super) async fn read<T: Send + 'static>(
        self: &Arc<Stores>,
        look: impl FnOnce(&AppContext, &mut Store) -> Result<T, Problem> + Send + 'static,
    ) -> Result<T, Problem> {
        self.blocking(move |stores| {
            let mut store = stores.opened()?;
            let found = look(&stores.ctx, &mut store);
            stores.give_back(store);
            found
        })
        .await
    }

    /// Same as `read`, with a separate store that allows writing.
    pub(super) async fn write<T: Send + 'static>(
        self: &Arc<Stores>,
        act: impl FnOnce(&AppContext, &mut Store) -> Result<T, Problem> + Send + 'static,
    ) -> Result<T, Problem> {
        self.blocking(move |stores| {
            // Prevents the creation of a new store if the old one was moved away.
            stores.give_back(stores.opened()?);
            let mut store = stores.ctx.open_store()?;
            act(&stores.ctx, &mut store)
        })
        .await
    }

    /// Same as `write`, for the session that `id` names. Returns its full ID too.
    pub(super) async fn write_session<T: Send + 'static>(
        self: &Arc<Stores>,
        id: String,
        act: impl FnOnce(&AppContext, &mut Store, &SessionInfo) -> Result<T, Problem> + Send + 'static,
    ) -> Result<(String, T), Problem> {
        self.write(move |ctx, store| {
            let info = store.history().find(&id)?;
            let done = act(ctx, store, &info)?;
            Ok((info.id, done))
        })
        .await
    }

    async fn blocking<T: Send + 'static>(
        self: &Arc<Stores>,
        work: impl FnOnce(&Stores) -> Result<T, Problem> + Send + 'static,
    ) -> Result<T, Problem> {
        let turn = tokio::time::timeout(PATIENCE, self.turns.acquire()).await;
        let Ok(Ok(_turn)) = turn else {
            return Err(
                Problem::busy("too many requests wait for the session store")
                    .hint("ask again in a moment"),
            );
        };
        let stores = Arc::clone(self);
        match tokio::task::spawn_blocking(move || work(&stores)).await {
            Ok(done) => done,
            Err(error) => Err(Problem::inside(&error)),
        }
    }

    fn opened(&self) -> Result<Store, Problem> {
        let idle = || {
            let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
            idle.pop()
        };
        while let Some((_, store)) = idle() {
            if store.check_names().is_ok() {
                return Ok(store);
            }
        }
        open(&self.ctx)
    }

    fn give_back(&self, store: Store) {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        idle.push((Instant::now(), store));
    }

    /// Closes idle connections, in an endless loop.
    pub(super) async fn close_idle(&self) -> Infallible {
        loop {
            tokio::time::sleep(IDLE).await;
            let now = Instant::now();
            let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
            idle.retain(|(since, _)| now.duration_since(*since) < IDLE);
        }
    }
}

/// Opens the store for reading. It is never created, so one that was moved away is an error.
pub(super) fn open(ctx: &AppContext) -> Result<Store, Problem> {
    let data_dir = &ctx.paths.data_dir;
    let missing = || {
        Problem::busy(format!(
            "there is no session store in {}",
            data_dir.display()
        ))
        .hint("it was moved or removed while this serves: put it back, or restart rewake serve")
    };
    match Store::open_current(data_dir) {
        Ok(Some(store)) => Ok(store),
        Ok(None) => Err(missing()),
        Err(StoreError::Io { source, .. }) if source.kind() == std::io::ErrorKind::NotFound => {
            Err(missing())
        }
        Err(error) => Err(error.into()),
    }
}
