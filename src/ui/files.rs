//! The files that `@` can mention: listed by a separate thread, searched during typing.
//!
//! Files that `.gitignore` excludes and git's own files are left out. Names that are not text, or
//! that contain control characters, are not offered.
//!
//! Invariant: the list is bounded, and the screen never waits for the disk.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, SyncSender};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use nucleo_matcher::pattern::{CaseMatching, Normalization, Pattern};
use nucleo_matcher::{Config, Matcher, Utf32Str};

use crate::core::visible::visible;
use crate::tools::walk::{Walk, WalkEntry};
use crate::tools::{Limits, Stop, Watch};

const MAX_FILES: usize = 50_000;

/// Maximum number of names of a folder outside of the list.
const MAX_NAMES: usize = 5_000;

const MAX_PATH_BYTES: usize = 1_024;

/// A list younger than this is not made again.
const FRESH: Duration = Duration::from_secs(3);

/// A list, and a note about missing files.
#[derive(Default, Clone)]
struct Listing {
    paths: Arc<[String]>,
    note: Option<Arc<str>>,
}

/// The names in a folder that is not a part of the list.
#[derive(Default)]
struct Folder {
    /// The folder to read.
    wanted: Option<PathBuf>,
    /// The last folder that was read, its names, and the time.
    listed: Option<(PathBuf, Arc<[String]>, Instant)>,
}

/// The lists, and the threads that make them, which end when this is dropped.
pub struct Files {
    list: Arc<Mutex<Listing>>,
    wanted: SyncSender<()>,
    folder: Arc<Mutex<Folder>>,
    folder_wanted: SyncSender<()>,
    ended: Arc<AtomicBool>,
}

impl Files {
    /// Begins to list a folder. `ready` is called, on the walker's thread, when a new list
    /// is there.
    pub fn start(
        root: PathBuf,
        ready: impl Fn() + Clone + Send + 'static,
    ) -> std::io::Result<Files> {
        let (wanted, asked) = mpsc::sync_channel(1);
        let (folder_wanted, folder_asked) = mpsc::sync_channel(1);
        let files = Files {
            list: Arc::default(),
            wanted,
            folder: Arc::default(),
            folder_wanted,
            ended: Arc::default(),
        };
        let (list, ended) = (Arc::clone(&files.list), Arc::clone(&files.ended));
        let listed = ready.clone();
        std::thread::Builder::new()
            .name("files".to_string())
            .spawn(move || run(&root, &list, &ended, &asked, listed))?;
        let (folder, ended) = (Arc::clone(&files.folder), Arc::clone(&files.ended));
        std::thread::Builder::new()
            .name("folders".to_string())
            .spawn(move || look_into(&folder, &ended, &folder_asked, ready))?;
        files.refresh();
        Ok(files)
    }

    /// Asks for a new list, if the one that is there is not quite new.
    pub fn refresh(&self) {
        // Full: it is asked for already.
        let _ = self.wanted.try_send(());
    }

    /// Returns the paths that the words may mean, the likeliest first.
    pub fn search(&self, query: &str, limit: usize) -> Vec<String> {
        search(&self.list().paths, query, limit)
    }

    /// Returns a folder of the list, with a slash at its end, and its content.
    pub fn below(&self, folder: &str, limit: usize) -> Vec<String> {
        let list = self.list();
        let from = list.paths.partition_point(|path| path.as_str() < folder);
        let in_it = list.paths[from..]
            .iter()
            .take_while(|path| path.starts_with(folder));
        let is_near = |path: &&String| !path[folder.len()..].trim_end_matches('/').contains('/');
        in_it.filter(is_near).take(limit).cloned().collect()
    }

    /// Returns the names in any folder, as they were last seen. A separate thread reads the folder,
    /// and the screen is notified when the names are there. Folders end with a slash.
    pub fn names(&self, folder: &Path) -> Arc<[String]> {
        let mut of = self.folder.lock().unwrap_or_else(PoisonError::into_inner);
        let seen = of.listed.as_ref().filter(|(path, ..)| path == folder);
        let names = seen.map(|(_, names, _)| Arc::clone(names));
        if seen.is_none_or(|(.., at)| at.elapsed() >= FRESH) {
            of.wanted = Some(folder.to_path_buf());
            let _ = self.folder_wanted.try_send(());
        }
        names.unwrap_or_default()
    }

    /// Returns a note if the list is not complete, or contains files that should be left out.
    pub fn note(&self) -> Option<Arc<str>> {
        self.list().note
    }

    fn list(&self) -> Listing {
        let list = self.list.lock().unwrap_or_else(PoisonError::into_inner);
        list.clone()
    }
}

impl Drop for Files {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::Relaxed);
    }
}

fn run(
    root: &Path,
    list: &Mutex<Listing>,
    ended: &AtomicBool,
    asked: &Receiver<()>,
    ready: impl Fn(),
) {
    let mut made: Option<Instant> = None;
    // The channel closes with its `Files`.
    while asked.recv().is_ok() {
        if made.is_some_and(|made| made.elapsed() < FRESH) {
            continue;
        }
        let made_now = walk(root, ended, Limits::SCREEN, MAX_FILES);
        if ended.load(Ordering::Relaxed) {
            return;
        }
        *list.lock().unwrap_or_else(PoisonError::into_inner) = made_now;
        made = Some(Instant::now());
        ready();
    }
}

fn look_into(folder: &Mutex<Folder>, ended: &AtomicBool, asked: &Receiver<()>, ready: impl Fn()) {
    let lock = || folder.lock().unwrap_or_else(PoisonError::into_inner);
    while asked.recv().is_ok() {
        let Some(path) = lock().wanted.take() else {
            continue;
        };
        let names = names_in(&path);
        if ended.load(Ordering::Relaxed) {
            return;
        }
        lock().listed = Some((path, names.into(), Instant::now()));
        ready();
    }
}

/// Lists names sorted, folders with a slash. A folder that cannot be read has none.
fn names_in(folder: &Path) -> Vec<String> {
    let Ok(entries) = folder.read_dir() else {
        return Vec::new();
    };
    let plain = |name: &String| {
        !name.contains(['\n', '\t']) && name.len() <= MAX_PATH_BYTES && visible(name) == *name
    };
    let named = |entry: std::fs::DirEntry| {
        let name = entry.file_name().into_string().ok().filter(plain)?;
        let slash = if entry.path().is_dir() { "/" } else { "" };
        Some(format!("{name}{slash}"))
    };
    let entries = entries.take(MAX_NAMES).flatten();
    let mut names: Vec<String> = entries.filter_map(named).collect();
    names.sort_unstable();
    names
}

/// Paths from the root, folders with a slash at the end, sorted.
fn walk(root: &Path, ended: &AtomicBool, limits: Limits, max: usize) -> Listing {
    let watch = Watch::new(limits, ended);
    let root = root.canonicalize().unwrap_or_else(|_| root.to_path_buf());
    let mut walk = Walk::new(&root, true, &Arc::default(), &watch);
    let mut paths: Vec<String> = walk
        .by_ref()
        .filter_map(|found| shown(&root, &found.ok()?))
        .take(max)
        .collect();
    paths.sort_unstable();
    let stopped = walk.stopped().map(Stop::words).or_else(|| {
        let is_full = paths.len() >= max;
        is_full.then(|| format!("after {max} paths"))
    });
    let stopped = stopped.map(|words| format!("the list of files was stopped {words}"));
    Listing {
        paths: paths.into(),
        // A name of a folder in it may hold anything.
        note: stopped
            .or_else(|| walk.unused().into_iter().next())
            .map(|note| Arc::from(&*visible(&note))),
    }
}

fn shown(root: &Path, found: &WalkEntry) -> Option<String> {
    let path = found.path.strip_prefix(root).ok()?.to_str()?;
    let plain = !path.is_empty() && path.len() <= MAX_PATH_BYTES && !path.contains(['\n', '\t']);
    if !plain || visible(path) != path {
        return None;
    }
    let slash = if found.of.is_dir() { "/" } else { "" };
    Some(format!("{path}{slash}"))
}

fn search(list: &[String], query: &str, limit: usize) -> Vec<String> {
    if query.is_empty() {
        // The nearest files come first.
        let top = list
            .iter()
            .filter(|path| !path.trim_end_matches('/').contains('/'));
        return top.take(limit).cloned().collect();
    }
    let mut matcher = Matcher::new(Config::DEFAULT.match_paths());
    let pattern = Pattern::parse(query, CaseMatching::Smart, Normalization::Smart);
    let mut buffer = Vec::new();
    let mut found: Vec<(u32, &String)> = list
        .iter()
        .filter_map(|path| {
            let score = pattern.score(Utf32Str::new(path, &mut buffer), &mut matcher)?;
            Some((score, path))
        })
        .collect();
    let order = |a: &(u32, &String), b: &(u32, &String)| {
        b.0.cmp(&a.0)
            .then_with(|| (a.1.len(), a.1).cmp(&(b.1.len(), b.1)))
    };
    if found.len() > limit && limit > 0 {
        found.select_nth_unstable_by(limit - 1, order);
        found.truncate(limit);
    }
    found.sort_unstable_by(order);
    found
        .into_iter()
        .take(limit)
        .map(|(_, path)| path.clone())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn folder() -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        for path in ["src/ui", ".git", ".github", "target"] {
            fs::create_dir_all(folder.path().join(path)).unwrap();
        }
        for path in [
            "README.md",
            "src/main.rs",
            "src/ui/main_view.rs",
            ".git/config",
            ".github/ci.yml",
            "target/out",
            "a b.md",
            "bad\u{1b}name",
        ] {
            fs::write(folder.path().join(path), "").unwrap();
        }
        fs::write(folder.path().join(".gitignore"), "target\n").unwrap();
        folder
    }

    #[test]
    fn a_folder_is_listed_as_a_developer_sees_it() {
        let folder = folder();
        let on = AtomicBool::new(false);
        assert_eq!(
            walk(folder.path(), &on, Limits::SCREEN, 100).paths[..],
            [
                ".github/",
                ".github/ci.yml",
                ".gitignore",
                "README.md",
                "a b.md",
                "src/",
                "src/main.rs",
                "src/ui/",
                "src/ui/main_view.rs"
            ]
        );
        assert_eq!(walk(folder.path(), &on, Limits::SCREEN, 100).note, None);
        let full = walk(folder.path(), &on, Limits::SCREEN, 2);
        assert_eq!(full.paths.len(), 2);
        let note = full.note.unwrap();
        assert!(note.contains("stopped after 2 paths"), "{note}");
        let ended = walk(folder.path(), &AtomicBool::new(true), Limits::SCREEN, 100);
        assert!(ended.paths.is_empty());
    }

    #[test]
    fn a_list_that_is_not_whole_says_so() {
        let folder = folder();
        let on = AtomicBool::new(false);
        let limits = Limits {
            time: Duration::ZERO,
            ..Limits::SCREEN
        };
        let note = walk(folder.path(), &on, limits, 100).note.unwrap();
        assert!(note.contains("stopped after 0 s"), "{note}");
        fs::remove_file(folder.path().join(".gitignore")).unwrap();
        std::os::unix::fs::symlink("/dev/zero", folder.path().join(".gitignore")).unwrap();
        let listing = walk(folder.path(), &on, Limits::SCREEN, 100);
        assert!(listing.paths.iter().any(|path| path == "target/out"));
        let note = listing.note.unwrap();
        assert!(
            note.ends_with(".gitignore was not used: it is a device"),
            "{note}"
        );
    }

    #[test]
    fn the_likeliest_path_comes_first() {
        let list = ["src/", "src/main.rs", "src/ui/main_view.rs", "README.md"].map(String::from);
        assert_eq!(
            search(&list, "main", 9),
            ["src/main.rs", "src/ui/main_view.rs"]
        );
        assert_eq!(search(&list, "uimv", 9), ["src/ui/main_view.rs"]);
        assert_eq!(search(&list, "main", 1), ["src/main.rs"]);
        assert_eq!(search(&list, "", 9), ["src/", "README.md"]);
        assert_eq!(search(&list, "zzz", 9), [""; 0]);
        assert_eq!(search(&list, "main", 0), [""; 0]);
    }

    #[test]
    fn the_thread_says_when_the_list_is_there() {
        let folder = folder();
        let (sender, receiver) = mpsc::channel();
        let on_listed = move || sender.send(()).unwrap_or_default();
        let files = Files::start(folder.path().into(), on_listed).unwrap();
        receiver.recv_timeout(Duration::from_secs(20)).unwrap();
        assert_eq!(files.search("readme", 5), ["README.md"]);
        drop(files);
        // The thread is gone, and with it what it would have told.
        assert!(receiver.recv_timeout(Duration::from_secs(20)).is_err());
    }
}
