//! What is done next, shown without a real world: the pure core in tables and properties, and
//! the engine over a real store in a world that can die at every boundary.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test that cannot go on says so by panicking"
)]

mod context;
mod sim;
mod steps;

#[path = "../valid/mod.rs"]
mod valid;
