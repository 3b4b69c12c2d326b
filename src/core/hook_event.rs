//! The hooks that an entry causes.

use super::entry::{CallId, Entry, HookEvent, Outcome};
use super::state::State;
use super::tool::Class;

/// Returns the event that an entry causes, with the calls that it is about. `state` is the state
/// after the entry. The events of a start and of a question follow from no entry.
pub fn event_after(entry: &Entry, state: &State) -> Option<(HookEvent, Vec<Option<CallId>>)> {
    let of_session = |event| Some((event, vec![None]));
    match entry {
        Entry::Said { .. } => of_session(HookEvent::UserPromptSubmit),
        Entry::Compacted { .. } | Entry::Continued { .. } => of_session(HookEvent::SessionStart),
        Entry::Replied { .. } if !state.calls.is_empty() => {
            let runs = state.calls.iter().filter(|open| open.may_run());
            let calls: Vec<_> = runs.map(|open| Some(open.call.id)).collect();
            Some((HookEvent::PreToolUse, calls))
        }
        Entry::Replied { .. } | Entry::Checked { told: None, .. }
            if !state.owed && state.unchecked().is_none() =>
        {
            of_session(match state.assignment {
                Some(_) => HookEvent::SubagentStop,
                None => HookEvent::Stop,
            })
        }
        Entry::Finished { call, outcome, .. } => {
            let open = state.call(*call)?;
            let has_run = open.guard.is_some() || open.call.class() == Some(Class::Idempotent);
            // It ran on another machine, if at all.
            let has_run = has_run && open.lost.is_none();
            let event = match outcome {
                _ if !has_run || state.is_stopped() => return None,
                Outcome::Done { .. } => HookEvent::PostToolUse,
                Outcome::Error { .. } | Outcome::Interrupted { .. } => {
                    HookEvent::PostToolUseFailure
                }
                Outcome::Denied { .. } => return None,
            };
            Some((event, vec![Some(*call)]))
        }
        _ => None,
    }
}
