//! The history pane: all sessions, the checkpoints of one as a tree, and the conversation at a
//! checkpoint.
//!
//! [`Pane`] is a value: keys and responses go in, requests come out. The [`HistoryWorker`], a thread with
//! its own store, answers requests for data. Until an answer arrives the pane shows the data that
//! it had. An answer to a request that is not the last one is dropped.
//!
//! Deliberately absent: opening, forking and exporting a session. The pane says which one.
//!
//! Invariant: nothing of the pane touches the disk or waits.
//! Invariant: every text in an answer is clean: no control character, no tab and no line end. The
//! entries of a preview are as they were recorded: the code that draws the conversation cleans
//! them.

mod draw;
mod input;
mod keys;
mod lines;
mod list;
mod pane;
mod preview;
mod queue;
mod read;
mod scroll;

mod timeline;
mod tree;
mod words;
mod worker;

#[cfg(test)]
mod tests;

use jiff::civil::Date;
use jiff::tz::TimeZone;

use crate::core::entry::{Record, Seq};
use crate::session::{EditPlace, SessionState, TreePair};
use crate::tools::Verb;

pub(crate) use keys::help;
pub(crate) use pane::Pane;
pub(crate) use worker::HistoryWorker;

/// A request to the worker. The newest of a kind replaces older ones.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HistoryRequest {
    /// Sessions with these words in their messages or output, or with a similar title; empty: all.
    Sessions {
        number: u64,
        query: String,
        in_trash: bool,
    },
    /// More of the list with this number, from this row on.
    More {
        number: u64,
        from: usize,
    },
    /// A part of the history of a session that ends with this entry, or at its end.
    Checkpoints {
        number: u64,
        session: String,
        upto: Option<Seq>,
    },
    /// The conversation up to this entry.
    Preview {
        number: u64,
        session: String,
        seq: Seq,
    },
    /// Changes that these lines of the tree made to files.
    Changes {
        number: u64,
        lines: Vec<LineTrees>,
    },
    /// Details of the chosen session.
    About {
        id: String,
    },
    Rename {
        id: String,
        title: String,
    },
    Trash {
        id: String,
    },
    Restore {
        id: String,
    },
    Dismiss {
        id: String,
    },
}

/// The worker's responses.
#[derive(Debug, Clone, PartialEq)]
pub enum HistoryResponse {
    Sessions(Page),
    Checkpoints(HistoryPart),
    /// The last entries up to the requested one.
    Preview {
        number: u64,
        records: Vec<Record>,
        /// The places in their files where the edits of the preview were made.
        places: Vec<EditPlace>,
    },
    /// `+12 −3 in 4` for each requested line; empty where it is not known.
    Changes {
        number: u64,
        lines: Vec<(LineKey, String)>,
    },
    About {
        id: String,
        about: About,
    },
    /// The new title, or the reason why there is none.
    Renamed {
        id: String,
        outcome: Result<String, String>,
    },
    Trashed {
        id: String,
        outcome: Result<(), String>,
    },
    Restored {
        id: String,
        outcome: Result<(), String>,
    },
    /// The outcome in words for the person, or the reason of a failure.
    Dismissed {
        id: String,
        outcome: Result<&'static str, String>,
    },
    /// The request with this number failed.
    Failed {
        number: u64,
        why: String,
    },
}

/// The result of a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PaneOutcome {
    Nothing,
    Request(HistoryRequest),
    Close,
    Resume(String),
    ForkAt { id: String, seq: Seq },
    Export { id: String, file: String },
    Rename { id: String, title: String },
}

/// A page of the list.
#[derive(Debug, Clone, PartialEq)]
pub struct Page {
    number: u64,
    from: usize,
    rows: Vec<Row>,
    /// Number of rows of the whole list.
    total: usize,
    /// Number of rows of the workspace in which the pane was opened.
    here: usize,
    zone: TimeZone,
}

/// A session in the list.
#[derive(Debug, Clone, PartialEq)]
struct Row {
    id: String,
    /// The title of the session, or the first words of the user.
    title: String,
    workspace: String,
    /// The workspace as it is shown: below the home folder from `~`.
    place: String,
    /// The time of its last entry: UTC, milliseconds since 1970.
    updated_ms: i64,
    standing: SessionState,
    /// The same in words.
    state: &'static str,
    entries: u64,
    bytes: u64,
    model: Option<String>,
    /// US dollars where the price is known, else tokens.
    cost: String,
    is_fork: bool,
    /// The parent, if this is the session of a subagent: it is listed below its parent.
    parent: Option<String>,
    /// The place where the query was found in it.
    snippet: Option<String>,
}

/// Details of the chosen row. The messages are as they were written.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct About {
    by_user: Option<String>,
    by_model: Option<String>,
    /// Number of messages of the user. `None`: too long to count.
    requests: Option<u64>,
    /// The last output of a command.
    output: Option<String>,
}

/// A part of the history of a session.
#[derive(Debug, Clone, PartialEq)]
pub struct HistoryPart {
    number: u64,
    session: String,
    title: String,
    entries: u64,
    /// The first entry that was read; earlier ones exist if it is not 0.
    first: Seq,
    /// The points, first to last.
    points: Vec<Point>,
    /// The ancestors, the nearest first.
    ancestors: Vec<Branch>,
    forks: Vec<Branch>,
}

/// A point in the tree: a message of the user, a call, or the end of a turn.
#[derive(Debug, Clone, PartialEq)]
struct Point {
    seq: Seq,
    day: Date,
    time: String,
    item: TimelineItem,
    /// The files before and after a call that may have changed them, where they are known.
    trees: Option<TreePair>,
}

/// The first and the last entry that a line of the tree represents.
type LineKey = (Seq, Seq);

/// A line of the tree, and the files before and after each of its calls.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LineTrees {
    key: LineKey,
    pairs: Vec<TreePair>,
}

/// An item of a timeline.
#[derive(Debug, Clone, PartialEq)]
enum TimelineItem {
    Said(String),
    Did {
        verb: Verb,
        /// In few words.
        subject: String,
        result: CallResult,
    },
    /// The answer, a stop, a failure; or something that happened to the session.
    Ended(String),
}

/// The outcome of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CallResult {
    Done,
    Failed,
    Denied,
    /// It was cut off, or stopped.
    Interrupted,
    InBackground,
    /// It has no result yet, and still runs.
    Running,
}

/// A session that shares its first entries, up to `upto`, with the one that is shown.
#[derive(Debug, Clone, PartialEq)]
struct Branch {
    id: String,
    title: String,
    upto: Seq,
    entries: u64,
}
