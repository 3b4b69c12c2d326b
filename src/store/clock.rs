//! The time, as the store keeps it.

use std::time::{SystemTime, UNIX_EPOCH};

/// UTC, milliseconds since 1970; 0 while the clock of the machine is before that.
pub fn now_ms() -> i64 {
    let since = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}
