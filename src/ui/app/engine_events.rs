//! Events of the engine, shown.

use std::path::Path;

use super::{App, Intent, Kept, LOOKING_FOR_SESSION, Overlay, Phase, SAID_WHEN_OPEN, Yes};
use crate::config::NotifyOn;
use crate::core::entry::{CallId, Entry, Mode, Record};
use crate::core::next::Why;
use crate::core::text::one_line;
use crate::engine::{ChildQuestion, Command, ContextChange, Event};
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
                if !matches!(self.phase, Phase::Working { .. }) {
                    self.phase = Phase::Working {
                        since_ms: self.now_ms,
                    };
                }
            }
            LiveEvent::Watching => self.phase = Phase::Watching,
            LiveEvent::Free => {
                self.hint =
                    Some("the other process has quit: /resume opens the session here".into())
            }
            LiveEvent::Engine(event, now) => return self.reported(event, now),
            LiveEvent::Resting(why) => {
                let call = self.call_at_rest(why);
                self.phase = Phase::Resting(why);
                self.close_question();
                self.close_own_form();
                self.explain_rest(why);
                return call.into_iter().collect();
            }
            LiveEvent::Paused(message, hint) => {
                let hint = hint.map(|h| format!("; {h}")).unwrap_or_default();
                self.kept.trouble = Some(format!("{message}{hint}"));
            }
            LiveEvent::RewindPlanned(number, answer) => {
                return self.rewind_answered(number, answer);
            }
            LiveEvent::GoesOn => self.kept.trouble = None,
            LiveEvent::Ended(trouble) => {
                self.phase = Phase::Ended;
                self.close_question();
                self.form = None;
                if let Some((message, hint)) = trouble {
                    let hint = hint.map(|h| format!("\nhint: {h}")).unwrap_or_default();
                    self.transcript
                        .add_notice(Tone::Bad, format!("{message}{hint}"));
                }
            }
        }
        Vec::new()
    }

    fn reported(&mut self, event: Event, now: Option<Box<Now>>) -> Vec<Intent> {
        match event {
            Event::Recorded(record) => return self.recorded(&record, now),
            Event::CommandNotRun(command, why) => self.user_command_not_run(&command, &why),
            Event::Delta(delta) => {
                if matches!(delta, Delta::Text(_)) && !self.kept.is_pending {
                    self.kept.is_pending = true;
                    self.kept.at_ms = Some(self.now_ms);
                }
                self.transcript.delta(&delta, self.now_ms);
            }
            Event::Queued(queued) => {
                self.server_answered();
                self.queued.push(queued);
            }
            Event::Requeued(queued) => self.queued = queued,
            Event::Asked {
                call,
                why,
                rule,
                access,
                place,
            } => {
                let told = access.map(|access| self.sandbox.describe(access));
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
            Event::Kept(Ok(())) => self.keeps(),
            Event::InputKept(draft) => return self.input_kept(&draft),
            Event::Kept(Err(why)) => self.kept.trouble = Some(why),
            Event::JournalFails(why) => {
                self.transcript.add_notice(Tone::Warn, journal_fails(&why));
            }
            Event::Notice(text) => self.transcript.add_notice(Tone::Warn, text),
            Event::Context(figures) => {
                if figures.what == ContextChange::NearLimit {
                    self.hint =
                        Some("the context is nearly full; older parts will be summarised".into());
                }
            }
            Event::SummaryFailed(failed) => {
                self.transcript.add_notice(Tone::Warn, failed.to_text());
            }
            Event::Files(work) => self.files_work = work,
            // LiveEvent::RewindPlanned says it to a person.
            Event::RewindPlanned(..) => {}
        }
        Vec::new()
    }

    fn opened(&mut self, opening: Opening) -> Vec<Intent> {
        self.transcript = Transcript::with_prices(&opening.recent, Some(self.figures.clone()));
        for warning in &opening.warnings {
            self.transcript.add_notice(Tone::Warn, warning.clone());
        }
        self.asked = None;
        self.form = None;
        self.editing = None;
        self.cost_usd = opening.cost_usd;
        self.id = Some(opening.id);
        self.now = opening.now;
        self.sandbox = opening.sandbox;
        self.user_commands.clear();
        self.follow_user_commands();
        self.queued = opening.queued;
        self.keeps();
        self.phase = Phase::Working {
            since_ms: self.now_ms,
        };
        if let Some(input) = opening.input {
            // Neither what was kept nor what was typed meanwhile is lost.
            let typed = self.composer.whole();
            self.composer.restore(&input);
            if !typed.is_empty() && typed != self.composer.whole() {
                let kept = self.composer.whole();
                let gap = if kept.is_empty() { "" } else { "\n" };
                let typed = format!("{gap}{typed}");
                self.in_box(|composer, around| composer.paste(&typed, around));
                self.typed_ms = Some(self.now_ms);
            }
        }
        let mut intents = self.keep_taken_along();
        if let Some(edited) = opening.edited {
            intents.extend(self.bring_edited(&edited));
        }
        let prompts = self.transcript.prompts();
        let prompts = prompts
            .into_iter()
            .map(|(_, text)| text.to_string())
            .collect();
        self.composer.set_prompts(prompts);
        for text in std::mem::take(&mut self.told) {
            self.transcript.add_notice(Tone::Calm, text);
        }
        for warning in std::mem::take(&mut self.warned) {
            self.transcript.add_notice(Tone::Warn, warning);
        }
        let named = std::mem::take(&mut self.named);
        self.hint.take_if(|hint| hint.as_str() == SAID_WHEN_OPEN);
        let words = std::mem::take(&mut self.first_words);
        let commands = std::mem::take(&mut self.first_commands);
        let run: Vec<Intent> = commands.iter().map(|typed| self.run_now(typed)).collect();
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
        self.phase = Phase::Nothing;
        self.hint
            .take_if(|hint| [LOOKING_FOR_SESSION, SAID_WHEN_OPEN].contains(&hint.as_str()));
        self.named = false;
        let hint = why.hint.map(|h| format!("\nhint: {}", on_screen(&h)));
        let hint = hint.unwrap_or_default();
        self.transcript
            .add_notice(Tone::Bad, format!("{}{hint}", why.message));
        self.take_words_back();
        // To be watched, copied or taken over.
        let held = why.held.map(|(id, _)| Intent::OfferHeld(id));
        held.into_iter().collect()
    }

    fn recorded(&mut self, record: &Record, now: Option<Box<Now>>) -> Vec<Intent> {
        self.keeps();
        // The price of what models were asked for it.
        for (model, usage) in record.entry.spent() {
            let cost = self.figures.cost(model, usage);
            self.cost_usd = self.cost_usd.zip(cost).map(|(sum, one)| sum + one);
        }
        match &record.entry {
            Entry::Said { .. } => self.said(),
            Entry::Decided { call, .. } | Entry::Finished { call, .. } => self.answered(*call),
            _ => {}
        }
        let mut intents = match &record.entry {
            Entry::Answered { call, .. } | Entry::Finished { call, .. } => self.form_settled(*call),
            _ => Vec::new(),
        };
        self.transcript.fold(record);
        if let Some(now) = now {
            self.now = *now;
        }
        intents.extend(self.user_commands_recorded(record));
        intents
    }

    /// What came so far is on the disk.
    fn keeps(&mut self) {
        self.kept = Kept {
            at_ms: Some(self.now_ms),
            ..Kept::default()
        };
    }

    /// It was the oldest that was queued; it is in the log now.
    fn said(&mut self) {
        if self.queued.is_empty() {
            return;
        }
        let said = self.queued.remove(0);
        if self.editing == Some(said.id) {
            self.editing = None;
            self.hint = Some("the queued message was sent meanwhile; this is a copy".into());
        }
    }

    fn asks(&mut self, id: CallId, why: String, rule: Option<String>) -> Option<&mut Approval> {
        self.transcript.asked(id);
        let call = self.transcript.call(id)?.call.clone();
        self.close_question();
        self.leave_form();
        self.asked_ms.get_or_insert(self.now_ms);
        self.asking += 1;
        let mut asked = Approval::new(self.asking, id, call, why, rule);
        asked.say_why(self.now.mode);
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
        approval.set_access(access.map(|access| self.sandbox.describe(access)));
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
        let folder = match self.now.folder.as_str() {
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

    /// Who stopped it knows that it is at rest.
    fn call_at_rest(&self, why: Why) -> Option<Intent> {
        match why {
            Why::Idle => self.call(NotifyOn::Done, "done"),
            Why::Halted if self.now.has_failed => self.call(NotifyOn::Failed, "failed"),
            Why::Halted | Why::Paused => None,
            Why::CrashLoop | Why::Turns | Why::Nonsense | Why::Unfit | Why::Limit | Why::Asked => {
                self.call(NotifyOn::Failed, "cannot continue")
            }
        }
    }

    fn explain_rest(&mut self, why: crate::core::next::Why) {
        use crate::core::next::Why;
        let hint = match why {
            // What was said before stays until the next key.
            Why::Idle | Why::Halted => return,
            Why::Paused => "paused; Enter continues",
            Why::Asked => "a question waits for its answer",
            Why::Limit => "a limit of this session is reached; Enter continues without limits",
            Why::CrashLoop => {
                "crash loop: the last starts all ended without progress; Enter tries again"
            }
            Why::Turns => "the limit of turns is reached; send a message to continue",
            Why::Unfit => {
                "no answer matched the JSON Schema of this session; send a message, or /schema drop"
            }
            Why::Nonsense => "the model's last answers cannot be used; send a message",
        };
        self.hint = Some(hint.into());
    }

    /// The command that makes what waits go on.
    pub(super) fn go_on(&mut self) -> Vec<Intent> {
        vec![Intent::Engine(Command::GoOn)]
    }
}
