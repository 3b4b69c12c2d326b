//! The form of a server for a person: its fields, their values, and the answer.
//!
//! Invariant: nothing is sent before the end of the form was on the screen, nor a value that a
//! field does not take. An address is opened only by the key for it.

mod questions;

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use reqwest::Url;
use serde_json::{Map, Value};

use super::steps::Steps;
use super::text_field::TextField;
use super::{Extent, Page};
use crate::core::form::{
    Choice, Field, FieldKind, FormAnswer, RequestedAnswer, ServerQuestion, check, fits, takes,
};
use crate::core::text::one_line;

/// Maximum length of an error message.
const ERROR_CHARS: usize = 400;

/// A question of a server, and the state of its answer.
#[derive(Debug)]
pub struct FormEntry {
    pub question: ServerQuestion,
    /// The values, one for each field.
    pub values: Vec<Filling>,
    /// Index of the focused field.
    pub at: usize,
    /// The index of a wrong field, and the error in words.
    pub error: Option<(usize, String)>,
    /// The visible part, and whether the end was visible.
    pub page: Page,
    /// The view scrolls to the focused field.
    pub follows: bool,
    /// The letter whose action Enter applies to the address. `None`: Enter confirms that it is
    /// done.
    pub letter: Option<char>,
    /// In line mode: the field that the next line is for. After the last one, the line confirms
    /// sending.
    pub line_at: usize,
    /// The questions of the model. `None`: a server asks.
    pub steps: Option<Steps>,
}

/// The value of a field.
#[derive(Debug, Clone, PartialEq)]
pub enum Filling {
    /// A text or a number.
    Text(TextField),
    YesNo(Option<bool>),
    OneOf(Option<usize>),
    SomeOf {
        chosen: Vec<bool>,
        /// Index of the focused choice.
        at: usize,
        is_touched: bool,
    },
}

/// The result of a key or a line.
#[derive(Debug, Clone, PartialEq)]
pub enum Filled {
    /// The form stays open.
    Open,
    Send(FormAnswer),
    /// The form is put aside; the question stays open.
    Later,
    /// Sending was refused, because the end was not seen.
    Unread,
    /// Open the address.
    Visit(String),
    Copy(String),
    /// The beginning of a message, for the box.
    Typed,
    /// The key does not belong to the form.
    Pass,
}

impl Filling {
    fn new(field: &Field) -> Filling {
        let default = field.default.as_ref();
        match &field.kind {
            FieldKind::Text { .. } => Filling::Text(TextField::new(
                default.and_then(Value::as_str).unwrap_or(""),
            )),
            FieldKind::Number { .. } => {
                let number = default.filter(|v| v.is_number()).map(Value::to_string);
                Filling::Text(TextField::new(&number.unwrap_or_default()))
            }
            FieldKind::YesNo => Filling::YesNo(default.and_then(Value::as_bool)),
            FieldKind::OneOf { choices } => {
                let is_it = |choice: &Choice| default.is_some_and(|v| *v == choice.value.as_str());
                Filling::OneOf(choices.iter().position(is_it))
            }
            FieldKind::SomeOf { choices, .. } => {
                let some = default.and_then(Value::as_array);
                let is_in = |choice: &Choice| {
                    some.is_some_and(|some| some.iter().any(|v| *v == choice.value.as_str()))
                };
                Filling::SomeOf {
                    chosen: choices.iter().map(is_in).collect(),
                    at: 0,
                    is_touched: false,
                }
            }
        }
    }
}

impl FormEntry {
    /// Makes a form with the default values of the server.
    pub fn new(question: ServerQuestion) -> FormEntry {
        let values = question.fields().iter().map(Filling::new).collect();
        FormEntry {
            values,
            steps: Steps::of(&question),
            question,
            at: 0,
            error: None,
            page: Page::default(),
            follows: false,
            letter: None,
            line_at: 0,
        }
    }

    pub fn fields(&self) -> &[Field] {
        self.question.fields()
    }

    /// Returns the address to open. `None`: it is a form.
    pub fn url(&self) -> Option<&str> {
        match &self.question.wanted {
            RequestedAnswer::Visit { url } => Some(url),
            RequestedAnswer::Form { .. } => None,
        }
    }

    /// Returns the address, if it is safe for a browser.
    pub fn address(&self) -> Option<Url> {
        let url = Url::parse(self.url()?).ok()?;
        let is_web = matches!(url.scheme(), "http" | "https") && url.has_host();
        is_web.then_some(url)
    }

    /// Records the last drawing: the number of lines, and the rows of the screen for them.
    pub fn drawn_with(&mut self, rows: usize, lines: usize) {
        self.page.extent = Extent { rows, lines };
        self.page.top = self.page.top.min(lines.saturating_sub(rows));
    }

    /// Takes a key.
    pub fn key(&mut self, key: &KeyEvent) -> Filled {
        if self.steps.is_some() {
            return self.step_key(key);
        }
        let ctrl = key.modifiers.contains(KeyModifiers::CONTROL);
        let is_plain = key.modifiers.is_empty();
        match key.code {
            KeyCode::Esc => return Filled::Later,
            KeyCode::Char('d') if ctrl => return Filled::Send(FormAnswer::Decline),
            KeyCode::Enter if is_plain && self.url().is_some() => return self.visit_enter(),
            KeyCode::Enter if is_plain => return self.send(),
            KeyCode::PageUp | KeyCode::PageDown => {
                self.follows = false;
                self.page.scrolled(key);
                return Filled::Open;
            }
            KeyCode::Tab => self.step(true),
            KeyCode::BackTab => self.step(false),
            KeyCode::Up | KeyCode::Down if is_plain => self.walk(key),
            _ if self.url().is_some() => return Filled::Pass,
            _ => return self.field_key(key),
        }
        Filled::Open
    }

    /// Returns whether a letter selects an action on the address. `None`: it is a form, whose
    /// fields take letters.
    pub fn has_letter(&self, letter: char) -> Option<bool> {
        self.url().map(|_| matches!(letter, 'o' | 'c' | 'y' | 'n'))
    }

    /// Applies the selected action to the address.
    fn visit_enter(&mut self) -> Filled {
        match self.letter.take() {
            Some('o') => match self.address() {
                _ if !self.is_read() => Filled::Unread,
                Some(url) => Filled::Visit(url.to_string()),
                None => Filled::Open,
            },
            Some('c') => Filled::Copy(self.url().unwrap_or_default().to_string()),
            Some('n') => Filled::Send(FormAnswer::Decline),
            _ => self.send(),
        }
    }

    /// Returns the current field and its value.
    fn current(&mut self) -> Option<(&Field, &mut Filling)> {
        let field = self.question.fields().get(self.at)?;
        Some((field, self.values.get_mut(self.at)?))
    }

    fn field_key(&mut self, key: &KeyEvent) -> Filled {
        let Some((field, value)) = self.current() else {
            return match key.code {
                KeyCode::Char(_) if key.modifiers.is_empty() => Filled::Typed,
                _ => Filled::Pass,
            };
        };
        let held = KeyModifiers::CONTROL | KeyModifiers::ALT;
        let is_held = key.modifiers.intersects(held);
        let is_taken = match (value, &field.kind) {
            (Filling::Text(text), _) => text.key(key),
            _ if is_held => false,
            (Filling::YesNo(is), _) => yes_no_key(is, key),
            (Filling::OneOf(one), FieldKind::OneOf { choices }) => {
                one_of_key(one, choices, field.is_required, key)
            }
            (
                Filling::SomeOf {
                    chosen,
                    at,
                    is_touched,
                },
                _,
            ) => match key.code {
                KeyCode::Char(' ') => {
                    if let Some(is) = chosen.get_mut(*at) {
                        *is = !*is;
                        *is_touched = true;
                    }
                    true
                }
                KeyCode::Left => {
                    *at = at.saturating_sub(1);
                    true
                }
                KeyCode::Right => {
                    *at = (*at + 1).min(chosen.len().saturating_sub(1));
                    true
                }
                _ => false,
            },
            (Filling::OneOf(_), _) => false,
        };
        if !is_taken {
            return match key.code {
                // An unused letter must not reach the box.
                KeyCode::Char(_) if !is_held => Filled::Open,
                _ => Filled::Pass,
            };
        }
        self.follows = true;
        let at = self.at;
        self.error.take_if(|(wrong, _)| *wrong == at);
        Filled::Open
    }

    /// Moves to the next field or the one before.
    fn step(&mut self, forward: bool) {
        let count = self.values.len();
        if count == 0 {
            return;
        }
        self.follows = true;
        self.at = match forward {
            true => (self.at + 1) % count,
            false => (self.at + count - 1) % count,
        };
    }

    /// Moves a line up or down: in a list of choices, then to the next field, then the form
    /// scrolls.
    fn walk(&mut self, key: &KeyEvent) {
        let down = key.code == KeyCode::Down;
        let last = self.values.len().saturating_sub(1);
        if let Some(Filling::SomeOf { chosen, at, .. }) = self.values.get_mut(self.at) {
            let is_inside = if down {
                *at + 1 < chosen.len()
            } else {
                *at > 0
            };
            if is_inside {
                *at = if down { *at + 1 } else { *at - 1 };
                self.follows = true;
                return;
            }
        }
        let is_end = if down { self.at >= last } else { self.at == 0 };
        if is_end {
            self.follows = false;
            self.page.scrolled(key);
            return;
        }
        self.step(down);
        if let Some(Filling::SomeOf { chosen, at, .. }) = self.values.get_mut(self.at) {
            *at = if down {
                0
            } else {
                chosen.len().saturating_sub(1)
            };
        }
    }

    /// Pastes text into the focused field. Returns false when it does not take text.
    pub fn paste(&mut self, text: &str) -> bool {
        if self.steps.is_some() {
            return self.step_paste(text);
        }
        match self.values.get_mut(self.at) {
            Some(Filling::Text(field)) => {
                field.insert(text);
                self.follows = true;
                true
            }
            _ => false,
        }
    }

    pub fn is_read(&self) -> bool {
        self.page.end_seen
    }

    /// Returns the answer if it is complete. Otherwise moves to the first wrong field and sets its
    /// error.
    fn send(&mut self) -> Filled {
        if !self.is_read() {
            return Filled::Unread;
        }
        match self.answer() {
            Ok(answer) => Filled::Send(answer),
            Err((place, why)) => {
                self.at = place;
                self.line_at = place;
                self.error = Some((place, one_line(&why, ERROR_CHARS)));
                self.follows = true;
                Filled::Open
            }
        }
    }

    fn answer(&self) -> Result<FormAnswer, (usize, String)> {
        let mut values = Map::new();
        for (place, field) in self.fields().iter().enumerate() {
            if let Some(value) = self.value(place).map_err(|why| (place, why))? {
                values.insert(field.name.clone(), value);
            }
        }
        let answer = FormAnswer::Accept { values };
        check(&self.question, &answer).map_err(|why| (self.at, why))?;
        Ok(answer)
    }

    /// Returns the value that a field would send. `None`: the field is left out.
    fn value(&self, place: usize) -> Result<Option<Value>, String> {
        let (Some(field), Some(value)) = (self.fields().get(place), self.values.get(place)) else {
            return Ok(None);
        };
        if !self.is_chosen(place) {
            return Ok(None);
        }
        let takes_it = || format!("it takes {}", takes(&field.kind));
        let value = match (value, &field.kind) {
            (Filling::Text(text), FieldKind::Number { .. }) => match text.text().trim() {
                "" => None,
                typed => Some(number(typed).ok_or_else(takes_it)?),
            },
            (Filling::Text(text), _) if self.steps.is_some() && text.text().trim().is_empty() => {
                None
            }
            (Filling::Text(text), _) if text.text().is_empty() => {
                // An emptied default is sent as an empty text. It is not the same as a missing
                // value.
                let had = field.default.is_some() && !field.is_required;
                had.then(|| Value::from(""))
            }
            (Filling::Text(text), _) => Some(Value::from(text.text())),
            (Filling::YesNo(is), _) => is.map(Value::from),
            (Filling::OneOf(one), FieldKind::OneOf { choices }) => one
                .and_then(|one| choices.get(one))
                .map(|choice| Value::from(choice.value.as_str())),
            (
                Filling::SomeOf {
                    chosen, is_touched, ..
                },
                FieldKind::SomeOf { choices, .. },
            ) => {
                let some = choices.iter().zip(chosen).filter(|(_, is)| **is);
                let some: Vec<Value> = some.map(|(c, _)| Value::from(c.value.as_str())).collect();
                let is_touched = *is_touched && self.steps.is_none();
                let is_given = is_touched || field.is_required || !some.is_empty();
                is_given.then_some(Value::Array(some))
            }
            _ => None,
        };
        match value {
            None if field.is_required => Err(format!("this is required: {}", takes(&field.kind))),
            Some(value) if !fits(&field.kind, &value) => Err(takes_it()),
            Some(value) => match (&field.kind, value.as_str()) {
                (
                    FieldKind::Text {
                        format: Some(format),
                        ..
                    },
                    Some(text),
                ) if !has_format(format, text) => Err(format!(
                    "it takes {}",
                    format_example(format).unwrap_or(format)
                )),
                _ => Ok(Some(value)),
            },
            None => Ok(None),
        }
    }

    /// Returns the value of a field for a person; empty when it has none.
    pub fn shown(&self, place: usize) -> String {
        match (
            self.values.get(place),
            self.fields().get(place).map(|f| &f.kind),
        ) {
            (Some(Filling::Text(text)), _) => text.text().to_string(),
            (Some(Filling::YesNo(Some(is))), _) => if *is { "yes" } else { "no" }.to_string(),
            (Some(Filling::OneOf(Some(one))), Some(FieldKind::OneOf { choices })) => {
                choices.get(*one).map_or(String::new(), |c| c.label.clone())
            }
            (Some(Filling::SomeOf { chosen, .. }), Some(FieldKind::SomeOf { choices, .. })) => {
                let some = choices.iter().zip(chosen).filter(|(_, is)| **is);
                let some: Vec<&str> = some.map(|(choice, _)| choice.label.as_str()).collect();
                some.join(", ")
            }
            _ => String::new(),
        }
    }

    /// Takes a line in line mode: for one field after the other, then a yes. Sets `error` if the
    /// line is wrong.
    pub fn line(&mut self, line: &str) -> Filled {
        if self.steps.is_some() {
            return self.step_line(line);
        }
        self.error = None;
        let word = line.trim();
        if self.url().is_some() {
            return match word {
                "y" | "yes" => self.send(),
                "n" | "no" => Filled::Send(FormAnswer::Decline),
                "o" => self
                    .address()
                    .map_or(Filled::Open, |url| Filled::Visit(url.to_string())),
                _ => self.wrong("answer y or n; o opens the address"),
            };
        }
        if self.line_at >= self.values.len() {
            return match word {
                "y" | "yes" => self.send(),
                "n" | "no" => {
                    self.line_at = 0;
                    Filled::Open
                }
                _ => self.wrong("answer y to send it, or n to begin again"),
            };
        }
        self.at = self.line_at;
        if !word.is_empty() && !self.set(line) {
            let kind = &self.fields()[self.at].kind;
            let why = format!("it takes {}", takes(kind));
            return self.wrong(&why);
        }
        match self.value(self.at) {
            Ok(_) => {
                self.line_at += 1;
                Filled::Open
            }
            Err(why) => self.wrong(&why),
        }
    }

    /// Goes back, so that the field before is asked for again.
    pub fn line_back(&mut self) {
        self.error = None;
        self.line_at = self.line_at.saturating_sub(1);
    }

    fn wrong(&mut self, why: &str) -> Filled {
        self.error = Some((self.at, one_line(why, ERROR_CHARS)));
        Filled::Open
    }

    /// Sets the field from a line. Returns false when the line names no choice.
    fn set(&mut self, line: &str) -> bool {
        let Some((field, value)) = self.current() else {
            return false;
        };
        let word = line.trim();
        match (value, &field.kind) {
            (Filling::Text(text), _) => *text = TextField::new(line),
            (Filling::YesNo(is), _) => match word.to_lowercase().as_str() {
                "y" | "yes" | "true" => *is = Some(true),
                "n" | "no" | "false" => *is = Some(false),
                _ => return false,
            },
            (Filling::OneOf(one), FieldKind::OneOf { choices }) => match choice(choices, word) {
                Some(place) => *one = Some(place),
                None => return false,
            },
            (
                Filling::SomeOf {
                    chosen, is_touched, ..
                },
                FieldKind::SomeOf { choices, .. },
            ) => {
                let mut some = vec![false; chosen.len()];
                if word != "none" {
                    for part in word.split(',').map(str::trim).filter(|p| !p.is_empty()) {
                        match choice(choices, part).and_then(|place| some.get_mut(place)) {
                            Some(is) => *is = true,
                            None => return false,
                        }
                    }
                }
                (*chosen, *is_touched) = (some, true);
            }
            _ => return false,
        }
        true
    }
}

fn yes_no_key(is: &mut Option<bool>, key: &KeyEvent) -> bool {
    match key.code {
        KeyCode::Char(' ') | KeyCode::Left | KeyCode::Right => *is = Some(*is != Some(true)),
        KeyCode::Char('y') => *is = Some(true),
        KeyCode::Char('n') => *is = Some(false),
        _ => return false,
    }
    true
}

/// Takes a key of a single choice. A letter goes to the next choice that begins with it.
fn one_of_key(
    one: &mut Option<usize>,
    choices: &[Choice],
    is_required: bool,
    key: &KeyEvent,
) -> bool {
    let count = choices.len();
    if count == 0 {
        return false;
    }
    *one = match (key.code, *one) {
        (KeyCode::Right | KeyCode::Char(' '), None) => Some(0),
        (KeyCode::Right | KeyCode::Char(' '), Some(place)) if place + 1 < count => Some(place + 1),
        (KeyCode::Left, None) => Some(count - 1),
        (KeyCode::Left, Some(place)) if place > 0 => Some(place - 1),
        // An optional field can also have no choice, before the first and after the last.
        (KeyCode::Right | KeyCode::Char(' ') | KeyCode::Left, Some(_)) if !is_required => None,
        (KeyCode::Right | KeyCode::Char(' '), Some(_)) => Some(0),
        (KeyCode::Left, Some(_)) => Some(count - 1),
        (KeyCode::Char(c), now) => {
            let begins = |place: &usize| {
                let first = choices[*place].label.chars().next();
                first.is_some_and(|first| first.to_lowercase().eq(c.to_lowercase()))
            };
            let from = now.map_or(0, |place| place + 1);
            (from..count).chain(0..from.min(count)).find(begins).or(now)
        }
        _ => return false,
    };
    true
}

/// Finds a choice by its number from 1, its value, or its label.
fn choice(choices: &[Choice], word: &str) -> Option<usize> {
    let named = |c: &Choice| c.value == word || c.label.eq_ignore_ascii_case(word);
    choices.iter().position(named).or_else(|| {
        let place = word.parse::<usize>().ok()?.checked_sub(1)?;
        (place < choices.len()).then_some(place)
    })
}

fn number(typed: &str) -> Option<Value> {
    if let Ok(whole) = typed.parse::<i64>() {
        return Some(Value::from(whole));
    }
    let number = typed.parse::<f64>().ok().filter(|n| n.is_finite())?;
    Some(Value::from(number))
}

/// Returns whether a text roughly has the format. The server checks exactly.
fn has_format(format: &str, text: &str) -> bool {
    match format {
        "email" => text.split_once('@').is_some_and(|(user, host)| {
            !user.is_empty() && !host.is_empty() && !text.contains(char::is_whitespace)
        }),
        "uri" => Url::parse(text).is_ok(),
        "date" => text.parse::<jiff::civil::Date>().is_ok() && text.len() == "2026-01-31".len(),
        "date-time" => text.parse::<jiff::Timestamp>().is_ok(),
        _ => true,
    }
}

/// Returns a description of a format with an example. `None`: the format is not known.
pub fn format_example(format: &str) -> Option<&'static str> {
    Some(match format {
        "email" => "an e-mail address, such as ann@example.com",
        "uri" => "an address, such as https://example.com",
        "date" => "a date, such as 2026-01-31",
        "date-time" => "a date and time, such as 2026-01-31T08:00:00Z",
        _ => return None,
    })
}

#[cfg(test)]
mod tests;
