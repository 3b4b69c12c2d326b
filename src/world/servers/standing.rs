//! The progress of a call according to the journal of its server. A call may have rounds, when the
//! server has questions first, and may be a task, when it takes long.

use std::io;

use crate::command::server::ServerOutcome;
use crate::mcp::call::rounds_of;
use crate::mcp::message;
use crate::mcp::result::{self, Called};
use crate::mcp::task::Task;

/// Error code of a server that requires a visit of an address first (2025-11-25).
const VISIT_REQUIRED: i64 = -32_042;

#[derive(Debug, PartialEq)]
pub(super) enum CallProgress {
    NotBegun,
    Running,
    /// The server waits for an answer to a question.
    Asks,
    /// The server works on it as a task.
    Task(Task),
    /// The last answer.
    Answered(Vec<u8>),
    /// It may or may not have happened.
    Lost,
}

/// Returns the progress of a call. `fate` returns the fate of a request.
///
/// # Errors
/// The journals cannot be read.
pub(super) fn standing(
    id: &str,
    fate: impl Fn(&str) -> io::Result<ServerOutcome>,
) -> io::Result<CallProgress> {
    let mut before = CallProgress::NotBegun;
    for round in rounds_of(id) {
        match fate(&round)? {
            ServerOutcome::NotBegun => return Ok(before),
            ServerOutcome::Running => return Ok(CallProgress::Running),
            ServerOutcome::Lost => return Ok(CallProgress::Lost),
            ServerOutcome::Answered(line) => match of_answer(line) {
                CallProgress::Asks => before = CallProgress::Asks,
                last => return Ok(last),
            },
        }
    }
    Ok(before)
}

fn of_answer(line: Vec<u8>) -> CallProgress {
    match message::read_answer(&line) {
        Some(Ok(answer)) if answer["resultType"] == "input_required" => CallProgress::Asks,
        Some(Ok(answer)) => match result::read(&answer) {
            Called::Task(task) => CallProgress::Task(task),
            Called::Done(_) | Called::NotSupported(_) => CallProgress::Answered(line),
        },
        Some(Err(error)) if error.code == VISIT_REQUIRED => CallProgress::Asks,
        Some(Err(_)) | None => CallProgress::Answered(line),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Returns the progress for requests with these fates, in order; later ones were not sent.
    fn of(fates: &[(&str, ServerOutcome)]) -> CallProgress {
        let fate = |id: &str| {
            let known = fates.iter().find(|(known, _)| *known == id);
            Ok(known.map_or(ServerOutcome::NotBegun, |(_, fate)| fate.clone()))
        };
        standing("c", fate).unwrap()
    }

    fn answered(result: serde_json::Value) -> ServerOutcome {
        ServerOutcome::Answered(
            json!({ "id": "c", "result": result })
                .to_string()
                .into_bytes(),
        )
    }

    #[test]
    fn the_last_round_counts() {
        let asks = || answered(json!({ "resultType": "input_required", "inputRequests": {} }));
        let done = || answered(json!({ "content": [] }));
        let task = || answered(json!({ "resultType": "task", "taskId": "t" }));
        assert_eq!(of(&[]), CallProgress::NotBegun);
        assert_eq!(of(&[("c", ServerOutcome::Running)]), CallProgress::Running);
        assert_eq!(of(&[("c", asks())]), CallProgress::Asks);
        assert_eq!(
            of(&[("c", asks()), ("c:2", ServerOutcome::Lost)]),
            CallProgress::Lost
        );
        assert_eq!(
            of(&[
                ("c", asks()),
                ("c:2", asks()),
                ("c:3", ServerOutcome::Running)
            ]),
            CallProgress::Running
        );
        assert!(matches!(of(&[("c", done())]), CallProgress::Answered(_)));
        assert!(matches!(
            of(&[("c", asks()), ("c:2", done())]),
            CallProgress::Answered(_)
        ));
        assert!(matches!(of(&[("c", task())]), CallProgress::Task(task) if task.id == "t"));
        let visit = json!({ "id": "c", "error": { "code": VISIT_REQUIRED, "message": "go" } });
        let visit = ServerOutcome::Answered(visit.to_string().into_bytes());
        assert_eq!(of(&[("c", visit)]), CallProgress::Asks);
        assert!(matches!(
            of(&[("c", ServerOutcome::Answered(b"x".to_vec()))]),
            CallProgress::Answered(_)
        ));
    }
}
