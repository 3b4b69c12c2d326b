//! A three-way merge by lines.

use std::time::{Duration, Instant};

use similar::{Algorithm, DiffOp, capture_diff_slices_deadline};

/// Maximum size of a file that is merged.
const MAX_BYTES: usize = 2 << 20;

/// Time limit of a diff. If nearly every line differs, the shortest diff takes minutes; such files
/// are not merged.
const MAX_TIME: Duration = Duration::from_millis(200);

/// Bytes at the start of a file that are searched for a NUL byte, which marks a binary file, as in
/// git.
const LOOKED_AT: usize = 8_000;

/// A change of lines of the base: which lines, and their replacement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Hunk<'a> {
    from: usize,
    to: usize,
    lines: &'a [&'a [u8]],
}

/// Applies the changes from `base` to `ours` to `theirs`. Returns `None` if both changed the same
/// or adjacent lines, if a file is binary or too large, or if it takes too long.
pub fn merge3(base: &[u8], ours: &[u8], theirs: &[u8]) -> Option<Vec<u8>> {
    let is_text =
        |bytes: &[u8]| bytes.len() <= MAX_BYTES && !bytes.iter().take(LOOKED_AT).any(|b| *b == 0);
    if ![base, ours, theirs].into_iter().all(is_text) {
        return None;
    }
    let [base, ours, theirs] = [base, ours, theirs].map(lines);
    let deadline = Instant::now() + MAX_TIME;
    let mut hunks = hunks(&base, &ours, deadline)?;
    hunks.extend(self::hunks(&base, &theirs, deadline)?);
    hunks.sort_by_key(|hunk| (hunk.from, hunk.to));
    // Both made the same change.
    hunks.dedup();
    let touch = |pair: &[Hunk<'_>]| pair[1].from <= pair[0].to;
    if hunks.windows(2).any(touch) {
        return None;
    }
    let mut merged = Vec::new();
    let mut at = 0;
    for hunk in &hunks {
        merged.extend_from_slice(&base.get(at..hunk.from)?.concat());
        merged.extend_from_slice(&hunk.lines.concat());
        at = hunk.to;
    }
    merged.extend_from_slice(&base.get(at..)?.concat());
    Some(merged)
}

fn lines(bytes: &[u8]) -> Vec<&[u8]> {
    bytes.split_inclusive(|byte| *byte == b'\n').collect()
}

/// Returns the changes, or `None` if they were not found before the deadline. A later result is not
/// the shortest, and reports too many changes.
fn hunks<'a>(base: &[&[u8]], other: &'a [&'a [u8]], deadline: Instant) -> Option<Vec<Hunk<'a>>> {
    let mut hunks: Vec<Hunk<'a>> = Vec::new();
    for op in capture_diff_slices_deadline(Algorithm::Myers, base, other, Some(deadline)) {
        if matches!(op, DiffOp::Equal { .. }) {
            continue;
        }
        let (old, new) = (op.old_range(), op.new_range());
        hunks.push(Hunk {
            from: old.start,
            to: old.end,
            lines: &other[new],
        });
    }
    (Instant::now() <= deadline).then_some(hunks)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn merged(base: &str, ours: &str, theirs: &str) -> Option<String> {
        let merged = merge3(base.as_bytes(), ours.as_bytes(), theirs.as_bytes())?;
        Some(String::from_utf8(merged).unwrap())
    }

    #[test]
    fn changes_of_different_lines_are_both_there() {
        let base = "a\nb\nc\nd\ne\n";
        assert_eq!(
            merged(base, "A\nb\nc\nd\ne\n", "a\nb\nc\nd\nE\nf").as_deref(),
            Some("A\nb\nc\nd\nE\nf")
        );
        assert_eq!(
            merged(base, "a\nc\nd\ne\n", base).as_deref(),
            Some("a\nc\nd\ne\n")
        );
        assert_eq!(
            merged(base, "x\nb\nc\nd\ne\n", "x\nb\nc\nd\ne\n").as_deref(),
            Some("x\nb\nc\nd\ne\n")
        );
    }

    #[test]
    fn changes_of_the_same_or_of_touching_lines_collide() {
        let base = "a\nb\nc\n";
        assert_eq!(merged(base, "A\nb\nc\n", "x\nb\nc\n"), None);
        assert_eq!(merged(base, "A\nb\nc\n", "a\nB\nc\n"), None);
        assert_eq!(merged(base, "a\nb\nc\nd\n", "a\nb\nc\ne\n"), None);
        assert_eq!(merged("a\0", "b\0", "a\0"), None);
    }

    #[test]
    fn merge_gives_up_when_the_comparison_takes_too_long() {
        let lines = |of: [char; 3]| -> String {
            let turn = |n: usize| format!("{}\n", of[n * n % 7 % 3]);
            (0..300_000).map(turn).collect()
        };
        let (ours, theirs) = (lines(['x', 'y', 'z']), lines(['p', 'q', 'y']));
        let began = Instant::now();
        assert_eq!(merged(&lines(['a', 'y', 'b']), &ours, &theirs), None);
        assert!(began.elapsed() < 60 * MAX_TIME, "{:?}", began.elapsed());
    }

    proptest! {
        #[test]
        fn merge_takes_the_side_that_changed(base in "([abc]\n){0,9}", other in "([abc]\n){0,9}") {
            prop_assert_eq!(merged(&base, &other, &base), Some(other.clone()));
            prop_assert_eq!(merged(&base, &base, &other), Some(other));
        }
    }
}
