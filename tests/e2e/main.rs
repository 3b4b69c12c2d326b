//! The real program from outside: the engine over its real world, the binary on the command line,
//! on a terminal, behind HTTP and in an editor, its sandbox, and sessions in a shared database.
//!
//! `cargo test` leaves it out; `cargo test --test e2e` builds and runs it.
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
#[path = "../valid/mod.rs"]
mod valid;

mod acp;
mod cli;
mod engine;
mod failures;
mod fleet;
#[cfg(unix)]
mod full;
mod pty;
#[cfg(target_os = "linux")]
mod sandbox;
#[cfg(feature = "serve")]
mod server;

/// The server of tests that need one (`support::spoken`).
#[test]
fn as_a_server() {
    support::spoken::serve_if_asked();
}
