//! The terminal: the screen as a projection of the log, and the keys.
//!
//! [`ui::app`] holds the whole state of the screen and does no I/O, [`ui::effects`] carries out what
//! it intends, and [`ui::live`] runs the engine of the session on a separate thread.
//!
//! This crate must not know the command line or the run without a screen. It stores nothing outside
//! of the log, the inbox and the drafts.

pub mod ui;

use rewake_command::{command, sandbox};
use rewake_core::core;
use rewake_engine::{engine, mcp, shared, tools, world};
use rewake_host::{config, model, net, workspace};
use rewake_session::{report, session};
use rewake_store::store;
