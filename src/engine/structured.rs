//! Structured output: an answer is checked against a schema, and the model is told what does not
//! fit. Both are one entry, so a crash never repeats the check or the message.

use serde_json::Value;

use super::{Engine, EngineError, Recorder, Write};
use crate::core::entry::{Choice, Entry, Seq, Unfit};
use crate::core::structured::{AnswerStatus, json_of, repair};
use crate::model::schema;
use crate::world::World;

impl<W: World> Engine<W> {
    /// Requires that the next answer fits this schema. That is in the log before the message, so no
    /// crash leaves the message without it.
    ///
    /// # Errors
    /// When the log cannot be written.
    pub async fn expect_schema(&mut self, schema: Value, says: bool) -> Result<(), EngineError> {
        let is_held = self.log.state.structured.as_ref().is_some_and(|held| {
            let is_owed = match held.standing {
                AnswerStatus::Owed => true,
                AnswerStatus::Unchecked(_) => !says,
                AnswerStatus::Fits(_) | AnswerStatus::GivenUp(_) => false,
            };
            is_owed && held.schema == schema
        });
        if is_held {
            return Ok(());
        }
        let choice = Choice {
            schema: Some(schema),
            ..Choice::default()
        };
        self.log.record(Write::of(Entry::Chose(choice))).await
    }
}

impl<W: World> Recorder<W> {
    pub(super) async fn check_answer(&mut self, answer: Seq) -> Result<(), EngineError> {
        let (unfit, is_mendable) = match self.unfit(answer).await {
            Ok(()) => (None, false),
            Err((unfit, is_mendable)) => (Some(unfit), is_mendable),
        };
        let held = self.state.structured.as_ref();
        let is_told = is_mendable && held.is_some_and(|held| held.may_repair());
        let told = unfit.as_ref().filter(|_| is_told).map(repair);
        let entry = Entry::Checked {
            answer,
            unfit,
            told,
        };
        self.record(Write::of(entry)).await
    }

    /// Checks an answer. The error is the part that does not fit, and whether another answer may
    /// fit.
    pub(super) async fn unfit(&self, answer: Seq) -> Result<(), (Unfit, bool)> {
        let of_all = |why: String| Unfit {
            path: String::new(),
            why,
        };
        let held = self.state.structured.as_ref();
        let (Some(held), Some((blocks, stop))) = (held, self.state.answer(answer)) else {
            return Err((
                of_all("the answer is not in the context any more".into()),
                true,
            ));
        };
        let json = json_of(blocks, stop).map_err(|why| (of_all(why), true))?;
        schema::check_in_time(held.schema.clone(), json).await
    }
}
