//! `mcp`: `mcp_find` and `mcp_call` in one tool, for a context window in which each tool costs a
//! noticeable part.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::schema::{object, string};
use super::shown::{Shown, Verb};
use super::tool::{Group, Tool};
use super::work::{ServedCall, Work};
use super::{foreign, mcp_call, mcp_find};
use crate::core::permission::Permission;

#[derive(Serialize, Deserialize)]
pub(super) struct Args {
    find: Option<String>,
    /// The tool to call. If it is set, nothing is searched.
    tool: Option<String>,
    #[serde(default)]
    arguments: Value,
}

impl Tool for Args {
    const NAME: &'static str = crate::core::permission::MCP_SHORT;
    const TEXT: &'static str = include_str!("../../assets/tools/mcp.md");
    const VERB: Verb = Verb::Call;
    const GROUP: Group = Group::ServersShort;

    fn schema() -> Value {
        let properties = json!({
            "find": string(), "tool": string(), "arguments": json!({ "type": "object" }),
        });
        object(properties, &[])
    }

    fn check(&self) -> Result<(), String> {
        match (self.called(), &self.find) {
            (Some(tool), _) => mcp_call::check(tool, &self.arguments),
            (None, Some(_)) => Ok(()),
            (None, None) => Err("it has neither `find` nor `tool`".to_string()),
        }
    }

    fn subject(&self) -> String {
        match self.called() {
            Some(_) => foreign::subject(&self.arguments),
            None => format!("find {}", self.find.as_deref().unwrap_or_default()),
        }
    }

    fn permission(&self) -> Permission {
        self.called().map_or(Permission::None, foreign::permission)
    }

    fn shown(self) -> Shown {
        match self.tool.filter(|tool| !tool.is_empty()) {
            Some(tool) => foreign::shown(&tool, &self.arguments),
            None => Shown::default(),
        }
    }

    fn work(self) -> Work {
        match self.tool.filter(|tool| !tool.is_empty()) {
            Some(name) => Work::Served(ServedCall {
                name,
                arguments: mcp_call::given(self.arguments),
            }),
            None => {
                let find = self.find.unwrap_or_default();
                Work::FindServed(Box::new(move |ctx, _| mcp_find::look(&find, None, ctx)))
            }
        }
    }
}

impl Args {
    fn called(&self) -> Option<&str> {
        self.tool.as_deref().filter(|tool| !tool.is_empty())
    }
}
