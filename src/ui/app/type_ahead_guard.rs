//! When keys may answer a question: one about a call, or the resume prompt.
//!
//! A person who types does not see a question that appears. So an answer counts only when the
//! question was on the screen, the keyboard was quiet for a while after that, and the screen then
//! showed that it accepts keys. Keys typed before that are text for the box.
//!
//! Invariant: no key that arrived before the screen showed this is an answer. No clock is read: the
//! times of keys, ticks and drawing are given.

use std::time::{Duration, Instant};

/// The open question, by its number. No two in one run have the same number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Asking {
    Overlay(u64),
    Question(u64),
}

/// The state that decides when keys may answer: it follows the drawing and the keys.
#[derive(Debug, Default)]
pub struct TypeAheadGuard {
    /// Time without keys before an answer counts.
    pub length: Duration,
    /// The question that was last on the screen, and since when.
    shown: Option<(Asking, Instant)>,
    last_key: Option<Instant>,
    is_armed: bool,
    /// Since when the screen shows that it is armed.
    shown_armed: Option<Instant>,
}

impl TypeAheadGuard {
    /// Returns the state before the first drawing and the first key.
    pub fn new(length: Duration) -> TypeAheadGuard {
        TypeAheadGuard {
            length,
            ..TypeAheadGuard::default()
        }
    }

    /// Notes a key or a paste that was not an answer.
    pub fn typed(&mut self, at: Instant) {
        self.last_key = self.last_key.max(Some(at));
        self.disarm();
    }

    /// Handles a tick. `may_arm`: no typed text prevents arming.
    pub fn tick(&mut self, asking: Option<Asking>, may_arm: bool, now: Instant) {
        let since = match (self.shown, asking) {
            (Some((shown, since)), Some(asking)) if shown == asking && may_arm => since,
            _ => return self.disarm(),
        };
        let since = self.last_key.map_or(since, |key| key.max(since));
        self.is_armed |= now.saturating_duration_since(since) >= self.length;
    }

    /// Notes a finished drawing with its start and end: it is on the screen now.
    pub fn drawn(&mut self, asking: Option<Asking>, began: Instant, ended: Instant) {
        if self.shown.map(|(shown, _)| shown) != asking {
            self.shown = asking.map(|asking| (asking, ended));
            return self.disarm();
        }
        if self.is_armed {
            self.shown_armed.get_or_insert(began);
        }
    }

    /// Forgets the screen after another program had the terminal: the question must be seen again.
    pub fn forget(&mut self) {
        self.shown = None;
        self.disarm();
    }

    /// Returns whether a key of this time is an answer to it.
    pub fn accepts(&self, asking: Option<Asking>, at: Instant) -> bool {
        let is_shown = asking.is_some() && self.shown.map(|(shown, _)| shown) == asking;
        is_shown
            && self
                .shown_armed
                .is_some_and(|shown_armed| at >= shown_armed)
    }

    /// Returns whether keys answer, for the screen.
    pub fn is_armed(&self) -> bool {
        self.is_armed
    }

    /// Returns whether a question is not armed yet: the screen will change by itself.
    pub fn waits(&self) -> bool {
        self.shown.is_some() && !self.is_armed
    }

    fn disarm(&mut self) {
        self.is_armed = false;
        self.shown_armed = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Plays events for question 1, at milliseconds: `d` drawn, `t` tick, `k` key. Returns whether
    /// a key at `at` is accepted.
    fn accepted(story: &str, at: u64) -> bool {
        let start = Instant::now();
        let time = |ms| start + Duration::from_millis(ms);
        let mut quiet = TypeAheadGuard::new(Duration::from_millis(700));
        for event in story.split_whitespace() {
            let (kind, ms) = event.split_at(1);
            let ms = time(ms.parse().unwrap());
            match kind {
                "d" => quiet.drawn(Some(Asking::Overlay(1)), ms, ms),
                // It takes long until it is on the screen.
                "s" => quiet.drawn(
                    Some(Asking::Overlay(1)),
                    ms,
                    ms + Duration::from_millis(500),
                ),
                "t" => quiet.tick(Some(Asking::Overlay(1)), true, ms),
                "b" => quiet.tick(Some(Asking::Overlay(1)), false, ms),
                "o" => quiet.drawn(Some(Asking::Overlay(2)), ms, ms),
                _ => quiet.typed(ms),
            }
        }
        quiet.accepts(Some(Asking::Overlay(1)), time(at))
    }

    #[test]
    fn a_key_counts_after_the_quiet_that_was_seen() {
        for (story, at, want) in [
            ("", 9_000, false),
            ("d0", 9_000, false),
            ("d0 t699 d699", 699, false),
            ("d0 t700 d700", 700, true),
            // It was quiet, and the screen did not say so yet; or it was said after the key.
            ("d0 t700", 701, false),
            ("d0 t700 d800", 750, false),
            // The later of being drawn and the last key.
            ("d0 k600 t700 d700", 700, false),
            ("d0 k600 t1300 d1300", 1_300, true),
            ("k600 d900 t1300 d1300", 1_300, false),
            ("s0 t1199 d1199", 1_199, false),
            ("s0 t1200 s1200", 1_200, true),
            // A key that went elsewhere, words in the box, and another question end it.
            ("d0 t700 d700 k800", 801, false),
            ("d0 t700 d700 b800 d800", 801, false),
            ("d0 t700 d700 o800", 801, false),
            ("d0 t700 d700 o800 d900 t1599 d1599", 1_599, false),
        ] {
            assert_eq!(accepted(story, at), want, "{story:?} at {at}");
        }
    }

    #[test]
    fn without_a_quiet_time_it_must_still_be_seen_first() {
        let now = Instant::now();
        let mut quiet = TypeAheadGuard::new(Duration::ZERO);
        quiet.tick(Some(Asking::Overlay(1)), true, now);
        assert!(!quiet.accepts(Some(Asking::Overlay(1)), now));
        quiet.drawn(Some(Asking::Overlay(1)), now, now);
        quiet.tick(Some(Asking::Overlay(1)), true, now);
        quiet.drawn(Some(Asking::Overlay(1)), now, now);
        assert!(quiet.accepts(Some(Asking::Overlay(1)), now));
        quiet.forget();
        assert!(!quiet.accepts(Some(Asking::Overlay(1)), now) && !quiet.waits());
    }
}
