//! rewake

pub mod config;
pub mod core;
pub mod store;
pub mod workspace;
