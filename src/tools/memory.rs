//! `memory`: the tools for memory, history and skills in one, for a small context window, in which
//! each tool costs a noticeable part.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::schema::{integer, object, one_of, string};
use super::shown::{Shown, Verb};
use super::tool::{Group, Tool};
use super::work::Work;
use super::{memory_insert, memory_page, memory_search, review_history, save_skill};
use crate::core::permission::{MEMORY, Permission};

/// The arguments of the tool that `action` names. Its own name is understood as well.
#[derive(Serialize, Deserialize)]
#[serde(tag = "action", rename_all = "snake_case")]
pub(super) enum Args {
    #[serde(alias = "memory_search")]
    Search(memory_search::Args),
    #[serde(alias = "memory_page")]
    Page(memory_page::Args),
    #[serde(alias = "memory_insert")]
    Insert(memory_insert::Args),
    #[serde(alias = "review_history")]
    History(review_history::Args),
    #[serde(alias = "save_skill")]
    Skill(save_skill::Args),
}

/// Evaluates an expression with the arguments of the tool that was chosen.
macro_rules! of_action {
    ($given:expr, $args:ident => $value:expr) => {
        match $given {
            Args::Search($args) => $value,
            Args::Page($args) => $value,
            Args::Insert($args) => $value,
            Args::History($args) => $value,
            Args::Skill($args) => $value,
        }
    };
}

impl Tool for Args {
    const NAME: &'static str = MEMORY;
    const TEXT: &'static str = include_str!("../../assets/tools/memory.md");
    const VERB: Verb = Verb::Look;
    const LEFT_OUT: &'static [&'static str] =
        &["offset", "name", "description", "body", "kind", "session"];
    const GROUP: Group = Group::MemoryShort;

    fn schema() -> Value {
        let properties = json!({
            "action": one_of(&["search", "page", "insert", "history", "skill"]),
            "query": string(), "address": string(), "offset": integer(), "text": string(),
            "kind": string(), "session": string(),
            "name": string(), "description": string(), "body": string(),
        });
        object(properties, &["action"])
    }

    fn schema_for(given: &Value) -> Value {
        let of_tool = match given["action"].as_str() {
            Some("search" | "memory_search") => memory_search::Args::schema,
            Some("page" | "memory_page") => memory_page::Args::schema,
            Some("insert" | "memory_insert") => memory_insert::Args::schema,
            Some("history" | "review_history") => review_history::Args::schema,
            Some("skill" | "save_skill") => save_skill::Args::schema,
            _ => return Args::schema(),
        };
        let mut schema = of_tool();
        schema["properties"]["action"] = string();
        schema
    }

    fn check(&self) -> Result<(), String> {
        of_action!(self, args => args.check())
    }

    fn subject(&self) -> String {
        of_action!(self, args => args.subject())
    }

    fn permission(&self) -> Permission {
        of_action!(self, args => args.permission())
    }

    fn verb(&self) -> Verb {
        of_action!(self, args => args.verb())
    }

    fn shown(self) -> Shown {
        of_action!(self, args => args.shown())
    }

    fn work(self) -> Work {
        of_action!(self, args => args.work())
    }
}
