//! The scripted model: it plays a file of answers. The demo and the tests of the whole
//! program use it; it needs no network.
//!
//! A script is TOML, one `[[step]]` for each answer:
//!
//! ```toml
//! [[step]]
//! when = "fix the .* test"      # regular expression that must be found in the last message
//! thinking = "Where is it?"
//! text = "I will look."
//! calls = [
//!     { name = "bash", arguments = { command = "sh test.sh" } },
//!     { name = "read", arguments = '{"path": ' },   # text: sent as it is, sense or not
//! ]
//! stop = "tool_use"             # default: tool_use with calls, else end_turn
//! chunk_chars = 4               # streamed in pieces of this many characters (default: whole)
//! chunk_ms = 20                 # pause before each piece (default: none)
//! usage = { input = 100, cached = 900, output = 20 }   # default: a quarter of the bytes
//! fail = { class = "overloaded", tries = 2 }           # the first tries of each call fail
//! ```
//!
//! Every field of a step is optional. After the last step the model answers that the script has
//! ended.
//!
//! Invariant: a script remembers nothing. The number of answers in the log selects the step. So a
//! killed process continues at the same step, and so does a session after a compaction.

use std::time::Duration;

use regex::Regex;
use serde::Deserialize;
use serde_json::Value;

use super::retry::{Refused, Retry, Tries};
use super::{Delta, Reply};
use crate::core::entry::{Block, Failure, FailureClass, PromptPrefix, StopReason, Usage};
use crate::core::request::{Message, MessagePart, Request};

const AT_ITS_END: &str = "The script is at its end.";

const MAX_CHUNK_MS: u64 = 10_000;

/// Retries happen at once, because waiting does not change a script.
const RETRY: Retry = Retry {
    tries: 6,
    base_ms: 20,
    cap_ms: 100,
    max_wait_ms: 600_000,
    waits_for_server: false,
};

#[derive(Debug, Clone)]
pub struct Script {
    steps: Vec<ScriptStep>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    step: Vec<Written>,
}

/// A step as written in the file.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    when: Option<String>,
    #[serde(default)]
    thinking: String,
    #[serde(default)]
    text: String,
    #[serde(default)]
    calls: Vec<Call>,
    stop: Option<StopReason>,
    chunk_chars: Option<usize>,
    #[serde(default)]
    chunk_ms: u64,
    usage: Option<Usage>,
    fail: Option<Fail>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct Call {
    name: String,
    arguments: Option<Value>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct Fail {
    class: FailureClass,
    #[serde(default = "once")]
    tries: u32,
}

fn once() -> u32 {
    1
}

#[derive(Debug, Clone)]
struct ScriptStep {
    when: Option<Regex>,
    blocks: Vec<Block>,
    stop: StopReason,
    chunk_chars: usize,
    chunk: Duration,
    usage: Option<Usage>,
    fail: Option<Fail>,
}

impl Script {
    /// Parses a script. Errors name the place in the file, or the step.
    pub fn parse(text: &str) -> Result<Script, String> {
        let file: File = toml::from_str(text).map_err(|e| format!("reading the script: {e}"))?;
        let steps = file.step.into_iter().enumerate().map(|(index, written)| {
            ScriptStep::new(written)
                .map_err(|e| format!("reading step {} of the script: {e}", index + 1))
        });
        Ok(Script {
            steps: steps.collect::<Result<_, _>>()?,
        })
    }

    pub async fn call(
        &self,
        request: &Request,
        on: &mut (dyn FnMut(Delta) + Send),
    ) -> Result<Reply, Failure> {
        let index = usize::try_from(request.answers).unwrap_or(usize::MAX);
        let Some(step) = self.steps.get(index) else {
            on(Delta::Text(AT_ITS_END.to_string()));
            return Ok(Reply {
                blocks: vec![Block::text(AT_ITS_END)],
                usage: Usage::default(),
                stop: StopReason::EndTurn,
                has_text_calls: false,
            });
        };
        step.expect(index, request.messages.last())?;
        let mut tries = Tries::new(RETRY);
        while let Some(failure) = step.failure(index, tries.failed()) {
            tries.pause(Refused::from(failure), on).await?;
        }
        step.play(on).await;
        Ok(Reply {
            blocks: step.blocks.clone(),
            usage: step.usage.unwrap_or_else(|| step.estimate(request)),
            stop: step.stop,
            has_text_calls: false,
        })
    }
}

impl ScriptStep {
    fn new(written: Written) -> Result<ScriptStep, String> {
        let when = written.when.map(|when| Regex::new(&when)).transpose();
        let mut blocks = Vec::new();
        if !written.thinking.is_empty() {
            blocks.push(Block::Thinking {
                text: written.thinking,
                sealed: None,
            });
        }
        if !written.text.is_empty() {
            blocks.push(Block::text(written.text));
        }
        let default = if written.calls.is_empty() {
            StopReason::EndTurn
        } else {
            StopReason::ToolUse
        };
        blocks.extend(written.calls.into_iter().map(|call| {
            let arguments = match call.arguments {
                None => "{}".to_string(),
                Some(Value::String(text)) => text,
                Some(value) => value.to_string(),
            };
            Block::call(call.name, arguments)
        }));
        Ok(ScriptStep {
            when: when.map_err(|e| format!("`when` is not a regular expression: {e}"))?,
            blocks,
            stop: written.stop.unwrap_or(default),
            chunk_chars: written.chunk_chars.unwrap_or(usize::MAX).max(1),
            chunk: Duration::from_millis(written.chunk_ms.min(MAX_CHUNK_MS)),
            usage: written.usage,
            fail: written.fail,
        })
    }

    fn expect(&self, index: usize, last: Option<&Message>) -> Result<(), Failure> {
        let said = last.map(words).unwrap_or_default();
        match &self.when {
            Some(when) if !when.is_match(&said) => Err(Failure::new(
                FailureClass::BadRequest,
                format!(
                    "step {} of the script expects {:?}, but the last message is {:?}",
                    index + 1,
                    when.as_str(),
                    said.chars().take(200).collect::<String>()
                ),
            )),
            _ => Ok(()),
        }
    }

    fn failure(&self, index: usize, failed: u32) -> Option<Failure> {
        let fail = self.fail.as_ref().filter(|fail| failed < fail.tries)?;
        Some(Failure::new(
            fail.class,
            format!("step {} of the script fails", index + 1),
        ))
    }

    async fn play(&self, on: &mut (dyn FnMut(Delta) + Send)) {
        for block in &self.blocks {
            let (text, delta): (&str, fn(String) -> Delta) = match block {
                Block::Text { text, .. } => (text, Delta::Text),
                Block::Thinking { text, .. } => (text, Delta::Thinking),
                Block::Call { name, .. } => {
                    self.wait().await;
                    on(Delta::Call { name: name.clone() });
                    continue;
                }
            };
            let mut rest = text;
            while !rest.is_empty() {
                let end = rest.char_indices().nth(self.chunk_chars);
                let (piece, tail) = rest.split_at(end.map_or(rest.len(), |(at, _)| at));
                self.wait().await;
                on(delta(piece.to_string()));
                rest = tail;
            }
        }
    }

    async fn wait(&self) {
        if !self.chunk.is_zero() {
            tokio::time::sleep(self.chunk).await;
        }
    }

    fn estimate(&self, request: &Request) -> Usage {
        let said: usize = request.messages.iter().map(|m| words(m).len()).sum();
        let answered: usize = self
            .blocks
            .iter()
            .map(|b| match b {
                Block::Text { text, .. } | Block::Thinking { text, .. } => text.len(),
                Block::Call { arguments, .. } => arguments.len(),
            })
            .sum();
        let prompt = request.system.len() + request.instructions.len() + said;
        Usage {
            input: (prompt / 4) as u64,
            output: (answered / 4) as u64,
            ..Usage::default()
        }
    }
}

/// Returns the text of a message, without what the request says of the start of the session.
fn words(message: &Message) -> String {
    let texts = message.parts.iter().filter_map(|part| match part {
        MessagePart::Text { text, .. } if PromptPrefix::is_start(text) => None,
        MessagePart::Text { text, .. }
        | MessagePart::Thinking { text, .. }
        | MessagePart::Result { text, .. } => Some(text.clone()),
        MessagePart::Call { arguments, .. } => Some(arguments.to_string()),
        MessagePart::Image { .. } => None,
    });
    texts.collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::choice::Effort;
    use crate::core::request::Role;

    fn request(said: &[(Role, &str)]) -> Request {
        let messages = said.iter().map(|(role, text)| Message {
            role: *role,
            parts: vec![MessagePart::Text {
                text: text.to_string(),
                signature: None,
            }]
            .into(),
            cache: false,
        });
        Request {
            model: "script/demo".into(),
            system: "You are an agent.".into(),
            tools: vec![],
            instructions: String::new(),
            messages: messages.collect(),
            max_tokens: 1000,
            effort: Effort::Default,
            temperature: None,
            answers: said
                .iter()
                .filter(|(role, _)| *role == Role::Assistant)
                .count() as u64,
            has_answered: false,
            schema: None,
        }
    }

    async fn play(script: &str, said: &[(Role, &str)]) -> (Vec<Delta>, Result<Reply, Failure>) {
        let mut deltas = Vec::new();
        let script = Script::parse(script).unwrap();
        let reply = script
            .call(&request(said), &mut |delta| deltas.push(delta))
            .await;
        (deltas, reply)
    }

    const SCRIPT: &str = r#"
        [[step]]
        when = "fix"
        thinking = "hm"
        text = "I will löök."
        chunk_chars = 5
        calls = [
            { name = "bash", arguments = { command = "ls" } },
            { name = "read", arguments = '{"path": ' },
            { name = "plan" },
        ]

        [[step]]
        text = "Done."
        usage = { input = 7, output = 3 }
    "#;

    #[tokio::test]
    async fn a_step_is_streamed_and_answered_whole() {
        let (deltas, reply) = play(SCRIPT, &[(Role::User, "fix it")]).await;
        let reply = reply.unwrap();
        assert_eq!(
            reply.blocks[1..],
            [
                Block::text("I will löök."),
                Block::call("bash", r#"{"command":"ls"}"#),
                Block::call("read", r#"{"path": "#),
                Block::call("plan", "{}"),
            ]
        );
        assert_eq!(reply.stop, StopReason::ToolUse);
        assert!(reply.usage.input > 0);
        let text: Vec<&Delta> = deltas
            .iter()
            .filter(|d| matches!(d, Delta::Text(_)))
            .collect();
        assert_eq!(
            text,
            [
                &Delta::Text("I wil".into()),
                &Delta::Text("l löö".into()),
                &Delta::Text("k.".into()),
            ]
        );
        assert_eq!(
            deltas.last(),
            Some(&Delta::Call {
                name: "plan".into()
            })
        );
    }

    #[tokio::test]
    async fn the_step_follows_from_the_request_alone() {
        let said = [
            (Role::User, "fix it"),
            (Role::Assistant, "…"),
            (Role::User, "ok"),
        ];
        for _ in 0..2 {
            let (_, reply) = play(SCRIPT, &said).await;
            let reply = reply.unwrap();
            assert_eq!(reply.blocks, [Block::text("Done.")]);
            assert_eq!((reply.usage.input, reply.usage.output), (7, 3));
            assert_eq!(reply.stop, StopReason::EndTurn);
        }
        let (_, reply) = play(SCRIPT, &[said, said].concat()).await;
        assert_eq!(reply.unwrap().blocks, [Block::text(AT_ITS_END)]);
    }

    #[tokio::test]
    async fn an_unexpected_message_is_reported_with_the_script_step() {
        let (_, reply) = play(SCRIPT, &[(Role::User, "sing")]).await;
        let failure = reply.unwrap_err();
        assert!(failure.message.contains("step 1"), "{}", failure.message);
        assert!(failure.message.contains("sing"), "{}", failure.message);
    }

    #[tokio::test]
    async fn a_step_fails_for_some_tries() {
        let script = "[[step]]\ntext = 'ok'\nfail = { class = 'overloaded', tries = 2 }";
        let (deltas, reply) = play(script, &[(Role::User, "x")]).await;
        assert_eq!(reply.unwrap().blocks, [Block::text("ok")]);
        let retries = deltas.iter().filter(|d| matches!(d, Delta::Retry { .. }));
        assert_eq!(retries.count(), 2);

        let script = "[[step]]\nfail = { class = 'auth' }";
        let (_, reply) = play(script, &[(Role::User, "x")]).await;
        assert_eq!(reply.unwrap_err().class, FailureClass::Auth);
    }

    #[test]
    fn a_wrong_script_is_refused_with_its_place() {
        let error = |text| Script::parse(text).unwrap_err();
        assert!(error("[[step]]\nwhen = '('").contains("step 1"));
        assert!(error("[[step]]\ntxet = 'a'").contains("txet"));
        assert!(error("[[step]").contains("line 1"));
    }
}
