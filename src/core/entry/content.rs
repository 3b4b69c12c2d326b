//! The content of entries: messages, images, the blocks of an answer, the layers of the system
//! prompt.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{CallId, Seq};

/// Layers 1 and 2 of every request, rendered once, so that the same bytes are sent again.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct PromptPrefix {
    /// Layer 1: the system prompt.
    pub system: String,
    /// Layer 1: the tools, in the order they are sent.
    pub tools: Vec<ToolSpec>,
    /// Layer 2: the AGENTS.md chain and the rest that comes with the folder, then the facts
    /// at the start of the session ([`PromptPrefix::with_start`]). May be empty.
    pub instructions: String,
}

/// Tags around the facts at the start of a session.
const START: &str = "<at_start>\n";
const START_END: &str = "\n</at_start>";

impl PromptPrefix {
    /// Adds facts at the start of a session, which differ between the sessions of a folder. They are in
    /// the field of the instructions, so that versions which do not know them send them too.
    pub fn with_start(mut self, text: &str) -> PromptPrefix {
        let (stable, start) = self.instructions_and_start();
        let start = start.strip_prefix(START).unwrap_or_default();
        let start = start.strip_suffix(START_END).unwrap_or_default();
        let parts = [start, text].into_iter().filter(|part| !part.is_empty());
        let start = parts.collect::<Vec<_>>().join("\n\n");
        let gap = if stable.is_empty() { "" } else { "\n\n" };
        self.instructions = format!("{stable}{gap}{START}{start}{START_END}");
        self
    }

    /// Returns whether a text of a message is the facts at the start of a session.
    pub fn is_start(text: &str) -> bool {
        text.starts_with(START) && text.ends_with(START_END)
    }

    /// Returns the instructions, which all sessions of a folder send alike, and the facts at the start
    /// of this one. These are sent last, so a provider's cache has the rest.
    pub fn instructions_and_start(&self) -> (&str, &str) {
        let all = self.instructions.as_str();
        let at = all.ends_with(START_END).then(|| all.rfind(START)).flatten();
        let (stable, start) = all.split_at(at.unwrap_or(all.len()));
        (stable.strip_suffix("\n\n").unwrap_or(stable), start)
    }
}

/// A tool as the model sees it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolSpec {
    /// The name in the model's calls.
    pub name: String,
    /// The description for the model.
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

/// The custom command whose text was sent. The entry's `text` is the result, with arguments and
/// files, so the log does not change with the command's file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UsedCommand {
    /// Name without the slash: `git:commit`.
    pub name: String,
    /// The text after the name.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub arguments: String,
    /// `provider/model` that answers it, until the next message. `None`: the session's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
}

impl UsedCommand {
    /// Returns the line as it was typed.
    pub fn line(&self) -> String {
        let line = format!("/{} {}", self.name, self.arguments);
        line.trim_end().to_string()
    }
}

/// The way in which a message arrived.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Via {
    /// Typed, or given with `-p`.
    Prompt,
    /// Typed while the agent worked.
    Queue,
    /// Sent by a signal from outside.
    Signal,
    /// A note, not a message: only in the inbox, from where it becomes `Noted`.
    Note,
}

/// A part of an answer, in the order the model gave it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Block {
    /// Words for the user.
    Text {
        text: String,
        /// A value that the provider wants back with the text. Gemini: the part's
        /// `thoughtSignature`; OpenAI Responses: the message's `phase`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        signature: Option<String>,
    },
    /// Reasoning of the model before its answer.
    Thinking {
        /// The readable text. It may be empty: some providers give only the sealed form.
        text: String,
        /// The provider's own form, sent back as it came: a signature, redacted data, an
        /// encrypted reasoning item. Its shape is known to the protocol that made it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        sealed: Option<Value>,
    },
    /// A call of a tool.
    Call {
        /// The name as the model wrote it. There may be no such tool.
        name: String,
        /// The arguments as the model wrote them. They may not be JSON.
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
    /// Returns the texts of an answer.
    pub fn texts(blocks: &[Block]) -> impl DoubleEndedIterator<Item = &str> {
        blocks.iter().filter_map(|block| match block {
            Block::Text { text, .. } => Some(text.as_str()),
            Block::Thinking { .. } | Block::Call { .. } => None,
        })
    }

    /// Returns the texts of an answer, each on a new line.
    pub fn joined_texts(blocks: &[Block]) -> String {
        Block::texts(blocks).collect::<Vec<_>>().join("\n")
    }

    /// Returns the calls of the answer in the entry `reply`: ID, name and arguments.
    pub fn calls(reply: Seq, blocks: &[Block]) -> impl Iterator<Item = (CallId, &str, &str)> {
        let calls = blocks.iter().filter_map(|block| match block {
            Block::Call {
                name, arguments, ..
            } => Some((name.as_str(), arguments.as_str())),
            Block::Text { .. } | Block::Thinking { .. } => None,
        });
        let id = move |index| CallId { reply, index };
        (0..)
            .zip(calls)
            .map(move |(index, (name, arguments))| (id(index), name, arguments))
    }

    /// Returns a text block without a signature.
    pub fn text(text: impl Into<String>) -> Block {
        Block::Text {
            text: text.into(),
            signature: None,
        }
    }

    /// Returns a call without a provider's id and signature. `arguments` are JSON as text.
    pub fn call(name: impl Into<String>, arguments: impl Into<String>) -> Block {
        Block::Call {
            name: name.into(),
            arguments: arguments.into(),
            provider_id: None,
            signature: None,
        }
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn facts_at_the_start_come_after_the_instructions() {
        let mut layers = PromptPrefix {
            instructions: "Use blanks.".into(),
            ..PromptPrefix::default()
        };
        // As an older version wrote it.
        assert_eq!(layers.instructions_and_start(), ("Use blanks.", ""));
        layers = layers.with_start("date: today").with_start("more");
        let start = "<at_start>\ndate: today\n\nmore\n</at_start>";
        assert_eq!(layers.instructions_and_start(), ("Use blanks.", start));
        assert!(PromptPrefix::is_start(start));
        let alone = PromptPrefix::default().with_start("x");
        assert_eq!(alone.instructions_and_start().0, "");
    }
}
