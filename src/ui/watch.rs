//! A session that another process works in, looked at while it works. Nothing is locked,
//! nothing is written: new entries and the streamed words are read from the store.

use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::time::Duration;

use super::Tell;
use super::live::{EngineEvent, NotOpened, Now, Opening, waiting};
use crate::core::state::State;
use crate::model::Delta;
use crate::session::{AppContext, SessionError};
use crate::store::Store;

/// How far behind the screen is.
const LOOK: Duration = Duration::from_millis(200);

/// As many of the last entries are shown at first.
const RECENT: u64 = 600;

/// Dropped, the looking ends.
pub struct Watch {
    _stop: Sender<()>,
}

impl Watch {
    pub fn start(ctx: Arc<AppContext>, id: String, tell: Tell) -> Watch {
        let (stop, stopped) = channel();
        std::thread::spawn(move || {
            let mut look = match Follower::begin(&ctx, &id, &tell) {
                Ok(look) => look,
                Err(error) => return tell(EngineEvent::NotOpened(NotOpened::from(error))),
            };
            while let Err(RecvTimeoutError::Timeout) = stopped.recv_timeout(LOOK) {
                if let Err(error) = look.again(&ctx, &tell) {
                    tracing::warn!(%error, "a session cannot be watched any more");
                    return tell(EngineEvent::Ended(Some((error.to_string(), error.hint()))));
                }
            }
        });
        Watch { _stop: stop }
    }
}

/// Follows a session that another process works in.
struct Follower {
    store: Store,
    id: String,
    state: State,
    /// The streamed words that were told.
    told: String,
}

impl Follower {
    fn begin(ctx: &AppContext, id: &str, tell: &Tell) -> Result<Follower, SessionError> {
        let store = ctx.open_store()?;
        let id = store.find(id)?.id;
        let mut look = Follower {
            store,
            id,
            state: State::default(),
            told: String::new(),
        };
        let mut recent = Vec::new();
        let state = &mut look.state;
        let length = look.store.find(&look.id)?.entries;
        look.store.load_each(&look.id, |record| {
            let folded = state.fold(&record);
            if record.seq + RECENT >= length {
                recent.push(record);
            }
            folded.map_err(|why| SessionError::Illegal {
                session: look.id.clone(),
                why,
            })
        })?;
        tell(EngineEvent::Opened(Box::new(Opening {
            id: look.id.clone(),
            found: None,
            warnings: Vec::new(),
            recent,
            // Only the tokens are shown: the price is the other process's to tell.
            cost_usd: None,
            queued: waiting(&look.store, &look.id)?,
            input: None,
            now: Now::of(&look.state, &ctx.gauging(&look.store, &look.state.model)?),
        })));
        tell(EngineEvent::Watching);
        look.again(ctx, tell)?;
        Ok(look)
    }

    fn again(&mut self, ctx: &AppContext, tell: &Tell) -> Result<(), SessionError> {
        let next = self.state.next_seq();
        let length = self.store.find(&self.id)?.entries;
        if length > next {
            let gauging = ctx.gauging(&self.store, &self.state.model)?;
            for record in self.store.records(&self.id, next..=length - 1)? {
                self.state
                    .fold(&record)
                    .map_err(|why| SessionError::Illegal {
                        session: self.id.clone(),
                        why,
                    })?;
                let now = Now::of(&self.state, &gauging);
                tell(EngineEvent::Recorded(Box::new(record), Box::new(now)));
            }
            tell(EngineEvent::Requeued(waiting(&self.store, &self.id)?));
            self.told.clear();
        }
        let stream = self.store.drafts(&self.id)?.stream.unwrap_or_default();
        if let Some(more) = stream.strip_prefix(&self.told).filter(|m| !m.is_empty()) {
            tell(EngineEvent::Delta(Delta::Text(more.to_string())));
        }
        self.told = stream;
        if !ctx.is_in_use(&self.id) {
            tell(EngineEvent::Free);
        }
        Ok(())
    }
}
