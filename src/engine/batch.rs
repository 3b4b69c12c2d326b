//! Calls that run at the same time: idempotent ones, and commands that only read.

use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

use futures_util::stream::{self, Stream, StreamExt};
use tokio::time::timeout;

use super::drive_step::Stoppable;
use super::steps::no_room;
use super::{Engine, EngineError, Write};
use crate::core::access::Access;
use crate::core::entry::{Entry, Guard, Outcome};
use crate::core::exfiltration::recorded_page;
use crate::core::next::MAX_CALLS_AT_ONCE;
use crate::core::tool::{Class, ToolCall};
use crate::tools::ToolResult;
use crate::world::{PrepareError, World};

/// Results that come within this time of each other are recorded in one transaction.
const TOGETHER: Duration = Duration::from_millis(100);

/// The remaining work of a call in a batch.
#[derive(Clone)]
enum Work {
    /// It is idempotent, so its start is not recorded.
    Look,
    /// The command was prepared, and its start is recorded.
    Act(Guard, Option<Access>),
    /// It has its result: a command that cannot be prepared, or a page of a short time ago.
    Ended(Outcome),
}

impl<W: World> Engine<W> {
    /// Runs the calls at the same time. The starts of commands are recorded in one transaction
    /// before any of them runs, and the results in the order of the calls.
    pub(super) async fn run_batch(&mut self, calls: Vec<ToolCall>) -> Result<(), EngineError> {
        let Some(batch) = self.prepare_batch(calls).await? else {
            return Ok(());
        };
        let mut running = Box::pin(self.start_batch(&batch));
        let mut results: BTreeMap<usize, ToolResult> = BTreeMap::new();
        let mut recorded = 0;
        while recorded < batch.len() {
            let step = next_results(&mut running);
            let Some(ready) = self.drive_step_silently(step, Stoppable::Yes).await? else {
                return Ok(());
            };
            if ready.is_empty() {
                return Ok(());
            }
            results.extend(ready);
            let ended: Vec<_> = (recorded..)
                .map_while(|place| Some((batch.get(place)?, results.remove(&place)?)))
                .collect();
            recorded += ended.len();
            self.record_results(ended).await?;
        }
        Ok(())
    }

    /// Prepares the commands of a batch and records their starts. `None`: the user stopped it.
    async fn prepare_batch(
        &mut self,
        calls: Vec<ToolCall>,
    ) -> Result<Option<Vec<(ToolCall, Work)>>, EngineError> {
        let mut batch: Vec<(ToolCall, Work)> = Vec::with_capacity(calls.len());
        for call in calls {
            let now_ms = self.log.world.now_ms();
            let work = if let Some(page) = recorded_page(&self.log.state.page_log(), &call, now_ms)
            {
                Work::Ended(page)
            } else if call.class() == Some(Class::Idempotent) {
                Work::Look
            } else {
                // The rules read the disk, so they may say something else by now.
                let Some(access @ Some(Access::Read)) = self.log.may_run(&call) else {
                    break;
                };
                match self.log.prepare_in_time(&call, access).await? {
                    Ok(guard) => Work::Act(guard, access),
                    Err(PrepareError::Refused(outcome)) => Work::Ended(outcome),
                    Err(PrepareError::NoRoom(why)) => {
                        self.discard(batch.iter().map(|(_, work)| work)).await;
                        return Err(no_room(why));
                    }
                }
            };
            batch.push((call, work));
        }
        let started = batch.iter().filter_map(|(call, work)| match work {
            Work::Act(guard, access) => Some((guard, *access, call.id)),
            Work::Look | Work::Ended(_) => None,
        });
        let entries = started.clone().map(|(guard, access, call)| Entry::Started {
            call,
            guard: guard.clone(),
            access,
        });
        let entries: Vec<Entry> = entries.collect();
        let Some((guard, ..)) = started.into_iter().next() else {
            // Nothing may be done before the answer is in the log.
            self.log.record_pending_answer().await?;
            return Ok(Some(batch));
        };
        let before = self.files_before(guard).await?;
        let may_start = self.requests.left.is_none() && !self.log.state.paused;
        let Some((files, tree)) = before.filter(|_| may_start) else {
            self.discard(batch.iter().map(|(_, work)| work)).await;
            return Ok(None);
        };
        self.log
            .record(Write {
                entries: files.into_iter().chain(entries).collect(),
                tree,
                ..Write::default()
            })
            .await?;
        Ok(Some(batch))
    }

    async fn discard(&mut self, works: impl IntoIterator<Item = &Work>) {
        for work in works {
            if let Work::Act(guard, _) = work {
                self.log.world.discard(guard).await;
            }
        }
    }

    /// Returns the results of the calls, each with the place of its call, as they arrive.
    fn start_batch(
        &self,
        batch: &[(ToolCall, Work)],
    ) -> impl Stream<Item = (usize, ToolResult)> + use<W> {
        let world = Rc::clone(&self.log.world);
        let background = Rc::new(self.log.state.background.clone());
        let room = self
            .log
            .budget()
            .inline_bytes(self.log.policy.windows.inline_max_bytes);
        let calls: Vec<_> = batch
            .iter()
            .map(|(call, work)| {
                let at = match work {
                    Work::Look => self.log.judged(call),
                    Work::Act(..) | Work::Ended(_) => Ok(None),
                };
                (call.clone(), work.clone(), at)
            })
            .collect();
        stream::iter(calls.into_iter().enumerate())
            .map(move |(place, (call, work, at))| {
                let (world, background) = (Rc::clone(&world), Rc::clone(&background));
                async move {
                    let result = match (work, at) {
                        (Work::Look, Ok(_)) if call.is_wait() => {
                            world.wait_for_background(&call, &background).await
                        }
                        (Work::Look, Ok(at)) => {
                            world.run_idempotent(&call, at.as_deref(), room).await
                        }
                        (Work::Look, Err(why)) => ToolResult::error(why.as_str()),
                        (Work::Act(guard, _), _) => world
                            .act(&call, &guard)
                            .await
                            .unwrap_or_else(|| ToolResult::error("it has no result")),
                        (Work::Ended(outcome), _) => ToolResult::of(outcome),
                    };
                    (place, result)
                }
            })
            .buffer_unordered(MAX_CALLS_AT_ONCE)
    }

    async fn record_results(
        &mut self,
        ended: Vec<(&(ToolCall, Work), ToolResult)>,
    ) -> Result<(), EngineError> {
        if ended.is_empty() {
            return Ok(());
        }
        let mut write = Write::default();
        let mut done = Vec::with_capacity(ended.len());
        for ((call, work), mut ran) in ended {
            self.log.note_refused_change(call, &mut ran.outcome);
            write.entries.push(Entry::Finished {
                call: call.id,
                outcome: ran.outcome,
                fact: ran.fact,
                tree: None,
            });
            write.blobs.extend(ran.blobs);
            done.push(work);
        }
        self.log.record(write).await?;
        self.discard(done).await;
        Ok(())
    }
}

/// Waits for the next result, and a short time for those after it.
async fn next_results<T>(running: &mut (impl Stream<Item = T> + Unpin)) -> Vec<T> {
    let mut ready: Vec<T> = running.next().await.into_iter().collect();
    while let Ok(Some(result)) = timeout(TOGETHER, running.next()).await {
        ready.push(result);
    }
    ready
}
