//! The changes of an edit, line by line, with the words that differ.
//!
//! Of a file, lines are compared with their ends, and a change of those is told in words. Of the
//! parts that an edit names, line ends are ignored. Unchanged lines are left out, except for a few
//! around each change.
//!
//! Invariant: the number of lines and the time it takes to find them are bounded.

mod alike;

use std::cell::RefCell;
use std::ops::Range;
use std::time::Duration;

use ratatui::style::Style;
use ratatui::text::{Line, Span};
use similar::{ChangeTag, DiffOp, DiffTag, TextDiff};

use crate::core::text::count;

use super::highlight::Highlighter;
use super::text::{Break, clean_line, clip, clip_middle, push_span, wrap};
use super::theme::Theme;
use crate::core::visible::{MAX_BLANK_LINES, counted, figure};
use crate::tools::{self, Replacement};
use alike::alike;

const CONTEXT_LINES: usize = 1;
/// When this time is over, the diff is correct but may not be the shortest.
const MAX_TIME: Duration = Duration::from_millis(60);
const MAX_WORDS_TIME: Duration = Duration::from_millis(2);
const MAX_BYTES: usize = 2 * 1024 * 1024;
const MAX_LINE_BYTES: usize = 2_000;
/// Maximum size of a text whose code is coloured.
const MAX_CODE_BYTES: usize = 128 * 1024;

/// The byte order mark, which is shown only where it changes.
const MARK: char = '\u{feff}';

/// The format of a diff.
pub(crate) struct Shape<'a> {
    pub width: u16,
    /// Maximum lines of the diff; wrapped, they may take more rows. `None`: all lines in full
    /// length, for a person who approves the change.
    pub max_lines: Option<usize>,
    pub theme: &'a Theme,
    /// Colours the code. `None`: code is not coloured.
    pub code: Option<RefCell<&'a mut Highlighter>>,
    /// The file, whose name tells the language.
    pub path: &'a str,
}

impl Shape<'_> {
    /// Returns the lines of a text in the colours of its language, cleaned as the diff shows them.
    /// Without a background that marks a changed line, its own colour stays.
    fn coloured(&self, text: &str) -> ColouredLines {
        let has_background = self.theme.diff_add.bg.and(self.theme.diff_del.bg).is_some();
        let (_, language) = self.path.rsplit_once('.').unwrap_or_default();
        match &self.code {
            Some(code) if has_background && text.len() <= MAX_CODE_BYTES => {
                let lines: Vec<_> = text.lines().map(clean_line).collect();
                let clean = lines.join("\n");
                code.borrow_mut()
                    .lines(&clean, 0, language, self.theme)
                    .lines
            }
            _ => Vec::new(),
        }
    }
}

/// The parts of each line with their styles.
type ColouredLines = Vec<Vec<(Style, String)>>;

/// The lines of a diff, without the heading that names the file.
pub(crate) struct Changed {
    pub added: usize,
    pub removed: usize,
    /// A label, where the diff is not a part of a file.
    pub what: Option<&'static str>,
    pub lines: Vec<Line<'static>>,
}

/// Shows the parts of a file that edits replace. Their places in the file are not known.
pub(crate) fn edits(edits: &[Replacement], shape: &Shape<'_>) -> Changed {
    let mut sheet = Sheet::new(shape, None);
    for edit in edits {
        if edit.all {
            sheet.note("in every place where it stands:");
        }
        sheet.compare(&edit.old, &edit.new);
    }
    sheet.finish(None)
}

/// Compares a whole file. `before` is `None` if its old content is not known.
pub(crate) fn file(before: Option<&str>, after: &str, shape: &Shape<'_>) -> Changed {
    let old = before.unwrap_or_default();
    let last = old.lines().count().max(after.lines().count());
    let mut sheet = Sheet::new(shape, Some(last.to_string().len()));
    sheet.compare(old, after);
    sheet.finish(before.is_none().then_some("whole file"))
}

/// Compares a part of a file before and after. `first`: the number of lines of the file before it.
pub(crate) fn part(first: usize, before: &str, after: &str, shape: &Shape<'_>) -> Changed {
    let last = first + before.lines().count().max(after.lines().count());
    let mut sheet = Sheet::new(shape, Some(last.to_string().len()));
    sheet.first = first;
    sheet.compare(before, after);
    sheet.finish(None)
}

/// A piece of a line, and whether it differs.
type DiffPart<'a> = (bool, &'a str);

struct Sheet<'s, 'a> {
    shape: &'s Shape<'a>,
    /// The columns of line numbers, when lines have numbers.
    number_columns: Option<usize>,
    /// Number of lines before those that are compared.
    first: usize,
    lines: Vec<Line<'static>>,
    added: usize,
    removed: usize,
    shown: usize,
    left_out: usize,
    /// Blank lines that were not put yet: their kind, the number of the first, how many.
    blank: Option<(ChangeTag, usize, usize)>,
    /// The compared texts in the colours of their language.
    coloured: (ColouredLines, ColouredLines),
}

impl<'s, 'a> Sheet<'s, 'a> {
    fn new(shape: &'s Shape<'a>, number_columns: Option<usize>) -> Sheet<'s, 'a> {
        Sheet {
            shape,
            number_columns,
            first: 0,
            lines: Vec::new(),
            added: 0,
            removed: 0,
            shown: 0,
            left_out: 0,
            blank: None,
            coloured: Default::default(),
        }
    }

    fn compare(&mut self, old: &str, new: &str) {
        if old.len().max(new.len()) > MAX_BYTES && self.shape.max_lines.is_none() {
            return self.replace(old, new);
        }
        if old.len().max(new.len()) > MAX_BYTES {
            let sizes = format!("too big to compare: {} to {} bytes", old.len(), new.len());
            self.note(&sizes);
            return;
        }
        let is_file = self.number_columns.is_some();
        let has_earlier = !self.lines.is_empty();
        let diff = if is_file {
            tools::by_lines(old, new, MAX_TIME)
        } else {
            TextDiff::configure()
                .timeout(MAX_TIME)
                .diff_slices(&Vec::from_iter(old.lines()), &Vec::from_iter(new.lines()))
        };
        let groups = diff.grouped_ops(CONTEXT_LINES);
        match groups.is_empty() {
            true if old == new => self.note("nothing changes"),
            true => self.note("only line ends change"),
            false if is_file => {
                (tools::changed_ends(old, new).iter()).for_each(|ends| self.note(ends))
            }
            false => {}
        }
        let (old, new) = match (old.strip_prefix(MARK), new.strip_prefix(MARK)) {
            (Some(old), Some(new)) => (old, new),
            _ => (old, new),
        };
        self.coloured = (self.shape.coloured(old), self.shape.coloured(new));
        let lines = |text| {
            str::split_inclusive(text, '\n')
                .map(tools::without_end)
                .collect()
        };
        let (old, new): (Vec<&str>, Vec<&str>) = (lines(old), lines(new));
        for (n, group) in groups.iter().enumerate() {
            // Numbers say by themselves that something is before the first line.
            let starts_late = group.first().is_some_and(|op| op.old_range().start > 0);
            let is_hidden = n == 0 && starts_late && self.number_columns.is_none();
            let is_gap = n > 0 || has_earlier || is_hidden;
            if is_gap && self.left_out == 0 {
                self.note("⋯");
            }
            for op in group {
                self.op(op, &old, &new);
            }
        }
    }

    /// Replaces all of the old text with the new one: comparing them would take too long.
    fn replace(&mut self, old: &str, new: &str) {
        for (tag, text) in [(ChangeTag::Delete, old), (ChangeTag::Insert, new)] {
            for (n, line) in text.lines().enumerate() {
                self.line(tag, n, &[(false, line)]);
            }
        }
        self.removed += old.lines().count();
        self.added += new.lines().count();
        self.end_blank();
    }

    fn op(&mut self, op: &DiffOp, old: &[&str], new: &[&str]) {
        let (old_at, new_at) = (op.old_range(), op.new_range());
        if op.tag() == DiffTag::Equal {
            for n in new_at {
                self.line(ChangeTag::Equal, n, &[(false, new[n])]);
            }
            return;
        }
        self.removed += old_at.len();
        self.added += new_at.len();
        let room = self.room();
        let shown = |at: &Range<usize>| at.start..at.end.min(at.start.saturating_add(room));
        let matched = alike(&old[shown(&old_at)], &new[shown(&new_at)]);
        let pairs: Vec<(usize, usize, Pair<'_>)> = matched
            .into_iter()
            .filter_map(|(o, n)| {
                let (o, n) = (old_at.start + o, new_at.start + n);
                Some((o, n, Pair::of(old[o], new[n])?))
            })
            .collect();
        for line in old_at {
            let pair = pairs.binary_search_by_key(&line, |(o, ..)| *o);
            let pair = pair.ok().and_then(|at| pairs.get(at));
            let whole = [(false, old[line])];
            self.line(
                ChangeTag::Delete,
                line,
                pair.map_or(&whole, |(.., p)| &p.old),
            );
        }
        for line in new_at {
            let pair = pairs.binary_search_by_key(&line, |(_, n, _)| *n);
            let pair = pair.ok().and_then(|at| pairs.get(at));
            let whole = [(false, new[line])];
            self.line(
                ChangeTag::Insert,
                line,
                pair.map_or(&whole, |(.., p)| &p.new),
            );
        }
    }

    /// Adds a line. `number` counts from 0.
    fn line(&mut self, tag: ChangeTag, number: usize, parts: &[DiffPart<'_>]) {
        if self.room() == 0 {
            self.left_out += 1;
            return;
        }
        if parts.iter().all(|(_, part)| part.trim().is_empty()) {
            match &mut self.blank {
                Some((of, _, count)) if *of == tag => *count += 1,
                _ => {
                    self.end_blank();
                    self.blank = Some((tag, number, 1));
                }
            }
            return;
        }
        self.end_blank();
        self.put(tag, number, parts);
    }

    fn room(&self) -> usize {
        let most = self.shape.max_lines.unwrap_or(usize::MAX);
        // Rows count too: long lines take several.
        most.saturating_sub(self.shown.max(self.lines.len()))
    }

    /// Adds blank lines in a row, or their number when they could hide something.
    fn end_blank(&mut self) {
        let Some((tag, number, count)) = self.blank.take() else {
            return;
        };
        if count > MAX_BLANK_LINES {
            let text = format!("⟨{} blank lines⟩", figure(count));
            return self.put(tag, number, &[(false, &text)]);
        }
        for n in 0..count {
            self.put(tag, number + n, &[]);
        }
    }

    /// Adds a line, also a blank one. `number` counts from 0.
    fn put(&mut self, tag: ChangeTag, number: usize, parts: &[DiffPart<'_>]) {
        self.shown += 1;
        let theme = self.shape.theme;
        let (sign, style, word) = match tag {
            ChangeTag::Equal => (' ', theme.dim, theme.dim),
            ChangeTag::Delete => ('-', theme.diff_del, theme.diff_del_word),
            ChangeTag::Insert => ('+', theme.diff_add, theme.diff_add_word),
        };
        let mut room = match self.shape.max_lines {
            Some(_) => MAX_LINE_BYTES,
            None => usize::MAX,
        };
        let mut shown = Vec::new();
        for (place, (differs, part)) in parts.iter().enumerate() {
            let part = counted(part, place == 0);
            let part = crate::core::text::clip(&part, room);
            room -= part.len();
            shown.push((*differs, clean_line(&part).into_owned()));
        }
        let colours = match tag {
            ChangeTag::Equal => None,
            ChangeTag::Delete => self.coloured.0.get(number),
            ChangeTag::Insert => self.coloured.1.get(number),
        };
        let spans = styled(&shown, (style, word), colours);
        let first = match self.number_columns {
            Some(columns) => format!("{:>columns$} {sign} ", self.first + number + 1),
            None => format!("{sign} "),
        };
        let rest = Span::styled(" ".repeat(first.len()), style);
        let first = Span::styled(first, style);
        let columns = usize::from(self.shape.width);
        let lines = wrap(&spans, columns, &[first], &[rest], Break::Anywhere);
        self.lines.extend(lines.into_iter().map(|line| match tag {
            ChangeTag::Equal => line,
            // The background reaches from the numbers to the end of the measure.
            ChangeTag::Delete | ChangeTag::Insert => {
                let blank = " ".repeat(columns.saturating_sub(line.width()));
                let mut line = line;
                line.spans.push(Span::styled(blank, background(style)));
                line
            }
        }));
    }

    fn note(&mut self, text: &str) {
        self.end_blank();
        let indent = " ".repeat(self.number_columns.map_or(0, |columns| columns + 1));
        let text = clip(&format!("{indent}{text}"), usize::from(self.shape.width));
        let span = Span::styled(text, self.shape.theme.dim);
        self.lines.push(Line::from(span));
    }

    fn finish(mut self, what: Option<&'static str>) -> Changed {
        self.end_blank();
        match self.left_out {
            0 => {}
            more => self.note(&format!("+ {}", count(more, "line"))),
        }
        Changed {
            added: self.added,
            removed: self.removed,
            what,
            lines: self.lines,
        }
    }
}

impl Changed {
    /// `+2 −1`
    pub(crate) fn counts(&self, theme: &Theme) -> [Span<'static>; 2] {
        [
            Span::styled(format!("+{}", self.added), theme.ok),
            Span::styled(format!(" −{}", self.removed), theme.dim),
        ]
    }

    /// Returns the lines after a heading with the name of the file, cut to the width.
    pub(crate) fn with_head(self, path: &str, shape: &Shape<'_>) -> Vec<Line<'static>> {
        let theme = shape.theme;
        let what = self.what.map_or(String::new(), |what| format!("{what}  "));
        let counts = self.counts(theme);
        let taken = counts.iter().map(Span::width).sum::<usize>() + what.len() + 2;
        let room = usize::from(shape.width).saturating_sub(taken).max(8);
        let path = clean_line(path);
        let path = match shape.max_lines {
            Some(_) => clip_middle(&path, room),
            None => counted(&path, false).into_owned(),
        };
        let [added, removed] = counts;
        let spans = [
            Span::styled(path, theme.text),
            Span::styled(format!("  {what}"), theme.dim),
            added,
            removed,
        ];
        let columns = usize::from(shape.width);
        let mut lines = wrap(&spans, columns, &[], &[], Break::Words);
        lines.extend(self.lines);
        lines
    }
}

/// Returns the parts of a line: words that differ in the style `word`, and the rest in `style` with
/// the colours of its code. A line that is shown in another form than its code has none.
fn styled(
    parts: &[(bool, String)],
    (style, word): (Style, Style),
    colours: Option<&Vec<(Style, String)>>,
) -> Vec<Span<'static>> {
    let line: String = parts.iter().map(|(_, part)| part.as_str()).collect();
    let is_line = |parts: &&Vec<(Style, String)>| {
        let code: String = parts.iter().map(|(_, text)| text.as_str()).collect();
        code == line
    };
    let whole = vec![(Style::new(), line.clone())];
    let mut colours = colours.filter(is_line).unwrap_or(&whole).iter();
    let (mut colour, mut left) = (Style::new(), 0);
    let mut spans = Vec::new();
    for (differs, part) in parts {
        let mut rest = part.as_str();
        while !rest.is_empty() {
            if left == 0 {
                let Some((next, text)) = colours.next() else {
                    break;
                };
                (colour, left) = (*next, text.len());
            }
            let (text, after) = rest.split_at(left.min(rest.len()));
            let style = if *differs { word } else { style.patch(colour) };
            push_span(&mut spans, style, text);
            left -= text.len();
            rest = after;
        }
    }
    spans
}

fn background(style: Style) -> Style {
    Style {
        bg: style.bg,
        ..Style::default()
    }
}

/// A line before and after, which is the same line changed.
struct Pair<'a> {
    old: Vec<DiffPart<'a>>,
    new: Vec<DiffPart<'a>>,
}

impl<'a> Pair<'a> {
    fn of(old: &'a str, new: &'a str) -> Option<Pair<'a>> {
        if old.len().max(new.len()) > MAX_LINE_BYTES {
            return None;
        }
        let diff = TextDiff::configure()
            .timeout(MAX_WORDS_TIME)
            .diff_words(old, new);
        let mut pair = Pair {
            old: Vec::new(),
            new: Vec::new(),
        };
        let (mut old_rest, mut new_rest) = (old, new);
        for change in diff.iter_all_changes() {
            let length = change.value().len();
            let differs = change.tag() != ChangeTag::Equal;
            if change.tag() != ChangeTag::Insert {
                let (part, rest) = old_rest.split_at_checked(length)?;
                pair.old.push((differs, part));
                old_rest = rest;
            }
            if change.tag() != ChangeTag::Delete {
                let (part, rest) = new_rest.split_at_checked(length)?;
                pair.new.push((differs, part));
                new_rest = rest;
            }
        }
        Some(pair)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ui::text::width;
    use ratatui::style::Modifier;

    fn shape(theme: &Theme) -> Shape<'_> {
        Shape {
            width: 40,
            max_lines: Some(50),
            theme,
            code: None,
            path: "",
        }
    }

    fn edits(path: &str, pairs: &[Replacement], shape: &Shape<'_>) -> Vec<Line<'static>> {
        super::edits(pairs, shape).with_head(path, shape)
    }

    fn file(
        path: &str,
        before: Option<&str>,
        after: &str,
        shape: &Shape<'_>,
    ) -> Vec<Line<'static>> {
        super::file(before, after, shape).with_head(path, shape)
    }

    fn edit(old: &str, new: &str) -> Replacement {
        Replacement {
            old: old.to_string(),
            new: new.to_string(),
            all: false,
        }
    }

    /// Words that differ stand in brackets.
    fn shown(lines: &[Line<'_>]) -> Vec<String> {
        let span = |s: &Span<'_>| match s.style.add_modifier.contains(Modifier::UNDERLINED) {
            true => format!("[{}]", s.content),
            false => s.content.to_string(),
        };
        lines
            .iter()
            .map(|l| l.spans.iter().map(span).collect::<String>())
            .map(|line| line.trim_end().to_string())
            .collect()
    }

    #[test]
    fn a_change_is_shown_with_numbers_and_its_words() {
        let old: String = (1..=20).map(|n| format!("line number {n}\n")).collect();
        let new = old
            .replace("number 10", "figure 10")
            .replace("number 20\n", "number 20");
        let lines = file("src/a.rs", Some(&old), &new, &shape(&Theme::plain()));
        let want = [
            "src/a.rs  +2 −2",
            "   the last line has no line end now",
            " 9   line number 9",
            "10 - line [number] 10",
            "10 + line [figure] 10",
            "11   line number 11",
            "   ⋯",
            "19   line number 19",
            "20 - line number 20",
            "20 + line number 20",
        ];
        assert_eq!(shown(&lines), want);
    }

    #[test]
    fn edits_have_no_numbers() {
        let pairs = [edit("let a = 1;", "let a = 2;"), edit("x\n", "")];
        let lines = edits("a.rs", &pairs, &shape(&Theme::plain()));
        let want = [
            "a.rs  +1 −2",
            "- let a = [1;]",
            "+ let a = [2;]",
            "⋯",
            "- x",
        ];
        assert_eq!(shown(&lines), want);
    }

    #[test]
    fn a_whole_file_says_so_and_is_cut() {
        let theme = Theme::plain();
        let shape = Shape {
            max_lines: Some(2),
            ..shape(&theme)
        };
        let lines = file("a", None, "1\n2\n3\n4\n", &shape);
        let want = ["a  whole file  +4 −0", "1 + 1", "2 + 2", "  + 2 lines"];
        assert_eq!(shown(&lines), want);
    }

    #[test]
    fn line_ends_of_a_file_count_and_are_told_in_words() {
        let theme = Theme::plain();
        let lines = file(
            "a",
            Some("\u{feff}x\r\ny"),
            "\u{feff}x\ny\n",
            &shape(&theme),
        );
        let want = [
            "a  +2 −2",
            "  line ends changed from CRLF to LF",
            "  the last line has a line end now",
            "1 - x",
            "2 - y",
            "1 + x",
            "2 + y",
        ];
        assert_eq!(shown(&lines), want);
        let lines = edits("a", &[edit("x\r\ny", "x\ny")], &shape(&theme));
        assert_eq!(shown(&lines), ["a  +0 −0", "only line ends change"]);
    }

    #[test]
    fn lines_that_have_nothing_in_common_have_no_words() {
        let lines = edits(
            "a",
            &[edit("one two three", "alpha")],
            &shape(&Theme::plain()),
        );
        assert_eq!(shown(&lines), ["a  +1 −1", "- one two three", "+ alpha"]);
    }

    #[test]
    fn only_lines_that_are_alike_are_compared_word_by_word() {
        // A new line stood where the changed one was, and each was compared with another.
        let old = "let total = first + second;\nreturn total;";
        let new = "check(first)?;\nlet total = first + third;\nreturn Ok(total) // now;";
        let lines = edits("a", &[edit(old, new)], &shape(&Theme::plain()));
        let want = [
            "a  +3 −2",
            "- let total = first + [second;]",
            "- return total;",
            "+ check(first)?;",
            "+ let total = first + [third;]",
            "+ return Ok(total) // now;",
        ];
        assert_eq!(shown(&lines), want);
        // That both have blanks makes no two lines alike.
        let lines = edits(
            "a",
            &[edit("a b c d e f", "u v w x y z")],
            &shape(&Theme::plain()),
        );
        assert_eq!(shown(&lines)[1..], ["- a b c d e f", "+ u v w x y z"]);
    }

    #[test]
    fn long_and_dangerous_lines_fit() {
        let theme = Theme::named("dark").unwrap();
        let evil = format!("\u{1b}[2J\t{}日本", "x".repeat(100_000));
        for width_columns in [1, 3, 10, 40] {
            let shape = Shape {
                width: width_columns,
                ..shape(&theme)
            };
            for line in file("a\u{202e}b", Some("x\u{7}\r"), &evil, &shape) {
                let text = line.to_string();
                assert!(width(&text) <= usize::from(width_columns), "{text:?}");
                assert!(!text.contains(char::is_control), "{text:?}");
            }
        }
    }

    #[test]
    fn blanks_hide_nothing() {
        let content = format!(
            "ls{}rm x\n{}end\n\n\nx",
            " ".repeat(3_000),
            "\n".repeat(120)
        );
        let lines = file("a", None, &content, &shape(&Theme::plain()));
        let want = [
            "a  whole file  +125 −0",
            "  1 + ls⟨3,000 spaces⟩rm x",
            "  2 + ⟨120 blank lines⟩",
            "122 + end",
            "123 +",
            "124 +",
            "125 + x",
        ];
        assert_eq!(shown(&lines), want);
    }

    #[test]
    fn an_approval_shows_the_whole_change() {
        let theme = Theme::plain();
        let shape = Shape {
            max_lines: None,
            ..shape(&theme)
        };
        let text = |lines: &[Line<'_>]| shown(lines).concat();
        let long = format!("{}end of line\n", "x".repeat(10 * MAX_LINE_BYTES));
        let many = "x\n".repeat(5_000) + "end of file\n";
        let path = format!("{}/end", "folder/".repeat(99));
        let seen = text(&file(&path, None, &(long + &many), &shape)).replace(' ', "");
        for end in ["endofline", "endoffile", &path] {
            assert!(seen.contains(end), "{end}");
        }
        let big = "x\n".repeat(MAX_BYTES / 2) + "the end";
        assert!(text(&file("a", None, &big, &shape)).contains("the end"));
        let all = Replacement {
            all: true,
            ..edit("a", "b")
        };
        assert!(text(&edits("a", &[all], &shape)).contains("in every place"));
    }

    #[test]
    fn files_that_are_too_big_are_not_compared() {
        let big = "x\n".repeat(MAX_BYTES);
        let theme = Theme::plain();
        let shape = Shape {
            width: 80,
            ..shape(&theme)
        };
        let lines = file("a", Some(""), &big, &shape);
        assert!(
            lines[1]
                .to_string()
                .contains("too big to compare: 0 to 4194304 bytes")
        );
        assert_eq!(lines.len(), 2);
    }
}
