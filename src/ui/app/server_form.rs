//! The form of a server that asks in the middle of a call: filled by keys or lines, or put aside.
//!
//! Invariant: no key that came before the form could be read sends anything.

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use crate::core::entry::{CallId, Seq};
use crate::core::form::FormAnswer;
use crate::ui::overlay::{Filled, FormEntry};

/// A question of a server that is open.
#[derive(Debug)]
pub struct ServerForm {
    /// The number of the question in this run.
    pub number: u64,
    pub call: CallId,
    /// The subagent's session, and the place of the question there. `None`: it is this session's.
    pub of_child: Option<(String, Seq)>,
    /// The title of that subagent's task.
    pub task: Option<String>,
    pub entry: FormEntry,
    /// The form was put aside: Enter in an empty box brings it back.
    pub is_aside: bool,
    /// The person is filling the form, so keys are for it.
    has_person: bool,
    /// A value was changed since the form came to the front.
    is_touched: bool,
}

impl ServerForm {
    pub(super) fn new(
        number: u64,
        call: CallId,
        of_child: Option<(String, Seq)>,
        task: Option<String>,
        entry: FormEntry,
    ) -> ServerForm {
        ServerForm {
            number,
            call,
            of_child,
            task,
            entry,
            is_aside: false,
            has_person: false,
            is_touched: false,
        }
    }

    /// Returns whether a key is for the form. A key that sends counts only after the form was
    /// readable; a person who is filling it already need not wait.
    pub(super) fn is_for(&self, key: &KeyEvent, is_accepted: bool, has_words: bool) -> bool {
        let ctrl = key.modifiers.contains(KeyModifiers::CONTROL);
        let sends = key.code == KeyCode::Enter || ctrl && key.code == KeyCode::Char('d');
        let is_form = self.entry.url().is_none();
        let writes = self.has_person && is_form && !has_words;
        is_accepted || writes && (self.is_touched || !sends)
    }

    pub(super) fn key(&mut self, key: &KeyEvent) -> Filled {
        let filled = self.entry.key(key);
        if !matches!(filled, Filled::Pass | Filled::Typed) {
            self.has_person = true;
            self.is_touched = true;
        }
        filled
    }

    /// Takes a line. `None`: it is a command.
    pub(super) fn line(&mut self, line: &str) -> Option<Filled> {
        Some(match line.trim() {
            "/decline" => Filled::Send(FormAnswer::Decline),
            "/later" => Filled::Later,
            "/back" => {
                self.entry.line_back();
                Filled::Open
            }
            "/stop" | "/quit" | "/help" => return None,
            _ => self.entry.line(line),
        })
    }

    /// Takes a paste into a field. False: it takes none.
    pub(super) fn paste(&mut self, text: &str, is_accepted: bool) -> bool {
        if !(is_accepted || self.has_person) {
            return false;
        }
        self.has_person = true;
        self.is_touched = true;
        self.entry.paste(text)
    }

    pub(super) fn put_aside(&mut self) {
        self.is_aside = true;
        self.has_person = false;
    }

    /// Brings the form back. Keys are for it now. It can be sent when something was changed, or
    /// when the keyboard was quiet.
    pub(super) fn bring_back(&mut self) {
        self.is_aside = false;
        self.has_person = true;
        self.is_touched = false;
    }

    /// Leaves the form, because another question is open: later keys are not for the form.
    pub(super) fn leave(&mut self) {
        self.has_person = false;
    }
}
