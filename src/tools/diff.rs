//! What changed between two texts, short enough to be said in a result.
//!
//! Line ends do not count: a file in CRLF is shown like any other.

use std::time::Duration;

use similar::{ChangeTag, DiffTag, TextDiff};

use super::printable;

/// A diff of two big files may take longer than anybody reads it; what is found by then
/// is correct, only not the shortest.
const MAX_TIME: Duration = Duration::from_millis(300);
const MAX_EXCERPT_LINES: usize = 80;
const MAX_EXCERPT_BYTES: usize = 4_000;
const MAX_LINE_CHARS: usize = 300;
const CONTEXT_LINES: usize = 3;

pub(super) struct Diff {
    /// Lines.
    pub added: usize,
    /// Lines.
    pub removed: usize,
    /// Unified, its first part when it is long.
    pub excerpt: String,
}

impl Diff {
    pub(super) fn of(old: &str, new: &str) -> Diff {
        let (old, new) = (old.replace("\r\n", "\n"), new.replace("\r\n", "\n"));
        let diff = TextDiff::configure()
            .timeout(MAX_TIME)
            .diff_lines(old.as_str(), new.as_str());
        let (mut added, mut removed) = (0, 0);
        for op in diff.ops() {
            if op.tag() != DiffTag::Equal {
                added += op.new_range().len();
                removed += op.old_range().len();
            }
        }
        let mut excerpt = excerpt(&diff);
        if added + removed == 0 {
            excerpt.push_str("only line ends changed\n");
        }
        Diff {
            added,
            removed,
            excerpt,
        }
    }
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
            let line = printable(change.value().trim_end_matches('\n'));
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
    fn line_ends_do_not_count() {
        let diff = Diff::of("a\r\nb\r\n", "a\r\nc\n");
        assert_eq!((diff.added, diff.removed), (1, 1));
        assert_eq!(Diff::of("a\r\n", "a\n").excerpt, "only line ends changed\n");
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
