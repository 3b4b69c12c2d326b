//! The ending of a session, found in its newest entries. Lists use it, since they do not fold the
//! log.

use super::entry::{
    About, Block, By, Entry, FailureClass, HookEvent, HookVerdict, Record, SaveReason, StopReason,
};

/// Kinds of the entries that a session can have before a model answered.
pub const UNANSWERED: [&str; 11] = [
    "opened", "said", "rendered", "chose", "named", "noted", "learned", "failed", "lifted", "woke",
    "saved",
];

/// How the last process of a session ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// The work was finished.
    Done,
    /// The process exited normally, with work still pending.
    Left,
    /// The same, at the limit of turns.
    TurnLimit,
    /// The user stopped it.
    Stopped,
    /// The model call failed for good.
    Failed,
    /// A person dismissed the session, with work still pending.
    Dismissed,
    /// The process ended abruptly: a kill, a crash, the power.
    Killed,
}

impl Ending {
    /// Returns the word that lists show.
    pub fn word(self) -> &'static str {
        match self {
            Ending::Done => "done",
            Ending::Left => "interrupted",
            Ending::TurnLimit => "turn limit",
            Ending::Stopped => "stopped",
            Ending::Failed => "failed",
            Ending::Dismissed => "dismissed",
            Ending::Killed => "killed",
        }
    }

    /// Returns the ending of a session with pending work, from its last entry.
    pub fn with_pending_work(last: Option<&Entry>) -> Ending {
        match last {
            Some(Entry::Saved {
                reason: SaveReason::TurnLimit,
                ..
            }) => Ending::TurnLimit,
            Some(Entry::Saved {
                reason: SaveReason::Exit | SaveReason::Signal,
                ..
            })
            // A fork that nobody has continued.
            | Some(Entry::Forked { .. } | Entry::Restored { new_folder: true, .. }) => Ending::Left,
            Some(Entry::Dismissed) => Ending::Dismissed,
            _ => Ending::Killed,
        }
    }
}

/// Returns whether the model's answer ends the turn: it has no call. An answer without a word does
/// not count, and the model is asked again.
pub fn is_answer(blocks: &[Block], stop: StopReason) -> bool {
    let is_call = |block: &Block| matches!(block, Block::Call { .. });
    !blocks.iter().any(is_call) && (speaks(blocks) || stop == StopReason::Refusal)
}

/// Returns whether an answer contains words.
pub fn speaks(blocks: &[Block]) -> bool {
    let is_said =
        |block: &Block| matches!(block, Block::Text { text, .. } if !text.trim().is_empty());
    blocks.iter().any(is_said)
}

/// Returns the blocks of the last answer, after those of the cut one that it continues.
pub fn last_answer(context: &[Record]) -> Vec<&[Block]> {
    let mut parts: Vec<&[Block]> = Vec::new();
    let mut continues = true;
    for record in context.iter().rev() {
        match &record.entry {
            Entry::Replied { blocks, .. } if continues => {
                parts.push(blocks);
                continues = false;
            }
            Entry::Replied { .. } => break,
            Entry::Noted {
                about: Some(About::AnswerCut),
                ..
            } => continues = true,
            _ => {}
        }
    }
    parts.reverse();
    parts
}

/// Reads entries from the last one backwards until the ending is known.
///
/// Callers need to pass only kinds that [`Backwards::reads`], and the last entry of any kind.
#[derive(Debug, Default)]
pub struct Backwards {
    /// The ending if work is pending, from the last entry.
    owed: Option<Ending>,
    /// The session was resumed after the entries that are read now, which lifts a failure.
    is_taken_up: bool,
    /// A person did that, which also lifts the failure of a hook.
    is_taken_up_by_person: bool,
    /// Hooks about no call have ended since.
    has_hooked: bool,
    /// A hook refused the message before.
    is_withdrawn: bool,
    /// The newest answer was compared with its schema.
    is_checked: bool,
    /// The output limit cut the newest answer.
    is_cut: bool,
}

impl Backwards {
    /// Returns whether the ending may depend on entries of this kind.
    pub fn reads(kind: &str) -> bool {
        matches!(
            kind,
            "opened"
                | "said"
                | "replied"
                | "stopped"
                | "failed"
                | "checked"
                | "noted"
                | "woke"
                | "hooking"
                | "hooked"
        )
    }

    /// Reads an entry. Returns the ending if this entry decides it.
    pub fn see(&mut self, entry: &Entry) -> Option<Ending> {
        let owed = *self
            .owed
            .get_or_insert_with(|| Ending::with_pending_work(Some(entry)));
        if self.is_cut {
            return match entry {
                // It is continued only once.
                Entry::Noted {
                    about: Some(About::AnswerCut),
                    ..
                } => Some(Ending::Done),
                Entry::Said { .. } | Entry::Replied { .. } | Entry::Opened { .. } => Some(owed),
                _ => None,
            };
        }
        match entry {
            // Open calls still get their results after a stop. Only a new message lifts it.
            Entry::Stopped { .. } => Some(Ending::Stopped),
            Entry::Failed { error, .. } if error.class == FailureClass::Hook => {
                (!self.is_taken_up_by_person).then_some(Ending::Failed)
            }
            Entry::Failed { .. } if !self.is_taken_up => Some(Ending::Failed),
            Entry::Resumed { by, .. } => {
                self.is_taken_up = true;
                self.is_taken_up_by_person |= *by == By::Person;
                None
            }
            // Open calls have hooks too; the answer with these calls decides then.
            Entry::Hooking { runs, .. } if runs.iter().all(|run| run.call.is_none()) => {
                (!std::mem::take(&mut self.has_hooked)).then_some(owed)
            }
            Entry::Hooked {
                event,
                call: None,
                results,
                ..
            } => {
                self.has_hooked = true;
                let is_refused = results.iter().any(|r| r.verdict == HookVerdict::Deny);
                self.is_withdrawn |= is_refused && *event == HookEvent::UserPromptSubmit;
                let ends_turn = matches!(event, HookEvent::Stop | HookEvent::SubagentStop);
                (is_refused && ends_turn).then_some(owed)
            }
            Entry::Said { .. } if std::mem::take(&mut self.is_withdrawn) => None,
            Entry::Replied { blocks, stop, .. }
                if *stop == StopReason::MaxTokens
                    && is_answer(blocks, *stop)
                    && !self.is_checked =>
            {
                self.is_cut = true;
                None
            }
            Entry::Checked { told: None, .. } => {
                self.is_checked = true;
                None
            }
            Entry::Replied { blocks, stop, .. } => Some(if is_answer(blocks, *stop) {
                Ending::Done
            } else {
                owed
            }),
            // The model is asked again because of its background work.
            Entry::Noted {
                about:
                    Some(
                        About::BackgroundEnded {
                            asks_model: true, ..
                        }
                        | About::StillRunning { .. }
                        | About::AnswerCut,
                    ),
                ..
            } => Some(owed),
            // The answer did not fit its schema, and another is owed.
            Entry::Checked { told: Some(_), .. } | Entry::Said { .. } => Some(owed),
            // The session has no message.
            Entry::Opened { .. } => Some(Ending::Done),
            _ => None,
        }
    }

    /// Returns the ending for pending work, when no entry decided it. `None`: no entry was read.
    pub fn if_work_is_pending(&self) -> Option<Ending> {
        self.owed
    }
}

/// Returns the ending of a session with these last entries, first to last. If they do not decide
/// it, work is pending, since the deciding entry is older.
pub fn of_entries<'a>(entries: impl DoubleEndedIterator<Item = &'a Entry>) -> Ending {
    let mut backwards = Backwards::default();
    let found = entries.rev().find_map(|entry| backwards.see(entry));
    found
        .or(backwards.if_work_is_pending())
        .unwrap_or_else(|| Ending::with_pending_work(None))
}
