//! Paths of entries that were recorded before the folder of their session was moved.
//!
//! Entries are never edited: what reads an older path translates it. Paths below a root need no
//! translation, since the files below it are the same. Deliberately absent: files that snapshots know
//! by their absolute path, since only a tool wrote them. They count as files of another folder.

use std::borrow::Cow;

use super::entry::{Entry, Guard, RecognisedBy, Record};
use super::path;

/// The root of a workspace before and after a move, with the same files in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RootMove<'a> {
    pub from: &'a str,
    pub to: &'a str,
}

impl<'a> RootMove<'a> {
    /// Returns the move that an entry records. `None` also for a folder that has other files.
    pub fn of(entry: &'a Entry) -> Option<RootMove<'a>> {
        match entry {
            Entry::Relocated {
                from_root: from,
                root: to,
                by,
                ..
            } => (*by != RecognisedBy::Request).then_some(RootMove { from, to }),
            _ => None,
        }
    }

    /// Returns a path after this move. A path outside of the root is unchanged.
    pub fn path(self, path: &str) -> String {
        match path::below(path, self.from) {
            Some("") => self.to.to_string(),
            Some(below) => path::join(self.to, below),
            None => path.to_string(),
        }
    }

    /// Changes the path of a file that a call replaces.
    pub fn guard(self, guard: &mut Guard) {
        if let Guard::Checked { path, .. } = guard {
            *path = self.path(path);
        }
    }
}

/// Returns the root of a workspace after the moves in these records.
pub fn root_after(records: &[Record], root: &str) -> String {
    let moves = records.iter().filter_map(|r| RootMove::of(&r.entry));
    let root = moves.fold(
        root,
        |at, moved| if at == moved.from { moved.to } else { at },
    );
    root.to_string()
}

/// Returns a log in which the files that calls replaced have their paths after all moves.
pub fn with_paths_after_moves(records: &[Record]) -> Cow<'_, [Record]> {
    if !records.iter().any(|r| RootMove::of(&r.entry).is_some()) {
        return Cow::Borrowed(records);
    }
    let mut translated = records.to_vec();
    for (place, record) in records.iter().enumerate() {
        let Some(moved) = RootMove::of(&record.entry) else {
            continue;
        };
        for earlier in translated.iter_mut().take(place) {
            if let Entry::Started { guard, .. } = &mut earlier.entry {
                moved.guard(guard);
            }
        }
    }
    Cow::Owned(translated)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_paths_below_the_old_root_are_translated() {
        let moved = RootMove {
            from: "/a",
            to: "/c/d",
        };
        for (path, after) in [
            ("/a/x", "/c/d/x"),
            ("/a", "/c/d"),
            ("/ab/x", "/ab/x"),
            ("a/x", "a/x"),
            ("/e/a/x", "/e/a/x"),
        ] {
            assert_eq!(moved.path(path), after, "{path}");
        }
    }

    #[test]
    fn a_root_follows_its_moves_in_their_order() {
        let relocated = |from: &str, to: &str, by| Record {
            seq: 0,
            at_ms: 0,
            entry: Entry::Relocated {
                from: from.into(),
                folder: to.into(),
                from_root: from.into(),
                root: to.into(),
                by,
            },
        };
        let (files, request) = (RecognisedBy::Files, RecognisedBy::Request);
        let records = [relocated("/a", "/b", files), relocated("/b", "/c", files)];
        assert_eq!(root_after(&records, "/a"), "/c");
        assert_eq!(root_after(&records[1..], "/a"), "/a");
        assert_eq!(root_after(&[relocated("/a", "/b", request)], "/a"), "/a");
    }
}
