//! Process exit codes, as the manual names them.

pub(crate) const DONE: u8 = 0;
pub(crate) const FAILED: u8 = 1;
pub(crate) const USAGE: u8 = 2;
/// The run stopped, and can be continued.
pub(crate) const RESUMABLE: u8 = 75;
pub(crate) const SIGHUP: u8 = 129;
pub(crate) const SIGINT: u8 = 130;
pub(crate) const SIGTERM: u8 = 143;
