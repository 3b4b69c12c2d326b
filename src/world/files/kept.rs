//! Storing of contents as they are found: they are compressed and collected, and stored before
//! their entry when they are too large for its transaction.

use crate::core::tree::ContentHash;
use crate::store::contents::{self, ContentLocation, Gathered, NewContent};
use crate::store::{PackWriter, Store};

/// Maximum size of the contents in the transaction of an entry, which somebody waits for.
pub(super) const MAX_WITH_ENTRY: u64 = 256 * 1024;
pub(super) const MAX_COUNT_WITH_ENTRY: usize = 64;

/// Maximum size of the contents that a first scan collects before it stores them: each time costs
/// two syncs.
const MAX_AT_ONCE: u64 = 8 << 20;
const MAX_COUNT_AT_ONCE: usize = 2_000;

/// Stores contents as they are found.
pub(super) struct ContentStorer<'a> {
    pub store: &'a mut Store,
    pub packs: &'a mut PackWriter,
    pub gathered: &'a mut Gathered,
    pub stored: &'a mut Option<u64>,
    pub max_bytes: u64,
}

impl ContentStorer<'_> {
    pub(super) fn keep(
        &mut self,
        hash: ContentHash,
        bytes: &[u8],
        before: Option<ContentHash>,
        is_bulk: bool,
    ) -> Result<(), String> {
        let failed = |e: crate::store::StoreError| e.to_string();
        if self.gathered.has(&hash) || self.store.snapshots().has_content(&hash).map_err(failed)? {
            return Ok(());
        }
        let taken = self.stored.unwrap_or(0) + self.gathered.bytes();
        if taken >= self.max_bytes {
            return Err(
                "what is kept of files takes as much as it may (files.max_bytes): rewake gc \
                        makes room"
                    .to_string(),
            );
        }
        // A base that cannot be read is not used.
        let base = before.and_then(|before| self.store.snapshots().base(&before).ok().flatten());
        let compressed = contents::compress(bytes, base.as_ref(), is_bulk).map_err(failed)?;
        self.gathered.add(NewContent {
            hash,
            bytes: bytes.len() as u64,
            stored: compressed.data.len() as u64,
            base: compressed.base,
            place: ContentLocation::Row(compressed.data),
        });
        let (count, most) = match is_bulk {
            true => (MAX_COUNT_AT_ONCE, MAX_AT_ONCE),
            false => (MAX_COUNT_WITH_ENTRY, MAX_WITH_ENTRY),
        };
        match self.gathered.contents.len() > count || self.gathered.bytes() > most {
            true => self.store_before_entry(is_bulk).map_err(failed),
            false => Ok(()),
        }
    }

    /// Stores the collected contents before their entry. `is_bulk` puts all of them into packs.
    pub(super) fn store_before_entry(
        &mut self,
        is_bulk: bool,
    ) -> Result<(), crate::store::StoreError> {
        let all = self.gathered.bytes();
        let most = if is_bulk { 0 } else { contents::MAX_ROW };
        self.gathered.pack_over(most, self.packs)?;
        self.store
            .snapshots()
            .add_contents(&self.gathered.contents)?;
        self.gathered.clear();
        *self.stored = self.stored.map(|stored| stored + all);
        Ok(())
    }
}
