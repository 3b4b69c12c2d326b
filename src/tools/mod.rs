//! The tools of the model. Each has one file, `NAME.rs`: its arguments, their schema, what its
//! calls need, how they are shown and run ([`tool::Tool`]); and one text for the model,
//! `assets/tools/NAME.md`. [`TOOLS`] is the only list of them.
//!
//! What there is to do of a call is a [`Work`]. *Idempotent* work changes nothing, so it may be
//! done again after a crash. *Checked* work replaces one file as a whole: [`prepare`] looks and
//! says what the file will be, that is recorded, [`apply`] does it, and after a crash
//! [`settle_file`] says from the file alone whether it was done. A command of [`bash`] is run by
//! the world, under a keeper.
//!
//! All of it blocks and belongs on a thread of its own.
//!
//! Invariant: no tool reads the environment, and none writes outside [`apply`] ([`settle_file`]
//! removes what an interrupted `apply` left beside the file). Whether a path may be touched
//! is a matter of policy, decided before a call gets here, on the path that [`leads_to`] gives
//! ([`ToolContext::judged`]); nothing there is opened through a link ([`crate::workspace::handle`]). Of what is found below that path, [`Hidden`] says what may be shown.

pub(crate) mod bash;
mod bash_stop;
mod checked;
mod diff;
mod edit;
mod expand;
mod file;
mod fit;
mod foreign;
mod glob;
mod grep;
mod leads;
mod limit;
mod mcp;
mod mcp_call;
mod mcp_find;
mod memory_insert;
mod memory_page;
mod memory_search;
mod misfit;
mod near;
mod outline;
mod past;
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
pub(crate) mod walk;
mod whole;
mod work;
mod write;

use serde_json::Value;

use crate::core::entry::{CallId, Fact, Outcome, Output, ToolSpec};
use crate::core::tool::{Described, ToolCall};

pub use checked::{Content, FileChange, FileState, Target, apply, prepare, settle_file};
pub use diff::line_counts;
pub use expand::matches;
pub use file::load as load_file;
pub use fit::fit;
pub use grep::hits;
pub use leads::leads_to;
pub use limit::{Limits, Stop, Watch};
pub use past::{LookBack, Past, look_back};
pub use paths::{Hidden, ToolContext, path_key, real_path};
pub use replace::{Replacement, edited_text};
use schema::Named;
pub use shown::{Body, Shown, ShownResult, Verb};
pub use task::TASK;
use tool::Group;
pub use work::{Look, ServedCall, ShellCommand, TaskOrder, Work};

/// Every tool. The order is that of requests, whose bytes must not change without need.
static TOOLS: [tool::Entry; 17] = [
    tool::Entry::of::<read::Args>(),
    tool::Entry::of::<write::Args>(),
    tool::Entry::of::<edit::Args>(),
    tool::Entry::of::<bash::Args>(),
    tool::Entry::of::<bash_stop::Args>(),
    tool::Entry::of::<task::Args>(),
    tool::Entry::of::<grep::Args>(),
    tool::Entry::of::<glob::Args>(),
    tool::Entry::of::<plan::Args>(),
    tool::Entry::of::<save_skill::Args>(),
    tool::Entry::of::<memory_search::Args>(),
    tool::Entry::of::<memory_page::Args>(),
    tool::Entry::of::<memory_insert::Args>(),
    tool::Entry::of::<review_history::Args>(),
    tool::Entry::of::<mcp_find::Args>(),
    tool::Entry::of::<mcp_call::Args>(),
    tool::Entry::of::<mcp::Args>(),
];

fn of_group(group: Group) -> impl Iterator<Item = &'static tool::Entry> {
    TOOLS.iter().filter(move |tool| tool.group == group)
}

/// The tools as a model sees them.
pub fn specs() -> Vec<ToolSpec> {
    of_group(Group::Own).map(tool::Entry::spec).collect()
}

/// The same for a small window, in a line each. What is left out is understood all the same.
pub fn short_specs() -> Vec<ToolSpec> {
    of_group(Group::Own).map(tool::Entry::short_spec).collect()
}

/// Those that the work itself needs, for a window in which each tool costs a part that is felt.
pub fn fewest_specs() -> Vec<ToolSpec> {
    let needed = of_group(Group::Own).filter(|tool| !tool.is_rare);
    needed.map(tool::Entry::short_spec).collect()
}

/// Those by which the tools of servers are found and called, where servers are configured.
pub fn server_specs() -> Vec<ToolSpec> {
    of_group(Group::Servers).map(tool::Entry::spec).collect()
}

/// The same for the smallest windows, in one tool.
pub fn short_server_specs() -> Vec<ToolSpec> {
    let short = of_group(Group::ServersShort);
    short.map(tool::Entry::short_spec).collect()
}

/// What a call is: the [`crate::core::tool::Describe`] of the program.
///
/// # Errors
/// What is wrong with it, in words the model can act on.
pub fn describe(name: &str, arguments: &str) -> Result<Described, String> {
    match find(name, arguments)? {
        (Some(tool), named) => Ok(Described {
            objection: named
                .objection
                .map(|why| format!("the arguments of {name}: {why}")),
            ..(tool.describe)(named.arguments)?
        }),
        (None, named) => Ok(foreign::describe(name, &named.arguments)),
    }
}

/// A call as a model makes it, described by [`describe`].
pub fn call(id: CallId, name: &str, arguments: &str) -> ToolCall {
    ToolCall::new(id, name, arguments, describe)
}

/// What there is to do of a call.
///
/// # Errors
/// As [`describe`].
pub fn work(call: &ToolCall) -> Result<Work, String> {
    match find(&call.name, &call.arguments)? {
        (Some(tool), named) => (tool.work)(named.arguments),
        (None, named) => Ok(Work::Served(ServedCall {
            name: call.name.clone(),
            arguments: named.arguments,
        })),
    }
}

/// How a call is shown to a person.
pub fn shown(call: &ToolCall) -> Shown {
    match find(&call.name, &call.arguments) {
        Ok((Some(tool), named)) => (tool.shown)(named.arguments).unwrap_or_default(),
        Ok((None, named)) => foreign::shown(&call.name, named.arguments),
        Err(_) => Shown::default(),
    }
}

/// The tool of this name, `None` for a foreign one, and the arguments under the tool's own names.
fn find(name: &str, arguments: &str) -> Result<(Option<&'static tool::Entry>, Named), String> {
    let text = arguments.trim();
    let text = if text.is_empty() { "{}" } else { text };
    let not_json = |e| format!("the arguments of {name} are not JSON: {e}");
    let mut value: Value = serde_json::from_str(text).map_err(not_json)?;
    // Some servers wrap the object into a string.
    if let Value::String(text) = &value {
        value = serde_json::from_str(text).map_err(not_json)?;
    }
    if !value.is_object() {
        return Err(format!("the arguments of {name} are not a JSON object"));
    }
    match TOOLS.iter().find(|tool| tool.name == name) {
        Some(tool) => Ok((Some(tool), schema::named(&(tool.schema)(), value))),
        None if foreign::is_foreign(name) => {
            let named = Named {
                arguments: value,
                objection: None,
            };
            Ok((None, named))
        }
        None => Err(format!("there is no tool named {name:?}")),
    }
}

/// What a call came to.
#[derive(Debug, Clone, PartialEq)]
pub struct Ran {
    pub outcome: Outcome,
    pub fact: Option<Fact>,
    /// The bytes behind the `BlobRef`s of the outcome, stored in the same transaction.
    pub blobs: Vec<Vec<u8>>,
}

impl Ran {
    /// Only the outcome: nothing else is recorded with it.
    pub fn of(outcome: Outcome) -> Ran {
        Ran {
            outcome,
            fact: None,
            blobs: Vec::new(),
        }
    }

    /// A result without a fact or blobs.
    pub fn done(text: impl Into<String>) -> Ran {
        Ran::of(Outcome::done(text))
    }

    /// A failure without a fact or blobs. `text` tells the model what is wrong.
    pub fn error(text: impl Into<String>) -> Ran {
        Ran::of(Outcome::error(text))
    }

    fn cancelled(so_far: impl Into<String>) -> Ran {
        Ran::of(Outcome::Interrupted {
            output: Output::text(so_far),
            why: "stopped by the user".to_string(),
        })
    }

    /// With lines behind a text that was found.
    #[must_use]
    pub fn with_lines(mut self, lines: &[String]) -> Ran {
        if let Outcome::Done { output } = &mut self.outcome {
            for line in lines {
                output.text.push('\n');
                output.text.push_str(line);
            }
        }
        self
    }

    fn with(mut self, fact: Option<Fact>) -> Ran {
        self.fact = fact;
        self
    }
}

/// Text as a model and a terminal can take it: a NUL byte ends strings in many of both.
fn printable(text: &str) -> String {
    text.replace('\0', "\u{2400}")
}

#[cfg(test)]
mod support;
#[cfg(test)]
mod tests;
