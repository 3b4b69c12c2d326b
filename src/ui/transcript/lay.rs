//! A block as lines. They are made when the block is seen, and kept.

use crate::core::text::count;
use ratatui::style::Style;
use ratatui::text::{Line, Span};

use super::block::{Block, Kind, Laid, Stamp};
use super::paragraph::{LayoutContext, paragraph};
use super::{Stream, call};
use crate::session::describe::Tone;
use crate::ui::markdown;
use crate::ui::text::{self, Break, clean, clean_line};
use crate::ui::theme::Theme;

/// A thinking or a note that is folded shows this much.
const FOLDED_LINES: usize = 1;

pub(super) fn lay<T>(
    block: &Block,
    all_unfolded: bool,
    layout: &mut LayoutContext<'_>,
    then: impl FnOnce(&[Line<'static>]) -> T,
) -> T {
    let unfolded = block.unfolded.unwrap_or(all_unfolded);
    let seconds = u64::try_from(layout.now_ms / 1000).unwrap_or(0);
    let stamp = Stamp {
        width: layout.width,
        generation: layout.generation,
        unfolded,
        tick: if block.is_running() { seconds } else { 0 },
    };
    let mut laid = block.laid.borrow_mut();
    if laid.as_ref().is_none_or(|laid| laid.stamp != stamp) {
        let mut lines = lines(block, unfolded, layout);
        lines.push(Line::default());
        *laid = Some(Laid { stamp, lines });
    }
    match &*laid {
        Some(laid) => then(&laid.lines),
        None => then(&[]),
    }
}

fn lines(block: &Block, unfolded: bool, layout: &mut LayoutContext<'_>) -> Vec<Line<'static>> {
    let theme = layout.theme;
    match &block.kind {
        Kind::Said { text, images } => said(text, *images, layout),
        Kind::Words { text, cut } => {
            let mut lines = words(text, layout);
            if *cut {
                lines.push(Line::styled("  [cut off here]", theme.warn));
            }
            lines
        }
        Kind::Thinking { text } => quiet("thought", text, unfolded, layout),
        Kind::Noted { text } => quiet("note", text, unfolded, layout),
        Kind::Call(it) => call::lines(it, unfolded, layout),
        Kind::Marker { tone, text } => marker(*tone, text, layout),
        Kind::Failed { message, hint } => {
            let mut lines = paragraph(message, theme.error, "✗ ", layout);
            if let Some(hint) = hint {
                lines.extend(paragraph(&format!("hint: {hint}"), theme.dim, "  ", layout));
            }
            lines
        }
        Kind::Notice { tone, text } => paragraph(text, tone.style(theme), "  ", layout),
    }
}

impl Tone {
    /// The theme's style for a line of this tone.
    pub fn style(self, theme: &Theme) -> Style {
        match self {
            Tone::Calm => theme.dim,
            Tone::Warn => theme.warn,
            Tone::Bad => theme.error,
        }
    }
}

fn said(text: &str, images: usize, layout: &LayoutContext<'_>) -> Vec<Line<'static>> {
    let theme = layout.theme;
    let bar = [Span::styled("▌ ", theme.text)];
    let mut lines = Vec::new();
    for line in clean(text).lines() {
        let spans = [Span::styled(line.to_string(), theme.text)];
        let wrapped = text::wrap(&spans, layout.columns(), &bar, &bar, Break::Words);
        lines.extend(wrapped);
    }
    if images > 0 {
        let what = format!("[{}]", count(images, "image"));
        lines.push(Line::from(vec![
            bar[0].clone(),
            Span::styled(what, theme.dim),
        ]));
    }
    lines
}

/// The model's words, two columns in.
fn words(text: &str, layout: &mut LayoutContext<'_>) -> Vec<Line<'static>> {
    let width = layout.width.saturating_sub(INDENT).max(1);
    let mut lines = markdown::render(text, width, layout.theme, layout.code);
    indent(&mut lines);
    lines
}

const INDENT: u16 = 2;

fn indent(lines: &mut [Line<'static>]) {
    for line in lines {
        if !line.spans.is_empty() {
            line.spans.insert(0, Span::raw("  "));
        }
    }
}

/// What matters less: one line of it, or all.
fn quiet(name: &str, text: &str, unfolded: bool, layout: &LayoutContext<'_>) -> Vec<Line<'static>> {
    let theme = layout.theme;
    let cleaned = clean(text);
    let shown = cleaned.trim();
    let lines = shown.lines().count();
    if unfolded {
        let mut lines = vec![Line::styled(format!("  {name}"), theme.dim)];
        lines.extend(paragraph(shown, theme.dim, "  │ ", layout));
        return lines;
    }
    let first = shown.lines().next().unwrap_or_default();
    let more = match lines.saturating_sub(FOLDED_LINES) {
        0 => String::new(),
        more => format!(" (+{})", count(more, "line")),
    };
    let room = layout
        .columns()
        .saturating_sub(text::width(name) + text::width(&more) + 4);
    let line = format!("  {name}: {}{more}", text::clip(first, room));
    vec![Line::styled(line, theme.dim)]
}

/// A line across the conversation.
fn marker(tone: Tone, words: &str, layout: &LayoutContext<'_>) -> Vec<Line<'static>> {
    let style = tone.style(layout.theme);
    let spans = [Span::styled(clean_line(words).into_owned(), style)];
    let first = [Span::styled("── ", style)];
    let rest = [Span::styled("   ", style)];
    let mut lines = text::wrap(&spans, layout.columns(), &first, &rest, Break::Words);
    if let [only] = &mut lines[..] {
        let left = layout.columns().saturating_sub(only.width() + 1);
        only.spans
            .push(Span::styled(format!(" {}", "─".repeat(left)), style));
    }
    lines
}

/// What is streaming. Its words are not copied: only what is seen of them is.
pub(super) struct StreamLines<'a> {
    before: Vec<Line<'static>>,
    words: &'a [Line<'static>],
    after: Vec<Line<'static>>,
}

impl<'a> StreamLines<'a> {
    pub(super) fn of(stream: &'a mut Stream, layout: &mut LayoutContext<'_>) -> StreamLines<'a> {
        let theme = layout.theme;
        let mut before = Vec::new();
        if !stream.thinking.trim().is_empty() {
            let last = stream
                .thinking
                .trim_end()
                .lines()
                .last()
                .unwrap_or_default();
            let room = layout.columns().saturating_sub(14);
            let line = format!("  thinking: {}", text::clip(&clean_line(last), room));
            before.push(Line::styled(line, theme.dim));
            before.push(Line::default());
        }
        let mut after = Vec::new();
        for name in &stream.calls {
            let line = format!("  writing a call of {} …", clean_line(name));
            after.push(Line::styled(line, theme.dim));
        }
        if let Some((why, until_ms)) = &stream.retry {
            let retry = match until_ms - layout.now_ms {
                // Rounded up: at 1 s it is not over.
                left @ 1.. => format!("{why}; retrying in {} s", (left + 999) / 1_000),
                _ => format!("{why}; retrying now"),
            };
            after.extend(paragraph(&retry, theme.warn, "  ", layout));
        }
        after.push(Line::default());
        let words: &[Line<'static>] = match stream.has_words {
            true => {
                let width = layout.width.saturating_sub(INDENT).max(1);
                stream.words.lines(width, theme, layout.code)
            }
            false => &[],
        };
        StreamLines {
            before,
            words,
            after,
        }
    }

    pub(super) fn count(&self) -> usize {
        self.before.len() + self.words.len() + self.after.len()
    }

    pub(super) fn slice(&self, skip: usize, take: usize) -> Vec<Line<'static>> {
        let words_at = self.before.len();
        let words_end = words_at + self.words.len();
        let line = |n: usize| match n {
            n if n < words_at => self.before[n].clone(),
            n if n < words_end => {
                let mut line = [self.words[n - words_at].clone()];
                indent(&mut line);
                let [line] = line;
                line
            }
            n => self.after[n - words_end].clone(),
        };
        (skip..self.count().min(skip.saturating_add(take)))
            .map(line)
            .collect()
    }
}
