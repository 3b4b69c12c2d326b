//! The help: the keys and commands, from the one key table and the one table of commands.

use std::sync::Arc;

use super::{InputBox, Overlay, Prompts};
use crate::ui::commands::{Custom, commands};
use crate::ui::keys::{self, Action, Group, Keymap};
use crate::ui::overlay::{KEY_ENTRY_KEYS, Section, VIEWER_KEYS, Viewer};
use crate::ui::text::clean_line;
use crate::ui::transcript::SEARCH_KEYS;

/// Suffix for keys that type a character unless the box is empty.
const NOTHING_TYPED: &str = " (nothing typed)";

/// The keys at the top of the help.
const USUAL_KEYS: [Action; 6] = [
    Action::Submit,
    Action::Newline,
    Action::Interrupt,
    Action::CycleMode,
    Action::ToggleExpand,
    Action::Rewind,
];

impl Prompts {
    /// Shows the keys and commands over everything else. Those of what is in front come first.
    pub(super) fn show_help(&mut self, input: &InputBox) {
        let mut sheet = help_sheet(input.custom_commands(), &input.composer.keys.map);
        let is_listing = input.composer.has_list() || input.composer.is_searching();
        let lists = sheet.iter().position(|s| s.title == Group::Lists.title());
        if let Some(at) = lists.filter(|_| is_listing) {
            sheet[..=at].rotate_right(1);
        }
        sheet.splice(0..0, self.front_keys());
        let mut help = Viewer::new("keys and commands", Vec::new());
        help.sheet = sheet;
        self.help = Some(help);
    }

    /// Returns whether `?` is text for what is over the conversation. `has_words`: the box has
    /// some.
    pub(super) fn takes_text(&self, has_words: bool) -> bool {
        match &self.overlay {
            Overlay::Picker(picker) => !picker.typed.is_empty(),
            Overlay::History(pane) => pane.takes_text(),
            Overlay::Search(search) => !search.words.is_empty(),
            Overlay::Key(_) | Overlay::Trust(_) | Overlay::Confirm { .. } => true,
            Overlay::Card(_) | Overlay::FirstRun(_) => has_words,
            Overlay::Rewind(pane) => has_words && !pane.shows_diff(),
            Overlay::None | Overlay::Viewer(_) | Overlay::Review(_) => false,
        }
    }

    /// Returns the keys of the prompt, question or list in front of the conversation.
    fn front_keys(&self) -> Option<Section> {
        let (title, keys) = match &self.overlay {
            Overlay::Card(_) => ("Unfinished sessions", CARD_KEYS.to_string()),
            Overlay::FirstRun(first) => ("A model", first.keys().to_string()),
            Overlay::Key(_) => ("The key", KEY_ENTRY_KEYS.to_string()),
            Overlay::Picker(picker) => (picker.title.as_str(), picker.keys()),
            Overlay::Review(_) => ("Changes", REVIEW_KEYS.to_string()),
            Overlay::Rewind(pane) => ("Rewind", pane.keys().join(" · ")),
            Overlay::Search(_) => ("Search", SEARCH_KEYS.to_string()),
            Overlay::Viewer(viewer) => (viewer.title.as_str(), VIEWER_KEYS.to_string()),
            Overlay::History(pane) => ("History", pane.help()),
            Overlay::Trust(_) | Overlay::Confirm { .. } => ("The question", CONFIRM_KEYS.into()),
            Overlay::None if self.questions.asked.is_some() => {
                ("The question", QUESTION_KEYS.to_string())
            }
            Overlay::None => return None,
        };
        let rows = keys.split(" · ").filter_map(|row| row.split_once(' '));
        // The key that shows this is known.
        let rows = rows.filter(|(_, what)| *what != "keys");
        Some(Section {
            title: clean_line(title).into_owned(),
            rows: rows.map(|(key, what)| (key.into(), what.into())).collect(),
        })
    }
}

/// Keys and what they do, as the help shows them.
const CARD_KEYS: &str = "Enter resume, or watch it · ↑↓ another session · n new session · \
                         f fork · x dismiss · h history · q leave";
const REVIEW_KEYS: &str = "↑↓ another file; in a file: scroll · Enter the file, the list · \
                           ←→ another file · ]\u{a0}[ next and previous hunk · \
                           Space mark the file as seen · e your editor there · Esc back, close";
const QUESTION_KEYS: &str = "y\u{a0}n\u{a0}s\u{a0}a\u{a0}e choose · 1\u{a0}2\u{a0}3 choose · \
                             ↑↓ choose · Enter confirm · PgDn read on · \
                             Tab set typed text aside · Esc stop";
const CONFIRM_KEYS: &str = "y\u{a0}n choose · ↑↓ choose · Enter confirm · PgDn read on · Esc no";

/// Returns the keys and commands, in sections.
fn help_sheet(custom: &[Arc<Custom>], keymap: &Keymap) -> Vec<Section> {
    let mut sheet: Vec<Section> = Vec::new();
    let mut put = |title: &str, keys: &str, what: &str| {
        if sheet.last().is_none_or(|section| section.title != title) {
            sheet.push(Section {
                title: title.to_string(),
                rows: Vec::new(),
            });
        }
        if let Some(section) = sheet.last_mut() {
            section.rows.push((keys.to_string(), what.to_string()));
        }
    };
    // Keys with the same effect share a row. Keys that also type act only in an empty box.
    let mut keys: Vec<keys::HelpLine> = Vec::new();
    for line in keys::help(keymap) {
        let text = line.text.strip_suffix(NOTHING_TYPED).unwrap_or(line.text);
        match keys.last_mut() {
            Some(before) if before.text == text => {
                before.keys = format!("{}, {}", before.keys, line.keys);
            }
            _ => keys.push(keys::HelpLine { text, ..line }),
        }
    }
    for action in USUAL_KEYS {
        for line in keys.iter().filter(|line| line.action == action) {
            put("Most used", &line.keys, line.text);
        }
    }
    let own: Vec<String> = commands().map(|c| format!("/{}", c.name)).collect();
    put("All commands", "", &own.join(" "));
    let custom: Vec<String> = custom.iter().map(|c| format!("/{}", c.name)).collect();
    if !custom.is_empty() {
        put("Custom commands", "", &custom.join(" "));
    }
    put(
        Group::Conversation.title(),
        "y n 1 2",
        "answer; Enter confirms",
    );
    for line in keys
        .iter()
        .filter(|line| !USUAL_KEYS.contains(&line.action))
    {
        put(line.group.title(), &line.keys, line.text);
    }
    put("In the box", "@", "a file or a folder; also @~/ @../ @/");
    put("In the box", "!", "a shell command; !! with the terminal");
    put("In the box", "/", "a command, from a list");
    let title = match keymap.key(Action::History) {
        key if key.is_empty() => "History".to_string(),
        key => format!("History ({key})"),
    };
    for (keys, what) in crate::ui::history::help() {
        put(&title, keys, what);
    }
    sheet
}
