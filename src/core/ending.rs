//! How a session came to its end, read from its newest entries back: for whoever does not fold it.

use super::entry::{About, Block, Entry, SaveReason, StopReason};

/// How the last process of a session ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// It had done what it was asked.
    Done,
    /// It left in order, with work still owed.
    Left,
    /// The user stopped it.
    Stopped,
    /// The model call failed for good.
    Failed,
    /// A person did not want to be offered it any more, with work still owed.
    Dismissed,
    /// It was cut off: a kill, a crash, the power.
    Killed,
}

impl Ending {
    /// In one word, as lists show it.
    pub fn word(self) -> &'static str {
        match self {
            Ending::Done => "done",
            Ending::Left => "left",
            Ending::Stopped => "stopped",
            Ending::Failed => "failed",
            Ending::Dismissed => "dismissed",
            Ending::Killed => "killed",
        }
    }

    /// Where work is owed: how the process that had it went, by its last entry.
    pub fn with_work_owed(last: Option<&Entry>) -> Ending {
        match last {
            Some(Entry::Saved {
                reason: SaveReason::Exit | SaveReason::Signal,
                ..
            })
            // A fork that nobody has gone on with.
            | Some(Entry::Forked { .. } | Entry::Restored { new_folder: true, .. }) => Ending::Left,
            Some(Entry::Dismissed) => Ending::Dismissed,
            _ => Ending::Killed,
        }
    }
}

/// Whether nothing follows from what the model said: it calls nothing. Without a word it is no
/// answer, and the same is asked again.
pub fn is_answer(blocks: &[Block], stop: StopReason) -> bool {
    let is_call = |block: &Block| matches!(block, Block::Call { .. });
    !blocks.iter().any(is_call) && (speaks(blocks) || stop == StopReason::Refusal)
}

/// Whether there are words in an answer.
pub(super) fn speaks(blocks: &[Block]) -> bool {
    let is_said =
        |block: &Block| matches!(block, Block::Text { text, .. } if !text.trim().is_empty());
    blocks.iter().any(is_said)
}

/// Reads entries from the last one back until the ending is known.
///
/// Only kinds that [`Backwards::reads`] have to be given, and the last entry whatever it is.
#[derive(Debug, Default)]
pub struct Backwards {
    /// What it is if work is owed: by the last entry.
    owed: Option<Ending>,
    /// Somebody took it up behind what is read now: a failure is lifted by that.
    is_taken_up: bool,
}

impl Backwards {
    /// Whether the ending may depend on entries of this kind.
    pub fn reads(kind: &str) -> bool {
        matches!(
            kind,
            "opened" | "said" | "replied" | "stopped" | "failed" | "checked" | "noted" | "woke"
        )
    }

    /// The ending, when it is known with this entry.
    pub fn see(&mut self, entry: &Entry) -> Option<Ending> {
        let owed = *self
            .owed
            .get_or_insert_with(|| Ending::with_work_owed(Some(entry)));
        match entry {
            // Calls that were open get their results behind it; only new words lift it.
            Entry::Stopped { .. } => Some(Ending::Stopped),
            Entry::Failed { .. } if !self.is_taken_up => Some(Ending::Failed),
            Entry::Resumed { .. } => {
                self.is_taken_up = true;
                None
            }
            Entry::Replied { blocks, stop, .. } => Some(match is_answer(blocks, *stop) {
                true => Ending::Done,
                false => owed,
            }),
            // The model is to hear of the end of a task.
            Entry::Noted {
                about:
                    Some(About::BackgroundEnded {
                        asks_model: true, ..
                    }),
                ..
            } => Some(owed),
            // The answer did not fit its schema, and another is owed.
            Entry::Checked { told: Some(_), .. } | Entry::Said { .. } => Some(owed),
            // Nothing was said in it.
            Entry::Opened { .. } => Some(Ending::Done),
            _ => None,
        }
    }

    /// What it is if work is owed, for where no entry told. `None`: no entry was seen.
    pub fn if_owed(&self) -> Option<Ending> {
        self.owed
    }
}

/// The ending of a session with these last entries, first to last. Where they do not tell, work is
/// owed: whatever ended it stands before them.
pub fn of_entries<'a>(entries: impl DoubleEndedIterator<Item = &'a Entry>) -> Ending {
    let mut backwards = Backwards::default();
    let found = entries.rev().find_map(|entry| backwards.see(entry));
    found
        .or(backwards.if_owed())
        .unwrap_or_else(|| Ending::with_work_owed(None))
}
