//! The part of the state that is the model's view of the log: the records in the context, and the
//! text that replaces the others.

use crate::core::entry::{
    Entry, Fact, ForkPoint, Guard, Mode, Record, RunLimits, Seq, Spent, SummaryBy,
};
use crate::core::exfiltration::{PageLog, SentBefore};
use crate::core::external_changes::ExternalChanges;
use crate::core::limits::Count;
use crate::core::loop_guard::LoopGuard;
use crate::core::preface::{self, Preface};

use super::{Background, State};

/// Minimum size in tokens of a request from which the ratio is learnt.
const MEASURED_TOKENS: u64 = 500;

impl State {
    /// Updates the ratio of bytes to tokens from the provider's count. The ratio changes slowly,
    /// and small requests are ignored.
    pub(super) fn measure(&mut self, model: &str, count: Count) {
        if count.tokens < MEASURED_TOKENS || count.bytes == 0 {
            return;
        }
        let seen = count.bytes as f64 / count.tokens as f64;
        // A server that truncates long requests silently counts only the part that it kept.
        let is_measure = self.counts.is_measure(count) && (1.0..=8.0).contains(&seen);
        self.counts.see(count);
        if !is_measure {
            return;
        }
        let ratio = self.ratios.entry(model.to_string()).or_insert(seen);
        *ratio = 0.7 * *ratio + 0.3 * seen;
    }

    /// Returns the part of the log that decides about addresses of pages.
    pub fn page_log(&self) -> PageLog<'_> {
        PageLog {
            context: &self.context,
            is_subagent: self.assignment.is_some(),
            describe: self.describe(),
            before: &self.sent_before,
        }
    }

    /// Removes the oldest turns from the context; the summary replaces them and everything before.
    pub(super) fn compacted(
        &mut self,
        window: u32,
        first: Seq,
        last: Seq,
        summary: &str,
        by: SummaryBy,
        recorded: Option<&str>,
    ) {
        self.sent_before = SentBefore::leaving(&self.page_log(), last);
        self.context.retain(|r| r.seq > last);
        self.freed.leave(last);
        let before = self.preface.take();
        let (sound, unsound_from) = match by {
            SummaryBy::Model => (Some(summary.to_string()), None),
            SummaryBy::Digest | SummaryBy::Placeholder => (
                before.as_ref().and_then(|p| p.sound.clone()),
                before.as_ref().and_then(|p| p.unsound_from).or(Some(first)),
            ),
        };
        self.preface = Some(Preface {
            text: match recorded {
                Some(text) => text.to_string(),
                None => preface::render_as_before(&self.carried(), summary, last),
            },
            summary: Some(summary.to_string()),
            by,
            windows: window,
            last,
            sound,
            unsound_from,
        });
    }

    pub(super) fn summarised(&mut self, spent: &[Spent]) {
        for Spent { usage, .. } in spent {
            self.summarising.add(usage);
        }
    }

    pub(super) fn continued(&mut self, seq: Seq, note: &str, by: SummaryBy, story: Option<&str>) {
        let first = self.context.first().map(|r| r.seq);
        self.sent_before = SentBefore::leaving(&self.page_log(), seq);
        self.context.clear();
        self.freed.leave(seq);
        self.continuations += 1;
        let before = self.preface.take();
        let windows = before.as_ref().map_or(0, |p| p.windows);
        // Entries that no model summarised are only in the log. They are summarised when a model
        // can be asked.
        let (sound, unsound_from) = match story {
            Some(story) => (Some(story.to_string()), None),
            None => {
                let from = before.as_ref().and_then(|p| p.unsound_from).or(first);
                (before.and_then(|p| p.sound), from)
            }
        };
        self.preface = Some(Preface {
            text: note.to_string(),
            summary: None,
            by,
            windows: windows + 1,
            last: seq,
            sound,
            unsound_from,
        });
        self.recall_due = true;
    }

    pub(super) fn keep(&mut self, record: &Record) {
        self.context.push(record.clone());
    }

    pub(super) fn learn(&mut self, seq: Seq, fact: &Fact) {
        match fact {
            Fact::Seen { path, hash } | Fact::Wrote { path, hash } => {
                self.seen.insert(path.clone(), hash.clone());
                self.outside.known(path, seq);
            }
            Fact::Background {
                id,
                run,
                command,
                child,
            } => {
                let background = Background {
                    run: run.clone(),
                    command: command.clone(),
                    child: child.clone(),
                    searched: 0,
                };
                self.background.insert(id.clone(), background);
            }
            Fact::Planned { plan } => {
                self.plan = Some(plan.clone());
                self.plan_at = Some(seq);
            }
            Fact::Waited { searched } => {
                for (id, bytes) in searched {
                    if let Some(background) = self.background.get_mut(id) {
                        background.searched = *bytes;
                    }
                }
            }
            Fact::Ran { .. } | Fact::Task { .. } | Fact::Remembered { .. } | Fact::Recalled => {}
        }
    }

    /// Starts a fork: every open call is closed, and running work stays with the session that
    /// started it.
    pub(super) fn forked(
        &mut self,
        record: &Record,
        from: &ForkPoint,
        folder: Option<&String>,
        from_replica: bool,
    ) {
        self.forked_from = Some(from.clone());
        if let Some(folder) = folder {
            self.folder.clone_from(folder);
            self.has_moved = true;
            // The known trees are of the other folder.
            self.tree = None;
            self.files_not_kept = None;
            self.may_differ_from_tree = false;
            self.outside = ExternalChanges::default();
        }
        // The other branch finishes the restore.
        self.restoring = None;
        self.paused = false;
        leave_what_ran(self, record.seq);
        if self.first_open().is_some() {
            self.owed = true;
        }
        for open in &mut self.calls {
            open.finished = true;
        }
        self.restarts = 0;
        self.imported = None;
        if from_replica {
            trust_nothing(self, Mode::default());
        }
        self.keep(record);
    }
}

/// Continues on another machine. Calls that ran are lost, and a verdict on one that did not run counts
/// no more: the entries may come from anybody.
pub(super) fn moved(state: &mut State, record: &Record, from: &str, until: &str, mode: Mode) {
    leave_what_ran(state, record.seq);
    trust_nothing(state, mode);
    let machine = match from {
        "" => "the machine".to_string(),
        from => format!("the machine {from}"),
    };
    let ended = match until {
        "" => String::new(),
        until => format!("; it ended at {until} at the latest"),
    };
    for open in state.calls.iter_mut().filter(|open| !open.finished) {
        match open.guard {
            // The files here decide, and a person may still answer.
            Some(Guard::Checked { .. } | Guard::Asks) => {}
            Some(_) => {
                open.lost = Some(format!(
                    "{machine} on which it ran was lost{ended}; whether it had its effect is not \
                     known, so look before you repeat it"
                ));
            }
            None => {
                open.asked = None;
                open.decided = None;
                open.allowed_access = None;
                open.asked_about = None;
            }
        }
    }
    state.keep(record);
}

/// Forgets what ran on another machine or in another session, and what was allowed there.
fn leave_what_ran(state: &mut State, seq: Seq) {
    state.background.clear();
    state.reminded.clear();
    state.user_commands.clear();
    state.hooks.clear();
    state.taken_up = seq;
    state.session_rules.clear();
    state.approved_hosts.clear();
    state.sent_before = SentBefore::default();
}

/// Nothing that applied before applies here: it may come from anybody. The prompt is rendered again.
fn trust_nothing(state: &mut State, mode: Mode) {
    state.has_moved = true;
    state.mode = mode;
    state.seen.clear();
    state.loop_guard = LoopGuard::default();
    state.added_folders.clear();
    state.added_prompt.clear();
    state.structured = None;
    state.model_before_command = None;
    state.fallback_from = None;
    state.run_limits = RunLimits::default();
    state.assignment = None;
}

/// Returns whether the next request does not begin with the previous one after this entry.
pub(super) fn changes_the_context(entry: &Entry) -> bool {
    matches!(
        entry,
        Entry::Rendered { .. }
            | Entry::Compacted { .. }
            | Entry::Continued { .. }
            | Entry::Freed { .. }
            | Entry::Learned { .. }
            | Entry::Forked { .. }
            | Entry::Moved { .. }
    )
}
