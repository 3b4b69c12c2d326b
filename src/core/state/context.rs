//! The part of the state that is the model's view of the log: the records in the context, and the
//! text that replaces the others.

use crate::core::entry::{
    Entry, Fact, ForkPoint, Guard, Mode, RecognisedBy, Record, Seq, Spent, SummaryBy,
};
use crate::core::exfiltration::{PageLog, SentBefore};
use crate::core::external_changes::ExternalChanges;
use crate::core::limits::Count;
use crate::core::preface::{self, Preface};
use crate::core::relocation::RootMove;
use crate::core::seen::SeenFile;

use super::{Background, Judged, OpenCall, State, Unanswered, open_calls};

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
            Fact::Seen { path, hash, part } => {
                let seen = self.seen.entry(path.clone());
                let seen = seen.or_insert_with(|| SeenFile::whole(""));
                seen.see(hash, part.as_ref());
                self.outside.known(path, seq);
            }
            Fact::Wrote { path, hash } => {
                self.seen
                    .insert(path.clone(), SeenFile::whole(hash.as_str()));
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
        folder: Option<&str>,
        from_replica: bool,
    ) {
        if from_replica {
            trust_nothing(self, Mode::default());
        }
        self.forked_from = Some(from.clone());
        if let Some(folder) = folder {
            enter(self, folder);
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
        self.keep(record);
    }
}

/// Continues on another machine, with the conversation alone. Calls that ran are lost, and all others
/// are judged from the beginning.
pub(super) fn moved(
    state: &mut State,
    record: &Record,
    (from, until): (&str, &str),
    folder: Option<&str>,
    mode: Mode,
) {
    // A limit can only make it do less. That of this machine replaces it.
    let run_limits = state.run_limits;
    trust_nothing(state, mode);
    state.run_limits = run_limits;
    let own = state.folder.clone();
    enter(state, folder.unwrap_or(&own));
    state.taken_up = record.seq;
    let machine = match from {
        "" => "the machine".to_string(),
        from => format!("the machine {from}"),
    };
    let ended = match until {
        "" => String::new(),
        until => format!("; it ended at {until} at the latest"),
    };
    let lost = format!(
        "{machine} on which it ran was lost{ended}; whether it had its effect is not known, so look \
         before you repeat it"
    );
    state.calls = calls_of_last_answer(state, &lost, false);
    state.keep(record);
}

/// Returns the calls of the last answer as the model made them. Only their ends are taken over.
/// `is_here`: a keeper of this machine may know what started.
fn calls_of_last_answer(state: &State, lost: &str, is_here: bool) -> Vec<OpenCall> {
    let reply = state.calls.first().map_or(0, |open| open.call.id.reply);
    let Some((blocks, stop)) = state.answer(reply) else {
        return Vec::new();
    };
    let mut calls = open_calls(reply, blocks, stop, state.describe());
    for (open, before) in calls.iter_mut().zip(&state.calls) {
        open.finished = before.finished;
        open.failed = before.failed;
        open.denied = before.denied;
        match &before.guard {
            // A person may still answer.
            None | Some(Guard::Asks) => open.is_unjudged = true,
            Some(guard) if !before.finished => {
                let is_kept = is_here && !matches!(guard, Guard::Checked { .. });
                open.guard = Some(if is_kept {
                    guard.clone()
                } else {
                    Guard::Opaque
                });
                open.started_access = before.started_access.filter(|_| is_kept);
                open.lost = Some(lost.to_string());
            }
            Some(_) => {}
        }
    }
    calls
}

/// Works in another folder. The known trees are of the one before.
fn enter(state: &mut State, folder: &str) {
    state.folder = folder.to_string();
    state.has_moved = true;
    state.tree = None;
    state.files_not_kept = None;
    state.may_differ_from_tree = false;
    state.outside = ExternalChanges::default();
}

/// Works in the new place of a folder. In the same folder an edit that was started is settled there,
/// and known files are known there. In another one nothing applies that was allowed or seen, hooks
/// judge again, and what runs ends.
pub(super) fn relocated(state: &mut State, record: &Record, folder: &str, by: RecognisedBy) {
    enter(state, folder);
    if let (RecognisedBy::Folder, Some(moved)) = (by, RootMove::of(&record.entry)) {
        let seen = std::mem::take(&mut state.seen).into_iter();
        state.seen = seen.map(|(path, hash)| (moved.path(&path), hash)).collect();
        for open in &mut state.calls {
            open.guard.iter_mut().for_each(|guard| moved.guard(guard));
        }
    } else {
        state.seen.clear();
        state.session_rules.clear();
        state.approved_hosts.clear();
        state.sent_before = SentBefore::default();
        state.hooks.clear();
        for said in &mut state.unanswered {
            said.judged = Judged::No;
        }
        let lost = "the session moved to another folder while it ran; whether it had its effect is \
            not known, so look before you repeat it";
        state.calls = calls_of_last_answer(state, lost, true);
    }
    state.keep(record);
}

/// Notes that a known file has other content, of which the model saw as much as before.
pub(super) fn follow_file(state: &mut State, seq: Seq, path: &str, hash: &str) {
    if let Some(seen) = state.seen.get_mut(path) {
        seen.follow(hash);
        state.outside.known(path, seq);
    }
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

/// Keeps the conversation of a log that anybody may have written, and nothing that it grants, names
/// or started. What is not listed here is as in a new session. The prompt is rendered again.
fn trust_nothing(state: &mut State, mode: Mode) {
    let empty = State::new(state.describe());
    let from = std::mem::replace(state, empty);
    let own_model = from.model_before_command.or(from.fallback_from);
    let unjudged = |said: Unanswered| Unanswered {
        judged: Judged::No,
        ..said
    };
    *state = State {
        next_seq: from.next_seq,
        folder: from.folder,
        has_moved: true,
        version: from.version,
        model: own_model.unwrap_or(from.model),
        mode,
        effort: from.effort,
        temperature: from.temperature,
        layers: from.layers,
        context: from.context,
        preface: from.preface,
        calls: from.calls,
        owed: from.owed,
        halted: from.halted,
        paused: from.paused,
        worked_ms: from.worked_ms,
        last_ms: from.last_ms,
        turns: from.turns,
        asked_by_model: from.asked_by_model,
        nonsense: from.nonsense,
        cut_answer: from.cut_answer,
        tasks_begun: from.tasks_begun,
        wakes: from.wakes,
        plan: from.plan,
        plan_at: from.plan_at,
        usage: from.usage,
        summarising: from.summarising,
        spent: from.spent,
        replies: from.replies,
        cut_answers: from.cut_answers,
        finished: from.finished,
        continuations: from.continuations,
        name: from.name,
        made_title: from.made_title,
        was_titled: from.was_titled,
        first_words: from.first_words,
        // Trees of another folder are left by `enter`.
        tree: from.tree,
        may_differ_from_tree: from.may_differ_from_tree,
        files_not_kept: from.files_not_kept,
        outside: from.outside,
        limits: from.limits,
        guesses: from.guesses,
        refused_images: from.refused_images,
        request_forms: from.request_forms,
        ratios: from.ratios,
        learned: from.learned,
        counts: from.counts,
        ledger: from.ledger,
        words: from.words,
        said: from.said,
        freed: from.freed,
        recall_due: from.recall_due,
        unanswered: from.unanswered.into_iter().map(unjudged).collect(),
        ..State::new(state.describe())
    };
}

/// Returns whether the next request does not begin with the previous one after this entry.
pub(super) fn changes_the_context(entry: &Entry) -> bool {
    matches!(
        entry,
        Entry::Rendered { .. }
            | Entry::Compacted { .. }
            | Entry::Continued { .. }
            | Entry::Freed { .. }
            | Entry::Learned(_)
            | Entry::Forked { .. }
            | Entry::Moved { .. }
            | Entry::Relocated { .. }
    )
}
