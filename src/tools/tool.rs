//! What a tool is: the arguments of its calls, and all that follows from them.

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::shown::{Shown, Verb};
use super::work::Work;
use super::{misfit, schema};
use crate::core::entry::ToolSpec;
use crate::core::permission::Permission;
use crate::core::tool::Described;

/// The arguments of a call. The file of the tool says here what the program knows of the tool.
pub(super) trait Tool: DeserializeOwned + Serialize {
    const NAME: &'static str;
    /// What the model reads of it: `assets/tools/NAME.md`. The first line says on its own what
    /// the tool does: in a small window it is all there is.
    const TEXT: &'static str;
    /// What a person reads that a call of it does.
    const VERB: Verb;
    /// Properties that the schema for a small window is without. They are understood all the
    /// same.
    const LEFT_OUT: &'static [&'static str] = &[];

    /// The work goes on without it: in the smallest windows it is not in the list.
    const IS_RARE: bool = false;

    /// When it is in the list at all.
    const GROUP: Group = Group::Own;

    fn schema() -> Value;

    /// What is wrong with arguments that have the right types, in words the model can act on.
    fn check(&self) -> Result<(), String> {
        Ok(())
    }

    /// One line that names what the call is about: a path, a command, a pattern.
    fn subject(&self) -> String;

    fn permission(&self) -> Permission;

    fn shown(self) -> Shown {
        Shown::default()
    }

    /// How it is run. This is its effect class, too.
    fn work(self) -> Work;
}

/// When a tool is in the list of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Group {
    /// Always.
    Own,
    /// When servers are configured.
    Servers,
    /// In place of those, in the smallest windows.
    ServersShort,
}

/// A tool in the list of all: what [`Tool`] says, without the type of the arguments.
pub(super) struct Entry {
    pub name: &'static str,
    text: &'static str,
    pub left_out: &'static [&'static str],
    pub is_rare: bool,
    pub group: Group,
    pub schema: fn() -> Value,
    pub describe: fn(Value) -> Result<Described, String>,
    pub shown: fn(Value) -> Result<Shown, String>,
    pub work: fn(Value) -> Result<Work, String>,
    /// The arguments as they were understood.
    #[cfg(test)]
    pub understood: fn(Value) -> Result<Value, String>,
}

impl Entry {
    pub(super) const fn of<T: Tool>() -> Entry {
        Entry {
            name: T::NAME,
            text: T::TEXT,
            left_out: T::LEFT_OUT,
            is_rare: T::IS_RARE,
            group: T::GROUP,
            schema: T::schema,
            describe: |value| {
                let args: T = arguments(value)?;
                Ok(Described {
                    subject: args.subject(),
                    permission: args.permission(),
                    objection: None,
                    class: args.work().class(),
                })
            },
            shown: |value| {
                let shown = arguments::<T>(value)?.shown();
                Ok(Shown {
                    verb: T::VERB,
                    ..shown
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

    /// For a small window: of the description the first line, of the schema what a call is
    /// seldom made without.
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

fn arguments<T: Tool>(value: Value) -> Result<T, String> {
    let name = T::NAME;
    let args: T = T::deserialize(&value).map_err(|error| {
        let schema = T::schema();
        let why = misfit::misfit(&schema, &value).unwrap_or_else(|| error.to_string());
        format!(
            "the arguments of {name}: {why}{}",
            schema::hint(&schema, &value)
        )
    })?;
    match args.check() {
        Ok(()) => Ok(args),
        Err(why) => Err(format!("the arguments of {name}: {why}")),
    }
}
