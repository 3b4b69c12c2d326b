//! Hooks: prepared and recorded with the entry that they follow, run when `next` says so, and
//! recorded again with what their answers allow.
//!
//! Invariant: a hook starts only after its `Hooking` is durable, and never twice. A call starts
//! only after its `Hooked` is in the log.

use std::rc::Rc;
use std::time::Duration;

use futures_util::future::join_all;
use tokio::time::timeout;

use super::drive_step::Stoppable;
use super::steps::STOP_PATIENCE;
use super::{Engine, EngineError, Recorder, Write};
use crate::core::entry::{
    CallId, Entry, Fact, Failure, FailureClass, Guard, HookEvent, HookResult, HookRun, HookVerdict,
    HookWrote, Record, Seq,
};
use crate::core::hook::PendingHooks;
use crate::core::hook_event::event_after;
use crate::core::next::{Step, next};
use crate::core::state::State;
use crate::core::tool::ToolCall;
use crate::world::{HookEnd, HookOccasion, World};

/// The hooks of a `Hooking` that are about one call, or about none.
struct HookGroup {
    call: Option<CallId>,
    /// The call, with the arguments that apply now.
    described: Option<ToolCall>,
    runs: Vec<HookRun>,
    /// The file that the call wrote.
    wrote: Option<HookWrote>,
}

/// The reason why the hooks of `SessionStart` run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SessionStart {
    /// A new session.
    Startup,
    /// A session that a process opened again.
    Resume {
        /// The last process did not leave it in order.
        recovered: bool,
    },
}

impl<W: World> Recorder<W> {
    /// Prepares the hooks that these entries cause, which were just folded. Returns the entries
    /// that record them.
    pub(super) fn hooks_after(&self, entries: &[Entry]) -> Vec<Entry> {
        let first = self.state.next_seq() - entries.len() as Seq;
        let mut hooking: Vec<Entry> = Vec::new();
        for (of, entry) in (first..).zip(entries) {
            let Some((event, calls)) = event_after(entry, &self.state) else {
                continue;
            };
            let runs = calls.into_iter().flat_map(|call| {
                let occasion = HookOccasion::of(event, of, entry, call);
                self.world.prepare_hooks(&occasion, &self.state)
            });
            let runs: Vec<HookRun> = runs.collect();
            match hooking.last_mut() {
                Some(Entry::Hooking {
                    event: same,
                    runs: before,
                    ..
                }) if *same == event => before.extend(runs),
                _ if runs.is_empty() => {}
                _ => hooking.push(Entry::Hooking { event, of, runs }),
            }
        }
        hooking
    }

    /// Starts the hooks of these entries for which nobody waits. The entries are recorded.
    pub(super) fn fire_hooks_after(&self, first: Seq, entries: &[Entry]) {
        for (of, entry) in (first..).zip(entries) {
            let Some((event, calls)) = event_after(entry, &self.state) else {
                continue;
            };
            for call in calls {
                let occasion = HookOccasion::of(event, of, entry, call);
                self.world.fire_hooks(&occasion, &self.state);
            }
        }
    }

    /// Starts the hooks of an event that is not recorded.
    pub(super) fn fire_hooks(&self, event: HookEvent, matched: &'static str) {
        let occasion = HookOccasion {
            matched,
            ..HookOccasion::new(event, self.state.next_seq().saturating_sub(1))
        };
        self.world.fire_hooks(&occasion, &self.state);
    }

    /// Removes the run folders of hooks that ended, or that were not recorded.
    pub(super) async fn discard_hooks(&self, runs: &[HookRun]) {
        for run in runs.iter().filter(|run| run.failed.is_none()) {
            let guard = Guard::Supervised {
                run: run.run.clone(),
                boot: run.boot.clone(),
                background: false,
            };
            self.world.discard(&guard).await;
        }
    }

    /// Records the hooks of an occasion that follows from no entry. Returns false if there are
    /// none.
    async fn record_hooking(&mut self, occasion: HookOccasion<'_>) -> Result<bool, EngineError> {
        let (event, of) = (occasion.event, occasion.of);
        let runs = self.world.prepare_hooks(&occasion, &self.state);
        if runs.is_empty() {
            return Ok(false);
        }
        let hooking = Entry::Hooking { event, of, runs };
        self.record(Write::of(hooking)).await?;
        Ok(true)
    }

    /// Records the hooks of a question about a call, if there are any that have not run.
    pub(super) async fn request_permission(&mut self, call: CallId) -> Result<bool, EngineError> {
        let guards = self.state.hooks.guards(call);
        if guards.is_some_and(|guards| guards.were_requested) {
            return Ok(false);
        }
        let occasion = HookOccasion {
            call: Some(call),
            ..HookOccasion::new(HookEvent::PermissionRequest, call.reply)
        };
        self.record_hooking(occasion).await
    }

    /// Records the hooks of this start.
    pub(super) async fn hook_session_start(
        &mut self,
        start: SessionStart,
    ) -> Result<(), EngineError> {
        let of = self.state.next_seq().saturating_sub(1);
        let (matched, recovered) = match start {
            SessionStart::Startup => ("startup", false),
            SessionStart::Resume { recovered } => ("resume", recovered),
        };
        let occasion = HookOccasion {
            matched,
            recovered,
            ..HookOccasion::new(HookEvent::SessionStart, of)
        };
        self.world.fire_hooks(&occasion, &self.state);
        let is_pending = |hooks: &PendingHooks| hooks.event == HookEvent::SessionStart;
        if !self.state.hooks.pending().iter().any(is_pending) {
            self.record_hooking(occasion).await?;
        }
        // A fork begins with messages that its own hooks have not judged.
        let unjudged: Vec<Record> = self.state.unjudged_messages().cloned().collect();
        for record in unjudged {
            let event = HookEvent::UserPromptSubmit;
            let occasion = HookOccasion::of(event, record.seq, &record.entry, None);
            self.record_hooking(occasion).await?;
        }
        // So does a session that moved with calls that have not started.
        let calls = self.state.calls.iter();
        let unjudged = calls.filter(|open| open.needs_judging(&self.state.hooks));
        let unjudged: Vec<CallId> = unjudged.map(|open| open.call.id).collect();
        let event = HookEvent::PreToolUse;
        let runs = unjudged.iter().flat_map(|call| {
            let occasion = HookOccasion {
                call: Some(*call),
                ..HookOccasion::new(event, call.reply)
            };
            self.world.prepare_hooks(&occasion, &self.state)
        });
        let runs: Vec<HookRun> = runs.collect();
        match unjudged.first().filter(|_| !runs.is_empty()) {
            Some(CallId { reply: of, .. }) => {
                let of = *of;
                self.record(Write::of(Entry::Hooking { event, of, runs }))
                    .await
            }
            None => Ok(()),
        }
    }

    fn hook_groups(&self, hooking: Seq, calls: &[Option<CallId>]) -> Vec<HookGroup> {
        let mut pending = self.state.hooks.pending().iter();
        let Some(hooks) = pending.find(|hooks| hooks.seq == hooking) else {
            return Vec::new();
        };
        let group = |call: &Option<CallId>| HookGroup {
            call: *call,
            described: call.and_then(|id| Some(self.state.call(id)?.call.clone())),
            runs: hooks
                .runs
                .iter()
                .filter(|r| r.call == *call)
                .cloned()
                .collect(),
            wrote: call.and_then(|id| self.written_by(id)),
        };
        let groups = calls.iter().map(group);
        groups.filter(|group| !group.runs.is_empty()).collect()
    }

    /// Returns the file that a call wrote, as the model knows it.
    fn written_by(&self, id: CallId) -> Option<HookWrote> {
        let mut context = self.state.context.iter().rev();
        context.find_map(|record| match &record.entry {
            Entry::Finished {
                call,
                fact: Some(Fact::Wrote { path, hash }),
                ..
            } if *call == id => Some(HookWrote {
                path: path.clone(),
                hash: hash.clone(),
            }),
            _ => None,
        })
    }
}

impl<W: World> Engine<W> {
    /// Runs pending hooks, or finds the results of those that an earlier process started.
    pub(super) async fn run_hooks(
        &mut self,
        hooking: Seq,
        calls: Vec<Option<CallId>>,
    ) -> Result<(), EngineError> {
        self.log.record_pending_answer().await?;
        let groups = Rc::new(self.log.hook_groups(hooking, &calls));
        let mut pending = self.log.state.hooks.pending().iter();
        let Some(event) = pending.find(|h| h.seq == hooking).map(|h| h.event) else {
            return Ok(());
        };
        let stop = self.log.state.is_stopped();
        let patience = if stop { STOP_PATIENCE } else { Duration::MAX };
        let (world, running) = (Rc::clone(&self.log.world), Rc::clone(&groups));
        let step = async move {
            join_all(running.iter().map(async |group| {
                let (call, wrote) = (group.described.as_ref(), group.wrote.as_ref());
                let ended = world.run_hooks(event, &group.runs, call, wrote, stop);
                match timeout(patience, ended).await {
                    Ok(ended) => ended,
                    Err(_) => unstopped(&group.runs),
                }
            }))
            .await
        };
        let Some(ended) = self.drive_step_silently(step, Stoppable::Yes).await? else {
            return Ok(());
        };
        let mut write = Write::default();
        for (group, HookEnd { mut results, blobs }) in groups.iter().zip(ended) {
            ignore_refused_stop(event, &self.log.state, &mut results);
            if stop && event == HookEvent::UserPromptSubmit {
                refuse_unjudged(&mut results);
            }
            write.entries.push(Entry::Hooked {
                event,
                of: hooking,
                call: group.call,
                results,
            });
            write.blobs.extend(blobs);
        }
        if event == HookEvent::UserPromptSubmit && !stop {
            let failed = message_not_sent(&write.entries);
            write.entries.extend(failed);
        }
        let stops = write.entries.iter().any(|entry| {
            matches!(entry, Entry::Hooked { results, .. } if results.iter().any(|r| r.stops))
        });
        let is_stop = matches!(event, HookEvent::Stop | HookEvent::SubagentStop);
        if stops && !stop && !is_stop {
            write.entries.push(Entry::Stopped {
                draft: None,
                origin: None,
            });
        }
        self.record_hooked(event, write).await?;
        for group in groups.iter() {
            self.log.discard_hooks(&group.runs).await;
        }
        Ok(())
    }

    /// Records results of hooks. Those about a call are recorded together with the start of the
    /// call, or with its end if it is denied.
    async fn record_hooked(&mut self, event: HookEvent, write: Write) -> Result<(), EngineError> {
        let may_hold = event.decides_about_call() && self.may_hold();
        if !may_hold {
            return self.log.record(write).await;
        }
        self.log.hold(write).await?;
        let step = match self.begins() {
            Ok(calls) if !calls.is_empty() => Ok(Step::Run(calls)),
            Ok(_) => self
                .pending()
                .map(|pending| next(&self.log.state, &self.log.policy, &pending)),
            Err(error) => Err(error),
        };
        let done = match step {
            Ok(Step::Run(calls)) => self.run_calls(calls).await,
            Ok(Step::Close(call)) => self.close_call(call).await,
            Ok(_) => Ok(()),
            Err(error) => Err(error),
        };
        self.end_hold(done).await
    }
}

/// Ignores hooks that refused the end of this turn too often.
fn ignore_refused_stop(event: HookEvent, state: &State, results: &mut [HookResult]) {
    let is_stop = matches!(event, HookEvent::Stop | HookEvent::SubagentStop);
    if !is_stop || state.hooks.may_refuse_stop() {
        return;
    }
    for result in results
        .iter_mut()
        .filter(|r| r.verdict == HookVerdict::Deny)
    {
        result.verdict = HookVerdict::None;
        result.message = Some(format!(
            "the hook {} refused the end of the turn again, and is ignored now",
            result.hook
        ));
    }
}

/// Refuses a message whose guards were stopped: nobody judged it.
fn refuse_unjudged(results: &mut [HookResult]) {
    for result in results
        .iter_mut()
        .filter(|r| r.verdict == HookVerdict::Failed)
    {
        result.verdict = HookVerdict::Deny;
    }
}

/// Returns the results of hooks that could not be stopped.
fn unstopped(runs: &[HookRun]) -> HookEnd {
    let results = runs.iter().map(|run| HookResult {
        is_brief: true,
        hook: run.hook.clone(),
        verdict: HookVerdict::Failed,
        reason: "it could not be stopped; it may still run".to_string(),
        ..HookResult::default()
    });
    HookEnd {
        results: results.collect(),
        blobs: Vec::new(),
    }
}

/// Returns the failure of a message whose guard failed. The person decides whether it is sent.
fn message_not_sent(entries: &[Entry]) -> Option<Entry> {
    let results = entries.iter().flat_map(|entry| match entry {
        Entry::Hooked { results, .. } => results.as_slice(),
        _ => &[],
    });
    let strictest = results.max_by_key(|result| result.verdict)?;
    (strictest.verdict == HookVerdict::Failed).then(|| Entry::Failed {
        error: Failure {
            class: FailureClass::Hook,
            message: format!(
                "the message was not sent: the hook {} failed: {}",
                strictest.hook, strictest.reason
            ),
            hint: Some("repair the hook, or send the message all the same: rewake unblock".into()),
        },
        draft: None,
    })
}
