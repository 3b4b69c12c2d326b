//! Search for words in the conversation, including folded parts.
//!
//! Blocks are searched from the newest to the oldest, a bounded part at a time, so that no key
//! waits for a long session. The position of a match in its block is found only when the user goes
//! to it, because the block is laid out then.

use std::collections::VecDeque;

use ratatui::style::Style;
use ratatui::text::{Line, Span};
use regex::{Regex, RegexBuilder};

use super::lay::lay;
use super::{LayoutContext, Scroll, Transcript};

/// Maximum number of bytes that are searched in one step.
const STEP_BYTES: usize = 8 * 1024 * 1024;

/// Maximum number of bytes to search. Beyond it, older entries are not loaded for a search.
const MAX_BYTES: usize = 256 * 1024 * 1024;

pub const MAX_WORDS_CHARS: usize = 200;

/// The keys of the search.
pub const SEARCH_KEYS: &str = "Enter or ↑ earlier · ↓ later · Esc ends";

/// A search and its state.
#[derive(Debug, Default)]
pub struct TranscriptSearch {
    pub words: String,
    pattern: Option<Regex>,
    /// Blocks with matches, and the number of matches in each: the oldest first.
    found: VecDeque<(usize, usize)>,
    /// The blocks that were searched.
    looked: std::ops::Range<usize>,
    bytes: usize,
    at: Option<MatchPlace>,
    /// The scroll position before the search.
    origin: Scroll,
    /// The block that was unfolded to show a match.
    unfolded: Option<usize>,
}

/// A selected match.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct MatchPlace {
    block: usize,
    /// Index of the match in its block.
    nth: usize,
    /// The line of the block, and the index of the match in that line. `None`: no shown line has
    /// it.
    line: Option<(usize, usize)>,
}

impl TranscriptSearch {
    /// Makes a search that starts at the scroll position.
    pub fn new(origin: Scroll) -> TranscriptSearch {
        TranscriptSearch {
            origin,
            ..TranscriptSearch::default()
        }
    }

    /// Sets other words, and starts the search from the beginning.
    pub fn set_words(&mut self, words: String, blocks: usize) {
        let parts: Vec<String> = words.split_whitespace().map(regex::escape).collect();
        let pattern = RegexBuilder::new(&parts.join(r"\s+"))
            .case_insensitive(true)
            .build();
        self.pattern = pattern.ok().filter(|_| !parts.is_empty());
        self.words = words;
        self.found.clear();
        self.looked = blocks..blocks;
        self.bytes = 0;
        self.at = None;
    }

    /// Adjusts the state after `count` blocks were added before.
    pub fn shift(&mut self, count: usize) {
        for (block, _) in &mut self.found {
            *block += count;
        }
        self.looked.start += count;
        self.looked.end += count;
        self.origin.shift(count);
        if let Some(at) = &mut self.at {
            at.block += count;
        }
        self.unfolded = self.unfolded.map(|block| block + count);
    }

    /// Returns whether all blocks were searched.
    pub fn is_through(&self) -> bool {
        self.pattern.is_none() || self.looked.start == 0
    }

    /// Returns whether older entries should be loaded.
    pub fn wants_earlier(&self) -> bool {
        self.pattern.is_some() && self.is_through() && self.bytes < MAX_BYTES
    }

    /// Returns the number of matches so far.
    pub fn count(&self) -> usize {
        self.found.iter().map(|(_, count)| count).sum()
    }

    /// Returns the number of the selected match, from 1.
    pub fn position(&self) -> Option<usize> {
        let at = self.at?;
        let before = self.found.iter().take_while(|(block, _)| *block < at.block);
        Some(before.map(|(_, count)| count).sum::<usize>() + at.nth + 1)
    }

    /// Returns whether the match is in a part of a block that is not shown, even unfolded.
    pub fn is_out_of_sight(&self) -> bool {
        self.at.is_some_and(|at| at.line.is_none())
    }

    fn step(&mut self, transcript: &Transcript) {
        let Some(pattern) = &self.pattern else {
            return;
        };
        let mut budget = STEP_BYTES;
        // New blocks are at the end.
        while self.looked.end < transcript.blocks.len() {
            let (count, _) = occurrences(&transcript.blocks[self.looked.end], pattern);
            if count > 0 {
                self.found.push_back((self.looked.end, count));
            }
            self.looked.end += 1;
        }
        while self.looked.start > 0 && budget > 0 {
            let block = self.looked.start - 1;
            let (count, bytes) = occurrences(&transcript.blocks[block], pattern);
            if count > 0 {
                self.found.push_front((block, count));
            }
            self.looked.start = block;
            self.bytes += bytes;
            budget = budget.saturating_sub(bytes + 64);
        }
    }

    /// Returns the match next to the selected one: its block, and its index there if known.
    fn neighbour(&self, backwards: bool) -> Option<(usize, Option<usize>)> {
        let at = self.at?;
        let count = self.found.iter().find(|(block, _)| *block == at.block);
        let count = count.map_or(0, |(_, count)| *count);
        match backwards {
            true if at.nth > 0 => Some((at.block, Some(at.nth - 1))),
            false if at.nth + 1 < count => Some((at.block, Some(at.nth + 1))),
            true => {
                let mut before = self.found.iter().rev();
                let block = before.find(|(block, _)| *block < at.block)?.0;
                Some((block, None))
            }
            false => {
                let block = self.found.iter().find(|(block, _)| *block > at.block)?.0;
                Some((block, Some(0)))
            }
        }
    }

    /// Returns the first match to select: at or below the scroll position, else above it.
    fn first(&self) -> Option<(usize, Option<usize>)> {
        let below = match self.origin {
            Scroll::End => None,
            Scroll::At { block, .. } => self.found.iter().find(|(b, _)| *b >= block),
        };
        match below {
            Some((block, _)) => Some((*block, Some(0))),
            None => self.found.back().map(|(block, _)| (*block, None)),
        }
    }
}

/// Returns the number of matches in a block, and the number of bytes that were searched.
fn occurrences(block: &super::Block, pattern: &Regex) -> (usize, usize) {
    let (mut count, mut bytes) = (0, 0);
    block.each_text(&mut |text| {
        bytes += text.len();
        count += pattern.find_iter(text).count();
    });
    (count, bytes)
}

impl Transcript {
    /// Continues the search, and selects the first match when none is selected.
    pub fn search_on(
        &mut self,
        search: &mut TranscriptSearch,
        height: usize,
        layout: &mut LayoutContext<'_>,
    ) {
        search.step(self);
        if search.at.is_none() {
            match search.first() {
                Some((block, nth)) => self.go_to(search, block, nth, height, layout),
                None if search.is_through() => {
                    self.refold(search, None);
                    self.scroll = search.origin;
                }
                None => {}
            }
        }
    }

    /// Selects the match before or after the selected one. Returns false when there is none.
    pub fn search_next(
        &mut self,
        search: &mut TranscriptSearch,
        backwards: bool,
        height: usize,
        layout: &mut LayoutContext<'_>,
    ) -> bool {
        let Some((block, nth)) = search.neighbour(backwards) else {
            return false;
        };
        self.go_to(search, block, nth, height, layout);
        true
    }

    /// Selects a match of a block. `nth`: `None` for the last match of the block.
    fn go_to(
        &mut self,
        search: &mut TranscriptSearch,
        block: usize,
        nth: Option<usize>,
        height: usize,
        layout: &mut LayoutContext<'_>,
    ) {
        self.refold(search, Some(block));
        let needle = needle(&search.words);
        let mut places = self.places(block, &needle, layout);
        let counted = search.found.iter().find(|(b, _)| *b == block);
        let counted = counted.map_or(0, |(_, count)| *count);
        if places.len() < counted && self.unfold_for_search(block) {
            search.unfolded = Some(block);
            places = self.places(block, &needle, layout);
        }
        // Shown lines count: they may repeat the words, as a heading does.
        let seen = places.len().max(1);
        if let Some((_, count)) = search.found.iter_mut().find(|(b, _)| *b == block) {
            *count = seen;
        }
        let nth = nth.unwrap_or(seen - 1).min(seen - 1);
        let line = places.get(nth).copied();
        search.at = Some(MatchPlace { block, nth, line });
        let line = line.map_or(0, |(line, _)| line);
        self.scroll = Scroll::At { block, line };
        // Lines before the match are shown too.
        if height > 3 {
            self.scroll_up(height / 3, height, layout);
        }
    }

    fn unfold_for_search(&mut self, block: usize) -> bool {
        let all = self.unfolded;
        match self.blocks.get_mut(block).filter(|b| b.folds()) {
            Some(block) if !block.unfolded.unwrap_or(all) => {
                block.unfolded = Some(true);
                true
            }
            _ => false,
        }
    }

    /// Folds a block that was unfolded for a match, unless it is selected again.
    fn refold(&mut self, search: &mut TranscriptSearch, next: Option<usize>) {
        if let Some(was) = search.unfolded.filter(|was| Some(*was) != next) {
            search.unfolded = None;
            if let Some(block) = self.blocks.get_mut(was) {
                block.unfolded = None;
            }
        }
    }

    /// Returns the lines of a block in which matches begin, with an index in the line for each.
    fn places(
        &self,
        block: usize,
        needle: &[char],
        layout: &mut LayoutContext<'_>,
    ) -> Vec<(usize, usize)> {
        let Some(block) = self.blocks.get(block) else {
            return Vec::new();
        };
        lay(block, self.unfolded, layout, |lines| {
            let mut places: Vec<(usize, usize)> = Vec::new();
            for hit in hits(lines, needle) {
                let Some((line, _)) = hit.first().copied() else {
                    continue;
                };
                let before = places.iter().rev().take_while(|(l, _)| *l == line).count();
                places.push((line, before));
            }
            places
        })
    }

    /// Marks the matches in the visible lines, and the selected match.
    pub fn mark_found(
        &mut self,
        search: &TranscriptSearch,
        lines: &mut [Line<'static>],
        height: usize,
        (found, current): (Style, Style),
        layout: &mut LayoutContext<'_>,
    ) {
        let needle = needle(&search.words);
        if needle.is_empty() {
            return;
        }
        let at = search.at.and_then(|at| Some((at.block, at.line?)));
        let at = at.and_then(|(block, (line, nth))| {
            Some((self.row_of(block, line, height, layout)?, nth))
        });
        let mut marks: Vec<Vec<(usize, Style)>> = vec![Vec::new(); lines.len()];
        let (mut row, mut nth) = (usize::MAX, 0);
        for hit in hits(lines, &needle) {
            let begins = hit.first().map_or(usize::MAX, |(row, _)| *row);
            nth = if begins == row { nth + 1 } else { 0 };
            row = begins;
            let style = if at == Some((row, nth)) {
                current
            } else {
                found
            };
            for (row, char_at) in hit {
                marks[row].push((char_at, style));
            }
        }
        for (line, marks) in lines.iter_mut().zip(marks) {
            restyle(line, &marks);
        }
    }

    /// Returns the row of the screen that shows a line of a block.
    fn row_of(
        &mut self,
        block: usize,
        line: usize,
        height: usize,
        layout: &mut LayoutContext<'_>,
    ) -> Option<usize> {
        let (mut first, skip) = self.top(height, layout);
        let mut row = 0usize;
        if block < first {
            return None;
        }
        while first < block {
            row += self.height(first, layout);
            if row > height + skip {
                return None;
            }
            first += 1;
        }
        (row + line).checked_sub(skip)
    }
}

fn needle(words: &str) -> Vec<char> {
    let words: Vec<&str> = words.split_whitespace().collect();
    words.join(" ").chars().map(lower).collect()
}

fn lower(c: char) -> char {
    c.to_lowercase().next().unwrap_or(c)
}

/// Marks before lines that are not part of their text.
fn is_margin(c: char) -> bool {
    c.is_whitespace() || matches!(c, '│' | '▌' | '└')
}

/// Finds the words in lines: the row and the character of each of their characters. A match may be
/// split between wrapped lines.
fn hits(lines: &[Line<'_>], needle: &[char]) -> Vec<Vec<(usize, usize)>> {
    if needle.is_empty() {
        return Vec::new();
    }
    // A line end counts as a blank, or as nothing.
    const END: char = '\n';
    let mut text: Vec<(char, usize, usize)> = Vec::new();
    for (row, line) in lines.iter().enumerate() {
        let chars = line.spans.iter().flat_map(|span| span.content.chars());
        let mut chars: Vec<(usize, char)> = chars.enumerate().collect();
        while chars.last().is_some_and(|(_, c)| c.is_whitespace()) {
            chars.pop();
        }
        let margin = chars.iter().take_while(|(_, c)| is_margin(*c)).count();
        let rest = chars.into_iter().skip(margin);
        text.extend(rest.map(|(at, c)| (lower(c), row, at)));
        text.push((END, row, usize::MAX));
    }
    let mut found = Vec::new();
    let mut from = 0;
    while from < text.len() {
        match matched(&text[from..], needle, END) {
            Some((hit, length)) => {
                found.push(hit);
                from += length;
            }
            None => from += 1,
        }
    }
    found
}

type Hit = Vec<(usize, usize)>;

/// Matches words at the beginning of this text: returns their characters, and how many characters
/// of the text they take.
fn matched(text: &[(char, usize, usize)], needle: &[char], end: char) -> Option<(Hit, usize)> {
    let mut hit = Vec::with_capacity(needle.len());
    let mut rest = needle;
    let mut was_blank = false;
    for (length, (c, row, at)) in text.iter().enumerate() {
        let Some((wanted, after)) = rest.split_first() else {
            return Some((hit, length));
        };
        if *c == end {
            if hit.is_empty() {
                return None;
            }
            if *wanted == ' ' {
                rest = after;
            }
            was_blank = true;
        } else if c == wanted {
            was_blank = *c == ' ';
            hit.push((*row, *at));
            rest = after;
        } else if !(was_blank && *c == ' ') {
            return None;
        }
    }
    rest.is_empty().then_some((hit, text.len()))
}

/// Adds styles to the characters at these places.
fn restyle(line: &mut Line<'static>, marks: &[(usize, Style)]) {
    if marks.is_empty() {
        return;
    }
    let mut spans: Vec<Span<'static>> = Vec::new();
    let mut at = 0;
    for span in std::mem::take(&mut line.spans) {
        for c in span.content.chars() {
            let mark = marks.iter().find(|(place, _)| *place == at);
            let style = mark.map_or(span.style, |(_, style)| span.style.patch(*style));
            crate::ui::text::push_span(&mut spans, style, c.encode_utf8(&mut [0; 4]));
            at += 1;
        }
    }
    line.spans = spans;
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(lines: &[&str], words: &str) -> Vec<(usize, usize)> {
        let lines: Vec<Line<'_>> = lines.iter().map(|l| Line::raw(l.to_string())).collect();
        let hits = hits(&lines, &needle(words));
        hits.into_iter().map(|hit| hit[0]).collect()
    }

    #[test]
    fn words_are_found_in_broken_lines_and_in_any_case() {
        assert_eq!(found(&["  a Fox and a fox"], "fox"), [(0, 4), (0, 14)]);
        assert_eq!(
            found(&["  the quick", "  brown fox"], "quick brown"),
            [(0, 6)]
        );
        assert_eq!(found(&["  │ abcdef", "  │ ghij"], "efgh"), [(0, 8)]);
        assert_eq!(found(&["aaaa"], "aa"), [(0, 0), (0, 2)]);
        assert_eq!(found(&["ÄRGER"], "ärger"), [(0, 0)]);
        assert_eq!(found(&["abc"], ""), []);
        assert_eq!(found(&["a  b"], "a b"), [(0, 0)]);
        assert_eq!(found(&["a b"], "ab"), []);
    }
}
