//! An answer that has to fit a schema is looked at, and the model is told what does not fit. Both
//! are one entry, so that no crash looks twice or tells twice.

use serde_json::Value;

use super::{Engine, EngineError, Write};
use crate::core::entry::{Choice, Entry, Seq, Unfit};
use crate::core::structured::{Standing, json_of, repair};
use crate::model::schema;
use crate::world::World;

impl<W: World> Engine<W> {
    /// The next answer has to fit this schema. It is in the log before anything is said, so that
    /// no crash leaves the words without it.
    ///
    /// # Errors
    /// When the log cannot be written.
    pub async fn expect_schema(&mut self, schema: Value, says: bool) -> Result<(), EngineError> {
        let is_held = self.log.state.structured.as_ref().is_some_and(|held| {
            let is_owed = match held.standing {
                Standing::Owed => true,
                Standing::Unchecked(_) => !says,
                Standing::Fits(_) | Standing::GivenUp(_) => false,
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

    pub(super) async fn check_answer(&mut self, answer: Seq) -> Result<(), EngineError> {
        let (unfit, is_mendable) = match self.unfit(answer).await {
            Ok(()) => (None, false),
            Err((unfit, is_mendable)) => (Some(unfit), is_mendable),
        };
        let held = self.log.state.structured.as_ref();
        let is_told = is_mendable && held.is_some_and(|held| held.may_repair());
        let told = unfit.as_ref().filter(|_| is_told).map(repair);
        let entry = Entry::Checked {
            answer,
            unfit,
            told,
        };
        self.log.record(Write::of(entry)).await
    }

    /// What does not fit, and whether another answer may.
    async fn unfit(&self, answer: Seq) -> Result<(), (Unfit, bool)> {
        let of_all = |why: String| Unfit {
            path: String::new(),
            why,
        };
        let held = self.log.state.structured.as_ref();
        let (Some(held), Some((blocks, stop))) = (held, self.log.state.answer(answer)) else {
            return Err((
                of_all("the answer is not in the context any more".into()),
                true,
            ));
        };
        let json = json_of(blocks, stop).map_err(|why| (of_all(why), true))?;
        schema::check_in_time(held.schema.clone(), json).await
    }
}
