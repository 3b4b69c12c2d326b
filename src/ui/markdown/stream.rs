//! Markdown that is still being written.
//!
//! Blocks that no further text can change are laid out once and frozen; only the text after them is
//! laid out again. Code is frozen line by line.
//!
//! Invariant: the frozen part depends on the complete lines only, not on how they arrived. So the
//! end is the same however a text was cut into pieces.

use std::ops::Range;

use pulldown_cmark::{CodeBlockKind, Event, Parser, Tag};
use ratatui::text::Line;

use super::code::Frame;
use super::writer::{OPTIONS, Writer};
use crate::ui::highlight::Highlighter;
use crate::ui::text::clean;
use crate::ui::theme::Theme;

/// Number of lines of code that are frozen together.
const CODE_LINES: usize = 32;
/// A longer open block is laid out again only when it has grown by an eighth, so that a
/// list without end costs no more than a multiple of its length.
const BIG_TAIL_BYTES: usize = 64 * 1024;

/// A text that grows, and its lines.
#[derive(Default)]
pub struct Stream {
    text: String,
    finished: bool,
    layout: MarkdownLayout,
}

/// The lines of a text at one width, in one theme.
#[derive(Default)]
struct MarkdownLayout {
    columns: usize,
    theme: Theme,
    generation: u64,
    /// The bytes of the text that are frozen, or taken into the open fence.
    taken: usize,
    /// The complete bytes when the text was last cut into blocks.
    cut: usize,
    /// The length of the text that the lines show, and whether it was all of it.
    shown: (usize, bool),
    /// The length of the tail that the last lines show.
    tail: usize,
    fences: Vec<Fence>,
    /// The last fence is open.
    in_fence: bool,
    lines: Vec<Line<'static>>,
    frozen_lines: usize,
    /// Frozen pieces that wait for colours, and where their lines are.
    uncoloured: Vec<(Piece, Range<usize>)>,
}

enum Piece {
    /// Bytes of the text.
    Blocks(Range<usize>),
    /// Lines of a fence; the code up to their end counts for their colours.
    Code {
        fence: usize,
        skip: usize,
        end: usize,
    },
}

/// A top-level block of code.
struct Fence {
    mark: char,
    marks: usize,
    indent: usize,
    info: String,
    /// Clean.
    code: String,
    lines: usize,
    frozen_lines: usize,
}

impl Stream {
    /// Appends a piece of text.
    pub fn push(&mut self, text: &str) {
        // Line ends are line feeds, however the text was cut.
        for part in text.split('\r') {
            self.text.push_str(part);
        }
    }

    /// Notes that the text is complete.
    pub fn finish(&mut self) {
        self.finished = true;
    }

    /// Returns all lines, of at most `width` columns.
    pub fn lines(&mut self, width: u16, theme: &Theme, code: &mut Highlighter) -> &[Line<'static>] {
        let columns = usize::from(width.max(1));
        if self.layout.columns != columns || self.layout.theme != *theme {
            self.layout = MarkdownLayout {
                columns,
                theme: theme.clone(),
                ..MarkdownLayout::default()
            };
        }
        let same_colours = self.layout.colour(&self.text, code);
        let same_text = (self.text.len(), self.finished) == self.layout.shown;
        let is_shown = same_colours && same_text;
        if !is_shown && !self.waits() {
            self.layout.shown = (self.text.len(), self.finished);
            self.layout.freeze(&self.text, code);
            self.layout.show_tail(&self.text, self.finished, code);
        }
        &self.layout.lines
    }

    /// Returns the lines of the last layout.
    pub fn into_lines(self) -> Vec<Line<'static>> {
        self.layout.lines
    }

    /// Returns whether the open block is big and has hardly grown.
    fn waits(&self) -> bool {
        let (tail, shown) = (self.text.len() - self.layout.taken, self.layout.tail);
        !self.finished && shown > BIG_TAIL_BYTES && tail < shown + shown / 8
    }
}

impl MarkdownLayout {
    /// Adds new colours to frozen pieces, without a change of layout. Returns whether there were
    /// none.
    fn colour(&mut self, text: &str, code: &mut Highlighter) -> bool {
        let generation = code.generation();
        if std::mem::replace(&mut self.generation, generation) == generation {
            return true;
        }
        let mut waiting = std::mem::take(&mut self.uncoloured).into_iter();
        for (piece, at) in waiting.by_ref() {
            let (lines, settled) = self.lay_out(&piece, text, code);
            // A grapheme over a change of colour may wrap otherwise: then it stays plain.
            if lines.len() == at.len() {
                self.lines.splice(at.clone(), lines);
            }
            // Colours come in order: later parts have none yet.
            if !settled {
                self.uncoloured.push((piece, at));
                break;
            }
        }
        self.uncoloured.extend(waiting);
        false
    }

    fn lay_out(
        &self,
        piece: &Piece,
        text: &str,
        highlighter: &mut Highlighter,
    ) -> (Vec<Line<'static>>, bool) {
        match piece {
            Piece::Blocks(bytes) => {
                Writer::new(self.columns, &self.theme, highlighter).write(&text[bytes.clone()])
            }
            Piece::Code { fence, skip, end } => {
                let fence = &self.fences[*fence];
                let code = &fence.code[..*end];
                self.frame().lines(code, *skip, &fence.info, highlighter)
            }
        }
    }

    fn frame(&self) -> Frame<'_> {
        Frame {
            columns: self.columns,
            first: &[],
            rest: &[],
            theme: &self.theme,
        }
    }

    /// Freezes the part that the complete lines allow.
    fn freeze(&mut self, text: &str, code: &mut Highlighter) {
        self.lines.truncate(self.frozen_lines);
        let complete = text.rfind('\n').map_or(0, |at| at + 1);
        if complete == self.cut {
            return;
        }
        self.cut = complete;
        let text = &text[..complete];
        while if self.in_fence {
            self.read_fence(text, code)
        } else {
            self.read_blocks(text, code)
        } {}
        self.frozen_lines = self.lines.len();
    }

    /// Freezes all blocks except the last, which may continue. Returns whether to read on.
    fn read_blocks(&mut self, text: &str, code: &mut Highlighter) -> bool {
        let base = self.taken;
        let blocks = blocks(&text[base..]);
        for (n, block) in blocks.iter().enumerate() {
            let bytes = base + block.bytes.start..base + block.bytes.end;
            if block.fenced {
                self.freeze_blocks(text, bytes.start, code);
                if !self.open_fence(text, bytes.start) {
                    return false;
                }
                let closed = self.read_fence(text, code);
                // If the parser disagrees about the end of the fence, the rest is read again.
                let agree = text[..self.taken].trim_end() == text[..bytes.end].trim_end();
                if !closed || !agree {
                    return closed;
                }
            } else if let Some(next) = blocks.get(n + 1) {
                let next = base + next.bytes.start;
                let is_last = n + 2 == blocks.len();
                if is_boundary(text, bytes, next) && !(is_last && may_define(text, next)) {
                    self.freeze_blocks(text, next, code);
                }
            }
        }
        false
    }

    fn freeze_blocks(&mut self, text: &str, end: usize, code: &mut Highlighter) {
        if end > self.taken {
            let piece = Piece::Blocks(self.taken..end);
            self.taken = end;
            self.push(piece, true, text, code);
        }
    }

    fn open_fence(&mut self, text: &str, start: usize) -> bool {
        let line = line_at(text, start);
        match Fence::parse(line) {
            Some(fence) => {
                self.fences.push(fence);
                self.in_fence = true;
                self.taken = start + line.len();
                true
            }
            None => false,
        }
    }

    /// Takes lines into the open fence. Says whether it was closed.
    fn read_fence(&mut self, text: &str, code: &mut Highlighter) -> bool {
        let number = self.fences.len().saturating_sub(1);
        let Some(fence) = self.fences.last_mut() else {
            return false;
        };
        while self.in_fence && self.taken < text.len() {
            let line = line_at(text, self.taken);
            self.taken += line.len();
            match fence.is_closed_by(line) {
                true => self.in_fence = false,
                false => fence.push(line),
            }
        }
        let waiting = fence.lines - fence.frozen_lines;
        if waiting >= CODE_LINES || !self.in_fence && waiting > 0 {
            let piece = Piece::Code {
                fence: number,
                skip: fence.frozen_lines,
                end: fence.code.len(),
            };
            let apart = fence.starts_block();
            fence.frozen_lines = fence.lines;
            self.push(piece, apart, text, code);
        }
        !self.in_fence
    }

    fn push(&mut self, piece: Piece, apart: bool, text: &str, code: &mut Highlighter) {
        let (lines, settled) = self.lay_out(&piece, text, code);
        let at = self.append(lines, apart);
        if !settled {
            self.uncoloured.push((piece, at));
        }
    }

    /// Appends lines, and says where they are.
    fn append(&mut self, lines: Vec<Line<'static>>, apart: bool) -> Range<usize> {
        if apart && !self.lines.is_empty() && !lines.is_empty() {
            self.lines.push(Line::default());
        }
        let start = self.lines.len();
        self.lines.extend(lines);
        start..self.lines.len()
    }

    /// Shows the text that is not frozen.
    fn show_tail(&mut self, text: &str, is_whole: bool, code: &mut Highlighter) {
        let tail = &text[self.taken..];
        self.tail = tail.len();
        if !self.in_fence {
            let tail = if is_whole {
                tail
            } else {
                without_incomplete_end(tail)
            };
            let (lines, _) = Writer::new(self.columns, &self.theme, code).write(tail);
            self.append(lines, true);
        } else if let Some(mut fence) = self.fences.pop() {
            let (complete, apart) = (fence.code.len(), fence.starts_block());
            if !fence.is_closed_by(tail) {
                fence.code.push_str(&fence.cleaned(tail));
            }
            let (skip, info) = (fence.frozen_lines, &fence.info);
            let (lines, _) = self.frame().lines(&fence.code, skip, info, code);
            self.append(lines, apart);
            fence.code.truncate(complete);
            self.fences.push(fence);
        }
    }
}

impl Fence {
    /// Parses the opening line of a fence.
    fn parse(line: &str) -> Option<Fence> {
        let rest = line.trim_start_matches(' ');
        let mark = rest.chars().next().filter(|c| matches!(c, '`' | '~'))?;
        let info = rest.trim_start_matches(mark);
        Some(Fence {
            mark,
            marks: rest.len() - info.len(),
            indent: line.len() - rest.len(),
            info: info.trim().to_string(),
            code: String::new(),
            lines: 0,
            frozen_lines: 0,
        })
    }

    fn is_closed_by(&self, line: &str) -> bool {
        let rest = line.trim_start_matches(' ');
        let after = rest.trim_start_matches(self.mark);
        line.len() - rest.len() <= 3
            && rest.len() - after.len() >= self.marks
            && after.trim().is_empty()
    }

    fn push(&mut self, line: &str) {
        let line = self.cleaned(line);
        self.lines += line.matches('\n').count();
        self.code.push_str(&line);
    }

    /// Returns the line without the indentation of the fence itself.
    fn cleaned(&self, line: &str) -> String {
        let blanks = line.len() - line.trim_start_matches(' ').len();
        clean(&line[blanks.min(self.indent)..]).into_owned()
    }

    /// Returns whether nothing of it is shown yet.
    fn starts_block(&self) -> bool {
        self.frozen_lines == 0
    }
}

struct Block {
    bytes: Range<usize>,
    fenced: bool,
}

/// Returns the top-level blocks; each begins with its line.
fn blocks(text: &str) -> Vec<Block> {
    let mut blocks = Vec::new();
    let mut depth = 0_usize;
    for (event, bytes) in Parser::new_ext(text, OPTIONS).into_offset_iter() {
        if depth == 0 && !matches!(event, Event::End(_)) {
            let start = text[..bytes.start].rfind('\n').map_or(0, |at| at + 1);
            blocks.push(Block {
                bytes: start..bytes.end,
                fenced: matches!(
                    event,
                    Event::Start(Tag::CodeBlock(CodeBlockKind::Fenced(_)))
                ),
            });
        }
        match event {
            Event::Start(_) => depth += 1,
            Event::End(_) => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    blocks
}

/// Returns whether a block is final before the next. The definition of a link has no event, and its
/// title may continue in further lines: then, and directly below one, only a blank line ends it.
fn is_boundary(text: &str, block: Range<usize>, next: usize) -> bool {
    let between = text.get(block.end..next).unwrap_or_default();
    let lines = text
        .get(block.start..next)
        .unwrap_or_default()
        .lines()
        .rev();
    let mut lines = lines.take_while(|line| !line.trim().is_empty());
    let blank_line = text[..next].trim_end_matches([' ', '\t']).ends_with("\n\n");
    blank_line || between.trim().is_empty() && !lines.any(|line| line.contains("]:"))
}

/// Returns whether the open block that begins here may turn out to define a link. Until its title
/// is closed it looks like a paragraph, and then the parser reports no block here.
fn may_define(text: &str, start: usize) -> bool {
    line_at(text, start).trim_start().starts_with('[')
}

/// Returns the text without a table or a fence whose second line is not there yet: its source would
/// be visible for a moment.
fn without_incomplete_end(text: &str) -> &str {
    let mut start = text.len();
    let mut complete = 0;
    for line in text.split_inclusive('\n').rev() {
        if line.trim().is_empty() && start < text.len() {
            break;
        }
        start -= line.len();
        complete += usize::from(line.ends_with('\n'));
        if complete > 1 {
            break;
        }
    }
    let begun = text[start..].trim_start();
    let is_begun = begun.starts_with('|') && complete < 2;
    // A fence shows the line that opens it; the rest is not shown as text.
    let fence = begun.starts_with(['`', '~']) && complete == 0;
    let marks = begun.trim_start_matches(['`', '~']);
    let is_fence = fence && (begun.len() - marks.len() >= 3 || marks.is_empty());
    match is_begun || is_fence {
        true => &text[..start],
        false => text,
    }
}

fn line_at(text: &str, start: usize) -> &str {
    let rest = &text[start..];
    &rest[..rest.find('\n').map_or(rest.len(), |at| at + 1)]
}
