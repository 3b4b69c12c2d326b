//! A list to choose from, narrowed by typed words.

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

/// The purpose of a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum For {
    /// The message before which to rewind.
    Rewind,
    /// The parts to rewind: conversation, files or both.
    RewindWhat,
    Model,
    /// Another model, for a session whose own is gone.
    Replacement,
    Theme,
    Resume,
    /// A running command.
    Run,
    /// A rule in use.
    Rule,
    /// The question whether to remove a rule.
    RemoveRule,
}

/// One row of a picker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PickerItem {
    /// The value that is chosen.
    pub value: String,
    pub label: String,
    pub detail: String,
}

/// A list to choose from, narrowed by typed words.
#[derive(Debug)]
pub struct Picker {
    /// The purpose of the list.
    pub what: For,
    pub title: String,
    /// A note below the title.
    pub note: Option<String>,
    pub items: Vec<PickerItem>,
    /// The words that narrow the list.
    pub typed: String,
    /// Index of the selected row among those that are shown.
    pub at: usize,
    /// The typed text itself can be chosen.
    pub free: bool,
}

/// The result of a key.
#[derive(Debug, PartialEq, Eq)]
pub enum Picked {
    /// The list stays.
    Nothing,
    /// Nothing is chosen.
    Closed,
    /// The value of the chosen row, or the typed text where that can be chosen.
    Value(String),
    /// Stop a running command.
    Stop(String),
}

impl Picker {
    /// Makes a list with all of its rows and the first selected. `what`: the purpose of the list.
    pub fn new(what: For, title: &str, items: Vec<PickerItem>) -> Picker {
        Picker {
            what,
            title: title.to_string(),
            note: None,
            items,
            typed: String::new(),
            at: 0,
            free: false,
        }
    }

    /// Returns whether a row matches: every typed word is in its label or detail.
    pub fn shown(&self) -> Vec<&PickerItem> {
        let words: Vec<String> = self
            .typed
            .split_whitespace()
            .map(str::to_lowercase)
            .collect();
        let fits = |item: &&PickerItem| {
            let text = format!("{} {}", item.label, item.detail).to_lowercase();
            words.iter().all(|w| text.contains(w))
        };
        self.items.iter().filter(fits).collect()
    }

    /// Returns the keys, the most used first: a footer has room for few.
    pub fn keys(&self) -> String {
        let help = if self.typed.is_empty() { "?" } else { "F1" };
        let stops = match self.what {
            For::Run => " · Ctrl+X stops it",
            _ => "",
        };
        format!(
            "Enter chooses · Esc closes · type to narrow · {help} keys{stops} · ↑↓ move · \
             PgUp/PgDn ten rows"
        )
    }

    /// Takes a line in line mode: a number of the list, or the typed text where that can be chosen.
    pub fn line(&self, line: &str) -> Picked {
        let place = line.parse::<usize>().ok().and_then(|n| n.checked_sub(1));
        match place.and_then(|place| self.items.get(place)) {
            Some(item) => Picked::Value(item.value.clone()),
            None if line.is_empty() => Picked::Closed,
            None if self.free => Picked::Value(line.to_string()),
            None => Picked::Nothing,
        }
    }

    /// Takes a key: it narrows the list, moves the selection, or chooses.
    pub fn key(&mut self, key: &KeyEvent) -> Picked {
        let ctrl = key.modifiers.contains(KeyModifiers::CONTROL);
        let count = self.shown().len();
        match key.code {
            KeyCode::Esc => return Picked::Closed,
            KeyCode::Char('c') if ctrl => return Picked::Closed,
            KeyCode::Enter => {
                let chosen = self.shown().get(self.at).map(|i| i.value.clone());
                let typed = self.free.then(|| self.typed.trim().to_string());
                return match chosen.or(typed.filter(|t| !t.is_empty())) {
                    Some(value) => Picked::Value(value),
                    None => Picked::Nothing,
                };
            }
            KeyCode::Char('x') if ctrl && self.what == For::Run => {
                let shown = self.shown();
                let chosen = shown.get(self.at).map(|i| i.value.clone());
                return chosen.map_or(Picked::Nothing, Picked::Stop);
            }
            KeyCode::Up => self.at = self.at.saturating_sub(1),
            KeyCode::Char('p') if ctrl => self.at = self.at.saturating_sub(1),
            KeyCode::Down => self.at += 1,
            KeyCode::Char('n') if ctrl => self.at += 1,
            KeyCode::PageUp => self.at = self.at.saturating_sub(10),
            KeyCode::PageDown => self.at += 10,
            KeyCode::Backspace => {
                self.typed.pop();
                self.at = 0;
            }
            KeyCode::Char(c) if !ctrl => {
                self.typed.push(c);
                self.at = 0;
            }
            _ => {}
        }
        let count = if self.typed.is_empty() {
            count
        } else {
            self.shown().len()
        };
        self.at = self.at.min(count.saturating_sub(1));
        Picked::Nothing
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn press(picker: &mut Picker, code: KeyCode) -> Picked {
        picker.key(&KeyEvent::new(code, KeyModifiers::NONE))
    }

    #[test]
    fn typing_filters_the_picker_entries() {
        let item = |name: &str| PickerItem {
            value: name.to_string(),
            label: name.to_string(),
            detail: String::new(),
        };
        let mut picker = Picker::new(For::Model, "model", vec![item("a/one"), item("b/two")]);
        press(&mut picker, KeyCode::Down);
        press(&mut picker, KeyCode::Down);
        assert_eq!(
            press(&mut picker, KeyCode::Enter),
            Picked::Value("b/two".into())
        );
        press(&mut picker, KeyCode::Char('o'));
        press(&mut picker, KeyCode::Char('n'));
        assert_eq!(
            press(&mut picker, KeyCode::Enter),
            Picked::Value("a/one".into())
        );
        press(&mut picker, KeyCode::Char('x'));
        assert_eq!(press(&mut picker, KeyCode::Enter), Picked::Nothing);
        picker.free = true;
        assert_eq!(
            press(&mut picker, KeyCode::Enter),
            Picked::Value("onx".into())
        );
        assert_eq!(press(&mut picker, KeyCode::Esc), Picked::Closed);
    }
}
