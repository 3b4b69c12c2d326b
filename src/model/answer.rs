//! An answer while it streams: blocks in the order of the model, within bounds. The decoders know
//! the shapes of their protocols; this file stores the content.
//!
//! Invariant: memory is bounded whatever a server sends, and nothing is ever allocated by a number
//! that a server names.

use serde_json::Value;

use super::{Delta, Reply, errors};
use crate::core::entry::{Block, Failure, StopReason, Usage, token_count};

/// Maximum number of calls in one answer: more than any real answer has, and far more than are
/// run.
pub(super) const MAX_CALLS: usize = 512;
const MAX_BLOCKS: usize = 4096;
const MAX_BYTES: usize = 32 << 20;

#[derive(Debug, Default)]
pub(super) struct Answer {
    blocks: Vec<Block>,
    calls: usize,
    bytes: usize,
}

impl Answer {
    /// Appends `piece` to the last text block. If that block is signed or of another kind, opens a
    /// new one.
    pub(super) fn text(&mut self, piece: &str) -> Result<Option<Delta>, Failure> {
        if piece.is_empty() {
            return Ok(None);
        }
        if !matches!(
            self.blocks.last(),
            Some(Block::Text {
                signature: None,
                ..
            })
        ) {
            self.open(Block::text(""))?;
        }
        self.append(self.blocks.len() - 1, piece)?;
        Ok(Some(Delta::Text(piece.to_string())))
    }

    /// Appends `piece` to the last thinking block. If that block is sealed or of another kind,
    /// opens a new one.
    pub(super) fn thinking(&mut self, piece: &str) -> Result<Option<Delta>, Failure> {
        if piece.is_empty() {
            return Ok(None);
        }
        if !matches!(
            self.blocks.last(),
            Some(Block::Thinking { sealed: None, .. })
        ) {
            self.open(Block::Thinking {
                text: String::new(),
                sealed: None,
            })?;
        }
        self.append(self.blocks.len() - 1, piece)?;
        Ok(Some(Delta::Thinking(piece.to_string())))
    }

    /// Adds a separate block and returns its index.
    pub(super) fn open(&mut self, block: Block) -> Result<usize, Failure> {
        if matches!(block, Block::Call { .. }) {
            self.calls += 1;
            if self.calls > MAX_CALLS {
                return Err(errors::nonsense(format!(
                    "the answer has more than {MAX_CALLS} calls"
                )));
            }
        }
        if self.blocks.len() == MAX_BLOCKS {
            return Err(errors::nonsense(format!(
                "the answer has more than {MAX_BLOCKS} parts"
            )));
        }
        self.charge(size(&block))?;
        self.blocks.push(block);
        Ok(self.blocks.len() - 1)
    }

    /// Appends to the text, thinking or arguments of a block.
    pub(super) fn append(&mut self, at: usize, piece: &str) -> Result<(), Failure> {
        self.charge(piece.len())?;
        match self.blocks.get_mut(at) {
            Some(
                Block::Text { text, .. }
                | Block::Thinking { text, .. }
                | Block::Call {
                    arguments: text, ..
                },
            ) => text.push_str(piece),
            None => {}
        }
        Ok(())
    }

    /// Counts bytes that a decoder stores beside the blocks.
    pub(super) fn keep(&mut self, bytes: usize) -> Result<(), Failure> {
        self.charge(bytes)
    }

    /// Seals the first thinking block. If there is none, adds an empty one before everything else.
    pub(super) fn seal_first(&mut self, with: Value) {
        let thinking = self.blocks.iter_mut().find_map(|block| match block {
            Block::Thinking { sealed, .. } => Some(sealed),
            Block::Text { .. } | Block::Call { .. } => None,
        });
        match thinking {
            Some(sealed) => *sealed = Some(with),
            None => self.blocks.insert(
                0,
                Block::Thinking {
                    text: String::new(),
                    sealed: Some(with),
                },
            ),
        }
    }

    /// Replaces the pieces of a block by the complete block.
    pub(super) fn replace(&mut self, at: usize, block: Block) -> Result<(), Failure> {
        self.charge(size(&block))?;
        if let Some(old) = self.blocks.get_mut(at) {
            self.bytes = self.bytes.saturating_sub(size(old));
            *old = block;
        }
        Ok(())
    }

    pub(super) fn blocks(&self) -> &[Block] {
        &self.blocks
    }

    pub(super) fn blocks_mut(&mut self) -> &mut [Block] {
        &mut self.blocks
    }

    /// Returns the number of bytes of all pieces so far. It grows with every piece of the answer.
    pub(super) fn kept(&self) -> usize {
        self.bytes
    }

    pub(super) fn has_calls(&self) -> bool {
        self.calls > 0
    }

    /// Returns the complete answer. Corrects its stop reason, because servers say "stop" although
    /// calls wait, and the other way round.
    pub(super) fn finish(mut self, usage: Usage, named: StopReason) -> Reply {
        self.blocks.retain(|block| match block {
            Block::Text { text, .. } => !text.trim().is_empty(),
            Block::Thinking { text, sealed } => !text.trim().is_empty() || sealed.is_some(),
            Block::Call { .. } => true,
        });
        let stop = match named {
            StopReason::MaxTokens => StopReason::MaxTokens,
            _ if self.has_calls() => StopReason::ToolUse,
            StopReason::ToolUse => StopReason::Other,
            StopReason::EndTurn | StopReason::Refusal | StopReason::Other => named,
        };
        Reply {
            blocks: self.blocks,
            usage,
            stop,
            has_text_calls: false,
        }
    }

    fn charge(&mut self, bytes: usize) -> Result<(), Failure> {
        self.bytes = self.bytes.saturating_add(bytes);
        if self.bytes > MAX_BYTES {
            return Err(errors::nonsense(format!(
                "the answer is larger than {MAX_BYTES} bytes"
            )));
        }
        Ok(())
    }
}

/// The data of the event that ends a stream of Chat Completions. Gateways send it at the end of
/// every protocol.
pub(super) const DONE: &str = "[DONE]";

/// Parses the data of an event as JSON. Other data counts as a cut stream: a gateway broke off.
pub(super) fn json(data: &str) -> Result<Value, Failure> {
    serde_json::from_str(data)
        .map_err(|e| errors::network(&format!("the provider sent an event that is not JSON: {e}")))
}

/// Returns a count of tokens that may be missing, null or invalid.
pub(super) fn count(usage: &Value, pointer: &str) -> u64 {
    usage.pointer(pointer).map_or(0, token_count)
}

/// Maximum plausible cost of an answer, US dollars.
const MAX_COST: f64 = 10_000.0;

/// Returns the cost that the provider reports, in 10⁻⁹ US dollars. OpenRouter, Vercel and others
/// report dollars, some of them in an object. xAI reports ticks of 10⁻¹⁰ dollars. An implausible
/// figure gives `None`.
pub(super) fn billed(usage: &Value) -> Option<u64> {
    let number = |at: &str| usage.pointer(at).and_then(Value::as_f64);
    let dollars = number("/cost")
        .or_else(|| number("/cost/total_cost"))
        .or_else(|| number("/cost/usd"))
        .or_else(|| Some(number("/cost_in_usd_ticks")? / 1e10))?;
    // If the user brings a key for the upstream provider, that provider bills its part separately.
    let is_byok = usage.get("is_byok").and_then(Value::as_bool) == Some(true);
    let upstream = number("/cost_details/upstream_inference_cost").filter(|_| is_byok);
    let dollars = dollars + upstream.unwrap_or(0.0);
    (0.0..=MAX_COST)
        .contains(&dollars)
        .then(|| (dollars * 1e9).round() as u64)
}

fn size(block: &Block) -> usize {
    match block {
        Block::Text { text, signature } => text.len() + signature.as_ref().map_or(0, String::len),
        Block::Thinking { text, sealed } => {
            text.len() + sealed.as_ref().map_or(0, |v| v.to_string().len())
        }
        Block::Call {
            name,
            arguments,
            provider_id,
            signature,
        } => {
            let optional = [provider_id, signature].into_iter().flatten();
            name.len() + arguments.len() + optional.map(String::len).sum::<usize>()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::entry::FailureClass;

    #[test]
    fn an_answer_without_end_is_refused() {
        let piece = "x".repeat(1 << 20);
        let mut answer = Answer::default();
        let refused = (0..40).find_map(|_| answer.text(&piece).err());
        assert_eq!(refused.map(|f| f.class), Some(FailureClass::Protocol));

        let mut answer = Answer::default();
        let opened = (0..9999).take_while(|_| answer.open(Block::call("a", "")).is_ok());
        assert_eq!(opened.count(), MAX_CALLS);

        let mut answer = Answer::default();
        let alternating = |_: &i32| answer.text("a").is_ok() && answer.thinking("b").is_ok();
        assert_eq!((0..9999).take_while(alternating).count(), MAX_BLOCKS / 2);
    }

    #[test]
    fn the_stop_follows_the_calls() {
        let stop = |calls: bool, named| {
            let mut answer = Answer::default();
            if calls {
                answer.open(Block::call("a", "{}")).unwrap();
            }
            answer.finish(Usage::default(), named).stop
        };
        assert_eq!(stop(true, StopReason::EndTurn), StopReason::ToolUse);
        assert_eq!(stop(true, StopReason::MaxTokens), StopReason::MaxTokens);
        assert_eq!(stop(false, StopReason::ToolUse), StopReason::Other);
        assert_eq!(stop(false, StopReason::EndTurn), StopReason::EndTurn);
    }
}
