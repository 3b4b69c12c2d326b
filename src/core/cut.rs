//! Shortens texts that are too long for a request. The beginning and the end stay. One line between
//! them names the missing lines and the address where they can be read.
//!
//! Invariant: a text has at most one such line. A text that was already shortened to the size of an
//! entry is shortened again around the same line, with new numbers, when the window is smaller.

use std::fmt;

use super::entry::{BlobRef, Output};
use super::plain_text::plain_text;
use super::text::{boundary_above, boundary_below};

/// Where the model can read the whole text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct CutSource<'a> {
    /// An address for `memory_page`: `entry 812`, `blob:HASH`.
    pub address: &'a str,
    /// The address leads to exactly this text, so a byte position in the text is an offset there.
    pub is_all: bool,
}

/// Minimum number of bytes that a cut saves. The line about the gap, and a call that reads the rest,
/// cost more than a smaller rest.
const MIN_SAVED: usize = 600;

/// Returns whether a text of this size is cut to `max` bytes. One that is a little longer is not.
pub fn is_cut(len: usize, max: usize) -> bool {
    len >= max.saturating_add(MIN_SAVED)
}

/// Least room in bytes for beginning and end together. Less would be useless.
const MIN_ROOM: usize = 40;

/// Shortens a text to at most `max` bytes. Whole lines are left out, unless a line is so long that
/// more than half of the kept text would be lost with it. `source` is where the whole text is. It
/// must not change when a text is shortened again.
pub(crate) fn cut(text: &str, max: usize, source: CutSource<'_>) -> String {
    if text.len() <= max {
        return text.to_string();
    }
    let whole = || CutResult {
        head: text,
        tail: text,
        gap: None,
    };
    let kept = CutResult::of(text, source).unwrap_or_else(whole);
    let lines = kept.gap.as_ref().map_or_else(|| lines(text), |g| g.lines);
    let longest = Gap {
        first: lines,
        last: lines + 1,
        lines,
        first_in_part: true,
        last_in_part: true,
        bytes: kept.gap.as_ref().map_or(0, |g| g.bytes) + text.len(),
        offset: kept.gap.as_ref().map_or(0, |g| g.offset) + text.len(),
    };
    let frame = longest.line(source).len() + 2;
    let Some(room) = max.checked_sub(frame).filter(|room| *room >= MIN_ROOM) else {
        return super::text::clip(text, max).into_owned();
    };
    kept.within(room, lines, source)
}

/// Returns the plain text cut to at most `max` bytes as the output of a call, so that neither colours
/// nor frames of a progress bar take the room of other lines. `blob` is the whole text.
pub fn cut_output(text: &str, max: usize, blob: BlobRef) -> Output {
    let address = format!("blob:{}", blob.hash);
    let source = CutSource {
        address: &address,
        is_all: true,
    };
    Output {
        text: cut(&plain_text(text), max, source),
        blob: Some(blob),
        images: Vec::new(),
    }
}

fn lines(text: &str) -> usize {
    text.matches('\n').count() + usize::from(!text.ends_with('\n'))
}

/// The part of a text that is left out.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Gap {
    /// The first line of which a part is missing, from 1.
    first: usize,
    last: usize,
    /// Number of lines of the whole text.
    lines: usize,
    /// The beginning of the first line is kept.
    first_in_part: bool,
    /// The end of the last line is kept.
    last_in_part: bool,
    /// Number of missing bytes.
    bytes: usize,
    /// Offset of the missing bytes in the whole text.
    offset: usize,
}

impl fmt::Display for Gap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Gap { first, last, .. } = self;
        let in_part = (self.first_in_part, self.last_in_part);
        let lines = self.lines;
        match (first == last, in_part) {
            (true, (false, false)) => write!(f, "line {first} of {lines}")?,
            (true, (true, true)) => write!(f, "the middle of line {first} of {lines}")?,
            (true, (true, false)) => write!(f, "the end of line {first} of {lines}")?,
            (true, (false, true)) => write!(f, "the beginning of line {first} of {lines}")?,
            (false, _) => {
                let in_part = match in_part {
                    (true, true) => ", the first and the last in part,",
                    (true, false) => ", the first in part,",
                    (false, true) => ", the last in part,",
                    (false, false) => "",
                };
                write!(f, "lines {first}-{last} of {lines}{in_part}")?;
            }
        }
        write!(f, " left out ({} bytes)", self.bytes)
    }
}

/// Returns how many lines of the whole text a line represents: more than one for the line that
/// names the missing ones.
pub fn lines_represented(line: &str) -> usize {
    let gap = || {
        let (what, _) = line.strip_prefix('[')?.split_once(" left out (")?;
        let (range, _) = what.rsplit_once(" of ")?;
        let (first, last) = range.strip_prefix("lines ")?.split_once('-')?;
        let (first, last): (usize, usize) = (first.parse().ok()?, last.parse().ok()?);
        Some(last.checked_sub(first)? + 1)
    };
    gap().unwrap_or(1)
}

impl Gap {
    /// Returns the line that replaces the missing part.
    fn line(&self, CutSource { address, is_all }: CutSource<'_>) -> String {
        if is_all {
            format!(
                "[{self}; memory_page reads on at address {address}, offset {}, limit {}]",
                self.offset, self.bytes
            )
        } else {
            format!("[{self}; memory_page reads the whole at address {address}]")
        }
    }

    /// Parses such a line. Returns `None` for any other line.
    fn of_line(line: &str, source: CutSource<'_>) -> Option<Gap> {
        let end = "; memory_page reads";
        let (what, rest) = line.strip_prefix('[')?.split_once(end)?;
        let (what, bytes) = what.split_once(" left out (")?;
        let (range, of) = what.rsplit_once(" of ")?;
        let count: String = of.chars().take_while(char::is_ascii_digit).collect();
        let numbers = range.rsplit(' ').next()?;
        let (first, last) = numbers.split_once('-').unwrap_or((numbers, numbers));
        let has = |words: &str| what.starts_with(words) || of.contains(words);
        let offset = rest.rsplit_once(", offset ").map(|(_, at)| at);
        let offset = offset.map(|at| at.split(", limit ").next().unwrap_or(at));
        let gap = Gap {
            first: first.parse().ok()?,
            last: last.parse().ok()?,
            lines: count.parse().ok()?,
            first_in_part: has("the middle") || has("the end") || has(", the first"),
            last_in_part: has("the middle") || has("the beginning") || has("the last"),
            bytes: bytes.strip_suffix(" bytes)")?.parse().ok()?,
            offset: match offset {
                Some(at) => at.trim_end_matches(']').parse().ok()?,
                None => 0,
            },
        };
        (gap.line(source) == line).then_some(gap)
    }
}

/// The parts of a text before and after the gap. `gap` is `None` if nothing is missing yet.
struct CutResult<'a> {
    head: &'a str,
    tail: &'a str,
    gap: Option<Gap>,
}

impl<'a> CutResult<'a> {
    /// Splits a text that was already shortened.
    fn of(text: &'a str, source: CutSource<'_>) -> Option<CutResult<'a>> {
        let at = text.find(source.address)?;
        let start = text[..at].rfind('\n').map_or(0, |end| end + 1);
        let end = text[at..].find('\n').map_or(text.len(), |end| at + end);
        let gap = Gap::of_line(&text[start..end], source)?;
        let mut head = &text[..start];
        if gap.first_in_part {
            head = head.strip_suffix('\n').unwrap_or(head);
        }
        Some(CutResult {
            head,
            tail: text.get(end + 1..).unwrap_or_default(),
            gap: Some(gap),
        })
    }

    /// Returns the beginning and the end in `room` bytes, with the line between them.
    fn within(&self, room: usize, lines: usize, source: CutSource<'_>) -> String {
        let CutResult { head, tail, gap } = self;
        // The tail gets the room that the head does not need, and the other way round.
        let for_head = (room / 5 * 3).max(room.saturating_sub(tail.len()));
        let head_end = head_end(head, for_head);
        let for_tail = room - head_end.min(room);
        let tail_start = tail_start(tail, for_tail);
        let (kept_head, kept_tail) = (&head[..head_end], &tail[tail_start..]);
        let is_at_end = |text: &str| text.is_empty() || text.ends_with('\n');
        let newlines = |text: &str| text.matches('\n').count();

        let head_is_cut = head_end < head.len();
        let tail_is_cut = tail_start > 0;
        let (first, first_in_part) = match gap {
            Some(gap) if !head_is_cut => (gap.first, gap.first_in_part),
            _ => (newlines(kept_head) + 1, !is_at_end(kept_head)),
        };
        let (last, last_in_part) = match gap {
            Some(gap) if !tail_is_cut => (gap.last, gap.last_in_part),
            _ => {
                let begun = newlines(&tail[..tail_start]);
                let in_part = !is_at_end(&tail[..tail_start]);
                // The first line of a tail is line `last`, if it is cut, or the one below it.
                let before = gap
                    .as_ref()
                    .map_or(0, |gap| gap.last - usize::from(gap.last_in_part));
                (before + begun + usize::from(in_part), in_part)
            }
        };
        let left_out = match gap {
            Some(gap) => gap.bytes + (head.len() - head_end) + tail_start,
            None => tail_start.saturating_sub(head_end),
        };
        let gap = Gap {
            first,
            last: last.max(first),
            lines,
            first_in_part,
            last_in_part,
            bytes: left_out,
            offset: match gap {
                Some(gap) if !head_is_cut => gap.offset,
                _ => head_end,
            },
        };
        let end = if is_at_end(kept_head) { "" } else { "\n" };
        format!("{kept_head}{end}{}\n{kept_tail}", gap.line(source))
    }
}

/// Returns where a head of at most `most` bytes ends: at the end of a line, if that leaves half of
/// it.
fn head_end(text: &str, most: usize) -> usize {
    let end = boundary_below(text, most.min(text.len()));
    match text[..end].rfind('\n') {
        _ if end == text.len() => end,
        Some(at) if at + 1 > end / 2 => at + 1,
        _ => end,
    }
}

/// Returns where a tail of at most `most` bytes begins: at a line, if that leaves half of it.
fn tail_start(text: &str, most: usize) -> usize {
    let start = boundary_above(text, text.len().saturating_sub(most));
    match text[start..].find('\n') {
        _ if start == 0 || text[..start].ends_with('\n') => start,
        Some(at) if at < most / 2 => start + at + 1,
        _ => start,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SOURCE: CutSource<'_> = CutSource {
        address: "entry 7",
        is_all: true,
    };

    fn numbered(count: usize) -> String {
        (1..=count).map(|n| format!("line {n}\n")).collect()
    }

    /// Splits a shortened text into the part before our line, the line, and the part after it.
    fn parts(text: &str) -> (&str, &str, &str) {
        let at = text.find("; memory_page").unwrap();
        let start = text[..at].rfind('\n').map_or(0, |end| end + 1);
        let end = at + text[at..].find('\n').unwrap();
        (&text[..start], &text[start..end], &text[end + 1..])
    }

    #[test]
    fn text_that_fits_is_not_cut() {
        assert_eq!(cut("a\nb", 3, SOURCE), "a\nb");
    }

    #[test]
    fn whole_lines_are_left_out_and_named() {
        let text = numbered(1_000);
        let short = cut(&text, 1_000, SOURCE);
        assert!(short.len() <= 1_000);
        let (head, line, tail) = parts(&short);
        assert!(text.starts_with(head) && text.ends_with(tail));
        let first = lines(head) + 1;
        let last = 1_000 - lines(tail);
        let bytes = text.len() - head.len() - tail.len();
        assert_eq!(
            line,
            format!(
                "[lines {first}-{last} of 1000 left out ({bytes} bytes); memory_page reads on at \
                 address entry 7, offset {}, limit {bytes}]",
                head.len()
            )
        );
    }

    #[test]
    fn a_single_huge_line_is_cut_in_its_middle() {
        let text = "x".repeat(10_000_000);
        let short = cut(&text, 16_384, SOURCE);
        assert!(short.len() <= 16_384 && short.len() > 16_000);
        let (head, line, tail) = parts(&short);
        let bytes = text.len() - (head.len() - 1) - tail.len();
        let want = format!("[the middle of line 1 of 1 left out ({bytes} bytes); ");
        assert!(line.starts_with(&want), "{line}");
    }

    #[test]
    fn a_text_that_was_cut_is_cut_around_the_same_line() {
        let text = numbered(5_000);
        let once = cut(&text, 16_000, SOURCE);
        // A result has a line after its output.
        let twice = cut(&format!("{once}[exit code 1]\n"), 2_000, SOURCE);
        assert!(twice.len() <= 2_000);
        assert_eq!(twice.matches("left out").count(), 1);
        let (head, line, tail) = parts(&twice);
        let tail = tail.strip_suffix("[exit code 1]\n").unwrap();
        assert!(text.starts_with(head) && text.ends_with(tail));
        let want = format!(
            "[lines {}-{} of 5000 left out ({} bytes)",
            lines(head) + 1,
            5_000 - lines(tail),
            text.len() - head.len() - tail.len()
        );
        assert!(line.starts_with(&want), "{line}");
        let left_out = text.len() - head.len() - tail.len();
        assert!(line.ends_with(&format!("offset {}, limit {left_out}]", head.len())));
    }

    #[test]
    fn a_cut_that_would_save_little_is_not_made() {
        assert!(!is_cut(1_599, 1_000) && is_cut(1_600, 1_000));
        assert!(!is_cut(usize::MAX - 1, usize::MAX));
    }

    #[test]
    fn a_line_that_only_looks_like_ours_is_text() {
        let other = CutSource {
            address: "entry 8",
            is_all: true,
        };
        let text = cut(&numbered(1_000), 2_000, other);
        let again = cut(&text, 1_000, SOURCE);
        assert!(again.contains("address entry 7"), "{again}");
        assert!(again.len() <= 1_000);
    }

    proptest! {
        #[test]
        fn no_cut_is_longer_than_asked(text in "(\\PC|\n){0,400}", max in 0usize..300) {
            prop_assert!(cut(&text, max, SOURCE).len() <= max);
        }

        #[test]
        fn a_cut_names_the_missing_lines_even_after_a_second_cut(
            text in "(\\PC{0,30}\n|\\PC{0,3}){0,40}", max in 220usize..600, next in 220usize..600,
        ) {
            let once = cut(&text, max, SOURCE);
            prop_assert!(once.len() <= max);
            let twice = cut(&once, next, SOURCE);
            prop_assert!(twice.len() <= next);
            prop_assert!(twice.matches("left out (").count() <= 1);
            for short in [&once, &twice].into_iter().filter(|short| **short != text) {
                let (head, line, tail) = parts(short);
                let gap = Gap::of_line(line, SOURCE).unwrap();
                let head = if gap.first_in_part {
                    head.strip_suffix('\n').unwrap()
                } else {
                    head
                };
                prop_assert!(text.starts_with(head) && text.ends_with(tail));
                prop_assert_eq!(gap.lines, lines(&text));
                prop_assert_eq!(gap.offset, head.len());
                prop_assert_eq!(gap.bytes, text.len() - head.len() - tail.len());
                prop_assert_eq!(gap.first, head.matches('\n').count() + 1);
                let end = &text[..text.len() - tail.len()];
                prop_assert_eq!(gap.last, end.matches('\n').count() + usize::from(!end.ends_with('\n')));
            }
        }
    }
}
