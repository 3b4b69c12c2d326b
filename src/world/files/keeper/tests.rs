//! Tests of the results of the snapshot thread, without the thread.

use std::fs;
use std::path::PathBuf;
use std::sync::atomic::Ordering;

use super::*;
use crate::core::entry::{Entry, Mode, PromptPrefix, SaveReason};
use crate::core::tree::diff;
use crate::store::{Batch, Head, NewSession, new_id};
use crate::workspace::files::{Coverage, max_watches};
use tempfile::TempDir;

/// A workspace, and the log in which its trees are recorded.
struct Kept {
    root: TempDir,
    keeper: Keeper,
    store: Store,
    head: Head,
    last: Option<String>,
    cause: Cause,
    _data: TempDir,
}

impl Kept {
    fn new(files: &[(&str, &str)]) -> Kept {
        Kept::keeping_in(TempDir::new().unwrap(), files)
    }

    fn keeping_in(data: TempDir, files: &[(&str, &str)]) -> Kept {
        let root = TempDir::new().unwrap();
        let real = root.path().canonicalize().unwrap();
        for (name, content) in files {
            fs::create_dir_all(real.join(name).parent().unwrap()).unwrap();
            fs::write(real.join(name), content).unwrap();
        }
        let mut store = Store::open(data.path()).unwrap();
        let new = NewSession {
            id: new_id(),
            workspace: real.display().to_string(),
            folder: real.display().to_string(),
        };
        let opened = Entry::Opened {
            folder: "/w".into(),
            version: "0".into(),
            model: "a/b".into(),
            mode: Mode::Default,
            layers: PromptPrefix::default(),
            imported: None,
        };
        let (head, _) = store.create(&new, 0, opened).unwrap();
        let keeping = Keeping {
            coverage: Coverage::new(real, Vec::new(), &[], &[]).unwrap(),
            only_written: None,
            wait: Duration::MAX,
            max_bytes: u64::MAX,
            data_dir: data.path().to_path_buf(),
            watch: Ok(max_watches()),
        };
        Kept {
            root,
            keeper: Keeper::new(keeping, Arc::default(), Arc::default()),
            store,
            head,
            last: None,
            cause: Cause::Call,
            _data: data,
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.root.path().canonicalize().unwrap().join(name)
    }

    fn write(&self, name: &str, content: &str) {
        fs::write(self.path(name), content).unwrap();
    }

    /// Takes a snapshot and records it. Returns the paths that differ from the one before.
    fn take(&mut self, scope: SnapshotScope) -> Vec<String> {
        self.tried(scope).unwrap()
    }

    /// Does the same, and returns the reason of a failure.
    fn tried(&mut self, scope: SnapshotScope) -> Result<Vec<String>, String> {
        let before = self.tree();
        let wish = SnapshotRequest {
            last: self.last.clone(),
            cause: self.cause,
            scope,
            live: None,
            at_most: Duration::MAX,
            is_whole: false,
        };
        match self.keeper.take(&wish)? {
            Snapshot::New(tree) => {
                let name = tree.name();
                let entry = Entry::Saved {
                    reason: SaveReason::Files,
                    tree: Some(name.clone()),
                    why: None,
                    clock: None,
                };
                let batch = Batch {
                    at_ms: 1,
                    entries: vec![entry],
                    tree: Some(*tree),
                    ..Batch::default()
                };
                let recorded = self.store.append(&mut self.head, &batch);
                recorded.map_err(|e| format!("not recorded: {e}"))?;
                self.last = Some(name);
            }
            Snapshot::Same(name) => assert_eq!(Some(name), self.last),
            other => panic!("{other:?}"),
        }
        let changed = diff(&before, &self.tree());
        let paths = changed.0.keys().map(|path| String::from_utf8_lossy(path));
        Ok(paths.map(|path| path.into_owned()).collect())
    }

    fn take_written(&mut self, name: &str) -> Vec<String> {
        self.take(SnapshotScope::Written(self.path(name)))
    }

    fn tree(&self) -> Tree {
        let last = self.last.as_ref();
        let known = last.map(|last| self.store.snapshots().tree(last).unwrap().unwrap());
        known.map(|known| known.tree).unwrap_or_default()
    }
}

#[test]
fn a_snapshot_after_an_edit_scans_only_its_path() {
    let mut kept = Kept::new(&[("a", "1"), ("b", "1"), (".gitignore", "out/\n")]);
    assert_eq!(kept.take(SnapshotScope::All), [".gitignore", "a", "b"]);
    kept.write("a", "by the edit");
    kept.write("b", "by hand");
    assert_eq!(kept.take_written("a"), ["a"]);
    assert_eq!(kept.take(SnapshotScope::All), ["b"]);
    assert_eq!(kept.take(SnapshotScope::All), Vec::<String>::new());
}

/// Before the first full scan.
#[test]
fn a_deletion_right_after_an_edit_is_found() {
    let mut kept = Kept::new(&[("a", "1"), ("b", "1"), (".gitignore", "out/\n")]);
    kept.take(SnapshotScope::All);
    for made in ["made", "new/folder/made"] {
        fs::create_dir_all(kept.path("new/folder")).unwrap();
        kept.write(made, "by the edit");
        assert_eq!(kept.take_written(made), [made]);
        fs::remove_file(kept.path(made)).unwrap();
        assert_eq!(kept.take(SnapshotScope::All), [made], "it was removed");
    }
    // With all of its parent folders.
    kept.write("new/folder/made", "by the edit");
    kept.take_written("new/folder/made");
    fs::remove_dir_all(kept.path("new")).unwrap();
    assert_eq!(kept.take(SnapshotScope::All), ["new/folder/made"]);
    kept.write("a", "by the edit");
    assert_eq!(kept.take_written("a"), ["a"]);
    kept.write("a", "1");
    assert_eq!(kept.take(SnapshotScope::All), ["a"], "it was changed back");
    fs::remove_file(kept.path("b")).unwrap();
    assert_eq!(kept.take_written("b"), ["b"]);
    kept.write("b", "1");
    assert_eq!(kept.take(SnapshotScope::All), ["b"], "it was made anew");
    assert_eq!(kept.take(SnapshotScope::All), Vec::<String>::new());
}

#[test]
fn files_created_or_deleted_by_an_edit_are_found() {
    let mut kept = Kept::new(&[("a", "1"), (".gitignore", "out/\n")]);
    kept.take(SnapshotScope::All);
    fs::create_dir_all(kept.path("new/deep")).unwrap();
    kept.write("new/deep/file", "2");
    assert_eq!(kept.take_written("new/deep/file"), ["new/deep/file"]);
    fs::remove_file(kept.path("a")).unwrap();
    assert_eq!(kept.take_written("a"), ["a"]);
    assert_eq!(kept.take(SnapshotScope::All), Vec::<String>::new());
    let names: Vec<_> = kept.tree().0.into_keys().collect();
    assert_eq!(names, [b".gitignore".to_vec(), b"new/deep/file".to_vec()]);
}

#[test]
fn an_edit_of_what_is_not_covered_is_kept_by_its_whole_path() {
    let mut kept = Kept::new(&[("a", "1"), (".gitignore", "out/\n"), (".env", "K=1")]);
    kept.take(SnapshotScope::All);
    fs::create_dir(kept.path("out")).unwrap();
    for name in ["out/file", ".git/hooks", ".env"] {
        fs::create_dir_all(kept.path(name).parent().unwrap()).unwrap();
        kept.take(SnapshotScope::AllAnd(vec![kept.path(name)]));
        kept.write(name, "2");
        let whole = kept.path(name).display().to_string();
        let found = kept.take_written(name);
        assert!(found.contains(&whole), "{name}: {found:?}");
        // For a secret the hash is known as well.
        assert_eq!(found.len(), if name == ".env" { 2 } else { 1 }, "{name}");
    }
    assert_eq!(kept.take(SnapshotScope::All), Vec::<String>::new());
}

#[test]
fn an_edit_before_the_first_look_has_everything_looked_at() {
    let mut kept = Kept::new(&[("a", "1"), ("b", "1")]);
    assert_eq!(kept.take_written("a"), ["a", "b"]);
}

/// Between two full scans only the paths that the kernel reported are scanned, so no report may be
/// lost.
#[cfg(target_os = "linux")]
#[test]
fn a_full_scan_follows_an_interrupted_scan() {
    let mut kept = Kept::new(&[("a", "1"), ("b", "1"), ("sub/c", "1")]);
    kept.take(SnapshotScope::All);
    kept.cause = Cause::Outside;
    kept.write("a", "2");
    kept.write("sub/c", "2");
    kept.keeper.progress.cancel.store(true, Ordering::Relaxed);
    let wish = SnapshotRequest {
        last: kept.last.clone(),
        cause: Cause::Outside,
        scope: SnapshotScope::All,
        live: None,
        at_most: Duration::MAX,
        is_whole: false,
    };
    assert!(kept.keeper.take(&wish).is_err());
    kept.keeper.progress.cancel.store(false, Ordering::Relaxed);
    assert_eq!(kept.take(SnapshotScope::All), ["a", "sub/c"]);
    assert_eq!(kept.take(SnapshotScope::All), Vec::<String>::new());
}

#[cfg(target_os = "linux")]
#[test]
fn too_few_watches_cause_full_scans_and_one_warning() {
    let mut kept = Kept::new(&[("a", "1"), ("one/b", "1"), ("two/c", "1")]);
    kept.keeper.watch = Watch::new(2);
    kept.cause = Cause::Outside;
    kept.take(SnapshotScope::All);
    let said = kept.keeper.said.lock().unwrap().take().unwrap();
    assert!(
        said.contains("it has over 2 folders; leave folders out") && said.lines().count() == 1,
        "{said}"
    );
    kept.write("two/c", "2");
    assert_eq!(kept.take(SnapshotScope::All), ["two/c"]);
    assert_eq!(*kept.keeper.said.lock().unwrap(), None);
}

/// The kernel does not report a write to a hard link elsewhere.
#[cfg(target_os = "linux")]
#[test]
fn changes_the_kernel_does_not_report_are_found_by_a_full_scan() {
    let mut kept = Kept::new(&[("a", "1")]);
    let elsewhere = TempDir::new().unwrap();
    let link = elsewhere.path().join("link");
    fs::hard_link(kept.path("a"), &link).unwrap();
    kept.take(SnapshotScope::All);
    kept.cause = Cause::Outside;
    fs::write(&link, "other").unwrap();
    assert_eq!(kept.take(SnapshotScope::All), Vec::<String>::new());
    kept.cause = Cause::Target;
    assert_eq!(kept.take(SnapshotScope::All), ["a"]);
}

#[test]
fn an_incomplete_first_scan_yields_no_tree() {
    let files = [("a", "1"), ("b", "2"), ("c", "3")];
    let mut kept = Kept::new(&files);
    // Space for the first of them only.
    kept.keeper.keeping.max_bytes = 1;
    let wish = |scope| SnapshotRequest {
        last: None,
        cause: Cause::Call,
        scope,
        live: None,
        at_most: Duration::MAX,
        is_whole: false,
    };
    assert!(kept.keeper.take(&wish(SnapshotScope::All)).is_err());
    let written = SnapshotScope::Written(kept.path("a"));
    assert!(kept.keeper.take(&wish(written)).is_err());
    kept.keeper.keeping.max_bytes = u64::MAX;
    assert_eq!(kept.take(SnapshotScope::All), ["a", "b", "c"]);
}

#[test]
fn a_tree_that_was_not_recorded_leaves_its_changes_to_the_next() {
    let mut kept = Kept::new(&[("a", "1"), ("b", "1")]);
    kept.take(SnapshotScope::All);
    let first = kept.last.clone();
    kept.write("a", "2");
    let wish = SnapshotRequest {
        last: first.clone(),
        cause: Cause::Call,
        scope: SnapshotScope::All,
        live: None,
        at_most: Duration::MAX,
        is_whole: false,
    };
    assert!(matches!(kept.keeper.take(&wish), Ok(Snapshot::New(_))));
    kept.write("b", "2");
    assert_eq!(kept.take(SnapshotScope::All), ["a", "b"]);
    // The log continues from an earlier tree.
    kept.last = first;
    assert_eq!(kept.take(SnapshotScope::All), ["a", "b"]);
    assert_eq!(kept.take(SnapshotScope::All), Vec::<String>::new());
}

/// A separate file system, which root can mount.
struct Small(PathBuf);

impl Small {
    fn mount(folder: &Path, kilobytes: u64) -> Option<Small> {
        let mut mount = std::process::Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", &format!("size={kilobytes}k"), "none"]);
        let done = mount.arg(folder).output();
        let is_mounted = done.is_ok_and(|done| done.status.success());
        is_mounted.then(|| Small(folder.to_path_buf()))
    }

    /// Fills the disk except for `bytes` bytes.
    fn leave(&self, bytes: u64) {
        let found = rustix::fs::statvfs(&self.0).unwrap();
        let free = found.f_bavail * found.f_frsize;
        let taken = usize::try_from(free.saturating_sub(bytes)).unwrap();
        fs::write(self.0.join("taken"), vec![b'x'; taken]).unwrap();
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        let mut unmount = std::process::Command::new("umount");
        let _ = unmount.arg("-l").arg(&self.0).output();
    }
}

fn noise(seed: u64, len: usize) -> String {
    let seed = seed.to_le_bytes();
    let mut reader = blake3::Hasher::new().update(&seed).finalize_xof();
    let mut bytes = vec![0; len];
    reader.fill(&mut bytes);
    bytes
        .iter()
        .map(|byte| char::from(b' ' + byte % 94))
        .collect()
}

/// If the disk becomes full at any point (in the pack, in the rows, in the record), that is
/// reported. With space again everything is stored unchanged.
#[test]
fn a_full_disk_during_a_snapshot_is_reported_and_loses_nothing() {
    const KB: u64 = 1024;
    let mut met = std::collections::BTreeSet::new();
    // Contents for rows before the record, for rows with the record, and for packs.
    for (count, size) in [(300, 3_000), (15, 12_000), (8, 120_000)] {
        let files: Vec<(String, String)> = (0_u64..)
            .take(count)
            .map(|n| (format!("f{n}"), noise(n, size)))
            .collect();
        let needed = files.iter().map(|(_, text)| text.len() as u64).sum::<u64>();
        let mut left = 210 * KB;
        while left < needed + 600 * KB {
            let data = TempDir::new().unwrap();
            let Some(small) = Small::mount(data.path(), 4_096) else {
                eprintln!("not tested: no file system can be mounted here");
                return;
            };
            let mut kept = Kept::keeping_in(data, &[("first", "1")]);
            kept.take(SnapshotScope::All);
            for (name, text) in &files {
                kept.write(name, text);
            }
            small.leave(left);
            let tried = kept.tried(SnapshotScope::All);
            if let Err(why) = &tried {
                let is_full = why.contains("full") || why.contains("No space");
                assert!(is_full, "{why}");
                met.insert(match why {
                    why if why.contains("write below") => "pack",
                    why if why.contains("not recorded") => "record",
                    _ => "rows",
                });
                // The earlier state is still known.
                assert_eq!(kept.tree().0.len(), 1);
            }
            fs::remove_file(small.0.join("taken")).unwrap();
            let found = match tried {
                Ok(found) => found,
                Err(_) => kept.take(SnapshotScope::All),
            };
            assert_eq!(found.len(), files.len(), "{left}");
            let tree = kept.tree();
            for (name, text) in &files {
                let hash = *tree.0[name.as_bytes()].content().unwrap();
                let content = kept.store.snapshots().content(&hash).unwrap();
                let is_kept = content.as_deref() == Some(text.as_bytes());
                assert!(is_kept, "{name} with {left} bytes left");
            }
            left += 120 * KB;
        }
    }
    assert!(met.contains("pack") && met.contains("rows"), "{met:?}");
    assert!(met.contains("record"), "{met:?}");
}
