//! Vim's keys for the box, as a pure engine: `(text, cursor, mode) + key -> changes`. The composer
//! types in insert mode itself, and gives other keys to [`Vim::key`].
//!
//! A crate does not fit: modalkit and edtui bring a text buffer of their own, which knows neither
//! chips nor graphemes, and would replace the one of the box with its undo and its limit.
//!
//! Deliberately absent: registers with names, marks, macros, searches and ex commands.

mod motion;
mod object;
mod page;

use std::ops::Range;

use super::buffer::{Step, pieces};
use motion::{Kind, Memory, Op, Place};
pub(super) use page::Page;
use page::{Register, Span};

/// A larger count is this one.
const MAX_COUNT: usize = 10_000;

/// A key for the engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Key {
    /// A line end is Enter.
    Char(char),
    Esc,
    /// Ctrl+R.
    Redo,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Mode {
    #[default]
    Insert,
    Normal,
    Visual {
        /// The other end of the selection.
        anchor: usize,
        is_lines: bool,
    },
}

/// A complete command.
#[derive(Debug, Clone, Copy)]
struct Command {
    count: Option<usize>,
    op: Option<Op>,
    key: char,
    arg: Option<char>,
}

/// The keys of a command that is not complete.
#[derive(Debug, Default, PartialEq, Eq)]
struct Pending {
    count: Option<usize>,
    op: Option<(Op, Option<usize>)>,
    /// A key that takes one more.
    wait: Option<char>,
}

/// The size of a selection: its lines, the columns in one line or of its end, and whether it is
/// whole lines.
type Extent = (usize, usize, bool);

/// A command that `.` repeats.
#[derive(Debug, Clone)]
struct Change {
    command: Command,
    selection: Option<Extent>,
    typed: Option<Typed>,
}

/// The text that was typed in insert mode, and the number of characters before it that were deleted.
#[derive(Debug, Clone, Default)]
struct Typed {
    text: String,
    deleted: usize,
}

/// The start of an insert.
#[derive(Debug)]
struct Insertion {
    text: String,
    at: usize,
    times: usize,
    /// Each repetition is a line.
    is_line: bool,
}

impl Insertion {
    /// Returns what was typed since then.
    fn typed(&self, text: &str) -> Typed {
        let (before, after) = self.text.split_at(self.at);
        let Some(head) = text.strip_suffix(after) else {
            return Typed::default();
        };
        let same = before.char_indices().zip(head.chars());
        let same = same.take_while(|((_, a), b)| a == b).last();
        let same = same.map_or(0, |((at, c), _)| at + c.len_utf8());
        Typed {
            text: head[same..].to_string(),
            deleted: pieces(&before[same..]).count(),
        }
    }
}

#[derive(Debug, Default)]
pub(super) struct Vim {
    mode: Mode,
    pending: Pending,
    register: Register,
    memory: Memory,
    last: Option<Change>,
    insertion: Option<Insertion>,
}

impl Vim {
    pub(super) fn mode(&self) -> Mode {
        self.mode
    }

    /// Returns the name of the mode. `None`: letters are text.
    pub(super) fn mode_name(&self) -> Option<&'static str> {
        match self.mode {
            Mode::Insert => None,
            Mode::Normal => Some(" NORMAL "),
            Mode::Visual {
                is_lines: false, ..
            } => Some(" VISUAL "),
            Mode::Visual { is_lines: true, .. } => Some(" VISUAL LINE "),
        }
    }

    /// Returns whether Enter is a part of a command.
    pub(super) fn takes_enter(&self) -> bool {
        self.pending.wait == Some('r')
    }

    /// Returns whether a command is incomplete.
    pub(super) fn is_pending(&self) -> bool {
        self.pending != Pending::default()
    }

    /// Goes to insert mode with another text, or because text comes from elsewhere.
    pub(super) fn start_insert(&mut self) {
        self.mode = Mode::Insert;
        self.pending = Pending::default();
        self.insertion = None;
    }

    /// Notes that the text or the cursor was changed by something else.
    pub(super) fn forget_place(&mut self) {
        self.pending = Pending::default();
        self.memory.goal = None;
        if self.mode != Mode::Insert {
            self.mode = Mode::Normal;
        }
    }

    /// Returns whether keys are commands.
    pub(super) fn is_commanding(&self) -> bool {
        self.mode != Mode::Insert
    }

    /// Returns the selected text.
    pub(super) fn selection(&self, text: &str, cursor: usize) -> Option<Range<usize>> {
        let span = self.span(text, cursor)?;
        Some(span.start..span.end)
    }

    fn span(&self, text: &str, cursor: usize) -> Option<Span> {
        let Mode::Visual { anchor, is_lines } = self.mode else {
            return None;
        };
        let (start, end) = (anchor.min(cursor), anchor.max(cursor));
        if is_lines {
            let first = motion::line_start(text, anchor);
            return Some(Span::lines(text, start, end, first.min(cursor)));
        }
        // The end of a line too, if it is selected.
        Some(Span::characters(start, motion::next(text, end)))
    }

    /// Returns the cursor where it may be in this mode.
    pub(super) fn settled(&self, text: &str, cursor: usize) -> usize {
        match self.mode {
            Mode::Normal => motion::on_character(text, cursor),
            Mode::Insert | Mode::Visual { .. } => cursor,
        }
    }

    /// Takes a key. `None`: it is not for the engine.
    pub(super) fn key(&mut self, text: &str, cursor: usize, key: Key) -> Option<Page> {
        let mut page = Page::new(text, cursor);
        match (self.mode, key) {
            (Mode::Insert, Key::Esc) => self.leave_insert(&mut page),
            (Mode::Insert, _) => return None,
            (Mode::Normal, Key::Esc) if !self.is_pending() => return None,
            (_, Key::Esc) => {
                self.pending = Pending::default();
                self.mode = Mode::Normal;
            }
            (_, Key::Redo) => {
                let command = self.complete('R', None);
                self.step_back(&mut page, Step::Redo, command);
            }
            (_, Key::Char(c)) => {
                if let Some(command) = self.parse(c) {
                    self.run(&mut page, command);
                }
            }
        }
        page.cursor = self.settled(&page.text, page.cursor);
        Some(page)
    }

    /// Adds a key to the pending ones. Returns the command if it is complete.
    fn parse(&mut self, c: char) -> Option<Command> {
        if let Some(key) = self.pending.wait.take() {
            return Some(self.complete(key, Some(c)));
        }
        let is_visual = matches!(self.mode, Mode::Visual { .. });
        let pending = &mut self.pending;
        let has_op = pending.op.is_some();
        match (c.to_digit(10), Op::named(c)) {
            (Some(digit), _) if digit > 0 || pending.count.is_some() => {
                let count = pending.count.unwrap_or(0) * 10 + digit as usize;
                pending.count = Some(count.min(MAX_COUNT));
            }
            (_, Some(op)) if !has_op && !is_visual => {
                pending.op = Some((op, pending.count.take()));
            }
            _ if "fFtTg".contains(c) => pending.wait = Some(c),
            _ if c == 'r' && !has_op => pending.wait = Some(c),
            _ if "ia".contains(c) && (has_op || is_visual) => pending.wait = Some(c),
            _ => return Some(self.complete(c, None)),
        }
        None
    }

    fn complete(&mut self, key: char, arg: Option<char>) -> Command {
        let Pending { count, op, .. } = std::mem::take(&mut self.pending);
        let (op, first) = op.unzip();
        let count = match (first.flatten(), count) {
            (Some(first), Some(count)) => Some((first * count).min(MAX_COUNT)),
            (first, count) => first.or(count),
        };
        Command {
            count,
            op,
            key,
            arg,
        }
    }

    fn run(&mut self, page: &mut Page, command: Command) {
        if self.mode == Mode::Normal && command.op.is_none() && command.key == '.' {
            return self.repeat(page, command.count);
        }
        let command = match self.mode {
            Mode::Normal if command.op.is_none() => written_out(command),
            _ => command,
        };
        let selection = self.extent(page);
        let is_change = match selection {
            Some(_) => {
                "dxcsDXCSRr~uUJ".contains(command.key)
                    && command.arg.is_none_or(|_| command.key == 'r')
            }
            None => match command.op {
                Some(op) => op != Op::Yank,
                None => "iaIAoOpPJr~".contains(command.key),
            },
        };
        if self.perform(page, command) && is_change {
            self.last = Some(Change {
                command,
                selection,
                typed: None,
            });
        }
    }

    /// Repeats the last change.
    fn repeat(&mut self, page: &mut Page, count: Option<usize>) {
        let Some(mut change) = self.last.take() else {
            return;
        };
        change.command.count = count.or(change.command.count);
        if let Some(extent) = change.selection {
            self.select(page, extent);
        }
        self.perform(page, change.command);
        if let Some(insertion) = self.insertion.take() {
            let typed = change.typed.clone().unwrap_or_default();
            for _ in 0..typed.deleted {
                let end = page.cursor;
                page.cursor = motion::previous(&page.text, end);
                page.replace(page.cursor..end, "");
            }
            page.insert(&typed.text, 1);
            self.finish_insert(page, &insertion, &typed);
        }
        self.mode = Mode::Normal;
        self.last = Some(change);
    }

    fn extent(&self, page: &Page) -> Option<Extent> {
        let Mode::Visual { anchor, is_lines } = self.mode else {
            return None;
        };
        let (start, end) = (anchor.min(page.cursor), anchor.max(page.cursor));
        let lines = page.text[start..end].matches('\n').count() + 1;
        let before = if lines == 1 {
            start
        } else {
            motion::line_start(&page.text, end)
        };
        let columns = motion::column(&page.text, end) - motion::column(&page.text, before);
        Some((lines, columns, is_lines))
    }

    /// Selects as much text as was changed before.
    fn select(&mut self, page: &mut Page, (lines, columns, is_lines): Extent) {
        let (text, anchor) = (&page.text, page.cursor);
        let line = motion::lines_below(text, anchor, lines - 1);
        let line = line.unwrap_or_else(|| motion::line_start(text, anchor));
        let before = if lines == 1 {
            motion::column(text, anchor)
        } else {
            0
        };
        page.cursor = motion::at_column(text, line, before + columns, true);
        self.mode = Mode::Visual { anchor, is_lines };
    }

    /// Performs a command. Returns false if it fails.
    fn perform(&mut self, page: &mut Page, command: Command) -> bool {
        if let Mode::Visual { .. } = self.mode {
            return self.perform_visual(page, command);
        }
        let times = command.count.unwrap_or(1);
        if let Some(op) = command.op {
            return self.operate(page, op, command);
        }
        if !"hjkl$".contains(command.key) {
            self.memory.goal = None;
        }
        match (command.key, command.arg) {
            ('i' | 'a' | 'I' | 'A' | 'o' | 'O', _) => return self.insert(page, command.key, times),
            ('p' | 'P', _) => return page.put(&self.register, command.key == 'p', times),
            ('J', _) => return page.join(times.max(2)),
            ('r', Some(c)) => return page.replace_characters(times, c),
            ('~', _) => return page.swap_case(times),
            ('u', _) => self.step_back(page, Step::Undo, command),
            ('v' | 'V', _) => {
                self.mode = Mode::Visual {
                    anchor: page.cursor,
                    is_lines: command.key == 'V',
                };
            }
            _ => return self.go(page, command),
        }
        true
    }

    fn step_back(&mut self, page: &mut Page, step: Step, command: Command) {
        if self.mode == Mode::Normal && command.op.is_none() {
            page.steps = vec![step; command.count.unwrap_or(1)];
            self.memory.goal = None;
        }
    }

    /// Moves the cursor.
    fn go(&mut self, page: &mut Page, command: Command) -> bool {
        let place = Place {
            text: &page.text,
            at: page.cursor,
            count: command.count,
            op: None,
            is_visual: matches!(self.mode, Mode::Visual { .. }),
        };
        let Some((to, _)) = place.go(command.key, command.arg, &mut self.memory) else {
            return false;
        };
        page.cursor = to;
        true
    }

    /// Applies an operator to the text of a motion or an object.
    fn operate(&mut self, page: &mut Page, op: Op, command: Command) -> bool {
        let (text, at) = (&page.text, page.cursor);
        let times = command.count.unwrap_or(1);
        let is_delete = op == Op::Delete;
        let span = match (command.key, command.arg) {
            (key, _) if Op::named(key) == Some(op) => {
                let Some(last) = motion::lines_below(text, at, times - 1) else {
                    return false;
                };
                let cursor = match op {
                    Op::Yank => at,
                    Op::Delete | Op::Change => at.min(motion::first_nonblank(text, at)),
                };
                Span::lines(text, at, last, cursor)
            }
            ('i' | 'a', Some(kind)) => {
                let is_around = command.key == 'a';
                match object::object(text, at, is_around, kind, times) {
                    Some((start, end, is_whole)) => {
                        Span::between(text, start, end, is_whole, is_delete)
                    }
                    None => return false,
                }
            }
            (key, arg) => {
                let place = Place {
                    text,
                    at,
                    count: command.count,
                    op: Some(op),
                    is_visual: false,
                };
                match place.go(key, arg, &mut self.memory) {
                    None => return false,
                    Some((to, Kind::Nothing)) => {
                        page.cursor = to;
                        return false;
                    }
                    Some((to, Kind::Lines)) => Span::lines(text, at, to, at.min(to)),
                    Some((to, kind)) => {
                        if op == Op::Change
                            && to == at
                            && kind == Kind::Inclusive
                            && motion::is_line_end(text, at)
                            && !text.is_empty()
                        {
                            self.register = Register::default();
                        }
                        Span::between(text, at, to, kind == Kind::Inclusive, is_delete)
                    }
                }
            }
        };
        self.apply(page, op, &span);
        true
    }

    fn apply(&mut self, page: &mut Page, op: Op, span: &Span) {
        if !span.is_lines || op != Op::Yank {
            self.memory.goal = None;
        }
        page.cursor = span.cursor;
        let is_empty = span.start == span.end && !span.is_lines;
        if op == Op::Yank || !is_empty {
            self.register = page.register(span);
        }
        match op {
            Op::Yank => {}
            Op::Delete if is_empty => {}
            Op::Delete => page.delete(span),
            Op::Change => {
                if span.start < span.end {
                    page.replace(span.start..span.end, "");
                }
                page.cursor = span.start;
                self.start_insertion(page, 1, false);
            }
        }
    }

    fn insert(&mut self, page: &mut Page, key: char, times: usize) -> bool {
        let (text, at) = (&page.text, page.cursor);
        let place = match key {
            'a' if !motion::is_line_end(text, at) => motion::next(text, at),
            'I' => motion::after_indent(text, at),
            'O' => motion::line_start(text, at),
            'A' | 'o' => motion::line_end(text, at),
            _ => at,
        };
        let is_line = key.eq_ignore_ascii_case(&'o');
        if is_line && !page.replace(place..place, "\n") {
            return false;
        }
        page.cursor = place + usize::from(key == 'o');
        self.start_insertion(page, times, is_line);
        true
    }

    fn start_insertion(&mut self, page: &Page, times: usize, is_line: bool) {
        self.mode = Mode::Insert;
        self.insertion = Some(Insertion {
            text: page.text.clone(),
            at: page.cursor,
            times,
            is_line,
        });
    }

    fn leave_insert(&mut self, page: &mut Page) {
        let Some(insertion) = self.insertion.take() else {
            self.mode = Mode::Normal;
            return page.left();
        };
        let typed = insertion.typed(&page.text);
        self.finish_insert(page, &insertion, &typed);
        if let Some(last) = &mut self.last {
            last.typed = Some(typed);
        }
    }

    fn finish_insert(&mut self, page: &mut Page, insertion: &Insertion, typed: &Typed) {
        let again = match insertion.is_line {
            true => format!("\n{}", typed.text),
            false => typed.text.clone(),
        };
        page.insert(&again, insertion.times - 1);
        page.left();
        self.mode = Mode::Normal;
    }

    fn perform_visual(&mut self, page: &mut Page, command: Command) -> bool {
        let Mode::Visual { anchor, is_lines } = self.mode else {
            return false;
        };
        match (command.key, command.arg) {
            ('v' | 'V', _) if (command.key == 'V') == is_lines => self.mode = Mode::Normal,
            ('v' | 'V', _) => {
                self.mode = Mode::Visual {
                    anchor,
                    is_lines: !is_lines,
                };
            }
            ('o', _) => {
                self.mode = Mode::Visual {
                    anchor: page.cursor,
                    is_lines,
                };
                page.cursor = anchor;
            }
            ('i' | 'a', Some(kind)) => {
                let at = page.cursor;
                let (is_around, times) = (command.key == 'a', command.count.unwrap_or(1));
                let found = object::object(&page.text, at, is_around, kind, times);
                let Some((start, end, is_whole)) = found else {
                    return false;
                };
                let anchor = if anchor == at { start } else { anchor };
                self.mode = Mode::Visual {
                    anchor,
                    is_lines: false,
                };
                page.cursor = match is_whole || end == start {
                    true => end,
                    false => motion::previous(&page.text, end),
                };
            }
            _ => return self.change_selection(page, command, anchor.max(page.cursor)),
        }
        true
    }

    /// Changes the selection, of which `last` is the later end.
    fn change_selection(&mut self, page: &mut Page, command: Command, last: usize) -> bool {
        let key = command.key;
        if let Mode::Visual { is_lines, .. } = &mut self.mode {
            *is_lines |= "DXYCSR".contains(key);
        }
        let Some(span) = self.span(&page.text, page.cursor) else {
            return false;
        };
        let op = match key {
            'd' | 'x' | 'D' | 'X' => Some(Op::Delete),
            'y' | 'Y' => Some(Op::Yank),
            'c' | 's' | 'C' | 'S' | 'R' => Some(Op::Change),
            _ => None,
        };
        let is_other = matches!(key, 'r' | '~' | 'u' | 'U' | 'J' | 'p' | 'P');
        if op.is_none() && !is_other {
            return self.go(page, command);
        }
        self.mode = Mode::Normal;
        self.memory.goal = None;
        page.cursor = span.cursor;
        match (key, op, command.arg) {
            (_, Some(op), _) => self.apply(page, op, &span),
            ('r', _, Some('\n') | None) => return false,
            ('r', _, Some(c)) => {
                page.map(&span, |_| c);
                page.cursor = span.start;
            }
            ('~', ..) => page.map(&span, page::swapped),
            ('u', ..) => page.map(&span, page::lower),
            ('U', ..) => page.map(&span, page::upper),
            ('J', ..) => {
                let selected = &page.text[span.start..last];
                let lines = selected.matches('\n').count() + 1;
                return page.join(lines.max(2));
            }
            _ => {
                let deleted = page.register(&span);
                let times = command.count.unwrap_or(1);
                let is_done = page.put_over(&span, &self.register, times);
                if key == 'p' && (span.is_lines || !deleted.text.is_empty()) {
                    self.register = deleted;
                }
                return is_done;
            }
        }
        true
    }
}

/// Returns a short form as an operator and a motion.
fn written_out(command: Command) -> Command {
    let (op, key) = match command.key {
        'x' => (Op::Delete, 'l'),
        'X' => (Op::Delete, 'h'),
        'D' => (Op::Delete, '$'),
        'C' => (Op::Change, '$'),
        's' => (Op::Change, 'l'),
        'S' => (Op::Change, 'c'),
        'Y' => (Op::Yank, 'y'),
        _ => return command,
    };
    Command {
        op: Some(op),
        key,
        ..command
    }
}

#[cfg(test)]
mod tests;
