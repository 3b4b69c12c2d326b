//! The promises of the README, each with the real program: what it says of a crash is shown with a
//! kill, what it says of damage with a damaged file.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "all of this is a test; clippy sees only the #[test] functions as such"
)]

#[path = "../scenes/mod.rs"]
mod scenes;
#[path = "../support/mod.rs"]
mod support;

mod access;
mod bundles;
mod checks;
mod children;
mod commands;
mod crash;
mod damaged;
mod demo;
mod editors;
#[cfg(feature = "fleet")]
mod fleet;
mod hooks;
mod import;
mod keys;
mod long;
mod mcp;
mod memory;
mod models;
mod resume;
mod rewind;
#[cfg(feature = "serve")]
mod server;
mod sessions;
mod steer;
mod structured;
mod worktrees;
