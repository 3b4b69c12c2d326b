//! The machine and the services that the program calls: the user's settings, the workspace, HTTP,
//! and the protocols of models.
//!
//! [`config::Config`] is the checked value of all layers, [`workspace::StartFolder`] the folder of a
//! session, and [`model::Models`] finds the model that a name means.
//!
//! This crate must not know the store, sessions or processes of commands. [`workspace::files`] reads
//! and writes trees through traits that the store implements.

#![deny(clippy::match_bool)]

pub mod config;
pub mod model;
pub mod net;
pub mod workspace;

use rewake_core::core;
