//! Changes of calls to the workspace's files: requested for the blocks on the screen, and shown
//! when they are known.
//!
//! The files after a command are often recorded after its end. So the changes of a call are
//! requested again when a later entry names a tree.

use super::Transcript;
use super::block::{Changes, Kind};
use crate::core::entry::{Entry, Record, Seq};
use crate::core::tree::{may_change_files, named};
use crate::session::ChangedFiles;

/// The first and the last entry of a call.
pub type Span = (Seq, Seq);

impl Transcript {
    /// Returns the calls on the screen whose changes were not requested yet. One request runs at a
    /// time.
    pub fn ask_changes(&mut self) -> Vec<Span> {
        if self.awaits_changes {
            return Vec::new();
        }
        let mut spans = Vec::new();
        let seen = self.seen.start.min(self.blocks.len())..self.seen.end.min(self.blocks.len());
        for block in &mut self.blocks[seen] {
            if let Kind::Call(call) = &mut block.kind
                && let Some(span) = call.wants_changes()
            {
                call.changes = Changes::Asked;
                spans.push(span);
            }
        }
        self.awaits_changes = !spans.is_empty();
        spans
    }

    /// Takes the changes of calls. `None`: they are not known.
    pub fn learn_changes(&mut self, known: Vec<(Span, Option<ChangedFiles>)>) {
        self.awaits_changes = false;
        for ((started, _), files) in known {
            let of_call = self
                .blocks
                .iter_mut()
                .rev()
                .find(|block| match &block.kind {
                    Kind::Call(call) => call.span.0 == Some(started),
                    _ => false,
                });
            let Some(block) = of_call else { continue };
            block.touch();
            if let Kind::Call(call) = &mut block.kind
                // If a tree was named in the meantime, the changes are requested again.
                && call.changes == Changes::Asked
            {
                call.changes = files.map_or(Changes::NotKnown, Changes::Known);
            }
        }
    }

    /// Notes the first and the last entry of a call, and a tree that is named after it.
    pub(super) fn note_span(&mut self, record: &Record) {
        match &record.entry {
            Entry::Started { call, .. } if may_change_files(&record.entry) => {
                self.without_tree = None;
                if let Some(call) = self.call_mut(*call) {
                    call.span.0 = Some(record.seq);
                }
            }
            Entry::Finished { call, .. } => {
                let block = self.calls.get(call).copied();
                if let Some(call) = self.call_mut(*call)
                    && call.span.0.is_some()
                {
                    call.span.1 = Some(record.seq);
                    self.without_tree = block;
                }
            }
            _ => {}
        }
        if named(&record.entry).is_some()
            && let Some(block) = self.without_tree.take()
            && let Some(block) = self.blocks.get_mut(block)
            && let Kind::Call(call) = &mut block.kind
        {
            call.changes = Changes::NotAsked;
        }
    }
}
