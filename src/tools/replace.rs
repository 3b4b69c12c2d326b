//! Exact replacements in a text. Each edit works on the result of the one before, and either all or
//! none are made. If some fail, the error names all of them, with lines of the unchanged file.
//!
//! Line ends stay those of the file. `old` is searched for in the text with every CRLF as LF, so
//! models need not know of CR. Lines that stay keep their ends, and inserted text gets the line end
//! of its place. In a text without any LF, each CR is a line end. Everything else,
//! including a byte order mark and the last newline, is matched and kept byte for byte.

use std::borrow::Cow;
use std::ops::Range;

use serde::{Deserialize, Serialize};

use super::file::MAX_FILE_BYTES;
use super::line_ends::{LineEnds, with_ends};
use super::near;

/// Maximum size of the result, since replacing a short text everywhere by a long one could fill the
/// memory.
const MAX_RESULT_BYTES: usize = 4 * MAX_FILE_BYTES as usize;
const MAX_LINES_NAMED: usize = 10;
/// Maximum number of failed edits that are explained; the others are counted.
const MAX_EXPLAINED: usize = 5;
/// Lines of the file that are shown with the only failed edit.
const LINES_OF_ONE: usize = 20;
const LINES_OF_SEVERAL: usize = 8;

/// The replacement of one text in a file by another.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Replacement {
    /// The text in the file.
    pub old: String,
    /// The text that replaces it.
    pub new: String,
    /// Whether to replace every occurrence. Otherwise there must be exactly one.
    #[serde(default)]
    pub all: bool,
}

#[derive(Debug, PartialEq)]
pub(super) struct Edited {
    pub text: String,
    /// Number of replaced places, over all edits.
    pub replaced: usize,
    /// Whether each `old` was there exactly once, so that no other place can have been meant.
    pub is_certain: bool,
    /// Whether each `old` was there byte for byte, with the same line ends.
    pub is_exact: bool,
}

/// Why an edit cannot be made.
enum Failure {
    NotFound,
    /// It occurs at these places of the text with LF as line ends.
    Many(Vec<usize>),
    /// The edit is invalid for any text.
    Wrong(String),
}

/// Applies the edits to a text. Returns `None` when they do not match it.
pub(super) fn edited_text(edits: &[Replacement], text: &str) -> Option<String> {
    let edited = all("", edits, text.as_bytes()).ok()?;
    Some(edited.text)
}

/// Applies all edits to the content `old` of a file. `name` is the file's name, for the error.
pub(super) fn all(name: &str, edits: &[Replacement], old: &[u8]) -> Result<Edited, String> {
    let text = std::str::from_utf8(old).map_err(|e| {
        format!(
            "cannot edit {name}: it is not UTF-8 text (byte {})\nhint: use a command",
            e.valid_up_to()
        )
    })?;
    // The text after an edit may have no line end left.
    let first_end = LineEnds::first(text);
    let mut edited = Edited {
        text: text.to_string(),
        replaced: 0,
        is_certain: true,
        is_exact: true,
    };
    let mut failed = Vec::new();
    for (index, edit) in edits.iter().enumerate() {
        if let Err(failure) = edited.take(edit, first_end) {
            failed.push((index, failure));
        }
    }
    match failed.is_empty() {
        true => Ok(edited),
        false => Err(format!(
            "{name}: nothing was changed: {}",
            explained(text, edits, &failed)
        )),
    }
}

impl Edited {
    fn take(&mut self, edit: &Replacement, first_end: &'static str) -> Result<(), Failure> {
        let old = flattened(&edit.old, first_end);
        let new = flattened(&edit.new, first_end);
        let wrong = |why: &str| Err(Failure::Wrong(why.to_string()));
        if old.is_empty() {
            return wrong(
                "`old` is empty\nhint: give the text to replace; write replaces a whole file",
            );
        }
        if old == new {
            return wrong("`old` and `new` are the same (line ends are kept as they are)");
        }
        let text = self.text.as_str();
        let flat = Flat::of(text, first_end);
        let places = places(&flat.text, &old, edit.all)?;
        if text.len() + places.len() * new.len() > MAX_RESULT_BYTES {
            return wrong(&format!(
                "the result would be over {MAX_RESULT_BYTES} bytes"
            ));
        }
        let mut out = String::with_capacity(text.len() + new.len());
        let mut copied = 0;
        for place in &places {
            let raw = flat.raw(place);
            self.is_exact &= text[raw.clone()] == edit.old;
            out.push_str(&text[copied..raw.start]);
            let nearest = flat.end_at(place.start);
            out.push_str(&with_ends(&text[raw.clone()], &new, nearest, places.len()));
            copied = raw.end;
        }
        out.push_str(&text[copied..]);
        self.is_certain &= places.len() == 1;
        self.replaced += places.len();
        self.text = out;
        Ok(())
    }
}

/// Returns a text with every line end as LF. `first_end`: that of the file.
fn flattened<'a>(text: &'a str, first_end: &str) -> Cow<'a, str> {
    let has_cr = text.contains('\r');
    match first_end {
        "\r" if has_cr => Cow::Owned(text.replace("\r\n", "\n").replace('\r', "\n")),
        _ if has_cr => Cow::Owned(text.replace("\r\n", "\n")),
        _ => Cow::Borrowed(text),
    }
}

/// Returns the places of `old`: one, or with `all` every one.
fn places(text: &str, old: &str, all: bool) -> Result<Vec<Range<usize>>, Failure> {
    let starts = starts(text, old);
    match starts.len() {
        0 => Err(Failure::NotFound),
        // Overlapping places are ambiguous too.
        2.. if !all => Err(Failure::Many(starts)),
        _ => {
            let found = text.match_indices(old);
            Ok(found.map(|(at, _)| at..at + old.len()).collect())
        }
    }
}

/// Returns where `old` begins. If it occurs once but overlaps itself, returns the first two places.
fn starts(text: &str, old: &str) -> Vec<usize> {
    let starts: Vec<usize> = text.match_indices(old).map(|(at, _)| at).collect();
    if let [first] = starts[..] {
        let next = first + text[first..].chars().next().map_or(1, char::len_utf8);
        let second = text[next..].find(old).map(|at| next + at);
        return [Some(first), second].into_iter().flatten().collect();
    }
    starts
}

/// Explains each failed edit, with lines of `text`, the unchanged file.
fn explained(text: &str, edits: &[Replacement], failed: &[(usize, Failure)]) -> String {
    let flat = text.replace("\r\n", "\n");
    let count = edits.len();
    let lines = match failed.len() {
        1 => LINES_OF_ONE,
        _ => LINES_OF_SEVERAL,
    };
    let mut parts: Vec<String> = failed
        .iter()
        .take(MAX_EXPLAINED)
        .map(|(index, failure)| {
            let which = match count {
                1 => String::new(),
                _ => format!("edit {} of {count}: ", index + 1),
            };
            let why = explain(&flat, edits, failed, *index, failure, lines);
            format!("{which}{}", why.trim_end())
        })
        .collect();
    let more: Vec<String> = failed
        .iter()
        .skip(MAX_EXPLAINED)
        .map(|(index, _)| (index + 1).to_string())
        .collect();
    if !more.is_empty() {
        let numbers = match more.get(..MAX_LINES_NAMED) {
            Some(first) if more.len() > MAX_LINES_NAMED => format!("{}, …", first.join(", ")),
            _ => more.join(", "),
        };
        parts.push(format!("these fail too: edits {numbers}"));
    }
    if failed.len() > 1 {
        parts.insert(0, format!("{} of {count} edits fail", failed.len()));
    }
    parts.join("\n")
}

fn explain(
    text: &str,
    edits: &[Replacement],
    failed: &[(usize, Failure)],
    index: usize,
    failure: &Failure,
    lines: usize,
) -> String {
    let old = edits[index].old.replace("\r\n", "\n");
    let needs = |(other, _): &&(usize, Failure)| {
        *other < index && edits[*other].new.replace("\r\n", "\n").contains(&old)
    };
    match failure {
        Failure::Wrong(why) => why.clone(),
        Failure::NotFound => match starts(text, &old)[..] {
            [first, ..] => format!(
                "`old` is at line {}, but an edit before it in this call changes that text\n\
                 hint: give `old` as it is after that edit",
                line_at(text, first)
            ),
            [] => match failed.iter().find(needs) {
                Some((other, _)) => format!("`old` is what edit {} would make", other + 1),
                None => format!("`old` was not found; {}", near::nearest(text, &old, lines)),
            },
        },
        Failure::Many(made) => {
            let starts = starts(text, &old);
            match starts.len() {
                0 | 1 => format!(
                    "after the edits before it in this call, `old` is there {} times\n\
                     hint: add lines around it until it is unique, or set `all`",
                    made.len()
                ),
                _ => many(text, &starts),
            }
        }
    }
}

fn line_at(text: &str, at: usize) -> usize {
    text[..at].matches('\n').count() + 1
}

fn many(text: &str, starts: &[usize]) -> String {
    let mut lines = Vec::new();
    let (mut line, mut counted) = (1, 0);
    for start in starts.iter().take(MAX_LINES_NAMED) {
        line += text[counted..*start].matches('\n').count();
        counted = *start;
        lines.push(line.to_string());
    }
    let more = if starts.len() > MAX_LINES_NAMED {
        ", …"
    } else {
        ""
    };
    format!(
        "`old` is there {} times, at lines {}{more}\nhint: add lines around it until it is unique, or set `all`",
        starts.len(),
        lines.join(", ")
    )
}

/// A text with every CRLF as LF, and the positions that map it back to the raw text.
struct Flat<'a> {
    text: Cow<'a, str>,
    /// For each LF in `text`, its position and whether it was a CRLF. Empty without any CRLF.
    ends: Vec<(usize, bool)>,
    /// Positions in `text` of the LFs that were CRLFs.
    crlfs: Vec<usize>,
    /// The line end of new lines in a text without any LF.
    without_ends: &'static str,
}

impl<'a> Flat<'a> {
    fn of(raw: &'a str, first_end: &'static str) -> Flat<'a> {
        if !raw.contains("\r\n") {
            return Flat {
                text: flattened(raw, first_end),
                ends: Vec::new(),
                crlfs: Vec::new(),
                without_ends: if raw.contains('\n') { "\n" } else { first_end },
            };
        }
        let mut flat = Flat {
            text: Cow::Owned(raw.replace("\r\n", "\n")),
            ends: Vec::new(),
            crlfs: Vec::new(),
            without_ends: "\n",
        };
        for (at, _) in raw.match_indices('\n') {
            let is_crlf = raw[..at].ends_with('\r');
            let at = at - flat.crlfs.len() - usize::from(is_crlf);
            flat.ends.push((at, is_crlf));
            if is_crlf {
                flat.crlfs.push(at);
            }
        }
        flat
    }

    /// Returns the same place in the raw text. A CR belongs to the LF that follows it.
    fn raw(&self, place: &Range<usize>) -> Range<usize> {
        let raw = |at: usize| at + self.crlfs.partition_point(|crlf| *crlf < at);
        raw(place.start)..raw(place.end)
    }

    /// Returns the line end nearest to a place: the next one, else the last.
    fn end_at(&self, at: usize) -> &'static str {
        let next = self.ends.partition_point(|(end, _)| *end < at);
        let end = self.ends.get(next).or(self.ends.last());
        match end {
            Some((_, true)) => "\r\n",
            Some((_, false)) => "\n",
            None => self.without_ends,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn change(old: &str, new: &str, all: bool) -> Replacement {
        Replacement {
            old: old.into(),
            new: new.into(),
            all,
        }
    }

    fn edit(text: &str, edits: Vec<Replacement>) -> Result<Edited, String> {
        all("file", &edits, text.as_bytes())
    }

    fn check(before: &str, old: &str, new: &str, after: &str) {
        let edited = edit(before, vec![change(old, new, false)]).unwrap();
        assert_eq!(edited.text, after, "{before:?}: {old:?} -> {new:?}");
    }

    fn refused(text: &str, old: &str, new: &str) -> String {
        edit(text, vec![change(old, new, false)]).unwrap_err()
    }

    #[test]
    fn a_single_match_is_replaced() {
        check("a\nb\nc", "b", "B", "a\nB\nc");
        check("a\nb\n", "\nb\n", "", "a");
        check("\u{feff}a\n", "a", "b", "\u{feff}b\n");
        check("a\n\n", "a", "b", "b\n\n");
    }

    #[test]
    fn line_ends_are_the_files_own() {
        check("a\r\nb\r\nc\r\n", "a\nb", "x\ny\nz", "x\r\ny\r\nz\r\nc\r\n");
        check("a\r\nb\r\n", "a\r\nb", "x\r\ny", "x\r\ny\r\n");
        check("a\r\nb\r\n", "\nb", "", "a\r\n");
        check("a\nb\n", "a\r\nb", "x\r\ny", "x\ny\n");
        check("a\r\nb", "b", "c\nd", "a\r\nc\r\nd");
        check("a\r\nb\nc\n", "b", "x\ny", "a\r\nx\ny\nc\n");
        check("a\rb\r\n", "a\rb", "c", "c\r\n");
        check("a\rb\n", "a\rb", "c\nd", "c\nd\n");
        // CR alone is a line end where there is no other.
        check("a\rb\rc\r", "a\nb", "x\ny\nz", "x\ry\rz\rc\r");
        check("a\rb\r", "a\rb", "x\ny", "x\ry\r");
    }

    #[test]
    fn each_line_that_stays_keeps_its_end() {
        let text = "x\r\ny\nz\nq\r\n";
        check(text, "x\ny\nz\nq", "x\ny\nZ\nq", "x\r\ny\nZ\nq\r\n");
        check(text, "x\ny\nz\nq\n", "new\ny\nz\nq\n", "new\r\ny\nz\nq\r\n");
        check(text, "y\nz\nq", "y\nand\nz\nq", "x\r\ny\nand\nz\nq\r\n");
        check(
            "\u{feff}a\r\nb\nc",
            "a\nb\nc",
            "a\nB\nc\nd",
            "\u{feff}a\r\nB\nc\nd",
        );
        let edited = edit("a\r\nb\nc\na\r\nb\nc\n", vec![change("a\nb", "a\nB", true)]);
        assert_eq!(edited.unwrap().text, "a\r\nB\nc\na\r\nB\nc\n");
    }

    #[test]
    fn edits_are_made_one_after_the_other() {
        let edited = edit(
            "one",
            vec![change("one", "two", false), change("two", "three", false)],
        );
        assert_eq!(
            edited,
            Ok(Edited {
                text: "three".into(),
                replaced: 2,
                is_certain: true,
                is_exact: true,
            })
        );
        let why = edit(
            "one",
            vec![change("one", "two", false), change("one", "x", false)],
        );
        assert!(why.unwrap_err().contains("edit 2 of 2"));
    }

    #[test]
    fn all_edits_that_fail_are_named_with_the_lines_of_the_file() {
        let text = "one\ntwo\nthree\nfour\ntwo\nsix\nseven = 7\n";
        let edits = vec![
            change("one\n", "0\n0\n0\n", false),
            change("two", "2", false),
            change("six", "6", false),
            change("seven = 8", "7", false),
            change("six", "66", false),
            change("absent", "present", false),
            change("present", "past", false),
        ];
        let why = edit(text, edits).unwrap_err();
        let want = [
            "nothing was changed: 5 of 7 edits fail\n",
            "edit 2 of 7: `old` is there 2 times, at lines 2, 5\n",
            "edit 4 of 7: `old` was not found; the nearest text is 89 % alike:\n     7\tseven = 7\n",
            "edit 5 of 7: `old` is at line 6, but an edit before it in this call changes",
            "edit 6 of 7: `old` was not found; ",
            "edit 7 of 7: `old` is what edit 6 would make",
        ];
        for words in want {
            assert!(why.contains(words), "{words:?} in\n{why}");
        }
    }

    #[test]
    fn many_edits_that_fail_are_told_within_bounds() {
        let text: String = (0..2_000)
            .map(|n| format!("line {n} of the text\n"))
            .collect();
        let edits: Vec<_> = (0..200)
            .map(|n| change(&format!("lime {n} of the test\n").repeat(30), "x", false))
            .collect();
        let why = edit(&text, edits).unwrap_err();
        assert!(why.contains("200 of 200 edits fail"), "{why}");
        assert!(why.contains("these fail too: edits 6, 7, 8, "), "{why}");
        assert!(why.len() < 4_000, "{} bytes", why.len());
    }

    #[test]
    fn an_edit_states_whether_it_is_certain_and_exact() {
        let is = |text: &str, old: &str, all: bool| {
            let edited = edit(text, vec![change(old, "new", all)]).unwrap();
            (edited.is_certain, edited.is_exact)
        };
        assert_eq!(is("a\nb\n", "a\nb", false), (true, true));
        assert_eq!(is("a\nb\n", "a", true), (true, true));
        assert_eq!(is("a\na\n", "a", true), (false, true));
        assert_eq!(is("a\r\nb\r\n", "a\nb", false), (true, false));
        assert_eq!(is("a\r\nb\r\n", "a\r\nb", false), (true, true));
    }

    #[test]
    fn line_ends_are_remembered_when_an_edit_takes_the_last() {
        let edits = vec![change("\n", "", false), change("b", "c\nd", false)];
        assert_eq!(edit("a\r\nb", edits).unwrap().text, "ac\r\nd");
    }

    #[test]
    fn all_replaces_every_place() {
        let edited = edit("a b a\r\na", vec![change("a", "x\ny", true)]).unwrap();
        assert_eq!(edited.text, "x\r\ny b x\r\ny\r\nx\r\ny");
        assert_eq!(edited.replaced, 3);
    }

    #[test]
    fn an_edit_that_is_not_certain_is_refused() {
        assert!(refused("a\nb\na\n", "a", "x").contains("2 times, at lines 1, 3\n"));
        assert!(refused("xaaa", "aa", "b").contains("2 times"));
        assert!(refused(&"a\n".repeat(20), "a", "x").contains("9, 10, …"));
        assert!(refused("a", "a", "a").contains("same"));
        assert!(refused("a\r\n", "a\r\n", "a\n").contains("same"));
        assert!(refused("a", "", "a").contains("empty"));
        assert!(refused("a", "q", "a").contains("not found"));
        let edits = [change("a", "b", false)];
        let why = all("file", &edits, b"a\xff").unwrap_err();
        assert!(why.contains("not UTF-8"), "{why}");
    }

    #[test]
    fn a_result_without_bound_is_refused() {
        let long = "x".repeat(100_000);
        let why = edit(&"a".repeat(10_000), vec![change("a", &long, true)]).unwrap_err();
        assert!(why.contains("would be over"), "{why}");
    }

    /// A model of the edits, which ignores line ends.
    fn model(text: &str, edits: &[Replacement]) -> Option<String> {
        let mut text = text.to_string();
        for edit in edits {
            let starts = (0..text.len())
                .filter(|at| text.is_char_boundary(*at) && text[*at..].starts_with(&edit.old))
                .count();
            let certain = starts == 1 || edit.all && starts > 0;
            if edit.old.is_empty() || edit.old == edit.new || !certain {
                return None;
            }
            text = text.replace(&edit.old, &edit.new);
        }
        Some(text)
    }

    fn edits() -> impl Strategy<Value = Vec<Replacement>> {
        let one = ("[ab\né]{0,3}", "[abc\n]{0,3}", any::<bool>());
        prop::collection::vec(
            one.prop_map(|(old, new, all)| change(&old, &new, all)),
            1..4,
        )
    }

    proptest! {
        #[test]
        fn edits_do_what_the_plain_model_does(text in "[abé\n]{0,30}", edits in edits()) {
            let got = edit(&text, edits.clone()).ok().map(|e| e.text);
            prop_assert_eq!(got, model(&text, &edits));
        }

        #[test]
        fn a_file_in_crlf_stays_in_crlf(text in "[abé\n]{0,30}", edits in edits()) {
            let text = format!("{text}\n");
            let got = edit(&text.replace('\n', "\r\n"), edits.clone()).ok().map(|e| e.text);
            let want = model(&text, &edits).map(|t| t.replace('\n', "\r\n"));
            prop_assert_eq!(got, want);
        }

        #[test]
        fn lines_that_no_edit_touched_are_kept_to_the_byte(
            before in "[xy\r\n]{0,20}", after in "[xy\r\n]{0,20}", new in "[ab\n]{0,5}",
        ) {
            let text = format!("{before}\n=old=\n{after}");
            let edited = edit(&text, vec![change("=old=", &new, false)]).unwrap().text;
            let start = format!("{before}\n");
            let end = format!("\n{after}");
            prop_assert!(edited.starts_with(&start) && edited.ends_with(&end));
        }
    }
}
