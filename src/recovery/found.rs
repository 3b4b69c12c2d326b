//! The entries that were found in all copies: an index by tip in memory, and the bodies in a
//! nameless file.
//!
//! A tip is a hash of the entry and of all entries before it. So an entry of two copies is stored
//! once, and only recorded sequences can be put together.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::Path;

use rusqlite::types::ValueRef;

use super::bodies::{Bodies, BodyFile, BodyPosition, json_in, text_in};
use crate::core::entry::Seq;
use crate::journal::chain_hash::ChainHash;
use crate::store::StoreError;
use crate::store::recovering::{BodyPacker, BodyReader, checksum};

/// Maximum number of possible parents that are tried for one entry.
const MAX_TRIED: usize = 10_000;

/// One entry that was found.
#[derive(Debug, Clone, Copy)]
pub(super) struct FoundEntry {
    pub seq: Seq,
    pub at_ms: i64,
    /// The tip of the entry before. `None`: not known.
    pub before: Option<ChainHash>,
    pub owed: bool,
    /// Whether a row of a database has it, so it was committed.
    pub in_row: bool,
    pub place: BodyPosition,
}

/// The row IDs of the queued message and of the signal that became an entry.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct ConsumedRows {
    pub taken: Option<i64>,
    pub signal: Option<i64>,
}

/// A row of `entries`, as read.
pub(super) struct FoundRow<'a> {
    pub id: i64,
    pub parent: Option<i64>,
    /// The key of the session that appended it.
    pub session: i64,
    pub seq: Seq,
    pub at_ms: i64,
    pub checksum: &'a [u8],
    pub body: ValueRef<'a>,
    /// The tip in the row. `None`: it is damaged.
    pub tip: Option<ChainHash>,
}

/// The tips of the rows of one database.
#[derive(Default)]
pub(super) struct Rows {
    tips: HashMap<i64, ChainHash>,
    /// Tips by the key of the session that appended the entry, and its sequence number. Several
    /// where rows contradict each other.
    pub own: BTreeMap<(i64, Seq), Vec<ChainHash>>,
}

impl Rows {
    /// Returns the tip of the entry in this row.
    pub(super) fn tip(&self, row: i64) -> Option<ChainHash> {
        self.tips.get(&row).copied()
    }

    /// Returns the entry that this session appended after the one with this tip. `None`: there is
    /// no such row, or several contradict.
    pub(super) fn next(
        &self,
        found: &EntryIndex,
        session: i64,
        seq: Seq,
        tip: ChainHash,
    ) -> Option<ChainHash> {
        let follows = |next: &&ChainHash| {
            found
                .get(next)
                .is_some_and(|entry| entry.in_row && entry.before == Some(tip))
        };
        let mut next = self.own.get(&(session, seq + 1))?.iter().filter(follows);
        let first = next.next().copied();
        first.filter(|_| next.next().is_none())
    }

    /// Returns the key of the session that appended the entry with this sequence number and tip.
    /// `None`: no session did, or several that begin with the same entries.
    pub(super) fn session_of(&self, seq: Seq, tip: &ChainHash) -> Option<i64> {
        let (mut from, mut found) = (0, None);
        while let Some(((session, _), _)) = self.own.range((from, 0)..).next() {
            let own = self.own.get(&(*session, seq));
            if own.is_some_and(|tips| tips.contains(tip)) && found.replace(*session).is_some() {
                return None;
            }
            from = session + 1;
        }
        found
    }

    fn note(&mut self, id: i64, place: (i64, Seq), tip: ChainHash) {
        let own = self.own.entry(place).or_default();
        if !own.contains(&tip) {
            own.push(tip);
        }
        self.tips.insert(id, tip);
    }
}

pub(super) struct EntryIndex {
    entries: HashMap<ChainHash, FoundEntry>,
    /// The messages and signals that became entries. Most entries were neither.
    was: HashMap<ChainHash, ConsumedRows>,
    bodies: BodyFile,
    reader: BodyReader,
    packer: BodyPacker,
}

impl EntryIndex {
    /// Returns the number of entries with a row.
    pub(super) fn in_rows(&self) -> u64 {
        self.entries.values().filter(|entry| entry.in_row).count() as u64
    }

    /// Creates an empty index, with a nameless file for the bodies in this folder.
    pub(super) fn new(folder: &Path) -> Result<EntryIndex, StoreError> {
        Ok(EntryIndex {
            entries: HashMap::new(),
            was: HashMap::new(),
            bodies: BodyFile::in_folder(folder)?,
            reader: BodyReader::new()?,
            packer: BodyPacker::new()?,
        })
    }

    pub(super) fn was(&self, tip: &ChainHash) -> ConsumedRows {
        self.was.get(tip).copied().unwrap_or_default()
    }

    /// Returns a reader of the bodies up to the last flush.
    pub(super) fn bodies(&self) -> Result<Bodies<'_>, StoreError> {
        Bodies::of(&self.bodies)
    }

    pub(super) fn get(&self, tip: &ChainHash) -> Option<&FoundEntry> {
        self.entries.get(tip)
    }

    pub(super) fn flush(&mut self) -> Result<(), StoreError> {
        self.bodies.flush()
    }

    /// Returns the JSON of an entry as it was first stored.
    fn json(&mut self, entry: &FoundEntry) -> Result<String, StoreError> {
        let bytes = self.body(entry.place)?;
        text_in(&mut self.reader, &bytes, entry.place.is_packed)
    }

    fn body(&mut self, place: BodyPosition) -> Result<Vec<u8>, StoreError> {
        self.bodies.flush()?;
        self.bodies.read(place)
    }

    /// Adds a line of a journal. `before`: the tip that it follows, or `None` if it is not known.
    pub(super) fn line(
        &mut self,
        before: Option<ChainHash>,
        line: &crate::journal::line::EntryLine,
    ) -> Result<(), StoreError> {
        if line.taken.is_some() || line.signal.is_some() {
            let was = self.was.entry(line.tip).or_default();
            was.taken = was.taken.or(line.taken);
            was.signal = was.signal.or(line.signal);
        }
        let is_known = match before {
            Some(before) => self.is_proven(line.tip, before)?,
            None => self.entries.contains_key(&line.tip),
        };
        if is_known && let Some(known) = self.entries.get_mut(&line.tip) {
            known.before = known.before.or(before);
            known.owed |= line.owed;
            return Ok(());
        }
        // Encoded as in a row: the new row gets these bytes.
        let (body, is_packed) = self.packer.pack(line.entry.get().as_bytes());
        let place = self.bodies.keep(body, is_packed)?;
        let entry = FoundEntry {
            seq: line.seq,
            at_ms: line.at_ms,
            before,
            owed: line.owed,
            in_row: false,
            place,
        };
        self.entries.insert(line.tip, entry);
        Ok(())
    }

    /// Returns whether the known entry with this tip is proven to follow `before`. A row whose
    /// parent was not found proves nothing, since its checksum does not cover its tip.
    fn is_proven(&mut self, tip: ChainHash, before: ChainHash) -> Result<bool, StoreError> {
        match self.entries.get(&tip).copied() {
            None => Ok(false),
            Some(known) if known.before.is_some() => Ok(true),
            Some(known) => {
                let json = self.json(&known)?;
                Ok(before.and(known.seq, known.at_ms, json.as_bytes()) == tip)
            }
        }
    }

    /// Adds a row. Leaves it out if it differs from what was recorded.
    pub(super) fn row(&mut self, rows: &mut Rows, row: &FoundRow<'_>) -> Result<(), StoreError> {
        let (body, is_packed) = match row.body {
            ValueRef::Text(json) => (json, false),
            ValueRef::Blob(packed) => (packed, true),
            _ => return Ok(()),
        };
        let known = row.tip.filter(|tip| rows.tip(row.id) == Some(*tip));
        if known.is_some() {
            return Ok(());
        }
        let id_is_sane = row.id > 0 && row.parent.is_none_or(|parent| parent < row.id);
        if !id_is_sane || row.checksum != checksum(row.parent, row.seq, row.at_ms, body) {
            return Ok(());
        }
        let before = match row.parent {
            None => Some(ChainHash::of_nothing()),
            Some(parent) => rows.tip(parent),
        };
        let Some(before) = before else {
            // The row of the parent cannot be read. The journal may have the parent.
            if let Some(tip) = row.tip {
                let place = self.bodies.keep(body, is_packed)?;
                self.insert(tip, None, row.seq, row.at_ms, place);
                rows.note(row.id, (row.session, row.seq), tip);
            }
            return Ok(());
        };
        let Some(json) = json_in(&mut self.reader, body, is_packed) else {
            return Ok(());
        };
        let tip = before.and(row.seq, row.at_ms, &json);
        if row.tip.is_some_and(|recorded| recorded != tip) {
            return Ok(());
        }
        if !self.is_proven(tip, before)? {
            let place = self.bodies.keep(body, is_packed)?;
            self.insert(tip, Some(before), row.seq, row.at_ms, place);
        }
        if let Some(entry) = self.entries.get_mut(&tip) {
            entry.in_row = true;
        }
        rows.note(row.id, (row.session, row.seq), tip);
        Ok(())
    }

    fn insert(
        &mut self,
        tip: ChainHash,
        before: Option<ChainHash>,
        seq: Seq,
        at_ms: i64,
        place: BodyPosition,
    ) {
        let entry = FoundEntry {
            seq,
            at_ms,
            before,
            owed: false,
            in_row: true,
            place,
        };
        let known = self.entries.entry(tip).or_insert(entry);
        // This entry is proven to follow its parent. The one with the same tip was not.
        if known.before.is_none() && before.is_some() {
            *known = entry;
        }
    }

    /// Finds the missing parents of entries among the entries of all copies.
    pub(super) fn find_missing_parents(&mut self) -> Result<(), StoreError> {
        let is_orphan = |entry: &FoundEntry| entry.before.is_none();
        let orphans: Vec<(ChainHash, FoundEntry)> = self
            .entries
            .iter()
            .filter(|(_, entry)| is_orphan(entry))
            .map(|(tip, entry)| (*tip, *entry))
            .collect();
        if orphans.is_empty() {
            return Ok(());
        }
        let wanted: HashSet<Seq> = orphans
            .iter()
            .filter_map(|(_, orphan)| orphan.seq.checked_sub(1))
            .collect();
        let mut parents: HashMap<Seq, Vec<ChainHash>> = HashMap::new();
        for (tip, entry) in &self.entries {
            if wanted.contains(&entry.seq) {
                parents.entry(entry.seq).or_default().push(*tip);
            }
        }
        for (tip, orphan) in orphans {
            let json = self.json(&orphan)?;
            let parents = orphan.seq.checked_sub(1).and_then(|seq| parents.get(&seq));
            let follows =
                |before: &&ChainHash| before.and(orphan.seq, orphan.at_ms, json.as_bytes()) == tip;
            let parent = parents.and_then(|all| all.iter().take(MAX_TRIED).find(follows));
            if let Some(entry) = self.entries.get_mut(&tip) {
                entry.before = parent.copied();
            }
        }
        Ok(())
    }

    /// Returns the entries of rows that are in none of these chains, by the tip that they follow.
    pub(super) fn entries_outside<'t>(
        &self,
        chains: impl Iterator<Item = &'t ChainHash>,
    ) -> HashMap<ChainHash, Vec<(Seq, ChainHash)>> {
        let known: HashSet<&ChainHash> = chains.collect();
        let mut besides: HashMap<ChainHash, Vec<(Seq, ChainHash)>> = HashMap::new();
        for (tip, entry) in &self.entries {
            if let Some(before) = entry
                .before
                .filter(|_| entry.in_row && !known.contains(tip))
            {
                besides.entry(before).or_default().push((entry.seq, *tip));
            }
        }
        besides
    }

    /// Returns the tips from the first entry of the chain to `end`. If the chain has a gap, fails
    /// with the sequence number of the oldest entry that is still connected to `end`.
    pub(super) fn chain(&self, end: ChainHash) -> Result<Vec<ChainHash>, Seq> {
        let mut chain = Vec::new();
        let mut tip = end;
        let mut last = None;
        while tip != ChainHash::of_nothing() {
            let Some(entry) = self.entries.get(&tip) else {
                return Err(last.unwrap_or(0));
            };
            if last.is_some_and(|last| entry.seq + 1 != last) {
                return Err(last.unwrap_or(0));
            }
            chain.push(tip);
            last = Some(entry.seq);
            match entry.before {
                Some(before) => tip = before,
                None => return Err(entry.seq),
            }
        }
        match last {
            Some(0) => {
                chain.reverse();
                Ok(chain)
            }
            last => Err(last.unwrap_or(0)),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::value::RawValue;

    use super::*;
    use crate::journal::line::EntryLine;

    const RIGHT: &str = r#"{"kind":"said","text":"right"}"#;
    const WRONG: &str = r#"{"kind":"said","text":"wrong"}"#;

    fn row_of<'a>(checksum: &'a [u8], body: &'a str, tip: ChainHash) -> FoundRow<'a> {
        FoundRow {
            id: 9,
            parent: Some(8),
            session: 1,
            seq: 3,
            at_ms: 7,
            checksum,
            body: ValueRef::Text(body.as_bytes()),
            tip: Some(tip),
        }
    }

    /// Returns an index with a row that has a correct checksum and the tip of another entry. Its
    /// parent is missing.
    fn with_wrong_row(before: ChainHash, tip: ChainHash) -> (EntryIndex, Rows) {
        let dir = tempfile::tempdir().unwrap();
        let mut found = EntryIndex::new(dir.path()).unwrap();
        let mut rows = Rows::default();
        let sum = checksum(Some(8), 3, 7, WRONG.as_bytes());
        found.row(&mut rows, &row_of(&sum, WRONG, tip)).unwrap();
        assert_eq!(before.and(3, 7, RIGHT.as_bytes()), tip);
        (found, rows)
    }

    fn text(found: &mut EntryIndex, tip: ChainHash) -> String {
        let entry = *found.get(&tip).unwrap();
        found.json(&entry).unwrap()
    }

    #[test]
    fn a_tip_that_does_not_follow_does_not_hide_the_one_that_does() {
        let before = ChainHash::of_nothing().and(2, 6, b"{}");
        let tip = before.and(3, 7, RIGHT.as_bytes());

        let (mut found, _) = with_wrong_row(before, tip);
        let line = EntryLine {
            seq: 3,
            at_ms: 7,
            tip,
            taken: None,
            signal: None,
            owed: false,
            entry: RawValue::from_string(RIGHT.to_string()).unwrap(),
        };
        found.line(Some(before), &line).unwrap();
        assert_eq!(text(&mut found, tip), RIGHT);

        let (mut found, mut rows) = with_wrong_row(before, tip);
        rows.tips.insert(8, before);
        rows.tips.remove(&9);
        let sum = checksum(Some(8), 3, 7, RIGHT.as_bytes());
        found.row(&mut rows, &row_of(&sum, RIGHT, tip)).unwrap();
        assert_eq!(text(&mut found, tip), RIGHT);
    }
}
