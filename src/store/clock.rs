//! The current time, in the unit that the store uses.

use std::time::{SystemTime, UNIX_EPOCH};

/// Returns the time: UTC, milliseconds since 1970; 0 if the clock of the machine is before that.
pub fn now_ms() -> i64 {
    let since = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}
