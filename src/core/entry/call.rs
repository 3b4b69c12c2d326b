//! A tool call from its id to its end: the verdict, the guard, the outcome and the facts of the
//! result.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::content::{BlobRef, Image};
use super::plan::Plan;
use super::usage::Spent;
use crate::core::seen::SeenPart;

/// A person's answer to whether a call may run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "verdict", rename_all = "snake_case")]
pub enum Verdict {
    /// The call runs, this once.
    Allow,
    /// The call never runs. The model gets the reason.
    Deny { reason: String },
}

/// Author of a decision, an answer or a resume.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum By {
    /// The user, who named this session or pressed a key.
    Person,
    /// The program itself.
    Start,
    /// Reserved: nothing writes it.
    Hook,
}

/// The data that is recorded before an effect, to settle the call if the process dies during it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "class", rename_all = "snake_case")]
pub enum Guard {
    /// A file that is replaced as a whole. Hashes are blake3 in hex; `before` is `None`
    /// when there was no file.
    Checked {
        /// Absolute.
        path: String,
        /// Hash of the old content. `None`: there was no file.
        before: Option<String>,
        /// Hash of the new content.
        after: String,
    },
    /// A command under a keeper.
    Supervised {
        /// Name of the run folder, unique for ever.
        run: String,
        /// Id of the boot in which it started. After another boot it cannot be running.
        boot: String,
        /// The command runs in the background while the model is asked again.
        background: bool,
    },
    /// A subagent under a keeper. Its run folder may be lost, but its work is in its own log.
    Child {
        /// Its session.
        session: String,
        /// The same as in `Supervised`.
        run: String,
        /// The same as in `Supervised`.
        boot: String,
        /// It runs in the background while the model is asked again.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        background: bool,
        /// Number of answers and results in its log at this start.
        #[serde(default)]
        done: u64,
        /// Number of starts in a row before this one that added none.
        #[serde(default)]
        in_vain: u32,
        /// Tokens that its models used before this call.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        before: Vec<Spent>,
        /// Working time before this call, milliseconds.
        #[serde(default, skip_serializing_if = "super::is_zero")]
        worked_ms: u64,
    },
    /// A call of a server's tool. A keeper runs the server and journals its requests and answers in
    /// the run folder.
    Served {
        /// Name of the server in the config.
        server: String,
        /// The same as in `Supervised`.
        run: String,
        /// The same as in `Supervised`.
        boot: String,
        /// The id of the request. A call that is sent again has another.
        request: String,
        /// The user's config allows sending the call again when its outcome is unknown.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        repeatable: bool,
    },
    /// A question of the model to the person, in the entry after this one.
    Asks,
    /// Its outcome cannot be known after a crash.
    Opaque,
}

impl Guard {
    /// Returns whether the file of a call has the content already that the call would give it.
    pub fn changes_nothing(&self) -> bool {
        matches!(self, Guard::Checked { before: Some(before), after, .. } if before == after)
    }

    /// Returns the name of the run folder, for calls under a keeper.
    pub fn run(&self) -> Option<&str> {
        match self {
            Guard::Supervised { run, .. }
            | Guard::Child { run, .. }
            | Guard::Served { run, .. } => Some(run),
            Guard::Checked { .. } | Guard::Asks | Guard::Opaque => None,
        }
    }
}

/// The result of a call. `Denied`: it never ran, because a person or a rule denied it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "outcome", rename_all = "snake_case")]
pub enum Outcome {
    /// The tool did its work. A command that failed is `Done` too: its output says how it
    /// ended.
    Done {
        output: Output,
    },
    /// It failed; the output says why.
    Error {
        output: Output,
    },
    Denied {
        reason: String,
    },
    /// It was interrupted; its effects so far remain.
    Interrupted {
        /// The output until then.
        output: Output,
        /// The cause of the interruption, for the model.
        why: String,
    },
}

/// The output of a tool for the model. If the whole output is too large for an entry, `text` is its
/// head and tail, and `blob` is the whole.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Output {
    /// The text for the model.
    pub text: String,
    /// The whole output. `None`: `text` is the whole.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub blob: Option<BlobRef>,
    /// Images for the model, in addition to the text.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub images: Vec<Image>,
}

impl Output {
    /// Returns output that is only text.
    pub fn text(text: impl Into<String>) -> Output {
        Output {
            text: text.into(),
            ..Output::default()
        }
    }
}

impl Outcome {
    /// Returns a result without images or blob.
    pub fn done(text: impl Into<String>) -> Outcome {
        Outcome::Done {
            output: Output::text(text),
        }
    }

    /// Returns an error. `text` describes it to the model.
    pub fn error(text: impl Into<String>) -> Outcome {
        Outcome::Error {
            output: Output::text(text),
        }
    }

    /// Returns the result of a call that was interrupted and has no output.
    pub fn interrupted(why: impl Into<String>) -> Outcome {
        Outcome::Interrupted {
            output: Output::default(),
            why: why.into(),
        }
    }

    /// Adds a line to the output of a call that ran or failed. Other outcomes stay as they are.
    pub fn add_line(&mut self, line: &str) {
        let (Outcome::Done { output } | Outcome::Error { output }) = self else {
            return;
        };
        if output.text.is_empty() {
            output.text.push_str("(no output)");
        }
        if !output.text.ends_with('\n') {
            output.text.push('\n');
        }
        output.text.push_str(line);
    }

    /// Adds a note of rewake in brackets to the output, also to that of an interrupted call.
    pub fn add_note(&mut self, note: &str) {
        if let Outcome::Done { output }
        | Outcome::Error { output }
        | Outcome::Interrupted { output, .. } = self
        {
            if !output.text.is_empty() && !output.text.ends_with('\n') {
                output.text.push('\n');
            }
            output.text.push_str(&format!("[{note}]"));
        }
    }

    /// Returns the text for the model, and whether it is an error.
    pub fn to_model_text(&self) -> (String, bool) {
        match self {
            Outcome::Done { output } if output.text.is_empty() => {
                ("(no output)".to_string(), false)
            }
            Outcome::Done { output } => (output.text.clone(), false),
            Outcome::Error { output } if output.text.is_empty() => ("error".to_string(), true),
            Outcome::Error { output } => (output.text.clone(), true),
            Outcome::Denied { reason } => (format!("denied: {reason}"), true),
            Outcome::Interrupted { output, why } if output.text.is_empty() => {
                (format!("[interrupted: {why}]"), true)
            }
            Outcome::Interrupted { output, why } => {
                (format!("{}\n[interrupted: {why}]", output.text), true)
            }
        }
    }
}

/// The change of the state by a finished call, for the fold, which does not parse text.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "fact", rename_all = "snake_case")]
pub enum Fact {
    /// The file's content is known to the model: absolute path and blake3 in hex.
    Seen {
        /// Absolute path, with links followed.
        path: String,
        hash: String,
        /// The part of it that was shown. `None`: all of it, as in logs of older versions.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        part: Option<SeenPart>,
    },
    /// The file was changed by us and now has this content.
    Wrote {
        /// Absolute.
        path: String,
        /// Hash of the written content: blake3 in hex.
        hash: String,
    },
    /// A command ended.
    Ran {
        /// `None` when it did not exit by itself.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        exit_code: Option<i32>,
        /// From its start to its end, milliseconds.
        took_ms: u64,
        /// The command failed, probably because of the sandbox.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        refused: bool,
    },
    /// A command runs in the background under this id; `run` is its folder.
    Background {
        /// The id for the model: `bg_`, the answer's place, the call's index.
        id: String,
        /// The name of the run folder.
        run: String,
        /// The command line, as the model wrote it.
        command: String,
        /// Data of a subagent. `None`: a command.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        child: Option<ChildRun>,
    },
    /// A subagent ended or was interrupted.
    Task {
        /// Its session.
        session: String,
        /// Tokens that its models used.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        spent: Vec<Spent>,
    },
    Planned {
        plan: Plan,
    },
    /// A memory for later sessions of the workspace. The store also keeps it as a separate row,
    /// made in the transaction of this entry.
    Remembered {
        memory: Memory,
    },
    /// A wait for background commands ended.
    Waited {
        /// The id of each command whose output the wait searched, and the number of bytes that no
        /// later wait searches again.
        searched: BTreeMap<String, u64>,
    },
    /// The result shows content of the log, which a search should not find a second time.
    Recalled,
}

/// A subagent that runs in the background.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChildRun {
    pub session: String,
    /// Tokens that its models used before this call.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub before: Vec<Spent>,
    /// Working time before this call, milliseconds.
    #[serde(default, skip_serializing_if = "super::is_zero")]
    pub worked_ms: u64,
}

/// A memory: a fact that the model stores for later sessions.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Memory {
    pub kind: MemoryKind,
    /// The topic in a few words. `None`: the model gave none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub topic: Option<String>,
    pub text: String,
}

/// Kind of a memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MemoryKind {
    /// An event.
    Episodic,
    /// A fact.
    Semantic,
    /// A procedure.
    Procedural,
}

impl MemoryKind {
    /// Returns the kind's name as it is stored: `episodic`, `semantic` or `procedural`.
    pub fn name(self) -> &'static str {
        match self {
            MemoryKind::Episodic => "episodic",
            MemoryKind::Semantic => "semantic",
            MemoryKind::Procedural => "procedural",
        }
    }
}
