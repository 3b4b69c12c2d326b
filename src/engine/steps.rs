//! One function for each step that `next` may ask for.

use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::Duration;

use futures_util::future::join_all;
use tokio::sync::mpsc::unbounded_channel;
use tokio::time::timeout;

use super::attend::Stoppable;
use super::files::Found;
use super::{Engine, EngineError, Write};
use crate::core::access::Access;
use crate::core::choice::next_fallback;
use crate::core::entry::{CallId, Entry, Fact, Failure, Guard, Outcome, Output};
use crate::core::entry::{Choice, FallbackModel};
use crate::core::fate::{Fate, fate, may_act_at, still_allowed};
use crate::core::permission::Permission;
use crate::core::prompt::{request, request_bytes};
use crate::core::request::{Part, Request};
use crate::core::told;
use crate::core::tool::{Class, ToolCall};
use crate::model::retry::is_transient;
use crate::store::StoreError;
use crate::tools::Ran;
use crate::world::{Boundary, Images, Settled, Unready, World};

/// A stopped command is given two seconds before it is killed; this is enough for both.
const STOP_PATIENCE: Duration = Duration::from_secs(10);

/// Told with an edit that was made all the same.
const CHANGED_SINCE_SEEN: &str =
    "[the file had changed since it was read: read it again before you rely on the rest of it]";

/// Of a call that is named in another's result.
const LINE_CHARS: usize = 100;

fn unstopped() -> Settled {
    Settled::Ended(Ran::of(Outcome::Interrupted {
        output: Output::default(),
        why: "it could not be stopped; it may still run".into(),
    }))
}

impl<W: World> Engine<W> {
    /// The answer is recorded before anything is done on it.
    pub(super) async fn call_model(&mut self) -> Result<(), EngineError> {
        if self.ask_window().await? || self.state.is_stopped() {
            return Ok(());
        }
        if let Some(noted) = told::note(&self.state, &self.settings.policy) {
            return self.record(Write::of(noted)).await;
        }
        if self.tell_outside_changes().await? {
            return Ok(());
        }
        self.say_files_trouble();
        let budget = self.budget();
        let windows = &self.settings.policy.windows;
        let inline_max_bytes = windows.inline_max_bytes;
        let request = request(&self.state, &budget, inline_max_bytes, &mut self.kept);
        let asked_bytes = request_bytes(&self.state, budget.inline_bytes(inline_max_bytes));
        self.emit_near_limit(budget.tokens(asked_bytes), &budget);
        let asked_bytes = asked_bytes as u64;
        let images = self.images(&request)?;
        let has_images = !images.is_empty();
        let model = self.state.model.clone();
        self.draft.reset();
        self.look_ahead();

        let world = Rc::clone(&self.world);
        // Unbounded: the sender cannot wait. This task takes all deltas before it polls the call again.
        let (sender, deltas) = unbounded_channel();
        let began_ms = world.now_ms();
        let asking = Rc::clone(&world);
        let step = async move {
            asking.boundary(Boundary::BeforeModel).await;
            let reply = asking.call_model(request, images, sender).await;
            asking.boundary(Boundary::AfterModel).await;
            reply
        };
        let Some(reply) = self.attend(step, deltas, Stoppable::Yes).await? else {
            return Ok(());
        };
        let entry = match reply {
            Ok(reply) => Entry::Replied {
                blocks: reply.blocks,
                usage: reply.usage,
                stop: reply.stop,
                model,
                took_ms: u64::try_from(world.now_ms() - began_ms).unwrap_or(0),
                asked_bytes,
            },
            Err(error) if self.learn(&model, &error, asked_bytes).await? => {
                self.draft.reset();
                return Ok(());
            }
            Err(error) if has_images && self.learn_of_images(&model, &error).await? => {
                self.draft.reset();
                return Ok(());
            }
            Err(error) if self.fall_back(&model, &error).await? => {
                self.draft.reset();
                return Ok(());
            }
            Err(error) => Entry::Failed {
                error,
                draft: self.draft.words(),
            },
        };
        self.draft.reset();
        self.record_answer(Write::of(entry).clearing_stream()).await
    }

    /// Whether another model is asked in place of one that is overloaded or not reached. It is
    /// in the log before it is asked: another start goes on with the same.
    async fn fall_back(&mut self, model: &str, error: &Failure) -> Result<bool, EngineError> {
        if !is_transient(error.class) {
            return Ok(false);
        }
        let own = self.state.own_model();
        let Some(next) = next_fallback(&self.settings.fallbacks, own, model) else {
            return Ok(false);
        };
        let choice = Choice {
            fallback: Some(FallbackModel {
                model: next.clone(),
                error: error.clone(),
            }),
            ..Choice::default()
        };
        self.record(Write::of(Entry::Chose(choice)).clearing_stream())
            .await?;
        Ok(true)
    }

    fn images(&self, request: &Request) -> Result<Images, EngineError> {
        let mut images = Images::new();
        for part in request.messages.iter().flat_map(|m| m.parts.iter()) {
            let hashes = match part {
                Part::Image { blob, .. } => vec![&blob.hash],
                Part::Result { images, .. } => images.iter().map(|(_, b)| &b.hash).collect(),
                Part::Text { .. } | Part::Thinking { .. } | Part::Call { .. } => continue,
            };
            for hash in hashes {
                if !images.contains_key(hash)
                    && let Some(bytes) = self.store.blob(hash)?
                {
                    images.insert(hash.clone(), bytes);
                }
            }
        }
        Ok(images)
    }

    /// Several idempotent calls, or one call of any class.
    pub(super) async fn run_calls(&mut self, ids: Vec<CallId>) -> Result<(), EngineError> {
        let calls: Vec<ToolCall> = ids
            .iter()
            .filter_map(|id| self.state.call(*id))
            .map(|open| open.call.clone())
            .collect();
        match calls.first().and_then(ToolCall::class) {
            Some(Class::Idempotent) => self.run_idempotent(calls).await,
            Some(Class::Checked | Class::Supervised | Class::Served | Class::Opaque) => {
                for call in &calls {
                    // With several tasks, a stop or a leaving may come between two.
                    if self.left.is_none() && !self.state.paused {
                        self.begin(call).await?;
                    }
                }
                Ok(())
            }
            None => Ok(()),
        }
    }

    /// All at once; their results are one transaction.
    async fn run_idempotent(&mut self, calls: Vec<ToolCall>) -> Result<(), EngineError> {
        let world = Rc::clone(&self.world);
        let running: Vec<_> = calls.iter().map(|c| (c.clone(), self.judged(c))).collect();
        let room = self
            .budget()
            .inline_bytes(self.settings.policy.windows.inline_max_bytes);
        let step = async move {
            world.boundary(Boundary::BeforeIdempotent).await;
            let results = join_all(running.iter().map(async |(call, at)| match at {
                Ok(at) => world.run_idempotent(call, at.as_deref(), room).await,
                Err(why) => Ran::error(why.as_str()),
            }))
            .await;
            world.boundary(Boundary::AfterIdempotent).await;
            results
        };
        let Some(results) = self.attend_quiet(step, Stoppable::Yes).await? else {
            return Ok(());
        };
        let mut write = Write::default();
        for (call, mut ran) in calls.iter().zip(results) {
            self.tell_of_change_before(call, &mut ran.outcome);
            write.entries.push(Entry::Finished {
                call: call.id,
                outcome: ran.outcome,
                fact: ran.fact,
                tree: None,
            });
            write.blobs.extend(ran.blobs);
        }
        self.record(write).await
    }

    /// Where the call leads now, which is where it may act; `None` when it is not about a path.
    ///
    /// # Errors
    /// When that is not known, or it may not act there. Told to the model.
    fn judged(&self, call: &ToolCall) -> Result<Option<PathBuf>, String> {
        let (Some(at), Some(open)) = (self.world.leads_to(call)?, self.state.call(call.id)) else {
            return Ok(None);
        };
        let real = at.to_string_lossy();
        let policy = &self.settings.policy;
        match may_act_at(&self.state, policy, open, &real) {
            true => Ok(Some(at)),
            false => Err(format!(
                "{} leads to {real} now, which is not what was permitted: nothing was done\n\
                 hint: send the call again if that is what you want",
                call.subject()
            )),
        }
    }

    /// Makes a call with an effect ready where it was judged to lead.
    pub(super) async fn prepare(
        &self,
        call: &ToolCall,
        access: Option<Access>,
    ) -> Result<Guard, Unready> {
        match self.judged(call) {
            Ok(at) => self.prepare_at(call, access, at.as_deref()).await,
            Err(why) => Err(Unready::Refused(Outcome::error(why))),
        }
    }

    pub(super) async fn prepare_at(
        &self,
        call: &ToolCall,
        access: Option<Access>,
        at: Option<&Path>,
    ) -> Result<Guard, Unready> {
        self.world.boundary(Boundary::BeforePrepare).await;
        let prepared = self.world.prepare(call, access, at, &self.state).await;
        self.world.boundary(Boundary::AfterPrepare).await;
        prepared
    }

    /// How far the call may reach, if it runs now.
    fn may_run(&self, call: CallId) -> Option<Option<Access>> {
        let open = self.state.call(call)?;
        match fate(&self.state, &self.settings.policy, open) {
            Fate::Run { access } => Some(access),
            Fate::Ask { .. } | Fate::Close(_) => None,
        }
    }

    /// Record, then act, then record.
    async fn begin(&mut self, call: &ToolCall) -> Result<(), EngineError> {
        if self.may_run(call.id).is_some() && call.class() == Some(Class::Served) {
            let (world, wants) = (Rc::clone(&self.world), call.clone());
            let reaching = async move { world.reach(&wants).await };
            if self.attend_quiet(reaching, Stoppable::Yes).await?.is_none() {
                return Ok(());
            }
        }
        let Some(access) = self.may_run(call.id) else {
            return Ok(());
        };
        match self.prepare_in_time(call, access).await? {
            Err(Unready::NoRoom(why)) => Err(no_room(why)),
            Err(Unready::Refused(outcome)) => self.finish(call, Ran::of(outcome)).await,
            Ok(guard) => {
                let Some((files, tree)) = self.files_before(&guard).await? else {
                    self.discard(&guard).await;
                    return Ok(());
                };
                let started = Entry::Started {
                    call: call.id,
                    guard: guard.clone(),
                    access,
                };
                self.record(Write {
                    entries: files.into_iter().chain([started]).collect(),
                    tree,
                    ..Write::default()
                })
                .await?;
                self.act(call, &guard, access).await
            }
        }
    }

    async fn act(
        &mut self,
        call: &ToolCall,
        guard: &Guard,
        access: Option<Access>,
    ) -> Result<(), EngineError> {
        let world = Rc::clone(&self.world);
        let (acting, begun) = (call.clone(), guard.clone());
        let step = async move {
            world.boundary(Boundary::BeforeAct).await;
            let ran = world.act(&acting, &begun).await;
            world.boundary(Boundary::AfterAct).await;
            ran
        };
        // A file is replaced in an instant, and must not be settled while it is.
        let stoppable = match guard {
            Guard::Checked { .. } => Stoppable::No,
            Guard::Supervised { .. }
            | Guard::Child { .. }
            | Guard::Served { .. }
            | Guard::Opaque => Stoppable::Yes,
        };
        match self.attend_quiet(step, stoppable).await? {
            Some(Some(ran)) => self.end(call, guard, access, ran).await,
            // A sub-agent is at work: it is settled like one that a process before began.
            Some(None) | None => Ok(()),
        }
    }

    /// A call that was begun by a process that died, or that is to be stopped.
    pub(super) async fn settle(&mut self, id: CallId) -> Result<(), EngineError> {
        let Some(open) = self.state.call(id) else {
            return Ok(());
        };
        let Some(guard) = open.guard.clone() else {
            return Ok(());
        };
        let (call, access) = (open.call.clone(), open.started_access);
        let stop = self.state.is_stopped();
        let world = Rc::clone(&self.world);
        let (settling, begun) = (call.clone(), guard.clone());
        let step = async move {
            world.boundary(Boundary::BeforeSettle).await;
            let settled = world.settle(&settling, &begun, access, stop).await;
            world.boundary(Boundary::AfterSettle).await;
            settled
        };
        // A keeper that does not answer must not keep the user waiting for ever.
        let patience = if stop { STOP_PATIENCE } else { Duration::MAX };
        let step = async {
            timeout(patience, step)
                .await
                .unwrap_or_else(|_| unstopped())
        };
        let settled = self.attend_quiet(step, Stoppable::Yes).await?;
        let open = self.state.call(id);
        let allowed = open.map_or(Ok(()), |open| {
            still_allowed(&self.state, &self.settings.policy, open)
        });
        match settled {
            None => Ok(()),
            Some(Settled::Ended(ran)) => self.end(&call, &guard, access, ran).await,
            Some(Settled::NoRoom(why)) => Err(no_room(why)),
            Some(Settled::NotBegun(_)) if stop => {
                let outcome = Outcome::Interrupted {
                    output: Output::default(),
                    why: "the user stopped before it began".into(),
                };
                self.end(&call, &guard, access, Ran::of(outcome)).await
            }
            Some(Settled::NotBegun(again)) if allowed.is_err() => {
                let outcome = Outcome::error(allowed.err().unwrap_or_default());
                self.end(&call, &guard, access, Ran::of(outcome)).await?;
                if again != guard {
                    self.discard(&again).await;
                }
                Ok(())
            }
            Some(Settled::NotBegun(again)) => {
                if again != guard {
                    let started = Entry::Started {
                        call: id,
                        guard: again.clone(),
                        access,
                    };
                    self.record(Write::of(started)).await?;
                    self.discard(&guard).await;
                }
                self.act(&call, &again, access).await
            }
        }
    }

    /// The result that a call gets without being run.
    pub(super) async fn close_call(&mut self, id: CallId) -> Result<(), EngineError> {
        if !self.learn_before_refusing(id).await? {
            return Ok(());
        }
        let Some(open) = self.state.call(id) else {
            return Ok(());
        };
        let Fate::Close(outcome) = fate(&self.state, &self.settings.policy, open) else {
            return Ok(());
        };
        let call = open.call.clone();
        self.record_end(&call, Ran::of(outcome), Found::default())
            .await
    }

    /// A server may have said that its tools changed, and nobody asked for them yet: the call of a
    /// new one is no mistake. False: something came between.
    async fn learn_before_refusing(&mut self, id: CallId) -> Result<bool, EngineError> {
        let is_served = self
            .state
            .call(id)
            .is_some_and(|open| open.call.is_served());
        if !is_served || self.state.is_stopped() {
            return Ok(true);
        }
        let world = Rc::clone(&self.world);
        let learning = async move { world.learn_changed_servers().await };
        Ok(self.attend_quiet(learning, Stoppable::Yes).await?.is_some())
    }

    async fn end(
        &mut self,
        call: &ToolCall,
        guard: &Guard,
        access: Option<Access>,
        mut ran: Ran,
    ) -> Result<(), EngineError> {
        if matches!(ran.fact, Some(Fact::Wrote { .. })) && self.state.changed_since_seen(guard) {
            ran.outcome.add_line(CHANGED_SINCE_SEEN);
        }
        let in_background = matches!(ran.fact, Some(Fact::Background { .. }));
        let files = self.files_after(guard, access).await?;
        self.finish_with(call, ran, files).await?;
        if !in_background {
            self.discard(guard).await;
        }
        Ok(())
    }

    /// A call that was made to follow a change of a file ran without it: the model must know.
    fn tell_of_change_before(&self, call: &ToolCall, outcome: &mut Outcome) {
        // What is kept in the log alone is the same with the change and without it.
        let sees_files = match &call.described {
            Ok(described) => !matches!(
                described.permission,
                Permission::None | Permission::LookBack { .. }
            ),
            Err(_) => false,
        };
        if !sees_files {
            return;
        }
        if let Some(failed) = self.state.failed_change_before(call.id) {
            let what = failed.call.in_one_line(LINE_CHARS);
            outcome.add_line(&format!(
                "[{what}, before this call in the same answer, was refused: this is without its change]"
            ));
        }
    }

    /// The result of a call that has not touched any file.
    pub(super) async fn finish(&mut self, call: &ToolCall, ran: Ran) -> Result<(), EngineError> {
        self.finish_with(call, ran, Found::default()).await
    }

    async fn finish_with(
        &mut self,
        call: &ToolCall,
        mut ran: Ran,
        files: Found,
    ) -> Result<(), EngineError> {
        self.tell_of_change_before(call, &mut ran.outcome);
        self.record_end(call, ran, files).await
    }

    async fn record_end(
        &mut self,
        call: &ToolCall,
        ran: Ran,
        files: Found,
    ) -> Result<(), EngineError> {
        let finished = Entry::Finished {
            call: call.id,
            outcome: ran.outcome,
            fact: ran.fact,
            tree: files.name,
        };
        self.record(Write {
            blobs: ran.blobs,
            tree: files.tree,
            ..Write::of(finished)
        })
        .await
    }

    pub(super) async fn discard(&self, guard: &Guard) {
        self.world.boundary(Boundary::BeforeDiscard).await;
        self.world.discard(guard).await;
        self.world.boundary(Boundary::AfterDiscard).await;
    }
}

/// A full disk is not the model's to solve: the run ends, and goes on when there is room.
pub(super) fn no_room(why: String) -> EngineError {
    let what = "keep what a command needs".to_string();
    EngineError::Store(StoreError::Full { what, why })
}
