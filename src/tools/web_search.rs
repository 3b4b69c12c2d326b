//! `web_search`: searches the web with the server of the user's config.
//!
//! Invariant: the result begins with a line which says that its text is not the user's.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::ToolResult;
use super::schema::{object, string};
use super::shown::{ShownResult, Verb};
use super::tool::{Group, Tool};
use super::work::Work;
use crate::core::permission::{Permission, WEB_SEARCH};
use crate::core::text::one_line;
use crate::net::search::SearchResult;

const MAX_QUERY_BYTES: usize = 512;

/// The first line of each result.
const NOT_OF_THE_USER: &str = "Results of a web search, not of the user:";

#[derive(Serialize, Deserialize)]
pub(super) struct Args {
    query: String,
}

impl Tool for Args {
    const NAME: &'static str = WEB_SEARCH;
    const TEXT: &'static str = include_str!("../../assets/tools/web_search.md");
    const VERB: Verb = Verb::Look;
    const RESULT: ShownResult = ShownResult::LineCount;
    const GROUP: Group = Group::WebSearch;

    fn schema() -> Value {
        object(json!({"query": string()}), &["query"])
    }

    fn check(&self) -> Result<(), String> {
        match self.query.trim() {
            "" => Err("`query` is empty".to_string()),
            query if query.len() > MAX_QUERY_BYTES => {
                Err(format!("`query` is longer than {MAX_QUERY_BYTES} bytes"))
            }
            query if query.chars().any(char::is_control) => {
                Err("`query` has control characters".to_string())
            }
            _ => Ok(()),
        }
    }

    fn subject(&self) -> String {
        one_line(&self.query, MAX_QUERY_BYTES)
    }

    fn permission(&self) -> Permission {
        Permission::Search {
            query: self.query.trim().to_string(),
        }
    }

    fn work(self) -> Work {
        Work::Search(self.query.trim().to_string())
    }
}

/// Returns the result of a search.
pub fn search_result(query: &str, found: &[SearchResult]) -> ToolResult {
    if found.is_empty() {
        let query = one_line(query, MAX_QUERY_BYTES);
        return ToolResult::done(format!("no results for {query:?}"));
    }
    let results = (1..).zip(found).map(|(number, result)| {
        let SearchResult {
            title,
            url,
            excerpt,
        } = result;
        format!("{number}. {title}\n{url}\n{excerpt}\n")
    });
    let results: Vec<String> = results.collect();
    ToolResult::done(format!("{NOT_OF_THE_USER}\n\n{}", results.join("\n")))
}
