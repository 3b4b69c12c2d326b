//! A tree as it is held for long: its sorted records in one piece, as [`Delta::encode`] has them,
//! and beside them the few that changed since. 100,000 files take some 5 MB so.
//!
//! A change is cheap and nothing is copied for it. Once many have come together, all is written
//! anew.

use std::collections::BTreeMap;

use super::{Change, Delta, Input, Item, PUT, PathBytes, Tree, VERSION, record};

/// So many records share the path that is written out in the first of them: a search reads as
/// many at most.
const BLOCK: usize = 16;

/// This part of the records may have changed before all are written anew, and at least so many.
const MAX_CHANGED_PART: u64 = 8;
const MIN_CHANGED: u64 = 256;

/// How many files a tree has, and how many bytes those have whose content is kept.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TreeSize {
    pub files: u64,
    pub bytes: u64,
}

impl TreeSize {
    // What is taken away was added before, so the sum comes out right even where a damaged tree
    // has files of impossible sizes.
    fn add(&mut self, item: &Item) {
        self.files += 1;
        self.bytes = self.bytes.wrapping_add(item.bytes());
    }

    fn remove(&mut self, item: &Item) {
        self.files = self.files.saturating_sub(1);
        self.bytes = self.bytes.wrapping_sub(item.bytes());
    }
}

/// What lies at each covered path.
#[derive(Debug, Default)]
pub struct CompactTree {
    records: Records,
    /// What is not as in the records. `None`: nothing lies there.
    changed: BTreeMap<PathBytes, Option<Item>>,
    size: TreeSize,
}

impl CompactTree {
    pub fn size(&self) -> TreeSize {
        self.size
    }

    /// What lies at a path.
    pub fn get(&self, path: &[u8]) -> Option<Item> {
        match self.changed.get(path) {
            Some(item) => item.clone(),
            None => self.records.get(path),
        }
    }

    /// Makes this tree the one that the delta leads to.
    pub fn apply(&mut self, delta: &Delta) {
        self.size = self.size_after(delta);
        self.changed.extend(over(delta));
        if self.changed.len() as u64 > (self.size.files / MAX_CHANGED_PART).max(MIN_CHANGED) {
            self.settle();
        }
    }

    /// The size of the tree that the delta leads to.
    pub fn size_after(&self, delta: &Delta) -> TreeSize {
        let mut size = self.size;
        for (path, change) in &delta.0 {
            if let Some(before) = self.get(path) {
                size.remove(&before);
            }
            if let Change::Put { item, .. } = change {
                size.add(item);
            }
        }
        size
    }

    /// The tree that the delta leads to as [`Delta::encode`] has it, from an empty tree.
    pub fn encode_whole(&self, delta: &Delta) -> Vec<u8> {
        let mut changed = self.changed.clone();
        changed.extend(over(delta));
        let (mut out, mut before) = (vec![VERSION], Vec::new());
        self.records.each(&changed, &mut |path, item| {
            record(&mut out, PUT, &before, path, Some(item));
            path.clone_into(&mut before);
        });
        out
    }

    /// Each path with what lies there, in order.
    pub fn each(&self, with: &mut dyn FnMut(&[u8], &Item)) {
        self.records.each(&self.changed, with);
    }

    /// Writes all records anew.
    fn settle(&mut self) {
        let mut builder = Builder::default();
        self.each(&mut |path, item| builder.push(path, item));
        *self = builder.end();
    }

    /// What leads from this tree to another.
    pub fn diff(&mut self, other: &mut CompactTree) -> Delta {
        for tree in [&mut *self, &mut *other] {
            if !tree.changed.is_empty() {
                tree.settle();
            }
        }
        let mut delta = Delta::default();
        let (mut before, mut now) = (self.records.reader(), other.records.reader());
        let (mut old, mut new) = (before.next(), now.next());
        loop {
            let order = match (&old, &new) {
                (None, None) => return delta,
                (Some(_), None) => std::cmp::Ordering::Less,
                (None, Some(_)) => std::cmp::Ordering::Greater,
                (Some(_), Some(_)) => before.path.cmp(&now.path),
            };
            if order.is_lt() {
                let gone = Change::Gone { left: false };
                delta.0.insert(before.path.clone(), gone);
            } else if order.is_gt() || old != new {
                let put = new.take().map(Change::put);
                delta.0.extend(put.map(|put| (now.path.clone(), put)));
            }
            if order.is_le() {
                old = before.next();
            }
            if order.is_ge() {
                new = now.next();
            }
        }
    }
}

/// What is not as it was, for [`Records::each`].
fn over(delta: &Delta) -> impl Iterator<Item = (PathBytes, Option<Item>)> {
    let is_now = |change: &Change| match change {
        Change::Put { item, .. } => Some(item.clone()),
        Change::Gone { .. } => None,
    };
    let changes = delta.0.iter();
    changes.map(move |(path, change)| (path.clone(), is_now(change)))
}

/// Makes a tree of paths that come in order, each once.
#[derive(Debug, Default)]
pub struct Builder {
    bytes: Vec<u8>,
    blocks: Vec<usize>,
    count: usize,
    before: PathBytes,
    size: TreeSize,
}

impl Builder {
    pub fn push(&mut self, path: &[u8], item: &Item) {
        if self.count.is_multiple_of(BLOCK) {
            self.blocks.push(self.bytes.len());
            self.before.clear();
        }
        self.count += 1;
        record(&mut self.bytes, PUT, &self.before, path, Some(item));
        path.clone_into(&mut self.before);
        self.size.add(item);
    }

    pub fn end(self) -> CompactTree {
        CompactTree {
            records: Records {
                bytes: self.bytes.into_boxed_slice(),
                blocks: self.blocks.into_boxed_slice(),
            },
            changed: BTreeMap::new(),
            size: self.size,
        }
    }
}

impl From<&Tree> for CompactTree {
    fn from(tree: &Tree) -> CompactTree {
        let mut builder = Builder::default();
        for (path, item) in &tree.0 {
            builder.push(path, item);
        }
        builder.end()
    }
}

impl From<&CompactTree> for Tree {
    fn from(compact: &CompactTree) -> Tree {
        let mut tree = Tree::default();
        compact.each(&mut |path, item| {
            tree.0.insert(path.to_vec(), item.clone());
        });
        tree
    }
}

#[derive(Debug, Default)]
struct Records {
    bytes: Box<[u8]>,
    /// Where each block begins.
    blocks: Box<[usize]>,
}

impl Records {
    fn reader(&self) -> Reader<'_> {
        self.reader_at(0)
    }

    fn reader_at(&self, at: usize) -> Reader<'_> {
        Reader {
            input: Input(self.bytes.get(at..).unwrap_or_default()),
            path: Vec::new(),
        }
    }

    fn get(&self, path: &[u8]) -> Option<Item> {
        let is_before = |at: &usize| {
            let mut input = Input(self.bytes.get(*at + 1..).unwrap_or_default());
            let first = input.number().and_then(|_| input.bytes());
            first.is_ok_and(|first| first <= path)
        };
        let block = self.blocks.partition_point(is_before).checked_sub(1)?;
        let mut reader = self.reader_at(*self.blocks.get(block)?);
        for _ in 0..BLOCK {
            let item = reader.next()?;
            match reader.path.as_slice().cmp(path) {
                std::cmp::Ordering::Less => {}
                std::cmp::Ordering::Equal => return Some(item),
                std::cmp::Ordering::Greater => return None,
            }
        }
        None
    }

    /// In order, with what is not as in the records.
    fn each(
        &self,
        changed: &BTreeMap<PathBytes, Option<Item>>,
        with: &mut dyn FnMut(&[u8], &Item),
    ) {
        let mut changed = changed.iter().peekable();
        let mut reader = self.reader();
        while let Some(item) = reader.next() {
            while let Some((path, new)) = changed.next_if(|(path, _)| **path < reader.path) {
                new.iter().for_each(|item| with(path, item));
            }
            match changed.next_if(|(path, _)| **path == reader.path) {
                Some((path, new)) => new.iter().for_each(|item| with(path, item)),
                None => with(&reader.path, &item),
            }
        }
        for (path, new) in changed {
            new.iter().for_each(|item| with(path, item));
        }
    }
}

/// Reads records in order.
struct Reader<'a> {
    input: Input<'a>,
    /// Of the last one.
    path: PathBytes,
}

impl Reader<'_> {
    /// `None` at the end. What was written by [`Builder`] can be read.
    fn next(&mut self) -> Option<Item> {
        self.input.byte().ok()?;
        let shared = usize::try_from(self.input.number().ok()?).ok()?;
        let rest = self.input.bytes().ok()?;
        self.path.truncate(shared);
        self.path.extend_from_slice(rest);
        super::decode_item(&mut self.input).ok()
    }
}
