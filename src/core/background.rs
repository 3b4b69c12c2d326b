//! Background work after the model ended its turn: which end of it starts a new request, and the
//! reminder of a command that a run would leave running.

use super::state::{Background, State};
use super::text::one_line;

/// Maximum number of requests that background work starts without a message of the user.
pub const MAX_WAKES: u32 = 8;

/// Maximum number of characters of a command line in a reminder.
const LINE_CHARS: usize = 80;

/// Treatment of background work that still runs when the model ends its turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum BackgroundMode {
    /// Nothing more is done. The next request has the end of a command.
    #[default]
    Leave,
    /// The end of a command or task starts a new request.
    Wake,
    /// The same. The model is also reminded once of each command that still runs.
    Remind,
    /// The process stops the commands of the model before it ends.
    Stop,
}

/// Returns whether the end of this work is to start a new request. `leaves_when_idle`: the process
/// waits only for subagents, and nobody is there to send a message.
pub fn wakes(
    state: &State,
    mode: BackgroundMode,
    ended: &Background,
    leaves_when_idle: bool,
) -> bool {
    let is_wanted = match mode {
        // The number of subagents has its own limit.
        _ if leaves_when_idle && ended.child.is_some() => true,
        BackgroundMode::Wake | BackgroundMode::Remind => state.wakes < MAX_WAKES,
        BackgroundMode::Leave | BackgroundMode::Stop => false,
    };
    is_wanted && !state.owed
}

/// Returns the commands that run when the model ended its turn, if it was not reminded of one of
/// them. `None`: nothing has to be said.
pub(super) fn reminder(state: &State, mode: BackgroundMode) -> Option<Vec<String>> {
    let is_due = mode == BackgroundMode::Remind
        && state.wakes < MAX_WAKES
        && !state.owed
        // The run waits for them, so it does not end yet.
        && !state.works_in_background();
    let ids: Vec<String> = state.background.keys().cloned().collect();
    (is_due && ids.iter().any(|id| !state.reminded.contains(id))).then_some(ids)
}

/// Returns the text of a reminder of these commands.
pub fn reminder_text(state: &State, ids: &[String]) -> String {
    let named = ids.iter().filter_map(|id| {
        let background = state.background.get(id)?;
        Some(format!(
            "{id} ({})",
            one_line(&background.command, LINE_CHARS)
        ))
    });
    let named: Vec<String> = named.collect();
    let (run, it) = match named.len() {
        1 => ("runs", "it"),
        _ => ("run", "them"),
    };
    format!(
        "{} still {run}. This run ends with your answer: bash_wait waits, bash_stop stops {it}, an \
         answer leaves {it} running. Only your last answer is the result, so give it whole again.",
        named.join(", ")
    )
}
