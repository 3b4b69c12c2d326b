//! Sessions whose folder was moved or renamed: how the new place is recognised, and the entry with
//! which a session continues there.
//!
//! The data folder has a note about the root of each workspace: which folder of the file system it
//! is, and a commit of its repository. A note is a hint and is not synced. Without one, the files
//! are compared with the last snapshot.
//!
//! Invariant: a session is relocated only if its folder does not exist, or its root is a link to the
//! folder of this start, and only to that folder. No entry, and no row of another machine, names the new place.

use std::ffi::OsStr;
use std::fs::{self, Metadata};
use std::io::{self, ErrorKind, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use serde::{Deserialize, Serialize};

use super::{AppContext, SessionSelector, git_worktree};
use crate::config::{NetworkUse, read_text, worktree_at};
use crate::core::entry::{Entry, RecognisedBy};
use crate::core::tree::Item;
use crate::core::visible::visible;
use crate::store::{SessionFilter, SessionInfo, Store, database, refuse_shared};
use crate::workspace::files::item_at;
use crate::workspace::{head_commit, here, is_plain};

/// Folder of the notes, below the data folder.
const NOTES: &str = "places";
const MAX_NOTE_BYTES: u64 = 16 * 1024;
/// Length of the name of a note, enough to avoid collisions.
const NAME_DIGITS: usize = 32;

/// Number of the newest sessions that are searched for one of this folder, and of their workspaces
/// that are compared with it.
const SEARCHED: u32 = 500;
const COMPARED: usize = 8;

/// Maximum number of files of a snapshot that are compared, and the size of each.
const FILES: usize = 60;
const MAX_FILE_BYTES: u64 = 1 << 20;
/// Number of equal files from which a folder may be recognised.
const ENOUGH: usize = 3;

/// The new place of a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Relocation {
    pub session: String,
    /// The folder before, and the root of its workspace.
    pub from: String,
    from_root: String,
    pub folder: String,
    pub(super) root: String,
    pub by: RecognisedBy,
}

/// The identity of a root, as the data folder notes it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Note {
    root: String,
    /// The inode, and when it was made (where the file system does not know that: when its list of
    /// names last changed), in nanoseconds since 1970. A rename keeps both.
    folder: Option<(u64, u128)>,
    /// A commit of its repository.
    commit: Option<String>,
}

impl Note {
    fn of(ctx: &AppContext) -> Note {
        let (root, is_git) = (&ctx.here.root, ctx.here.is_git);
        let identity = |found: Metadata| {
            let at = found.created().or_else(|_| found.modified()).ok()?;
            Some((found.ino(), at.duration_since(UNIX_EPOCH).ok()?.as_nanos()))
        };
        Note {
            root: ctx.workspace(),
            folder: fs::metadata(root).ok().and_then(identity),
            commit: head_commit(root).filter(|_| is_git),
        }
    }

    fn path(ctx: &AppContext, root: &str) -> PathBuf {
        let hash = blake3::hash(root.as_bytes()).to_hex();
        let notes = ctx.paths.data_dir.join(NOTES);
        notes.join(&hash[..NAME_DIGITS])
    }

    fn read(ctx: &AppContext, root: &str) -> Option<Note> {
        let text = read_text(&Note::path(ctx, root), MAX_NOTE_BYTES).ok()?;
        let note = serde_json::from_str(&text).ok();
        note.filter(|note: &Note| note.root == root)
    }
}

impl Relocation {
    /// Returns the place of this start as the new place of a session. `None`: its own folder exists, or
    /// this is another one.
    pub(super) fn of(ctx: &AppContext, store: &Store, info: &SessionInfo) -> Option<Relocation> {
        let is_same_root = info.workspace == ctx.workspace();
        // rewake makes its worktrees again. A copy continues in a fork, which has another rule.
        let has_place =
            is_worktree(ctx, Path::new(&info.folder)) || is_worktree(ctx, &ctx.here.folder);
        let is_ours = info.replica.is_none() && info.shared.is_none() && !has_place;
        let is_moved = leads_here(ctx, &info.workspace)
            || is_gone(&info.folder) && (is_same_root || is_gone(&info.workspace));
        if !is_ours || !is_moved {
            return None;
        }
        let by = match recognised(ctx, store, &info.workspace) {
            Some(by) => by,
            None if ctx.env.is_folder_named() => RecognisedBy::Request,
            None => return None,
        };
        let below = Path::new(&info.folder).strip_prefix(&info.workspace);
        let same = below.map(|below| here(&ctx.here.root.join(below)));
        let same = same.ok().and_then(Result::ok);
        let place = same.filter(|place| place.root == ctx.here.root && !is_same_root);
        let folder = place.map_or(ctx.here.folder.clone(), |place| place.folder);
        Some(Relocation {
            session: info.id.clone(),
            from: info.folder.clone(),
            from_root: info.workspace.clone(),
            folder: folder.to_string_lossy().into_owned(),
            root: ctx.workspace(),
            by,
        })
    }

    /// Returns whether the user agreed to it in a question, or the client named folder and session.
    pub(super) fn is_confirmed(&self, ctx: &AppContext) -> bool {
        ctx.given.confirmed_session.as_ref() == Some(&self.session)
    }

    /// Returns whether it has to be confirmed. A link from the old place to the same folder says enough.
    pub(super) fn needs_question(&self, ctx: &AppContext) -> bool {
        !self.is_confirmed(ctx) && (self.by != RecognisedBy::Folder || is_gone(&self.from))
    }

    /// Returns the entry with which the session continues in the new place.
    pub(super) fn entry(&self) -> Entry {
        Entry::Relocated {
            from: self.from.clone(),
            folder: self.folder.clone(),
            from_root: self.from_root.clone(),
            root: self.root.clone(),
            by: self.by,
        }
    }

    /// Returns the change in words that follow the name of the session.
    pub fn words(&self) -> String {
        format!(
            "its folder {} is not there any more; {} is the new one ({})",
            visible(&self.from),
            visible(&self.folder),
            self.by.words()
        )
    }

    /// Returns the relocation that these arguments lead to, if the user has to confirm it.
    pub fn to_confirm(ctx: &AppContext, which: &SessionSelector) -> Option<Relocation> {
        // A start in a known place draws before the store can be read.
        let is_named = !matches!(which, SessionSelector::New | SessionSelector::Newest { .. });
        if !is_named && Note::read(ctx, &ctx.workspace()).is_some() {
            return None;
        }
        let store = healthy_store(ctx)?;
        let info = match which {
            SessionSelector::Named { id, .. }
            | SessionSelector::ForkAt { id, .. }
            | SessionSelector::Given { id } => store.history().find(id).ok()?,
            SessionSelector::New | SessionSelector::Newest { .. } => {
                let newest = store.history().newest(Some(&ctx.workspace())).ok()?;
                newest.or_else(|| Relocation::newest(ctx, &store, true))?
            }
        };
        Relocation::of(ctx, &store, &info)
    }

    /// Returns the newest session of a folder that was moved here. One that is not certainly the same
    /// counts only if the user is asked, or agreed already.
    pub(super) fn newest(ctx: &AppContext, store: &Store, asks: bool) -> Option<SessionInfo> {
        let filter = SessionFilter {
            without_replicas: true,
            ..SessionFilter::default()
        };
        let mut roots: Vec<String> = Vec::new();
        let found = store.history().sessions(filter, SEARCHED).ok()?;
        found.into_iter().find(|info| {
            let is_known = roots.contains(&info.workspace);
            if roots.len() == COMPARED || is_known || info.shared.is_some() {
                return false;
            }
            let is_moved = is_gone(&info.workspace) || leads_here(ctx, &info.workspace);
            if is_moved {
                roots.push(info.workspace.clone());
            }
            let found = is_moved.then(|| Relocation::of(ctx, store, info)).flatten();
            let is_same = |found: &Relocation| {
                found.by == RecognisedBy::Folder
                    || found.by != RecognisedBy::Request && (asks || found.is_confirmed(ctx))
            };
            found.as_ref().is_some_and(is_same)
        })
    }
}

/// Notes the identity of this workspace, for a start after it was moved.
pub(super) fn note_place(ctx: &AppContext) {
    if is_worktree(ctx, &ctx.here.folder) {
        return;
    }
    let note = Note::of(ctx);
    let write = |folder: &Path| {
        database::private_folder(folder).map_err(io::Error::other)?;
        let mut file = tempfile::NamedTempFile::new_in(folder)?;
        file.write_all(&serde_json::to_vec(&note)?)?;
        let path = Note::path(ctx, &note.root);
        file.persist(path).map_err(|error| error.error)
    };
    if Note::read(ctx, &note.root).as_ref() != Some(&note)
        && let Err(error) = write(&ctx.paths.data_dir.join(NOTES))
    {
        tracing::warn!(%error, "the place of the workspace is not noted");
    }
}

/// Opens the store for a question before the start. `None`: it does not exist, or the start
/// repairs, upgrades or refuses it, and reports that.
pub(super) fn healthy_store(ctx: &AppContext) -> Option<Store> {
    let data_dir = &ctx.paths.data_dir;
    if ctx.config().store.network == NetworkUse::Refuse {
        refuse_shared(data_dir).ok()?;
    }
    Store::open_current(data_dir).ok()?
}

/// Returns whether a folder is a worktree that rewake makes again.
fn is_worktree(ctx: &AppContext, folder: &Path) -> bool {
    worktree_at(&ctx.paths.data_dir, folder).is_some()
}

/// Returns whether a path does not exist. One that cannot be read may exist.
fn is_gone(path: &str) -> bool {
    fs::metadata(path).is_err_and(|error| error.kind() == ErrorKind::NotFound)
}

/// Returns whether the root of a workspace became a link to this one. Roots are paths without links.
fn leads_here(ctx: &AppContext, root: &str) -> bool {
    root != ctx.workspace() && fs::canonicalize(root).is_ok_and(|real| real == ctx.here.root)
}

/// Returns how the folder of this start is recognised as the one that had this root.
fn recognised(ctx: &AppContext, store: &Store, from_root: &str) -> Option<RecognisedBy> {
    let now = Note::of(ctx);
    // A folder of it is gone. Nothing but the user says which one has its place.
    if from_root == now.root {
        return ctx
            .env
            .is_folder_named()
            .then_some(RecognisedBy::Repository);
    }
    let before = Note::read(ctx, from_root);
    let folder = before.as_ref().and_then(|before| before.folder);
    if folder.is_some() && folder == now.folder {
        return Some(RecognisedBy::Folder);
    }
    let commit = before.and_then(|before| before.commit);
    if let Some(commit) = commit.filter(|_| ctx.here.is_git)
        && is_plain(&now.root).is_ok()
        && git_worktree::commit_of(&ctx.env, &ctx.here.root, &commit).is_some()
    {
        return Some(RecognisedBy::Repository);
    }
    has_files_of(store, Path::new(from_root), &ctx.here.root).then_some(RecognisedBy::Files)
}

/// Returns whether enough files of the last snapshot of a root are in another folder.
fn has_files_of(store: &Store, from_root: &Path, root: &Path) -> bool {
    let known = store.snapshots().last_tree(from_root);
    let Ok(Some(known)) = known else {
        return false;
    };
    let files = known.tree.0.iter().filter(|(path, item)| {
        let is_small =
            matches!(item, Item::File { bytes, .. } if (1..MAX_FILE_BYTES).contains(bytes));
        is_small && !path.starts_with(b"/")
    });
    let files: Vec<_> = files.collect();
    let compared: Vec<_> = files
        .iter()
        .step_by(files.len().div_ceil(FILES).max(1))
        .collect();
    let is_same = |path: &[u8], item: &Item| {
        let path = root.join(OsStr::from_bytes(path));
        let there = item_at(&path, MAX_FILE_BYTES).ok().flatten();
        there.is_some_and(|(there, _)| there.content() == item.content())
    };
    let same = compared.iter().filter(|(path, item)| is_same(path, item));
    let same = same.count();
    same >= ENOUGH && same * 2 >= compared.len()
}
