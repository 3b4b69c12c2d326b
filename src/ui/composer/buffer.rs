//! The text that is typed and the place in it, with undo and one cut to put back. It knows
//! characters as people see them (graphemes), and that a chip is one of them.
//!
//! Not a widget: ratatui-textarea counts in code points, so an emoji comes apart under
//! Backspace, and has no pieces that stay whole.
//!
//! Invariant: the cursor is between characters, and moves by graphemes. The text is at most [`MAX_BYTES`].

use unicode_segmentation::UnicodeSegmentation;

use super::chips::is_chip;

/// Longer texts are for a file, or a chip.
pub const MAX_BYTES: usize = 128 * 1024;

const MAX_UNDO: usize = 200;

/// Edits that follow each other and are undone together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Edit {
    Word,
    Space,
    Back,
    Other,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Moment {
    text: String,
    cursor: usize,
}

#[derive(Debug, Default)]
pub struct Buffer {
    text: String,
    cursor: usize,
    undo: Vec<Moment>,
    redo: Vec<Moment>,
    last: Option<Edit>,
    cut: String,
    /// Another number for another text.
    revision: u64,
}

impl Buffer {
    pub fn text(&self) -> &str {
        &self.text
    }

    pub fn cursor(&self) -> usize {
        self.cursor
    }

    pub fn revision(&self) -> u64 {
        self.revision
    }

    pub fn before(&self) -> &str {
        &self.text[..self.cursor]
    }

    pub fn after(&self) -> &str {
        &self.text[self.cursor..]
    }

    /// Another text, which can be undone.
    pub fn set(&mut self, text: &str) {
        if text != self.text {
            self.remember(Edit::Other);
            self.drain(0, self.text.len());
            self.put(text);
        }
        self.cursor = self.text.len();
    }

    /// Another text that nothing came before.
    pub fn reset(&mut self, text: &str, cursor: usize) {
        *self = Buffer {
            cut: std::mem::take(&mut self.cut),
            revision: self.revision + 1,
            ..Buffer::default()
        };
        self.put(text);
        self.move_to(cursor);
    }

    pub fn type_char(&mut self, c: char) -> bool {
        self.remember(if c.is_whitespace() {
            Edit::Space
        } else {
            Edit::Word
        });
        self.put(c.encode_utf8(&mut [0; 4]))
    }

    pub fn insert(&mut self, text: &str) -> bool {
        self.remember(Edit::Other);
        self.put(text)
    }

    /// Something else in the place of the bytes from `start` to the cursor.
    pub fn replace_before(&mut self, start: usize, with: &str) {
        self.remember(Edit::Other);
        self.drain(start, self.cursor);
        self.put(with);
    }

    /// To the boundary at or before a byte.
    pub fn move_to(&mut self, at: usize) {
        let at = at.min(self.text.len());
        self.last = None;
        self.cursor = pieces(&self.text)
            .map(|(start, piece)| start + piece.len())
            .take_while(|end| *end <= at)
            .last()
            .unwrap_or(0);
    }

    pub fn left(&mut self) {
        self.cursor -= last_piece(self.before()).len();
        self.last = None;
    }

    pub fn right(&mut self) {
        self.cursor += first_piece(self.after()).len();
        self.last = None;
    }

    pub fn line_start(&mut self) {
        self.cursor = self.start_of_line();
        self.last = None;
    }

    pub fn line_end(&mut self) {
        self.cursor = self.end_of_line();
        self.last = None;
    }

    pub fn word_left(&mut self) {
        self.cursor = self.start_of_word();
        self.last = None;
    }

    pub fn word_right(&mut self) {
        self.cursor = self.end_of_word();
        self.last = None;
    }

    pub fn backspace(&mut self) -> bool {
        let start = self.cursor - last_piece(self.before()).len();
        let edit = if self.before().ends_with(is_chip) {
            Edit::Other
        } else {
            Edit::Back
        };
        self.remove(start, self.cursor, edit)
    }

    pub fn delete(&mut self) -> bool {
        let end = self.cursor + first_piece(self.after()).len();
        self.remove(self.cursor, end, Edit::Other)
    }

    pub fn delete_word(&mut self) -> bool {
        self.cut(self.start_of_word(), self.cursor)
    }

    pub fn delete_next_word(&mut self) -> bool {
        self.cut(self.cursor, self.end_of_word())
    }

    /// To the end of the line; at the end, the line end itself.
    pub fn kill_to_end(&mut self) -> bool {
        let end = self.end_of_line();
        let joins = usize::from(end == self.cursor && end < self.text.len());
        self.cut(self.cursor, end + joins)
    }

    pub fn kill_to_start(&mut self) -> bool {
        let start = self.start_of_line();
        let joins = usize::from(start == self.cursor && start > 0);
        self.cut(start - joins, self.cursor)
    }

    pub fn yank(&mut self) -> bool {
        let cut = self.cut.clone();
        !cut.is_empty() && self.insert(&cut)
    }

    pub fn undo(&mut self) -> bool {
        let Some(moment) = self.undo.pop() else {
            return false;
        };
        let now = self.take(moment);
        self.redo.push(now);
        true
    }

    pub fn redo(&mut self) -> bool {
        let Some(moment) = self.redo.pop() else {
            return false;
        };
        let now = self.take(moment);
        self.undo.push(now);
        true
    }

    fn take(&mut self, moment: Moment) -> Moment {
        self.last = None;
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
        if goes_on {
            return;
        }
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
        // What was put may join with what is behind it.
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

/// The graphemes of a text with their places; a chip never joins with anything.
pub fn pieces(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut at = 0;
    std::iter::from_fn(move || {
        let piece = first_piece(&text[at..]);
        let start = at;
        at += piece.len();
        (!piece.is_empty()).then_some((start, piece))
    })
}

fn first_piece(text: &str) -> &str {
    match text.chars().next() {
        Some(c) if is_chip(c) => &text[..c.len_utf8()],
        _ => {
            let whole = text.graphemes(true).next().unwrap_or("");
            &whole[..whole.find(is_chip).unwrap_or(whole.len())]
        }
    }
}

fn last_piece(text: &str) -> &str {
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
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A buffer from a text with `|` as the cursor.
    fn buffer(text: &str) -> Buffer {
        let at = text.find('|').unwrap();
        let mut buffer = Buffer::default();
        buffer.reset(&text.replace('|', ""), at);
        buffer
    }

    fn shown(buffer: &Buffer) -> String {
        format!("{}|{}", buffer.before(), buffer.after())
    }

    #[track_caller]
    fn check(given: &str, edit: impl Fn(&mut Buffer) -> bool, want: &str) {
        let mut buffer = buffer(given);
        edit(&mut buffer);
        assert_eq!(shown(&buffer), want, "{given:?}");
    }

    #[track_caller]
    fn moves(given: &str, step: impl Fn(&mut Buffer), want: &str) {
        check(
            given,
            |b| {
                step(b);
                true
            },
            want,
        );
    }

    #[test]
    fn edits() {
        check("ab|", Buffer::backspace, "a|");
        check("|ab", Buffer::backspace, "|ab");
        check("|ab", Buffer::delete, "|b");
        check("a👩\u{200d}👧|b", Buffer::backspace, "a|b");
        check("e\u{301}|", Buffer::backspace, "|");
        check("a\u{10f000}|b", Buffer::backspace, "a|b");
        check("\u{10f000}\u{301}|", Buffer::backspace, "\u{10f000}|");
        check("one two|", Buffer::delete_word, "one |");
        check("one  |", Buffer::delete_word, "|");
        check("a.b|", Buffer::delete_word, "a.|");
        check("x \u{10f000}|", Buffer::delete_word, "x |");
        check("|one two", Buffer::delete_next_word, "| two");
        check("a\nb|c\nd", Buffer::kill_to_end, "a\nb|\nd");
        check("a|\nb", Buffer::kill_to_end, "a|b");
        check("a\nbc|d", Buffer::kill_to_start, "a\n|d");
        check("a\n|b", Buffer::kill_to_start, "a|b");
        check(
            "ab|",
            |b| b.kill_to_start() && b.yank() && b.yank(),
            "abab|",
        );
        check("a|c", |b| b.insert("b"), "ab|c");
    }

    #[test]
    fn moves_go_by_what_is_seen() {
        moves("a👩\u{200d}👧|b", Buffer::left, "a|👩\u{200d}👧b");
        moves("|日本", Buffer::right, "日|本");
        moves("a\nbc|\nd", Buffer::line_start, "a\n|bc\nd");
        moves("a\n|bc\nd", Buffer::line_end, "a\nbc|\nd");
        moves(
            "fix the_parser now|",
            |b| {
                b.word_left();
                b.word_left()
            },
            "fix |the_parser now",
        );
        moves("|fix it", Buffer::word_right, "fix| it");
        moves("|", Buffer::left, "|");
        moves("|", Buffer::word_right, "|");
    }

    #[test]
    fn words_are_undone_as_words() {
        let mut buffer = Buffer::default();
        "fix it".chars().for_each(|c| {
            buffer.type_char(c);
        });
        buffer.undo();
        assert_eq!(shown(&buffer), "fix |");
        buffer.undo();
        assert_eq!(shown(&buffer), "fix|");
        buffer.undo();
        assert_eq!(shown(&buffer), "|");
        assert!(!buffer.undo());
        while buffer.redo() {}
        assert_eq!(shown(&buffer), "fix it|");
    }

    #[test]
    fn there_is_an_end_to_it() {
        let mut buffer = Buffer::default();
        assert!(buffer.insert(&"x".repeat(MAX_BYTES)));
        assert!(!buffer.type_char('x'));
    }

    proptest! {
        #[test]
        fn the_cursor_is_always_on_a_boundary(steps in proptest::collection::vec((0_u8..16, "\\PC|\u{10f000}|\u{301}|\u{200d}|\n"), 0..40)) {
            let mut b = Buffer::default();
            for (step, text) in steps {
                match step {
                    0 => b.left(),
                    1 => b.right(),
                    2 => b.word_left(),
                    3 => b.word_right(),
                    4 => { b.backspace(); }
                    5 => { b.delete(); }
                    6 => { b.delete_word(); }
                    7 => { b.undo(); }
                    8 => { b.redo(); }
                    9 => { b.kill_to_end(); }
                    10 => { b.yank(); }
                    _ => { b.insert(&text); }
                }
                prop_assert!(b.text().is_char_boundary(b.cursor()));
            }
        }
    }
}
