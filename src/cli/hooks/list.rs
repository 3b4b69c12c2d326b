//! `rewake hooks list`: each hook with its file, its trust and its last result, and each check.

use serde_json::{Value, json};

use crate::core::entry::HookResult;
use crate::report::{CliError, exit, line, note};
use crate::session::AppContext;
use crate::session::checks::{self, ListedCheck};
use crate::session::hook_list::{hook_list, last_results};
use crate::session::hooks::{guards_not_in_force, hooks};
use crate::workspace::hooks::{Hook, HookState};

pub(super) fn run(ctx: &AppContext, json: bool) -> Result<u8, CliError> {
    if json {
        return as_object(ctx);
    }
    let list = hook_list(ctx)?;
    for text in &list.lines {
        line(text);
    }
    if list.lines.is_empty() {
        note("there are no hooks or checks; docs/hooks.md and docs/checks.md describe the files");
    }
    for text in &list.notes {
        note(text);
    }
    Ok(exit::DONE)
}

fn as_object(ctx: &AppContext) -> Result<u8, CliError> {
    let found = hooks(ctx, &ctx.here.folder)?;
    let results = last_results(ctx);
    let foreign = guards_not_in_force(ctx, &found)?;
    let hooks: Vec<Value> = found
        .hooks
        .iter()
        .map(|hook| as_json(hook, results.get(&hook.name())))
        .collect();
    let foreign: Vec<Value> = foreign
        .iter()
        .map(|file| {
            json!({
                "file": file.path, "hooks": file.hooks, "deny": file.deny, "ask": file.ask,
                "fault": file.fault,
            })
        })
        .collect();
    let mut checks: Vec<Value> = checks::list(ctx).iter().map(check_as_json).collect();
    checks.extend(
        checks::untrusted(ctx).map(
            |(file, shown)| json!({ "file": file, "state": "untrusted", "definitions": shown }),
        ),
    );
    line(&json!({ "hooks": hooks, "checks": checks, "not_in_force": foreign }).to_string());
    Ok(exit::DONE)
}

fn check_as_json(check: &ListedCheck<'_>) -> Value {
    json!({
        "name": check.name, "files": check.config.files, "command": check.config.command,
        "timeout_sec": check.config.timeout_sec, "file": check.origin,
        "state": if check.fault.is_none() { "used" } else { "failed" }, "why": check.fault,
    })
}

fn as_json(hook: &Hook, last: Option<&HookResult>) -> Value {
    let definition = &hook.definition;
    let (state, why) = match &hook.state {
        HookState::Used => ("used", None),
        HookState::Untrusted => ("untrusted", None),
        HookState::Failed(why) => ("failed", Some(why)),
    };
    json!({
        "event": definition.event.name(), "matcher": definition.matcher,
        "command": definition.command, "timeout_ms": definition.timeout_ms,
        "on_failure": if definition.may_fail { "allow" } else { "block" },
        "async": definition.is_async, "matches_no_tool": hook.is_of_no_tool(), "file": hook.file, "state": state, "why": why, "last": last,
    })
}
