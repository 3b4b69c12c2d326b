//! Characters of which a server sends each half in another event of a stream, as one does that cuts the
//! UTF-16 text of an answer anywhere. A half is a mark until the answer is there; one that stays alone is
//! U+FFFD in text. In the arguments of a call it stays half an escape: no reader takes them, so a file
//! is not written wrong.

use std::borrow::Cow;

use super::{Delta, Reply};
use crate::core::entry::Block;
use crate::core::half_character::replace_halves;
use crate::net::sse::Event;

/// The first code unit that is half a character, and its mark: the last characters for private use.
const FIRST: u32 = 0xD800;
const FIRST_MARK: u32 = 0x10_F800;

/// The halves of one answer.
#[derive(Debug, Default)]
pub(super) struct Halves {
    /// There was one.
    found: bool,
    /// The mark at the end of what is shown, until the next piece of text.
    held: Option<char>,
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
            if let Delta::Text(text) | Delta::Thinking(text) = delta {
                text.insert_str(0, &self.held.take().map_or(String::new(), String::from));
                if text
                    .chars()
                    .next_back()
                    .is_some_and(|last| half(last).is_some())
                {
                    self.held = text.pop();
                }
                *text = joined(text);
            }
        }
        deltas
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
                    *arguments = escaped(arguments);
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
    let mut units = Vec::new();
    for c in text.chars() {
        match half(c) {
            Some(half) => units.push(half),
            None => units.extend_from_slice(c.encode_utf16(&mut [0; 2])),
        }
    }
    String::from_utf16_lossy(&units)
}

/// Writes the marks of arguments as escapes of JSON.
fn escaped(arguments: &str) -> String {
    let text = |c| half(c).map_or(String::from(c), |half| format!("\\u{half:04x}"));
    arguments.chars().map(text).collect()
}
