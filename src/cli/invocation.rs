//! What a command line asks for.

use super::diff::Range;
use super::doctor::Asked;
use super::fork::ForkArgs;
use super::gc::Wanted;
use super::mcp::McpAction;
use super::rewind::{At, RewindArgs};
use super::steer_args::Steer;
use crate::core::access::Access;
use crate::headless::Ask;
use crate::session::export::{Format, Replace};
use clap::{Args, ValueEnum};
use clap_complete::Shell;
use std::ffi::OsString;
use std::path::PathBuf;

/// A page of the history as JSON.
#[derive(Debug, Clone, PartialEq, Args, Default)]
pub(crate) struct PageArgs {
    /// Print one JSON object with title, state, plan, summary and checkpoints
    #[arg(long)]
    pub json: bool,
    /// Limit the number of sessions (with --json)
    #[arg(long, value_name = "N", requires = "json", value_parser = clap::value_parser!(u32).range(1..=200))]
    pub limit: Option<u32>,
    /// Print the page after this one: its `next` (with --json)
    #[arg(long, value_name = "PLACE", requires = "json")]
    pub before: Option<i64>,
    /// Print only sessions of this folder (with --json)
    #[arg(long, value_name = "DIR", requires = "json")]
    pub folder: Option<PathBuf>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub(crate) enum OutputFormat {
    /// The final answer
    #[default]
    Text,
    /// One JSON object at the end
    Json,
    /// One JSON object a line, while it runs
    StreamJson,
}

/// What is to be done.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Invocation {
    Run(Run),
    /// The words of the query; empty: all sessions.
    History {
        query: String,
        page: PageArgs,
    },
    Show {
        id: String,
        json: bool,
    },
    Fork(ForkArgs),
    Diff {
        id: String,
        range: Range,
        stat: bool,
    },
    Rewind(RewindArgs),
    Restore {
        paths: Vec<PathBuf>,
        at: At,
        output: Option<PathBuf>,
        yes: bool,
    },
    Gc(Wanted),
    Purge {
        id: String,
        yes: bool,
    },
    Dismiss {
        id: String,
    },
    Compact {
        id: String,
    },
    Export {
        id: String,
        format: Format,
        /// `None`: stdout.
        file: Option<PathBuf>,
        replace: Replace,
    },
    Steer(Steer),
    Ps,
    Mcp(McpAction),
    /// Ends a running command or server.
    PsStop {
        run: String,
    },
    Models {
        filter: String,
        json: bool,
    },
    Stats {
        since: Option<String>,
        project: Option<PathBuf>,
        json: bool,
    },
    Permissions {
        json: bool,
    },
    Trust {
        yes: bool,
    },
    Untrust,
    Key {
        provider: String,
        remove: bool,
    },
    Sandbox(Sandboxed),
    Doctor(Asked),
    #[cfg(feature = "serve")]
    Serve(super::serve::ServeArgs),
    Demo,
    Completion {
        shell: Shell,
    },
    Man,
}

/// A command for `rewake sandbox`.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Sandboxed {
    pub access: Access,
    /// What the kernel is to lack besides.
    pub pretend: String,
    /// The program and its arguments.
    pub command: Vec<OsString>,
}

/// The agent itself, with a terminal or without.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Run {
    pub prompt: Option<String>,
    /// `None`: the terminal.
    pub headless: Option<OutputFormat>,
    pub session: Session,
    /// The name of the worktree that it works in.
    pub worktree: Option<String>,
    /// What was dismissed is offered too.
    pub all: bool,
    /// Not on the terminal's other screen.
    pub no_alt_screen: bool,
    /// The mouse is left to the terminal.
    pub no_mouse: bool,
    pub plain: bool,
    /// The schema that the answer has to fit: a file or JSON.
    pub json_schema: Option<String>,
    /// Without a screen: what becomes of what would ask.
    pub ask: Ask,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Session {
    New,
    /// The newest one here.
    Newest {
        fork: bool,
    },
    /// Picked by a person; never when headless.
    Pick {
        fork: bool,
    },
    /// An id, or the beginning of one.
    Named {
        id: String,
        fork: bool,
    },
}
