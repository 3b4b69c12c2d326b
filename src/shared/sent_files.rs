//! The files of a shared session that a push carries: the state that an entry names, and what the
//! commit lacks of it. Git is asked by the caller.
//!
//! Invariant: the files never fail a push. If they cannot be read, the database keeps the last state.

use std::collections::{BTreeSet, HashSet};
use std::path::PathBuf;

use super::files::{Files, MAX_CONTENT, MAX_OBJECT, encode_tree, file_name, is_left_out};
use crate::core::rewind::is_never_written;
use crate::core::tree::{Change, ContentHash, Delta, Item, Marked, PathBytes};
use crate::store::shared::NewLines;
use crate::store::{Store, StoreError};

/// Maximum size of what a push carries after one failed, bytes: the network may be slow.
const MAX_AFTER_FAILURE: u64 = 4 << 20;
/// Number of errors of git in a row after which this process asks no more.
const MAX_ERRORS: u32 = 3;

/// The files of a workspace as git knows them.
#[derive(Debug, Default)]
pub struct GitFiles {
    pub base: String,
    pub head: String,
    /// A git bundle of the commits between the two, unless the caller has it.
    pub bundle: Option<Vec<u8>>,
    /// Paths that are as in `base`.
    pub unchanged: BTreeSet<PathBytes>,
    /// Paths of `base` or `head` that were deleted.
    pub deleted: BTreeSet<PathBytes>,
    /// Folders of submodules.
    pub submodules: BTreeSet<PathBytes>,
}

/// The commits whose bundle was sent: base, head and its hash.
type SentCommits = (String, String, ContentHash);

/// Asks git. It gets the commits that were sent, and the maximum size of a bundle in bytes.
pub type AskGit = Box<dyn FnMut(Option<(&str, &str)>, u64) -> Result<GitFiles, String> + Send>;

/// The files of a session, as far as this process has sent them.
pub struct SentFiles {
    root: PathBuf,
    max_bytes: u64,
    ask_git: AskGit,
    sent: HashSet<ContentHash>,
    commits: Option<SentCommits>,
    json: Option<String>,
    /// The parts of the last push: its answer is not there yet.
    pending: Option<Pending>,
    /// Maximum size of what a push carries, bytes.
    room: u64,
    errors: u32,
}

struct Pending {
    objects: Vec<Vec<u8>>,
    hashes: Vec<ContentHash>,
    commits: Option<SentCommits>,
    json: String,
}

impl SentFiles {
    /// `max_bytes`: the largest content that is sent.
    pub fn new(root: PathBuf, max_bytes: u64, ask_git: AskGit) -> SentFiles {
        SentFiles {
            root,
            max_bytes: max_bytes.min(MAX_CONTENT),
            ask_git,
            sent: HashSet::new(),
            commits: None,
            json: None,
            pending: None,
            room: MAX_OBJECT,
            errors: 0,
        }
    }

    /// Adds the state of the files with this name to entries.
    pub fn add(&mut self, new: &mut NewLines, store: &Store, tree: &str) {
        if self.errors >= MAX_ERRORS {
            return;
        }
        match self.read(store, tree) {
            Ok(carried) => {
                self.errors = 0;
                let Some(mut pending) = carried else {
                    return;
                };
                new.files = Some(pending.json.clone());
                new.blobs.append(&mut pending.objects);
                self.pending = Some(pending);
            }
            Err(why) => {
                self.errors += 1;
                tracing::warn!(why, "the files of the session are not sent");
            }
        }
    }

    /// Notes whether the entries are in the database.
    pub fn settled(&mut self, is_sent: bool) {
        match self.pending.take() {
            Some(pending) if is_sent => {
                self.sent.extend(pending.hashes);
                self.commits = pending.commits;
                self.json = Some(pending.json);
            }
            Some(_) => self.room = MAX_AFTER_FAILURE,
            None => {}
        }
    }

    fn read(&mut self, store: &Store, name: &str) -> Result<Option<Pending>, String> {
        let failed = |e: StoreError| e.to_string();
        let root = store.snapshots().tree_root(name).map_err(failed)?;
        let known = store.snapshots().tree(name).map_err(failed)?;
        let Some(known) = known.filter(|_| root.as_deref() == Some(&self.root)) else {
            return Err("the state that the entry names is not of this folder".to_string());
        };
        let commits = self.commits.as_ref();
        let commits = commits.map(|(base, head, _)| (base.as_str(), head.as_str()));
        let git = (self.ask_git)(commits, self.room)?;
        let mut carried = Carried {
            store,
            sent: &self.sent,
            objects: Vec::new(),
            hashes: Vec::new(),
            room: self.room,
        };
        let commits = match &git.bundle {
            Some(bundle) => {
                let hash = carried.put(bundle.clone());
                Some((git.base.clone(), git.head.clone(), hash))
            }
            None => self.commits.clone(),
        };
        let mut left_out = 0;
        let mut changes = Delta::default();
        for (path, item) in known.tree.0 {
            if path.starts_with(b"/") || is_never_written(&path) || git.is_of_submodule(&path) {
                continue;
            }
            let entered = git.unchanged.contains(&path);
            let item = match entered {
                true => item,
                false => carried.item(item, self.max_bytes)?,
            };
            left_out += u64::from(!entered && is_left_out(&item));
            changes.0.insert(path, Change::Put { item, entered });
        }
        for path in git.deleted {
            let gone = Change::Gone { left: false };
            changes.0.entry(path).or_insert(gone);
        }
        let is_moved = git.base != git.head;
        let files = Files {
            root: self.root.to_string_lossy().into_owned(),
            base: git.base,
            head: git.head,
            bundle: match &commits {
                Some((.., hash)) if is_moved => Some(file_name(hash)),
                _ => None,
            },
            tree: name.to_string(),
            tree_object: file_name(&carried.put(encode_tree(&changes)?)),
            left_out,
        };
        let json = serde_json::to_string(&files).map_err(|e| e.to_string())?;
        if self.json.as_ref() == Some(&json) {
            return Ok(None);
        }
        Ok(Some(Pending {
            objects: carried.objects,
            hashes: carried.hashes,
            commits,
            json,
        }))
    }
}

impl GitFiles {
    fn is_of_submodule(&self, path: &[u8]) -> bool {
        let slashes = path.iter().enumerate().filter(|(_, byte)| **byte == b'/');
        let mut folders = slashes.map(|(at, _)| &path[..at]);
        !self.submodules.is_empty() && folders.any(|folder| self.submodules.contains(folder))
    }
}

/// The objects of one push.
struct Carried<'s> {
    store: &'s Store,
    sent: &'s HashSet<ContentHash>,
    objects: Vec<Vec<u8>>,
    hashes: Vec<ContentHash>,
    room: u64,
}

impl Carried<'_> {
    /// Carries bytes, unless they were sent. Returns their hash.
    fn put(&mut self, bytes: Vec<u8>) -> ContentHash {
        let hash = *blake3::hash(&bytes).as_bytes();
        if !self.sent.contains(&hash) {
            self.room = self.room.saturating_sub(bytes.len() as u64);
            self.hashes.push(hash);
            self.objects.push(bytes);
        }
        hash
    }

    /// Carries the content of a path that differs from the commit. Returns the path without its
    /// content if that cannot be carried.
    fn item(&mut self, item: Item, most: u64) -> Result<Item, String> {
        let Item::File { hash, bytes, .. } = item else {
            return Ok(item);
        };
        if self.sent.contains(&hash) || self.hashes.contains(&hash) {
            return Ok(item);
        }
        let marker = |why| Item::Marker {
            why,
            bytes,
            mtime_ms: 0,
            hash: Some(hash),
        };
        if bytes > most.min(self.room) {
            return Ok(marker(Marked::TooBig));
        }
        let content = self.store.snapshots().content(&hash);
        Ok(match content.map_err(|e| e.to_string())? {
            Some(content) => {
                self.put(content);
                item
            }
            None => marker(Marked::Unreadable),
        })
    }
}
