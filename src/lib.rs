//! rewake

pub mod command;
pub mod config;
pub mod core;
pub mod model;
pub mod store;
pub mod tools;
pub mod workspace;
