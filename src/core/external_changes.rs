//! Finds files that the model has read and that were changed outside of rewake, to report them to
//! the model.
//!
//! A difference between two recorded trees is an outside change if no call can have made it. It is
//! derived from the log and from trees. So a change that was not reported before a crash is
//! reported after it, and no change is reported twice.

use std::collections::BTreeMap;

use super::entry::{About, Entry, SaveReason, Seq};
use super::file_name::path_text;
use super::seen::SeenFile;
use super::text::one_line;
use super::tree::{Change, Delta, Item};

/// Maximum number of files that a note names.
const MAX_PATHS: usize = 20;
const PATH_CHARS: usize = 200;

/// Maximum number of outside changes that are tracked. An edit of a file that changed is refused
/// all the same.
const MAX_CHANGES: usize = 1_000;

/// A change of the files from one tree to another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutsideChange {
    /// The entry that names the later tree.
    pub at: Seq,
    /// `None`: it is the first tree of the log.
    pub before: Option<String>,
    pub tree: String,
}

/// The outside changes that were not reported yet.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ExternalChanges {
    changes: Vec<OutsideChange>,
    /// The entry at which the model last read or wrote each file.
    known_at: BTreeMap<String, Seq>,
}

impl ExternalChanges {
    /// Folds an entry. `last` is the previous tree. `is_ours` means that a call or command of the
    /// session has run since then, or runs.
    pub(super) fn follow(&mut self, at: Seq, entry: &Entry, last: Option<&str>, is_ours: bool) {
        match entry {
            Entry::Saved {
                reason: SaveReason::Files,
                tree: Some(tree),
                ..
            } if !is_ours && last != Some(tree) => {
                if self.changes.len() >= MAX_CHANGES {
                    self.changes.remove(0);
                }
                self.changes.push(OutsideChange {
                    at,
                    before: last.map(String::from),
                    tree: tree.clone(),
                });
            }
            Entry::Noted {
                about: Some(About::FilesChanged { .. }),
                ..
            } => self.changes.clear(),
            _ => {}
        }
    }

    /// Notes that the model knows the file's current content.
    pub(super) fn known(&mut self, path: &str, at: Seq) {
        self.known_at.insert(path.to_string(), at);
    }

    /// Returns the changes recorded after an entry.
    pub fn since(&self, seq: Seq) -> impl Iterator<Item = &OutsideChange> {
        self.changes.iter().filter(move |change| change.at > seq)
    }

    /// Returns the note about changes, each with the entry that recorded it, oldest first. `seen`
    /// has the files that the model knows. Returns `None` if the model knows
    /// none of the changed files.
    pub fn note(
        &self,
        changes: &[(Seq, Delta)],
        seen: &BTreeMap<String, SeenFile>,
        root: &str,
    ) -> Option<Entry> {
        let mut newest: BTreeMap<&[u8], &Change> = BTreeMap::new();
        for (at, delta) in changes {
            for (path, change) in &delta.0 {
                let absolute = absolute(root, path);
                let known_at = absolute.and_then(|path| self.known_at.get(&path));
                if known_at.is_some_and(|known_at| known_at < at) {
                    newest.insert(path, change);
                }
            }
        }
        let named = newest.iter().filter_map(|(path, change)| {
            let known = seen.get(&absolute(root, path)?)?;
            let text = one_line(&path_text(path), PATH_CHARS);
            match change {
                Change::Gone { left: true } => None,
                Change::Gone { left: false } => Some(format!("{text} (removed)")),
                Change::Put { item, .. } => {
                    (hash(item).as_ref() != Some(&known.hash)).then_some(text)
                }
            }
        });
        let mut paths: Vec<String> = named.collect();
        let more = paths.len().saturating_sub(MAX_PATHS) as u64;
        paths.truncate(MAX_PATHS);
        (!paths.is_empty()).then(|| Entry::Noted {
            text: text(&paths, more),
            about: Some(About::FilesChanged { paths, more }),
        })
    }
}

/// Returns the path as the model's files are named. `None`: it is not text, so the model cannot
/// have read the file.
fn absolute(root: &str, path: &[u8]) -> Option<String> {
    let path = std::str::from_utf8(path).ok()?;
    Some(if path.starts_with('/') {
        path.to_string()
    } else {
        format!("{}/{path}", root.trim_end_matches('/'))
    })
}

fn text(paths: &[String], more: u64) -> String {
    let them = if paths.len() > 1 { "them" } else { "it" };
    format!(
        "changed outside of rewake since you read {them}: {}; read {them} again before you edit.",
        with_more(paths, more)
    )
}

/// Joins the paths of a note.
pub fn with_more(paths: &[String], more: u64) -> String {
    match more {
        0 => paths.join(", "),
        more => format!("{} and {more} more", paths.join(", ")),
    }
}

fn hash(item: &Item) -> Option<String> {
    let hash = match item {
        Item::File { hash, .. } => Some(hash),
        Item::Marker { hash, .. } => hash.as_ref(),
        Item::Link { .. } => None,
    };
    hash.map(|hash| hash.iter().map(|byte| format!("{byte:02x}")).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    const READ: Seq = 5;

    type Changed = (Vec<u8>, Change);

    fn file(content: &str) -> Item {
        Item::File {
            mode: 0o644,
            hash: [content.as_bytes()[0]; 32],
            bytes: 1,
        }
    }

    fn put(path: &str, content: &str) -> Changed {
        (path.as_bytes().to_vec(), Change::put(file(content)))
    }

    fn gone(path: &str, left: bool) -> Changed {
        (path.as_bytes().to_vec(), Change::Gone { left })
    }

    /// The note when a, b and the others of `/w` were read with the content "1".
    fn note(changes: &[(Seq, Vec<Changed>)], read: &[String]) -> Option<String> {
        let mut outside = ExternalChanges::default();
        let mut seen = BTreeMap::new();
        for path in read {
            outside.known(path, READ);
            seen.insert(path.clone(), SeenFile::whole("31".repeat(32)));
        }
        let delta = |of: &Vec<_>| Delta(of.iter().cloned().collect());
        let changes: Vec<_> = changes.iter().map(|(at, of)| (*at, delta(of))).collect();
        match outside.note(&changes, &seen, "/w")? {
            Entry::Noted { text, .. } => Some(text),
            other => panic!("{other:?}"),
        }
    }

    fn read() -> Vec<String> {
        ["/w/a", "/w/b", "/w/c", "/out"].map(String::from).to_vec()
    }

    #[test]
    fn files_changed_after_they_were_read_are_reported() {
        let changed = vec![
            put("a", "2"),
            gone("b", false),
            gone("c", true),
            put("unread", "2"),
            put("/out", "2"),
        ];
        assert_eq!(
            note(&[(9, changed)], &read()).unwrap(),
            "changed outside of rewake since you read them: /out, a, b (removed); read them again before you edit."
        );
        assert_eq!(
            note(&[(9, vec![put("a", "2")])], &read()).unwrap(),
            "changed outside of rewake since you read it: a; read it again before you edit."
        );
    }

    #[test]
    fn files_read_again_or_changed_back_are_not_reported() {
        assert_eq!(note(&[(4, vec![put("a", "2")])], &read()), None);
        let back = [(6, vec![put("a", "2")]), (7, vec![put("a", "1")])];
        assert_eq!(note(&back, &read()), None);
        assert_eq!(note(&[], &read()), None);
    }

    #[test]
    fn a_note_is_short_whatever_changed() {
        let name = |n: usize| format!("{n:03}\n{}", "x".repeat(3_000));
        let all: Vec<String> = (0..300).map(name).collect();
        let changed = all.iter().map(|name| put(name, "2")).collect();
        let read: Vec<String> = all.iter().map(|name| format!("/w/{name}")).collect();
        let text = note(&[(9, changed)], &read).unwrap();
        assert!(text.contains(" and 280 more; read them again") && text.contains("\"000\\nxxx"));
        assert!(text.len() < 20 * 300 && text.lines().count() == 1, "{text}");
    }

    #[test]
    fn only_what_nothing_of_ours_can_have_changed_is_outside_and_it_is_told_once() {
        let mut outside = ExternalChanges::default();
        let saved = |tree: &str| Entry::Saved {
            reason: SaveReason::Files,
            tree: Some(tree.into()),
            why: None,
            clock: None,
        };
        // After a call, and a tree that is the same.
        outside.follow(2, &saved("b"), Some("a"), true);
        outside.follow(2, &saved("b"), None, true);
        outside.follow(3, &saved("b"), Some("b"), false);
        assert_eq!(outside.since(0).count(), 0);
        outside.follow(3, &saved("b"), None, false);
        outside.follow(4, &saved("c"), Some("b"), false);
        assert_eq!(outside.since(0).map(|c| c.at).collect::<Vec<_>>(), [3, 4]);
        assert_eq!(outside.since(4).count(), 0);
        let about = Some(About::FilesChanged {
            paths: vec!["x".into()],
            more: 0,
        });
        let text = String::new();
        outside.follow(5, &Entry::Noted { text, about }, Some("c"), false);
        assert_eq!(outside.since(0).count(), 0);
        for at in 0..2_000 {
            outside.follow(at, &saved(&format!("{at}")), Some("before"), false);
        }
        assert_eq!(outside.since(0).count(), MAX_CHANGES);
    }
}
