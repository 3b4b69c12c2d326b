//! The check whether a session only waits for a person.

use super::SessionError;
use super::fold_cache::folded;
use crate::core::entry::Guard;
use crate::core::run_limits;
use crate::core::settings::Pricing;
use crate::store::Store;

/// Returns whether a session does nothing until a person answers a question, or lifts a pause or
/// a limit. The same applies when it waits for subagents that wait so.
///
/// # Errors
/// The session cannot be read.
pub fn only_waits_for_person(
    store: &Store,
    session: &str,
    price: &Pricing,
) -> Result<bool, SessionError> {
    // A pending signal may be the answer.
    if !store.inbox().signals(session)?.is_empty() {
        return Ok(false);
    }
    let (_, state) = folded(store, session)?;
    if state.asks() {
        return Ok(true);
    }
    let mut open = state.calls.iter().filter(|call| !call.finished).peekable();
    if open.peek().is_none() {
        let is_stuck = state.owed && state.loop_guard.stuck().is_some();
        return Ok(state.paused || is_stuck || run_limits::reached(&state, price).is_some());
    }
    for call in open {
        let Some(Guard::Child { session, .. }) = &call.guard else {
            return Ok(false);
        };
        if !only_waits_for_person(store, session, price)? {
            return Ok(false);
        }
    }
    Ok(true)
}
