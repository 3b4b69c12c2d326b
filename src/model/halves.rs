//! Characters of which a server sends each half in another event of a stream, as one does that cuts the
//! UTF-16 text of an answer anywhere. A half is a mark until the answer is there; one that stays alone is
//! U+FFFD in text. In the arguments of a call it is a control character, with which they are no JSON: the
//! call is refused, so that no file is written wrong.

use std::borrow::Cow;

use super::{Delta, Reply};
use crate::core::entry::{Block, Failure};
use crate::core::half_character::replace_halves;
use crate::net::sse::Event;

/// The first code unit that is half a character, and its mark: the last characters for private use.
const FIRST: u32 = 0xD800;
const FIRST_MARK: u32 = 0x10_F800;

/// Stands for a half in arguments: JSON has no control character, in a string or elsewhere.
const NEVER_JSON: char = '\u{1a}';

/// The halves of one answer.
#[derive(Debug, Default)]
pub(super) struct Halves {
    /// There was one.
    found: bool,
    /// The marks at the end of the thinking and of the text that are shown, until the next piece.
    held: [Option<char>; 2],
}

impl Halves {
    /// Returns an event with marks for halves.
    pub(super) fn marked<'a>(&mut self, event: &'a Event) -> Cow<'a, Event> {
        match replace_halves(&event.data, mark) {
            Cow::Borrowed(_) => Cow::Borrowed(event),
            Cow::Owned(data) => {
                self.found = true;
                let event = event.event.clone();
                Cow::Owned(Event { event, data })
            }
        }
    }

    /// Returns deltas without marks.
    pub(super) fn shown(&mut self, mut deltas: Vec<Delta>) -> Vec<Delta> {
        for delta in deltas.iter_mut().filter(|_| self.found) {
            let [of_thinking, of_text] = &mut self.held;
            let (text, held) = match delta {
                Delta::Text(text) => (text, of_text),
                Delta::Thinking(text) => (text, of_thinking),
                Delta::Call { .. } | Delta::Usage(_) | Delta::Retry { .. } => continue,
            };
            text.insert_str(0, &held.take().map_or(String::new(), String::from));
            if text.chars().next_back().and_then(half).is_some() {
                *held = text.pop();
            }
            *text = joined(text);
        }
        deltas
    }

    /// Returns a failure without marks.
    pub(super) fn said(&self, mut failure: Failure) -> Failure {
        if self.found {
            failure.message = joined(&failure.message);
        }
        failure
    }

    /// Returns an answer without marks.
    pub(super) fn whole(&self, mut reply: Reply) -> Reply {
        for block in reply.blocks.iter_mut().filter(|_| self.found) {
            match block {
                Block::Text { text, .. } | Block::Thinking { text, .. } => *text = joined(text),
                Block::Call {
                    name, arguments, ..
                } => {
                    *name = joined(name);
                    *arguments = joined_or(arguments, NEVER_JSON);
                }
            }
        }
        reply
    }
}

fn mark(unit: u16) -> char {
    char::from_u32(FIRST_MARK + u32::from(unit) - FIRST).unwrap_or(char::REPLACEMENT_CHARACTER)
}

/// Returns the half of a mark.
fn half(c: char) -> Option<u16> {
    let number = u32::from(c).checked_sub(FIRST_MARK)?;
    u16::try_from(FIRST + number).ok()
}

/// Joins the marks of a text.
fn joined(text: &str) -> String {
    joined_or(text, char::REPLACEMENT_CHARACTER)
}

/// Joins the marks of a text, with this character for each half that stays alone.
fn joined_or(text: &str, alone: char) -> String {
    let mut out = String::new();
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        let Some(first) = half(c) else {
            out.push(c);
            continue;
        };
        let second = chars.peek().copied().and_then(half);
        let pair = second.and_then(|second| char::decode_utf16([first, second]).next()?.ok());
        out.push(pair.unwrap_or(alone));
        if pair.is_some() {
            chars.next();
        }
    }
    out
}
