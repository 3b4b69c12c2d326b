//! The thread that reads for the pane, with a store of its own.
//!
//! The store is opened when something is first asked, so a screen on which nobody looks back
//! pays nothing.

use std::sync::Arc;
use std::thread;

use jiff::tz::TimeZone;

use super::queue::Queue;
use super::read::{Reader, failed};
use super::{Ask, Found};
use crate::session::AppContext;
use crate::store::StoreError;

pub struct Worker {
    queue: Arc<Queue>,
}

impl Worker {
    /// `tell` is called on the worker's thread with every answer.
    pub fn start(ctx: Arc<AppContext>, tell: Arc<dyn Fn(Found) + Send + Sync>) -> Worker {
        let queue = Arc::new(Queue::default());
        let theirs = Arc::clone(&queue);
        let work = move || {
            let mut reader = None;
            while let Some(ask) = theirs.next() {
                let found = match ready(&mut reader, &ctx) {
                    Ok(reader) => reader.answer(&ask, &theirs),
                    Err(error) => Some(failed(&ask, &error)),
                };
                if let Some(found) = found {
                    tell(found);
                }
            }
        };
        let started = thread::Builder::new()
            .name("history".to_string())
            .spawn(work);
        if let Err(error) = started {
            tracing::error!(%error, "the history pane has no thread");
        }
        Worker { queue }
    }

    /// Never waits.
    pub fn ask(&self, ask: Ask) {
        self.queue.push(ask);
    }
}

impl Drop for Worker {
    /// The thread ends after what it is at; nobody waits for it.
    fn drop(&mut self) {
        self.queue.close();
    }
}

fn ready<'a, 'b>(
    reader: &'a mut Option<Reader<'b>>,
    ctx: &'b AppContext,
) -> Result<&'a mut Reader<'b>, StoreError> {
    match reader {
        Some(reader) => Ok(reader),
        None => Ok(reader.insert(Reader::open(ctx, TimeZone::system())?)),
    }
}
