//! The workspace's files around an effect: what they are before it is in the log with its
//! `Started`, and what they are behind it with its `Finished`.
//!
//! Invariant: no effect begins before the files before it are durable, or before it is in the
//! log that they are not, and why.

use std::path::PathBuf;
use std::rc::Rc;
use std::time::Duration;

use super::attend::Stoppable;
use super::{Engine, EngineError};
use crate::core::entry::{Entry, Guard, SaveReason};
use crate::store::{Cause, NewTree};
use crate::world::{Boundary, Snapshot, Wish, World};

/// The result of a call waits so long for what the files are behind it, and no longer.
const AFTER_CALL: Duration = Duration::from_secs(1);

/// What is recorded of the files.
#[derive(Default)]
pub(super) struct Found {
    /// The tree that says what they are.
    pub name: Option<String>,
    /// The same, when it is not kept yet.
    pub tree: Option<NewTree>,
    /// Why they are not kept.
    pub why: Option<String>,
}

impl Found {
    fn of(snapshot: Snapshot) -> Found {
        match snapshot {
            Snapshot::Off => Found::default(),
            Snapshot::Same(name) => Found {
                name: Some(name),
                ..Found::default()
            },
            Snapshot::New(tree) => Found {
                name: Some(tree.name()),
                tree: Some(*tree),
                why: None,
            },
            Snapshot::NotKept(why) => Found {
                why: Some(why),
                ..Found::default()
            },
        }
    }
}

impl<W: World> Engine<W> {
    /// What the files are before a call with an effect, and the entry that says so, if there is
    /// anything new to say. `None` when the user stopped it.
    pub(super) async fn files_before(
        &mut self,
        guard: &Guard,
    ) -> Result<Option<(Option<Entry>, Option<NewTree>)>, EngineError> {
        let wish = self.wish(Cause::Outside, guard, Duration::MAX);
        let Some(found) = self.snapshot(wish, Stoppable::Yes).await? else {
            return Ok(None);
        };
        let is_said = found.why.is_some() && found.why == self.state.files_not_kept;
        let is_new = match (&found.why, &found.name) {
            (Some(_), _) => !is_said,
            (None, Some(_)) => found.name != self.state.tree,
            (None, None) => false,
        };
        let entry = is_new.then_some(Entry::Saved {
            reason: SaveReason::Files,
            tree: found.name,
            why: found.why,
        });
        Ok(Some((entry, found.tree)))
    }

    /// What the files are behind it.
    pub(super) async fn files_after(&mut self, guard: &Guard) -> Result<Found, EngineError> {
        let wish = self.wish(Cause::Call, guard, AFTER_CALL);
        // What was done has its result, whatever is typed meanwhile.
        let found = self.snapshot(wish, Stoppable::No).await?;
        Ok(found.unwrap_or_default())
    }

    /// The files are looked at while the model thinks.
    pub(super) fn look_ahead(&self) {
        self.world
            .look_ahead(self.wish(Cause::Outside, &Guard::Opaque, Duration::MAX));
    }

    async fn snapshot(
        &mut self,
        wish: Wish,
        stoppable: Stoppable,
    ) -> Result<Option<Found>, EngineError> {
        let world = Rc::clone(&self.world);
        let step = async move {
            world.boundary(Boundary::BeforeSnapshot).await;
            let snapshot = world.snapshot(wish).await;
            world.boundary(Boundary::AfterSnapshot).await;
            snapshot
        };
        Ok(self.attend_quiet(step, stoppable).await?.map(Found::of))
    }

    fn wish(&self, cause: Cause, guard: &Guard, at_most: Duration) -> Wish {
        let live: Vec<&str> = self.state.background.keys().map(String::as_str).collect();
        Wish {
            last: self.state.tree.clone(),
            cause,
            written: match guard {
                Guard::Checked { path, .. } => vec![PathBuf::from(path)],
                Guard::Supervised { .. } | Guard::Opaque => Vec::new(),
            },
            live: (!live.is_empty()).then(|| live.join(", ")),
            at_most,
        }
    }
}
