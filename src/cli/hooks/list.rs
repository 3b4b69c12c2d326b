//! `rewake hooks list`: each hook with its file, its trust and its last result.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::core::entry::{Entry, HookResult, HookVerdict, Seq};
use crate::core::text::one_line;
use crate::report::{CliError, exit, line, note};
use crate::session::AppContext;
use crate::session::hooks::{guards_not_in_force, hooks};
use crate::store::SessionFilter;
use crate::workspace::hooks::{Hook, HookState};

/// Maximum number of sessions, and of entries of each, in which results are looked for.
const SESSIONS: u32 = 5;
const ENTRIES: u64 = 2_000;

const REASON_CHARS: usize = 120;

pub(super) fn run(ctx: &AppContext, json: bool) -> Result<u8, CliError> {
    let found = hooks(ctx, &ctx.here.folder)?;
    let results = last_results(ctx);
    let foreign = guards_not_in_force(ctx, &found)?;
    if json {
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
        line(&json!({ "hooks": hooks, "not_in_force": foreign }).to_string());
        return Ok(exit::DONE);
    }
    for hook in &found.hooks {
        let definition = &hook.definition;
        let matcher = match definition.matcher.as_str() {
            "" => String::new(),
            matcher => format!(" {}", one_line(matcher, 40)),
        };
        line(&format!(
            "{}{matcher}  {}",
            definition.event.name(),
            hook.name()
        ));
        line(&format!("  {}", state(&hook.state)));
        if let Some(result) = results.get(&hook.name()) {
            line(&format!("  last: {}", in_words(result)));
        }
    }
    if found.hooks.is_empty() {
        note("there are no hooks; docs/hooks.md describes the files");
    }
    for warning in &found.warnings {
        note(warning);
    }
    for file in &foreign {
        note(&file.line());
    }
    Ok(exit::DONE)
}

fn state(state: &HookState) -> String {
    match state {
        HookState::Used => "used".to_string(),
        HookState::Untrusted => "not trusted, so it does not run; `rewake trust`".to_string(),
        HookState::Failed(why) => format!("failed: {why}"),
    }
}

fn verdict(verdict: HookVerdict) -> &'static str {
    match verdict {
        HookVerdict::None => "no decision",
        HookVerdict::Allow => "allow",
        HookVerdict::Ask => "ask",
        HookVerdict::Failed => "failed",
        HookVerdict::Deny => "deny",
    }
}

/// Returns a result in one line: `deny: not on main (exit code 2, 12 ms)`.
pub(super) fn in_words(result: &HookResult) -> String {
    let reason = match one_line(&result.reason, REASON_CHARS) {
        reason if reason.is_empty() => String::new(),
        reason => format!(": {reason}"),
    };
    let exit = match result.exit {
        Some(code) => format!("exit code {code}, "),
        None => String::new(),
    };
    format!(
        "{}{reason} ({exit}{} ms)",
        verdict(result.verdict),
        result.took_ms
    )
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
        "async": definition.is_async, "file": hook.file, "state": state, "why": why, "last": last,
    })
}

/// Returns the last result of each hook in the newest sessions of this folder. A store that cannot
/// be read has none.
fn last_results(ctx: &AppContext) -> BTreeMap<String, HookResult> {
    let mut results = BTreeMap::new();
    let Ok((store, _)) = ctx.open_store_for_reading() else {
        return results;
    };
    let workspace = ctx.workspace();
    let filter = SessionFilter {
        workspace: Some(&workspace),
        ..SessionFilter::default()
    };
    for info in store
        .history()
        .sessions(filter, SESSIONS)
        .unwrap_or_default()
    {
        let from = info.entries.saturating_sub(ENTRIES);
        let records = store.records(&info.id, from..=Seq::MAX).unwrap_or_default();
        for record in records.into_iter().rev() {
            if let Entry::Hooked { results: found, .. } = record.entry {
                for result in found {
                    results.entry(result.hook.clone()).or_insert(result);
                }
            }
        }
    }
    results
}
