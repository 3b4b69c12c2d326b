//! Looking after a workspace's files: 10,000 of them, each with 8 KB; and 100,000 small ones.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::sleep;
use std::time::{Duration, Instant};

use rewake::core::entry::{Entry, SaveReason};
use rewake::core::tree::{ContentHash, Item, Tree};
use rewake::store::{Batch, Cause, NewTree};
use rewake::workspace::files::{Coverage, Order, Unwatched, max_watches, restore};
use rewake::world::{Files, Keeping, Snapshot, SnapshotRequest, SnapshotScope};

use crate::checkpoint::Fresh;
use crate::noise::Noise;
use crate::sample::{Times, own_cpu, ratio};
use crate::table::{Row, ms};

const FOLDERS: usize = 500;
const FILES_IN_EACH: usize = 20;
const FILE_BYTES: usize = 8_000;

const LOOKS: usize = 41;
const EDITS: usize = 200;

/// What is changed now proves nothing for so long: the grain of the file system's clock.
const GRAIN: Duration = Duration::from_millis(100);

const MANY_FOLDERS: usize = 5_000;
const MANY_BYTES: usize = 200;

/// How many files a rewind sets back.
const REWOUND: usize = 1_000;

pub fn rows() -> Vec<Row> {
    let (workspace, data) = (folder(), folder());
    let root = workspace.path().canonicalize().expect("the workspace");
    let mut noise = Noise::new(3);
    fill(&root, FOLDERS, FILE_BYTES, &mut noise);
    let mut kept = Kept::new(&root, data.path(), Ok(max_watches()));
    let mut rows = vec![kept.first(&root)];
    rows.push(kept.nothing_changed());
    rows.push(kept.by_hand(&root, &mut noise));
    rows.extend(kept.edits(&root, &mut noise));
    drop(kept);
    let data = folder();
    let mut kept = Kept::new(&root, data.path(), Err(Unwatched::Off));
    kept.take();
    let at_most = Duration::from_millis(15);
    rows.push(kept.unchanged(&root, "10,000", "1.2 ×, 15 ms", at_most));
    rows.push(rewind(&root));
    drop(kept);
    rows.extend(many(&mut noise));
    rows
}

fn fill(root: &Path, folders: usize, bytes: usize, noise: &mut Noise) {
    for folder in 0..folders {
        let folder = root.join(format!("d{folder}"));
        fs::create_dir(&folder).expect("make a folder");
        for file in 0..FILES_IN_EACH {
            fs::write(folder.join(format!("f{file}.rs")), noise.text(bytes)).expect("write");
        }
    }
    sleep(GRAIN);
}

/// A look at many files, and the memory that it takes to know them.
fn many(noise: &mut Noise) -> Vec<Row> {
    let (workspace, data) = (folder(), folder());
    let root = workspace.path().canonicalize().expect("the workspace");
    fill(&root, MANY_FOLDERS, MANY_BYTES, noise);
    let before = resident();
    let mut kept = Kept::new(&root, data.path(), Err(Unwatched::Off));
    kept.take();
    sleep(GRAIN);
    let row = kept.unchanged(&root, "100,000", "1.2 ×", Duration::MAX);
    let megabytes = resident().saturating_sub(before) / 1_000_000;
    let memory = Row::new("memory for 100,000 files", format!("{megabytes} MB"));
    vec![row, memory.target("40 MB", megabytes <= 40)]
}

/// Bytes of this process that are in memory.
fn resident() -> u64 {
    let pages = fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages = pages.split(' ').nth(1).and_then(|pages| pages.parse().ok());
    pages.unwrap_or(0_u64) * 4_096
}

/// Files set back to other contents, against files that are overwritten with them.
fn rewind(root: &Path) -> Row {
    let mut contents: BTreeMap<ContentHash, Vec<u8>> = BTreeMap::new();
    let (mut before, mut target) = (Tree::default(), Tree::default());
    let mut paths = Vec::new();
    each(root, &mut |path| paths.push(path.clone()));
    for path in paths.iter().take(REWOUND) {
        let old = fs::read(path).expect("read");
        let new = [&old[..], b"as it was"].concat();
        let name = path.strip_prefix(root).expect("below the root");
        let name = name.as_os_str().as_encoded_bytes().to_vec();
        for (tree, content) in [(&mut before, old), (&mut target, new)] {
            let hash = *blake3::hash(&content).as_bytes();
            let (mode, bytes) = (0o644, content.len() as u64);
            tree.0
                .insert(name.clone(), Item::File { mode, hash, bytes });
            contents.insert(hash, content);
        }
    }
    let mut times = (Times::default(), Times::default());
    for turn in 0..5 {
        let (from, to) = if turn % 2 == 0 {
            (&before, &target)
        } else {
            (&target, &before)
        };
        for (path, item) in &from.0 {
            let content = &contents[item.content().expect("a file")];
            fs::write(root.join(String::from_utf8_lossy(path).as_ref()), content).expect("write");
        }
        times.0.time(|| {
            for (path, item) in &from.0 {
                let content = &contents[item.content().expect("a file")];
                fs::write(root.join(String::from_utf8_lossy(path).as_ref()), content)
                    .expect("write");
            }
            rustix::fs::syncfs(fs::File::open(root).expect("the root")).expect("sync");
        });
        let done = times.1.time(|| {
            restore(&mut Order {
                root,
                before: from,
                target: to,
                id: "0123456789abcdef",
                content: &mut |hash| Ok(contents.get(hash).cloned()),
                at: &mut |_| Ok(()),
            })
        });
        assert_eq!(done.expect("it is not cut short").written.len(), REWOUND);
    }
    let ratio = ratio(times.1.median(), times.0.median());
    Row::new("1,000 files set back, durable", ms(times.1.median()))
        .beside(format!("overwritten and synced {}", ms(times.0.median())))
        .ratio(ratio)
        .target("6 ×", ratio <= 6.0)
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
    fn new(root: &Path, data: &Path, watch: Result<usize, Unwatched>) -> Kept {
        let keeping = Keeping {
            coverage: Coverage::new(root.to_path_buf(), Vec::new(), &[], &[]).expect("no globs"),
            only_written: None,
            wait: Duration::from_secs(600),
            max_bytes: u64::MAX,
            data_dir: data.to_path_buf(),
            watch,
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

    fn look(&self, scope: SnapshotScope) -> Option<NewTree> {
        self.look_at(scope, Cause::Call)
    }

    fn look_at(&self, scope: SnapshotScope, cause: Cause) -> Option<NewTree> {
        let wish = SnapshotRequest {
            last: self.last.clone(),
            cause,
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
                clock: None,
            }],
            tree,
            ..Batch::default()
        };
        let Fresh { store, head, .. } = &mut self.fresh;
        store.append(head, &batch).expect("append");
    }

    fn stored(&self) -> u64 {
        self.fresh
            .store
            .snapshots()
            .files_bytes()
            .expect("what is stored")
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
        let (since, cpu) = (Instant::now(), own_cpu());
        let tree = self.look(SnapshotScope::All);
        self.record(tree);
        let (ours, cpu) = (since.elapsed(), own_cpu().saturating_sub(cpu));
        Row::new("first snapshot of 10,000 files of 8 KB, CPU", ms(cpu))
            .beside(format!(
                "it took {}; read all and hash {}; {} MB are stored as {} MB",
                ms(ours),
                ms(floor),
                bytes / 1_000_000,
                self.stored() / 1_000_000
            ))
            .ratio(ratio(ours, floor))
            .target("1.5 s", cpu <= Duration::from_millis(1_500))
    }

    fn take(&mut self) {
        let tree = self.look(SnapshotScope::All);
        self.record(tree);
    }

    /// With the watch: what is added to a checkpoint when nothing changed.
    fn nothing_changed(&mut self) -> Row {
        let (mut ours, mut floor) = (Times::default(), Times::default());
        for _ in 0..EDITS {
            floor.time(|| self.record(None));
            ours.time(|| {
                let tree = self.look_at(SnapshotScope::All, Cause::Outside);
                self.record(tree);
            });
        }
        let added = ours.median().saturating_sub(floor.median());
        let mut alone = Times::default();
        for _ in 0..EDITS {
            let tree = alone.time(|| self.look_at(SnapshotScope::All, Cause::Outside));
            assert!(tree.is_none(), "nothing has changed");
        }
        Row::new(
            "added to a checkpoint when nothing changed, watched",
            ms(added),
        )
        .beside(format!(
            "the checkpoint alone {}; the look alone {}",
            ms(floor.median()),
            ms(alone.median())
        ))
        .target("0.1 ms", added <= Duration::from_micros(100))
    }

    /// With the watch: one file that was changed by hand.
    fn by_hand(&mut self, root: &Path, noise: &mut Noise) -> Row {
        let path = root.join("d8/f8.rs");
        let mut content = fs::read_to_string(&path).expect("read");
        let (mut ours, mut floor) = (Times::default(), Times::default());
        for edit in 0..EDITS {
            floor.time(|| self.record(None));
            let at = (edit * 37) % (FILE_BYTES - 200);
            content.replace_range(at..at + 40, &noise.text(40));
            fs::write(&path, &content).expect("write");
            ours.time(|| {
                let tree = self.look_at(SnapshotScope::All, Cause::Outside);
                assert!(tree.is_some(), "it has changed");
                self.record(tree);
            });
        }
        let added = ours.median().saturating_sub(floor.median());
        Row::new("added by one 8 KB file changed by hand, watched", ms(added))
            .beside(format!("the checkpoint alone {}", ms(floor.median())))
            .target("1 ms", added <= Duration::from_millis(1))
    }

    fn unchanged(
        &mut self,
        root: &Path,
        count: &str,
        target: &'static str,
        at_most: Duration,
    ) -> Row {
        let (mut ours, mut floor) = (Times::default(), Times::default());
        assert!(
            self.look(SnapshotScope::All).is_none(),
            "nothing has changed"
        );
        for _ in 0..LOOKS {
            floor.time(|| each(root, &mut |path| drop(fs::symlink_metadata(path))));
            let tree = ours.time(|| self.look(SnapshotScope::All));
            assert!(tree.is_none(), "nothing has changed");
        }
        let ratio = ratio(ours.median(), floor.median());
        Row::new(
            format!("a look at {count} files that are unchanged, not watched"),
            ms(ours.median()),
        )
        .beside(format!("walk and lstat {}", ms(floor.median())))
        .ratio(ratio)
        .target(target, ratio <= 1.2 && ours.median() <= at_most)
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
                let tree = self.look(SnapshotScope::Written(path.clone()));
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
