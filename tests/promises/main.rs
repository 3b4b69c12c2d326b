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

/// The server of tests that need one (`support::spoken`).
#[test]
fn as_a_server() {
    support::spoken::serve_if_asked();
}
