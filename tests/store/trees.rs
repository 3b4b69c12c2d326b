//! What is kept of files: trees, contents and packs, and what tidying up leaves of them.

use std::fs;
use std::path::{Path, PathBuf};

use rewake::core::entry::{Entry, SaveReason};
use rewake::core::tree::{ContentHash, Item, Tree, diff};
use rewake::store::contents::{ContentLocation, MAX_ROW, NewContent, compress};
use rewake::store::{Batch, Cause, Head, Keep, KnownTree, NewTree, PackWriter, Store, StoreError};
use tempfile::TempDir;

use crate::story::*;

/// Bytes that do not compress, and others for each seed.
fn noise(seed: u64, len: usize) -> Vec<u8> {
    let mut reader = blake3::Hasher::new()
        .update(&seed.to_le_bytes())
        .finalize_xof();
    let mut bytes = vec![0; len];
    reader.fill(&mut bytes);
    bytes
}

fn hash(bytes: &[u8]) -> ContentHash {
    *blake3::hash(bytes).as_bytes()
}

/// A store whose session keeps one file, version after version.
struct Kept {
    dir: TempDir,
    store: Store,
    head: Head,
    packs: PackWriter,
    last: Option<KnownTree>,
    versions: Vec<(String, Vec<u8>)>,
}

impl Kept {
    fn new() -> Kept {
        let (dir, mut store) = scratch();
        let head = session(&mut store, HERE);
        Kept {
            packs: PackWriter::new(dir.path()),
            dir,
            store,
            head,
            last: None,
            versions: Vec::new(),
        }
    }

    fn keep(&mut self, bytes: &[u8], at_ms: i64) {
        let before = self.versions.last().map(|(_, bytes)| hash(bytes));
        let base = before.and_then(|before| self.store.snapshots().base(&before).unwrap());
        let compressed = compress(bytes, base.as_ref(), false).unwrap();
        let stored = compressed.data.len() as u64;
        let place = match compressed.data.len() > MAX_ROW {
            true => ContentLocation::Pack(self.packs.keep(&[&compressed.data]).unwrap().remove(0)),
            false => ContentLocation::Row(compressed.data),
        };
        let content = NewContent {
            hash: hash(bytes),
            bytes: bytes.len() as u64,
            stored,
            base: compressed.base,
            place,
        };
        let file = Item::File {
            mode: 0o644,
            hash: hash(bytes),
            bytes: bytes.len() as u64,
        };
        let tree = Tree([(b"file".to_vec(), file)].into());
        let before = self
            .last
            .as_ref()
            .map(|l| l.tree.clone())
            .unwrap_or_default();
        let root = Path::new(HERE);
        let delta = diff(&before, &tree);
        let new = NewTree::new(
            root,
            self.last.as_ref(),
            &delta,
            &tree,
            Cause::Call,
            vec![content],
        );
        let new = new.unwrap();
        let saved = Entry::Saved {
            reason: SaveReason::Files,
            tree: Some(new.name()),
            why: None,
            clock: None,
        };
        self.versions.push((new.name(), bytes.to_vec()));
        self.last = Some(KnownTree {
            link: new.link(),
            tree,
        });
        let batch = Batch {
            at_ms,
            tree: Some(new),
            ..batch(vec![saved])
        };
        self.store.append(&mut self.head, &batch).unwrap();
    }

    /// The file as it was in each version.
    #[track_caller]
    fn check(&self, store: &Store, from: usize) {
        for (name, bytes) in &self.versions[from..] {
            let tree = store
                .snapshots()
                .tree(name)
                .unwrap()
                .expect("the tree is kept")
                .tree;
            let content = tree.0[&b"file"[..]].content().unwrap();
            assert_eq!(
                store.snapshots().content(content).unwrap().as_ref(),
                Some(bytes)
            );
        }
    }

    fn packs(&self) -> Vec<PathBuf> {
        let files = fs::read_dir(self.dir.path().join("files/packs"));
        files
            .into_iter()
            .flatten()
            .map(|file| file.unwrap().path())
            .collect()
    }
}

#[test]
fn every_version_of_a_file_is_read_as_it_was() {
    let mut kept = Kept::new();
    let mut text = noise(1, 3_000).escape_ascii().to_string();
    for n in 0..600 {
        text.insert_str(n * 5 % 2_000, "one more line\n");
        kept.keep(text.as_bytes(), 1);
    }
    kept.check(&kept.store, 0);
    // Each is small, for it is kept as what differs.
    assert!(kept.store.snapshots().files_bytes().unwrap() < 600 * 1_000);
    assert!(kept.packs().is_empty());
}

#[test]
fn large_content_is_packed_and_a_torn_pack_tail_is_ignored() {
    let mut kept = Kept::new();
    for n in 0..3 {
        kept.keep(&noise(n, 100_000), 1);
    }
    let [pack] = &kept.packs()[..] else {
        panic!("one pack");
    };
    let mut file = fs::OpenOptions::new().append(true).open(pack).unwrap();
    std::io::Write::write_all(&mut file, &noise(9, 5_000)).unwrap();
    kept.check(&kept.store, 0);
    // What was cut off is missed, not made up.
    let len = fs::metadata(pack).unwrap().len();
    file.set_len(len - 60_000).unwrap();
    let last = hash(&noise(2, 100_000));
    let damaged = kept.store.snapshots().content(&last).unwrap_err();
    assert!(matches!(damaged, StoreError::Damaged { .. }), "{damaged}");
}

#[test]
fn a_content_that_changed_on_the_disk_is_noticed() {
    let mut kept = Kept::new();
    kept.keep(&noise(1, 100_000), 1);
    let pack = kept.packs().remove(0);
    let mut bytes = fs::read(&pack).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(&pack, bytes).unwrap();
    let content = kept.store.snapshots().content(&hash(&noise(1, 100_000)));
    assert!(matches!(content, Err(StoreError::Damaged { .. })));
}

#[test]
fn a_tree_that_changed_on_the_disk_is_noticed() {
    let mut kept = Kept::new();
    kept.keep(b"one", 1);
    kept.keep(b"two", 1);
    let sql = "UPDATE trees SET body = (SELECT body FROM trees WHERE id = 1) WHERE id = 2";
    raw(kept.dir.path()).execute(sql, []).unwrap();
    let name = &kept.versions[1].0;
    assert!(matches!(
        kept.store.snapshots().tree(name),
        Err(StoreError::Damaged { .. })
    ));
}

/// A tree of nothing but a link.
fn link(root: &str) -> (NewTree, Tree) {
    let target = b"there".to_vec();
    let tree = Tree([(b"link".to_vec(), Item::Link { target })].into());
    let delta = diff(&Tree::default(), &tree);
    let new = NewTree::new(Path::new(root), None, &delta, &tree, Cause::First, vec![]);
    (new.unwrap(), tree)
}

#[test]
fn folders_with_equal_files_have_trees_of_their_own() {
    let (_dir, mut store) = scratch();
    let mut head = session(&mut store, HERE);
    let mut record = |root: &str| {
        let (new, _) = link(root);
        let name = new.name();
        let batch = Batch {
            tree: Some(new),
            ..batch(vec![])
        };
        store.append(&mut head, &batch).unwrap();
        name
    };
    let names = [record("/one"), record("/two")];
    for (name, root) in names.iter().zip(["/one", "/two"]) {
        let known = store.snapshots().tree_root(name).unwrap();
        assert_eq!(known.as_deref(), Some(Path::new(root)));
        assert_eq!(
            store.snapshots().tree(name).unwrap().unwrap().tree,
            link(root).1
        );
    }
}

fn keep(since_ms: i64, dry_run: bool) -> Keep {
    Keep { since_ms, dry_run }
}

#[test]
fn tidying_up_leaves_what_is_needed() {
    let mut kept = Kept::new();
    for n in 0..8 {
        kept.keep(&noise(n, 100_000), 5_000);
    }
    let dir = kept.dir.path().to_path_buf();
    let open = || Store::open(&dir).unwrap();
    // Something happened in the session since.
    let tidied = open().tidy_files(&dir, keep(5_000, true)).unwrap();
    assert_eq!((tidied.trees, tidied.contents), (0, 0));
    let tidied = open().tidy_files(&dir, keep(5_001, true)).unwrap();
    assert_eq!((tidied.sessions, tidied.contents), (1, 7));
    kept.check(&open(), 0);
    // Others have it open: nothing is removed.
    let busy = open().tidy_files(&dir, keep(5_001, false)).unwrap_err();
    assert!(matches!(busy, StoreError::InUse { .. }), "{busy}");
    let (_, empty) = scratch();
    let store = std::mem::replace(&mut kept.store, empty);
    let before: u64 = kept
        .packs()
        .iter()
        .map(|p| p.metadata().unwrap().len())
        .sum();
    store.tidy_files(&dir, keep(5_001, false)).unwrap();
    // The last of the workspace stays, in a pack of its own.
    kept.check(&open(), 7);
    let after: u64 = kept
        .packs()
        .iter()
        .map(|p| p.metadata().unwrap().len())
        .sum();
    assert!(after < before / 4, "{before} {after}");
    // And it is gone on from.
    kept.store = open();
    kept.keep(b"more", 6_000);
    kept.check(&kept.store, 7);
}
