//! Line ends and byte order marks. New text takes those of the text that it replaces, and a change
//! of them is told in words, since the lines look the same.
//!
//! Invariant: the same texts always give the same result, whatever the time it takes. A recorded
//! change is computed a second time.

use similar::{Algorithm, DiffOp, capture_diff_slices};

/// The byte order mark of UTF-8.
pub(super) const MARK: char = '\u{feff}';

/// Maximum number of lines of two texts that are compared. Of more, each line takes the line end of
/// the line with its number.
const MAX_COMPARED: usize = 16_000;

/// The line ends of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LineEnds {
    None,
    Lf,
    CrLf,
    /// There are only CRs, as on old systems.
    Cr,
    Mixed,
}

impl LineEnds {
    fn of(text: &str) -> LineEnds {
        let all = text.matches('\n').count();
        LineEnds::counted(all, text.matches("\r\n").count(), text.contains('\r'))
    }

    /// Returns the line ends of a text with `all` LFs, of which `crlf` follow a CR.
    pub(super) fn counted(all: usize, crlf: usize, has_cr: bool) -> LineEnds {
        match (all, crlf) {
            (0, _) if has_cr => LineEnds::Cr,
            (0, _) => LineEnds::None,
            (_, 0) => LineEnds::Lf,
            _ if all == crlf => LineEnds::CrLf,
            _ => LineEnds::Mixed,
        }
    }

    /// Returns the first line end of a text, for one that has none later.
    pub(super) fn first(text: &str) -> &'static str {
        match (text.find('\n'), text.contains('\r')) {
            (Some(at), _) if text[..at].ends_with('\r') => "\r\n",
            (None, true) => "\r",
            _ => "\n",
        }
    }

    /// Returns the name of line ends that are not the usual ones.
    pub(super) fn name(self) -> Option<&'static str> {
        match self {
            LineEnds::None | LineEnds::Lf => None,
            LineEnds::CrLf => Some("CRLF"),
            LineEnds::Cr => Some("CR"),
            LineEnds::Mixed => Some("CRLF and LF"),
        }
    }
}

/// Returns a file's content after a `write`. Content with LF only takes the line ends and the byte
/// order mark of `old`. Content with CR is taken as it is.
pub(super) fn as_written(old: &str, content: &str) -> String {
    if content.is_empty() || content.contains('\r') {
        return content.to_string();
    }
    let ((mark, old), (own, text)) = (split_mark(old), split_mark(content));
    let mark = if own.is_empty() { mark } else { own };
    format!("{mark}{}", with_ends(old, text, LineEnds::first(old), 1))
}

fn split_mark(text: &str) -> (&str, &str) {
    let has_mark = text.starts_with(MARK);
    text.split_at(if has_mark { MARK.len_utf8() } else { 0 })
}

/// Returns the text `new`, which has only LFs, with the line ends of the text `old` that it
/// replaces. In one with both kinds, lines that stay keep theirs, and others take that of the line
/// at their place. `nearest` is for a text without line ends. `places`: the number of such texts.
pub(super) fn with_ends(old: &str, new: &str, nearest: &str, places: usize) -> String {
    match LineEnds::of(old) {
        LineEnds::Mixed => with_ends_by_line(old, new, places),
        LineEnds::CrLf => new.replace('\n', "\r\n"),
        LineEnds::Lf => new.to_string(),
        LineEnds::None | LineEnds::Cr => new.replace('\n', nearest),
    }
}

fn with_ends_by_line(old: &str, new: &str, places: usize) -> String {
    let (old, mut ends): (Vec<&str>, Vec<&str>) = lines(old).unzip();
    if let [.., before, last] = &mut ends[..]
        && last.is_empty()
    {
        *last = *before;
    }
    // Only the LF is the line end: a CR before it belongs to the line.
    let has_end = new.ends_with('\n');
    let new: Vec<&str> = new.strip_suffix('\n').unwrap_or(new).split('\n').collect();
    let mut out = String::new();
    for op in line_ops(&old, &new, places) {
        let from = op.old_range();
        for (n, at) in op.new_range().enumerate() {
            let mate = (from.start + n).min(from.end.saturating_sub(1));
            out.push_str(new[at]);
            if has_end || at + 1 < new.len() {
                out.push_str(ends[mate]);
            }
        }
    }
    out
}

/// Returns the lines of a text and their ends. The last line may have none.
fn lines(text: &str) -> impl Iterator<Item = (&str, &str)> {
    text.split_inclusive('\n').map(|line| {
        let text = without_end(line);
        (text, &line[text.len()..])
    })
}

/// Returns a line without its end.
pub fn without_end(line: &str) -> &str {
    match line.strip_suffix('\n') {
        Some(line) => line.strip_suffix('\r').unwrap_or(line),
        None => line,
    }
}

fn line_ops(old: &[&str], new: &[&str], places: usize) -> Vec<DiffOp> {
    // The time grows with the square of the number of lines.
    let most = (MAX_COMPARED * MAX_COMPARED / places.max(1)).isqrt();
    if old.len() + new.len() <= most {
        return capture_diff_slices(Algorithm::Myers, old, new);
    }
    vec![DiffOp::Replace {
        old_index: 0,
        old_len: old.len(),
        new_index: 0,
        new_len: new.len(),
    }]
}

/// Describes in words how line ends, the byte order mark and the last line's end changed from one
/// text to another, which both have lines. Empty: they did not.
pub fn changed_ends(old: &str, new: &str) -> Vec<String> {
    let mut said = Vec::new();
    if old.is_empty() || new.is_empty() {
        return said;
    }
    match (old.starts_with(MARK), new.starts_with(MARK)) {
        (true, false) => said.push("the byte order mark was removed".to_string()),
        (false, true) => said.push("a byte order mark was added".to_string()),
        _ => {}
    }
    match (LineEnds::of(old), LineEnds::of(new)) {
        (LineEnds::None, _) | (_, LineEnds::None) => {}
        (from, to) if from != to => {
            let [from, to] = [from, to].map(|ends| ends.name().unwrap_or("LF"));
            said.push(format!("line ends changed from {from} to {to}"));
        }
        _ => {}
    }
    match (old.ends_with('\n'), new.ends_with('\n')) {
        (true, false) => said.push("the last line has no line end now".to_string()),
        (false, true) => said.push("the last line has a line end now".to_string()),
        _ => {}
    }
    said
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn written_content_takes_the_line_ends_and_the_mark_of_the_file() {
        for (old, content, after) in [
            ("a\r\nb\r\n", "a\nc\n", "a\r\nc\r\n"),
            ("\u{feff}a\r\n", "b\nc", "\u{feff}b\r\nc"),
            ("\u{feff}a\n", "b\n", "\u{feff}b\n"),
            ("\u{feff}a\n", "\u{feff}b\n", "\u{feff}b\n"),
            ("a\n", "\u{feff}b\n", "\u{feff}b\n"),
            ("a\rb\r", "a\nc\n", "a\rc\r"),
            ("a\n", "b\nc\n", "b\nc\n"),
            ("", "a\n", "a\n"),
            ("a", "b\n", "b\n"),
            // As it is.
            ("\u{feff}a\n", "b\r\n", "b\r\n"),
            ("a\r\n", "b\r", "b\r"),
            ("\u{feff}a\r\n", "", ""),
        ] {
            assert_eq!(as_written(old, content), after, "{old:?}: {content:?}");
        }
    }

    #[test]
    fn a_line_of_a_mixed_file_keeps_its_end() {
        let old = "x\r\ny\nz\nq\r\n";
        for (content, after) in [
            ("x\ny\nZ\nq\n", "x\r\ny\nZ\nq\r\n"),
            ("X\ny\nz\nq\n", "X\r\ny\nz\nq\r\n"),
            ("new\nx\ny\nz\nq\n", "new\r\nx\r\ny\nz\nq\r\n"),
            ("y\nz\nnew\nq\n", "y\nz\nnew\nq\r\n"),
            ("x\ny\nz\nq\nnew\n", "x\r\ny\nz\nq\r\nnew\r\n"),
            ("x\ny\nz\nq", "x\r\ny\nz\nq"),
        ] {
            assert_eq!(as_written(old, content), after);
        }
        assert_eq!(as_written("a\r\nb\nc", "a\nb\nc\nd\n"), "a\r\nb\nc\nd\n");
        // A line may end with a CR before its line end.
        let old = "a\r\r\nb\nc\r\n";
        let after = with_ends(old, "a\r\nB\nc\n", "\n", 1);
        assert_eq!(after, "a\r\r\nB\nc\r\n");
    }

    #[test]
    fn a_change_of_line_ends_is_told_in_words() {
        let told = |old: &str, new: &str| changed_ends(old, new).join("; ");
        assert_eq!(
            told("a\nb\n", "a\r\nc\r\n"),
            "line ends changed from LF to CRLF"
        );
        assert_eq!(told("a\r\n", "a\n"), "line ends changed from CRLF to LF");
        assert_eq!(told("a\rb", "a\nb"), "line ends changed from CR to LF");
        assert_eq!(
            told("a\r\nb\n", "a\nb\n"),
            "line ends changed from CRLF and LF to LF"
        );
        assert_eq!(
            told("\u{feff}a\n", "a\n"),
            "the byte order mark was removed"
        );
        assert_eq!(
            told("a\n", "\u{feff}a"),
            "a byte order mark was added; the last line has no line end now"
        );
        assert_eq!(told("", "a\r\n"), "");
    }

    #[test]
    fn very_many_changed_lines_take_no_long_time() {
        let old: String = (0..200_000)
            .map(|n| format!("{n}{}", ["\n", "\r\n"][n % 2]))
            .collect();
        let new: String = (0..200_000).map(|n| format!("{}\n", n * 7)).collect();
        let after = as_written(&old, &new);
        assert_eq!(after.replace("\r\n", "\n"), new);
        let one = old.replace("\r\n", "\n").replace("\n777\n", "\nnew\n");
        assert_eq!(
            as_written(&old, &one),
            old.replace("\n777\r\n", "\nnew\r\n")
        );
    }

    proptest! {
        #[test]
        fn lines_that_stay_keep_their_bytes(
            lines in prop::collection::vec(("[a-c]{0,2}", any::<bool>()), 0..12), at in 0usize..12, new in "[xyz\n]{0,4}",
        ) {
            let raw: Vec<String> = lines
                .iter()
                .enumerate()
                .map(|(n, (line, crlf))| format!("{n}{line}{}", if *crlf { "\r\n" } else { "\n" }))
                .collect();
            let at = at.min(raw.len());
            let (head, tail) = (raw[..at].concat(), raw[at..].concat());
            let new = if new.is_empty() { new } else { format!("{new}\n") };
            let content = format!("{head}{new}{tail}").replace("\r\n", "\n");
            let after = as_written(&raw.concat(), &content);
            prop_assert!(after.starts_with(&head) && after.ends_with(&tail), "{after:?}");
            prop_assert_eq!(after.replace("\r\n", "\n"), content);
        }
    }
}
