//! What asks the person, whether it was on the screen, and whether a key answers it.

use std::time::Instant;

use super::{App, Asking, Intent, Overlay};
use crate::ui::overlay::Page;

/// Whether what asks can be answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Readiness {
    /// The next key is an answer.
    Armed,
    /// The keyboard was not quiet for long enough.
    Quiet,
    /// Words are being typed into the box.
    Behind,
}

impl App {
    /// What asks lies over all else from now on. What stands in the box already waits.
    pub(super) fn raise(&mut self, overlay: Overlay) {
        self.asking += 1;
        self.aside = !self.composer.is_empty();
        self.overlay = overlay;
        self.behind = None;
        self.page = Page::default();
    }

    /// What a key would answer, by its number.
    pub(super) fn asking(&self) -> Option<Asking> {
        match &self.overlay {
            Overlay::None => match &self.asked {
                Some(asked) => Some(asked.number),
                None => self.form_in_front().map(|form| form.number),
            },
            Overlay::Card(_)
            | Overlay::FirstRun(_)
            | Overlay::Trust(_)
            | Overlay::Confirm { .. } => Some(self.asking),
            Overlay::Rewind(pane) if pane.asks() => Some(self.asking),
            _ => None,
        }
    }

    /// What is to be known of what was just drawn, and is not known yet.
    pub fn seen(&mut self) -> Vec<Intent> {
        let ask = match &mut self.overlay {
            Overlay::History(pane) => pane.seen(),
            _ => None,
        };
        let mut asks: Vec<Intent> = ask.map(Intent::History).into_iter().collect();
        if let Some(session) = self.id.clone() {
            let spans = self.transcript.ask_changes();
            if !spans.is_empty() {
                asks.push(Intent::CallChanges { session, spans });
            }
            let edits = self.transcript.ask_places();
            if !edits.is_empty() {
                asks.push(Intent::EditPlaces(edits));
            }
        }
        asks
    }

    /// What was drawn from one time to the other is on the screen.
    pub fn drawn(&mut self, began: Instant, ended: Instant) {
        let asking = self.asking();
        self.quiet.drawn(asking, began, ended);
        if matches!(self.overlay, Overlay::None)
            && let Some(asked) = &mut self.asked
        {
            asked.drawn();
        }
        if matches!(self.overlay, Overlay::None)
            && self.form_in_front().is_some()
            && let Some(form) = &mut self.form
        {
            form.entry.page.drawn();
        }
        if matches!(self.overlay, Overlay::Trust(_) | Overlay::Confirm { .. }) {
            self.page.drawn();
        }
    }

    /// Whether keys answer what asks now.
    pub fn readiness(&self) -> Readiness {
        match self.has_words_in_front() {
            true => Readiness::Behind,
            false if self.quiet.is_armed() => Readiness::Armed,
            false => Readiness::Quiet,
        }
    }

    pub(super) fn has_words_in_front(&self) -> bool {
        !self.composer.is_empty() && !self.aside
    }
}
