//! What a server asks in the middle of a call: shown as a form, answered by keys or lines, or put
//! aside. It stays open until its answer is recorded, by whomever.
//!
//! Invariant: no key that came before the form could be read sends anything.

use std::time::Instant;

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use super::keys::UNREAD;
use super::{App, Asking, Intent, Overlay};
use crate::config::NotifyOn;
use crate::core::entry::{CallId, Seq};
use crate::core::form::{FormAnswer, ServerQuestion};
use crate::core::text::one_line;
use crate::engine::Command;
use crate::ui::overlay::{Filled, FormEntry};

/// A question of a server that is open.
#[derive(Debug)]
pub struct ServerForm {
    /// Which question of this run it is.
    pub number: Asking,
    pub call: CallId,
    /// It is a sub-agent's: its session, and the place of the question there.
    pub of_child: Option<(String, Seq)>,
    /// The title of that sub-agent's task.
    pub task: Option<String>,
    pub entry: FormEntry,
    /// It was put aside: Enter in an empty box brings it back.
    pub is_aside: bool,
    /// The person writes in it, so what is typed is for it.
    has_person: bool,
    /// Something was changed since it came to the front.
    is_touched: bool,
}

impl App {
    /// The form that is in front, but for what may lie over the conversation.
    pub fn form_in_front(&self) -> Option<&ServerForm> {
        let form = self.form.as_ref().filter(|form| !form.is_aside);
        form.filter(|_| self.asked.is_none())
    }

    /// The form that was put aside.
    pub fn form_aside(&self) -> Option<&ServerForm> {
        self.form.as_ref().filter(|form| form.is_aside)
    }

    /// A server asks, or still asks: what stands in the form already stays.
    pub(super) fn server_asks(&mut self, call: CallId, question: ServerQuestion) -> Vec<Intent> {
        self.show_form(call, question, None)
    }

    fn show_form(
        &mut self,
        call: CallId,
        question: ServerQuestion,
        child: Option<((String, Seq), String)>,
    ) -> Vec<Intent> {
        let (of_child, task) = match child {
            Some((of_child, task)) => (Some(of_child), Some(task)),
            None => (None, None),
        };
        let is_same = |form: &ServerForm| {
            form.call == call && form.of_child == of_child && form.entry.question == question
        };
        if self.form.as_ref().is_some_and(is_same) {
            return Vec::new();
        }
        self.asked_ms.get_or_insert(self.now_ms);
        self.asking += 1;
        self.letters_into_box();
        self.form = Some(ServerForm {
            number: self.asking,
            call,
            of_child,
            task,
            entry: FormEntry::new(question),
            is_aside: false,
            has_person: false,
            is_touched: false,
        });
        self.call(NotifyOn::Approval, "asks").into_iter().collect()
    }

    /// The question of a server of a sub-agent, when no other form is open.
    pub(super) fn show_child_form(&mut self) -> Vec<Intent> {
        let asks = self.child_asks.clone();
        let now = asks.as_ref().map(|asks| (asks.session.clone(), asks.asked));
        if let Some(form) = &self.form {
            if form.of_child.is_none() || form.of_child == now {
                return Vec::new();
            }
            self.close_form();
        }
        match asks {
            Some(asks) => match asks.form {
                Some(question) => {
                    let child = ((asks.session, asks.asked), asks.title);
                    self.show_form(asks.call.id, *question, Some(child))
                }
                None => Vec::new(),
            },
            None => Vec::new(),
        }
    }

    /// Whether a key is for the form. What sends must have been read first; who writes in it
    /// already need not wait.
    pub(super) fn is_for_form(&self, key: &KeyEvent, is_accepted: bool) -> bool {
        let Some(form) = self.form_in_front() else {
            return false;
        };
        let ctrl = key.modifiers.contains(KeyModifiers::CONTROL);
        let sends = key.code == KeyCode::Enter || ctrl && key.code == KeyCode::Char('d');
        let is_form = form.entry.url().is_none();
        let writes = form.has_person && is_form && !self.input.has_words_in_front();
        is_accepted || writes && (form.is_touched || !sends)
    }

    pub(super) fn form_key(&mut self, key: &KeyEvent, at: Instant) -> Vec<Intent> {
        self.note_letter(key, at);
        let Some(form) = &mut self.form else {
            return Vec::new();
        };
        match form.entry.key(key) {
            Filled::Pass => self.question_key(key, at),
            Filled::Typed => self.words_key(key, at),
            filled => {
                form.has_person = true;
                form.is_touched = true;
                self.form_filled(filled, at)
            }
        }
    }

    pub(super) fn form_filled(&mut self, filled: Filled, at: Instant) -> Vec<Intent> {
        match filled {
            Filled::Open | Filled::Typed | Filled::Pass => Vec::new(),
            Filled::Send(answer) => self.answer_form(answer),
            Filled::Later => {
                self.quiet.typed(at);
                if let Some(form) = &mut self.form {
                    form.is_aside = true;
                    form.has_person = false;
                }
                Vec::new()
            }
            Filled::Unread => {
                self.hint = Some(UNREAD.into());
                Vec::new()
            }
            Filled::Visit(url) => vec![Intent::OpenInBrowser(url)],
            Filled::Copy(url) => vec![Intent::Copy(url)],
        }
    }

    /// What is pasted goes into a field; false when no form takes it.
    pub(super) fn paste_into_form(&mut self, text: &str, is_accepted: bool) -> bool {
        let is_over = !matches!(self.overlay, Overlay::None) || self.form_in_front().is_none();
        let has_words = self.input.has_words_in_front();
        match &mut self.form {
            Some(form) if !is_over && !has_words && (is_accepted || form.has_person) => {
                form.has_person = true;
                form.is_touched = true;
                form.entry.paste(text)
            }
            _ => false,
        }
    }

    /// The form that was put aside comes back. What is typed now is for it; it is sent when
    /// something was changed, or the keyboard was quiet.
    pub(super) fn form_back(&mut self, at: Instant) -> bool {
        let Some(form) = self.form.as_mut().filter(|form| form.is_aside) else {
            return false;
        };
        form.is_aside = false;
        form.has_person = true;
        form.is_touched = false;
        self.quiet.typed(at);
        true
    }

    /// Something else asks now: what is typed next is not meant for the form.
    pub(super) fn leave_form(&mut self) {
        if let Some(form) = &mut self.form {
            form.has_person = false;
        }
    }

    fn answer_form(&mut self, answer: FormAnswer) -> Vec<Intent> {
        let Some(form) = self.close_form() else {
            return Vec::new();
        };
        let call = form.call;
        let command = match form.of_child {
            None => Command::Answer {
                call,
                key: form.entry.question.key,
                answer,
            },
            Some((session, asked)) => {
                self.child_asks = None;
                Command::AnswerChild {
                    session,
                    call,
                    asked,
                    answer,
                }
            }
        };
        let next = self.show_child_question();
        std::iter::once(Intent::Engine(command))
            .chain(next)
            .collect()
    }

    /// The question of this session is answered, or its call is over.
    pub(super) fn form_settled(&mut self, call: CallId) -> Vec<Intent> {
        let is_it = |form: &mut ServerForm| form.call == call && form.of_child.is_none();
        if !self.form.as_mut().is_some_and(is_it) {
            return Vec::new();
        }
        if let Some(form) = self.close_form() {
            let server = one_line(&form.entry.question.server, 20);
            self.hint = Some(format!("what {server} asked was settled elsewhere"));
        }
        self.show_child_question()
    }

    /// A form of this session: nothing waits for it any more.
    pub(super) fn close_own_form(&mut self) {
        if self
            .form
            .as_ref()
            .is_some_and(|form| form.of_child.is_none())
        {
            self.close_form();
        }
    }

    fn close_form(&mut self) -> Option<ServerForm> {
        let form = self.form.take()?;
        self.letters_into_box();
        if self.asked.is_none() {
            self.clock_goes_on();
        }
        Some(form)
    }

    /// A line that was typed where nothing is drawn.
    pub(super) fn form_line(&mut self, line: &str, at: Instant) -> Vec<Intent> {
        let Some(form) = &mut self.form else {
            return Vec::new();
        };
        let word = line.trim();
        let filled = match word {
            "/decline" => Filled::Send(FormAnswer::Decline),
            "/later" => Filled::Later,
            "/back" => {
                form.entry.line_back();
                Filled::Open
            }
            "/stop" | "/quit" | "/help" => return self.words_line(line, at),
            _ => form.entry.line(line),
        };
        if let Some((_, why)) = &form.entry.error {
            self.hint = Some(why.clone());
        }
        let is_later = filled == Filled::Later;
        let intents = self.form_filled(filled, at);
        if is_later {
            self.hint = Some("put aside; an empty line comes back to it".into());
        }
        intents
    }
}
