//! `rewake permissions`: lists the active rules of this folder with their origins. The rules of
//! one session are in its log; the screen's `/permissions` shows them too.

use clap::Args;
use serde_json::{Value, json};

use crate::config::ListedRule;
use crate::report::{CliError, exit, line, note};
use crate::session::AppContext;

/// List the permission rules of this folder and their sources
#[derive(Debug, Clone, PartialEq, Args)]
pub(crate) struct PermissionsArgs {
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

pub(super) fn run(ctx: &AppContext, args: &PermissionsArgs) -> Result<u8, CliError> {
    let rules = ctx.loaded.rules();
    let mode = ctx.config().permission_mode;
    if args.json {
        let rules: Vec<Value> = rules.iter().map(as_json).collect();
        line(&json!({ "mode": mode.name(), "rules": rules }).to_string());
        return Ok(exit::DONE);
    }
    for ListedRule { list, rule, origin } in &rules {
        line(&format!("{list:<5}  {rule}  ({origin})"));
    }
    if rules.is_empty() {
        note(
            "no rules: whatever the mode does not allow is asked about, or denied when nobody can be asked",
        );
    }
    note(&format!(
        "mode: {}; deny beats ask beats allow",
        mode.name()
    ));
    Ok(exit::DONE)
}

fn as_json(listed: &ListedRule<'_>) -> Value {
    json!({ "list": listed.list, "rule": listed.rule, "from": listed.origin.to_string() })
}
