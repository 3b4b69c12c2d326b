//! Shell commands and servers that outlive the program, and the sandbox around them.
//!
//! [`command::Runs`] prepares and settles run folders. [`command::keeper`] is the process beside each
//! command: it starts the command, reads its output and records its end in the folder. [`sandbox`]
//! restricts a command by means of the kernel: Landlock, seccomp and namespaces.
//!
//! This crate must not know tools, models, the screen or the loop of a session. A keeper runs without
//! tokio, and only the program that starts it knows why.

#![deny(clippy::match_bool)]

pub mod command;
pub mod sandbox;

use rewake_core::core;
use rewake_host::{config, net, workspace};
use rewake_store::store;
