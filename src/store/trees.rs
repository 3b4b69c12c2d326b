//! Trees: states of a workspace's files, each stored as the difference to the one before.
//!
//! A tree's name is the hash of its stored bytes and of its parent's name. So the name covers the
//! whole history of the tree, and is checked when the tree is read.

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use rusqlite::{Connection, OptionalExtension, Transaction, params};

use super::chain::Head;
use super::contents::{self, NewContent, hex};
use super::error::Doing;
use super::row::{count, int};
use super::{Snapshots, StoreError, cached};
use crate::core::entry::Entry;
use crate::core::tree::{CompactTree, Delta, Tree, TreeSize, diff, uses};

const WHAT: &str = "read what the files were";

/// Maximum size of a delta before compression, in bytes. No workspace with snapshots has one as
/// large.
const MAX_BODY: usize = 1 << 28;

/// Maximum number of deltas since the last tree that is stored in full.
const MAX_DELTAS: u32 = 512;

/// Size up to which a tree counts as this large. A tree in full does not say which files only became
/// covered, so a command that makes some hundred files in a small folder must fit in a delta.
const MIN_WHOLE_BYTES: u64 = 64 * 1024;

const LEVEL: i32 = 3;

/// Maximum size of a tree of a bundle before compression, in bytes.
const MAX_MOVED: usize = 1 << 26;

/// The root of a tree that came in a bundle begins with it. A folder of this machine has an absolute
/// path, so no scan, rewind or restore of one takes the tree for its own.
const OF_BUNDLE: &[u8] = b"bundle:";

/// The reason for a snapshot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cause {
    /// The first snapshot of a workspace.
    First,
    /// A call may have changed the files.
    Call,
    /// The files changed while no call ran.
    Outside,
    /// The target of a restore: the files are to become like this tree.
    Target,
    /// The files were restored.
    Restored,
}

impl Cause {
    fn name(self) -> &'static str {
        match self {
            Cause::First => "first",
            Cause::Call => "call",
            Cause::Outside => "outside",
            Cause::Target => "target",
            Cause::Restored => "restored",
        }
    }
}

/// A stored tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KnownTree {
    pub link: TreeLink,
    pub tree: Tree,
}

/// The position of a stored tree in its series of deltas.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TreeLink {
    pub name: String,
    /// Size of all deltas since the last tree that is stored in full, in bytes, and their number.
    since: u64,
    depth: u32,
}

/// A tree to be recorded, with the entry that names it.
#[derive(Debug, Clone)]
pub struct NewTree {
    name: [u8; 16],
    root: PathBuf,
    /// The name of the parent, unless this tree is stored in full.
    parent: Option<Vec<u8>>,
    cause: Cause,
    /// The commands that ran during the snapshot.
    pub live: Option<String>,
    files: u64,
    bytes: u64,
    since: u64,
    depth: u32,
    body: Vec<u8>,
    /// Contents that are not stored yet.
    contents: Vec<NewContent>,
}

impl NewTree {
    /// Makes the tree to which a delta leads from `parent`. `tree` is the result in full.
    pub fn new(
        root: &Path,
        parent: Option<&KnownTree>,
        delta: &Delta,
        tree: &Tree,
        cause: Cause,
        contents: Vec<NewContent>,
    ) -> Result<NewTree, StoreError> {
        let size = TreeSize {
            files: tree.0.len() as u64,
            bytes: tree.bytes(),
        };
        let whole = || tree.whole().encode();
        let parent = parent.map(|parent| &parent.link);
        NewTree::of(root, parent, delta, size, &whole, cause, contents)
    }

    /// Does the same for a tree in compact form. `before` is the tree at the position `parent`, or
    /// empty if there is none.
    pub fn after(
        root: &Path,
        parent: Option<&TreeLink>,
        before: &CompactTree,
        delta: &Delta,
        cause: Cause,
        contents: Vec<NewContent>,
    ) -> Result<NewTree, StoreError> {
        let size = before.size_after(delta);
        let whole = || before.encode_whole(delta);
        NewTree::of(root, parent, delta, size, &whole, cause, contents)
    }

    fn of(
        root: &Path,
        parent: Option<&TreeLink>,
        delta: &Delta,
        size: TreeSize,
        whole: &dyn Fn() -> Vec<u8>,
        cause: Cause,
        contents: Vec<NewContent>,
    ) -> Result<NewTree, StoreError> {
        let mut encoded = delta.encode();
        let parent = parent.filter(|parent| !parent.is_due(encoded.len(), size));
        if parent.is_none() {
            encoded = whole();
        }
        if encoded.len() > MAX_BODY {
            return Err(StoreError::damaged("a tree is too large to be kept"));
        }
        let body = zstd::bulk::compress(&encoded, LEVEL)
            .map_err(|e| super::error::io("keep what the files were", e))?;
        let (since, depth) = match parent {
            Some(parent) => (parent.since + encoded.len() as u64, parent.depth + 1),
            None => (0, 0),
        };
        Ok(NewTree {
            name: name_of(
                root.as_os_str().as_bytes(),
                parent.map(|parent| parent.name.as_str()),
                &encoded,
            ),
            root: root.to_path_buf(),
            parent: parent.and_then(|parent| parsed(&parent.name)),
            cause,
            live: None,
            files: size.files,
            bytes: size.bytes,
            since,
            depth,
            body,
            contents,
        })
    }

    /// Returns the name in the form that entries use.
    pub fn name(&self) -> String {
        hex(&self.name)
    }

    /// Returns its position after it was recorded.
    pub fn link(&self) -> TreeLink {
        TreeLink {
            name: self.name(),
            since: self.since,
            depth: self.depth,
        }
    }
}

impl TreeLink {
    /// Returns whether the next tree is stored in full: the deltas since the last full one are half
    /// as large, or too many.
    fn is_due(&self, more: usize, next: TreeSize) -> bool {
        // An estimate per path: a hash, and its name.
        let whole = (next.files * 64).max(MIN_WHOLE_BYTES);
        self.depth + 1 >= MAX_DELTAS || (self.since + more as u64) * 2 > whole
    }
}

/// Computes the name of a tree. A tree that is stored in full has no parent. The root is part of
/// the name: folders with equal files have separate trees.
fn name_of(root: &[u8], parent: Option<&str>, encoded: &[u8]) -> [u8; 16] {
    let mut hasher = blake3::Hasher::new();
    hasher.update(root).update(&[0]);
    hasher.update(parent.unwrap_or("whole").as_bytes());
    hasher.update(encoded);
    let mut name = [0; 16];
    name.copy_from_slice(&hasher.finalize().as_bytes()[..16]);
    name
}

/// Returns the root that a tree of a bundle had on its machine. `None`: it is a tree of a folder here.
pub fn root_in_bundle(root: &Path) -> Option<PathBuf> {
    let there = root.as_os_str().as_bytes().strip_prefix(OF_BUNDLE)?;
    Some(PathBuf::from(OsString::from_vec(there.to_vec())))
}

/// Parses a name of an entry into bytes.
fn parsed(name: &str) -> Option<Vec<u8>> {
    let digits = |at: usize| u8::from_str_radix(name.get(at..at + 2)?, 16).ok();
    match name.len() {
        32 => (0..32).step_by(2).map(digits).collect(),
        _ => None,
    }
}

impl Snapshots<'_> {
    /// Reads the tree with this name. Returns `None` if it is not stored, or was removed.
    ///
    /// # Errors
    /// `Damaged` when it does not match its name.
    pub fn tree(&self, name: &str) -> Result<Option<KnownTree>, StoreError> {
        let Some(wanted) = parsed(name) else {
            return Ok(None);
        };
        let id = id_named(self.conn, &wanted)?;
        id.map(|id| read(self.conn, id)).transpose()
    }

    /// Returns the root of a tree's workspace. For a tree that came in a bundle it is not absolute,
    /// see [`root_in_bundle`].
    pub fn tree_root(&self, name: &str) -> Result<Option<PathBuf>, StoreError> {
        let Some(wanted) = parsed(name) else {
            return Ok(None);
        };
        let sql = "SELECT p.root FROM trees t JOIN places p ON p.key = t.place WHERE t.name = ?1";
        let root: Option<Vec<u8>> = cached::row(self.conn, sql, [wanted], |row| row.get(0))
            .optional()
            .doing(WHAT)?;
        Ok(root.map(|root| PathBuf::from(OsString::from_vec(root))))
    }

    /// Returns whether a tree came in a bundle.
    pub fn is_of_bundle(&self, name: &str) -> Result<bool, StoreError> {
        let root = self.tree_root(name)?;
        Ok(root.is_some_and(|root| root_in_bundle(&root).is_some()))
    }

    /// Returns the stored delta of the tree with this name, if it is a delta to the tree `parent`.
    ///
    /// # Errors
    /// As [`Snapshots::tree`].
    pub fn delta_from(&self, name: &str, parent: &str) -> Result<Option<Delta>, StoreError> {
        let Some(wanted) = parsed(name) else {
            return Ok(None);
        };
        let id = id_named(self.conn, &wanted)?;
        let Some(row) = id.map(|id| row(self.conn, id)).transpose()? else {
            return Ok(None);
        };
        let Some(of) = row.parent else {
            return Ok(None);
        };
        match hex(&self::row(self.conn, of)?.name) == parent {
            true => delta(&row, Some(parent)).map(Some),
            false => Ok(None),
        }
    }

    /// Returns the difference from a stored tree to one that is not stored yet. `None`: the first one
    /// is not stored any more.
    ///
    /// # Errors
    /// As [`Snapshots::tree`].
    pub fn delta_to(&self, before: &str, new: &NewTree) -> Result<Option<Delta>, StoreError> {
        let parent = new.parent.as_deref().map(hex);
        let encoded = zstd::bulk::decompress(&new.body, MAX_BODY);
        let damaged = |why: String| StoreError::damaged(why);
        let encoded = encoded.map_err(|e| damaged(e.to_string()))?;
        let delta = Delta::decode(&encoded).map_err(damaged)?;
        if parent.as_deref() == Some(before) {
            return Ok(Some(delta));
        }
        let mut tree = Tree::default();
        if let Some(parent) = &parent {
            match self.tree(parent)? {
                Some(known) => tree = known.tree,
                None => return Ok(None),
            }
        }
        tree.apply(&delta);
        Ok(self.tree(before)?.map(|known| diff(&known.tree, &tree)))
    }

    /// Returns the newest tree of a workspace, from any session.
    pub fn last_tree(&self, root: &Path) -> Result<Option<KnownTree>, StoreError> {
        let sql =
            "SELECT max(t.id) FROM trees t JOIN places p ON p.key = t.place WHERE p.root = ?1";
        let id: Option<i64> = cached::row(self.conn, sql, [root.as_os_str().as_bytes()], |row| {
            row.get(0)
        })
        .doing(WHAT)?;
        id.map(|id| read(self.conn, id)).transpose()
    }

    /// Returns the time of the newest tree of a workspace: UTC, milliseconds since 1970.
    pub fn last_tree_ms(&self, root: &Path) -> Result<Option<i64>, StoreError> {
        let sql = "SELECT t.at_ms FROM trees t JOIN places p ON p.key = t.place
                 WHERE p.root = ?1 ORDER BY t.id DESC LIMIT 1";
        cached::row(self.conn, sql, [root.as_os_str().as_bytes()], |row| {
            row.get(0)
        })
        .optional()
        .doing(WHAT)
    }

    /// Returns the number of paths in the newest tree of a workspace, and the size of their files
    /// in bytes.
    pub fn last_tree_size(&self, root: &Path) -> Result<Option<(u64, u64)>, StoreError> {
        let sql = "SELECT t.files, t.bytes FROM trees t JOIN places p ON p.key = t.place
                 WHERE p.root = ?1 ORDER BY t.id DESC LIMIT 1";
        cached::row(self.conn, sql, [root.as_os_str().as_bytes()], |row| {
            Ok((count(row.get(0)?), count(row.get(1)?)))
        })
        .optional()
        .doing(WHAT)
    }
}

pub(super) struct TreeRow {
    name: Vec<u8>,
    root: Vec<u8>,
    /// `None`: the tree is stored in full.
    pub(super) parent: Option<i64>,
    since: u64,
    depth: u32,
    body: Vec<u8>,
}

pub(super) fn row(conn: &Connection, id: i64) -> Result<TreeRow, StoreError> {
    let sql = "SELECT t.name, p.root, t.parent, t.since, t.depth, t.body
         FROM trees t JOIN places p ON p.key = t.place WHERE t.id = ?1";
    cached::row(conn, sql, [id], |row| {
        Ok(TreeRow {
            name: row.get(0)?,
            root: row.get(1)?,
            parent: row.get(2)?,
            since: count(row.get(3)?),
            depth: row.get(4)?,
            body: row.get(5)?,
        })
    })
    .doing(WHAT)
}

/// Reads a tree: the last full one before it, and the deltas after that.
pub(super) fn read(conn: &Connection, id: i64) -> Result<KnownTree, StoreError> {
    let mut rows = vec![row(conn, id)?];
    while let Some(parent) = rows.last().and_then(|row| row.parent) {
        if rows.len() > MAX_DELTAS as usize {
            return Err(StoreError::damaged("a tree has no beginning"));
        }
        rows.push(row(conn, parent)?);
    }
    let mut tree = Tree::default();
    let mut parent = None;
    for row in rows.iter().rev() {
        tree.apply(&delta(row, parent.as_deref())?);
        parent = Some(hex(&row.name));
    }
    let last = &rows[0];
    let link = TreeLink {
        name: hex(&last.name),
        since: last.since,
        depth: last.depth,
    };
    Ok(KnownTree { link, tree })
}

/// Returns the stored delta of a tree, verified against its name.
pub(super) fn delta(row: &TreeRow, parent: Option<&str>) -> Result<Delta, StoreError> {
    let name = hex(&row.name);
    let damaged = |why: &str| StoreError::damaged(format!("the tree {name} is damaged: {why}"));
    let encoded = zstd::bulk::decompress(&row.body, MAX_BODY);
    let encoded = encoded.map_err(|_| damaged("it cannot be unpacked"))?;
    let root = row.root.strip_prefix(OF_BUNDLE).unwrap_or(&row.root);
    if name_of(root, parent, &encoded) != *row.name {
        return Err(damaged("its name is that of another"));
    }
    Delta::decode(&encoded).map_err(|why| damaged(&why))
}

pub(super) fn name(row: &TreeRow) -> String {
    hex(&row.name)
}

/// Inserts the tree with its contents, in the transaction of the entry that names it.
pub(super) fn insert(tx: &Transaction<'_>, at_ms: i64, tree: &NewTree) -> rusqlite::Result<()> {
    for content in &tree.contents {
        contents::insert(tx, content)?;
    }
    let root = tree.root.as_os_str().as_bytes();
    tx.prepare_cached("INSERT INTO places (root) VALUES (?1) ON CONFLICT (root) DO NOTHING")?
        .execute([root])?;
    let place: i64 = tx
        .prepare_cached("SELECT key FROM places WHERE root = ?1")?
        .query_row([root], |row| row.get(0))?;
    let parent: Option<i64> = match &tree.parent {
        None => None,
        Some(parent) => Some(
            tx.prepare_cached("SELECT id FROM trees WHERE name = ?1")?
                .query_row([parent], |row| row.get(0))?,
        ),
    };
    tx.prepare_cached(
        "INSERT INTO trees (name, place, parent, at_ms, cause, live, files, bytes, since, depth, body)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)
         -- A tree of a bundle with this name becomes one of the folder here.
         ON CONFLICT (name) DO UPDATE SET place = excluded.place, at_ms = excluded.at_ms,
           cause = excluded.cause, live = excluded.live, files = excluded.files, bytes = excluded.bytes
         WHERE (SELECT substr(root, 1, 7) FROM places WHERE key = trees.place) = CAST('bundle:' AS BLOB)",
    )?
    .execute(params![
        tree.name.as_slice(),
        place,
        parent,
        at_ms,
        tree.cause.name(),
        tree.live,
        int(tree.files),
        int(tree.bytes),
        int(tree.since),
        tree.depth,
        tree.body
    ])?;
    Ok(())
}

/// A tree as a bundle has it.
pub struct MovedTree {
    pub name: String,
    /// The root on the machine where it was made.
    pub root: Vec<u8>,
    /// The name of the tree that it is a delta to. `None`: it has all paths.
    pub parent: Option<String>,
    /// The delta, as it is encoded.
    pub encoded: Vec<u8>,
}

impl MovedTree {
    /// Returns the delta. `most`: its size in memory, bytes.
    ///
    /// # Errors
    /// Returns a message if the tree does not match its name or is too large.
    pub fn delta(&self, most: usize) -> Result<Delta, String> {
        if self.encoded.len() > MAX_MOVED {
            return Err("the tree is too large".to_string());
        }
        // A name has one spelling: the store compares its bytes.
        let bytes = |name: &str| parsed(name).filter(|bytes| hex(bytes) == name);
        let has_parent = self.parent.as_deref().is_none_or(|p| bytes(p).is_some());
        let is_named = bytes(&self.name).is_some_and(|name| {
            name_of(&self.root, self.parent.as_deref(), &self.encoded) == *name
        });
        // A NUL ends the root in the hash.
        let is_root = self.root.starts_with(b"/") && !self.root.contains(&0);
        match is_named && has_parent && is_root {
            true => Delta::decode_within(&self.encoded, most),
            false => Err("the tree does not match its name".to_string()),
        }
    }
}

/// Reads a tree for a bundle.
pub(super) fn moved(conn: &Connection, id: i64) -> Result<MovedTree, StoreError> {
    let row = row(conn, id)?;
    let parent = match row.parent {
        Some(parent) => Some(name(&self::row(conn, parent)?)),
        None => None,
    };
    delta(&row, parent.as_deref())?;
    let encoded = zstd::bulk::decompress(&row.body, MAX_BODY)
        .map_err(|_| StoreError::damaged(format!("the tree {} cannot be unpacked", name(&row))))?;
    Ok(MovedTree {
        name: name(&row),
        root: row
            .root
            .strip_prefix(OF_BUNDLE)
            .unwrap_or(&row.root)
            .to_vec(),
        parent,
        encoded,
    })
}

/// Inserts a tree of a bundle, which was checked, unless it is stored.
///
/// # Errors
/// `Damaged`: the tree that it is a delta to is not stored.
pub(super) fn insert_moved(
    tx: &Transaction<'_>,
    at_ms: i64,
    tree: &MovedTree,
) -> Result<(), StoreError> {
    let Some(name) = parsed(&tree.name).filter(|_| tree.encoded.len() <= MAX_MOVED) else {
        return Ok(());
    };
    if id_named(tx, &name)?.is_some() {
        return Ok(());
    }
    let damaged = |why| StoreError::damaged(format!("the tree {} {why}", tree.name));
    let (mut since, mut depth, mut parent) = (0, 0, None);
    if let Some(of) = &tree.parent {
        let id = id_of(tx, of)?.ok_or_else(|| damaged("has no parent"))?;
        let row = row(tx, id)?;
        since = row.since + tree.encoded.len() as u64;
        depth = row.depth + 1;
        parent = Some(id);
    }
    if depth >= MAX_DELTAS {
        return Err(damaged("has no beginning"));
    }
    let body = zstd::bulk::compress(&tree.encoded, LEVEL)
        .map_err(|e| super::error::io("import the files", e))?;
    let root = [OF_BUNDLE, &tree.root].concat();
    let sql = "INSERT INTO places (root) VALUES (?1) ON CONFLICT (root) DO NOTHING";
    cached::execute(tx, sql, [&root]).doing(WHAT)?;
    let sql =
        "INSERT INTO trees (name, place, parent, at_ms, cause, files, bytes, since, depth, body)
         SELECT ?1, key, ?3, ?4, ?5, 0, 0, ?6, ?7, ?8 FROM places WHERE root = ?2";
    cached::execute(
        tx,
        sql,
        params![
            name,
            root,
            parent,
            at_ms,
            Cause::Outside.name(),
            int(since),
            depth,
            body
        ],
    )
    .doing(WHAT)?;
    Ok(())
}

/// Returns the row ID of the tree with this name.
pub(super) fn id_of(conn: &Connection, name: &str) -> Result<Option<i64>, StoreError> {
    match parsed(name) {
        Some(name) => id_named(conn, &name),
        None => Ok(None),
    }
}

fn id_named(conn: &Connection, name: &[u8]) -> Result<Option<i64>, StoreError> {
    let sql = "SELECT id FROM trees WHERE name = ?1";
    cached::row(conn, sql, [name], |row| row.get(0))
        .optional()
        .doing(WHAT)
}

/// Records that the session uses the trees that an entry names, if they are stored.
pub(super) fn note_use(tx: &Transaction<'_>, head: &Head, entry: &Entry) -> rusqlite::Result<()> {
    for name in uses(entry).filter_map(parsed) {
        tx.prepare_cached(
            "INSERT INTO tree_uses (session, tree) SELECT ?1, id FROM trees WHERE name = ?2
             ON CONFLICT DO NOTHING",
        )?
        .execute(params![head.key, name])?;
    }
    Ok(())
}
