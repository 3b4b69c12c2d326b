//! Purging a session: what of it lies outside of the store goes too. Refused while one of its
//! commands runs, for its result would have nowhere to go.

use std::fs;
use std::io;

use super::{AppContext, SessionError, short_id};
use crate::command::RunState;
use crate::store::{Removed, SessionLock, Store};

impl AppContext {
    /// Removes a session for good, with its journal, its run folders and its temporary files.
    ///
    /// # Errors
    /// `Held` while a process works in it, `InUse` while another process has the store open,
    /// [`SessionError::Running`] while a command of it runs. Nothing was removed then.
    pub fn purge(&self, store: Store, session: &str) -> Result<Removed, SessionError> {
        let data_dir = &self.paths.data_dir;
        let _lock = SessionLock::take(data_dir, session)?;
        let runs = self.runs()?;
        let own: Vec<_> = runs.list().into_iter().collect();
        let own = own.into_iter().filter(|run| run.spec.session == session);
        let (running, over): (Vec<_>, Vec<_>) =
            own.partition(|run| matches!(run.state, RunState::Running { .. }));
        if let Some(run) = running.first() {
            return Err(SessionError::Running {
                session: session.to_string(),
                run: short_id(&run.run).to_string(),
            });
        }
        let removed = store.purge(data_dir, self.journal_place().as_ref(), session)?;
        for run in over {
            if let Err(error) = runs.remove(&run.run) {
                tracing::warn!(run = run.run, %error, "a run folder stays");
            }
        }
        match fs::remove_dir_all(data_dir.join("tmp").join(session)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                tracing::warn!(%error, "a temporary folder stays");
            }
            _ => {}
        }
        Ok(removed)
    }
}
