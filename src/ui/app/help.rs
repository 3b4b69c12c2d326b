//! The help: the keys and commands, from the one key table and the one table of commands.

use std::sync::Arc;

use ratatui::text::Line;

use super::{InputBox, Overlay, Prompts};
use crate::ui::commands::{Custom, commands};
use crate::ui::keys::{self, Action, Keymap};
use crate::ui::overlay::Section;

/// Suffix for keys that type a character unless the box is empty.
const NOTHING_TYPED: &str = " (nothing typed)";

/// The keys at the top of the help.
const USUAL_KEYS: [(Action, &str); 6] = [
    (Action::Submit, "send; while it works, queue"),
    (Action::Newline, "new line"),
    (Action::Interrupt, "stop"),
    (Action::CycleMode, "next permission mode"),
    (Action::ToggleExpand, "unfold and fold"),
    (Action::Rewind, "rewind to before a message"),
];

/// Common part of the titles of sections with commands.
const COMMANDS_TITLE: &str = "commands";

impl Prompts {
    /// Shows the keys and commands. A prompt of the start returns after it.
    pub(super) fn show_help(&mut self, input: &InputBox) {
        let custom = input.custom_commands();
        let behind = match self.overlay {
            Overlay::Card(_) | Overlay::FirstRun(_) => {
                let behind = std::mem::replace(&mut self.overlay, Overlay::None);
                Some(Box::new(behind))
            }
            _ => None,
        };
        let sheet = help_sheet(custom, input.composer.keymap());
        let row = |keys: &str, what: &str| Line::raw(format!("  {keys:<26} {what}"));
        let mut lines = Vec::new();
        let mut put = |section: &Section| {
            lines.push(Line::raw(section.title.clone()));
            lines.extend(section.rows.iter().map(|(keys, what)| row(keys, what)));
        };
        let has_keys = |section: &&Section| !section.title.contains(COMMANDS_TITLE);
        let mut sections = sheet.iter().filter(has_keys);
        sections.by_ref().take(1).for_each(&mut put);
        let rest: Vec<&Section> = sections.collect();
        // In line mode no list explains the commands.
        lines.push(Line::raw("Commands"));
        lines.extend(commands().map(|c| row(&format!("/{} {}", c.name, c.argument), c.help)));
        lines.extend(
            custom
                .iter()
                .map(|c| row(&format!("/{} {}", c.name, c.argument), &c.help)),
        );
        for section in rest {
            lines.push(Line::raw(section.title.clone()));
            lines.extend(section.rows.iter().map(|(keys, what)| row(keys, what)));
        }
        self.view("keys and commands", lines);
        if let Overlay::Viewer(viewer) = &mut self.overlay {
            viewer.sheet = sheet;
        }
        self.behind = behind;
    }
}

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
    // Most people need only these.
    for (action, what) in USUAL_KEYS {
        match keymap.key_in(action, true) {
            key if key.is_empty() => {}
            key => put("Most used", &key, what),
        }
    }
    let own: Vec<String> = commands().map(|c| format!("/{}", c.name)).collect();
    put("All commands", "", &own.join(" "));
    let custom: Vec<String> = custom.iter().map(|c| format!("/{}", c.name)).collect();
    if !custom.is_empty() {
        put("Custom commands", "", &custom.join(" "));
    }
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
    for (place, line) in keys.iter().enumerate() {
        put(line.group.title(), &line.keys, line.text);
        if place == 0 {
            put(line.group.title(), "y n 1 2", "answer; Enter confirms");
        }
    }
    put("In the box", "@", "a file or a folder; also @~/ @../ @/");
    put("In the box", "!", "a shell command; !! with the terminal");
    put("In the box", "/", "a command, from a list");
    for (keys, what) in crate::ui::history::help() {
        put("History (F2)", keys, what);
    }
    sheet
}
