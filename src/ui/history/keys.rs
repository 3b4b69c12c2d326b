//! The effect of each key, and the line of key hints.
//!
//! Invariant: letters filter, and nothing else. Actions on a session are keys with Ctrl, in the
//! list and in the tree alike.

use crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

use super::input::LineInput;
use super::pane::{Pane, Question};
use super::tree::{Side, TreeTarget};
use super::{HistoryRequest, PaneOutcome};
use crate::session::short_id;

/// Rows for a notch of the wheel.
const WHEEL: isize = 3;
/// Maximum length of a title, the same as in the list.
const TITLE_CHARS: usize = 80;

pub(super) type Hint = (&'static str, &'static str);

impl Pane {
    pub fn key(&mut self, key: &KeyEvent) -> PaneOutcome {
        if key.kind == KeyEventKind::Release {
            return PaneOutcome::Nothing;
        }
        self.opens_next = false;
        let control = key.modifiers.contains(KeyModifiers::CONTROL);
        let closes = key.code == KeyCode::F(2) || (control && key.code == KeyCode::Char('c'));
        if closes {
            return PaneOutcome::Close;
        }
        if let Some(question) = self.question.take() {
            return self.answer(question, key);
        }
        self.notice = None;
        if self.tree.is_some() {
            return self.tree_key(key);
        }
        if self.list.query.key(key) {
            return PaneOutcome::Request(self.reload());
        }
        self.list_key(key)
    }

    /// Types pasted text: into the title or the path that is being asked for, else into the filter.
    pub fn paste(&mut self, text: &str) -> PaneOutcome {
        match (&mut self.question, &self.tree) {
            (Some(Question::Title { input, .. } | Question::File { input, .. }), _) => {
                input.push(text);
                PaneOutcome::Nothing
            }
            (None, None) => {
                self.list.query.push(text);
                PaneOutcome::Request(self.reload())
            }
            _ => PaneOutcome::Nothing,
        }
    }

    pub fn wheel(&mut self, up: bool) -> PaneOutcome {
        if self.question.is_some() {
            return PaneOutcome::Nothing;
        }
        self.step(if up { -WHEEL } else { WHEEL })
    }

    fn step(&mut self, by: isize) -> PaneOutcome {
        let ask = match &mut self.tree {
            None => {
                self.list.step(by);
                self.list.look()
            }
            Some(tree) if tree.side == Side::Preview => {
                tree.preview.scroll(by);
                None
            }
            Some(tree) => {
                tree.step(by);
                self.look()
            }
        };
        ask.map_or(PaneOutcome::Nothing, PaneOutcome::Request)
    }

    /// Keys that move, in the list and in the tree.
    fn moved(&mut self, key: &KeyEvent) -> Option<PaneOutcome> {
        let page = match &self.tree {
            None => self.list.screenful(),
            Some(tree) if tree.side == Side::Preview => tree.preview.screenful(),
            Some(tree) => isize::try_from(tree.scroll.height.max(2) - 1).unwrap_or(1),
        };
        let by = match key.code {
            KeyCode::Up => -1,
            KeyCode::Down => 1,
            KeyCode::Char('p') if is_control(key) => -1,
            KeyCode::Char('n') if is_control(key) => 1,
            KeyCode::PageUp => -page,
            KeyCode::PageDown => page,
            // Further than anything is long.
            KeyCode::Home => isize::MIN + 1,
            KeyCode::End => isize::MAX,
            _ => return None,
        };
        Some(self.step(by))
    }

    fn list_key(&mut self, key: &KeyEvent) -> PaneOutcome {
        if let Some(did) = self.moved(key) {
            return did;
        }
        let selected = self.list.row().cloned();
        match (key.code, selected) {
            (KeyCode::Right, None) => {
                self.opens_next = true;
                PaneOutcome::Nothing
            }
            (KeyCode::Esc, _) if !self.list.query.is_empty() => {
                self.list.query.clear();
                PaneOutcome::Request(self.reload())
            }
            (KeyCode::Esc, _) if self.list.in_trash => self.show_trash(false),
            (KeyCode::Esc, _) => PaneOutcome::Close,
            (KeyCode::Tab, _) => self.show_trash(!self.list.in_trash),
            (KeyCode::Enter, Some(row)) if !self.list.in_trash => PaneOutcome::Resume(row.id),
            (KeyCode::Enter | KeyCode::Right, Some(row)) => {
                PaneOutcome::Request(self.open(&row.id, &row.title))
            }
            (KeyCode::Delete, Some(row)) => self.ask_trash(row.id, row.title),
            (KeyCode::Char(c), row) if is_control(key) => match (command(c), row) {
                (Some(Command::BringBack), row) => self.bring_back(row.map(|row| row.id)),
                (Some(Command::Trash), Some(row)) => self.ask_trash(row.id, row.title),
                (Some(Command::Resume), Some(row)) => PaneOutcome::Resume(row.id),
                (Some(Command::Fork), Some(row)) => PaneOutcome::ForkAt {
                    id: row.id,
                    seq: row.entries.saturating_sub(1),
                },
                (Some(Command::Title), Some(row)) => self.ask_title(row.id, &row.title),
                (Some(Command::Export), Some(row)) => self.ask_file(row.id),
                (Some(Command::Dismiss), Some(row)) if !self.list.in_trash => {
                    PaneOutcome::Request(HistoryRequest::Dismiss { id: row.id })
                }
                _ => PaneOutcome::Nothing,
            },
            _ => PaneOutcome::Nothing,
        }
    }

    /// Restores a session: in the trash the selected one, else the last one that was put there.
    fn bring_back(&mut self, selected: Option<String>) -> PaneOutcome {
        let id = match self.list.in_trash {
            true => selected,
            false => self.trashed.last().cloned(),
        };
        id.map_or(PaneOutcome::Nothing, |id| {
            PaneOutcome::Request(HistoryRequest::Restore { id })
        })
    }

    fn ask_trash(&mut self, id: String, title: String) -> PaneOutcome {
        if !self.list.in_trash {
            self.question = Some(Question::Trash { id, title });
        }
        PaneOutcome::Nothing
    }

    /// Asks for the file of an export. The end of its name chooses the format.
    fn ask_file(&mut self, id: String) -> PaneOutcome {
        let input = LineInput::new(&format!("rewake-{}.md", short_id(&id)));
        self.question = Some(Question::File { id, input });
        PaneOutcome::Nothing
    }

    fn show_trash(&mut self, in_trash: bool) -> PaneOutcome {
        self.list.in_trash = in_trash;
        PaneOutcome::Request(self.reload())
    }

    fn ask_title(&mut self, id: String, title: &str) -> PaneOutcome {
        let input = LineInput::new(title);
        self.question = Some(Question::Title { id, input });
        PaneOutcome::Nothing
    }

    fn tree_key(&mut self, key: &KeyEvent) -> PaneOutcome {
        if let Some(did) = self.moved(key) {
            return did;
        }
        let Some(tree) = &mut self.tree else {
            return PaneOutcome::Nothing;
        };
        let (id, title) = (tree.session.clone(), tree.title.clone());
        match key.code {
            KeyCode::Esc | KeyCode::Left => {
                self.tree = None;
                PaneOutcome::Nothing
            }
            KeyCode::Tab => {
                tree.side = match tree.side {
                    Side::Tree => Side::Preview,
                    Side::Preview => Side::Tree,
                };
                PaneOutcome::Nothing
            }
            KeyCode::Enter | KeyCode::Right => match tree.target() {
                Some(TreeTarget::Branch { id, .. }) => {
                    let title = String::new();
                    PaneOutcome::Request(self.open(&id, &title))
                }
                Some(TreeTarget::Point(_)) if key.code == KeyCode::Enter => self.resume_or_fork(),
                _ => PaneOutcome::Nothing,
            },
            KeyCode::Char(c) if is_control(key) => match command(c) {
                Some(Command::Resume) => self.resume_or_fork(),
                Some(Command::Fork) => self.fork(),
                Some(Command::Title) => self.ask_title(id, &title),
                Some(Command::Export) => self.ask_file(id),
                Some(Command::Dismiss | Command::Trash | Command::BringBack) | None => {
                    PaneOutcome::Nothing
                }
            },
            _ => PaneOutcome::Nothing,
        }
    }

    /// Resumes the session if its end is selected. Forks it from an earlier point.
    fn resume_or_fork(&self) -> PaneOutcome {
        let Some(tree) = &self.tree else {
            return PaneOutcome::Nothing;
        };
        match tree.target() {
            Some(TreeTarget::Branch { id, .. }) => PaneOutcome::Resume(id),
            Some(TreeTarget::Point(_)) if tree.is_at_end() => {
                PaneOutcome::Resume(tree.session.clone())
            }
            _ => self.fork(),
        }
    }

    fn fork(&self) -> PaneOutcome {
        let target = self
            .tree
            .as_ref()
            .and_then(|tree| Some((tree, tree.target()?)));
        match target {
            Some((tree, TreeTarget::Point(seq))) => PaneOutcome::ForkAt {
                id: tree.session.clone(),
                seq,
            },
            Some((_, TreeTarget::Branch { id, entries })) => PaneOutcome::ForkAt {
                id,
                seq: entries.saturating_sub(1),
            },
            None => PaneOutcome::Nothing,
        }
    }

    fn answer(&mut self, question: Question, key: &KeyEvent) -> PaneOutcome {
        match question {
            Question::Trash { id, .. } => match key.code {
                KeyCode::Char('y' | 'Y') => PaneOutcome::Request(HistoryRequest::Trash { id }),
                _ => PaneOutcome::Nothing,
            },
            Question::Title { id, mut input } => match key.code {
                KeyCode::Esc => PaneOutcome::Nothing,
                KeyCode::Enter => {
                    let title: String = input.text().trim().chars().take(TITLE_CHARS).collect();
                    match title.is_empty() {
                        true => PaneOutcome::Nothing,
                        false => PaneOutcome::Rename { id, title },
                    }
                }
                _ => {
                    input.key(key);
                    self.question = Some(Question::Title { id, input });
                    PaneOutcome::Nothing
                }
            },
            Question::File { id, mut input } => match key.code {
                KeyCode::Esc => PaneOutcome::Nothing,
                KeyCode::Enter => match input.text().trim() {
                    "" => PaneOutcome::Nothing,
                    file => PaneOutcome::Export {
                        id,
                        file: file.to_string(),
                    },
                },
                _ => {
                    input.key(key);
                    self.question = Some(Question::File { id, input });
                    PaneOutcome::Nothing
                }
            },
        }
    }

    /// Returns whether typed text changes something: the query, or a question.
    pub(crate) fn takes_text(&self) -> bool {
        self.question.is_some() || (self.tree.is_none() && !self.list.query.is_empty())
    }

    /// Returns the keys that have an effect now, the most used first. The last two stay on a narrow
    /// screen.
    pub(super) fn hints(&self) -> &'static [Hint] {
        match (&self.question, &self.tree) {
            (Some(Question::Trash { .. }), _) => {
                &[("y", "into the trash"), ("any other key", "keep")]
            }
            (Some(Question::Title { .. }), _) => &[("Enter", "rename"), ("Esc", "as it was")],
            (Some(Question::File { .. }), _) => &[
                ("Enter", "write"),
                (".md", "Markdown"),
                (".json", "every entry"),
                ("Esc", "write nothing"),
            ],
            (None, Some(_)) => IN_TREE,
            (None, None) if self.list.in_trash => IN_TRASH,
            (None, None) => IN_LIST,
        }
    }
}

fn is_control(key: &KeyEvent) -> bool {
    key.modifiers.contains(KeyModifiers::CONTROL)
}

/// An action on a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Command {
    Resume,
    Fork,
    Title,
    Export,
    Dismiss,
    Trash,
    BringBack,
}

/// Returns the command of a letter with Ctrl.
fn command(letter: char) -> Option<Command> {
    Some(match letter.to_ascii_lowercase() {
        'r' => Command::Resume,
        'f' => Command::Fork,
        't' => Command::Title,
        'e' => Command::Export,
        'x' => Command::Dismiss,
        'd' => Command::Trash,
        'y' => Command::BringBack,
        _ => return None,
    })
}

const IN_LIST: &[Hint] = &[
    ("Enter", "resume"),
    ("→", "look inside"),
    ("Ctrl+F", "fork"),
    ("Ctrl+D", "trash"),
    ("Ctrl+T", "title"),
    ("Ctrl+E", "export"),
    ("Ctrl+X", "dismiss"),
    ("Ctrl+Y", "bring back"),
    ("Tab", "look at the trash"),
    ("type", "to search"),
    ("?", "keys"),
    ("Esc", "close"),
];

const IN_TRASH: &[Hint] = &[
    ("Ctrl+Y", "bring back"),
    ("Enter →", "look inside"),
    ("Ctrl+R", "resume"),
    ("Ctrl+F", "fork"),
    ("Ctrl+E", "export"),
    ("F2", "close"),
    ("?", "keys"),
    ("Tab", "back"),
];

const IN_TREE: &[Hint] = &[
    ("Enter", "resume"),
    ("Ctrl+F", "fork"),
    ("Tab", "conversation"),
    ("Ctrl+T", "title"),
    ("Ctrl+E", "export"),
    ("↑↓", "move"),
    ("F2", "close"),
    ("Ctrl+R", "resume, before the end in a fork"),
    ("?", "keys"),
    ("Esc", "back"),
];

/// Returns the keys of the history, for the help sheet.
pub(crate) fn help() -> &'static [Hint] {
    IN_LIST
}
