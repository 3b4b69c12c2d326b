//! The purge of a session: its data outside of the store is removed too, and so are the sessions of
//! its subagents. Refused while one of their commands runs, since its result would have no place to
//! go.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::worktree_end::EndedWorktree;
use super::{AppContext, SessionError, short_id};
use crate::command::RunState;
use crate::store::{Removed, SessionLock, Store, StoreError};

impl AppContext {
    /// Removes a session permanently, with those of its subagents, their journals, run folders,
    /// servers and temporary files, and the worktrees that no other session uses. Returns the
    /// results for the worktrees.
    ///
    /// # Errors
    /// `Held` while a process uses one of them, `InUse` while another process has the store open,
    /// [`SessionError::Running`] while a command of one runs. In these cases nothing was removed.
    pub fn purge(
        &self,
        store: Store,
        session: &str,
    ) -> Result<(Removed, Vec<EndedWorktree>), SessionError> {
        let data_dir = &self.paths.data_dir;
        let _locks = lock_with_children(&store, data_dir, session)?;
        let mut sessions = store.history().children(session)?;
        sessions.push(store.history().find(session)?);
        let folders = sessions.iter().map(|info| PathBuf::from(&info.folder));
        let folders: Vec<PathBuf> = folders.collect();
        let all: Vec<String> = sessions.into_iter().map(|info| info.id).collect();
        let runs = self.runs()?;
        let own: Vec<_> = runs.list().into_iter().collect();
        let own = own
            .into_iter()
            .filter(|run| all.contains(&run.spec.session));
        let (running, over): (Vec<_>, Vec<_>) =
            own.partition(|run| matches!(run.state, RunState::Running { .. }));
        if let Some(run) = running.first() {
            return Err(SessionError::Running {
                session: run.spec.session.clone(),
                run: short_id(&run.run).to_string(),
            });
        }
        let removed = store.purge(data_dir, self.journal_place().as_ref(), session)?;
        for run in over {
            if let Err(error) = runs.remove(&run.run) {
                tracing::warn!(run = run.run, %error, "a run folder stays");
            }
        }
        let servers = self.servers()?;
        for one in &all {
            super::servers::end_servers(&servers, one);
            match fs::remove_dir_all(data_dir.join("tmp").join(one)) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    tracing::warn!(%error, "a temporary folder stays");
                }
                _ => {}
            }
        }
        let open_store = || self.open_store().ok();
        let ended = self.worktrees().end_of_purged(&folders, open_store);
        Ok((removed, ended))
    }
}

/// Takes the locks of a session and of its subagents. While the session's own lock is held, it gets
/// no more subagents.
///
/// # Errors
/// `Held` while a process uses one of them.
pub fn lock_with_children(
    store: &Store,
    data_dir: &Path,
    session: &str,
) -> Result<Vec<SessionLock>, StoreError> {
    let mut locks = vec![SessionLock::take(data_dir, session)?];
    for child in store.history().children(session)? {
        locks.push(SessionLock::take(data_dir, &child.id)?);
    }
    Ok(locks)
}
