//! Output of commands with its colours.
//!
//! The only sequence that is applied is SGR (ECMA-48, 8.3.117), except "concealed": text is never
//! hidden. Sequences that only move a cursor or erase are left out: they contain no text, and a
//! progress bar is full of them. All others become marks, since a window title or the target of a
//! link is text that the model reads too. Text that a carriage return overwrites is left out, so
//! only the last state of a progress bar remains.
//!
//! Deliberately absent: any use for approval prompts, or for the text of a file.

use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};

use super::text::{clean_line, push_span};
use super::theme::Theme;
use crate::core::visible::without_cosmetics;

const MAX_BYTES: usize = 1024 * 1024;
const MAX_LINE_BYTES: usize = 8 * 1024;
const MAX_PARAMETERS: usize = 32;

const COLOURS: [Color; 8] = [
    Color::Black,
    Color::Red,
    Color::Green,
    Color::Yellow,
    Color::Blue,
    Color::Magenta,
    Color::Cyan,
    Color::Gray,
];
const BRIGHT_COLOURS: [Color; 8] = [
    Color::DarkGray,
    Color::LightRed,
    Color::LightGreen,
    Color::LightYellow,
    Color::LightBlue,
    Color::LightMagenta,
    Color::LightCyan,
    Color::White,
];

/// Returns the last `max_lines` lines of an output, after a line that counts the earlier ones. The
/// lines are not wrapped.
pub(crate) fn lines(text: &str, max_lines: usize, theme: &Theme) -> Vec<Line<'static>> {
    let mut start = text.len().saturating_sub(MAX_BYTES);
    while !text.is_char_boundary(start) {
        start += 1;
    }
    let mut painter = Painter {
        theme,
        style: Style::new(),
    };
    let mut lines: Vec<Line<'static>> = text[start..].lines().map(|l| painter.line(l)).collect();
    let surplus = lines.len().saturating_sub(max_lines);
    let earlier = text[..start].matches('\n').count() + surplus;
    lines.drain(..surplus);
    if earlier > 0 {
        let note = format!(
            "… {earlier} earlier {}",
            if earlier == 1 { "line" } else { "lines" }
        );
        lines.insert(0, Line::from(Span::styled(note, theme.dim)));
    }
    lines
}

struct Painter<'a> {
    theme: &'a Theme,
    style: Style,
}

impl Painter<'_> {
    fn line(&mut self, line: &str) -> Line<'static> {
        let mut spans = Vec::new();
        let states: Vec<&str> = line.split('\r').collect();
        let last = states.iter().rposition(|s| !s.is_empty()).unwrap_or(0);
        for (n, state) in states.iter().enumerate() {
            // The style of overwritten text still applies to the text that replaces it.
            spans.clear();
            self.state(state, &mut spans);
            if n == last {
                break;
            }
        }
        Line::from(spans)
    }

    fn state(&mut self, text: &str, spans: &mut Vec<Span<'static>>) {
        let clipped = crate::core::text::clip(text, MAX_LINE_BYTES);
        let (mut rest, mut from): (&str, usize) = (&clipped, 0);
        while let Some(at) = rest[from..].find("\u{1b}[").map(|at| from + at) {
            let body = &rest[at + 2..];
            let end = body.find(|c: char| !c.is_ascii_digit() && !matches!(c, ';' | ':'));
            match end.filter(|end| body[*end..].starts_with('m')) {
                Some(end) => {
                    self.push(&rest[..at], spans);
                    self.select(&body[..end]);
                    (rest, from) = (&body[end + 1..], 0);
                }
                None => from = at + 2,
            }
        }
        self.push(rest, spans);
    }

    fn push(&self, text: &str, spans: &mut Vec<Span<'static>>) {
        let mut style = self.theme.text.patch(self.style);
        if style.fg == style.bg {
            style.bg = None;
        }
        push_span(spans, style, &clean_line(&without_cosmetics(text)));
    }

    /// Applies SGR (select graphic rendition) parameters.
    fn select(&mut self, parameters: &str) {
        let mut parameters = parameters.split(';').take(MAX_PARAMETERS);
        while let Some(parameter) = parameters.next() {
            let mut parts = parameter.split(':');
            let code = parts.next().map_or(Some(0), number);
            match code {
                Some(code @ (38 | 48)) => {
                    // In the form with colons, a colour space may come before the figures.
                    let colour = if parameter.contains(':') {
                        let parts: Vec<&str> = parts.collect();
                        let skip = usize::from(parts.len() > 4);
                        let (kind, figures) = parts.split_at(parts.len().min(1));
                        colour(kind.iter().chain(figures.iter().skip(skip)).copied())
                    } else {
                        colour(parameters.by_ref())
                    };
                    self.paint(code == 38, colour);
                }
                Some(code) => self.one(code, parts.next()),
                None => {}
            }
        }
    }

    fn one(&mut self, code: u8, detail: Option<&str>) {
        let modifier = |code| match code {
            1 => Modifier::BOLD,
            2 => Modifier::DIM,
            3 => Modifier::ITALIC,
            4 => Modifier::UNDERLINED,
            7 => Modifier::REVERSED,
            _ => Modifier::CROSSED_OUT,
        };
        let base = |n: u8| COLOURS.get(usize::from(n)).copied();
        let bright = |n: u8| BRIGHT_COLOURS.get(usize::from(n)).copied();
        match code {
            0 => self.style = Style::new(),
            4 if detail == Some("0") => self.remove(Modifier::UNDERLINED),
            1..=4 | 7 | 9 => self.style = self.style.add_modifier(modifier(code)),
            22 => self.remove(Modifier::BOLD | Modifier::DIM),
            23 | 24 | 27 | 29 => self.remove(modifier(code - 20)),
            30..=37 => self.paint(true, base(code - 30)),
            39 => self.style.fg = None,
            40..=47 => self.paint(false, base(code - 40)),
            49 => self.style.bg = None,
            90..=97 => self.paint(true, bright(code - 90)),
            100..=107 => self.paint(false, bright(code - 100)),
            _ => {}
        }
    }

    fn remove(&mut self, modifier: Modifier) {
        self.style.add_modifier.remove(modifier);
    }

    fn paint(&mut self, foreground: bool, colour: Option<Color>) {
        let colour = colour.and_then(|c| self.theme.foreign(c));
        match (colour, foreground) {
            (None, _) => {}
            (_, true) => self.style.fg = colour,
            (_, false) => self.style.bg = colour,
        }
    }
}

/// Parses an extended colour: `5;n` or `2;r;g;b`.
fn colour<'a>(mut parts: impl Iterator<Item = &'a str>) -> Option<Color> {
    let mut next = || parts.next().and_then(number);
    match next()? {
        5 => next().map(Color::Indexed),
        2 => Some(Color::Rgb(next()?, next()?, next()?)),
        _ => None,
    }
}

/// Parses a number. An omitted one is 0.
fn number(text: &str) -> Option<u8> {
    if text.is_empty() {
        Some(0)
    } else {
        text.parse().ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn dark(text: &str) -> Vec<Line<'static>> {
        lines(text, 100, &Theme::named("dark").unwrap())
    }

    fn texts(lines: &[Line<'_>]) -> Vec<String> {
        lines.iter().map(Line::to_string).collect()
    }

    #[test]
    fn colours_and_attributes_are_kept() {
        let red = Style::new().fg(Color::Red);
        for (text, want) in [
            ("\u{1b}[31mx", red),
            ("\u{1b}[1;31mx", red.bold()),
            ("\u{1b}[1;31;22mx", red),
            ("\u{1b}[31m\u{1b}[39mx", Style::new()),
            ("\u{1b}[31;4mx", red.underlined()),
            ("\u{1b}[7;31;4:0mx", red.reversed()),
            ("\u{1b}[31m\u{1b}[mx", Style::new()),
            (
                "\u{1b}[91;41mx",
                Style::new().fg(Color::LightRed).bg(Color::Red),
            ),
            ("\u{1b}[38;5;208mx", Style::new().fg(Color::Indexed(208))),
            ("\u{1b}[48;2;1;2;3mx", Style::new().bg(Color::Rgb(1, 2, 3))),
            ("\u{1b}[38:5:208mx", Style::new().fg(Color::Indexed(208))),
            ("\u{1b}[38:2::1:2:3mx", Style::new().fg(Color::Rgb(1, 2, 3))),
            ("\u{1b}[38:2:1:2:3mx", Style::new().fg(Color::Rgb(1, 2, 3))),
            ("\u{1b}[31m\u{1b}[38;5;999mx", red),
            // Nothing is hidden.
            ("\u{1b}[8;31mx", red),
            ("\u{1b}[31;41mx", red),
            ("\u{1b}[31;999999;;mx", Style::new()),
        ] {
            let lines = dark(text);
            assert_eq!(lines[0].spans, [Span::styled("x", want)], "{text:?}");
        }
    }

    #[test]
    fn a_colour_continues_on_the_next_line() {
        let lines = dark("\u{1b}[32ma\nb\u{1b}[0mc");
        assert_eq!(
            lines[1].spans[0],
            Span::styled("b", Style::new().fg(Color::Green))
        );
        assert_eq!(lines[1].spans[1], Span::raw("c"));
    }

    #[test]
    fn colours_follow_the_terminal() {
        let text = "\u{1b}[1;38;2;255;0;0mx";
        let theme = Theme::named("dark")
            .unwrap()
            .at_depth(super::super::theme::Depth::Ansi16);
        assert_eq!(
            lines(text, 9, &theme)[0].spans[0].style,
            Style::new().fg(Color::LightRed).bold()
        );
        assert_eq!(
            lines(text, 9, &Theme::plain())[0].spans[0].style,
            Style::new().bold()
        );
    }

    #[test]
    fn a_progress_bar_is_its_last_state() {
        assert_eq!(texts(&dark("10%\r50%\r100%\nok\r\n")), ["100%", "ok"]);
        assert_eq!(texts(&dark("10%\r\u{1b}[2K20%\r")), ["20%"]);
        let lines = dark("\u{1b}[31m1\r2");
        assert_eq!(
            lines[0].spans,
            [Span::styled("2", Style::new().fg(Color::Red))]
        );
    }

    #[test]
    fn other_sequences_have_no_power_and_their_text_is_seen() {
        let text = "\u{1b}]0;t\u{7}a\u{1b}[2J\u{1b}[3;3Hb\u{1b}[?25l\u{8}\tc";
        assert_eq!(texts(&dark(text)), ["␛]0;t␇ab␈   c"]);
    }

    #[test]
    fn the_end_is_kept_and_the_rest_counted() {
        let theme = Theme::plain();
        assert_eq!(
            texts(&lines("1\n2\n3\n", 2, &theme)),
            ["… 1 earlier line", "2", "3"]
        );
        let much = "x\n".repeat(MAX_BYTES);
        let lines = lines(&much, 2, &theme);
        assert_eq!(
            lines[0].to_string(),
            format!("… {} earlier lines", MAX_BYTES - 2)
        );
        let long = dark(&"x".repeat(100_000));
        assert!(long[0].to_string().len() <= MAX_LINE_BYTES);
    }

    proptest! {
        #[test]
        fn nothing_reaches_the_terminal(text in "([\\x00-\\x7f]|\u{1b}\\[[0-9;:]{0,9}m|\u{1b}[\\[\\]P]|\\PC){0,60}") {
            for line in lines(&text, 10, &Theme::named("light").unwrap()) {
                prop_assert!(!line.to_string().contains(char::is_control), "{line:?}");
            }
        }
    }
}
