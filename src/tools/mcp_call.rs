//! `mcp_call`: calls a tool of a server. It has the same effect as a call by the tool's full name.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::foreign;
use super::schema::{object, string};
use super::shown::{Shown, Verb};
use super::tool::{Group, Tool};
use super::work::{ServedCall, Work};
use crate::core::permission::Permission;

#[derive(Serialize, Deserialize)]
pub(super) struct Args {
    tool: String,
    #[serde(default)]
    arguments: Value,
}

impl Tool for Args {
    const NAME: &'static str = crate::core::permission::MCP_CALL;
    const TEXT: &'static str = include_str!("../../assets/tools/mcp_call.md");
    const VERB: Verb = Verb::Call;
    const GROUP: Group = Group::Servers;

    fn schema() -> Value {
        let properties = json!({ "tool": string(), "arguments": json!({ "type": "object" }) });
        object(properties, &["tool"])
    }

    fn check(&self) -> Result<(), String> {
        check(&self.tool, &self.arguments)
    }

    fn subject(&self) -> String {
        foreign::subject(&self.arguments)
    }

    fn permission(&self) -> Permission {
        foreign::permission(&self.tool)
    }

    fn shown(self) -> Shown {
        foreign::shown(&self.tool, &self.arguments)
    }

    fn work(self) -> Work {
        Work::Served(ServedCall {
            name: self.tool,
            arguments: given(self.arguments),
        })
    }
}

/// Returns the arguments that the model gave, or an empty object when it gave none.
pub(super) fn given(arguments: Value) -> Value {
    match arguments {
        Value::Null => json!({}),
        given => given,
    }
}

pub(super) fn check(tool: &str, arguments: &Value) -> Result<(), String> {
    if !foreign::is_foreign(tool) {
        return Err(format!(
            "`tool` is {:?}; it has to be a full name, mcp__server__tool, as mcp_find shows it",
            crate::core::text::one_line(tool, 80)
        ));
    }
    match arguments {
        Value::Object(_) | Value::Null => Ok(()),
        _ => Err("`arguments` has to be an object".to_string()),
    }
}
