//! The scroll position in the conversation, and the visible lines.
//!
//! The position is a block and a line in it, never a line of the whole: so only visible blocks are
//! laid out.

use ratatui::text::Line;

use super::Transcript;
use super::block::Together;
use super::lay::{StreamLines, lay};
use super::paragraph::LayoutContext;

/// The position of the top of the screen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Scroll {
    /// The end is visible, and stays visible as the conversation grows.
    #[default]
    End,
    /// This line of this block is the first visible one.
    At { block: usize, line: usize },
}

impl Scroll {
    /// Adjusts the position after `count` blocks were added before.
    pub(super) fn shift(&mut self, count: usize) {
        if let Scroll::At { block, .. } = self {
            *block += count;
        }
    }
}

impl Transcript {
    /// Returns the number of blocks, with the stream as one more.
    fn count(&self) -> usize {
        self.blocks.len() + usize::from(!self.stream.is_empty())
    }

    pub(super) fn height(&mut self, block: usize, layout: &mut LayoutContext<'_>) -> usize {
        match self.blocks.get(block) {
            Some(it) => lay(it, self.unfolded, layout, <[Line<'static>]>::len),
            None => StreamLines::of(&mut self.stream, layout).count(),
        }
    }

    /// Returns some lines of a block.
    fn slice(
        &mut self,
        block: usize,
        skip: usize,
        take: usize,
        layout: &mut LayoutContext<'_>,
    ) -> Vec<Line<'static>> {
        match self.blocks.get(block) {
            Some(it) => lay(it, self.unfolded, layout, |lines| {
                lines.iter().skip(skip).take(take).cloned().collect()
            }),
            None => StreamLines::of(&mut self.stream, layout).slice(skip, take),
        }
    }

    /// Returns the position `lines` lines above the end.
    fn above_end(&mut self, lines: usize, layout: &mut LayoutContext<'_>) -> (usize, usize) {
        let mut left = lines;
        for block in (0..self.count()).rev() {
            let height = self.height(block, layout);
            if height >= left {
                return (block, height - left);
            }
            left -= height;
        }
        (0, 0)
    }

    /// Returns the number of all lines. All blocks are laid out for this.
    pub fn lines(&mut self, layout: &mut LayoutContext<'_>) -> usize {
        (0..self.count())
            .map(|block| self.height(block, layout))
            .sum()
    }

    /// Returns the visible lines of a screen of this height.
    pub fn visible(&mut self, height: usize, layout: &mut LayoutContext<'_>) -> Vec<Line<'static>> {
        let (mut block, mut skip) = match self.scroll {
            Scroll::End => self.above_end(height, layout),
            Scroll::At { block, line } => {
                // The view never goes past the end.
                let end = self.above_end(height, layout);
                if (block, line) >= end {
                    self.scroll = Scroll::End;
                }
                (block, line).min(end)
            }
        };
        let mut seen = Vec::new();
        let first = block;
        while seen.len() < height && block < self.count() {
            let room = height - seen.len();
            seen.extend(self.slice(block, skip, room, layout));
            skip = 0;
            block += 1;
        }
        self.seen = first..block;
        seen
    }

    /// Returns the position at the top of a screen of this height.
    pub(super) fn top(&mut self, height: usize, layout: &mut LayoutContext<'_>) -> (usize, usize) {
        match self.scroll {
            Scroll::End => self.above_end(height, layout),
            Scroll::At { block, line } => (block, line),
        }
    }

    /// Moves towards the beginning. Returns false at the first line: there may be earlier entries
    /// to read.
    pub fn scroll_up(
        &mut self,
        lines: usize,
        height: usize,
        layout: &mut LayoutContext<'_>,
    ) -> bool {
        let (mut block, mut line) = self.top(height, layout);
        let first = self.head_blocks(block).start;
        let mut left = lines;
        while left > line {
            left -= line;
            if block == first {
                self.scroll = Scroll::At { block, line: 0 };
                return false;
            }
            block -= 1;
            line = self.height(block, layout);
        }
        line -= left;
        self.scroll = Scroll::At { block, line };
        true
    }

    /// Moves towards the end by `lines`. `height`: number of rows. At the end, the view follows new
    /// lines.
    pub fn scroll_down(&mut self, lines: usize, height: usize, layout: &mut LayoutContext<'_>) {
        let Scroll::At {
            mut block,
            mut line,
        } = self.scroll
        else {
            return;
        };
        let mut left = lines;
        let last = self.head_blocks(block).end;
        while block < last {
            let rest = self.height(block, layout).saturating_sub(line);
            if rest > left {
                line += left;
                self.scroll = Scroll::At { block, line };
                let end = self.above_end(height, layout);
                if (block, line) >= end {
                    self.scroll = Scroll::End;
                }
                return;
            }
            left -= rest;
            line = 0;
            block += 1;
        }
        // The entries after the beginning of the session are read first.
        self.scroll = if last < self.count() {
            let (block, line) = (last - 1, 0);
            Scroll::At { block, line }
        } else {
            Scroll::End
        };
    }

    /// Returns the blocks that follow each other without a gap around this one.
    fn head_blocks(&self, block: usize) -> std::ops::Range<usize> {
        match self.head {
            Some((head, _)) if block < head => 0..head,
            Some((head, _)) => head..self.count(),
            None => 0..self.count(),
        }
    }

    /// Returns whether the beginning of the session is shown, and whether its end is visible. `None`:
    /// the view is after it.
    pub(in crate::ui) fn in_head(&self) -> Option<bool> {
        let (head, _) = self.head?;
        match self.scroll {
            Scroll::At { block, .. } if block < head => Some(self.seen.end >= head),
            _ => None,
        }
    }

    /// Shows the first line of the loaded entries.
    pub fn scroll_home(&mut self) {
        self.scroll = Scroll::At { block: 0, line: 0 };
    }

    /// Shows the end, and follows new lines.
    pub fn scroll_end(&mut self) {
        self.scroll = Scroll::End;
    }

    /// Returns the block at this row of the screen.
    pub fn block_at(
        &mut self,
        row: usize,
        height: usize,
        layout: &mut LayoutContext<'_>,
    ) -> Option<usize> {
        let (mut block, line) = self.top(height, layout);
        let mut left = row + line;
        while block < self.blocks.len() {
            let lines = self.height(block, layout);
            if left < lines {
                return Some(block);
            }
            left -= lines;
            block += 1;
        }
        None
    }

    /// Folds or unfolds a block, by its index, if it can be folded.
    pub fn toggle(&mut self, block: usize) {
        let all = self.unfolded;
        let Some(it) = self.blocks.get(block).filter(|b| b.folds()) else {
            return;
        };
        let unfolded = Some(!it.unfolded.unwrap_or(all));
        let (first, count) = match it.together {
            Together::Alone => (block, 1),
            Together::First { count, .. } => (block, count),
            Together::Behind(behind) => {
                let first = block.saturating_sub(behind);
                let count = match self.blocks[first].together {
                    Together::First { count, .. } => count,
                    _ => 1,
                };
                (first, count)
            }
        };
        // Blocks of a group fold together.
        for block in self.blocks.iter_mut().skip(first).take(count) {
            block.unfolded = unfolded;
        }
    }

    /// Folds all thoughts if one is unfolded, else unfolds them.
    pub fn toggle_thinking(&mut self) {
        let all = self.unfolded;
        let thoughts = || |b: &&mut super::Block| matches!(b.kind, super::Kind::Thinking { .. });
        let is_open = |b: &mut super::Block| b.unfolded.unwrap_or(all);
        let unfold = !self.blocks.iter_mut().filter(thoughts()).any(is_open);
        for block in self.blocks.iter_mut().filter(thoughts()) {
            block.unfolded = Some(unfold);
        }
    }

    /// Folds or unfolds everything. Earlier choices for single blocks are dropped.
    pub fn toggle_all(&mut self) {
        self.unfolded = !self.unfolded;
        for block in &mut self.blocks {
            block.unfolded = None;
        }
    }
}
