//! The place of an edit in its file. It is found with the content before the edit, which is stored
//! under the hash in the call's `Started`.
//!
//! Invariant: a place is given only if the edit turns that content into the content that the call
//! recorded, byte for byte.

use crate::core::tree::ContentHash;
use crate::store::{Store, StoreError};
use crate::tools::ShownBody;

/// Maximum sizes of a content, and of the lines from the first change to the last, for which the
/// place is found.
const MAX_FILE_BYTES: usize = 4 << 20;
const MAX_PLACED_BYTES: usize = 256 << 10;

/// Number of lines of context on each side.
const AROUND: usize = 3;

/// A query for the place of an edit, with the hashes of the file before and after it from the
/// call's `Started`.
#[derive(Debug, Clone, PartialEq)]
pub struct EditQuery {
    pub before: String,
    pub after: String,
    pub body: ShownBody,
}

/// The changed lines of a file, with some context.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlacedEdit {
    /// Number of lines of the file before these.
    pub first: usize,
    pub before: String,
    pub after: String,
}

/// The place of an edit, if it is known, with the hashes of its file before and after.
pub type EditPlace = ((String, String), Option<PlacedEdit>);

/// Returns the places of these edits. If a content cannot be read, its place is unknown.
pub fn edit_places(store: Option<&Store>, queries: Vec<EditQuery>) -> Vec<EditPlace> {
    let place = |query: &EditQuery| {
        placed_edit(store?, query).unwrap_or_else(|error| {
            tracing::warn!(%error, "where an edit was made cannot be read");
            None
        })
    };
    let places = queries.into_iter().map(|query| {
        let place = place(&query);
        ((query.before, query.after), place)
    });
    places.collect()
}

fn placed_edit(store: &Store, query: &EditQuery) -> Result<Option<PlacedEdit>, StoreError> {
    let Some(hash) = content_hash(&query.before) else {
        return Ok(None);
    };
    let Some(before) = store.snapshots().content(&hash)? else {
        return Ok(None);
    };
    if before.len() > MAX_FILE_BYTES {
        return Ok(None);
    }
    let Ok(before) = String::from_utf8(before) else {
        return Ok(None);
    };
    let after = query.body.text_after(&before);
    let is_it = |after: &String| blake3::hash(after.as_bytes()).to_hex().as_str() == query.after;
    Ok(after
        .filter(is_it)
        .and_then(|after| PlacedEdit::of(&before, &after)))
}

fn content_hash(hex: &str) -> Option<ContentHash> {
    Some(*blake3::Hash::from_hex(hex).ok()?.as_bytes())
}

impl PlacedEdit {
    /// Returns the differing lines with some context. `None`: they are too many.
    fn of(before: &str, after: &str) -> Option<PlacedEdit> {
        let (old, new): (Vec<&str>, Vec<&str>) = (
            before.split_inclusive('\n').collect(),
            after.split_inclusive('\n').collect(),
        );
        let pairs = old.iter().zip(&new);
        let same = pairs.take_while(|(old, new)| old == new).count();
        let first = same.saturating_sub(AROUND);
        let pairs = old[same..].iter().rev().zip(new[same..].iter().rev());
        let behind = pairs.take_while(|(old, new)| old == new).count();
        let left_out = behind.saturating_sub(AROUND);
        let placed = PlacedEdit {
            first,
            before: old[first..old.len() - left_out].concat(),
            after: new[first..new.len() - left_out].concat(),
        };
        let is_short = placed.before.len().max(placed.after.len()) <= MAX_PLACED_BYTES;
        is_short.then_some(placed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_lines_around_the_change_are_kept() {
        let old: String = (1..=20).map(|n| format!("line {n}\n")).collect();
        let placed = PlacedEdit::of(&old, &old.replace("line 10\n", "new\nlines\n")).unwrap();
        assert_eq!(placed.first, 6);
        assert_eq!(
            placed.before,
            "line 7\nline 8\nline 9\nline 10\nline 11\nline 12\nline 13\n"
        );
        assert_eq!(
            placed.after,
            placed.before.replace("line 10\n", "new\nlines\n")
        );
        let at_the_ends = PlacedEdit::of("a", "").unwrap();
        assert_eq!((at_the_ends.first, at_the_ends.after.as_str()), (0, ""));
        // Repeated lines are not counted twice.
        let repeated = PlacedEdit::of("a\na\n", "a\n").unwrap();
        assert_eq!(
            (repeated.before.as_str(), repeated.after.as_str()),
            ("a\na\n", "a\n")
        );
    }

    #[test]
    fn a_change_of_very_many_lines_has_no_place() {
        let long = "x\n".repeat(MAX_PLACED_BYTES);
        assert_eq!(PlacedEdit::of("", &long), None);
        assert!(PlacedEdit::of(&long, &format!("{long}y")).is_some());
    }
}
