//! The pure core: what a session is, and what happens next in it.
//!
//! [`core::entry::Entry`] is one line of a session's log, [`core::state::State`] is the fold of the
//! log, and [`core::next::next`] returns the next [`core::next::Step`]. Requests to models, the
//! context window, policy, hooks, checks and rewinds are computed here from the same state.
//!
//! This crate must not know files, clocks, threads, async, logging, or any model, tool or server by
//! name. What it needs from outside is an argument. A test of `tests/source/layers` checks what of
//! the standard library it uses.

#![deny(clippy::match_bool)]

pub mod core;
