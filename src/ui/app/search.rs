//! The search in the conversation: while one types it goes to what is found.

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use super::{App, Intent, Overlay};
use crate::core::entry::Record;
use crate::core::text::one_line;
use crate::ui::transcript::{MAX_WORDS_CHARS, Search};

impl App {
    pub(super) fn open_search(&mut self) {
        let search = Search::new(self.transcript.scroll);
        self.overlay = Overlay::Search(Box::new(search));
    }

    /// Some of the conversation was not looked through yet.
    pub(super) fn searches(&self) -> bool {
        match &self.overlay {
            Overlay::Search(search) => !search.is_through() || self.fetching,
            _ => false,
        }
    }

    /// The search at work, with the conversation beside it.
    fn with_search<T>(&mut self, work: impl FnOnce(&mut App, &mut Search) -> T) -> Option<T> {
        match std::mem::replace(&mut self.overlay, Overlay::None) {
            Overlay::Search(mut search) => {
                let done = work(self, &mut search);
                self.overlay = Overlay::Search(search);
                Some(done)
            }
            other => {
                self.overlay = other;
                None
            }
        }
    }

    /// Looks through some more of it; what the store has of it is fetched when the rest is done.
    pub(super) fn search_on(&mut self) -> Vec<Intent> {
        let wants_earlier = self.with_search(|app, search| {
            let height = app.seen_height;
            let (mut layout, transcript) = app.layout_context();
            transcript.search_on(search, height, &mut layout);
            search.wants_earlier()
        });
        match wants_earlier {
            Some(true) => self.fetch_earlier(),
            _ => Vec::new(),
        }
    }

    /// Earlier entries are there.
    pub(super) fn prepend(&mut self, records: &[Record]) -> Vec<Intent> {
        let before = self.transcript.blocks.len();
        self.transcript.prepend(records);
        let count = self.transcript.blocks.len() - before;
        if let Overlay::Search(search) = &mut self.overlay {
            search.shift(count);
        }
        self.search_on()
    }

    pub(super) fn search_words(&mut self, change: impl FnOnce(&mut String)) -> Vec<Intent> {
        let blocks = self.transcript.blocks.len();
        self.with_search(|_, search| {
            let mut words = std::mem::take(&mut search.words);
            change(&mut words);
            let words: String = words.chars().take(MAX_WORDS_CHARS).collect();
            search.set_words(words, blocks);
        });
        self.search_on()
    }

    pub(super) fn search_paste(&mut self, text: &str) -> Vec<Intent> {
        let text = one_line(text, MAX_WORDS_CHARS);
        self.search_words(|words| words.push_str(&text))
    }

    pub(super) fn search_key(&mut self, key: &KeyEvent) -> Vec<Intent> {
        let ctrl = key.modifiers.contains(KeyModifiers::CONTROL);
        let backwards = match key.code {
            KeyCode::Esc => {
                self.overlay = Overlay::None;
                return Vec::new();
            }
            KeyCode::Char('c') if ctrl => {
                self.overlay = Overlay::None;
                return Vec::new();
            }
            KeyCode::Backspace => {
                return self.search_words(|words| {
                    words.pop();
                });
            }
            KeyCode::Char('u') if ctrl => return self.search_words(String::clear),
            KeyCode::Char('f' | 'p') if ctrl => true,
            KeyCode::Char('n') if ctrl => false,
            KeyCode::Char(c) if !ctrl => return self.search_words(|words| words.push(c)),
            KeyCode::Enter | KeyCode::Up => true,
            KeyCode::Down => false,
            _ => return Vec::new(),
        };
        self.with_search(|app, search| {
            let height = app.seen_height;
            let (mut layout, transcript) = app.layout_context();
            transcript.search_next(search, backwards, height, &mut layout);
        });
        Vec::new()
    }

    /// What the search says of itself: how many there are, and which this is.
    pub fn search_state(&self, search: &Search) -> String {
        let more = match self.searches() {
            true => " …",
            false => "",
        };
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
