//! The typed text and the cursor, with undo and one cut for pasting. The buffer treats characters
//! as people see them (graphemes), and a chip as one of them.
//!
//! It does not use ratatui-textarea, which counts code points: an emoji would come apart under
//! Backspace, and pieces could not stay whole.
//!
//! Invariant: the cursor is between characters, and moves by graphemes. The text is at most
//! [`MAX_BYTES`].

use std::ops::Range;

use unicode_segmentation::UnicodeSegmentation;

use super::chips::is_chip;

/// Maximum length. A longer text belongs in a file or a chip.
pub(super) const MAX_BYTES: usize = 128 * 1024;

const MAX_UNDO: usize = 200;

/// Edits that follow each other and are undone together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Edit {
    Word,
    Space,
    Back,
    Other,
}

/// A change by a vim command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Step {
    Replace(Range<usize>, String),
    Undo,
    Redo,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Moment {
    text: String,
    cursor: usize,
}

#[derive(Debug, Default)]
pub(super) struct Buffer {
    text: String,
    cursor: usize,
    undo: Vec<Moment>,
    redo: Vec<Moment>,
    last: Option<Edit>,
    cut: String,
    /// Edits are undone together; whether one was made since this began.
    group: Option<bool>,
    /// Another number for another text.
    revision: u64,
}

impl Buffer {
    pub(super) fn text(&self) -> &str {
        &self.text
    }

    pub(super) fn cursor(&self) -> usize {
        self.cursor
    }

    pub(super) fn revision(&self) -> u64 {
        self.revision
    }

    pub(super) fn before(&self) -> &str {
        &self.text[..self.cursor]
    }

    pub(super) fn after(&self) -> &str {
        &self.text[self.cursor..]
    }

    /// Sets another text, which can be undone.
    pub(super) fn set(&mut self, text: &str) {
        if text != self.text {
            self.remember(Edit::Other);
            self.drain(0, self.text.len());
            self.put(text);
        }
        self.cursor = self.text.len();
    }

    /// Sets another text, without a history for undo.
    pub(super) fn reset(&mut self, text: &str, cursor: usize) {
        *self = Buffer {
            cut: std::mem::take(&mut self.cut),
            group: self.group.map(|_| false),
            revision: self.revision + 1,
            ..Buffer::default()
        };
        self.put(text);
        self.move_to(cursor);
    }

    pub(super) fn type_char(&mut self, c: char) -> bool {
        self.remember(if c.is_whitespace() {
            Edit::Space
        } else {
            Edit::Word
        });
        self.put(c.encode_utf8(&mut [0; 4]))
    }

    pub(super) fn insert(&mut self, text: &str) -> bool {
        self.remember(Edit::Other);
        self.put(text)
    }

    /// Replaces the bytes from `start` to the cursor.
    pub(super) fn replace_before(&mut self, start: usize, with: &str) {
        self.remember(Edit::Other);
        self.drain(start, self.cursor);
        self.put(with);
    }

    /// Replaces these bytes. The cursor keeps its place in the text around them. Returns false when
    /// the text would be too long.
    pub(super) fn replace(&mut self, range: Range<usize>, with: &str) -> bool {
        if self.text.len() - range.len() + with.len() > MAX_BYTES {
            return false;
        }
        self.remember(Edit::Other);
        let cursor = match self.cursor {
            at if at <= range.start => at,
            at if at >= range.end => at - range.len() + with.len(),
            _ => range.start + with.len(),
        };
        self.text.replace_range(range, with);
        self.revision += 1;
        self.move_to(cursor);
        true
    }

    /// Moves to the boundary at or before a byte.
    pub(super) fn move_to(&mut self, at: usize) {
        let at = at.min(self.text.len());
        self.last = None;
        self.cursor = pieces(&self.text)
            .map(|(start, piece)| start + piece.len())
            .take_while(|end| *end <= at)
            .last()
            .unwrap_or(0);
    }

    pub(super) fn left(&mut self) {
        self.cursor -= last_piece(self.before()).len();
        self.last = None;
    }

    pub(super) fn right(&mut self) {
        self.cursor += first_piece(self.after()).len();
        self.last = None;
    }

    pub(super) fn line_start(&mut self) {
        self.cursor = self.start_of_line();
        self.last = None;
    }

    pub(super) fn line_end(&mut self) {
        self.cursor = self.end_of_line();
        self.last = None;
    }

    pub(super) fn word_left(&mut self) {
        self.cursor = self.start_of_word();
        self.last = None;
    }

    pub(super) fn word_right(&mut self) {
        self.cursor = self.end_of_word();
        self.last = None;
    }

    pub(super) fn backspace(&mut self) -> bool {
        let start = self.cursor - last_piece(self.before()).len();
        let edit = if self.before().ends_with(is_chip) {
            Edit::Other
        } else {
            Edit::Back
        };
        self.remove(start, self.cursor, edit)
    }

    pub(super) fn delete(&mut self) -> bool {
        let end = self.cursor + first_piece(self.after()).len();
        self.remove(self.cursor, end, Edit::Other)
    }

    pub(super) fn delete_word(&mut self) -> bool {
        self.cut(self.start_of_word(), self.cursor)
    }

    pub(super) fn delete_next_word(&mut self) -> bool {
        self.cut(self.cursor, self.end_of_word())
    }

    /// Cuts to the end of the line; at the end, cuts the line end itself.
    pub(super) fn kill_to_end(&mut self) -> bool {
        let end = self.end_of_line();
        let joins = usize::from(end == self.cursor && end < self.text.len());
        self.cut(self.cursor, end + joins)
    }

    pub(super) fn kill_to_start(&mut self) -> bool {
        let start = self.start_of_line();
        let joins = usize::from(start == self.cursor && start > 0);
        self.cut(start - joins, self.cursor)
    }

    pub(super) fn yank(&mut self) -> bool {
        let cut = self.cut.clone();
        !cut.is_empty() && self.insert(&cut)
    }

    pub(super) fn undo(&mut self) -> bool {
        let Some(moment) = self.undo.pop() else {
            return false;
        };
        let now = self.take(moment);
        self.redo.push(now);
        true
    }

    pub(super) fn redo(&mut self) -> bool {
        let Some(moment) = self.redo.pop() else {
            return false;
        };
        let now = self.take(moment);
        self.undo.push(now);
        true
    }

    /// Makes the next edits one for undo, until it is called with false.
    pub(super) fn group(&mut self, is_on: bool) {
        self.group = is_on.then(|| self.group.unwrap_or(false));
    }

    /// Performs the changes of a vim command, which are undone together. An undo puts the cursor to
    /// `changed_at`.
    pub(super) fn perform(&mut self, changed_at: Option<usize>, steps: &[Step], cursor: usize) {
        self.cursor = changed_at.unwrap_or(self.cursor);
        self.group(true);
        for step in steps {
            match step {
                Step::Replace(range, with) => {
                    self.replace(range.clone(), with);
                }
                Step::Undo => self.step_back(true),
                Step::Redo => self.step_back(false),
            }
        }
        if !steps
            .iter()
            .any(|step| matches!(step, Step::Undo | Step::Redo))
        {
            self.move_to(cursor);
        }
    }

    /// Undoes or redoes as vim does, which puts the cursor where the change was.
    fn step_back(&mut self, is_undo: bool) {
        let moments = if is_undo { &self.undo } else { &self.redo };
        if let Some(moment) = moments.last() {
            self.cursor = moment.cursor;
            match is_undo {
                true => self.undo(),
                false => self.redo(),
            };
        }
    }

    fn take(&mut self, moment: Moment) -> Moment {
        self.last = None;
        self.group = self.group.map(|_| false);
        self.revision += 1;
        Moment {
            text: std::mem::replace(&mut self.text, moment.text),
            cursor: std::mem::replace(&mut self.cursor, moment.cursor),
        }
    }

    fn remember(&mut self, edit: Edit) {
        let goes_on = self.last == Some(edit) && edit != Edit::Other;
        self.last = Some(edit);
        self.redo.clear();
        if goes_on && self.group.is_none() || self.group == Some(true) {
            return;
        }
        self.group = self.group.map(|_| true);
        if self.undo.len() == MAX_UNDO {
            self.undo.remove(0);
        }
        self.undo.push(Moment {
            text: self.text.clone(),
            cursor: self.cursor,
        });
    }

    fn put(&mut self, text: &str) -> bool {
        if self.text.len() + text.len() > MAX_BYTES {
            return false;
        }
        self.text.insert_str(self.cursor, text);
        self.revision += 1;
        let last = self.last;
        // The inserted text may join with the character after it.
        self.move_to_end_of(self.cursor + text.len());
        self.last = last;
        true
    }

    fn move_to_end_of(&mut self, at: usize) {
        let line = self.text[..at].rfind('\n').map_or(0, |i| i + 1);
        self.cursor = pieces(&self.text[line..])
            .map(|(start, piece)| line + start + piece.len())
            .find(|end| *end >= at)
            .unwrap_or(at);
        if at == line {
            self.cursor = at;
        }
    }

    fn remove(&mut self, start: usize, end: usize, edit: Edit) -> bool {
        if start == end {
            return false;
        }
        self.remember(edit);
        self.drain(start, end);
        true
    }

    fn drain(&mut self, start: usize, end: usize) {
        self.text.drain(start..end);
        self.revision += 1;
        self.cursor = start;
    }

    fn cut(&mut self, start: usize, end: usize) -> bool {
        let cut = self.text[start..end].to_string();
        let removed = self.remove(start, end, Edit::Other);
        if removed {
            self.cut = cut;
        }
        removed
    }

    fn start_of_line(&self) -> usize {
        self.before().rfind('\n').map_or(0, |i| i + 1)
    }

    fn end_of_line(&self) -> usize {
        let after = self.after();
        self.cursor + after.find('\n').unwrap_or(after.len())
    }

    fn start_of_word(&self) -> usize {
        let mut at = self.cursor;
        let mut inside = false;
        while at > 0 {
            let piece = last_piece(&self.text[..at]);
            let word = is_word(piece);
            if inside && (!word || piece.starts_with(is_chip)) {
                break;
            }
            at -= piece.len();
            if piece.starts_with(is_chip) {
                break;
            }
            inside |= word;
        }
        at
    }

    fn end_of_word(&self) -> usize {
        let mut at = self.cursor;
        let mut inside = false;
        while at < self.text.len() {
            let piece = first_piece(&self.text[at..]);
            let word = is_word(piece);
            if inside && (!word || piece.starts_with(is_chip)) {
                break;
            }
            at += piece.len();
            if piece.starts_with(is_chip) {
                break;
            }
            inside |= word;
        }
        at
    }
}

fn is_word(piece: &str) -> bool {
    piece.starts_with(|c: char| c.is_alphanumeric() || c == '_' || is_chip(c))
}

/// Returns the graphemes of a text with their positions; a chip never joins with anything.
pub(super) fn pieces(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut at = 0;
    std::iter::from_fn(move || {
        let piece = first_piece(&text[at..]);
        let start = at;
        at += piece.len();
        (!piece.is_empty()).then_some((start, piece))
    })
}

pub(super) fn first_piece(text: &str) -> &str {
    match text.chars().next() {
        Some(c) if is_chip(c) => &text[..c.len_utf8()],
        _ => {
            let whole = text.graphemes(true).next().unwrap_or("");
            &whole[..whole.find(is_chip).unwrap_or(whole.len())]
        }
    }
}

pub(super) fn last_piece(text: &str) -> &str {
    match text.chars().next_back() {
        Some(c) if is_chip(c) => &text[text.len() - c.len_utf8()..],
        _ => {
            let whole = text.graphemes(true).next_back().unwrap_or("");
            let chip = whole.rfind(is_chip);
            let start = chip.and_then(|at| Some(at + whole[at..].chars().next()?.len_utf8()));
            &whole[start.unwrap_or(0)..]
        }
    }
}

#[cfg(test)]
mod tests;
