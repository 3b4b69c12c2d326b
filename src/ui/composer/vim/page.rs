//! The text while a command changes it, and the changes for the buffer.

use std::ops::Range;

use super::super::buffer::{MAX_BYTES, Step, pieces};
use super::motion::{
    after_indent, first_nonblank, is_line_end, is_line_start, line_end, line_start, lines_below,
    next, on_character, previous,
};

/// Text that was deleted or copied. Lines come without the last line end.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(in super::super) struct Register {
    pub text: String,
    pub is_lines: bool,
}

/// The text that an operator changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) struct Span {
    pub start: usize,
    pub end: usize,
    pub is_lines: bool,
    /// The cursor while the operator works.
    pub cursor: usize,
}

impl Span {
    pub fn characters(start: usize, end: usize) -> Span {
        let (is_lines, cursor) = (false, start);
        Span {
            start,
            end,
            is_lines,
            cursor,
        }
    }

    /// Returns whole lines from the one of `a` to the one of `b`.
    pub fn lines(text: &str, a: usize, b: usize, cursor: usize) -> Span {
        let (start, end) = (line_start(text, a.min(b)), line_end(text, a.max(b)));
        let is_lines = true;
        Span {
            start,
            end,
            is_lines,
            cursor,
        }
    }

    /// Returns the text between two positions. If it ends before the first character of a line, it
    /// ends with the line before, and is whole lines if only blanks are before its start.
    pub fn between(text: &str, a: usize, b: usize, is_inclusive: bool, is_delete: bool) -> Span {
        let (start, mut end) = (a.min(b), a.max(b));
        let is_indent = after_indent(text, start) >= start;
        if is_inclusive && !is_line_end(text, end) {
            end = next(text, end);
        } else if !is_inclusive && is_line_start(text, end) && start < end {
            end -= 1;
            if is_indent {
                return Span::lines(text, start, end, start);
            }
        }
        let is_rest_blank = text[end..line_end(text, end)].trim().is_empty();
        match is_delete && is_indent && is_rest_blank && text[start..end].contains('\n') {
            true => Span::lines(text, start, end, start),
            false => Span::characters(start, end),
        }
    }
}

/// A copy of the text with the cursor, and the changes to it.
#[derive(Debug)]
pub(in super::super) struct Page {
    pub text: String,
    pub cursor: usize,
    pub steps: Vec<Step>,
    /// The cursor at the first change, where an undo puts it.
    pub changed_at: Option<usize>,
}

impl Page {
    pub fn new(text: &str, cursor: usize) -> Page {
        Page {
            text: text.to_string(),
            cursor,
            steps: Vec::new(),
            changed_at: None,
        }
    }

    /// Returns false if the text would be too long.
    pub fn replace(&mut self, range: Range<usize>, with: &str) -> bool {
        let fits = self.text.len() - range.len() + with.len() <= MAX_BYTES;
        if fits {
            self.changed_at.get_or_insert(self.cursor);
            self.text.replace_range(range.clone(), with);
            self.steps.push(Step::Replace(range, with.to_string()));
        }
        fits
    }

    /// Inserts a text several times at the cursor, which goes to its end.
    pub fn insert(&mut self, text: &str, times: usize) {
        let length = text.len().saturating_mul(times);
        if (1..=MAX_BYTES).contains(&length)
            && self.replace(self.cursor..self.cursor, &text.repeat(times))
        {
            self.cursor += length;
        }
    }

    pub fn left(&mut self) {
        if !is_line_start(&self.text, self.cursor) {
            self.cursor = previous(&self.text, self.cursor);
        }
    }

    pub fn register(&self, span: &Span) -> Register {
        Register {
            text: self.text[span.start..span.end].to_string(),
            is_lines: span.is_lines,
        }
    }

    pub fn delete(&mut self, span: &Span) {
        if !span.is_lines {
            self.replace(span.start..span.end, "");
            return;
        }
        let range = match span.end == self.text.len() {
            true => span.start.saturating_sub(1)..span.end,
            false => span.start..span.end + 1,
        };
        self.replace(range, "");
        self.cursor = first_nonblank(&self.text, span.start.min(self.text.len()));
    }

    /// Puts a register after or before the cursor.
    pub fn put(&mut self, register: &Register, is_after: bool, times: usize) -> bool {
        let at = match (register.is_lines, is_after) {
            (true, true) => line_end(&self.text, self.cursor),
            (true, false) => line_start(&self.text, self.cursor),
            (false, true) if !is_line_end(&self.text, self.cursor) => next(&self.text, self.cursor),
            (false, _) => self.cursor,
        };
        let is_lines = register.is_lines;
        let breaks = (is_lines && is_after, is_lines && !is_after);
        self.put_at(at..at, register, times, is_lines, breaks)
    }

    /// Puts a register in the place of the selected text.
    pub fn put_over(&mut self, span: &Span, register: &Register, times: usize) -> bool {
        let splits = register.is_lines && !span.is_lines;
        let is_lines = register.is_lines || span.is_lines;
        let range = span.start..span.end;
        self.put_at(range, register, times, is_lines, (splits, splits))
    }

    fn put_at(
        &mut self,
        range: Range<usize>,
        register: &Register,
        times: usize,
        is_lines: bool,
        (breaks_before, breaks_after): (bool, bool),
    ) -> bool {
        if register.text.len().saturating_mul(times) > MAX_BYTES {
            return false;
        }
        let between = if is_lines { "\n" } else { "" };
        let text = vec![register.text.as_str(); times].join(between);
        let line_end = |is_there| if is_there { "\n" } else { "" };
        let put = format!(
            "{}{text}{}",
            line_end(breaks_before),
            line_end(breaks_after)
        );
        let first = range.start + usize::from(breaks_before);
        if (put.is_empty() && range.is_empty()) || !self.replace(range, &put) {
            return false;
        }
        self.cursor = match is_lines {
            true => first_nonblank(&self.text, first),
            false if text.contains('\n') || text.is_empty() => first,
            false => previous(&self.text, first + text.len()),
        };
        true
    }

    /// `J`: joins lines, with a blank between them.
    pub fn join(&mut self, lines: usize) -> bool {
        let Some(last) = lines_below(&self.text, self.cursor, lines - 1) else {
            if lines > 2 {
                self.cursor = line_start(&self.text, self.cursor);
            }
            return false;
        };
        let range = line_start(&self.text, self.cursor)..line_end(&self.text, last);
        let mut all = self.text[range.clone()].split('\n');
        let mut joined = all.next().unwrap_or_default().to_string();
        let (mut at, mut ends_blank) = (joined.len(), joined.ends_with(' '));
        for line in all {
            let line = line.trim_start_matches([' ', '\t']);
            at = joined.len();
            let is_apart = !line.is_empty() && !line.starts_with(')') && !joined.is_empty();
            if is_apart && !ends_blank {
                joined.push(' ');
            }
            joined.push_str(line);
            ends_blank = line.ends_with(' ');
        }
        self.cursor_after(range.start + at, range, &joined)
    }

    /// `r`: replaces characters with another one.
    pub fn replace_characters(&mut self, times: usize, with: char) -> bool {
        let rest = &self.text[self.cursor..line_end(&self.text, self.cursor)];
        let Some((last, piece)) = pieces(rest).nth(times - 1) else {
            return false;
        };
        let range = self.cursor..self.cursor + last + piece.len();
        match with {
            '\n' => self.cursor_after(self.cursor + 1, range, "\n"),
            _ => {
                let cursor = self.cursor + with.len_utf8() * (times - 1);
                self.cursor_after(cursor, range, &with.to_string().repeat(times))
            }
        }
    }

    /// `~`: changes the case of characters.
    pub fn swap_case(&mut self, times: usize) -> bool {
        let rest = &self.text[self.cursor..line_end(&self.text, self.cursor)];
        let Some((last, piece)) = pieces(rest).take(times).last() else {
            return false;
        };
        let end = last + piece.len();
        let swapped: String = rest[..end].chars().map(swapped).collect();
        let range = self.cursor..self.cursor + end;
        self.cursor_after(range.start + swapped.len(), range, &swapped)
    }

    /// Changes each character of a text but the ends of lines.
    pub fn map(&mut self, span: &Span, change: impl Fn(char) -> char) {
        let text = self.text[span.start..span.end].chars();
        let changed = |c: char| if c == '\n' { c } else { change(c) };
        let text: String = text.map(changed).collect();
        self.replace(span.start..span.end, &text);
    }

    fn cursor_after(&mut self, cursor: usize, range: Range<usize>, with: &str) -> bool {
        let is_done = self.replace(range, with);
        if is_done {
            self.cursor = on_character(&self.text, cursor);
        }
        is_done
    }
}

/// Returns a letter in the other case.
pub(super) fn swapped(c: char) -> char {
    if c.is_uppercase() { lower(c) } else { upper(c) }
}

pub(super) fn lower(c: char) -> char {
    let mut all = c.to_lowercase();
    all.next().filter(|_| all.next().is_none()).unwrap_or(c)
}

pub(super) fn upper(c: char) -> char {
    let mut all = c.to_uppercase();
    all.next().filter(|_| all.next().is_none()).unwrap_or(c)
}
