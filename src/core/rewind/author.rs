//! Who changed a file between two trees, as far as the log knows it.
//!
//! A call that replaced one file has recorded both contents. For other changes, the author is
//! derived from the calls and commands that ran between the two trees. If several are possible, the
//! author is unknown.

use std::collections::{BTreeMap, BTreeSet};

use crate::core::access::Access;
use crate::core::entry::{About, CallId, Entry, Fact, Guard, Record};
use crate::core::tree::may_change_files;

/// Who changed a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum Author {
    /// A call of a tool that replaces one file.
    Tool,
    /// A command of the model.
    Command,
    Subagent,
    /// A tool of an MCP server.
    Server,
    /// A restore of the files.
    Rewind,
    /// Something that this session did not start: an editor, another program, another session.
    Hand,
    /// Several authors are possible, or it is not recorded.
    #[default]
    Unknown,
}

impl Author {
    /// Returns the words for a person: "by tool".
    pub fn words(self) -> &'static str {
        match self {
            Author::Tool => "by tool",
            Author::Command => "by command",
            Author::Subagent => "by subagent",
            Author::Server => "by MCP server",
            Author::Rewind => "by rewind",
            Author::Hand => "by hand",
            Author::Unknown => "author unknown",
        }
    }
}

/// The author of the differences between two trees that no call recorded beforehand.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Maker {
    pub author: Author,
    /// The process left during the call: others may have changed files between the end of the call
    /// and the tree.
    pub was_away: bool,
    /// The process left between the end of the call and the tree, so anybody may have changed files.
    pub left_before_tree: bool,
}

impl From<Author> for Maker {
    fn from(author: Author) -> Maker {
        Maker {
            author,
            ..Maker::default()
        }
    }
}

/// The calls that can change files in ways that are not recorded beforehand.
#[derive(Debug, Default)]
pub(super) struct Workers {
    open: BTreeMap<CallId, Author>,
    /// Background commands and subagents, by the id that the model was given.
    background: BTreeMap<String, Author>,
    /// Authors that worked at any time since the last tree.
    active: BTreeSet<Author>,
    /// A call that the agent waited for ended since the last tree.
    has_ended: bool,
    /// Calls that were open when another process resumed the session.
    left: BTreeSet<CallId>,
    was_away: bool,
    left_before_tree: bool,
}

impl Workers {
    pub fn record(&mut self, record: &Record) {
        match &record.entry {
            Entry::Started { access, .. } if *access == Some(Access::Read) => {}
            Entry::Started { call, guard, .. } => {
                let author = match guard {
                    Guard::Checked { .. } | Guard::Asks => return,
                    Guard::Supervised { .. } => Author::Command,
                    Guard::Child { .. } => Author::Subagent,
                    Guard::Served { .. } | Guard::Opaque => Author::Server,
                };
                self.open.insert(*call, author);
                self.active.insert(author);
            }
            Entry::Finished { call, fact, .. } => {
                let Some(author) = self.open.remove(call) else {
                    return;
                };
                self.has_ended = true;
                self.was_away |= self.left.remove(call);
                if let Some(Fact::Background { id, .. }) = fact {
                    self.background.insert(id.clone(), author);
                }
            }
            Entry::Noted {
                about: Some(About::BackgroundEnded { id, .. }),
                ..
            } => {
                self.background.remove(id);
            }
            Entry::Resumed { .. } => {
                self.left = self.open.keys().copied().collect();
                self.left_before_tree = self.has_ended;
            }
            // A hook may format files. It is a command that was started for a call, as a check is.
            Entry::Hooking { .. } | Entry::CheckStarted { .. }
                if may_change_files(&record.entry) =>
            {
                self.active.insert(Author::Command);
                self.has_ended = true;
            }
            // Commands that still run belong to the other branch or machine.
            Entry::Forked { .. } | Entry::Moved { .. } | Entry::Relocated { .. } => {
                *self = Workers::default()
            }
            _ => {}
        }
    }

    /// Returns the author of the differences between the last tree and this one.
    pub fn at_tree(&mut self) -> Maker {
        let author = match (self.has_ended, self.active.len()) {
            (true, 1) => self.active.first().copied().unwrap_or_default(),
            (false, 0) => Author::Hand,
            _ => Author::Unknown,
        };
        let maker = Maker {
            author,
            was_away: self.was_away,
            left_before_tree: self.left_before_tree,
        };
        let at_work = self.open.values().chain(self.background.values());
        self.active = at_work.copied().collect();
        self.has_ended = false;
        self.was_away = false;
        self.left_before_tree = false;
        maker
    }
}
