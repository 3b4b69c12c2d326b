//! The files of a fork, and the entries about them.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use super::super::Parting;
use super::super::reading::readable;
use super::not_forked::NotForked;
use crate::core::entry::{Entry, Seq};
use crate::core::file_name::path_text;
use crate::core::policy::is_protected;
use crate::core::rewind::{is_never_written, kept};
use crate::core::rule::Bases;
use crate::core::text::count;
use crate::core::tree::{Item, PathBytes, Tree, diff, named as named_tree, place_at, why_unknown};
use crate::store::{Cause, NewTree, Store, StoreError, root_in_bundle};
use crate::workspace::files::Done;

/// Maximum number of missing files that are named.
const MAX_NAMED: usize = 5;

/// Maximum number of files of a bundle that are named because they are not placed.
const MAX_NOT_TRUSTED: usize = 100;

/// The files that a fork gets.
#[derive(Default)]
pub(super) struct ForkFiles {
    /// The last entry that the fork shares.
    pub at: Seq,
    /// The root of the original workspace. Of a bundle it is not a path here.
    pub root: PathBuf,
    /// All files, by their paths below the root.
    pub tree: Tree,
    /// Those of them that a tool wrote outside of the covered files.
    pub written: Vec<PathBytes>,
    /// Paths whose content is not stored.
    pub left_out: Vec<String>,
    /// Number of files outside of the workspace, which both sessions share.
    pub outside: usize,
    /// Paths of a bundle that are not placed: programs obey them without a question, or they lead outside.
    pub not_trusted: Vec<String>,
    /// The files come from a bundle.
    pub is_of_bundle: bool,
    /// The entry of the snapshot, if later calls may have changed the files on the other machine.
    pub last_of_bundle: Option<Seq>,
}

/// Returns the files at the entry where the fork starts.
pub(super) fn files_at(
    store: &Store,
    session: &str,
    parting: Parting,
) -> Result<ForkFiles, NotForked> {
    let (state, _) = readable(store, session, parting)?;
    let at = state.next_seq().saturating_sub(1);
    let (_, records) = store.load(session)?;
    let last_known = || {
        let upto = records.iter().rev().map(|r| r.seq);
        let mut upto = upto.skip_while(|seq| *seq > at);
        upto.find(|seq| place_at(&records, *seq).is_some())
    };
    let unknown = |why: String| {
        let hint = match last_known() {
            Some(last) => format!(
                "they are known at entry {last}: --at {last}; without --files the fork shares the files"
            ),
            None => "without --files the fork shares the files".to_string(),
        };
        NotForked::Unknown { at, why, hint }
    };
    let known = place_at(&records, at);
    // What a call of another machine changed after its last snapshot is only there.
    let mut before = records.iter().rev().filter(|record| record.seq <= at);
    let before = before.find_map(|r| Some((r.seq, named_tree(&r.entry)?)));
    let (name, last_of_bundle) = match (known, before) {
        (Some((_, name)), _) => (name, None),
        (None, Some((seq, name))) if store.snapshots().is_of_bundle(name)? => (name, Some(seq)),
        (None, _) => return Err(unknown(why_unknown(&records, at))),
    };
    let gone = || {
        unknown("they are not stored: rewake gc removed them, or a bundle did not have them".into())
    };
    let known = store.snapshots().tree(name)?.ok_or_else(gone)?;
    let root = store.snapshots().tree_root(name)?.ok_or_else(gone)?;
    let mut files = match root_in_bundle(&root) {
        None => ForkFiles::of(at, root, &known.tree),
        // It is not a folder of this machine, whatever its path.
        Some(there) => ForkFiles {
            root,
            ..ForkFiles::of(at, there, &known.tree).of_bundle()
        },
    };
    files.last_of_bundle = last_of_bundle;
    if files.tree.0.is_empty() && files.outside > 0 {
        return Err(unknown(
            "only files that rewake edited are stored of this folder".to_string(),
        ));
    }
    Ok(files)
}

impl ForkFiles {
    pub(super) fn of(at: Seq, root: PathBuf, known: &Tree) -> ForkFiles {
        let mut files = ForkFiles {
            at,
            root,
            ..ForkFiles::default()
        };
        for (path, item) in &known.0 {
            let below = match path.starts_with(b"/") {
                false => Some(path.clone()),
                true => Path::new(OsStr::from_bytes(path))
                    .strip_prefix(&files.root)
                    .ok()
                    .map(|below| below.as_os_str().as_bytes().to_vec()),
            };
            let Some(below) = below.filter(|below| !is_never_written(below)) else {
                files.outside += 1;
                continue;
            };
            match item {
                Item::Marker { .. } => files.left_out.push(path_text(&below)),
                Item::File { .. } | Item::Link { .. } => {
                    if path.starts_with(b"/") {
                        files.written.push(below.clone());
                    }
                    files.tree.0.entry(below).or_insert_with(|| item.clone());
                }
            }
        }
        files
    }

    /// Leaves out what a bundle may not place: protected files, and links that lead outside.
    fn of_bundle(mut self) -> ForkFiles {
        self.is_of_bundle = true;
        let bases = Bases {
            roots: vec!["/w".to_string()],
            ..Bases::default()
        };
        for (path, mut item) in std::mem::take(&mut self.tree.0) {
            let there = format!("/w/{}", String::from_utf8_lossy(&path));
            let leads_outside =
                matches!(&item, Item::Link { target } if !stays_inside(&path, target));
            if leads_outside || is_protected(&there, &bases) {
                self.not_trusted.push(path_text(&path));
                continue;
            }
            if let Item::File { mode, .. } = &mut item {
                *mode &= 0o777;
            }
            self.tree.0.insert(path, item);
        }
        self
    }

    /// Returns the tree of the new folder. A file outside of the covered ones has its absolute path
    /// there, too.
    pub(super) fn target(&self, root: &Path) -> Result<NewTree, StoreError> {
        let mut tree = self.tree.clone();
        for below in &self.written {
            if let Some(item) = tree.0.remove(below) {
                let whole = root.join(OsStr::from_bytes(below));
                tree.0.insert(whole.as_os_str().as_bytes().to_vec(), item);
            }
        }
        let delta = diff(&Tree::default(), &tree);
        NewTree::new(root, None, &delta, &tree, Cause::First, Vec::new())
    }

    pub(super) fn notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        if let Some(seq) = self.last_of_bundle {
            notes.push(format!(
                "the files are those of entry {seq}: what later calls changed is not in the bundle"
            ));
        }
        if !self.left_out.is_empty() {
            notes.push(format!(
                "not in it, since their content is not stored: {}",
                named(&self.left_out)
            ));
        }
        if !self.not_trusted.is_empty() {
            notes.push(format!(
                "not in it, for programs obey them or they lead outside: {}",
                first(&self.not_trusted, MAX_NOT_TRUSTED)
            ));
        }
        if self.outside > 0 && !self.is_of_bundle {
            let files = count(self.outside, "file");
            notes.push(format!("{files} outside of the workspace: they are shared"));
        }
        notes
    }
}

/// Returns whether a link at this path leads to something below the root, also through other links
/// that do. So `..` may only be at its begin.
fn stays_inside(path: &[u8], target: &[u8]) -> bool {
    let mut parts = target.split(|byte| *byte == b'/').peekable();
    let mut above = path.iter().filter(|byte| **byte == b'/').count();
    while parts.next_if(|part| *part == b"..").is_some() {
        match above.checked_sub(1) {
            Some(left) => above = left,
            None => return false,
        }
    }
    !target.starts_with(b"/") && !parts.any(|part| part == b"..")
}

pub(super) fn named(paths: &[String]) -> String {
    first(paths, MAX_NAMED)
}

fn first(paths: &[String], most: usize) -> String {
    let shown = paths.iter().take(most).cloned().collect::<Vec<_>>();
    let more = paths.len().saturating_sub(most);
    match more {
        0 => shown.join(", "),
        more => format!("{} and {more} more", shown.join(", ")),
    }
}

/// Returns the tree of the folder while it is still empty.
pub(super) fn empty(root: &Path) -> Result<(String, NewTree), StoreError> {
    let none = Tree::default();
    let tree = NewTree::new(
        root,
        None,
        &diff(&none, &none),
        &none,
        Cause::First,
        Vec::new(),
    )?;
    Ok((tree.name(), tree))
}

pub(super) fn restored(done: &Done, target: &str) -> Entry {
    let (kept, more_kept) = kept(&done.kept);
    Entry::Restored {
        // If a file is not as planned, the next scan records the actual tree.
        tree: done.kept.is_empty().then(|| target.to_string()),
        new_folder: true,
        written: done.written.len() as u64,
        removed: 0,
        paths: Vec::new(),
        kept,
        more_kept,
        why: None,
    }
}

pub(super) fn not_placed(done: &Done) -> Option<String> {
    let kept = done.kept.iter();
    let kept: Vec<String> = kept
        .map(|(path, why)| format!("{} ({})", path_text(path), why.words()))
        .collect();
    (!kept.is_empty()).then(|| format!("not put into it: {}", named(&kept)))
}
