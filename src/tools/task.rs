//! `task`: gives work to a subagent, which runs as a separate session. This file has the arguments
//! of the call; the world makes the session and runs it.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::schema::{boolean, object, string};
use super::shown::Verb;
use super::tool::{Group, Tool};
use super::work::{TaskOrder, Work};
use crate::core::permission::Permission;
use crate::core::text::one_line;

/// The name of the tool.
pub const TASK: &str = "task";

/// Maximum size of a prompt; a longer one belongs in a file.
const MAX_PROMPT_BYTES: usize = 256 * 1024;
const SUBJECT_CHARS: usize = 120;

#[derive(Serialize, Deserialize)]
pub(super) struct Args {
    prompt: String,
    agent: Option<String>,
    #[serde(default)]
    background: bool,
    resume: Option<String>,
    #[serde(default)]
    worktree: bool,
}

impl Tool for Args {
    const NAME: &'static str = TASK;
    const TEXT: &'static str = include_str!("../../assets/tools/task.md");
    const VERB: Verb = Verb::Task;
    const GROUP: Group = Group::Tasks;
    const LEFT_OUT: &'static [&'static str] = &["agent", "background", "resume", "worktree"];

    fn schema() -> Value {
        let properties = json!({
            "prompt": string(), "agent": string(), "background": boolean(), "resume": string(),
            "worktree": boolean(),
        });
        object(properties, &["prompt"])
    }

    fn check(&self) -> Result<(), String> {
        if self.prompt.trim().is_empty() {
            return Err("`prompt` is empty: say what is to be done".to_string());
        }
        match self.prompt.len() > MAX_PROMPT_BYTES {
            true => Err(format!(
                "`prompt` has {} bytes, more than {MAX_PROMPT_BYTES}: put it into a file and name that",
                self.prompt.len()
            )),
            false => Ok(()),
        }
    }

    fn subject(&self) -> String {
        let prompt = one_line(&self.prompt, SUBJECT_CHARS);
        match &self.agent {
            Some(agent) => format!("{}: {prompt}", one_line(agent, 40)),
            None => prompt,
        }
    }

    fn permission(&self) -> Permission {
        Permission::Task
    }

    fn work(self) -> Work {
        let named = |name: Option<String>| name.filter(|name| !name.trim().is_empty());
        Work::Task(TaskOrder {
            prompt: self.prompt,
            agent: named(self.agent),
            background: self.background,
            resume: named(self.resume),
            worktree: self.worktree,
        })
    }
}
