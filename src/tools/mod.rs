//! The tools of the model, except the running of commands.
//!
//! Three families. *Idempotent* tools ([`run_idempotent`]) change nothing, so they may be run
//! again after a crash. *Checked* tools replace one file as a whole: [`prepare`] looks and
//! says what the file will be, that is recorded, [`apply`] does it, and after a crash
//! [`settle_file`] says from the file alone whether it was done. The third *looks back*
//! ([`look_back`]): idempotent too, but over the store instead of the files.
//!
//! All of it blocks and belongs on a thread of its own. What the model reads of each tool
//! is in `assets/tools/NAME.md`.
//!
//! Invariant: no tool reads the environment, and none writes outside [`apply`] ([`settle_file`]
//! removes what an interrupted `apply` left beside the file). Whether a path may be touched
//! is a matter of policy, decided before a call gets here, on the path that [`path_key`] gives;
//! of what is found below that path, [`Hidden`] says what may be shown.

mod checked;
mod diff;
mod edit;
mod expand;
mod file;
mod fit;
mod glob;
mod grep;
mod ignored;
mod limit;
mod memory;
mod near;
mod paths;
mod plan;
mod read;
mod short;
mod specs;
pub mod walk;

use std::sync::atomic::AtomicBool;

use crate::core::entry::{Fact, Outcome, Output};
use crate::core::tool::Input;

pub use checked::{FileState, apply, prepare, settle_file, target_key};
pub use expand::matches;
pub use file::load as load_file;
pub use fit::fit;
pub use limit::{Limits, Stop, Watch};
pub use memory::{Past, look_back};
pub use paths::{Hidden, ToolContext, path_key, real_path};
pub use short::short_specs;
pub use specs::specs;

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

    pub fn done(text: impl Into<String>) -> Ran {
        Ran::of(Outcome::done(text))
    }

    pub fn error(text: impl Into<String>) -> Ran {
        Ran::of(Outcome::error(text))
    }

    fn cancelled(so_far: impl Into<String>) -> Ran {
        Ran::of(Outcome::Interrupted {
            output: Output::text(so_far),
            why: "stopped by the user".to_string(),
        })
    }

    fn with(mut self, fact: Option<Fact>) -> Ran {
        self.fact = fact;
        self
    }
}

/// Runs a tool that changes nothing. Returns soon after `cancel` is set.
pub fn run_idempotent(input: &Input, ctx: &ToolContext, cancel: &AtomicBool) -> Ran {
    match input {
        Input::Read(args) => read::run(args, ctx, cancel),
        Input::Grep(args) => grep::run(args, ctx, cancel),
        Input::Glob(args) => glob::run(args, ctx, cancel),
        Input::Plan(args) => plan::run(args),
        Input::MemoryInsert(args) => memory::insert(args),
        Input::Write(_)
        | Input::Edit(_)
        | Input::SaveSkill(_)
        | Input::Bash(_)
        | Input::BashStop(_)
        | Input::MemorySearch(_)
        | Input::MemoryPage(_)
        | Input::ReviewHistory(_)
        | Input::Foreign { .. } => Ran::error("this call is not one of the tools that only look"),
    }
}

/// Text as a model and a terminal can take it: a NUL byte ends strings in many of both.
fn printable(text: &str) -> String {
    text.replace('\0', "\u{2400}")
}

#[cfg(test)]
mod support;
