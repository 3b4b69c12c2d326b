//! The conversation on the screen: scrolling, search, folding, and the loading of earlier entries.

use std::ops::RangeInclusive;

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use ratatui::text::Line;

use super::Intent;
use crate::config::Scrollback;
use crate::core::entry::{Record, Seq};
use crate::core::text::one_line;
use crate::ui::transcript::{LayoutContext, MAX_WORDS_CHARS, Scroll, Transcript, TranscriptSearch};

/// Maximum number of lines that stay in the terminal.
const MAX_PRINTED_LINES: usize = 10_000;

/// Number of earlier entries that are loaded at a time.
const EARLIER: u64 = 400;

/// The transcript, and the part of it that is seen.
pub struct Conversation {
    pub transcript: Transcript,
    /// Height at the last drawing.
    pub seen_height: usize,
    /// Earlier entries that are on their way.
    fetching: Option<RangeInclusive<Seq>>,
    /// The beginning of the session is on its way, for somebody who wants to see it.
    goes_home: bool,
    /// The last entry that was there when the session was opened. `None`: there was none.
    since: Option<Seq>,
}

impl Conversation {
    pub(super) fn new() -> Conversation {
        Conversation {
            transcript: Transcript::default(),
            seen_height: 20,
            fetching: None,
            goes_home: false,
            since: None,
        }
    }

    /// Returns how many lines a page scrolls: two of the last page stay.
    pub(super) fn page(&self) -> usize {
        self.seen_height.saturating_sub(2)
    }

    pub(super) fn scroll(
        &mut self,
        up: bool,
        lines: usize,
        layout: &mut LayoutContext<'_>,
    ) -> Vec<Intent> {
        let (lines, height) = (lines.max(1), self.seen_height);
        match up {
            true if self.transcript.scroll_up(lines, height, layout) => Vec::new(),
            true => self.fetch_earlier(),
            false => {
                self.transcript.scroll_down(lines, height, layout);
                match (
                    self.transcript.in_head(),
                    self.transcript.head,
                    self.transcript.first,
                ) {
                    (Some(true), Some((_, last)), Some(first)) => {
                        self.fetch(last + 1..=(last + EARLIER).min(first.saturating_sub(1)))
                    }
                    _ => Vec::new(),
                }
            }
        }
    }

    /// Goes to the first line of the session. The entries between are read when they are scrolled
    /// to.
    pub(super) fn scroll_home(&mut self) -> Vec<Intent> {
        self.transcript.scroll_home();
        match self.transcript.first {
            Some(first) if first > 0 && self.transcript.head.is_none() => {
                self.goes_home = true;
                self.fetch(0..=EARLIER.min(first) - 1)
            }
            _ => Vec::new(),
        }
    }

    fn fetch_earlier(&mut self) -> Vec<Intent> {
        match (self.transcript.first, self.transcript.head) {
            _ if self.transcript.in_head().is_some() => Vec::new(),
            (Some(first), head) if first > 0 => {
                let begins = head.map_or(0, |(_, last)| last + 1);
                self.fetch(first.saturating_sub(EARLIER).max(begins)..=first - 1)
            }
            _ => Vec::new(),
        }
    }

    fn fetch(&mut self, range: RangeInclusive<Seq>) -> Vec<Intent> {
        if self.fetching.is_some() {
            return Vec::new();
        }
        self.fetching = Some(range.clone());
        vec![Intent::Earlier(range)]
    }

    /// Folds or unfolds the block in this row.
    pub(super) fn click(&mut self, row: usize, layout: &mut LayoutContext<'_>) {
        let (height, transcript) = (self.seen_height, &mut self.transcript);
        if row >= height {
            return;
        }
        // A short conversation is at the bottom.
        let above = height.saturating_sub(transcript.visible(height, layout).len());
        let Some(row) = row.checked_sub(above) else {
            return;
        };
        if let Some(block) = transcript.block_at(row, height, layout) {
            transcript.toggle(block);
        }
    }

    /// Returns the text that stays in the terminal when a screen of this height is left: the last
    /// lines of the conversation since this start. Empty: none.
    pub fn printed(
        &mut self,
        scrollback: Scrollback,
        height: u16,
        layout: &mut LayoutContext<'_>,
    ) -> String {
        let rows = match scrollback {
            Scrollback::None => return String::new(),
            _ if self.shows_start() => return String::new(),
            Scrollback::Screens => 2 * usize::from(height),
            Scrollback::Conversation => MAX_PRINTED_LINES,
        };
        self.transcript.drop_before(self.since);
        self.transcript.scroll = Scroll::End;
        let lines = self.transcript.visible(rows, layout);
        let line = |line: &Line<'_>| {
            let text: String = line.spans.iter().map(|s| s.content.as_ref()).collect();
            text.trim_end().to_string()
        };
        let text = lines.iter().map(line).collect::<Vec<_>>().join("\n");
        text.trim_matches('\n').to_string()
    }

    /// Returns the user's message at this place.
    pub(super) fn words_at(&self, seq: Seq) -> Option<String> {
        let prompts = self.transcript.prompts();
        let found = prompts.iter().find(|(at, _)| *at == seq);
        found.map(|(_, words)| words.to_string())
    }

    /// Returns whether the conversation is empty, except for the notices of the start.
    pub fn shows_start(&self) -> bool {
        self.transcript.has_only_notices() && self.transcript.stream.is_empty()
    }

    /// Shows another session. `since`: its last entry that an earlier start recorded.
    pub(super) fn open(&mut self, transcript: Transcript, since: Option<Seq>) {
        self.transcript = transcript;
        self.since = since;
        self.fetching = None;
        self.goes_home = false;
    }

    /// Notes that earlier entries cannot be read: the next scroll asks again.
    pub(super) fn not_fetched(&mut self) {
        self.fetching = None;
        self.goes_home = false;
    }

    /// Takes earlier entries.
    pub(super) fn prepend(
        &mut self,
        records: &[Record],
        search: Option<&mut TranscriptSearch>,
    ) -> Vec<Intent> {
        let Some(range) = self.fetching.take() else {
            return Vec::new();
        };
        let goes_home = std::mem::take(&mut self.goes_home);
        // A search needs the entries in their order.
        let first = self.transcript.first;
        if search.is_some() && first.is_some_and(|first| range.end() + 1 < first) {
            return Vec::new();
        }
        let is_at_top = self.transcript.scroll == Scroll::At { block: 0, line: 0 };
        let before = self.transcript.blocks.len();
        self.transcript.insert(records, &range);
        if let Some(search) = search {
            search.shift(self.transcript.blocks.len() - before);
        }
        if !goes_home || !is_at_top {
            return Vec::new();
        }
        if *range.start() > 0 {
            return self.scroll_home();
        }
        self.transcript.scroll_home();
        Vec::new()
    }

    /// Returns whether part of the conversation is still to be searched.
    pub(super) fn searches(&self, search: &TranscriptSearch) -> bool {
        !search.is_through() || self.fetching.is_some()
    }

    /// Searches more of the conversation. Fetches earlier entries when the rest is done.
    pub(super) fn search_on(
        &mut self,
        search: &mut TranscriptSearch,
        layout: &mut LayoutContext<'_>,
    ) -> Vec<Intent> {
        self.transcript.search_on(search, self.seen_height, layout);
        match search.wants_earlier() {
            true => self.fetch_earlier(),
            false => Vec::new(),
        }
    }

    /// Takes a paste into the words that are searched for.
    pub(super) fn search_paste(
        &mut self,
        search: &mut TranscriptSearch,
        text: &str,
        layout: &mut LayoutContext<'_>,
    ) -> Vec<Intent> {
        let words = format!("{}{}", search.words, one_line(text, MAX_WORDS_CHARS));
        self.search_words(search, &words, layout)
    }

    fn search_words(
        &mut self,
        search: &mut TranscriptSearch,
        words: &str,
        layout: &mut LayoutContext<'_>,
    ) -> Vec<Intent> {
        let words = words.chars().take(MAX_WORDS_CHARS).collect();
        search.set_words(words, self.transcript.blocks.len());
        self.search_on(search, layout)
    }

    /// Takes a key of the search. `None`: it closes the search.
    pub(super) fn search_key(
        &mut self,
        search: &mut TranscriptSearch,
        key: &KeyEvent,
        layout: &mut LayoutContext<'_>,
    ) -> Option<Vec<Intent>> {
        let ctrl = key.modifiers.contains(KeyModifiers::CONTROL);
        let mut words = search.words.clone();
        let backwards = match key.code {
            KeyCode::Esc => return None,
            KeyCode::Char('c') if ctrl => return None,
            KeyCode::Backspace => {
                words.pop();
                return Some(self.search_words(search, &words, layout));
            }
            KeyCode::Char('u') if ctrl => return Some(self.search_words(search, "", layout)),
            KeyCode::Char('f' | 'p') if ctrl => true,
            KeyCode::Char('n') if ctrl => false,
            KeyCode::Char(c) if !ctrl => {
                words.push(c);
                return Some(self.search_words(search, &words, layout));
            }
            KeyCode::Enter | KeyCode::Up => true,
            KeyCode::Down => false,
            _ => return Some(Vec::new()),
        };
        let height = self.seen_height;
        self.transcript
            .search_next(search, backwards, height, layout);
        Some(Vec::new())
    }

    /// Returns the state of the search in words: the number of matches, and the selected one.
    pub fn search_state(&self, search: &TranscriptSearch) -> String {
        let more = if self.searches(search) { " …" } else { "" };
        let unseen = match search.is_out_of_sight() {
            true => ", in lines that are not shown here",
            false => "",
        };
        match (search.position(), search.count()) {
            _ if search.words.trim().is_empty() => String::new(),
            (Some(at), count) => format!(" · {at} of {count}{more}{unseen}"),
            (None, _) if !more.is_empty() => " · looking …".to_string(),
            (None, _) => " (not found)".to_string(),
        }
    }
}
