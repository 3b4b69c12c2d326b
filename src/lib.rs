//! rewake

pub mod config;
pub mod core;
pub mod workspace;
