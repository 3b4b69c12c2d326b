//! The help: the keys and commands, from the one key table and the one table of commands.

use std::sync::Arc;

use ratatui::text::Line;

use super::{InputBox, Overlay, Prompts};
use crate::ui::commands::{Custom, commands};
use crate::ui::keys::{self, Action, Group, Keymap};
use crate::ui::overlay::Section;

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

/// Common part of the titles of sections with commands.
const COMMANDS_TITLE: &str = "commands";

impl Prompts {
    /// Shows the keys and commands. A prompt of the start returns after it.
    pub(super) fn show_help(&mut self, input: &InputBox) {
        let custom = input.custom_commands();
        let front = self.front_keys();
        let behind = match self.overlay {
            Overlay::Card(_) | Overlay::FirstRun(_) | Overlay::Review(_) => {
                let behind = std::mem::replace(&mut self.overlay, Overlay::None);
                Some(Box::new(behind))
            }
            _ => None,
        };
        let mut sheet = help_sheet(custom, &input.composer.keys.map);
        sheet.splice(0..0, front);
        let row = |keys: &str, what: &str| Line::raw(format!("  {keys:<26} {what}"));
        let has_keys = |section: &&Section| !section.title.contains(COMMANDS_TITLE);
        let written = |section: &Section| {
            let rows = section.rows.iter().map(|(keys, what)| row(keys, what));
            std::iter::once(Line::raw(section.title.clone()))
                .chain(rows)
                .collect::<Vec<_>>()
        };
        let mut sections = sheet.iter().filter(has_keys).map(written);
        let mut lines = sections.next().unwrap_or_default();
        let rest: Vec<Line<'static>> = sections.flatten().collect();
        // In line mode no list explains the commands.
        lines.push(Line::raw("Commands"));
        lines.extend(commands().map(|c| row(&format!("/{} {}", c.name, c.argument), c.help)));
        lines.extend(
            custom
                .iter()
                .map(|c| row(&format!("/{} {}", c.name, c.argument), &c.help)),
        );
        lines.extend(rest);
        self.view("keys and commands", lines);
        if let Overlay::Viewer(viewer) = &mut self.overlay {
            viewer.sheet = sheet;
        }
        self.behind = behind;
    }

    /// Returns the keys of the prompt, question or list in front of the conversation.
    fn front_keys(&self) -> Option<Section> {
        let (title, keys) = match &self.overlay {
            Overlay::Card(_) => ("Unfinished sessions", CARD_KEYS),
            Overlay::Review(_) => ("Changes", REVIEW_KEYS),
            Overlay::None if self.questions.asked.is_some() => ("The question", QUESTION_KEYS),
            _ => return None,
        };
        let rows = keys.split(" · ").filter_map(|row| row.split_once(' '));
        Some(Section {
            title: title.to_string(),
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
