//! Events of the engine, shown.

use super::commands::COMPACTING;
use super::open_session::rest_hint;
use super::{App, Intent, LOOKING_FOR_SESSION, Overlay, Phase, SAID_WHEN_OPEN, UserCommands, Yes};
use crate::core::entry::{Entry, Mode, Record};
use crate::core::text::one_line;
use crate::engine::{ContextChange, Event};
use crate::model::Delta;
use crate::session::describe::missing_model;
use crate::session::{ResumeReport, journal_fails};
use crate::ui::commands::on_screen;
use crate::ui::live::{LiveEvent, NotOpened, Opening, SessionView};
use crate::ui::overlay::Approval;
use crate::ui::text::with_hint;
use crate::ui::transcript::{Tone, Transcript};

/// Maximum length of a server's words above a list.
const MAX_WHY_CHARS: usize = 200;

impl App {
    pub(super) fn engine_event(&mut self, event: LiveEvent) -> Vec<Intent> {
        match event {
            LiveEvent::Opened(opening) => return self.opened(*opening),
            LiveEvent::NotOpened(why) => return self.not_opened(why),
            LiveEvent::Working => {
                self.session.works(self.now_ms);
            }
            LiveEvent::Free => {
                self.hint =
                    Some("the other process has quit: /resume opens the session here".into())
            }
            LiveEvent::Engine(event, now) => return self.reported(event, now),
            LiveEvent::Resting(why) => {
                let call = self.session.rest_notification(why);
                let call = call.and_then(|(on, what)| {
                    self.attention.call(on, what, &self.session, self.now_ms)
                });
                self.session.phase = Phase::Resting(why);
                self.prompts.questions.close_own(self.now_ms);
                if self
                    .hint
                    .take_if(|hint| hint.as_str() == COMPACTING)
                    .is_some()
                {
                    self.hint = Some("there is nothing to summarise yet".into());
                }
                if let Some(hint) = rest_hint(why) {
                    self.hint = Some(hint.into());
                }
                return call.into_iter().collect();
            }
            LiveEvent::Paused(message, hint) => {
                let hint = hint.map(|h| format!("; {h}")).unwrap_or_default();
                self.session.kept.trouble = Some(format!("{message}{hint}"));
            }
            LiveEvent::RewindPlanned(number, answer) => {
                return self.rewind_answered(number, answer);
            }
            LiveEvent::GoesOn => self.session.kept.trouble = None,
            LiveEvent::Ended(trouble) => {
                self.session.phase = Phase::Ended;
                self.prompts.questions.end(self.now_ms);
                if let Some((message, hint)) = trouble {
                    self.conversation
                        .transcript
                        .add_notice(Tone::Bad, with_hint(message, hint));
                }
            }
        }
        Vec::new()
    }

    fn reported(&mut self, event: Event, now: Option<Box<SessionView>>) -> Vec<Intent> {
        match event {
            Event::Recorded(record) => return self.recorded(&record, now),
            Event::CommandNotRun { command, why } => {
                self.user_commands.not_run(&command);
                let line = one_line(&command, 100);
                self.notify(Tone::Bad, format!("{line} was not run: {why}"));
            }
            Event::Delta(delta) => {
                if matches!(delta, Delta::Text(_)) {
                    self.session.streams(self.now_ms);
                }
                self.conversation.transcript.delta(&delta, self.now_ms);
            }
            Event::Queued(queued) => {
                self.server_answered();
                self.input.queue.messages.push(queued);
            }
            Event::Requeued(queued) => self.input.queue.messages = queued,
            Event::Asked {
                call,
                why,
                rule,
                access,
                place,
            } => {
                let (transcript, session) = (&mut self.conversation.transcript, &self.session);
                transcript.asked(call);
                let Some(found) = transcript.call(call) else {
                    return Vec::new();
                };
                let mut asked = Approval::new(0, call, found.call.clone(), why, rule);
                asked.set_reason_text(session.now.mode);
                asked.set_access(access.map(|access| session.sandbox.describe(access)));
                asked.place = place;
                return self.prompts.questions.ask(asked, session, self.now_ms);
            }
            Event::ServerAsks(call, question) => {
                let questions = &mut self.prompts.questions;
                questions.server_asks(call, *question, self.now_ms);
            }
            Event::ChildAsks(asks) => {
                let (questions, asks) = (&mut self.prompts.questions, asks.map(|asks| *asks));
                return questions.child_asks(asks, &self.session, self.now_ms);
            }
            Event::Kept(Ok(())) => self.session.is_recorded(self.now_ms),
            Event::InputKept(draft) => return self.input.kept(&draft),
            Event::Kept(Err(why)) => self.session.kept.trouble = Some(why),
            Event::JournalFails(why) => {
                self.conversation
                    .transcript
                    .add_notice(Tone::Warn, journal_fails(&why));
            }
            Event::Notice(text) => self.conversation.transcript.add_notice(Tone::Warn, text),
            Event::Context(figures) => {
                if figures.what == ContextChange::NearLimit {
                    self.hint =
                        Some("the context is nearly full; older parts will be summarised".into());
                }
            }
            Event::SummaryFailed(failed) => {
                self.conversation
                    .transcript
                    .add_notice(Tone::Warn, failed.to_text());
            }
            Event::Files(work) => self.session.files_work = work,
            // LiveEvent::RewindPlanned says it to a person.
            Event::RewindPlanned(..) => {}
        }
        Vec::new()
    }

    fn opened(&mut self, opening: Opening) -> Vec<Intent> {
        let figures = Some(self.session.figures.clone());
        // The screen of an earlier start showed what was there.
        let earlier = opening.recent.last().filter(|_| opening.found.is_some());
        let since = earlier.map(|record| record.seq);
        let transcript = Transcript::with_prices(&opening.recent, figures);
        self.conversation.open(transcript, since);
        for warning in &opening.warnings {
            self.conversation
                .transcript
                .add_notice(Tone::Warn, warning.clone());
        }
        self.prompts.questions.clear();
        self.input.queue.editing = None;
        self.session.open(&opening, self.now_ms);
        self.user_commands = UserCommands::default();
        self.user_commands.follow(&self.session.now.user_commands);
        self.input.queue.messages = opening.queued;
        if let Some(input) = opening.input {
            self.input.restore(&input, self.now_ms);
        }
        let mut intents = self.input.store_moved_draft(&self.session);
        if let Some(edited) = opening.edited {
            let (session, hint) = (&self.session, &mut self.hint);
            let intent = self
                .input
                .take_edited_text(&edited, session, self.now_ms, hint);
            intents.extend(intent);
        }
        let prompts = self.conversation.transcript.prompts();
        let prompts = prompts
            .into_iter()
            .map(|(_, text)| text.to_string())
            .collect();
        self.input.composer.set_prompts(prompts);
        for text in std::mem::take(&mut self.told) {
            self.conversation.transcript.add_notice(Tone::Calm, text);
        }
        for warning in std::mem::take(&mut self.warned) {
            self.conversation.transcript.add_notice(Tone::Warn, warning);
        }
        let named = std::mem::take(&mut self.named);
        self.hint
            .take_if(|hint| [LOOKING_FOR_SESSION, SAID_WHEN_OPEN].contains(&hint.as_str()));
        let words = std::mem::take(&mut self.input.first_words);
        let commands = std::mem::take(&mut self.input.first_commands);
        let run: Vec<Intent> = commands
            .iter()
            .map(|typed| self.user_commands.run(typed, self.now_ms))
            .collect();
        if !run.is_empty() {
            self.input.mark_rest_unsaved(self.now_ms);
        }
        if words.is_empty() && run.is_empty() {
            let found = opening.found.as_ref().filter(|_| !named);
            if let Some(question) = found.and_then(bypass_question) {
                self.raise(question);
            }
        } else {
            intents.extend(run.into_iter().chain(words.into_iter().map(Intent::Say)));
        }
        intents
    }

    fn not_opened(&mut self, why: NotOpened) -> Vec<Intent> {
        if let Some(session) = why.elsewhere {
            return vec![Intent::Watch(session)];
        }
        self.session.phase = Phase::Nothing;
        self.hint
            .take_if(|hint| [LOOKING_FOR_SESSION, SAID_WHEN_OPEN].contains(&hint.as_str()));
        self.named = false;
        let hint = why.hint.map(|h| format!("\nhint: {}", on_screen(&h)));
        let hint = hint.unwrap_or_default();
        self.conversation
            .transcript
            .add_notice(Tone::Bad, format!("{}{hint}", why.message));
        self.input.take_words_back(self.now_ms);
        // The session is offered, so that it can be watched, forked or taken over.
        let held = why.held.map(|(id, _)| Intent::OfferHeld(id));
        held.into_iter().collect()
    }

    fn recorded(&mut self, record: &Record, now: Option<Box<SessionView>>) -> Vec<Intent> {
        if matches!(record.entry, Entry::Said { .. }) && self.input.queue.said() {
            self.hint = Some("the queued message was sent meanwhile; this is a copy".into());
        }
        let settled = match &record.entry {
            Entry::Decided { call, .. } => Some((*call, (true, false))),
            Entry::Answered { call, .. } => Some((*call, (false, true))),
            Entry::Finished { call, .. } => Some((*call, (true, true))),
            _ => None,
        };
        let mut intents = Vec::new();
        if let Some(error) = missing_model(&record.entry) {
            intents.push(Intent::OfferModels {
                model: self.session.now.model.clone(),
                why: one_line(&error.message, MAX_WHY_CHARS),
            });
        }
        if let Some((call, settles)) = settled {
            let questions = &mut self.prompts.questions;
            intents.extend(questions.recorded(call, settles, &self.session, self.now_ms));
        }
        self.conversation.transcript.fold(record);
        let before = self.session.request_tokens();
        self.session.recorded(record, now, self.now_ms);
        if record.entry.ends_window() {
            let tokens = before.zip(self.session.request_tokens());
            if let Some((before, after)) = tokens {
                self.conversation.transcript.add_tokens(before, after);
            }
            self.hint.take_if(|hint| hint.as_str() == COMPACTING);
        }
        let of_user = &self.session.now.user_commands;
        intents.extend(self.user_commands.recorded(record, of_user));
        intents
    }
}

/// Returns the question whether to continue a session in `bypassPermissions`. It is asked when the
/// session was not named at the start of the program.
fn bypass_question(found: &ResumeReport) -> Option<Overlay> {
    let is_bypass = found.mode == Mode::BypassPermissions;
    is_bypass.then(|| Overlay::Confirm {
        question: "This session runs without asking: it skips all approvals and runs commands \
                   WITHOUT the sandbox. Deny rules still apply."
            .to_string(),
        about: Vec::new(),
        answers: (
            "continue",
            "not yet: it waits, and Shift+Tab changes the mode",
        ),
        // A copy waits for words, or for Enter.
        yes: if found.forked {
            Yes::Nothing
        } else {
            Yes::GoOn
        },
    })
}
