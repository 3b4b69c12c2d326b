//! A compact tree for long use: its sorted records in one piece of memory, encoded as by
//! [`Delta::encode`], and a map of the few paths that changed since. 100,000 files take some 5 MB.
//!
//! A change is cheap and copies nothing. After many changes all records are rewritten.

use std::collections::BTreeMap;

use super::{Change, Delta, Input, Item, PUT, PathBytes, Tree, VERSION, record};

/// Number of records in a block. Only the first one has its whole path, and a search reads at most
/// one block.
const BLOCK: usize = 16;

/// All records are rewritten when more than this fraction of them has changed (an eighth), and at
/// least [`MIN_CHANGED`].
const MAX_CHANGED_PART: u64 = 8;
const MIN_CHANGED: u64 = 256;

/// The number of files in a tree, and the bytes of those with stored content.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TreeSize {
    pub files: u64,
    pub bytes: u64,
}

impl TreeSize {
    // Every subtracted size was added before. So the sum is right even if a damaged tree has files
    // of impossible sizes.
    fn add(&mut self, item: &Item) {
        self.files += 1;
        self.bytes = self.bytes.wrapping_add(item.bytes());
    }

    fn remove(&mut self, item: &Item) {
        self.files = self.files.saturating_sub(1);
        self.bytes = self.bytes.wrapping_sub(item.bytes());
    }
}

/// The state of each covered path.
#[derive(Debug, Default)]
pub struct CompactTree {
    records: Records,
    /// Paths that differ from the records. `None`: the path is not in the tree.
    changed: BTreeMap<PathBytes, Option<Item>>,
    pub(super) size: TreeSize,
}

impl CompactTree {
    /// Returns the state of a path.
    pub fn get(&self, path: &[u8]) -> Option<Item> {
        match self.changed.get(path) {
            Some(item) => item.clone(),
            None => self.records.get(path),
        }
    }

    /// Turns this tree into the one that the delta leads to.
    pub fn apply(&mut self, delta: &Delta) {
        self.size = self.size_after(delta);
        self.changed.extend(over(delta));
        if self.changed.len() as u64 > (self.size.files / MAX_CHANGED_PART).max(MIN_CHANGED) {
            self.settle();
        }
    }

    /// Returns the size of the tree that the delta leads to.
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

    /// Encodes the tree that the delta leads to as [`Delta::encode`] does, from an empty tree.
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

    /// Calls `with` for each path and its state, in order.
    pub fn each(&self, with: &mut dyn FnMut(&[u8], &Item)) {
        self.records.each(&self.changed, with);
    }

    /// Rewrites all records, with the changes.
    fn settle(&mut self) {
        let mut builder = Builder::default();
        self.each(&mut |path, item| builder.push(path, item));
        *self = builder.end();
    }

    /// Returns the delta from this tree to another.
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

/// Returns the changed paths in the form that [`Records::each`] takes.
fn over(delta: &Delta) -> impl Iterator<Item = (PathBytes, Option<Item>)> {
    let is_now = |change: &Change| match change {
        Change::Put { item, .. } => Some(item.clone()),
        Change::Gone { .. } => None,
    };
    let changes = delta.0.iter();
    changes.map(move |(path, change)| (path.clone(), is_now(change)))
}

/// Builds a tree from sorted paths, each added once.
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
    /// Offset of each block.
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

    /// Calls `with` for each path in order, with the changed paths.
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
    /// Path of the last record.
    path: PathBytes,
}

impl Reader<'_> {
    /// Returns the next item, or `None` at the end. Records that [`Builder`] wrote are always
    /// readable.
    fn next(&mut self) -> Option<Item> {
        self.input.byte().ok()?;
        let shared = usize::try_from(self.input.number().ok()?).ok()?;
        let rest = self.input.bytes().ok()?;
        self.path.truncate(shared);
        self.path.extend_from_slice(rest);
        super::decode_item(&mut self.input).ok()
    }
}
