//! What a start begins with, and the words that were given or typed before a session was open.

use std::path::PathBuf;

use super::{App, Intent, Overlay, Phase};
use crate::config::Project;
use crate::session::{CommandLine, Offer, Which, is_prompt};
use crate::ui::commands::{is_command, is_own};
use crate::ui::composer::Look;
use crate::ui::overlay::{Card, FirstRun};

/// What a start begins with.
#[derive(Debug)]
pub enum Begin {
    Offers {
        offers: Vec<Offer>,
        prompt: Option<String>,
    },
    Open {
        which: Which,
        prompt: Option<String>,
    },
    FirstRun {
        first: FirstRun,
        prompt: Option<String>,
    },
    Trust {
        project: Box<Project>,
        then: Box<Begin>,
    },
    /// A session is picked, to be gone on with or, with `fork`, to be copied.
    History { fork: bool, prompt: Option<String> },
}

impl Begin {
    /// What was to be said, when nothing comes of it.
    pub(super) fn into_prompt(self) -> Option<String> {
        match self {
            Begin::Offers { prompt, .. }
            | Begin::Open { prompt, .. }
            | Begin::FirstRun { prompt, .. }
            | Begin::History { prompt, .. } => prompt,
            Begin::Trust { then, .. } => then.into_prompt(),
        }
    }
}

/// What is to be said, and the images that go with it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Words {
    pub text: String,
    /// As it stood in the box, where a label stands for what was pasted. Empty: as `text`.
    pub shown: String,
    pub images: Vec<PathBuf>,
    /// Parts of the text that may name more of them.
    pub looks: Vec<Look>,
    /// A custom command, which stands for the text: what it says is read when it is sent.
    pub command: Option<CommandLine>,
}

impl Words {
    /// What the person saw before it was sent: only there a resource of a server is mentioned.
    pub fn seen(&self) -> &str {
        match self.shown.is_empty() {
            true => &self.text,
            false => &self.shown,
        }
    }

    pub(super) fn plain(text: String) -> Words {
        Words {
            text,
            ..Words::default()
        }
    }

    /// A custom command, as it was typed.
    pub fn of_command(command: CommandLine) -> Words {
        Words {
            text: command.line(),
            command: Some(command),
            ..Words::default()
        }
    }

    /// What the program was started with: a prompt, or a custom command.
    pub(super) fn given(prompt: String) -> Words {
        let command = CommandLine::parse(&prompt).filter(|command| {
            is_command(&prompt) && (is_prompt(&command.name) || !is_own(&command.name))
        });
        command.map_or_else(|| Words::plain(prompt), Words::of_command)
    }
}

impl App {
    /// What was looked up comes too late when the person went another way meanwhile.
    pub(super) fn begins(&mut self, begin: Begin) -> Vec<Intent> {
        if self.session.phase == Phase::Starting {
            self.session.phase = Phase::Nothing;
        }
        let is_elsewhere = matches!(self.prompts.overlay, Overlay::History(_));
        if self.session.phase != Phase::Nothing || is_elsewhere {
            if let Some(prompt) = begin.into_prompt() {
                self.input.put_back(Words::plain(prompt), self.now_ms);
            }
            return Vec::new();
        }
        self.begin(begin)
    }

    /// What the screen begins with: offers, or a session.
    pub fn begin(&mut self, begin: Begin) -> Vec<Intent> {
        match begin {
            Begin::Offers { offers, prompt } => {
                self.input.take_words_back(self.now_ms);
                if let Some(prompt) = prompt {
                    self.input.put_back(Words::plain(prompt), self.now_ms);
                }
                let intent = Intent::Details(offers.clone());
                self.raise(Overlay::Card(Card::new(offers)));
                vec![intent]
            }
            Begin::Open { which, prompt } => {
                // What was said while this was looked up follows the prompt.
                self.input.first_words.splice(..0, prompt.map(Words::given));
                self.named = true;
                vec![Intent::open(which)]
            }
            Begin::FirstRun { first, prompt } => {
                self.input.take_words_back(self.now_ms);
                if let Some(prompt) = prompt {
                    self.input.put_back(Words::plain(prompt), self.now_ms);
                }
                self.raise(Overlay::FirstRun(first));
                Vec::new()
            }
            Begin::History { fork, prompt } => {
                self.prompts.picks_copy = fork;
                self.input.take_words_back(self.now_ms);
                if let Some(prompt) = prompt {
                    self.input.put_back(Words::plain(prompt), self.now_ms);
                }
                self.prompts.open_history("")
            }
            Begin::Trust { project, then } => {
                self.raise(Overlay::Trust(project));
                // What follows waits for the answer.
                self.after_trust = Some(then);
                Vec::new()
            }
        }
    }
}
