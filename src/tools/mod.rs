//! The tools of the model. Each has one file, `NAME.rs`, with its arguments, their schema, the
//! required permission, the display and the work of its calls ([`tool::Tool`]). Its text for the
//! model is `assets/tools/NAME.md`. [`TOOLS`] is the only list of them.
//!
//! [`work()`] returns the [`Work`] of a call. *Idempotent* work changes nothing, so it may run again
//! after a crash. *Checked* work replaces one file as a whole: [`prepare`] computes the new
//! content, whose hash is recorded, [`apply`] writes it, and after a crash [`settle_file`] finds
//! out from the file alone whether it was written. A command of [`bash`] is run by the world, under
//! a keeper.
//!
//! All of this blocks, so callers run it on a separate thread.
//!
//! Invariant: no tool reads the environment, and none writes outside [`apply`] ([`settle_file`]
//! removes what an interrupted `apply` left beside the file). Whether a path may be touched is a
//! matter of policy, decided before a call gets here, on the path that [`resolve_target`] gives
//! ([`ToolContext::judged`]); nothing there is opened through a link
//! ([`crate::workspace::handle`]). Of what is found below that path, [`Hidden`] says what may be
//! shown.

mod ask_user;
pub mod bash;
mod bash_stop;
mod bash_wait;
mod call_path;
mod checked;
mod diff;
mod edit;
mod expand;
mod file;
mod foreign;
mod glob;
mod grep;
mod history_view;
mod hook_names;
mod limit;
mod line_ends;
mod mcp;
mod mcp_call;
mod mcp_find;
mod memory;
mod memory_insert;
mod memory_page;
mod memory_search;
mod misfit;
mod near;
mod outline;
mod paths;
mod plan;
mod read;
mod replace;
mod review_history;
mod save_skill;
mod schema;
mod shown;
mod staged;
mod task;
mod tool;
mod truncate;
pub mod walk;
mod web_fetch;
mod web_search;
mod whole;
mod work;
mod write;

use serde_json::Value;

use crate::core::entry::{CallId, Fact, Outcome, Output, ToolSpec};
use crate::core::tool::{Described, ToolCall};

pub use ask_user::{OWN_WORDS_TITLE, answer_for_model};
pub use call_path::resolve_target;
pub use checked::{Content, FileChange, FileState, Target, apply, prepare, settle_file};
pub use diff::{FileNow, by_lines, change_in_words, file_now, line_counts};
pub use expand::matches;
pub use file::load as load_file;
pub use grep::hits;
pub use history_view::{HistoryView, LookBack, look_back};
pub use hook_names::{arguments_from_hook, call_of_hook, input_for_hooks, name_for_hooks};
pub use limit::{Limits, Stop, Watch};
pub use line_ends::{changed_ends, without_end};
pub(crate) use paths::is_there;
pub use paths::{Hidden, ToolContext, path_key, real_path};
pub use replace::Replacement;
pub use shown::{Shown, ShownBody, ShownResult, Verb};
pub use task::TASK;
use tool::Group;
pub use truncate::truncate_output;
pub use web_fetch::{FetchedPage, redirected};
pub use web_search::search_result;
pub use work::{CommandWait, ReadWork, ServedCall, ShellCommand, TaskOrder, Work};

/// Every tool, in the order of requests, whose bytes must not change without need.
static TOOLS: [tool::Entry; 22] = [
    tool::Entry::of::<read::Args>(),
    tool::Entry::of::<write::Args>(),
    tool::Entry::of::<edit::Args>(),
    tool::Entry::of::<bash::Args>(),
    tool::Entry::of::<bash_stop::Args>(),
    tool::Entry::of::<bash_wait::Args>(),
    tool::Entry::of::<grep::Args>(),
    tool::Entry::of::<glob::Args>(),
    tool::Entry::of::<plan::Args>(),
    tool::Entry::of::<save_skill::Args>(),
    tool::Entry::of::<memory_search::Args>(),
    tool::Entry::of::<memory_page::Args>(),
    tool::Entry::of::<memory_insert::Args>(),
    tool::Entry::of::<review_history::Args>(),
    tool::Entry::of::<memory::Args>(),
    tool::Entry::of::<web_fetch::Args>(),
    tool::Entry::of::<web_search::Args>(),
    tool::Entry::of::<mcp_find::Args>(),
    tool::Entry::of::<mcp_call::Args>(),
    tool::Entry::of::<mcp::Args>(),
    tool::Entry::of::<ask_user::Args>(),
    tool::Entry::of::<task::Args>(),
];

fn of_group(group: Group) -> impl Iterator<Item = &'static tool::Entry> {
    TOOLS.iter().filter(move |tool| tool.group == group)
}

/// Returns the tools of every session with their full descriptions, for requests.
pub fn specs() -> Vec<ToolSpec> {
    let all = of_group(Group::Own).chain(of_group(Group::Memory));
    all.map(tool::Entry::spec).collect()
}

/// Returns the tools of every session with one line each, for a small context window. Arguments
/// that the short schemas leave out are still understood.
pub fn short_specs() -> Vec<ToolSpec> {
    let all = of_group(Group::Own).chain(of_group(Group::MemoryShort));
    all.map(tool::Entry::short_spec).collect()
}

/// Returns [`short_specs`] with each tool for memory, history and skills by itself, for a session
/// that may use only some tools.
pub fn short_specs_apart() -> Vec<ToolSpec> {
    let all = of_group(Group::Own).chain(of_group(Group::Memory));
    all.map(tool::Entry::short_spec).collect()
}

/// Returns the tool that gives tasks to subagents. `is_short`: for a small context window.
pub fn task_specs(is_short: bool) -> Vec<ToolSpec> {
    let spec = match is_short {
        true => tool::Entry::short_spec,
        false => tool::Entry::spec,
    };
    of_group(Group::Tasks).map(spec).collect()
}

/// Returns the tools that ask the person, for sessions in which somebody can be asked.
pub fn attended_specs() -> Vec<ToolSpec> {
    of_group(Group::Attended).map(tool::Entry::spec).collect()
}

/// Returns the tools for the web, for sessions that may use it. `with_search`: the user's config has
/// a search server.
pub fn web_specs(with_search: bool) -> Vec<ToolSpec> {
    let search = of_group(Group::WebSearch).filter(|_| with_search);
    of_group(Group::Web)
        .chain(search)
        .map(tool::Entry::spec)
        .collect()
}

/// Returns the tools that find and call the tools of servers, for sessions with servers.
pub fn server_specs() -> Vec<ToolSpec> {
    of_group(Group::Servers).map(tool::Entry::spec).collect()
}

/// Returns the one tool that replaces [`server_specs`] in the smallest context windows.
pub fn short_server_specs() -> Vec<ToolSpec> {
    let short = of_group(Group::ServersShort);
    short.map(tool::Entry::short_spec).collect()
}

/// Describes a call: this is the program's [`crate::core::tool::Describe`].
///
/// # Errors
/// The reason why the call is invalid, in words that the model can act on.
pub fn describe(name: &str, arguments: &str) -> Result<Described, String> {
    let given = parse(name, arguments)?;
    match find(name) {
        Some(tool) => {
            let named = schema::named(&(tool.schema_for)(&given), given);
            Ok(Described {
                objection: named
                    .objection
                    .map(|why| format!("the arguments of {name}: {why}")),
                ..(tool.describe)(named.arguments)?
            })
        }
        None if foreign::is_foreign(name) => Ok(foreign::describe(name, given)),
        None => Err(format!("there is no tool named {name:?}")),
    }
}

/// Returns a call as a model makes it, described by [`describe`].
pub fn call(id: CallId, name: &str, arguments: &str) -> ToolCall {
    ToolCall::new(id, name, arguments, describe)
}

/// Returns the work of a call.
///
/// # Errors
/// As [`describe`].
pub fn work(call: &ToolCall) -> Result<Work, String> {
    let arguments = &call.described.as_ref().map_err(String::clone)?.arguments;
    match find(&call.name) {
        Some(tool) => (tool.work)(arguments),
        None => Ok(Work::Served(ServedCall {
            name: call.name.clone(),
            arguments: Value::clone(arguments),
        })),
    }
}

/// Returns how a call is shown to a person.
pub fn shown(call: &ToolCall) -> Shown {
    match (&call.described, find(&call.name)) {
        (Ok(described), Some(tool)) => (tool.shown)(&described.arguments).unwrap_or_default(),
        (Ok(described), None) => foreign::shown(&call.name, &described.arguments),
        (Err(_), _) => Shown::default(),
    }
}

/// Returns the tool of this name; `None` for a foreign one.
fn find(name: &str) -> Option<&'static tool::Entry> {
    TOOLS.iter().find(|tool| tool.name == name)
}

/// Parses the arguments of a call, as the model wrote them.
fn parse(name: &str, arguments: &str) -> Result<Value, String> {
    let text = arguments.trim();
    let text = if text.is_empty() { "{}" } else { text };
    let not_json = |e| format!("the arguments of {name} are not JSON: {e}");
    let mut value: Value = serde_json::from_str(text).map_err(not_json)?;
    // Some servers wrap the object into a string.
    if let Value::String(text) = &value {
        value = serde_json::from_str(text).map_err(not_json)?;
    }
    match value.is_object() {
        true => Ok(value),
        false => Err(format!("the arguments of {name} are not a JSON object")),
    }
}

/// The result of a call, with the facts and blobs that are recorded with it.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolResult {
    pub outcome: Outcome,
    pub fact: Option<Fact>,
    /// The bytes that the `BlobRef`s of the outcome refer to, stored in the same transaction.
    pub blobs: Vec<Vec<u8>>,
}

impl ToolResult {
    /// Returns an outcome without a fact or blobs.
    pub fn of(outcome: Outcome) -> ToolResult {
        ToolResult {
            outcome,
            fact: None,
            blobs: Vec::new(),
        }
    }

    /// Returns a successful result without a fact or blobs.
    pub fn done(text: impl Into<String>) -> ToolResult {
        ToolResult::of(Outcome::done(text))
    }

    /// Returns a failure without a fact or blobs. `text` tells the model what is wrong.
    pub fn error(text: impl Into<String>) -> ToolResult {
        ToolResult::of(Outcome::error(text))
    }

    /// Returns the result of an interrupted call without output.
    pub fn interrupted(why: impl Into<String>) -> ToolResult {
        ToolResult::of(Outcome::interrupted(why))
    }

    fn cancelled(so_far: impl Into<String>) -> ToolResult {
        ToolResult::of(Outcome::Interrupted {
            output: Output::text(so_far),
            why: "stopped by the user".to_string(),
        })
    }

    /// Appends lines to the text of a successful result.
    #[must_use]
    pub fn with_lines(mut self, lines: &[String]) -> ToolResult {
        if let Outcome::Done { output } = &mut self.outcome {
            for line in lines {
                output.text.push('\n');
                output.text.push_str(line);
            }
        }
        self
    }

    fn with(mut self, fact: Option<Fact>) -> ToolResult {
        self.fact = fact;
        self
    }
}

/// Returns the text without NUL bytes, which end a string in many terminals and model servers.
fn printable(text: &str) -> String {
    text.replace('\0', "\u{2400}")
}

#[cfg(test)]
mod test_support;
#[cfg(test)]
mod tests;
