//! The state of the pane, and how answers change it.

use super::input::LineInput;
use super::list::List;
use super::tree::{Tree, TreeTarget};
use super::{HistoryRequest, HistoryResponse};

/// Maximum number of deletions that can be undone.
const MAX_UNDO: usize = 100;

pub struct Pane {
    /// The root of the workspace it was opened in.
    pub(super) here: String,
    pub(super) list: List,
    /// The session whose tree is shown.
    pub(super) tree: Option<Tree>,
    pub(super) question: Option<Question>,
    pub(super) notice: Option<Notice>,
    /// Sessions that were put in the trash here and not restored: the last one is restored first.
    pub(super) trashed: Vec<String>,
    /// The first row of the next page is opened: → was pressed before the list arrived.
    pub(super) opens_next: bool,
    last_number: u64,
}

/// A question that must be answered before anything else.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Question {
    Title {
        id: String,
        input: LineInput,
    },
    Trash {
        id: String,
        title: String,
    },
    /// The file to which a session is exported.
    File {
        id: String,
        input: LineInput,
    },
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Notice {
    pub(super) text: String,
    pub(super) is_error: bool,
}

impl Pane {
    pub fn new(here: &str) -> (Pane, HistoryRequest) {
        let mut pane = Pane {
            here: here.to_string(),
            list: List::new(),
            tree: None,
            question: None,
            notice: None,
            trashed: Vec::new(),
            opens_next: false,
            last_number: 0,
        };
        let ask = pane.reload();
        (pane, ask)
    }

    pub fn receive(&mut self, response: HistoryResponse) -> Option<HistoryRequest> {
        match response {
            HistoryResponse::Sessions(page) => {
                self.list.receive(page);
                let opened = self.list.row().filter(|_| self.opens_next).cloned();
                match opened {
                    Some(row) => {
                        self.opens_next = false;
                        Some(self.open(&row.id, &row.title))
                    }
                    None => self.list.look(),
                }
            }
            HistoryResponse::Checkpoints(piece) => {
                let tree = self.tree.as_mut()?;
                tree.receive(piece);
                self.look()
            }
            HistoryResponse::Preview {
                number,
                records,
                places,
            } => {
                let preview = &mut self.tree.as_mut()?.preview;
                preview.receive(number, &records, places);
                None
            }
            HistoryResponse::Changes { number, lines } => {
                self.tree.as_mut()?.receive_changes(number, lines);
                None
            }
            HistoryResponse::About { id, about } => {
                self.list.learned(&id, about);
                None
            }
            HistoryResponse::Renamed { id, outcome } => {
                match outcome {
                    Ok(title) => self.renamed(&id, title),
                    Err(why) => self.show_error(format!("cannot rename: {why}")),
                }
                None
            }
            HistoryResponse::Trashed { id, outcome } => {
                match outcome {
                    Ok(()) => self.put_away(id),
                    Err(why) => self.show_error(format!("cannot put it into the trash: {why}")),
                }
                self.list.look()
            }
            HistoryResponse::Restored { id, outcome } => match outcome {
                Ok(()) => {
                    self.trashed.retain(|trashed| *trashed != id);
                    self.say("taken out of the trash");
                    Some(self.reload())
                }
                Err(why) => {
                    self.show_error(format!("cannot take it out of the trash: {why}"));
                    None
                }
            },
            HistoryResponse::Dismissed { outcome, .. } => match outcome {
                Ok(word) => {
                    self.say(word);
                    Some(self.reload())
                }
                Err(why) => {
                    self.show_error(format!("cannot dismiss: {why}"));
                    None
                }
            },
            HistoryResponse::Failed { number, why } => {
                self.list.failed(number);
                if let Some(tree) = &mut self.tree {
                    tree.failed(number);
                }
                self.show_error(why);
                None
            }
        }
    }

    fn renamed(&mut self, id: &str, title: String) {
        self.list.rename(id, &title);
        if let Some(tree) = self.tree.as_mut().filter(|tree| tree.session == id) {
            tree.title = title;
        }
        self.say("renamed");
    }

    fn put_away(&mut self, id: String) {
        self.list.remove(&id, &self.here);
        self.trashed.push(id);
        if self.trashed.len() > MAX_UNDO {
            self.trashed.remove(0);
        }
        self.say("in the trash: Ctrl+Y brings it back, Tab shows all of it");
    }

    /// Shows the outcome of an export: content and place, or the reason of a failure.
    pub(crate) fn exported(&mut self, outcome: Result<String, String>) {
        match outcome {
            Ok(text) => self.say(&text),
            Err(why) => self.show_error(why),
        }
    }

    pub(super) fn say(&mut self, text: &str) {
        self.notice = Some(Notice {
            text: text.to_string(),
            is_error: false,
        });
    }

    pub(super) fn show_error(&mut self, text: String) {
        let is_error = true;
        self.notice = Some(Notice { text, is_error });
    }

    pub(super) fn number(&mut self) -> u64 {
        self.last_number += 1;
        self.last_number
    }

    /// Requests the list for the present filter.
    pub(super) fn reload(&mut self) -> HistoryRequest {
        let number = self.number();
        self.list.ask(number)
    }

    pub(super) fn open(&mut self, session: &str, title: &str) -> HistoryRequest {
        let number = self.number();
        let (tree, ask) = Tree::new(session, title, number);
        self.tree = Some(tree);
        ask
    }

    /// Returns a request for the changes of the lines that were just drawn.
    pub(crate) fn seen(&mut self) -> Option<HistoryRequest> {
        self.tree.as_mut()?.ask_changes()
    }

    /// Returns the request that the cursor in the tree needs: older entries, or else the
    /// conversation there.
    pub(super) fn look(&mut self) -> Option<HistoryRequest> {
        let number = self.number();
        let tree = self.tree.as_mut()?;
        if let Some(older) = tree.more() {
            return Some(older);
        }
        let (session, seq) = match tree.target()? {
            TreeTarget::Point(seq) => (tree.session.clone(), seq),
            TreeTarget::Branch { id, entries } => (id, entries.saturating_sub(1)),
        };
        tree.preview.ask(session, seq, number)
    }
}
