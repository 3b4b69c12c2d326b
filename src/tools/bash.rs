//! `bash`: a line of shell, under a keeper that outlives this process. What to run and what is
//! told of it is here; the world runs it.

mod report;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::schema::{boolean, integer, object, string};
use super::shown::{Body, Shown, ShownResult};
use super::tool::Tool;
use super::whole::Whole;
use super::work::{ShellCommand, Work};
use crate::core::permission::Permission;

pub use report::BackgroundEnd;
pub(crate) use report::{after_restart, background_end, background_id, in_background, result};

#[derive(Serialize, Deserialize)]
pub(crate) struct Args {
    command: String,
    timeout_ms: Option<Whole>,
    #[serde(default)]
    background: bool,
}

impl Tool for Args {
    const NAME: &'static str = "bash";
    const TEXT: &'static str = include_str!("../../assets/tools/bash.md");
    const LEFT_OUT: &'static [&'static str] = &["timeout_ms"];

    fn schema() -> Value {
        let properties =
            json!({"command": string(), "timeout_ms": integer(), "background": boolean()});
        object(properties, &["command"])
    }

    fn subject(&self) -> String {
        self.command.clone()
    }

    fn permission(&self) -> Permission {
        Permission::Command {
            line: self.command.clone(),
        }
    }

    fn shown(self) -> Shown {
        Shown {
            body: Body::Command {
                line: self.command,
                background: self.background,
            },
            result: ShownResult::Printed,
        }
    }

    fn work(self) -> Work {
        Work::Run(ShellCommand {
            line: self.command,
            background: self.background,
            limit_ms: match (self.background, self.timeout_ms) {
                // A background command lives until it ends or is stopped, unless a limit is
                // named.
                (true, None) => Some(u64::MAX),
                (_, limit) => limit.map(|ms| ms.0.max(1)),
            },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::support::work;
    use super::*;

    #[test]
    fn a_limit_is_the_configs_the_models_or_none() {
        let limit_ms = |arguments: Value| match work("bash", arguments) {
            Work::Run(command) => command.limit_ms,
            _ => panic!("not a command"),
        };
        assert_eq!(limit_ms(json!({"command": "a"})), None);
        let limited = json!({"command": "a", "timeout_ms": "5000"});
        assert_eq!(limit_ms(limited), Some(5_000));
        let none = json!({"command": "a", "timeout_ms": 0});
        assert_eq!(limit_ms(none), Some(1));
        let endless = json!({"command": "a", "background": true});
        assert_eq!(limit_ms(endless), Some(u64::MAX));
        let both = json!({"command": "a", "background": true, "timeout_ms": 9});
        assert_eq!(limit_ms(both), Some(9));
    }
}
