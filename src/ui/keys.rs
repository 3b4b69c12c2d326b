//! The keys of the main screen: a table ([`table`]) has the effect of every key, and the config may
//! name other keys ([`map`]). The key table: the effect of every key of the main screen. Keys are looked up in it and the help
//! sheet is printed from it, so neither can know a key that the other does not.
//!
//! Two keys in a row (`Ctrl+X h`, `Esc Esc`) are a binding too; [`Keys`] remembers the first.
//!
//! Invariant: in one context a key means one thing. Where contexts overlap the first of the
//! given ones wins. No clock is read: the time of a key is given.

mod map;
mod table;

use std::time::{Duration, Instant};

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

pub(crate) use map::{HelpLine, Keymap, help, warnings};
pub use table::Action;
use table::{Chord, Press, normal};
pub(crate) use table::{Context, Group};

/// Maximum time between two presses of the same key (`Esc Esc`).
pub(crate) const DOUBLE_WAIT: Duration = Duration::from_millis(500);

/// A first key that does nothing by itself (`Ctrl+X`) is forgotten after this time.
pub(crate) const PREFIX_WAIT: Duration = Duration::from_secs(3);

/// The meaning of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Pressed {
    Act(Action),
    /// A character to type.
    Type(char),
    /// The first of two keys.
    Prefix,
    Unbound,
}

/// The look-up, with the memory of a first key.
#[derive(Debug, Default)]
pub(crate) struct Keys {
    pub map: Keymap,
    first: Option<(Press, Instant)>,
    /// The first key does nothing by itself.
    is_prefix: bool,
}

impl Keys {
    /// Returns the action of a single key while something else may be in front.
    pub(crate) fn action_of(&self, event: &KeyEvent) -> Option<Action> {
        self.action_in(event, &[Context::Main])
    }

    /// Returns the action of a single key in these contexts.
    pub(crate) fn action_in(&self, event: &KeyEvent, contexts: &[Context]) -> Option<Action> {
        self.map.bound(Chord::One(normal(event)), contexts)
    }

    /// Returns whether a key shows the keys. `is_free`: it would not be added to a text.
    pub(crate) fn is_help(&self, event: &KeyEvent, is_free: bool) -> bool {
        let contexts = [Context::Main, Context::Empty];
        let contexts = if is_free { &contexts } else { &contexts[..1] };
        self.action_in(event, contexts) == Some(Action::Help)
    }

    /// Returns whether the last key was the first of two, and did nothing.
    pub(crate) fn has_prefix(&self) -> bool {
        self.is_prefix
    }

    /// Forgets the first of two keys: another part took a key.
    pub(crate) fn forget(&mut self) {
        self.first = None;
        self.is_prefix = false;
    }

    /// Looks up a key. `contexts` are those that apply now, the strongest first.
    pub(crate) fn press(
        &mut self,
        event: &KeyEvent,
        now: Instant,
        contexts: &[Context],
    ) -> Pressed {
        let press = normal(event);
        self.is_prefix = false;
        if let Some((first, at)) = self.first.take() {
            let limit = if first == press {
                DOUBLE_WAIT
            } else {
                PREFIX_WAIT
            };
            if now.saturating_duration_since(at) <= limit {
                if let Some(action) = self.map.bound(Chord::Two(first, press), contexts) {
                    return Pressed::Act(action);
                }
                if self.map.bound(Chord::One(first), contexts).is_none() {
                    return Pressed::Unbound;
                }
            }
        }
        if self.map.begins(press, contexts) {
            self.first = Some((press, now));
        }
        match (self.map.bound(Chord::One(press), contexts), event.code) {
            (Some(action), _) => Pressed::Act(action),
            (None, _) if self.first.is_some() => {
                self.is_prefix = true;
                Pressed::Prefix
            }
            (None, KeyCode::Char(c)) if (event.modifiers - KeyModifiers::SHIFT).is_empty() => {
                Pressed::Type(c)
            }
            (None, _) => Pressed::Unbound,
        }
    }
}

#[cfg(test)]
mod tests;
