//! Words that are on the disk elsewhere than in the draft of the session that is open: in that of
//! the session that was left, or in the editor's file.
//!
//! Invariant: they are forgotten where they were only when they are kept here.

use super::{App, Intent};
use crate::engine::Command;
use crate::store::LeftDraft;

/// Where words are kept besides the draft of the session that is open.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WordsPlace {
    /// The file that the editor of this session wrote.
    Editor { session: String },
}

/// They may go as soon as this draft is kept here.
#[derive(Debug)]
pub(super) struct Elsewhere {
    draft: String,
    place: WordsPlace,
}

/// More are not waited for; what is forgotten here is only offered once more.
const MAX_ELSEWHERE: usize = 16;

impl App {
    /// The box goes along into another session. Gives the draft that stays in the old one until
    /// it is kept in the new one.
    pub(crate) fn takes_words_along(&mut self) -> String {
        self.elsewhere.clear();
        self.typed_ms = None;
        let draft = self.composer.draft().unwrap_or_default();
        if let Some(id) = self.id.clone().filter(|_| !draft.is_empty()) {
            let draft = draft.clone();
            self.came_along.replace((id, draft));
        }
        draft
    }

    /// What stands in the box of the session that was just opened is kept in it, at once.
    pub(super) fn keep_taken_along(&mut self) -> Vec<Intent> {
        let here = self.id.clone();
        let from = self.came_along.take();
        if self.composer.is_empty() {
            return Vec::new();
        }
        let from = from.filter(|(id, _)| Some(id) != here.as_ref());
        match from {
            Some((session, draft)) => {
                self.typed_ms = None;
                vec![Intent::Engine(Command::BringInput {
                    text: self.composer.draft().unwrap_or_default(),
                    from: LeftDraft { session, draft },
                })]
            }
            None => self.keep_input(),
        }
    }

    /// What was written in the editor is kept in the draft, and then its file may go.
    pub(super) fn keep_edited(&mut self) -> Vec<Intent> {
        match self.id.clone() {
            Some(session) => self.keep_from(WordsPlace::Editor { session }),
            None => {
                self.typed_ms = Some(self.now_ms);
                Vec::new()
            }
        }
    }

    fn keep_from(&mut self, place: WordsPlace) -> Vec<Intent> {
        let draft = self.composer.draft().unwrap_or_default();
        if self.elsewhere.len() < MAX_ELSEWHERE {
            self.elsewhere.push(Elsewhere { draft, place });
        }
        self.keep_input()
    }

    /// This draft is on the disk.
    pub(super) fn input_kept(&mut self, draft: &str) -> Vec<Intent> {
        let (done, rest) = std::mem::take(&mut self.elsewhere)
            .into_iter()
            .partition(|elsewhere| elsewhere.draft == draft);
        self.elsewhere = rest;
        let done: Vec<Elsewhere> = done;
        done.into_iter().map(|e| Intent::Forget(e.place)).collect()
    }

    /// What the editor of this session wrote before it, or rewake, was killed.
    pub(super) fn bring_edited(&mut self, text: &str) -> Vec<Intent> {
        let text = text.strip_suffix('\n').unwrap_or(text);
        if text != self.composer.for_editor() && !text.trim().is_empty() {
            self.composer.edited(text);
            self.hint =
                Some("what you wrote in your editor is in the box · Ctrl+_ undoes it".into());
        }
        self.keep_edited()
    }
}
