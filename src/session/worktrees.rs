//! The worktrees that rewake makes: what making one ([`super::worktree`]) and ending one
//! ([`super::worktree_end`]) know.

use std::path::PathBuf;

use super::AppContext;
use crate::config::Env;
use crate::workspace::Here;

/// The git worktrees of rewake, as they are made from one workspace.
pub struct Worktrees {
    pub(super) env: Env,
    pub(super) data_dir: PathBuf,
    pub(super) here: Here,
}

impl AppContext {
    /// Returns the worktrees, made from the workspace of this start.
    pub fn worktrees(&self) -> Worktrees {
        Worktrees {
            env: self.env.clone(),
            data_dir: self.paths.data_dir.clone(),
            here: self.here.clone(),
        }
    }
}
