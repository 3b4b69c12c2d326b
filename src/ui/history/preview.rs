//! The conversation at the cursor, wrapped once for each width and read from its end.

use ratatui::style::Style;
use ratatui::text::Span;

use super::HistoryRequest;
use crate::core::entry::Seq;
use crate::ui::text::{Break, wrap};

#[derive(Default)]
pub(super) struct Preview {
    pub(super) is_known: bool,
    /// What was asked for last.
    of: Option<(String, Seq)>,
    number: u64,
    lines: Vec<String>,
    wrapped: Vec<String>,
    columns: usize,
    /// Lines below the screen.
    below: usize,
    height: usize,
}

impl Preview {
    /// `None` when it is asked for already.
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

    pub(super) fn receive(&mut self, number: u64, lines: Vec<String>) {
        if number == self.number {
            self.lines = lines;
            self.is_known = true;
            self.columns = 0;
            self.below = 0;
        }
    }

    pub(super) fn screenful(&self) -> isize {
        isize::try_from(self.height.saturating_sub(1).max(1)).unwrap_or(1)
    }

    pub(super) fn scroll(&mut self, by: isize) {
        let most = self.wrapped.len().saturating_sub(self.height);
        self.below = self
            .below
            .saturating_add_signed(by.saturating_neg())
            .min(most);
    }

    /// The lines on a screen of this size.
    pub(super) fn visible(&mut self, columns: usize, height: usize) -> &[String] {
        self.height = height;
        if self.columns != columns {
            self.columns = columns;
            self.wrapped = self
                .lines
                .iter()
                .flat_map(|line| wrapped(line, columns))
                .collect();
        }
        self.below = self.below.min(self.wrapped.len().saturating_sub(height));
        let end = self.wrapped.len() - self.below;
        &self.wrapped[end.saturating_sub(height)..end]
    }
}

/// What is set in stays set in.
fn wrapped(line: &str, columns: usize) -> Vec<String> {
    let text = line.trim_start_matches(' ');
    let indent = [Span::raw(line[..line.len() - text.len()].to_string())];
    let span = [Span::styled(text.to_string(), Style::new())];
    let lines = wrap(&span, columns, &indent, &indent, Break::Words);
    lines.into_iter().map(|line| line.to_string()).collect()
}
