//! The temporary folders of sessions. They are removed when a session ends, or by a later start
//! after a crash. They stay while a command of the session runs or may still start.

use std::path::{Path, PathBuf};

use uuid::Uuid;

use crate::command::{RunState, Runs};
use crate::store::{SessionLock, new_run_id};
use crate::workspace::handle::Folder;

/// Maximum number of folders of ended sessions that one start removes, and of folders that it
/// checks.
const MAX_REMOVED: usize = 16;
const MAX_LOOKED_AT: usize = 1_000;

/// Extension of a folder that is being removed: its session may make a new one meanwhile.
const GOING: &str = "going";

/// The temporary folder of a session of this process.
#[derive(Debug)]
pub struct SessionTmp {
    /// `None`: its commands have no sandbox.
    pub(super) folder: Option<PathBuf>,
    pub(super) session: String,
    pub(super) runs: Runs,
}

impl SessionTmp {
    /// Removes the folder at the end of the session, while its lock is held.
    pub(super) fn remove(self) {
        if let Some(folder) = self.folder.filter(|folder| folder.is_dir())
            && !busy(&self.runs).contains(&self.session)
            && let Some(going) = rename(&folder)
        {
            remove(&going);
        }
    }
}

/// Removes the folders of ended sessions below `root`.
pub(super) fn sweep(root: &Path, data_dir: &Path, runs: &Runs) {
    let entries = std::fs::read_dir(root).into_iter().flatten();
    let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let names: Vec<String> = names.take(MAX_LOOKED_AT).collect();
    if names.is_empty() {
        return;
    }
    let busy = busy(runs);
    let going = names.iter().filter_map(|name| match is_going(name) {
        true => Some(root.join(name)),
        false => take_from(root, data_dir, name, &busy),
    });
    for folder in going.take(MAX_REMOVED) {
        remove(&folder);
    }
}

/// Renames the folder of a session that no process uses, under its lock. The lock is held only for
/// that moment, so other processes hardly ever find the session locked.
fn take_from(root: &Path, data_dir: &Path, name: &str, busy: &[String]) -> Option<PathBuf> {
    let is_session = Uuid::try_parse(name).is_ok_and(|id| id.to_string() == name);
    if !is_session || busy.iter().any(|session| session == name) {
        return None;
    }
    if SessionLock::is_held(data_dir, name) {
        return None;
    }
    let _lock = SessionLock::take(data_dir, name).ok()?;
    rename(&root.join(name))
}

/// Returns the sessions with a command that runs or may still start.
fn busy(runs: &Runs) -> Vec<String> {
    let all = runs.list().into_iter();
    let alive = all.filter(|info| !matches!(info.state, RunState::Ended(_)));
    alive.map(|info| info.spec.session).collect()
}

fn is_going(name: &str) -> bool {
    name.ends_with(&format!(".{GOING}"))
}

fn rename(folder: &Path) -> Option<PathBuf> {
    let name = folder.file_name()?.to_str()?;
    let going = folder.with_file_name(format!("{name}.{}.{GOING}", new_run_id()));
    std::fs::rename(folder, &going).ok()?;
    Some(going)
}

fn remove(folder: &Path) {
    let (Some(parent), Some(name)) = (folder.parent(), folder.file_name()) else {
        return;
    };
    let parent = parent
        .canonicalize()
        .and_then(|parent| Folder::open(&parent));
    if let Err(error) = parent.and_then(|parent| parent.remove_all(name)) {
        tracing::warn!(%error, folder = %folder.display(), "a temporary folder stays");
    }
}
