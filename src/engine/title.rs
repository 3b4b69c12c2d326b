//! A title for the session, made from its task by the summary model.
//!
//! The title is requested after the first answer, and only while there is nothing else to do, so no
//! turn waits for it. A new message is taken at once, and the title is looked at again after that
//! turn. The result is recorded even if no title came of it, so the model is asked once. Only a
//! process that dies before that asks again. Without a title, the first words of the task are used.

use super::context::{Summaries, Summarising, Work, Written};
use super::{EngineError, Event, Recorder, Write};
use crate::core::entry::{Entry, Failure};
use crate::core::request::Request;
use crate::core::state::State;
use crate::core::text::{clip, one_line};
use crate::world::World;

/// Maximum size of the task in the request.
const TASK_BYTES: usize = 4_000;

/// Maximum tokens of the answer. Some models think before they write six words.
const ANSWER_TOKENS: u64 = 1_000;

const TITLE_CHARS: usize = 60;

/// The state of the request for a title.
#[derive(Default)]
pub(super) enum Title {
    #[default]
    NotAsked,
    Asked(Work),
    /// The request is over. This process makes no other.
    Over,
}

impl Title {
    pub(super) fn is_asked(&self) -> bool {
        matches!(self, Title::Asked(_))
    }

    /// Waits for the answer. Never returns if nothing was asked.
    pub(super) async fn answer(&mut self) -> Result<Written, Failure> {
        let made = match self {
            Title::Asked(work) => work.await,
            Title::NotAsked | Title::Over => std::future::pending().await,
        };
        *self = Title::Over;
        made
    }

    /// Asks for a title if one is due. Nothing waits for the answer.
    pub(super) fn ask<W: World>(&mut self, log: &Recorder<W>, summaries: &Summaries) {
        if matches!(self, Title::NotAsked)
            && let Some(request) = request(&log.state, &summaries.summarising)
        {
            *self = Title::Asked(summaries.ask(log, request));
        }
    }

    /// Records the result. A name that a person gave meanwhile stays.
    pub(super) async fn record<W: World>(
        log: &mut Recorder<W>,
        made: Result<Written, Failure>,
    ) -> Result<(), EngineError> {
        let (title, spent) = match made {
            Ok(Written {
                text,
                spent,
                notice,
            }) => {
                if let Some(notice) = notice {
                    log.emit(Event::Notice(notice));
                }
                (accept(&text), vec![spent])
            }
            Err(failure) => {
                tracing::warn!(why = failure.message, "no title was made");
                (None, Vec::new())
            }
        };
        let title = title.filter(|_| !log.state.is_named());
        match log.record(Write::of(Entry::Titled { title, spent })).await {
            // A title is not worth a pause: the first words of the task stay.
            Err(EngineError::Store(error)) if error.is_passing() => {
                tracing::warn!(%error, "the title was not recorded");
                Ok(())
            }
            recorded => recorded,
        }
    }
}

fn request(state: &State, summarising: &Summarising) -> Option<Request> {
    let model = summarising.model.as_ref()?;
    let instructions = summarising.title.as_ref()?;
    let task = clip(state.untitled_task()?, TASK_BYTES);
    let text = format!("<task>\n{task}\n</task>\n\nNow write the title.");
    let (model, system) = (model.clone(), instructions.clone());
    Some(Request::of_text(model, system, text, ANSWER_TOKENS))
}

/// Returns the answer as a title, without the decoration that models put around one.
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
    fn decoration_around_a_generated_title_is_removed() {
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
