//! Changes between two texts, in a form that is short enough for a result.
//!
//! Lines are compared with their ends, as git does, so that the numbers are the same. A change of
//! line ends is told in words.

use std::ops::Range;
use std::path::Path;
use std::time::Duration;

use similar::{ChangeTag, DiffTag, TextDiff};

use super::line_ends::{changed_ends, without_end};
use super::printable;
use crate::workspace::regular::{load_from, open_on_disk};

/// Time limit of one diff. At the limit the diff is still correct, but may not be the shortest.
const MAX_TIME: Duration = Duration::from_millis(300);
const MAX_EXCERPT_LINES: usize = 80;
const MAX_EXCERPT_BYTES: usize = 4_000;
const MAX_LINE_CHARS: usize = 300;
const CONTEXT_LINES: usize = 3;
/// Maximum number of places that are named by their lines.
const MAX_PLACES: usize = 8;

pub(super) struct Diff {
    /// Number of lines.
    pub added: usize,
    /// Number of lines.
    pub removed: usize,
    /// Ranges of lines in the new text that the old one does not have, from 0. Where lines were
    /// only removed, the range is empty.
    pub places: Vec<Range<usize>>,
    /// The unified diff, cut when it is long.
    pub excerpt: String,
}

impl Diff {
    pub(super) fn of(old: &str, new: &str) -> Diff {
        let diff = by_lines(old, new, MAX_TIME);
        let (mut added, mut removed) = (0, 0);
        let mut places = Vec::new();
        for op in diff.ops() {
            if op.tag() != DiffTag::Equal {
                added += op.new_range().len();
                removed += op.old_range().len();
                places.push(op.new_range());
            }
        }
        let mut excerpt = excerpt(&diff);
        for words in changed_ends(old, new) {
            excerpt.push_str(&format!("{words}\n"));
        }
        Diff {
            added,
            removed,
            places,
            excerpt,
        }
    }

    /// Returns the changes in a few words: `lines 5-9, +5 -1`.
    pub(super) fn in_words(&self) -> String {
        let Diff { added, removed, .. } = self;
        let mut places: Vec<String> = self
            .places
            .iter()
            .take(MAX_PLACES)
            .map(|place| match place.len() {
                0 | 1 => (place.start + 1).to_string(),
                _ => format!("{}–{}", place.start + 1, place.end),
            })
            .collect();
        let more = self.places.len().saturating_sub(MAX_PLACES);
        if more > 0 {
            places.push(format!("{more} more"));
        }
        let what = match (&self.places[..], added + removed) {
            (_, 0) => return "only bytes that are not text changed".to_string(),
            ([place], _) if place.len() <= 1 => "line",
            _ => "lines",
        };
        format!("{what} {}, +{added} −{removed}", places.join(", "))
    }
}

/// Compares two texts line by line. Only LF ends a line.
pub fn by_lines<'a>(old: &'a str, new: &'a str, time: Duration) -> TextDiff<'a, 'a, str> {
    let lines = |text: &'a str| text.split_inclusive('\n').collect::<Vec<&str>>();
    TextDiff::configure()
        .timeout(time)
        .newline_terminated(true)
        .diff_slices(&lines(old), &lines(new))
}

/// Maximum size of a file whose change is shown.
const MAX_FILE_BYTES: u64 = 4 * 1024 * 1024;

/// The content of a file at one moment, if it can be shown.
pub struct FileNow {
    /// blake3 in hex. `None`: it cannot be read.
    pub hash: Option<String>,
    text: Option<String>,
}

/// Reads a file by its real path.
pub fn file_now(path: &str) -> FileNow {
    let read = open_on_disk(Path::new(path)).and_then(|file| load_from(file, MAX_FILE_BYTES));
    let bytes = read.ok();
    FileNow {
        hash: bytes.as_ref().map(|b| blake3::hash(b).to_hex().to_string()),
        text: bytes.and_then(|bytes| String::from_utf8(bytes).ok()),
    }
}

/// Returns the change of a file as a short diff. `None`: it is not text, or did not change.
pub fn change_in_words(before: &FileNow, after: &FileNow) -> Option<String> {
    let (old, new) = (before.text.as_ref()?, after.text.as_ref()?);
    let diff = (old != new).then(|| Diff::of(old, new))?;
    Some(format!("{}\n{}", diff.in_words(), diff.excerpt))
}

/// Returns how many lines were added and removed, as `in_words` wrote it at the end of the first
/// line of a result. `None` when the result has no such words.
pub fn line_counts(result: &str) -> Option<(usize, usize)> {
    let line = result.lines().next()?;
    // Versions that ignored line ends said the second.
    if line.ends_with("already has this content") || line.ends_with("only line ends changed") {
        return Some((0, 0));
    }
    let (_, figures) = line.rsplit_once(", +")?;
    let (added, removed) = figures.split_once(" −")?;
    Some((added.parse().ok()?, removed.parse().ok()?))
}

fn excerpt(diff: &TextDiff<'_, '_, str>) -> String {
    let mut text = String::new();
    let mut lines = 0;
    let mut unified = diff.unified_diff();
    for hunk in unified.context_radius(CONTEXT_LINES).iter_hunks() {
        text.push_str(&format!("{}\n", hunk.header()));
        for change in hunk.iter_changes() {
            lines += 1;
            if lines > MAX_EXCERPT_LINES || text.len() > MAX_EXCERPT_BYTES {
                text.push_str("… the rest of the diff is left out\n");
                return text;
            }
            text.push(match change.tag() {
                ChangeTag::Equal => ' ',
                ChangeTag::Delete => '-',
                ChangeTag::Insert => '+',
            });
            let line = printable(without_end(change.value()));
            text.extend(line.chars().take(MAX_LINE_CHARS));
            if line.chars().nth(MAX_LINE_CHARS).is_some() {
                text.push('…');
            }
            text.push('\n');
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_is_shown_with_its_surroundings() {
        let diff = Diff::of("a\nb\nc\n", "a\nB\nc\nd\n");
        assert_eq!((diff.added, diff.removed), (2, 1));
        assert_eq!(diff.excerpt, "@@ -1,3 +1,4 @@\n a\n-b\n+B\n c\n+d\n");
    }

    #[test]
    fn a_change_is_told_in_a_few_words() {
        let words = |old: &str, new: &str| Diff::of(old, new).in_words();
        assert_eq!(words("a\nb\nc\n", "a\nB\nC\nc\n"), "lines 2–3, +2 −1");
        assert_eq!(words("a\nb\nc\n", "a\nB\nc\n"), "line 2, +1 −1");
        assert_eq!(words("a\nb\nc\n", "a\nc\n"), "line 2, +0 −1");
        assert_eq!(words("a\nb\nc\n", "A\nb\nC\nD\n"), "lines 1, 3–4, +3 −2");
        assert_eq!(words("a\r\n", "a\n"), "line 1, +1 −1");
        let old: String = (0..40).map(|n| format!("{n}\n")).collect();
        let new: String = (0..40)
            .map(|n| format!("{n}{}\n", ["", "x"][n % 2]))
            .collect();
        assert!(words(&old, &new).contains(", 16, 12 more, +20 −20"));
    }

    #[test]
    fn the_figures_are_read_from_what_was_told() {
        for (old, new, counts) in [
            ("a\nb\nc\n", "A\nb\nC\nD\n", (3, 2)),
            ("a\nb\n", "b\n", (0, 1)),
            ("a\r\n", "a\n", (1, 1)),
        ] {
            let told = format!(
                "edited a, +5 −1: {}\nline ends differ",
                Diff::of(old, new).in_words()
            );
            assert_eq!(line_counts(&told), Some(counts), "{told}");
        }
        for nothing in [
            "a already has this content",
            "overwrote a: only line ends changed",
        ] {
            assert_eq!(line_counts(nothing), Some((0, 0)));
        }
        assert_eq!(line_counts("created a, +5 −1: 2 lines, 4 bytes"), None);
        assert_eq!(line_counts(""), None);
    }

    #[test]
    fn line_ends_count_as_in_git() {
        let counts = |old: &str, new: &str| {
            let diff = Diff::of(old, new);
            (diff.added, diff.removed)
        };
        assert_eq!(counts("a\r\nb\r\n", "a\r\nc\n"), (1, 1));
        assert_eq!(counts("a\r\nb\r\n", "a\nb\n"), (2, 2));
        assert_eq!(counts("a\nb", "a\nb\n"), (1, 1));
        // A CR alone ends no line.
        assert_eq!(counts("a\rb\rc\n", "a\rB\rc\n"), (1, 1));
        assert_eq!(
            Diff::of("a\r\n", "a\n").excerpt,
            "@@ -1 +1 @@\n-a\n+a\nline ends changed from CRLF to LF\n"
        );
    }

    #[test]
    fn a_long_diff_is_cut_and_says_so() {
        let new: String = (0..10_000).map(|n| format!("line {n}\n")).collect();
        let diff = Diff::of("", &new);
        assert_eq!(diff.added, 10_000);
        assert!(diff.excerpt.len() < MAX_EXCERPT_BYTES + 500);
        assert!(diff.excerpt.ends_with("left out\n"));
    }
}
