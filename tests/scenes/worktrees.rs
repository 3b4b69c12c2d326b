//! Worktrees, as the store has them.

use std::path::PathBuf;

use rewake::store::WorktreeNote;
use support::Home;
pub use support::scenes::worktrees::*;

pub fn notes(home: &Home) -> Vec<WorktreeNote> {
    WorktreeNote::all(&home.rewake_home())
}

pub fn folder(home: &Home, name: &str) -> PathBuf {
    let note = WorktreeNote::read(
        &home.rewake_home(),
        &home.workspace().canonicalize().unwrap(),
        name,
    );
    note.expect("a worktree").folder(&home.rewake_home())
}
