//! The first screen when there is no model to ask: what was looked for, and what one can do.

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

/// A provider that was looked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Provider {
    pub name: String,
    /// `ANTHROPIC_API_KEY is set`, `no server at 127.0.0.1:11434`, …
    pub found: String,
    /// It can be used as it is.
    pub is_ready: bool,
    /// Its models, the best first; what a local server has.
    pub models: Vec<String>,
    /// What makes it ready.
    pub hint: String,
    /// It is shown at once, not only with all the others.
    pub is_usual: bool,
}

/// The first screen of a person who has no model yet.
#[derive(Debug)]
pub struct FirstRun {
    /// Why there is no model.
    pub why: String,
    pub providers: Vec<Provider>,
    /// Among the rows: the models that can be used, then the demo.
    pub at: usize,
    /// The providers that are not usual are shown, in place of those that are.
    pub shows_others: bool,
}

/// What a key came to.
#[derive(Debug, PartialEq, Eq)]
pub enum Setup {
    /// The screen stays.
    Nothing,
    /// Use this `provider/model`.
    Model(String),
    Demo,
    Quit,
}

impl FirstRun {
    /// The first screen with its first row selected. `why`: why there is no model.
    pub fn new(why: String, providers: Vec<Provider>) -> FirstRun {
        FirstRun {
            why,
            providers,
            at: 0,
            shows_others: false,
        }
    }

    /// The providers that are shown now.
    pub fn shown(&self) -> impl Iterator<Item = &Provider> {
        let is_shown = |p: &&Provider| p.is_usual != self.shows_others;
        self.providers.iter().filter(is_shown)
    }

    /// Whether there are more providers than the usual ones.
    pub fn has_others(&self) -> bool {
        self.providers.iter().any(|p| !p.is_usual)
    }

    /// The models that can be chosen.
    pub fn models(&self) -> Vec<&str> {
        let ready = self.providers.iter().filter(|p| p.is_ready);
        ready
            .flat_map(|p| p.models.iter().map(String::as_str))
            .collect()
    }

    /// Takes a key: it moves the selection, or chooses.
    pub fn key(&mut self, key: &KeyEvent) -> Setup {
        let ctrl = key.modifiers.contains(KeyModifiers::CONTROL);
        let models = self.models();
        let rows = models.len() + 1;
        match key.code {
            KeyCode::Char('c' | 'd') if ctrl => return Setup::Quit,
            KeyCode::Char('q') | KeyCode::Esc => return Setup::Quit,
            KeyCode::Char('d') => return Setup::Demo,
            KeyCode::Char('m') => self.shows_others = !self.shows_others && self.has_others(),
            KeyCode::Enter => {
                return match models.get(self.at) {
                    Some(model) => Setup::Model(model.to_string()),
                    None => Setup::Demo,
                };
            }
            KeyCode::Up | KeyCode::Char('k') => self.at = self.at.saturating_sub(1),
            KeyCode::Down | KeyCode::Char('j') => self.at = (self.at + 1).min(rows - 1),
            _ => {}
        }
        Setup::Nothing
    }
}
