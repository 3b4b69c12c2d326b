//! The hooks of a simulation: which there are, how they run under keepers, and what must hold of
//! them whatever died.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use rewake::core::entry::*;
use rewake::core::state::State;
use rewake::core::tool::ToolCall;
use rewake::world::{HookEnd, HookOccasion};

use super::fake::Outside;

/// A command with this word is denied by a hook.
pub const GUARDED: &str = "guarded";

/// Two hooks change the arguments of such a command: one to nothing else, one to `changed`.
pub const CHANGING: &str = "changing";

/// The reason of a hook whose answer is not known.
const LOST: &str = "its keeper was lost";

/// A hook under a keeper.
#[derive(Debug, Clone, Default)]
struct Run {
    boot: u64,
    claimed: bool,
    running: bool,
    ended: bool,
    /// A settling agent decided that it never starts.
    given_up: bool,
}

/// The hooks that outlive a process.
#[derive(Debug, Default)]
pub struct Hooks {
    pub are_there: bool,
    runs: BTreeMap<String, Run>,
    spawned: BTreeSet<String>,
    /// How often each hook was started.
    starts: BTreeMap<String, u32>,
    /// Hooks whose keeper went with the power, or that never started.
    lost: BTreeSet<String>,
}

impl Hooks {
    pub fn prepare(
        &mut self,
        boot: u64,
        occasion: &HookOccasion<'_>,
        state: &State,
    ) -> Vec<HookRun> {
        let calls = |name: &str| {
            let open = occasion.call.and_then(|id| state.call(id));
            open.is_some_and(|open| open.call.name == name)
        };
        let hooks: &[&str] = match occasion.event {
            _ if !self.are_there => &[],
            HookEvent::PreToolUse if calls("bash") => &["first", "second"],
            HookEvent::PreToolUse if calls("read") || calls("write") => &["first"],
            HookEvent::UserPromptSubmit | HookEvent::SessionStart => &["context"],
            HookEvent::PostToolUse if calls("write") => &["format"],
            HookEvent::Stop => &["again"],
            _ => &[],
        };
        let hooks = hooks.iter().map(|hook| {
            let run = format!("hook-{}", self.runs.len());
            let made = Run {
                boot,
                ..Run::default()
            };
            self.runs.insert(run.clone(), made);
            HookRun {
                hook: hook.to_string(),
                call: occasion.call,
                run,
                boot: boot.to_string(),
                is_of_user: false,
                may_fail: false,
                failed: None,
            }
        });
        hooks.collect()
    }

    /// Prepares a run for a check.
    pub fn prepare_check(&mut self, boot: u64) -> String {
        let run = format!("check-{}", self.runs.len());
        let made = Run {
            boot,
            ..Run::default()
        };
        self.runs.insert(run.clone(), made);
        run
    }

    pub fn is_lost(&self, run: &str) -> bool {
        self.lost.contains(run)
    }

    pub fn spawn(&mut self, run: &str) {
        self.spawned.insert(run.to_string());
    }

    /// The keeper of a run claims it, and only then starts the hook.
    pub fn keeper(&mut self, name: &str) {
        self.spawned.remove(name);
        let Some(run) = self.runs.get_mut(name) else {
            return;
        };
        if !std::mem::replace(&mut run.claimed, true) {
            run.running = true;
            *self.starts.entry(name.to_string()).or_default() += 1;
        }
    }

    pub fn keepers_come_to_life(&mut self) {
        for name in std::mem::take(&mut self.spawned) {
            self.keeper(&name);
        }
    }

    pub fn die(&mut self, power_cut: bool, late_keeper: bool) {
        match (power_cut, late_keeper) {
            (true, _) => self.spawned.clear(),
            (false, false) => self.keepers_come_to_life(),
            (false, true) => {}
        }
        for (name, run) in &mut self.runs {
            if power_cut && !run.ended {
                self.lost.insert(name.clone());
            }
            run.ended |= run.running && !power_cut;
            run.running = false;
        }
    }

    pub fn must_start(&self, name: &str, boot: u64) -> bool {
        let run = &self.runs[name];
        !run.claimed && run.boot == boot
    }

    /// Ends a hook that runs, and returns whether its answer is known.
    pub fn end(&mut self, name: &str, stop: bool) -> bool {
        let run = self.runs.get_mut(name).expect("a prepared hook");
        if !run.claimed {
            // Nobody starts it any more.
            run.claimed = true;
            run.given_up = true;
        }
        if stop && !run.ended || run.given_up {
            self.lost.insert(name.to_string());
        }
        if run.running {
            run.running = false;
            run.ended = !stop;
        }
        run.ended
    }

    /// What must hold of the hooks of a session that is at rest.
    pub fn check(&self, records: &[Record], effects: &BTreeMap<String, u32>) {
        for (run, times) in &self.starts {
            assert_eq!(*times, 1, "the hook {run} was started {times} times");
        }
        let mut about: BTreeMap<CallId, usize> = BTreeMap::new();
        let mut ended: BTreeMap<CallId, Vec<HookVerdict>> = BTreeMap::new();
        let mut pending: BTreeMap<Seq, Vec<HookRun>> = BTreeMap::new();
        for record in records {
            match &record.entry {
                Entry::Hooking { runs, .. } => {
                    for call in runs.iter().filter_map(|run| run.call) {
                        *about.entry(call).or_default() += 1;
                    }
                    pending.insert(record.seq, runs.clone());
                }
                Entry::Hooked {
                    of, call, results, ..
                } => {
                    let runs = pending[of].iter().filter(|run| run.call == *call);
                    for (run, result) in runs.zip(results) {
                        // A message whose guard was stopped is refused.
                        let failed = result.reason == LOST;
                        assert!(!failed || result.verdict >= HookVerdict::Failed);
                        // A verdict is lost only with its keeper.
                        assert_eq!(failed, self.lost.contains(&run.run), "{run:?}: {result:?}");
                        if let Some(call) = call {
                            ended.entry(*call).or_default().push(result.verdict);
                        }
                    }
                }
                Entry::Started { call, .. } => {
                    let hooks = about.get(call).copied().unwrap_or_default();
                    let verdicts = ended.get(call).map_or(&[][..], Vec::as_slice);
                    assert_eq!(
                        verdicts.len(),
                        hooks,
                        "call {call} started before its hooks"
                    );
                    let strictest = verdicts.iter().max();
                    assert!(
                        strictest <= Some(&HookVerdict::Allow),
                        "call {call} started against a hook"
                    );
                }
                _ => {}
            }
        }
        assert_eq!(
            effects.keys().filter(|name| name.contains(GUARDED)).count(),
            0
        );
    }
}

/// What a hook answers.
fn result(event: HookEvent, run: &HookRun, call: Option<&ToolCall>) -> HookResult {
    let line = call.map(|call| call.arguments.as_str()).unwrap_or_default();
    let mut result = HookResult {
        is_brief: true,
        hook: run.hook.clone(),
        exit: Some(0),
        ..HookResult::default()
    };
    match (event, run.hook.as_str()) {
        (HookEvent::PreToolUse, "second") if line.contains(GUARDED) => {
            result.verdict = HookVerdict::Deny;
            result.reason = "guarded".into();
        }
        (HookEvent::PreToolUse, "first") => result.verdict = HookVerdict::Allow,
        (HookEvent::PreToolUse, "second") if line.contains(CHANGING) => {
            result.input = Some(r#"{"command":"changed"}"#.into());
        }
        (_, "context" | "format") => result.context = Some(Output::text("of a hook")),
        _ => {}
    }
    result
}

/// Runs hooks as the machine does: those that were not claimed are started, the others are found.
pub async fn run<F: Future<Output = ()>>(
    outside: &Rc<RefCell<Outside>>,
    pass: impl Fn() -> F,
    event: HookEvent,
    runs: &[HookRun],
    call: Option<&ToolCall>,
    stop: bool,
) -> HookEnd {
    let mut end = HookEnd::default();
    for hook in runs {
        let must_start = {
            let outside = outside.borrow();
            !stop && outside.hooks.must_start(&hook.run, outside.boot())
        };
        if must_start {
            outside.borrow_mut().hooks.spawn(&hook.run);
            pass().await;
            outside.borrow_mut().hooks.keeper(&hook.run);
            pass().await;
        }
        let is_known = outside.borrow_mut().hooks.end(&hook.run, stop);
        outside.borrow_mut().hooks.keepers_come_to_life();
        pass().await;
        end.results.push(match is_known {
            true => result(event, hook, call),
            false => HookResult {
                is_brief: true,
                hook: hook.hook.clone(),
                verdict: HookVerdict::Failed,
                reason: LOST.into(),
                ..HookResult::default()
            },
        });
    }
    end
}
