//! The shared session that this process may append to.

/// The shared session whose lease this process holds.
pub(super) struct Held {
    pub session: String,
    /// The value of its column `replica`.
    pub source: String,
}

impl Held {
    /// Returns the value of the column `replica` of a new session.
    pub(super) fn source_of<'a>(held: Option<&'a Held>, session: &str) -> Option<&'a str> {
        let held = held.filter(|held| held.session == session);
        held.map(|held| held.source.as_str())
    }
}
