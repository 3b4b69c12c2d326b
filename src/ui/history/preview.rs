//! The conversation at the cursor, painted as the conversation itself is, and read from its end.

use ratatui::text::Line;

use super::HistoryRequest;
use crate::core::entry::{Record, Seq};
use crate::session::EditPlace;
use crate::ui::transcript::{LayoutContext, Scroll, Transcript};

#[derive(Default)]
pub(super) struct Preview {
    pub(super) is_known: bool,
    /// The session and the entry of the last request.
    of: Option<(String, Seq)>,
    number: u64,
    transcript: Transcript,
    /// Lines below the screen.
    below: usize,
    height: usize,
}

impl Preview {
    /// Requests a preview. `None` when it was requested already.
    pub(super) fn ask(&mut self, session: String, seq: Seq, number: u64) -> Option<HistoryRequest> {
        let of = Some((session.clone(), seq));
        if self.of == of {
            return None;
        }
        self.of = of;
        self.number = number;
        Some(HistoryRequest::Preview {
            number,
            session,
            seq,
        })
    }

    pub(super) fn receive(&mut self, number: u64, records: &[Record], places: Vec<EditPlace>) {
        if number == self.number {
            self.transcript = Transcript::of(records);
            self.transcript.ask_last_places(usize::MAX);
            self.transcript.learn_places(places);
            self.is_known = true;
            self.below = 0;
        }
    }

    pub(super) fn screenful(&self) -> isize {
        isize::try_from(self.height.saturating_sub(1).max(1)).unwrap_or(1)
    }

    pub(super) fn scroll(&mut self, by: isize) {
        self.below = self.below.saturating_add_signed(by.saturating_neg());
    }

    /// Returns the lines on a screen of this height.
    pub(super) fn visible(
        &mut self,
        height: usize,
        layout: &mut LayoutContext<'_>,
    ) -> Vec<Line<'static>> {
        self.height = height;
        self.transcript.scroll = Scroll::End;
        if self.below > 0 {
            // Its lines are made once, and are few.
            let lines = self.transcript.lines(layout);
            self.below = self.below.min(lines.saturating_sub(height));
            self.transcript.scroll_up(self.below, height, layout);
        }
        self.transcript.visible(height, layout)
    }
}
