//! Whether a session is in `bypassPermissions`, for clients that may not choose that mode.

use super::fold_cache::FoldCache;
use super::{AppContext, Parting, SessionError, now_ms};
use crate::core::entry::{Choice, Entry, Mode};
use crate::core::signal::Signal;
use crate::core::state::State;
use crate::store::{SessionLock, Store};

/// Maximum depth of subagents that are looked at. A subagent gives no tasks.
const MAX_DEPTH: usize = 2;

/// Returns whether a session, or a subagent at work for it, is in `bypassPermissions`, or will be
/// after a signal that waits for it.
pub fn is_in_bypass(store: &Store, folds: &FoldCache, session: &str) -> Result<bool, SessionError> {
    let mut sessions = vec![(session.to_string(), 0)];
    while let Some((session, depth)) = sessions.pop() {
        let waiting = store.inbox().signals(&session)?;
        let chooses_it = |signal: &Signal| matches!(signal, Signal::Choose(choice) if choice.mode == Some(Mode::BypassPermissions));
        if waiting
            .iter()
            .any(|sent| sent.signal.as_ref().is_ok_and(chooses_it))
        {
            return Ok(true);
        }
        let (mode, children) = folds.with(store, &session, |fold| mode_of(&fold.state))?;
        if mode == Mode::BypassPermissions {
            return Ok(true);
        }
        if depth < MAX_DEPTH {
            sessions.extend(children.into_iter().map(|child| (child, depth + 1)));
        }
    }
    Ok(false)
}

/// Forks a session, with mode `default` in the place of `bypassPermissions`.
pub fn fork_without_bypass(
    ctx: &AppContext,
    store: &mut Store,
    origin: &str,
    parting: Parting,
) -> Result<(String, SessionLock, Option<String>), SessionError> {
    ctx.fork_with(store, origin, parting, now_ms(), |state| {
        let strict = Entry::Chose(Choice::of_mode(Mode::Default));
        let is_in_bypass = state.mode == Mode::BypassPermissions;
        (is_in_bypass.then_some(strict).into_iter().collect(), None)
    })
}

fn mode_of(state: &State) -> (Mode, Vec<String>) {
    (state.mode, state.children().map(str::to_string).collect())
}
