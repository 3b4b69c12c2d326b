//! Sessions of other coding agents: where they are, what is in them, and copies of them.
//!
//! Each agent has a reader that turns its format into [`Piece`]s, and `normal` alone turns pieces
//! into entries. A source is only read: its files are opened without links and without locks, and a
//! database is copied first. What is in a source is text: nothing in it is run or opened.
//!
//! The formats are those of the files in `tests/fixtures/import`.

mod claude;
mod codex;
mod find;
mod gemini;
mod lines;
mod links;
mod normal;
mod open;
mod opencode;
mod pi;
mod qwen;
mod run;
mod tools;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::core::entry::Usage;
use crate::core::text::{count, one_line};
use crate::core::visible::visible;

pub use find::{Cache, ForeignSession, SourceError, Sources, printed_of};
pub use opencode::Database;
pub use run::{ImportError, Imported, Importer};
pub use tools::foreign_tools;

/// An agent whose sessions can be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Agent {
    Claude,
    Codex,
    Opencode,
    Pi,
    Qwen,
    Gemini,
}

impl Agent {
    pub const ALL: [Agent; 6] = [
        Agent::Claude,
        Agent::Codex,
        Agent::Opencode,
        Agent::Pi,
        Agent::Qwen,
        Agent::Gemini,
    ];

    /// Returns the name in commands and in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Agent::Claude => "claude",
            Agent::Codex => "codex",
            Agent::Opencode => "opencode",
            Agent::Pi => "pi",
            Agent::Qwen => "qwen",
            Agent::Gemini => "gemini",
        }
    }
}

impl fmt::Display for Agent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// A part of a conversation, in the order of the source.
#[derive(Debug, Clone, PartialEq)]
pub enum Piece {
    /// A message of the user.
    Said {
        at_ms: i64,
        text: String,
        /// The bytes of its images.
        images: Vec<Vec<u8>>,
    },
    /// Text of an answer. Pieces with the same `answer` belong to one answer.
    Text {
        at_ms: i64,
        answer: String,
        text: String,
    },
    /// A call of a tool in an answer.
    Call {
        at_ms: i64,
        answer: String,
        id: String,
        name: String,
        /// JSON, or text where the source has text.
        arguments: String,
        /// Output of a call without a result, if the source has it.
        printed: Option<String>,
    },
    /// The result of a call.
    Result {
        at_ms: i64,
        call: String,
        text: String,
        is_error: bool,
        images: Vec<Vec<u8>>,
    },
    /// The model of an answer, and the tokens that the agent counted for it.
    Counted {
        answer: String,
        model: String,
        usage: Usage,
    },
    /// A summary that replaces the earlier conversation.
    Summary { at_ms: i64, text: String },
}

impl Piece {
    /// Returns its time, milliseconds since 1970. 0: it has none.
    fn at_ms(&self) -> i64 {
        match self {
            Piece::Said { at_ms, .. }
            | Piece::Text { at_ms, .. }
            | Piece::Call { at_ms, .. }
            | Piece::Result { at_ms, .. }
            | Piece::Summary { at_ms, .. } => *at_ms,
            Piece::Counted { .. } => 0,
        }
    }
}

/// The description of a session by its agent.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct About {
    pub id: String,
    /// The version of the agent that began the session.
    pub version: Option<String>,
    pub folder: Option<PathBuf>,
    pub title: Option<String>,
    /// The first time in the source, milliseconds since 1970. 0: there is none.
    pub began_ms: i64,
    /// The IDs at which the branches end that the user left.
    #[serde(default)]
    pub left: Vec<String>,
}

/// Returns a text of a source as one line without control characters.
fn shown(text: &str, max_chars: usize) -> String {
    one_line(&visible(text), max_chars)
}

impl About {
    /// Returns the folder without control characters, or nothing. A folder with some is not found.
    fn shown_folder(&self) -> String {
        let folder = self.folder.as_deref().unwrap_or(Path::new(""));
        visible(&folder.to_string_lossy()).to_string()
    }

    fn note_time(&mut self, at_ms: i64) {
        if self.began_ms == 0 {
            self.began_ms = at_ms;
        }
    }
}

/// Counts of damage and of unknown content in a source.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Report {
    /// Lines, or rows of a database.
    pub lines: u64,
    /// Lines that are not JSON: torn, overwritten or cut off.
    pub damaged: u64,
    /// Lines with bytes that are not UTF-8. They are read.
    pub not_utf8: u64,
    /// Lines that are longer than [`lines::MAX_LINE`]. They are skipped.
    pub too_long: u64,
    /// Lines of a kind that this version does not know, with their number.
    pub unknown: BTreeMap<String, u64>,
    /// Texts that the agent wrote for its model, not the user.
    pub of_agent: u64,
    /// Results that no call asked for, or that had come already.
    pub extra_results: u64,
    /// Calls with the ID of an earlier one.
    pub extra_calls: u64,
    /// Parts of answers before the first message of the user.
    pub without_message: u64,
    /// Calls with arguments of more than 1 MiB.
    pub cut_arguments: u64,
    /// Images that models do not accept.
    pub refused_images: u64,
    /// Lines whose parents form a circle.
    pub circular: u64,
    /// Tables of a database that could be read only in part, with the reason.
    pub partial: Vec<String>,
}

/// Maximum number of kinds that are counted one by one.
const MAX_KINDS: usize = 20;
/// Maximum length of the name of a kind, bytes.
const MAX_KIND: usize = 60;

impl Report {
    fn unknown(&mut self, kind: &str) {
        let kind = one_line(kind, MAX_KIND);
        match self.unknown.len() < MAX_KINDS || self.unknown.contains_key(&kind) {
            true => *self.unknown.entry(kind).or_default() += 1,
            false => *self.unknown.entry("others".into()).or_default() += 1,
        }
    }

    /// Adds the counts of the conversion.
    fn add(&mut self, other: Report) {
        self.extra_results += other.extra_results;
        self.extra_calls += other.extra_calls;
        self.without_message += other.without_message;
        self.cut_arguments += other.cut_arguments;
        self.refused_images += other.refused_images;
    }

    /// Returns whether more than half of the lines are of unknown kinds.
    pub fn is_newer_than_known(&self) -> bool {
        self.unknown.values().sum::<u64>() * 2 > self.lines
    }

    /// Returns what is wrong, a line for each kind. Empty: nothing is.
    pub fn problems(&self) -> Vec<String> {
        let some = [
            (self.damaged, "damaged line", "skipped"),
            (self.too_long, "line", "of more than 64 MiB skipped"),
            (self.not_utf8, "line", "with bytes that are not UTF-8"),
            (self.circular, "line", "with parents in a circle"),
            (
                self.extra_results,
                "result",
                "without a call, or a second time",
            ),
            (self.extra_calls, "call", "with the ID of an earlier one"),
            (
                self.without_message,
                "part",
                "of answers before the first message skipped",
            ),
            (
                self.cut_arguments,
                "call",
                "with arguments of more than 1 MiB, which are cut",
            ),
            (
                self.refused_images,
                "image",
                "that models do not accept skipped",
            ),
        ];
        let some = some.into_iter().filter(|(number, ..)| *number > 0);
        let mut problems: Vec<String> = some
            .map(|(number, what, how)| format!("{} {how}", count(number, what)))
            .collect();
        problems.extend(self.partial.iter().cloned());
        for (kind, number) in &self.unknown {
            problems.push(format!(
                "{} of the unknown kind {kind}",
                count(*number, "line")
            ));
        }
        problems
    }
}

/// The receiver of the pieces of a session, one by one.
type Sink<'a> = &'a mut dyn FnMut(Piece);
