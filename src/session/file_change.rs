//! The change of one path between two trees: its lines, and the numbers of added and removed ones.

use std::fmt::Write;
use std::ops::Range;
use std::time::Duration;

use similar::DiffTag;

use crate::core::text::count;
use crate::core::tree::{Item, path_text};
use crate::store::{Store, StoreError};
use crate::tools::by_lines;

/// Maximum size of a file that is compared. A larger one is only named.
const MAX_DIFF_BYTES: usize = 2 * 1024 * 1024;

/// Time limit of a diff. If nearly every line differs, the shortest diff takes minutes. After this
/// time, a longer one is used.
pub(super) const MAX_TIME: Duration = Duration::from_millis(100);

/// Time limit for counting a list of changes. The paths after that have no figures.
pub const COUNTED_FOR: Duration = Duration::from_secs(1);

/// Number of bytes that are searched for a zero byte, which marks a binary file. Git uses the same.
const LOOKED_AT: usize = 8_000;

/// The change of one path.
#[derive(Debug, Clone)]
pub struct FileChange {
    /// Numbers of added and removed lines. `None`: one of the sides is not text.
    pub lines: Option<(usize, usize)>,
    /// Whether the path existed before. `is`: whether it exists after.
    was: bool,
    is: bool,
    old: Text,
    new: Text,
    mode: Option<(u16, u16)>,
}

impl FileChange {
    /// Compares `before` and `after`.
    ///
    /// # Errors
    /// A stored content cannot be read.
    pub fn of(
        store: &Store,
        before: Option<&Item>,
        after: Option<&Item>,
    ) -> Result<FileChange, StoreError> {
        let (old, new) = (text(store, before)?, text(store, after)?);
        let lines = match (&old, &new) {
            (Text::Text(old), Text::Text(new)) => {
                let diff = by_lines(old, new, MAX_TIME);
                let changed = diff.ops().iter().filter(|op| op.tag() != DiffTag::Equal);
                Some(changed.fold((0, 0), |(added, removed), op| {
                    (added + op.new_range().len(), removed + op.old_range().len())
                }))
            }
            _ => None,
        };
        let mode = match (before, after) {
            (Some(Item::File { mode: a, .. }), Some(Item::File { mode: b, .. })) if a != b => {
                Some((*a, *b))
            }
            _ => None,
        };
        Ok(FileChange {
            lines,
            was: before.is_some(),
            is: after.is_some(),
            old,
            new,
            mode,
        })
    }

    /// Returns the change without the path: `+12 −3`.
    pub fn figures(&self) -> String {
        match self.lines {
            Some((added, removed)) => format!("+{added} −{removed}{}", self.mode()),
            None => format!("{} → {}", self.old.words(), self.new.words()),
        }
    }

    /// Returns the change in one line: `src/a.rs  +12 −3`.
    pub fn stat(&self, path: &str) -> String {
        match self.lines {
            Some(_) => format!("{path}  {}", self.figures()),
            None => format!("{path}: {}", self.figures()),
        }
    }

    /// Returns a unified diff like `git diff`. If a side is not text, returns the same as
    /// [`FileChange::stat`].
    pub fn unified(&self, path: &str) -> String {
        self.unified_by(path, |_| String::new())
    }

    /// Returns the same with the author of each hunk. `by` gets the removed and the added lines of
    /// a hunk.
    pub fn unified_by(
        &self,
        path: &str,
        by: impl Fn(&[(Range<usize>, Range<usize>)]) -> String,
    ) -> String {
        let (Text::Text(old), Text::Text(new)) = (&self.old, &self.new) else {
            return self.stat(path);
        };
        let side = |side: char, is: bool| match is {
            // A file outside of the workspace has an absolute path.
            true if path.starts_with('/') => path.to_string(),
            true => format!("{side}/{path}"),
            false => "/dev/null".to_string(),
        };
        let mut text = String::new();
        if self.mode.is_some() {
            let _ = writeln!(text, "{path}:{}", self.mode());
        }
        if self.lines != Some((0, 0)) || !self.was || !self.is {
            let names = (side('a', self.was), side('b', self.is));
            let diff = by_lines(old, new, MAX_TIME);
            for (place, hunk) in diff.unified_diff().iter_hunks().enumerate() {
                if place == 0 {
                    let _ = writeln!(text, "--- {}\n+++ {}", names.0, names.1);
                }
                let ops = hunk.ops().iter().filter(|op| op.tag() != DiffTag::Equal);
                let changed: Vec<_> = ops.map(|op| (op.old_range(), op.new_range())).collect();
                let hunk = hunk.to_string();
                let (head, lines) = hunk.split_once('\n').unwrap_or((&hunk, ""));
                let head = format!("{head} {}", by(&changed));
                let _ = writeln!(text, "{}\n{lines}", head.trim_end());
            }
        }
        text
    }

    /// Returns a change of the mode, in words.
    fn mode(&self) -> String {
        match self.mode {
            Some((a, b)) => format!(" mode {a:04o} → {b:04o}"),
            None => String::new(),
        }
    }
}

pub(super) fn text(store: &Store, item: Option<&Item>) -> Result<Text, StoreError> {
    Ok(match item {
        None => Text::Text(String::new()),
        Some(Item::Link { target }) => Text::Other(format!("a link to {}", path_text(target))),
        Some(Item::Marker { why, bytes, .. }) => match bytes {
            0 => Text::Other(why.words().to_string()),
            bytes => Text::Other(format!("{} ({bytes} bytes)", why.words())),
        },
        Some(Item::File { hash, bytes, .. }) if *bytes > MAX_DIFF_BYTES as u64 => {
            match store.snapshots().has_content(hash)? {
                true => Text::Other(format!("{bytes} bytes")),
                false => Text::lost(),
            }
        }
        Some(Item::File { hash, bytes, .. }) => match store.snapshots().content(hash)? {
            None => Text::lost(),
            Some(content) if content.iter().take(LOOKED_AT).any(|byte| *byte == 0) => {
                Text::Other(format!("binary, {bytes} bytes"))
            }
            Some(content) => Text::Text(String::from_utf8_lossy(&content).into_owned()),
        },
    })
}

/// The displayed form of one side.
#[derive(Debug, Clone)]
pub(super) enum Text {
    Text(String),
    /// A description of something that is not text.
    Other(String),
}

impl Text {
    fn lost() -> Text {
        Text::Other("a content that is not kept any more".to_string())
    }

    /// Returns the text, if there is one.
    pub fn into_lines(self) -> Option<String> {
        match self {
            Text::Text(text) => Some(text),
            Text::Other(_) => None,
        }
    }

    fn words(&self) -> String {
        match self {
            Text::Text(text) if text.is_empty() => "nothing".to_string(),
            Text::Text(text) => count(text.lines().count(), "line"),
            Text::Other(words) => words.clone(),
        }
    }
}
