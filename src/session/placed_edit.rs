//! Where in its file an edit was made: from the content that the file had before it, which is kept
//! under the hash that the call was begun with.
//!
//! Invariant: a place is only given where the edit makes of that content what the call was recorded
//! to make of it, byte for byte.

use crate::core::tree::ContentHash;
use crate::store::{Store, StoreError};
use crate::tools::{Body, edited_text};

/// Of longer contents, and of changes that lie further apart, the place is not known.
const MAX_FILE_BYTES: usize = 4 << 20;
const MAX_PLACED_BYTES: usize = 256 << 10;

/// Lines around the change that are kept with it.
const AROUND: usize = 3;

/// What a call replaced: hashes of the file before and after it, as its `Started` has them.
#[derive(Debug, Clone, PartialEq)]
pub struct EditQuery {
    pub before: String,
    pub after: String,
    pub body: Body,
}

/// The lines of a file around what an edit changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlacedEdit {
    /// Lines of the file before these.
    pub first: usize,
    pub before: String,
    pub after: String,
}

/// What is known of an edit, by the hashes of its file before and after.
pub type EditPlace = ((String, String), Option<PlacedEdit>);

/// Where these edits were made. What cannot be read is not known.
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
    let Some(before) = store.content(&hash)? else {
        return Ok(None);
    };
    if before.len() > MAX_FILE_BYTES {
        return Ok(None);
    }
    let Ok(before) = String::from_utf8(before) else {
        return Ok(None);
    };
    let after = match &query.body {
        Body::Edits { edits, .. } => edited_text(edits, &before),
        Body::File { content, .. } => Some(content.clone()),
        Body::Subject | Body::Plan(_) | Body::Command { .. } | Body::Served { .. } => None,
    };
    let is_it = |after: &String| blake3::hash(after.as_bytes()).to_hex().as_str() == query.after;
    Ok(after
        .filter(is_it)
        .and_then(|after| PlacedEdit::of(&before, &after)))
}

fn content_hash(hex: &str) -> Option<ContentHash> {
    Some(*blake3::Hash::from_hex(hex).ok()?.as_bytes())
}

impl PlacedEdit {
    /// The lines that differ, with some around them. `None`: they are too many.
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
        // What repeats itself is not counted twice.
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
