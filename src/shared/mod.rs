//! The shared log of sessions: a PostgreSQL database that several machines use.
//!
//! | file | subject |
//! |---|---|
//! | [`address`] | the address of the database, passwords, TLS |
//! | [`connection`] | connecting, and what the server's errors mean |
//! | [`schema`] | creating and upgrading the tables, functions and roles |
//! | [`health`] | what is wrong with a database, and who has which session |
//! | [`files`] | the files of a session in the database, and reading them |
//! | [`sent_files`] | the files that a push carries |
//! | [`log`] | what a database does for a session |
//! | [`mailbox`] | messages and signals of other machines |
//! | [`writer`] | the holder of a lease: pushes, signs of life, answers that were lost |
//! | `parts` | reading entries in parts, bounded |
//! | [`postgres`] | the log in PostgreSQL |
//! | [`queue`] | tasks: submitting one, taking one, and its end |
//! | [`reader`] | the list of sessions, and one session as a bundle |
//!
//! Invariant: no message contains a password. Messages name the host and the database.

#[cfg(feature = "fleet")]
pub mod address;
#[cfg(feature = "fleet")]
pub mod connection;
pub mod files;
#[cfg(feature = "fleet")]
pub mod health;
pub mod log;
pub mod mailbox;
mod parts;
#[cfg(feature = "fleet")]
pub mod postgres;
#[cfg(feature = "fleet")]
pub mod queue;
#[cfg(feature = "fleet")]
pub mod reader;
#[cfg(feature = "fleet")]
pub mod schema;
pub mod sent_files;
pub mod writer;

use std::collections::BTreeSet;

use thiserror::Error;

use crate::core::entry::Entry;
use crate::journal::line::EntryLine;

/// The reason why the shared log cannot be used.
#[derive(Debug, Error)]
pub enum SharedError {
    /// A person has to change the config, the database or a role.
    #[error("{what}")]
    Setup { what: String, hint: String },
    /// The server is away, or cannot write now. It may work later.
    #[error("{what}")]
    Away { what: String },
    /// Another process has the session, or entries are not those of this store.
    #[error("{what}")]
    Lost { what: String },
    /// The database lost entries that it had acknowledged, as by a failover.
    #[error("{what}")]
    Forgot { what: String },
    /// The database does not have the session.
    #[error("{what}")]
    Missing { what: String },
    /// The server refused a request that should be right.
    #[error("{what}")]
    Failed { what: String },
}

impl SharedError {
    pub fn setup(what: impl Into<String>, hint: impl Into<String>) -> SharedError {
        SharedError::Setup {
            what: what.into(),
            hint: hint.into(),
        }
    }

    /// Returns the error of an entry that this store did not record.
    pub(super) fn foreign(session: &str, seq: u64) -> SharedError {
        SharedError::Lost {
            what: format!(
                "session {session}: another data folder wrote entry {seq}, or it was changed"
            ),
        }
    }

    /// Returns the error of a session that misses an entry in the database.
    pub fn gap(session: &str, seq: u64) -> SharedError {
        SharedError::setup(
            format!(
                "session {session}: entry {seq} in the database is missing, damaged or does not follow"
            ),
            format!("a fork of what is in this data folder continues it: rewake fork {session}"),
        )
    }

    /// Returns advice for the user.
    pub fn hint(&self) -> Option<&str> {
        match self {
            SharedError::Setup { hint, .. } => Some(hint),
            SharedError::Away { .. } => Some("check the network and the server, then try again"),
            SharedError::Lost { .. } => Some("a fork continues it: rewake fork ID --shared"),
            SharedError::Forgot { .. } => {
                Some("the next start records them there again: rewake -r ID")
            }
            SharedError::Missing { .. } => Some("rewake history --shared lists the sessions"),
            SharedError::Failed { .. } => None,
        }
    }
}

/// Returns the hashes of the bytes that entries refer to.
fn hashes_of(lines: &[EntryLine]) -> Vec<[u8; 32]> {
    let entries = lines
        .iter()
        .filter_map(|line| serde_json::from_str::<Entry>(line.entry.get()).ok());
    let hashes: BTreeSet<[u8; 32]> = entries
        .flat_map(|entry| {
            entry
                .blobs()
                .filter_map(|blob| blake3::Hash::from_hex(&blob.hash).ok())
                .map(|hash| *hash.as_bytes())
                .collect::<Vec<_>>()
        })
        .collect();
    hashes.into_iter().collect()
}
