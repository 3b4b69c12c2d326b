//! Going back: which message, what of it, the look at the files, and what came of it.

use super::{App, Intent, Overlay, Phase};
use crate::core::entry::Seq;
use crate::core::marks::title_line;
use crate::engine::{Back, Rewinding};
use crate::session::Which;
use crate::ui::live::RewindAnswer;
use crate::ui::overlay::{For, Picker, PickerItem};
use crate::ui::rewind::{RewindDid, RewindPane, RewindWhat};
use crate::ui::transcript::Tone;

/// What can be rewound, and what that means. The first does nothing.
const WHAT: [(&str, &str); 4] = [
    ("nothing", "leave everything as it is"),
    (
        "conversation",
        "in a copy that ends before it; its text goes into the box",
    ),
    ("files", "in this session; you see the changes first"),
    ("both", "the copy, and the files"),
];

impl App {
    /// The user's messages, to go back to before one of them.
    pub(super) fn pick_rewind(&mut self) {
        let prompts = self.conversation.transcript.prompts();
        let items: Vec<PickerItem> = prompts
            .into_iter()
            .rev()
            .map(|(seq, text)| PickerItem {
                value: seq.to_string(),
                label: title_line(text, 300),
                detail: format!("entry {seq}"),
            })
            .collect();
        if items.is_empty() {
            self.hint = Some("there is no message yet".into());
            return;
        }
        let mut picker = Picker::new(For::Rewind, "rewind to before", items);
        picker.note = Some("next you choose: the conversation, the files, or both".into());
        self.prompts.overlay = Overlay::Picker(picker);
    }

    pub(super) fn rewind_what(&mut self, chosen: &str) -> Vec<Intent> {
        let (what, seq) = chosen.split_once(' ').unwrap_or((chosen, ""));
        let Ok(seq) = seq.parse() else {
            return Vec::new();
        };
        match what {
            "conversation" => self.rewind_copy(seq, None).into_iter().collect(),
            "files" => self.look_at_rewind(RewindWhat::Files, Back::Before(seq)),
            "both" => self.look_at_rewind(RewindWhat::Both, Back::Before(seq)),
            _ => Vec::new(),
        }
    }

    /// The last message with all that was done for it, after a look.
    pub(super) fn undo(&mut self) -> Vec<Intent> {
        let last = self
            .conversation
            .transcript
            .prompts()
            .last()
            .map(|(seq, _)| *seq);
        match last {
            Some(seq) => self.look_at_rewind(RewindWhat::Both, Back::Before(seq)),
            None => {
                self.hint = Some("there is no message yet".into());
                Vec::new()
            }
        }
    }

    pub(super) fn look_at_rewind(&mut self, what: RewindWhat, back: Back) -> Vec<Intent> {
        match self.session.phase {
            Phase::Resting(_) => {}
            // Behind its last answer it still looks at the files: it comes to this next.
            Phase::Working { .. } if !self.session.now.owes => {}
            Phase::Working { .. } => {
                self.hint = Some("working: Esc stops it, then rewind the files".into());
                return Vec::new();
            }
            _ => {
                self.hint =
                    Some("files can be restored only in a session that is open here".into());
                return Vec::new();
            }
        }
        let words = match back {
            Back::Before(seq) => self.conversation.words_at(seq).unwrap_or_default(),
            _ => String::new(),
        };
        let words = title_line(&words, 300);
        self.rewinds += 1;
        let (pane, request) = RewindPane::new(self.rewinds, what, back, words);
        self.prompts.overlay = Overlay::Rewind(Box::new(pane));
        vec![Intent::PlanRewind(request)]
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

    pub(super) fn rewind_did(&mut self, did: RewindDid) -> Vec<Intent> {
        match did {
            RewindDid::Nothing => Vec::new(),
            RewindDid::Closed => {
                self.prompts.overlay = Overlay::None;
                self.hint = Some("no file was changed".into());
                Vec::new()
            }
            RewindDid::Plan(request) => vec![Intent::PlanRewind(request)],
            RewindDid::Diff {
                rewinding,
                path,
                choice,
            } => vec![Intent::RewindDiff {
                rewinding,
                path,
                choice,
            }],
        }
    }

    /// What the engine says to the plan with this number.
    pub(super) fn rewind_answered(&mut self, number: u64, answer: RewindAnswer) -> Vec<Intent> {
        // A pane that was closed meanwhile wants nothing of it.
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
                let hint = hint.map(|h| format!("\nhint: {h}")).unwrap_or_default();
                self.prompts.overlay = Overlay::None;
                self.notify(Tone::Warn, format!("{why}{hint}"));
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
                    which: Which::Named { id, fork: false },
                    take_over: false,
                }]
            }
            _ => Vec::new(),
        }
    }
}

/// Returns the choice of what to rewind to before the message at `seq`.
pub(super) fn what_picker(seq: &str, words: &str) -> Picker {
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
