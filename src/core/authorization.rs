//! The decision about a call that has not started: it runs, a person is asked, or it never runs.

use super::access::Access;
use super::entry::{CallId, HookVerdict, Mode, Outcome, Output, Verdict};
use super::hook::{self, CallGuards};
use super::offer::RuleOffer;
use super::permission::{PathUse, Permission, is_offered};
use super::policy::{Decision, Judgement};
use super::settings::{PermissionCheck, Policy};
use super::state::{OpenCall, State};
use super::to_person::{DO_WITHOUT, NOT_RUN, SEND_SMALLER, SEND_THE_REST};
use super::tool::{Class, MAX_CALLS};
use super::{text, tool_name};

/// The decision about a call that has not started.
#[derive(Debug, Clone, PartialEq)]
pub enum Authorization {
    /// It runs now, without a question.
    Run {
        /// Sandbox policy of the command. `None`: the call runs no command.
        access: Option<Access>,
    },
    /// A person is asked. `rule` has the rules that "always" would add.
    Ask {
        /// The reason for the question.
        why: String,
        /// The rules for "always". `None`: "always" is not offered.
        rule: Option<RuleOffer>,
        /// The sandbox policy that approval would grant.
        access: Option<Access>,
    },
    /// Its hooks have not ended.
    AwaitHooks,
    /// It never runs; this is its result.
    Close(Outcome),
}

/// Decides about a call that has not started. Its hooks come first. A person's verdict overrides
/// the rules and the questions of hooks. A stop, or an invalid call, overrides all. If nobody can be
/// asked, a question becomes a denial.
pub fn authorize(state: &State, policy: &Policy, open: &OpenCall) -> Authorization {
    if let Some(outcome) = hopeless(state, policy, open) {
        return Authorization::Close(outcome);
    }
    let Some(described) = open.described() else {
        return denied("the call cannot be understood".into());
    };
    if state.hooks.of_call(open.call.id).is_some() {
        return Authorization::AwaitHooks;
    }
    let guards = state.hooks.guards(open.call.id);
    if let Some((HookVerdict::Deny, reason)) = guards.map(CallGuards::verdict) {
        return denied(reason);
    }
    match &open.decided {
        Some(Verdict::Allow) => {
            if let Some(question) = ask_about_changed_description(state, policy, open) {
                return question;
            }
            return Authorization::Run {
                access: allowed_access(open, &described.permission),
            };
        }
        Some(Verdict::Deny { reason }) => return denied(reason.clone()),
        None => {}
    }
    let Judgement { decision, access } = judge_call(state, policy, open, &described.permission);
    match decision {
        Decision::Allow => Authorization::Run { access },
        Decision::Deny { reason } => denied(reason),
        // A question that was already asked stays open: the answer may come later, and from
        // elsewhere.
        Decision::Ask { why, rule } if policy.interactive || open.asked.is_some() => {
            Authorization::Ask { why, rule, access }
        }
        Decision::Ask { why, .. } => denied(format!(
            "{why}, and nobody is there to be asked{DO_WITHOUT}"
        )),
    }
}

/// Judges a permission of a call by the rules and by the answers of its hooks.
fn judge_call(
    state: &State,
    policy: &Policy,
    open: &OpenCall,
    permission: &Permission,
) -> Judgement {
    let guards = state.hooks.guards(open.call.id);
    hook::judge(guards, permission, |granted| {
        (policy.permission_check)(permission, state, granted)
    })
}

/// Returns the modes in which a denied call would have run without a question.
pub fn modes_that_allow(
    state: &State,
    permission_check: &PermissionCheck,
    open: &OpenCall,
) -> Vec<Mode> {
    let Some(described) = open.described() else {
        return Vec::new();
    };
    let guards = state.hooks.guards(open.call.id);
    let is_allowed = |mode: &Mode| {
        let mut state = state.clone();
        state.mode = *mode;
        let judged = hook::judge(guards, &described.permission, |granted| {
            permission_check(&described.permission, &state, granted)
        });
        matches!(judged.decision, Decision::Allow)
    };
    let modes = [Mode::AcceptEdits, Mode::BypassPermissions];
    modes.into_iter().filter(is_allowed).collect()
}

/// Asks again about a server's tool whose description has changed since a person allowed it. The
/// approval is only for the description that they saw.
fn ask_about_changed_description(
    state: &State,
    policy: &Policy,
    open: &OpenCall,
) -> Option<Authorization> {
    let permission @ Permission::Foreign { name } = &open.described()?.permission else {
        return None;
    };
    let asked = RuleOffer::parse(open.asked.as_ref()?.rule.as_deref()?).ok()?;
    asked.rules().iter().find_map(|rule| rule.spec_of(name))?;
    match judge_call(state, policy, open, permission).decision {
        Decision::Ask {
            why,
            rule: Some(rule),
        } if rule != asked => Some(Authorization::Ask {
            why,
            rule: Some(rule),
            access: None,
        }),
        _ => None,
    }
}

/// Returns the sandbox policy that a person approved. It applies whatever the mode is now.
/// Approvals in logs of older versions mean a command without a sandbox.
fn allowed_access(open: &OpenCall, permission: &Permission) -> Option<Access> {
    match permission {
        Permission::Command { .. } => Some(open.allowed_access.unwrap_or(Access::Full)),
        _ => open.allowed_access,
    }
}

/// Checks whether a recorded call that has not started may still run as it was recorded. The call
/// is a command or uses a server's tool. `Err` tells the model why not: mode, rules or the system
/// have changed.
pub fn still_allowed(state: &State, policy: &Policy, open: &OpenCall) -> Result<(), String> {
    if open.decided == Some(Verdict::Allow) {
        return match ask_about_changed_description(state, policy, open) {
            None => Ok(()),
            Some(_) => Err(
                "not run: its description changed since it was allowed; call it again for a new decision"
                    .to_string(),
            ),
        };
    }
    let described = open.described().map(|d| &d.permission);
    let (line, background) = match described {
        Some(Permission::Command {
            line, background, ..
        }) => (line, background),
        Some(permission @ Permission::Foreign { .. }) => {
            return match judge_call(state, policy, open, permission).decision {
                Decision::Allow => Ok(()),
                Decision::Ask { .. } | Decision::Deny { .. } => Err(
                    "not run: it was allowed when rewake was interrupted, and mode and rules do not allow it any more; call it again for a new decision"
                        .to_string(),
                ),
            };
        }
        _ => return Ok(()),
    };
    let recorded = open.started_access.unwrap_or(Access::Full);
    let permission = Permission::Command {
        line: line.clone(),
        access: Some(recorded),
        background: *background,
    };
    let judged = judge_call(state, policy, open, &permission);
    match judged.decision {
        Decision::Allow if judged.access.unwrap_or(Access::Full) == recorded => Ok(()),
        _ => Err(format!(
            "not run: it was to run with access {recorded} when rewake was interrupted, and mode and rules do not give that any more; call it again for a new decision"
        )),
    }
}

/// A question to a person about a call.
#[derive(Debug, Clone, PartialEq)]
pub struct Question {
    pub call: CallId,
    pub why: String,
    pub rule: Option<RuleOffer>,
    pub access: Option<Access>,
}

/// Returns the question about a call; `None` when a person need not be asked any more.
pub fn question(state: &State, policy: &Policy, open: &OpenCall) -> Option<Question> {
    if open.finished {
        return None;
    }
    match authorize(state, policy, open) {
        Authorization::Ask { why, rule, access } => Some(Question {
            call: open.call.id,
            why,
            rule,
            access,
        }),
        Authorization::Run { .. } | Authorization::AwaitHooks | Authorization::Close(_) => None,
    }
}

/// Returns the questions of one answer of the model, in the order of its calls.
pub fn questions(state: &State, policy: &Policy) -> Vec<Question> {
    let calls = state.calls.iter();
    calls
        .filter_map(|open| question(state, policy, open))
        .collect()
}

/// Returns the place of the question about a call among the questions of one answer, from 1, and
/// their number.
pub fn place_of_question(state: &State, open: &[Question], call: CallId) -> (usize, usize) {
    let is_asked = |asked: &&OpenCall| {
        asked.decided.is_some() || open.iter().any(|question| question.call == asked.call.id)
    };
    let asked: Vec<CallId> = state
        .calls
        .iter()
        .filter(is_asked)
        .map(|c| c.call.id)
        .collect();
    let place = asked.iter().position(|id| *id == call).unwrap_or(0);
    (place + 1, asked.len().max(1))
}

/// Returns whether a failure of a call at this real path may be reported before a person is asked.
/// This requires that no earlier call can change the file, and that the model may read the file.
pub fn may_fail_unasked(state: &State, policy: &Policy, open: &OpenCall, real: &str) -> bool {
    let mut before = state.calls.iter().take_while(|c| c.call.id != open.call.id);
    let looks = Permission::Path {
        path_use: PathUse::Read,
        path: real.to_string(),
    };
    before.all(|c| c.finished || c.call.class() == Some(Class::Idempotent))
        && (policy.permission_check)(&looks, state, &[]).decision == Decision::Allow
}

/// Returns whether a running call may act at this real path. Links may have changed since the
/// decision, so the rules are checked for the current target. A call that only a person allowed
/// acts on the path that they approved, also after a restart.
pub fn may_act_at(state: &State, policy: &Policy, open: &OpenCall, real: &str) -> bool {
    let Some(described) = open.described() else {
        return false;
    };
    let by_person = open.decided == Some(Verdict::Allow);
    let asked_about = open.asked_about.as_deref();
    let permission = described.permission.at(real);
    match judge_call(state, policy, open, &permission).decision {
        Decision::Deny { .. } => false,
        Decision::Allow if !by_person => true,
        Decision::Ask { .. } if !by_person => false,
        // A log of an older version does not say what they were asked about.
        Decision::Allow => asked_about.is_none_or(|path| path == real),
        Decision::Ask { .. } => asked_about == Some(real),
    }
}

fn denied(reason: String) -> Authorization {
    Authorization::Close(Outcome::Denied { reason })
}

/// Returns the result of a call that never runs, whatever the policy.
fn hopeless(state: &State, policy: &Policy, open: &OpenCall) -> Option<Outcome> {
    if state.is_stopped() {
        return Some(Outcome::Interrupted {
            output: Output::default(),
            why: "the user stopped before it began".into(),
        });
    }
    if open.is_surplus() {
        return Some(Outcome::error(format!(
            "{NOT_RUN}at most {MAX_CALLS} calls of one answer are run{SEND_THE_REST}"
        )));
    }
    if open.cut {
        return Some(Outcome::error(format!(
            "{NOT_RUN}the answer was cut by the output limit inside this call{SEND_SMALLER}"
        )));
    }
    let name = &open.call.name;
    let listed = || state.layers.tools.iter().map(|t| t.name.as_str());
    if !is_offered(name, listed()) {
        let names: Vec<&str> = listed().collect();
        let hint = match tool_name::meant(name, &names) {
            Some(tool) => format!("use `{tool}`"),
            None => format!("the tools are {}", names.join(", ")),
        };
        return Some(Outcome::error(format!(
            "there is no tool named {:?}; {hint}",
            text::one_line(name, 80)
        )));
    }
    let why = match &open.call.described {
        Err(why) => Some(why.clone()),
        Ok(described) => match (&described.objection, &described.permission) {
            (Some(objection), _) => Some(objection.clone()),
            (None, Permission::Foreign { name }) => (policy.served_check)(name).err(),
            (None, _) => None,
        },
    };
    why.map(|why| Outcome::error(format!("{NOT_RUN}{why}")))
}
