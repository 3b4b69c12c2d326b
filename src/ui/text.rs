//! Text for the screen: made safe, measured, wrapped and cut by display columns.
//!
//! Right-to-left text stays in logical order; a terminal that knows it turns it round.
//! Deliberately absent: any cut by bytes or by characters.
//!
//! Invariant: no line is wider than asked, except that a line has at least one column.

use std::borrow::Cow;
use std::fmt::Display;

use ratatui::style::Style;
use ratatui::text::{Line, Span};
use unicode_segmentation::UnicodeSegmentation;
use unicode_width::UnicodeWidthStr;

use crate::core::visible::visible;

const TAB_COLUMNS: usize = 4;
const ELLIPSIS: &str = "…";

/// The places where a line may be broken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Break {
    /// At blanks, which are dropped there, and beside wide characters. Inside a word only when it
    /// is wider than a line.
    Words,
    /// Anywhere, and nothing is dropped: for code.
    Anywhere,
}

/// Cleans text: invisible characters become marks, and tabs are expanded. Line ends stay.
pub fn clean(text: &str) -> Cow<'_, str> {
    let text = visible(text);
    if !text.contains('\t') {
        return text;
    }
    let mut out = String::with_capacity(text.len() + 16);
    for (n, line) in text.split('\n').enumerate() {
        if n > 0 {
            out.push('\n');
        }
        let mut column = 0;
        for (n, part) in line.split('\t').enumerate() {
            if n > 0 {
                let blanks = TAB_COLUMNS - column % TAB_COLUMNS;
                out.extend(std::iter::repeat_n(' ', blanks));
                column += blanks;
            }
            out.push_str(part);
            column += width(part);
        }
    }
    Cow::Owned(out)
}

/// Cleans text like [`clean`], with line ends as blanks.
pub fn clean_line(text: &str) -> Cow<'_, str> {
    match clean(text) {
        text if !text.contains('\n') => text,
        text => Cow::Owned(text.replace('\n', " ")),
    }
}

/// Columns on the screen, as ratatui counts them: grapheme by grapheme.
pub fn width(text: &str) -> usize {
    if text.is_ascii() {
        return text.len();
    }
    text.graphemes(true).map(UnicodeWidthStr::width).sum()
}

/// Returns a text, with the hint in a line below it.
pub fn with_hint(text: impl Display, hint: Option<impl Display>) -> String {
    match hint {
        Some(hint) => format!("{text}\nhint: {hint}"),
        None => text.to_string(),
    }
}

/// Cuts the text to `max` columns, with `…` for the rest.
pub fn clip(text: &str, max: usize) -> String {
    clip_with(text, max, |room| format!("{}{ELLIPSIS}", head(text, room)))
}

/// Returns the text, or `cut` of it if it is wider than `max`: with `…` and the given other columns.
fn clip_with(text: &str, max: usize, cut: impl Fn(usize) -> String) -> String {
    if width(text) <= max {
        return text.to_string();
    }
    max.checked_sub(1).map(cut).unwrap_or_default()
}

/// Cuts the text like [`clip`], but after a whole word if at least half of it stays.
pub fn clip_words(text: &str, max: usize) -> String {
    let cut = clip(text, max);
    let Some(head) = cut.strip_suffix(ELLIPSIS).filter(|_| cut != text) else {
        return cut;
    };
    let mut rest = text[head.len()..].chars();
    let is_whole = rest.next().is_some_and(|next| !next.is_alphanumeric());
    match head.rfind(' ') {
        Some(at) if !is_whole && at * 2 >= head.len() => {
            format!("{}{ELLIPSIS}", head[..at].trim_end())
        }
        _ => cut,
    }
}

/// Cuts the text to `max` columns: its head and tail, with `…` between.
pub fn clip_middle(text: &str, max: usize) -> String {
    clip_with(text, max, |room| {
        let (head, tail) = (head(text, room.div_ceil(2)), tail(text, room / 2));
        format!("{head}{ELLIPSIS}{tail}")
    })
}

/// Cuts the text to `max` columns: its end, with `…` before it.
pub fn clip_start(text: &str, max: usize) -> String {
    clip_with(text, max, |room| format!("{ELLIPSIS}{}", tail(text, room)))
}

fn head(text: &str, max: usize) -> &str {
    &text[..fitting(text.graphemes(true), max)]
}

/// Returns the end of the text that fits into `max` columns.
pub fn tail(text: &str, max: usize) -> &str {
    &text[text.len() - fitting(text.graphemes(true).rev(), max)..]
}

/// Returns the bytes of the first graphemes that fit into `max` columns.
fn fitting<'a>(graphemes: impl Iterator<Item = &'a str>, max: usize) -> usize {
    let (mut bytes, mut columns) = (0, 0);
    for grapheme in graphemes {
        columns += grapheme.width();
        if columns > max {
            break;
        }
        bytes += grapheme.len();
    }
    bytes
}

/// `12.3k`
pub fn short(n: u64) -> String {
    match n {
        ..1_000 => n.to_string(),
        1_000..1_000_000 => format!("{:.1}k", n as f64 / 1e3),
        _ => format!("{:.1}M", n as f64 / 1e6),
    }
}

/// `$0.04`
pub fn dollars(usd: f64) -> String {
    match usd {
        ..0.005 => "<$0.01".to_string(),
        _ => format!("${usd:.2}"),
    }
}

/// Appends to the last span when the style is the same.
pub fn push_span(spans: &mut Vec<Span<'static>>, style: Style, text: &str) {
    match spans.last_mut() {
        _ if text.is_empty() => {}
        Some(last) if last.style == style => last.content.to_mut().push_str(text),
        _ => spans.push(Span::styled(text.to_string(), style)),
    }
}

/// Wraps one logical line at `columns`. `first` is the prefix of the first line, `rest` of the
/// others; both count. Returns at least one line.
pub fn wrap(
    spans: &[Span<'static>],
    columns: usize,
    first: &[Span<'static>],
    rest: &[Span<'static>],
    at: Break,
) -> Vec<Line<'static>> {
    let mut wrapper = Wrapper::new(columns, first, rest);
    for span in spans {
        let text: &str = &span.content;
        for grapheme in text.graphemes(true) {
            match at {
                Break::Anywhere => wrapper.put(span.style, grapheme),
                Break::Words => wrapper.put_word_part(span.style, grapheme),
            }
        }
    }
    wrapper.finish()
}

#[derive(Default)]
struct Wrapper<'a> {
    columns: usize,
    rest: &'a [Span<'static>],
    lines: Vec<Line<'static>>,
    line: Vec<Span<'static>>,
    used: usize,
    /// The columns of the indent that `line` begins with.
    indent: usize,
    blanks: Run,
    word: Run,
}

/// Text that stays together.
#[derive(Default)]
struct Run {
    spans: Vec<Span<'static>>,
    width: usize,
}

impl Run {
    fn push(&mut self, style: Style, grapheme: &str) {
        push_span(&mut self.spans, style, grapheme);
        self.width += grapheme.width();
    }
}

impl<'a> Wrapper<'a> {
    fn new(columns: usize, first: &[Span<'static>], rest: &'a [Span<'static>]) -> Wrapper<'a> {
        let mut wrapper = Wrapper {
            columns: columns.max(1),
            rest,
            ..Wrapper::default()
        };
        wrapper.indent(first);
        wrapper
    }

    /// Adds an indent, which leaves at least one column free.
    fn indent(&mut self, spans: &[Span<'static>]) {
        for span in spans {
            let room = self.columns - 1 - self.used;
            let text = head(&span.content, room);
            self.used += width(text);
            push_span(&mut self.line, span.style, text);
        }
        self.indent = self.used;
    }

    fn break_line(&mut self) {
        self.lines.push(Line::from(std::mem::take(&mut self.line)));
        self.used = 0;
        self.indent(self.rest);
    }

    /// Puts a grapheme where there is room for it.
    fn put(&mut self, style: Style, grapheme: &str) {
        let mut wide = grapheme.width();
        let mut shown = grapheme;
        if wide > self.columns - self.indent {
            (wide, shown) = (1, ELLIPSIS);
        }
        if self.used + wide > self.columns {
            self.break_line();
            if wide > self.columns - self.indent {
                (wide, shown) = (1, ELLIPSIS);
            }
        }
        push_span(&mut self.line, style, shown);
        self.used += wide;
    }

    fn put_word_part(&mut self, style: Style, grapheme: &str) {
        if matches!(grapheme, " " | "\t" | "\n") {
            self.end_word();
            self.blanks.push(style, " ");
        } else if grapheme.width() > 1 {
            self.end_word();
            self.word.push(style, grapheme);
            self.end_word();
        } else {
            self.word.push(style, grapheme);
        }
    }

    fn end_word(&mut self) {
        if self.word.spans.is_empty() {
            return;
        }
        let (word, blanks) = (
            std::mem::take(&mut self.word),
            std::mem::take(&mut self.blanks),
        );
        let fits = self.used + blanks.width + word.width <= self.columns;
        // Blanks that begin a text are its indentation; at the end of a line they are dropped.
        let begins = self.used == self.indent;
        if fits || begins {
            self.put_run(&blanks);
        } else {
            self.break_line();
        }
        self.put_run(&word);
    }

    fn put_run(&mut self, run: &Run) {
        if self.used + run.width <= self.columns {
            for span in &run.spans {
                push_span(&mut self.line, span.style, &span.content);
            }
            self.used += run.width;
            return;
        }
        for span in &run.spans {
            for grapheme in span.content.graphemes(true) {
                self.put(span.style, grapheme);
            }
        }
    }

    fn finish(mut self) -> Vec<Line<'static>> {
        self.end_word();
        self.lines.push(Line::from(self.line));
        self.lines
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn texts(lines: &[Line<'_>]) -> Vec<String> {
        lines.iter().map(Line::to_string).collect()
    }

    fn wrapped(text: &str, columns: usize, at: Break) -> Vec<String> {
        texts(&wrap(&[Span::raw(text.to_string())], columns, &[], &[], at))
    }

    #[test]
    fn words_are_not_cut_into_stumps() {
        for (text, max, want) in [
            ("what changed since", 18, "what changed since"),
            ("what changed since", 17, "what changed…"),
            ("what changed since", 13, "what changed…"),
            ("what changed since", 14, "what changed…"),
            ("the conversation, the files", 17, "the conversation…"),
            ("a conversation", 9, "a conver…"),
            ("conversation", 9, "conversa…"),
            ("日本 日本語", 9, "日本…"),
            ("", 0, ""),
            ("ab", 0, ""),
        ] {
            assert_eq!(clip_words(text, max), want, "{text:?} {max}");
        }
    }

    #[test]
    fn text_becomes_harmless_and_its_tabs_blanks() {
        assert_eq!(clean("a\tb\n\tc"), "a   b\n    c");
        assert_eq!(clean("日\tb"), "日  b");
        assert_eq!(clean("\u{1b}[31mred\u{202e}"), "␛[31mred<U+202E>");
        assert_eq!(clean_line("a\nb\u{2028}c"), "a b<U+2028>c");
    }

    #[test]
    fn width_is_what_the_screen_takes() {
        for (text, want) in [
            ("abc", 3),
            ("日本", 4),
            ("e\u{301}", 1),
            ("👩\u{200d}👧", 2),
            ("🇩🇪", 2),
            ("👍🏽", 2),
            ("👩🏽\u{200d}🚀", 2),
            ("שלום", 4),
            ("\u{644}\u{627}", 2),
        ] {
            assert_eq!(width(text), want, "{text:?}");
        }
    }

    #[test]
    fn wide_text_is_cut_between_graphemes() {
        assert_eq!(clip("hello", 5), "hello");
        assert_eq!(clip("hello!", 5), "hell…");
        assert_eq!(clip("日本語", 4), "日…");
        assert_eq!(clip("👩\u{200d}👧x👩\u{200d}👧", 4), "👩\u{200d}👧x…");
        assert_eq!(clip("👍🏽👍🏽👍🏽", 4), "👍🏽…");
        assert_eq!(clip("a👩🏽\u{200d}🚀b", 3), "a…");
        assert_eq!(tail("ab👍🏽c", 2), "c");
        assert_eq!(clip("hello", 0), "");
        assert_eq!(clip_middle("src/core/text.rs", 9), "src/…t.rs");
        assert_eq!(clip_middle("日本語日本語", 6), "日…語");
        assert_eq!(clip_middle("hello", 1), "…");
    }

    #[test]
    fn words_stay_whole_while_they_fit() {
        for (text, columns, want) in [
            ("one two three", 8, vec!["one two", "three"]),
            ("one two", 7, vec!["one two"]),
            ("  indented text", 10, vec!["  indented", "text"]),
            ("a abcdefghij b", 4, vec!["a", "abcd", "efgh", "ij b"]),
            ("日本語です", 4, vec!["日本", "語で", "す"]),
            ("see 日本", 6, vec!["see 日", "本"]),
            ("", 4, vec![""]),
            ("日", 1, vec!["…"]),
            ("ab", 0, vec!["a", "b"]),
        ] {
            assert_eq!(wrapped(text, columns, Break::Words), want, "{text:?}");
        }
    }

    #[test]
    fn code_is_broken_anywhere_and_nothing_is_lost() {
        assert_eq!(wrapped("a  b  c", 3, Break::Anywhere), ["a  ", "b  ", "c"]);
    }

    #[test]
    fn indents_count_and_leave_room() {
        let spans = [Span::raw("one two three")];
        let lines = wrap(
            &spans,
            7,
            &[Span::raw("- ")],
            &[Span::raw("  ")],
            Break::Words,
        );
        assert_eq!(texts(&lines), ["- one", "  two", "  three"]);
        let deep = [Span::raw(" ".repeat(20))];
        assert_eq!(
            texts(&wrap(&[Span::raw("ab")], 3, &deep, &deep, Break::Words)),
            ["  a", "  b"]
        );
    }

    #[test]
    fn styles_follow_their_text() {
        let (bold, plain) = (Style::new().bold(), Style::new());
        let spans = [Span::styled("bo", bold), Span::styled("ld plain", plain)];
        let lines = wrap(&spans, 5, &[], &[], Break::Words);
        assert_eq!(
            lines[0].spans,
            [Span::styled("bo", bold), Span::styled("ld", plain)]
        );
        assert_eq!(lines[1].spans, [Span::styled("plain", plain)]);
    }

    proptest! {
        #[test]
        fn no_line_is_wider_than_asked(text in "([ -~日本é👩\u{200d}👧🇩🇪\u{301}שא ]|\\PC){0,60}", columns in 1_usize..20, indent in 0_usize..25) {
            let text = clean_line(&text).into_owned();
            let indent = [Span::raw(" ".repeat(indent))];
            for at in [Break::Words, Break::Anywhere] {
                for line in wrap(&[Span::raw(text.clone())], columns, &indent, &indent, at) {
                    let wide: usize = line.spans.iter().map(|s| width(&s.content)).sum();
                    prop_assert!(wide <= columns, "{at:?} {line:?}");
                }
            }
            prop_assert!(width(&clip(&text, columns)) <= columns);
            prop_assert!(width(&clip_middle(&text, columns)) <= columns);
        }

        #[test]
        fn only_blanks_are_dropped(text in "[a-z日 é]{0,60}", columns in 2_usize..20) {
            let dense = |text: String| text.replace(' ', "");
            prop_assert_eq!(dense(wrapped(&text, columns, Break::Words).concat()), dense(text.clone()));
            prop_assert_eq!(wrapped(&text, columns, Break::Anywhere).concat(), text);
        }
    }
}
