//! What a script answers, in no protocol's form.

use serde_json::Value;

use super::Seen;

/// A wire protocol, by the name it has in the configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Protocol {
    Anthropic,
    Chat,
    Responses,
    Gemini,
}

impl Protocol {
    pub const ALL: [Protocol; 4] = [
        Protocol::Anthropic,
        Protocol::Chat,
        Protocol::Responses,
        Protocol::Gemini,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Protocol::Anthropic => "anthropic",
            Protocol::Chat => "openai-chat",
            Protocol::Responses => "openai-responses",
            Protocol::Gemini => "gemini",
        }
    }
}

#[derive(Debug, Clone)]
pub enum Answer {
    /// The whole answer in one write.
    Says(Says),
    /// The answer in pieces, with a pause behind each.
    Slow {
        says: Says,
        chunk_bytes: usize,
        delay_ms: u64,
    },
    /// The whole answer, and these bytes of the same stream behind it.
    Tail { says: Says, tail: String },
    /// The connection is closed behind this many bytes of the stream.
    Cut { says: Says, after_bytes: usize },
    /// An error in the shape of the protocol.
    Error {
        status: u16,
        message: String,
        retry_after_secs: Option<u64>,
    },
    /// These very bytes, whatever the protocol: nonsense, a proxy's page, an odd stream.
    Raw {
        status: u16,
        content_type: &'static str,
        body: String,
    },
    /// Nothing at all, until the other side gives up.
    Hang,
}

/// One answer of the model. The order on the wire: thinking, text, calls.
#[derive(Debug, Clone, Default)]
pub struct Says {
    pub thinking: String,
    pub text: String,
    pub calls: Vec<Call>,
    /// Counted from the bytes when `None`.
    pub tokens: Option<Tokens>,
    /// `ToolUse` with calls, `EndTurn` without, when `None`.
    pub stop: Option<Stop>,
    /// Characters of text, thinking or arguments in one event; 0 means 40.
    pub piece_chars: usize,
}

#[derive(Debug, Clone)]
pub struct Call {
    pub name: String,
    /// Sent as they are, so they may be no JSON. Gemini cannot send such and says
    /// `MALFORMED_FUNCTION_CALL` in its place.
    pub arguments: String,
    /// The provider's id: made up when `None`; may be empty or repeated on purpose.
    pub id: Option<String>,
}

/// `input` counts what was neither read from nor written to a cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Tokens {
    pub input: u64,
    pub cached: u64,
    pub cache_written: u64,
    pub output: u64,
}

impl Tokens {
    pub fn prompt(&self) -> u64 {
        self.input + self.cached + self.cache_written
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stop {
    EndTurn,
    ToolUse,
    MaxTokens,
    Refusal,
}

impl Says {
    pub fn text(text: impl Into<String>) -> Says {
        Says {
            text: text.into(),
            ..Says::default()
        }
    }

    pub fn call(name: &str, arguments: Value) -> Says {
        Says::default().and_call(name, arguments)
    }

    pub fn and_call(self, name: &str, arguments: Value) -> Says {
        self.and_raw_call(name, &arguments.to_string(), None)
    }

    /// A call as a broken model or server makes it.
    pub fn and_raw_call(mut self, name: &str, arguments: &str, id: Option<&str>) -> Says {
        self.calls.push(Call {
            name: name.to_string(),
            arguments: arguments.to_string(),
            id: id.map(str::to_string),
        });
        self
    }

    pub fn thinking(mut self, text: impl Into<String>) -> Says {
        self.thinking = text.into();
        self
    }

    pub fn stop(&self) -> Stop {
        match self.stop {
            Some(stop) => stop,
            None if self.calls.is_empty() => Stop::EndTurn,
            None => Stop::ToolUse,
        }
    }

    /// Size of what is said, as the count of output tokens wants it.
    pub fn bytes(&self) -> usize {
        let calls = self.calls.iter().map(|c| c.name.len() + c.arguments.len());
        self.thinking.len() + self.text.len() + calls.sum::<usize>()
    }

    /// `text` in the pieces it is streamed in; none when it is empty.
    pub fn pieces<'a>(&self, text: &'a str) -> Pieces<'a> {
        Pieces {
            rest: text,
            chars: if self.piece_chars == 0 {
                40
            } else {
                self.piece_chars
            },
        }
    }
}

pub struct Pieces<'a> {
    rest: &'a str,
    chars: usize,
}

impl<'a> Iterator for Pieces<'a> {
    type Item = &'a str;

    fn next(&mut self) -> Option<&'a str> {
        if self.rest.is_empty() {
            return None;
        }
        let end = self.rest.char_indices().nth(self.chars);
        let (piece, rest) = self.rest.split_at(end.map_or(self.rest.len(), |(i, _)| i));
        self.rest = rest;
        Some(piece)
    }
}

impl From<Says> for Answer {
    fn from(says: Says) -> Answer {
        Answer::Says(says)
    }
}

impl Answer {
    pub fn text(text: impl Into<String>) -> Answer {
        Says::text(text).into()
    }

    pub fn call(name: &str, arguments: Value) -> Answer {
        Says::call(name, arguments).into()
    }

    pub fn error(status: u16, message: &str) -> Answer {
        Answer::Error {
            status,
            message: message.to_string(),
            retry_after_secs: None,
        }
    }
}

/// A script that answers the n-th turn with the n-th answer. A turn is counted in the
/// request itself, so a request that is sent again gets the same answer.
pub fn list(answers: Vec<Answer>) -> impl Fn(&Seen) -> Answer + Send + Sync + 'static {
    move |seen| {
        answers.get(seen.turn).cloned().unwrap_or_else(|| {
            Answer::error(
                400,
                &format!(
                    "the script has {} answers, turn {} has none",
                    answers.len(),
                    seen.turn
                ),
            )
        })
    }
}
