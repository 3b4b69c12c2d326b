//! Letters typed at a prompt that takes letters as answers: they select, or they begin a sentence.
//!
//! A person, or a dictation tool, may type a sentence while a prompt is open. So a letter only
//! selects a choice, and Enter confirms it, unless Enter follows the letter too closely. Letters
//! that turn out to be a sentence go into the input box, including those that selected a choice.
//!
//! Invariant: a letter never confirms, and none is lost. No clock is read: the times are given.

use std::time::{Duration, Instant};

/// Two letters nearer to each other than this are part of a sentence.
const SENTENCE: Duration = Duration::from_millis(400);

/// Letters that selected a choice, until it is known whether they are a sentence.
#[derive(Debug, Default)]
pub struct Letters {
    /// Letters that selected a choice, oldest first.
    held: String,
    /// Time of the last letter, also of one that went into the input box.
    last: Option<Instant>,
    /// Enter right after the last letter would not count yet, as of the last tick.
    blocks_enter: bool,
}

/// The use of a letter at a prompt.
#[derive(Debug, PartialEq, Eq)]
pub enum Letter {
    /// It selects a choice.
    Selects,
    /// It is part of a sentence: this goes into the input box, with the letters before it.
    Text(String),
}

impl Letters {
    /// Takes a letter at a prompt. `selects`: the prompt has a choice for it.
    pub fn press(&mut self, letter: char, selects: bool, at: Instant) -> Letter {
        let is_sentence = !selects || self.is_near(at);
        self.typed(at);
        self.held.push(letter);
        match is_sentence {
            true => Letter::Text(self.take()),
            false => Letter::Selects,
        }
    }

    /// Returns whether a letter at this time follows another one closely.
    pub fn is_near(&self, at: Instant) -> bool {
        self.last
            .is_some_and(|last| at.saturating_duration_since(last) < SENTENCE)
    }

    /// Notes a letter or a paste that went into the input box or a field.
    pub fn typed(&mut self, at: Instant) {
        self.last = self.last.max(Some(at));
        self.blocks_enter = true;
    }

    /// Returns whether Enter counts: `quiet` after the last letter.
    pub fn allow_enter(&self, at: Instant, quiet: Duration) -> bool {
        self.last
            .is_none_or(|last| at.saturating_duration_since(last) >= quiet)
    }

    /// Takes back the last letter that selected. Returns the one before it, if there is one.
    pub fn backspace(&mut self) -> Option<char> {
        self.held.pop();
        self.held.chars().next_back()
    }

    /// Returns whether letters that selected may still be the beginning of a sentence.
    pub fn is_held(&self) -> bool {
        !self.held.is_empty()
    }

    /// Forgets the letters that selected: another key showed that they were no sentence.
    pub fn forget(&mut self) {
        self.held.clear();
    }

    /// Returns the letters that selected, and forgets them: they are text.
    pub fn take(&mut self) -> String {
        std::mem::take(&mut self.held)
    }

    /// Notes that time went by.
    pub fn tick(&mut self, now: Instant, quiet: Duration) {
        self.blocks_enter &= !self.allow_enter(now, quiet);
    }

    /// Returns whether the screen still shows that Enter does not count.
    pub fn blocks_enter(&self) -> bool {
        self.blocks_enter
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const QUIET: Duration = Duration::from_millis(700);

    /// Types `letters` with `gap_ms` between them, where `ynase` select. Returns the text of the
    /// box, the held letters, and whether Enter counts `wait_ms` after the last letter.
    fn typed(letters: &str, gap_ms: u64, wait_ms: u64) -> (String, String, bool) {
        let (mut box_text, mut state) = (String::new(), Letters::default());
        let mut at = Instant::now();
        for letter in letters.chars() {
            at += Duration::from_millis(gap_ms);
            if !box_text.is_empty() {
                state.typed(at);
                box_text.push(letter);
                continue;
            }
            if let Letter::Text(text) = state.press(letter, "ynase".contains(letter), at) {
                box_text.push_str(&text);
            }
        }
        let counts = state.allow_enter(at + Duration::from_millis(wait_ms), QUIET);
        (box_text, state.take(), counts)
    }

    #[test]
    fn a_letter_selects_and_a_sentence_is_text() {
        for (letters, gap_ms, text, held) in [
            ("y", 0, "", "y"),
            // Near letters, a blank, or a letter without a choice.
            ("ye", 399, "ye", ""),
            ("ye", 400, "", "ye"),
            ("yes", 5_000, "", "yes"),
            ("yes please", 5_000, "yes please", ""),
            ("a b", 1_000, "a b", ""),
            ("also run the linter", 0, "also run the linter", ""),
            ("also run the linter", 900, "also run the linter", ""),
            ("w", 0, "w", ""),
        ] {
            let found = typed(letters, gap_ms, 0);
            let want = (text.to_string(), held.to_string(), false);
            assert_eq!(found, want, "{letters:?} every {gap_ms} ms");
        }
    }

    #[test]
    fn enter_counts_after_a_pause() {
        assert!(!typed("y", 0, 699).2);
        assert!(typed("y", 0, 700).2);
        assert!(!typed("also run it", 0, 699).2);
        assert!(Letters::default().allow_enter(Instant::now(), QUIET));
    }

    #[test]
    fn backspace_takes_back_one_letter() {
        let (mut letters, at) = (Letters::default(), Instant::now());
        letters.press('y', true, at);
        letters.press('n', true, at + SENTENCE);
        assert_eq!(letters.backspace(), Some('y'));
        assert_eq!(letters.backspace(), None);
        assert!(!letters.is_held());
    }
}
