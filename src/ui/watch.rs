//! A session that another process works in, looked at while it works. Nothing is locked,
//! nothing is written: new entries and the streamed words are read from the store.

use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::time::Duration;

use super::OnEngineEvent;
use super::live::{EngineEvent, NotOpened, Now, Opening, waiting};
use crate::core::state::State;
use crate::model::Delta;
use crate::session::{AppContext, SessionError};
use crate::store::Store;
use crate::tools;

/// How far behind the screen is.
const LOOK: Duration = Duration::from_millis(200);

/// As many of the last entries are shown at first.
const RECENT: u64 = 600;

/// Dropped, the looking ends.
pub(super) struct Watch {
    _stop: Sender<()>,
}

impl Watch {
    pub(super) fn start(ctx: Arc<AppContext>, id: String, on_event: OnEngineEvent) -> Watch {
        let (stop, stopped) = channel();
        std::thread::spawn(move || {
            let mut follower = match Follower::begin(&ctx, &id, &on_event) {
                Ok(follower) => follower,
                Err(error) => return on_event(EngineEvent::NotOpened(NotOpened::from(error))),
            };
            while let Err(RecvTimeoutError::Timeout) = stopped.recv_timeout(LOOK) {
                if let Err(error) = follower.again(&ctx, &on_event) {
                    tracing::warn!(%error, "a session cannot be watched any more");
                    return on_event(EngineEvent::Ended(Some((error.to_string(), error.hint()))));
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
    /// The streamed text that was sent to the screen.
    streamed: String,
}

impl Follower {
    fn begin(
        ctx: &AppContext,
        id: &str,
        on_event: &OnEngineEvent,
    ) -> Result<Follower, SessionError> {
        let store = ctx.open_store()?;
        let id = store.find(id)?.id;
        let mut follower = Follower {
            store,
            id,
            state: State::new(tools::describe),
            streamed: String::new(),
        };
        let mut recent = Vec::new();
        let state = &mut follower.state;
        let length = follower.store.find(&follower.id)?.entries;
        follower.store.load_each(&follower.id, |record| {
            let folded = state.fold(&record);
            if record.seq + RECENT >= length {
                recent.push(record);
            }
            folded.map_err(|why| SessionError::Illegal {
                session: follower.id.clone(),
                why,
            })
        })?;
        on_event(EngineEvent::Opened(Box::new(Opening {
            id: follower.id.clone(),
            found: None,
            warnings: Vec::new(),
            recent,
            // Only the tokens are shown: the price is the other process's to tell.
            cost_usd: None,
            queued: waiting(&follower.store, &follower.id)?,
            input: None,
            edited: None,
            now: Now::of(
                &follower.state,
                &ctx.gauging(&follower.store, &follower.state.model)?,
            ),
        })));
        on_event(EngineEvent::Watching);
        follower.again(ctx, on_event)?;
        Ok(follower)
    }

    fn again(&mut self, ctx: &AppContext, on_event: &OnEngineEvent) -> Result<(), SessionError> {
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
                on_event(EngineEvent::Recorded(Box::new(record), Box::new(now)));
            }
            on_event(EngineEvent::Requeued(waiting(&self.store, &self.id)?));
            self.streamed.clear();
        }
        let stream = self.store.drafts(&self.id)?.stream.unwrap_or_default();
        if let Some(more) = stream
            .strip_prefix(&self.streamed)
            .filter(|m| !m.is_empty())
        {
            on_event(EngineEvent::Delta(Delta::Text(more.to_string())));
        }
        self.streamed = stream;
        if !ctx.is_in_use(&self.id) {
            on_event(EngineEvent::Free);
        }
        Ok(())
    }
}
