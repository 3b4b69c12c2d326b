//! Going on where it was: the real binary, a scripted model, and a command that lives, ends,
//! or is lost while the agent is away. What counts is what the model is told afterwards, and
//! how often the command ran.
//!
//! Commands wait for a file that the test makes, never for a time.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "all of this is a test; clippy sees only the #[test] functions as such"
)]

mod attach;
mod begun;
mod disk;
mod keeper;
mod reader;
mod signals;
mod words;

pub use crate::scenes::resume as scene;
