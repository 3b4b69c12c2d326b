//! Text objects: `iw`, `a"`, `i(` and the like.

use super::motion::{
    after_indent, class, is_empty_line, is_line_end, is_line_start, line_end, line_start, matching,
    next, pair, previous,
};

/// The start and the end of an object, and whether the character at the end belongs to it.
pub(super) type Object = (usize, usize, bool);

/// Returns the object at a position: `a` or `i`, its kind, and how many.
pub(super) fn object(
    text: &str,
    at: usize,
    is_around: bool,
    kind: char,
    count: usize,
) -> Option<Object> {
    match kind {
        'w' | 'W' => words(text, at, is_around, kind == 'W', count),
        '"' | '\'' | '`' => quoted(text, at, is_around, kind, count),
        'b' => block(text, at, is_around, '(', count),
        'B' => block(text, at, is_around, '{', count),
        _ => {
            let (other, is_back) = pair(kind)?;
            block(
                text,
                at,
                is_around,
                if is_back { other } else { kind },
                count,
            )
        }
    }
}

/// Words and the blanks between them count one each; with `is_around` a word and its blanks are one.
fn words(text: &str, at: usize, is_around: bool, is_big: bool, count: usize) -> Option<Object> {
    let class = |at| class(text, at, is_big);
    // Returns the end of the word or the blanks at a position.
    let run = |from: usize| {
        let mut end = from;
        while !is_line_end(text, end) && class(end) == class(from) {
            end = next(text, end);
        }
        end
    };
    let mut start = at;
    while !is_line_start(text, start) && class(previous(text, start)) == class(at) {
        start = previous(text, start);
    }
    let needs_blanks = is_around && class(start) != 0;
    let mut end = start;
    let mut ends_blank = false;
    for place in 0..count {
        if place > 0 && is_line_end(text, end) {
            if end == text.len() {
                return None;
            }
            end += 1;
        }
        if is_around && class(end) == 0 {
            end = word_after(text, end, is_big)?;
            ends_blank = false;
            continue;
        }
        end = run(end);
        ends_blank = is_around && !is_line_end(text, end) && class(end) == 0;
        if ends_blank {
            end = run(end);
        }
    }
    if needs_blanks && !ends_blank {
        let mut before = start;
        while !is_line_start(text, before) && class(previous(text, before)) == 0 {
            before = previous(text, before);
        }
        // An indent stays.
        if !is_line_start(text, before) {
            start = before;
        }
    }
    // An empty line belongs to it.
    let is_empty = end > start && is_empty_line(text, end);
    Some((start, end, is_empty))
}

/// Returns the end of the next word, or of the blanks before an empty line.
fn word_after(text: &str, at: usize, is_big: bool) -> Option<usize> {
    let class = |at| class(text, at, is_big);
    let mut end = at;
    while class(end) == 0 {
        if end == text.len() {
            return None;
        }
        end = next(text, end);
        if is_empty_line(text, end) {
            return Some(end);
        }
    }
    let word = class(end);
    while class(end) == word {
        end = next(text, end);
    }
    Some(end)
}

fn quoted(text: &str, at: usize, is_around: bool, quote: char, count: usize) -> Option<Object> {
    let first = line_start(text, at);
    let line = &text[first..line_end(text, at)];
    let at = at - first;
    let opening = |from: usize| Some(from + line[from..].find(quote)?);
    // A quote after a backslash ends nothing.
    let closing = |from: usize| {
        let mut is_escaped = false;
        let found = line[from..].find(|c| {
            let is_it = c == quote && !is_escaped;
            is_escaped = c == '\\' && !is_escaped;
            is_it
        });
        Some(from + found?)
    };
    let (mut start, mut end);
    if line[at..].starts_with(quote) {
        (start, end) = (0, 0);
        while end <= at {
            start = opening(end).filter(|start| *start <= at)?;
            end = closing(start + 1)? + 1;
        }
    } else {
        let is_escaped = |at: usize| (at - line[..at].trim_end_matches('\\').len()) % 2 == 1;
        let mut before = line[..at].rmatch_indices(quote).map(|(at, _)| at);
        start = before.find(|at| !is_escaped(*at)).or_else(|| opening(at))?;
        end = closing(start + 1)? + 1;
    }
    let blanks = [' ', '\t'];
    let after = line.len() - line[end..].trim_start_matches(blanks).len();
    if is_around && after > end {
        end = after;
    } else if is_around {
        start = line[..start].trim_end_matches(blanks).len();
    } else if count < 2 {
        (start, end) = (start + 1, end - 1);
    }
    Some((first + start, first + end, false))
}

fn block(text: &str, at: usize, is_around: bool, open: char, count: usize) -> Option<Object> {
    let (close, _) = pair(open)?;
    let mut from = at;
    if open == '{' {
        while after_indent(text, from) > from && !is_line_end(text, next(text, from)) {
            from = next(text, from);
        }
    }
    from += usize::from(text[from..].starts_with(open));
    let outer = |from: usize| matching(text, from, (open, close), true);
    // The next block is taken if the cursor is in none.
    let is_back = outer(from).is_some();
    let mut start = from;
    for _ in 0..count {
        start = matching(text, start, (open, close), is_back)?;
    }
    let end = matching(text, start, (close, open), false)?;
    if is_around {
        return Some((start, end, true));
    }
    // Brackets at the edges of lines stay with their line.
    let mut first = start + 1;
    if is_line_end(text, first) && first < end {
        first += 1;
    }
    let mut last = end;
    let is_brace_line = open == '{' && after_indent(text, end) == end;
    if is_brace_line && line_start(text, end) > first {
        last = line_start(text, end);
    }
    Some((first, last.max(first), false))
}
