//! The history pane: every session there is, the checkpoints of one as a tree, and the
//! conversation at a checkpoint.
//!
//! [`Pane`] is a value: keys and answers go in, what is to be done comes out. What it wants to
//! know it asks of the [`Worker`], a thread with a store of its own; until the answer is there
//! the pane shows what it had. An answer to a question that is no longer the last is dropped.
//!
//! Deliberately absent: opening, forking and exporting a session. The pane says which one.
//!
//! Invariant: nothing of the pane touches the disk or waits.
//! Invariant: every text in an answer is clean: no control character, no tab and no line end. The
//! entries of a preview are as they were recorded: the painter of the conversation cleans them.

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

mod tree;
mod way;
mod words;
mod worker;

#[cfg(test)]
mod tests;

use jiff::civil::Date;
use jiff::tz::TimeZone;

use crate::core::entry::{Record, Seq};
use crate::session::{EditPlace, Standing, TreePair};
use crate::tools::Verb;

pub(crate) use keys::help;
pub(crate) use pane::Pane;
pub(crate) use worker::Worker;

/// What is asked of the worker. The newest of a kind wins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HistoryRequest {
    /// Sessions in which this was said or printed, or whose title is like it; empty: all.
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
    /// A piece of a session's way that ends with this entry, or at its end.
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
    /// What these lines of the tree changed in the files.
    Changes {
        number: u64,
        lines: Vec<LineTrees>,
    },
    /// More of this session, for the row that is chosen.
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
    Checkpoints(Piece),
    /// The last entries up to there.
    Preview {
        number: u64,
        records: Vec<Record>,
        /// Where the edits in it were made.
        places: Vec<EditPlace>,
    },
    /// `+12 −3 in 4` for each line that was asked about; nothing where it is not known.
    Changes {
        number: u64,
        lines: Vec<(LineKey, String)>,
    },
    About {
        id: String,
        about: About,
    },
    /// The new title, or why there is none.
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
    /// What came of it in a word for the person, or why nothing did.
    Dismissed {
        id: String,
        outcome: Result<&'static str, String>,
    },
    /// The question with this number cannot be answered.
    Failed {
        number: u64,
        why: String,
    },
}

/// What a key led to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Did {
    Nothing,
    Request(HistoryRequest),
    Close,
    Resume(String),
    ForkAt { id: String, seq: Seq },
    Export { id: String, file: String },
    Rename { id: String, title: String },
}

/// A part of the list.
#[derive(Debug, Clone, PartialEq)]
pub struct Page {
    number: u64,
    from: usize,
    rows: Vec<Row>,
    /// Rows of the whole list.
    total: usize,
    /// Those of the workspace that it was opened in.
    here: usize,
    zone: TimeZone,
}

/// A session in the list.
#[derive(Debug, Clone, PartialEq)]
struct Row {
    id: String,
    /// What it is called: the name that a person gave it, else what was wanted last.
    name: String,
    /// As it was named, or the first words said.
    title: String,
    workspace: String,
    /// The workspace as it is shown: below the home folder from `~`.
    place: String,
    /// The time of its last entry: UTC, milliseconds since 1970.
    updated_ms: i64,
    standing: Standing,
    entries: u64,
    bytes: u64,
    /// US dollars where the price is known, else tokens.
    cost: String,
    is_fork: bool,
    /// The session of a sub-agent stands below this one, its parent's.
    parent: Option<String>,
    /// Where the query was found in it.
    snippet: Option<String>,
}

/// What the row that is chosen says besides, a line each.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct About {
    by_user: Option<String>,
    by_model: Option<String>,
    /// How often the user said something. `None`: too long to count.
    requests: Option<u64>,
    /// What a command printed last.
    output: Option<String>,
}

/// A part of a session's way.
#[derive(Debug, Clone, PartialEq)]
pub struct Piece {
    number: u64,
    session: String,
    title: String,
    entries: u64,
    /// The first entry that was read; before it there is more.
    first: Seq,
    /// First to last.
    points: Vec<Point>,
    /// The nearest first.
    ancestors: Vec<Branch>,
    forks: Vec<Branch>,
}

/// What the user said, what a call did, or how it ended.
#[derive(Debug, Clone, PartialEq)]
struct Point {
    seq: Seq,
    day: Date,
    time: String,
    what: What,
    /// The files before and after a call that may have changed them, where they are known.
    trees: Option<TreePair>,
}

/// The first and the last entry that a line of the tree stands for.
type LineKey = (Seq, Seq);

/// A line of the tree, and the files before and after each call that it stands for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LineTrees {
    key: LineKey,
    pairs: Vec<TreePair>,
}

#[derive(Debug, Clone, PartialEq)]
enum What {
    Said(String),
    Did {
        verb: Verb,
        /// In few words.
        subject: String,
        came: Came,
    },
    /// The answer, a stop, a failure; or something that happened to the session.
    Ended(String),
}

/// What came of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Came {
    Done,
    Failed,
    Denied,
    /// It was cut off, or stopped.
    Interrupted,
    InBackground,
    /// It has no result yet, and goes on.
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
