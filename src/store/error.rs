//! Errors of the store, in the classes that a caller distinguishes.

use std::io;
use std::path::PathBuf;

use rusqlite::{ErrorCode, ffi};
use rustix::io::Errno;

use super::machine::LATELY;
use super::missing::Gap;
use crate::core::entry::Seq;
use crate::journal::JournalError;
use crate::journal::folder::{OF_ANOTHER_USER, remedy};

/// The hint for a damaged database.
const REPAIR: &str = "`rewake doctor --repair` makes a new database of what can be read, and keeps \
                      the damaged one beside it";

const ELSEWHERE: &str = "to work on, set REWAKE_HOME to another folder";

const FORBIDDEN: &str = "rewake records before it acts: set REWAKE_HOME to a folder that you can \
                         write to; rewake history, show and export only read what is there";

const DISK_ERROR: &str = "the disk reports an error (or a quota is used up), and nothing that was \
                          acknowledged is lost: look at the system log, copy the data folder to \
                          another disk, set REWAKE_HOME to it, and run rewake doctor";

const NETWORK: &str = "set REWAKE_HOME to a folder on a disk of this machine; store.journal_dir may lie \
                       on the network, as a second copy. To use it all the same, by one machine at a \
                       time: store.network = \"allow\"";

const UNREADABLE: &str = "the disk reports an error: look at the system log, copy the data folder to \
                          another disk, set REWAKE_HOME to it, and run rewake doctor; what cannot be \
                          read any more `rewake doctor --repair` takes from the journal";

/// An error of the store.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// Another process or thread appended to the session.
    #[error("cannot append to session {session}: it was continued somewhere else")]
    HeadMoved { session: String },
    /// The session is a copy of another agent's. Only an import appends to it.
    #[error("cannot change session {session}: it is a copy of a session of {agent}")]
    Replica { session: String, agent: String },
    /// Only the process that holds the lease of a shared session appends to it.
    #[error("session {session} is shared in {database}")]
    Shared { session: String, database: String },
    /// Another connection locked the database for the whole waiting time.
    #[error("cannot {what}: the session store is busy")]
    Busy { what: &'static str },
    /// The disk is full. Nothing was changed; it can be tried again with the same store.
    #[error("cannot {what}: it cannot be recorded: {why}")]
    Full { what: String, why: String },
    /// The disk or its file system fails to write. As with `Full`, it can be tried again.
    #[error("cannot {what}: it cannot be recorded: {why}")]
    DiskError { what: String, why: String },
    /// The disk or its file system fails in a call that is not a write.
    #[error("cannot {what}: {why}")]
    Unreadable { what: String, why: String },
    /// A file of the store cannot be opened, because something else has its name.
    #[error("cannot open the session store: {} is {what}", path.display())]
    InTheWay { path: PathBuf, what: &'static str },
    /// The data folder is on a file system that several machines share.
    #[error(
        "cannot open the session store: {} is on a file system that several machines share ({kind}), \
         where a database cannot be kept whole",
        path.display()
    )]
    Network { path: PathBuf, kind: String },
    /// The files of the database were removed, moved or replaced while it was open. Nothing was
    /// changed; it can be tried again when they are back.
    #[error("cannot record anything: {} was removed, moved or replaced", path.display())]
    Moved { path: PathBuf },
    /// The database lacks entries that were recorded, and its journal does not have them either.
    #[error(
        "{} that {} recorded here {} neither in the database nor in its journal",
        crate::core::text::count(*missing, "entry"),
        if *missing == 1 { "was" } else { "were" },
        if *missing == 1 { "is" } else { "are" }
    )]
    BackInTime { missing: u64 },
    /// Entries of the session are missing from every copy.
    #[error("{}", .0.line())]
    Gap(Box<Gap>),
    /// The database was written by a newer version.
    #[error("cannot open the session store: its schema is {found}, and this version knows {known}")]
    Newer { found: i64, known: i64 },
    /// The database has a schema from before version 0.1.0. It is unchanged.
    #[error("cannot open the session store: its schema {found} is from before version 0.1.0")]
    Older { found: i64 },
    /// An intact entry of a kind or shape that this version does not know.
    #[error("cannot read entry {seq} of session {session} ({kind}): {why}")]
    Unknown {
        session: String,
        seq: Seq,
        kind: String,
        why: String,
    },
    /// One entry is damaged; those before it can be read.
    #[error("entry {seq} of session {session} is damaged: {what}")]
    Corrupt {
        session: String,
        seq: Seq,
        what: String,
        /// Whether new entries can be recorded, also those of a fork.
        can_append: bool,
        /// Number of sessions in the journal.
        in_journal: u64,
    },
    /// The database itself is damaged, or something in it other than an entry.
    #[error("the session store is damaged: {what}")]
    Damaged {
        what: String,
        /// Whether it could be opened, so that its undamaged parts can be read.
        is_open: bool,
        /// Number of sessions in the journal.
        in_journal: u64,
    },
    /// There is no such session, entry, queued message or blob: `what` says which.
    #[error("there is no {what} {}", quoted(what, name))]
    NotFound {
        what: &'static str,
        name: String,
        /// The name that is most similar to the given one.
        near: Option<String>,
    },
    /// Several sessions begin with this prefix. At most ten are named.
    #[error("{prefix:?} could be any of {}", ids.join(", "))]
    Ambiguous { prefix: String, ids: Vec<String> },
    /// Too many messages or signals are queued for a session. Nothing was changed.
    #[error("cannot send more to session {session}: {limit} {what} wait in it already")]
    TooMany {
        what: &'static str,
        session: String,
        limit: u64,
    },
    /// The database is empty, and other processes have it open.
    #[error(
        "cannot make the tables of the session store: it is in use by process {}",
        list(pids)
    )]
    Locked { pids: Vec<u32> },
    /// The operation needs exclusive use of the store, and other processes have it open.
    #[error("cannot {what}: the session store is in use by process {}", list(pids))]
    InUse { what: &'static str, pids: Vec<u32> },
    /// The session is open in another process.
    #[error("session {session} is in use{}", by(pid))]
    Held {
        session: String,
        /// The process that has it open. `None`: not known.
        pid: Option<u32>,
        /// Time since when it has it open: UTC, milliseconds since 1970. `None`: not known.
        since_ms: Option<i64>,
    },
    /// The session was in use on another machine a moment ago, whose lock may not be visible here.
    #[error(
        "session {session} was in use on another machine {} s ago: {machine}{}",
        age_ms / 1_000, by(pid)
    )]
    Elsewhere {
        session: String,
        /// The name of the machine.
        machine: String,
        /// The process on that machine. `None`: not known.
        pid: Option<u32>,
        age_ms: i64,
        /// The lock file that says so. `None`: the high-water mark says so.
        lock: Option<PathBuf>,
    },
    /// A file of the store could not be read or written.
    #[error("cannot {what}: {source}")]
    Io { what: String, source: io::Error },
    /// An error of the database that belongs to no other class.
    #[error("cannot {what}: {source}")]
    Sqlite {
        what: &'static str,
        source: rusqlite::Error,
    },
    /// JSON could not be serialised or parsed.
    #[error("cannot {what}: {source}")]
    Encode {
        what: &'static str,
        source: serde_json::Error,
    },
}

/// Quotes a name. The address of an entry is not quoted, since it is a number with more words.
fn quoted(what: &str, name: &str) -> String {
    match what {
        "entry" => name.to_string(),
        _ => format!("{name:?}"),
    }
}

impl StoreError {
    /// Returns the hint: what the user can do about the error.
    pub fn hint(&self) -> Option<String> {
        Some(match self {
            StoreError::DiskError { .. } => DISK_ERROR.to_string(),
            StoreError::Unreadable { .. } => UNREADABLE.to_string(),
            StoreError::Network { .. } => NETWORK.to_string(),
            StoreError::InTheWay { path, what } => remedy(path, what),
            StoreError::Full { .. } => {
                "free some space on the disk; what was recorded is safe".to_string()
            }
            StoreError::Moved { .. } => {
                "nothing more is begun here. If it was moved, move it back, and this goes on; else \
                 leave, and go on with rewake -c: what was recorded is in the journal"
                    .to_string()
            }
            StoreError::BackInTime { .. } => {
                "to go on could do once more what was done: put the newer rewake.db back, with what \
                 begins with that name; or, to take this one as it is: rewake doctor --as-is"
                    .to_string()
            }
            StoreError::Gap(gap) => gap_hint(gap),
            StoreError::Older { .. } => {
                "commit f7033d22 still opens it: there rewake export --bundle FILE, here rewake import \
                 FILE; or begin in another folder: set REWAKE_HOME"
                    .to_string()
            }
            StoreError::Newer { .. } | StoreError::Unknown { .. } => {
                "it was written by a newer version: update rewake".to_string()
            }
            StoreError::Busy { .. } => "another process is writing for long: try again".to_string(),
            StoreError::Replica { session, .. } => {
                format!("rewake -r {session} continues it in a fork")
            }
            StoreError::Shared { session, .. } | StoreError::HeadMoved { session } => {
                format!("open it again: rewake -r {session}")
            }
            // A fork from the readable entries works without a repair.
            StoreError::Damaged {
                in_journal: sessions @ 1..,
                ..
            }
            | StoreError::Corrupt {
                seq: 0,
                in_journal: sessions @ 1..,
                ..
            }
            | StoreError::Corrupt {
                can_append: false,
                in_journal: sessions @ 1..,
                ..
            } => from_journal(*sessions),
            StoreError::Corrupt { seq: 0, .. } => {
                format!("rewake doctor looks at the whole store; {REPAIR}")
            }
            StoreError::Corrupt {
                session,
                seq,
                can_append: true,
                ..
            } => {
                let last = seq - 1;
                format!("a fork at entry {last} can continue: rewake fork {session} --at {last}")
            }
            StoreError::Corrupt { session, seq, .. } => format!(
                "nothing can be added to this database any more, but the entries up to {} can be \
                 read: rewake show {session}; {REPAIR}; {ELSEWHERE}",
                seq - 1
            ),
            StoreError::Damaged { is_open: true, .. } => format!(
                "sessions may still be readable: rewake doctor says which, rewake show ID prints one; \
                 {REPAIR}; {ELSEWHERE}"
            ),
            StoreError::Damaged { .. } => format!(
                "nothing in it can be read as it is: {REPAIR}; `--from` names another copy to take \
                 entries from; {ELSEWHERE}"
            ),
            StoreError::NotFound {
                what: "entry",
                near: Some(last),
                ..
            } => format!("the last is {last}"),
            StoreError::NotFound {
                near: Some(near), ..
            } => format!("the nearest is {near}"),
            StoreError::NotFound { near: None, .. } => {
                "rewake history lists the sessions".to_string()
            }
            StoreError::TooMany { session, .. } => format!(
                "no process runs the session: rewake -r {session} resumes it"
            ),
            StoreError::Ambiguous { .. } => "give more of the id".to_string(),
            StoreError::Locked { pids } | StoreError::InUse { pids, .. } if pids.is_empty() => {
                "close the other rewake processes".to_string()
            }
            StoreError::Locked { pids } | StoreError::InUse { pids, .. } => {
                format!("close process {}", list(pids))
            }
            StoreError::Elsewhere { lock, .. } => {
                let anyway = lock.as_ref().map_or_else(String::new, |lock| {
                    format!(", or: truncate -s 0 {}", lock.display())
                });
                format!(
                    "two machines cannot work in one store: close rewake there. If it does not run \
                     there any more, wait {} s{anyway}",
                    LATELY.as_secs()
                )
            }
            StoreError::Held { .. } => "fork it, or close the other process".to_string(),
            StoreError::Io { source, .. } if is_forbidden(source) => FORBIDDEN.to_string(),
            StoreError::Io { source, .. } if is_disk_error(source) => DISK_ERROR.to_string(),
            StoreError::Sqlite { source, .. }
                if source.sqlite_error_code() == Some(ErrorCode::ReadOnly) =>
            {
                FORBIDDEN.to_string()
            }
            StoreError::Io { .. } | StoreError::Sqlite { .. } | StoreError::Encode { .. } => {
                return None;
            }
        })
    }

    /// Returns whether recorded data is damaged or contradicts itself.
    pub fn is_damage(&self) -> bool {
        matches!(
            self,
            StoreError::Damaged { .. } | StoreError::Corrupt { .. }
        )
    }

    /// Returns whether the store may not be written: its folder, one of its files, or the whole
    /// file system.
    pub fn is_forbidden(&self) -> bool {
        match self {
            StoreError::Io { source, .. } => is_forbidden(source),
            StoreError::InTheWay { what, .. } => *what == OF_ANOTHER_USER,
            StoreError::Sqlite { source, .. } => matches!(
                source.sqlite_error_code(),
                Some(ErrorCode::ReadOnly | ErrorCode::PermissionDenied | ErrorCode::CannotOpen)
            ),
            _ => false,
        }
    }

    /// Returns whether the error is temporary: nothing was changed, and the same call can be
    /// retried.
    pub fn is_passing(&self) -> bool {
        matches!(
            self,
            StoreError::Full { .. }
                | StoreError::DiskError { .. }
                | StoreError::Busy { .. }
                | StoreError::Moved { .. }
        )
    }

    pub(crate) fn damaged(what: impl Into<String>) -> StoreError {
        StoreError::Damaged {
            what: what.into(),
            is_open: true,
            in_journal: 0,
        }
    }

    /// Returns the error for a store that could not be opened because of it.
    pub(super) fn while_opening(self) -> StoreError {
        match self {
            StoreError::Damaged {
                what, in_journal, ..
            } => StoreError::Damaged {
                what,
                is_open: false,
                in_journal,
            },
            error => error,
        }
    }

    /// Sets the number of sessions in the journal. `sessions` is called only for an error about
    /// damage.
    pub(super) fn with_journal(mut self, sessions: impl FnOnce() -> u64) -> StoreError {
        if let StoreError::Damaged { in_journal, .. } | StoreError::Corrupt { in_journal, .. } =
            &mut self
        {
            *in_journal = sessions();
        }
        self
    }

    pub fn no_session(id: &str) -> StoreError {
        StoreError::NotFound {
            what: "session",
            name: id.to_string(),
            near: None,
        }
    }
}

fn from_journal(sessions: u64) -> String {
    format!(
        "the journal has {}: `rewake doctor --repair` makes a new database of that and of what can \
         still be read; the damaged one is kept beside it",
        crate::core::text::count(sessions, "session")
    )
}

fn gap_hint(gap: &Gap) -> String {
    let (session, last) = (&gap.session, gap.first.saturating_sub(1));
    format!("a fork at entry {last} can continue: rewake fork {session} --at {last}")
}

/// Returns whether the error is EIO: the kernel could not read or write.
fn is_disk_error(source: &io::Error) -> bool {
    source.raw_os_error() == Some(Errno::IO.raw_os_error())
}

fn is_forbidden(source: &io::Error) -> bool {
    matches!(
        source.kind(),
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem
    )
}

fn list(pids: &[u32]) -> String {
    match pids {
        [] => "(unknown)".to_string(),
        pids => pids
            .iter()
            .map(u32::to_string)
            .collect::<Vec<_>>()
            .join(", "),
    }
}

fn by(pid: &Option<u32>) -> String {
    pid.map(|pid| format!(" by process {pid}"))
        .unwrap_or_default()
}

/// Adds the attempted operation to an error, and assigns the error to its class.
pub(super) trait Doing<T> {
    fn doing(self, what: &'static str) -> Result<T, StoreError>;
}

impl<T> Doing<T> for rusqlite::Result<T> {
    fn doing(self, what: &'static str) -> Result<T, StoreError> {
        self.map_err(|source| classify(what, source))
    }
}

impl<T> Doing<T> for serde_json::Result<T> {
    fn doing(self, what: &'static str) -> Result<T, StoreError> {
        self.map_err(|source| StoreError::Encode { what, source })
    }
}

pub(super) fn classify(what: &'static str, source: rusqlite::Error) -> StoreError {
    use rusqlite::Error;
    // SQLite's error prints the whole statement, which means nothing to a user.
    let source = match source {
        Error::SqlInputError { error, msg, .. } => Error::SqliteFailure(error, Some(msg)),
        source => source,
    };
    let code = match &source {
        Error::SqliteFailure(code, _) => code,
        Error::FromSqlConversionFailure(..)
        | Error::IntegralValueOutOfRange(..)
        | Error::InvalidColumnType(..)
        | Error::Utf8Error(..) => return StoreError::damaged(format!("{source} (cannot {what})")),
        _ => return StoreError::Sqlite { what, source },
    };
    match code.code {
        ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked => StoreError::Busy { what },
        ErrorCode::DiskFull => StoreError::Full {
            what: what.to_string(),
            why: source.to_string(),
        },
        // SQLite reports this if the disk has no space for its shared memory.
        ErrorCode::SystemIoFailure if code.extended_code == ffi::SQLITE_IOERR_SHMSIZE => {
            StoreError::Full {
                what: what.to_string(),
                why: source.to_string(),
            }
        }
        ErrorCode::SystemIoFailure => {
            let why = format!("{} fails: {source}", failed_call(code.extended_code));
            let what = what.to_string();
            match is_write(code.extended_code) {
                true => StoreError::DiskError { what, why },
                false => StoreError::Unreadable { what, why },
            }
        }
        ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase => {
            StoreError::damaged(format!("{source} (cannot {what})"))
        }
        _ if is_renamed(&source) => StoreError::damaged(format!(
            "a name in its schema is another: {source} (cannot {what})"
        )),
        _ => StoreError::Sqlite { what, source },
    }
}

/// Returns whether a statement does not fit the schema. The program's own statements fit, so the
/// schema is another one.
fn is_renamed(source: &rusqlite::Error) -> bool {
    let rusqlite::Error::SqliteFailure(_, Some(why)) = source else {
        return false;
    };
    ["no such column", "no such table"]
        .iter()
        .any(|begins| why.starts_with(begins))
        || why.ends_with("already exists")
}

/// Returns the failed operation and the file. For some codes SQLite does not say which of two files
/// it was.
fn failed_call(extended_code: i32) -> &'static str {
    match extended_code {
        ffi::SQLITE_IOERR_READ | ffi::SQLITE_IOERR_SHORT_READ | ffi::SQLITE_IOERR_CORRUPTFS => {
            "reading rewake.db or rewake.db-wal"
        }
        ffi::SQLITE_IOERR_WRITE => "writing to rewake.db-wal or rewake.db",
        ffi::SQLITE_IOERR_FSYNC => "syncing rewake.db-wal or rewake.db",
        ffi::SQLITE_IOERR_DIR_FSYNC => "syncing the folder of rewake.db",
        ffi::SQLITE_IOERR_TRUNCATE => "changing the size of rewake.db-wal or rewake.db",
        ffi::SQLITE_IOERR_SHMMAP | ffi::SQLITE_IOERR_SHMOPEN | ffi::SQLITE_IOERR_SHMLOCK => {
            "mapping rewake.db-shm"
        }
        ffi::SQLITE_IOERR_LOCK
        | ffi::SQLITE_IOERR_UNLOCK
        | ffi::SQLITE_IOERR_RDLOCK
        | ffi::SQLITE_IOERR_CHECKRESERVEDLOCK => "locking rewake.db",
        _ => "looking at rewake.db or what lies beside it",
    }
}

fn is_write(extended_code: i32) -> bool {
    matches!(
        extended_code,
        ffi::SQLITE_IOERR_WRITE
            | ffi::SQLITE_IOERR_FSYNC
            | ffi::SQLITE_IOERR_DIR_FSYNC
            | ffi::SQLITE_IOERR_TRUNCATE
            | ffi::SQLITE_IOERR_SHMMAP
            | ffi::SQLITE_IOERR_SHMOPEN
    )
}

pub(crate) fn io(what: impl Into<String>, source: io::Error) -> StoreError {
    let what = what.into();
    match source.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => StoreError::Full {
            what,
            why: source.to_string(),
        },
        _ => StoreError::Io { what, source },
    }
}

impl From<JournalError> for StoreError {
    fn from(error: JournalError) -> StoreError {
        let what = format!("write the journal in {}", error.path.display());
        io(what, error.source)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of_sqlite(extended_code: i32) -> StoreError {
        let source = rusqlite::Error::SqliteFailure(ffi::Error::new(extended_code), None);
        classify("append to the session", source)
    }

    #[track_caller]
    fn assert_hint(error: &StoreError, has: &str, has_not: &str) {
        let hint = error.hint().unwrap_or_default();
        assert!(
            hint.contains(has) && !hint.contains(has_not),
            "{error}: {hint}"
        );
    }

    #[test]
    fn an_error_of_the_disk_is_not_a_full_disk() {
        for code in [
            ffi::SQLITE_IOERR_WRITE,
            ffi::SQLITE_IOERR_FSYNC,
            ffi::SQLITE_IOERR_DIR_FSYNC,
            ffi::SQLITE_IOERR_TRUNCATE,
        ] {
            assert!(of_sqlite(code).is_passing(), "{code}");
            assert_hint(&of_sqlite(code), "system log", "free some space");
        }
        for code in [
            ffi::SQLITE_IOERR_READ,
            ffi::SQLITE_IOERR_FSTAT,
            ffi::SQLITE_IOERR,
        ] {
            assert!(!of_sqlite(code).is_passing(), "{code}");
            assert_hint(&of_sqlite(code), "system log", "free some space");
        }
        let said = of_sqlite(ffi::SQLITE_IOERR_FSYNC).to_string();
        assert!(said.contains("syncing rewake.db-wal"), "{said}");
        let errno = |errno: Errno| io("lock the session", errno.into());
        assert_hint(&errno(Errno::IO), "system log", "free some space");
        for full in [
            of_sqlite(ffi::SQLITE_FULL),
            errno(Errno::NOSPC),
            errno(Errno::DQUOT),
        ] {
            assert!(full.is_passing());
            assert_hint(&full, "free some space", "system log");
        }
        assert_eq!(errno(Errno::NOENT).hint(), None);
        for forbidden in [of_sqlite(ffi::SQLITE_READONLY), errno(Errno::ACCESS)] {
            assert_hint(&forbidden, "a folder that you can write to", "system log");
        }
    }

    #[test]
    fn a_hint_for_damage_says_what_is_left() {
        let of = |code| StoreError::damaged(of_sqlite(code).to_string());
        let damaged = of(ffi::SQLITE_CORRUPT);
        assert_hint(&damaged, "rewake show", "empty");
        assert_hint(&damaged, "to work on, set REWAKE_HOME", "empty");
        let damaged = damaged.while_opening();
        assert_hint(&damaged, "`--from` names another copy", "rewake show");
        assert_hint(&damaged, "to work on, set REWAKE_HOME", "empty");
        let with = |error: StoreError| error.with_journal(|| 2);
        assert_hint(
            &with(damaged),
            "the journal has 2 sessions: `rewake doctor --repair`",
            "copy",
        );
        let corrupt = |seq, can_append| StoreError::Corrupt {
            session: "01a1".into(),
            seq,
            what: "x".into(),
            can_append,
            in_journal: 0,
        };
        assert_hint(&corrupt(7, true), "rewake fork 01a1 --at 6", "empty");
        assert_hint(&corrupt(7, false), "up to 6 can be read", "fork");
        assert_hint(&corrupt(7, false), "to work on, set REWAKE_HOME", "fork");
        assert_hint(&corrupt(0, true), "doctor", "fork");
        assert_hint(
            &with(corrupt(0, true)),
            "the journal has 2 sessions",
            "fork",
        );
        assert_hint(
            &with(corrupt(7, false)),
            "the journal has 2 sessions",
            "fork",
        );
        assert_hint(
            &with(corrupt(7, true)),
            "rewake fork 01a1 --at 6",
            "journal",
        );
    }
}
