//! `bash_wait`: waits for background commands and tasks. This file has the arguments of the call;
//! the world waits.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::schema::{array, integer, object, string};
use super::shown::Verb;
use super::tool::Tool;
use super::whole::WholeNumber;
use super::work::{CommandWait, Work};
use crate::core::permission::Permission;

/// The time limit of a call that names none.
const TIMEOUT_MS: u64 = 10 * 60 * 1_000;
const MAX_TIMEOUT_MS: u64 = 60 * 60 * 1_000;

#[derive(Serialize, Deserialize)]
pub(super) struct Args {
    ids: Option<Vec<String>>,
    until: Option<String>,
    timeout_ms: Option<WholeNumber>,
}

impl Tool for Args {
    const NAME: &'static str = "bash_wait";
    const TEXT: &'static str = include_str!("../../assets/tools/bash_wait.md");
    const VERB: Verb = Verb::Wait;
    const LEFT_OUT: &'static [&'static str] = &["until", "timeout_ms"];

    fn schema() -> Value {
        let properties = json!({
            "ids": array(string()), "until": string(), "timeout_ms": integer(),
        });
        object(properties, &[])
    }

    fn subject(&self) -> String {
        match self.ids.as_deref() {
            None | Some([]) => "background work".to_string(),
            Some(ids) => ids.join(" "),
        }
    }

    fn permission(&self) -> Permission {
        Permission::Wait
    }

    fn work(self) -> Work {
        let timeout_ms = self.timeout_ms.map_or(TIMEOUT_MS, u64::from);
        Work::WaitCommands(CommandWait {
            ids: self.ids.unwrap_or_default(),
            until: self.until.filter(|until| !until.is_empty()),
            timeout: Duration::from_millis(timeout_ms.min(MAX_TIMEOUT_MS)),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::specs;
    use super::super::test_support::work;
    use super::*;

    #[test]
    fn a_wait_has_ten_minutes_and_at_most_an_hour() {
        let minutes = |arguments: Value| match work("bash_wait", arguments) {
            Work::WaitCommands(wait) => wait.timeout.as_secs() / 60,
            _ => panic!("not a wait"),
        };
        assert_eq!(minutes(json!({})), 10);
        assert_eq!(minutes(json!({"timeout_ms": "120000"})), 2);
        assert_eq!(minutes(json!({"timeout_ms": 1e12})), 60);
    }

    #[test]
    fn an_empty_pattern_is_none() {
        let Work::WaitCommands(wait) = work("bash_wait", json!({"ids": ["a"], "until": ""})) else {
            panic!("not a wait");
        };
        assert_eq!((wait.ids, wait.until), (vec!["a".to_string()], None));
    }

    #[test]
    fn the_tool_is_short() {
        let spec = specs().into_iter().find(|spec| spec.name == "bash_wait");
        let bytes = serde_json::to_string(&spec.unwrap()).unwrap().len();
        // About 60 tokens: in this JSON a token has more than 4 bytes.
        assert!(bytes <= 258, "{bytes}");
    }
}
