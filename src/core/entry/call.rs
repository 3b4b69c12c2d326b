//! A call of a tool from its id to its end: who decided, how it is guarded, what came of it, and
//! what it makes known.

use serde::{Deserialize, Serialize};

use super::Seq;
use super::content::{BlobRef, Image};
use super::plan::Plan;
use super::usage::Spent;

/// A tool call, named by us: the `Replied` entry that asked for it and its index among the
/// calls of that answer. Servers repeat their own ids or send none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct CallId {
    /// The place of the `Replied` entry.
    pub reply: Seq,
    /// The call's place among the calls of that answer, from 0.
    pub index: u32,
}

impl CallId {
    /// The id that is sent to a provider: unique along the path, and the same each time.
    /// Nine letters and digits, since Mistral takes nothing else; only a session of more than
    /// twenty million entries has longer ones.
    pub fn wire(&self) -> String {
        // Cantor's pairing function: no two pairs have the same number, and those of small
        // pairs are small. One of `sum` and `sum + 1` is even; halved first, nothing overflows.
        let sum = u128::from(self.reply) + u128::from(self.index);
        let before = match sum % 2 {
            0 => sum / 2 * (sum + 1),
            _ => sum.div_ceil(2) * sum,
        };
        format!("c{:0>8}", base62(before + u128::from(self.index)))
    }
}

fn base62(mut number: u128) -> String {
    const DIGITS: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
    let mut digits = Vec::new();
    while number > 0 {
        digits.push(char::from(DIGITS[(number % 62) as usize]));
        number /= 62;
    }
    digits.iter().rev().collect()
}

impl std::fmt::Display for CallId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{}", self.reply, self.index)
    }
}

/// As it is shown: `3.0`.
impl std::str::FromStr for CallId {
    type Err = String;

    fn from_str(text: &str) -> Result<CallId, String> {
        let parts = text.split_once('.');
        let parse = |(reply, index): (&str, &str)| {
            Some(CallId {
                reply: reply.parse().ok()?,
                index: index.parse().ok()?,
            })
        };
        parts.and_then(parse).ok_or_else(|| {
            format!("{text:?} names no call: `rewake approvals` shows them, as in 12.0")
        })
    }
}

/// A person's or a hook's answer to whether a call may run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "verdict", rename_all = "snake_case")]
pub enum Verdict {
    /// The call runs, this once.
    Allow,
    /// The call never runs. The model is told the reason.
    Deny { reason: String },
}

/// Who did it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum By {
    /// The user named this session or pressed a key.
    Person,
    /// The program, by itself.
    Start,
    /// A program of the user's that decides. Nothing writes it yet: hooks do not exist.
    Hook,
}

/// Recorded before an effect: what is needed to settle it when the process dies inside.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "class", rename_all = "snake_case")]
pub enum Guard {
    /// A file that is replaced as a whole. Hashes are blake3 in hex; `before` is `None`
    /// when there was no file.
    Checked {
        /// Absolute.
        path: String,
        /// Of what the file held before. `None`: there was no file.
        before: Option<String>,
        /// Of what it holds once the change is done.
        after: String,
    },
    /// A command under a keeper.
    Supervised {
        /// Name of the run folder, unique for ever.
        run: String,
        /// The boot it was started in: another boot means it cannot be running.
        boot: String,
        /// The command was started to go on while the model is asked again.
        background: bool,
    },
    /// A sub-agent under a keeper. Its run may be lost; what it did is in its own log.
    Child {
        /// Its session.
        session: String,
        /// As that of `Supervised`.
        run: String,
        /// As that of `Supervised`.
        boot: String,
        /// It goes on while the model is asked again.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        background: bool,
        /// How many answers and results its log had at this start.
        #[serde(default)]
        done: u64,
        /// Starts in a row before this one that added none.
        #[serde(default)]
        in_vain: u32,
        /// What its models had been asked for before this call.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        before: Vec<Spent>,
        /// How long it had worked before this call, milliseconds.
        #[serde(default, skip_serializing_if = "super::is_zero")]
        worked_ms: u64,
    },
    /// A call of a tool of a server that a keeper holds. What was said to the server and what it
    /// answered is in the journal of its run.
    Served {
        /// What the config calls it.
        server: String,
        /// As that of `Supervised`.
        run: String,
        /// As that of `Supervised`.
        boot: String,
        /// The id of the request. A call that is sent once more has another.
        request: String,
        /// By the user's word it may be sent once more when it is not known what became of it.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        repeatable: bool,
    },
    /// Nothing can be known of it after a crash.
    Opaque,
}

impl Guard {
    /// The run folder of what is under a keeper.
    pub fn run(&self) -> Option<&str> {
        match self {
            Guard::Supervised { run, .. }
            | Guard::Child { run, .. }
            | Guard::Served { run, .. } => Some(run),
            Guard::Checked { .. } | Guard::Opaque => None,
        }
    }
}

/// The result of a call. `Denied`: it never ran, since a person or a rule said no.
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
    /// It was cut short; what it did so far stands.
    Interrupted {
        /// What it printed or found until then.
        output: Output,
        /// What cut it short, for the model.
        why: String,
    },
}

/// What a tool gives the model. When the whole is too big for an entry, `text` is its head
/// and tail and `blob` the whole.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Output {
    /// What the model reads.
    pub text: String,
    /// The whole output. `None`: `text` is the whole.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub blob: Option<BlobRef>,
    /// Images that the model sees besides the text.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub images: Vec<Image>,
}

impl Output {
    /// Output of text alone.
    pub fn text(text: impl Into<String>) -> Output {
        Output {
            text: text.into(),
            ..Output::default()
        }
    }
}

impl Outcome {
    /// A result without images or blob.
    pub fn done(text: impl Into<String>) -> Outcome {
        Outcome::Done {
            output: Output::text(text),
        }
    }

    /// A failure. `text` tells the model what is wrong.
    pub fn error(text: impl Into<String>) -> Outcome {
        Outcome::Error {
            output: Output::text(text),
        }
    }

    /// Adds a line to what a call that ran, or failed, gave. What never ran gave nothing.
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

    /// What the model reads of it, and whether it is an error.
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

/// What a finished call changed in the state, for those who fold and do not read prose.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "fact", rename_all = "snake_case")]
pub enum Fact {
    /// The file's content is known to the model: absolute path and blake3 in hex.
    Seen {
        /// Absolute, links followed.
        path: String,
        hash: String,
    },
    /// The file was changed by us and now has this content.
    Wrote {
        /// Absolute.
        path: String,
        /// Of what was written: blake3 in hex.
        hash: String,
    },
    /// A command ended.
    Ran {
        /// `None` when it did not exit by itself.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        exit_code: Option<i32>,
        /// From its start to its end, milliseconds.
        took_ms: u64,
        /// It failed, and that looks like the sandbox.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        refused: bool,
    },
    /// A command goes on in the background under this id; `run` is its folder.
    Background {
        /// What the model names the command by: `bg_`, the answer's place, the call's index.
        id: String,
        /// The name of the run folder.
        run: String,
        /// The command line, as the model wrote it.
        command: String,
        /// It is no command but a sub-agent.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        child: Option<ChildRun>,
    },
    /// A sub-agent came to its end, or as far as it came.
    Task {
        /// Its session.
        session: String,
        /// What its models were asked for.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        spent: Vec<Spent>,
    },
    Planned {
        plan: Plan,
    },
    /// To be found again by later sessions of the workspace. The store keeps it as a row of
    /// its own, made in the transaction of this entry.
    Remembered {
        memory: Memory,
    },
    /// What is shown is in the log already, and not to be found a second time.
    Recalled,
}

/// A sub-agent that runs in the background.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChildRun {
    pub session: String,
    /// What its models had been asked for before this call.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub before: Vec<Spent>,
    /// How long it had worked before this call, milliseconds.
    #[serde(default, skip_serializing_if = "super::is_zero")]
    pub worked_ms: u64,
}

/// What the model keeps for later.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Memory {
    pub kind: MemoryKind,
    /// What it is about, in a few words. `None`: the model gave none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub topic: Option<String>,
    pub text: String,
}

/// What sort of thing a memory is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MemoryKind {
    /// What happened.
    Episodic,
    /// What is so.
    Semantic,
    /// How something is done.
    Procedural,
}

impl MemoryKind {
    /// The kind's name as it is stored: `episodic`, `semantic` or `procedural`.
    pub fn name(self) -> &'static str {
        match self {
            MemoryKind::Episodic => "episodic",
            MemoryKind::Semantic => "semantic",
            MemoryKind::Procedural => "procedural",
        }
    }
}
