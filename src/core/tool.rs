//! Tool calls as values: the arguments of each tool, and what a crash in the middle of a
//! call means for it (its effect class).
//!
//! What the tools do is in `crate::tools`; what the model reads of them is in
//! `assets/tools/NAME.md`.

use serde::de::{DeserializeOwned, Deserializer, Error as _};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::entry::{CallId, MemoryKind, Plan, PlanStep, StepState};
use super::{skill, text};

/// How a call that was begun and has no result is settled after a crash.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Class {
    /// Idempotent: no effect, or one that may be repeated. Run it again.
    Idempotent,
    /// A file replaced as a whole: its hash says whether it was done.
    Checked,
    /// A command under a keeper: ask the keeper.
    Supervised,
    /// Nobody can know: tell the model that it was interrupted.
    Opaque,
}

/// At most this many calls of one answer are run; the rest are closed with an error.
pub const MAX_CALLS: u32 = 64;

/// Names of foreign tools begin so. They are opaque.
pub const FOREIGN_PREFIX: &str = "mcp__";

/// One call of an answer.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolCall {
    pub id: CallId,
    /// As the model wrote it.
    pub name: String,
    /// As the model wrote them.
    pub arguments: String,
    /// The arguments understood, or what is wrong with them, told to the model.
    pub input: Result<Input, String>,
}

impl ToolCall {
    pub fn new(id: CallId, name: &str, arguments: &str) -> ToolCall {
        ToolCall {
            id,
            name: name.to_string(),
            arguments: arguments.to_string(),
            input: Input::parse(name, arguments),
        }
    }

    /// Its name and what it is about, for a person: every line of a command, as one line.
    pub fn in_one_line(&self, max_chars: usize) -> String {
        let subject = match &self.input {
            Ok(input) => input.subject(),
            Err(_) => self.arguments.clone(),
        };
        text::in_one_line(&format!("{} {subject}", self.name), max_chars)
    }

    /// `None` when the call cannot be understood: it is closed, never run.
    pub fn class(&self) -> Option<Class> {
        self.input.as_ref().ok().map(Input::class)
    }
}

/// The arguments of a call.
#[derive(Debug, Clone, PartialEq)]
pub enum Input {
    Read(ReadArgs),
    Write(WriteArgs),
    Edit(EditArgs),
    Bash(BashArgs),
    BashStop(BashStopArgs),
    Grep(GrepArgs),
    Glob(GlobArgs),
    Plan(PlanArgs),
    SaveSkill(SaveSkillArgs),
    MemorySearch(MemorySearchArgs),
    MemoryPage(MemoryPageArgs),
    MemoryInsert(MemoryInsertArgs),
    ReviewHistory(ReviewHistoryArgs),
    /// A tool of somebody else, called by its full name.
    Foreign {
        name: String,
        arguments: Value,
    },
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ReadArgs {
    pub path: String,
    /// First line, from 1.
    #[serde(
        default,
        deserialize_with = "lenient_u64",
        skip_serializing_if = "Option::is_none"
    )]
    pub offset: Option<u64>,
    /// How many lines.
    #[serde(
        default,
        deserialize_with = "lenient_u64",
        skip_serializing_if = "Option::is_none"
    )]
    pub limit: Option<u64>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct WriteArgs {
    pub path: String,
    pub content: String,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct EditArgs {
    pub path: String,
    /// Made one after the other, each on the result of the one before.
    pub edits: Vec<Replacement>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Replacement {
    pub old: String,
    pub new: String,
    /// Replace every occurrence; without it there must be exactly one.
    #[serde(default)]
    pub all: bool,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct BashArgs {
    pub command: String,
    #[serde(
        default,
        deserialize_with = "lenient_u64",
        skip_serializing_if = "Option::is_none"
    )]
    pub timeout_ms: Option<u64>,
    #[serde(default)]
    pub background: bool,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct BashStopArgs {
    pub id: String,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct GrepArgs {
    /// A regular expression of the Rust `regex` crate.
    pub pattern: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub glob: Option<String>,
    #[serde(default)]
    pub ignore_case: bool,
    /// Lines around a hit.
    #[serde(
        default,
        deserialize_with = "lenient_u64",
        skip_serializing_if = "Option::is_none"
    )]
    pub context: Option<u64>,
    /// Only the names of the files.
    #[serde(default)]
    pub files_only: bool,
    /// At most this many hits.
    #[serde(
        default,
        deserialize_with = "lenient_u64",
        skip_serializing_if = "Option::is_none"
    )]
    pub limit: Option<u64>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct GlobArgs {
    pub pattern: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PlanArgs {
    pub steps: Vec<PlanStep>,
    #[serde(default)]
    pub goals: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SaveSkillArgs {
    pub name: String,
    pub description: String,
    /// Markdown.
    pub body: String,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MemorySearchArgs {
    pub query: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scope: Option<SearchScope>,
    /// Empty: all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub kinds: Vec<SearchKind>,
    #[serde(
        default,
        deserialize_with = "lenient_u64",
        skip_serializing_if = "Option::is_none"
    )]
    pub limit: Option<u64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SearchScope {
    Session,
    Workspace,
    All,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SearchKind {
    Said,
    Answered,
    Printed,
    Noted,
    Episodic,
    Semantic,
    Procedural,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MemoryPageArgs {
    /// See [`super::address`].
    pub address: String,
    /// Another session than this one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
    /// Bytes into the first entry, or into the blob.
    #[serde(
        default,
        deserialize_with = "lenient_u64",
        skip_serializing_if = "Option::is_none"
    )]
    pub offset: Option<u64>,
    /// Bytes of a page.
    #[serde(
        default,
        deserialize_with = "lenient_u64",
        skip_serializing_if = "Option::is_none"
    )]
    pub limit: Option<u64>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MemoryInsertArgs {
    pub text: String,
    pub kind: MemoryKind,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub topic: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ReviewHistoryArgs {
    /// One session in more detail.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
    #[serde(
        default,
        deserialize_with = "lenient_u64",
        skip_serializing_if = "Option::is_none"
    )]
    pub limit: Option<u64>,
}

impl PlanArgs {
    /// The plan, with at most one current step: the first that says so.
    pub fn plan(&self) -> Plan {
        let mut seen = false;
        let steps = self
            .steps
            .iter()
            .map(|s| {
                let state = match s.state {
                    StepState::Current if seen => StepState::Left,
                    state => state,
                };
                seen |= state == StepState::Current;
                PlanStep {
                    text: s.text.clone(),
                    state,
                }
            })
            .collect();
        Plan {
            steps,
            goals: self.goals.clone(),
        }
    }
}

impl Input {
    /// Errors say what is wrong in words the model can act on.
    pub fn parse(name: &str, arguments: &str) -> Result<Input, String> {
        let text = arguments.trim();
        let text = if text.is_empty() { "{}" } else { text };
        let value: Value = serde_json::from_str(text)
            .map_err(|e| format!("the arguments of {name} are not JSON: {e}"))?;
        if !value.is_object() {
            return Err(format!("the arguments of {name} are not a JSON object"));
        }
        Ok(match name {
            "read" => Input::Read(args(name, value)?),
            "write" => Input::Write(args(name, value)?),
            "edit" => {
                let edit: EditArgs = args(name, value)?;
                if edit.edits.is_empty() {
                    return Err("the arguments of edit: `edits` is empty".to_string());
                }
                Input::Edit(edit)
            }
            "bash" => Input::Bash(args(name, value)?),
            "bash_stop" => Input::BashStop(args(name, value)?),
            "grep" => Input::Grep(args(name, value)?),
            "glob" => Input::Glob(args(name, value)?),
            "plan" => Input::Plan(args(name, value)?),
            "save_skill" => {
                let it: SaveSkillArgs = args(name, value)?;
                skill::check(&it.name, &it.description, &it.body)
                    .map_err(|why| format!("the arguments of {name}: {why}"))?;
                Input::SaveSkill(it)
            }
            "memory_search" => Input::MemorySearch(args(name, value)?),
            "memory_page" => Input::MemoryPage(args(name, value)?),
            "memory_insert" => Input::MemoryInsert(args(name, value)?),
            "review_history" => Input::ReviewHistory(args(name, value)?),
            _ if name.starts_with(FOREIGN_PREFIX) => Input::Foreign {
                name: name.to_string(),
                arguments: value,
            },
            _ => return Err(format!("there is no tool named {name:?}")),
        })
    }

    pub fn class(&self) -> Class {
        match self {
            Input::Read(_)
            | Input::Grep(_)
            | Input::Glob(_)
            | Input::Plan(_)
            | Input::MemorySearch(_)
            | Input::MemoryPage(_)
            | Input::ReviewHistory(_)
            // Its row is written in the transaction of its result, and not before.
            | Input::MemoryInsert(_)
            // Stopping a command twice is stopping it once.
            | Input::BashStop(_) => Class::Idempotent,
            Input::Write(_) | Input::Edit(_) | Input::SaveSkill(_) => Class::Checked,
            Input::Bash(_) => Class::Supervised,
            Input::Foreign { .. } => Class::Opaque,
        }
    }

    /// One line that names what the call is about: a path, a command, a pattern.
    pub fn subject(&self) -> String {
        match self {
            Input::Read(a) => a.path.clone(),
            Input::Write(a) => a.path.clone(),
            Input::Edit(a) => a.path.clone(),
            Input::Bash(a) => a.command.clone(),
            Input::BashStop(a) => a.id.clone(),
            Input::Grep(a) => a.pattern.clone(),
            Input::Glob(a) => a.pattern.clone(),
            Input::Plan(a) => text::count(a.steps.len(), "step"),
            Input::SaveSkill(a) => skill::path(&a.name),
            Input::MemorySearch(a) => a.query.clone(),
            Input::MemoryPage(a) => a.address.clone(),
            Input::MemoryInsert(a) => a.topic.as_ref().unwrap_or(&a.text).clone(),
            Input::ReviewHistory(a) => a.session.clone().unwrap_or_default(),
            Input::Foreign { arguments, .. } => arguments.to_string(),
        }
    }
}

fn args<T: DeserializeOwned>(name: &str, value: Value) -> Result<T, String> {
    serde_json::from_value(value).map_err(|e| format!("the arguments of {name}: {e}"))
}

/// Models write numbers as strings and as floats, and null for what is missing.
fn lenient_u64<'de, D: Deserializer<'de>>(d: D) -> Result<Option<u64>, D::Error> {
    let value = Option::<Value>::deserialize(d)?;
    let number = match &value {
        None | Some(Value::Null) => return Ok(None),
        Some(Value::Number(n)) => n.as_u64().or_else(|| {
            n.as_f64()
                .filter(|f| *f >= 0.0 && f.fract() == 0.0)
                .map(|f| f as u64)
        }),
        Some(Value::String(s)) => s.trim().parse().ok(),
        Some(_) => None,
    };
    match number {
        Some(n) => Ok(Some(n)),
        None => Err(D::Error::custom(format!(
            "{} is not a whole number",
            value.unwrap_or_default()
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_read_as_models_write_them() {
        let read = |arguments| Input::parse("read", arguments);
        let want = |offset, limit| {
            Ok(Input::Read(ReadArgs {
                path: "a".into(),
                offset,
                limit,
            }))
        };
        assert_eq!(read(r#"{"path":"a"}"#), want(None, None));
        assert_eq!(
            read(r#"{"path":"a","offset":"3","limit":2.0}"#),
            want(Some(3), Some(2))
        );
        assert_eq!(
            read(r#"{"path":"a","offset":null,"x":1}"#),
            want(None, None)
        );
        assert!(read(r#"{"path":"a","offset":-1}"#).is_err());
        assert!(read(r#"{"path":"a""#).unwrap_err().contains("not JSON"));
        assert!(read("[]").unwrap_err().contains("not a JSON object"));
        assert!(read("").unwrap_err().contains("path"));
        assert!(Input::parse("launch", "{}").unwrap_err().contains("launch"));
        assert!(Input::parse("edit", r#"{"path":"a","edits":[]}"#).is_err());
        let skill = r#"{"name":"../x","description":"d","body":"b"}"#;
        assert!(
            Input::parse("save_skill", skill)
                .unwrap_err()
                .contains("`name`")
        );
    }

    #[test]
    fn a_plan_has_one_current_step() {
        let step = |text: &str, state| PlanStep {
            text: text.into(),
            state,
        };
        let plan = PlanArgs {
            steps: vec![step("a", StepState::Current), step("b", StepState::Current)],
            goals: vec![],
        }
        .plan();
        assert_eq!(plan.steps[1].state, StepState::Left);
        assert_eq!(plan.current().map(|s| s.text.as_str()), Some("a"));
    }
}
