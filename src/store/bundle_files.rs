//! Files of sessions that move between stores: the trees and contents that an export reads and an
//! import records.
//!
//! Invariant: an import gives trees only to copies.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use rusqlite::params;

use super::bundle::ExportView;
use super::contents::{self, ContentLocation, Gathered, NewContent};
use super::error::Doing;
use super::gc::named_contents;
use super::packs::PackWriter;
use super::trees::{self, MovedTree};
use super::{Store, StoreError, cached};
use crate::core::file_name::path_text;
use crate::core::tree::{ContentHash, Item};

const WHAT: &str = "import the files";

/// Stored size of the contents that are collected before they are recorded, bytes.
const MAX_AT_ONCE: u64 = 8 << 20;
const MAX_COUNT_AT_ONCE: usize = 1_000;
const MAX_TREES_AT_ONCE: usize = 100;

/// The files of the sessions of an export.
#[derive(Debug, Default)]
pub struct ExportedFiles {
    /// Row IDs of the trees, each after the one that it is a delta to.
    trees: BTreeSet<i64>,
    contents: BTreeSet<ContentHash>,
    /// Number of trees that the entries name.
    pub states: u64,
    /// Number of trees that are not stored any more.
    pub missing: u64,
    /// Paths whose content is not stored, with the reason.
    pub left_out: BTreeSet<String>,
}

/// A part of the files of an export, contents first.
pub enum FilePart {
    Content(ContentHash, Vec<u8>),
    Tree(MovedTree),
}

impl ExportView<'_> {
    /// Finds the files of trees. `last`: those whose paths without a content are listed.
    pub fn files(
        &self,
        names: &BTreeSet<String>,
        last: &BTreeSet<String>,
    ) -> Result<ExportedFiles, StoreError> {
        let mut files = ExportedFiles::default();
        let mut named = BTreeSet::new();
        for name in names {
            let Some(id) = trees::id_of(&self.tx, name)? else {
                files.missing += 1;
                continue;
            };
            named.insert(id);
            if last.contains(name) {
                let marked = trees::read(&self.tx, id)?.tree.0.into_iter();
                let marked = marked.filter_map(|(path, item)| match item {
                    Item::Marker { why, .. } => {
                        Some(format!("{} ({})", path_text(&path), why.words()))
                    }
                    _ => None,
                });
                files.left_out.extend(marked);
            }
        }
        files.states = named.len() as u64;
        files.contents = named_contents(&self.tx, &named)?;
        for id in named {
            let mut next = Some(id);
            while let Some(id) = next.filter(|id| files.trees.insert(*id)) {
                next = trees::row(&self.tx, id)?.parent;
            }
        }
        Ok(files)
    }

    /// Reads the files. Returns the number of contents that are not stored any more.
    pub fn read_files<E: From<StoreError>>(
        &self,
        files: &ExportedFiles,
        each: &mut dyn FnMut(FilePart) -> Result<(), E>,
    ) -> Result<u64, E> {
        let mut missing = 0;
        for hash in &files.contents {
            match contents::content(&self.tx, self.packs, hash)? {
                Some(bytes) => each(FilePart::Content(*hash, bytes))?,
                None => missing += 1,
            }
        }
        for id in &files.trees {
            each(FilePart::Tree(trees::moved(&self.tx, *id)?))?;
        }
        Ok(missing)
    }
}

/// Records the files of a bundle. Contents come first, so no tree names one that a kill lost.
pub struct FileImport<'s> {
    store: &'s mut Store,
    packs: PackWriter,
    gathered: Gathered,
    /// The trees that each copy uses, by their names.
    uses: &'s BTreeMap<String, BTreeSet<String>>,
    at_ms: i64,
}

impl<'s> FileImport<'s> {
    /// `uses`: the names of the trees of each session here.
    pub fn new(
        store: &'s mut Store,
        data_dir: &Path,
        uses: &'s BTreeMap<String, BTreeSet<String>>,
        at_ms: i64,
    ) -> FileImport<'s> {
        FileImport {
            store,
            packs: PackWriter::new(data_dir),
            gathered: Gathered::default(),
            uses,
            at_ms,
        }
    }

    /// Takes a content, whose hash was checked.
    pub fn content(&mut self, hash: ContentHash, bytes: &[u8]) -> Result<(), StoreError> {
        if self.gathered.has(&hash) || self.store.snapshots().has_content(&hash)? {
            return Ok(());
        }
        let compressed = contents::compress(bytes, None, true)?;
        self.gathered.add(NewContent {
            hash,
            bytes: bytes.len() as u64,
            stored: compressed.data.len() as u64,
            base: None,
            place: ContentLocation::Row(compressed.data),
        });
        let is_full = self.gathered.bytes() > MAX_AT_ONCE
            || self.gathered.contents.len() >= MAX_COUNT_AT_ONCE;
        if is_full { self.flush() } else { Ok(()) }
    }

    fn flush(&mut self) -> Result<(), StoreError> {
        self.gathered
            .pack_over(contents::MAX_ROW, &mut self.packs)?;
        self.store
            .snapshots()
            .add_contents(&self.gathered.contents)?;
        self.gathered.clear();
        Ok(())
    }

    /// Records the trees that `next` returns, and then which copies use them. The reading is outside of
    /// the transactions, so agents that run do not wait for it.
    pub fn trees<E: From<StoreError>>(
        mut self,
        next: &mut dyn FnMut() -> Result<Option<MovedTree>, E>,
    ) -> Result<(), E> {
        self.flush()?;
        let mut open: Vec<MovedTree> = Vec::new();
        loop {
            let tree = next()?;
            let is_end = tree.is_none();
            open.extend(tree);
            let bytes: usize = open.iter().map(|tree| tree.encoded.len()).sum();
            if is_end || open.len() >= MAX_TREES_AT_ONCE || bytes as u64 > MAX_AT_ONCE {
                let tx = self.store.write(WHAT)?;
                for tree in open.drain(..) {
                    trees::insert_moved(&tx, self.at_ms, &tree)?;
                }
                tx.commit().doing(WHAT)?;
            }
            if is_end {
                break;
            }
        }
        let tx = self.store.write(WHAT)?;
        for (session, names) in self.uses {
            for name in names {
                let Some(tree) = trees::id_of(&tx, name)? else {
                    continue;
                };
                let sql = "INSERT INTO tree_uses (session, tree)
                     SELECT key, ?2 FROM sessions WHERE id = ?1 AND replica IS NOT NULL
                     ON CONFLICT DO NOTHING";
                cached::execute(&tx, sql, params![session, tree]).doing(WHAT)?;
            }
        }
        tx.commit().doing(WHAT)?;
        Ok(())
    }
}
