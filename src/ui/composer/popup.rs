//! The list that opens while a command or a mention is typed: what is in it, and what
//! taking one of its lines puts into the text.

use crate::ui::commands::{self, Entry};
use crate::ui::files::Files;

/// Lines of a list; more would hide the conversation.
pub(super) const MAX_LINES: usize = 8;

/// Nobody types more of a path.
const MAX_QUERY_BYTES: usize = 256;

#[derive(Debug)]
pub(super) struct Popup {
    /// Where the word that is completed begins.
    pub start: usize,
    pub items: Vec<Suggestion>,
    pub selected: usize,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Suggestion {
    Command(&'static Entry),
    File(String),
}

impl Suggestion {
    /// What is put in the place of the word.
    pub(super) fn text(&self) -> String {
        match self {
            Suggestion::Command(entry) => format!("/{} ", entry.name),
            Suggestion::File(path) if path.contains([' ', '\'', '"']) => {
                format!("@\"{}\" ", path.replace('"', "\\\""))
            }
            Suggestion::File(path) => format!("@{path} "),
        }
    }
}

impl Popup {
    /// The list for a text whose cursor stands between the two parts.
    pub(super) fn open(before: &str, after: &str, files: Option<&Files>) -> Option<Popup> {
        if !after.is_empty() && !after.starts_with(char::is_whitespace) {
            return None;
        }
        let (start, items) = command_items(before).or_else(|| file_items(before, files?))?;
        (!items.is_empty()).then_some(Popup {
            start,
            items,
            selected: 0,
        })
    }

    pub(super) fn next(&mut self) {
        self.selected = (self.selected + 1) % self.items.len().max(1);
    }

    pub(super) fn previous(&mut self) {
        let count = self.items.len().max(1);
        self.selected = (self.selected + count - 1) % count;
    }

    pub(super) fn selection(&self) -> Option<&Suggestion> {
        self.items.get(self.selected)
    }

    /// The lines that are shown, and which of them is the selected one.
    pub(super) fn lines(&self) -> (&[Suggestion], usize) {
        let first = (self.selected + 1).saturating_sub(MAX_LINES);
        let last = (first + MAX_LINES).min(self.items.len());
        (&self.items[first..last], self.selected - first)
    }
}

fn command_items(before: &str) -> Option<(usize, Vec<Suggestion>)> {
    let word = before.strip_prefix('/')?;
    let is_name = commands::is_command(before) && !word.contains(char::is_whitespace);
    is_name.then(|| {
        let found = commands::complete(word).into_iter();
        (0, found.map(Suggestion::Command).collect())
    })
}

/// The place of the `@` that the last word begins with.
pub(super) fn mention(before: &str) -> Option<usize> {
    let start = before.rfind(char::is_whitespace).map_or(0, |at| {
        at + before[at..].chars().next().map_or(1, char::len_utf8)
    });
    before[start..].starts_with('@').then_some(start)
}

fn file_items(before: &str, files: &Files) -> Option<(usize, Vec<Suggestion>)> {
    let start = mention(before)?;
    let query = &before[start + 1..];
    if query.len() > MAX_QUERY_BYTES || query.starts_with('"') {
        return None;
    }
    let found = files.search(query, 5 * MAX_LINES);
    // Typed in full: there is nothing to complete.
    let whole = found.iter().any(|path| path == query);
    (!whole).then(|| (start, found.into_iter().map(Suggestion::File).collect()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_opens_for_a_word_at_the_cursor() {
        for (before, after, open) in [
            ("/", "", true),
            ("/mod", "", true),
            ("/mod", " gpt", true),
            ("/mod", "el", false),
            ("/model ", "", false),
            ("/usr/bin", "", false),
            ("a /mod", "", false),
            ("/zzz", "", false),
            ("", "", false),
        ] {
            let popup = Popup::open(before, after, None);
            assert_eq!(popup.is_some(), open, "{before:?} {after:?}");
        }
        assert_eq!(mention("see @src"), Some(4));
        assert_eq!(mention("日\u{3000}@src"), Some("日\u{3000}".len()));
        assert_eq!(mention("me@home"), None);
    }

    #[test]
    fn the_list_goes_round_and_shows_the_selected_line() {
        let mut popup = Popup::open("/", "", None).unwrap();
        popup.previous();
        assert_eq!(popup.selected, popup.items.len() - 1);
        let (lines, selected) = popup.lines();
        assert_eq!((lines.len(), selected), (MAX_LINES, MAX_LINES - 1));
        popup.next();
        assert_eq!(popup.lines().1, 0);
    }

    #[test]
    fn a_path_with_blanks_is_quoted() {
        assert_eq!(Suggestion::File("src/a.rs".into()).text(), "@src/a.rs ");
        assert_eq!(Suggestion::File("a b.md".into()).text(), "@\"a b.md\" ");
    }
}
