//! The open question: about a call, of a server in the middle of a call (a form), or of a
//! subagent. A form stays open until its answer is recorded, also when another process answers.

use std::path::Path;

use crossterm::event::KeyEvent;

use super::{Asking, Intent, OpenSession, ServerForm};
use crate::core::entry::{CallId, Seq, Verdict};
use crate::core::form::{FormAnswer, ServerQuestion};
use crate::core::rule::RuleScope;
use crate::core::text::one_line;
use crate::engine::{ChildQuestion, Command};
use crate::tools::ShownBody;
use crate::ui::overlay::{Answer, Approval, Filled, FormEntry};

/// Hint after a yes before the end of a question was on the screen.
pub(super) const UNREAD: &str = "scroll to the end of the question first, then answer";

/// The questions of the agent, of servers and of subagents.
#[derive(Default)]
pub struct Questions {
    /// The call that a person is asked about now.
    pub asked: Option<Approval>,
    /// The form of a server that is open.
    pub form: Option<ServerForm>,
    /// The question of a subagent, which waits while another one is open.
    child: Option<ChildQuestion>,
    /// Since when a person is waited for: UTC, milliseconds since 1970.
    since_ms: Option<i64>,
    last_number: u64,
    changes: QuestionChanges,
}

/// The effects of opened and closed questions on the rest of the screen.
#[derive(Default)]
pub(super) struct QuestionChanges {
    /// A new question is open, so the person is notified.
    pub(super) calls: bool,
    /// Letters that selected an answer are text.
    pub(super) frees_letters: bool,
    /// A reason that was being typed when its question closed.
    pub(super) reason: Option<String>,
    /// Time of waiting for a person, milliseconds.
    pub(super) waited_ms: i64,
    pub(super) hint: Option<String>,
}

impl Questions {
    /// Returns the changes since the last call.
    pub(super) fn take_changes(&mut self) -> QuestionChanges {
        std::mem::take(&mut self.changes)
    }

    /// Returns whether one is open, also a form that was put aside.
    pub fn is_open(&self) -> bool {
        self.asked.is_some() || self.form.is_some()
    }

    /// Returns the question that is in front.
    pub(super) fn asking(&self) -> Option<Asking> {
        let form = self.form_in_front().map(|form| form.number);
        let asked = self.asked.as_ref().map(|asked| asked.number);
        asked.or(form).map(Asking::Question)
    }

    /// Returns the form that is in front, without regard to overlays.
    pub fn form_in_front(&self) -> Option<&ServerForm> {
        let form = self.form.as_ref().filter(|form| !form.is_aside);
        form.filter(|_| self.asked.is_none())
    }

    /// Returns the form that was put aside.
    pub fn form_aside(&self) -> Option<&ServerForm> {
        self.form.as_ref().filter(|form| form.is_aside)
    }

    /// Notes that the question was drawn.
    pub(super) fn drawn(&mut self) {
        if let Some(asked) = &mut self.asked {
            asked.drawn();
        } else if let Some(form) = self.form.as_mut().filter(|form| !form.is_aside) {
            form.entry.page.drawn();
        }
    }

    /// Returns whether a letter selects an answer. `None`: the question takes its letters itself.
    pub(super) fn has_letter(&self, letter: char) -> Option<bool> {
        match (&self.asked, self.form_in_front()) {
            (Some(asked), _) => Some(asked.choice_of(letter).is_some()),
            (None, Some(form)) => form.entry.has_letter(letter),
            (None, None) => None,
        }
    }

    /// Selects the answer of a letter. `None`: the one that is preselected.
    pub(super) fn select_letter(&mut self, letter: Option<char>) {
        match (&mut self.asked, &mut self.form) {
            (Some(asked), _) => asked.select(letter),
            (None, Some(form)) => form.entry.letter = letter,
            (None, None) => {}
        }
    }

    /// Asks about a call of this session.
    pub(super) fn ask(
        &mut self,
        asked: Approval,
        session: &OpenSession,
        now_ms: i64,
    ) -> Vec<Intent> {
        self.close(now_ms);
        self.show(asked, now_ms);
        self.read_asked(session)
    }

    fn show(&mut self, mut asked: Approval, now_ms: i64) {
        self.leave_form();
        asked.number = self.opens(now_ms);
        self.asked = Some(asked);
    }

    /// Returns the number of a question that is opened.
    fn opens(&mut self, now_ms: i64) -> u64 {
        self.since_ms.get_or_insert(now_ms);
        self.changes.calls = true;
        self.last_number += 1;
        self.last_number
    }

    /// Requests the file of an edit, so that the change is shown with the lines around it.
    fn read_asked(&self, session: &OpenSession) -> Vec<Intent> {
        let Some(asked) = &self.asked else {
            return Vec::new();
        };
        let (ShownBody::Edits { path, .. } | ShownBody::File { path, .. }) = &asked.shown.body
        else {
            return Vec::new();
        };
        let path = Path::new(session.folder()).join(path);
        vec![Intent::ReadAsked(asked.id, path)]
    }

    /// Takes the question of a subagent. `None`: it asks nothing any more.
    pub(super) fn child_asks(
        &mut self,
        child: Option<ChildQuestion>,
        session: &OpenSession,
        now_ms: i64,
    ) -> Vec<Intent> {
        self.child = child;
        self.show_child(session, now_ms)
    }

    /// Shows the question of a subagent, when nothing else asks. Closes one that it does not ask
    /// any more.
    fn show_child(&mut self, session: &OpenSession, now_ms: i64) -> Vec<Intent> {
        let key = |q: &ChildQuestion| (q.session.clone(), q.asked);
        let now = self.child.as_ref().map(key);
        if let Some(asked) = &self.asked {
            if asked.of_child.is_none() || asked.of_child == now {
                return Vec::new();
            }
            self.close(now_ms);
        }
        self.show_child_form(now_ms);
        let Some(question) = self.child.clone().filter(|asks| asks.form.is_none()) else {
            return Vec::new();
        };
        let ChildQuestion {
            session: of,
            title,
            call,
            asked,
            why,
            access,
            form: _,
        } = question;
        let why = format!("The task \"{}\" asks: {why}", one_line(&title, 60));
        let mut approval = Approval::new(0, call.id, call, why, None);
        approval.of_child = Some((of, asked));
        approval.set_access(access.map(|access| session.sandbox.describe(access)));
        self.show(approval, now_ms);
        self.read_asked(session)
    }

    /// Shows the form of a server of a subagent, when no other form is open.
    fn show_child_form(&mut self, now_ms: i64) {
        let asks = self.child.clone();
        let now = asks.as_ref().map(|asks| (asks.session.clone(), asks.asked));
        if let Some(form) = &self.form {
            if form.of_child.is_none() || form.of_child == now {
                return;
            }
            self.close_form(now_ms);
        }
        if let Some(asks) = asks
            && let Some(question) = asks.form
        {
            let child = ((asks.session, asks.asked), asks.title);
            self.show_form(asks.call.id, *question, Some(child), now_ms);
        }
    }

    /// Shows the form of a server. If it is open already, its values stay.
    pub(super) fn server_asks(&mut self, call: CallId, question: ServerQuestion, now_ms: i64) {
        self.show_form(call, question, None, now_ms);
    }

    fn show_form(
        &mut self,
        call: CallId,
        question: ServerQuestion,
        child: Option<((String, Seq), String)>,
        now_ms: i64,
    ) {
        let (of_child, task) = child.unzip();
        let is_same = |form: &ServerForm| {
            form.call == call && form.of_child == of_child && form.entry.question == question
        };
        if self.form.as_ref().is_some_and(is_same) {
            return;
        }
        self.changes.frees_letters = true;
        let number = self.opens(now_ms);
        let entry = FormEntry::new(question);
        self.form = Some(ServerForm::new(number, call, of_child, task, entry));
    }

    /// Answers the question about a call.
    pub(super) fn answer(
        &mut self,
        answer: Answer,
        session: &OpenSession,
        now_ms: i64,
    ) -> Vec<Intent> {
        let Some(Approval { id, of_child, .. }) = &self.asked else {
            return Vec::new();
        };
        let (id, of_child) = (*id, of_child.clone());
        let is_of_child = of_child.is_some();
        let decide = |verdict, rule| {
            Intent::Engine(match of_child.clone() {
                None => Command::Decide {
                    call: id,
                    verdict,
                    rule,
                },
                Some((session, asked)) => Command::DecideChild {
                    session,
                    call: id,
                    asked,
                    verdict,
                },
            })
        };
        if let Some(asked) = &mut self.asked
            && matches!(answer, Answer::Deny(_))
        {
            asked.reason = None;
        }
        let mut intents = match answer {
            Answer::Open | Answer::Unread | Answer::Back | Answer::Pass => {
                return Vec::new();
            }
            Answer::Once => vec![decide(Verdict::Allow, None)],
            // The rule is in the log, so it applies after a restart too.
            Answer::Rule(RuleScope::Session, rule) => vec![decide(Verdict::Allow, Some(rule))],
            Answer::Rule(scope, rule) => {
                vec![Intent::AllowRule(scope, rule), decide(Verdict::Allow, None)]
            }
            Answer::Deny(reason) => vec![decide(Verdict::Deny { reason }, None)],
        };
        self.close(now_ms);
        if is_of_child {
            self.child = None;
        }
        intents.extend(self.show_child(session, now_ms));
        intents
    }

    /// Takes a line. `None`: the line is text for the box, not an answer. The question stays.
    pub(super) fn answer_line(
        &mut self,
        line: &str,
        session: &OpenSession,
        now_ms: i64,
    ) -> Option<Vec<Intent>> {
        match self.asked.as_ref()?.line(line.trim())? {
            Ok(answer) => Some(self.answer(answer, session, now_ms)),
            Err(why) => {
                self.changes.hint = Some(why.into());
                Some(Vec::new())
            }
        }
    }

    /// Takes a record: it may settle the question, or the form, of its call. `decides`: the call is
    /// decided or over. `ends`: its form is answered, or it is over.
    pub(super) fn recorded(
        &mut self,
        call: CallId,
        (decides, ends): (bool, bool),
        session: &OpenSession,
        now_ms: i64,
    ) -> Vec<Intent> {
        let is_it = |asked: &Approval| asked.id == call && asked.of_child.is_none();
        if decides && self.asked.as_ref().is_some_and(is_it) {
            self.close(now_ms);
        }
        let is_it = |form: &ServerForm| form.call == call && form.of_child.is_none();
        if !(ends && self.form.as_ref().is_some_and(is_it)) {
            return Vec::new();
        }
        // The end of the call, as by a stop, is in the conversation.
        if let Some(form) = self.close_form(now_ms).filter(|_| !decides) {
            let server = one_line(form.entry.question.asker(), 20);
            self.changes.hint = Some(format!("what {server} asked was settled elsewhere"));
        }
        self.show_child(session, now_ms)
    }

    /// Closes the questions of this session: its engine rests.
    pub(super) fn close_own(&mut self, now_ms: i64) {
        self.close(now_ms);
        let is_own = |form: &ServerForm| form.of_child.is_none();
        if self.form.as_ref().is_some_and(is_own) {
            self.close_form(now_ms);
        }
    }

    /// Closes the questions, because the engine ended.
    pub(super) fn end(&mut self, now_ms: i64) {
        self.close(now_ms);
        self.form = None;
    }

    /// Drops all questions: another session is opened.
    pub(super) fn clear(&mut self) {
        self.changes.frees_letters |= self.asked.is_some() || self.form.is_some();
        self.asked = None;
        self.form = None;
        self.child = None;
        self.since_ms = None;
    }

    /// Closes a question that is settled. A reason that was being typed is not lost.
    fn close(&mut self, now_ms: i64) {
        if self.form.is_none() {
            self.stop_waiting(now_ms);
        }
        if let Some(asked) = self.asked.take() {
            self.changes.frees_letters = true;
            self.changes.reason = asked.reason.filter(|reason| !reason.trim().is_empty());
        }
    }

    fn close_form(&mut self, now_ms: i64) -> Option<ServerForm> {
        let form = self.form.take()?;
        self.changes.frees_letters = true;
        if self.asked.is_none() {
            self.stop_waiting(now_ms);
        }
        Some(form)
    }

    fn stop_waiting(&mut self, now_ms: i64) {
        if let Some(at) = self.since_ms.take() {
            self.changes.waited_ms += now_ms - at;
        }
    }

    /// Returns whether a key is for the form in front. `has_words`: words are being typed into the
    /// box.
    pub(super) fn is_for_form(&self, key: &KeyEvent, is_accepted: bool, has_words: bool) -> bool {
        let form = self.form_in_front();
        form.is_some_and(|form| form.is_for(key, is_accepted, has_words))
    }

    /// Takes a key of the form.
    pub(super) fn form_key(&mut self, key: &KeyEvent) -> Filled {
        let form = self.form.as_mut();
        form.map_or(Filled::Open, |form| form.key(key))
    }

    /// Takes a line of the form. `None`: it is a command.
    pub(super) fn form_line(&mut self, line: &str) -> Option<Filled> {
        let Some(form) = &mut self.form else {
            return Some(Filled::Open);
        };
        let filled = form.line(line)?;
        if let Some((_, why)) = &form.entry.error {
            self.changes.hint = Some(why.clone());
        }
        if filled == Filled::Later {
            self.changes.hint = Some("put aside; an empty line comes back to it".into());
        }
        Some(filled)
    }

    /// Performs the result of a key or a line of the form.
    pub(super) fn filled(
        &mut self,
        filled: Filled,
        session: &OpenSession,
        now_ms: i64,
    ) -> Vec<Intent> {
        match filled {
            Filled::Open | Filled::Typed | Filled::Pass => Vec::new(),
            Filled::Send(answer) => self.answer_form(answer, session, now_ms),
            Filled::Later => {
                if let Some(form) = &mut self.form {
                    form.put_aside();
                }
                Vec::new()
            }
            Filled::Unread => {
                self.changes.hint = Some(UNREAD.into());
                Vec::new()
            }
            Filled::Visit(url) => vec![Intent::OpenInBrowser(url)],
            Filled::Copy(url) => vec![Intent::Copy(url)],
        }
    }

    fn answer_form(
        &mut self,
        answer: FormAnswer,
        session: &OpenSession,
        now_ms: i64,
    ) -> Vec<Intent> {
        let Some(form) = self.close_form(now_ms) else {
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
                self.child = None;
                Command::AnswerChild {
                    session,
                    call,
                    asked,
                    answer,
                }
            }
        };
        let mut intents = vec![Intent::Engine(command)];
        intents.extend(self.show_child(session, now_ms));
        intents
    }

    /// Takes a paste into a field of the form in front. False: no form takes it.
    pub(super) fn paste_into_form(
        &mut self,
        text: &str,
        is_accepted: bool,
        has_words: bool,
    ) -> bool {
        if self.form_in_front().is_none() || has_words {
            return false;
        }
        let form = self.form.as_mut();
        form.is_some_and(|form| form.paste(text, is_accepted))
    }

    /// Brings back the form that was put aside. False: there is none.
    pub(super) fn form_back(&mut self) -> bool {
        let form = self.form.as_mut().filter(|form| form.is_aside);
        form.map(ServerForm::bring_back).is_some()
    }

    /// Leaves the form, because another question is open: later keys are not for the form.
    fn leave_form(&mut self) {
        if let Some(form) = &mut self.form {
            form.leave();
        }
    }
}
