//! Sessions of an editor, and what their store has.

use rewake::command::RunState;
use support::Home;
pub use support::scenes::acp::*;

use super::runs_of;
pub use super::{entries, until};

/// Whether a command runs under its keeper.
pub fn runs(home: &Home) -> bool {
    let list = runs_of(home).list();
    list.iter()
        .any(|run| matches!(run.state, RunState::Running { .. }))
}

/// Waits until the keeper of the session's command has recorded its end.
pub fn until_command_ended(home: &Home) {
    until(|| home.read("effects").contains("end"));
    until(|| !runs(home));
}
