//! Ids of sessions: they sort by the time they were made.

use uuid::{Builder, Uuid};

use crate::lines::tip::Tip;

/// An id that nobody else has. Locking it before the session is recorded keeps the session
/// from being taken by another process at its first sight.
pub fn new_id() -> String {
    Uuid::now_v7().to_string()
}

/// The id of the session that is made of what went another way than `session` and ends with this
/// tip: the same each time. It sorts right behind `session`, so before all that is forked from it.
pub(super) fn id_of_parted(session: &str, end: Tip) -> String {
    let made = made_at_ms(session).and_then(|ms| u64::try_from(ms).ok());
    let hash = blake3::Hasher::new()
        .update(session.as_bytes())
        .update(end.as_bytes())
        .finalize();
    let mut rest = [0; 10];
    rest.copy_from_slice(&hash.as_bytes()[..10]);
    Builder::from_unix_timestamp_millis(made.unwrap_or(0) + 1, &rest)
        .into_uuid()
        .to_string()
}

/// When this id was made, UTC; `None` when it is none of ours.
pub fn made_at_ms(id: &str) -> Option<i64> {
    let (secs, nanos) = Uuid::try_parse(id).ok()?.get_timestamp()?.to_unix();
    i64::try_from(secs * 1_000 + u64::from(nanos) / 1_000_000).ok()
}
