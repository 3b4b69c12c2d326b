//! What the cache of Anthropic's API gives back, as its documentation has it: what is written at
//! each mark is found again when a later mark is at the same block, or at most so many behind it
//! (<https://platform.claude.com/docs/en/build-with-claude/prompt-caching>).

use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash, Hasher};

use serde_json::Value;

/// From a mark, so many blocks are looked at, that of the mark among them.
const LOOKED_AT: usize = 20;

/// Of one request, in bytes of its blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hit {
    pub all: usize,
    /// Given back.
    pub read: usize,
    /// Up to the last message of the user, or the system prompt, that is as it was in the request
    /// before, with all that is before it: that was the end of a request.
    pub possible: usize,
    /// The request before was longer or is not the beginning of this one.
    pub is_changed: bool,
}

#[derive(Default)]
pub struct Cache {
    written: HashSet<u64>,
    before: Vec<u64>,
}

struct Block {
    bytes: usize,
    /// Of this block and all before it.
    prefix: u64,
    is_marked: bool,
    /// A request may have ended with it.
    is_end: bool,
}

impl Cache {
    pub fn see(&mut self, body: &Value) -> Hit {
        let blocks = blocks(body);
        let bytes = |count: usize| blocks[..count].iter().map(|b| b.bytes).sum::<usize>();
        let marks = (0..blocks.len()).filter(|at| blocks[*at].is_marked);
        let found = marks.flat_map(|mark| mark.saturating_sub(LOOKED_AT - 1)..=mark);
        let found = found.filter(|at| self.written.contains(&blocks[*at].prefix));
        let read = found.max().map_or(0, |at| at + 1);
        let pairs = blocks.iter().zip(&self.before);
        let same = pairs.take_while(|(b, before)| b.prefix == **before).count();
        let ends = (0..same).filter(|at| blocks[*at].is_end);
        let hit = Hit {
            all: bytes(blocks.len()),
            read: bytes(read),
            possible: bytes(ends.max().map_or(0, |at| at + 1)),
            is_changed: same < self.before.len(),
        };
        let marked = blocks.iter().filter(|b| b.is_marked);
        self.written.extend(marked.map(|b| b.prefix));
        self.before = blocks.iter().map(|b| b.prefix).collect();
        hit
    }
}

fn blocks(body: &Value) -> Vec<Block> {
    let mut hasher = DefaultHasher::new();
    let mut blocks = Vec::new();
    let mut push = |of: &str, block: &Value, is_end: bool| {
        let mut block = block.clone();
        let mark = block
            .as_object_mut()
            .and_then(|b| b.remove("cache_control"));
        let text = block.to_string();
        (of, &text).hash(&mut hasher);
        blocks.push(Block {
            bytes: text.len(),
            prefix: hasher.clone().finish(),
            is_marked: mark.is_some(),
            is_end,
        });
    };
    for part in ["tools", "system"] {
        let all: Vec<&Value> = body[part].as_array().into_iter().flatten().collect();
        for (at, block) in all.iter().enumerate() {
            push(part, block, part == "system" && at + 1 == all.len());
        }
    }
    for message in body["messages"].as_array().into_iter().flatten() {
        let role = message["role"].as_str().unwrap_or_default();
        let content: Vec<&Value> = message["content"]
            .as_array()
            .into_iter()
            .flatten()
            .collect();
        for (at, block) in content.iter().enumerate() {
            push(role, block, role == "user" && at + 1 == content.len());
        }
    }
    blocks
}
