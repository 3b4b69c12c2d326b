//! A fork with files of its own: a new folder, or a worktree of the repository, gets the files as
//! they were at the entry where the fork parts.
//!
//! What is made outside is noted first. Then all files are laid out in the new folder under a name
//! of their own, and only when they are on the disk is the fork recorded, with what is to be placed
//! (`Restoring`). So a kill before that leaves no fork, and what it left is taken away by the next
//! start; a kill after it leaves a fork whose next start places the rest.
//!
//! Invariant: nothing is put into a folder in which anything lies, and nothing is taken away but
//! what was laid out, and folders that are empty.

use std::ffi::OsStr;
use std::fs::{self, DirBuilder, Permissions};
use std::io::{self, ErrorKind};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};

use super::opening::NewCopy;
use super::reading::readable;
use super::{AppContext, Parting, SessionError, git_worktree, now_ms, short_id};
use crate::core::entry::{Entry, Record, Seq};
use crate::core::path;
use crate::core::rewind::{is_never_written, kept};
use crate::core::text::count;
use crate::core::tree::{Item, PathBytes, Tree, diff, path_text, place_at, why_unknown};
use crate::store::{
    Batch, Cause, ForkNote, NewPlace, NewTree, SessionInfo, SessionLock, Store, StoreError,
};
use crate::workspace::files::{CutShort, Done, Order, Point, forget_staged, restore};
use crate::workspace::here;

/// Of what is not in the new folder, so many are named.
const MAX_NAMED: usize = 5;

/// Where a fork gets files of its own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ForkFolder {
    /// In this folder, which is new or empty.
    Folder(PathBuf),
    /// In a new worktree of the repository; `None`: beside it, with a name of the fork's id.
    Worktree(Option<PathBuf>),
}

/// A fork with files of its own.
#[derive(Debug)]
pub struct ForkedInto {
    pub id: String,
    /// The root of its files.
    pub root: PathBuf,
    /// What a person should know.
    pub notes: Vec<String>,
}

/// Why there is no fork; nothing is left of it.
#[derive(Debug, thiserror::Error)]
pub enum NotForked {
    #[error("the files are not known at entry {at}: {why}")]
    Unknown { at: Seq, why: String, hint: String },
    #[error("the fork cannot work in {}: {why}", folder.display())]
    Folder {
        folder: PathBuf,
        why: String,
        hint: Option<&'static str>,
    },
    #[error("the files cannot be put into {}: {why}", folder.display())]
    NotLaidOut { folder: PathBuf, why: String },
    #[error("there can be no worktree of {}: {why}", repository.display())]
    Worktree { repository: PathBuf, why: String },
    #[error(transparent)]
    Session(#[from] SessionError),
}

impl From<StoreError> for NotForked {
    fn from(error: StoreError) -> NotForked {
        NotForked::Session(error.into())
    }
}

impl NotForked {
    /// What a person can do about it. `None`: nothing is known that helps.
    pub fn hint(&self) -> Option<String> {
        match self {
            NotForked::Unknown { hint, .. } => Some(hint.clone()),
            NotForked::Folder { hint, .. } => hint.map(str::to_string),
            NotForked::NotLaidOut { .. } => {
                Some("no fork was made, and nothing is left of it".into())
            }
            NotForked::Worktree { .. } => {
                Some("--files DIR puts the files into a folder without git".into())
            }
            NotForked::Session(error) => error.hint(),
        }
    }
}

/// What is laid out.
struct Files {
    /// The last entry that the fork shares.
    at: Seq,
    /// The root that they were taken of.
    root: PathBuf,
    /// All by their paths below a root.
    tree: Tree,
    /// Those of them that a tool wrote where nothing is covered.
    written: Vec<PathBytes>,
    /// What lay there, and is not kept.
    left_out: Vec<String>,
    /// Files outside of the workspace, which both share.
    outside: usize,
}

impl AppContext {
    /// Makes a fork with files of its own.
    ///
    /// # Errors
    /// [`NotForked`]; nothing is left of it.
    pub fn fork_into(
        &self,
        store: &mut Store,
        origin: &SessionInfo,
        parting: Parting,
        wanted: &ForkFolder,
    ) -> Result<ForkedInto, NotForked> {
        self.settle_forks(store);
        let files = files_at(store, &origin.id, parting)?;
        let copy = NewCopy::begin(&self.paths.data_dir).map_err(SessionError::from)?;
        let (root, is_new) = match wanted {
            ForkFolder::Folder(folder) => self.fresh(folder, &files.root)?,
            ForkFolder::Worktree(folder) => {
                is_repository(&files.root)?;
                let beside = || beside(&files.root, &copy.id);
                let fresh = self.fresh(&folder.clone().unwrap_or_else(beside), &files.root)?;
                self.no_worktree_of_the_user(&files.root, &fresh.0)?;
                fresh
            }
        };
        let below = below(origin, &files.root);
        let target = files.target(&root).map_err(NotForked::from)?;
        let note = ForkNote {
            folder: root.join(&below),
            is_new,
            target: target.name(),
            repository: matches!(wanted, ForkFolder::Worktree(_)).then(|| files.root.clone()),
            root,
        };
        note.write(&self.paths.data_dir, &copy.id)?;
        let id = copy.id.clone();
        let made = self.made(store, origin, copy, &files, &note, target);
        let is_settled = match store.knows(&id) {
            Ok(false) => {
                self.take_away(&note);
                true
            }
            // The next start knows it.
            is_known => is_known.is_ok(),
        };
        if is_settled {
            ForkNote::remove(&self.paths.data_dir, &id);
        }
        let notes = made?;
        Ok(ForkedInto {
            id,
            root: note.root,
            notes,
        })
    }

    /// A worktree whose folder was moved, or lies on a disk that is away, keeps its place in the
    /// repository: what cannot be made there must not be taken away either.
    fn no_worktree_of_the_user(&self, repository: &Path, root: &Path) -> Result<(), NotForked> {
        let listed = git_worktree::list(&self.env, repository);
        let refused = |why| NotForked::Worktree {
            repository: repository.to_path_buf(),
            why,
        };
        match listed.map_err(refused)?.iter().any(|folder| folder == root) {
            false => Ok(()),
            true => Err(refused(format!(
                "{} is one already, by `git worktree list`",
                root.display()
            ))),
        }
    }

    /// Lays all out, records the fork, and puts the files into their places.
    fn made(
        &self,
        store: &mut Store,
        origin: &SessionInfo,
        copy: NewCopy,
        files: &Files,
        note: &ForkNote,
        target: NewTree,
    ) -> Result<Vec<String>, NotForked> {
        let mut notes = files.notes();
        if let Some(repository) = &note.repository {
            let added = git_worktree::add(&self.env, repository, &note.root);
            let commit = added.map_err(|why| NotForked::Worktree {
                repository: repository.clone(),
                why,
            })?;
            notes.push(format!(
                "it is a worktree of {} at commit {commit}, on no branch: git switch -c NAME makes one",
                repository.display()
            ));
        }
        let not_made = |folder: &Path, e: &io::Error| NotForked::Folder {
            folder: folder.to_path_buf(),
            why: format!("it cannot be made: {e}"),
            hint: None,
        };
        if note.is_new {
            // What others may not read of the one must not lie open in the other.
            make_like(&files.root, &note.root).map_err(|e| not_made(&note.root, &e))?;
        }
        fs::create_dir_all(&note.folder).map_err(|e| not_made(&note.folder, &e))?;
        let (before, empty) = empty(&note.root)?;
        let restoring = Entry::Restoring {
            before,
            target: target.name(),
            to: Some(files.at),
            whole: true,
            new_folder: true,
            kept: Vec::new(),
            more_kept: 0,
        };
        let place = NewPlace {
            workspace: text(&note.root),
            folder: text(&note.folder),
        };
        let kept_contents = Store::open(&self.paths.data_dir)?;
        let mut recorded = None;
        let (mut begun, now) = (Some((copy, target)), now_ms());
        let done = restore(&mut Order {
            root: &note.root,
            before: &Tree::default(),
            target: &files.tree,
            id: &note.target,
            content: &mut |hash| match kept_contents.content(hash) {
                Ok(Some(content)) => Ok(Some(content)),
                Ok(None) => Err("what a file was is not kept any more (rewake gc)".to_string()),
                Err(error) => Err(error.to_string()),
            },
            at: &mut |point| {
                if point != Point::AfterStage {
                    return Ok(());
                }
                let Some((copy, target)) = begun.take() else {
                    return Err(CutShort);
                };
                let parting = Parting::Behind(files.at);
                let also = (vec![restoring.clone()], vec![empty.clone(), target]);
                let copied = self.copy(
                    store,
                    copy,
                    &origin.id,
                    parting,
                    Some(place.clone()),
                    now,
                    |_| also,
                );
                let is_ok = copied.is_ok();
                recorded = Some(copied);
                is_ok.then_some(()).ok_or(CutShort)
            },
        });
        let not_laid_out = |why: String| NotForked::NotLaidOut {
            folder: note.root.clone(),
            why,
        };
        let done = done.unwrap_or_default();
        if let Some(why) = &done.why {
            return Err(not_laid_out(why.clone()));
        }
        let copied = match (recorded, begun) {
            (Some(copied), _) => copied?,
            // Without any file nothing is laid out.
            (None, Some((copy, target))) => {
                let also = (vec![restoring], vec![empty, target]);
                self.copy(
                    store,
                    copy,
                    &origin.id,
                    Parting::Behind(files.at),
                    Some(place),
                    now,
                    |_| also,
                )?
            }
            (None, None) => return Err(not_laid_out("it was cut short".to_string())),
        };
        notes.extend(copied.warning.clone());
        notes.extend(not_placed(&done));
        let restored = restored(&done, &note.target);
        let mut state = copied.state;
        let record = Record {
            seq: state.next_seq(),
            at_ms: now_ms(),
            entry: restored.clone(),
        };
        state.fold(&record).map_err(|why| SessionError::Illegal {
            session: origin.id.clone(),
            why,
        })?;
        let batch = Batch {
            at_ms: record.at_ms,
            entries: vec![restored],
            unfinished: state.unfinished(),
            ..Batch::default()
        };
        let mut head = copied.head;
        // Where it cannot be recorded, the fork's next start finds that all is in place.
        if let Err(error) = store.append(&mut head, &batch) {
            tracing::warn!(%error, "that the files of a fork are in place is not recorded");
        }
        Ok(notes)
    }

    /// What kills left of forks that were being made: one that is not recorded goes. One that is
    /// recorded is done by its next start.
    pub(super) fn settle_forks(&self, store: &Store) {
        for (id, note) in ForkNote::all(&self.paths.data_dir) {
            // Whoever makes it holds it.
            let Ok(_lock) = SessionLock::take(&self.paths.data_dir, &id) else {
                continue;
            };
            match (store.knows(&id), note) {
                (Err(_), _) => continue,
                (Ok(false), Some(note)) => self.take_away(&note),
                (Ok(_), _) => {}
            }
            ForkNote::remove(&self.paths.data_dir, &id);
        }
    }

    /// Of a fork that is not recorded nothing is in its place yet.
    fn take_away(&self, note: &ForkNote) {
        forget_staged(&note.root, &note.target);
        let folders = note.folder.ancestors();
        let below =
            folders.take_while(|folder| *folder != note.root && folder.starts_with(&note.root));
        for folder in below {
            // One in which anything lies stays.
            let _ = fs::remove_dir(folder);
        }
        if let Some(repository) = &note.repository
            && is_empty_worktree(&note.root)
        {
            if let Err(why) = git_worktree::remove(&self.env, repository, &note.root) {
                tracing::warn!(why, folder = ?note.root, "a worktree stays");
            }
            if !note.is_new {
                let _ = fs::create_dir(&note.root);
            }
        }
        if note.is_new {
            let _ = fs::remove_dir(&note.root);
        }
    }

    /// The folder that is meant, its links followed, and whether it is still to be made.
    fn fresh(&self, given: &Path, origin: &Path) -> Result<(PathBuf, bool), NotForked> {
        let whole = path::join(&text(self.env.cwd()), &text(given));
        let whole = PathBuf::from(path::clean(&whole));
        let refused = |why: String, hint: Option<&'static str>| {
            Err(NotForked::Folder {
                folder: whole.clone(),
                why,
                hint,
            })
        };
        if given.to_str().is_none() {
            return refused("its name is not UTF-8".into(), None);
        }
        let is_new = match fs::symlink_metadata(&whole) {
            Ok(found) if found.is_symlink() => {
                return refused(
                    "it is a symbolic link".into(),
                    Some("name the folder itself"),
                );
            }
            Ok(found) if !found.is_dir() => return refused("it is not a folder".into(), None),
            Ok(_) => false,
            Err(e) if e.kind() == ErrorKind::NotFound => true,
            Err(e) => return refused(e.to_string(), None),
        };
        let existing = match is_new {
            true => whole.parent().unwrap_or(Path::new("/")),
            false => &whole,
        };
        let real = match existing.canonicalize() {
            Ok(real) => real,
            Err(e) if e.kind() == ErrorKind::NotFound => {
                let why = format!("there is no folder {}", existing.display());
                return refused(why, Some("make it first: mkdir -p"));
            }
            Err(e) => return refused(e.to_string(), None),
        };
        let folder = match (is_new, whole.file_name()) {
            (true, Some(name)) => real.join(name),
            _ => real.clone(),
        };
        if folder.to_str().is_none() {
            return refused("its name is not UTF-8".into(), None);
        }
        if !is_new {
            match fs::read_dir(&folder).map(|mut names| names.next().is_none()) {
                Ok(true) => {}
                Ok(false) => {
                    let hint = "name a new folder: what lies in one is never replaced";
                    return refused("it is not empty".into(), Some(hint));
                }
                Err(e) => return refused(e.to_string(), None),
            }
        }
        let hint = Some("name a folder outside of it, as ../NAME");
        if folder.starts_with(origin) {
            let why = format!(
                "it lies in {}, whose files the fork is a copy of",
                origin.display()
            );
            return refused(why, hint);
        }
        let own = self.own_folders();
        let mut own = own
            .iter()
            .map(|own| own.canonicalize().unwrap_or(own.clone()));
        if let Some(own) = own.find(|own| folder.starts_with(own)) {
            return refused(
                format!("it lies in {}, which is rewake's own", own.display()),
                hint,
            );
        }
        match here(&real) {
            Ok(found) if found.is_git => {
                let why = format!("it lies in the repository {}", found.root.display());
                refused(format!("{why}, all of which it would work in"), hint)
            }
            _ => Ok((folder, is_new)),
        }
    }
}

/// The files as they were where the fork parts.
fn files_at(store: &Store, session: &str, parting: Parting) -> Result<Files, NotForked> {
    let (state, _) = readable(store, session, parting)?;
    let at = state.next_seq().saturating_sub(1);
    let (_, records) = store.load(session)?;
    let known_from = || {
        records
            .iter()
            .map(|r| r.seq)
            .find(|seq| place_at(&records, *seq).is_some())
    };
    let unknown = |why: String| {
        let hint = match known_from() {
            Some(first) => format!(
                "they are known from entry {first} on: --at {first}; without --files the fork shares the files"
            ),
            None => "without --files the fork shares the files".to_string(),
        };
        NotForked::Unknown { at, why, hint }
    };
    let Some((_, name)) = place_at(&records, at) else {
        return Err(unknown(why_unknown(&records, at)));
    };
    let gone = || unknown("rewake gc removed what they were".to_string());
    let known = store.tree(name)?.ok_or_else(gone)?;
    let root = store.tree_root(name)?.ok_or_else(gone)?;
    let files = Files::of(at, root, &known.tree);
    if files.tree.0.is_empty() && files.outside > 0 {
        return Err(unknown(
            "only files that tools wrote are kept of this folder".to_string(),
        ));
    }
    Ok(files)
}

impl Files {
    fn of(at: Seq, root: PathBuf, known: &Tree) -> Files {
        let mut files = Files {
            at,
            tree: Tree::default(),
            written: Vec::new(),
            left_out: Vec::new(),
            outside: 0,
            root,
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

    /// As the new folder is to be known. What is not covered has its whole path there, too.
    fn target(&self, root: &Path) -> Result<NewTree, StoreError> {
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

    fn notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        if !self.left_out.is_empty() {
            notes.push(format!(
                "not in it, for their content is not kept: {}",
                named(&self.left_out)
            ));
        }
        if self.outside > 0 {
            let files = count(self.outside, "file");
            notes.push(format!("{files} outside of the workspace: they are shared"));
        }
        notes
    }
}

fn named(paths: &[String]) -> String {
    let shown = paths.iter().take(MAX_NAMED).cloned().collect::<Vec<_>>();
    let more = paths.len().saturating_sub(MAX_NAMED);
    match more {
        0 => shown.join(", "),
        more => format!("{} and {more} more", shown.join(", ")),
    }
}

/// Nothing lies in the folder yet.
fn empty(root: &Path) -> Result<(String, NewTree), StoreError> {
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

fn restored(done: &Done, target: &str) -> Entry {
    let (kept, more_kept) = kept(&done.kept);
    Entry::Restored {
        // Where something is not as it was to be, the next look says what it is.
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

fn not_placed(done: &Done) -> Option<String> {
    let kept = done.kept.iter();
    let kept: Vec<String> = kept
        .map(|(path, why)| format!("{} ({})", path_text(path), why.words()))
        .collect();
    (!kept.is_empty()).then(|| format!("not put into it: {}", named(&kept)))
}

/// Where the session works below its root, if that is a folder there.
fn below(origin: &SessionInfo, root: &Path) -> PathBuf {
    let folder = Path::new(&origin.folder).canonicalize();
    let folder = folder.unwrap_or_else(|_| PathBuf::from(&origin.folder));
    folder
        .strip_prefix(root)
        .map(Path::to_path_buf)
        .unwrap_or_default()
}

fn is_repository(root: &Path) -> Result<(), NotForked> {
    match here(root) {
        Ok(found) if found.is_git && found.root == root => Ok(()),
        _ => Err(NotForked::Worktree {
            repository: root.to_path_buf(),
            why: "it is not a git repository".to_string(),
        }),
    }
}

/// `../project-0199c2`.
fn beside(root: &Path, id: &str) -> PathBuf {
    let mut name = root.file_name().unwrap_or_default().to_os_string();
    name.push(format!("-{}", short_id(id)));
    root.with_file_name(name)
}

/// Nothing is in it but what git put there.
/// Makes a folder, or takes the one that git made, with the mode of another.
fn make_like(other: &Path, folder: &Path) -> io::Result<()> {
    let mode = fs::metadata(other).map_or(0o700, |found| found.permissions().mode() & 0o777);
    DirBuilder::new()
        .recursive(true)
        .mode(mode)
        .create(folder)?;
    fs::set_permissions(folder, Permissions::from_mode(mode))
}

fn is_empty_worktree(root: &Path) -> bool {
    fs::read_dir(root).is_ok_and(|names| names.flatten().all(|entry| entry.file_name() == ".git"))
        || !root.exists()
}

fn text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}
