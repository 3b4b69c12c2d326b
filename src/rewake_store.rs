//! Where sessions are stored, and how they are read again after damage.
//!
//! [`store::Store`] is the SQLite database with the entries of all sessions. [`journal`] writes a
//! second copy of each session as plain files. [`recovery`] makes a new database from readable rows
//! and journals, and [`bundle`] copies sessions between stores as files.
//!
//! This crate must not run a session or a command, and must not show anything to a person. It knows
//! the config only for paths and limits.

pub mod bundle;
pub mod journal;
pub mod recovery;
pub mod store;

use rewake_core::core;
use rewake_host::{config, workspace};
