//! A tree: the state of each path of a workspace at one instant, without the contents.
//!
//! Trees are stored as deltas, each to the previous tree. [`Delta`] is the difference between two
//! trees, and the store has its encoded bytes. [`tree_at`] finds the tree for a place in a log.
//!
//! Paths are bytes, as file names are: below the workspace's root without a leading slash, and
//! absolute where a tool wrote a file outside of it.
//!
//! Invariant: `a.apply(&diff(&a, &b))` is `b`, for any two trees.

use std::collections::BTreeMap;

use super::access::Access;
use super::entry::{Entry, Record, Seq};

/// blake3 of a file's content.
pub type ContentHash = [u8; 32];

/// A path as its bytes.
pub type PathBytes = Vec<u8>;

/// Maximum length of a path in bytes, as in the kernel.
const MAX_PATH_BYTES: usize = 4_096;

/// Approximate size of a path in memory beside its bytes.
const PATH_OVERHEAD: usize = 128;

/// The version of the format of [`Delta::encode`].
const VERSION: u8 = 1;

/// The state of a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Item {
    /// A regular file. `mode` is its permission bits.
    File {
        mode: u16,
        hash: ContentHash,
        bytes: u64,
    },
    /// A symbolic link, and where it points.
    Link { target: Vec<u8> },
    /// An entry without stored content: it is named, and never restored.
    Marker {
        why: Marked,
        bytes: u64,
        /// Milliseconds since 1970.
        mtime_ms: i64,
        /// Hash of the content, for files that were read all the same.
        hash: Option<ContentHash>,
    },
}

/// Reason why a content is not stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Marked {
    /// A file over the limit.
    TooBig,
    /// A file or folder that may not be read.
    Unreadable,
    Fifo,
    Socket,
    Device,
    /// A folder of another file system.
    Mount,
    /// A file that holds keys or passwords.
    Secret,
    /// A file that changed each time it was read.
    Unsteady,
}

/// The reasons with their numbers in [`Delta::encode`], which never change, and their words for a
/// person.
const MARKED: [(Marked, u8, &str); 8] = [
    (Marked::TooBig, 1, "too big"),
    (Marked::Unreadable, 2, "not readable"),
    (Marked::Fifo, 3, "a FIFO"),
    (Marked::Socket, 4, "a socket"),
    (Marked::Device, 5, "a device"),
    (Marked::Mount, 6, "another file system"),
    (Marked::Secret, 7, "a secret"),
    (Marked::Unsteady, 8, "changed while it was read"),
];

impl Marked {
    /// Returns the reason for a person: "a FIFO".
    pub fn words(self) -> &'static str {
        let found = MARKED.iter().find(|(marked, ..)| *marked == self);
        found.map_or("not kept", |(.., words)| words)
    }

    fn number(self) -> u8 {
        let found = MARKED.iter().find(|(marked, ..)| *marked == self);
        found.map_or(0, |(_, number, _)| *number)
    }

    fn of_number(number: u8) -> Option<Marked> {
        let found = MARKED.iter().find(|(_, known, _)| *known == number);
        found.map(|(marked, ..)| *marked)
    }
}

impl Item {
    /// Returns the hash of the stored content.
    pub fn content(&self) -> Option<&ContentHash> {
        match self {
            Item::File { hash, .. } => Some(hash),
            Item::Link { .. } | Item::Marker { .. } => None,
        }
    }

    /// Returns the size of the stored content.
    fn bytes(&self) -> u64 {
        match self {
            Item::File { bytes, .. } => *bytes,
            Item::Link { .. } | Item::Marker { .. } => 0,
        }
    }
}

/// The change of one path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// The path has this state now. `entered`: it existed before and only became covered.
    Put { item: Item, entered: bool },
    /// The path is not in the tree any more. `left`: the file still exists and only is not covered
    /// any more.
    Gone { left: bool },
}

impl Change {
    /// Returns a change that somebody made to the path itself.
    pub fn put(item: Item) -> Change {
        Change::Put {
            item,
            entered: false,
        }
    }
}

/// The difference between a tree and the previous one, by path.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Delta(pub BTreeMap<PathBytes, Change>);

/// The state of each covered path.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tree(pub BTreeMap<PathBytes, Item>);

impl Tree {
    /// Turns this tree into the one that the delta leads to.
    pub fn apply(&mut self, delta: &Delta) {
        for (path, change) in &delta.0 {
            match change {
                Change::Put { item, .. } => {
                    self.0.insert(path.clone(), item.clone());
                }
                Change::Gone { .. } => {
                    self.0.remove(path);
                }
            }
        }
    }

    /// Returns the delta from an empty tree to this one.
    pub fn whole(&self) -> Delta {
        diff(&Tree::default(), self)
    }

    /// Counts the folders that contain something of the tree, including the root.
    pub fn folders(&self) -> usize {
        let mut folders = std::collections::BTreeSet::from([&b""[..]]);
        for path in self.0.keys().filter(|path| !path.starts_with(b"/")) {
            let mut path = &path[..];
            while let Some(end) = path.iter().rposition(|b| *b == b'/') {
                path = &path[..end];
                if !folders.insert(path) {
                    break;
                }
            }
        }
        folders.len()
    }

    /// Returns the bytes of the files in it, without files whose content is not stored.
    pub fn bytes(&self) -> u64 {
        self.0.values().map(Item::bytes).fold(0, u64::wrapping_add)
    }
}

/// Returns the delta from `a` to `b`.
pub fn diff(a: &Tree, b: &Tree) -> Delta {
    let gone = a.0.keys().filter(|path| !b.0.contains_key(*path));
    let gone = gone.map(|path| (path.clone(), Change::Gone { left: false }));
    let put =
        b.0.iter()
            .filter(|(path, item)| a.0.get(*path) != Some(item));
    let put = put.map(|(path, item)| (path.clone(), Change::put(item.clone())));
    Delta(gone.chain(put).collect())
}

/// Returns a path and the folders above it, the deepest first.
pub fn to_root(path: &[u8]) -> impl Iterator<Item = &[u8]> {
    let slashes = (1..path.len()).rev().filter(|at| path[*at] == b'/');
    std::iter::once(path).chain(slashes.map(|at| &path[..at]))
}

/// Returns the entries of a map whose paths are below a folder.
pub fn below<'a, T>(
    paths: &'a BTreeMap<PathBytes, T>,
    folder: &[u8],
) -> impl Iterator<Item = (&'a PathBytes, &'a T)> + use<'a, T> {
    let begin = [folder, b"/"].concat();
    let from = paths.range(begin.clone()..);
    from.take_while(move |(path, _)| path.starts_with(&begin))
}

/// Returns the name of the tree that is known at the place `seq` of a log. `None`: the files are
/// not known there. The result is never a guess: a tree is valid until the start of the next call
/// with an effect, and back to the end of the last one.
pub fn tree_at(records: &[Record], seq: Seq) -> Option<&str> {
    place_at(records, seq).map(|(_, tree)| tree)
}

/// Returns the same as [`tree_at`], with the place in `records` of the entry that names the tree.
pub fn place_at(records: &[Record], seq: Seq) -> Option<(usize, &str)> {
    around(records, records.partition_point(|r| r.seq <= seq))
}

/// Returns the same as [`place_at`] for the files before the entry at the place `seq` had any
/// effect.
pub fn place_before(records: &[Record], seq: Seq) -> Option<(usize, &str)> {
    around(records, records.partition_point(|r| r.seq < seq))
}

/// Returns the tree that is known between the records before `split` and those after it.
fn around(records: &[Record], split: usize) -> Option<(usize, &str)> {
    let (until, after) = records.split_at(split);
    for (place, record) in until.iter().enumerate().rev() {
        match (named(&record.entry), &record.entry) {
            // Earlier trees are of another folder.
            (None, entry) if entry.new_folder().is_some() => break,
            (Some(tree), _) => return Some((place, tree)),
            // After this entry, only a later tree describes the files.
            (None, entry) if may_change_files(entry) => break,
            (None, _) => {}
        }
    }
    for (place, record) in after.iter().enumerate() {
        match (named(&record.entry), &record.entry) {
            (Some(tree), _) => return Some((split + place, tree)),
            (None, entry) if entry.new_folder().is_some() => return None,
            (None, entry) if may_change_files(entry) => return None,
            (None, _) => {}
        }
    }
    None
}

/// Returns why the files are not known at a place, in words that follow a colon.
pub fn why_unknown(records: &[Record], seq: Seq) -> String {
    let (until, after) = records.split_at(records.partition_point(|r| r.seq <= seq));
    let begun = |record: &&Record| may_change_files(&record.entry);
    let not_kept = until.iter().rev().find_map(|record| match &record.entry {
        Entry::Saved { why, .. } => why.as_ref(),
        _ => None,
    });
    if let Some(why) = not_kept {
        return format!("they were not kept: {why}");
    }
    if !records.iter().any(|record| named(&record.entry).is_some()) {
        return "this session has no snapshot".to_string();
    }
    match (until.iter().rev().find(begun), after.iter().find(begun)) {
        (Some(Record { seq, .. }), _) => {
            format!("entry {seq} may have changed them, and no snapshot was taken right after it")
        }
        (None, Some(Record { seq, .. })) => {
            format!("no snapshot was taken before entry {seq}, which may have changed them")
        }
        (None, None) => "no snapshot is of that time".to_string(),
    }
}

/// Returns whether this entry starts something that may change files. A command whose sandbox only
/// lets it read does not.
pub fn may_change_files(entry: &Entry) -> bool {
    match entry {
        Entry::Started { access, .. } => *access != Some(Access::Read),
        Entry::Restoring { .. } | Entry::CheckStarted { .. } => true,
        // Guards decide. Other hooks may format files.
        Entry::Hooking { event, .. } => !event.is_guard(),
        _ => false,
    }
}

/// Returns the tree that an entry names.
pub fn named(entry: &Entry) -> Option<&str> {
    match entry {
        Entry::Finished { tree, .. } | Entry::Saved { tree, .. } | Entry::Restored { tree, .. } => {
            tree.as_deref()
        }
        _ => None,
    }
}

/// Returns all trees that an entry mentions.
pub fn uses(entry: &Entry) -> impl Iterator<Item = &str> {
    let both = match entry {
        Entry::Restoring { before, target, .. } => [Some(before.as_str()), Some(target.as_str())],
        _ => [named(entry), None],
    };
    both.into_iter().flatten()
}

impl Delta {
    /// Returns whether the trees are equal.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns its approximate size in memory, bytes.
    pub fn size(&self) -> usize {
        let paths = self.0.keys().map(|path| path.len() + PATH_OVERHEAD);
        paths.sum()
    }

    /// Encodes the delta as it is stored: sorted, each path without the part that it shares with
    /// the previous one.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = vec![VERSION];
        let mut before: &[u8] = &[];
        for (path, change) in &self.0 {
            let item = match change {
                Change::Put { item, .. } => Some(item),
                Change::Gone { .. } => None,
            };
            record(&mut out, operation(change), before, path, item);
            before = path;
        }
        out
    }

    /// Decodes the bytes of [`Delta::encode`].
    ///
    /// # Errors
    /// Returns a message if the bytes are damaged, or a newer version wrote them.
    pub fn decode(encoded: &[u8]) -> Result<Delta, String> {
        Delta::decode_within(encoded, usize::MAX)
    }

    /// Decodes the bytes of [`Delta::encode`] of somebody else: few bytes can be many long paths.
    /// `most`: the sum of [`Delta::size`].
    pub fn decode_within(encoded: &[u8], most: usize) -> Result<Delta, String> {
        let mut size = 0_usize;
        let mut input = Input(encoded);
        if input.byte()? != VERSION {
            return Err("a newer version wrote it".to_string());
        }
        let mut changes = BTreeMap::new();
        let mut before: PathBytes = Vec::new();
        while !input.0.is_empty() {
            let operation = input.byte()?;
            let shared = usize::try_from(input.number()?).map_err(|_| CUT)?;
            let rest = input.bytes()?;
            let mut path = before.get(..shared).ok_or(CUT)?.to_vec();
            path.extend_from_slice(rest);
            if path.len() > MAX_PATH_BYTES || path.is_empty() {
                return Err("a path in it is not a path".to_string());
            }
            let change = decode_change(operation, &mut input)?;
            size = size.saturating_add(path.len() + PATH_OVERHEAD);
            if size > most {
                return Err("it has too many paths".to_string());
            }
            before.clone_from(&path);
            if changes.insert(path, change).is_some() {
                return Err("a path is in it twice".to_string());
            }
        }
        Ok(Delta(changes))
    }
}

const CUT: &str = "it is cut off";

// The numbers of the operations never change.
const PUT: u8 = 1;
const ENTERED: u8 = 2;
const GONE: u8 = 3;
const LEFT: u8 = 4;

const FILE: u8 = 1;
const LINK: u8 = 2;
const MARKER: u8 = 3;

fn operation(change: &Change) -> u8 {
    match change {
        Change::Put { entered: false, .. } => PUT,
        Change::Put { entered: true, .. } => ENTERED,
        Change::Gone { left: false } => GONE,
        Change::Gone { left: true } => LEFT,
    }
}

/// Encodes one path without the part that it shares with the previous one.
fn record(out: &mut Vec<u8>, operation: u8, before: &[u8], path: &[u8], item: Option<&Item>) {
    let shared = before.iter().zip(path).take_while(|(a, b)| a == b).count();
    out.push(operation);
    number(out, shared as u64);
    bytes(out, &path[shared..]);
    if let Some(item) = item {
        encode_item(out, item);
    }
}

fn decode_change(operation: u8, input: &mut Input<'_>) -> Result<Change, String> {
    Ok(match operation {
        PUT | ENTERED => Change::Put {
            item: decode_item(input)?,
            entered: operation == ENTERED,
        },
        GONE => Change::Gone { left: false },
        LEFT => Change::Gone { left: true },
        _ => return Err(format!("no operation has the number {operation}")),
    })
}

fn encode_item(out: &mut Vec<u8>, item: &Item) {
    match item {
        Item::File {
            mode,
            hash,
            bytes: size,
        } => {
            out.push(FILE);
            number(out, u64::from(*mode));
            number(out, *size);
            out.extend_from_slice(hash);
        }
        Item::Link { target } => {
            out.push(LINK);
            bytes(out, target);
        }
        Item::Marker {
            why,
            bytes: size,
            mtime_ms,
            hash,
        } => {
            out.extend([MARKER, why.number()]);
            number(out, *size);
            out.extend_from_slice(&mtime_ms.to_le_bytes());
            bytes(out, hash.as_ref().map_or(&[], |hash| hash.as_slice()));
        }
    }
}

fn decode_item(input: &mut Input<'_>) -> Result<Item, String> {
    Ok(match input.byte()? {
        FILE => Item::File {
            mode: u16::try_from(input.number()?).map_err(|_| "a mode in it is not a mode")?,
            bytes: input.number()?,
            hash: input.array()?,
        },
        LINK => Item::Link {
            target: input.bytes()?.to_vec(),
        },
        MARKER => Item::Marker {
            why: Marked::of_number(input.byte()?).ok_or("a newer version wrote it")?,
            bytes: input.number()?,
            mtime_ms: i64::from_le_bytes(input.array()?),
            hash: match input.bytes()? {
                [] => None,
                hash => Some(hash.try_into().map_err(|_| CUT)?),
            },
        },
        kind => return Err(format!("nothing has the number {kind}")),
    })
}

/// Encodes a number with seven bits in each byte, the lowest first (LEB128).
fn number(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push((value & 0x7f) as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

fn bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    number(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

struct Input<'a>(&'a [u8]);

impl<'a> Input<'a> {
    fn take(&mut self, count: usize) -> Result<&'a [u8], String> {
        let (taken, rest) = self.0.split_at_checked(count).ok_or(CUT)?;
        self.0 = rest;
        Ok(taken)
    }

    fn byte(&mut self) -> Result<u8, String> {
        Ok(self.array::<1>()?[0])
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], String> {
        self.take(N)?.try_into().map_err(|_| CUT.to_string())
    }

    fn number(&mut self) -> Result<u64, String> {
        let mut value = 0_u64;
        for place in 0..10 {
            let byte = self.byte()?;
            let bits = u64::from(byte & 0x7f);
            if place == 9 && bits > 1 {
                break;
            }
            value |= bits << (7 * place);
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err("a number in it is too big".to_string())
    }

    fn bytes(&mut self) -> Result<&'a [u8], String> {
        let count = usize::try_from(self.number()?).map_err(|_| CUT)?;
        self.take(count)
    }
}

mod compact;
#[cfg(test)]
mod tests;

pub use compact::{Builder, CompactTree, TreeSize};
