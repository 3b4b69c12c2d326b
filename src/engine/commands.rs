//! Commands of a person or a signal to the engine: how each one is accepted in a pause, between two
//! steps or during one, and what it does.
//!
//! Invariant: commands are applied in the order they came in. A command that finds no room to be
//! recorded waits, and so do all commands after it.

use crate::core::marks::cut_title;
use std::sync::atomic::Ordering;

use super::rewind::RewindOrder;
use super::signals::PollResult;
use super::{Command, Engine, EngineError, Event, Recorder, Write, broken_tries};
use crate::core::authorization::{Authorization, authorize};
use crate::core::choice::Effort;
use crate::core::entry::{By, CallId, Choice, Entry, RunLimits, SaveReason, Verdict, Via};
use crate::core::next::{Why, rest_but_pause};
use crate::core::offer;
use crate::core::signal::Signal;
use crate::store::{AbandonedDraft, InboxId, Message, Queued, StoreError};
use crate::world::World;

/// Requests of a person that are not in the log.
#[derive(Default)]
pub(super) struct Requests {
    /// A request to leave.
    pub left: Option<SaveReason>,
    /// Whether to do nothing until a person sends a message or continues the session.
    pub waits_for_person: bool,
    /// Whether results of started calls are recorded during that wait.
    pub settles: bool,
    /// A request to compact, when no call is open.
    pub compaction: bool,
    /// The choice of this start: see [`super::Settings::chosen`].
    pub chosen: Option<Choice>,
    /// A rewind of files, between two steps.
    pub rewind: Option<Box<RewindOrder>>,
    /// Text of the input box that could not be stored.
    pub unkept_input: Option<(String, Option<AbandonedDraft>)>,
}

impl<W: World> Engine<W> {
    /// Applies the commands that came while no step was in progress.
    pub(super) async fn take_commands(&mut self) -> Result<(), EngineError> {
        self.accept_pending().await?;
        while let Ok(command) = self.commands.try_recv() {
            self.accept(command).await?;
        }
        Ok(())
    }

    /// Returns true if the step in progress is to be dropped. A command that finds no room to be
    /// recorded stays pending. It is applied when there is room, before all later commands.
    pub(super) async fn accept(&mut self, command: Command) -> Result<bool, EngineError> {
        self.pending_commands.push_back(command);
        self.accept_pending().await
    }

    /// Applies the pending commands, oldest first.
    async fn accept_pending(&mut self) -> Result<bool, EngineError> {
        let mut drops_step = false;
        while let Some(command) = self.pending_commands.pop_front() {
            match self.apply(command.clone()).await {
                Ok(drops) => drops_step |= drops,
                Err(error) => {
                    self.pending_commands.push_front(command);
                    return Err(error);
                }
            }
        }
        Ok(drops_step)
    }

    /// [`Engine::accept`] during a step: a full disk or a busy store does not end the step, unless
    /// it is to be dropped anyway. No other step starts before the command is applied.
    pub(super) async fn accept_during_step(
        &mut self,
        command: Command,
    ) -> Result<bool, EngineError> {
        let drops_step =
            |c: &Command| matches!(c, Command::Signal(Signal::Stop { .. }) | Command::Leave(_));
        match self.accept(command).await {
            Err(EngineError::Store(error))
                if error.is_passing() && !self.pending_commands.iter().any(drops_step) =>
            {
                self.log.emit_not_stored(&error);
                Ok(false)
            }
            accepted => accepted,
        }
    }

    /// Returns whether nobody can send commands any more, or somebody asked to leave.
    pub fn is_abandoned(&mut self) -> bool {
        while let Ok(command) = self.commands.try_recv() {
            self.pending_commands.push_back(command);
        }
        let leaves = |command: &Command| matches!(command, Command::Leave(_));
        self.requests.left.is_some()
            || self.commands.is_closed()
            || self.pending_commands.iter().any(leaves)
    }

    /// Applies a command. Returns true if the step in progress is to be dropped.
    pub(super) async fn apply(&mut self, command: Command) -> Result<bool, EngineError> {
        match command {
            Command::Say { message, blobs } => {
                self.requests.send(&mut self.log, message, &blobs).await?
            }
            Command::Decide {
                call,
                verdict,
                rule,
            } => {
                self.requests.waits_for_person = false;
                self.log.decide(call, verdict, rule).await?;
            }
            Command::Answer { call, key, answer } => {
                self.asking
                    .answer(&mut self.log, call, &key, answer)
                    .await?
            }
            Command::AnswerChild {
                session,
                call,
                asked,
                answer,
            } => {
                let answer = Signal::Answer {
                    call,
                    asked,
                    answer,
                };
                self.children
                    .show_or_deny(&mut self.log, &session, answer)?;
            }
            Command::DecideChild {
                session,
                call,
                asked,
                verdict,
            } => {
                let decide = Signal::Decide {
                    call,
                    asked,
                    verdict,
                    rule: None,
                };
                self.children
                    .show_or_deny(&mut self.log, &session, decide)?;
            }
            Command::TakeBackRule(rule) => self.log.take_back(rule).await?,
            Command::Signal(signal) => return self.apply_signal(signal).await,
            Command::Leave(reason) => {
                self.leave(reason).await?;
                return Ok(true);
            }
            Command::EditQueued { id, message } => {
                self.requests
                    .edit_queued(&mut self.log, id, message)
                    .await?
            }
            Command::KeepInput(text) => self.requests.store_input(&mut self.log, text, None),
            Command::BringInput { text, from } => {
                self.requests.store_input(&mut self.log, text, Some(from))
            }
            Command::RunForUser { command, .. } if self.log.state.restoring.is_some() => {
                let why = "the files are being restored";
                self.log.emit(Event::CommandNotRun {
                    command,
                    why: why.to_string(),
                });
            }
            Command::RunForUser {
                command,
                on_terminal,
            } => {
                if self
                    .user_commands
                    .run(&mut self.log, command, on_terminal)
                    .await?
                {
                    self.requests.unkept_input = None;
                }
            }
            Command::UserCommandOver { entry, ended } => {
                self.user_commands.over_on_terminal(entry, ended)
            }
            Command::Note(text) => self.log.note(text)?,
            Command::WaitForFiles => self.log.world.wait_for_files(),
            Command::Rewind(order) => self.requests.rewind = Some(order),
            Command::AskServer(request) => self.log.world.ask_server(request),
            Command::SetPermissionCheck(check) => self.log.policy.permission_check = check,
            Command::Hear { is_message, heard } => {
                if is_message {
                    self.log.lift_for_words().await?;
                    self.log.inbox_is_held = false;
                    self.requests.waits_for_person = false;
                }
                let found = self.hear().await?;
                heard.store(true, Ordering::SeqCst);
                return Ok(found == PollResult::DropsStep);
            }
        }
        Ok(false)
    }

    /// True when the step in progress is to be dropped.
    pub(super) async fn apply_signal(&mut self, signal: Signal) -> Result<bool, EngineError> {
        let log = &mut self.log;
        match signal {
            Signal::Stop { .. } => return self.stop().await,
            Signal::Leave { .. } => {
                self.leave(SaveReason::Signal).await?;
                return Ok(true);
            }
            Signal::Pause { .. } => log.pause().await?,
            Signal::GoOn => self.requests.continue_session(log).await?,
            Signal::Decide {
                call,
                verdict,
                rule,
                ..
            } => {
                self.requests.waits_for_person = false;
                // Another process grants only what the person was asked.
                let offers = |rule: &String| {
                    let open = log.state.call(call)?;
                    let offered = open.asked.as_ref()?.rule.as_deref();
                    Some(offer::is_offered(rule, offered, open.call.full_name()))
                };
                let is_allowed = verdict == Verdict::Allow;
                let rule = rule.filter(|rule| is_allowed && offers(rule) == Some(true));
                log.decide(call, verdict, rule).await?;
            }
            Signal::Answer { call, answer, .. } => {
                self.requests.waits_for_person = false;
                // It was looked at that this is the question.
                let question = log
                    .state
                    .call(call)
                    .and_then(|open| open.server_question.as_ref());
                let key = question
                    .map(|asked| asked.question.key.clone())
                    .unwrap_or_default();
                self.asking.answer(log, call, &key, answer).await?;
            }
            Signal::Choose(choice) => self.requests.choose(log, choice).await?,
            Signal::Name { title } => {
                let title = cut_title(&title);
                log.record(Write::of(Entry::Named { title })).await?;
            }
            Signal::Compact => self.requests.compaction = true,
            Signal::Limit { turns, usd, tokens } => log.limit(turns, usd, tokens).await?,
        }
        Ok(false)
    }

    async fn stop(&mut self) -> Result<bool, EngineError> {
        self.signals_look.was_stopped(&mut self.log);
        self.requests.without_compaction(&mut self.log)?;
        if self.log.state.is_stopped() {
            // The earlier stop is still in effect.
            return Ok(false);
        }
        let waits = self
            .log
            .store
            .inbox()
            .oldest_queued(self.log.head.session())?
            .is_some();
        let waits_for_tasks =
            self.log.world.leaves_when_idle() && self.log.state.works_in_background();
        if self.log.state.owed || self.log.state.first_open().is_some() || waits || waits_for_tasks
        {
            let draft = self.draft.words();
            let stopped = Entry::Stopped {
                draft,
                origin: None,
            };
            self.log
                .record(Write::of(stopped).clearing_stream())
                .await?;
        }
        self.draft.reset();
        Ok(true)
    }

    async fn leave(&mut self, reason: SaveReason) -> Result<(), EngineError> {
        self.draft.keep(&mut self.log)?;
        self.requests.store_input_again(&mut self.log);
        // The last entry says how the session ended.
        broken_tries::record(self).await?;
        broken_tries::record_others(self).await?;
        // Leaving a session without pending work needs no record.
        if self.log.changed || self.log.state.unfinished() {
            self.save(reason).await?;
        }
        self.requests.left = Some(reason);
        Ok(())
    }
}

impl<W: World> Recorder<W> {
    /// Records a verdict. One that comes too late is ignored. The access that was allowed is
    /// recorded with it, so a later change of the mode does not extend it.
    pub(super) async fn decide(
        &mut self,
        call: CallId,
        verdict: Verdict,
        rule: Option<String>,
    ) -> Result<(), EngineError> {
        let open = self.state.call(call);
        let authorization = open.map(|open| authorize(&self.state, &self.policy, open));
        let access = match (&verdict, authorization) {
            (Verdict::Deny { .. }, _) | (_, None) => None,
            (_, Some(Authorization::Ask { access, .. } | Authorization::Run { access })) => access,
            // The call will not run, so there is nothing to allow.
            (_, Some(Authorization::AwaitHooks | Authorization::Close(_))) => return Ok(()),
        };
        let at = open.and_then(|open| open.asked.as_ref()?.at.clone());
        let decided = Entry::Decided {
            call,
            at: at.filter(|_| verdict == Verdict::Allow),
            verdict,
            by: By::Person,
            access,
            rule,
            origin: None,
        };
        match self.state.check(&decided) {
            Ok(()) => self.record(Write::of(decided)).await,
            Err(_) => Ok(()),
        }
    }

    /// Records a pause. Calls that have started run to their end.
    pub(super) async fn pause(&mut self) -> Result<(), EngineError> {
        match self.state.paused {
            true => Ok(()),
            false => self.record(Write::of(Entry::Paused { origin: None })).await,
        }
    }

    /// The limits from here on: what is not named stays, and with neither there is none.
    async fn limit(
        &mut self,
        turns: Option<u64>,
        usd: Option<f64>,
        tokens: Option<u64>,
    ) -> Result<(), EngineError> {
        let before = match (turns, usd, tokens) {
            (None, None, None) => RunLimits::default(),
            _ => self.state.run_limits,
        };
        let limits = RunLimits {
            answers: turns
                .map(|n| self.state.replies.saturating_add(n))
                .or(before.answers),
            usd: usd.or(before.usd),
            tokens: tokens
                .map(|n| self.state.usage.all().saturating_add(n))
                .or(before.tokens),
        };
        if self.state.run_limits == limits {
            return Ok(());
        }
        let choice = Choice::of_limits(limits);
        self.record(Write::of(Entry::Chose(choice))).await
    }

    pub(super) async fn take_back(&mut self, rule: String) -> Result<(), EngineError> {
        let mut rules = self.state.session_rules.iter();
        if !rules.any(|known| known.to_string() == rule) {
            return Ok(());
        }
        let choice = Choice {
            without: Some(rule),
            ..Choice::default()
        };
        self.record(Write::of(Entry::Chose(choice))).await
    }

    /// Puts a message that did not come from the input box into the inbox. It is durable when this
    /// returns. `blobs` are the bytes of its images.
    pub fn say(&mut self, message: &Message, blobs: &[Vec<u8>]) -> Result<(), EngineError> {
        let at_ms = self.world.now_ms();
        self.store
            .inbox_mut()
            .queue(self.head.session(), message, blobs, at_ms)?;
        Ok(())
    }

    /// Lifts a pause for a message that was sent in this process: its sender wants the session to
    /// continue.
    pub(super) async fn lift_for_words(&mut self) -> Result<(), EngineError> {
        match self.state.paused {
            true => self.record(Write::of(Entry::Lifted { origin: None })).await,
            false => Ok(()),
        }
    }

    /// Puts a note into the inbox, so it is not lost while a step is in progress.
    pub(super) fn note(&mut self, text: String) -> Result<(), EngineError> {
        let note = Message::new(text, Via::Note);
        self.say(&note, &[])
    }
}

impl Requests {
    pub(super) fn new(chosen: Option<Choice>) -> Requests {
        Requests {
            chosen,
            ..Requests::default()
        }
    }

    /// Continues the session: messages that waited after a stop are sent. Lifts a pause, a limit, a
    /// failure or a crash loop, and records that.
    pub(super) async fn continue_session<W: World>(
        &mut self,
        log: &mut Recorder<W>,
    ) -> Result<(), EngineError> {
        self.waits_for_person = false;
        let mut lifting = Vec::new();
        if log.state.paused {
            lifting.push(Entry::Lifted { origin: None });
        }
        match rest_but_pause(&log.state, &log.policy) {
            None | Some(Why::Idle | Why::Paused) => {}
            Some(Why::Limit) => lifting.push(Entry::Chose(Choice::of_limits(RunLimits::default()))),
            // The entry that lifts a pause lifts this too.
            Some(Why::Repeats) if log.state.paused => {}
            Some(Why::Repeats) => lifting.push(Entry::Lifted { origin: None }),
            Some(_) if log.state.is_stopped() => {}
            Some(_) => lifting.push(Entry::Resumed {
                by: By::Person,
                found: "asked to go on".to_string(),
                draft: None,
                unrecorded: false,
                at_work: log.is_at_work(),
            }),
        }
        if !lifting.is_empty() {
            log.record(Write::of_all(lifting)).await?;
        }
        log.inbox_is_held = false;
        Ok(())
    }

    /// Records a choice, without the parts that change nothing.
    pub(super) async fn choose<W: World>(
        &mut self,
        log: &mut Recorder<W>,
        mut choice: Choice,
    ) -> Result<(), EngineError> {
        // It overrides the choice of this start, which may not be in the log yet.
        if let Some(chosen) = &mut self.chosen {
            let of_model = choice.model.is_some();
            chosen.model.take_if(|_| of_model);
            chosen.mode.take_if(|_| choice.mode.is_some());
            chosen
                .effort
                .take_if(|_| of_model || choice.effort.is_some());
            chosen
                .temperature
                .take_if(|_| of_model || choice.temperature.is_some());
        }
        let state = &log.state;
        // Choosing the current model again resets its settings to those of the config.
        let is_plain = state.effort == Effort::Default
            && state.temperature.is_none()
            && state.fallback_from.is_none()
            && state.model_before_command.is_none();
        choice.model.take_if(|m| is_plain && *m == state.model);
        choice.mode.take_if(|m| *m == state.mode);
        choice.without_schema &= state.pending_schema().is_some();
        if choice.model.is_none() {
            choice.effort.take_if(|e| *e == state.effort);
            choice
                .temperature
                .take_if(|t| Some(*t) == state.temperature);
        }
        if choice.is_empty() {
            return Ok(());
        }
        log.record(Write::of(Entry::Chose(choice))).await
    }

    pub(super) async fn edit_queued<W: World>(
        &mut self,
        log: &mut Recorder<W>,
        id: InboxId,
        message: Option<Message>,
    ) -> Result<(), EngineError> {
        let done = match &message {
            Some(message) => log.store.inbox_mut().edit_queued(id, message),
            None => log.store.inbox_mut().remove_queued(id),
        };
        match (done, message) {
            (Ok(()), Some(_)) => {}
            // The session may have no pending work any more.
            (Ok(()) | Err(StoreError::NotFound { .. }), None) => {
                log.record(Write::default()).await?;
            }
            (Err(StoreError::NotFound { .. }), Some(message)) => {
                return self.send(log, message, &[]).await;
            }
            (Err(error), _) => return Err(error.into()),
        }
        let mut queued = log.store.inbox().queued(log.head.session())?;
        queued.retain(|q| !q.is_note());
        log.emit(Event::Requeued(queued));
        Ok(())
    }

    /// Queues a message from the input box and clears that draft, so the text is never in both
    /// places.
    pub(super) async fn send<W: World>(
        &mut self,
        log: &mut Recorder<W>,
        message: Message,
        blobs: &[Vec<u8>],
    ) -> Result<(), EngineError> {
        // This comes first, since a command that fails is applied again as a whole.
        log.lift_for_words().await?;
        let at_ms = log.world.now_ms();
        let session = log.head.session();
        let id = log
            .store
            .inbox_mut()
            .send(session, &message, blobs, at_ms)?;
        if let Some((_, Some(from))) = self.unkept_input.take()
            && let Err(error) = log.store.inbox_mut().remove_left_draft(&from)
        {
            tracing::warn!(%error, "the draft of the session before was not cleared");
        }
        log.inbox_is_held = false;
        self.waits_for_person = false;
        let queued = Queued { id, at_ms, message };
        log.emit(Event::Queued(queued));
        Ok(())
    }

    /// Stores the text of the input box. A failure is reported and does not stop the engine:
    /// storing is tried again.
    pub(super) fn store_input<W: World>(
        &mut self,
        log: &mut Recorder<W>,
        text: String,
        from: Option<AbandonedDraft>,
    ) {
        let session = log.head.session();
        let kept = match (text.is_empty(), &from) {
            (true, _) => log
                .store
                .inbox_mut()
                .clear_draft(session, crate::store::Draft::Input),
            (false, None) => log.store.inbox_mut().set_input(session, &text),
            (false, Some(from)) => log.store.inbox_mut().move_input_from(session, &text, from),
        };
        self.unkept_input = None;
        if let Err(error) = &kept {
            tracing::warn!(%error, "the unsent words were not kept");
            self.unkept_input = Some((text.clone(), from));
        }
        log.emit(Event::Kept(
            kept.as_ref().copied().map_err(ToString::to_string),
        ));
        if kept.is_ok() {
            log.emit(Event::InputKept(text));
        }
    }

    pub(super) fn store_input_again<W: World>(&mut self, log: &mut Recorder<W>) {
        if let Some((text, from)) = self.unkept_input.take() {
            self.store_input(log, text, from);
        }
    }

    /// Ends the request to compact, since it was done or stopped, or there was nothing to compact.
    pub(super) fn without_compaction<W: World>(
        &mut self,
        log: &mut Recorder<W>,
    ) -> Result<(), EngineError> {
        self.compaction = false;
        if let Some(id) = log.signal.compaction.take() {
            log.store.inbox_mut().remove_signal(id)?;
        }
        Ok(())
    }
}
