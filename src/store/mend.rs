//! Parts of the database that follow from others, or hold little, are made anew where they are
//! damaged: indexes, the search index, small tables with what can still be read of them. A page
//! that holds no entry keeps nobody from a session.
//!
//! A table or an index is made under another name, and then takes the root page of the damaged
//! one. SQLite cannot remove what is damaged, so its pages stay where they are, out of use.
//!
//! Invariant: `entries`, `sessions`, `trees`, `contents` and `packs` are never touched, but for their
//! indexes.
//! Invariant: each part is made anew in one transaction, or stays as it is.

use rusqlite::types::Value;
use rusqlite::{Connection, OptionalExtension, Transaction, TransactionBehavior, params_from_iter};

use super::error::{Doing, classify};
use super::follow::highest;
use super::lost_rows::{highest_number, note_lost};
use super::memories;
use super::trees;
use super::{Store, StoreError, now_ms};
use crate::core::text::count;

const WHAT: &str = "make anew what is damaged in the database";

/// Small tables, and what a person knows them by.
const TABLES: [(&str, &str); 12] = [
    // First: in it is noted what was lost of others.
    (
        "meta",
        "what is known of the store and of sessions that lack entries",
    ),
    // A table with AUTOINCREMENT needs it.
    (
        "sqlite_sequence",
        "the numbers of queued messages and signals",
    ),
    ("drafts", "words that were not sent yet"),
    ("inbox", "queued messages"),
    ("signals", "signals of other processes"),
    ("model_limits", "what was learnt of models"),
    ("catalogue", "what is known of the servers' tools"),
    ("conversation_context", "the last summaries"),
    ("indexed", "the search index"),
    ("memories", "memories"),
    ("places", "the folders whose files are kept"),
    ("tree_uses", "which sessions use what is kept of files"),
];

/// Tables whose rows get numbers that are never used twice.
const NUMBERED: [&str; 2] = ["inbox", "signals"];

/// Large, so it is not copied: made anew only where none of its rows can be read.
const LARGE: (&str, &str) = ("blobs", "outputs too large for an entry, and images");

/// Full-text indexes.
const SEARCHES: [(&str, &str); 2] = [
    ("entry_index", "the search index"),
    ("memory_index", "the search index of memories"),
];

/// Tables whose indexes follow from them.
const WITH_INDEXES: [&str; 6] = ["sessions", "blobs", "places", "packs", "contents", "trees"];

/// What is made under this name takes the place of the damaged.
const ANEW: &str = "anew_";

/// One look at what every session needs: what is small is read, of the rest one way to a leaf.
const LOOK: &str = "SELECT (SELECT count(*) FROM drafts), (SELECT count(*) FROM inbox),
  (SELECT count(*) FROM signals), (SELECT count(*) FROM sqlite_sequence), (SELECT count(*) FROM model_limits),
  (SELECT count(*) FROM meta), (SELECT count(*) FROM indexed),
  EXISTS (SELECT 1 FROM sessions WHERE id = ''), EXISTS (SELECT 1 FROM sessions WHERE workspace = ''),
  EXISTS (SELECT 1 FROM blobs WHERE hash = x''), (SELECT max(id) FROM blobs)";

impl Store {
    /// What was made anew since the store was opened, for a person. `None`: nothing was damaged.
    pub fn made_anew(&self) -> Option<String> {
        let anew = self.anew.borrow();
        let back = match self.put_back.get() {
            0 => String::new(),
            n => format!(
                "; {} (queued messages, signals, unsent words) came back from the journal",
                count(n, "row")
            ),
        };
        (!anew.is_empty()).then(|| {
            format!(
                "a part of the database was damaged and was made anew: {}{back}; what else stood in \
                 the damaged part of it may be lost, entries are not in it",
                anew.join(", ")
            )
        })
    }

    /// At a start: what is small and damaged is found before a session needs it.
    pub(super) fn look_for_damage(&self) -> Result<(), StoreError> {
        let look = || self.conn.query_row(LOOK, [], |_| Ok(())).doing(WHAT);
        match self.or_mend(look) {
            // What is damaged is no part of these: whoever reads it says so.
            Err(StoreError::Damaged { .. }) => Ok(()),
            looked => looked,
        }
    }

    /// The same once more, if what it met was damaged and could be made anew.
    pub(super) fn or_mend<T>(
        &self,
        act: impl Fn() -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        match act() {
            Err(error) if self.mends(&error) => act(),
            done => done,
        }
        .map_err(|error| self.told(error))
    }

    /// The same for what changes the store.
    pub(super) fn mending<T>(
        &mut self,
        mut act: impl FnMut(&mut Store) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        match act(self) {
            Err(error) if self.mends(&error) => act(self),
            done => done,
        }
        .map_err(|error| self.told(error))
    }

    /// Whether anything could be made anew after this error.
    fn mends(&self, error: &StoreError) -> bool {
        if !matches!(error, StoreError::Damaged { .. }) || !self.can_mend {
            return false;
        }
        match mend(&self.conn) {
            Ok(anew) => {
                tracing::warn!(%error, ?anew, "made anew");
                let mut known = self.anew.borrow_mut();
                let is_any = !anew.is_empty();
                for part in anew {
                    if !known.contains(&part) {
                        known.push(part);
                    }
                }
                if let Some(copies) = &self.copies
                    && let Err(error) = self.put_back_lost(copies)
                {
                    tracing::warn!(%error, "what waited is put back later");
                }
                is_any
            }
            Err(why) => {
                tracing::warn!(%error, %why, "nothing could be made anew");
                false
            }
        }
    }
}

/// Makes anew all that is damaged and can be; gives what that was.
fn mend(conn: &Connection) -> Result<Vec<&'static str>, StoreError> {
    let schema = schema_version(conn)?;
    let damaged = Damaged::look(conn)?;
    if damaged.is_empty() {
        return Ok(Vec::new());
    }
    let enforces: bool = conn
        .pragma_query_value(None, "foreign_keys", |row| row.get(0))
        .doing(WHAT)?;
    conn.pragma_update(None, "foreign_keys", false)
        .and_then(|()| conn.pragma_update(None, "writable_schema", true))
        .doing(WHAT)?;
    let mended = damaged.mend(conn, schema);
    // The schema is read again, whether it was changed or set back.
    let _ = conn.pragma_update(None, "writable_schema", "RESET");
    conn.pragma_update(None, "foreign_keys", enforces)
        .doing(WHAT)?;
    mended
}

fn schema_version(conn: &Connection) -> Result<i64, StoreError> {
    conn.pragma_query_value(None, "schema_version", |row| row.get(0))
        .doing(WHAT)
}

/// An index of a table, as the schema has it.
struct Index {
    name: String,
    table: &'static str,
    /// `None`: it is that of a constraint of the table.
    sql: Option<String>,
}

#[derive(Default)]
struct Damaged {
    tables: Vec<Table>,
    searches: Vec<(&'static str, &'static str)>,
    indexes: Vec<Index>,
}

impl Damaged {
    fn is_empty(&self) -> bool {
        self.tables.is_empty() && self.searches.is_empty() && self.indexes.is_empty()
    }

    fn look(conn: &Connection) -> Result<Damaged, StoreError> {
        let mut damaged = Damaged::default();
        for (table, words) in TABLES {
            if !is_sound(conn, table)? {
                damaged
                    .tables
                    .push(Table::read(conn, table, words).doing(WHAT)?);
            }
        }
        if !has_readable_row(conn, LARGE.0)? {
            damaged.tables.push(Table {
                name: LARGE.0,
                words: LARGE.1,
                rows: Vec::new(),
            });
        }
        for (search, words) in SEARCHES {
            for part in ["data", "idx", "docsize", "config"] {
                if !is_sound(conn, &format!("{search}_{part}"))? {
                    damaged.searches.push((search, words));
                    break;
                }
            }
        }
        // Its rows are known there by their numbers.
        if damaged.tables.iter().any(|table| table.name == "memories") {
            damaged.searches.retain(|search| *search != SEARCHES[1]);
            damaged.searches.push(SEARCHES[1]);
        }
        for table in WITH_INDEXES {
            if !is_sound(conn, table)? && can_be_read(conn, table)? {
                damaged.indexes.extend(indexes(conn, table)?);
            }
        }
        Ok(damaged)
    }

    /// Nothing is done when another process changed the schema since: it was faster.
    fn mend(&self, conn: &Connection, schema: i64) -> Result<Vec<&'static str>, StoreError> {
        let mut anew = Vec::new();
        let mut is_first = true;
        let mut each =
            |words: &'static str, make: &dyn Fn(&Transaction<'_>) -> rusqlite::Result<()>| {
                let tx =
                    Transaction::new_unchecked(conn, TransactionBehavior::Immediate).doing(WHAT)?;
                if std::mem::take(&mut is_first) && schema_version(&tx)? != schema {
                    return Ok(());
                }
                make(&tx).doing(WHAT)?;
                tx.commit().doing(WHAT)?;
                anew.push(words);
                Ok::<(), StoreError>(())
            };
        for table in &self.tables {
            each(table.words, &|tx| table.make(tx))?;
        }
        for (search, words) in &self.searches {
            each(words, &|tx| make_search(tx, search))?;
        }
        for index in &self.indexes {
            each("indexes", &|tx| make_index(tx, index))?;
        }
        anew.dedup();
        Ok(anew)
    }
}

/// Whether the pages of a table and of its indexes are in order.
fn is_sound(conn: &Connection, table: &str) -> Result<bool, StoreError> {
    let found = conn.query_row(&format!("PRAGMA quick_check({table})"), [], |row| {
        row.get::<_, String>(0)
    });
    match found.map_err(|e| classify(WHAT, e)) {
        Ok(found) => Ok(found == "ok"),
        Err(StoreError::Damaged { .. }) => Ok(false),
        Err(error) => Err(error),
    }
}

/// False: there may be rows, and none can be read.
fn has_readable_row(conn: &Connection, table: &str) -> Result<bool, StoreError> {
    for order in ["ASC", "DESC"] {
        let sql = format!("SELECT 1 FROM {table} NOT INDEXED ORDER BY rowid {order} LIMIT 1");
        let read = conn.query_row(&sql, [], |_| Ok(())).optional();
        match read.map_err(|e| classify(WHAT, e)) {
            Ok(_) => return Ok(true),
            Err(StoreError::Damaged { .. }) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(false)
}

/// No place gets the number of one that is lost: trees name it. A row with this number and no path
/// keeps it.
fn last_place(conn: &Connection) -> rusqlite::Result<i64> {
    let sql = "SELECT coalesce(max(place), 0) + 1 FROM trees NOT INDEXED";
    conn.query_row(sql, [], |row| row.get(0))
}

/// Whether all rows can be read without an index.
fn can_be_read(conn: &Connection, table: &str) -> Result<bool, StoreError> {
    let read = conn.query_row(
        &format!("SELECT count(*) FROM {table} NOT INDEXED WHERE rowid > 0"),
        [],
        |_| Ok(()),
    );
    match read.map_err(|e| classify(WHAT, e)) {
        Ok(()) => Ok(true),
        Err(StoreError::Damaged { .. }) => Ok(false),
        Err(error) => Err(error),
    }
}

fn indexes(conn: &Connection, table: &'static str) -> Result<Vec<Index>, StoreError> {
    conn.prepare("SELECT name, sql FROM sqlite_schema WHERE type = 'index' AND tbl_name = ?1")
        .and_then(|mut s| {
            s.query_map([table], |row| {
                Ok(Index {
                    name: row.get(0)?,
                    table,
                    sql: row.get(1)?,
                })
            })?
            .collect()
        })
        .doing(WHAT)
}

/// A damaged table, and what is to stand in the one that takes its place.
struct Table {
    name: &'static str,
    words: &'static str,
    rows: Vec<Values>,
}

impl Table {
    fn read(conn: &Connection, name: &'static str, words: &'static str) -> rusqlite::Result<Table> {
        let mut rows = rows_of(conn, name)?;
        match name {
            // None that was given before is given again.
            "sqlite_sequence" => {
                let mut highest = Vec::with_capacity(NUMBERED.len());
                for table in NUMBERED {
                    let waiting = rows_of(conn, table)?;
                    highest.push(highest_number(table, &rows, &waiting, now_ms()).into());
                }
                rows = highest;
            }
            "meta" => rows.extend(known_of_the_store(conn)),
            "indexed" if rows.is_empty() => rows.push(vec![0.into()]),
            "memories" => rows.extend(memories::in_entries(conn)?),
            "places" => rows.push(vec![last_place(conn)?.into(), Vec::new().into()]),
            "tree_uses" => rows.extend(trees::in_entries(conn)?),
            _ => {}
        }
        Ok(Table { name, words, rows })
    }

    /// Made under another name; then its root takes the place of the damaged one.
    fn make(&self, tx: &Transaction<'_>) -> rusqlite::Result<()> {
        let name = self.name;
        let anew = format!("{ANEW}{name}");
        let sql: String = tx.query_row(
            "SELECT sql FROM sqlite_schema WHERE type = 'table' AND name = ?1",
            [name],
            |row| row.get(0),
        )?;
        // A name that begins with `sqlite_` is SQLite's own.
        tx.execute_batch(&sql.replacen(name, &anew, 1))?;
        for row in &self.rows {
            let places = vec!["?"; row.len()].join(", ");
            let sql = format!("INSERT OR IGNORE INTO {anew} VALUES ({places})");
            // One that does not fit is damaged too.
            let _ = tx.prepare_cached(&sql)?.execute(params_from_iter(row));
        }
        if NUMBERED.contains(&name) {
            tx.execute("DELETE FROM sqlite_sequence WHERE name = ?1", [&anew])?;
        }
        take_root(tx, &anew, name)?;
        for n in 1.. {
            let [from, to] = [&anew, name].map(|of| format!("sqlite_autoindex_{of}_{n}"));
            if !take_root(tx, &from, &to)? {
                break;
            }
        }
        forget(tx, &anew)?;
        note_lost(tx, name)
    }
}

/// A row, by its columns.
type Values = Vec<Value>;

/// The rows that can be read, from both ends up to what is damaged: some may be there twice. Before
/// the writing begins: SQLite writes nothing more in a transaction that met a damaged page.
fn rows_of(conn: &Connection, table: &str) -> rusqlite::Result<Vec<Values>> {
    let keys: String = conn.query_row(
        "SELECT coalesce(group_concat(name, ' DESC, '), 'rowid') FROM (
           SELECT name FROM pragma_table_info(?1) WHERE pk > 0 ORDER BY pk)",
        [table],
        |row| row.get(0),
    )?;
    let mut read = Vec::new();
    for order in [String::new(), format!("ORDER BY {keys} DESC")] {
        let mut rows = conn.prepare(&format!("SELECT * FROM {table} {order}"))?;
        let columns = rows.column_count();
        let mut rows = rows.query([])?;
        let mut is_whole = false;
        // What is behind the damage is met from the other end.
        while let Ok(row) = rows.next() {
            let Some(row) = row else {
                is_whole = true;
                break;
            };
            let values: rusqlite::Result<Values> =
                (0..columns).map(|column| row.get(column)).collect();
            read.extend(values);
        }
        if is_whole {
            break;
        }
    }
    Ok(read)
}

/// What a store has from its beginning: without the id of before it is looked at as another one,
/// and all rows are looked at for their tips once more.
fn known_of_the_store(conn: &Connection) -> [Values; 3] {
    let value = |name: &str, value: Value| vec![name.to_string().into(), value];
    [
        value("store", super::new_id().into()),
        value("tips_upto", 0.into()),
        value("tips_end", highest(conn).unwrap_or(0).into()),
    ]
}

fn make_search(tx: &Transaction<'_>, search: &str) -> rusqlite::Result<()> {
    let sql: String = tx.query_row(
        "SELECT sql FROM sqlite_schema WHERE type = 'table' AND name = ?1",
        [search],
        |row| row.get(0),
    )?;
    tx.execute(
        "DELETE FROM sqlite_schema WHERE name = ?1 OR name GLOB ?1 || '_*'",
        [search],
    )?;
    tx.pragma_update(None, "writable_schema", "RESET")?;
    tx.execute_batch(&sql)?;
    tx.pragma_update(None, "writable_schema", true)?;
    match search {
        "entry_index" => super::index::set_up(tx),
        _ => tx.execute_batch(&format!(
            "INSERT INTO {search} ({search}) VALUES ('rebuild')"
        )),
    }
}

fn make_index(tx: &Transaction<'_>, index: &Index) -> rusqlite::Result<()> {
    let anew = format!("{ANEW}{}", index.name.trim_start_matches("sqlite_"));
    let sql = match &index.sql {
        Some(sql) => sql.replacen(&index.name, &anew, 1),
        None => {
            let columns: String = tx.query_row(
                "SELECT group_concat(name, ', ') FROM (
                   SELECT name FROM pragma_index_info(?1) ORDER BY seqno)",
                [&index.name],
                |row| row.get(0),
            )?;
            format!("CREATE UNIQUE INDEX {anew} ON {} ({columns})", index.table)
        }
    };
    tx.execute_batch(&sql)?;
    take_root(tx, &anew, &index.name)?;
    forget(tx, &anew)
}

/// False when one of them is not there.
fn take_root(tx: &Transaction<'_>, from: &str, to: &str) -> rusqlite::Result<bool> {
    let root = "(SELECT rootpage FROM sqlite_schema WHERE name = ?1)";
    let sql = format!("UPDATE sqlite_schema SET rootpage = {root} WHERE name = ?2 AND {root} > 0");
    Ok(tx.execute(&sql, [from, to])? == 1)
}

/// What has given its root away. The schema is read again.
fn forget(tx: &Transaction<'_>, anew: &str) -> rusqlite::Result<()> {
    tx.execute(
        "DELETE FROM sqlite_schema WHERE name = ?1 OR tbl_name = ?1",
        [anew],
    )?;
    tx.pragma_update(None, "writable_schema", "RESET")?;
    tx.pragma_update(None, "writable_schema", true)
}
