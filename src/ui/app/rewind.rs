//! Rewinding: the choice of the message and the parts, the preview of the files, and the outcome.

use jiff::Timestamp;
use jiff::tz::TimeZone;

use super::{App, Conversation, Intent, OpenSession, Overlay, Phase, Prompts};
use crate::core::entry::Seq;
use crate::core::marks::title_line;
use crate::engine::{Back, Rewinding};
use crate::session::SessionSelector;
use crate::ui::live::RewindAnswer;
use crate::ui::overlay::{For, Picker, PickerItem};
use crate::ui::rewind::{RewindDid, RewindPane, RewindWhat};
use crate::ui::text::with_hint;
use crate::ui::transcript::Tone;

/// The choices of a rewind and their meaning. The first does nothing.
const WHAT: [(&str, &str); 4] = [
    ("nothing", "leave everything as it is"),
    (
        "conversation",
        "in a copy that ends before it; its text goes into the box",
    ),
    ("files", "in this session; you see the changes first"),
    ("both", "the copy, and the files"),
];

/// The hint where there is nothing to rewind to.
const NO_MESSAGE: &str = "there is no message yet";

/// Shows the user's messages, to rewind to before one of them.
pub(super) fn pick_rewind(app: &mut App) {
    let (zone, now_ms) = (&app.look.zone, app.now_ms);
    app.hint = app.prompts.pick_rewind(&app.conversation, zone, now_ms);
}

impl Prompts {
    /// Shows the user's messages, to rewind to before one of them. Returns a hint when there is none.
    pub(super) fn pick_rewind(
        &mut self,
        conversation: &Conversation,
        zone: &TimeZone,
        now_ms: i64,
    ) -> Option<String> {
        let at = |ms| Timestamp::from_millisecond(ms).map(|at| at.to_zoned(zone.clone()));
        let today = at(now_ms).map(|now| now.date()).ok();
        let detail = |seq: Seq, at_ms: i64, changes: String| {
            let time = at(at_ms).map(|at| {
                let is_today = today == Some(at.date());
                let format = if is_today { "%H:%M" } else { "%m-%d %H:%M" };
                at.strftime(format).to_string()
            });
            let parts = [time.unwrap_or_default(), changes, format!("entry {seq}")];
            let parts = parts.into_iter().filter(|part| !part.is_empty());
            parts.collect::<Vec<_>>().join(" · ")
        };
        let prompts = conversation.transcript.turns();
        let items: Vec<PickerItem> = prompts
            .into_iter()
            .rev()
            .map(|(seq, at_ms, text, changes)| PickerItem {
                value: seq.to_string(),
                label: title_line(text, 300),
                detail: detail(seq, at_ms, changes),
            })
            .collect();
        if items.is_empty() {
            return Some(NO_MESSAGE.into());
        }
        let mut picker = Picker::new(For::Rewind, "rewind to before", items);
        picker.note = Some("next you choose: the conversation, the files, or both".into());
        self.overlay = Overlay::Picker(picker);
        None
    }

    /// Shows the changes that would undo the last message and the work for it.
    ///
    /// # Errors
    /// A hint: the reason why that cannot be shown.
    pub(super) fn undo(
        &mut self,
        session: &OpenSession,
        conversation: &Conversation,
    ) -> Result<Vec<Intent>, String> {
        let prompts = conversation.transcript.prompts();
        let (seq, _) = prompts.last().ok_or(NO_MESSAGE)?;
        self.show_rewind_changes(RewindWhat::Both, Back::Before(*seq), session, conversation)
    }

    /// Shows the changes of a rewind.
    ///
    /// # Errors
    /// As for [`Prompts::undo`].
    pub(super) fn show_rewind_changes(
        &mut self,
        what: RewindWhat,
        back: Back,
        session: &OpenSession,
        conversation: &Conversation,
    ) -> Result<Vec<Intent>, String> {
        match session.phase {
            Phase::Resting(_) => {}
            // After its last answer the engine still scans the files, and then plans the rewind.
            Phase::Working { .. } if !session.now.owes => {}
            Phase::Working { .. } => {
                return Err("working: stop it, then rewind the files".into());
            }
            _ => {
                return Err("files can be restored only in a session that is open here".into());
            }
        }
        let words = match back {
            Back::Before(seq) => conversation.words_at(seq).unwrap_or_default(),
            _ => String::new(),
        };
        let words = title_line(&words, 300);
        self.rewinds += 1;
        let (pane, request) = RewindPane::new(self.rewinds, what, back, words);
        self.overlay = Overlay::Rewind(Box::new(pane));
        Ok(vec![Intent::PlanRewind(request)])
    }

    /// Performs the result of a key in the list of a rewind. Returns a hint too.
    pub(super) fn rewind_did(&mut self, did: RewindDid) -> (Vec<Intent>, Option<String>) {
        let intent = match did {
            RewindDid::Nothing => return (Vec::new(), None),
            RewindDid::Closed => {
                self.overlay = Overlay::None;
                return (Vec::new(), Some("no file was changed".into()));
            }
            RewindDid::Plan(request) => Intent::PlanRewind(request),
            RewindDid::Diff {
                rewinding,
                path,
                choice,
            } => Intent::RewindDiff {
                rewinding,
                path,
                choice,
            },
        };
        (vec![intent], None)
    }
}

impl App {
    pub(super) fn choose_rewind_part(&mut self, chosen: &str) -> Vec<Intent> {
        let (what, seq) = chosen.split_once(' ').unwrap_or((chosen, ""));
        let Ok(seq) = seq.parse() else {
            return Vec::new();
        };
        let what = match what {
            "conversation" => return self.rewind_copy(seq, None).into_iter().collect(),
            "files" => RewindWhat::Files,
            "both" => RewindWhat::Both,
            _ => return Vec::new(),
        };
        let (session, conversation) = (&self.session, &self.conversation);
        let back = Back::Before(seq);
        let asked = self
            .prompts
            .show_rewind_changes(what, back, session, conversation);
        self.or_hint(asked)
    }

    /// Makes a copy that ends before the message, with its words in the box.
    fn rewind_copy(&mut self, seq: Seq, files: Option<Box<Rewinding>>) -> Option<Intent> {
        let origin = self.session.id.clone()?;
        if let Some(words) = self.conversation.words_at(seq) {
            self.input.set_text(&words, self.now_ms);
        }
        Some(Intent::RewindCopy {
            origin,
            to: seq.saturating_sub(1),
            files,
            draft: self.input.composer.draft(),
        })
    }

    /// Handles the engine's answer to the plan with this number.
    pub(super) fn rewind_answered(&mut self, number: u64, answer: RewindAnswer) -> Vec<Intent> {
        // The pane was closed in the meantime.
        let Overlay::Rewind(pane) = &mut self.prompts.overlay else {
            return Vec::new();
        };
        if pane.number != number {
            return Vec::new();
        }
        let (what, back) = (pane.what, pane.back);
        match answer {
            RewindAnswer::Shown(shown) => {
                pane.receive(shown);
                self.prompts.asks_again();
                return Vec::new();
            }
            RewindAnswer::Not { why, hint } => {
                self.prompts.overlay = Overlay::None;
                self.notify(Tone::Warn, with_hint(why, hint));
                return Vec::new();
            }
            RewindAnswer::HandedOver(_) | RewindAnswer::Done { .. } => {}
        }
        self.prompts.overlay = Overlay::None;
        match (answer, back) {
            (RewindAnswer::HandedOver(rewinding), Back::Before(seq)) => {
                self.rewind_copy(seq, Some(rewinding)).into_iter().collect()
            }
            (RewindAnswer::Done { copy_of: Some(id) }, _) if what == RewindWhat::Redo => {
                vec![Intent::Open {
                    which: SessionSelector::Named { id, fork: false },
                    take_over: false,
                }]
            }
            _ => Vec::new(),
        }
    }
}

/// Returns the list of the parts to rewind to before the message at `seq`.
pub(super) fn rewind_part_picker(seq: &str, words: &str) -> Picker {
    let items = WHAT.map(|(name, detail)| PickerItem {
        value: format!("{name} {seq}"),
        label: name.to_string(),
        detail: detail.to_string(),
    });
    let mut picker = Picker::new(For::RewindWhat, "what to rewind", items.into());
    let words = title_line(words, 200);
    picker.note = Some(format!("to before this message: {words}"));
    picker
}
