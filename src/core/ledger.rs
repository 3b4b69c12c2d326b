//! A bounded record of the whole session: files, commands, failures, the user's messages. It comes
//! from the log, not from the model's memory, and outlives every compaction.
//!
//! Invariant: everything here is bounded, so that the state of a long session stays small.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::entry::{Fact, Outcome, Seq};
use super::happened;
use super::permission::Permission;
use super::plain_text::plain_text;
use super::text::{clip, one_line};
use super::tool::{Described, ToolCall};

const MAX_FILES: usize = 200;
const MAX_COMMANDS: usize = 30;
const MAX_FAILURES: usize = 12;
const MAX_SAID: usize = 12;
const SAID_BYTES: usize = 1_000;
const LINE_CHARS: usize = 120;

#[derive(Debug, Clone, Default, PartialEq)]
pub struct Ledger {
    /// The files by path, with the entry that touched each last.
    pub files: BTreeMap<String, Touched>,
    /// The last commands, oldest first.
    pub commands: VecDeque<RanCommand>,
    /// The last failures, oldest first.
    pub failures: VecDeque<(Seq, String)>,
    /// The user's first message and the last ones, oldest first.
    pub said: VecDeque<(Seq, String)>,
    /// Results of the last answer's calls, in the order they came.
    pub results: Vec<CallResult>,
}

/// One line about a result of the last answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallResult {
    pub seq: Seq,
    pub is_error: bool,
    /// Tool, subject and the beginning of the output; for a command, how it ended.
    pub about: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Touched {
    pub seq: Seq,
    pub changed: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RanCommand {
    pub seq: Seq,
    pub line: String,
    pub exit_code: Option<i32>,
    /// The most informative line of its output. May be empty.
    pub last_line: String,
    /// It changes nothing, judging by the program names.
    pub only_looks: bool,
}

impl Ledger {
    pub fn said(&mut self, seq: Seq, text: &str) {
        if self.said.len() == MAX_SAID {
            // The first message is the task; it stays.
            self.said.remove(1);
        }
        self.said
            .push_back((seq, clip(text, SAID_BYTES).into_owned()));
    }

    /// Removes the newest message, if it is the one of this entry.
    pub fn withdraw(&mut self, seq: Seq) {
        if self.said.back().is_some_and(|(at, _)| *at == seq) {
            self.said.pop_back();
        }
    }

    /// Clears the results, since the model answered.
    pub fn replied(&mut self) {
        self.results.clear();
    }

    pub fn finished(&mut self, seq: Seq, call: &ToolCall, outcome: &Outcome, fact: Option<&Fact>) {
        let (text, is_error) = outcome.to_model_text();
        let text = plain_text(&text);
        let about = match (outcome, fact) {
            // The first line of a command's output is seldom informative.
            (Outcome::Done { .. }, Some(Fact::Ran { .. })) => {
                happened::line(Some(call), outcome, fact, LINE_CHARS)
            }
            _ => format!("{}: {}", name(call), one_line(&text, LINE_CHARS)),
        };
        self.results.push(CallResult {
            seq,
            is_error,
            about,
        });
        match fact {
            Some(Fact::Seen { path, .. }) => self.touch(seq, path, false),
            Some(Fact::Wrote { path, .. }) => self.touch(seq, path, true),
            Some(Fact::Ran { exit_code, .. }) => self.ran(seq, call, *exit_code, &text),
            Some(
                Fact::Background { .. }
                | Fact::Task { .. }
                | Fact::Planned { .. }
                | Fact::Remembered { .. }
                | Fact::Waited { .. }
                | Fact::Recalled,
            )
            | None => {}
        }
        let why = match outcome {
            Outcome::Done { .. } => match fact {
                Some(Fact::Ran {
                    exit_code: Some(code),
                    ..
                }) if *code != 0 => format!("exit code {code}"),
                _ => return,
            },
            Outcome::Error { .. } => one_line(&text, LINE_CHARS),
            Outcome::Denied { reason } => format!("denied: {}", one_line(reason, LINE_CHARS)),
            Outcome::Interrupted { why, .. } => {
                format!("interrupted: {}", one_line(why, LINE_CHARS))
            }
        };
        push(
            &mut self.failures,
            MAX_FAILURES,
            (seq, format!("{}: {why}", name(call))),
        );
    }

    fn touch(&mut self, seq: Seq, path: &str, changed: bool) {
        let changed = changed || self.files.get(path).is_some_and(|t| t.changed);
        self.files
            .insert(path.to_string(), Touched { seq, changed });
        if self.files.len() > MAX_FILES {
            // Files that were only read go first, the oldest before the others.
            let oldest = self
                .files
                .iter()
                .min_by_key(|(_, t)| (t.changed, t.seq))
                .map(|(p, _)| p.clone());
            self.files.retain(|path, _| Some(path) != oldest.as_ref());
        }
    }

    fn ran(&mut self, seq: Seq, call: &ToolCall, exit_code: Option<i32>, printed: &str) {
        let line = match &call.described {
            Ok(Described {
                permission: Permission::Command { line, .. },
                ..
            }) => one_line(line, LINE_CHARS),
            _ => name(call),
        };
        let said = happened::most_telling_line(printed, exit_code != Some(0)).unwrap_or("");
        push(
            &mut self.commands,
            MAX_COMMANDS,
            RanCommand {
                seq,
                only_looks: only_looks(&line),
                line,
                exit_code,
                last_line: one_line(said, LINE_CHARS),
            },
        );
    }
}

/// Returns whether each part of a command line begins with a read-only program. It is a rough check
/// for display. The permission check is elsewhere.
fn only_looks(line: &str) -> bool {
    const LOOKERS: [&str; 20] = [
        "cat", "head", "tail", "ls", "grep", "rg", "find", "wc", "pwd", "echo", "which", "file",
        "stat", "tree", "less", "sort", "uniq", "cut", "cd", "sed",
    ];
    const GIT: [&str; 6] = ["status", "log", "diff", "show", "branch", "blame"];
    let mut parts = line.split(['|', ';', '&']).map(str::trim);
    !line.contains('>')
        && parts.all(|part| {
            let mut words = part.split_whitespace();
            match (words.next(), words.next()) {
                (None, _) => true,
                (Some("git"), Some(what)) => GIT.contains(&what),
                (Some("sed"), Some(what)) => what == "-n",
                (Some(program), _) => LOOKERS.contains(&program),
            }
        })
}

fn push<T>(queue: &mut VecDeque<T>, max: usize, item: T) {
    if queue.len() == max {
        queue.pop_front();
    }
    queue.push_back(item);
}

impl Ledger {
    /// Returns the changed files, the newest first, and the last command that failed, in at most
    /// `room` bytes. Files below `folder` are named by their path in it.
    pub fn facts(&self, room: usize, folder: &str) -> String {
        let failing = self.failing().map_or_else(String::new, |ran| {
            let said = if ran.last_line.is_empty() {
                String::new()
            } else {
                format!(", \"{}\"", ran.last_line)
            };
            let ended = happened::ended(&ran.line, ran.exit_code);
            format!(
                "- last failing command: `{}`: {ended}{said} (entry {})\n",
                ran.line, ran.seq
            )
        });
        let mut changed: Vec<_> = self.files.iter().filter(|(_, file)| file.changed).collect();
        changed.sort_by_key(|(_, file)| std::cmp::Reverse(file.seq));
        const LEAD: &str = "- changed files: ";
        const MORE: usize = ", and 200 more\n".len();
        let room = room.saturating_sub(failing.len() + LEAD.len() + MORE);
        let mut names = String::new();
        let mut named = 0;
        for (path, _) in &changed {
            let below = path
                .strip_prefix(folder)
                .and_then(|rest| rest.strip_prefix('/'));
            let name = one_line(below.unwrap_or(path), LINE_CHARS);
            if names.len() + 2 + name.len() > room {
                break;
            }
            names.push_str(if named == 0 { "" } else { ", " });
            names.push_str(&name);
            named += 1;
        }
        let files = match (named, changed.len() - named) {
            (0, _) => String::new(),
            (_, 0) => format!("{LEAD}{names}\n"),
            (_, more) => format!("{LEAD}{names}, and {more} more\n"),
        };
        files + &failing
    }

    /// Returns the last command that failed, unless the same line succeeded since.
    fn failing(&self) -> Option<&RanCommand> {
        let mut newer = BTreeSet::new();
        self.commands.iter().rev().find(|ran| {
            let is_newest = newer.insert(ran.line.as_str());
            is_newest && ran.exit_code != Some(0)
        })
    }

    /// Lists the results of the last answer, one line each with the address, in about `room` bytes.
    /// Equal lines in a row are merged to a range.
    pub fn result_lines(&self, room: usize) -> String {
        let chars = (room / self.results.len().max(1))
            .saturating_sub(18)
            .clamp(4, LINE_CHARS);
        let mut groups: Vec<(Seq, Seq, String)> = Vec::new();
        for result in &self.results {
            let mark = if result.is_error { "failed" } else { "done" };
            let about = match chars {
                ..24 => mark.to_string(),
                _ => one_line(&format!("{mark}: {}", result.about), chars),
            };
            match groups.last_mut() {
                Some((_, last, text)) if *text == about => *last = result.seq,
                _ => groups.push((result.seq, result.seq, about)),
            }
        }
        let line = |(first, last, about): &(Seq, Seq, String)| {
            if first == last {
                format!("- entry {first} {about}\n")
            } else {
                format!("- entries {first}-{last} {about}\n")
            }
        };
        groups.iter().map(line).collect()
    }
}

/// Returns tool and subject in one line.
pub(crate) fn name(call: &ToolCall) -> String {
    let described = call.described.as_ref();
    let subject = described.map_or("", |d| &d.subject);
    one_line(&format!("{} {subject}", call.full_name()), LINE_CHARS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn facts_name_changed_files_newest_first_and_keep_to_their_room() {
        let mut ledger = Ledger::default();
        assert_eq!(ledger.facts(400, "/home/ada"), "");
        ledger.touch(1, "src/old.rs", true);
        ledger.touch(2, "src/only_read.rs", false);
        ledger.touch(3, "/home/ada/src/new.rs", true);
        assert_eq!(
            ledger.facts(400, "/home/ada"),
            "- changed files: src/new.rs, src/old.rs\n"
        );
        for n in 0..100 {
            ledger.touch(4 + n, &format!("src/file_{n}.rs"), true);
        }
        for room in 0..500 {
            let facts = ledger.facts(room, "/home/ada");
            assert!(facts.len() <= room, "{room}: {facts}");
        }
        assert!(
            ledger
                .facts(400, "/home/ada")
                .starts_with("- changed files: src/file_99.rs, src/file_98.rs")
        );
        assert!(ledger.facts(400, "/home/ada").contains(", and 7"));
    }
}
