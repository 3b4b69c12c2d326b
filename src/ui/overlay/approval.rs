//! A call that asks: what it would do, and the answers there are.

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use crate::core::entry::CallId;
use crate::core::tool::ToolCall;

#[derive(Debug)]
pub struct Approval {
    pub id: CallId,
    pub call: ToolCall,
    /// Why it asks.
    pub why: String,
    /// What "always" writes into the user's config.
    pub rule: Option<String>,
    pub at: Choice,
    /// The reason for a denial, while it is typed.
    pub reason: Option<String>,
    /// The first line of the command or the change that is shown.
    pub top: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Choice {
    Once,
    Always,
    Deny,
}

#[derive(Debug, PartialEq, Eq)]
pub enum Answer {
    /// Nothing yet.
    Open,
    Once,
    /// And write this rule.
    Always(String),
    Deny(String),
    /// Not for here.
    Pass,
}

/// What the model is told when no reason is given.
const NO_REASON: &str = "the user said no; ask what they want instead, or go another way";

impl Approval {
    pub fn new(id: CallId, call: ToolCall, why: String, rule: Option<String>) -> Approval {
        Approval {
            id,
            call,
            why,
            rule,
            at: Choice::Once,
            reason: None,
            top: 0,
        }
    }

    pub fn choices(&self) -> Vec<Choice> {
        match self.rule {
            Some(_) => vec![Choice::Once, Choice::Always, Choice::Deny],
            None => vec![Choice::Once, Choice::Deny],
        }
    }

    pub fn key(&mut self, key: &KeyEvent) -> Answer {
        if self.reason.is_some() {
            return self.reason_key(key);
        }
        if key.modifiers.contains(KeyModifiers::CONTROL) {
            return Answer::Pass;
        }
        match key.code {
            KeyCode::Enter => return self.choose(self.at),
            KeyCode::Char('y' | '1') => return Answer::Once,
            KeyCode::Char('a') => return self.choose(Choice::Always),
            KeyCode::Char('n' | 'd') => return self.choose(Choice::Deny),
            KeyCode::Up | KeyCode::Left => self.step(false),
            KeyCode::Down | KeyCode::Right | KeyCode::Tab => self.step(true),
            KeyCode::Char('j') => self.top += 1,
            KeyCode::Char('k') => self.top = self.top.saturating_sub(1),
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
            (Choice::Once, _) => Answer::Once,
            (Choice::Always, Some(rule)) => Answer::Always(rule.clone()),
            (Choice::Always, None) => Answer::Open,
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
            KeyCode::Esc => self.reason = None,
            KeyCode::Char('u') if ctrl => reason.clear(),
            KeyCode::Backspace => drop(reason.pop()),
            KeyCode::Char(c) if !ctrl => reason.push(c),
            _ => return Answer::Pass,
        }
        Answer::Open
    }

    /// What was pasted belongs to the reason.
    pub fn paste(&mut self, text: &str) {
        if let Some(reason) = &mut self.reason {
            reason.push_str(&crate::core::text::one_line(text, 2_000));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asks(rule: Option<&str>) -> Approval {
        let id = CallId { reply: 2, index: 0 };
        let call = ToolCall::new(id, "bash", r#"{"command":"make"}"#);
        Approval::new(
            id,
            call,
            "it may change things".into(),
            rule.map(str::to_string),
        )
    }

    fn press(approval: &mut Approval, keys: &str) -> Answer {
        let mut last = Answer::Open;
        for c in keys.chars() {
            let code = match c {
                '\n' => KeyCode::Enter,
                '\t' => KeyCode::Tab,
                '\u{1b}' => KeyCode::Esc,
                c => KeyCode::Char(c),
            };
            last = approval.key(&KeyEvent::new(code, KeyModifiers::NONE));
        }
        last
    }

    #[test]
    fn answers_are_given_by_letter_and_by_choice() {
        assert_eq!(press(&mut asks(None), "\n"), Answer::Once);
        assert_eq!(press(&mut asks(None), "y"), Answer::Once);
        assert_eq!(press(&mut asks(None), "a"), Answer::Open);
        let rule = Answer::Always("Bash(make)".into());
        assert_eq!(press(&mut asks(Some("Bash(make)")), "a"), rule);
        assert_eq!(press(&mut asks(Some("Bash(make)")), "\t\n"), rule);
        let no = Answer::Deny("use just".into());
        assert_eq!(press(&mut asks(None), "nuse just\n"), no);
        assert_eq!(press(&mut asks(None), "\t\nuse just\n"), no);
        assert_eq!(
            press(&mut asks(None), "n\n"),
            Answer::Deny(NO_REASON.into())
        );
        // Escape leaves the reason, and is not an answer.
        assert_eq!(press(&mut asks(None), "nx\u{1b}"), Answer::Open);
    }
}
