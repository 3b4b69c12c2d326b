//! The thread that looks after the files: what it knows of the disk and of the log, and how it
//! brings the two together.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::sync::mpsc::Receiver;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use super::kept::{Kept, MAX_COUNT_WITH_ENTRY, MAX_WITH_ENTRY};
use super::{Keeping, QueuedAhead, Request, Scope, Snapshot, Wish};
use crate::core::tree::{Change, CompactTree, ContentHash, Delta, Item, Tree};
use crate::store::contents::{self, Gathered, NewContent};
use crate::store::{Cause, NewTree, PackWriter, Store, TreeLink, WorkspaceLock};
use crate::workspace::files::{
    Cache, Content, Dirty, Progress, Stopped, Unwatched, Wanted, Watch, guard, item_at, one, verify,
};

/// Of a file that a tool writes: no tool writes a larger one.
const MAX_WRITTEN_BYTES: u64 = 16 << 20;

/// A look at everything that took no longer is not spared behind a command.
const CHEAP: Duration = Duration::from_millis(2);

/// What the thread knows.
pub(super) struct Keeper {
    keeping: Keeping,
    progress: Arc<Progress>,
    grain: Duration,
    store: Option<Store>,
    packs: PackWriter,
    cache: Cache,
    /// A look at everything came to its end: what lies on the disk is what is in `tree` and
    /// `pending`.
    is_found: bool,
    /// The tree that is recorded; where none is, what the first look found.
    tree: CompactTree,
    /// What changed on the disk since.
    pending: Delta,
    recorded: Option<TreeLink>,
    /// The tree that was given out, which `pending` leads to: whether it was recorded, the next
    /// wish tells.
    offered: Option<TreeLink>,
    gathered: Gathered,
    /// What all that is kept takes, as stored. `None`: not looked at yet.
    stored: Option<u64>,
    /// Why only what tools write is kept from here on, until it is said.
    unsaid: Option<String>,
    watch: Result<Watch, Unwatched>,
    /// How long the last look at everything took. `None`: what the watch does not tell of may
    /// have changed.
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
                // Whoever asked went on without it.
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

    pub(super) fn take(&mut self, wish: &Wish) -> Result<Snapshot, String> {
        // While another session sets files back, they are neither one nor the other.
        let lock = WorkspaceLock::shared(&self.keeping.data_dir, &self.keeping.coverage.root);
        drop(lock.map_err(|e| e.to_string())?);
        self.prepare(wish)?;
        let looked = match &wish.scope {
            Scope::Written(path) if self.is_found => self.look_at(path),
            Scope::All | Scope::AllAnd(_) | Scope::Written(_) => self.look(wish),
        };
        // Found out while nobody waited, perhaps: it is said once.
        if let Some(why) = self.unsaid.take() {
            return Err(why);
        }
        looked?;
        let written = match &wish.scope {
            Scope::All => &[][..],
            Scope::AllAnd(paths) => paths,
            Scope::Written(path) => std::slice::from_ref(path),
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
            // A workspace in which nothing is looked after until a tool writes.
            None if self.keeping.only_written.is_some() && wish.scope == Scope::All => {
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

    /// Knows the tree that the log names last, and whether there is room.
    fn prepare(&mut self, wish: &Wish) -> Result<(), String> {
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
            // The last one of the workspace, which the log does not name yet.
            (Some(_), None) => true,
            (None, _) => false,
        };
        if is_known {
            return Ok(());
        }
        let root = self.keeping.coverage.root.clone();
        let store = self.store()?;
        let is_of_root = |name: &&String| {
            let of = store.tree_root(name);
            // What cannot be read is met again below.
            of.map_or(true, |of| of.is_none_or(|of| of == root))
        };
        // A tree of another folder says nothing of this one.
        let named = match wish.last.as_ref().filter(is_of_root) {
            Some(last) => store.tree(last),
            None => store.last_tree(&root),
        };
        // One that is gone or damaged is begun anew.
        let recorded = named.unwrap_or_else(|error| {
            tracing::warn!(%error, "a tree cannot be read");
            None
        });
        let stored = store.files_bytes().map_err(|e| e.to_string())?;
        self.stored = Some(stored);
        // Where only what tools write is kept, an older tree says too much of the rest.
        let only_written = self.keeping.only_written.is_some();
        let recorded = recorded.filter(|r| !only_written || !has_covered(&r.tree));
        let (link, mut tree) = match recorded {
            Some(known) => (Some(known.link), CompactTree::from(&known.tree)),
            None => (None, CompactTree::default()),
        };
        // All that is known of the disk may differ from it. Before the first look nothing is.
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

    /// Finds what changed since the last look.
    fn look(&mut self, wish: &Wish) -> Result<(), String> {
        if self.keeping.only_written.is_some() {
            return Ok(());
        }
        self.store()?;
        let dirty = self
            .watch
            .as_mut()
            .map_or_else(|_| Dirty::All, Watch::changed);
        let is_whole = dirty == Dirty::All || self.is_wanted_whole(wish);
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
            let mut kept = Kept {
                store,
                packs,
                gathered,
                stored,
                max_bytes: keeping.max_bytes,
            };
            kept.keep(content.hash, content.bytes, content.before, is_first)
        };
        let wanted = Wanted {
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
            // What it did not come to is looked at by the next one.
            (Err(_), _) => None,
        };
        self.give_up_watch();
        looked.map_err(|stopped| self.stopped(stopped))
    }

    /// Everything was found: what of it differs from the tree that is recorded is found by the
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

    /// Whether a look is at everything, though the kernel tells what changed. It is trusted
    /// between two such looks only.
    fn is_wanted_whole(&self, wish: &Wish) -> bool {
        let Some(took) = self.whole_took else {
            return true;
        };
        match wish.cause {
            Cause::Target | Cause::Restored => true,
            Cause::Call => wish.is_whole || took <= CHEAP,
            Cause::First | Cause::Outside => wish.is_whole,
        }
    }

    /// A watch that is of no use is given up. It is said when a person can do something about it.
    fn give_up_watch(&mut self) {
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

    /// What lies at a covered path, if everything was found once.
    fn now(&self, at: &[u8]) -> Option<Item> {
        match self.pending.0.get(at) {
            _ if !self.is_found => None,
            Some(Change::Put { item, .. }) => Some(item.clone()),
            Some(Change::Gone { .. }) => None,
            None => self.tree.get(at),
        }
    }

    /// Looks at one covered path, as the look at all of them would. What is not covered is no
    /// matter of this.
    fn look_at(&mut self, path: &Path) -> Result<(), String> {
        let found = one(&self.keeping.coverage, path).map_err(|e| e.to_string())?;
        let Some((at, found)) = found else {
            return Ok(());
        };
        // Something on the way that is only named: another file system, perhaps.
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
        self.store()?;
        let Some(store) = &mut self.store else {
            return Ok(());
        };
        let mut kept = Kept {
            store,
            packs: &mut self.packs,
            gathered: &mut self.gathered,
            stored: &mut self.stored,
            max_bytes: self.keeping.max_bytes,
        };
        kept.keep(hash, bytes, before, false)
    }

    /// Nothing that is covered is known any more.
    fn forget_look(&mut self) {
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
                    "there are over {limit} files (files.max_files): only what file tools write is kept"
                );
                // To look again and again would find the same.
                self.keeping.only_written = Some(why.clone());
                self.unsaid = Some(why.clone());
                self.watch = Err(Unwatched::Off);
                self.forget_look();
                why
            }
            stopped => stopped.to_string(),
        }
    }

    /// A file that a tool writes: kept wherever it is. What is covered was looked at already.
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

    /// What changed back is no change.
    fn forget_unchanged(&mut self) {
        let tree = &self.tree;
        self.pending.0.retain(|path, change| match change {
            Change::Put { item, .. } => tree.get(path).as_ref() != Some(item),
            Change::Gone { .. } => tree.get(path).is_some(),
        });
    }

    /// What is too much to go with an entry is kept now.
    fn shed(&mut self) -> Result<(), String> {
        let gathered = &self.gathered;
        if gathered.contents.len() <= MAX_COUNT_WITH_ENTRY && gathered.bytes() <= MAX_WITH_ENTRY {
            return Ok(());
        }
        self.store()?;
        match &mut self.store {
            Some(store) => {
                let mut kept = Kept {
                    store,
                    packs: &mut self.packs,
                    gathered: &mut self.gathered,
                    stored: &mut self.stored,
                    max_bytes: self.keeping.max_bytes,
                };
                kept.keep_before(true).map_err(|e| e.to_string())
            }
            None => Ok(()),
        }
    }

    /// The contents that go with the tree: large ones are durable in a pack by now.
    fn carried(&mut self) -> Result<Vec<NewContent>, String> {
        let failed = |e: crate::store::StoreError| e.to_string();
        let packed = self.gathered.pack_over(contents::MAX_ROW, &mut self.packs);
        packed.map_err(failed)?;
        Ok(self.gathered.contents.clone())
    }
}

/// Tools wrote this, wherever it is: of what is covered the paths begin below the root.
fn is_written(path: &[u8]) -> bool {
    path.starts_with(b"/")
}

fn has_covered(tree: &Tree) -> bool {
    tree.0.keys().any(|path| !is_written(path))
}

/// Without what tools wrote.
fn covered(mut delta: Delta) -> Delta {
    delta.0.retain(|path, _| !is_written(path));
    delta
}

#[cfg(test)]
mod tests;
