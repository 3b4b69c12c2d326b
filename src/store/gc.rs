//! Garbage collection of snapshots: removes trees that no session will need again, and contents
//! that no tree names.
//!
//! Never removed: the last tree of a workspace, and the trees of sessions that are recent or
//! unfinished, or from which such a session was forked.
//!
//! The order: first rows, in one transaction, then packs. The used contents of a nearly unused pack
//! are copied to a new one. It is synced before the rows name it, and only then the old one is
//! removed. No other process has the store open meanwhile, so no snapshot is in progress.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use rusqlite::{OptionalExtension, Row, Transaction, TransactionBehavior, params};

use super::contents::files_bytes;
use super::error::{Doing, io as io_error};
use super::packs::{self, PackPlace, PackWriter};
use super::row::{count, int};
use super::{Store, StoreError, cached, database, trees};
use crate::core::tree::{Change, ContentHash, Delta};

const WHAT: &str = "tidy up what is kept of files";

/// The trees and contents that are never removed.
#[derive(Debug, Clone, Copy)]
pub struct Keep {
    /// The trees of sessions with a change since this time: UTC, milliseconds since 1970.
    pub since_ms: i64,
    /// Whether only to count what would be removed.
    pub dry_run: bool,
}

/// Number and size of the removed items, or of those that would be removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Tidied {
    /// Sessions whose trees were removed; `in_trash` of them are in the trash.
    pub sessions: u64,
    pub in_trash: u64,
    pub trees: u64,
    pub contents: u64,
    /// Removed bytes as stored, in rows and packs.
    pub bytes: u64,
    /// Remaining bytes as stored.
    pub left_bytes: u64,
}

impl Store {
    /// Removes all trees and contents that `keep` does not protect. With `dry_run` other processes
    /// may have the store open.
    ///
    /// # Errors
    /// `InUse` when another process has it open.
    pub fn tidy_files(mut self, data_dir: &Path, keep: Keep) -> Result<Tidied, StoreError> {
        if keep.dry_run {
            return rows(&self.write(WHAT)?, keep);
        }
        let lock = self.lock.take();
        let alone = lock.map(|lock| lock.exclusive(data_dir, || Ok(false)));
        let alone = alone.transpose().map_err(|e| in_use(e, WHAT))?;
        let tx = self.write(WHAT)?;
        let tidied = rows(&tx, keep)?;
        tx.commit().doing(WHAT)?;
        let packed = tidy_packs(&mut self.conn, data_dir);
        // The connection is closed before other processes can open the store.
        drop(self);
        drop(alone);
        packed?;
        Ok(tidied)
    }
}

pub(crate) fn in_use(error: StoreError, what: &'static str) -> StoreError {
    match error {
        StoreError::Locked { pids } => StoreError::InUse { what, pids },
        error => error,
    }
}

fn rows(tx: &Transaction<'_>, keep: Keep) -> Result<Tidied, StoreError> {
    let mut tidied = Tidied::default();
    let before = files_bytes(tx, WHAT)?;
    let dropped = dropped_sessions(tx, keep.since_ms)?;
    for (session, is_trashed) in &dropped {
        let sql = "DELETE FROM tree_uses WHERE session = ?1";
        let uses = cached::execute(tx, sql, [session]).doing(WHAT)?;
        tidied.sessions += u64::from(uses > 0);
        tidied.in_trash += u64::from(uses > 0 && *is_trashed);
    }
    (tidied.trees, tidied.contents) = remove_but(tx, &referenced_trees(tx)?)?;
    tidied.left_bytes = files_bytes(tx, WHAT)?;
    tidied.bytes = before.saturating_sub(tidied.left_bytes);
    Ok(tidied)
}

/// Removes all trees but these, and the contents that only the removed ones name.
fn remove_but(tx: &Transaction<'_>, kept: &BTreeSet<i64>) -> Result<(u64, u64), StoreError> {
    let named = named_contents(tx, kept)?;
    let trees = remove_trees(tx, kept)?;
    let contents = remove_contents(tx, &named)?;
    tx.execute_batch(
        "UPDATE packs SET bytes = (SELECT coalesce(sum(stored), 0) FROM contents WHERE pack = packs.id);",
    )
    .doing(WHAT)?;
    Ok((trees, contents))
}

/// Removes trees that no session names, and their contents. The last tree of a workspace stays only
/// if a session of that workspace names one.
pub(super) fn remove_unnamed(tx: &Transaction<'_>) -> Result<(), StoreError> {
    let kept = ids(
        tx,
        "SELECT tree FROM tree_uses UNION
         SELECT max(id) FROM trees WHERE place IN (
           SELECT t.place FROM tree_uses u JOIN trees t ON t.id = u.tree) GROUP BY place",
    )?;
    remove_but(tx, &kept).map(drop)
}

/// Returns the sessions whose trees no session will need again, and whether each is in the trash.
fn dropped_sessions(tx: &Transaction<'_>, since_ms: i64) -> Result<Vec<(i64, bool)>, StoreError> {
    struct Session {
        from: Option<i64>,
        is_kept: bool,
        is_trashed: bool,
    }
    let sql = "SELECT key, forked_from, trashed_ms IS NOT NULL,
                    trashed_ms IS NULL AND (unfinished OR updated_ms >= ?1 OR EXISTS (
                      SELECT 1 FROM tree_uses u JOIN trees t ON t.id = u.tree
                      WHERE u.session = key AND t.at_ms >= ?1)) FROM sessions";
    let mut sessions: BTreeMap<i64, Session> = cached::rows(tx, sql, [since_ms], |row| {
        let session = Session {
            from: row.get(1)?,
            is_trashed: row.get(2)?,
            is_kept: row.get(3)?,
        };
        Ok((row.get(0)?, session))
    })
    .doing(WHAT)?;
    // A fork has a larger key than its origin.
    let keys: Vec<i64> = sessions.keys().rev().copied().collect();
    for key in keys {
        let from = sessions
            .get(&key)
            .filter(|s| s.is_kept)
            .and_then(|s| s.from);
        if let Some(origin) = from.and_then(|from| sessions.get_mut(&from)) {
            origin.is_kept = true;
        }
    }
    let dropped = sessions.iter().filter(|(_, session)| !session.is_kept);
    Ok(dropped.map(|(key, s)| (*key, s.is_trashed)).collect())
}

/// Returns the trees that a session names, and the last one of each workspace here. Trees of bundles
/// have other roots.
fn referenced_trees(tx: &Transaction<'_>) -> Result<BTreeSet<i64>, StoreError> {
    ids(
        tx,
        "SELECT tree FROM tree_uses UNION SELECT max(t.id) FROM trees t JOIN places p ON p.key = t.place
         WHERE substr(p.root, 1, 1) = x'2f' GROUP BY p.key",
    )
}

fn ids(tx: &Transaction<'_>, sql: &str) -> Result<BTreeSet<i64>, StoreError> {
    cached::rows(tx, sql, [], |row| row.get(0)).doing(WHAT)
}

/// Returns the contents of all files in these trees.
pub(super) fn named_contents(
    tx: &Transaction<'_>,
    kept: &BTreeSet<i64>,
) -> Result<BTreeSet<ContentHash>, StoreError> {
    let mut named = BTreeSet::new();
    for id in kept {
        let row = trees::row(tx, *id)?;
        let delta = match row.parent {
            // Everything else in it is in the parent.
            Some(parent) if kept.contains(&parent) => {
                let parent = trees::name(&trees::row(tx, parent)?);
                trees::delta(&row, Some(&parent))?
            }
            _ => trees::read(tx, *id)?.tree.whole(),
        };
        add_contents(&delta, &mut named);
    }
    Ok(named)
}

fn add_contents(delta: &Delta, named: &mut BTreeSet<ContentHash>) {
    for change in delta.0.values() {
        if let Change::Put { item, .. } = change {
            named.extend(item.content());
        }
    }
}

/// Removes all trees but these and those that they are deltas to.
fn remove_trees(tx: &Transaction<'_>, kept: &BTreeSet<i64>) -> Result<u64, StoreError> {
    let mut needed = kept.clone();
    for id in kept {
        let mut parent = trees::row(tx, *id)?.parent;
        while let Some(id) = parent.filter(|id| needed.insert(*id)) {
            parent = trees::row(tx, id)?.parent;
        }
    }
    let all = ids(tx, "SELECT id FROM trees")?;
    remove(tx, "DELETE FROM trees WHERE id = ?1", &all, &needed)
}

/// Removes all contents but these and those that they were compressed with.
fn remove_contents(tx: &Transaction<'_>, named: &BTreeSet<ContentHash>) -> Result<u64, StoreError> {
    let sql = "SELECT id, hash, base FROM contents ORDER BY id DESC";
    let columns = |row: &Row<'_>| Ok((row.get(0)?, row.get(1)?, row.get(2)?));
    let rows: Vec<(i64, Vec<u8>, Option<i64>)> = cached::rows(tx, sql, [], columns).doing(WHAT)?;
    let mut needed = BTreeSet::new();
    for (id, hash, base) in &rows {
        let is_named = <ContentHash>::try_from(&hash[..]).is_ok_and(|h| named.contains(&h));
        // A base is older than the contents that were compressed with it, so it comes later here.
        if is_named || needed.contains(id) {
            needed.insert(*id);
            needed.extend(base);
        }
    }
    let all = rows.iter().map(|(id, ..)| *id).collect();
    remove(tx, "DELETE FROM contents WHERE id = ?1", &all, &needed)
}

/// Removes rows, the newest first, since a row is older than those that refer to it.
fn remove(
    tx: &Transaction<'_>,
    sql: &str,
    all: &BTreeSet<i64>,
    needed: &BTreeSet<i64>,
) -> Result<u64, StoreError> {
    let mut statement = tx.prepare(sql).doing(WHAT)?;
    let mut removed = 0;
    for id in all.difference(needed).collect::<Vec<_>>().iter().rev() {
        removed += statement.execute([id]).doing(WHAT)? as u64;
    }
    Ok(removed)
}

/// Removes packs that no row names, and rewrites those of which less than half is named.
pub(super) fn tidy_packs(
    conn: &mut rusqlite::Connection,
    data_dir: &Path,
) -> Result<(), StoreError> {
    let folder = packs::folder(data_dir);
    let Ok(files) = fs::read_dir(&folder) else {
        return Ok(());
    };
    // A damaged database that was kept may name packs that this one does not.
    let may_be_named = database::has_damaged_copy(data_dir);
    let mut writer = PackWriter::new(data_dir);
    for file in files.flatten() {
        let name = file.file_name().to_string_lossy().into_owned();
        if !name.ends_with(".pack") {
            continue;
        }
        let fail = |e| io_error(format!("tidy up {}", file.path().display()), e);
        let size = file.metadata().map_err(fail)?.len();
        let sql = "SELECT id, bytes FROM packs WHERE name = ?1";
        let row: Option<(i64, i64)> = cached::row(conn, sql, [&name], |row| row.try_into())
            .optional()
            .doing(WHAT)?;
        match row {
            Some((_, bytes)) if count(bytes) * 2 > size => continue,
            Some((pack, _)) => rewrite(conn, &mut writer, &folder.join(&name), pack)?,
            None if may_be_named => continue,
            None => {}
        }
        fs::remove_file(file.path()).map_err(fail)?;
    }
    Ok(())
}

/// Maximum number of bytes in memory while a pack is copied.
const MAX_HELD: u64 = 8 << 20;

/// Copies the contents of a pack that rows name into a new pack, and points the rows to it.
fn rewrite(
    conn: &mut rusqlite::Connection,
    writer: &mut PackWriter,
    path: &Path,
    pack: i64,
) -> Result<(), StoreError> {
    let sql = "SELECT id, at, stored FROM contents WHERE pack = ?1 ORDER BY at";
    let columns = |row: &Row<'_>| Ok((row.get(0)?, row.get(1)?, row.get(2)?));
    let contents: Vec<(i64, i64, i64)> = cached::rows(conn, sql, [pack], columns).doing(WHAT)?;
    let mut moved: Vec<(i64, PackPlace, u64)> = Vec::new();
    for part in at_once(&contents) {
        let read =
            |(_, at, stored): &(i64, i64, i64)| packs::read(path, count(*at), count(*stored));
        let data: Vec<Vec<u8>> = part.iter().map(read).collect::<Result<_, _>>()?;
        let data: Vec<&[u8]> = data.iter().map(Vec::as_slice).collect();
        let places = writer.keep(&data)?.into_iter();
        moved.extend(
            part.iter()
                .zip(places)
                .map(|((id, _, stored), place)| (*id, place, count(*stored))),
        );
    }
    let tx = conn
        .transaction_with_behavior(TransactionBehavior::Immediate)
        .doing(WHAT)?;
    let switch = || -> rusqlite::Result<()> {
        for (id, place, stored) in &moved {
            let pack = packs::row(&tx, &place.name, *stored)?;
            tx.prepare_cached("UPDATE contents SET pack = ?2, at = ?3 WHERE id = ?1")?
                .execute(params![id, pack, int(place.at)])?;
        }
        tx.execute("DELETE FROM packs WHERE id = ?1", [pack])?;
        Ok(())
    };
    switch().doing(WHAT)?;
    tx.commit().doing(WHAT)
}

/// Splits contents into groups that are in memory together, and synced together.
fn at_once(contents: &[(i64, i64, i64)]) -> impl Iterator<Item = &[(i64, i64, i64)]> {
    let mut bytes = 0;
    contents.chunk_by(move |(_, _, stored), _| {
        bytes += count(*stored);
        let has_room = bytes < MAX_HELD;
        if !has_room {
            bytes = 0;
        }
        has_room
    })
}
