//! Before the model is asked: which files it has read were changed outside of rewake.
//!
//! What changed before an effect is recorded with it, and told once no call is open. When the
//! user has said something, the files are looked at for it: they may have edited before they
//! spoke. That look is short: what it does not find in time, the next effect does.

use std::time::Duration;

use super::attend::Stoppable;
use super::{Engine, EngineError, Event, Write};
use crate::core::entry::{Entry, Seq};
use crate::core::outside::OutsideChange;
use crate::core::tree::{Delta, Tree, diff};
use crate::store::Cause;
use crate::world::{Scope, Wish, World};

/// A prompt waits so long for what the files are, and no longer.
const AT_MESSAGE: Duration = Duration::from_millis(100);

/// What was looked at already. All of it can be found out again.
#[derive(Debug, Default)]
pub(super) struct OutsideLooks {
    /// The words of the user for which the files were looked at.
    words: Option<Seq>,
    /// Everything is to be looked at while the model is asked.
    pub is_due: bool,
    /// Up to here it was found out what is to be told.
    told: Seq,
}

impl<W: World> Engine<W> {
    /// True when something was recorded, or the user stopped it: what is next is asked again.
    pub(super) async fn tell_outside_changes(&mut self) -> Result<bool, EngineError> {
        if self.look_for_message().await? {
            return Ok(true);
        }
        match self.outside_note()? {
            Some(noted) => self.log.record(Write::of(noted)).await.map(|()| true),
            None => Ok(false),
        }
    }

    async fn look_for_message(&mut self) -> Result<bool, EngineError> {
        let words = self.log.state.words.as_ref().map(|(seq, _)| *seq);
        if words == self.outside.words {
            return Ok(false);
        }
        self.outside.words = words;
        // Where the model has read nothing, nobody waits.
        if self.log.state.seen.is_empty() || self.look_behind.is_running() {
            self.outside.is_due = true;
            return Ok(false);
        }
        let cause = match self.log.state.may_differ_from_tree {
            true => Cause::Call,
            false => Cause::Outside,
        };
        let wish = Wish {
            is_whole: true,
            ..self.wish(cause, Scope::All, AT_MESSAGE)
        };
        match self.snapshot(wish, Stoppable::Yes).await? {
            None => Ok(true),
            // An effect that they are not kept for says so.
            Some(found) if found.why.is_some() => Ok(false),
            Some(found) => self.record_files(found).await.map(|()| false),
        }
    }

    /// The note that is due.
    fn outside_note(&mut self) -> Result<Option<Entry>, EngineError> {
        let mut changes = Vec::new();
        for change in self.log.state.outside.since(self.outside.told) {
            changes.push((change.at, self.delta_of(change)?));
        }
        self.outside.told = self.log.state.next_seq().saturating_sub(1);
        if changes.is_empty() {
            return Ok(None);
        }
        let root = self.log.world.root();
        let seen = &self.log.state.seen;
        Ok((self.log.state.outside).note(&changes, seen, &root.to_string_lossy()))
    }

    fn delta_of(&self, change: &OutsideChange) -> Result<Delta, EngineError> {
        if let Some(before) = &change.before
            && let Some(delta) = self.log.store.delta_from(&change.tree, before)?
        {
            return Ok(delta);
        }
        let tree = |name: &str| -> Result<Option<Tree>, EngineError> {
            Ok(self.log.store.tree(name)?.map(|known| known.tree))
        };
        // Where there was none before, all of it may be other than what was read.
        let before = match &change.before {
            Some(before) => tree(before)?,
            None => Some(Tree::default()),
        };
        Ok(match (before, tree(&change.tree)?) {
            (Some(before), Some(now)) => diff(&before, &now),
            // They are gone.
            _ => Delta::default(),
        })
    }

    /// What was not looked at for long is looked at while nobody waits for it.
    pub(super) fn look_at_all_ahead(&mut self) {
        self.outside.is_due = true;
        self.look_ahead();
    }

    /// What a person is to know of how the files are looked after.
    pub(super) fn say_files_trouble(&mut self) {
        let said = [
            self.log.world.files_to_say(),
            self.log.world.servers_to_say(),
        ];
        for text in said.into_iter().flatten() {
            self.log.emit(Event::Notice(text));
        }
    }
}
