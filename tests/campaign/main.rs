//! Campaigns: many random kills, damages, cuts and histories, each from a seed, against the real
//! binary or the real store. A failure prints how to replay it.
//!
//! `cargo test` leaves it out; `cargo test --test campaign` builds and runs it. Environment
//! variables lengthen a campaign: docs/testing.md lists them.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "all of this is a test; clippy sees only the #[test] functions as such"
)]

mod engine;
mod kill;
mod power;
mod pty;
#[path = "../scenes/mod.rs"]
mod scenes;
mod store;

/// The server of tests that need one (`support::spoken`).
#[test]
fn as_a_server() {
    support::spoken::serve_if_asked();
}
