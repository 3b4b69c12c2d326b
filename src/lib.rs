//! rewake

pub mod cli;
pub mod command;
pub mod config;
pub mod core;
pub mod engine;
pub mod headless;
pub mod model;
pub mod session;
pub mod store;
pub mod tools;
pub mod workspace;
pub mod world;
