//! Events of the engine, shown.

use std::path::Path;

use super::open_session::rest_hint;
use super::{App, Intent, LOOKING_FOR_SESSION, Overlay, Phase, SAID_WHEN_OPEN, UserCommands, Yes};
use crate::config::NotifyOn;
use crate::core::entry::{CallId, Entry, Mode, Record};
use crate::core::text::one_line;
use crate::engine::{ChildQuestion, ContextChange, Event};
use crate::model::Delta;
use crate::session::{ResumeReport, journal_fails};
use crate::tools::Body;
use crate::ui::commands::on_screen;
use crate::ui::live::{LiveEvent, NotOpened, Now, Opening};
use crate::ui::overlay::Approval;
use crate::ui::transcript::{Tone, Transcript};

impl App {
    pub(super) fn engine_event(&mut self, event: LiveEvent) -> Vec<Intent> {
        match event {
            LiveEvent::Opened(opening) => return self.opened(*opening),
            LiveEvent::NotOpened(why) => return self.not_opened(why),
            LiveEvent::Working => {
                self.session.works(self.now_ms);
            }
            LiveEvent::Watching => self.session.phase = Phase::Watching,
            LiveEvent::Free => {
                self.hint =
                    Some("the other process has quit: /resume opens the session here".into())
            }
            LiveEvent::Engine(event, now) => return self.reported(event, now),
            LiveEvent::Resting(why) => {
                let call = self.session.call_at_rest(why);
                let call = call.and_then(|(on, what)| self.call(on, what));
                self.session.phase = Phase::Resting(why);
                self.close_question();
                self.close_own_form();
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
                self.close_question();
                self.form = None;
                if let Some((message, hint)) = trouble {
                    let hint = hint.map(|h| format!("\nhint: {h}")).unwrap_or_default();
                    self.conversation
                        .transcript
                        .add_notice(Tone::Bad, format!("{message}{hint}"));
                }
            }
        }
        Vec::new()
    }

    fn reported(&mut self, event: Event, now: Option<Box<Now>>) -> Vec<Intent> {
        match event {
            Event::Recorded(record) => return self.recorded(&record, now),
            Event::CommandNotRun(command, why) => {
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
                let told = access.map(|access| self.session.sandbox.describe(access));
                let asked = self.asks(call, why, rule);
                if let Some(asked) = asked {
                    asked.set_access(told);
                    asked.place = place;
                }
                let call = self.call(NotifyOn::Approval, "asks");
                return self.read_asked().into_iter().chain(call).collect();
            }
            Event::ServerAsks(call, question) => return self.server_asks(call, *question),
            Event::ChildAsks(asks) => {
                self.child_asks = asks.map(|asks| *asks);
                return self.show_child_question();
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
        self.conversation.transcript =
            Transcript::with_prices(&opening.recent, Some(self.session.figures.clone()));
        for warning in &opening.warnings {
            self.conversation
                .transcript
                .add_notice(Tone::Warn, warning.clone());
        }
        self.asked = None;
        self.form = None;
        self.input.queue.editing = None;
        self.session.open(&opening, self.now_ms);
        self.user_commands = UserCommands::default();
        self.user_commands.follow(&self.session.now.user_commands);
        self.input.queue.messages = opening.queued;
        if let Some(input) = opening.input {
            self.input.restore(&input, self.now_ms);
        }
        let mut intents = self.input.keep_taken_along(&self.session);
        if let Some(edited) = opening.edited {
            let (session, hint) = (&self.session, &mut self.hint);
            let intent = self.input.bring_edited(&edited, session, self.now_ms, hint);
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
        self.hint.take_if(|hint| hint.as_str() == SAID_WHEN_OPEN);
        let words = std::mem::take(&mut self.first_words);
        let commands = std::mem::take(&mut self.first_commands);
        let run: Vec<Intent> = commands
            .iter()
            .map(|typed| self.user_commands.run(typed, self.now_ms))
            .collect();
        if !run.is_empty() {
            self.input.keep_rest(self.now_ms);
        }
        match words.is_empty() && run.is_empty() {
            false => intents.extend(run.into_iter().chain(words.into_iter().map(Intent::Say))),
            true => intents.extend(self.confirm_bypass(opening.found.as_ref(), named)),
        }
        intents
    }

    /// A session in which nothing asks goes on only when that is confirmed, or when it was named
    /// at the start of the program.
    fn confirm_bypass(&mut self, found: Option<&ResumeReport>, named: bool) -> Vec<Intent> {
        let Some(found) = found.filter(|found| found.mode == Mode::BypassPermissions) else {
            return Vec::new();
        };
        if named {
            return Vec::new();
        }
        self.raise(Overlay::Confirm {
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
        });
        Vec::new()
    }

    fn not_opened(&mut self, why: NotOpened) -> Vec<Intent> {
        self.session.phase = Phase::Nothing;
        self.hint
            .take_if(|hint| [LOOKING_FOR_SESSION, SAID_WHEN_OPEN].contains(&hint.as_str()));
        self.named = false;
        let hint = why.hint.map(|h| format!("\nhint: {}", on_screen(&h)));
        let hint = hint.unwrap_or_default();
        self.conversation
            .transcript
            .add_notice(Tone::Bad, format!("{}{hint}", why.message));
        self.take_words_back();
        // To be watched, copied or taken over.
        let held = why.held.map(|(id, _)| Intent::OfferHeld(id));
        held.into_iter().collect()
    }

    fn recorded(&mut self, record: &Record, now: Option<Box<Now>>) -> Vec<Intent> {
        match &record.entry {
            Entry::Said { .. } if self.input.queue.said() => {
                self.hint = Some("the queued message was sent meanwhile; this is a copy".into());
            }
            Entry::Decided { call, .. } | Entry::Finished { call, .. } => self.answered(*call),
            _ => {}
        }
        let mut intents = match &record.entry {
            Entry::Answered { call, .. } | Entry::Finished { call, .. } => self.form_settled(*call),
            _ => Vec::new(),
        };
        self.conversation.transcript.fold(record);
        self.session.recorded(record, now, self.now_ms);
        let of_user = &self.session.now.user_commands;
        intents.extend(self.user_commands.recorded(record, of_user));
        intents
    }

    fn asks(&mut self, id: CallId, why: String, rule: Option<String>) -> Option<&mut Approval> {
        self.conversation.transcript.asked(id);
        let call = self.conversation.transcript.call(id)?.call.clone();
        self.close_question();
        self.leave_form();
        self.asked_ms.get_or_insert(self.now_ms);
        self.asking += 1;
        let mut asked = Approval::new(self.asking, id, call, why, rule);
        asked.say_why(self.session.now.mode);
        Some(self.asked.insert(asked))
    }

    /// The question of a sub-agent, when nothing else asks. One that it does not ask any more goes.
    pub(super) fn show_child_question(&mut self) -> Vec<Intent> {
        let key = |q: &ChildQuestion| (q.session.clone(), q.asked);
        let now = self.child_asks.as_ref().map(key);
        if let Some(asked) = &self.asked {
            if asked.of_child.is_none() || asked.of_child == now {
                return Vec::new();
            }
            self.close_question();
        }
        let Some(question) = self.child_asks.clone().filter(|asks| asks.form.is_none()) else {
            return self.show_child_form();
        };
        let closed = self.show_child_form();
        self.leave_form();
        self.asked_ms.get_or_insert(self.now_ms);
        self.asking += 1;
        let ChildQuestion {
            session,
            title,
            call,
            asked,
            why,
            access,
            form: _,
        } = question;
        let why = format!("The task \"{}\" asks: {why}", one_line(&title, 60));
        let mut approval = Approval::new(self.asking, call.id, call, why, None);
        approval.of_child = Some((session, asked));
        approval.set_access(access.map(|access| self.session.sandbox.describe(access)));
        self.asked = Some(approval);
        let call = self.call(NotifyOn::Approval, "asks");
        closed
            .into_iter()
            .chain(self.read_asked())
            .chain(call)
            .collect()
    }

    /// What an edit replaces is shown with the lines around it.
    fn read_asked(&self) -> Option<Intent> {
        let asked = self.asked.as_ref()?;
        let (Body::Edits { path, .. } | Body::File { path, .. }) = &asked.shown.body else {
            return None;
        };
        let folder = match self.session.now.folder.as_str() {
            "" => &self.launch.folder,
            folder => folder,
        };
        Some(Intent::ReadAsked(asked.id, Path::new(folder).join(path)))
    }

    fn answered(&mut self, id: CallId) {
        let is_it = |asked: &Approval| asked.id == id && asked.of_child.is_none();
        if self.asked.as_ref().is_some_and(is_it) {
            self.close_question();
        }
    }
}
