//! What each key does, and the line that says so.

use crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

use super::input::Input;
use super::list::Focus;
use super::pane::{Pane, Question};
use super::tree::{Side, Target};
use super::{Did, HistoryRequest};

/// Rows for a notch of the wheel.
const WHEEL: isize = 3;
/// A title has as many characters as a list keeps of it.
const TITLE_CHARS: usize = 80;

type Hint = (&'static str, &'static str);

impl Pane {
    pub fn key(&mut self, key: &KeyEvent) -> Did {
        if key.kind == KeyEventKind::Release {
            return Did::Nothing;
        }
        let control = key.modifiers.contains(KeyModifiers::CONTROL);
        let closes = key.code == KeyCode::F(2) || (control && key.code == KeyCode::Char('c'));
        if closes {
            return Did::Close;
        }
        if let Some(question) = self.question.take() {
            return self.answer(question, key);
        }
        self.notice = None;
        if self.tree.is_some() {
            return self.tree_key(key);
        }
        match self.list.focus {
            Focus::Filter if self.list.query.key(key) => Did::Request(self.reload()),
            _ => self.list_key(key),
        }
    }

    /// Pasted text is typed: into a new title, else into the filter.
    pub fn paste(&mut self, text: &str) -> Did {
        match (&mut self.question, &self.tree) {
            (Some(Question::Title { input, .. }), _) => {
                input.push(text);
                Did::Nothing
            }
            (None, None) => {
                self.list.query.push(text);
                Did::Request(self.reload())
            }
            _ => Did::Nothing,
        }
    }

    pub fn wheel(&mut self, up: bool) -> Did {
        if self.question.is_some() {
            return Did::Nothing;
        }
        self.step(if up { -WHEEL } else { WHEEL })
    }

    fn step(&mut self, by: isize) -> Did {
        let ask = match &mut self.tree {
            None => {
                self.list.step(by);
                self.list.more()
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
        ask.map_or(Did::Nothing, Did::Request)
    }

    /// Keys that move, in the list and in the tree.
    fn moved(&mut self, code: KeyCode) -> Option<Did> {
        let page = match &self.tree {
            None => self.list.screenful(),
            Some(tree) if tree.side == Side::Preview => tree.preview.screenful(),
            Some(tree) => isize::try_from(tree.scroll.height.max(2) - 1).unwrap_or(1),
        };
        let by = match code {
            KeyCode::Up => -1,
            KeyCode::Down => 1,
            KeyCode::PageUp => -page,
            KeyCode::PageDown => page,
            // Further than anything is long.
            KeyCode::Home => isize::MIN + 1,
            KeyCode::End => isize::MAX,
            _ => return None,
        };
        Some(self.step(by))
    }

    fn list_key(&mut self, key: &KeyEvent) -> Did {
        if let Some(did) = self.moved(key.code) {
            self.list.focus = Focus::Rows;
            return did;
        }
        let selected = self.list.row().cloned();
        match key.code {
            KeyCode::Esc if !self.list.query.is_empty() => {
                self.list.query.clear();
                return Did::Request(self.reload());
            }
            KeyCode::Esc if self.list.in_trash => return self.show_trash(false),
            KeyCode::Esc => return Did::Close,
            KeyCode::Tab => {
                self.list.focus = match self.list.focus {
                    Focus::Filter => Focus::Rows,
                    Focus::Rows => Focus::Filter,
                };
            }
            KeyCode::Enter | KeyCode::Right => {
                if let Some(row) = selected {
                    return Did::Request(self.open(&row.id, &row.title));
                }
            }
            KeyCode::Char(c) => return self.list_letter(c),
            KeyCode::Delete => return self.list_letter('d'),
            _ => {}
        }
        Did::Nothing
    }

    fn list_letter(&mut self, letter: char) -> Did {
        match letter {
            '/' => {
                self.list.focus = Focus::Filter;
                return Did::Nothing;
            }
            'T' => return self.show_trash(!self.list.in_trash),
            'u' if !self.list.in_trash => {
                let last = self.trashed.last().cloned();
                return match last {
                    Some(id) => Did::Request(HistoryRequest::Restore { id }),
                    None => Did::Nothing,
                };
            }
            _ => {}
        }
        let Some(row) = self.list.row() else {
            return Did::Nothing;
        };
        let (id, title) = (row.id.clone(), row.title.clone());
        match letter {
            'u' => Did::Request(HistoryRequest::Restore { id }),
            'r' => Did::Resume(id),
            'f' => Did::ForkAt {
                id,
                seq: row.entries.saturating_sub(1),
            },
            'R' => self.ask_title(id, &title),
            'e' | 'E' => Did::Export {
                id,
                json: letter == 'E',
            },
            'x' if !self.list.in_trash => Did::Request(HistoryRequest::Dismiss { id }),
            'd' if !self.list.in_trash => {
                self.question = Some(Question::Delete { id, title });
                Did::Nothing
            }
            _ => Did::Nothing,
        }
    }

    fn show_trash(&mut self, in_trash: bool) -> Did {
        self.list.in_trash = in_trash;
        Did::Request(self.reload())
    }

    fn ask_title(&mut self, id: String, title: &str) -> Did {
        let input = Input::new(title);
        self.question = Some(Question::Title { id, input });
        Did::Nothing
    }

    fn tree_key(&mut self, key: &KeyEvent) -> Did {
        if let Some(did) = self.moved(key.code) {
            return did;
        }
        let Some(tree) = &mut self.tree else {
            return Did::Nothing;
        };
        let (id, title) = (tree.session.clone(), tree.title.clone());
        match key.code {
            KeyCode::Esc | KeyCode::Left => {
                self.tree = None;
                Did::Nothing
            }
            KeyCode::Tab => {
                tree.side = match tree.side {
                    Side::Tree => Side::Preview,
                    Side::Preview => Side::Tree,
                };
                Did::Nothing
            }
            KeyCode::Enter | KeyCode::Right => match tree.target() {
                Some(Target::Branch { id, .. }) => {
                    let title = String::new();
                    Did::Request(self.open(&id, &title))
                }
                Some(Target::Point(_)) if key.code == KeyCode::Enter => self.go_on(),
                _ => Did::Nothing,
            },
            KeyCode::Char('r') => self.go_on(),
            KeyCode::Char('f') => self.fork(),
            KeyCode::Char('R') => self.ask_title(id, &title),
            KeyCode::Char(c @ ('e' | 'E')) => Did::Export { id, json: c == 'E' },
            _ => Did::Nothing,
        }
    }

    /// From the end of a session one goes on with it; from before, with a fork.
    fn go_on(&self) -> Did {
        let Some(tree) = &self.tree else {
            return Did::Nothing;
        };
        match tree.target() {
            Some(Target::Branch { id, .. }) => Did::Resume(id),
            Some(Target::Point(_)) if tree.is_at_end() => Did::Resume(tree.session.clone()),
            _ => self.fork(),
        }
    }

    fn fork(&self) -> Did {
        let target = self
            .tree
            .as_ref()
            .and_then(|tree| Some((tree, tree.target()?)));
        match target {
            Some((tree, Target::Point(seq))) => Did::ForkAt {
                id: tree.session.clone(),
                seq,
            },
            Some((_, Target::Branch { id, entries })) => Did::ForkAt {
                id,
                seq: entries.saturating_sub(1),
            },
            None => Did::Nothing,
        }
    }

    fn answer(&mut self, question: Question, key: &KeyEvent) -> Did {
        match question {
            Question::Delete { id, .. } => match key.code {
                KeyCode::Char('y' | 'Y') => Did::Request(HistoryRequest::Trash { id }),
                _ => Did::Nothing,
            },
            Question::Title { id, mut input } => match key.code {
                KeyCode::Esc => Did::Nothing,
                KeyCode::Enter => {
                    let title: String = input.text().trim().chars().take(TITLE_CHARS).collect();
                    match title.is_empty() {
                        true => Did::Nothing,
                        false => Did::Rename { id, title },
                    }
                }
                _ => {
                    input.key(key);
                    self.question = Some(Question::Title { id, input });
                    Did::Nothing
                }
            },
        }
    }

    /// The keys that do something now.
    pub(super) fn hints(&self) -> &'static [Hint] {
        match (&self.question, &self.tree) {
            (Some(Question::Delete { .. }), _) => &[("y", "delete"), ("any other key", "keep")],
            (Some(Question::Title { .. }), _) => &[("Enter", "rename"), ("Esc", "as it was")],
            (None, Some(_)) => &[
                ("↑↓", "move"),
                ("Tab", "conversation"),
                ("Enter r", "go on"),
                ("f", "fork"),
                ("R", "rename"),
                ("e", "Markdown"),
                ("E", "JSON"),
                ("Esc ←", "back"),
                ("F2", "close"),
            ],
            (None, None) if self.list.focus == Focus::Filter => &[
                ("type", "to filter"),
                ("↑↓ Tab", "to the sessions"),
                ("Enter →", "look into"),
                ("Esc", "clear, close"),
                ("F2", "close"),
            ],
            (None, None) if self.list.in_trash => &[
                ("u", "take out"),
                ("Enter →", "look into"),
                ("r", "resume"),
                ("f", "fork"),
                ("e", "Markdown"),
                ("E", "JSON"),
                ("/", "filter"),
                ("T Esc", "back"),
                ("F2", "close"),
            ],
            (None, None) => &[
                ("Enter →", "look into"),
                ("r", "resume"),
                ("f", "fork"),
                ("R", "rename"),
                ("e E", "export"),
                ("x", "dismiss"),
                ("d", "delete"),
                ("u", "undo"),
                ("T", "trash"),
                ("/", "filter"),
                ("Esc", "close"),
            ],
        }
    }
}
