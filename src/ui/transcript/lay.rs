//! Layout of a block as lines. The lines are made when the block is seen, and cached.

use ratatui::style::Style;
use ratatui::text::{Line, Span};

use super::block::{Block, Kind, Laid, Stamp, Together, is_long_message};
use super::paragraph::{LayoutContext, paragraph};
use super::{Stream, call, turn};
use crate::core::text::count;
use crate::session::describe::Tone;
use crate::session::{clock, resumed_in_short};
use crate::ui::markdown;
use crate::ui::text::{self, Break, clean, clean_line};

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
        if !lines.is_empty() {
            lines.push(Line::default());
        }
        *laid = Some(Laid { stamp, lines });
    }
    match &*laid {
        Some(laid) => then(&laid.lines),
        None => then(&[]),
    }
}

fn lines(block: &Block, unfolded: bool, layout: &mut LayoutContext<'_>) -> Vec<Line<'static>> {
    let theme = layout.theme;
    match (&block.together, unfolded) {
        (Together::Behind(_), false) => return Vec::new(),
        (
            Together::First {
                subjects, took_ms, ..
            },
            false,
        ) => return vec![looked_at(subjects, *took_ms, layout)],
        _ => {}
    }
    match &block.kind {
        Kind::Said { text, images } => said(text, *images, unfolded, layout),
        Kind::Words { text, cut } => {
            let mut lines = words(text, layout);
            if *cut {
                lines.push(Line::styled("  [cut off here]", theme.dim));
            }
            lines
        }
        Kind::Thinking { text, took_ms } => thought(text, *took_ms, unfolded, layout),
        Kind::Noted { text } => note(text, unfolded, layout),
        Kind::TurnSummary(end) => turn::lines(end, layout),
        Kind::Call(it) => call::lines(it, unfolded, layout),
        Kind::Marker { tone, text } => marker(*tone, text, layout),
        Kind::Failed { message, hint } => {
            let mut lines = marked(("✗ ", theme.error), message, theme.text, layout);
            if let Some(hint) = hint {
                lines.extend(paragraph(&format!("hint: {hint}"), theme.dim, "  ", layout));
            }
            lines
        }
        Kind::Notice { tone, text } => match tone {
            Tone::Calm => paragraph(text, theme.dim, "  ", layout),
            Tone::Warn => paragraph(text, theme.text, "  ", layout),
            Tone::Bad => marked(("✗ ", theme.error), text, theme.text, layout),
        },
    }
}

/// Lines of a folded message: the first, and the last.
const SAID_LINES: (usize, usize) = (5, 3);

fn said(
    text: &str,
    images: usize,
    unfolded: bool,
    layout: &LayoutContext<'_>,
) -> Vec<Line<'static>> {
    let theme = layout.theme;
    let bar = [Span::styled("▌ ", theme.text)];
    let cleaned = clean(text);
    let count_lines = cleaned.lines().count();
    let (first, last) = SAID_LINES;
    let hidden = if is_long_message(text) && !unfolded {
        count_lines.saturating_sub(first + last)
    } else {
        0
    };
    let mut lines = Vec::new();
    for (at, line) in cleaned.lines().enumerate() {
        if hidden > 0 && at == first {
            let more = format!("… {} (Ctrl+O)", count(hidden, "more line"));
            lines.push(Line::from(vec![
                bar[0].clone(),
                Span::styled(more, theme.dim),
            ]));
        }
        if (first..first + hidden).contains(&at) {
            continue;
        }
        let spans = [Span::styled(line.to_string(), theme.text)];
        let wrapped = text::wrap(&spans, layout.prose(), &bar, &bar, Break::Words);
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

/// Lays the model's words two columns in.
fn words(text: &str, layout: &mut LayoutContext<'_>) -> Vec<Line<'static>> {
    let width = inside(layout);
    let mut lines = markdown::render(text, width, layout.theme, layout.code);
    indent(&mut lines);
    lines
}

const INDENT: usize = 2;
/// Maximum columns of the model's words, with their code.
const MAX_WORDS: usize = 2 + 120;

/// Returns the columns of the model's words.
fn inside(layout: &LayoutContext<'_>) -> u16 {
    let columns = layout.edge().min(MAX_WORDS).saturating_sub(INDENT).max(1);
    u16::try_from(columns).unwrap_or(u16::MAX)
}

fn indent(lines: &mut [Line<'static>]) {
    for line in lines {
        if !line.spans.is_empty() {
            line.spans.insert(0, Span::raw("  "));
        }
    }
}

/// `· read       *.py · tally.py                                   0.1 s`
fn looked_at(subjects: &[String], took_ms: u64, layout: &LayoutContext<'_>) -> Line<'static> {
    let theme = layout.theme;
    let took = call::duration(took_ms);
    let result = took.map(|took| Span::styled(took, theme.dim));
    let taken = 14 + result.as_ref().map_or(0, |result| result.width() + 2);
    let room = layout.edge().saturating_sub(taken);
    let mut shown = String::new();
    let mut left = subjects.len();
    for subject in subjects {
        let subject = clean_line(subject);
        let gap = if shown.is_empty() { "" } else { " · " };
        // The number of further subjects must fit after it.
        let more = if left > 1 {
            text::width(" · + 999")
        } else {
            0
        };
        let wide = text::width(&shown) + text::width(gap) + text::width(&subject);
        if !shown.is_empty() && wide + more > room {
            break;
        }
        shown.push_str(&format!("{gap}{subject}"));
        left -= 1;
    }
    if left > 0 {
        let more = format!(" · + {left}");
        let room = room.saturating_sub(text::width(&more));
        shown = format!("{}{more}", text::clip(&shown, room));
    }
    let subject = vec![Span::styled(shown, theme.text)];
    let verb = crate::tools::Verb::Look.done();
    let result = result.into_iter().collect();
    call::head_line(("·", theme.dim), verb, subject, result, layout)
}

/// Puts a glyph before the first line of a text.
fn marked(
    (glyph, glyph_style): (&'static str, Style),
    words: &str,
    style: Style,
    layout: &LayoutContext<'_>,
) -> Vec<Line<'static>> {
    let mut first = Span::styled(glyph, glyph_style);
    let mut lines = Vec::new();
    for line in clean(words).lines() {
        let spans = [Span::styled(line.to_string(), style)];
        let rest = Span::raw("  ");
        let first = std::mem::replace(&mut first, rest.clone());
        let columns = layout.prose();
        lines.extend(text::wrap(&spans, columns, &[first], &[rest], Break::Words));
    }
    lines
}

/// Returns `thought 4 s`, or the whole text.
fn thought(
    text: &str,
    took_ms: Option<u64>,
    unfolded: bool,
    layout: &LayoutContext<'_>,
) -> Vec<Line<'static>> {
    let theme = layout.theme;
    let took = took_ms.filter(|ms| *ms >= 1_000);
    let took = took.map(|ms| format!(" {}", clock(i64::try_from(ms).unwrap_or(i64::MAX))));
    let head = format!("  thought{}", took.unwrap_or_default());
    let mut lines = vec![Line::styled(head, theme.dim)];
    if unfolded {
        lines.extend(paragraph(text.trim(), theme.dim, "    ", layout));
    }
    lines
}

/// Returns a note: its first line, or all of it.
fn note(text: &str, unfolded: bool, layout: &LayoutContext<'_>) -> Vec<Line<'static>> {
    let theme = layout.theme;
    let cleaned = clean(text);
    let shown = cleaned.trim();
    if unfolded {
        let mut lines = vec![Line::styled("  note", theme.dim)];
        lines.extend(paragraph(shown, theme.dim, "    ", layout));
        return lines;
    }
    let first = shown.lines().next().unwrap_or_default();
    let more = match shown.lines().count().saturating_sub(1) {
        0 => String::new(),
        more => format!(" + {}", count(more, "line")),
    };
    let room = layout.prose().saturating_sub(text::width(&more) + 8);
    let line = format!("  note: {}{more}", text::clip(first, room));
    vec![Line::styled(line, theme.dim)]
}

/// Returns the lines for an event of the session itself.
fn marker(tone: Tone, words: &str, layout: &LayoutContext<'_>) -> Vec<Line<'static>> {
    let theme = layout.theme;
    let short = resumed_in_short(words);
    let words = clean_line(short.as_deref().unwrap_or(words));
    let (glyph, style) = match tone {
        Tone::Calm => (("  ", theme.dim), theme.dim),
        Tone::Warn => (("◌ ", theme.dim), theme.dim),
        Tone::Bad => (("✗ ", theme.error), theme.text),
    };
    marked(glyph, &words, style, layout)
}

/// Returns `◐ thinking 4 s  its last words` during thinking, then its duration.
fn thinking(stream: &Stream, layout: &LayoutContext<'_>) -> Option<Line<'static>> {
    let theme = layout.theme;
    let thinking = stream.thinking.trim_end();
    if thinking.trim().is_empty() {
        return None;
    }
    if let Some(took_ms) = stream.thought_ms() {
        return thought("", Some(took_ms), false, layout).pop();
    }
    let age = (layout.now_ms - stream.thinking_since_ms).max(0);
    let head = format!("thinking {}  ", clock(age));
    let room = layout.prose().saturating_sub(2 + text::width(&head));
    let last = clean_line(thinking.lines().last().unwrap_or_default()).into_owned();
    let last = text::clip_start(&last, room);
    Some(Line::from(vec![
        Span::styled(format!("{} ", call::spinner(age)), theme.running),
        Span::styled(format!("{head}{last}"), theme.dim),
    ]))
}

/// The lines of a stream. Only the visible words are copied.
pub(super) struct StreamLines<'a> {
    before: Vec<Line<'static>>,
    words: &'a [Line<'static>],
    after: Vec<Line<'static>>,
}

impl<'a> StreamLines<'a> {
    pub(super) fn of(stream: &'a mut Stream, layout: &mut LayoutContext<'_>) -> StreamLines<'a> {
        let theme = layout.theme;
        let mut before = Vec::new();
        if let Some(thinking) = thinking(stream, layout) {
            before.push(thinking);
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
            after.extend(paragraph(&retry, theme.text, "  ", layout));
        }
        after.push(Line::default());
        let words: &[Line<'static>] = if stream.has_words {
            let width = inside(layout);
            stream.words.lines(width, theme, layout.code)
        } else {
            &[]
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
