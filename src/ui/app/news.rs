//! What the engine tells, shown.

use super::{App, Intent, Phase};
use crate::core::entry::{CallId, Entry, Record};
use crate::engine::{Command, ContextChange};
use crate::ui::live::{News, NotOpened, Now, Opening};
use crate::ui::overlay::Approval;
use crate::ui::transcript::{Tone, Transcript};

impl App {
    pub(super) fn news(&mut self, news: News) -> Vec<Intent> {
        match news {
            News::Opened(opening) => return self.opened(*opening),
            News::NotOpened(why) => return self.not_opened(why),
            News::Working => {
                if !matches!(self.phase, Phase::Working { .. }) {
                    self.phase = Phase::Working {
                        since_ms: self.now_ms,
                    };
                }
            }
            News::Watching => self.phase = Phase::Watching,
            News::Free => {
                self.hint = Some("the other process has left: /resume takes it up".into())
            }
            News::Recorded(record, now) => self.recorded(&record, *now),
            News::Delta(delta) => self.transcript.delta(&delta),
            News::Queued(queued) => self.queued.push(queued),
            News::Requeued(queued) => self.queued = queued,
            News::Asked { call, why, rule } => self.asks(call, why, rule),
            News::Kept(Ok(())) => {
                self.kept.at_ms = Some(self.now_ms);
                self.kept.trouble = None;
            }
            News::Kept(Err(why)) => self.kept.trouble = Some(why),
            News::Context(figures) => {
                if figures.what == ContextChange::NearLimit {
                    self.hint =
                        Some("the context is nearly full; older parts will be summarised".into());
                }
            }
            News::Resting(why) => {
                self.phase = Phase::Resting(why);
                self.asked = None;
                self.explain_rest(why);
            }
            News::Paused(message, hint) => {
                let hint = hint.map(|h| format!("; {h}")).unwrap_or_default();
                self.kept.trouble = Some(format!("{message}{hint}"));
            }
            News::GoesOn => self.kept.trouble = None,
            News::Ended(trouble) => {
                self.phase = Phase::Ended;
                self.asked = None;
                if let Some((message, hint)) = trouble {
                    let hint = hint.map(|h| format!("\nhint: {h}")).unwrap_or_default();
                    self.transcript.tell(Tone::Bad, format!("{message}{hint}"));
                }
            }
        }
        Vec::new()
    }

    fn opened(&mut self, opening: Opening) -> Vec<Intent> {
        self.transcript = Transcript::of(&opening.recent);
        for warning in &opening.warnings {
            self.transcript.tell(Tone::Warn, warning.clone());
        }
        self.asked = None;
        self.editing = None;
        self.cost_usd = opening.cost_usd;
        self.id = Some(opening.id);
        self.now = opening.now;
        self.queued = opening.queued;
        self.kept.at_ms = Some(self.now_ms);
        self.kept.trouble = None;
        self.phase = Phase::Working {
            since_ms: self.now_ms,
        };
        if let Some(input) = opening.input
            && self.composer.text().is_empty()
        {
            self.composer.restore(&input);
        }
        let prompts = self.transcript.prompts();
        let prompts = prompts
            .into_iter()
            .map(|(_, text)| text.to_string())
            .collect();
        self.composer.set_prompts(prompts);
        for warning in std::mem::take(&mut self.warned) {
            self.transcript.tell(Tone::Warn, warning);
        }
        match self.first_words.take() {
            Some(text) => vec![Intent::Say {
                text,
                images: Vec::new(),
            }],
            None => Vec::new(),
        }
    }

    fn not_opened(&mut self, why: NotOpened) -> Vec<Intent> {
        self.phase = Phase::Nothing;
        let hint = why.hint.map(|h| format!("\nhint: {h}")).unwrap_or_default();
        self.transcript
            .tell(Tone::Bad, format!("{}{hint}", why.message));
        // To be watched, copied or taken over.
        let held = why.held.map(|(id, _)| Intent::OfferHeld(id));
        held.into_iter().collect()
    }

    fn recorded(&mut self, record: &Record, now: Now) {
        self.kept.at_ms = Some(self.now_ms);
        self.kept.trouble = None;
        self.count(record);
        match &record.entry {
            Entry::Said { .. } => self.said(),
            Entry::Decided { call, .. } | Entry::Finished { call, .. } => self.answered(*call),
            _ => {}
        }
        self.transcript.fold(record);
        self.now = now;
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

    /// The price of what models were asked for it.
    fn count(&mut self, record: &Record) {
        for (model, usage) in record.entry.spent() {
            let cost = self.figures.cost(model, usage);
            self.cost_usd = self.cost_usd.zip(cost).map(|(sum, one)| sum + one);
        }
    }

    fn asks(&mut self, id: CallId, why: String, rule: Option<String>) {
        self.transcript.asked(id);
        if let Some(call) = self.transcript.call(id) {
            self.asked = Some(Approval::new(id, call.call.clone(), why, rule));
        }
    }

    fn answered(&mut self, id: CallId) {
        if self.asked.as_ref().is_some_and(|asked| asked.id == id) {
            self.asked = None;
        }
    }

    fn explain_rest(&mut self, why: crate::core::next::Why) {
        use crate::core::next::Why;
        let hint = match why {
            // What was said before stays until the next key.
            Why::Idle | Why::Halted => return,
            Why::Held => "held: the last starts all ended without getting anywhere; Enter goes on",
            Why::Turns => "the number of turns is used up; say something to go on",
            Why::Nonsense => "the model's last answers cannot be used; say what is wanted",
        };
        self.hint = Some(hint.into());
    }

    /// The command that makes what waits go on.
    pub(super) fn go_on(&mut self) -> Vec<Intent> {
        vec![Intent::Engine(Command::GoOn)]
    }
}
