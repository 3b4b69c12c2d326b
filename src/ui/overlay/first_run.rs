//! The first screen without a usable model: the providers that were found, and the possible
//! choices.

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

/// The sentence for a person who starts rewake for the first time.
pub const WHAT_IT_IS: &str = "rewake is a coding agent: it reads, changes and runs code in this \
                              folder as you ask, and continues where it was after a crash. Choose \
                              a model for it.";

/// A provider that was checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Provider {
    pub name: String,
    /// The finding in words: `ANTHROPIC_API_KEY is set`, `no server at 127.0.0.1:11434`, …
    pub found: String,
    /// It is ready for use.
    pub is_ready: bool,
    /// Its models, the best first; for a local server, those that it has.
    pub models: Vec<String>,
    /// How to make the provider ready, where typing its key is not enough.
    pub hint: String,
    /// The model to use after the key of the provider was typed.
    pub with_key: Option<String>,
    /// It is in the first list, not only in the list of the others.
    pub is_usual: bool,
}

/// The first screen of a person who has no model yet.
#[derive(Debug)]
pub struct FirstRun {
    /// The reason why the configured model cannot be used. Empty: none was configured.
    pub why: String,
    pub providers: Vec<Provider>,
    /// Index of the selected row.
    pub at: usize,
    /// The list shows the other providers instead of the usual ones.
    pub shows_others: bool,
}

/// A row that can be chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SetupRow<'a> {
    /// This `provider/model`.
    Model(&'a str),
    /// The key of this provider must be typed; then this model is used.
    Key(&'a Provider, &'a str),
    Demo,
}

/// The result of a key.
#[derive(Debug, PartialEq, Eq)]
pub enum Setup {
    /// The screen stays.
    Nothing,
    /// Use this `provider/model`.
    Model(String),
    /// Type a key for this provider, and use this model of it.
    Key(String, String),
    Demo,
    Quit,
    /// The beginning of a message, for the box.
    Typed,
}

impl FirstRun {
    /// Makes the first screen with its first row selected. `why`: the reason why no model is
    /// usable.
    pub fn new(why: String, providers: Vec<Provider>) -> FirstRun {
        FirstRun {
            why,
            providers,
            at: 0,
            shows_others: false,
        }
    }

    /// Returns the providers that are shown now.
    pub fn shown(&self) -> impl Iterator<Item = &Provider> {
        let is_shown = |p: &&Provider| p.is_usual != self.shows_others;
        self.providers.iter().filter(is_shown)
    }

    /// Returns whether there are more providers than the usual ones.
    pub fn has_others(&self) -> bool {
        self.providers.iter().any(|p| !p.is_usual)
    }

    /// Returns the keys, the most used first: a footer has room for few.
    pub fn keys(&self) -> &'static str {
        match (self.has_others(), self.shows_others) {
            (false, _) => "Enter chooses · Ctrl+D leave · ? keys",
            (true, false) => "Enter chooses · Ctrl+D leave · m more providers · ? keys",
            (true, true) => "Enter chooses · Ctrl+D leave · m back · ? keys",
        }
    }

    /// Lists the rows: the models that are ready, then the providers whose key can be typed.
    pub fn rows(&self) -> Vec<SetupRow<'_>> {
        let ready = self.providers.iter().filter(|p| p.is_ready);
        let models = ready.flat_map(|p| p.models.iter().map(|m| SetupRow::Model(m)));
        let keys = self.providers.iter().filter_map(|provider| {
            let model = provider.with_key.as_deref()?;
            (!provider.is_ready).then_some(SetupRow::Key(provider, model))
        });
        models.chain(keys).chain([SetupRow::Demo]).collect()
    }

    /// Takes a key: it moves the selection, or chooses.
    pub fn key(&mut self, key: &KeyEvent) -> Setup {
        let ctrl = key.modifiers.contains(KeyModifiers::CONTROL);
        let rows = self.rows();
        let last = rows.len().saturating_sub(1);
        match key.code {
            KeyCode::Char('c' | 'd') if ctrl => return Setup::Quit,
            KeyCode::Esc if self.shows_others => self.shows_others = false,
            KeyCode::Char('q') | KeyCode::Esc => return Setup::Quit,
            KeyCode::Char('d') => return Setup::Demo,
            KeyCode::Char('m') => self.shows_others = !self.shows_others && self.has_others(),
            KeyCode::Enter => return chosen(rows.get(self.at)),
            KeyCode::Up | KeyCode::Char('k') => self.at = self.at.saturating_sub(1),
            KeyCode::Down | KeyCode::Char('j') => self.at = (self.at + 1).min(last),
            KeyCode::Char(_) if !ctrl => return Setup::Typed,
            _ => {}
        }
        Setup::Nothing
    }

    /// Takes a line in line mode: the number of a row, or `q`.
    ///
    /// # Errors
    /// The possible answers, when the line is none of them.
    pub fn line(&self, line: &str) -> Result<Setup, String> {
        if matches!(line, "q" | "quit") {
            return Ok(Setup::Quit);
        }
        let rows = self.rows();
        let place = line.parse::<usize>().ok().and_then(|n| n.checked_sub(1));
        match place.and_then(|place| rows.get(place)) {
            Some(row) => Ok(chosen(Some(row))),
            None => Err(format!(
                "answer with a number from 1 to {}, or q to quit",
                rows.len()
            )),
        }
    }

    /// Returns the provider and model of a key that was pasted without choosing first. The
    /// beginning of the key names the provider; otherwise the selected provider is used.
    pub fn key_for(&self, pasted: &str) -> Option<(String, String)> {
        let pasted = pasted.trim();
        let rows = self.rows();
        let keyed = rows.iter().filter_map(|row| match row {
            SetupRow::Key(provider, model) => Some((provider, model)),
            SetupRow::Model(_) | SetupRow::Demo => None,
        });
        let known = PREFIXES
            .iter()
            .find(|(prefix, _)| pasted.starts_with(prefix));
        let selected = match rows.get(self.at) {
            Some(SetupRow::Key(provider, _)) => Some(provider.name.as_str()),
            _ => None,
        };
        let name = known.map(|(_, name)| *name).or(selected)?;
        let (provider, model) = keyed.into_iter().find(|(p, _)| p.name == name)?;
        Some((provider.name.clone(), model.to_string()))
    }
}

/// Returns whether pasted text may be a key, and must not be shown. An address or a path is none.
pub fn is_key(pasted: &str) -> bool {
    let pasted = pasted.trim();
    let is_address = pasted.contains('/') && pasted.contains('.');
    pasted.len() >= MIN_KEY_BYTES && !is_address && pasted.bytes().all(|b| b.is_ascii_graphic())
}

/// Returns whether a part of pasted text may be a key: it must neither be shown nor sent.
pub fn holds_key(pasted: &str) -> bool {
    let is_of_word = |c: char| c.is_ascii_alphanumeric() || ['-', '_', '.'].contains(&c);
    let mut words = pasted.split(|c| !is_of_word(c));
    words.any(|word| {
        let has = |is: fn(&u8) -> bool| word.as_bytes().iter().any(is);
        word.len() >= MIN_KEY_BYTES && has(u8::is_ascii_digit) && has(u8::is_ascii_alphabetic)
    })
}

/// Minimum length of a key. Shorter words are something else.
const MIN_KEY_BYTES: usize = 20;

/// Beginnings of the keys of some providers, the longest first.
const PREFIXES: [(&str, &str); 4] = [
    ("sk-ant-", "anthropic"),
    ("sk-or-", "openrouter"),
    ("sk-proj-", "openai"),
    ("AIza", "gemini"),
];

fn chosen(row: Option<&SetupRow<'_>>) -> Setup {
    match row {
        Some(SetupRow::Model(model)) => Setup::Model(model.to_string()),
        Some(SetupRow::Key(provider, model)) => {
            Setup::Key(provider.name.clone(), model.to_string())
        }
        Some(SetupRow::Demo) | None => Setup::Demo,
    }
}
