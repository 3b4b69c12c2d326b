//! The box on the screen: the text in rows between two lines, and the list above it.

use ratatui::Frame;
use ratatui::layout::{Position, Rect};
use ratatui::style::Style;
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, BorderType, Borders, Clear, Paragraph};

use super::Composer;
use super::buffer::pieces;
use super::chips::is_chip;
use super::popup::{Popup, Suggestion};
use super::vim::Vim;
use super::wrap::{self, Row};
use crate::ui::text::{clip, clip_words, width};

/// The columns of the sign before the text.
const SIGN_COLUMNS: u16 = 2;

/// The lines above and below the text.
const BORDER_ROWS: u16 = 2;

/// The styles of the parts.
#[derive(Debug, Clone, Copy, Default)]
pub struct ComposerStyles {
    pub text: Style,
    pub dim: Style,
    pub accent: Style,
    pub selection: Style,
    pub border: Style,
    pub border_focus: Style,
    pub warn: Style,
}

impl Composer {
    /// Returns the rows that the box wants at a width, at most `max`.
    pub fn height(&mut self, width: u16, max: u16) -> u16 {
        self.layout(width.saturating_sub(SIGN_COLUMNS));
        let rows = u16::try_from(self.rows.len()).unwrap_or(u16::MAX);
        rows.saturating_add(BORDER_ROWS).min(max)
    }

    /// Draws the box into `area`, the list above it, and, with `focus`, puts the cursor.
    pub fn draw(
        &mut self,
        frame: &mut Frame<'_>,
        area: Rect,
        styles: &ComposerStyles,
        focus: bool,
    ) {
        let area = area.intersection(frame.area());
        let block = self.block(styles, focus);
        let inner = block.inner(area);
        frame.render_widget(block, area);
        if inner.height == 0 || inner.width <= SIGN_COLUMNS {
            return;
        }
        let [sign, text] = [
            Rect {
                width: SIGN_COLUMNS,
                ..inner
            },
            Rect {
                x: inner.x + SIGN_COLUMNS,
                width: inner.width - SIGN_COLUMNS,
                ..inner
            },
        ];
        self.layout(text.width);
        let buffer = (self.buffer.text(), self.buffer.cursor());
        let (row, column) = wrap::place(buffer.0, &self.chips, &self.rows, buffer.1);
        let height = usize::from(text.height);
        self.top = self.top.clamp((row + 1).saturating_sub(height), row);
        self.top = self.top.min(self.rows.len().saturating_sub(height));

        // A command of the user has its mark in the text.
        if !self.is_shell() {
            frame.render_widget(Span::styled("›", styles.accent), sign);
        }
        let shown = self.rows.iter().skip(self.top).take(height);
        let lines: Vec<Line<'_>> = shown.map(|row| self.line(*row, styles)).collect();
        frame.render_widget(Paragraph::new(lines), text);
        if focus {
            let column = u16::try_from(column)
                .unwrap_or(u16::MAX)
                .min(text.width - 1);
            let row = u16::try_from(row - self.top).unwrap_or(0);
            frame.set_cursor_position(Position::new(text.x + column, text.y + row));
        }
        if let Some(popup) = &self.popup {
            draw_popup(popup, frame, area, styles);
        }
    }

    fn block(&self, styles: &ComposerStyles, focus: bool) -> Block<'static> {
        let border = match focus {
            _ if self.is_shell() => styles.warn,
            true => styles.border_focus,
            false => styles.border,
        };
        let block = Block::new()
            .borders(Borders::TOP | Borders::BOTTOM)
            .border_style(border);
        let block = match self.vim.as_ref().and_then(Vim::mode_name) {
            Some(mode) => block.title_top(Line::styled(mode, styles.accent).right_aligned()),
            None => block,
        };
        match &self.search {
            Some(search) => {
                let none = search.found.is_none() && !search.query.is_empty();
                let title = match none {
                    true => format!(" no prompt with: {} ", search.query),
                    false => format!(" search prompts: {} ", search.query),
                };
                let style = if none { styles.warn } else { styles.accent };
                block.title_top(Line::styled(title, style))
            }
            None if self.is_shell() => block.title_top(Line::styled(" shell ", styles.warn)),
            None => block,
        }
    }

    fn line(&self, row: Row, styles: &ComposerStyles) -> Line<'static> {
        let mut spans = Vec::new();
        let mut plain = String::new();
        let selection = self.selection().unwrap_or_default();
        let style = |is_selected| match is_selected {
            true => styles.text.reversed(),
            false => styles.text,
        };
        let mut is_selected = false;
        for (at, piece) in pieces(&self.buffer.text()[row.start..row.end]) {
            if selection.contains(&(row.start + at)) != is_selected {
                spans.push(Span::styled(std::mem::take(&mut plain), style(is_selected)));
                is_selected = !is_selected;
            }
            match piece.chars().next() {
                Some(c) if is_chip(c) => {
                    spans.push(Span::styled(std::mem::take(&mut plain), style(is_selected)));
                    let label = self.chips.label(c).unwrap_or_default();
                    let chip = match is_selected {
                        true => styles.accent.reversed(),
                        false => styles.accent,
                    };
                    spans.push(Span::styled(label, chip));
                }
                Some('\t') => plain.push_str("    "),
                _ => plain.push_str(piece),
            }
        }
        spans.push(Span::styled(plain, style(is_selected)));
        // The end of a line that is selected too.
        if selection.contains(&row.end) {
            spans.push(Span::styled(" ", style(true)));
        }
        Line::from(spans)
    }

    /// Wraps the text at a width, unless neither has changed.
    pub(super) fn layout(&mut self, width: u16) {
        let of = (self.buffer.revision(), width);
        if self.laid_out != Some(of) {
            self.rows = wrap::rows(self.buffer.text(), &self.chips, width);
            self.laid_out = Some(of);
        }
    }
}

/// Draws the list above the box and as wide as it, over the page: with a frame where there is room.
fn draw_popup(popup: &Popup, frame: &mut Frame<'_>, below: Rect, styles: &ComposerStyles) {
    let (items, selected) = popup.lines();
    let room = below.y.saturating_sub(frame.area().y);
    let more = popup.more();
    let rows = u16::try_from(items.len() + usize::from(more.is_some())).unwrap_or(0);
    let framed = room >= rows + BORDER_ROWS;
    let height = match framed {
        true => rows + BORDER_ROWS,
        false => rows.min(room),
    };
    if height == 0 {
        return;
    }
    let area = Rect {
        y: below.y - height,
        height,
        ..below
    };
    // The page must not be visible at its sides.
    let rows_below = Rect {
        x: frame.area().x,
        width: frame.area().width,
        ..area
    };
    frame.render_widget(Clear, rows_below);
    let inner = if framed {
        let block = Block::bordered()
            .border_type(BorderType::Rounded)
            .border_style(styles.border);
        let inner = block.inner(area);
        frame.render_widget(block, area);
        inner
    } else {
        area
    };
    // In a low area the selected row is still shown, and the line below the list is not.
    let more = more.filter(|_| inner.height >= rows);
    let seen = usize::from(inner.height) - usize::from(more.is_some());
    let first = (selected + 1).saturating_sub(seen);
    let columns = usize::from(inner.width);
    let names: Vec<String> = items.iter().map(Suggestion::name).collect();
    let widest = names.iter().map(|name| width(name)).max().unwrap_or(0);
    // The description of a command gets at least half of a narrow screen.
    let widest = widest.min((columns / 2).max(LEAST_NAME));
    let line = |at: usize, item: &Suggestion, name: &str| {
        let (mark, style, dim) = match at == selected {
            true => ("› ", styles.selection, styles.selection),
            false => ("  ", styles.text, styles.dim),
        };
        let help = item.help();
        let name_room = match help.as_ref() {
            "" => columns.saturating_sub(2),
            _ => widest.min(columns.saturating_sub(2)),
        };
        let name = clip(name, name_room);
        let blanks = " ".repeat(widest.saturating_sub(width(&name)) + 2);
        let left = columns.saturating_sub(2 + width(&name) + blanks.len());
        Line::from(vec![
            Span::styled(format!("{mark}{name}{blanks}"), style),
            Span::styled(clip_words(&help, left), dim),
        ])
    };
    let shown = items.iter().zip(&names).enumerate().skip(first).take(seen);
    let lines: Vec<Line<'_>> = shown
        .map(|(at, (item, name))| line(at, item, name))
        .chain(more.map(|more| Line::styled(clip(&format!("  {more}"), columns), styles.dim)))
        .collect();
    frame.render_widget(Paragraph::new(lines).style(styles.text), inner);
}

/// Minimum columns of a command's name and argument.
const LEAST_NAME: usize = 14;
