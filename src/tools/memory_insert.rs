//! `memory_insert`: stores a memory for later sessions of the workspace.
//!
//! Invariant: the call only returns the memory as a fact. The row is written in the transaction of
//! the result, so a call that runs again after a crash has stored nothing before.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::ToolResult;
use super::schema::{object, one_of, string};
use super::shown::Verb;
use super::tool::{Group, Tool};
use super::work::Work;
use crate::core::entry::{Fact, Memory, MemoryKind};
use crate::core::permission::{LookBack, Permission, Reach};
use crate::core::text::one_line;

const MAX_BYTES: usize = 4_000;
const MAX_TOPIC_CHARS: usize = 100;

#[derive(Serialize, Deserialize)]
pub(super) struct Args {
    text: String,
    #[serde(default = "semantic")]
    kind: MemoryKind,
    topic: Option<String>,
}

fn semantic() -> MemoryKind {
    MemoryKind::Semantic
}

impl Tool for Args {
    const NAME: &'static str = "memory_insert";
    const TEXT: &'static str = include_str!("../../assets/tools/memory_insert.md");
    const VERB: Verb = Verb::Remember;
    const GROUP: Group = Group::Memory;
    const LEFT_OUT: &'static [&'static str] = &["topic"];

    fn schema() -> Value {
        let kind = one_of(&["semantic", "procedural", "episodic"]);
        let properties = json!({"text": string(), "kind": kind, "topic": string()});
        object(properties, &["text"])
    }

    fn subject(&self) -> String {
        self.topic.as_ref().unwrap_or(&self.text).clone()
    }

    fn permission(&self) -> Permission {
        Permission::LookBack {
            tool: LookBack::Memory,
            reach: Reach::Session,
        }
    }

    // Idempotent: its row is written in the transaction of its result, and not before.
    fn work(self) -> Work {
        Work::Look(Box::new(move |_, _| run(&self)))
    }
}

fn run(args: &Args) -> ToolResult {
    let text = args.text.trim();
    if text.is_empty() || text.len() > MAX_BYTES {
        return ToolResult::error(format!(
            "a memory has 1 to {MAX_BYTES} bytes of text: one fact each"
        ));
    }
    let topic = args.topic.as_deref().map(|t| one_line(t, MAX_TOPIC_CHARS));
    let memory = Memory {
        kind: args.kind,
        topic: topic.filter(|t| !t.is_empty()),
        text: text.to_string(),
    };
    let text = format!("kept as {} memory", args.kind.name());
    ToolResult::done(text).with(Some(Fact::Remembered { memory }))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::history_view::test_support::*;
    use crate::core::entry::{Fact, MemoryKind};

    #[test]
    fn a_memory_is_a_fact_and_nothing_is_kept_before_its_result() {
        let mut past = Sessions::new();
        let args = json!({"text": " ports start at 7000 ", "kind": "semantic", "topic": "dev\nx"});
        let ran = past.run("memory_insert", args);
        let Some(Fact::Remembered { memory }) = &ran.fact else {
            panic!("{ran:?}");
        };
        assert_eq!(memory.kind, MemoryKind::Semantic);
        assert_eq!(memory.topic.as_deref(), Some("dev"));
        let ask = json!({"query": "ports"});
        assert!(past.done("memory_search", ask.clone()).contains("nothing"));
        past.finishes(ran);
        assert_eq!(
            past.done("memory_search", ask),
            "entry 2 · semantic (dev) · 1970-01-01 00:00Z · ports start at 7000"
        );
        let page = past.done("memory_page", json!({"address": "entry 2"}));
        assert!(page.contains("ports start at 7000"), "{page}");
    }

    #[test]
    fn a_memory_has_bounds() {
        let mut past = Sessions::new();
        for text in [" ", &"x".repeat(4_001)] {
            let ran = past.run("memory_insert", json!({"text": text, "kind": "episodic"}));
            assert!(text_of_error(&ran).contains("4000 bytes"), "{ran:?}");
            assert_eq!(ran.fact, None);
        }
    }
}
