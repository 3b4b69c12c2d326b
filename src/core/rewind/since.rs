//! The trees that a log names after a place, and who made the differences between them.

use std::collections::BTreeMap;

use super::author::{Maker, Workers};
use crate::core::access::Access;
use crate::core::entry::{CallId, Entry, Fact, Guard, Record};
use crate::core::file_clock::{CommandEnd, FileClock};
use crate::core::tree::named;

/// Maximum time from the record of a command to its start.
const BEGIN_MS: i64 = 1_000;

/// A tree that a log names after a place, and who made the difference to the previous tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamedTree {
    pub name: String,
    pub cause: Cause,
    /// Author of the changes that `cause` does not record beforehand.
    pub maker: Maker,
}

/// Who made the difference between two trees.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Cause {
    /// Calls that wrote one file each, and a command if one ran. Changes that neither can have made
    /// are somebody else's.
    Calls {
        written: Vec<Written>,
        /// The end of the last command.
        command_ended: Option<CommandEnd>,
    },
    /// Files were restored to this tree. Differences from it are somebody else's.
    Restored { target: String },
    /// Somebody else.
    Outside,
}

/// A file that a call replaced: its hashes in hex.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Written {
    /// Absolute.
    pub path: String,
    pub before: Option<String>,
    pub after: String,
}

/// Returns the trees that the log names after the place `start` in `records`. At `start` the files
/// were as in the tree `from`.
pub fn named_since(records: &[Record], start: usize, from: &str) -> Vec<NamedTree> {
    let mut since = Since {
        last: from.to_string(),
        resumed_ms: i64::MIN,
        ..Since::default()
    };
    for record in records.iter().take(start) {
        since.workers.record(record);
        since.measured(record);
    }
    for record in records.get(start..).unwrap_or_default() {
        since.record(record);
    }
    since.trees
}

/// The progress of [`named_since`].
#[derive(Default)]
struct Since {
    trees: Vec<NamedTree>,
    last: String,
    written: Vec<Written>,
    /// Commands that started, and when.
    commands: BTreeMap<CallId, i64>,
    command_ended: Option<CommandEnd>,
    /// The last measurement of the clock of the root's file system.
    clock: Option<FileClock>,
    restoring: Option<String>,
    /// When another process last resumed the session.
    resumed_ms: i64,
    workers: Workers,
}

impl Since {
    fn measured(&mut self, record: &Record) {
        if let Entry::Saved {
            clock: Some(clock), ..
        } = &record.entry
        {
            self.clock = Some(*clock);
        }
    }

    fn record(&mut self, record: &Record) {
        self.workers.record(record);
        self.measured(record);
        match &record.entry {
            Entry::Started { access, .. } if *access == Some(Access::Read) => {}
            Entry::Started { call, guard, .. } => match guard {
                Guard::Checked {
                    path,
                    before,
                    after,
                } => self.written.push(Written {
                    path: path.clone(),
                    before: before.clone(),
                    after: after.clone(),
                }),
                Guard::Asks => {}
                Guard::Supervised { .. }
                | Guard::Child { .. }
                | Guard::Served { .. }
                | Guard::Opaque => {
                    self.commands.entry(*call).or_insert(record.at_ms);
                }
            },
            Entry::Finished {
                call, fact, tree, ..
            } => {
                if let Some(began) = self.commands.remove(call) {
                    let was_settled = began < self.resumed_ms;
                    // A process that lived to record the end was not interrupted at the start.
                    let begin = if was_settled { BEGIN_MS } else { BEGIN_MS / 4 };
                    let ended = match fact {
                        // It may have ended long before: another process settled it, or the files
                        // were scanned before the record.
                        Some(Fact::Ran { took_ms, .. }) if was_settled || tree.is_some() => began
                            .saturating_add(i64::try_from(*took_ms).unwrap_or(i64::MAX))
                            .saturating_add(begin),
                        _ => record.at_ms,
                    };
                    let ended = ended.min(record.at_ms);
                    let last = self.command_ended.map_or(i64::MIN, |last| last.at_ms);
                    self.command_ended = Some(CommandEnd {
                        at_ms: ended.max(last),
                        clock: self.clock,
                    });
                }
            }
            Entry::Resumed { .. } => self.resumed_ms = record.at_ms,
            // Commands that still run belong to the other branch or machine.
            Entry::Forked { .. } | Entry::Moved { .. } | Entry::Relocated { .. } => {
                self.commands.clear();
                self.restoring = None;
            }
            Entry::Restoring { before, target, .. } => {
                if *before != self.last {
                    self.take(before, Cause::Outside);
                }
                self.restoring = Some(target.clone());
            }
            _ => {}
        }
        let Some(name) = named(&record.entry) else {
            return;
        };
        let cause = match self.restoring.take() {
            Some(target) => Cause::Restored { target },
            None if self.written.is_empty() && self.command_ended.is_none() => Cause::Outside,
            None => Cause::Calls {
                written: std::mem::take(&mut self.written),
                command_ended: self.command_ended.take(),
            },
        };
        self.take(name, cause);
    }

    fn take(&mut self, name: &str, cause: Cause) {
        self.written.clear();
        self.command_ended = None;
        let maker = self.workers.at_tree();
        if name != self.last {
            self.last = name.to_string();
            let name = name.to_string();
            self.trees.push(NamedTree { name, cause, maker });
        }
    }
}
