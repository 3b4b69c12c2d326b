//! The authors of changes between two places of a session: by file, and by hunk where several
//! people or calls changed a file.

use std::collections::BTreeSet;
use std::ops::Range;
use std::path::{Path, PathBuf};

use similar::DiffTag;

use super::file_change::{MAX_TIME, Text, text};
use crate::core::entry::Record;
use crate::core::relocation::root_after;
use crate::core::rewind::{Author, Changes};
use crate::core::tree::Item;
use crate::engine::{NotRewound, changes_since};
use crate::store::{Store, StoreError, now_ms};
use crate::tools::by_lines;
use crate::workspace::files::FileTimes;

/// Maximum number of changes of a file for which its lines have separate authors.
const MAX_STEPS: usize = 50;

/// The changes between two places of a log, and their authors.
pub struct FileAuthors {
    times: FileTimes,
    /// `None`: the changes are not known.
    changes: Option<Changes>,
}

impl FileAuthors {
    /// Returns the authors of the changes between two places in `records`. `from` is the first and
    /// has the name of its tree.
    ///
    /// # Errors
    /// The store cannot be read.
    pub fn between(
        store: &Store,
        records: &[Record],
        from: (usize, &str),
        to: usize,
    ) -> Result<FileAuthors, NotRewound> {
        let records = records.get(..=to).unwrap_or(records);
        let moved = |record: &Record| record.entry.new_folder().is_some();
        let after = records.get(from.0 + 1..).unwrap_or_default();
        let root = match after.iter().any(moved) {
            true => None,
            false => store.snapshots().tree_root(from.1)?,
        };
        let root = root.map(|root| PathBuf::from(root_after(after, &root.to_string_lossy())));
        let Some(root) = root else {
            return Ok(FileAuthors {
                times: FileTimes::new(Path::new(""), now_ms),
                changes: None,
            });
        };
        let changes = match changes_since(store, records, from.0, from.1, &root) {
            Ok(changes) => Some(changes),
            // A tree between the two is not stored any more.
            Err(NotRewound::Unknown(_)) => None,
            Err(other) => return Err(other),
        };
        let times = FileTimes::new(&root, now_ms);
        Ok(FileAuthors { times, changes })
    }

    fn steps(&self, path: &[u8]) -> Vec<(Author, Option<&Item>)> {
        let changed = |path: &[u8]| self.times.of(path);
        let changes = self.changes.as_ref();
        changes.map_or(Vec::new(), |changes| changes.steps(path, &changed))
    }

    /// Returns everybody who changed a path: "by tool, by hand".
    pub fn of_file(&self, path: &[u8]) -> String {
        let authors = self.steps(path).iter().map(|(author, _)| *author).collect();
        match words(&authors) {
            known if known.is_empty() => Author::Unknown.words().to_string(),
            known => known,
        }
    }

    /// Returns the authors of the lines of a file with several authors. `None`: it has one, or its
    /// contents are not text, or not stored.
    ///
    /// # Errors
    /// The store cannot be read.
    pub fn of_lines(&self, store: &Store, path: &[u8]) -> Result<Option<LineAuthors>, StoreError> {
        let steps = self.steps(path);
        let authors: BTreeSet<Author> = steps.iter().map(|(author, _)| *author).collect();
        let Some(changes) = &self.changes else {
            return Ok(None);
        };
        if authors.len() < 2 || steps.len() > MAX_STEPS {
            return Ok(None);
        }
        let mut texts = vec![text(store, changes.start().0.get(path))?];
        for (_, item) in &steps {
            texts.push(text(store, *item)?);
        }
        let texts: Option<Vec<String>> = texts.into_iter().map(Text::into_lines).collect();
        let authors = steps.iter().map(|(author, _)| *author);
        Ok(texts.map(|texts| LineAuthors::of(&texts, authors)))
    }
}

/// The author who added each line of the newest text, and the one who removed each line of the
/// oldest.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct LineAuthors {
    added: Vec<Option<Author>>,
    removed: Vec<Option<Author>>,
}

impl LineAuthors {
    /// Computes the authors. `texts` starts with the text before all changes, and each author made
    /// the next one.
    fn of(texts: &[String], authors: impl Iterator<Item = Author>) -> LineAuthors {
        let start = texts.first().map_or(0, |text| {
            by_lines(text, text, MAX_TIME)
                .ops()
                .last()
                .map_or(0, |op| op.new_range().end)
        });
        let mut removed = vec![None; start];
        // For each line of the newest text: its number in the first text, or its author.
        let mut lines: Vec<(Option<usize>, Option<Author>)> =
            (0..start).map(|line| (Some(line), None)).collect();
        for (pair, author) in texts.windows(2).zip(authors) {
            let [before, after] = pair else {
                continue;
            };
            let mut next = Vec::new();
            for op in by_lines(before, after, MAX_TIME).ops() {
                let old = lines.get(op.old_range()).unwrap_or_default();
                if op.tag() == DiffTag::Equal {
                    next.extend_from_slice(old);
                    continue;
                }
                for slot in old.iter().filter_map(|(first, _)| *first) {
                    if let Some(slot) = removed.get_mut(slot) {
                        *slot = Some(author);
                    }
                }
                next.extend(op.new_range().map(|_| (None, Some(author))));
            }
            lines = next;
        }
        LineAuthors {
            added: lines.into_iter().map(|(_, author)| author).collect(),
            removed,
        }
    }

    /// Returns the authors of a hunk, given its ranges of removed and added lines.
    pub fn of_hunk(&self, changed: &[(Range<usize>, Range<usize>)]) -> String {
        let mut authors = BTreeSet::new();
        for (old, new) in changed {
            let old = self.removed.get(old.clone()).unwrap_or_default();
            let new = self.added.get(new.clone()).unwrap_or_default();
            authors.extend(old.iter().chain(new).flatten().copied());
        }
        words(&authors)
    }
}

fn words(authors: &BTreeSet<Author>) -> String {
    let words: Vec<&str> = authors.iter().map(|author| author.words()).collect();
    words.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_line_has_the_one_who_added_or_removed_it() {
        let texts = ["a\nb\nc\n", "a\nB\nc\n", "a\nB\nd\n", "x\na\nB\nd"];
        let texts = texts.map(str::to_string);
        let (tool, command, hand) = (Author::Tool, Author::Command, Author::Hand);
        let of = LineAuthors::of(&texts, [tool, command, hand].into_iter());
        assert_eq!(of.removed, [None, Some(tool), Some(command)]);
        assert_eq!(of.added, [Some(hand), None, Some(tool), Some(hand)]);
        assert_eq!(of.of_hunk(&[(1..2, 2..3)]), "by tool");
        assert_eq!(of.of_hunk(&[(1..3, 0..4)]), "by tool, by command, by hand");
        assert_eq!(of.of_hunk(&[(0..1, 1..2)]), "");
    }
}
