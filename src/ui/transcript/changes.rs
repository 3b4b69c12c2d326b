//! What calls changed in the workspace's files: asked for the blocks on the screen, and shown once
//! it is known.
//!
//! The files behind a command are often recorded after its end, so a call is asked about again when
//! a tree is named behind it.

use super::Transcript;
use super::block::{Changes, Kind};
use crate::core::entry::{Entry, Record, Seq};
use crate::core::tree::{may_change_files, named};
use crate::session::ChangedFiles;

/// The entries that a call began and ended with.
pub type Span = (Seq, Seq);

impl Transcript {
    /// What the blocks on the screen changed, as far as it was not asked for. One question at a time.
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

    /// What calls changed. `None`: it is not known.
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
                // A tree that was named meanwhile is asked for first.
                && call.changes == Changes::Asked
            {
                call.changes = files.map_or(Changes::NotKnown, Changes::Known);
            }
        }
    }

    /// Where a call began and ended, and that there is a tree behind it.
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
