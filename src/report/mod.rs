//! What the program says to the shell that started it: exit codes, data on stdout, notes and
//! errors on stderr.
//!
//! With a screen or without, an error has the same words, the same hint and the same exit code.
//! A reader that left is not an error. Data on stdout that is lost for another reason is one.

pub(crate) mod exit;
mod output;
mod trouble;

pub use output::{error, is_written, line, note, note_background, print, raw, take_lost_output};
pub use trouble::{Trouble, lost_output};
