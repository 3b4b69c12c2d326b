//! The real world after a crash: this machine's files and commands, settled by the next
//! process. The simulation in `tests/core/sim` shows the engine in a world that is made up; this
//! shows that the real one keeps what the engine relies on.
//!
//! A process dies here by dropping its future and its [`rewake::world::machine::Machine`].
//! What a real death means for a keeper is in `tests/e2e/cli/keeper.rs`.

// Helpers of tests are tests too.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod bench;
mod lease;
mod served;
mod settle;
mod turn;
