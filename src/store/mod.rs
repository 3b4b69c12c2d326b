//! The log on disk: one SQLite database for all sessions of a user.
//!
//! [`Store`] is owned by the one thread that writes. What is appended is durable when the call
//! returns: each append is one transaction and one sync of the write-ahead log. Nothing here is
//! async, and nothing folds: the store keeps entries, and knows their meaning only as far as lists
//! show it.
//!
//! Invariant: rows of `entries` never change, and a head only moves to a child, by
//! compare-and-swap.
//! Invariant: an error changes nothing, neither in the database nor in the caller's [`Head`]; the
//! same call may be made again. (After an error of the disk itself the entries may still turn up
//! when the database is next opened; they were never acted on.)
//! Invariant: an entry that cannot be read is an error that names it, never skipped.

mod append;
mod backup_status;
mod blobs;
mod bundle;
mod bundle_files;
mod cached;
mod chain;
pub mod contents;
mod conversation;
mod copies;
pub mod database;
mod error;
mod fork;
mod gap;
mod gc;
mod held;
mod high_water_mark;
mod ids;
mod inbox;
mod index;
mod journal_writer;
mod lag;
mod line_writer;
mod listing;
mod load;
mod lock;
mod machine;
mod memories;
mod migrate;
mod missing;
mod models;
mod new_database;
mod open;
mod own_copy;
mod packs;
mod parallel_read;
mod pending_rows;
mod purge;
mod query;
mod read_only;
mod reconcile;
pub(crate) mod recovering;
mod replica;
mod replica_writer;
mod restore_entries;
mod row;
mod scrub;
mod sessions;
pub mod shared;
mod telemetry;
mod tips;
mod trace;
mod trees;
mod views;
mod worktree_note;

use rusqlite::{Connection, Transaction};

pub use append::{Batch, NewSession};
pub use backup_status::BackupStatus;
pub use blobs::blob_ref;
pub use bundle::{
    Compared, ExportView, ImportLock, NewReplica, PartSink, Planned, SessionPart, SessionRead,
    append_replica, id_of_copy,
};
pub use bundle_files::{ExportedFiles, FileImport, FilePart};
pub use chain::Head;
pub use error::StoreError;
pub use fork::{ForkNote, NewFork, NewPlace};
pub use gc::{Keep, Tidied};
pub use ids::{id_of, new_id, new_run_id, short_id, unique_short_id};
pub use inbox::{
    AbandonedDraft, Draft, Drafts, InboxId, MAX_MESSAGES, MAX_SIGNALS, Message, Queued,
    QueuedSignal, SignalId,
};
pub use index::{Hit, Order};
pub use listing::{ListPosition, MessageMatch, NewEntry, PageFilter, Paged, SessionKey};
pub use lock::{SessionLock, WorkspaceLock};
pub use machine::{home_of_machine, host_name, now_ms};
pub use memories::{MemoryQuery, Remembered};
pub use missing::Gap;
pub use models::{Catalogued, Learnt, LearntRatio, ModelRequest};
pub use open::refuse_shared;
pub use packs::PackWriter;
pub use purge::{Removed, is_purged};
pub use query::{MatchLocation, Scope};
pub use reconcile::RestoreReport;
pub(crate) use replica::of_header;
pub use replica::{CachedSource, cache_sources, host_of, is_of_rewake, replica_source};
pub use replica_writer::{Copied, ReplicaWriter};
pub use scrub::Scrubbed;
pub use sessions::{SessionFilter, SessionInfo};
pub use telemetry::TelemetryCursor;
pub use trace::{Branch, Checkpoint, Family, Traced};
pub use trees::{Cause, KnownTree, MovedTree, NewTree, TreeLink, root_in_bundle};
pub use views::{
    Catalogue, Check, History, Inbox, InboxWriter, Index, Models, Snapshots, Telemetry,
};
pub use worktree_note::{WorktreeNote, WorktreeStage};

pub use crate::journal::folder::{JournalPlace, is_session_id};

/// The open database. Other processes may have it open too.
pub struct Store {
    // Fields are dropped in this order, the other files last.
    _before_closing: crate::config::BeforeClosing,
    conn: Connection,
    /// Whether the search index is being filled, step by step.
    indexing: bool,
    /// The journal and the high-water mark. `None`: the store has neither.
    copies: Option<copies::Copies>,
    brought: RestoreReport,
    /// The shared session whose lease this process holds.
    held: Option<held::Held>,
    in_use: database::InUse,
    /// The folder of packs.
    packs: std::path::PathBuf,
    // Dropped after the connection.
    _files: crate::config::FilesInUse,
    /// The temporary copy that is open instead of a store that cannot be written.
    copy: Option<own_copy::OwnCopy>,
    // Held as long as the connection, so that no other process replaces the database meanwhile.
    // `None`: the caller that needs the store alone has the exclusive lock.
    lock: Option<lock::StoreLock>,
}

impl Store {
    /// See [`database::begin`].
    fn write(&mut self, what: &'static str) -> Result<Transaction<'_>, StoreError> {
        database::begin(&self.conn, &self.in_use, what)
    }
}
