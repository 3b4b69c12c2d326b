//! `bash_stop`: stops a background command. A second stop of the same command changes nothing.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::ToolResult;
use super::bash::how;
use super::schema::{object, string};
use super::shown::Verb;
use super::tool::Tool;
use super::work::Work;
use crate::command::{RunInfo, RunState, Runs, Stopped};
use crate::core::permission::Permission;

#[derive(Serialize, Deserialize)]
pub(super) struct Args {
    id: String,
}

impl Tool for Args {
    const NAME: &'static str = "bash_stop";
    const TEXT: &'static str = include_str!("../../assets/tools/bash_stop.md");
    const VERB: Verb = Verb::Stop;

    fn schema() -> Value {
        object(json!({"id": string()}), &["id"])
    }

    fn subject(&self) -> String {
        self.id.clone()
    }

    fn permission(&self) -> Permission {
        Permission::None
    }

    fn work(self) -> Work {
        Work::Commands(Box::new(move |runs, session| stop(runs, session, &self.id)))
    }
}

/// Stops the background command with this ID. Blocks up to two seconds. A call may have several run
/// folders; only the newest one was started.
fn stop(runs: &Runs, session: &str, id: &str) -> ToolResult {
    let mine = |r: &RunInfo| {
        let is_calls = r.spec.background && !r.spec.is_of_user();
        r.spec.session == session && is_calls && r.spec.call == id
    };
    let Some(info) = runs.list().into_iter().rfind(mine) else {
        return ToolResult::error(format!("there is no background command {id}"));
    };
    match (runs.stop(&info.run), info.state) {
        (Ok(Stopped::Asked), RunState::Ended(_)) => ToolResult::done(format!(
            "the keeper of {id} was killed before; what still ran of {id} was ended now"
        )),
        (Ok(Stopped::Asked), _) => ToolResult::done(format!(
            "{id} is being stopped; when it has ended while you work, a note says so"
        )),
        (Ok(Stopped::NotBegun), _) => ToolResult::done(format!("{id} had not begun and will not")),
        (Ok(Stopped::Over), state) => {
            let ended = match state {
                RunState::Ended(ended) => Some(*ended),
                _ => runs.ended(&info.run).ok().flatten(),
            };
            let how = ended.map_or("it is not known how".to_string(), |ended| how(&ended).0);
            ToolResult::done(format!("it had ended: {how}"))
        }
        (Err(e), _) => ToolResult::error(format!("cannot stop {id}: {e}")),
    }
}
