//! Looking after a workspace's files: 10,000 of them, each with 8 KB.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::sleep;
use std::time::{Duration, Instant};

use rewake::core::entry::{Entry, SaveReason};
use rewake::store::{Batch, Cause, NewTree};
use rewake::workspace::files::{Coverage, max_watches};
use rewake::world::{Files, Keeping, Scope, Snapshot, Wish};

use crate::checkpoint::Fresh;
use crate::noise::Noise;
use crate::sample::{Times, ratio};
use crate::table::{Row, ms};

const FOLDERS: usize = 500;
const FILES_IN_EACH: usize = 20;
const FILE_BYTES: usize = 8_000;

const LOOKS: usize = 41;
const EDITS: usize = 200;

/// What is changed now proves nothing for so long: the grain of the file system's clock.
const GRAIN: Duration = Duration::from_millis(100);

pub fn rows() -> Vec<Row> {
    let (workspace, data) = (folder(), folder());
    let root = workspace.path().canonicalize().expect("the workspace");
    let mut noise = Noise::new(3);
    for folder in 0..FOLDERS {
        let folder = root.join(format!("d{folder}"));
        fs::create_dir(&folder).expect("make a folder");
        for file in 0..FILES_IN_EACH {
            fs::write(folder.join(format!("f{file}.rs")), noise.text(FILE_BYTES)).expect("write");
        }
    }
    sleep(GRAIN);
    let mut kept = Kept::new(&root, data.path());
    let mut rows = vec![kept.first(&root)];
    rows.push(kept.unchanged(&root));
    rows.extend(kept.edits(&root, &mut noise));
    rows
}

fn folder() -> tempfile::TempDir {
    tempfile::tempdir().expect("a folder")
}

struct Kept {
    runtime: tokio::runtime::Runtime,
    files: Arc<Files>,
    fresh: Fresh,
    last: Option<String>,
}

impl Kept {
    fn new(root: &Path, data: &Path) -> Kept {
        let keeping = Keeping {
            coverage: Coverage::new(root.to_path_buf(), Vec::new(), &[], &[]).expect("no globs"),
            only_written: None,
            wait: Duration::from_secs(600),
            max_bytes: u64::MAX,
            data_dir: data.to_path_buf(),
            watch: Ok(max_watches()),
        };
        Kept {
            runtime: tokio::runtime::Builder::new_current_thread()
                .enable_time()
                .build()
                .expect("a runtime"),
            fresh: Fresh::in_folder(data),
            files: Arc::new(Files::start(keeping).expect("a thread")),
            last: None,
        }
    }

    fn look(&self, scope: Scope) -> Option<NewTree> {
        let wish = Wish {
            last: self.last.clone(),
            cause: Cause::Call,
            scope,
            live: None,
            at_most: Duration::from_secs(600),
            is_whole: false,
        };
        match self.runtime.block_on(self.files.snapshot(wish)) {
            Snapshot::New(tree) => Some(*tree),
            Snapshot::Same(_) => None,
            other => panic!("{other:?}"),
        }
    }

    fn record(&mut self, tree: Option<NewTree>) {
        self.last = tree.as_ref().map(NewTree::name).or(self.last.take());
        let batch = Batch {
            at_ms: 1,
            entries: vec![Entry::Saved {
                reason: SaveReason::Files,
                tree: self.last.clone(),
                why: None,
            }],
            tree,
            ..Batch::default()
        };
        let Fresh { store, head, .. } = &mut self.fresh;
        store.append(head, &batch).expect("append");
    }

    fn stored(&self) -> u64 {
        self.fresh.store.files_bytes().expect("what is stored")
    }

    fn first(&mut self, root: &Path) -> Row {
        let since = Instant::now();
        let mut bytes = 0;
        each(root, &mut |path| {
            let content = fs::read(path).expect("read");
            bytes += content.len();
            std::hint::black_box(blake3::hash(&content));
        });
        let floor = since.elapsed();
        let since = Instant::now();
        let tree = self.look(Scope::All);
        self.record(tree);
        let ours = since.elapsed();
        Row::new("first snapshot of 10,000 files of 8 KB", ms(ours))
            .beside(format!(
                "read all and hash {}; {} MB are stored as {} MB",
                ms(floor),
                bytes / 1_000_000,
                self.stored() / 1_000_000
            ))
            .ratio(ratio(ours, floor))
            .target("3 s", ours <= Duration::from_secs(3))
    }

    fn unchanged(&mut self, root: &Path) -> Row {
        let (mut ours, mut floor) = (Times::default(), Times::default());
        assert!(self.look(Scope::All).is_none(), "nothing has changed");
        for _ in 0..LOOKS {
            floor.time(|| each(root, &mut |path| drop(fs::symlink_metadata(path))));
            let tree = ours.time(|| self.look(Scope::All));
            assert!(tree.is_none(), "nothing has changed");
        }
        let ratio = ratio(ours.median(), floor.median());
        Row::new(
            "a look at 10,000 files that are unchanged",
            ms(ours.median()),
        )
        .beside(format!("walk and lstat {}", ms(floor.median())))
        .ratio(ratio)
        .target("1.2 ×, 15 ms", ratio <= 1.2)
    }

    /// What one edit of 8 KB adds to its checkpoint, and what is stored of it.
    fn edits(&mut self, root: &Path, noise: &mut Noise) -> [Row; 2] {
        let path = root.join("d7/f7.rs");
        let mut content = fs::read_to_string(&path).expect("read");
        let (mut ours, mut floor) = (Times::default(), Times::default());
        let before = self.stored();
        for edit in 0..EDITS {
            floor.time(|| self.record(None));
            let at = (edit * 37) % (FILE_BYTES - 200);
            content.replace_range(at..at + 40, &noise.text(40));
            fs::write(&path, &content).expect("write");
            ours.time(|| {
                let tree = self.look(Scope::Written(path.clone()));
                self.record(tree);
            });
        }
        let added = ours.median().saturating_sub(floor.median());
        let bytes = (self.stored() - before) / EDITS as u64;
        [
            Row::new(
                "added to a checkpoint by an edit of an 8 KB file",
                ms(added),
            )
            .beside(format!("the checkpoint alone {}", ms(floor.median())))
            .target("1 ms", added <= Duration::from_millis(1)),
            Row::new("stored of such an edit", format!("{bytes} bytes"))
                .beside(format!("the file has {FILE_BYTES}"))
                .target("6 KB", bytes <= 6_000),
        ]
    }
}

/// Calls `with` for each file.
fn each(folder: &Path, with: &mut dyn FnMut(&PathBuf)) {
    for entry in fs::read_dir(folder).expect("list") {
        let entry = entry.expect("an entry");
        match entry.file_type().expect("its type").is_dir() {
            true => each(&entry.path(), with),
            false => with(&entry.path()),
        }
    }
}
