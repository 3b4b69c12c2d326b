//! What stands in the conversation: one block for each thing a person looks at.

use std::cell::RefCell;

use ratatui::text::Line;

use crate::core::entry::{Outcome, Plan, Seq};
use crate::core::text::{count, in_one_line};
use crate::core::tool::ToolCall;
use crate::session::describe::Tone;
use crate::session::{ChangedFiles, PlacedEdit};
use crate::tools::{self, Body, Shown, ShownResult, Verb};

/// A part of the conversation with its lines, which are made when they are first shown.
#[derive(Debug)]
pub struct Block {
    /// The entry it comes from.
    pub seq: Seq,
    /// The time of the entry: UTC, milliseconds since 1970.
    pub at_ms: i64,
    pub kind: Kind,
    /// Unfolded or folded by hand; else as the kind is by itself.
    pub unfolded: Option<bool>,
    /// Its place among calls that stand together while they are folded.
    pub(super) together: Together,
    pub(super) laid: RefCell<Option<Laid>>,
}

/// Calls that only look stand in one block.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) enum Together {
    #[default]
    Alone,
    /// So many calls, this one included: what they looked at, and how long it took in all,
    /// milliseconds.
    First {
        count: usize,
        subjects: Vec<String>,
        took_ms: u64,
    },
    /// One of those behind the first, so many blocks behind it.
    Behind(usize),
}

/// The lines of a block, and for what they were made.
#[derive(Debug)]
pub(super) struct Laid {
    pub(super) stamp: Stamp,
    pub(super) lines: Vec<Line<'static>>,
}

/// Lines are made again when any of it changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Stamp {
    pub width: u16,
    /// Of the theme, and of what is known of colours of code.
    pub generation: u64,
    pub unfolded: bool,
    /// Of what changes as time goes by: seconds.
    pub tick: u64,
}

/// What a block shows.
#[derive(Debug)]
pub enum Kind {
    /// The user's words.
    Said {
        text: String,
        /// How many images came with them.
        images: usize,
    },
    /// The model's words; those of an answer that was cut are marked.
    Words {
        text: String,
        /// The answer was cut, so they end in the middle.
        cut: bool,
    },
    /// What the model thought.
    Thinking {
        text: String,
        /// How long, milliseconds. `None` when nobody was there to see it.
        took_ms: Option<u64>,
    },
    Call(Box<Call>),
    /// What the model was told besides.
    Noted {
        text: String,
    },
    /// Something happened to the session itself: a crash, a stop, a new context.
    Marker {
        tone: Tone,
        text: String,
    },
    /// The end of what was done for a message.
    TurnEnd(Box<super::turn::TurnEnd>),
    /// The model could not be asked.
    Failed {
        message: String,
        hint: Option<String>,
    },
    /// Said to the user by the program, and in no log.
    Notice {
        tone: Tone,
        text: String,
    },
}

/// A call with what became of it.
#[derive(Debug)]
pub struct Call {
    pub call: ToolCall,
    pub shown: Shown,
    pub status: Status,
    /// The last lines that a running command printed.
    pub tail: String,
    /// The plan that the call set, once it has its result.
    pub plan: Option<Plan>,
    /// The entries that it began and ended with, if it may have changed files.
    pub(super) span: (Option<Seq>, Option<Seq>),
    pub(super) changes: Changes,
    /// Of the file before and after an edit, as the call was begun with them.
    pub(super) hashes: Option<(String, String)>,
    pub(super) place: PlaceOfEdit,
}

/// Where in its file an edit was made.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) enum PlaceOfEdit {
    #[default]
    NotAsked,
    Asked,
    NotKnown,
    Known(PlacedEdit),
}

/// What a call changed in the workspace's files.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) enum Changes {
    #[default]
    NotAsked,
    Asked,
    /// They are not known before it or behind it, as far as the log goes.
    NotKnown,
    Known(ChangedFiles),
}

/// What became of a call so far.
#[derive(Debug)]
pub enum Status {
    /// Its turn has not come.
    Waiting,
    /// A person is asked.
    Asked,
    /// A person allowed it, and it did not begin yet.
    Allowed,
    /// It was begun.
    Running {
        /// When it was begun: UTC, milliseconds since 1970.
        since_ms: i64,
        /// The run of a command.
        run: Option<String>,
    },
    /// It has its result.
    Over {
        outcome: Outcome,
        /// From its start to its end, milliseconds. `None` when that is not known.
        took_ms: Option<u64>,
        /// How its command ended, if it had one that ran to an end.
        exit: Exit,
    },
}

/// How the command of a call that is over ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// There was none, or its end is not known.
    None,
    Code(i32),
    /// It was ended from outside: by a signal, or a limit.
    Ended,
    /// The call is over, and the command goes on.
    InBackground,
    /// It went on behind the call, and ended. `None`: it did not exit by itself.
    EndedInBackground(Option<i32>),
}

impl Exit {
    /// `None` when it did not exit by itself.
    pub fn code(self) -> Option<i32> {
        match self {
            Exit::Code(code) | Exit::EndedInBackground(Some(code)) => Some(code),
            _ => None,
        }
    }
}

impl Block {
    pub(super) fn new(seq: Seq, at_ms: i64, kind: Kind) -> Block {
        Block {
            seq,
            at_ms,
            kind,
            unfolded: None,
            together: Together::Alone,
            laid: RefCell::new(None),
        }
    }

    /// It changed: its lines are void.
    pub(super) fn touch(&mut self) {
        self.laid.replace(None);
    }

    /// There is more of it than is shown.
    pub fn folds(&self) -> bool {
        matches!(
            self.kind,
            Kind::Call(_) | Kind::Thinking { .. } | Kind::Noted { .. }
        )
    }

    /// Whether it is a call that was begun and has no result yet.
    pub fn is_running(&self) -> bool {
        match &self.kind {
            Kind::Call(call) => matches!(call.status, Status::Running { .. }),
            _ => false,
        }
    }

    /// What a search looks through: all that is shown of it, also what is folded.
    pub(super) fn each_text(&self, look: &mut dyn FnMut(&str)) {
        match &self.kind {
            Kind::Said { text, .. }
            | Kind::Words { text, .. }
            | Kind::Thinking { text, .. }
            | Kind::Noted { text }
            | Kind::Marker { text, .. }
            | Kind::Notice { text, .. } => look(text),
            Kind::Failed { message, hint } => {
                look(message);
                hint.iter().for_each(|hint| look(hint));
            }
            Kind::Call(call) => call.each_text(look),
            Kind::TurnEnd(_) => {}
        }
    }
}

impl Call {
    /// What the call is about, in one line.
    pub fn subject(&self) -> &str {
        self.call.subject()
    }

    /// It gave an error, or its command did not exit with 0.
    pub fn has_failed(&self) -> bool {
        match &self.status {
            Status::Over {
                outcome: Outcome::Error { .. },
                ..
            } => true,
            Status::Over {
                outcome: Outcome::Done { .. },
                exit: Exit::Ended | Exit::EndedInBackground(None),
                ..
            } => true,
            Status::Over { exit, .. } => exit.code().is_some_and(|code| code != 0),
            _ => false,
        }
    }

    /// The entries of a call whose files are still to be asked for.
    pub(super) fn wants_changes(&self) -> Option<(Seq, Seq)> {
        let shows_none = matches!(self.shown.verb, Verb::Run | Verb::Call);
        let is_over = match &self.status {
            // What goes on may change more.
            Status::Over { exit, .. } => {
                !matches!(exit, Exit::InBackground | Exit::EndedInBackground(_))
            }
            _ => false,
        };
        match self.span {
            (Some(started), Some(finished)) => {
                (shows_none && is_over && self.changes == Changes::NotAsked)
                    .then_some((started, finished))
            }
            _ => None,
        }
    }

    /// It is over, and its command goes on.
    pub fn is_in_background(&self) -> bool {
        matches!(
            self.status,
            Status::Over {
                exit: Exit::InBackground,
                ..
            }
        )
    }

    /// It only looked, and found what it looked for. Such calls stand together.
    pub(super) fn has_looked(&self) -> bool {
        let is_done = matches!(
            self.status,
            Status::Over {
                outcome: Outcome::Done { .. },
                ..
            }
        );
        let looks = self.shown.verb == Verb::Look || self.shown.only_looks;
        is_done && looks && !self.has_failed()
    }

    /// What it looked at, as it stands among others: `"round" (2 hits)` for a search.
    pub(super) fn looked_at(&self) -> String {
        let subject = in_one_line(self.subject(), 80);
        match &self.status {
            Status::Over {
                outcome: Outcome::Done { output },
                ..
            } if self.shown.result == ShownResult::HitCount => {
                let found = count(tools::hits(&output.text), "hit");
                format!("\"{subject}\" ({found})")
            }
            _ => subject,
        }
    }

    /// The run folder of the command while the call runs. `None` for calls without a command.
    pub fn run(&self) -> Option<&str> {
        match &self.status {
            Status::Running { run, .. } => run.as_deref(),
            _ => None,
        }
    }

    fn each_text(&self, look: &mut dyn FnMut(&str)) {
        look(&self.call.shown_name());
        look(self.subject());
        match &self.shown.body {
            Body::Edits { edits, .. } => {
                for edit in edits {
                    look(&edit.old);
                    look(&edit.new);
                }
            }
            Body::File { content, .. } => look(content),
            Body::Subject | Body::Plan(_) | Body::Command { .. } | Body::Served { .. } => {}
        }
        if let Status::Over { outcome, .. } = &self.status {
            match outcome {
                Outcome::Done { output } | Outcome::Error { output } => look(&output.text),
                Outcome::Denied { reason } => look(reason),
                Outcome::Interrupted { output, why } => {
                    look(&output.text);
                    look(why);
                }
            }
        }
    }
}
