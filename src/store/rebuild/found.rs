//! What was found of entries, from whatever copy: an index by tip in memory, and the bodies in a
//! file without a name. A tip is a hash of the entry and of all before it, so what two copies
//! have in common is here once, and nothing can be put together that was not recorded so.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::Path;

use rusqlite::types::ValueRef;

use super::bodies::{Bodies, BodyFile, Place, json_in, text_in};
use super::progress::Progress;
use crate::core::entry::Seq;
use crate::core::text::count;
use crate::journal::tip::Tip;
use crate::store::StoreError;
use crate::store::row::{BodyPacker, BodyReader, checksum};

/// For one entry whose parent is not known so many are tried.
const MAX_TRIED: usize = 10_000;

/// One entry that was found.
#[derive(Debug, Clone, Copy)]
pub(super) struct FoundEntry {
    pub seq: Seq,
    pub at_ms: i64,
    /// The tip of the entry before. `None`: it is not known.
    pub before: Option<Tip>,
    pub owed: bool,
    /// A row of a database has it.
    pub in_row: bool,
    /// SQL can read that row, so it was committed.
    pub by_sql: bool,
    pub place: Place,
}

/// Which queued message and which signal an entry was.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct Was {
    pub taken: Option<i64>,
    pub signal: Option<i64>,
}

/// A row of `entries` as it was met.
pub(in crate::store) struct FoundRow<'a> {
    pub id: i64,
    pub parent: Option<i64>,
    /// The key of the session that appended it.
    pub session: i64,
    pub seq: Seq,
    pub at_ms: i64,
    pub checksum: &'a [u8],
    pub body: ValueRef<'a>,
    /// As it was recorded.
    pub tip: Option<Tip>,
    /// It was found on a page, and no tree of the database leads to it.
    pub is_carved: bool,
}

/// A row whose parent was not met yet.
struct Waiting {
    id: i64,
    parent: i64,
    session: i64,
    seq: Seq,
    at_ms: i64,
    tip: Option<Tip>,
    place: Place,
    is_carved: bool,
}

/// The rows of one database: those that SQL reads, then those that are found on its pages.
#[derive(Default)]
pub(super) struct Rows {
    tips: HashMap<i64, Tip>,
    /// Of the same row two were found on pages: nothing says which of them was recorded last.
    contradict: HashSet<i64>,
    /// Those that SQL read: what is found beside them does not contradict them.
    by_sql: HashSet<i64>,
    waiting: Vec<Waiting>,
    /// By the key of the session that appended it, and the place. Two where rows contradict.
    pub own: BTreeMap<(i64, Seq), Vec<Tip>>,
}

impl Rows {
    /// The tip behind the entry in this row.
    pub(super) fn tip(&self, row: i64) -> Option<Tip> {
        self.tips.get(&row).copied()
    }

    /// Returns the entry that this session appended after the one with this tip. Only rows that
    /// SQL can read count. `None`: there is no such row, or several contradict.
    pub(super) fn next(&self, found: &Found, session: i64, seq: Seq, tip: Tip) -> Option<Tip> {
        let follows = |next: &&Tip| {
            found
                .get(next)
                .is_some_and(|entry| entry.by_sql && entry.before == Some(tip))
        };
        let mut next = self.own.get(&(session, seq + 1))?.iter().filter(follows);
        let first = next.next().copied();
        first.filter(|_| next.next().is_none())
    }

    /// The key of the session that appended the entry with this tip.
    pub(super) fn session_of(&self, tip: &Tip) -> Option<i64> {
        let own = self.own.iter().find(|(_, tips)| tips.contains(tip));
        own.map(|((session, _), _)| *session)
    }

    fn note(&mut self, id: i64, is_carved: bool, place: (i64, Seq), tip: Tip) {
        let own = self.own.entry(place).or_default();
        if !own.contains(&tip) {
            own.push(tip);
        }
        if !is_carved {
            self.by_sql.insert(id);
            self.tips.insert(id, tip);
            return;
        }
        if self.by_sql.contains(&id) || self.contradict.contains(&id) {
            return;
        }
        if self.tips.insert(id, tip).is_some_and(|known| known != tip) {
            self.tips.remove(&id);
            self.contradict.insert(id);
        }
    }
}

pub(super) struct Found {
    entries: HashMap<Tip, FoundEntry>,
    /// Of the few that were one.
    was: HashMap<Tip, Was>,
    bodies: BodyFile,
    reader: BodyReader,
    packer: BodyPacker,
}

impl Found {
    /// Returns the number of entries with a row that SQL can read.
    pub(super) fn rows_by_sql(&self) -> u64 {
        self.entries.values().filter(|entry| entry.by_sql).count() as u64
    }

    /// The file with the bodies lies in this folder and has no name.
    pub(super) fn new(folder: &Path) -> Result<Found, StoreError> {
        Ok(Found {
            entries: HashMap::new(),
            was: HashMap::new(),
            bodies: BodyFile::in_folder(folder)?,
            reader: BodyReader::new()?,
            packer: BodyPacker::new()?,
        })
    }

    pub(super) fn was(&self, tip: &Tip) -> Was {
        self.was.get(tip).copied().unwrap_or_default()
    }

    /// A reader of what was found until the last flush.
    pub(super) fn bodies(&self) -> Result<Bodies<'_>, StoreError> {
        Bodies::of(&self.bodies)
    }

    pub(super) fn get(&self, tip: &Tip) -> Option<&FoundEntry> {
        self.entries.get(tip)
    }

    pub(super) fn flush(&mut self) -> Result<(), StoreError> {
        self.bodies.flush()
    }

    /// The JSON of an entry as it was first stored.
    fn json(&mut self, entry: &FoundEntry) -> Result<String, StoreError> {
        let bytes = self.body(entry.place)?;
        text_in(&mut self.reader, &bytes, entry.place.is_packed)
    }

    fn body(&mut self, place: Place) -> Result<Vec<u8>, StoreError> {
        self.bodies.flush()?;
        self.bodies.read(place)
    }

    /// A line of a journal: its tip follows from the one before.
    pub(super) fn line(
        &mut self,
        before: Tip,
        line: &crate::journal::line::EntryLine,
    ) -> Result<(), StoreError> {
        if line.taken.is_some() || line.signal.is_some() {
            let was = self.was.entry(line.tip).or_default();
            was.taken = was.taken.or(line.taken);
            was.signal = was.signal.or(line.signal);
        }
        if self.is_proven(line.tip, before)?
            && let Some(known) = self.entries.get_mut(&line.tip)
        {
            known.before = Some(before);
            known.owed |= line.owed;
            return Ok(());
        }
        // As the row will have it: it is written as it lies here.
        let (body, is_packed) = self.packer.pack(line.entry.get().as_bytes());
        let place = self.bodies.keep(body, is_packed)?;
        let entry = FoundEntry {
            seq: line.seq,
            at_ms: line.at_ms,
            before: Some(before),
            owed: line.owed,
            in_row: false,
            by_sql: false,
            place,
        };
        self.entries.insert(line.tip, entry);
        Ok(())
    }

    /// Whether what is known under this tip follows the one before. A row whose parent was not
    /// found says its tip alone, which its checksum does not cover.
    fn is_proven(&mut self, tip: Tip, before: Tip) -> Result<bool, StoreError> {
        match self.entries.get(&tip).copied() {
            None => Ok(false),
            Some(known) if known.before.is_some() => Ok(true),
            Some(known) => {
                let json = self.json(&known)?;
                Ok(before.and(known.seq, known.at_ms, json.as_bytes()) == tip)
            }
        }
    }

    /// A row; one that is not what was recorded is left out.
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
        let wait = |place| Waiting {
            id: row.id,
            parent: row.parent.unwrap_or(0),
            session: row.session,
            seq: row.seq,
            at_ms: row.at_ms,
            tip: row.tip,
            is_carved: row.is_carved,
            place,
        };
        let before = match row.parent {
            None => Some(Tip::of_nothing()),
            Some(parent) => rows.tip(parent),
        };
        let Some(before) = before else {
            let place = self.bodies.keep(body, is_packed)?;
            rows.waiting.push(wait(place));
            return Ok(());
        };
        let Some(json) = json_in(&mut self.reader, body, is_packed) else {
            return Ok(());
        };
        let tip = before.and(row.seq, row.at_ms, &json);
        if row.tip.is_some_and(|recorded| recorded != tip) {
            if row.is_carved {
                // It follows another one, whose row had the same id.
                let place = self.bodies.keep(body, is_packed)?;
                rows.waiting.push(wait(place));
            }
            return Ok(());
        }
        if !self.is_proven(tip, before)? {
            let place = self.bodies.keep(body, is_packed)?;
            self.insert(tip, Some(before), row.seq, row.at_ms, place);
        }
        self.note_sql(&tip, row.is_carved);
        rows.note(row.id, row.is_carved, (row.session, row.seq), tip);
        Ok(())
    }

    fn note_sql(&mut self, tip: &Tip, is_carved: bool) {
        if let Some(entry) = self.entries.get_mut(tip).filter(|_| !is_carved) {
            entry.by_sql = true;
        }
    }

    fn insert(&mut self, tip: Tip, before: Option<Tip>, seq: Seq, at_ms: i64, place: Place) {
        let entry = FoundEntry {
            seq,
            at_ms,
            before,
            owed: false,
            in_row: true,
            by_sql: false,
            place,
        };
        let known = self.entries.entry(tip).or_insert(entry);
        // It follows; what said the same tip did not show that.
        if known.before.is_none() && before.is_some() {
            *known = entry;
        }
    }

    /// The rows that waited for their parents: all rows of the database were met.
    pub(super) fn link(
        &mut self,
        rows: &mut Rows,
        progress: &mut Progress<'_>,
    ) -> Result<(), StoreError> {
        let mut waiting = std::mem::take(&mut rows.waiting);
        // A parent is older than what follows it.
        waiting.sort_by_key(|row| row.id);
        for (linked, row) in waiting.into_iter().enumerate() {
            progress.so_far(|| count(linked as u64, "entry") + " of its pages put in order");
            let body = self.body(row.place)?;
            let Some(json) = json_in(&mut self.reader, &body, row.place.is_packed) else {
                continue;
            };
            let before = rows.tip(row.parent);
            let follows = before.map(|before| before.and(row.seq, row.at_ms, &json));
            let tip = match (follows, row.tip) {
                (Some(follows), None) => follows,
                (Some(follows), Some(tip)) if follows == tip => tip,
                // Its parent is nowhere: the journal may have it.
                (None, Some(tip)) => tip,
                (Some(_), Some(tip)) if row.is_carved => tip,
                _ => continue,
            };
            let before = before.filter(|_| follows == Some(tip));
            self.insert(tip, before, row.seq, row.at_ms, row.place);
            self.note_sql(&tip, row.is_carved);
            rows.note(row.id, row.is_carved, (row.session, row.seq), tip);
        }
        Ok(())
    }

    /// Entries whose parent's row was not found: it may have come from another copy.
    pub(super) fn adopt(&mut self) -> Result<(), StoreError> {
        let is_orphan = |entry: &FoundEntry| entry.before.is_none();
        let orphans: Vec<(Tip, FoundEntry)> = self
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
        let mut parents: HashMap<Seq, Vec<Tip>> = HashMap::new();
        for (tip, entry) in &self.entries {
            if wanted.contains(&entry.seq) {
                parents.entry(entry.seq).or_default().push(*tip);
            }
        }
        for (tip, orphan) in orphans {
            let json = self.json(&orphan)?;
            let parents = orphan.seq.checked_sub(1).and_then(|seq| parents.get(&seq));
            let follows =
                |before: &&Tip| before.and(orphan.seq, orphan.at_ms, json.as_bytes()) == tip;
            let parent = parents.and_then(|all| all.iter().take(MAX_TRIED).find(follows));
            if let Some(entry) = self.entries.get_mut(&tip) {
                entry.before = parent.copied();
            }
        }
        Ok(())
    }

    /// Entries of rows that none of these chains has, by the tip that they follow.
    pub(super) fn besides<'t>(
        &self,
        chains: impl Iterator<Item = &'t Tip>,
    ) -> HashMap<Tip, Vec<(Seq, Tip)>> {
        let known: HashSet<&Tip> = chains.collect();
        let mut besides: HashMap<Tip, Vec<(Seq, Tip)>> = HashMap::new();
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

    /// The tips from the first entry of the chain to this one, or where it breaks off: the place
    /// of the oldest entry that is still joined to it.
    pub(super) fn chain(&self, end: Tip) -> Result<Vec<Tip>, Seq> {
        let mut chain = Vec::new();
        let mut tip = end;
        let mut last = None;
        while tip != Tip::of_nothing() {
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

    fn carved<'a>(checksum: &'a [u8], body: &'a str, tip: Tip) -> FoundRow<'a> {
        FoundRow {
            id: 9,
            parent: Some(8),
            session: 1,
            seq: 3,
            at_ms: 7,
            checksum,
            body: ValueRef::Text(body.as_bytes()),
            tip: Some(tip),
            is_carved: true,
        }
    }

    /// A row with a right checksum and the tip of another one, whose parent is nowhere.
    fn with_wrong_row(before: Tip, tip: Tip) -> (Found, Rows) {
        let dir = tempfile::tempdir().unwrap();
        let mut found = Found::new(dir.path()).unwrap();
        let mut rows = Rows::default();
        let sum = checksum(Some(8), 3, 7, WRONG.as_bytes());
        found.row(&mut rows, &carved(&sum, WRONG, tip)).unwrap();
        found
            .link(&mut rows, &mut Progress::new(&mut |_| {}))
            .unwrap();
        assert_eq!(before.and(3, 7, RIGHT.as_bytes()), tip);
        (found, rows)
    }

    fn text(found: &mut Found, tip: Tip) -> String {
        let entry = *found.get(&tip).unwrap();
        found.json(&entry).unwrap()
    }

    #[test]
    fn a_tip_that_does_not_follow_does_not_hide_the_one_that_does() {
        let before = Tip::of_nothing().and(2, 6, b"{}");
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
        found.line(before, &line).unwrap();
        assert_eq!(text(&mut found, tip), RIGHT);

        let (mut found, mut rows) = with_wrong_row(before, tip);
        rows.tips.insert(8, before);
        rows.tips.remove(&9);
        let sum = checksum(Some(8), 3, 7, RIGHT.as_bytes());
        found.row(&mut rows, &carved(&sum, RIGHT, tip)).unwrap();
        assert_eq!(text(&mut found, tip), RIGHT);
    }
}
