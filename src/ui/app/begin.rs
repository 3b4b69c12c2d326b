//! The start of the screen, and messages that were given or typed before a session was open.

use super::{App, Begin, Intent, OutgoingMessage, Overlay, Phase};
use crate::ui::overlay::Card;

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
