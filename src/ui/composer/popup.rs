//! The list that opens while a command or a mention is typed: its items, and the text that each
//! item inserts.

use std::borrow::Cow;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::ComposerContext;
use crate::mcp::offers::Resource;
use crate::ui::commands::{self, ListedCommand};
use crate::ui::files::Files;
use crate::ui::offered::{ServerOffers, seen};

/// Lines of a list; more would hide the conversation.
pub(super) const MAX_LINES: usize = 8;

/// Nobody types more of a path.
const MAX_QUERY_BYTES: usize = 256;

/// A mention does not end with one of these, unless it is quoted.
const ENDS_SENTENCE: [char; 9] = ['.', ',', ';', ':', '!', '?', ')', ']', '}'];

/// Maximum number of files that are offered.
const MAX_FILES: usize = 200;

/// The same for a search in all files of the workspace.
const MAX_FOUND: usize = 5 * MAX_LINES;

#[derive(Debug)]
pub(super) struct Popup {
    /// The start of the word that is completed.
    pub start: usize,
    pub items: Vec<Suggestion>,
    pub selected: usize,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Suggestion {
    Command(ListedCommand),
    /// A folder ends with a slash.
    File(String),
    /// A server, after a `/` or a `@`: its prompts or its resources come next.
    Server(char, String),
    /// A resource of the server that is named first.
    Resource(String, Arc<Resource>),
}

impl Suggestion {
    /// Returns the text that replaces the word. After a folder that is not `whole`, completion
    /// continues.
    pub(super) fn text(&self, whole: bool) -> String {
        match self {
            Suggestion::Command(command) => format!("/{} ", command.name()),
            Suggestion::File(path) if path.contains([' ', '\'', '"']) => {
                format!("@\"{}\" ", path.replace('"', "\\\""))
            }
            Suggestion::File(path) if path.ends_with('/') && !whole => format!("@{path}"),
            Suggestion::File(path) => format!("@{path} "),
            Suggestion::Server(sign, name) => format!("{sign}{name}:"),
            Suggestion::Resource(server, resource) => {
                let uri = &resource.uri;
                match uri.contains(char::is_whitespace) || uri.ends_with(ENDS_SENTENCE) {
                    true => format!("@\"{server}:{uri}\" "),
                    false => format!("@{server}:{uri} "),
                }
            }
        }
    }

    /// Returns the name in the list.
    pub(super) fn name(&self) -> String {
        match self {
            Suggestion::Command(command) => format!("/{} {}", command.name(), command.argument()),
            Suggestion::File(path) => path.clone(),
            Suggestion::Server(sign, name) => format!("{sign}{name}:"),
            Suggestion::Resource(server, resource) => seen(&format!("{server}:{}", resource.uri)),
        }
    }

    /// Returns the description next to the name.
    pub(super) fn help(&self) -> Cow<'_, str> {
        match self {
            Suggestion::Command(command) => command.help().into(),
            Suggestion::File(_) => "".into(),
            Suggestion::Server('/', _) => "prompts of this MCP server".into(),
            Suggestion::Server(..) => "resources of this MCP server".into(),
            Suggestion::Resource(_, resource) => {
                let said = [&resource.name, &resource.description];
                let said = said.map(|text| seen(text)).into_iter();
                let said: Vec<String> = said.filter(|text| !text.is_empty()).collect();
                said.join(" · ").into()
            }
        }
    }
}

impl Popup {
    /// Opens the list for a text that the cursor splits into these two parts.
    pub(super) fn open(before: &str, after: &str, around: &ComposerContext<'_>) -> Option<Popup> {
        if !after.is_empty() && !after.starts_with(char::is_whitespace) {
            return None;
        }
        let (start, items) =
            command_items(before, around).or_else(|| mention_items(before, around))?;
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

    /// Returns the lines that are shown, and the index of the selected one.
    pub(super) fn lines(&self) -> (&[Suggestion], usize) {
        let first = (self.selected + 1).saturating_sub(MAX_LINES);
        let last = (first + MAX_LINES).min(self.items.len());
        (&self.items[first..last], self.selected - first)
    }

    /// Returns the number of items, and how to see all. `None`: all are shown.
    pub(super) fn more(&self) -> Option<String> {
        let count = self.items.len();
        let is_file = |item: &&Suggestion| matches!(item, Suggestion::File(_));
        let files = self.items.iter().filter(is_file).count();
        let what = match files {
            MAX_FOUND | MAX_FILES.. => format!("{count} or more files match · ↑↓ moves"),
            _ if count == MAX_FILES => format!("{count} or more match · ↑↓ moves"),
            _ => format!("{count} match · ↑↓ shows all"),
        };
        (count > MAX_LINES).then(|| format!("{what} · type to narrow"))
    }
}

fn command_items(before: &str, around: &ComposerContext<'_>) -> Option<(usize, Vec<Suggestion>)> {
    let word = before.strip_prefix('/')?;
    let is_name = commands::is_command(before) && !word.contains(char::is_whitespace);
    is_name.then(|| {
        let known = around.commands.unwrap_or_default();
        let found = match around.offered.named(word) {
            None => commands::complete(word, known),
            Some(server) => {
                let of_server = around.offered.prompts(server).iter();
                let all: Vec<_> = known.iter().chain(of_server).cloned().collect();
                let mut found = commands::complete(word, &all);
                found.retain(|listed| listed.name().starts_with(&format!("{server}:")));
                found
            }
        };
        let servers = around.offered.beginning(word);
        let servers = servers.map(|name| Suggestion::Server('/', name.to_string()));
        let servers: Vec<Suggestion> = servers.collect();
        // The name of a server is nearer than a command that only resembles the word.
        let is_command = found.iter().any(|listed| listed.name().starts_with(word));
        let at = if is_command { found.len() } else { 0 };
        let mut found: Vec<Suggestion> = found.into_iter().map(Suggestion::Command).collect();
        found.splice(at..at, servers);
        (0, found)
    })
}

/// Returns the server whose prompts or resources are being typed.
pub(super) fn server<'a>(before: &'a str, offered: &ServerOffers) -> Option<&'a str> {
    let word = match before.strip_prefix('/') {
        Some(word) => word,
        None => &before[mention(before)? + 1..],
    };
    offered
        .named(word)
        .filter(|_| !word.contains(char::is_whitespace))
}

/// Returns files and the resources of servers.
fn mention_items(before: &str, around: &ComposerContext<'_>) -> Option<(usize, Vec<Suggestion>)> {
    let start = mention(before)?;
    let query = &before[start + 1..];
    if query.len() > MAX_QUERY_BYTES {
        return None;
    }
    if let Some(server) = around.offered.named(query) {
        return Some((start, resources(server, query, around.offered)));
    }
    let servers = around.offered.beginning(query);
    let servers = servers.map(|name| Suggestion::Server('@', name.to_string()));
    let servers: Vec<Suggestion> = servers.collect();
    match file_items(before, around) {
        Some((start, mut files)) => {
            // The name of a server is more likely meant than a file.
            files.splice(0..0, servers);
            Some((start, files))
        }
        None => (!servers.is_empty()).then_some((start, servers)),
    }
}

/// Returns the resources whose address or name contains the words after the colon.
fn resources(server: &str, query: &str, offered: &ServerOffers) -> Vec<Suggestion> {
    let wanted = query[server.len() + 1..].to_lowercase();
    let all = offered.resources(server);
    // Typed in full: there is nothing to complete.
    if all
        .iter()
        .any(|resource| resource.uri.to_lowercase() == wanted)
    {
        return Vec::new();
    }
    let fits = |resource: &&Arc<Resource>| {
        let texts = [&resource.uri, &resource.name];
        texts
            .iter()
            .any(|text| text.to_lowercase().contains(&wanted))
    };
    let found = all.iter().filter(fits).take(MAX_FILES);
    let found =
        found.map(|resource| Suggestion::Resource(server.to_string(), Arc::clone(resource)));
    found.collect()
}

/// Returns the position of the `@` that the last word begins with.
pub(super) fn mention(before: &str) -> Option<usize> {
    let start = before.rfind(char::is_whitespace).map_or(0, |at| {
        at + before[at..].chars().next().map_or(1, char::len_utf8)
    });
    before[start..].starts_with('@').then_some(start)
}

fn file_items(before: &str, around: &ComposerContext<'_>) -> Option<(usize, Vec<Suggestion>)> {
    let start = mention(before)?;
    let query = &before[start + 1..];
    if query.len() > MAX_QUERY_BYTES || query.starts_with('"') {
        return None;
    }
    let files = around.files?;
    let found = match outside(query) {
        Some(written) => elsewhere(written, query, files, around),
        None if query.ends_with('/') => files.below(query, MAX_FILES),
        None => files.search(query, MAX_FOUND),
    };
    // Typed in full: there is nothing to complete, but in a folder.
    let whole = found.iter().any(|path| path == query);
    if whole && !query.ends_with('/') {
        return None;
    }
    // The folder is empty, so the list would only be in the way.
    if found.iter().all(|path| path == query) {
        return None;
    }
    Some((start, found.into_iter().map(Suggestion::File).collect()))
}

/// Returns the folder of a path outside of the working folder, as it is written.
fn outside(query: &str) -> Option<&str> {
    match query {
        "~" => return Some("~/"),
        ".." => return Some("../"),
        _ => {}
    }
    let folder = &query[..query.rfind('/')? + 1];
    let is_elsewhere = ["/", "~/", "./", "../"]
        .iter()
        .any(|start| folder.starts_with(start));
    is_elsewhere.then_some(folder)
}

/// Returns the names in the folder `written` that begin as the query does. The folder itself comes
/// first when no part of a name is typed.
fn elsewhere(
    written: &str,
    query: &str,
    files: &Files,
    around: &ComposerContext<'_>,
) -> Vec<String> {
    let folder = match (written.strip_prefix("~/"), around.home) {
        (Some(below), Some(home)) => home.join(below),
        (Some(_), None) => return Vec::new(),
        (None, _) => around.folder.join(Path::new(written)),
    };
    let folder: PathBuf = folder.components().collect();
    let prefix = query
        .strip_prefix(written)
        .unwrap_or_default()
        .to_lowercase();
    let begins = |name: &&String| {
        name.to_lowercase().starts_with(&prefix)
            && (!name.starts_with('.') || prefix.starts_with('.'))
    };
    let names = files.names(&folder);
    let below = names.iter().filter(begins).take(MAX_FILES);
    let below = below.map(|name| format!("{written}{name}"));
    let itself = prefix.is_empty().then(|| written.to_string());
    itself.into_iter().chain(below).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn around() -> ComposerContext<'static> {
        ComposerContext {
            editing: false,
            files: None,
            offered: &crate::ui::offered::NOTHING,
            commands: Some(&[]),
            folder: Path::new("/nowhere"),
            home: None,
            working: false,
            queued: false,
        }
    }

    #[test]
    fn the_popup_shows_how_many_items_are_hidden() {
        let popup = Popup::open("/", "", &around()).unwrap();
        let hidden = popup.items.len() - MAX_LINES;
        let more = format!(
            "{} match · ↑↓ shows all · type to narrow",
            hidden + MAX_LINES
        );
        assert_eq!(popup.more(), Some(more));
        assert_eq!(Popup::open("/mode", "", &around()).unwrap().more(), None);
    }

    #[test]
    fn a_search_that_stopped_says_or_more() {
        let of = |count| Popup {
            start: 0,
            items: vec![Suggestion::File("a.rs".into()); count],
            selected: 0,
        };
        let more = "40 or more files match · ↑↓ moves · type to narrow";
        assert_eq!(of(MAX_FOUND).more().as_deref(), Some(more));
        let all = "39 match · ↑↓ shows all · type to narrow";
        assert_eq!(of(MAX_FOUND - 1).more().as_deref(), Some(all));
    }

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
            let popup = Popup::open(before, after, &around());
            assert_eq!(popup.is_some(), open, "{before:?} {after:?}");
        }
        assert_eq!(mention("see @src"), Some(4));
        assert_eq!(mention("日\u{3000}@src"), Some("日\u{3000}".len()));
        assert_eq!(mention("me@home"), None);
    }

    #[test]
    fn the_list_goes_round_and_shows_the_selected_line() {
        let mut popup = Popup::open("/", "", &around()).unwrap();
        popup.previous();
        assert_eq!(popup.selected, popup.items.len() - 1);
        let (lines, selected) = popup.lines();
        assert_eq!((lines.len(), selected), (MAX_LINES, MAX_LINES - 1));
        popup.next();
        assert_eq!(popup.lines().1, 0);
    }

    #[test]
    fn a_path_with_blanks_is_quoted() {
        let text = |path: &str, whole| Suggestion::File(path.into()).text(whole);
        assert_eq!(text("src/a.rs", false), "@src/a.rs ");
        assert_eq!(text("a b.md", false), "@\"a b.md\" ");
        assert_eq!(text("src/", false), "@src/");
        assert_eq!(text("src/", true), "@src/ ");
    }
}
