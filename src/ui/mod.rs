//! The terminal: what is on the screen, made from the log.

pub mod ansi;
pub mod diff;
pub mod highlight;
pub mod history;
pub mod markdown;
pub mod text;
pub mod theme;
