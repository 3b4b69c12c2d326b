//! What many checkpoints of real edits take on the disk, and whether each of them is whole.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::time::Duration;

use rewake::core::entry::{Entry, SaveReason};
use rewake::core::tree::{ContentHash, Item};
use rewake::store::{Batch, Cause, Head, NewTree, Store};
use rewake::workspace::files::{Coverage, max_watches};
use rewake::world::{Files, Keeping, Snapshot, SnapshotRequest, SnapshotScope};

use crate::story::*;

const EDITS: &[u8] = include_bytes!("edits/indexmap.patch.zst");

const MAX_BYTES_EACH: u64 = 6_000;

/// One hunk of the history.
struct Edit {
    path: String,
    /// Of the first line that is replaced.
    line: usize,
    removed: usize,
    added: Vec<String>,
}

/// Those of the first version, and those behind it.
fn edits() -> (Vec<Edit>, Vec<Edit>) {
    let patch = String::from_utf8(zstd::decode_all(EDITS).unwrap()).unwrap();
    let (mut edits, mut path) = (Vec::<Edit>::new(), String::new());
    for line in patch.lines() {
        if let Some(of) = line.strip_prefix("+++ ") {
            path = of.to_string();
        } else if let Some(place) = line.strip_prefix("@@ -") {
            let (old, new) = place.trim_end_matches(" @@").split_once(" +").unwrap();
            let pair = |of: &str| match of.split_once(',') {
                Some((line, count)) => (line.parse().unwrap(), count.parse().unwrap()),
                None => (of.parse::<usize>().unwrap(), 1_usize),
            };
            let ((_, removed), (at, added)) = (pair(old), pair(new));
            edits.push(Edit {
                path: path.clone(),
                line: if added > 0 { at - 1 } else { at },
                removed,
                added: Vec::new(),
            });
        } else if let Some(added) = line.strip_prefix('+') {
            let edit = edits.last_mut().unwrap();
            edit.added.push(format!("{added}\n"));
        }
    }
    let is_more = |edit: &Edit| edit.removed > 0;
    let first = edits.iter().position(is_more).unwrap();
    let rest = edits.split_off(first);
    (edits, rest)
}

/// The content of each path.
type Sources = BTreeMap<String, String>;

fn apply(sources: &mut Sources, edit: &Edit) {
    let content = sources.remove(&edit.path).unwrap_or_default();
    let mut lines: Vec<String> = content.split_inclusive('\n').map(String::from).collect();
    let end = edit.line + edit.removed;
    lines.splice(edit.line..end, edit.added.iter().cloned());
    if !lines.is_empty() {
        sources.insert(edit.path.clone(), lines.concat());
    }
}

fn write(root: &Path, sources: &Sources, path: &str) {
    let at = root.join(path);
    match sources.get(path) {
        Some(content) => {
            fs::create_dir_all(at.parent().unwrap()).unwrap();
            fs::write(at, content).unwrap();
        }
        None => fs::remove_file(at).unwrap(),
    }
}

/// A workspace that is looked after, as the engine does it.
struct Session {
    runtime: tokio::runtime::Runtime,
    files: Files,
    store: Store,
    head: Head,
    last: Option<String>,
}

impl Session {
    fn new(root: &Path, data: &Path) -> Session {
        let files = Files::start(Keeping {
            coverage: Coverage::new(root.to_path_buf(), Vec::new(), &[], &[]).unwrap(),
            only_written: None,
            wait: Duration::from_secs(600),
            max_bytes: u64::MAX,
            data_dir: data.to_path_buf(),
            watch: Ok(max_watches()),
        });
        let mut store = Store::open(data).unwrap();
        Session {
            runtime: tokio::runtime::Builder::new_current_thread()
                .enable_time()
                .build()
                .unwrap(),
            files: files.unwrap(),
            head: session(&mut store, HERE),
            store,
            last: None,
        }
    }

    /// The name of the tree that says what the files are now.
    fn checkpoint(&mut self) -> String {
        let wish = SnapshotRequest {
            last: self.last.clone(),
            cause: Cause::Outside,
            scope: SnapshotScope::All,
            live: None,
            at_most: Duration::from_secs(600),
            is_whole: false,
        };
        let tree = match self.runtime.block_on(self.files.snapshot(wish)) {
            Snapshot::New(tree) => *tree,
            other => panic!("{other:?}"),
        };
        self.last = Some(NewTree::name(&tree));
        let entry = Entry::Saved {
            reason: SaveReason::Files,
            tree: self.last.clone(),
            why: None,
            clock: None,
        };
        let batch = Batch {
            at_ms: 1,
            entries: vec![entry],
            tree: Some(tree),
            ..Batch::default()
        };
        self.store.append(&mut self.head, &batch).unwrap();
        self.last.clone().unwrap()
    }
}

/// What a data folder takes, all that is recorded being in the database itself.
fn taken(data: &Path) -> u64 {
    let conn = rusqlite::Connection::open(data.join("rewake.db")).unwrap();
    let moved = conn.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get(0));
    assert_eq!(moved, Ok(0), "somebody reads");
    drop(conn);
    size(data)
}

fn size(folder: &Path) -> u64 {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap());
    let of = |entry: fs::DirEntry| match entry.file_type().unwrap().is_dir() {
        true => size(&entry.path()),
        false => entry.metadata().unwrap().len(),
    };
    entries.map(of).sum()
}

fn hashes(sources: &Sources) -> BTreeMap<Vec<u8>, ContentHash> {
    let hash = |content: &String| *blake3::hash(content.as_bytes()).as_bytes();
    let all = sources.iter();
    all.map(|(path, content)| (path.clone().into_bytes(), hash(content)))
        .collect()
}

/// More than 1,000 edits as they were made: each checkpoint is small, and gives back every byte.
#[test]
fn checkpoints_of_real_edits_are_small_and_whole() {
    let (workspace, data) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let root = workspace.path().canonicalize().unwrap();
    let (first, edits) = edits();
    assert!(first.len() > 10 && edits.len() > 1_000, "{}", edits.len());
    let mut sources = Sources::new();
    for edit in &first {
        apply(&mut sources, edit);
        write(&root, &sources, &edit.path);
    }
    let mut session = Session::new(&root, data.path());
    let mut checkpoints = vec![(session.checkpoint(), hashes(&sources))];
    let mut contents: BTreeMap<ContentHash, String> = BTreeMap::new();
    let before = taken(data.path());
    for edit in &edits {
        apply(&mut sources, edit);
        write(&root, &sources, &edit.path);
        checkpoints.push((session.checkpoint(), hashes(&sources)));
        if let Some(content) = sources.get(&edit.path) {
            contents.insert(
                *blake3::hash(content.as_bytes()).as_bytes(),
                content.clone(),
            );
        }
    }
    let each = (taken(data.path()) - before) / edits.len() as u64;
    println!("{each} bytes a checkpoint, of {} edits", edits.len());
    assert!(each <= MAX_BYTES_EACH, "{each} bytes a checkpoint");
    let store = Store::open(data.path()).unwrap();
    for (name, expected) in &checkpoints {
        let tree = store.snapshots().tree(name).unwrap().unwrap().tree;
        let hash = |item: &Item| item.content().copied().unwrap();
        let found = tree.0.iter().map(|(path, item)| (path.clone(), hash(item)));
        assert_eq!(&found.collect::<BTreeMap<_, _>>(), expected);
    }
    for (hash, content) in &contents {
        let kept = store.snapshots().content(hash).unwrap().unwrap();
        assert!(kept == content.as_bytes());
    }
}
