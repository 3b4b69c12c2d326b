//! The loop of a session, and everything that its steps act on.
//!
//! [`engine::Engine`] executes the steps that the core computes and records their results.
//! [`world::World`] is the seam to the machine, and [`world::machine`] the real one. [`tools`] has
//! one file for each tool, [`mcp`] is the client of servers, [`shared`] the log in PostgreSQL, and
//! [`telemetry`] sends spans and metrics.
//!
//! This crate must not choose a session, read arguments or draw. It receives a finished log, a
//! config and channels.

pub mod engine;
pub mod mcp;
pub mod shared;
pub mod telemetry;
pub mod tools;
pub mod world;

use rewake_command::{command, sandbox};
use rewake_core::core;
use rewake_host::{config, model, net, workspace};
use rewake_store::{bundle, journal, store};
