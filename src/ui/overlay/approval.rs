//! A call that asks: what it would do, and the answers there are.
//!
//! Invariant: "yes" and "always" count only when the end of what is asked was on the screen. Enter
//! alone confirms: a letter only selects (`ui::app::Letters`).

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use ratatui::text::Line;

use crate::core::access::Access;
use crate::core::entry::{CallId, Mode, Seq};
use crate::core::policy::AccessText;
use crate::core::rule::RuleScope;
use crate::core::tool::ToolCall;
use crate::tools::{self, Body, Shown};

/// The question whether a call may run, and where its answer stands.
#[derive(Debug)]
pub struct Approval {
    /// Which question of this run it is.
    pub number: u64,
    /// Which of how many questions of one answer of the model it is, from 1.
    pub place: (usize, usize),
    pub id: CallId,
    /// It is a sub-agent's: its session, and the place of the question there.
    pub of_child: Option<(String, Seq)>,
    pub call: ToolCall,
    pub shown: Shown,
    /// Why it asks.
    pub why: String,
    /// The same in a sentence for a person.
    pub because: String,
    /// The text of the file that it would edit, and what it would be then.
    pub edit: Option<(String, String)>,
    /// What the command could do. `None`: the call runs no command.
    pub access: Option<AccessText>,
    /// What may be allowed with it, for as long as the answer says.
    pub rule: Option<String>,
    /// The answer that Enter gives.
    pub at: Choice,
    /// The reason for a denial, while it is typed.
    pub reason: Option<String>,
    /// The first line of the command or the change that is shown.
    pub top: usize,
    /// What is asked as lines, and for what look they were made.
    pub laid: Option<Laid>,
    /// How much of it was drawn last.
    pub extent: Extent,
    /// Its end was on the screen.
    pub end_seen: bool,
}

/// What is asked as lines, with the look that they were made for.
#[derive(Debug)]
pub struct Laid {
    pub width: u16,
    /// The look of the app that the lines were made for.
    pub generation: u64,
    pub layout: Layout,
    pub lines: Vec<Line<'static>>,
}

/// How a question is laid out in the rows that there are for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Layout {
    /// With a frame, and the reason below what is scrolled; else it is a part of that.
    pub framed: bool,
    /// Each answer has a row of its own.
    pub roomy: bool,
}

/// Rows of the screen, and lines that there are to be shown in them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Extent {
    pub rows: usize,
    pub lines: usize,
}

impl Extent {
    /// Whether there are more lines than rows.
    pub fn overflows(self) -> bool {
        self.lines > self.rows
    }

    /// Whether the last line stands on the screen when `top` lines are above it.
    fn has_end(self, top: usize) -> bool {
        self.rows > 0 && top + self.rows >= self.lines
    }

    /// The line at the top after a key that looks round; `None`: it is another key.
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

/// How much of a question of yes or no is on the screen, and was.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Page {
    /// Lines above the first one shown.
    pub top: usize,
    pub extent: Extent,
    /// The last line was on the screen: only then a yes counts.
    pub end_seen: bool,
    /// Enter says yes: that was selected. Else it says no.
    pub is_yes: bool,
}

impl Page {
    /// What was drawn is on the screen.
    pub fn drawn(&mut self) {
        self.end_seen |= self.extent.has_end(self.top);
    }

    /// A key that only looks round in the question; false when it is another one.
    pub fn scrolled(&mut self, key: &KeyEvent) -> bool {
        let top = self.extent.scrolled(self.top, key);
        self.top = top.unwrap_or(self.top);
        top.is_some()
    }
}

/// One of the answers that are offered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Choice {
    /// The call runs, this once.
    Once,
    /// And the rule, for as long as this.
    Rule(RuleScope),
    /// The call does not run. A reason for the model may be typed.
    Deny,
}

/// What a key came to.
#[derive(Debug, PartialEq, Eq)]
pub enum Answer {
    /// Nothing yet.
    Open,
    /// A yes before the end was seen.
    Unread,
    /// The call runs, this once.
    Once,
    /// And keep this rule.
    Rule(RuleScope, String),
    /// The call does not run. This reason is for the model.
    Deny(String),
    /// The reason is given up, and the choice is open again.
    Back,
    /// Not for here.
    Pass,
}

/// How reasons begin that go behind "because".
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
/// How those end that no rule can settle.
const NO_RULE: &str = "a rule covers single commands";

/// What the model is told when no reason is given.
const NO_REASON: &str = "the user said no; ask what they want instead, or go another way";

impl Approval {
    /// A question of which nothing was drawn yet. `number` tells it from the others of this
    /// run; `rule` is what "always" would write.
    pub fn new(
        number: u64,
        id: CallId,
        call: ToolCall,
        why: String,
        rule: Option<String>,
    ) -> Approval {
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
            at: Choice::Once,
            reason: None,
            top: 0,
            laid: None,
            extent: Extent::default(),
            end_seen: false,
        }
    }

    /// Why it asks, in a sentence, and what would keep it from asking. `mode`: the one it asks in.
    pub fn say_why(&mut self, mode: Mode) {
        let why = self.why.as_str();
        let is_clause = CLAUSES.iter().any(|start| why.starts_with(start));
        let changes_only = match &self.shown.body {
            Body::Edits { path, .. } | Body::File { path, .. } => {
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
                format!("No \"always\" here: {why}.")
            }
            _ => format!("It asks because {why}."),
        };
    }

    /// The file that it would edit was read: the change is shown in its place.
    pub fn file_read(&mut self, text: String) {
        let after = match &self.shown.body {
            Body::Edits { edits, .. } => tools::edited_text(edits, &text),
            Body::File { content, .. } => Some(content.clone()),
            Body::Subject | Body::Plan(_) | Body::Command { .. } | Body::Served { .. } => None,
        };
        if let Some(after) = after {
            self.edit = Some((text, after));
            self.laid = None;
            // It may be longer than what was seen.
            self.end_seen = false;
        }
    }

    /// The answers that are offered, in their order. "Always" only where there is a rule for
    /// it.
    pub fn choices(&self) -> Vec<Choice> {
        match self.rule {
            Some(_) => vec![
                Choice::Once,
                Choice::Rule(RuleScope::Session),
                Choice::Rule(RuleScope::Project),
                Choice::Rule(RuleScope::Everywhere),
                Choice::Deny,
            ],
            None => vec![Choice::Once, Choice::Deny],
        }
    }

    /// Sets how far the command would reach, and the choice that is preselected because of it.
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

    /// What was drawn is on the screen.
    pub fn drawn(&mut self) {
        self.end_seen |= self.extent.has_end(self.top);
    }

    /// A key that only looks round in what is asked; false when it is another one.
    pub fn scrolled(&mut self, key: &KeyEvent) -> bool {
        if self.reason.is_some() {
            return false;
        }
        let top = self.extent.scrolled(self.top, key);
        self.top = top.unwrap_or(self.top);
        top.is_some()
    }

    /// Takes a line, where nothing is drawn: its answer, or why there is none. `None`: it is text.
    pub fn line(&self, line: &str) -> Option<Result<Answer, &'static str>> {
        let (word, rest) = match line.split_once(char::is_whitespace) {
            Some((word, rest)) => (word, rest.trim()),
            None => (line, ""),
        };
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

    /// Takes a key that is no letter. A yes counts only when the end of what is asked was on the
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
        match (choice, &self.rule) {
            (Choice::Rule(_), None) => Answer::Open,
            (Choice::Once | Choice::Rule(_), _) if !self.end_seen => Answer::Unread,
            (Choice::Once, _) => Answer::Once,
            (Choice::Rule(scope), Some(rule)) => Answer::Rule(scope, rule.clone()),
            (Choice::Deny, _) => {
                self.at = Choice::Deny;
                self.reason = Some(String::new());
                Answer::Open
            }
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
            KeyCode::Backspace => drop(reason.pop()),
            KeyCode::Char(c) if !ctrl => reason.push(c),
            _ => return Answer::Pass,
        }
        Answer::Open
    }

    /// What was pasted belongs to the reason, while that is typed; false when it is not.
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
