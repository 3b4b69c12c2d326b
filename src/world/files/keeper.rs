//! The state of the snapshot thread: it knows the disk and the log, and reconciles the two.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::sync::mpsc::Receiver;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use super::kept::{ContentStorer, MAX_COUNT_WITH_ENTRY, MAX_WITH_ENTRY};
use super::{Keeping, QueuedAhead, Request, Snapshot, SnapshotRequest, SnapshotScope};
use crate::core::tree::{Change, CompactTree, ContentHash, Delta, Item, Tree};
use crate::store::contents::{self, Gathered, NewContent};
use crate::store::{Cause, NewTree, PackWriter, Store, TreeLink, WorkspaceLock};
use crate::workspace::files::{
    Cache, Content, Dirty, Progress, ScanSettings, Stopped, Unwatched, Watch, guard, item_at, one,
    verify,
};

/// Maximum size of a file that a tool writes; no tool writes a larger one.
const MAX_WRITTEN_BYTES: u64 = 16 << 20;

/// A full scan that took no longer is also done after a command.
const CHEAP: Duration = Duration::from_millis(2);

/// The state of the snapshot thread.
pub(super) struct Keeper {
    keeping: Keeping,
    progress: Arc<Progress>,
    grain: Duration,
    store: Option<Store>,
    packs: PackWriter,
    cache: Cache,
    /// Whether a full scan was completed, so that `tree` and `pending` describe the disk.
    is_found: bool,
    /// The recorded tree, or without one, the result of the first scan.
    tree: CompactTree,
    /// The changes on the disk since then.
    pending: Delta,
    recorded: Option<TreeLink>,
    /// The tree that was returned last, which `pending` leads to. The next request tells whether it
    /// was recorded.
    offered: Option<TreeLink>,
    gathered: Gathered,
    /// The size of all stored contents; `None` if it is not determined yet.
    stored: Option<u64>,
    /// The reason why only files that tools write are stored from here on, until it was reported.
    unsaid: Option<String>,
    watch: Result<Watch, Unwatched>,
    /// Duration of the last full scan. `None`: paths that the watch does not report may have
    /// changed.
    whole_took: Option<Duration>,
    said: Arc<Mutex<Option<String>>>,
}

impl Keeper {
    pub(super) fn new(
        keeping: Keeping,
        progress: Arc<Progress>,
        said: Arc<Mutex<Option<String>>>,
    ) -> Keeper {
        Keeper {
            watch: match keeping.only_written {
                Some(_) => Err(Unwatched::Off),
                None => keeping.watch.clone().and_then(Watch::new),
            },
            whole_took: None,
            said,
            grain: guard::grain(&keeping.coverage.root),
            packs: PackWriter::new(&keeping.data_dir),
            keeping,
            progress,
            store: None,
            cache: Cache::new(),
            is_found: false,
            tree: CompactTree::default(),
            pending: Delta::default(),
            recorded: None,
            offered: None,
            gathered: Gathered::default(),
            stored: None,
            unsaid: None,
        }
    }

    pub(super) fn serve(mut self, wished: &Receiver<Request>, ahead: &QueuedAhead) {
        while let Ok(Request { wish, reply }) = wished.recv() {
            match reply {
                // The requester continued without the snapshot.
                Some(reply) if reply.is_closed() => {}
                Some(reply) => {
                    let snapshot = self.take(&wish).unwrap_or_else(Snapshot::NotKept);
                    if let Err(Snapshot::New(_)) = reply.send(snapshot) {
                        self.offered = None;
                    }
                }
                None => {
                    ahead[usize::from(wish.is_whole)].store(false, Ordering::Relaxed);
                    let looked = self.prepare(&wish).and_then(|()| self.look(&wish));
                    if let Err(why) = looked.and_then(|()| self.shed()) {
                        tracing::debug!(why, "the files were not looked at");
                    }
                }
            }
        }
    }

    pub(super) fn take(&mut self, wish: &SnapshotRequest) -> Result<Snapshot, String> {
        // During a restore by another session, the files are in neither state.
        let lock = WorkspaceLock::shared(&self.keeping.data_dir, &self.keeping.coverage.root);
        drop(lock.map_err(|e| e.to_string())?);
        self.prepare(wish)?;
        let looked = match &wish.scope {
            SnapshotScope::Written(path) if self.is_found => self.look_at(path),
            SnapshotScope::All | SnapshotScope::AllAnd(_) | SnapshotScope::Written(_) => {
                self.look(wish)
            }
        };
        // The reason may date from a scan that nobody waited for; it is reported once.
        if let Some(why) = self.unsaid.take() {
            return Err(why);
        }
        looked?;
        let written = match &wish.scope {
            SnapshotScope::All => &[][..],
            SnapshotScope::AllAnd(paths) => paths,
            SnapshotScope::Written(path) => std::slice::from_ref(path),
        };
        for path in written {
            self.written(path)?;
        }
        self.shed()?;
        self.forget_unchanged();
        match &self.recorded {
            Some(recorded) if self.pending.is_empty() => {
                return Ok(Snapshot::Same(recorded.name.clone()));
            }
            // In this workspace nothing is recorded until a tool writes.
            None if self.keeping.only_written.is_some() && wish.scope == SnapshotScope::All => {
                return Ok(Snapshot::Off);
            }
            _ => {}
        }
        let contents = self.carried()?;
        let parent = self.recorded.as_ref();
        let cause = parent.map_or(Cause::First, |_| wish.cause);
        let (root, delta) = (&self.keeping.coverage.root, &self.pending);
        let new = NewTree::after(root, parent, &self.tree, delta, cause, contents);
        let mut new = new.map_err(|e| e.to_string())?;
        new.live.clone_from(&wish.live);
        self.offered = Some(new.link());
        Ok(Snapshot::New(Box::new(new)))
    }

    /// Loads the tree that the log names last, and checks that there is space.
    fn prepare(&mut self, wish: &SnapshotRequest) -> Result<(), String> {
        if let Some(why) = guard::nearly_full(&self.keeping.data_dir) {
            return Err(why);
        }
        if let Some(offered) = self.offered.take()
            && wish.last.as_ref() == Some(&offered.name)
        {
            let kept = self.gathered.bytes();
            self.stored = self.stored.map(|stored| stored + kept);
            self.gathered.clear();
            self.recorded = Some(offered);
            self.tree.apply(&std::mem::take(&mut self.pending));
        }
        let is_known = match (&self.recorded, &wish.last) {
            (Some(recorded), Some(last)) => recorded.name == *last,
            // The last tree of the workspace, which the log does not name yet.
            (Some(_), None) => true,
            (None, _) => false,
        };
        if is_known {
            return Ok(());
        }
        let root = self.keeping.coverage.root.clone();
        let store = self.store()?;
        let is_of_root = |name: &&String| {
            let of = store.snapshots().tree_root(name);
            // An error here occurs again below.
            of.map_or(true, |of| of.is_none_or(|of| of == root))
        };
        // A tree of another folder does not apply to this one.
        let named = match wish.last.as_ref().filter(is_of_root) {
            Some(last) => store.snapshots().tree(last),
            None => store.snapshots().last_tree(&root),
        };
        // If the tree is gone or damaged, a new one is made.
        let recorded = named.unwrap_or_else(|error| {
            tracing::warn!(%error, "a tree cannot be read");
            None
        });
        let stored = store.snapshots().files_bytes().map_err(|e| e.to_string())?;
        self.stored = Some(stored);
        // If only files that tools write are stored, an older tree has too many others.
        let only_written = self.keeping.only_written.is_some();
        let recorded = recorded.filter(|r| !only_written || !has_covered(&r.tree));
        let (link, mut tree) = match recorded {
            Some(known) => (Some(known.link), CompactTree::from(&known.tree)),
            None => (None, CompactTree::default()),
        };
        // Everything on the disk may differ from that tree. Before the first scan nothing is known.
        let mut now = std::mem::take(&mut self.tree);
        now.apply(&std::mem::take(&mut self.pending));
        if self.is_found {
            self.pending = covered(tree.diff(&mut now));
        }
        (self.recorded, self.tree) = (link, tree);
        Ok(())
    }

    fn store(&mut self) -> Result<&mut Store, String> {
        let store = match self.store.take() {
            Some(store) => store,
            None => Store::open(&self.keeping.data_dir).map_err(|e| e.to_string())?,
        };
        Ok(self.store.insert(store))
    }

    /// Finds the changes since the last scan.
    fn look(&mut self, wish: &SnapshotRequest) -> Result<(), String> {
        if self.keeping.only_written.is_some() {
            return Ok(());
        }
        self.store()?;
        let dirty = self
            .watch
            .as_mut()
            .map_or_else(|_| Dirty::All, Watch::changed);
        let is_whole = dirty == Dirty::All || self.needs_full_scan(wish);
        let is_first = !self.is_found;
        let since = Instant::now();
        let Keeper {
            keeping,
            progress,
            grain,
            store: Some(store),
            packs,
            cache,
            pending,
            gathered,
            stored,
            watch,
            ..
        } = self
        else {
            return Err("the store is not open".to_string());
        };
        let mut keep = |content: Content<'_>| {
            let mut kept = ContentStorer {
                store,
                packs,
                gathered,
                stored,
                max_bytes: keeping.max_bytes,
            };
            kept.keep(content.hash, content.bytes, content.before, is_first)
        };
        let wanted = ScanSettings {
            coverage: &keeping.coverage,
            grain: *grain,
            progress,
            watch: watch.as_mut().ok(),
            dirty,
            is_whole,
        };
        let pending = (!is_first).then_some(&mut pending.0);
        let looked = verify(wanted, cache, pending, &mut keep);
        if is_first && looked.is_ok() {
            self.found_first();
        }
        self.whole_took = match (&looked, is_whole) {
            (Ok(()), true) => Some(since.elapsed()),
            (Ok(()), false) => self.whole_took,
            // The next scan visits the remaining paths.
            (Err(_), _) => None,
        };
        self.drop_watch();
        looked.map_err(|stopped| self.stopped(stopped))
    }

    /// After the first full scan, finds its differences from the recorded tree by comparing the
    /// trees.
    fn found_first(&mut self) {
        let mut now = self.cache.tree();
        self.is_found = true;
        if self.recorded.is_some() {
            self.pending = covered(self.tree.diff(&mut now));
        } else {
            self.tree = now;
        }
    }

    /// Returns whether a scan must be full even if the kernel reports changes. Its reports are
    /// trusted only between two full scans.
    fn needs_full_scan(&self, wish: &SnapshotRequest) -> bool {
        let Some(took) = self.whole_took else {
            return true;
        };
        match wish.cause {
            Cause::Target | Cause::Restored => true,
            Cause::Call => wish.is_whole || took <= CHEAP,
            Cause::First | Cause::Outside => wish.is_whole,
        }
    }

    /// Gives up a watch that has become useless. This is reported if a person can do something
    /// about it.
    fn drop_watch(&mut self) {
        let Some(why) = self.watch.as_ref().ok().and_then(Watch::failed).cloned() else {
            return;
        };
        tracing::info!(%why, "changes are not told by the kernel");
        if let Some(hint) = why.hint()
            && let Ok(mut said) = self.said.lock()
        {
            *said = Some(format!(
                "every file of the workspace is looked at around each command, since not all folders \
                 can be watched: {why}; {hint}"
            ));
        }
        self.watch = Err(why);
    }

    /// Returns the item at a covered path, if a full scan was completed.
    fn now(&self, at: &[u8]) -> Option<Item> {
        match self.pending.0.get(at) {
            _ if !self.is_found => None,
            Some(Change::Put { item, .. }) => Some(item.clone()),
            Some(Change::Gone { .. }) => None,
            None => self.tree.get(at),
        }
    }

    /// Scans one covered path, as a full scan would. Ignores a path that is not covered.
    fn look_at(&mut self, path: &Path) -> Result<(), String> {
        let found = one(&self.keeping.coverage, path).map_err(|e| e.to_string())?;
        let Some((at, found)) = found else {
            return Ok(());
        };
        // A parent folder is only a marker, perhaps of another file system.
        let mut above = Path::new(OsStr::from_bytes(&at)).ancestors().skip(1);
        if above.any(|folder| self.now(folder.as_os_str().as_bytes()).is_some()) {
            return Ok(());
        }
        let before = self.now(&at);
        let Some((item, content)) = found else {
            self.cache.learn(&at, None);
            if before.is_some() {
                self.pending.0.insert(at, Change::Gone { left: false });
            }
            return Ok(());
        };
        if before.as_ref() == Some(&item) {
            return Ok(());
        }
        let before = before.as_ref().and_then(Item::content).copied();
        if let (Some(bytes), Some(hash)) = (content, item.content().copied()) {
            self.keep(hash, &bytes, before)?;
        }
        self.cache.learn(&at, Some(&item));
        self.pending.0.insert(at, Change::put(item));
        Ok(())
    }

    fn keep(
        &mut self,
        hash: ContentHash,
        bytes: &[u8],
        before: Option<ContentHash>,
    ) -> Result<(), String> {
        match self.storer()? {
            Some(mut kept) => kept.keep(hash, bytes, before, false),
            None => Ok(()),
        }
    }

    fn storer(&mut self) -> Result<Option<ContentStorer<'_>>, String> {
        self.store()?;
        Ok(self.store.as_mut().map(|store| ContentStorer {
            store,
            packs: &mut self.packs,
            gathered: &mut self.gathered,
            stored: &mut self.stored,
            max_bytes: self.keeping.max_bytes,
        }))
    }

    /// Forgets the state of all covered paths.
    fn forget_known_state(&mut self) {
        self.cache = Cache::new();
        self.is_found = false;
        self.pending = Delta::default();
        if self.recorded.is_none() {
            self.tree = CompactTree::default();
        }
    }

    fn stopped(&mut self, stopped: Stopped) -> String {
        match stopped {
            Stopped::TooMany(limit) => {
                let why = format!(
                    "over {limit} files (files.max_files): only files that rewake edits can be restored"
                );
                // Another scan would have the same result.
                self.keeping.only_written = Some(why.clone());
                self.unsaid = Some(why.clone());
                self.watch = Err(Unwatched::Off);
                self.forget_known_state();
                why
            }
            stopped => stopped.to_string(),
        }
    }

    /// Adds a file that a tool writes, inside or outside of the workspace. Covered files were
    /// already scanned.
    fn written(&mut self, path: &Path) -> Result<(), String> {
        let below = path.strip_prefix(&self.keeping.coverage.root).ok();
        let below = below.map(|below| below.as_os_str().as_bytes().to_vec());
        let is_kept = below.is_some_and(|at| matches!(self.now(&at), Some(Item::File { .. })));
        let at = path.as_os_str().as_bytes().to_vec();
        let recorded = self.tree.get(&at);
        if is_kept && recorded.is_none() {
            return Ok(());
        }
        let found =
            item_at(path, MAX_WRITTEN_BYTES).map_err(|e| format!("{}: {e}", path.display()))?;
        let before = recorded.as_ref().and_then(Item::content).copied();
        let Some((item, content)) = found else {
            self.pending.0.insert(at, Change::Gone { left: false });
            return Ok(());
        };
        if let (Some(bytes), Some(hash)) = (content, item.content().copied()) {
            self.keep(hash, &bytes, before)?;
        }
        self.pending.0.insert(at, Change::put(item));
        Ok(())
    }

    /// Removes changes that were undone.
    fn forget_unchanged(&mut self) {
        let tree = &self.tree;
        self.pending.0.retain(|path, change| match change {
            Change::Put { item, .. } => tree.get(path).as_ref() != Some(item),
            Change::Gone { .. } => tree.get(path).is_some(),
        });
    }

    /// Stores the contents now if they are too many or too large for the transaction of an entry.
    fn shed(&mut self) -> Result<(), String> {
        let gathered = &self.gathered;
        if gathered.contents.len() <= MAX_COUNT_WITH_ENTRY && gathered.bytes() <= MAX_WITH_ENTRY {
            return Ok(());
        }
        match self.storer()? {
            Some(mut kept) => kept.store_before_entry(true).map_err(|e| e.to_string()),
            None => Ok(()),
        }
    }

    /// Returns the contents for the transaction of the tree. Large ones are already durable in a
    /// pack.
    fn carried(&mut self) -> Result<Vec<NewContent>, String> {
        let failed = |e: crate::store::StoreError| e.to_string();
        let packed = self.gathered.pack_over(contents::MAX_ROW, &mut self.packs);
        packed.map_err(failed)?;
        Ok(self.gathered.contents.clone())
    }
}

/// Returns whether the path is of a file that tools wrote. Paths of covered files are relative to
/// the root.
fn is_written(path: &[u8]) -> bool {
    path.starts_with(b"/")
}

fn has_covered(tree: &Tree) -> bool {
    tree.0.keys().any(|path| !is_written(path))
}

/// Returns the changes without files that tools wrote.
fn covered(mut delta: Delta) -> Delta {
    delta.0.retain(|path, _| !is_written(path));
    delta
}

#[cfg(test)]
mod tests;
