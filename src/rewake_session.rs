//! Sessions as a person sees them: opening, resuming, forking, describing and exporting them, and
//! importing those of other agents.
//!
//! [`session::Steering`] acts on a session of another process, [`session::describe`] has the words
//! for each kind of entry, and [`report`] the exit codes and notes of the shell.
//!
//! This crate must not know arguments, widgets or HTTP routes: the screen, the command line, the
//! server and the editor protocol all use it.

pub mod import;
pub mod report;
pub mod session;

use rewake_command::{command, sandbox};
use rewake_core::core;
use rewake_engine::{engine, mcp, shared, telemetry, tools, world};
use rewake_host::{config, model, net, workspace};
use rewake_store::{bundle, journal, recovery, store};
