//! `mcp_find`: searches the known tools of the session's servers.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::schema::{object, string};
use super::shown::Verb;
use super::tool::{Group, Tool};
use super::work::Work;
use super::{ToolContext, ToolResult};
use crate::core::permission::Permission;
use crate::mcp::find::{self, ToolQuery};

#[derive(Serialize, Deserialize)]
pub(super) struct Args {
    query: String,
    server: Option<String>,
}

impl Tool for Args {
    const NAME: &'static str = crate::core::permission::MCP_FIND;
    const TEXT: &'static str = include_str!("../../assets/tools/mcp_find.md");
    const VERB: Verb = Verb::Look;
    const GROUP: Group = Group::Servers;

    fn schema() -> Value {
        object(json!({ "query": string(), "server": string() }), &["query"])
    }

    fn subject(&self) -> String {
        let server = self.server.as_deref().filter(|server| !server.is_empty());
        match (self.query.trim(), server) {
            ("", None) => "all tools of servers".to_string(),
            ("", Some(server)) => format!("all tools of {server}"),
            (query, None) => query.to_string(),
            (query, Some(server)) => format!("{query} (of {server})"),
        }
    }

    fn permission(&self) -> Permission {
        Permission::None
    }

    fn work(self) -> Work {
        Work::FindServed(Box::new(move |ctx, _| {
            look(&self.query, self.server.as_deref(), ctx)
        }))
    }
}

pub(super) fn look(query: &str, server: Option<&str>, ctx: &ToolContext) -> ToolResult {
    let wanted = ToolQuery {
        query,
        server: server.filter(|server| !server.trim().is_empty()),
        room: ctx.inline_max_bytes,
    };
    match find::find(&ctx.catalogue.now(), &wanted) {
        Ok(text) => ToolResult::done(text),
        Err(why) => ToolResult::error(why),
    }
}
