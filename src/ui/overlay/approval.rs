//! The approval prompt of a call: what the call would do, and the possible answers.
//!
//! Invariant: "yes" and "always" count only when the end of the question was on the screen. Enter
//! alone confirms: a letter only selects (`ui::app::Letters`).

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use ratatui::text::Line;
use unicode_segmentation::UnicodeSegmentation;

use crate::core::access::Access;
use crate::core::entry::{CallId, Mode, Seq};
use crate::core::offer::{self, RuleOffer};
use crate::core::policy::AccessText;
use crate::core::rule::RuleScope;
use crate::core::tool::ToolCall;
use crate::tools::{self, Shown, ShownBody};

/// The question whether a call may run, and the state of its answer.
#[derive(Debug)]
pub struct Approval {
    /// The number of the question in this run.
    pub number: u64,
    /// The place among the questions of one answer of the model, from 1, and their number.
    pub place: (usize, usize),
    pub id: CallId,
    /// The subagent that asks: its session, and the `seq` of the question there.
    pub of_child: Option<(String, Seq)>,
    pub call: ToolCall,
    pub shown: Shown,
    /// The reason for the question.
    pub why: String,
    /// The reason as a sentence for a person.
    pub because: String,
    /// The text of the file before and after the edit.
    pub edit: Option<(String, String)>,
    /// The access of the command. `None`: the call does not run a command.
    pub access: Option<AccessText>,
    /// The rules that an answer can add, for the scope that the answer names.
    pub rule: Option<String>,
    /// The rule for all tools of the server whose tool is called.
    pub server_rule: Option<String>,
    /// The call writes a file that is not there: all of it is new, and a yes needs no scrolling.
    pub is_new_file: bool,
    /// The answer that Enter gives.
    pub at: Choice,
    /// The reason for a denial, while it is typed.
    pub reason: Option<String>,
    /// The first line of the command or the change that is shown.
    pub top: usize,
    /// The lines of the question, and the look for which they were made.
    pub laid: Option<Laid>,
    /// The extent of the last drawing.
    pub extent: Extent,
    /// The end of the question was on the screen.
    pub end_seen: bool,
}

/// The lines of a question, and the look for which they were made.
#[derive(Debug)]
pub struct Laid {
    pub width: u16,
    /// The generation of the app's look.
    pub generation: u64,
    pub layout: Layout,
    pub lines: Vec<Line<'static>>,
    /// The numbers of added and removed lines of a change.
    pub counts: Option<(usize, usize)>,
}

/// The layout of a question for the available rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Layout {
    /// With a frame, the reason stays visible below the scrolled part; otherwise it is scrolled
    /// too.
    pub framed: bool,
    /// Each answer has a separate row.
    pub roomy: bool,
}

/// The rows on the screen, and the number of lines to show in them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Extent {
    pub rows: usize,
    pub lines: usize,
}

impl Extent {
    /// Returns whether there are more lines than rows.
    pub fn overflows(self) -> bool {
        self.lines > self.rows
    }

    /// Returns whether the last line is visible when `top` lines are above the screen.
    fn has_end(self, top: usize) -> bool {
        self.rows > 0 && top + self.rows >= self.lines
    }

    /// Returns the new first line after a scrolling key. `None`: it is another key.
    fn scrolled(self, top: usize, key: &KeyEvent) -> Option<usize> {
        if !self.overflows() || !key.modifiers.is_empty() {
            return None;
        }
        let page = self.rows.saturating_sub(1).max(1);
        let top = match key.code {
            KeyCode::Up => top.saturating_sub(1),
            KeyCode::Down => top + 1,
            KeyCode::PageUp => top.saturating_sub(page),
            KeyCode::PageDown => top + page,
            KeyCode::Home => 0,
            KeyCode::End => self.lines,
            _ => return None,
        };
        Some(top.min(self.lines - self.rows))
    }
}

/// The visible part of a yes-or-no question, and whether its end was visible.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Page {
    /// Lines above the first one shown.
    pub top: usize,
    pub extent: Extent,
    /// The last line was on the screen. A yes counts only then.
    pub end_seen: bool,
    /// Enter says yes, because that was selected. Otherwise it says no.
    pub is_yes: bool,
}

impl Page {
    /// Records that the drawn lines are on the screen.
    pub fn drawn(&mut self) {
        self.end_seen |= self.extent.has_end(self.top);
    }

    /// Takes a key that scrolls the question. Returns false for another key.
    pub fn scrolled(&mut self, key: &KeyEvent) -> bool {
        let top = self.extent.scrolled(self.top, key);
        self.top = top.unwrap_or(self.top);
        top.is_some()
    }
}

/// An answer that is offered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Choice {
    /// The call runs, this once.
    Once,
    /// The call runs, and a rule is added for this scope.
    Rule(RuleScope),
    /// The call runs, and all tools of its server run in this session.
    Server,
    /// The call does not run. A reason for the model may be typed.
    Deny,
}

/// The result of a key.
#[derive(Debug, PartialEq, Eq)]
pub enum Answer {
    /// Nothing yet.
    Open,
    /// A yes before the end was seen.
    Unread,
    /// The call runs, this once.
    Once,
    /// The call runs, and these rules are stored.
    Rule(RuleScope, String),
    /// The call does not run. This reason is for the model.
    Deny(String),
    /// The reason is given up, and the choice is open again.
    Back,
    /// The key does not belong to the question.
    Pass,
}

/// The beginnings of reasons that are clauses, so that they fit after "because".
const CLAUSES: [&str; 9] = [
    "it ",
    "`",
    "the rule ",
    "which ",
    "where ",
    "what ",
    "how ",
    "an earlier ",
    "this ",
];
/// The end of reasons that no rule can settle.
const NO_RULE: &str = "so no rule can be offered";

/// The reason for the model when the user gives none.
const NO_REASON: &str = "the user said no; ask what they want instead, or go another way";

impl Approval {
    /// Makes a question that was not drawn yet. `number` is unique in this run; `rule` has the rules
    /// that "always" would add.
    pub fn new(
        number: u64,
        id: CallId,
        call: ToolCall,
        why: String,
        rule: Option<String>,
    ) -> Approval {
        let server = offer::for_server_of(call.full_name()).filter(|_| rule.is_some());
        Approval {
            number,
            place: (1, 1),
            id,
            of_child: None,
            shown: tools::shown(&call),
            call,
            because: why.clone(),
            edit: None,
            why,
            access: None,
            rule,
            server_rule: server.map(|rule| rule.to_string()),
            is_new_file: false,
            at: Choice::Once,
            reason: None,
            top: 0,
            laid: None,
            extent: Extent::default(),
            end_seen: false,
        }
    }

    /// Sets the reason as a sentence, with a way to avoid the question. `mode`: the mode of the
    /// session.
    pub fn set_reason_text(&mut self, mode: Mode) {
        let why = self.why.as_str();
        let is_clause = CLAUSES.iter().any(|start| why.starts_with(start));
        let changes_only = match &self.shown.body {
            ShownBody::Edits { path, .. } | ShownBody::File { path, .. } => {
                why == format!("it changes `{path}`")
            }
            _ => false,
        };
        self.because = match mode {
            Mode::Default if changes_only => {
                "It asks because edits ask in this mode. Shift+Tab: acceptEdits.".to_string()
            }
            _ if !is_clause => return,
            _ if self.rule.is_none() && why.ends_with(NO_RULE) => {
                format!("It{}.", why.strip_prefix("it").unwrap_or(why))
            }
            _ => format!("It asks because {why}."),
        };
    }

    /// Returns the effect of the offered rules in words: "`cargo test` and `cargo fmt`".
    pub fn rule_in_words(&self) -> Option<String> {
        let rule = self.rule.as_ref()?;
        Some(RuleOffer::parse(rule).map_or_else(|_| rule.clone(), |offer| offer.to_words()))
    }

    /// Sets the text of the file, so that the change is shown at its place in the file. `None`:
    /// there is no such file.
    pub fn file_read(&mut self, text: Option<String>) {
        let Some(text) = text else {
            self.is_new_file = matches!(self.shown.body, ShownBody::File { .. });
            return;
        };
        if let Some(after) = self.shown.body.text_after(&text) {
            self.edit = Some((text, after));
            self.laid = None;
            // The question may now be longer than the part that was seen.
            self.end_seen = false;
        }
    }

    /// Returns the offered answers, in their order. "Always" is offered only if there is a rule for
    /// it.
    pub fn choices(&self) -> Vec<Choice> {
        let mut choices = vec![Choice::Once];
        if self.rule.is_some() {
            let scopes = [
                RuleScope::Session,
                RuleScope::Project,
                RuleScope::Everywhere,
            ];
            choices.extend(scopes.map(Choice::Rule));
        }
        choices.extend(self.server_rule.iter().map(|_| Choice::Server));
        choices.push(Choice::Deny);
        choices
    }

    /// Sets the access of the command, and the choice that is preselected for it.
    pub fn set_access(&mut self, access: Option<AccessText>) {
        self.access = access;
        self.at = self.preselected();
    }

    /// Returns the choice that Enter confirms before another is selected: never a yes to a command
    /// that reaches the network or runs without a sandbox.
    fn preselected(&self) -> Choice {
        match self.access.map(|told| told.access) {
            Some(Access::Network | Access::Full) => Choice::Deny,
            Some(Access::Read | Access::Workspace) | None => Choice::Once,
        }
    }

    /// Returns the choice of a letter, or of a digit: its place from 1.
    pub fn choice_of(&self, typed: char) -> Option<Choice> {
        let choices = self.choices();
        if let Some(place) = typed.to_digit(10) {
            let place = usize::try_from(place).ok()?.checked_sub(1)?;
            return choices.get(place).copied();
        }
        let choice = match typed {
            'y' => Choice::Once,
            's' => Choice::Rule(RuleScope::Session),
            'a' => Choice::Rule(RuleScope::Project),
            'e' => Choice::Rule(RuleScope::Everywhere),
            't' => Choice::Server,
            'n' | 'd' => Choice::Deny,
            _ => return None,
        };
        choices.contains(&choice).then_some(choice)
    }

    /// Selects the choice of a letter. `None`: the one that is preselected.
    pub fn select(&mut self, typed: Option<char>) {
        let choice = typed.and_then(|typed| self.choice_of(typed));
        self.at = choice.unwrap_or_else(|| self.preselected());
    }

    /// Records that the drawn lines are on the screen.
    pub fn drawn(&mut self) {
        self.end_seen |= self.is_new_file || self.extent.has_end(self.top);
    }

    /// Takes a key that scrolls the question. Returns false for another key.
    pub fn scrolled(&mut self, key: &KeyEvent) -> bool {
        if self.reason.is_some() {
            return false;
        }
        let top = self.extent.scrolled(self.top, key);
        self.top = top.unwrap_or(self.top);
        top.is_some()
    }

    /// Takes a line in line mode: returns its answer, or the reason why there is none. `None`: it
    /// is text.
    pub fn line(&self, line: &str) -> Option<Result<Answer, &'static str>> {
        let (word, rest) = match line.split_once(char::is_whitespace) {
            Some((word, rest)) => (word, rest.trim()),
            None => (line, ""),
        };
        if let ("t", "", Some(rule)) = (word, rest, &self.server_rule) {
            return Some(Ok(Answer::Rule(RuleScope::Session, rule.clone())));
        }
        Some(Ok(match (word, rest, self.rule.clone()) {
            ("y" | "yes", "", _) => Answer::Once,
            ("n" | "no", "", _) => Answer::Deny(NO_REASON.to_string()),
            ("n" | "no", reason, _) => Answer::Deny(reason.to_string()),
            ("s", "", Some(rule)) => Answer::Rule(RuleScope::Session, rule),
            ("a", "", Some(rule)) => Answer::Rule(RuleScope::Project, rule),
            ("e", "", Some(rule)) => Answer::Rule(RuleScope::Everywhere, rule),
            ("a" | "s" | "e", "", None) => {
                return Some(Err("no rule fits this call: answer y or n"));
            }
            ("", ..) => return Some(Err("answer y or n, then Enter")),
            _ => return None,
        }))
    }

    /// Takes a key that is not a letter. A yes counts only when the end of the question was on the
    /// screen.
    pub fn key(&mut self, key: &KeyEvent) -> Answer {
        if self.reason.is_some() {
            return self.reason_key(key);
        }
        if self.scrolled(key) {
            return Answer::Open;
        }
        let modified = KeyModifiers::CONTROL | KeyModifiers::ALT;
        if key.modifiers.intersects(modified) {
            return Answer::Pass;
        }
        match key.code {
            KeyCode::Enter => return self.choose(self.at),
            KeyCode::Up | KeyCode::Left => self.step(false),
            KeyCode::Down | KeyCode::Right | KeyCode::Tab => self.step(true),
            _ => return Answer::Pass,
        }
        Answer::Open
    }

    fn step(&mut self, forward: bool) {
        let choices = self.choices();
        let at = choices.iter().position(|c| *c == self.at).unwrap_or(0);
        let next = match forward {
            true => (at + 1) % choices.len(),
            false => (at + choices.len() - 1) % choices.len(),
        };
        self.at = choices[next];
    }

    fn choose(&mut self, choice: Choice) -> Answer {
        let (scope, rule) = match choice {
            Choice::Deny => {
                self.at = Choice::Deny;
                self.reason = Some(String::new());
                return Answer::Open;
            }
            _ if !self.end_seen => return Answer::Unread,
            Choice::Once => return Answer::Once,
            Choice::Rule(scope) => (scope, &self.rule),
            Choice::Server => (RuleScope::Session, &self.server_rule),
        };
        match rule {
            Some(rule) => Answer::Rule(scope, rule.clone()),
            None => Answer::Open,
        }
    }

    fn reason_key(&mut self, key: &KeyEvent) -> Answer {
        let ctrl = key.modifiers.contains(KeyModifiers::CONTROL);
        let Some(reason) = &mut self.reason else {
            return Answer::Open;
        };
        match key.code {
            KeyCode::Enter => {
                let said = reason.trim();
                return Answer::Deny(match said {
                    "" => NO_REASON.to_string(),
                    said => said.to_string(),
                });
            }
            KeyCode::Esc => {
                self.reason = None;
                return Answer::Back;
            }
            KeyCode::Char('u') if ctrl => reason.clear(),
            KeyCode::Backspace => {
                let last = reason.grapheme_indices(true).next_back();
                reason.truncate(last.map_or(0, |(at, _)| at));
            }
            KeyCode::Char(c) if !ctrl => reason.push(c),
            _ => return Answer::Pass,
        }
        Answer::Open
    }

    /// Adds pasted text to the reason, if that is being typed. Otherwise returns false.
    pub fn paste(&mut self, text: &str) -> bool {
        match &mut self.reason {
            Some(reason) => {
                reason.push_str(&crate::core::text::one_line(text, 2_000));
                true
            }
            None => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::policy::Sandbox;

    fn asks(rule: Option<&str>) -> Approval {
        let id = CallId { reply: 2, index: 0 };
        let call = tools::call(id, "bash", r#"{"command":"make"}"#);
        let rule = rule.map(str::to_string);
        let mut asked = Approval::new(1, id, call, "it may change things".into(), rule);
        asked.extent = Extent { rows: 4, lines: 4 };
        asked.drawn();
        asked
    }

    /// Presses keys: a letter before the reason is typed selects.
    fn press(approval: &mut Approval, keys: &str) -> Answer {
        let mut last = Answer::Open;
        for c in keys.chars() {
            let code = match c {
                '\n' => KeyCode::Enter,
                '\t' => KeyCode::Tab,
                '\u{1b}' => KeyCode::Esc,
                '\u{c}' => KeyCode::PageDown,
                c if approval.reason.is_none() => {
                    approval.select(Some(c));
                    continue;
                }
                c => KeyCode::Char(c),
            };
            last = approval.key(&KeyEvent::new(code, KeyModifiers::NONE));
        }
        last
    }

    #[test]
    fn enter_confirms_the_choice_that_a_letter_a_digit_or_an_arrow_selects() {
        assert_eq!(press(&mut asks(None), "\n"), Answer::Once);
        for letters in ["y", "n", "a", "1", "2"] {
            assert_eq!(press(&mut asks(None), letters), Answer::Open, "{letters}");
        }
        assert_eq!(press(&mut asks(None), "y\n"), Answer::Once);
        for (keys, scope) in [
            ("s\n", RuleScope::Session),
            ("a\n", RuleScope::Project),
            ("e\n", RuleScope::Everywhere),
            ("2\n", RuleScope::Session),
            ("3\n", RuleScope::Project),
            ("\t\n", RuleScope::Session),
            ("s\t\n", RuleScope::Project),
            ("\t\t\t\n", RuleScope::Everywhere),
        ] {
            let rule = Answer::Rule(scope, "Bash(make)".into());
            assert_eq!(press(&mut asks(Some("Bash(make)")), keys), rule, "{keys}");
        }
        let no = Answer::Deny("use just".into());
        assert_eq!(press(&mut asks(None), "n\nuse just\n"), no);
        assert_eq!(press(&mut asks(None), "2\nuse just\n"), no);
        assert_eq!(press(&mut asks(None), "\t\nuse just\n"), no);
        assert_eq!(
            press(&mut asks(None), "n\n\n"),
            Answer::Deny(NO_REASON.into())
        );
        // Escape leaves the reason, and is not an answer.
        assert_eq!(press(&mut asks(None), "n\nx\u{1b}"), Answer::Back);
    }

    #[test]
    fn only_letters_and_digits_of_a_choice_select() {
        let offered = |rule, typed| asks(rule).choice_of(typed).is_some();
        for typed in ['y', 'n', 'd', '1', '2'] {
            assert!(offered(None, typed), "{typed}");
        }
        for typed in ['s', 'a', 'e', '3', '5'] {
            assert!(!offered(None, typed), "{typed}");
            assert!(offered(Some("Bash(make)"), typed), "{typed}");
        }
        for typed in ['w', 'Y', '0', '6', ' ', '?'] {
            assert!(!offered(Some("Bash(make)"), typed), "{typed}");
        }
    }

    #[test]
    fn no_is_preselected_where_a_command_reaches_far() {
        for (access, choice) in [
            (None, Choice::Once),
            (Some(Access::Read), Choice::Once),
            (Some(Access::Workspace), Choice::Once),
            (Some(Access::Network), Choice::Deny),
            (Some(Access::Full), Choice::Deny),
        ] {
            let mut asked = asks(Some("Bash(make)"));
            let sandbox = Sandbox {
                available: true,
                ..Sandbox::default()
            };
            asked.set_access(access.map(|access| sandbox.describe(access)));
            assert_eq!(asked.at, choice, "{access:?}");
            asked.select(Some('a'));
            asked.select(None);
            assert_eq!(asked.at, choice, "{access:?}");
        }
    }

    #[test]
    fn yes_counts_when_the_end_was_seen() {
        let mut asked = asks(Some("Bash(make)"));
        asked.end_seen = false;
        asked.extent = Extent { rows: 4, lines: 9 };
        asked.drawn();
        for yes in ["y\n", "a\n", "s\n", "e\n", "\n"] {
            assert_eq!(press(&mut asked, yes), Answer::Unread);
        }
        assert_eq!(press(&mut asked, "\u{c}\u{c}"), Answer::Open);
        // Scrolled to, and not drawn yet.
        assert_eq!(press(&mut asked, "y\n"), Answer::Unread);
        asked.drawn();
        assert_eq!(press(&mut asked, "y\n"), Answer::Once);
        asked.end_seen = false;
        assert_eq!(press(&mut asked, "n\n\n"), Answer::Deny(NO_REASON.into()));
    }
}
