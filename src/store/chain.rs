//! The chain from the head of a session back to its first entry, by `parent`.
//!
//! A row that cannot be read hides its parent. The entry before it is then found by the session and
//! the place that each row names. So the damage does not make earlier entries unreachable.
//!
//! Entries of a session from the newest to the oldest, for callers that want only a few of them.
//! Only those are read completely.
//!
//! Nothing is verified here: the entries are shown in a list, and no decision depends on them.
//!
//! The head of a session: the end of its chain of entries.

use std::ops::ControlFlow;

use rusqlite::{Connection, OptionalExtension, Statement, params};

use super::error::{Doing, classify};
use super::row::{BodyReader, clip, count, int};
use super::{History, StoreError, cached};
use crate::core::entry::{Entry, Fact, Seq};
use crate::journal::chain_hash::ChainHash;

const WHAT: &str = "read the session";

/// Maximum number of rows that are searched for the entry before a damaged one. The search takes a
/// second or two.
const MAX_LOOKED_AT: i64 = 1_000_000;

/// The rows of a part of a chain.
pub(super) struct Chain {
    /// Row ids, newest first, down to the first row of the part. None of them comes after a damaged
    /// one.
    pub rows: Vec<i64>,
    damage: Option<Damage>,
}

/// The first entry of a part that cannot be read. The entries before it can be found.
struct Damage {
    session: String,
    seq: Seq,
    what: String,
    can_append: bool,
}

impl Chain {
    /// Fails if an entry up to this one is damaged: then its row is not among `rows`.
    pub(super) fn readable_upto(&self, last: Seq) -> Result<(), StoreError> {
        match &self.damage {
            Some(damage) if damage.seq <= last => Err(StoreError::Corrupt {
                session: damage.session.clone(),
                seq: damage.seq,
                what: damage.what.clone(),
                can_append: damage.can_append,
                in_journal: 0,
            }),
            _ => Ok(()),
        }
    }
}

/// The position of a row in its chain, as the row states it.
struct Link {
    parent: Option<i64>,
    seq: Seq,
    /// Key of the session that appended the row.
    owner: i64,
}

/// Returns the chain from the head back to the entry `down_to`.
pub(super) fn chain(conn: &Connection, head: &Head, down_to: Seq) -> Result<Chain, StoreError> {
    let mut links = Links::new(conn)?;
    let mut rows = Vec::new();
    let mut damage = None;
    let mut next = head.row;
    // Every row of the chain that follows has a smaller id.
    let mut before = head.row.map_or(0, |row| row.saturating_add(1));
    let mut seq = head.length;
    while seq > down_to {
        let link = match next {
            Some(id) => links.follow(id, before, seq - 1)?,
            None => Err("it is missing".to_string()),
        };
        match (link, next) {
            (Ok(link), Some(id)) => {
                rows.push(id);
                (next, before, seq) = (link.parent, id, seq - 1);
            }
            (Err(what), _) => {
                // These rows come after the damaged one.
                rows.clear();
                let found = links.nearest(conn, head, before, seq - 1)?;
                seq = found.map_or(0, |(seq, _)| seq + 1);
                next = found.map(|(_, id)| id);
                damage = Some((seq, what));
            }
            (Ok(_), None) => break,
        }
    }
    if down_to == 0 && next.is_some() {
        rows.clear();
        damage = Some((0, "something comes before it".to_string()));
    }
    let damage = damage.map(|(seq, what)| Damage {
        session: head.session.clone(),
        seq,
        what,
        can_append: can_append(conn),
    });
    Ok(Chain { rows, damage })
}

struct Links<'c> {
    statement: rusqlite::CachedStatement<'c>,
}

impl<'c> Links<'c> {
    fn new(conn: &'c Connection) -> Result<Links<'c>, StoreError> {
        let sql = "SELECT parent, seq, session FROM entries WHERE id = ?1";
        let statement = conn.prepare_cached(sql).doing(WHAT)?;
        Ok(Links { statement })
    }

    /// Returns the row if it is the entry at this place, or the reason why it is not.
    fn follow(
        &mut self,
        id: i64,
        before: i64,
        seq: Seq,
    ) -> Result<Result<Link, String>, StoreError> {
        let link = match read(&mut self.statement, id) {
            Ok(Some(link)) => link,
            Ok(None) => return Ok(Err("it is missing".to_string())),
            Err(StoreError::Damaged { what, .. }) => return Ok(Err(what)),
            Err(error) => return Err(error),
        };
        Ok(match link {
            // A parent always has a smaller id, so a cycle in damaged rows ends here.
            _ if id >= before => Err("it is younger than what follows it".to_string()),
            Link {
                parent: Some(parent),
                ..
            } if parent >= id => Err("its parent is younger than itself".to_string()),
            Link { seq: found, .. } if found != seq => Err(format!("it says it is entry {found}")),
            link => Ok(link),
        })
    }

    /// Returns the last readable entry of the chain up to `upto`, among the rows before this one. A
    /// session has one own entry at each place, so a row that names the session and the place
    /// belongs to the chain. Each row is verified when it is read.
    fn nearest(
        &mut self,
        conn: &Connection,
        head: &Head,
        before: i64,
        upto: Seq,
    ) -> Result<Option<(Seq, i64)>, StoreError> {
        let owners = owners(conn, head)?;
        let oldest = before.saturating_sub(MAX_LOOKED_AT).max(1);
        for id in (oldest..before).rev() {
            let link = match read(&mut self.statement, id) {
                Ok(Some(link)) => link,
                Ok(None) | Err(StoreError::Damaged { .. }) => continue,
                Err(error) => return Err(error),
            };
            let is_older = link.parent.is_none_or(|parent| parent < id);
            let owner = owners.iter().find(|(first, _)| *first <= link.seq);
            if is_older && link.seq <= upto && owner.is_some_and(|(_, key)| *key == link.owner) {
                return Ok(Some((link.seq, id)));
            }
        }
        Ok(None)
    }
}

fn read(statement: &mut Statement<'_>, id: i64) -> Result<Option<Link>, StoreError> {
    let link = statement.query_row([id], |row| {
        Ok(Link {
            parent: row.get(0)?,
            seq: count(row.get(1)?),
            owner: row.get(2)?,
        })
    });
    link.optional().map_err(|e| classify(WHAT, e))
}

/// Returns the session and its fork origins, the nearest first. Each comes with the place of its
/// first own entry in this chain.
fn owners(conn: &Connection, head: &Head) -> Result<Vec<(Seq, i64)>, StoreError> {
    let mut statement = conn
        .prepare_cached("SELECT forked_from, forked_seq FROM sessions WHERE key = ?1")
        .doing(WHAT)?;
    let mut owners: Vec<(Seq, i64)> = Vec::new();
    let mut key = Some(head.key);
    while let Some(owner) = key {
        let row = statement.query_row([owner], |row| Ok((row.get(0)?, row.get(1)?)));
        let (from, seq): (Option<i64>, Option<i64>) = row.doing(WHAT)?;
        // A session is always newer than its origin, so a cycle in damaged rows ends here.
        key = from.filter(|from| *from < owner);
        let first = match key {
            Some(_) => seq.map_or(0, |seq| count(seq) + 1),
            None => 0,
        };
        owners.push((first, owner));
    }
    Ok(owners)
}

/// Returns whether the end of the table can be reached, where new entries are inserted, also those
/// of a fork.
pub(super) fn can_append(conn: &Connection) -> bool {
    let last: rusqlite::Result<Option<i64>> =
        conn.query_row("SELECT max(id) FROM entries", [], |row| row.get(0));
    last.is_ok()
}

const WHAT_BACKWARDS: &str = "read the session from its end";

const HEAD: &str = "SELECT head FROM sessions WHERE id = ?1";
const STEP: &str = "SELECT parent, seq, kind FROM entries WHERE id = ?1";
const BODY: &str = "SELECT body FROM entries WHERE id = ?1";

/// An entry that was reached on the way back.
pub struct VisitedEntry<'a> {
    pub seq: Seq,
    /// The kind, as returned by [`Entry::kind`].
    pub kind: &'a str,
    row: i64,
    conn: &'a Connection,
    bodies: &'a mut BodyReader,
}

impl VisitedEntry<'_> {
    /// Reads the whole entry. Returns `None` if it cannot be read.
    pub fn entry(&mut self) -> Option<Entry> {
        let mut body = self.conn.prepare_cached(BODY).ok()?;
        let read = body.query_row([self.row], |row| Ok(self.bodies.read(row.get_ref(0)?)));
        read.ok()?.ok()
    }
}

impl History<'_> {
    /// Calls `each` for at most `at_most` entries of a session, the newest first, until it returns
    /// `Break`. Returns the number of entries that were visited.
    ///
    /// # Errors
    /// The database cannot be read there.
    pub fn backwards(
        &self,
        session: &str,
        at_most: u64,
        mut each: impl FnMut(VisitedEntry<'_>) -> ControlFlow<()>,
    ) -> Result<u64, StoreError> {
        let mut head = self.conn.prepare_cached(HEAD).doing(WHAT_BACKWARDS)?;
        let head = head.query_row([session], |row| row.get(0)).optional();
        let mut next: Option<i64> = head.doing(WHAT_BACKWARDS)?;
        let mut step = self.conn.prepare_cached(STEP).doing(WHAT_BACKWARDS)?;
        let mut bodies = BodyReader::new()?;
        let mut met = 0;
        while let Some(id) = next.filter(|_| met < at_most) {
            let mut rows = step.query([id]).doing(WHAT_BACKWARDS)?;
            let Some(row) = rows.next().doing(WHAT_BACKWARDS)? else {
                break;
            };
            met += 1;
            let parent: Option<i64> = row.get(0).doing(WHAT_BACKWARDS)?;
            let kind = row.get_ref(2).doing(WHAT_BACKWARDS)?;
            let it = VisitedEntry {
                seq: count(row.get(1).doing(WHAT_BACKWARDS)?),
                kind: kind.as_str().unwrap_or_default(),
                row: id,
                conn: self.conn,
                bodies: &mut bodies,
            };
            if each(it).is_break() {
                break;
            }
            // A parent always has a smaller id, so a cycle in damaged rows ends here.
            next = parent.filter(|parent| *parent < id);
        }
        Ok(met)
    }
}

const WHAT_HEAD: &str = "read the session";

/// Length to which a plan step is cut, in characters, since every checkpoint stores it.
const PLAN_STEP_CHARS: usize = 120;

/// The head of a session, to which an append adds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Head {
    pub(super) session: String,
    pub(super) key: i64,
    /// The row of the last entry.
    pub(super) row: Option<i64>,
    /// Number of entries in the chain.
    pub(super) length: u64,
    /// The step of the plan that is in progress.
    pub(super) plan_step: Option<String>,
    /// The tip of the chain.
    pub(super) tip: ChainHash,
}

impl Head {
    /// Returns the ID of the session.
    pub fn session(&self) -> &str {
        &self.session
    }

    /// Returns the key and the length of the session.
    pub(crate) fn key_and_length(&self) -> (i64, u64) {
        (self.key, self.length)
    }

    /// Returns the place of the last entry.
    pub fn seq(&self) -> Seq {
        self.length.saturating_sub(1)
    }

    pub(super) fn before_first(session: String, key: i64) -> Head {
        Head {
            session,
            key,
            row: None,
            length: 0,
            plan_step: None,
            tip: ChainHash::of_nothing(),
        }
    }

    pub(super) fn note(&mut self, entry: &Entry) {
        if let Some(step) = planned(entry) {
            self.plan_step = step;
        }
    }
}

/// A session before its first own entry.
pub(crate) struct SessionStart<'a> {
    pub id: &'a str,
    pub workspace: &'a str,
    pub folder: &'a str,
    /// UTC, milliseconds since 1970.
    pub created_ms: i64,
    pub from: Option<ForkedFrom>,
    /// Where it comes from, if it is a copy of a session of another store.
    pub replica: Option<&'a str>,
}

/// The entry that a session continues.
pub(crate) struct ForkedFrom {
    /// The key of the session that has it.
    pub session: i64,
    pub row: i64,
    pub seq: Seq,
    pub tip: ChainHash,
}

/// Inserts the row of a session. SQLite checks the reference to its last entry at the end of the
/// transaction.
pub(super) fn insert_session(
    tx: &Connection,
    start: &SessionStart<'_>,
    what: &'static str,
) -> Result<Head, StoreError> {
    let mut head = Head::before_first(start.id.to_string(), 0);
    if let Some(from) = &start.from {
        head.row = Some(from.row);
        head.length = from.seq + 1;
        head.tip = from.tip;
    }
    let sql = "INSERT INTO sessions (id, workspace, folder, head, length, forked_from, forked_seq,
           created_ms, updated_ms, replica)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?8, ?9)";
    cached::execute(
        tx,
        sql,
        params![
            start.id,
            start.workspace,
            start.folder,
            head.row.unwrap_or(0),
            int(head.length),
            start.from.as_ref().map(|from| from.session),
            start.from.as_ref().map(|from| int(from.seq)),
            start.created_ms,
            start.replica,
        ],
    )
    .doing(what)?;
    head.key = tx.last_insert_rowid();
    Ok(head)
}

/// Reads the head without the values that only the entries have: the step of the plan, and the tip.
pub(super) fn read_head(conn: &Connection, session: &str) -> Result<Head, StoreError> {
    let sql = "SELECT key, head, length FROM sessions WHERE id = ?1";
    cached::row(conn, sql, [session], |row| {
        Ok(Head {
            session: session.to_string(),
            key: row.get(0)?,
            row: Some(row.get(1)?),
            length: count(row.get(2)?),
            plan_step: None,
            tip: ChainHash::of_nothing(),
        })
    })
    .optional()
    .doing(WHAT_HEAD)?
    .ok_or_else(|| StoreError::no_session(session))
}

/// Returns the current step of the plan, if the entry changed the plan.
pub(super) fn planned(entry: &Entry) -> Option<Option<String>> {
    match entry {
        Entry::Finished {
            fact: Some(Fact::Planned { plan }),
            ..
        } => Some(plan.current().map(|s| clip(&s.text, PLAN_STEP_CHARS))),
        _ => None,
    }
}
