//! Process exit codes, as the manual names them.

pub const DONE: u8 = 0;
pub const FAILED: u8 = 1;
pub const USAGE: u8 = 2;
/// The run stopped, and can be continued.
pub const RESUMABLE: u8 = 75;
pub const SIGHUP: u8 = 129;
pub const SIGINT: u8 = 130;
pub const SIGTERM: u8 = 143;
