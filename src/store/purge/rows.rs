//! Removing the rows of a purged session. Entries that forks share with it are given to the forks.

use std::collections::BTreeSet;
use std::path::PathBuf;

use rusqlite::{Transaction, params};

use crate::core::entry::{Entry, Seq};
use crate::store::chain::Head;
use crate::store::error::Doing;
use crate::store::row::{BodyReader, count, int};
use crate::store::{StoreError, cached, gc, index, trees};

/// The numbers of removed items.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Removed {
    pub entries: u64,
    pub blobs: u64,
    /// Number of entries that forks continue from: they belong to the forks now.
    pub kept: u64,
    /// Number of sessions of its subagents. The other numbers include them.
    pub tasks: u64,
    /// Copies of the database that still have the session: they are never changed.
    pub copies: Vec<PathBuf>,
}

pub(super) const WHAT: &str = "purge the session";

struct Fork {
    key: i64,
    /// The last shared entry.
    seq: Seq,
}

/// Removes all rows of the session except the entries that forks continue from.
pub(super) fn remove(tx: &Transaction<'_>, head: &Head) -> Result<Removed, StoreError> {
    let forks = forks(tx, head.key)?;
    let kept = give_entries_to_forks(tx, head, &forks)?;
    for fork in &forks {
        note_trees(tx, fork.key)?;
    }
    let blobs = blobs_of(tx, head.key)?;
    let entries = tx
        .execute("DELETE FROM entries WHERE session = ?1", [head.key])
        .doing(WHAT)?;
    let session = head.session();
    let of_key = ["memories", "drafts", "inbox", "signals", "tree_uses"];
    for table in of_key {
        let sql = format!("DELETE FROM {table} WHERE session = ?1");
        tx.execute(&sql, [head.key]).doing(WHAT)?;
    }
    for sql in [
        "DELETE FROM conversation_context WHERE conversation_id = ?1",
        "DELETE FROM telemetry WHERE session = ?1",
        "DELETE FROM meta WHERE name IN ('brought:' || ?1, 'gap:' || ?1, 'appended:' || ?1)",
    ] {
        tx.execute(sql, [session]).doing(WHAT)?;
    }
    for sql in [
        // Subagents that were not known when the purge started must not refer to a removed row.
        "UPDATE sessions SET forked_from = NULL WHERE forked_from = ?1 AND forked_seq IS NULL",
        "DELETE FROM sessions WHERE key = ?1",
    ] {
        tx.execute(sql, [head.key]).doing(WHAT)?;
    }
    // The index has words of the session, so it is filled again.
    index::begin_again(tx).doing(WHAT)?;
    tx.execute_batch("INSERT INTO memory_index (memory_index) VALUES ('rebuild')")
        .doing(WHAT)?;
    let removed = Removed {
        entries: entries as u64,
        blobs: remove_blobs(tx, blobs)?,
        kept,
        ..Removed::default()
    };
    gc::remove_unnamed(tx)?;
    Ok(removed)
}

/// Returns the forks, the oldest first: a fork is always newer than its origin.
fn forks(tx: &Transaction<'_>, key: i64) -> Result<Vec<Fork>, StoreError> {
    let sql = "SELECT key, forked_seq FROM sessions
         WHERE forked_from = ?1 AND forked_seq IS NOT NULL ORDER BY key";
    cached::rows(tx, sql, [key], |row| {
        Ok(Fork {
            key: row.get(0)?,
            seq: row.get::<_, Option<i64>>(1)?.map_or(0, count),
        })
    })
    .doing(WHAT)
}

/// Gives each fork the part of its beginning that no older fork has, and makes that older fork its
/// origin.
fn give_entries_to_forks(
    tx: &Transaction<'_>,
    head: &Head,
    forks: &[Fork],
) -> Result<u64, StoreError> {
    let sql = "SELECT forked_from, forked_seq FROM sessions WHERE key = ?1";
    let (from, from_seq): (Option<i64>, Option<i64>) =
        cached::row(tx, sql, [head.key], |row| row.try_into()).doing(WHAT)?;
    let first_own = from_seq.map_or(0, |seq| count(seq) + 1);
    let mut heirs: Vec<(i64, Seq)> = Vec::new();
    let mut kept = 0;
    for fork in forks {
        let furthest = heirs.iter().copied().max_by_key(|(_, seq)| *seq);
        let (parent, seq) = match furthest {
            _ if fork.seq < first_own => (from, Some(fork.seq)),
            Some((heir, upto)) if fork.seq <= upto => (Some(heir), Some(fork.seq)),
            furthest => {
                let first = furthest.map_or(first_own, |(_, upto)| upto + 1);
                kept += give(tx, head.key, fork, first)?;
                match furthest {
                    Some((heir, upto)) => (Some(heir), Some(upto)),
                    None => (from, from_seq.map(count)),
                }
            }
        };
        let sql = "UPDATE sessions SET forked_from = ?2, forked_seq = ?3 WHERE key = ?1";
        let values = params![fork.key, parent, seq.map(int)];
        tx.execute(sql, values).doing(WHAT)?;
        if fork.seq >= first_own {
            heirs.push((fork.key, fork.seq));
        }
    }
    Ok(kept)
}

fn give(tx: &Transaction<'_>, from: i64, fork: &Fork, first: Seq) -> Result<u64, StoreError> {
    let part = params![from, fork.key, int(first), int(fork.seq)];
    let sql = "UPDATE sessions SET bytes = bytes + (SELECT coalesce(sum(octet_length(body)), 0)
           FROM entries WHERE session = ?1 AND seq BETWEEN ?3 AND ?4) WHERE key = ?2";
    tx.execute(sql, part).doing(WHAT)?;
    let sql = "UPDATE memories SET session = ?2 WHERE session = ?1 AND seq BETWEEN ?3 AND ?4";
    tx.execute(sql, part).doing(WHAT)?;
    let sql = "UPDATE entries SET session = ?2 WHERE session = ?1 AND seq BETWEEN ?3 AND ?4";
    let rows = tx.execute(sql, part).doing(WHAT)?;
    Ok(rows as u64)
}

fn each_entry(
    tx: &Transaction<'_>,
    condition: &str,
    key: i64,
    each: &mut dyn FnMut(Entry) -> rusqlite::Result<()>,
) -> Result<(), StoreError> {
    let mut bodies = BodyReader::new()?;
    let sql = format!("SELECT body FROM entries WHERE session {condition} ?1");
    let mut walk = || -> rusqlite::Result<()> {
        let mut statement = tx.prepare(&sql)?;
        let mut rows = statement.query([key])?;
        while let Some(row) = rows.next()? {
            // An entry that cannot be read names nothing.
            if let Ok(entry) = bodies.read(row.get_ref(0)?) {
                each(entry)?;
            }
        }
        Ok(())
    };
    walk().doing(WHAT)
}

/// Records which trees the entries of a fork name now.
fn note_trees(tx: &Transaction<'_>, key: i64) -> Result<(), StoreError> {
    let head = Head::before_first(String::new(), key);
    each_entry(tx, "=", key, &mut |entry| {
        trees::note_use(tx, &head, &entry)
    })
}

fn blobs_of(tx: &Transaction<'_>, key: i64) -> Result<BTreeSet<String>, StoreError> {
    let mut blobs = BTreeSet::new();
    each_entry(tx, "=", key, &mut |entry| {
        blobs.extend(entry.blobs().map(|blob| blob.hash.clone()));
        Ok(())
    })?;
    let sql = "SELECT body FROM inbox WHERE session = ?1";
    let queued: Vec<String> = cached::rows(tx, sql, [key], |row| row.get(0)).doing(WHAT)?;
    for body in queued {
        if let Ok(message) = serde_json::from_str::<crate::store::Message>(&body) {
            blobs.extend(message.images.into_iter().map(|image| image.blob.hash));
        }
    }
    Ok(blobs)
}

/// Removes the blobs that no other session refers to.
fn remove_blobs(tx: &Transaction<'_>, mut blobs: BTreeSet<String>) -> Result<u64, StoreError> {
    if blobs.is_empty() {
        return Ok(0);
    }
    each_entry(tx, "<>", 0, &mut |entry| {
        for blob in entry.blobs() {
            blobs.remove(&blob.hash);
        }
        Ok(())
    })?;
    let mut removed = 0;
    for hash in blobs {
        let sql = "SELECT EXISTS (SELECT 1 FROM inbox WHERE instr(body, ?1))";
        let is_queued: bool = cached::row(tx, sql, [&hash], |row| row.get(0)).doing(WHAT)?;
        if let (false, Ok(hash)) = (is_queued, blake3::Hash::from_hex(&hash)) {
            let rows = tx.execute("DELETE FROM blobs WHERE hash = ?1", [hash.as_bytes()]);
            removed += rows.doing(WHAT)? as u64;
        }
    }
    Ok(removed)
}
