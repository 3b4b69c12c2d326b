//! The interface of a shared database: PostgreSQL, and a log in memory for tests.

use std::time::Duration;

use super::SharedError;
use crate::core::entry::Seq;
use crate::journal::chain_hash::ChainHash;

/// The end of a session: the tip of its last entry, and the number of its entries.
pub type EndOfLog = (ChainHash, Seq);

/// Size of the authentication code of a line, bytes.
pub const MAC_BYTES: usize = 32;

/// The data folder and the machine that record a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Home {
    /// The store and the machine, as hashes.
    pub home: String,
    /// The start of the machine, as a hash.
    pub boot: String,
    /// The name of the machine, for people.
    pub host: String,
}

/// A line of the log as it is stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredLine {
    /// A line of a journal, compressed with zstd.
    pub body: Vec<u8>,
    /// Its authentication code, by the key of the store that recorded it.
    pub mac: [u8; MAC_BYTES],
}

/// Bytes that entries refer to, with their blake3.
pub type StoredObject = ([u8; 32], Vec<u8>);

/// Entries to append.
#[derive(Debug, Clone)]
pub struct Push {
    pub session: String,
    /// The end that they follow.
    pub before: EndOfLog,
    /// The end after them.
    pub after: EndOfLog,
    pub lines: Vec<StoredLine>,
    pub objects: Vec<StoredObject>,
    /// For lists.
    pub title: String,
    pub state: &'static str,
    /// The level of the newest kind of these entries: older versions do not read the session.
    pub needs: i32,
    /// The mail that becomes these entries.
    pub taken: Vec<i64>,
    /// Where the files of the session are, if they changed: JSON.
    pub files: Option<String>,
}

/// A message or a signal that somebody sent by the database.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mail {
    /// Its number in the database.
    pub id: i64,
    pub kind: MailKind,
    /// The JSON of a message or a signal.
    pub body: String,
    /// The database role that sent it.
    pub origin: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MailKind {
    Message,
    Signal,
}

impl MailKind {
    /// Returns the value of the column `kind`.
    pub fn name(self) -> &'static str {
        match self {
            MailKind::Message => "message",
            MailKind::Signal => "signal",
        }
    }
}

/// A lease that was taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Claimed {
    pub fence: i64,
    pub end: EndOfLog,
}

/// The state of a lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LeaseState {
    /// It was extended.
    Held,
    /// It ended, and nobody claimed the session since.
    Ended,
    /// Another process claimed the session.
    Taken,
}

/// The entries of a database.
#[allow(
    async_fn_in_trait,
    reason = "one thread runs all calls, so that no future has to be Send"
)]
pub trait StoredLog {
    /// Returns lines from this place on, at most 64 MiB as they are stored.
    async fn lines(&mut self, session: &str, first: Seq) -> Result<Vec<StoredLine>, SharedError>;
    /// Returns the bytes with these hashes, unverified. Those after the first 64 MiB are left out.
    async fn objects(
        &mut self,
        session: &str,
        hashes: &[[u8; 32]],
    ) -> Result<Vec<StoredObject>, SharedError>;
}

/// A database of shared sessions.
///
/// [`SharedError::Away`] from a call that changes something: whether it did is not known.
#[allow(
    async_fn_in_trait,
    reason = "one thread runs all calls, so that no future has to be Send"
)]
pub trait SharedLog: StoredLog {
    /// Returns the time without a sign of life after which a session is free.
    async fn lease(&mut self) -> Result<Duration, SharedError>;
    /// Creates a session with its first entries. Returns its fence. `None`: its ID is taken.
    async fn create(
        &mut self,
        home: &Home,
        header: &str,
        push: &Push,
    ) -> Result<Option<i64>, SharedError>;
    /// Takes the lease of a session of this data folder.
    ///
    /// # Errors
    /// `Lost`: another machine recorded it, or an earlier start of this one has the lease.
    async fn claim(&mut self, session: &str, home: &Home) -> Result<Claimed, SharedError>;
    /// Appends entries, and extends the lease. Returns false if the caller does not hold the lease,
    /// or the session has another end.
    async fn push(&mut self, fence: i64, push: &Push) -> Result<bool, SharedError>;
    /// Extends the lease.
    async fn beat(&mut self, session: &str, fence: i64) -> Result<LeaseState, SharedError>;
    /// Returns where the files of a session are: JSON.
    async fn files(&mut self, session: &str) -> Result<Option<String>, SharedError>;
    /// Returns the mail of a session, the oldest first.
    async fn mail(&mut self, session: &str) -> Result<Vec<Mail>, SharedError>;
    /// Removes mail that becomes no entry. Only the holder of the lease can.
    async fn forget(&mut self, session: &str, fence: i64, ids: &[i64]) -> Result<(), SharedError>;
    /// Waits until somebody may have sent mail: at most a second.
    async fn wait_for_mail(&mut self);
    /// Gives the lease back.
    async fn release(&mut self, session: &str, fence: i64) -> Result<(), SharedError>;
    /// Returns a time that also passes while the machine sleeps.
    fn now(&self) -> Duration;
}
