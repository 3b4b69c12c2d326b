//! The changes of files between two places of a session, for `rewake diff` and the server.

use serde::Serialize;

use super::{FileAuthors, FileChange, TreePair};
use crate::core::entry::{CallId, Entry, Record, Seq};
use crate::core::file_name::path_text;
use crate::core::tree::{Change, Tree, diff, named, place_at, why_unknown};
use crate::engine::NotRewound;
use crate::store::{Store, StoreError};

/// Number of entries after an answer that are searched for the end of one of its calls.
const AFTER_ANSWER: u64 = 500;

/// Number of entries before an answer that are searched for the tree before its calls.
const BEFORE_ANSWER: u64 = 50;

/// The change of one file, for a person.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct FileDiff {
    pub path: String,
    /// Everybody who changed it between the two places. `None`: the call itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub author: Option<String>,
    /// `+12 −3`.
    pub figures: String,
    /// Numbers of added and removed lines. `None`: one of the sides is not text.
    pub lines: Option<(usize, usize)>,
    /// A unified diff like `git diff`. `None`: a side is not text, or it was not wanted.
    pub diff: Option<String>,
}

/// The reason for a missing diff.
#[derive(Debug, thiserror::Error)]
pub enum NoDiff {
    #[error("the files are not known {0}")]
    Unknown(String),
    #[error("what the files were there is not stored any more")]
    Forgotten,
    #[error(transparent)]
    Authors(#[from] NotRewound),
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl NoDiff {
    /// Returns a hint for a person. `None`: no remedy is known.
    pub fn hint(&self) -> Option<String> {
        match self {
            NoDiff::Unknown(_) => Some(
                "rewake show ID lists the entries: at others the files may be known; rewake doctor \
                 says what is kept"
                    .into(),
            ),
            NoDiff::Forgotten => {
                Some("rewake gc removes it from old sessions (files.keep_sec)".into())
            }
            NoDiff::Authors(_) => None,
            NoDiff::Store(error) => error.hint(),
        }
    }
}

/// Returns the changed files between two entries of a session, by path. `None`: its first or its
/// last place at which the files are known. `stat`: without the lines.
///
/// # Errors
/// The files are not known at one of the places.
pub fn session_diff(
    store: &Store,
    session: &str,
    (from, to): (Option<Seq>, Option<Seq>),
    stat: bool,
) -> Result<Vec<FileDiff>, NoDiff> {
    let (_, records) = store.load(session)?;
    let from_place = place(&records, from, true)?;
    let to_place = place(&records, to, false)?;
    // The first entry may be the later one. The authors between the two are the same.
    let is_forward = from_place.0 <= to_place.0;
    let (first, last) = match is_forward {
        true => (from_place, to_place),
        false => (to_place, from_place),
    };
    let authors = FileAuthors::between(store, &records, first, last.0)?;
    let trees = (tree(store, from_place.1)?, tree(store, to_place.1)?);
    files(store, &trees, stat, |path, change, name| {
        let of_lines = match is_forward && !stat {
            true => authors.of_lines(store, path)?,
            false => None,
        };
        let by = |lines: &[_]| {
            of_lines
                .as_ref()
                .map_or(String::new(), |of| of.of_hunk(lines))
        };
        Ok((Some(authors.of_file(path)), change.unified_by(name, by)))
    })
}

/// Returns the files that a finished call changed, by path. Changes of others before and after it
/// do not count.
///
/// # Errors
/// The call has no result yet, or the files are not known there.
pub fn call_diff(store: &Store, session: &str, call: CallId) -> Result<Vec<FileDiff>, NoDiff> {
    let from = call.reply.saturating_sub(BEFORE_ANSWER);
    let records = store.records(session, from..=call.reply.saturating_add(AFTER_ANSWER))?;
    let seq_of = |is: &dyn Fn(&Entry) -> bool| {
        let found = records.iter().find(|record| is(&record.entry));
        found.map(|record| record.seq)
    };
    let started = seq_of(&|e| matches!(e, Entry::Started { call: id, .. } if *id == call));
    let finished = seq_of(&|e| matches!(e, Entry::Finished { call: id, .. } if *id == call));
    let Some(finished) = finished else {
        return Err(NoDiff::Unknown(format!(
            "after call {call}: it has no result"
        )));
    };
    // A call that only reads, or that was denied, never starts.
    let Some(started) = started else {
        return Ok(Vec::new());
    };
    let pair = TreePair::around(&records, started, finished);
    let pair = pair.ok_or_else(|| NoDiff::Unknown(format!("around call {call}")))?;
    if pair.before == pair.after {
        return Ok(Vec::new());
    }
    let trees = (tree(store, &pair.before)?, tree(store, &pair.after)?);
    files(store, &trees, false, |_, change, name| {
        Ok((None, change.unified(name)))
    })
}

fn files(
    store: &Store,
    (from, to): &(Tree, Tree),
    stat: bool,
    described: impl Fn(&[u8], &FileChange, &str) -> Result<(Option<String>, String), NoDiff>,
) -> Result<Vec<FileDiff>, NoDiff> {
    let delta = diff(from, to);
    let changed = delta.0.iter().map(|(bytes, change)| {
        let now = match change {
            Change::Put { item, .. } => Some(item),
            Change::Gone { .. } => None,
        };
        let path = path_text(bytes);
        let change = FileChange::of(store, from.0.get(bytes), now)?;
        let (author, diff) = described(bytes, &change, &path)?;
        Ok(FileDiff {
            path,
            author,
            figures: change.figures(),
            lines: change.lines,
            diff: (!stat && change.lines.is_some()).then_some(diff),
        })
    });
    changed.collect()
}

/// Returns the tree at an entry, and the place of the entry that names it. Without an entry,
/// returns the first or the last tree of the session.
fn place(records: &[Record], at: Option<Seq>, is_from: bool) -> Result<(usize, &str), NoDiff> {
    let mut all = records.iter().enumerate();
    fn its((place, record): (usize, &Record)) -> Option<(usize, &str)> {
        Some((place, named(&record.entry)?))
    }
    let found = match at {
        Some(seq) => place_at(records, seq),
        None if is_from => all.find_map(its),
        None => all.rev().find_map(its),
    };
    found.ok_or_else(|| {
        NoDiff::Unknown(match at {
            Some(seq) => format!("at entry {seq}: {}", why_unknown(records, seq)),
            None => "in this session: it has no snapshot".to_string(),
        })
    })
}

fn tree(store: &Store, name: &str) -> Result<Tree, NoDiff> {
    let known = store.snapshots().tree(name)?;
    known.map(|known| known.tree).ok_or(NoDiff::Forgotten)
}
