//! The data that [`super::worktree`] and [`super::worktree_end`] share, to make and end worktrees.

use std::path::PathBuf;

use super::AppContext;
use crate::config::Env;
use crate::workspace::StartFolder;

/// The git worktrees of rewake, made from one workspace.
pub struct Worktrees {
    pub(super) env: Env,
    pub(super) data_dir: PathBuf,
    pub(super) here: StartFolder,
}

impl AppContext {
    /// Returns the worktrees of the workspace of this start.
    pub fn worktrees(&self) -> Worktrees {
        Worktrees {
            env: self.env.clone(),
            data_dir: self.paths.data_dir.clone(),
            here: self.here.clone(),
        }
    }
}
