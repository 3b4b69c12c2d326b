//! The thread that reads for the pane, with its own store.
//!
//! It opens the store at the first request, so a screen whose history is never opened pays nothing.

use std::sync::Arc;
use std::thread;

use jiff::tz::TimeZone;

use super::queue::Queue;
use super::read::{HistoryReader, failed};
use super::{HistoryRequest, HistoryResponse};
use crate::session::AppContext;
use crate::store::StoreError;

pub(crate) struct HistoryWorker {
    queue: Arc<Queue>,
}

impl HistoryWorker {
    /// Starts the worker. `respond` is called on its thread with every response.
    pub(crate) fn start(
        ctx: Arc<AppContext>,
        respond: Arc<dyn Fn(HistoryResponse) + Send + Sync>,
    ) -> HistoryWorker {
        let queue = Arc::new(Queue::default());
        let theirs = Arc::clone(&queue);
        let work = move || {
            let mut reader = None;
            while let Some(request) = theirs.next() {
                let response = match ready(&mut reader, &ctx) {
                    Ok(reader) => reader.answer(&request, &theirs),
                    Err(error) => Some(failed(&request, &error)),
                };
                if let Some(response) = response {
                    respond(response);
                }
            }
        };
        let started = thread::Builder::new()
            .name("history".to_string())
            .spawn(work);
        if let Err(error) = started {
            tracing::error!(%error, "the history pane has no thread");
        }
        HistoryWorker { queue }
    }

    /// Sends a request. It never waits.
    pub(crate) fn ask(&self, request: HistoryRequest) {
        self.queue.push(request);
    }
}

impl Drop for HistoryWorker {
    /// Tells the thread to end after its current request. Nobody waits for it.
    fn drop(&mut self) {
        self.queue.close();
    }
}

fn ready<'a, 'b>(
    reader: &'a mut Option<HistoryReader<'b>>,
    ctx: &'b AppContext,
) -> Result<&'a mut HistoryReader<'b>, StoreError> {
    match reader {
        Some(reader) => Ok(reader),
        None => Ok(reader.insert(HistoryReader::open(ctx, TimeZone::system())?)),
    }
}
