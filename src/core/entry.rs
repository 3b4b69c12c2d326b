//! Everything that is ever stored about a session: the compatibility boundary.
//!
//! A session is a chain of [`Record`]s; a record is an [`Entry`] with its place in the
//! chain and its time. Entries are facts in the past tense. They are never edited.
//!
//! Compatibility: the JSON of an entry is `{"kind": "...", ...}`. Fields may be added with
//! `#[serde(default)]`; kinds and fields are never renamed or removed. A kind that is not
//! known here is refused on reading, never skipped, since the state could not be folded.
//!
//! Invariant: nothing here holds a path, id or handle that only means something to one
//! process; an entry read ten years later on another machine still says what happened.

use std::borrow::Cow;

use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

use super::access::Access;

use super::choice::Effort;
use super::text::one_line;

/// The place of an entry in its chain, from 0. A fork shares the places of its ancestors,
/// so a place is unique along one path, and it needs no store to be known.
pub type Seq = u64;

/// One entry with its place and its time (UTC, milliseconds since 1970).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// The place of the entry in its chain.
    pub seq: Seq,
    /// When it was recorded: UTC, milliseconds since 1970.
    pub at_ms: i64,
    pub entry: Entry,
}

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

/// One fact of a session. JSON names its kind in `kind`; [`Entry::kind`] is that name.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Entry {
    /// The first entry of a session that is not a fork.
    Opened {
        /// The folder the session works in: absolute, as given by the user.
        folder: String,
        /// The version of rewake that opened it.
        version: String,
        /// `provider/model`.
        model: String,
        /// What may be done without asking, at the start.
        mode: Mode,
        /// What requests begin with, as this version rendered it.
        layers: Layers,
    },
    /// Layers 1 and 2 were rendered again: another version of rewake, or a new context.
    Rendered {
        /// The version of rewake that rendered them.
        version: String,
        layers: Layers,
    },
    /// The user's words, or an outside signal's.
    Said {
        /// The words as they were given.
        text: String,
        /// Images that came with the words, in their order.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        images: Vec<Image>,
        /// How the words came in.
        via: Via,
        /// The command that stands for the words. `None`: they are as they were typed.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        command: Option<UsedCommand>,
    },
    /// One whole answer of the model. A stream that was cut is never one.
    Replied {
        /// In the order the model gave them.
        blocks: Vec<Block>,
        /// What the provider counted for the request and this answer.
        usage: Usage,
        /// Why the answer ended.
        stop: StopReason,
        /// `provider/model` that made it: thinking goes back only to its maker.
        model: String,
        /// From the request to the last byte, milliseconds.
        #[serde(default)]
        took_ms: u64,
        /// What the request had, about: what tokens are learnt from.
        #[serde(default)]
        asked_bytes: u64,
    },
    /// A person's or a hook's verdict. One that follows from a rule is derived, not stored.
    Decided {
        /// The call that was decided on.
        call: CallId,
        verdict: Verdict,
        /// Who decided. Hooks do not exist yet: so far always `Person`.
        by: By,
        /// Of a command that was allowed: how far it may reach. In logs of older versions
        /// there is none: what was allowed then ran without a sandbox.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        access: Option<Access>,
        /// Of a call that is about a path: where that led when the person was asked. It acts
        /// there or not at all. In logs of older versions there is none.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        at: Option<String>,
        /// The rule that is allowed with it for the rest of this session, as written.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        rule: Option<String>,
    },
    /// About to act: all that is needed to settle the call after a crash.
    Started {
        /// The call that is begun.
        call: CallId,
        guard: Guard,
        /// Of a command: how far it may reach, also when it is begun only after a crash. In
        /// logs of older versions there is none: commands ran without a sandbox then.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        access: Option<Access>,
    },
    /// The one result of a call.
    Finished {
        /// The call whose result this is. It is the only one it gets.
        call: CallId,
        outcome: Outcome,
        /// What of the result changes the state. `None`: nothing but the call's end.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        fact: Option<Fact>,
        /// The name of the tree that says what the workspace's files were behind the call.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        tree: Option<String>,
    },
    /// The user stopped the agent. Recorded before it is obeyed.
    Stopped {
        /// What the model had said so far; it is sent back as the model's own words.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        draft: Option<String>,
    },
    /// The model call failed for good. The user is told; the agent waits.
    Failed {
        error: Failure,
        /// What the model had said before the stream broke: shown, not sent.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        draft: Option<String>,
    },
    /// What the model is told besides: it owes no answer for it.
    Noted {
        /// What the model is told.
        text: String,
        /// What the note is about, where something follows from that.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        about: Option<About>,
    },
    /// The oldest exchanges of the context were summarised. The summary replaces the one before.
    #[serde(rename = "closed")]
    Compacted {
        /// The number of windows that left the context so far, this one included, from 1.
        window: u32,
        /// The place of the first entry that the summary stands for.
        first: Seq,
        /// The place of the last entry that the summary stands for.
        last: Seq,
        /// The summary itself, as it stands in requests.
        summary: String,
        /// Who wrote the summary.
        by: SummaryBy,
        /// What the summary model was asked since the last entry that says so.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        spent: Vec<Spent>,
        /// All that requests begin with from here on: the summary, and what is said again
        /// with it. `None` in logs of version 0.1: it is rendered as that version did.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        preface: Option<String>,
    },
    /// Continuation checkpoint: the context starts again from this note.
    Continued {
        /// The whole text that the context begins again with.
        note: String,
        /// Who wrote it. `Digest` in logs that do not say.
        #[serde(default)]
        by: SummaryBy,
        /// As that of `Compacted`.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        spent: Vec<Spent>,
        /// The part of the note that a model wrote. `None`: no model did.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        story: Option<String>,
    },
    /// Old results left the context: requests have a line in place of each.
    Freed {
        /// Oldest first.
        results: Vec<FreedResult>,
    },
    /// A checkpoint without a call.
    Saved {
        /// What the checkpoint was made for.
        reason: SaveReason,
        /// The name of the tree that says what the workspace's files were here.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        tree: Option<String>,
        /// Why the files before an effect could not be kept: said to the user.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        why: Option<String>,
    },
    /// The first entry of a fork. It closes every open call: those belong to the other branch.
    Forked {
        /// Where the fork goes on from.
        from: ForkPoint,
    },
    /// An answer was compared with the schema that it has to fit.
    Checked {
        /// The place of the `Replied` entry.
        answer: Seq,
        /// What does not fit. `None`: it fits.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        unfit: Option<Unfit>,
        /// What the model is told, which owes another answer for it. `None`: it is not asked
        /// again.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        told: Option<String>,
    },
    /// Another model, mode, effort or temperature from here on.
    Chose(Choice),
    /// A shell command of the user (`!`) is about to be begun. Its end is a `Noted` that names
    /// this entry.
    UserCommand {
        /// The command line, as it was typed.
        command: String,
        /// `Supervised` for one under a keeper, `Opaque` for one that has the terminal.
        guard: Guard,
    },
    /// A person named the session.
    Named {
        /// The session's name. It stands in place of the first words said.
        title: String,
    },
    /// A model was asked for a title. It is asked once, whatever came of it.
    Titled {
        /// It stands in place of the first words said. `None`: the model gave none, or a person
        /// had named the session meanwhile.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        title: Option<String>,
        /// What the model was asked for it.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        spent: Vec<Spent>,
    },
    /// A person does not want to be offered the session any more. It holds as long as this is the
    /// last entry: whoever takes the session up again, or appends anything, wants it.
    Dismissed,
    /// The model's context window in tokens, learnt from the provider's own error, or from
    /// counts that stay behind what was sent.
    Learned {
        /// `provider/model` that the limit is of.
        model: String,
        /// Tokens.
        limit: u64,
        /// What the provider counted in the request that was too long, and what it had.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        tokens: Option<u64>,
        /// How large that request was, about. 0: not known.
        #[serde(default)]
        bytes: u64,
        /// There was no error: the server cut long requests and said nothing.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        silently: bool,
        /// Not the window was learnt (`limit` is what was known of it), but that the server
        /// refuses images that were sent. From here on they are sent as text to this model.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        images: Option<Refusal>,
    },
    /// A process took the session up again.
    #[serde(rename = "woke")]
    Resumed {
        /// Who took it up. With `Person`, starts that came to nothing are counted anew.
        by: By,
        /// What was found: one line for the user.
        found: String,
        /// The answer that was streaming at the crash: shown, not sent.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        draft: Option<String>,
    },
}

/// A result that left the context for a line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FreedResult {
    /// The place of its `Finished`.
    pub at: Seq,
    /// What requests have in its place: what came of the call, and the address.
    pub line: String,
    /// The tool and what the call was about: the same call again is one that reads it again.
    #[serde(default)]
    pub call: String,
}

/// What is another from here on. `None` leaves what is.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Choice {
    /// `provider/model`. It begins with the effort and the temperature of the config.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<Mode>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub effort: Option<Effort>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub temperature: Option<f64>,
    /// Another model answers until the user's next message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fallback: Option<FallbackModel>,
    /// A rule of this session that is taken back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub without: Option<String>,
    /// The JSON Schema that the next answer has to fit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schema: Option<Value>,
    /// No answer has to fit a schema any more.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub without_schema: bool,
}

/// Where an answer does not fit its schema, and why.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unfit {
    /// JSON Pointer into the answer; empty: the answer as a whole.
    pub path: String,
    /// In words for the model and for a person.
    pub why: String,
}

impl std::fmt::Display for Unfit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.path.as_str() {
            "" => write!(f, "at the top: {}", self.why),
            path => write!(f, "at {path}: {}", self.why),
        }
    }
}

impl Choice {
    /// Only another model: `provider/model`.
    pub fn of_model(model: impl Into<String>) -> Choice {
        Choice {
            model: Some(model.into()),
            ..Choice::default()
        }
    }

    /// Only another mode.
    pub fn of_mode(mode: Mode) -> Choice {
        Choice {
            mode: Some(mode),
            ..Choice::default()
        }
    }

    /// Nothing is chosen.
    pub fn is_empty(&self) -> bool {
        *self == Choice::default()
    }
}

/// The model that answers in place of one that could not be asked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FallbackModel {
    /// `provider/model`.
    pub model: String,
    /// Why the one before could not be asked.
    pub error: Failure,
}

/// Images that a server refused.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refusal {
    /// The server's words, short.
    pub why: String,
    /// The model takes none at all: those that come later are not sent either.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub every: bool,
}

/// Layers 1 and 2 of every request, rendered once, so that the same bytes are sent again.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Layers {
    /// Layer 1: the system prompt.
    pub system: String,
    /// Layer 1: the tools, in the order they are sent.
    pub tools: Vec<ToolSpec>,
    /// AGENTS.md chain and what else comes with the folder. May be empty.
    pub instructions: String,
}

/// A tool as the model sees it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolSpec {
    /// What the model calls it by.
    pub name: String,
    /// What the model reads of it.
    pub description: String,
    /// JSON Schema of the arguments: an object.
    pub schema: Value,
}

/// An image, kept in the blobs of the store.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Image {
    /// `image/png`, `image/jpeg`, `image/gif` or `image/webp`.
    pub media_type: String,
    pub blob: BlobRef,
}

/// Bytes in the blobs of the store: blake3 in hex, and the size before compression.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BlobRef {
    /// Blake3 of the bytes as they were, in hex. It is the blob's name.
    pub hash: String,
    /// The size as it was, before compression.
    pub bytes: u64,
}

/// A command whose text was said: the words of the entry are that text, with the arguments and
/// files in it, so the log does not change with the command's file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UsedCommand {
    /// Without its slash: `git:commit`.
    pub name: String,
    /// What was typed behind the name.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub arguments: String,
    /// `provider/model` that answers it, until the next message. `None`: the session's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
}

impl UsedCommand {
    /// As it was typed.
    pub fn line(&self) -> String {
        let line = format!("/{} {}", self.name, self.arguments);
        line.trim_end().to_string()
    }
}

/// How a message came in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Via {
    /// Typed, or given with `-p`.
    Prompt,
    /// Typed while the agent worked.
    Queue,
    /// A signal from outside.
    Signal,
    /// Not said but told besides: in the inbox only, whence it becomes `Noted`.
    Note,
}

/// A part of an answer, in the order the model gave it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Block {
    /// Words for the user.
    Text {
        text: String,
        /// What its maker wants back beside it. Gemini: the part's `thoughtSignature`;
        /// OpenAI Responses: the message's `phase`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        signature: Option<String>,
    },
    /// What the model thought before it answered.
    Thinking {
        /// May be empty: some providers give only the sealed form.
        text: String,
        /// The provider's own form, sent back as it came: a signature, redacted data, an
        /// encrypted reasoning item. Its shape is known to the protocol that made it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        sealed: Option<Value>,
    },
    /// A call of a tool.
    Call {
        /// As the model wrote it: there may be no such tool.
        name: String,
        /// As the model wrote it: may not be JSON.
        arguments: String,
        /// The provider's id: may be missing or repeated, so it is never a key.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        provider_id: Option<String>,
        /// Gemini: the part's `thoughtSignature`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        signature: Option<String>,
    },
}

impl Block {
    /// Words without a signature.
    pub fn text(text: impl Into<String>) -> Block {
        Block::Text {
            text: text.into(),
            signature: None,
        }
    }

    /// A call without a provider's id and signature. `arguments` are JSON as text.
    pub fn call(name: impl Into<String>, arguments: impl Into<String>) -> Block {
        Block::Call {
            name: name.into(),
            arguments: arguments.into(),
            provider_id: None,
            signature: None,
        }
    }
}

/// Tokens of one answer. `input` counts what was neither read from nor written to a cache;
/// the whole prompt is `input + cached + cache_written`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Usage {
    /// Tokens of the prompt that no cache had a part in.
    #[serde(default, deserialize_with = "tokens")]
    pub input: u64,
    /// Tokens of the prompt that were read from the provider's cache.
    #[serde(default, deserialize_with = "tokens")]
    pub cached: u64,
    /// Tokens of the prompt that were written to the provider's cache.
    #[serde(default, deserialize_with = "tokens")]
    pub cache_written: u64,
    /// Tokens of the answer, thinking included.
    #[serde(default, deserialize_with = "tokens")]
    pub output: u64,
    /// What the provider itself says that it took for it, in 10⁻⁹ US dollars. `None`: it does
    /// not say, and the tokens have to be priced.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub billed_nanos: Option<u64>,
}

/// No answer has more tokens than this, and no prompt: windows end far below.
pub const MAX_TOKENS: u64 = 1_000_000_000;

/// A count of tokens as a server gives it. One that cannot be true (negative, no number, over
/// [`MAX_TOKENS`]) is no count: it is 0, and nothing is learnt from it.
pub fn token_count(given: &Value) -> u64 {
    let Value::Number(number) = given else {
        return 0;
    };
    let whole = number.as_u64().or_else(|| {
        let fraction = number.as_f64().filter(|n| *n >= 0.0)?;
        Some(fraction as u64)
    });
    whole.filter(|n| *n <= MAX_TOKENS).unwrap_or(0)
}

/// Logs of version 0.1 may have any count that a server gave.
fn tokens<'de, D: Deserializer<'de>>(from: D) -> Result<u64, D::Error> {
    Value::deserialize(from).map(|given| token_count(&given))
}

impl Usage {
    /// Tokens of the whole prompt.
    pub fn prompt(&self) -> u64 {
        self.input
            .saturating_add(self.cached)
            .saturating_add(self.cache_written)
    }

    /// Of prompt and answer.
    pub fn all(&self) -> u64 {
        self.prompt().saturating_add(self.output)
    }

    /// Adds another answer's tokens to these. What was taken for both is known if it is of each.
    pub fn add(&mut self, other: &Usage) {
        self.billed_nanos = match (*self == Usage::default(), *other == Usage::default()) {
            (true, _) => other.billed_nanos,
            (_, true) => self.billed_nanos,
            _ => {
                let both = self.billed_nanos.zip(other.billed_nanos);
                both.map(|(one, more)| one.saturating_add(more))
            }
        };
        for (sum, more) in [
            (&mut self.input, other.input),
            (&mut self.cached, other.cached),
            (&mut self.cache_written, other.cache_written),
            (&mut self.output, other.output),
        ] {
            *sum = sum.saturating_add(more);
        }
    }
}

/// Tokens that a model was asked besides its answers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Spent {
    /// `provider/model`.
    pub model: String,
    pub usage: Usage,
}

/// Why an answer ended, as the provider says it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StopReason {
    /// The model ended its turn.
    EndTurn,
    /// The model waits for the results of its calls.
    ToolUse,
    /// The answer was cut by the output limit.
    MaxTokens,
    /// The provider or the model refused.
    Refusal,
    /// Anything else the protocol names.
    Other,
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
    /// Nothing can be known of it after a crash.
    Opaque,
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

/// What the model means to do. Each plan replaces the one before as a whole.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Plan {
    pub steps: Vec<PlanStep>,
    /// What is to be true in the end.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub goals: Vec<String>,
}

impl Plan {
    /// The step that is being worked on.
    pub fn current(&self) -> Option<&PlanStep> {
        self.steps.iter().find(|s| s.state == StepState::Current)
    }

    /// A line for each step, then one for each goal. `None` for an empty plan.
    pub fn to_text(&self) -> Option<String> {
        const STEPS: usize = 30;
        const CHARS: usize = 100;
        if self.steps.is_empty() && self.goals.is_empty() {
            return None;
        }
        let mut text = String::new();
        for step in self.steps.iter().take(STEPS) {
            let state = format!("{:?}", step.state).to_lowercase();
            text.push_str(&format!("- [{state}] {}\n", one_line(&step.text, CHARS)));
        }
        for goal in self.goals.iter().take(STEPS) {
            text.push_str(&format!("- goal: {}\n", one_line(goal, CHARS)));
        }
        Some(text)
    }
}

/// One step of a plan.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlanStep {
    /// What is to be done, in the model's words.
    pub text: String,
    pub state: StepState,
}

/// How far a step of a plan is. The other names are those that models write of their own accord.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StepState {
    /// It is done.
    #[serde(alias = "completed")]
    Done,
    /// It is being worked on.
    #[serde(alias = "in_progress")]
    Current,
    /// It is still to do.
    #[serde(alias = "pending", alias = "todo")]
    Left,
}

/// Why a model call failed for good.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    pub class: FailureClass,
    /// What was tried and on what.
    pub message: String,
    /// What the user can do about it. `None`: nothing is known that helps.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
}

/// What sort of failure it was: whether it is tried again depends on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FailureClass {
    /// The request is longer than the model's context window.
    TooLong,
    /// The provider takes no more requests or tokens for a time.
    RateLimit,
    /// The provider has no room at the moment, or a fault of its own.
    Overloaded,
    /// The key is missing, wrong, or not allowed to use the model.
    Auth,
    /// The provider says the request is invalid.
    BadRequest,
    /// No connection, a cut stream, a timeout.
    Network,
    /// The answer makes no sense in its protocol.
    Protocol,
    /// The model answered, but with nothing that can be used, too many times.
    Nonsense,
}

/// What a note is about.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "about", rename_all = "snake_case")]
pub enum About {
    /// The background command with this id ended.
    BackgroundEnded {
        /// The id that the model was given: as in `Fact::Background`.
        id: String,
        /// `None` when it did not exit by itself.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        exit_code: Option<i32>,
    },
    /// A shell command of the user is over.
    UserCommandEnded {
        /// The place of its `UserCommand`.
        entry: Seq,
        /// `None` when it did not exit by itself, or that is not known.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        exit_code: Option<i32>,
    },
    /// AGENTS.md or another instruction file changed.
    Instructions,
    /// What had left the context and is of use now.
    Recalled,
    /// The mode, or whether a person answers questions, is another than the model knew.
    Mode { mode: Mode, is_attended: bool },
}

/// Who wrote what stands for the context.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SummaryBy {
    /// The summary model.
    Model,
    /// Made from the log, since the model could not be asked.
    #[default]
    Digest,
    /// Nobody: one line says which entries were left out.
    Placeholder,
}

/// What a checkpoint without a call was made for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SaveReason {
    /// The time between two checkpoints was over.
    Timer,
    /// The end of a turn. Not written by this version.
    Turn,
    /// A signal or the end of the terminal made the program leave.
    Signal,
    /// The program left as it was asked to, or because it was done.
    Exit,
    /// The context was nearly full. Not written by this version.
    ContextLimit,
    /// A person asked for it. Not written by this version.
    Manual,
    /// The workspace's files changed outside of a call, or could not be kept. It belongs to the
    /// checkpoint before it.
    Files,
}

/// The session and the entry a fork goes on from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ForkPoint {
    /// The id of the session that it was forked from.
    pub session: String,
    /// The last entry that both have.
    pub seq: Seq,
}

/// What may be done without asking.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum Mode {
    /// Reading inside the workspace runs without a question, and commands that only look.
    #[default]
    #[serde(rename = "default")]
    Default,
    /// That, and changing files inside the workspace.
    #[serde(rename = "acceptEdits")]
    AcceptEdits,
    /// As `Default`, but what changes anything is denied, not asked about.
    #[serde(rename = "plan")]
    Plan,
    /// Everything runs that no rule denies.
    #[serde(rename = "bypassPermissions")]
    BypassPermissions,
}

impl Mode {
    /// All modes, in the order in which lists show them.
    pub const ALL: [Mode; 4] = [
        Mode::Default,
        Mode::AcceptEdits,
        Mode::Plan,
        Mode::BypassPermissions,
    ];

    /// The mode's name in the config, in the log and on the screen.
    pub fn name(self) -> &'static str {
        match self {
            Mode::Default => "default",
            Mode::AcceptEdits => "acceptEdits",
            Mode::Plan => "plan",
            Mode::BypassPermissions => "bypassPermissions",
        }
    }
}

impl Entry {
    /// What the user typed: the words, or the command that stands for them.
    pub fn typed(&self) -> Option<Cow<'_, str>> {
        match self {
            Entry::Said {
                command: Some(command),
                ..
            } => Some(command.line().into()),
            Entry::Said { text, .. } => Some(text.into()),
            _ => None,
        }
    }

    /// The name of the kind as it is stored.
    pub fn kind(&self) -> &'static str {
        match self {
            Entry::Opened { .. } => "opened",
            Entry::Rendered { .. } => "rendered",
            Entry::Said { .. } => "said",
            Entry::Replied { .. } => "replied",
            Entry::Decided { .. } => "decided",
            Entry::Started { .. } => "started",
            Entry::Finished { .. } => "finished",
            Entry::Stopped { .. } => "stopped",
            Entry::Failed { .. } => "failed",
            Entry::Noted { .. } => "noted",
            Entry::Compacted { .. } => "closed",
            Entry::Continued { .. } => "continued",
            Entry::Freed { .. } => "freed",
            Entry::Saved { .. } => "saved",
            Entry::Forked { .. } => "forked",
            Entry::Checked { .. } => "checked",
            Entry::Chose(_) => "chose",
            Entry::UserCommand { .. } => "user_command",
            Entry::Named { .. } => "named",
            Entry::Titled { .. } => "titled",
            Entry::Dismissed => "dismissed",
            Entry::Learned { .. } => "learned",
            Entry::Resumed { .. } => "woke",
        }
    }

    /// What models were asked for this entry, each with its tokens.
    pub fn spent(&self) -> impl Iterator<Item = (&str, &Usage)> {
        let (answer, besides) = match self {
            Entry::Replied { model, usage, .. } => (Some((model.as_str(), usage)), &[][..]),
            Entry::Compacted { spent, .. }
            | Entry::Continued { spent, .. }
            | Entry::Titled { spent, .. } => (None, &spent[..]),
            _ => (None, &[][..]),
        };
        answer
            .into_iter()
            .chain(besides.iter().map(|s| (s.model.as_str(), &s.usage)))
    }

    /// What it refers to of the blobs.
    pub fn blobs(&self) -> impl Iterator<Item = &BlobRef> {
        let (images, output) = match self {
            Entry::Said { images, .. } => (images.as_slice(), None),
            Entry::Finished { outcome, .. } => match outcome {
                Outcome::Done { output }
                | Outcome::Error { output }
                | Outcome::Interrupted { output, .. } => {
                    (output.images.as_slice(), output.blob.as_ref())
                }
                Outcome::Denied { .. } => (&[][..], None),
            },
            _ => (&[][..], None),
        };
        images.iter().map(|image| &image.blob).chain(output)
    }

    /// A session can be resumed from behind this entry.
    pub fn is_checkpoint(&self) -> bool {
        if let Entry::Saved { reason, .. } = self {
            return *reason != SaveReason::Files;
        }
        matches!(
            self,
            Entry::Replied { .. }
                | Entry::Finished { .. }
                | Entry::Compacted { .. }
                | Entry::Continued { .. }
        )
    }
}
