//! The program's output for the shell that started it: exit codes, data on stdout, notes and
//! errors on stderr.
//!
//! An error has the same text, the same hint and the same exit code with and without a screen. A
//! reader that closed the pipe is not an error. Data on stdout that is lost for another reason is
//! one.

mod cli_error;
pub mod exit;
mod input;
mod output;
mod output_thread;
mod signals;

pub use cli_error::{CliError, lost_output};
pub use input::{InputLine, next_line};
pub use output::{error, is_written, line, note, note_background, print, raw, take_lost_output};
pub use output_thread::{FrameBuffer, Output, stderr_takes};
pub use signals::Signals;
