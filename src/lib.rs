//! rewake

pub mod core;
