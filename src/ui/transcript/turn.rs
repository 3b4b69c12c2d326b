//! The summary of a turn: its duration, changed files, failures and cost. It is folded from the log
//! alone, so a resumed session shows the same.

use std::collections::BTreeMap;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use ratatui::text::{Line, Span};

use super::paragraph::LayoutContext;
use crate::core::entry::{By, Entry, Fact, Outcome, Record, Usage};
use crate::core::text::count;
use crate::model::Figures;
use crate::session::clock;
use crate::session::describe::TurnEnd;
use crate::ui::text::{Break, clean_line, dollars, short, wrap};

/// Maximum number of files that are named.
const MAX_FILES: usize = 3;

/// The summary at the end of a turn.
#[derive(Debug, PartialEq)]
pub struct TurnSummary {
    pub how: TurnEnd,
    /// Duration without waiting for a person and without absences. Milliseconds.
    pub took_ms: i64,
    /// Each file with the numbers of added and removed lines.
    pub files: Vec<(String, usize, usize)>,
    pub failed_commands: usize,
    pub tokens: u64,
    /// US dollars. `None` when a price is not known.
    pub cost_usd: Option<f64>,
    /// UTC, milliseconds since 1970.
    pub at_ms: i64,
}

/// An open turn.
#[derive(Debug, Default)]
pub(super) struct Turn {
    began_ms: i64,
    away_ms: i64,
    /// The last absence: from and to.
    absence: (i64, i64),
    /// When the last call started.
    started_ms: i64,
    files: BTreeMap<String, (usize, usize)>,
    failed_commands: usize,
    spent: BTreeMap<String, Usage>,
}

impl Turn {
    pub(super) fn begun(at_ms: i64) -> Turn {
        Turn {
            began_ms: at_ms,
            ..Turn::default()
        }
    }

    /// Takes a record. `since_ms`: the time of the entry before.
    pub(super) fn fold(&mut self, record: &Record, since_ms: i64) {
        let since = (record.at_ms - since_ms).max(0);
        match &record.entry {
            // The question was open since the entry before.
            Entry::Decided { by: By::Person, .. } | Entry::Answered { by: By::Person, .. } => {
                self.away_ms += since
            }
            Entry::Resumed { .. } => {
                self.away_ms += since;
                self.absence = (since_ms, record.at_ms);
            }
            Entry::Started { .. } => self.started_ms = record.at_ms,
            Entry::Finished {
                outcome,
                fact: Some(Fact::Ran {
                    exit_code, took_ms, ..
                }),
                ..
            } => {
                // A call that the user stopped did not fail.
                let is_over = matches!(outcome, Outcome::Done { .. } | Outcome::Error { .. });
                self.failed_commands += usize::from(is_over && *exit_code != Some(0));
                self.went_on(*took_ms);
            }
            _ => {}
        }
        for (model, usage) in record.entry.spent() {
            self.spent.entry(model.to_string()).or_default().add(usage);
        }
    }

    /// Counts a command that ran during an absence: that time is work.
    fn went_on(&mut self, took_ms: u64) {
        let ended = self.started_ms.saturating_add_unsigned(took_ms);
        let (from, to) = std::mem::take(&mut self.absence);
        let meanwhile = ended.min(to) - self.started_ms.max(from);
        self.away_ms -= meanwhile.clamp(0, self.away_ms.max(0));
    }

    pub(super) fn changed(&mut self, path: &str, (added, removed): (usize, usize)) {
        let counts = self.files.entry(path.to_string()).or_default();
        *counts = (counts.0 + added, counts.1 + removed);
    }

    pub(super) fn end(self, how: TurnEnd, at_ms: i64, figures: Option<&Figures>) -> TurnSummary {
        let cost = |(model, usage): (&String, &Usage)| figures?.cost(model, usage);
        let files = self.files.into_iter();
        TurnSummary {
            how,
            took_ms: (at_ms - self.began_ms - self.away_ms).max(0),
            files: files
                .map(|(path, (added, removed))| (path, added, removed))
                .collect(),
            failed_commands: self.failed_commands,
            tokens: self.spent.values().map(Usage::all).sum(),
            cost_usd: self.spent.iter().map(cost).sum(),
            at_ms,
        }
    }
}

impl TurnSummary {
    /// `12.3k tokens · $0.04`. Empty: no token was used.
    pub fn spent(&self) -> String {
        let tokens = (self.tokens > 0).then(|| format!("{} tokens", short(self.tokens)));
        let cost = self.cost_usd.filter(|cost| *cost > 0.0).map(dollars);
        let parts: Vec<String> = tokens.into_iter().chain(cost).collect();
        parts.join(" · ")
    }

    /// Returns `tally.py +2 −1` for each of the first files, and the number of the others.
    pub(super) fn changed(&self) -> Vec<String> {
        let files = self.files.iter().take(MAX_FILES);
        let files =
            files.map(|(path, added, removed)| format!("{} +{added} −{removed}", clean_line(path)));
        let more = self.files.len().saturating_sub(MAX_FILES);
        let more = (more > 0).then(|| format!("{} more changed", count(more, "file")));
        files.chain(more).collect()
    }

    /// `done in 39 s · tally.py +2 −1 · 1 command failed · 12.3k tokens · $0.04 · 22:50`
    pub fn to_text(&self, zone: &TimeZone) -> String {
        let (how, after) = match self.how {
            TurnEnd::Done => ("done", "in"),
            TurnEnd::Stopped => ("stopped by you", "after"),
            TurnEnd::Failed => ("failed", "after"),
        };
        // A time of less than a second is not shown.
        let mut parts = vec![match self.took_ms {
            ..1_000 => how.to_string(),
            took_ms => format!("{how} {after} {}", clock(took_ms)),
        }];
        parts.extend(self.changed());
        if self.failed_commands > 0 {
            parts.push(format!("{} failed", count(self.failed_commands, "command")));
        }
        parts.extend(Some(self.spent()).filter(|spent| !spent.is_empty()));
        if let Ok(at) = Timestamp::from_millisecond(self.at_ms) {
            parts.push(at.to_zoned(zone.clone()).strftime("%H:%M").to_string());
        }
        parts.join(" · ")
    }
}

pub(super) fn lines(end: &TurnSummary, layout: &LayoutContext<'_>) -> Vec<Line<'static>> {
    let theme = layout.theme;
    let spans = [Span::styled(end.to_text(layout.zone), theme.dim)];
    let glyph = match end.how {
        TurnEnd::Stopped => "◌ ",
        TurnEnd::Done | TurnEnd::Failed => "  ",
    };
    let first = [Span::styled(glyph, theme.dim)];
    wrap(
        &spans,
        layout.edge(),
        &first,
        &[Span::raw("  ")],
        Break::Words,
    )
}
