//! The engine of the session that is open, or the watch on another process that works in it, and
//! those that are leaving.

use std::sync::Arc;
use std::sync::mpsc::Sender;

use super::outbox::Outbox;
use crate::core::entry::SaveReason;
use crate::engine::Command;
use crate::session::AppContext;
use crate::ui::live::{EngineHandle, Open};
use crate::ui::watch::{LeavingWatch, SessionWatch};
use crate::ui::{OnLiveEvent, Wake};

/// The engine of the open session, and those that are leaving.
#[derive(Default)]
pub(crate) struct Engines {
    live: Option<EngineHandle>,
    watch: Option<SessionWatch>,
    /// The way to the engine that is open, or to the one that is watched.
    pub(super) outbox: Option<Outbox>,
    /// Engines that are leaving, and for which no other engine waits.
    leaving: Vec<EngineHandle>,
    leaving_watches: Vec<LeavingWatch>,
}

impl Engines {
    /// Returns whether an engine of this process is open.
    pub(super) fn is_live(&self) -> bool {
        self.live.is_some()
    }

    pub(crate) fn send(&mut self, command: Command) {
        if let Some(outbox) = &mut self.outbox {
            outbox.send(command);
        }
    }

    /// Starts an engine. It waits until those that were left before have left.
    pub(super) fn start(
        &mut self,
        ctx: Arc<AppContext>,
        open: Open,
        on_event: OnLiveEvent,
        to_screen: Sender<Wake>,
    ) {
        let before = std::mem::take(&mut self.leaving);
        let live = EngineHandle::start(ctx, open, before, on_event);
        self.outbox = Some(Outbox::new(live.sender(), to_screen));
        self.live = Some(live);
    }

    /// Looks on while another process works in the session `id`.
    pub(super) fn watch(
        &mut self,
        ctx: Arc<AppContext>,
        id: String,
        on_event: OnLiveEvent,
        to_screen: Sender<Wake>,
    ) {
        let watch = SessionWatch::start(ctx, id, on_event);
        self.outbox = Some(Outbox::new(watch.sender(), to_screen));
        self.watch = Some(watch);
    }

    /// Tells the engine to leave; [`Engines::have_left`] says when it did.
    pub(crate) fn leave(&mut self, reason: SaveReason) {
        if let Some(watch) = self.watch.take() {
            self.outbox = None;
            self.leaving_watches.retain(|watch| !watch.has_left());
            self.leaving_watches.push(watch.leave());
        }
        self.leaving.retain(|live| !live.has_left());
        if let (Some(live), Some(mut outbox)) = (self.live.take(), self.outbox.take()) {
            outbox.leave(&live, reason);
            self.leaving.push(live);
        }
    }

    /// Returns whether all engines have left, so that their messages and work are in the log.
    pub(super) fn have_left(&self) -> bool {
        self.leaving.iter().all(EngineHandle::has_left)
            && self.leaving_watches.iter().all(LeavingWatch::has_left)
    }
}
