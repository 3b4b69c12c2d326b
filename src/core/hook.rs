//! The hooks of a session: which of them have not ended, and what their answers mean for calls.
//!
//! Invariant: deny wins over ask, and ask over allow, over all hooks and rules. An allow of a hook
//! counts as an allow rule for this one call, so it overrides no deny rule, ask rule or protected
//! file. An allow of a hook that is not of the user's own files counts as no decision.

use std::collections::{BTreeMap, BTreeSet};

use super::entry::{CallId, Entry, HookEvent, HookResult, HookRun, HookVerdict, Record, Seq};
use super::permission::{LookBack, PathUse, Permission};
use super::policy::{Decision, Judgement, Rule};
use super::{offer, text};

/// Maximum number of times that hooks may refuse the end of a turn, for each message of the user.
pub const MAX_REFUSED_STOPS: u32 = 5;

/// Maximum number of hooks that run at the same time.
pub const MAX_HOOKS_AT_ONCE: usize = 16;

/// Maximum number of characters of one argument list in a text for a person.
const INPUT_CHARS: usize = 400;

/// Hooks that were recorded as about to run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PendingHooks {
    /// The place of their `Hooking`.
    pub seq: Seq,
    pub event: HookEvent,
    /// The entry that they follow.
    pub of: Seq,
    /// Those without a result.
    pub runs: Vec<HookRun>,
}

/// The answers of the guards of one call.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct CallGuards {
    pub results: Vec<HookResult>,
    /// The hooks of `PermissionRequest` have run for it.
    pub were_requested: bool,
    /// Hooks of one event changed the arguments in different ways.
    pub conflict: Option<String>,
}

/// The hooks of a session.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SessionHooks {
    pending: Vec<PendingHooks>,
    guards: BTreeMap<CallId, CallGuards>,
    refused_stops: u32,
}

impl SessionHooks {
    /// Returns the hooks that have not ended.
    pub fn pending(&self) -> &[PendingHooks] {
        &self.pending
    }

    /// Returns the hooks that must end before any other step: those that decide about no call.
    pub fn first_due(&self) -> Option<&PendingHooks> {
        let mut pending = self.pending.iter();
        pending.find(|hooks| !hooks.event.decides_about_call())
    }

    /// Returns the guards of a call that have not ended.
    pub fn of_call(&self, call: CallId) -> Option<&PendingHooks> {
        let is_its = |run: &HookRun| run.call == Some(call);
        let mut pending = self.pending.iter();
        pending.find(|hooks| hooks.event.decides_about_call() && hooks.runs.iter().any(is_its))
    }

    /// Returns the answers of the guards of a call.
    pub fn guards(&self, call: CallId) -> Option<&CallGuards> {
        self.guards.get(&call)
    }

    /// Returns whether hooks may refuse the end of this turn once more.
    pub fn may_refuse_stop(&self) -> bool {
        self.refused_stops < MAX_REFUSED_STOPS
    }

    /// Returns whether hooks have refused an end of this turn.
    pub fn has_refused_stop(&self) -> bool {
        self.refused_stops > 0
    }

    pub(super) fn begin_prompt(&mut self) {
        self.refused_stops = 0;
    }

    pub(super) fn begin_answer(&mut self) {
        self.guards.clear();
    }

    pub(super) fn close(&mut self, call: CallId) {
        for hooks in &mut self.pending {
            if hooks.event.decides_about_call() {
                hooks.runs.retain(|run| run.call != Some(call));
            }
        }
        self.pending.retain(|hooks| !hooks.runs.is_empty());
    }

    pub(super) fn clear(&mut self) {
        *self = SessionHooks::default();
    }

    pub(super) fn begin(&mut self, hooks: PendingHooks) {
        self.pending.push(hooks);
    }

    /// Takes the hooks of a call out of the pending ones.
    pub(super) fn end(&mut self, seq: Seq, call: Option<CallId>) -> Option<PendingHooks> {
        let hooks = self.pending.iter_mut().find(|hooks| hooks.seq == seq)?;
        let (ended, rest) = std::mem::take(&mut hooks.runs)
            .into_iter()
            .partition(|run| run.call == call);
        hooks.runs = rest;
        let ended = PendingHooks {
            runs: ended,
            ..hooks.clone()
        };
        self.pending.retain(|hooks| !hooks.runs.is_empty());
        Some(ended)
    }

    /// Adds the answers of a call's guards. Returns the changed arguments, if the hooks agree.
    pub(super) fn decide(
        &mut self,
        call: CallId,
        event: HookEvent,
        results: &[HookResult],
    ) -> Option<String> {
        let guards = self.guards.entry(call).or_default();
        guards.were_requested |= event == HookEvent::PermissionRequest;
        guards.add(results)
    }

    pub(super) fn refuse_stop(&mut self) {
        self.refused_stops += 1;
    }
}

/// Returns the changed arguments that hooks gave, each once.
fn different_inputs(results: &[HookResult]) -> Vec<&str> {
    let mut inputs: Vec<&str> = results.iter().filter_map(|r| r.input.as_deref()).collect();
    inputs.sort_unstable();
    inputs.dedup();
    inputs
}

impl CallGuards {
    /// Returns the answers of the hooks of one event.
    pub fn of(results: Vec<HookResult>) -> CallGuards {
        let mut guards = CallGuards::default();
        guards.add(&results);
        guards
    }

    /// Adds the answers of the hooks of one event. Returns the changed arguments, if they agree.
    fn add(&mut self, results: &[HookResult]) -> Option<String> {
        self.results.extend(results.iter().cloned());
        match different_inputs(results)[..] {
            [] => None,
            [input] => Some(input.to_string()),
            [first, second, ..] => {
                self.conflict = Some(format!(
                    "two hooks change its arguments in different ways, and neither is used: {} and {}",
                    text::one_line(first, INPUT_CHARS),
                    text::one_line(second, INPUT_CHARS)
                ));
                None
            }
        }
    }

    /// Returns the strictest answer, with its reason.
    pub fn verdict(&self) -> (HookVerdict, String) {
        let strictest = self.results.iter().map(|result| result.verdict).max();
        let strictest = strictest.unwrap_or_default();
        let mut its = self.results.iter().filter(|r| r.verdict == strictest);
        let reason = its.next().map(said_by).unwrap_or_default();
        match &self.conflict {
            Some(why) if strictest < HookVerdict::Failed => (HookVerdict::Failed, why.clone()),
            _ => (strictest, reason),
        }
    }

    /// Returns the rules that count for this call, because a hook allows it.
    fn grants(&self, permission: &Permission) -> Vec<Rule> {
        let is_of_user =
            |result: &HookResult| result.verdict == HookVerdict::Allow && result.is_of_user;
        if self.verdict().0 != HookVerdict::Allow || !self.results.iter().any(is_of_user) {
            return Vec::new();
        }
        let rules: &[&str] = match permission {
            Permission::Command { .. } => &["Bash", "Network(*)"],
            Permission::Path { path_use, .. } => match path_use {
                PathUse::Read => &["Read"],
                PathUse::Grep => &["Grep"],
                PathUse::Glob => &["Glob"],
                PathUse::Edit => &["Edit"],
                PathUse::Write => &["Write"],
            },
            Permission::WriteInWorkspace { .. } => &["Write"],
            Permission::Glob { .. } => &["Glob"],
            Permission::LookBack {
                tool: LookBack::Memory,
                ..
            } => &["Memory"],
            Permission::LookBack {
                tool: LookBack::History,
                ..
            } => &["History"],
            Permission::Foreign { name } => return Rule::parse(name).into_iter().collect(),
            Permission::Fetch { host, .. } => return offer::for_host(host).into_iter().collect(),
            Permission::Search { .. } => &["WebSearch"],
            Permission::None | Permission::Wait | Permission::Task => &[],
        };
        rules
            .iter()
            .filter_map(|rule| Rule::parse(rule).ok())
            .collect()
    }
}

/// Returns the reason of a hook, with its name.
fn said_by(result: &HookResult) -> String {
    match (result.verdict, result.reason.as_str()) {
        (HookVerdict::Failed, why) => format!("the hook {} failed: {why}", result.hook),
        (HookVerdict::Deny, "") => format!("the hook {} denies it", result.hook),
        (HookVerdict::Deny, reason) => format!("the hook {} denies it: {reason}", result.hook),
        (_, "") => format!("the hook {} asks", result.hook),
        (_, reason) => format!("the hook {} asks: {reason}", result.hook),
    }
}

/// Judges a permission of a call by the rules and by the answers of its guards. `check` applies
/// the rules, with further allow rules for this call.
pub(super) fn judge(
    guards: Option<&CallGuards>,
    permission: &Permission,
    check: impl FnOnce(&[Rule]) -> Judgement,
) -> Judgement {
    let Some(guards) = guards else {
        return check(&[]);
    };
    let Judgement { decision, access } = check(&guards.grants(permission));
    let decision = match (guards.verdict(), decision) {
        (_, denied @ Decision::Deny { .. }) => denied,
        ((HookVerdict::Deny, reason), _) => Decision::Deny { reason },
        ((HookVerdict::Ask | HookVerdict::Failed, why), Decision::Ask { why: also, .. }) => {
            Decision::Ask {
                why: format!("{why}; {also}"),
                rule: None,
            }
        }
        ((HookVerdict::Ask | HookVerdict::Failed, why), Decision::Allow) => {
            Decision::Ask { why, rule: None }
        }
        ((HookVerdict::None | HookVerdict::Allow, _), decision) => decision,
    };
    Judgement { decision, access }
}

/// Maximum number of entries between a message and the results of its hooks that are searched.
pub const MAX_ENTRIES_TO_VERDICT: Seq = 64;

/// Returns whether hooks refused the message at this place, or failed to judge it. `after` has the
/// entries after it.
pub fn was_refused(message: Seq, after: &[Record]) -> bool {
    let hooking = after.iter().find_map(|record| match &record.entry {
        Entry::Hooking { event, of, .. } => {
            (*event == HookEvent::UserPromptSubmit && *of == message).then_some(record.seq)
        }
        _ => None,
    });
    after.iter().any(|record| match &record.entry {
        Entry::Hooked { of, results, .. } => {
            Some(*of) == hooking && results.iter().any(|r| r.verdict >= HookVerdict::Failed)
        }
        _ => false,
    })
}

/// Returns the text of a `Hooked` for the model. `None`: it has none.
pub fn note(entry: &Entry) -> Option<String> {
    let Entry::Hooked {
        event,
        call,
        results,
        ..
    } = entry
    else {
        return None;
    };
    let mut parts = Vec::new();
    let event_name = event.name();
    for result in results {
        let (hook, of) = if result.is_brief {
            let name = format!("{event_name} hook");
            (format!("A {name}"), format!("a {name}"))
        } else {
            let name = format!("hook {}", text::one_line(&result.hook, INPUT_CHARS));
            (format!("The {name}"), format!("the {name}"))
        };
        if matches!(event, HookEvent::Stop | HookEvent::SubagentStop)
            && result.verdict == HookVerdict::Deny
        {
            parts.push(format!(
                "{hook} did not let the turn end: {}",
                result.reason
            ));
        } else if result.verdict == HookVerdict::Deny && !event.is_guard() {
            parts.push(format!("{hook} objects: {}", result.reason));
        }
        if let Some(context) = &result.context {
            parts.push(format!("Output of {of}:\n{}", context.text));
        }
    }
    // Several hooks may run the same program.
    let mut told = BTreeSet::new();
    let is_brief = results.iter().any(|result| result.is_brief);
    parts.retain(|part| told.insert(part.clone()) || !is_brief);
    if let [input] = different_inputs(results)[..] {
        let number = call.map_or(1, |call| call.index + 1);
        parts.push(format!(
            "A hook changed the arguments of call {number} to {input}"
        ));
    }
    (!parts.is_empty()).then(|| parts.join("\n"))
}
