//! A title for the session, made from its task by the summary model.
//!
//! It is asked for after the first answer, and only while there is nothing else to do, so no turn
//! waits for it: what is said meanwhile is taken up at once, and the title is looked at again when
//! that is done. Whatever came of it is recorded, so it is asked for once; a process that dies
//! before that asks again. Where there is none, the first words of the task are the title.

use super::context::{Work, Written};
use super::{Engine, EngineError, Write};
use crate::core::choice::Effort;
use crate::core::entry::{Entry, Failure};
use crate::core::request::{Message, Part, Request, Role};
use crate::core::text::{clip, one_line};
use crate::world::World;

/// Of the task the model reads so much.
const TASK_BYTES: usize = 4_000;

/// Some models think before they write six words.
const ANSWER_TOKENS: u64 = 1_000;

const TITLE_CHARS: usize = 60;

/// The question for a title, as far as it is.
#[derive(Default)]
pub(super) enum Title {
    #[default]
    NotAsked,
    Asked(Work),
    /// Nothing more comes of it in this process.
    Over,
}

impl Title {
    pub(super) fn is_asked(&self) -> bool {
        matches!(self, Title::Asked(_))
    }

    /// Waits for the answer. Never ends when nothing is asked.
    pub(super) async fn answer(&mut self) -> Result<Written, Failure> {
        let made = match self {
            Title::Asked(work) => work.await,
            Title::NotAsked | Title::Over => std::future::pending().await,
        };
        *self = Title::Over;
        made
    }
}

impl<W: World> Engine<W> {
    /// Asks for a title, where one is due. Nothing waits for the answer.
    pub(super) fn ask_for_title(&mut self) {
        let is_wanted = matches!(self.title, Title::NotAsked) && !self.waits_for_person;
        if let Some(request) = self.title_request().filter(|_| is_wanted) {
            self.title = Title::Asked(self.summarise(request));
        }
    }

    fn title_request(&self) -> Option<Request> {
        let summarising = &self.summarising;
        let model = summarising.model.as_ref()?;
        let instructions = summarising.title.as_ref()?;
        let task = self.log.state.untitled_task()?;
        let task = clip(task, TASK_BYTES);
        Some(Request {
            model: model.clone(),
            system: instructions.clone(),
            tools: Vec::new(),
            instructions: String::new(),
            messages: vec![Message {
                role: Role::User,
                parts: vec![Part::Text {
                    text: format!("<task>\n{task}\n</task>\n\nNow write the title."),
                    signature: None,
                }]
                .into(),
                cache: false,
            }],
            max_tokens: ANSWER_TOKENS,
            effort: Effort::Default,
            temperature: None,
            schema: None,
        })
    }

    /// Records what came of it. A name that a person gave meanwhile stays.
    pub(super) async fn record_title(
        &mut self,
        made: Result<Written, Failure>,
    ) -> Result<(), EngineError> {
        let (title, spent) = match made {
            Ok(Written { text, spent }) => (accept(&text), vec![spent]),
            Err(failure) => {
                tracing::warn!(why = failure.message, "no title was made");
                (None, Vec::new())
            }
        };
        let title = title.filter(|_| !self.log.state.is_named());
        match self
            .log
            .record(Write::of(Entry::Titled { title, spent }))
            .await
        {
            // It is worth no pause: the first words of the task stay.
            Err(EngineError::Store(error)) if error.is_passing() => {
                tracing::warn!(%error, "the title was not recorded");
                Ok(())
            }
            recorded => recorded,
        }
    }
}

/// The answer as a title: what models put around one is left out.
fn accept(text: &str) -> Option<String> {
    let line = one_line(text, TITLE_CHARS * 4);
    let line = line.trim_start_matches("Title:");
    let around = |c: char| c.is_whitespace() || "\"'`*#.“”„«»".contains(c);
    let title = one_line(line.trim_matches(around), TITLE_CHARS);
    (!title.is_empty()).then_some(title)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_models_put_around_a_title_is_left_out() {
        assert_eq!(
            accept("\n**\"Mend the parser.\"**\n").as_deref(),
            Some("Mend the parser")
        );
        assert_eq!(accept("Title: Mend it").as_deref(), Some("Mend it"));
        assert_eq!(accept(" \n\"\""), None);
        assert_eq!(
            accept(&"word ".repeat(99)).map(|t| t.chars().count()),
            Some(60)
        );
    }
}
