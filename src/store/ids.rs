//! Ids of sessions: they sort by the time they were made.

use uuid::Uuid;

/// An id that nobody else has. Locking it before the session is recorded keeps the session
/// from being taken by another process at its first sight.
pub fn new_id() -> String {
    Uuid::now_v7().to_string()
}

/// When this id was made, UTC; `None` when it is none of ours.
pub fn made_at_ms(id: &str) -> Option<i64> {
    let (secs, nanos) = Uuid::try_parse(id).ok()?.get_timestamp()?.to_unix();
    i64::try_from(secs * 1_000 + u64::from(nanos) / 1_000_000).ok()
}
