//! The trait of a tool: the arguments of its calls, and everything that follows from them.

use std::sync::Arc;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::shown::{Shown, ShownResult, Verb};
use super::work::Work;
use super::{misfit, schema};
use crate::core::entry::ToolSpec;
use crate::core::permission::Permission;
use crate::core::tool::Described;

/// The arguments of a call. A tool's file implements this with all that the program knows of the
/// tool.
pub(super) trait Tool: DeserializeOwned + Serialize {
    const NAME: &'static str;
    /// The description for the model: `assets/tools/NAME.md`. The first line alone says what the
    /// tool does: a small context window has only that line.
    const TEXT: &'static str;
    /// The action of its calls, in words for a person.
    const VERB: Verb;
    /// The part of a collapsed result that is shown.
    const RESULT: ShownResult = ShownResult::LastLines;
    /// Properties that the schema for a small context window omits. They are still understood.
    const LEFT_OUT: &'static [&'static str] = &[];

    /// The sessions whose list has the tool.
    const GROUP: Group = Group::Own;

    fn schema() -> Value;

    /// Returns the schema that applies to these arguments, for their names and for errors.
    fn schema_for(_given: &Value) -> Value {
        Self::schema()
    }

    /// Checks arguments that have the right types. The error is in words that the model can act on.
    fn check(&self) -> Result<(), String> {
        Ok(())
    }

    /// Returns the subject of the call in one line: a path, a command, a pattern.
    fn subject(&self) -> String;

    fn permission(&self) -> Permission;

    /// Returns the action of this call.
    fn verb(&self) -> Verb {
        Self::VERB
    }

    fn shown(self) -> Shown {
        Shown {
            result: Self::RESULT,
            ..Shown::default()
        }
    }

    /// Returns the work of the call, whose variant is also the effect class.
    fn work(self) -> Work;
}

/// The sessions whose list has a tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Group {
    /// All sessions.
    Own,
    /// All sessions, for memory, history and skills.
    Memory,
    /// Sessions in small context windows, instead of those.
    MemoryShort,
    /// Sessions that may have subagents.
    Tasks,
    /// Sessions of a person who can be asked.
    Attended,
    /// Sessions that may fetch pages of the web.
    Web,
    /// Those with a search server in the user's config.
    WebSearch,
    /// Sessions with configured servers.
    Servers,
    /// Sessions with configured servers in the smallest context windows, instead of those.
    ServersShort,
}

/// A tool in the list of all tools: the items of [`Tool`], without the type of the arguments.
pub(super) struct Entry {
    pub name: &'static str,
    text: &'static str,
    pub left_out: &'static [&'static str],
    pub group: Group,
    pub schema: fn() -> Value,
    pub schema_for: fn(&Value) -> Value,
    pub describe: fn(Value) -> Result<Described, String>,
    pub shown: fn(&Value) -> Result<Shown, String>,
    pub work: fn(&Value) -> Result<Work, String>,
    /// Parses arguments and returns them as they were understood.
    #[cfg(test)]
    pub understood: fn(&Value) -> Result<Value, String>,
}

impl Entry {
    pub(super) const fn of<T: Tool>() -> Entry {
        Entry {
            name: T::NAME,
            text: T::TEXT,
            left_out: T::LEFT_OUT,
            group: T::GROUP,
            schema: T::schema,
            schema_for: T::schema_for,
            describe: |value| {
                let args: T = arguments(&value)?;
                Ok(Described {
                    subject: args.subject(),
                    permission: args.permission(),
                    objection: None,
                    class: args.work().class(),
                    arguments: Arc::new(value),
                })
            },
            shown: |value| {
                let args: T = arguments(value)?;
                let verb = args.verb();
                Ok(Shown {
                    verb,
                    ..args.shown()
                })
            },
            work: |value| Ok(arguments::<T>(value)?.work()),
            #[cfg(test)]
            understood: |value| {
                serde_json::to_value(arguments::<T>(value)?).map_err(|e| e.to_string())
            },
        }
    }

    pub(super) fn spec(&self) -> ToolSpec {
        ToolSpec {
            name: self.name.to_string(),
            description: self.text.trim_end().to_string(),
            schema: (self.schema)(),
        }
    }

    /// Returns the tool for a small context window: the first line of the description, and the
    /// schema without rarely used arguments.
    pub(super) fn short_spec(&self) -> ToolSpec {
        let mut spec = self.spec();
        let line = spec.description.lines().next().unwrap_or_default();
        spec.description = line.to_string();
        if let Some(Value::Object(properties)) = spec.schema.get_mut("properties") {
            properties.retain(|name, _| !self.left_out.contains(&name.as_str()));
        }
        spec
    }
}

fn arguments<T: Tool>(value: &Value) -> Result<T, String> {
    let name = T::NAME;
    let args: T = T::deserialize(value).map_err(|error| {
        let schema = T::schema_for(value);
        let why = misfit::misfit(&schema, value).unwrap_or_else(|| error.to_string());
        format!(
            "the arguments of {name}: {why}{}",
            schema::hint(&schema, value)
        )
    })?;
    match args.check() {
        Ok(()) => Ok(args),
        Err(why) => Err(format!("the arguments of {name}: {why}")),
    }
}
