//! The list of the hooks and checks of a folder for a person: each with its file and its trust, and
//! each hook with its last result.

use std::collections::BTreeMap;

use super::hooks::{guards_not_in_force, hooks};
use super::{AppContext, checks, sandbox};
use crate::config::{ConfigError, NO_SANDBOX};
use crate::core::entry::{Entry, HookResult, HookVerdict, Seq};
use crate::core::text::one_line;
use crate::store::SessionFilter;
use crate::workspace::hooks::HookState;

/// Maximum number of sessions, and of entries of each, in which results are looked for.
const SESSIONS: u32 = 5;
const ENTRIES: u64 = 2_000;

const REASON_CHARS: usize = 120;

/// The hooks of a folder in lines.
pub struct HookList {
    /// Four lines at most for each hook. Empty: there are none.
    pub lines: Vec<String>,
    /// Hooks that do not run, and guards of other agents that are not in force.
    pub notes: Vec<String>,
}

/// Returns the list of the hooks of this folder.
///
/// # Errors
/// The user's own file, or the file with the trust, cannot be used.
pub fn hook_list(ctx: &AppContext) -> Result<HookList, ConfigError> {
    let found = hooks(ctx, &ctx.here.folder)?;
    let results = last_results(ctx);
    let has_sandbox = sandbox::given(ctx).available;
    let mut lines = Vec::new();
    for hook in &found.hooks {
        let definition = &hook.definition;
        let matcher = match definition.matcher.as_str() {
            "" => String::new(),
            matcher => format!(" {}", one_line(matcher, 40)),
        };
        lines.push(format!(
            "{}{matcher}  {}",
            definition.event.name(),
            hook.name()
        ));
        let place = match (&hook.state, hook.access) {
            (HookState::Used, Some(access)) if has_sandbox => {
                format!(", in the sandbox with access {access}")
            }
            (HookState::Used, Some(_)) => format!("; {NO_SANDBOX}"),
            _ => String::new(),
        };
        lines.push(format!("  {}{place}", state(&hook.state)));
        if hook.is_of_no_tool() {
            lines.push("  its matcher matches no tool, so it never runs".to_string());
        }
        if let Some(result) = results.get(&hook.name()) {
            lines.push(format!("  last: {}", in_words(result)));
        }
    }
    for check in checks::list(ctx) {
        lines.push(format!(
            "check {}  {}: {}",
            check.config.files, check.origin, check.name
        ));
        lines.push(match &check.fault {
            None => "  used".to_string(),
            Some(why) => format!("  does not run: {why}"),
        });
    }
    if let Some((file, shown)) = checks::untrusted(ctx) {
        lines.push(format!("check  {file}: {}", one_line(&shown, REASON_CHARS)));
        lines.push("  not trusted, so it does not run; `rewake trust`".to_string());
    }
    let foreign = guards_not_in_force(ctx, &found)?;
    let mut notes = found.warnings;
    notes.extend(foreign.iter().map(|file| file.line()));
    Ok(HookList { lines, notes })
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
pub fn in_words(result: &HookResult) -> String {
    let reason = match one_line(&result.reason, REASON_CHARS) {
        reason if reason.is_empty() => String::new(),
        reason => format!(": {reason}"),
    };
    let exit = match result.exit {
        Some(_) if result.reason.starts_with("exit code") => String::new(),
        Some(code) => format!("exit code {code}, "),
        None => String::new(),
    };
    format!(
        "{}{reason} ({exit}{} ms)",
        verdict(result.verdict),
        result.took_ms
    )
}

/// Returns the last result of each hook in the newest sessions of this folder. A store that cannot
/// be read has none.
pub fn last_results(ctx: &AppContext) -> BTreeMap<String, HookResult> {
    let mut results = BTreeMap::new();
    let Ok((store, _)) = ctx.open_store_for_reading() else {
        return results;
    };
    let workspace = ctx.workspace();
    let filter = SessionFilter::of(&workspace);
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
