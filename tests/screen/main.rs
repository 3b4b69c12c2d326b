//! `(log, keys) -> screen`: what the terminal shows of a log, and what becomes of keys, at
//! three sizes. A snapshot is the text of a screen; where a colour matters, a test says so.
//!
//! Invariant: no clock and no thread of the program: the same log and the
//! same keys are the same screen.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "all of this is a test; clippy sees only the #[test] functions as such"
)]

mod approval;
mod changes;
mod composer;
mod conversation;
mod forms;
mod keyboard;
mod log;
mod looks;
mod overlays;
mod queue;
mod random;
mod review;
mod rewind;
mod scrolling;
mod sentences;
mod stage;
mod start;
mod status;
mod tools;
mod vim;
