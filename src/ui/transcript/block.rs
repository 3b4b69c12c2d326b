//! The parts of the conversation: one block for each thing that a person looks at.

use std::cell::RefCell;

use ratatui::text::Line;

use crate::core::entry::{Outcome, Plan, Seq};
use crate::core::text::{count, in_one_line};
use crate::core::tool::ToolCall;
use crate::session::describe::Tone;
use crate::session::{ChangedFiles, PlacedEdit};
use crate::tools::{self, Shown, ShownBody, ShownResult, Verb};

/// A message of the user with more lines is folded.
const MAX_SAID_LINES: usize = 20;

/// A part of the conversation with its lines, which are made when they are first shown.
#[derive(Debug)]
pub struct Block {
    /// The `seq` of its entry.
    pub seq: Seq,
    /// The time of the entry: UTC, milliseconds since 1970.
    pub at_ms: i64,
    pub kind: Kind,
    /// Unfolded or folded by hand; else as the kind is by itself.
    pub unfolded: Option<bool>,
    /// Its place in a group of calls, which are shown together while folded.
    pub(super) together: Together,
    pub(super) laid: RefCell<Option<Laid>>,
}

/// Grouping of calls that only look.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) enum Together {
    #[default]
    Alone,
    /// The first call of a group: the number of calls, their subjects, and their total time in
    /// milliseconds.
    First {
        count: usize,
        subjects: Vec<String>,
        took_ms: u64,
    },
    /// A later call of a group, with its distance from the first.
    Behind(usize),
}

/// The lines of a block, and the stamp for which they were made.
#[derive(Debug)]
pub(super) struct Laid {
    pub(super) stamp: Stamp,
    pub(super) lines: Vec<Line<'static>>,
}

/// The inputs of the lines. When any changes, the lines are made again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Stamp {
    pub width: u16,
    /// Generation of the theme and of the colours of code.
    pub generation: u64,
    pub unfolded: bool,
    /// Time in seconds, for blocks that change with time.
    pub tick: u64,
}

/// The content of a block.
#[derive(Debug)]
pub enum Kind {
    /// The user's words.
    Said {
        text: String,
        /// Number of images in the message.
        images: usize,
    },
    /// The model's words; those of an answer that was cut are marked.
    Words {
        text: String,
        /// The answer was cut, so they end in the middle.
        cut: bool,
    },
    /// Thinking of the model.
    Thinking {
        text: String,
        /// Duration in milliseconds. `None` when no process observed it.
        took_ms: Option<u64>,
    },
    Call(Box<Call>),
    /// A note to the model.
    Noted {
        text: String,
    },
    /// Something happened to the session itself: a crash, a stop, a new context.
    Marker {
        tone: Tone,
        text: String,
    },
    /// The end of a turn.
    TurnSummary(Box<super::turn::TurnSummary>),
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

/// A call and its state.
#[derive(Debug)]
pub struct Call {
    pub call: ToolCall,
    pub shown: Shown,
    pub status: Status,
    /// A shell command of the user (`!`), shown like one of the model.
    pub(super) is_of_user: bool,
    /// The last lines that a running command printed.
    pub tail: String,
    /// The plan that the call set, once it has its result.
    pub plan: Option<Plan>,
    /// The first and the last entry of the call, if it may have changed files.
    pub(super) span: (Option<Seq>, Option<Seq>),
    pub(super) changes: Changes,
    /// The hashes of the file before and after an edit, as the start of the call recorded them.
    pub(super) hashes: Option<(String, String)>,
    pub(super) place: EditLocation,
}

/// The place of an edit in its file.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) enum EditLocation {
    #[default]
    NotAsked,
    Asked,
    NotKnown,
    Known(PlacedEdit),
}

/// The changes of a call to the workspace's files.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) enum Changes {
    #[default]
    NotAsked,
    Asked,
    /// The trees before or after the call are not in the log.
    NotKnown,
    Known(ChangedFiles),
}

/// The state of a call.
#[derive(Debug)]
pub enum Status {
    /// It waits for earlier calls.
    Waiting,
    /// It needs the approval of a person.
    Asked,
    /// It was approved and has not started yet.
    Allowed,
    /// It has started.
    Running {
        /// When it started: UTC, milliseconds since 1970.
        since_ms: i64,
        /// The run of a command.
        run: Option<String>,
    },
    /// It has its result.
    Over {
        outcome: Outcome,
        /// From its start to its end, milliseconds. `None` when that is not known.
        took_ms: Option<u64>,
        /// The exit of its command, if it ran one to an end.
        exit: Exit,
    },
}

/// The exit of the command of a finished call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// There was none, or its end is not known.
    None,
    Code(i32),
    /// It was ended from outside: by a signal, or a limit.
    Ended,
    /// The call has ended, and the command still runs.
    InBackground,
    /// The command ran longer than the call, and ended. `None`: it did not exit by itself.
    EndedInBackground(Option<i32>),
}

impl Exit {
    /// Returns the exit code. `None` when the command did not exit by itself.
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

    /// Invalidates the lines after a change.
    pub(super) fn touch(&mut self) {
        self.laid.replace(None);
    }

    /// Returns whether there is more of it than is shown.
    pub fn folds(&self) -> bool {
        match &self.kind {
            Kind::Call(_) | Kind::Thinking { .. } | Kind::Noted { .. } => true,
            Kind::Said { text, .. } => is_long_message(text),
            _ => false,
        }
    }

    /// Returns whether this is a call that has started and has no result yet.
    pub fn is_running(&self) -> bool {
        match &self.kind {
            Kind::Call(call) => matches!(call.status, Status::Running { .. }),
            _ => false,
        }
    }

    /// Passes the texts of a search to `look`: all text of the block, also folded text.
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
            Kind::TurnSummary(_) => {}
        }
    }
}

/// Returns whether a message of the user is so long that it is folded, as with a paste.
pub(super) fn is_long_message(text: &str) -> bool {
    text.lines().nth(MAX_SAID_LINES).is_some()
}

impl Call {
    /// Makes a call that has not started.
    pub(super) fn new(call: ToolCall) -> Call {
        Call {
            shown: tools::shown(&call),
            call,
            status: Status::Waiting,
            is_of_user: false,
            tail: String::new(),
            plan: None,
            span: (None, None),
            changes: Changes::NotAsked,
            hashes: None,
            place: EditLocation::NotAsked,
        }
    }

    /// Returns the subject of the call, in one line.
    pub fn subject(&self) -> &str {
        self.call.subject()
    }

    /// Returns whether it gave an error, or its command did not exit with 0.
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

    /// Returns the number of files that a command changed, as far as it is known.
    pub(super) fn changed_files(&self) -> usize {
        match &self.changes {
            Changes::Known(files) => files.count,
            _ => 0,
        }
    }

    /// Returns the entries of a call whose changed files must still be requested.
    pub(super) fn wants_changes(&self) -> Option<(Seq, Seq)> {
        let shows_none = matches!(self.shown.verb, Verb::Run | Verb::Call);
        let is_over = match &self.status {
            // A command that still runs may change more.
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

    /// Returns whether the call has ended and its command still runs.
    pub fn is_in_background(&self) -> bool {
        matches!(
            self.status,
            Status::Over {
                exit: Exit::InBackground,
                ..
            }
        )
    }

    /// Returns whether the call only looked, and found something. Such calls are grouped.
    pub(super) fn has_looked(&self) -> bool {
        let is_done = matches!(
            self.status,
            Status::Over {
                outcome: Outcome::Done { .. },
                ..
            }
        );
        is_done && self.shown.verb == Verb::Look && !self.has_failed()
    }

    /// Returns the subject of a call in a group: `"round" (2 hits)` for a search.
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

    /// Returns the run folder of the command while the call runs. `None` for calls without a
    /// command.
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
            ShownBody::Edits { edits, .. } => {
                for edit in edits {
                    look(&edit.old);
                    look(&edit.new);
                }
            }
            ShownBody::File { content, .. } => look(content),
            ShownBody::Subject
            | ShownBody::Plan(_)
            | ShownBody::Command { .. }
            | ShownBody::Served { .. } => {}
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
