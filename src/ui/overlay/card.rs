//! The resume prompt: the offer of unfinished work at the start.

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use crate::session::{Details, Offer, StillRunning};

/// Interval between reads of the last line of a running command.
const LOOK_AGAIN_MS: i64 = 1_000;

/// The unfinished sessions of this folder.
#[derive(Debug, Default)]
pub struct Card {
    pub offers: Vec<Offer>,
    /// When the running commands were last read: UTC, milliseconds since 1970.
    pub looked_ms: i64,
    /// The running commands are being read again.
    pub looking: bool,
    /// Index of the selected offer.
    pub at: usize,
    /// The letter whose action Enter does. `None`: Enter resumes, or watches.
    pub letter: Option<char>,
}

/// The result of a key. Sessions are named by their ids.
#[derive(Debug, PartialEq, Eq)]
pub enum ResumeChoice {
    /// The card stays.
    Nothing,
    /// Resume the session.
    Resume(String),
    /// Work in a fork of it.
    Fork(String),
    /// Follow it while another process works in it.
    Watch(String),
    /// Ask the other process to leave it, and resume it.
    TakeOver(String),
    /// Do not offer it any more.
    Dismiss(String),
    /// Begin a new session.
    New,
    /// Look through all sessions.
    History,
    Quit,
}

impl Card {
    /// Makes a card with the first offer selected.
    pub fn new(offers: Vec<Offer>) -> Card {
        Card {
            offers,
            ..Card::default()
        }
    }

    /// Returns the selected offer. `None` only when there are no offers.
    pub fn offer(&self) -> Option<&Offer> {
        self.offers.get(self.at)
    }

    /// Returns the letter and the number of a line that answers the offer, such as `f1`. `None`: it
    /// is a message.
    pub fn answer(line: &str) -> Option<(&str, &str)> {
        let letter = line
            .find(|c: char| !c.is_ascii_alphabetic())
            .unwrap_or(line.len());
        let (letter, number) = line.split_at(letter);
        let number = number.trim_start();
        let is_answer = letter.len() <= 1 && number.chars().all(|c| c.is_ascii_digit());
        is_answer.then_some((letter, number))
    }

    /// Takes the details from the log of an offered session.
    pub fn receive_details(&mut self, id: &str, details: Option<Details>, now_ms: i64) {
        if let Some(offer) = self.offers.iter_mut().find(|o| o.info.id == id) {
            self.looked_ms = now_ms;
            offer.details = details;
        }
    }

    /// Removes a session from the offers. Returns false when none is left.
    pub fn dismissed(&mut self, id: &str) -> bool {
        self.offers.retain(|offer| offer.info.id != id);
        self.at = self.at.min(self.offers.len().saturating_sub(1));
        !self.offers.is_empty()
    }

    /// Returns whether a command of an offered session runs, so that its time must be drawn again.
    pub fn moves(&self) -> bool {
        self.running().next().is_some()
    }

    /// Returns the sessions with running commands.
    fn running(&self) -> impl Iterator<Item = &Offer> {
        let runs = |offer: &&Offer| {
            let details = offer.details.as_ref();
            details.is_some_and(|d| !d.running.is_empty())
        };
        self.offers.iter().filter(runs)
    }

    /// Returns the ids of the sessions whose commands must be read again now.
    pub fn look_again(&mut self, now_ms: i64) -> Option<Vec<String>> {
        let is_due = !self.looking && now_ms - self.looked_ms >= LOOK_AGAIN_MS;
        if !is_due || !self.moves() {
            return None;
        }
        self.looking = true;
        Some(self.running().map(|offer| offer.info.id.clone()).collect())
    }

    /// Takes the commands that run in the sessions now.
    pub fn looked(&mut self, found: Vec<(String, Vec<StillRunning>)>, now_ms: i64) {
        self.looking = false;
        self.looked_ms = now_ms;
        for (id, running) in found {
            let offer = self.offers.iter_mut().find(|offer| offer.info.id == id);
            if let Some(details) = offer.and_then(|offer| offer.details.as_mut()) {
                details.running = running;
            }
        }
    }

    /// Returns whether a letter selects an action for the offer that is selected.
    pub fn has_letter(&self, letter: char) -> bool {
        self.action(Some(letter)).is_some()
    }

    /// Returns the effect of Enter after this letter. `None`: there is no such action.
    fn action(&self, letter: Option<char>) -> Option<ResumeChoice> {
        let offer = self.offer()?;
        let (id, held) = (offer.info.id.clone(), offer.held_by.is_some());
        Some(match letter {
            None | Some('w') if held => ResumeChoice::Watch(id),
            None => ResumeChoice::Resume(id),
            Some('t') if held => ResumeChoice::TakeOver(id),
            Some('f') => ResumeChoice::Fork(id),
            Some('x') if !held => ResumeChoice::Dismiss(id),
            Some('n') => ResumeChoice::New,
            Some('h') => ResumeChoice::History,
            Some('q') => ResumeChoice::Quit,
            Some(_) => return None,
        })
    }

    /// Takes a line in line mode: returns its choice, or the reason why it is wrong. `None`: it is
    /// a message.
    pub fn line(&self, line: &str) -> Option<Result<ResumeChoice, String>> {
        let (letter, number) = Card::answer(line)?;
        let offer = match number {
            "" => self.offers.first(),
            number => number
                .parse::<usize>()
                .ok()
                .and_then(|n| self.offers.get(n.checked_sub(1)?)),
        };
        let Some(offer) = offer else {
            return Some(Err(format!("there is no session {number} in the list")));
        };
        let (id, is_held) = (offer.info.id.clone(), offer.held_by.is_some());
        Some(Ok(match letter {
            "" | "w" if is_held => ResumeChoice::Watch(id),
            "" => ResumeChoice::Resume(id),
            "t" if is_held => ResumeChoice::TakeOver(id),
            "f" => ResumeChoice::Fork(id),
            "x" if !is_held => ResumeChoice::Dismiss(id),
            "n" => ResumeChoice::New,
            "q" => ResumeChoice::Quit,
            _ => {
                return Some(Err(
                    "answer with a number, f1 to fork, x1 to dismiss, n for a new session, or q"
                        .into(),
                ));
            }
        }))
    }

    /// Takes a key that is not a letter: it moves the selection, or chooses.
    pub fn key(&mut self, key: &KeyEvent) -> ResumeChoice {
        let ctrl = key.modifiers.contains(KeyModifiers::CONTROL);
        let last = self.offers.len().saturating_sub(1);
        match key.code {
            KeyCode::Char('c' | 'd') if ctrl => return ResumeChoice::Quit,
            KeyCode::Enter => {
                let letter = self.letter.take();
                let action = self.action(letter).or_else(|| self.action(None));
                return action.unwrap_or(ResumeChoice::New);
            }
            KeyCode::Esc => return ResumeChoice::New,
            KeyCode::F(2) => return ResumeChoice::History,
            KeyCode::Up => self.at = self.at.saturating_sub(1),
            KeyCode::Down | KeyCode::Tab => self.at = (self.at + 1).min(last),
            _ => return ResumeChoice::Nothing,
        }
        self.letter = None;
        ResumeChoice::Nothing
    }
}
