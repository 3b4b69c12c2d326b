//! What is done next, shown without a real world: the pure core in tables and properties, and
//! the engine over a real store in a world that can die at every boundary.
#![allow(
    clippy::expect_used,
    clippy::panic,
    reason = "all of this is a test; clippy sees only the #[test] functions as such"
)]
mod bad_input;
mod context;
mod forms;
mod hooks;
mod quoted;
mod recorded;
mod sim;
mod steps;
mod words;

#[path = "../valid/mod.rs"]
mod valid;
