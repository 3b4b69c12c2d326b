//! What the program says to the shell that started it: exit codes, data on stdout, notes and
//! errors on stderr.
//!
//! With a screen or without, an error has the same words, the same hint and the same exit code.
//! A reader that goes away is no error.

pub(crate) mod exit;
mod output;
mod trouble;

pub use output::{error, line, note, note_background, raw};
pub use trouble::Trouble;
