//! Places of edits in their files: requested for the blocks on the screen, and shown when they are
//! known. The log has the hashes of a file, not its lines.

use super::Transcript;
use super::block::{Call, EditLocation, Kind};
use crate::core::entry::{Entry, Guard, Record};
use crate::session::{EditPlace, EditQuery};
use crate::tools::ShownBody;

impl Transcript {
    /// Returns the edits on the screen whose place was not requested.
    pub fn ask_places(&mut self) -> Vec<EditQuery> {
        let seen = self.seen.start.min(self.blocks.len())..self.seen.end.min(self.blocks.len());
        let blocks = self.blocks[seen].iter_mut();
        blocks
            .filter_map(|block| match &mut block.kind {
                Kind::Call(call) => call.ask_place(),
                _ => None,
            })
            .collect()
    }

    /// Returns the last `most` edits, whether they are on the screen or not.
    pub fn ask_last_places(&mut self, most: usize) -> Vec<EditQuery> {
        let blocks = self.blocks.iter_mut().rev();
        let queries = blocks.filter_map(|block| match &mut block.kind {
            Kind::Call(call) => call.ask_place(),
            _ => None,
        });
        queries.take(most).collect()
    }

    /// Takes the places of edits. `None`: they are not known.
    pub fn learn_places(&mut self, known: Vec<EditPlace>) {
        for (hashes, place) in known {
            for block in &mut self.blocks {
                let Kind::Call(call) = &mut block.kind else {
                    continue;
                };
                if call.place != EditLocation::Asked || call.hashes.as_ref() != Some(&hashes) {
                    continue;
                }
                call.place = match &place {
                    Some(place) => EditLocation::Known(place.clone()),
                    None => EditLocation::NotKnown,
                };
                block.touch();
            }
        }
    }

    /// Notes the hashes from the start of a call. A place that was not found during the call is
    /// requested again after its end.
    pub(super) fn note_hashes(&mut self, record: &Record) {
        match &record.entry {
            Entry::Started {
                call,
                guard:
                    Guard::Checked {
                        before: Some(before),
                        after,
                        ..
                    },
                ..
            } => {
                if let Some(call) = self.call_mut(*call) {
                    call.hashes = Some((before.clone(), after.clone()));
                }
            }
            Entry::Finished { call, .. } => {
                if let Some(call) = self.call_mut(*call)
                    && call.place == EditLocation::NotKnown
                {
                    call.place = EditLocation::NotAsked;
                }
            }
            _ => {}
        }
    }
}

impl Call {
    fn ask_place(&mut self) -> Option<EditQuery> {
        let is_edit = matches!(
            self.shown.body,
            ShownBody::Edits { .. } | ShownBody::File { .. }
        );
        if self.place != EditLocation::NotAsked || !is_edit {
            return None;
        }
        let (before, after) = self.hashes.clone()?;
        self.place = EditLocation::Asked;
        Some(EditQuery {
            before,
            after,
            body: self.shown.body.clone(),
        })
    }
}
