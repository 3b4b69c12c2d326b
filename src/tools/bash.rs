//! `bash`: runs a shell command line under a keeper that outlives this process. This file has its
//! arguments and its result; the world runs it.

mod hint;
mod report;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::schema::{boolean, integer, object, one_of, string};
use super::shown::{Shown, ShownBody, ShownResult, Verb};
use super::tool::Tool;
use super::whole::WholeNumber;
use super::work::{ShellCommand, Work};
use crate::core::access::Access;
use crate::core::permission::Permission;
use crate::core::read_only_commands::only_looks;

pub use report::{BackgroundEnd, Printed, printed_of};
pub use report::{STOPPED, user_command_end, user_command_not_started};
pub(crate) use report::{after_restart, background_end, background_id, how, in_background, result};

#[derive(Serialize, Deserialize)]
pub(crate) struct Args {
    command: String,
    timeout_ms: Option<WholeNumber>,
    #[serde(default)]
    background: bool,
    /// `None` for the highest access that the mode and the rules allow without approval.
    access: Option<Access>,
}

impl Tool for Args {
    const NAME: &'static str = "bash";
    const TEXT: &'static str = include_str!("../../assets/tools/bash.md");
    const VERB: Verb = Verb::Run;

    fn schema() -> Value {
        let properties = json!({
            "command": string(),
            "access": one_of(&Access::ALL.map(Access::name)),
            "timeout_ms": integer(),
            "background": boolean(),
        });
        object(properties, &["command"])
    }

    fn subject(&self) -> String {
        self.command.clone()
    }

    fn permission(&self) -> Permission {
        Permission::Command {
            line: self.command.clone(),
            access: self.access,
            background: self.background,
        }
    }

    fn shown(self) -> Shown {
        Shown {
            only_looks: !self.background && only_looks(&self.command, self.access),
            body: ShownBody::Command {
                line: self.command,
                background: self.background,
            },
            result: ShownResult::Printed,
            ..Shown::default()
        }
    }

    fn work(self) -> Work {
        Work::Run(ShellCommand {
            line: self.command,
            background: self.background,
            limit_ms: match (self.background, self.timeout_ms) {
                // Without a named limit, a background command runs until it ends or is stopped.
                (true, None) => Some(u64::MAX),
                (_, limit) => limit.map(|ms| ms.0.max(1)),
            },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::describe;
    use super::super::test_support::work;
    use super::*;

    #[test]
    fn an_access_is_one_of_the_four_or_an_error_that_names_them() {
        let access = |arguments: Value| {
            let described = describe("bash", &arguments.to_string());
            described.map(|described| match described.permission {
                Permission::Command { access, .. } => access,
                other => panic!("{other:?}"),
            })
        };
        assert_eq!(access(json!({"command": "a"})), Ok(None));
        assert_eq!(access(json!({"command": "a", "access": null})), Ok(None));
        for level in Access::ALL {
            let arguments = json!({"command": "a", "access": level.name()});
            assert_eq!(access(arguments), Ok(Some(level)));
        }
        for wrong in [json!("root"), json!(""), json!("x".repeat(500))] {
            let why = access(json!({"command": "a", "access": wrong})).unwrap_err();
            assert!(
                why.contains("must be one of read, workspace, network, full"),
                "{why}"
            );
            assert!(why.len() < 200, "{why}");
        }
        assert!(access(json!({"command": "a", "access": 3})).is_err());
    }

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
