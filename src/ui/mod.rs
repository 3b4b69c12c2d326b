//! The terminal: what a person types, and what they see.

pub mod commands;
pub mod composer;
pub mod input;
pub mod keys;
