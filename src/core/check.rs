//! Checks: commands of the config that run after the model changed files that they match. Which of
//! them is due, and how their ends read.
//!
//! Invariant: a check runs once at most for an answer of the model.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::entry::{About, BlobRef, CheckEnding, Entry, Fact, Record, SaveReason, Seq};
use super::external_changes::OutsideChange;
use super::quoted::{fenced, inside_tag};
use super::text::{clip, count};

/// Number of timeouts in a row that switch a check off for the session.
pub const MAX_TIMEOUTS: u32 = 3;

/// Maximum number of lines that a request has, and of bytes of one.
const MAX_LINES: usize = 10;
const LINE_BYTES: usize = 300;

/// Maximum number of changed files that an entry names.
const MAX_FILES: usize = 200;

/// Maximum number of changes of the files by commands of one answer that are tracked.
const MAX_TREES: usize = 100;

/// Returns whether a check is about a file, given by its path below the root of the workspace.
pub type FileMatch = Arc<dyn Fn(&str) -> bool + Send + Sync>;

/// A check of the config, which may run.
#[derive(Clone)]
pub struct Check {
    /// Unique among the checks of a session.
    pub name: String,
    pub command: String,
    pub timeout_ms: u64,
    pub matches: FileMatch,
}

/// A check that was recorded as about to run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunningCheck {
    /// The place of its `CheckStarted`.
    pub seq: Seq,
    pub check: String,
    /// Name of its run folder. Empty: it could not be prepared.
    pub run: String,
    pub boot: String,
    /// The changed files that it matches.
    pub files: Vec<String>,
}

/// The earlier runs of a check.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct History {
    /// The output of the last complete run, and whether there was one.
    output: Option<BlobRef>,
    has_run: bool,
    /// Number of timeouts since then.
    timeouts: u32,
    /// Why the last run failed.
    failed: Option<String>,
}

/// The checks of a session.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SessionChecks {
    /// The last answer of the model.
    answer: Seq,
    /// The files that its calls wrote: absolute.
    written: BTreeSet<String>,
    /// The changes of the files by its commands.
    trees: Vec<OutsideChange>,
    /// The checks that were started for it.
    started: BTreeSet<String>,
    running: Option<RunningCheck>,
    history: BTreeMap<String, History>,
}

impl SessionChecks {
    /// Returns the check that has no end yet.
    pub fn running(&self) -> Option<&RunningCheck> {
        self.running.as_ref()
    }

    /// Returns the answer of the model that the changes are of.
    pub fn answer(&self) -> Seq {
        self.answer
    }

    /// Returns the files that calls of the answer wrote: absolute.
    pub fn written(&self) -> impl Iterator<Item = &str> {
        self.written.iter().map(String::as_str)
    }

    /// Returns the changes of the files by commands of the answer.
    pub fn trees(&self) -> &[OutsideChange] {
        &self.trees
    }

    /// Returns the output of the last complete run. `None`: there was no run, `Some(None)`: it
    /// printed nothing.
    pub fn last_output(&self, check: &str) -> Option<Option<&BlobRef>> {
        let history = self.history.get(check).filter(|history| history.has_run)?;
        Some(history.output.as_ref())
    }

    /// Returns whether the last run of a check failed for the same reason, so that the model knows it.
    pub fn failed_before(&self, check: &str, ending: &CheckEnding) -> bool {
        let history = self.history.get(check);
        let last = history.and_then(|history| history.failed.as_ref());
        matches!(ending, CheckEnding::Failed { why } if last == Some(why))
    }

    /// Returns the number of timeouts in a row, if the run that ends now is another one.
    pub fn next_timeout(&self, check: &str) -> u32 {
        self.history.get(check).map_or(0, |h| h.timeouts) + 1
    }

    /// Returns whether a check may start for this answer.
    pub(super) fn may_start(&self, check: &str, of: Seq) -> bool {
        of == self.answer && !self.started.contains(check)
    }

    /// Returns the first check that has not run for the answer and matches a changed file, with
    /// these files.
    pub(super) fn due(
        &self,
        checks: &[Check],
        changed: &[String],
    ) -> Option<(String, Vec<String>)> {
        let is_off = |check: &Check| self.next_timeout(&check.name) > MAX_TIMEOUTS;
        let mut waiting = checks
            .iter()
            .filter(|check| !self.started.contains(&check.name) && !is_off(check));
        waiting.find_map(|check| {
            let files = changed.iter().filter(|path| (check.matches)(path));
            let files: Vec<String> = files.take(MAX_FILES).cloned().collect();
            (!files.is_empty()).then(|| (check.name.clone(), files))
        })
    }

    /// Folds an entry. `last` is the tree before it. `may_be_of_command`: a command of the answer
    /// has run, so a difference from that tree may be its work.
    pub(super) fn follow(&mut self, record: &Record, last: Option<&str>, may_be_of_command: bool) {
        match &record.entry {
            Entry::Replied { .. } => {
                *self = SessionChecks {
                    answer: record.seq,
                    running: self.running.take(),
                    history: std::mem::take(&mut self.history),
                    ..SessionChecks::default()
                };
            }
            Entry::Finished {
                fact: Some(Fact::Wrote { path, .. }),
                ..
            } => drop(self.written.insert(path.clone())),
            Entry::Saved {
                reason: SaveReason::Files,
                tree: Some(tree),
                ..
            }
            | Entry::Finished {
                tree: Some(tree), ..
            } if may_be_of_command
                && last.is_some_and(|last| last != tree)
                && self.trees.len() < MAX_TREES =>
            {
                self.trees.push(OutsideChange {
                    at: record.seq,
                    before: last.map(String::from),
                    tree: tree.clone(),
                });
            }
            Entry::CheckStarted {
                check,
                run,
                boot,
                files,
                of: _,
            } => {
                self.started.insert(check.clone());
                self.running = Some(RunningCheck {
                    seq: record.seq,
                    check: check.clone(),
                    run: run.clone(),
                    boot: boot.clone(),
                    files: files.clone(),
                });
            }
            Entry::Noted {
                about: Some(About::CheckEnded { check, ending, .. }),
                ..
            } => {
                self.running = None;
                let history = self.history.entry(check.clone()).or_default();
                match ending {
                    CheckEnding::Exited { output, .. } => {
                        history.output.clone_from(output);
                        history.has_run = true;
                        history.timeouts = 0;
                        history.failed = None;
                    }
                    CheckEnding::TimedOut { in_a_row } => history.timeouts = *in_a_row,
                    CheckEnding::Failed { why } => history.failed = Some(why.clone()),
                    CheckEnding::Stopped => {}
                }
            }
            // Changes and running checks belong to the other branch.
            Entry::Forked { .. } => {
                *self = SessionChecks {
                    answer: self.answer,
                    history: std::mem::take(&mut self.history),
                    ..SessionChecks::default()
                };
            }
            _ => {}
        }
    }
}

/// Returns the end of a check in one line for a person and for the model.
pub fn line(about: &About) -> Option<String> {
    let About::CheckEnded {
        check,
        ending,
        took_ms,
        ..
    } = about
    else {
        return None;
    };
    let end = match ending {
        CheckEnding::Exited {
            exit_code,
            new_lines,
            ..
        } => {
            let new = match new_lines {
                0 => "nothing new".to_string(),
                lines => count(*lines, "new line"),
            };
            match exit_code {
                0 => new,
                code => format!("{new} (exit code {code})"),
            }
        }
        CheckEnding::TimedOut { in_a_row } => {
            let off = if *in_a_row >= MAX_TIMEOUTS {
                format!(
                    ", {in_a_row} times in a row; it does not run again in this session: raise \
                     its timeout_sec"
                )
            } else {
                String::new()
            };
            format!(
                "time limit reached after {:.1} s{off}",
                *took_ms as f64 / 1_000.0
            )
        }
        CheckEnding::Stopped => "stopped".to_string(),
        CheckEnding::Failed { why } => format!("failed: {why}"),
    };
    Some(format!("checked {check}: {end}"))
}

/// Returns the note for the model about the new lines of a check, or about one that did not do its
/// work. Empty: there is nothing to say.
pub fn note(about: &About, lines: &[String]) -> String {
    let Some(first) = line(about) else {
        return String::new();
    };
    if lines.is_empty() {
        let is_done = |ending: &CheckEnding| {
            matches!(ending, CheckEnding::Exited { .. } | CheckEnding::Stopped)
        };
        return match about {
            About::CheckEnded { ending, .. } if !is_done(ending) => inside_tag(&first),
            _ => String::new(),
        };
    }
    let shown = lines.iter().take(MAX_LINES);
    let shown: Vec<_> = shown.map(|line| clip(line, LINE_BYTES)).collect();
    let mut text = format!("{first}\n{}", fenced(&inside_tag(&shown.join("\n"))));
    let more = lines.len().saturating_sub(MAX_LINES);
    if more > 0
        && let About::CheckEnded {
            ending:
                CheckEnding::Exited {
                    output: Some(output),
                    ..
                },
            ..
        } = about
    {
        text.push_str(&format!(
            "\n[{more} more; memory_page reads the whole output at address blob:{}]",
            output.hash
        ));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ended(new_lines: u64) -> About {
        About::CheckEnded {
            entry: 7,
            check: "cargo check".into(),
            ending: CheckEnding::Exited {
                exit_code: 101,
                new_lines,
                output: Some(BlobRef {
                    hash: "ab".into(),
                    bytes: 9,
                }),
            },
            took_ms: 1,
        }
    }

    #[test]
    fn a_note_is_short_and_cannot_imitate_others() {
        assert_eq!(note(&ended(0), &[]), "");
        let lines: Vec<String> = (0..14)
            .map(|n| format!("{n}```</note>{}", "x".repeat(900)))
            .collect();
        let text = note(&ended(14), &lines);
        assert!(text.starts_with("checked cargo check: 14 new lines (exit code 101)\n````\n0```"));
        assert!(text.ends_with("[4 more; memory_page reads the whole output at address blob:ab]"));
        assert!(text.len() < 4_000 && !text.contains("</note>"));
    }
}
