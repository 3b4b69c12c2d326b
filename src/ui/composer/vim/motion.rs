//! Motions: from a position in the text to another one. A position may be at the end of a line, as
//! in vim while an operator waits.

use unicode_width::UnicodeWidthStr;

use super::super::buffer::{first_piece, last_piece};
use super::super::chips::is_chip;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Op {
    Delete,
    Change,
    Yank,
}

impl Op {
    pub fn named(letter: char) -> Option<Op> {
        match letter {
            'd' => Some(Op::Delete),
            'c' => Some(Op::Change),
            'y' => Some(Op::Yank),
            _ => None,
        }
    }
}

/// The text that an operator takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Exclusive,
    /// With the character at the target.
    Inclusive,
    Lines,
    /// None: the text ended before the count did. Only the cursor moves.
    Nothing,
}

/// The start of a motion.
pub(super) struct Place<'a> {
    pub text: &'a str,
    pub at: usize,
    pub count: Option<usize>,
    pub op: Option<Op>,
    pub is_visual: bool,
}

/// The last search in a line, and the column that `j` and `k` aim for.
#[derive(Debug, Default)]
pub(super) struct Memory {
    find: Option<(char, char)>,
    pub goal: Option<usize>,
}

pub(super) fn next(text: &str, at: usize) -> usize {
    at + first_piece(&text[at..]).len()
}

pub(super) fn previous(text: &str, at: usize) -> usize {
    at - last_piece(&text[..at]).len()
}

pub(super) fn line_start(text: &str, at: usize) -> usize {
    text[..at].rfind('\n').map_or(0, |end| end + 1)
}

pub(super) fn line_end(text: &str, at: usize) -> usize {
    text[at..].find('\n').map_or(text.len(), |end| at + end)
}

/// Returns whether a position is after the last character of its line.
pub(super) fn is_line_end(text: &str, at: usize) -> bool {
    at == line_end(text, at)
}

pub(super) fn is_line_start(text: &str, at: usize) -> bool {
    at == 0 || text[..at].ends_with('\n')
}

pub(super) fn is_empty_line(text: &str, at: usize) -> bool {
    is_line_start(text, at) && is_line_end(text, at)
}

/// Returns the position, or the last character of its line if it is after that.
pub(super) fn on_character(text: &str, at: usize) -> usize {
    match is_line_end(text, at) && !is_line_start(text, at) {
        true => previous(text, at),
        false => at,
    }
}

/// Returns the position after the blanks at the start of the line.
pub(super) fn after_indent(text: &str, at: usize) -> usize {
    let start = line_start(text, at);
    let line = &text[start..line_end(text, at)];
    start + line.len() - line.trim_start_matches([' ', '\t']).len()
}

pub(super) fn first_nonblank(text: &str, at: usize) -> usize {
    on_character(text, after_indent(text, at))
}

fn line_number(text: &str, at: usize) -> usize {
    text[..at].matches('\n').count()
}

/// Returns the start of a line, from 0, or of the last one.
fn start_of_line(text: &str, line: usize) -> usize {
    let ends = text.match_indices('\n').map(|(at, _)| at + 1);
    std::iter::once(0)
        .chain(ends)
        .take(line + 1)
        .last()
        .unwrap_or(0)
}

/// Returns the start of the line `count` lines below, or of the last one. `None`: it is the last.
pub(super) fn lines_below(text: &str, at: usize, count: usize) -> Option<usize> {
    let is_last = line_end(text, at) == text.len();
    (count == 0 || !is_last).then(|| start_of_line(text, line_number(text, at) + count))
}

pub(super) fn column(text: &str, at: usize) -> usize {
    text[line_start(text, at)..at].width()
}

/// Returns the position at a column of the line that starts at `at`.
pub(super) fn at_column(text: &str, mut at: usize, column: usize, past_end: bool) -> usize {
    let mut used = 0;
    while !is_line_end(text, at) {
        let after = next(text, at);
        used += text[at..after].width();
        if used > column {
            return at;
        }
        at = after;
    }
    if past_end { at } else { on_character(text, at) }
}

/// Returns 0 for blanks and ends of lines, and another number for each kind of word.
pub(super) fn class(text: &str, at: usize, is_big: bool) -> u8 {
    match text[at..].chars().next() {
        None | Some('\n' | ' ' | '\t') => 0,
        Some(_) if is_big => 1,
        Some(c) if is_chip(c) => 3,
        Some(c) if c.is_alphanumeric() || c == '_' => 2,
        Some(_) => 1,
    }
}

/// Goes to the position that fits `count` times, or to the edge of the text. Returns the rest of the
/// count too.
fn scan(
    text: &str,
    mut at: usize,
    is_back: bool,
    count: usize,
    fits: impl Fn(usize) -> bool,
) -> (usize, usize) {
    let edge = if is_back { 0 } else { text.len() };
    let mut left = count;
    while left > 0 && at != edge {
        at = if is_back {
            previous(text, at)
        } else {
            next(text, at)
        };
        left -= usize::from(fits(at));
    }
    (at, left)
}

/// Returns the other sign of a pair, and whether it comes before.
pub(super) fn pair(c: char) -> Option<(char, bool)> {
    const PAIRS: [(char, char); 4] = [('(', ')'), ('[', ']'), ('{', '}'), ('<', '>')];
    let (open, close) = PAIRS.into_iter().find(|(a, b)| *a == c || *b == c)?;
    Some(if c == open {
        (close, false)
    } else {
        (open, true)
    })
}

/// Returns the nearest `wanted` before or after a position that does not close a `nested` between.
pub(super) fn matching(
    text: &str,
    at: usize,
    (wanted, nested): (char, char),
    is_back: bool,
) -> Option<usize> {
    let mut depth = 0_usize;
    let mut fits = |c: char| {
        let is_it = c == wanted && depth == 0;
        depth += usize::from(c == nested);
        depth = depth.saturating_sub(usize::from(c == wanted));
        is_it
    };
    if is_back {
        return text[..at].rfind(&mut fits);
    }
    let after = next(text, at);
    Some(after + text[after..].find(&mut fits)?)
}

impl Place<'_> {
    fn times(&self) -> usize {
        self.count.unwrap_or(1)
    }

    /// Returns the target of a motion. `None`: it fails, or the key is none.
    pub fn go(&self, key: char, arg: Option<char>, memory: &mut Memory) -> Option<(usize, Kind)> {
        let (text, at) = (self.text, self.at);
        let goal = memory.goal.take();
        let lines = |line| (first_nonblank(text, start_of_line(text, line)), Kind::Lines);
        let target = match (key, arg) {
            ('j' | 'k', _) => {
                let goal = goal.unwrap_or_else(|| column(text, at));
                memory.goal = Some(goal);
                let above = line_number(text, at);
                let line = match key {
                    'j' => lines_below(text, at, self.times())?,
                    _ if above == 0 => return None,
                    _ => start_of_line(text, above.saturating_sub(self.times())),
                };
                return Some((at_column(text, line, goal, self.is_visual), Kind::Lines));
            }
            ('$', _) => {
                let line = lines_below(text, at, self.times() - 1)?;
                memory.goal = Some(usize::MAX);
                let to = at_column(text, line, usize::MAX, self.is_visual);
                return Some((to, Kind::Inclusive));
            }
            ('h' | 'l', _) => {
                Some(self.horizontal(key == 'l')).filter(|(to, _)| *to != at || self.op.is_some())
            }
            ('b' | 'B', _) | ('g', Some('e' | 'E')) if at == 0 => None,
            ('w' | 'W' | 'e' | 'E' | 'b' | 'B', _) => Some(self.words(key, false)),
            ('g', Some(end @ ('e' | 'E'))) => Some(self.words(end, true)),
            ('0', _) => Some((line_start(text, at), Kind::Exclusive)),
            ('^', _) => Some((first_nonblank(text, at), Kind::Exclusive)),
            ('f' | 'F' | 't' | 'T', Some(c)) => {
                memory.find = Some((key, c));
                self.find(key, c, false)
            }
            (';' | ',', _) => memory.find.and_then(|(find, c)| {
                let is_turned = key == ',';
                let find = match find.is_ascii_lowercase() == is_turned {
                    true => find.to_ascii_uppercase(),
                    false => find.to_ascii_lowercase(),
                };
                self.find(find, c, true)
            }),
            ('g', Some('g')) => Some(lines(self.times() - 1)),
            ('G', _) => Some(lines(self.count.map_or(usize::MAX - 1, |count| count - 1))),
            ('{' | '}', _) => self.paragraph(key == '{'),
            ('%', _) => match self.count {
                Some(count @ ..=100) => {
                    let all = line_number(text, text.len()) + 1;
                    Some(lines((all * count).div_ceil(100) - 1))
                }
                Some(_) => None,
                None => self.other_bracket(),
            },
            _ => None,
        };
        if target.is_none() {
            memory.goal = goal;
        }
        target
    }

    fn horizontal(&self, is_right: bool) -> (usize, Kind) {
        let (text, start) = (self.text, line_start(self.text, self.at));
        if !is_right {
            let to = pieces_back(text, start, self.at, self.times());
            return (to, Kind::Exclusive);
        }
        let mut to = self.at;
        for _ in 0..self.times() {
            if is_line_end(text, to) {
                break;
            }
            to = next(text, to);
        }
        match self.op.is_some() || self.is_visual {
            true => (to, Kind::Exclusive),
            false => (on_character(text, to), Kind::Exclusive),
        }
    }

    fn words(&self, key: char, is_end_back: bool) -> (usize, Kind) {
        let (text, at, times) = (self.text, self.at, self.times());
        let is_big = key.is_ascii_uppercase();
        let class = |at| class(text, at, is_big);
        let is_empty = |at| is_empty_line(text, at);
        let is_end = |at| class(at) != 0 && class(next(text, at)) != class(at);
        let is_start = |at| class(at) != 0 && (at == 0 || class(previous(text, at)) != class(at));
        let changes = key.eq_ignore_ascii_case(&'w') && self.op == Some(Op::Change);
        match key.to_ascii_lowercase() {
            _ if is_end_back || key.eq_ignore_ascii_case(&'b') => {
                let fits = |at| {
                    let is_it = if is_end_back {
                        is_end(at)
                    } else {
                        is_start(at)
                    };
                    is_it || is_empty(at) || at == 0
                };
                let kind = match is_end_back {
                    true => Kind::Inclusive,
                    false => Kind::Exclusive,
                };
                match scan(text, at, true, times, fits) {
                    (0, 1..) if is_empty(0) || (is_end_back && is_end(0)) => (0, Kind::Nothing),
                    (to, _) => (to, kind),
                }
            }
            'w' if !(changes && class(at) != 0) => {
                let fits = |at| is_start(at) || is_empty(at);
                let (from, left) = scan(text, at, false, times - 1, fits);
                // The last word ends with its line.
                let mut end = next(text, from);
                while class(from) != 0 && class(end) == class(from) {
                    end = next(text, end);
                }
                if self.op.is_some() && left == 0 && (is_line_end(text, end) || is_empty(from)) {
                    return (end, Kind::Exclusive);
                }
                (scan(text, from, false, 1, fits).0, Kind::Exclusive)
            }
            _ => {
                // `cw` changes as far as `ce`, but not further than the current word.
                let stays = usize::from(changes && is_end(at));
                let (to, _) = scan(text, at, false, times - stays, is_end);
                (on_character(text, to), Kind::Inclusive)
            }
        }
    }

    fn find(&self, key: char, c: char, is_again: bool) -> Option<(usize, Kind)> {
        let (text, at, times) = (self.text, self.at, self.times());
        let is_till = key.eq_ignore_ascii_case(&'t');
        // Otherwise a repeated `t` would stay where it is.
        let skips = is_again && is_till && times == 1;
        if key.is_ascii_lowercase() {
            let first = next(text, at);
            let from = if skips { next(text, first) } else { first };
            let rest = text.get(from..line_end(text, at))?;
            let found = from + rest.match_indices(c).nth(times - 1)?.0;
            let to = if is_till {
                previous(text, found)
            } else {
                found
            };
            return Some((to, Kind::Inclusive));
        }
        let start = line_start(text, at);
        let end = if skips { previous(text, at) } else { at };
        let found = start + text.get(start..end)?.rmatch_indices(c).nth(times - 1)?.0;
        let to = if is_till { next(text, found) } else { found };
        Some((to, Kind::Exclusive))
    }

    fn paragraph(&self, is_back: bool) -> Option<(usize, Kind)> {
        let text = self.text;
        let fits = |at: usize| {
            is_empty_line(text, at)
                && match is_back {
                    true => at < text.len() && !is_line_end(text, at + 1),
                    false => at > 0 && !is_line_start(text, at - 1),
                }
        };
        match scan(text, self.at, is_back, self.times(), fits) {
            (_, 2..) => None,
            (to, left) if left == 0 || is_back || is_empty_line(text, to) => {
                Some((to, Kind::Exclusive))
            }
            (to, _) => Some((on_character(text, to), Kind::Inclusive)),
        }
    }

    fn other_bracket(&self) -> Option<(usize, Kind)> {
        let start = on_character(self.text, self.at);
        let line = &self.text[start..line_end(self.text, start)];
        let (at, sign) = line.char_indices().find(|(_, c)| "()[]{}".contains(*c))?;
        let (other, is_back) = pair(sign)?;
        let to = matching(self.text, start + at, (other, sign), is_back)?;
        Some((to, Kind::Inclusive))
    }
}

fn pieces_back(text: &str, start: usize, mut at: usize, count: usize) -> usize {
    for _ in 0..count {
        if at == start {
            break;
        }
        at = previous(text, at);
    }
    at
}
