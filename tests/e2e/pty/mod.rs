//! The real binary on a pseudo-terminal, with a scripted model: typed at like a person does,
//! read like a person does, killed at the worst moment.
//!
//! Invariant: nothing here asserts a time; what is waited for comes, or the test fails.

mod asks;
mod background;
mod blocked;
mod box_keys;
mod calls;
mod commands;
mod crash;
mod custom;
mod editor;
mod ends;
mod keys;
mod plain;
mod rewind;
mod server_asks;
mod server_offers;
mod settings;
mod starts;
mod tasks;
mod two;
mod user_commands;
mod vim;
mod work;
mod worktrees;

pub use crate::scenes::pty::*;
pub use crate::scenes::{bash, step};
