//! The steps of `next`: one function for each.

use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

use futures_util::future::join_all;
use futures_util::stream::{FuturesUnordered, StreamExt};
use tokio::sync::mpsc::unbounded_channel;
use tokio::time::{sleep, timeout};

use super::broken_tries::OpenRequest;
use super::context::ContextChange;
use super::drive_step::Stoppable;
use super::files::{SnapshotResult, name_changes, names_changes};
use super::{Engine, EngineError, Write, broken_tries, model_asks, output_limit};
use crate::core::access::Access;
use crate::core::authorization::{Authorization, authorize, still_allowed};
use crate::core::choice::next_fallback;
use crate::core::entry::{CallId, Entry, Fact, Failure, Guard, Outcome, Output};
use crate::core::entry::{Choice, FallbackModel};
use crate::core::prompt::{request, request_bytes};
use crate::core::refused_history::with_tried;
use crate::core::told;
use crate::core::tool::{Class, ToolCall};
use crate::model::Delta;
use crate::model::retry::is_transient;
use crate::store::StoreError;
use crate::tools::ToolResult;
use crate::world::{PrepareError, Settled, World};

/// Time limit for a stop. A stopped command gets two seconds before it is killed, and this is
/// enough for both.
pub(super) const STOP_PATIENCE: Duration = Duration::from_secs(10);

/// Pause before a request is sent again that its server refused as too long, although it is not.
/// Other users of its memory may end meanwhile.
const ODD_PAUSE_MS: u64 = 1_000;

/// A note in the result of an edit of a changed file. The edit was made.
const CHANGED_SINCE_SEEN: &str =
    "[the file had changed since it was read: read it again before you rely on the rest of it]";

/// A call that was started, with its guard and the access of its command.
type StartedCall = (ToolCall, Guard, Option<Access>);

const UNANSWERED: &str = "the user stopped before the answer";
const UNSTOPPED: &str = "it could not be stopped; it may still run";

fn interrupted(why: &str) -> Settled {
    Settled::Ended(ToolResult::of(Outcome::interrupted(why)))
}

impl<W: World> Engine<W> {
    /// Asks the model. The answer is recorded before any of its calls has an effect.
    pub(super) async fn call_model(&mut self) -> Result<(), EngineError> {
        if self.ask_about_model().await? || self.log.state.is_stopped() {
            return Ok(());
        }
        if let Some(noted) = told::note(&self.log.state, &self.log.policy) {
            return self.log.record(Write::of(noted)).await;
        }
        // A kill before it loses only the note: the next such call makes another.
        if std::mem::take(&mut self.owes_text_call_note)
            && let Some(noted) = told::text_calls(&self.log.state)
        {
            return self.log.record(Write::of(noted)).await;
        }
        if self.report_outside_changes().await? {
            return Ok(());
        }
        if self.summaries.begin_in_form(&mut self.log).await? {
            return Ok(());
        }
        if broken_tries::record_others(self).await? {
            return Ok(());
        }
        self.log.emit_file_notices();
        let budget = self.log.budget();
        let windows = &self.log.policy.windows;
        let inline_max_bytes = windows.inline_max_bytes;
        let request = request(
            &self.log.state,
            &budget,
            inline_max_bytes,
            &mut self.log.kept,
        );
        let asked_bytes = request_bytes(&self.log.state, budget.inline_bytes(inline_max_bytes));
        self.summaries
            .emit_near_limit(&mut self.log, budget.tokens(asked_bytes), &budget);
        let request_size = asked_bytes;
        let (asked_bytes, asked_tokens) = (asked_bytes as u64, request.max_tokens);
        let images = self.log.images(&request)?;
        let has_images = !images.is_empty();
        let model = self.log.state.model.clone();
        self.draft.reset();
        self.files.scan_ahead(&mut self.log);

        let world = Rc::clone(&self.log.world);
        // Unbounded: the sender cannot wait. `attend` takes the deltas before it polls the call.
        let (sender, deltas) = unbounded_channel();
        let began_ms = world.now_ms();
        self.open_request = OpenRequest::new(&self.log.state, &model, budget.tokens(request_size));
        let asking = Rc::clone(&world);
        let step = async move { asking.call_model(request, images, sender).await };
        let reply = self.drive_step(step, deltas, Stoppable::Yes).await?;
        match &reply {
            // Its usage is recorded with it.
            Some(Ok(_)) => self.open_request = OpenRequest::default(),
            _ => broken_tries::record(self).await?,
        }
        let Some(reply) = reply else {
            return Ok(());
        };
        let accepted = match &reply {
            Ok(_) => self.summaries.accepted_forms(&self.log, &model),
            Err(_) => Vec::new(),
        };
        let asked = model.clone();
        let next = match &reply {
            Ok(reply) => output_limit::after_only_thinking(self, &model, reply),
            Err(_) => None,
        };
        self.owes_text_call_note |= reply.as_ref().is_ok_and(|reply| reply.has_text_calls);
        let entry = match reply {
            Ok(reply) => Entry::Replied {
                blocks: reply.blocks,
                usage: reply.usage,
                stop: reply.stop,
                model,
                took_ms: u64::try_from(world.now_ms() - began_ms).unwrap_or(0),
                asked_bytes,
                source_usage: None,
            },
            Err(error)
                if self.summaries.repeats_odd_refusal(
                    &mut self.log,
                    &model,
                    &error,
                    asked_bytes,
                ) =>
            {
                let retry = Delta::Retry {
                    after_ms: ODD_PAUSE_MS,
                    until_ms: world.now_ms() + ODD_PAUSE_MS as i64,
                    failure: error,
                };
                self.draft.stream(&mut self.log, retry);
                let pause = sleep(Duration::from_millis(ODD_PAUSE_MS));
                self.drive_step_silently(pause, Stoppable::Yes).await?;
                return Ok(());
            }
            Err(error)
                if changes_request(
                    self,
                    &model,
                    &error,
                    (asked_bytes, asked_tokens),
                    has_images,
                )
                .await? =>
            {
                self.draft.reset();
                return Ok(());
            }
            Err(error) => Entry::Failed {
                error: with_tried(&self.log.state, &error).unwrap_or(error),
                draft: self.draft.words(),
            },
        };
        self.draft.reset();
        let raised = match &next {
            Some(Entry::Learned(learned)) => learned.output.map(|output| output.tokens),
            _ => None,
        };
        let entries = std::iter::once(entry).chain(next).collect();
        self.record_answer(Write::of_all(entries).clearing_stream())
            .await?;
        self.summaries.keep_forms(&self.log, &asked, &accepted);
        if let Some(tokens) = raised {
            self.summaries
                .emit_context(&mut self.log, ContextChange::OutputRaised(tokens));
        }
        Ok(())
    }

    /// Switches to the next fallback model if this one is overloaded, cannot be reached, has no
    /// quota left or is not there any more. The switch is recorded before the request, so another
    /// start uses the same model. Returns whether it switched.
    async fn fall_back(&mut self, model: &str, error: &Failure) -> Result<bool, EngineError> {
        if !is_transient(error.class) && !error.class.needs_other_model() {
            return Ok(false);
        }
        let own = self.log.state.own_model();
        let Some(next) = next_fallback(&self.fallbacks, own, model) else {
            return Ok(false);
        };
        let choice = Choice {
            fallback: Some(Box::new(FallbackModel {
                model: next.clone(),
                error: error.clone(),
            })),
            ..Choice::default()
        };
        self.log
            .record(Write::of(Entry::Chose(choice)).clearing_stream())
            .await?;
        Ok(true)
    }

    /// Runs several calls that may run at the same time, or one call of any class.
    pub(super) async fn run_calls(&mut self, ids: Vec<CallId>) -> Result<(), EngineError> {
        let calls: Vec<ToolCall> = ids
            .iter()
            .filter_map(|id| self.log.state.call(*id))
            .map(|open| open.call.clone())
            .collect();
        let is_idempotent = |call: &ToolCall| call.class() == Some(Class::Idempotent);
        let [call] = &calls[..] else {
            return match calls.first() {
                Some(first) if first.is_task() => self.begin_tasks(&calls).await,
                Some(_) => self.run_batch(calls).await,
                None => Ok(()),
            };
        };
        match call.class() {
            Some(Class::Asked) => model_asks::begin(self, call).await,
            Some(_) if is_idempotent(call) => self.run_batch(calls).await,
            Some(_) => self.begin(call).await,
            None => Ok(()),
        }
    }

    async fn begin_tasks(&mut self, calls: &[ToolCall]) -> Result<(), EngineError> {
        for call in calls {
            // Between two tasks, a stop or an exit may arrive.
            if self.requests.left.is_none() && !self.log.state.paused {
                self.begin(call).await?;
            }
        }
        Ok(())
    }

    /// Starts a call with an effect: record, then act, then record.
    async fn begin(&mut self, call: &ToolCall) -> Result<(), EngineError> {
        if call.class() == Some(Class::Served) {
            let (world, wants) = (Rc::clone(&self.log.world), call.clone());
            let reaching = async move { world.reach(&wants).await };
            if self
                .drive_step_silently(reaching, Stoppable::Yes)
                .await?
                .is_none()
            {
                return Ok(());
            }
        }
        let Some(access) = self.log.may_run(call) else {
            return Ok(());
        };
        match self.log.prepare_in_time(call, access).await? {
            Err(PrepareError::NoRoom(why)) => Err(no_room(why)),
            Err(PrepareError::Refused(outcome)) => {
                self.log.finish(call, ToolResult::of(outcome)).await
            }
            Ok(guard) => {
                let Some((files, tree)) = self.files_before(&guard).await? else {
                    self.log.world.discard(&guard).await;
                    return Ok(());
                };
                let started = Entry::Started {
                    call: call.id,
                    guard: guard.clone(),
                    access,
                };
                self.log
                    .record(Write {
                        entries: files.into_iter().chain([started]).collect(),
                        tree,
                        ..Write::default()
                    })
                    .await?;
                self.act(call, &guard, access).await
            }
        }
    }

    pub(super) async fn act(
        &mut self,
        call: &ToolCall,
        guard: &Guard,
        access: Option<Access>,
    ) -> Result<(), EngineError> {
        let world = Rc::clone(&self.log.world);
        let (acting, begun) = (call.clone(), guard.clone());
        let step = async move { world.act(&acting, &begun).await };
        // A file is replaced in an instant, and must not be settled while it is.
        let stoppable = match guard {
            Guard::Checked { .. } => Stoppable::No,
            Guard::Supervised { .. }
            | Guard::Child { .. }
            | Guard::Served { .. }
            | Guard::Asks
            | Guard::Opaque => Stoppable::Yes,
        };
        match self.drive_step_silently(step, stoppable).await? {
            Some(Some(ran)) => self.end(call, guard, access, ran).await,
            // A subagent is running. `settle` waits for it, as for one that an earlier process
            // started.
            Some(None) | None => Ok(()),
        }
    }

    /// Finds the outcome of a call that a dead process had started, of the first subagent that ends,
    /// or of all calls that are to be stopped.
    pub(super) async fn settle(&mut self, id: CallId) -> Result<(), EngineError> {
        let stop = self.log.state.is_stopped();
        let question = self.log.state.call(id);
        let question = question.filter(|open| open.guard == Some(Guard::Asks) && !stop);
        if let Some(call) = question.map(|open| open.call.clone()) {
            return model_asks::await_answer(self, &call).await;
        }
        let is_task = |guard: &Option<Guard>| matches!(guard, Some(Guard::Child { .. }));
        let first = self.log.state.call(id);
        // A start that waits for a person restarts no subagent.
        let with_tasks =
            first.is_some_and(|open| is_task(&open.guard)) && !self.requests.waits_for_person;
        let started = self.log.state.calls.iter().filter_map(|open| {
            let is_with_it = open.call.id == id || with_tasks && is_task(&open.guard);
            let is_wanted = !open.finished && (stop || is_with_it);
            let guard = open.guard.clone().filter(|_| is_wanted)?;
            Some((open.call.clone(), guard, open.started_access))
        });
        let started: Vec<StartedCall> = started.collect();
        let calls = self.log.state.calls.iter();
        let lost: BTreeMap<CallId, String> = calls
            .filter_map(|open| Some((open.call.id, open.lost.clone()?)))
            .collect();
        let world = Rc::clone(&self.log.world);
        let settling = started.clone();
        // A supervisor process that does not answer must not keep the user waiting for ever.
        let is_ended = stop || !lost.is_empty();
        let patience = if is_ended {
            STOP_PATIENCE
        } else {
            Duration::MAX
        };
        let step = async move {
            let settled = settling.iter().map(async |(call, guard, access)| {
                let why = lost.get(&call.id);
                if let (Some(why), Guard::Opaque) = (why, guard) {
                    return (call.id, interrupted(why));
                }
                if *guard == Guard::Asks {
                    return (call.id, interrupted(UNANSWERED));
                }
                let settled = world.settle(call, guard, *access, stop || why.is_some());
                let settled = timeout(patience, settled).await;
                (call.id, settled.unwrap_or_else(|_| interrupted(UNSTOPPED)))
            });
            match stop {
                true => join_all(settled).await,
                false => Vec::from_iter(FuturesUnordered::from_iter(settled).next().await),
            }
        };
        let Some(settled) = self.drive_step_silently(step, Stoppable::Yes).await? else {
            return Ok(());
        };
        for (call, settled) in settled {
            // The log has the results in the order of the calls, except those of tasks. A later one
            // is settled again.
            let is_next = self.log.state.first_open().map(|open| open.call.id) == Some(call);
            let started = started.iter().find(|(started, ..)| started.id == call);
            if let Some(started) = started.filter(|_| is_next || !stop) {
                self.end_settled(started, settled, stop).await?;
            }
        }
        Ok(())
    }

    async fn end_settled(
        &mut self,
        (call, guard, access): &StartedCall,
        settled: Settled,
        stop: bool,
    ) -> Result<(), EngineError> {
        let (id, access) = (call.id, *access);
        let open = self.log.state.call(id);
        let allowed = open.map_or(Ok(()), |open| {
            still_allowed(&self.log.state, &self.log.policy, open)
        });
        match settled {
            Settled::Ended(ran) => self.end(call, guard, access, ran).await,
            Settled::NoRoom(why) => Err(no_room(why)),
            Settled::NotBegun(_) if stop => {
                let outcome = Outcome::Interrupted {
                    output: Output::default(),
                    why: "the user stopped before it began".into(),
                };
                self.end(call, guard, access, ToolResult::of(outcome)).await
            }
            Settled::NotBegun(again) if allowed.is_err() => {
                let outcome = Outcome::error(allowed.err().unwrap_or_default());
                self.end(call, guard, access, ToolResult::of(outcome))
                    .await?;
                if again != *guard {
                    self.log.world.discard(&again).await;
                }
                Ok(())
            }
            Settled::NotBegun(again) => {
                if again != *guard {
                    let started = Entry::Started {
                        call: id,
                        guard: again.clone(),
                        access,
                    };
                    self.log.record(Write::of(started)).await?;
                    self.log.world.discard(guard).await;
                }
                self.act(call, &again, access).await
            }
        }
    }

    /// Records the result of a call that will not run.
    pub(super) async fn close_call(&mut self, id: CallId) -> Result<(), EngineError> {
        if !self.learn_before_refusing(id).await? {
            return Ok(());
        }
        let Some(open) = self.log.state.call(id) else {
            return Ok(());
        };
        let Authorization::Close(outcome) = authorize(&self.log.state, &self.log.policy, open)
        else {
            return Ok(());
        };
        let call = open.call.clone();
        self.log
            .record_end(&call, ToolResult::of(outcome), SnapshotResult::default())
            .await
    }

    /// Fetches the tools of servers that reported a change of them or that start for the first time,
    /// so that a call of a new tool is not refused. Returns false if the fetch was interrupted.
    async fn learn_before_refusing(&mut self, id: CallId) -> Result<bool, EngineError> {
        let call = self.log.state.call(id).map(|open| &open.call);
        let Some(call) = call.filter(|call| call.is_served() && !self.log.state.is_stopped())
        else {
            return Ok(true);
        };
        let full_name = call.full_name().to_string();
        let world = Rc::clone(&self.log.world);
        let learning = async move { world.learn_servers_for(&full_name).await };
        Ok(self
            .drive_step_silently(learning, Stoppable::Yes)
            .await?
            .is_some())
    }

    async fn end(
        &mut self,
        call: &ToolCall,
        guard: &Guard,
        access: Option<Access>,
        mut ran: ToolResult,
    ) -> Result<(), EngineError> {
        if matches!(ran.fact, Some(Fact::Wrote { .. })) && self.log.state.changed_since_seen(guard)
        {
            ran.outcome.add_line(CHANGED_SINCE_SEEN);
        }
        let in_background = matches!(ran.fact, Some(Fact::Background { .. }));
        let mut files = self.files_after(guard, access).await?;
        if names_changes(guard, access, &ran) {
            files = name_changes(self, call.id, &mut ran).await?;
        }
        self.log.finish_with(call, ran, files).await?;
        if !in_background {
            self.log.world.discard(guard).await;
        }
        Ok(())
    }
}

/// Learns from the refusal of a request, or switches to another model. Returns whether the next
/// request is another one. `asked` are the bytes of the request and the tokens of its answer.
async fn changes_request<W: World>(
    engine: &mut Engine<W>,
    model: &str,
    error: &Failure,
    asked: (u64, u64),
    has_images: bool,
) -> Result<bool, EngineError> {
    let Engine { log, summaries, .. } = engine;
    let (bytes, tokens) = asked;
    Ok(summaries.learn(log, model, error, bytes).await?
        || (has_images && summaries.learn_of_images(log, model, error).await?)
        || output_limit::learn(engine, model, error, tokens).await?
        || engine
            .summaries
            .learn_form(&mut engine.log, model, error)
            .await?
        || engine.fall_back(model, error).await?)
}

/// Returns the error for a full disk. The model cannot solve that, so the run ends, and continues
/// when there is room.
pub(super) fn no_room(why: String) -> EngineError {
    let what = "keep what a command needs".to_string();
    EngineError::Store(StoreError::Full { what, why })
}
