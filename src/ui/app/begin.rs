//! The start of the screen, and messages that were given or typed before a session was open.

use std::path::PathBuf;

use super::{App, Intent, Overlay, Phase};
use crate::config::Project;
use crate::session::{CommandLine, Offer, SessionSelector, is_prompt};
use crate::ui::commands::{is_command, is_own};
use crate::ui::composer::ImageCandidate;
use crate::ui::overlay::{Card, FirstRun};

/// The first thing that the screen shows or opens.
#[derive(Debug)]
pub enum Begin {
    Offers {
        offers: Vec<Offer>,
        prompt: Option<String>,
    },
    Open {
        which: SessionSelector,
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
    /// A session is picked from the history, to be resumed or, with `fork`, to be forked.
    History { fork: bool, prompt: Option<String> },
}

impl Begin {
    /// Returns the prompt, so that it is not lost when this start is dropped.
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

/// A message to send, with its images.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OutgoingMessage {
    pub text: String,
    /// The text as the box showed it, with labels for pasted parts. Empty: the same as `text`.
    pub shown: String,
    pub images: Vec<PathBuf>,
    /// Parts of the text that may name more images.
    pub looks: Vec<ImageCandidate>,
    /// A custom command that replaces the text. It is expanded when it is sent.
    pub command: Option<CommandLine>,
}

impl OutgoingMessage {
    /// Returns the text as the person saw it. Only this text can mention a resource of a server.
    pub fn seen(&self) -> &str {
        match self.shown.is_empty() {
            true => &self.text,
            false => &self.shown,
        }
    }

    pub(super) fn plain(text: String) -> OutgoingMessage {
        OutgoingMessage {
            text,
            ..OutgoingMessage::default()
        }
    }

    /// Makes a message of a custom command, as it was typed.
    pub fn of_command(command: CommandLine) -> OutgoingMessage {
        OutgoingMessage {
            text: command.line(),
            command: Some(command),
            ..OutgoingMessage::default()
        }
    }

    /// Returns the message that the program was started with: a prompt, or a custom command.
    pub(super) fn given(prompt: String) -> OutgoingMessage {
        let command = CommandLine::parse(&prompt).filter(|command| {
            is_command(&prompt) && (is_prompt(&command.name) || !is_own(&command.name))
        });
        command.map_or_else(
            || OutgoingMessage::plain(prompt),
            OutgoingMessage::of_command,
        )
    }
}

impl App {
    /// Starts as `begin` says, unless the person opened something else in the meantime. Then only
    /// the prompt is put into the box.
    pub(super) fn begins(&mut self, begin: Begin) -> Vec<Intent> {
        if self.session.phase == Phase::Starting {
            self.session.phase = Phase::Nothing;
        }
        let is_elsewhere = matches!(self.prompts.overlay, Overlay::History(_));
        if self.session.phase != Phase::Nothing || is_elsewhere {
            self.put_prompt_back(begin.into_prompt());
            return Vec::new();
        }
        self.begin(begin)
    }

    /// Puts the prompt that the program was started with into the box.
    fn put_prompt_back(&mut self, prompt: Option<String>) {
        if let Some(prompt) = prompt {
            let message = OutgoingMessage {
                images: std::mem::take(&mut self.input.given_images),
                ..OutgoingMessage::plain(prompt)
            };
            self.input.put_back(message, self.now_ms);
        }
    }

    /// Shows the first screen, or opens a session.
    pub fn begin(&mut self, begin: Begin) -> Vec<Intent> {
        match begin {
            Begin::Offers { offers, prompt } => {
                self.input.take_words_back(self.now_ms);
                self.put_prompt_back(prompt);
                let intent = Intent::Details(offers.clone());
                self.raise(Overlay::Card(Card::new(offers)));
                vec![intent]
            }
            Begin::Open { which, prompt } => {
                // Messages that were typed during the look-up follow the prompt.
                let images = std::mem::take(&mut self.input.given_images);
                let first = prompt.map(|prompt| OutgoingMessage {
                    images,
                    ..OutgoingMessage::given(prompt)
                });
                self.input.first_words.splice(..0, first);
                self.named = true;
                vec![Intent::open(which)]
            }
            Begin::FirstRun { first, prompt } => {
                self.input.take_words_back(self.now_ms);
                self.put_prompt_back(prompt);
                self.raise(Overlay::FirstRun(first));
                Vec::new()
            }
            Begin::History { fork, prompt } => {
                self.prompts.picks_copy = fork;
                self.input.take_words_back(self.now_ms);
                self.put_prompt_back(prompt);
                self.prompts.open_history("")
            }
            Begin::Trust { project, then } => {
                self.raise(Overlay::Trust(project));
                // The start continues after the answer.
                self.after_trust = Some(then);
                Vec::new()
            }
        }
    }
}
